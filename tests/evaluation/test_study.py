"""`Study`: the whole of an evaluation, from Python."""

import json
import re

import pytest

from ace.core import AceError, SuiteError
from ace.core.durable import claimed
from ace.evaluation import Caps, Study, StudyConfig, StudyObserver
from ace.evaluation.study import CONFIG, RUNS
from ace.optimization import JobConfig, optimize, suite_workload
from ace.suites import load_suite
from ace.testing import SimulatedLM


def config(folder, **changes):
    return StudyConfig(
        **{"suite": "office", "lm": "simulated", "arms": "none,gold", "limit": 3, "out": folder} | changes
    )


def figures(report):
    return {name: (arm.success, arm.iterations, arm.n) for name, arm in report.arms.items()}


class Seen(StudyObserver):
    def __init__(self):
        self.done, self.attempts, self.runs, self.tried = 0, [], 0, 0

    def ready(self, study, done):
        self.done = done

    def learning(self, runs):
        self.runs = runs

    def learned(self):
        self.tried += 1

    def attempt(self, attempt):
        self.attempts.append((attempt.arm, attempt.task.id))


def test_what_was_run_is_not_run_again(tmp_path):
    first, again = Seen(), Seen()
    stopped = Study(config(tmp_path, caps=Caps(requests=5))).run(first)
    assert stopped.stopped
    assert 0 < len(first.attempts) < 6
    report = Study(config(tmp_path)).run(again)
    assert again.done == len(first.attempts)
    assert len(again.attempts) == 6 - again.done
    assert not set(first.attempts) & set(again.attempts)
    assert figures(report) == figures(Study(config(tmp_path / "new")).run())


def test_a_playbook_is_learned_where_none_is_given(tmp_path):
    seen = Seen()
    report = Study(config(tmp_path, arms="none,playbook", epochs=1)).run(seen)
    assert 0 < seen.tried == seen.runs
    assert report.label == "simulated"
    assert list(tmp_path.glob("**/*.db"))


def test_none_is_nothing_also_with_a_program_and_the_program_has_its_playbook(tmp_path):
    suite = load_suite("office", toolkits="all")
    work = suite_workload(suite, train=12, val=1, test=1)
    optimize(work, JobConfig(optimizer="ace"), SimulatedLM(suite), out=tmp_path / "job")
    compared = {"part": "second", "limit": 20}
    report = Study(config(tmp_path / "a", arms="none,program", program=tmp_path / "job", **compared)).run()
    assert report.arms["none"].memory_tokens == 0 < report.arms["program"].memory_tokens
    assert report.verdicts[0].count("program") >= 1
    alone = Study(config(tmp_path / "b", arms="none", **compared)).run()
    assert figures(report)["none"] == figures(alone)["none"]
    with pytest.raises(SuiteError, match="'program' needs a folder of `ace optimize`"):
        Study(config(tmp_path / "c", arms="none,program")).run()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"part": "third"}, "expected all, first or second"),
        ({"split": "foo"}, "foo"),
        ({"arms": "none,nothing"}, "nothing"),
        ({"engine": "fibers"}, "threads, asyncio and ray"),
        ({"lm": ""}, "no language model"),
        ({"arms": "playbook", "part": "first"}, "learned on the first part"),
        ({"suite": "nowhere"}, "no suite 'nowhere'"),
    ],
)
def test_a_configuration_that_contradicts_itself_is_refused_before_the_first_run(tmp_path, changes, message):
    with pytest.raises(SuiteError, match=re.escape(message)):
        Study(config(tmp_path, **changes))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_belongs_to_one_study(tmp_path):
    Study(config(tmp_path)).run()
    with pytest.raises(AceError, match=r"holds another job: .*limit was 3 and is 2"):
        Study(config(tmp_path, limit=2)).run()
    known = json.loads((tmp_path / CONFIG).read_text())
    del known["format_of_runs"]
    (tmp_path / CONFIG).write_text(json.dumps(known))
    with pytest.raises(AceError, match="format_of_runs was None"):
        Study(config(tmp_path)).run()


def test_the_page_is_written_from_the_studys_own_runs(tmp_path):
    study = Study(config(tmp_path / "runs"))
    report = study.run()
    study.write_html(report, tmp_path / "page.html")
    assert "simulated" in (tmp_path / "page.html").read_text(encoding="utf-8")
    size = (tmp_path / "runs" / RUNS).stat().st_size
    with claimed(tmp_path / "runs"), pytest.raises(AceError, match="in use by another job"):
        study.write_html(report, tmp_path / "page.html")
    assert (tmp_path / "runs" / RUNS).stat().st_size == size
