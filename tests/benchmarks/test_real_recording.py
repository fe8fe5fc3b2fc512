"""`benchmarks/real/recording.py`: what is kept of a run, and what a replay accepts."""

import gzip
import subprocess

import pytest
from chat_llama import served

from benchmarks.real import recording
from benchmarks.real.recording import (
    Ending,
    Exchange,
    LiveModel,
    RecordedRun,
    Recording,
    RecordingError,
    ReplayedModel,
    difference,
    key_of,
)

ENDING = Ending(solved=True, state_right=True, ended="completed", seconds=1.5)


def asks(*texts, **settings):
    roles = ["system", "user", "assistant", "user", "assistant", "user"]
    return {"messages": [{"role": r, "content": t} for r, t in zip(roles, texts, strict=False)], **settings}


def a_run(name, *requests):
    exchanges = tuple(
        Exchange(key=key_of(r), request=r, text=f"reply {n}", seconds=0.1) for n, r in enumerate(requests)
    )
    return RecordedRun(name=name, exchanges=exchanges, ending=ENDING)


def test_a_recording_that_grows_does_not_make_its_commit_another(tmp_path, monkeypatch):
    def git(*said):
        name = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        return subprocess.run(
            ["git", "-C", str(tmp_path), *name, *said], check=True, capture_output=True, text=True
        ).stdout

    monkeypatch.setattr(recording, "__file__", str(tmp_path / "recording.py"))
    assert recording.commit() == "", "it is no clone"
    for file in ("prompt.py", "runs.jsonl.gz"):
        (tmp_path / file).write_text("1")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    head = git("rev-parse", "--short", "HEAD").strip()
    (tmp_path / "runs.jsonl.gz").write_text("2")
    assert recording.commit() == head
    (tmp_path / "prompt.py").write_text("2")
    assert recording.commit() == f"{head}-dirty"


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.jsonl.gz"])
def test_a_recording_is_read_as_it_was_written(name, tmp_path):
    written = Recording(tmp_path / name)
    written.of_model("small")
    written.add(a_run("plain/with/label#3", asks("s", "é"), asks("s", "é", "a", "Result: 1", max_tokens=9)))
    written.add(a_run("ours/with/label#3", asks("s", "other")))
    read = Recording(tmp_path / name)
    assert (read.model, read.runs) == ("small", written.runs)
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


def test_equal_recordings_are_equal_files(tmp_path):
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        Recording(tmp_path / name).add(a_run("x", asks("s", "u")))
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_a_run_that_is_made_again_takes_the_place_of_the_first(tmp_path):
    recording = Recording(tmp_path / "r.jsonl")
    recording.add(a_run("x", asks("s", "old")))
    recording.add(a_run("x", asks("s", "new")))
    (run,) = Recording(tmp_path / "r.jsonl").runs.values()
    assert run.exchanges[0].request == asks("s", "new")


@pytest.mark.parametrize(
    "harm", [lambda b: b[:-20], lambda b: b"no gzip", lambda b: gzip.compress(b'{"model": "m"}\n{}\n')]
)
def test_a_damaged_recording_is_named(harm, tmp_path):
    path = tmp_path / "r.jsonl.gz"
    Recording(path).add(a_run("x", asks("s", "u")))
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(RecordingError, match=r"r\.jsonl\.gz is no recording, or a damaged one"):
        Recording(path)


def test_a_recording_is_of_one_model(tmp_path):
    recording = Recording(tmp_path / "r.jsonl")
    recording.of_model("small")
    recording.add(a_run("x", asks("s", "u")))
    recording.of_model("small")
    with pytest.raises(RecordingError, match="of the model 'small', the server has 'large'"):
        recording.of_model("large")


def test_the_key_is_of_all_that_is_sent():
    same = {"max_tokens": 9, "messages": [{"content": "hi", "role": "user"}]}
    assert key_of(same) == key_of({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9})
    others = [
        {**same, "max_tokens": 8},
        {**same, "messages": [*same["messages"], *same["messages"]]},
        {**same, "stop": []},
    ]
    assert len({key_of(request) for request in (same, *others)}) == 4


def test_a_replay_gives_the_replies_in_their_order():
    run = a_run("x", asks("s", "u"), asks("s", "u", "a", "r"))
    model = ReplayedModel(run)
    assert [model.ask(e.request).text for e in run.exchanges] == ["reply 0", "reply 1"]
    model.check_end()


@pytest.mark.parametrize(
    ("now", "named"),
    [
        (
            asks("s", "Move the lamp to the south."),
            "message 2 (user) differs at character 21: it was 'Move the lamp to the no",
        ),
        (asks("s", "Move the lamp to the north.", "a"), "it had 2 messages and has 3"),
        ({"messages": [{"role": "user", "content": "s"}]}, "message 1 was of the role 'system' and is of 'user'"),
        (asks("s", "Move the lamp to the north.", max_tokens=9), "max_tokens was None and is 9"),
    ],
)
def test_a_request_that_is_not_recorded_says_what_changed(now, named):
    model = ReplayedModel(a_run("ours/with/move#3", asks("s", "Move the lamp to the north.")))
    with pytest.raises(RecordingError) as caught:
        model.ask(now)
    assert str(caught.value).startswith("run 'ours/with/move#3': request 1 is not in the recording: ")
    assert named in str(caught.value)
    assert str(caught.value).endswith("record it again with --again")
    assert model.problem is caught.value


def test_only_the_place_that_differs_is_shown():
    long = "x" * 1_000
    text = difference(asks("s", long + "old" + long), asks("s", long + "new" + long))
    assert "character 1000" in text
    assert len(text) < 400


def test_a_run_that_asks_more_or_less_than_before_is_no_replay():
    run = a_run("x", asks("s", "u"))
    with pytest.raises(RecordingError, match="it made 0 requests, and 1 are in the recording"):
        ReplayedModel(run).check_end()
    model = ReplayedModel(run)
    model.ask(asks("s", "u"))
    with pytest.raises(RecordingError, match="there are 1 requests in the recording, and one more is made"):
        model.ask(asks("s", "u"))


def test_a_live_model_keeps_what_it_was_asked_and_what_it_cost():
    with served(lambda messages: "hi you") as (url, _):
        model = LiveModel(url)
        assert model.ask(asks("s", "hello there", max_tokens=9)).text == "hi you"
    (kept,) = model.exchanges
    assert (kept.key, kept.request) == (key_of(kept.request), asks("s", "hello there", max_tokens=9))
    assert (kept.prompt_tokens, kept.completion_tokens, kept.finish_reason) == (3, 2, "stop")
    assert 0 <= kept.seconds < 30


def test_a_prompt_that_is_too_long_is_part_of_the_run():
    with served(lambda messages: "hi") as (url, _):
        found = LiveModel(url).ask(asks("s", "word " * 3_000))
    assert found.error == "context_length_exceeded"


def test_a_server_that_fails_or_is_gone_is_no_part_of_it():
    with served(lambda messages: 1 / 0) as (url, _):
        model = LiveModel(url)
        with pytest.raises(RecordingError, match="answered 500"):
            model.ask(asks("s", "u"))
    assert (model.exchanges, "answered 500" in str(model.problem)) == ([], True)
    with pytest.raises(RecordingError, match="gave no reply"):
        LiveModel(url).ask(asks("s", "u"))
