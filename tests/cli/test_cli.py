"""The commands as a person runs them: a real process, real files."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
from command import ACE, ace
from conftest import ROOT, WORKBENCH, needs_workbench
from loopback import openai_server


def valid(path, schema):
    report = json.loads(Path(path).read_text(encoding="utf-8"))
    jsonschema.validate(report, json.loads((ROOT / "contracts" / f"{schema}.schema.json").read_text(encoding="utf-8")))
    return report


COMMANDS = [
    "demo",
    "run",
    "evaluate",
    "learn",
    "doctor",
    "playbook",
    "suite",
    "playbook list",
    "suite check",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command):
    text = ace(*command.split(), "--help")
    assert "Example" in text or "Each line" in text


def test_the_demo_learns_and_says_that_it_is_simulated(tmp_path):
    text = ace("demo", "--out", tmp_path, "--epochs", 2, "--seeds", 1, "--json", tmp_path / "demo.json")
    report = valid(tmp_path / "demo.json", "demo")
    assert report["label"] == "simulated"
    assert set(report["arms"]) == set(report["unseen_families"]) == {"none", "playbook", "gold", "random"}
    assert (
        report["arms"]["gold"]["iterations"]
        < report["arms"]["playbook"]["iterations"]
        < report["arms"]["none"]["iterations"]
    )
    assert report["arms"]["none"]["n"] == 100
    assert "simulated" in text
    assert report["playbook_path"] in text
    assert Path(report["playbook_path"]).exists()
    assert f"{report['bullets']} bullets" in ace("playbook", "list", report["playbook_path"])


@pytest.mark.full
@pytest.mark.timeout(1_800)
def test_the_whole_demo_closes_most_of_the_way(tmp_path):
    ace("demo", "--out", tmp_path, "--json", tmp_path / "demo.json")
    report = valid(tmp_path / "demo.json", "demo")
    assert report["closed"]["playbook"]["iterations"] >= 0.6
    assert report["closed"]["random"]["iterations"] <= 0.15
    assert report["seconds"] < 300


def test_a_playbook_is_learned_listed_searched_and_moved(tmp_path):
    book = tmp_path / "p.db"
    ace("learn", "--from", "office", "--lm", "simulated", "--playbook", book, "--json", tmp_path / "l.json")
    report = valid(tmp_path / "l.json", "learn")
    assert report["label"] == "simulated"
    assert report["runs"] == 100
    assert "Strategies" in ace("playbook", "list", book, "--section", "Strategies")
    assert "b-1" in ace("playbook", "show", book, "b-1")
    assert "->" in ace("playbook", "search", book, "Archive the mail about the invoice")
    ace("playbook", "export", book, tmp_path / "b.jsonl")
    ace("playbook", "import", tmp_path / "q.db", tmp_path / "b.jsonl")
    assert f"{report['bullets']} bullets" in ace("playbook", "list", tmp_path / "q.db")
    ace(
        "evaluate", "office", "--lm", "simulated", "--arms", "none,playbook,random", "--playbook", book, "--limit", 8,
        "--part", "second", "--json", tmp_path / "e.json",
    )  # fmt: skip
    report = valid(tmp_path / "e.json", "evaluate")
    assert (report["label"], report["policy"], len(report["runs"])) == ("simulated", "lenient", 24)


def test_suites_are_listed_shown_and_checked(tmp_path):
    assert "workbench" in ace("suite", "list")
    assert "refund#0" in ace("suite", "list", "office")
    assert "refund_order" in ace("suite", "show", "office", "refund#0")
    ace("suite", "check", "office", "--json", tmp_path / "c.json")
    assert valid(tmp_path / "c.json", "suite-check")["tasks"]["oracle_right"] == 200


@needs_workbench
def test_golden_cases_pass_and_a_wrong_one_fails(tmp_path):
    lines = (WORKBENCH / "golden.jsonl").read_text().splitlines()[:20]
    (tmp_path / "g.jsonl").write_text("\n".join(lines))
    ace("suite", "check", f"workbench:{WORKBENCH}", "--golden", tmp_path / "g.jsonl", "--json", tmp_path / "c.json")
    assert valid(tmp_path / "c.json", "suite-check")["golden"] == {"n": 20, "passed": 20, "failed": []}
    wrong = json.loads(lines[0]) | {"results": ["other"]}
    (tmp_path / "g.jsonl").write_text(json.dumps(wrong))
    ace("suite", "check", f"workbench:{WORKBENCH}", "--golden", tmp_path / "g.jsonl", code=1)


@needs_workbench
def test_recorded_runs_are_evaluated_and_learned_from(tmp_path):
    suite = f"workbench:{WORKBENCH}"
    text = ace("evaluate", suite, "--lm", "recorded:gpt-4_all", "--limit", 30, "--json", tmp_path / "e.json")
    report = valid(tmp_path / "e.json", "evaluate")
    assert (report["policy"], report["label"], report["domains"]["none"]["email"]["n"]) == (
        "replay",
        "recorded:gpt-4_all",
        30,
    )
    assert "policy: replay" in text
    ace(
        "learn",
        "--from",
        suite,
        "--runs",
        "gpt-4_domains",
        "--playbook",
        tmp_path / "p.db",
        "--json",
        tmp_path / "l.json",
    )
    held_out = valid(tmp_path / "l.json", "learn")["held_out"]
    assert held_out["hit@3"] >= 85
    assert held_out["n"] > 200


def test_a_real_http_model_answers(tmp_path):
    with openai_server() as (url, requests):
        text = ace(
            "run", "What is 17% of 240?", "--lm", "openai/x", "--api-base", url, "--json", tmp_path / "r.json",
            DSPY_CACHEDIR=str(tmp_path / "cache"),
        )  # fmt: skip
    assert text.rstrip().splitlines()[-2].startswith("40.8") or "40.8" in text
    report = valid(tmp_path / "r.json", "task-output")
    assert [step["tool_name"] for step in report["structured_trace"]] == ["calculator"]
    assert report["usage"]["input_tokens"] == 200
    assert {request["path"] for request in requests} == {"/v1/chat/completions"}


def test_the_model_may_come_from_the_environment(tmp_path):
    text = ace("run", "--suite", "office", "--task", "refund#0", ACE_LM="simulated:oracle")
    assert "task solved: yes" in text
    assert "simulated" in text


def test_own_tools_are_loaded_from_a_module(tmp_path):
    (tmp_path / "my_shop.py").write_text(
        'def find_orders(customer: str) -> list[str]:\n    """Find."""\n    return ["o-1"]\n\n\n'
        'def refund(order_id: str) -> str:\n    """Refund."""\n    return f"{order_id} refunded"\n\n\ntools = [find_orders, refund]\n'
    )
    with openai_server() as (url, _):
        text = ace(
            "run", "Refund Ana's order", "--tools", "my_shop:tools", "--lm", "openai/x", "--api-base", url, cwd=tmp_path,
            DSPY_CACHEDIR=str(tmp_path / "cache"),
        )  # fmt: skip
    assert "o-1 refunded" in text


def test_brackets_in_a_playbook_are_text(tmp_path):
    from ace.playbook import CallableEmbedder, Playbook

    with Playbook.open(tmp_path / "p.db", embedder=CallableEmbedder("x", lambda texts: [[1.0]] * len(texts))) as book:
        book.add(section="Strategies", trigger="[/b] [bold]refund[order_id]", content="[/x] do it")
    for words in (["list"], ["show"], ["search"]):
        more = {"show": ["b-1"], "search": ["[/x] refund"]}.get(words[0], [])
        assert "[bold]refund[order_id]" in ace("playbook", *words, tmp_path / "p.db", *more)


def test_doctor_is_content():
    assert "right hash" in ace("doctor")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["evaluate", "workbench:/nowhere"], "/nowhere"),
        (["evaluate", "nowhere", "--lm", "simulated"], "tau:FOLDER"),
        (["evaluate", "workbench:/nowhere", "--lm", "simulated"], "/nowhere"),
        (["evaluate", "office", "--lm", "simulated", "--arms", "magic"], "magic"),
        (["evaluate", "office", "--lm", "simulated", "--arms", "playbook", "--part", "first"], "--playbook"),
        (["evaluate", "office", "--lm", "simulated", "--arms", "none,none"], "twice"),
        (["evaluate", "office", "--lm", "simulated", "--arms", "old=nowhere.db"], "nowhere.db"),
        (["evaluate", "office", "--lm", "simulated", "--engine", "steam"], "steam"),
        (["evaluate", "office", "--lm", "simulated", "--part", "third"], "third"),
        (["evaluate", "office", "--lm", "simulated", "--out", "o", "--max-seconds", "0"], "no run was made: seconds"),
        (["evaluate", "office", "--lm", "simulated:genius"], "genius"),
        (["evaluate", "office", "--lm", "recorded:gpt-4_all"], "workbench:PATH"),
        (["run"], "--suite"),
        (["run", "x"], "--lm"),
        (["run", "x", "--lm", "simulated"], "suite"),
        (
            ["run", "x", "--lm", "openai/x", "--api-base", "http://127.0.0.1:1", "--tools", "nowhere:tools"],
            "MODULE:NAME",
        ),
        (["run", "--suite", "office", "--task", "zzz", "--lm", "simulated"], "ace suite list"),
        (["learn", "--from", "office", "--playbook", "x.db"], "--runs"),
        (["playbook", "list", "nowhere.db"], "no playbook"),
        (["playbook", "import", "x.db", "nowhere.jsonl"], "no file"),
        (["suite", "show", "office", "zzz"], "zzz"),
        (["playbook", "import", "x.db", "."], "cannot read"),
        (["run", "x", "--lm", "openai/x", "--playbook", "typo.db"], "typo.db"),
        (["evaluate", "office", "--lm", "simulated", "--json", "/proc/x.json"], "--json"),
        (["frobnicate"], "frobnicate"),
        (["evaluate", "office", "--lm", "simulated", "--seeds", "0"], "seeds"),
    ],
)
def test_errors_are_one_clear_line(words, says, tmp_path):
    text = ace(*words, cwd=tmp_path, code=2, ACE_LM="")
    assert says in text


def test_a_run_that_fails_says_so_by_its_exit_code(tmp_path):
    text = ace(
        "run", "x", "--lm", "openai/x", "--api-base", "http://127.0.0.1:1/v1", code=1, DSPY_CACHEDIR=str(tmp_path)
    )
    assert "model_transport" in text


def heed_ctrl_c():
    """A shell's background jobs ignore Ctrl-C, and so would their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupted(words, cwd, ready):
    """Start a command, send Ctrl-C as soon as `ready(what it printed)` holds, and wait for its end."""
    log = cwd / "log.txt"
    with log.open("w") as file:
        process = subprocess.Popen(
            [ACE, *map(str, words)],
            cwd=cwd,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "COLUMNS": "200"},
            preexec_fn=heed_ctrl_c,
        )
        try:
            deadline = time.monotonic() + 120
            while not ready(log.read_text()) and time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 130, log.read_text()[-2000:]
    assert "Traceback" not in log.read_text()
    assert log.read_text().endswith("interrupted; everything committed so far is kept\n")


