"""Arms with language models of their own, and WorkBench's recorded GPT-4 against its GPT-3.5."""

import json
import re

import pytest
from ace_suites.workbench import WorkBenchSuite, read_recordings
from ace_suites.workbench.compare import replay_is_right
from command import ace
from conftest import WORKBENCH, needs_workbench
from evaluation.report.test_html import CHROMIUM, opened_in_chromium

from ace.core import SuiteError
from ace.evaluation import evaluate
from ace.evaluation.models import choose_model, with_others
from ace.suites import load_suite
from ace.testing import SimulatedLM


def test_two_models_run_the_same_tasks():
    suite = load_suite("office")
    models = {"perfect": lambda seed: SimulatedLM(suite, "oracle"), "usual": lambda seed: SimulatedLM(suite, seed=seed)}
    runs = evaluate(suite, None, models=models, arms=("usual", "perfect"), tasks=suite.tasks[:6], seeds=(0, 1))
    right = {arm: [a.feedback.success for a in found] for arm, found in _by_arm(runs).items()}
    assert right["perfect"] == [True] * 12
    assert sum(right["usual"]) < 12
    with pytest.raises(SuiteError, match="'none' has no language model"):
        evaluate(suite, None, models=models, arms=("none", "usual"))


def test_an_arm_never_borrows_the_model_of_another():
    with pytest.raises(SuiteError, match="no language model for the arms none"):
        with_others("", {"best": "simulated:oracle"}, load_suite("office"), arms=["none", "best"])


def _by_arm(runs):
    found = {}
    for attempt in runs:
        found.setdefault(attempt.arm, []).append(attempt)
    return found


def test_the_command_takes_models_as_arms(tmp_path):
    words = [
        "evaluate",
        "office",
        "--arms",
        "usual=simulated,best=simulated:oracle",
        "--limit",
        "4",
        "--json",
        "o.json",
    ]
    assert "simulated" in ace(*words, cwd=tmp_path)
    report = json.loads((tmp_path / "o.json").read_text(encoding="utf-8"))
    assert report["label"] == "simulated"
    assert report["arms"]["best"]["success"] == 1.0
    live = ace(*words, FORCE_COLOR="1", COLUMNS="140", cwd=tmp_path)
    assert "so far (simulated)" in live
    assert "under way" in live
    for arms, message in {
        "none=simulated": "needs a name of its own",
        "=simulated": "has no name before its =",
        "a=simulated.db": "there is no playbook 'simulated.db'",
    }.items():
        assert message in ace("evaluate", "office", "--arms", arms, "--part", "first", code=1, cwd=tmp_path).replace(
            "\n", " "
        )


@needs_workbench
def test_gpt_4_is_compared_with_gpt_3_5_and_both_are_as_published(tmp_path):
    names = {"gpt-3.5": "gpt-3.5_domains", "gpt-4": "gpt-4_domains"}
    arms = ",".join(f"{name}=recorded:{run}" for name, run in names.items())
    words = ["evaluate", f"workbench:{WORKBENCH}", "--arms", arms, "--json", "o.json", "--html", "o.html"]
    ace(*words, "--workers", "2", cwd=tmp_path)
    report = json.loads((tmp_path / "o.json").read_text(encoding="utf-8"))
    text = (WORKBENCH / "REFERENCE.md").read_text(encoding="utf-8")
    published = {
        (run, domain): int(n) for run, domain, n in re.findall(r"^\| ([\w.-]+) \| (\w+) \| \d+ \| (\d+) \|", text, re.M)
    }
    suite = WorkBenchSuite(WORKBENCH, "domains")
    tasks = {task.id: task for task in suite.tasks}
    found_runs = {run: read_recordings(WORKBENCH, run) for run in names.values()}
    recordings = {run: {i: found[t.task.text] for i, t in tasks.items()} for run, found in found_runs.items()}
    for name, run in names.items():
        for domain, found in report["domains"][name].items():
            rows = [row for row in report["runs"] if row["arm"] == name and row["domain"] == domain]
            right = {row["id"]: replay_is_right(suite, tasks[row["id"]], recordings[run][row["id"]]) for row in rows}
            assert sum(right.values()) == published[run, domain]
            assert sum(row["correct"] for row in rows) == found["correct"]
            assert sum(row["correct"] != right[row["id"]] for row in rows) <= 2, "live and replayed are nearly the same"
        arm = report["arms"][name]
        low, high = arm["success_interval"]
        assert low < arm["success"] < high
        assert arm["n"] == 690
    success = report["comparisons"][0]
    assert (success["after"], success["metric"], success["before"]) == ("gpt-4", "success", "gpt-3.5")
    assert success["gained"] - success["lost"] == round(690 * success["difference"]) == 340 - 93
    assert success["interval"][0] > 0.2
    assert success["p_corrected"] < 0.001
    assert "recorded:gpt-4_domains" in (tmp_path / "o.html").read_text(encoding="utf-8")
    if CHROMIUM is not None:
        with opened_in_chromium(tmp_path / "o.html", width=390) as page:
            assert page.locator("h1").inner_text().startswith("workbench")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            assert page.locator(".dot").count() > 60
    output = ace(
        "evaluate",
        f"workbench:{WORKBENCH}",
        "--arms",
        "a=recorded:gpt-4_all,b=recorded:gpt-4_domains",
        code=1,
        cwd=tmp_path,
    )
    assert "compare models that need the same" in output


@pytest.mark.parametrize("spec", ["recorded_elsewhere:gpt-4", "mine:x"])
def test_a_model_that_nobody_registers_is_refused_before_it_is_asked(spec):
    with pytest.raises(SuiteError, match="no installed package registers"):
        choose_model(spec, None)
