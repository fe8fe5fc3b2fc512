"""`benchmarks/real/loop.py`: record, go on, replay; the model is a stand-in behind the real server (simulated)."""

import contextlib
import json
import sys

import dspy
import pytest
from chat_llama import served

from ace.suites.office import OfficeSuite
from ace.testing import decision
from benchmarks.real import install, loop
from benchmarks.real.loop_agents import ended, first_call, language_model, lessons_for, signature_line
from benchmarks.real.recording import Ending, Exchange, LiveModel, RecordedRun, Recording, RecordingError

SUITE = OfficeSuite()
GOLD = {task.task.text: [(call.name, call.args) for call in task.gold] for task in SUITE.tasks}


class Assistant:
    """Plays the reference solution where the prompt holds a lesson, and ends at once where it holds none."""

    def __init__(self):
        self.requests = []

    def __call__(self, messages):
        self.requests.append(messages)
        whole = "\n".join(message["content"] for message in messages)
        plan = next(calls for text, calls in GOLD.items() if text in whole)
        if "Lessons from earlier tasks" not in whole:
            plan = []
        done = sum(message["role"] == "assistant" for message in messages)
        if '{"tool": "NAME"' in messages[0]["content"]:
            name, args = plan[done] if done < len(plan) else ("finish", {"answer": "Done."})
            return json.dumps({"tool": name, "args": args})
        name, args = plan[done] if done < len(plan) else ("submit", {"answer": "Done."})
        calls = json.dumps({"tool_calls": [{"name": name, "args": args}]})
        return f"[[ ## next_thought ## ]]\nx\n\n[[ ## tool_calls ## ]]\n{calls}\n\n[[ ## completed ## ]]"


def run_loop(capsys, *arguments):
    """The exit code, the figures, and what was said beside them."""
    code = loop.main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, json.loads(said.out) if said.out else None, " ".join(said.err.split())


def test_a_recording_is_made_and_scored_again_without_a_model(tmp_path, capsys):
    path = tmp_path / "r.jsonl.gz"
    chosen = ["--agents", "plain,react_v2", "--families", "label,relocate"]
    with served(Assistant()) as (url, _):
        code, live, said = run_loop(capsys, path, *chosen, "--server", url)
    assert code == 0, said
    assert (live["runs"], live["model"], live["missing"], live["changed_by_replay"]) == (8, "stand-in", [], [])
    for agent in ("plain", "react_v2"):
        row = live["agents"][agent]
        assert (row["without"]["solved"], row["with"]["solved"], row["with"]["tasks"]) == (0, 2, 2)
        assert (row["gain"]["tasks"], row["gain"]["of"]) == (2, 2)
        assert row["with"]["prompt_tokens"] > row["without"]["prompt_tokens"] > 0
    code, replayed, _ = run_loop(capsys, path, *chosen, "--replay", "--json", tmp_path / "out.json")
    assert (code, replayed) == (0, live)
    assert json.loads((tmp_path / "out.json").read_text()) == live


def test_our_agent_is_recorded_and_replayed(tmp_path, capsys):
    script = [decision(name, **args) for name, args in GOLD[SUITE.tasks[3].task.text]]
    script += [decision("finish", answer="Done.")]
    path, chosen = tmp_path / "r.jsonl", ["--agents", "ours", "--families", SUITE.tasks[3].group, "--arm", "with"]
    with served(lambda messages: script.pop(0)) as (url, llama):
        code, live, said = run_loop(capsys, path, *chosen, "--server", url)
    assert (code, live["agents"]["ours"]["with"]["solved"]) == (0, 1), said
    with loop.Office().book(SUITE.tasks[3].group) as book:
        assert book.bullets[0].content in " ".join(message["content"] for message in llama.asked[0]["messages"])
    assert run_loop(capsys, path, *chosen, "--replay")[1] == live


