"""Every command: help, errors in one line."""

import json
import subprocess
import sys

import pytest
from command import ace, heed_ctrl_c
from conftest import ROOT
from databases import fresh_database
from loopback import refusing
from typer.main import get_command

from ace.cli import app

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


def test_examples_fit_a_line_to_be_copied():
    shown = [line for text in epilogs(get_command(app)) for line in text.splitlines() if line.startswith("ace ")]
    assert len(shown) > 40
    assert [line for line in shown if len(line) > 76] == []


def epilogs(command):
    yield command.epilog or ""
    for inner in getattr(command, "commands", {}).values():
        yield from epilogs(inner)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command):
    text = ace(*command.split(), "--help")
    assert "Example" in text or "Each line" in text


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
        (["evaluate", "office", "--lm", "simulated", "--program", "none"], "holds no program.json"),
        (["evaluate", "office", "--lm", "simulated", "--engine", "steam"], "steam"),
        (["evaluate", "office", "--lm", "simulated", "--part", "third"], "third"),
        (["evaluate", "office", "--lm", "simulated", "--out", "o", "--max-seconds", "0"], "no run was made: seconds"),
        (["evaluate", "office", "--lm", "simulated:genius"], "genius"),
        (["evaluate", "office", "--lm", "recorded:gpt-4_all"], "workbench:PATH"),
        (["run"], "--suite"),
        (["run", "x"], "--lm"),
        (["run", "x", "--lm", "simulated", "--decision", "deny"], "--resume"),
        (
            ["run", "--suite", "office", "--task", "x", "--max-iters", "1", "--domain", "d"],
            "leave --domain, --max-iters out",
        ),
        (
            ["run", "--suite", "office", "--task", "refund#0", "--lm", "simulated", "--trace", "/dev/full"],
            "No space left",
        ),
        (["playbook", "list", "mysql://x/y"], "expected a path, sqlite:///FILE or postgresql://"),
        (["run", "x", "--lm", "simulated"], "suite"),
        (["run", "x", "--lm", "bedrock/x", "--tools", "nowhere:tools"], "MODULE:NAME"),
        (["run", "--suite", "office", "--task", "zzz", "--lm", "simulated"], "ace suite list"),
        (["learn", "--from", "office", "--playbook", "x.db"], "--runs"),
        (["playbook", "list", "nowhere.db"], "no playbook"),
        (["playbook", "import", "x.db", "nowhere.jsonl"], "no file"),
        (["suite", "show", "office", "zzz"], "zzz"),
        (["playbook", "import", "x.db", "."], "cannot read"),
        (["run", "x", "--lm", "bedrock/x", "--playbook", "typo.db"], "typo.db"),
        (["evaluate", "office", "--lm", "simulated", "--json", "/proc/x.json"], "--json"),
        (["frobnicate"], "frobnicate"),
        (["evaluate", "office", "--lm", "simulated", "--seeds", "0"], "seeds"),
    ],
)
def test_errors_are_one_clear_line(words, says, tmp_path):
    wrong_words = says in ("frobnicate", "seeds")  # not how the command is called
    text = ace(*words, cwd=tmp_path, code=2 if wrong_words else 1, ACE_LM="")
    assert says in text


def commands(command, name="ace"):
    """All of them, with the names of their options."""
    for word, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{name} {word}")
    if not hasattr(command, "commands"):
        yield name, {option for parameter in command.params for option in getattr(parameter, "opts", ())}


def test_every_command_has_the_option():
    found = dict(commands(get_command(app)))
    assert len(found) > 25
    assert [name for name, options in found.items() if "--json" not in options] == []


def test_what_is_missing_is_one_sentence_at_once(tmp_path):
    names = ("dead-port", "no-provider", "locked-book", "full-disk", "optimize")
    only = [word for name in names for word in ("--only", name)]
    command = [sys.executable, "-m", "benchmarks.serve.refusals", tmp_path / "out.json", *only]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    report = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert report["asked"] >= 15
    assert [row for row in report["rows"] if not row["right"]] == []


@pytest.mark.parametrize(
    "command", [["learn", "--from", "office", "--playbook", "b.db"], ["optimize", "office", "--out", "o"]]
)
def test_a_model_that_takes_no_request_is_no_success(command, tmp_path):
    with refusing() as url:
        said = ace(*command, "--lm", "openai/no-such-model", "--api-base", url, cwd=tmp_path, code=1)
    assert "the language model takes no request" in said


def test_a_chat_whose_last_message_failed_is_no_success(tmp_path):
    with refusing() as url:
        said = ace(
            "chat",
            "--lm",
            "openai/no-such-model",
            "--api-base",
            url,
            "--chats",
            "chats",
            typed="Hello\n",
            cwd=tmp_path,
            code=1,
        )
    assert "model_not_found" in said


def test_a_playbook_on_a_server_serves_every_command(postgres, tmp_path):
    book = fresh_database(postgres).replace("postgresql+psycopg", "postgresql")
    oracle = ["--lm", "simulated:oracle"]
    ace("learn", "--from", "office", *oracle, "--playbook", book, "--json", tmp_path / "l.json", cwd=tmp_path)
    report = json.loads((tmp_path / "l.json").read_text(encoding="utf-8"))
    assert report["bullets"] > 20
    assert list(tmp_path.glob("*.learned")), "what it has learned from is remembered beside"
    said = ace("run", "--suite", "office", "--task", "label#3", *oracle, "--playbook", book, cwd=tmp_path)
    assert "task solved: yes" in said
    ace("chat", "--lm", "openai/x", "--api-base", "http://127.0.0.1:9", "--playbook", book, cwd=tmp_path, code=1)
    said = ace(
        "evaluate",
        "office",
        *oracle,
        "--arms",
        "none,playbook",
        "--playbook",
        book,
        "--limit",
        2,
        "--out",
        "e",
        cwd=tmp_path,
    )
    assert "playbook" in said


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
