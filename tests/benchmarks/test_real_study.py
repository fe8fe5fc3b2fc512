"""`benchmarks/real/study.py`: record in parts, replay to the same table, turn red at a changed prompt (simulated)."""

import json
import shutil

import pytest
from chat_llama import served

from ace.suites.office import OfficeSuite
from ace.testing import decision
from benchmarks.real import study
from benchmarks.real.recording import Recording

SUITE = OfficeSuite()
GOLD = {task.task.text: [(call.name, call.args) for call in task.gold] for task in SUITE.tasks}
TRAINED = {task.task.text for task in SUITE.tasks if task.id.endswith(("#0", "#1"))}
CHOSEN = ["--families", "label,relocate", "--arms", "none,demonstrations,unseen,exprag,taught"]


class Learner:
    """Solves training tasks, and others where the prompt holds something remembered."""

    def __init__(self):
        self.asked = 0

    def __call__(self, messages):
        self.asked += 1
        asked = next(message["content"] for message in messages if message["role"] == "user")
        text = asked.partition("[[ ## task ## ]]\n")[2].partition("\n\n")[0].strip()
        plan = GOLD[text] if text in TRAINED or "[[ ## playbook ## ]]" in asked else []
        done = sum(message["role"] == "assistant" for message in messages)
        name, args = plan[done] if done < len(plan) else ("submit", {"answer": "Done."})
        return decision(name, **args)


def made(capsys, *arguments):
    """The exit code, and what was said."""
    code = study.main([str(argument) for argument in arguments])
    return code, " ".join(capsys.readouterr().err.split())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A recording that was made in two parts, its figures, and how often the model was asked."""
    folder, model = tmp_path_factory.mktemp("real"), Learner()
    path, out = folder / "r.jsonl.gz", folder / "out.json"
    with served(model) as (url, _):
        assert study.main([str(path), *CHOSEN, "--server", url, "--arms", "none"]) == 0
        first = model.asked
        assert study.main([str(path), *CHOSEN, "--server", url, "--json", str(out)]) == 0
    return path, json.loads(out.read_text(encoding="utf-8")), first, model.asked


def test_what_is_remembered_helps_and_what_was_recorded_is_not_asked_again(recorded):
    path, found, first, _ = recorded
    solved = {arm: (row["solved"], row["tasks"]) for arm, row in found["arms"].items()}
    assert solved["none"] == (0, 4)
    assert solved["exprag"] == (4, 4)
    for arm in ("demonstrations", "taught"):
        assert solved[arm] == (3, 4), "one of the requests finds no lesson"
        assert found["arms"][arm]["requests"] > found["arms"]["none"]["requests"] > 0
    assert solved["train"] == (4, 4), "what was solved is not tried again"
    assert found["beyond"]["demonstrations"]["none"]["points"] == 75
    assert (found["changed"], found["missing"]) == (0, 0)
    names = list(Recording(path).runs)
    assert names[:4] == ["none/label#3", "none/label#4", "none/relocate#3", "none/relocate#4"]
    assert first == 4


def test_a_replay_gives_the_same_figures_without_a_model(recorded, tmp_path, capsys):
    code, _ = made(capsys, recorded[0], *CHOSEN, "--replay", "--json", tmp_path / "again.json")
    assert code == 0
    assert json.loads((tmp_path / "again.json").read_text(encoding="utf-8")) == recorded[1]


def test_a_changed_byte_in_a_prompt_is_told_and_where_a_model_is_the_run_is_made_again(
    recorded, monkeypatch, tmp_path, capsys
):
    path, model, chosen = shutil.copy(recorded[0], tmp_path), Learner(), ["--families", "label", "--arms", "none"]
    monkeypatch.setattr(OfficeSuite, "instructions", OfficeSuite.instructions + " ")
    code, said = made(capsys, path, *CHOSEN, "--replay")
    assert code == 1
    assert "run 'none/label#3': request 1 is not in the recording" in said
    with served(model) as (url, _):
        assert made(capsys, path, *chosen, "--server", url)[0] == 0
        asked = model.asked
        assert made(capsys, path, *chosen, "--server", url)[0] == 0
    assert asked == model.asked == 2, "each run once"
    assert made(capsys, path, *chosen, "--replay")[0] == 0


def test_a_part_begins_no_run_after_its_time(tmp_path, capsys):
    model = Learner()
    with served(model) as (url, _):
        code, said = made(capsys, tmp_path / "r.jsonl", *CHOSEN, "--server", url, "--minutes", 0)
    assert (code, model.asked) == (1, 0)
    assert "holds none of these runs" in said


def test_what_it_taught_itself_replays_alone(recorded, capsys):
    code, said = made(capsys, recorded[0], "--families", "label,relocate", "--arms", "taught", "--replay")
    assert code == 0
    assert "taught │ 3 of 4" in said
