"""Every snippet of the documents runs, in order, in one folder, against a real HTTP model on loopback."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import unquote

import pytest
from conftest import ROOT
from loopback import openai_server

from benchmarks.real.recording import Recording

DOCUMENTS = ["README.md", "quickstart.md", "docs/index.md", "docs/tutorial.md"]
OLLAMA = "http://localhost:11434/v1"


def blocks(name):
    return re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / name).read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_snippet_runs(name, tmp_path):
    assert {language for language, _ in blocks(name)} <= {"python", "bash", "text"}
    python = "\n".join(text for language, text in blocks(name) if language == "python")
    bash = "\n".join(text for language, text in blocks(name) if language == "bash")
    with openai_server() as (url, requests):
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "COLUMNS": "200",
            "DSPY_CACHEDIR": str(tmp_path / "cache"),
        }
        outputs = [
            subprocess.run(
                [*command, text.replace(OLLAMA, url)],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=800,
            )
            for command, text in (([sys.executable, "-c"], python), (["bash", "-ec"], bash))
        ]
    for done in outputs:
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert requests, "the model was really asked over HTTP"
    if name == "README.md":
        assert outputs[0].stdout == "refund(order_id from the task), then submit(...)\n"
        found = outputs[1].stdout.partition("for 'Refund the order that Ana received'")[2]
        assert "refund_order(order_id" in found.partition("├")[0], (
            "the first lesson that the tour finds is the right one"
        )
    if name == "quickstart.md":
        assert "shown: ('b-1',)" in outputs[0].stdout
        assert "refund(order_id from find_orders)" in outputs[0].stdout
        assert "40.8" in outputs[1].stdout


@pytest.mark.parametrize(
    "name",
    [
        "how-it-works",
        "runtime",
        "conversations",
        "observability",
        "migrating",
        "playbook",
        "learning",
        "trust",
        "optimization",
        "evaluation",
        "suites",
        "workflows",
        "langgraph",
        "serving",
        "operations",
    ],
)
def test_every_snippet_of_a_guide_runs(name, tmp_path):
    found = blocks(f"docs/{name}.md")
    python, bash = ("\n".join(text for language, text in found if language == kind) for kind in ("python", "bash"))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in ([sys.executable, "-c", python], ["bash", "-ec", bash]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, env=environment)
        assert done.returncode == 0, done.stderr[-3000:]


def test_the_quickstart_is_short():
    assert len((ROOT / "quickstart.md").read_text(encoding="utf-8").splitlines()) < 60


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 100


def test_the_badges_say_what_the_metadata_says():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = [
        one.removeprefix("Programming Language :: Python :: ") for one in project["classifiers"] if "Python" in one
    ]
    dspy = next(one.removeprefix("dspy") for one in project["dependencies"] if one.startswith("dspy"))
    said = [f"Python {' | '.join(pythons)}", f"DSPy {dspy}", f"Licence {project['license']}"]
    found = re.findall(
        r"!\[([^]]*)\]\(https://img.shields.io/badge/(\S+)-blue\)", (ROOT / "README.md").read_text("utf-8")
    )
    assert [text for text, _ in found] == said
    assert [unquote(path).replace("_", " ").replace("-", " ", 1) for _, path in found] == said


@pytest.mark.parametrize(("number", "arm"), [(0, "none"), (1, "demonstrations")])
def test_the_transcripts_of_the_readme_are_recorded_ones(number, arm):
    run = Recording(ROOT / "benchmarks" / "real" / "office.jsonl.gz").runs[f"{arm}/forward#3"]
    shown = re.findall(r"```text\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[number]
    lines = shown.splitlines()
    made = [json.loads(line) for line in [*made_of(run), run.exchanges[-1].text]]
    assert [line.partition("(")[0] for line in lines] == [one["name"] for one in made]
    last = run.exchanges[-1]
    told = " ".join(message["content"] for message in last.request["messages"])
    for line, one in zip(lines, made, strict=True):
        args = one.get("args") or {name: value for name, value in one.items() if name not in ("name", "cited_bullets")}
        call = f"{one['name']}({', '.join(f'{name}={json.dumps(value)}' for name, value in args.items())})"
        assert call.startswith(line[:66].strip().removesuffix("...").strip())
        observed = line[66:].removesuffix(" ...").strip()
        assert one["name"] == "submit" or observed in told
    assert run.ending.solved == (arm == "demonstrations")


def made_of(run):
    """The calls that were made, as the model's next prompt shows them."""
    return [
        line
        for message in run.exchanges[-1].request["messages"]
        if message["role"] == "assistant"
        for line in message["content"].splitlines()
    ]
