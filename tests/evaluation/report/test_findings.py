"""Where an arm helps and hurts, on rows made by hand, and the same as Markdown."""

from types import SimpleNamespace

import pytest

from ace.evaluation.report import findings
from ace.evaluation.report.build import build_report
from ace.evaluation.report.markdown import markdown
from ace.evaluation.report.models import EvaluateReport
from ace.evaluation.report.summary import by_domain, comparisons, summarise
from ace.evaluation.report.verdict import verdict
from ace.evaluation.row import RunReport


def row(arm, task, seed, correct, iterations=5, bullets=(), learned_from=0):
    return RunReport(
        id=task,
        arm=arm,
        seed=seed,
        domain="shop",
        group=task.split("#")[0],
        correct=correct,
        iterations=iterations,
        lm_calls=iterations,
        termination="completed",
        state_sha256="",
        tables_sha256={},
        invalid_actions=0,
        bullets=list(bullets),
        learned_from=learned_from,
    )


TASKS = [f"{family}#{number}" for family in ("refund", "cancel", "ship") for number in range(4)]


@pytest.fixture
def rows():
    """`refund` is helped by b-1, `ship` is hurt by b-2, `cancel` is left alone."""
    none = [row("none", task, seed, task.startswith("ship")) for task in TASKS for seed in (0, 1)]
    found = {"refund": ["b-1"], "ship": ["b-2"], "cancel": []}
    mine = [
        row("mine", task, seed, task.startswith("refund"), 9, found[task.split("#")[0]], learned_from=place)
        for seed in (0, 1)
        for place, task in enumerate(TASKS)
    ]
    return [*none, *mine]


def test_families_are_told_from_the_best_to_the_worst(rows):
    found = findings.families(findings.pairs_of(rows, "none", "mine"))
    assert [(effect.group, effect.difference) for effect in found] == [("refund", 1.0), ("cancel", 0.0), ("ship", -1.0)]
    assert {(effect.n, effect.iterations) for effect in found} == {(8, 4.0)}


def test_bullets_that_helped_and_hurt_are_told_by_name(rows):
    found = findings.bullets(findings.pairs_of(rows, "none", "mine"))
    assert [(effect.bullet, effect.n, effect.difference) for effect in found] == [("b-1", 8, 1.0), ("b-2", 8, -1.0)]
    apart = findings.bullets(findings.pairs_of(rows, "none", "mine"), by_seed=True)
    assert apart == [], "four runs each: too few to speak of"


def test_every_task_is_won_lost_or_equal_and_names_a_seed_to_look_at(rows):
    found = findings.tasks(findings.pairs_of(rows, "none", "mine"))
    assert [row.outcome for row in found] == sorted((row.outcome for row in found), key=findings.OUTCOMES.index)
    assert {row.id for row in found} == set(TASKS)
    lost = [row for row in found if row.outcome == "lost"]
    assert [(r.id, r.lost, r.gained, r.n, r.seed) for r in lost] == [(f"ship#{n}", 2, 0, 2, 0) for n in range(4)]
    assert lost[0].bullets == ["b-2"]


@pytest.mark.parametrize(
    ("solved", "start"),
    [
        (lambda arm, n: arm == "mine", "mine helped (simulated): it solved 100 % of runs where none solved 0 %"),
        (lambda arm, n: arm == "none", "mine hurt (simulated)"),
        (lambda arm, n: n % 2, "mine and none do not differ here (simulated)"),
        (
            lambda arm, n: n % 2 if arm == "mine" else n < 4,
            "It was not shown that mine helps more than none (simulated)",
        ),
    ],
)
def test_the_first_sentence_says_whether_it_helped_and_how_sure_that_is(solved, start):
    rows = [row(arm, f"x{n}#0", 0, bool(solved(arm, n))) for arm in ("none", "mine") for n in range(8)]
    rows = [r.model_copy(update={"group": r.id}) for r in rows]
    pairs = findings.pairs_of(rows, "none", "mine")
    sentence = verdict(comparisons(rows), pairs, "simulated")
    assert sentence.startswith(start)
    assert "on 8 tasks of 8 families" in sentence
    more = [*rows, *(row("mine", f"y{n}#0", 0, False) for n in range(9))]  # an evaluation that was stopped
    assert verdict(comparisons(more), findings.pairs_of(more, "none", "mine"), "simulated") == sentence
    few = [r for r in rows if r.id < "x3"]
    pairs = findings.pairs_of(few, "none", "mine")
    unsure = verdict(comparisons(few), pairs)
    assert "(exact sign test over tasks within these 3 families: p = " in unsure or "do not differ" in unsure
    assert " to " not in unsure.partition("A run took")[0].replace("to tell", "").replace("to show", ""), "no interval"


@pytest.mark.parametrize(
    ("solved", "said"),
    [
        (1, "both solved all, on 8 tasks of 2 families; harder ones"),
        (0, "neither solved a run, on 8 tasks of 2 families"),
    ],
)
def test_arms_without_a_difference_are_told_apart_from_unknown_ones(solved, said):
    rows = [row(arm, f"x{n % 2}#{n}", 0, bool(solved)) for arm in ("none", "mine") for n in range(8)]
    sentence = verdict(comparisons(rows), findings.pairs_of(rows, "none", "mine"))
    assert sentence.startswith("mine and none do not differ here: " + said)


def test_few_families_are_named_where_they_are_why_nothing_was_shown():
    rows = [row(arm, f"x{n % 4}#{n}", 0, arm == "mine") for arm in ("none", "mine") for n in range(8)]
    sentence = verdict(comparisons(rows), findings.pairs_of(rows, "none", "mine"))
    assert sentence.startswith(
        "It was not shown that mine helps more than none: it solved 100 % of runs where none solved 0 %"
    )
    assert "on 8 tasks of 4 families, where 6 families are needed to show a difference" in sentence


