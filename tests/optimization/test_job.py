"""Optimization jobs: they run to their end, survive a kill without asking twice, and their results load elsewhere."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import dspy
import pytest
from optimization.harness import AdvisedLM, loopback
from rich.console import Console

from ace import ReActGenerator
from ace.core import AceError
from ace.optimization import JobConfig, load_optimized, optimize, program_workload, suite_workload
from ace.optimization.optimizers import NAMES
from ace.optimization.workload import EpisodeProgram
from ace.playbook import Playbook
from ace.react.program import OLD_REACT, REACT
from ace.suites.registry import load_suite
from ace.testing import FunctionLM, SimulatedLM, SimulatedProposer, decision

BUDGET = dict.fromkeys(NAMES, 80) | {"simba": 200}


def office(**sizes):
    return suite_workload(load_suite("office"), **{"train": 8, "val": 4, "test": 4, **sizes}, label="simulated")


def run(folder, optimizer, workload=None, **options):
    config = JobConfig(optimizer=optimizer, budget=BUDGET[optimizer])
    return optimize(workload or office(), config, AdvisedLM(), out=folder, reflection_lm=SimulatedProposer(), **options)


def killed_and_run_again(folder, optimizer):
    """Whether a job that is killed in the middle asks the same as one that is not, and ends the same."""
    with loopback() as server:
        server.finish(folder / "whole", "--optimizer", optimizer)
        whole = server.take()
        server.kill_at = sum(whole.values()) // 2
        job = server.job(folder / "cut", "--optimizer", optimizer)
        job.communicate()
        assert job.returncode == -9
        text = server.finish(folder / "cut", "--optimizer", optimizer)
        assert server.take() == whole, "no request is sent twice, and none is left out"
        replayed = int(re.search(r"\((\d+) replayed\)", " ".join(text.split()))[1])
        assert replayed >= sum(whole.values()) // 2
        one, other = (json.loads((folder / name / "scores.json").read_text()) for name in ("whole", "cut"))
        for report in (one, other):
            del report["seconds"], report["replayed"]
        assert one == other
        assert (folder / "whole/program.json").read_bytes() == (folder / "cut/program.json").read_bytes()
        again = server.job(folder / "cut", "--optimizer", optimizer)
        assert "is done, see scores.json" in again.communicate()[0]
        assert not server.take(), "a job that is done is not done again"
    return one


def same_predictions_elsewhere(folder, report):
    """A fresh process scores the test tasks as the job did."""
    script = f"""
import dspy, json
from ace.suites.registry import load_suite
from ace.optimization import load_optimized, suite_workload
from optimization.harness import AdvisedLM
work = suite_workload(load_suite("office"), train=8, val=4, test=4)
work.program.agent = load_optimized({str(folder)!r}, work.program.agent)
with dspy.context(lm=AdvisedLM()):
    print(json.dumps([work.score(e, work.program(**e.inputs())) for e in work.testset]))
"""
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tests, tests.parent)))}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    printed = done.stdout
    assert json.loads(printed.splitlines()[-1]) == [task["after"] for task in report["tasks"]]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("optimizer", ["ace", "gepa"])
def test_a_killed_job_asks_nothing_twice_and_loads_elsewhere(tmp_path, optimizer):
    report = killed_and_run_again(tmp_path, optimizer)
    same_predictions_elsewhere(tmp_path / "cut", report)


@pytest.mark.full
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("optimizer", sorted(set(NAMES) - {"ace", "gepa"}))
def test_every_killed_job_asks_nothing_twice_and_loads_elsewhere(tmp_path, optimizer):
    report = killed_and_run_again(tmp_path, optimizer)
    same_predictions_elsewhere(tmp_path / "cut", report)


def test_calls_have_the_same_hash_in_every_process():
    """DSPy's optimizers draw demonstrations by it: a job that starts again has to ask the same."""
    script = (
        "from dspy.utils.hasher import Hasher; from ace.react.adapter import tool_calls; "
        "from ace.react.reading.reader import Written; "
        "print(Hasher.hash(tool_calls([Written('look', {'key': 'a', 'n': 1}), Written('put', {'n': 2})])))"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in "0123"
    }
    assert len(hashes) == 1