def test_it_goes_on_where_it_was_stopped(tmp_path, capsys):
    path, assistant = tmp_path / "r.jsonl.gz", Assistant()
    with served(assistant) as (url, _):
        run_loop(capsys, path, "--agents", "plain", "--families", "label", "--arm", "with", "--server", url)
        before = len(assistant.requests)
        code, found, _ = run_loop(capsys, path, "--agents", "plain", "--families", "label", "--server", url)
        assert (code, found["runs"], len(assistant.requests) - before) == (0, 2, 1)
        again = ["--arm", "without", "--again"]
        run_loop(capsys, path, "--agents", "plain", "--families", "label", *again, "--server", url)
    assert len(assistant.requests) - before == 2
    assert len(Recording(path).runs) == 2


def test_a_server_that_is_gone_leaves_the_finished_runs(tmp_path, capsys):
    path, assistant = tmp_path / "r.jsonl", Assistant()

    def breaks(messages):
        if len(assistant.requests) == 4:  # the first run took all four
            raise RuntimeError("out of memory")
        return assistant(messages)

    with served(breaks) as (url, _):
        code, _, said = run_loop(
            capsys, path, "--agents", "plain", "--families", "label", "--arm", "with", "--server", url
        )
        assert code == 0, said
        code, found, said = run_loop(capsys, path, "--agents", "plain", "--families", "label", "--server", url)
    assert (code, found) == (1, None)
    assert "answered 500" in said
    assert list(Recording(path).runs) == ["plain/with/label#3"]


def test_a_changed_prompt_is_named(tmp_path, capsys, monkeypatch):
    path, chosen = tmp_path / "r.jsonl", ["--agents", "plain", "--families", "label", "--arm", "with"]
    with served(Assistant()) as (url, _):
        run_loop(capsys, path, *chosen, "--server", url)
    monkeypatch.setattr("benchmarks.real.loop_agents.PLAIN", "Be quick. {instructions}{catalogue}")
    code, found, said = run_loop(capsys, path, *chosen, "--replay")
    assert (code, found) == (1, None)
    assert (
        "run 'plain/with/label#3': request 1 is not in the recording: message 1 (system) differs at character 0" in said
    )
    assert "Be quick." in said


def test_an_agent_that_takes_the_refusal_for_the_models_is_found_out(tmp_path, capsys, monkeypatch):
    path, chosen = tmp_path / "r.jsonl", ["--agents", "react_v2", "--families", "label", "--arm", "with"]
    with served(Assistant()) as (url, _):
        run_loop(capsys, path, *chosen, "--server", url)
    monkeypatch.setitem(loop.AGENTS, "react_v2", swallowing)
    code, _, said = run_loop(capsys, path, *chosen, "--replay")
    assert (code, "request 1 is not in the recording" in said) == (1, True)


def swallowing(suite, episode, model, book):
    with contextlib.suppress(RecordingError):
        model.ask({"messages": []})
    return ended(episode, "completed")


def test_a_result_that_changes_by_replay_is_named(tmp_path, capsys):
    path, chosen = tmp_path / "r.jsonl", ["--agents", "plain", "--families", "label", "--arm", "with"]
    with served(Assistant()) as (url, _):
        run_loop(capsys, path, *chosen, "--server", url)
    path.write_text(path.read_text().replace('"solved": true', '"solved": false'))
    code, found, _ = run_loop(capsys, path, *chosen, "--replay")
    assert (code, found["changed_by_replay"]) == (0, ["plain/with/label#3"])
    assert found["agents"]["plain"]["with"]["solved"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--agents", "theirs"], "no agent 'theirs'; there are ours, react_v2, plain, bound"),
        (["--families", "labels"], "no family 'labels'"),
        (["--arm", "both"], "no arm 'both'; there are without, with"),
        (["--replay"], "holds none of these runs; leave out --replay to make them"),
        (["--server", "http://127.0.0.1:9/v1"], "there is no server at http://127.0.0.1:9/v1"),
    ],
)
def test_what_cannot_be_done_is_said(arguments, said, tmp_path, capsys):
    code, found, error = run_loop(capsys, tmp_path / "r.jsonl", *arguments)
    assert (code, found, said in error) == (1, None, True), error


