import csv
import json
import random
import re

import pytest
from ace_suites.workbench import WorkBenchSuite, read_recordings
from ace_suites.workbench.compare import replay_is_right, ways
from ace_suites.workbench.dates import DateParseError, point_in_time
from ace_suites.workbench.recorded_lm import RecordedLM
from ace_suites.workbench.recordings import RecordedStep, Recording
from ace_suites.workbench.suite import parse_call
from conftest import WORKBENCH, needs_workbench

from ace import Policy
from ace.core import SuiteError
from ace.evaluation.report.summary import by_domain
from ace.evaluation.runner import evaluate
from ace.suites.splits import halves
from benchmarks.retrieval.bench import suite_tasks

pytestmark = needs_workbench


def test_the_golden_cases_give_their_results_and_states(workbench):
    cases = [json.loads(line) for line in (WORKBENCH / "golden.jsonl").read_text().splitlines()]
    wrong = {case["id"]: problems for case in cases if (problems := workbench.check_case(case))}
    assert wrong == {}
    assert len(cases) == 400


def test_a_golden_case_can_fail(workbench):
    case = json.loads((WORKBENCH / "golden.jsonl").read_text().splitlines()[0])
    assert workbench.check_case({**case, "results": ["other"]})
    assert workbench.check_case({**case, "state_sha256": {}})


def test_the_suite_is_as_specified(workbench):
    assert len(workbench.tasks) == 690
    assert sum(len(task.gold) for task in workbench.tasks) == 947
    assert len({task.group for task in workbench.tasks}) == 69
    assert len(workbench.sandbox().functions) == 27
    first, second = halves(workbench.tasks)
    assert len(first) == len(second) == 345


def test_every_gold_plan_is_right_and_a_sandbox_is_fresh(workbench):
    before = workbench.sandbox().state_sha256()
    for task in workbench.tasks[::10]:
        assert workbench.replay(task.gold).same_state(workbench.replay(task.gold))
    assert workbench.sandbox().state_sha256() == before


def test_offered_toolkits_follow_the_variant(workbench):
    crm = next(t for t in workbench.tasks if t.domain == "multi_domain" and "crm" in workbench._offered[t.id])
    offered = {mode: WorkBenchSuite(WORKBENCH, mode).offered(crm) for mode in ("needed", "domains", "all")}
    assert "customer_relationship_manager" in offered["needed"]
    assert "customer_relationship_manager" not in offered["domains"]
    assert len(offered["all"]) == 6


@pytest.mark.parametrize(
    ("text", "iso"),
    [("2023-11-30", "2023-11-30T00:00:00"), ("2023-11", "2023-11-01T00:00:00"), ("20231130", "2023-11-30T00:00:00"),
     ("12/01/2023", "2023-12-01T00:00:00"), ("December 1, 2023", "2023-12-01T00:00:00"), ("2023-11-30T09:30", "2023-11-30T09:30:00")],
)  # fmt: skip
def test_dates_are_read_leniently(text, iso):
    assert point_in_time(text).isoformat() == iso


@pytest.mark.parametrize("text", ["tomorrow", "2023-11-31", "2023-11-30 24:00:00", "2023-13-01", "None", "{date}"])
def test_what_is_no_date_raises(text):
    with pytest.raises(DateParseError):
        point_in_time(text)


def test_call_strings_are_parsed_never_evaluated():
    call = parse_call('email.send_email.func(recipient="a@b.c", body="one\ntwo")')
    assert (call.name, call.args["body"]) == ("email.send_email", "one\ntwo")
    for bad in ('__import__("os").system("x")', "f(1)", 'a.func("x")', 'a.func(x=open("f"))', "1"):
        with pytest.raises((ValueError, SyntaxError)):
            parse_call(bad)