@pytest.mark.parametrize("optimizer", NAMES)
def test_every_optimizer_runs_to_its_end_in_process(tmp_path, optimizer):
    report = run(tmp_path, optimizer)
    assert report.label == "simulated"
    assert sum(report.changed.values()) > 0, "a job that changes nothing shows nothing"
    assert report.runs <= 1.2 * BUDGET[optimizer]
    assert {p.name for p in tmp_path.iterdir()} >= {
        "config.json",
        "program.json",
        "scores.json",
        "diff.md",
    }
    assert report.arms["before"].n == report.arms["after"].n == 4
    assert report.requests > 0
    assert not list(tmp_path.glob("*.pkl"))
    agent = load_optimized(tmp_path, office().program.agent)
    assert agent.tool_changes == []
    prompts = []
    with dspy.context(lm=FunctionLM("test/seen", lambda prompt: prompts.append(prompt) or "")):
        agent(task="Anything?")
    assert set(prompts[0].tools) == {*agent.registry.names, "submit"}, "no optimizer loses the catalog"


def lookup(key: str) -> str:
    """Look a key up."""
    return {"KEY-a": "1", "KEY-b": "2"}.get(key, "no such key")


def rules(prompt):
    """Gets better only when the tool's description says how keys begin; as a reflection model, it says so."""
    if "new_instruction" in prompt.system:
        current = "Look a key up." in prompt.text
        return json.dumps({"new_instruction": "Look a key up; it starts with KEY-." if current else "Answer."})
    if not prompt.steps:
        prefix = "KEY-" if "starts with KEY-" in prompt.tools["lookup"]["description"] else ""
        return decision("lookup", key=prefix + prompt.fields["question"])
    return decision("submit", answer=prompt.steps[-1]["observation"])


def keys(calls=None):
    """A workload of one's own, whose tool counts its calls."""

    def counted(key: str) -> str:
        """Look a key up."""
        if calls is not None:
            calls.append(key)
        return lookup(key)

    counted.__name__ = "lookup"
    data = [dspy.Example(question=q, answer=a).with_inputs("question") for q, a in [("a", "1"), ("b", "2")]]
    agent = ReActGenerator("question -> answer", tools=[counted])
    return program_workload(
        agent, lambda e, p, trace=None: p.answer == e.answer, trainset=data, valset=data, testset=data, name="keys"
    )


def test_a_program_of_ones_own_and_what_the_diff_says(tmp_path):
    lm = FunctionLM("test/rules", rules)
    work = keys()
    report = optimize(work, JobConfig(optimizer="gepa", budget=60), lm, out=tmp_path)
    assert (report.scores["before"], report.scores["after"]) == (0.0, 1.0)
    assert report.changed["tool_descriptions"] == 1
    diff = (tmp_path / "diff.md").read_text()
    assert "## Description of the tool `lookup`" in diff
    assert "-Look a key up.\n+Look a key up; it starts with KEY-." in diff
    agent = load_optimized(tmp_path, work.program.agent)
    assert agent(question="b", lm=lm).answer == "2"
    assert work.program.agent(question="b", lm=lm).answer == "no such key", "the program itself stays as it is"