def test_ctrl_c_arrives_even_when_python_drops_it_inside_a_finalizer():
    program = (
        "import os, signal, sys, time\n"
        "import ace.cli\n"
        "class Freed:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(.01)\n"
        "@ace.cli.app.command()\n"
        "def long():\n"
        "    Freed()\n"
        "    time.sleep(60)\n"
        "sys.argv = ['ace', 'long']\n"
        "ace.cli.main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, preexec_fn=heed_ctrl_c
    )
    assert ended.returncode == 130, ended.stderr
    assert ended.stderr.strip() == "interrupted; everything committed so far is kept"


def test_ctrl_c_keeps_what_was_evaluated(tmp_path):
    target = tmp_path / "e.json"

    def running(_text):
        return any(log.stat().st_size for log in tmp_path.rglob("runs.jsonl"))

    interrupted(["evaluate", "office", "--lm", "simulated", "--seeds", 500, "--json", target], tmp_path, running)
    report = valid(target, "evaluate")
    assert report["interrupted"]
    assert 0 < len(report["runs"]) < 100_000


def test_ctrl_c_keeps_what_was_learned(tmp_path):
    book = tmp_path / "p.db"

    def learned(_text):
        if not book.exists():
            return False
        with contextlib.closing(sqlite3.connect(book)) as connection:
            try:
                return connection.execute("select count(*) from bullets").fetchone()[0] > 5
            except sqlite3.OperationalError:
                return False

    interrupted(
        ["learn", "--from", "office", "--lm", "simulated", "--epochs", 50, "--playbook", book], tmp_path, learned
    )
    assert "bullets, revision" in ace("playbook", "list", book)


