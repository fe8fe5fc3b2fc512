"""`ace doctor`, and the version."""

import socket

from command import ace
from loopback import openai_server, refusing
from typer.testing import CliRunner

from ace.cli import app
from ace.playbook import CallableEmbedder, Playbook


def test_doctor_is_content(tmp_path):
    with Playbook.open(
        tmp_path / "team.db", embedder=CallableEmbedder("x", lambda texts: [[1.0]] * len(texts))
    ) as book:
        book.add(section="Pitfalls", content="Ask first.")
    said = ace("doctor", "--playbook", str(tmp_path / "team.db"))
    assert "right hash" in said
    assert "dspy-ace 1" in said
    assert "revision 1, 1 lesson, 0 waiting" in said


def test_doctor_names_a_server_that_is_not_there_and_a_book_that_is_none(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        base = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    (tmp_path / "no.db").write_text("no database")
    words = ["doctor", "--lm", "openai/x", "--api-base", base, "--playbook", str(tmp_path / "no.db")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    problems = [line for line in done.output.splitlines() if line.startswith("PROBLEM")]
    assert len(problems) == 2
    assert base in problems[0]
    assert "no.db" in problems[1]


def test_doctor_asks_the_model_a_word():
    with openai_server(lambda prompt: "ready") as (url, requests):
        assert "the model openai/x answers" in ace("doctor", "--lm", "openai/x", "--api-base", url)
    assert len(requests) == 1
    with refusing() as url:
        assert "PROBLEM" in ace("doctor", "--lm", "openai/x", "--api-base", url, code=1)
    assert "always there" in ace("doctor", "--lm", "simulated")


def test_the_version_is_told():
    assert "dspy-ace 1" in CliRunner().invoke(app, ["--version"]).output