def test_the_bar_shows_the_time_left(tmp_path, monkeypatch):
    class Screen(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    screen = Screen()
    config = JobConfig(optimizer="bootstrap")
    optimize(keys(), config, FunctionLM("test/rules", rules), out=tmp_path, console=Console(file=screen))
    assert "runs (about)" in screen.getvalue()
    assert "-:--:--" in screen.getvalue(), "before the first run nobody knows"


def test_what_is_missing_is_reported_before_anything_is_spent(tmp_path, monkeypatch):
    import ace.optimization.optimizers as optimizers

    monkeypatch.setattr(optimizers, "find_spec", lambda name: None)
    with pytest.raises(AceError, match=r"optuna.*dspy-ace\[mipro\]"):
        run(tmp_path, "mipro")
    for optimizer in sorted(set(NAMES) - {"mipro"}):
        monkeypatch.setattr(optimizers, "find_spec", lambda name: name)
        with pytest.raises(AceError, match=r"makes at least \d+ runs, and the budget is 3: raise it"):
            optimize(office(), JobConfig(optimizer=optimizer, budget=3), AdvisedLM(), out=tmp_path)
    assert not (tmp_path / "replies").exists()


def test_a_folder_belongs_to_one_job(tmp_path):
    run(tmp_path, "bootstrap")
    with pytest.raises(AceError, match=r"is done, see scores.json and diff.md there; name another folder"):
        run(tmp_path, "bootstrap")
    (tmp_path / "scores.json").unlink()
    with pytest.raises(AceError, match="optimizer was 'bootstrap' and is 'ace'"):
        run(tmp_path, "ace")
    with pytest.raises(AceError, match="no program"):
        load_optimized(tmp_path / "elsewhere", office().program.agent)


def test_a_model_that_fails_ends_the_job_and_it_goes_on_later(tmp_path):
    suite, calls = load_suite("office"), []

    def flaky(prompt):
        calls.append(prompt)
        if len(calls) == 30:
            raise ConnectionError("the server is down")
        return SimulatedLM(suite)._answer(prompt)

    config = JobConfig(optimizer="ace", budget=80)
    with pytest.raises(AceError, match=r"failed: .*the server is down.*run the same job again"):
        optimize(office(), config, FunctionLM("test/flaky", flaky), out=tmp_path)
    assert len(calls) == 30, "nothing is asked of a model that is down"
    assert not (tmp_path / "scores.json").exists()
    report = optimize(office(), config, FunctionLM("test/flaky", flaky), out=tmp_path)
    assert report.replayed >= 29


def test_ace_and_gepa_compose(tmp_path):
    lm = FunctionLM("test/rules", rules)
    work = keys()
    with dspy.context(lm=lm):
        optimize(work, JobConfig(optimizer="gepa", budget=60), lm, out=tmp_path / "gepa")
        work.program.agent = load_optimized(tmp_path / "gepa", work.program.agent)
        report = optimize(work, JobConfig(optimizer="ace", budget=2), lm, out=tmp_path / "ace")
    assert report.scores["after"] == 1.0
    assert report.changed["bullets"] > 0
    both = load_optimized(tmp_path / "ace", ReActGenerator("question -> answer", tools=[lookup]))
    assert both.cards["lookup"].signature.instructions == "Look a key up; it starts with KEY-."
    assert isinstance(both.playbook, Playbook)
    assert len(both.playbook) > 0
    assert both(question="a", lm=lm).answer == "1"


def test_a_job_program_is_a_fresh_attempt_each_time():
    work = office()
    example = work.trainset[0]
    with dspy.context(lm=SimulatedLM(load_suite("office"), "oracle")):
        assert [work.score(example, work.program(**example.inputs())) for _ in range(2)] == [1.0, 1.0]
        copied: EpisodeProgram = work.program.deepcopy()
        assert work.score(example, copied(**example.inputs())) == 1.0


def test_a_hook_that_raises_costs_a_job_no_attempt(caplog):
    class Broken(ReActGenerator):
        def format_result(self, output, mode):
            raise ValueError("a bug in the hook")

    work = office()
    work.program.agent.__class__ = Broken
    example = work.trainset[0]
    with dspy.context(lm=SimulatedLM(load_suite("office"), "oracle")):
        assert work.score(example, work.program(**example.inputs())) == 1.0
    assert "format_result of Broken failed" in caplog.text


def test_the_agents_own_model_is_asked(tmp_path):
    asked = []

    def answer(prompt):
        asked.append(prompt)
        return rules(prompt)

    work = keys()
    work.program.agent.lm = FunctionLM("test/own", answer)
    report = optimize(work, JobConfig(optimizer="bootstrap"), out=tmp_path)
    assert report.lm == "test/own"
    assert report.requests - report.replayed == len(asked) > 0
    assert report.input_tokens > 0
    assert work.program.agent.lm.model == "test/own"


def test_a_models_own_settings_reach_it(tmp_path):
    with loopback() as server:
        options = {"temperature": 0.3, "top_p": 0.5, "stop": ["x"], "max_tokens": 77}
        lm = dspy.LM("openai/test", api_base=server.url, api_key="none", cache=False, **options)
        optimize(office(), JobConfig(optimizer="bootstrap"), lm, out=tmp_path)
        body = server.bodies[0]
    assert (body["temperature"], body["top_p"], body["stop"]) == (0.3, 0.5, ["x"])
    assert 77 in (body.get("max_tokens"), body.get("max_completion_tokens"))


@pytest.mark.parametrize("optimizer", NAMES)
@pytest.mark.parametrize("verdict", [ZeroDivisionError("oops"), None, float("nan"), {"score": 1}])
def test_a_metric_that_fails_ends_the_job_and_names_the_example(tmp_path, optimizer, verdict):
    tested = len(keys().testset)
    seen = []

    def metric(example, prediction):
        seen.append(example)
        if len(seen) <= tested:  # the first measurement goes well
            return False
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    work = keys()
    work = program_workload(
        work.program.agent, metric, trainset=work.trainset, valset=work.valset, testset=work.testset
    )
    with pytest.raises(AceError, match=r"the metric failed on .*question"):
        optimize(work, JobConfig(optimizer=optimizer), FunctionLM("test/rules", rules), out=tmp_path)
    assert not (tmp_path / "scores.json").exists()


def test_an_error_of_the_metrics_is_no_error_of_the_folder(tmp_path):
    def metric(example, prediction):
        return open("/nowhere/gold.json")

    work = keys()
    work = program_workload(
        work.program.agent, metric, trainset=work.trainset, valset=work.valset, testset=work.testset
    )
    with pytest.raises(AceError, match="FileNotFoundError"):
        optimize(work, JobConfig(optimizer="ace"), FunctionLM("test/rules", rules), out=tmp_path)


@pytest.mark.parametrize("react", [REACT, *filter(None, [OLD_REACT])])
def test_a_plain_react_is_a_program_too(tmp_path, react):
    data = keys().trainset
    work = program_workload(
        react("question -> answer", tools=[lookup]), lambda e, p: 1.0, trainset=data, valset=data, testset=data
    )
    assert (
        optimize(work, JobConfig(optimizer="bootstrap"), FunctionLM("test/rules", rules), out=tmp_path).scores["after"]
        == 1
    )


@pytest.mark.parametrize("name", ["my-tool", "a.b", "_private", "2fast", "it's"])
def test_tools_of_any_name_can_have_cards(name, tmp_path):
    from ace.tools import Tool

    agent = ReActGenerator("question -> answer", tools=[Tool.from_function(lookup, name=name)]).with_tool_cards()
    agent.cards[name].signature = agent.cards[name].signature.with_instructions("Better words.")
    agent.save(tmp_path / "p.json")
    again = ReActGenerator("question -> answer", tools=[Tool.from_function(lookup, name=name)])
    again.load(tmp_path / "p.json")
    assert again.cards[name].signature.instructions == "Better words."


@pytest.mark.parametrize("optimizer", ["gepa", "ace"])
def test_ctrl_c_ends_a_job_soon_and_it_goes_on_later(tmp_path, optimizer):
    with loopback() as server:
        server.latency, server.interrupt_at = 0.2, 60
        job = server.job(tmp_path / "cut", "--optimizer", optimizer)
        text, _ = job.communicate()
        assert job.returncode == 130, text
        assert "Traceback" not in text
        assert len(server.asked) <= 62, "nothing is asked after an interrupt but what was under way"
        server.latency, server.interrupt_at, before = 0, None, server.take()
        server.finish(tmp_path / "cut", "--optimizer", optimizer)
        assert sum((before & server.take()).values()) <= 1