def told(arms, rows):
    suite = SimpleNamespace(name="shop", tasks=[SimpleNamespace(id=task) for task in dict.fromkeys(r.id for r in rows)])
    choice = SimpleNamespace(name="m", label="", policy=SimpleNamespace(name="lenient"))
    return build_report(suite, choice, arms, rows, learns=False).verdicts


def test_the_first_sentence_says_what_a_run_cost():
    rows = [
        row(arm, f"x{n}#0", 0, arm == "mine", 5 - 2 * (arm == "mine")) for arm in ("none", "mine") for n in range(8)
    ]
    assert told(["none", "mine"], rows)[0].endswith("; a run took 2.0 fewer iterations.")
    paid = [
        r.model_copy(
            update={"input_tokens": 900, "output_tokens": 100, "cost": 0.02}
            if r.arm == "none"
            else {"input_tokens": 2_300, "output_tokens": 50, "cost": 0.0125, "memory_tokens": 40}
        )
        for r in rows
    ]
    cost = "40 more tokens of memory, 1,350 more tokens in all, 0.0075 US$ less and 2.0 fewer iterations."
    assert told(["none", "mine"], paid)[0].endswith(f"; a run took {cost}")
    unpriced = [r.model_copy(update={"cost": 0.0}) if r.arm == "none" else r for r in paid]
    assert "US$" not in told(["none", "mine"], unpriced)[0], "no price is known, so no difference is"


@pytest.mark.parametrize("helps", [True, False])
def test_the_first_sentence_is_about_the_memory_whichever_arm_is_first(helps):
    rows = [
        row(arm, f"x{n}#0", 0, (arm == "mine") == helps, 5 + (arm == "mine"))
        for arm in ("none", "mine")
        for n in range(8)
    ]
    rows = [r.model_copy(update={"memory_tokens": 30 * (r.arm == "mine")}) for r in rows]
    assert told(["mine", "none"], rows) == told(["none", "mine"], rows)
    assert told(["mine", "none"], rows)[0].startswith("mine helped" if helps else "mine hurt")
    few = [r for r in rows if r.id < "x3"]
    assert told(["mine", "none"], few) == told(["none", "mine"], few)


def test_the_first_sentence_says_where_there_is_nothing_to_compare_with():
    alone = [row("mine", "x#0", 0, True)]
    assert told(["mine"], alone) == ["Nothing to compare with: the only arm is mine."]
    (sentence,) = told(["none", "mine"], [row("none", "y#0", 0, True), *alone])
    assert sentence.startswith("Nothing to compare with: the arms none and mine have no run")
    assert told(["none", "mine"], alone) == [sentence], "the other arm was not begun"


def test_runs_of_one_iteration_are_no_successes():
    rows = [row(arm, f"x{n}#0", 0, arm == "mine", 1) for arm in ("none", "mine") for n in range(8)]
    success, iterations = comparisons(rows)
    assert success.rule.startswith("right or wrong")
    assert (iterations.rule.partition(":")[0], iterations.interval) == ("all differences are alike", (None, None))
    assert (iterations.gained, iterations.lost, iterations.mcnemar) == (0, 0, None)


def test_a_curve_is_drawn_for_arms_that_learn(rows):
    assert findings.curve(rows, "none") == []
    points = findings.curve(rows, "mine", points=3)
    assert [(point.learned_from, point.success) for point in points] == [(1.5, 1.0), (5.5, 0.0), (9.5, 0.0)]


def test_runs_that_one_arm_lacks_are_left_out(rows):
    assert len(findings.pairs_of(rows[:-3], "none", "mine")) == len(TASKS) * 2 - 3


def test_markdown_holds_every_table_and_the_label(rows):
    pairs = findings.pairs_of(rows, "none", "mine")
    report = EvaluateReport(
        run="simulated",
        suite="office | mine",
        label="simulated",
        policy="lenient",
        domains={"none": by_domain([row for row in rows if row.arm == "none"])},
        arms=summarise(rows),
        runs=rows,
        comparisons=comparisons(rows),
        families=findings.families(pairs),
        bullets=[effect.model_copy(update={"text": "a | b\nc"}) for effect in findings.bullets(pairs)],
        tasks=findings.tasks(pairs),
        verdicts=["It helped."],
        curves=findings.curve(rows, "mine"),
    )
    text = markdown(report)
    assert text.startswith("# office | mine: none, mine with simulated, **simulated**")
    for part in (
        "## Arms",
        "## Against none",
        "## Families",
        "## Lessons",
        "## While it learns",
        "## Tasks",
        "It helped.",
    ):
        assert part in text
    assert "a \\| b c" in text, "what would break a table is escaped"
    tables = [line for line in text.split("\n") if line.startswith("|")]
    assert all(line.endswith("|") for line in tables)
    assert EvaluateReport.model_validate_json(report.model_dump_json()) == report


def test_confidence_is_compared_with_what_came_of_it():
    stated = [(0.95, True), (0.95, False), (1.0, True), (0.3, False)]
    runs = [
        row("mine", task, 0, right).model_copy(update={"confidence": sure})
        for task, (sure, right) in zip(TASKS, stated, strict=False)
    ]
    (found,) = findings.calibrations([*runs, row("none", "refund#0", 0, True)]).values()
    assert [(part.n, round(part.success, 2)) for part in found.bins] == [(1, 0.0), (3, 0.67)]
    assert found.n == 4
    assert findings.calibrations([row("none", "refund#0", 0, True)]) == {}
