"""STATE-Bench's folders: what is learned from conversations, and what the end of a task demands."""

import importlib.util
import json
import sys

import pytest
from ace_suites.state_bench import demands, learn, messages, opening, read_domain, runs_of, writes
from conftest import ROOT

from ace.core import SuiteError
from ace.playbook import Playbook


def talk(request, *names, **arguments):
    """A conversation that looks something up and then makes some calls."""
    calls = [{"name": "get_order", "arguments": {"order_id": "o-1"}, "result": {"order_id": "o-1", "status": "open"}}]
    calls += [{"name": name, "arguments": {"order_id": "o-1", **arguments}, "result": {"done": True}} for name in names]
    return [
        {"role": "system", "content": "Help the customer."},
        {"role": "user", "content": request},
        {"role": "assistant", "content": "Done.", "tool_calls": calls},
        {"role": "user", "content": "[TASK_DONE]"},
    ]


def wants(kind, field, value, record="R-1"):
    return {"entity_type": kind, "record_key": record, "field": field, "expected_value": value}


@pytest.fixture
def folder(tmp_path):
    """Two ways to end an order, learned from four conversations, and two tasks to be tested on."""
    tasks = {
        "a": (talk("Cancel order o-1, please", "cancel_order"), [wants("orders", "status", "cancelled")]),
        "b": (talk("Cancel the order o-1", "cancel_order"), [wants("orders", "status", "cancelled")]),
        "c": (
            talk("Send order o-1 back", "return_item", "refund"),
            [wants("orders", "status", "returned"), wants("items", "amount", 7)],
        ),
        "d": (talk("Return o-1", "return_item"), [wants("orders", "status", "returned")]),
        "x": (
            None,
            [wants("orders", "status", "returned"), wants("items", "amount", 12), wants("orders", "note", "a word")],
        ),
        "y": (None, [wants("orders", "status", "cancelled")]),
        "z": (None, []),
    }
    for part in ("tasks", "train"):
        (tmp_path / part).mkdir()
    for name, (conversation, required) in tasks.items():
        task = {"task_id": name, "opening_message": f"Task {name}", "state_requirements": required}
        (tmp_path / "tasks" / f"{name}.json").write_text(json.dumps(task), encoding="utf-8")
        if conversation:
            (tmp_path / "train" / f"{name}.json").write_text(
                json.dumps({"conversation": conversation}), encoding="utf-8"
            )
    splits = {"splits": {"train": ["a", "b", "c", "d"], "test": ["x", "y", "z"]}}
    (tmp_path / "split.json").write_text(json.dumps(splits), encoding="utf-8")
    return tmp_path


def test_a_test_task_demands_the_fewest_tools_that_write_what_it_asks_for(folder):
    assert read_domain(folder).demanded() == {"x": {"return_item"}, "y": {"cancel_order"}}


def test_a_new_record_demands_its_fields():
    found = demands(
        {"state_requirements": [{"entity_type": "orders", "match_fields": {}, "expected_fields": {"n": 1, "s": "x"}}]}
    )
    assert found == {("orders", True, "n", ""), ("orders", True, "s", "x")}


def test_a_conversation_is_read_as_messages(folder):
    conversation = read_domain(folder).train["c"]
    assert (opening(conversation), writes(conversation)) == ("Send order o-1 back", {"return_item", "refund"})
    found = messages(conversation)
    assert [message["role"] for message in found] == ["system", "user", *["assistant", "tool"] * 3, "assistant"]
    assert "TASK_DONE" not in json.dumps(found)


def test_a_playbook_learns_from_them(folder):
    with Playbook() as book:
        learn(book, *runs_of(read_domain(folder).train.values()))
        assert any("cancel_order" in bullet.tool_sequence for bullet in book.bullets)
        assert "o-1" not in " ".join(bullet.content for bullet in book.bullets)


def test_a_folder_that_is_no_domain_is_named(tmp_path):
    with pytest.raises(SuiteError, match=r"is no domain of STATE-Bench: .*split\.json"):
        read_domain(tmp_path)


def example():
    spec = importlib.util.spec_from_file_location("state_bench_agent", ROOT / "examples" / "state_bench_agent.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_learns_a_book_and_its_agent_looks_lessons_up(folder, tmp_path_factory, monkeypatch, capsys):
    checkout = tmp_path_factory.mktemp("checkout")
    place = checkout / "datasets" / "train_task_trajectories" / "shop"
    place.parent.mkdir(parents=True)
    (folder / "train").rename(place)
    agent = example()
    assert agent.main([str(checkout), "--domain", "shop", "--learn-only"]) == 0
    assert "lessons in" in capsys.readouterr().out
    monkeypatch.setenv(agent.PLAYBOOK, str(checkout / "outputs" / "ace-shop.db"))
    found = agent.AcePlaybookAgent().retrieve_learnings("Please cancel my order o-9", top_k=3)
    assert 0 < len(found) <= 3
    assert all(isinstance(text, str) for text in found)
    assert "cancel_order" in found[0]
    with pytest.raises(SystemExit):
        agent.main([str(checkout), "--domain", "nowhere"])
    assert "there is no folder" in capsys.readouterr().err
