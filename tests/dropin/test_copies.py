"""Copies of an agent share what they must; a pickle carries it, and holds no lock, thread or handle."""

import asyncio
import copy

import cloudpickle
import dspy
import pytest
import sqlalchemy as sa
from loopback import openai_server

from ace import Playbook, ReActGenerator
from ace.playbook import CallableEmbedder
from ace.testing import FunctionLM, decision
from ace.tools import Tool, calculator, from_json_schema, tool


def toy(texts):
    return [[float(len(text)), 1.0] for text in texts]


@tool(read_only=True)
def twice(n: int) -> int:
    """Twice."""
    return 2 * n


def answer(prompt):
    return decision("finish", answer="42") if prompt.steps else decision("twice", n=21)


@pytest.fixture(autouse=True)
def model():
    with dspy.context(lm=FunctionLM("t/42", answer)):
        yield


def agent(book):
    schema = {"type": "object", "properties": {"key": {"type": "string"}}}
    spec = from_json_schema("look_up", "Look up.", schema, str)
    return ReActGenerator(tools=[calculator, twice, spec], playbook=book, policy="lenient")


def taught(book):
    it = agent(book)
    it.learn(it(task="What is 21 times 2?"), True)
    assert len(book) == 1
    return it


def test_a_copy_shares_the_book():
    book = Playbook(embedder=CallableEmbedder("toy", toy))
    it = taught(book)
    for copied in (copy.copy(it), copy.deepcopy(it), it.deepcopy(), it.reset_copy()):
        assert copied.playbook is book
        assert copied(task="What is 21 times 2?").answer == "42"
        assert copied.run_store is it.run_store


def test_a_pickle_carries_the_lessons_of_a_book_in_memory():
    it = taught(Playbook(embedder=CallableEmbedder("toy", toy)))
    other = cloudpickle.loads(cloudpickle.dumps(it))
    assert [bullet.content for bullet in other.playbook.bullets] == [bullet.content for bullet in it.playbook.bullets]
    assert other.playbook is not it.playbook
    assert other(task="What is 21 times 2?").memory.status == "used"


def test_a_pickle_opens_a_book_on_disk_by_its_path(tmp_path):
    with Playbook.open(tmp_path / "shop.db", embedder=CallableEmbedder("toy", toy)) as book:
        other = cloudpickle.loads(cloudpickle.dumps(taught(book)))
        book.add(section="Strategies", content="Ask first.")
        other.playbook.refresh()
        assert len(other.playbook) == 2
        other.playbook.close()


def test_a_program_is_saved_whole_and_loaded(tmp_path):
    it = taught(Playbook(embedder=CallableEmbedder("toy", toy)))
    it.save(tmp_path / "program", save_program=True)
    loaded = dspy.load(tmp_path / "program", allow_pickle=True)
    assert loaded(task="What is 21 times 2?").answer == "42"
    assert (len(loaded.playbook), loaded.policy.name) == (1, "lenient")


def test_a_tool_is_made_again_in_another_process():
    again = cloudpickle.loads(cloudpickle.dumps(twice))
    assert (again.name, again.read_only, again.schema, again(4)) == ("twice", True, twice.schema, 8)
    bound = cloudpickle.loads(cloudpickle.dumps(twice.bind(lambda n: 3 * n)))
    assert (bound(4), bound.schema_hash) == (12, twice.schema_hash)
    by_hand = Tool(name="x", description="x", func=str, arguments=twice.arguments)
    with pytest.raises(TypeError, match="from_function"):
        cloudpickle.dumps(by_hand)


def test_parallel_runs_with_threads():
    it = agent(None)
    tasks = [dspy.Example(task=str(n)).with_inputs("task") for n in range(8)]
    results = dspy.Parallel(num_threads=4, disable_progress_bar=True)([(it, task) for task in tasks])
    assert [result.answer for result in results] == ["42"] * 8


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_answers_tokens_come_while_they_are_written(mode):
    replies = iter(
        [decision("twice", "twice it", n=21), decision("finish", "so", answer="The answer is 42, as it should be.")]
    )
    with openai_server(lambda prompt: next(replies)) as (url, _):
        lm = dspy.LM("openai/m", api_base=url, api_key="none", cache=False, num_retries=0)
        with dspy.context(lm=lm):
            agent = ReActGenerator(tools=[twice])
            program = dspy.streamify(
                agent,
                # no predictor has an output of this name, as in plain ReActV2: the call that ends the run holds it
                stream_listeners=[dspy.streaming.StreamListener("answer", predict=agent.agent.react)],
                is_async_program=mode == "async",
                status_message_provider=Told(),
            )

            async def read():
                return [item async for item in program(task="x")]

            items = asyncio.run(read())
    pieces = [item.chunk for item in items if isinstance(item, dspy.streaming.StreamResponse)]
    assert "".join(pieces) == "The answer is 42, as it should be."
    assert len(pieces) > 3
    assert items[-1].answer == "The answer is 42, as it should be."
    assert [item.message for item in items if isinstance(item, dspy.streaming.StatusMessage)] == ["twice begins"]


class Told(dspy.streaming.StatusMessageProvider):
    def tool_start_status_message(self, instance, inputs):
        return f"{instance.name} begins"

    def tool_end_status_message(self, outputs):
        return None


def refuse_all(lesson, known):
    return "everything waits"


def test_a_pickled_book_keeps_its_rules(tmp_path):
    path = tmp_path / "shop.db"
    with Playbook.open(path, embedder=CallableEmbedder("toy", toy), promote_after=3, screen=refuse_all) as book:
        copied = cloudpickle.loads(cloudpickle.dumps(book))
        assert copied._options == book._options
        with copied:
            it = agent(copied)
            it.learn(it(task="What is 21 times 2?"), True)
            assert copied.retrieve("What is 21 times 2?") == []


def test_a_pickle_holds_no_password(monkeypatch):
    book = Playbook(embedder=CallableEmbedder("toy", toy))
    monkeypatch.setattr(type(book._state.store), "server_url", "postgresql+psycopg://ana:secret@localhost/book")
    monkeypatch.setattr(book._state.store, "engine", sa.create_engine("postgresql+psycopg://ana:secret@localhost/book"))
    _, (state, *_) = book.__reduce__()
    assert "secret" not in state["path"]
    assert "ana@localhost" in state["path"]
