import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import dspy
import pytest
from loopback import openai_server

from ace.core import AceError
from ace.optimization.journal import CompletionJournal, JournaledLM
from ace.testing import FunctionLM
from ace.testing.engine import render_reply


def counting():
    numbers = itertools.count(1)
    return FunctionLM("test/counting", lambda prompt: render_reply(answer=f"answer {next(numbers)}"))


def ask(lm, *questions):
    with dspy.context(lm=lm):
        return [dspy.Predict("question -> answer")(question=q).answer for q in questions]


def test_what_was_paid_for_is_replayed(tmp_path):
    questions = ("one", "two", "one")
    journal = CompletionJournal(tmp_path / "j.jsonl")
    first = ask(JournaledLM(counting(), journal), *questions)
    assert first == ["answer 1", "answer 2", "answer 1"], "the same request is one request"
    spent = journal.tokens
    journal.close()
    again = CompletionJournal(tmp_path / "j.jsonl")
    assert again.tokens == spent != (0, 0)
    assert ask(JournaledLM(counting(), again), *questions, "three") == [*first, "answer 1"]
    assert (again.replayed, again.bought) == (2, 1)


def test_another_rollout_is_another_request(tmp_path):
    for _ in range(2):
        lm = JournaledLM(counting(), CompletionJournal(tmp_path / "j.jsonl"))
        copies = [lm.copy(rollout_id=number, temperature=1.0) for number in (1, 2, 1)]
        assert [ask(copy, "one") for copy in copies] == [["answer 1"], ["answer 2"], ["answer 1"]]
        with dspy.context(lm=lm):
            say = dspy.Predict("question -> answer")
            config = {"rollout_id": 2, "temperature": 1.0}
            assert say(question="one", config=config).answer == "answer 2"


def test_threads_that_ask_the_same_ask_once(tmp_path):
    journal, asked = CompletionJournal(tmp_path / "j.jsonl"), []

    def slow():
        asked.append(1)
        time.sleep(0.1)
        return 42

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: journal.answer("q", slow), range(8)))
    assert (answers, len(asked), journal.bought) == ([42] * 8, 1, 1)


def test_a_torn_line_is_bought_again_and_damage_is_an_error(tmp_path, caplog):
    journal = CompletionJournal(tmp_path / "j.jsonl")
    ask(JournaledLM(counting(), journal), "one", "two")
    whole = (tmp_path / "j.jsonl").read_bytes()
    (tmp_path / "j.jsonl").write_bytes(whole[:-5])
    again = CompletionJournal(tmp_path / "j.jsonl")
    ask(JournaledLM(counting(), again), "one", "two")
    assert (again.replayed, again.bought) == (1, 1)
    assert "torn" in caplog.text
    (tmp_path / "j.jsonl").write_bytes(b"oops\n" + whole)
    with pytest.raises(AceError, match="line 1"):
        CompletionJournal(tmp_path / "j.jsonl")


def test_an_error_is_no_completion(tmp_path):
    def broken(prompt):
        raise RuntimeError("down")

    journal = CompletionJournal(tmp_path / "j.jsonl")
    with pytest.raises(Exception, match="down"):
        ask(JournaledLM(FunctionLM("test/broken", broken), journal), "one")
    assert (journal.bought, (tmp_path / "j.jsonl").read_text()) == (0, "")


@pytest.mark.anyio
async def test_async_callers_get_the_same(tmp_path):
    lm = JournaledLM(counting(), CompletionJournal(tmp_path / "j.jsonl"))
    with dspy.context(lm=lm):
        assert (await dspy.Predict("question -> answer").acall(question="one")).answer == "answer 1"
    lm = JournaledLM(counting(), CompletionJournal(tmp_path / "j.jsonl"))
    assert ask(lm, "one") == ["answer 1"]


def test_a_request_is_counted_once_whether_it_is_bought_or_replayed(tmp_path):
    for _ in range(2):
        lm = JournaledLM(counting(), CompletionJournal(tmp_path / "j.jsonl"))
        with dspy.track_usage() as usage:
            ask(lm, "one")
        assert [len(entries) for entries in usage.usage_data.values()] == [1]


def test_a_real_server_is_asked_once(tmp_path):
    with openai_server() as (url, requests):
        for _ in range(2):
            lm = dspy.LM("openai/test", api_base=url, api_key="none", cache=False)
            lm = JournaledLM(lm, CompletionJournal(tmp_path / "j.jsonl"))
            answers = lm("Say hello")
        assert answers
        assert len(requests) == 1