@pytest.mark.parametrize("text", ["{'input': open('x')}", "__import__('os')", "{'output': 1}"])
def test_a_response_is_never_evaluated(tmp_path, text):
    with (tmp_path / "run.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["query", "full_response"], ["q", text]])
    with pytest.raises(SuiteError, match="row 1"):
        read_recordings(tmp_path, str(tmp_path / "run.csv"))


def reference(run):
    text = (WORKBENCH / "REFERENCE.md").read_text()
    return {d: int(c) for r, d, c in re.findall(r"^\| ([\w.-]+) \| (\w+) \| \d+ \| (\d+) \|", text, re.M) if r == run}


def drive(run, recordings, tasks=None):
    suite = WorkBenchSuite(WORKBENCH, toolkits="all" if run.endswith("_all") else "domains")
    lm = RecordedLM(run, recordings)
    chosen = [t for t in suite.tasks if tasks is None or t.domain in tasks]
    return suite, lm, list(evaluate(suite, lambda seed: lm, tasks=chosen, policy=Policy.replay()))


SHORT = [("gpt-4_domains", "email"), ("gpt-3.5_domains", "analytics"), ("llama2-70b_domains", "calendar")]


@pytest.mark.parametrize(("run", "domain"), SHORT)
def test_recorded_runs_give_the_published_scores(run, domain, tmp_path):
    """The short form; `benchmarks/agent/recorded.py` and the full test drive all four runs whole."""
    # neither the calls nor the outcome may be read: the columns are gone and the rows are shuffled
    for path in (WORKBENCH / "runs").glob(f"*/{run}.csv"):
        csv.field_size_limit(10**9)
        with path.open(newline="") as file:
            rows = [{k: row[k] for k in ("query", "full_response")} for row in csv.DictReader(file)]
        random.Random(0).shuffle(rows)
        target = tmp_path / "runs" / path.parent.name / path.name
        target.parent.mkdir(parents=True)
        with target.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["query", "full_response"])
            writer.writeheader()
            writer.writerows(rows)
    recordings = read_recordings(tmp_path, run)
    suite, lm, attempts = drive(run, recordings, {domain})
    _check_run(suite, lm, attempts, run)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("run", ["gpt-4_domains", "gpt-4_all", "gpt-3.5_domains", "llama2-70b_domains"])
def test_all_recorded_runs_give_the_published_scores(run):
    suite, lm, attempts = drive(run, read_recordings(WORKBENCH, run))
    assert len(attempts) == 690
    _check_run(suite, lm, attempts, run)


def _check_run(suite, lm, attempts, run):
    malformed = 0
    for attempt in attempts:
        recording = lm.recording(attempt.task.task.text)
        steps = attempt.output.structured_trace
        assert len(steps) == len(recording.steps), attempt.task.id
        for done, recorded in zip(steps, recording.steps, strict=True):
            if done.executed:
                assert (done.tool_name, done.tool_args) == (recorded.tool, recorded.args)
            else:
                malformed += 1
                assert done.error.kind in ("unknown_tool", "invalid_args")
        if replay_is_right(suite, attempt.task, recording) != attempt.feedback.success:
            assert ways(recording, attempt.output), f"{attempt.task.id} differs for no known reason"
    correct = {name: row.correct for name, row in by_domain([a.report() for a in attempts]).items()}
    assert correct == {name: reference(run)[name] for name in correct}
    assert malformed or run.startswith("gpt-4")


def test_a_cut_off_recording_is_an_error_and_an_empty_one_too(workbench):
    task = workbench.tasks[0]
    step = RecordedStep("email.search_emails", {"query": "nadia"}, "")
    for recording in (Recording(task.task.text, (step,), None), Recording(task.task.text, (), None)):
        lm = RecordedLM("x", {task.task.text: recording})
        (attempt,) = evaluate(workbench, lambda seed, lm=lm: lm, tasks=[task], policy=Policy.replay())
        assert attempt.output.termination_reason == "model_transport"
        assert not attempt.feedback.success


def test_the_retrieval_lines_hold_changing_calls_only(workbench):
    tasks = suite_tasks(workbench)
    assert sum(not task.tools for task in tasks) == 122
