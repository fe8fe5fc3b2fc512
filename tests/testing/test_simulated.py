import re
import tomllib

import pytest
from conftest import needs_workbench

from ace.core import SuiteError
from ace.evaluation.arms import gold_bullet
from ace.evaluation.report.summary import closed, summarise
from ace.evaluation.runner import evaluate
from ace.playbook import PlaybookBullet
from ace.testing import SimulatedLM
from ace.testing.rates import RATES_FILE, load_rates
from ace.testing.simulated import bullets_in_prompt


def attempts(suite, lm, arm="none", tasks=None, **options):
    return list(evaluate(suite, lambda seed: lm, tasks=tasks, arms=(arm,), **options))


def test_the_oracle_solves_all_of_office(office):
    assert all(a.feedback.success for a in attempts(office, SimulatedLM(office, "oracle")))


@needs_workbench
def test_the_oracle_solves_a_tenth_of_workbench(workbench):
    """The short form; `make verify ONLY=oracle-workbench` runs all 690."""
    assert all(
        a.feedback.success for a in attempts(workbench, SimulatedLM(workbench, "oracle"), tasks=workbench.tasks[::10])
    )


@needs_workbench
@pytest.mark.full
@pytest.mark.timeout(1_800)
def test_the_oracle_solves_all_of_workbench(workbench):
    assert all(a.feedback.success for a in attempts(workbench, SimulatedLM(workbench, "oracle")))


def test_it_picks_only_what_the_prompt_offers(office):
    task = office.tasks[0]
    lm = SimulatedLM(office, "oracle")
    from ace import ReActGenerator
    from ace.tools import ToolRegistry

    episode = office.episode(task)
    few = ToolRegistry([t for t in episode.registry if t.name != task.gold[-1].name])
    output = ReActGenerator(tools=few, lm=lm).run(episode.task)
    assert {s.tool_name for s in output.structured_trace} == {c.name for c in task.gold[:-1]}


def test_the_same_seed_and_task_draw_the_same_numbers_in_every_arm(office):
    tasks = office.tasks[::4]

    def rows(seed):
        made = attempts(office, SimulatedLM(office, seed=seed), tasks=tasks)
        return [attempt.report().model_copy(update={"seconds": 0.0}) for attempt in made]

    first, again, other = rows(3), rows(3), rows(4)
    assert first == again != other
    same = load_rates()
    same = dict.fromkeys(same, same["with_bullet"])
    lm = SimulatedLM(office, seed=3, rates=same)
    none, gold = (attempts(office, lm, arm, tasks) for arm in ("none", "gold"))
    assert [a.output.usage.iterations for a in none] == [a.output.usage.iterations for a in gold]


def test_without_errors_every_run_is_right(office):
    rates = load_rates(0.0)
    assert all(a.feedback.success for a in attempts(office, SimulatedLM(office, rates=rates), tasks=office.tasks[::4]))


def test_gold_bullets_help_and_irrelevant_ones_do_not(office):
    lm = SimulatedLM(office)
    rows = [a.report() for a in evaluate(office, lambda seed: lm, tasks=office.tasks[::2], arms=("none", "gold"))]
    arms = summarise(rows)
    assert arms["gold"].iterations_interval[1] < arms["none"].iterations_interval[0]
    assert arms["gold"].success > arms["none"].success
    assert closed(arms)["gold"] == {"iterations": 1.0, "success": 1.0}


def test_a_misleading_bullet_misleads(office):
    task = next(t for t in office.tasks if t.group == "cancel-order")
    wrong = PlaybookBullet(
        id="b-1", section="Strategies", trigger=task.task.text, content="x", tool_sequence=("archive_mail",),
        changing_tools=("archive_mail",),
    )  # fmt: skip
    lm = SimulatedLM(office)
    from ace.playbook.render import render_bullets

    assert lm._condition(task, bullets_in_prompt(render_bullets([wrong])))[0] == "misled"
    assert (
        lm._condition(task, bullets_in_prompt(render_bullets([wrong, gold_bullet(office, task)])))[0] == "with_bullet"
    )
    far = wrong.model_copy(update={"trigger": "zebra"})
    assert lm._condition(task, bullets_in_prompt(render_bullets([far])))[0] == "without_bullet"


def test_a_lesson_that_makes_a_call_for_each_item_fits_any_number(office):
    lm, task = SimulatedLM(office), next(t for t in office.tasks if t.group == "cancel-order")
    name = next(call.name for call in task.gold if call.name in office.writing_tools)
    twice = task.model_copy(update={"gold": (*task.gold, *(call for call in task.gold if call.name == name))})
    line = f"[b-1] (Strategies) {{}}{name}(id from find.id), then submit(...) Tools: find -> {name}"
    for said, condition in (("for each id from find.id: ", "with_bullet"), ("", "without_bullet")):
        assert lm._condition(twice, bullets_in_prompt(line.format(said)))[0] == condition
        assert lm._condition(task, bullets_in_prompt(line.format(said)))[0] == "with_bullet"


def test_an_unknown_preset_or_task_is_refused(office):
    with pytest.raises(SuiteError, match="oracle"):
        SimulatedLM(office, "genius")
    from ace import ReActGenerator
    from ace.tools import calculator

    output = ReActGenerator(tools=[calculator], lm=SimulatedLM(office)).run("What is this?")
    assert "tasks of 'office' only" in output.error.message


def test_what_it_produces_is_labelled(office):
    assert SimulatedLM(office).label == "simulated"


def test_the_rates_name_their_source_counts_and_intervals():
    table = tomllib.loads(RATES_FILE.read_text(encoding="utf-8"))
    for condition, rows in table.items():
        assert re.match(r"gpt|llama", rows.pop("run")), condition
        assert rows.pop("runs") > 100
        for rate in rows.values():
            assert rate["rate"] == pytest.approx(rate["count"] / rate["of"], abs=1e-4)
            assert rate["interval"][0] <= rate["rate"] <= rate["interval"][1]
