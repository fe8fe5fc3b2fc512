"""`ace run`."""

import pytest
from command import ace, valid
from loopback import openai_server
from typer.testing import CliRunner

from ace.cli import app


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


def test_a_run_that_fails_says_so_by_its_exit_code(tmp_path):
    def broken(prompt):
        raise ValueError("out of order")

    with openai_server(broken) as (url, _):
        text = ace("run", "x", "--lm", "openai/x", "--api-base", url, code=1, DSPY_CACHEDIR=str(tmp_path))
    assert "out of order" in text


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
        wrong = ace("run", "--resume", file.stem, *options, cwd=tmp_path, code=1, **cache)
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
        assert problem in ace("run", *words, "--lm", "simulated:oracle", cwd=tmp_path, code=1)


@pytest.mark.parametrize(
    ("lm", "says"),
    [
        ("llama3.2", "nobody serves 'llama3.2': write PROVIDER/MODEL, as openai/llama3.2 with --api-base URL"),
        ("openai/gpt-5-mini", "no key for openai/gpt-5-mini: set OPENAI_API_KEY, or name a server"),
    ],
)
def test_a_model_that_cannot_be_asked_is_one_sentence_with_the_mend(lm, says, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = CliRunner().invoke(app, ["run", "What is 2+2?", "--lm", lm])
    assert done.exit_code == 1
    assert says in str(done.exception)
    assert done.output == ""