def test_a_run_waits_for_a_decision_and_goes_on_in_another_process(tmp_path):
    (tmp_path / "my_bank.py").write_text(
        "from ace import tool\n\n\n@tool(requires_approval=True)\ndef refund(order_id: str) -> str:\n"
        '    """Refund."""\n    return f"{order_id} refunded"\n\n\n'
        "@tool(read_only=True)\ndef find_orders(customer: str) -> list[str]:\n"
        '    """Find."""\n    return ["o-1"]\n\n\ntools = [find_orders, refund]\n'
    )
    with openai_server() as (url, _):
        options = ["--tools", "my_bank:tools", "--lm", "openai/x", "--api-base", url, "--run-store", "runs"]
        cache = {"DSPY_CACHEDIR": str(tmp_path / "cache")}
        text = ace("run", "Refund Ana's order", *options, cwd=tmp_path, code=1, **cache)
        assert "waits for a decision about refund({'order_id': 'o-1'})" in text
        (file,) = (tmp_path / "runs").glob("*.json")
        wrong = ace("run", "--resume", file.stem, *options, cwd=tmp_path, code=2, **cache)
        assert "pass decision='approve'" in wrong
        text = ace(
            "run", "--resume", file.stem, "--decision", "approve", "--output", "simple", *options, cwd=tmp_path, **cache
        )
        assert text.strip().splitlines()[-1] == "o-1 refunded"
    for words, problem in (
        (["--resume", "x"], "needs --run-store"),
        (["x", "--output", "json"], "simple or structured"),
        (["x", "--resume", "y", "--run-store", "runs"], "pass one of"),
    ):
        assert problem in ace("run", *words, "--lm", "simulated:oracle", cwd=tmp_path, code=2)