def test_without_the_model_it_says_how_to_get_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ACE_REAL_MODEL", str(tmp_path / "nothing"))
    code, _, said = run_loop(capsys, tmp_path / "r.jsonl")
    assert (code, "run `make real-model`" in said) == (1, True)


SERVER = """
import http.server, json, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"data": [{"id": "small"}]}).encode())

http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


def installed(folder, line):
    """A cache folder whose engine is a shell script."""
    python = install.engine_python(folder)
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{line}\n")
    python.chmod(0o755)
    install.model_file(folder).touch()


def test_it_starts_a_server_of_its_own_and_ends_it(tmp_path, monkeypatch):
    (tmp_path / "server.py").write_text(SERVER)
    installed(tmp_path / "cache", f'exec {sys.executable} {tmp_path}/server.py "$@"')
    monkeypatch.setenv("ACE_REAL_MODEL", str(tmp_path / "cache"))
    with loop.own_server() as url:
        assert loop.model_at(url) == "small"
    assert not loop.answers(url)


def test_a_server_that_does_not_start_is_an_error(tmp_path, capsys, monkeypatch):
    installed(tmp_path / "cache", "exit 3")
    monkeypatch.setenv("ACE_REAL_MODEL", str(tmp_path / "cache"))
    code, _, said = run_loop(capsys, tmp_path / "r.jsonl")
    assert (code, "the server did not start" in said) == (1, True)


def test_agents_take_turns_and_each_run_comes_once():
    families = [f"f{n}" for n in range(12)]
    planned = list(loop.schedule(["ours", "react_v2", "plain"], ["without", "with"], families))
    assert len({run.name for run in planned}) == len(planned) == 72
    assert [planned[n].agent for n in range(0, 60, 10)] == ["ours", "react_v2", "plain", "react_v2", "plain", "ours"]


def test_every_family_has_a_lesson_from_its_other_task():
    office = loop.Office()
    assert len(office.families) == 25
    for family in office.families:
        with office.book(family) as book:
            lesson = lessons_for(SUITE.episode(office.task(family)), book)
        task = office.task(family)
        assert all(call.name in lesson for call in task.gold)
        assert task.task.max_iters == 8


# -- figures ----------------------------------------------------------------------------------------------------------


def made(agent, arm, family, solved, seconds):
    exchange = Exchange(key="k", request={}, seconds=seconds, prompt_tokens=100, completion_tokens=10)
    ending = Ending(solved=solved, state_right=True, ended="completed", seconds=seconds)
    return RecordedRun(name=f"{agent}/{arm}/{family}#3", exchanges=(exchange,), ending=ending)


def test_the_figures_say_what_the_lesson_did_and_what_it_cost():
    families = [f"f{n}" for n in range(10)]
    runs = [made("plain", "without", f, n < 2, 10.0) for n, f in enumerate(families)]
    runs += [made("plain", "with", f, n < 8, 10.0) for n, f in enumerate(families)]
    runs += [made("ours", "without", f, n < 3, 12.0) for n, f in enumerate(families)]
    found = loop.figures(runs, {run.name: 1 for run in runs})
    gain = found["agents"]["plain"]["gain"]
    assert (gain["tasks"], gain["of"]) == (6, 10)
    assert 0 < gain["low"] < 6 < gain["high"] < 10
    assert found["agents"]["plain"]["with"] == {
        "tasks": 10,
        "solved": 8,
        "state_right": 10,
        "rows_wrong": 10,
        "seconds_median": 10.0,
        "requests": 10,
        "prompt_tokens": 1000,
        "completion_tokens": 100,
    }
    assert found["agents"]["ours"]["seconds_to_plain"] == 1.2
    assert "gain" not in found["agents"]["ours"]
    assert found["ours_beyond"]["plain"]["without"]["tasks"] == 1


def test_few_families_have_no_interval():
    runs = [made("plain", arm, f, arm == "with", 1.0) for arm in loop.ARMS for f in ("a", "b")]
    gain = loop.figures(runs, {run.name: 0 for run in runs})["agents"]["plain"]["gain"]
    assert (gain["tasks"], gain["low"], gain["high"], gain["p"]) == (2, None, None, None)


# -- requests ---------------------------------------------------------------------------------------------------------


def test_a_schema_that_binds_the_reply_reaches_the_server():
    wanted = {"type": "json_schema", "json_schema": {"name": "call", "schema": {"type": "object"}}}
    with served(lambda messages: "[[ ## answer ## ]]\n42", grammar=lambda schema: schema) as (url, llama):
        lm = language_model(LiveModel(url))
        with dspy.context(lm=lm, adapter=dspy.ChatAdapter()):
            assert dspy.Predict("question -> answer")(question="x", config={"response_format": wanted}).answer == "42"
    assert (llama.asked[0]["grammar"], llama.asked[0]["max_tokens"]) == ({"type": "object"}, 300)


# -- the plain loop ---------------------------------------------------------------------------------------------------


def test_the_catalogue_is_of_signatures():
    tools = {tool.name: tool for tool in SUITE.episode(SUITE.tasks[0]).registry}
    assert signature_line(tools["find_orders"]).startswith("find_orders(customer, status?): Find a customer's orders")


@pytest.mark.parametrize(
    ("reply", "call"),
    [
        ('{"tool": "a", "args": {"x": 1}}', ("a", {"x": 1})),
        ('```json\n{"tool": "a", "args": {}}\n```', ("a", {})),
        ('{"tool": "a"} {"tool": "b"}', ("a", {})),
        ('{"tool": "a", "args": [1]}', ("a", {})),
        ('{"tool": "a", "args": {', ("", {})),
        ("I do not know.", ("", {})),
        ('{"x": 1}', ("", {})),
    ],
)
def test_the_first_object_of_a_reply_is_its_call(reply, call):
    assert first_call(reply) == call


@pytest.mark.parametrize(
    ("reply", "result"),
    [
        ("hm", "Result: Error: reply with one JSON object."),
        ('{"tool": "fly", "args": {}}', "Result: Error: there is no tool 'fly'."),
        ('{"tool": "get_order", "args": {"order_id": "o-1"}}', "Result: Error: There is no order with the id 'o-1'."),
        ('{"tool": "get_order", "args": {"nr": 1}}', "Result: Error: "),
        ('{"tool": "find_person", "args": {"name": "Ivo"}}', 'Result: [{"person_id": '),
    ],
)
def test_what_went_wrong_is_a_result_and_the_loop_goes_on(reply, result, tmp_path, capsys):
    path = tmp_path / "r.jsonl"
    with served(lambda messages: reply) as (url, llama):
        code, found, _ = run_loop(
            capsys, path, "--agents", "plain", "--families", "label", "--arm", "without", "--server", url
        )
    assert (code, found["agents"]["plain"]["without"]["requests"]) == (0, 8)
    assert llama.asked[1]["messages"][-1]["content"].startswith(result)
    assert Recording(path).runs["plain/without/label#3"].ending.ended == "max_iterations"


def test_only_the_call_that_was_made_stays_in_the_chat(tmp_path, capsys):
    call = '{"tool": "find_person", "args": {"name": "Ivo"}}'
    with served(lambda messages: f"{call} {call} and so on") as (url, llama):
        run_loop(
            capsys, tmp_path / "r", "--agents", "plain", "--families", "label", "--arm", "without", "--server", url
        )
    assert llama.asked[1]["messages"][2] == {"role": "assistant", "content": call}
