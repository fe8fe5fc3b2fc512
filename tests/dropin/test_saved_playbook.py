"""A saved agent comes back with its playbook, or says what is missing."""

import subprocess
import sys
import warnings

import cloudpickle
import dspy
import pytest

from ace import Playbook, ReActGenerator
from ace.core import PlaybookError
from ace.optimization import ACE
from ace.playbook import Promote, Tag
from ace.testing import FunctionLM, decision
from ace.tools import calculator

REQUESTS = [f"What is {n} times {n + 1}?" for n in range(25)] + [f"Say how much {n} and {n} make." for n in range(25)]


def an_agent(playbook=None):
    return ReActGenerator(tools=[calculator], playbook=playbook)


def taught(path=None):
    book = Playbook(path) if path is not None else Playbook()
    book.add(
        section="Strategies", trigger="What is 6 times 7?", content="Use the calculator.", tool_sequence=("calculator",)
    )
    book.add(section="Pitfalls", trigger="How much is it together?", content="Do not guess.")
    book.add(section="Pitfalls", content="Never round.")
    book.commit([Promote(bullet_id="b-3", stage="pinned"), Tag(bullet_id="b-1", helpful=3)], author="ana")
    return book


def found(agent):
    return [[(b.id, b.content, b.helpful_count, b.stage) for b in agent.playbook.retrieve(text)] for text in REQUESTS]


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_save_and_load_bring_the_playbook_back(tmp_path, where):
    agent = an_agent(taught(tmp_path / "book.db" if where == "disk" else None))
    expected = found(agent)
    assert any(len(lessons) > 1 for lessons in expected)
    agent.save(tmp_path / "agent.json")
    agent.playbook.close()
    fresh = an_agent()
    fresh.load(tmp_path / "agent.json")
    assert found(fresh) == expected
    assert fresh.playbook.history.verify().ok
    assert fresh.playbook.add(section="Pitfalls", content="Ask.").id == "b-4", "no id is given twice"


def test_a_whole_program_comes_back_in_a_new_process(tmp_path):
    agent = an_agent(taught())
    expected = found(agent)
    agent.save(tmp_path / "program", save_program=True)
    copy = cloudpickle.loads(cloudpickle.dumps(agent))
    assert found(copy) == expected
    script = f"""
import sys, dspy
sys.path.insert(0, {str(__import__("pathlib").Path(__file__).parent)!r})
from test_saved_playbook import found
print(found(dspy.load({str(tmp_path / "program")!r}, allow_pickle=True)))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == str(expected)


def test_what_an_optimizer_learned_is_saved(tmp_path):
    lm = FunctionLM(
        "t/f", lambda p: decision("submit", answer="42") if p.steps else decision("calculator", expression="42")
    )
    examples = [dspy.Example(task=text).with_inputs("task") for text in REQUESTS[:3]]
    with dspy.context(lm=lm):
        made = ACE(lambda *_: True, progress=False).compile(ReActGenerator(tools=[calculator]), trainset=examples)
    made.save(tmp_path / "made.json")
    fresh = an_agent()
    fresh.load(tmp_path / "made.json")
    assert found(fresh) == found(made)
    assert fresh.playbook.bullets


def test_a_book_that_is_missing_or_another_one_is_named(tmp_path):
    agent = an_agent(taught(tmp_path / "book.db"))
    agent.save(tmp_path / "agent.json")
    agent.playbook.close()
    moved = (tmp_path / "book.db").rename(tmp_path / "elsewhere.db")
    fresh = an_agent()
    with pytest.warns(UserWarning, match=r"loaded without: there is no playbook .*book.db.*agent.playbook = Playbook"):
        fresh.load(tmp_path / "agent.json")
    assert fresh.playbook is None
    with Playbook(tmp_path / "book.db") as other:
        other.add(section="Pitfalls", content="Something else.")
    with pytest.warns(UserWarning, match="is not the one that was saved"):
        fresh.load(tmp_path / "agent.json")
    own = Playbook(moved)
    kept = an_agent(own)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept.load(tmp_path / "agent.json")
    assert kept.playbook is own, "an agent's own book on disk stays"


def test_lessons_of_its_own_are_not_replaced_and_what_is_no_playbook_is_named(tmp_path):
    an_agent(taught()).save(tmp_path / "agent.json")
    own = Playbook()
    own.add(section="Pitfalls", content="My own lesson.")
    agent = an_agent(own)
    agent.load(tmp_path / "agent.json")
    assert agent.playbook is own
    for broken in ({}, {"lessons": 3}, {"lessons": [{"content": "x"}]}):
        with pytest.raises(PlaybookError, match="this is no saved playbook"):
            Playbook.load_state(broken)


def test_a_path_is_enough(tmp_path):
    with Playbook(tmp_path / "b.db") as book:
        book.add(section="Pitfalls", content="Ask first.")
    with Playbook(str(tmp_path / "b.db")) as book:
        assert len(book) == 1
    with pytest.raises(PlaybookError, match="is a folder; name a file in it"):
        Playbook(tmp_path)
