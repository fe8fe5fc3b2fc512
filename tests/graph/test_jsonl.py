"""`JsonlCheckpointer`: the protocol, the file, and what damage does to it."""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import os
import random
import re
import threading
import zlib
from datetime import datetime
from typing import Annotated, Any, TypedDict

import pytest
from graph.graphs import State, chain, thread
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from pydantic import BaseModel

from ace import graph
from ace.graph import CheckpointError, JsonlCheckpointer, WorkflowInterrupted


class InSync(JsonlCheckpointer):
    """Async callers get the sync methods, so that one suite tests both."""

    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        return self.put(*args, **kwargs)

    async def aput_writes(self, *args: Any, **kwargs: Any) -> Any:
        return self.put_writes(*args, **kwargs)

    async def aget_tuple(self, *args: Any, **kwargs: Any) -> Any:
        return self.get_tuple(*args, **kwargs)

    async def alist(self, *args: Any, **kwargs: Any) -> Any:
        for one in self.list(*args, **kwargs):
            yield one

    async def adelete_thread(self, *args: Any, **kwargs: Any) -> Any:
        return self.delete_thread(*args, **kwargs)

    async def adelete_for_runs(self, *args: Any, **kwargs: Any) -> Any:
        return self.delete_for_runs(*args, **kwargs)

    async def acopy_thread(self, *args: Any, **kwargs: Any) -> Any:
        return self.copy_thread(*args, **kwargs)

    async def aprune(self, *args: Any, **kwargs: Any) -> Any:
        return self.prune(*args, **kwargs)


@pytest.mark.parametrize("kind", [JsonlCheckpointer, InSync], ids=["async", "sync"])
def test_langgraphs_conformance_suite_passes_whole(tmp_path, kind):
    folders = iter(range(100))

    @checkpointer_test(name=kind.__name__)
    async def saver():
        yield kind(tmp_path / str(next(folders)))

    report = asyncio.run(validate(saver))
    failures = [failure for result in report.results.values() for failure in result.failures]
    assert failures == []
    assert {name for name, result in report.results.items() if result.passed} == {one.value for one in Capability}
    assert sum(result.tests_passed for result in report.results.values()) >= 81


def saved(folder, thread_id="t", steps=3) -> JsonlCheckpointer:
    saver = JsonlCheckpointer(folder)
    names = [f"n{i}" for i in range(steps)]
    graph.compile(chain(*names), checkpointer=saver).invoke({"x": {"big": "y" * 2_000}}, thread_id=thread_id)
    return saver


def test_async_callers_get_what_a_subclass_does(tmp_path):
    class Counting(JsonlCheckpointer):
        puts = 0

        def put(self, *args, **kwargs):
            self.puts += 1
            return super().put(*args, **kwargs)

    saver = Counting(tmp_path)
    flow = graph.compile(chain("a"), checkpointer=saver)
    asyncio.run(flow.ainvoke({}, thread_id="t"))
    assert saver.puts > 0


def test_the_history_is_listed_without_reading_a_state(tmp_path, monkeypatch):
    saved(tmp_path)
    saver = JsonlCheckpointer(tmp_path)
    monkeypatch.setattr(saver.serde, "decode", lambda value: pytest.fail("a state was read"))
    history = saver.history("t")
    assert [(info.step, info.source) for info in history] == [
        (3, "loop"),
        (2, "loop"),
        (1, "loop"),
        (0, "loop"),
        (-1, "input"),
    ]
    assert [info.node for info in history] == ["n2", "n1", "n0", "", ""]
    assert history[0].parent_id == history[1].checkpoint_id
    assert [datetime.fromisoformat(info.created_at) for info in history] == sorted(
        (datetime.fromisoformat(info.created_at) for info in history), reverse=True
    )
    assert saver.history("unknown") == []


def test_the_node_of_a_checkpoint_is_known_without_those_before_it_and_where_it_was_sent_to(tmp_path):
    def again(state):
        return Send("worker", {"n": 1}) if state["n"] < 3 else END

    builder = chain("first", "last").add_node("worker", lambda state: {"n": 1})
    builder.add_conditional_edges("last", lambda state: Send("worker", {"n": 1}), ["worker"])
    builder.add_conditional_edges("worker", again, ["worker", END])
    saver = JsonlCheckpointer(tmp_path)
    graph.compile(builder, checkpointer=saver).invoke({"n": -2}, thread_id="t")
    nodes = [info.node for info in saver.history("t")]
    assert nodes[-4:] == ["last", "first", "", ""]
    assert {*nodes[:-4]} == {"worker"}
    assert len(nodes) > 6
    saver.prune(["t"])
    assert [info.node for info in JsonlCheckpointer(tmp_path).history("t")] == ["worker"]


def test_a_value_that_stays_is_written_once(tmp_path):
    few, many = (saved(tmp_path, f"t{n}", n).path_of(f"t{n}").read_text().count("y" * 2_000) for n in (2, 9))
    assert few == many == 3  # as the input, as a write of the first step, as the field


def test_every_line_is_json(tmp_path):
    saver = saved(tmp_path)
    lines = [json.loads(line) for line in saver.path_of("t").read_text().splitlines()]
    assert {(line["v"], line["thread"], "writes" in line or "values" in line) for line in lines} == {(2, "t", True)}


@pytest.mark.parametrize(
    "thread_id",
    [
        "../../etc/passwd",
        "a/b",
        "a_b",
        "",
        ".",
        "..",
        "con",
        "x" * 500,
        "Ana",
        "ana",
        "naïve ☃",
        "\ud800",
        "a\nb",
        "a\x00b",
    ],
    ids=repr,
)
def test_any_id_has_a_file_of_its_own_in_the_folder(tmp_path, thread_id):
    saver = JsonlCheckpointer(tmp_path / "saved")
    path = saver.path_of(thread_id)
    assert path.parent == tmp_path / "saved"
    assert len(path.name) < 120
    assert re.fullmatch(r"[A-Za-z0-9._-]+\.jsonl", path.name)
    others = {
        saver.path_of(other).name.lower() for other in ("a/b", "a_b", "Ana", "ana", "x" * 499) if other != thread_id
    }
    assert path.name.lower() not in others


def test_threads_are_listed(tmp_path):
    for name in ("b/1", "a", "part-1"):
        saved(tmp_path, name)
    (tmp_path / "left.jsonl.part").write_text("by a compaction that died")
    assert sorted(JsonlCheckpointer(tmp_path).threads()) == ["a", "b/1", "part-1"]
    everything = list(JsonlCheckpointer(tmp_path).list(None))
    assert {one.config["configurable"]["thread_id"] for one in everything} == {"a", "b/1", "part-1"}


# -- damage ----------------------------------------------------------------------------------------------------------------


def damage_bit(data: bytes, lines: list[bytes]) -> bytes:
    at = len(lines[0]) + len(lines[1]) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def lose_line(data: bytes, lines: list[bytes]) -> bytes:
    return b"".join([*lines[:2], *lines[3:]])


def swap_lines(data: bytes, lines: list[bytes]) -> bytes:
    return b"".join([lines[0], lines[2], lines[1], *lines[3:]])


def double_line(data: bytes, lines: list[bytes]) -> bytes:
    return b"".join([*lines[:3], lines[2], *lines[3:]])


def lose_first(data: bytes, lines: list[bytes]) -> bytes:
    return b"".join(lines[1:])


def garbage_line(data: bytes, lines: list[bytes]) -> bytes:
    return b"".join([*lines[:3], b"not json\n", *lines[3:]])


@pytest.mark.parametrize("how", [damage_bit, lose_line, swap_lines, double_line, lose_first, garbage_line])
def test_damage_in_the_middle_is_a_clear_error(tmp_path, how):
    path = saved(tmp_path).path_of("t")
    data = path.read_bytes()
    path.write_bytes(how(data, data.splitlines(keepends=True)))
    for _ in range(2):  # and it stays one
        with pytest.raises(CheckpointError, match=r"is damaged: line \d+"):
            JsonlCheckpointer(tmp_path).get_tuple({"configurable": {"thread_id": "t"}})
    workflow = graph.compile(chain("n0"), checkpointer=JsonlCheckpointer(tmp_path))
    with pytest.raises(CheckpointError, match="is damaged"):
        workflow.invoke({}, thread_id="t")
    assert path.read_bytes() == how(data, data.splitlines(keepends=True))  # nothing was lost on top


def test_every_changed_byte_before_the_last_line_is_noticed(tmp_path):
    path = saved(tmp_path, steps=1).path_of("t")
    data = path.read_bytes()
    end = data[:-1].rindex(b"\n")
    for at in random.Random(0).sample(range(end), min(300, end)):
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << (at % 7))]) + data[at + 1 :])
        with pytest.raises(CheckpointError):
            JsonlCheckpointer(tmp_path).get_tuple({"configurable": {"thread_id": "t"}})


def test_a_torn_end_is_cut_with_a_warning(tmp_path, caplog):
    path = saved(tmp_path).path_of("t")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"sum":"00000000","kind":"che')
    with caplog.at_level(logging.WARNING):
        assert JsonlCheckpointer(tmp_path).get_tuple({"configurable": {"thread_id": "t"}}) is not None
    assert "torn" in caplog.text
    assert path.read_bytes() == whole


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.full), 7])
def test_a_file_that_is_cut_at_any_byte_keeps_every_whole_line(tmp_path, step):
    path = saved(tmp_path, steps=1).path_of("t")
    whole = path.read_bytes()
    for cut in range(0, len(whole) + 1, step):
        path.write_bytes(whole[:cut])
        found = JsonlCheckpointer(tmp_path)
        found.history("t")
        assert path.read_bytes() == whole[: whole.rfind(b"\n", 0, cut) + 1], cut
        found.put({"configurable": {"thread_id": "t"}}, empty_checkpoint(), {"step": 9}, {})
        assert JsonlCheckpointer(tmp_path).history("t")[0].step == 9


def test_a_save_is_on_the_disk_when_it_returns(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync

    def counted(file):
        synced.append(os.fstat(file).st_ino)
        fsync(file)

    saver = JsonlCheckpointer(tmp_path)
    monkeypatch.setattr("os.fsync", counted)
    saver.put({"configurable": {"thread_id": "t"}}, empty_checkpoint(), {"step": 0}, {})
    assert synced == [saver.path_of("t").stat().st_ino, tmp_path.stat().st_ino]


def test_a_file_that_was_renamed_to_another_threads_is_refused(tmp_path):
    saver = saved(tmp_path)
    saver.path_of("t").rename(saver.path_of("u"))
    with pytest.raises(CheckpointError, match="holds 't'"):
        JsonlCheckpointer(tmp_path).get_tuple({"configurable": {"thread_id": "u"}})


def test_a_newer_format_is_refused(tmp_path):
    body = b'"v":3,"thread":"t"}'
    JsonlCheckpointer(tmp_path).path_of("t").write_bytes(b'{"sum":"%08x",%s\n' % (zlib.crc32(body), body))
    with pytest.raises(CheckpointError, match="format 3, expected 2"):
        JsonlCheckpointer(tmp_path).get_tuple({"configurable": {"thread_id": "t"}})


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    saver = saved(tmp_path)
    before = saver.path_of("t").read_bytes()
    monkeypatch.setattr("ace.core.durable.os.fsync", lambda file: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(CheckpointError, match="No space left"):
        saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, empty_checkpoint(), {"step": 9}, {})
    monkeypatch.undo()
    assert saver.path_of("t").read_bytes() == before
    assert JsonlCheckpointer(tmp_path).history("t")[0].step == 3


def test_what_is_no_json_is_refused_before_anything_is_written(tmp_path):
    saver = saved(tmp_path)
    before = saver.path_of("t").read_bytes()
    checkpoint = empty_checkpoint() | {
        "channel_values": {"a": 1, "b": object()},
        "channel_versions": {"a": "1", "b": "1"},
    }
    with pytest.raises(CheckpointError, match=r"state\.b is a builtins:object"):
        saver.put(
            {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, checkpoint, {"step": 9}, {"a": "1", "b": "1"}
        )
    assert saver.path_of("t").read_bytes() == before


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot make the folder"):
        JsonlCheckpointer(tmp_path / "file" / "saved")


# -- upkeep ----------------------------------------------------------------------------------------------------------------


def test_pruning_keeps_what_is_needed_to_go_on(tmp_path):
    builder = chain("a", "b", "c")
    saver = JsonlCheckpointer(tmp_path)
    with pytest.raises(WorkflowInterrupted):
        graph.compile(builder, checkpointer=saver, interrupt_before=["c"]).invoke({"x": "kept"}, thread_id="t")
    before = saver.path_of("t").stat().st_size
    saver.prune(["t"])
    assert saver.path_of("t").stat().st_size < before
    assert len(saver.history("t")) == 1
    for one in (saver, JsonlCheckpointer(tmp_path)):
        assert one.get_tuple({"configurable": {"thread_id": "t"}}).checkpoint["channel_values"]["x"] == "kept"
    assert graph.compile(builder, checkpointer=JsonlCheckpointer(tmp_path)).resume("t")["log"] == ["a", "b", "c"]


def test_an_unknown_strategy_is_refused(tmp_path):
    with pytest.raises(ValueError, match="expected 'keep_latest' or 'delete'"):
        JsonlCheckpointer(tmp_path).prune(["t"], strategy="latest")


def test_a_copy_goes_its_own_way(tmp_path):
    saver = saved(tmp_path)
    saver.copy_thread("t", "u")
    graph.compile(chain("more"), checkpointer=saver).invoke({}, thread_id="u")
    assert len(saver.history("t")) == 5
    assert len(JsonlCheckpointer(tmp_path).history("u")) > 5
    with pytest.raises(CheckpointError, match="there already"):
        saver.copy_thread("t", "u")


def test_a_deleted_thread_is_gone_for_everybody(tmp_path):
    saver, other = saved(tmp_path), JsonlCheckpointer(tmp_path)
    assert other.history("t")
    saver.delete_thread("t")
    assert other.history("t") == []
    assert other.get_tuple({"configurable": {"thread_id": "t"}}) is None
    graph.compile(chain("again"), checkpointer=other).invoke({}, thread_id="t")
    assert len(saver.history("t")) == 3


def test_a_file_that_took_anothers_place_is_read_again(tmp_path):
    """File systems give the number of a deleted file to the next one."""
    watching = saved(tmp_path / "a")
    path = watching.path_of("t")
    assert watching.history("t")[0].step == 3
    for steps in (3, 9):  # as long, and longer
        other = saved(tmp_path / f"b{steps}", steps=steps)
        inode = path.stat().st_ino
        path.write_bytes(other.path_of("t").read_bytes())  # in place
        assert path.stat().st_ino == inode
        assert watching.history("t") == other.history("t")


def test_the_branches_of_a_fork_keep_their_values(tmp_path):
    saver = JsonlCheckpointer(tmp_path)
    compiled = graph.compile(
        chain("a", "b", a=lambda s: {"x": s["x"] + 1}, b=lambda s: {"x": s["x"] * 10}), checkpointer=saver
    ).graph
    config = {"configurable": {"thread_id": "t"}}
    compiled.invoke({"x": 1}, config)
    middle = next(s for s in compiled.get_state_history(config) if s.next == ("b",))
    for x in (5, 7):
        compiled.invoke(None, compiled.update_state(middle.config, {"x": x}))
    ends = [s.values["x"] for s in compiled.get_state_history(config) if s.next == ()]
    assert sorted(ends) == [20, 50, 70]
    assert sorted(
        s.values["x"]
        for s in graph.compile(chain("a", "b"), checkpointer=JsonlCheckpointer(tmp_path)).graph.get_state_history(
            config
        )
        if s.next == ()
    ) == [20, 50, 70]


def test_delta_channels_survive_pruning(tmp_path):
    class Deltas(TypedDict, total=False):
        log: Annotated[list, DeltaChannel(lambda old, new: [*old, *[x for one in new for x in one]])]

    def built(saver):
        builder, previous = StateGraph(Deltas), START
        for name in ("a", "b", "c"):
            builder.add_node(name, lambda state, name=name: {"log": [name]})
            builder.add_edge(previous, name)
            previous = name
        return graph.compile(builder, checkpointer=saver, interrupt_before=["c"])

    saver = JsonlCheckpointer(tmp_path)
    with pytest.raises(WorkflowInterrupted):
        built(saver).invoke({"log": []}, thread_id="t")
    saver.prune(["t"])
    assert built(JsonlCheckpointer(tmp_path)).resume("t")["log"] == ["a", "b", "c"]


# -- company ---------------------------------------------------------------------------------------------------------------


def counted(saver: BaseCheckpointSaver, thread_id: str, steps: int) -> list[str]:
    names = [f"{thread_id}-{i}" for i in range(steps)]
    return graph.compile(chain(*names), checkpointer=saver).invoke({}, thread_id=thread_id)["log"]


def test_a_hundred_threads_on_one_saver_lose_and_mix_nothing(tmp_path):
    saver, results = JsonlCheckpointer(tmp_path), {}

    def work(name: str) -> None:
        results[name] = counted(saver, name, 4)

    workers = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(100)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    expected = {f"t{i}": [f"t{i}-{j}" for j in range(4)] for i in range(100)}
    assert results == expected
    fresh = JsonlCheckpointer(tmp_path)
    read = {name: fresh.get_tuple({"configurable": {"thread_id": name}}) for name in expected}
    assert {name: one.checkpoint["channel_values"]["log"] for name, one in read.items()} == expected
    assert all(len(fresh.history(name)) == 6 for name in expected)


def test_a_hundred_async_threads_on_one_saver_lose_and_mix_nothing(tmp_path):
    saver = JsonlCheckpointer(tmp_path)

    async def work(name: str) -> list[str]:
        workflow = graph.compile(chain(f"{name}-0", f"{name}-1"), checkpointer=saver)
        return (await workflow.ainvoke({}, thread_id=name))["log"]

    async def everybody() -> list[list[str]]:
        return await asyncio.gather(*(work(f"t{i}") for i in range(100)))

    assert asyncio.run(everybody()) == [[f"t{i}-0", f"t{i}-1"] for i in range(100)]
    assert len(JsonlCheckpointer(tmp_path).threads()) == 100


def _append_many(folder: str, who: int, count: int) -> None:
    saver = JsonlCheckpointer(folder)
    for i in range(count):
        config = {"configurable": {"thread_id": "shared", "checkpoint_ns": f"p{who}"}}
        checkpoint = empty_checkpoint() | {
            "channel_values": {"who": [who, i]},
            "channel_versions": {"who": f"{who}-{i}"},
        }
        saver.put(config, checkpoint, {"step": i}, {"who": f"{who}-{i}"})


def test_several_processes_may_write_one_thread(tmp_path):
    context = multiprocessing.get_context("fork")
    crowd = [context.Process(target=_append_many, args=(str(tmp_path), who, 30)) for who in range(4)]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join()
    saver = JsonlCheckpointer(tmp_path)
    for who in range(4):
        config = {"configurable": {"thread_id": "shared", "checkpoint_ns": f"p{who}"}}
        found = [one.checkpoint["channel_values"]["who"] for one in saver.list(config)]
        assert found == [[who, i] for i in reversed(range(30))]


class Secret(BaseModel):
    x: int = 0


def test_classes_are_declared_by_hand_or_by_the_state(tmp_path):
    class Named(TypedDict, total=False):
        secret: Secret

    builder = chain("a", a=lambda s: {"x": Secret(x=1)}, schema=State)
    with pytest.raises(CheckpointError, match="was not declared"):
        graph.compile(builder, checkpointer=JsonlCheckpointer(tmp_path / "1")).invoke({}, thread_id="t")
    for number, options in enumerate(({"classes": [Secret]}, {})):
        saver = JsonlCheckpointer(tmp_path / f"2{number}", classes=[] if options else [Secret])
        assert graph.compile(builder, checkpointer=saver, **options).invoke({}, thread_id="t")["x"] == Secret(x=1)
    named = chain("a", a=lambda s: {"secret": Secret(x=2)}, schema=Named)
    saver = JsonlCheckpointer(tmp_path / "3")
    graph.compile(named, checkpointer=saver).invoke({}, thread_id="t")
    assert graph.compile(named, checkpointer=saver).graph.get_state(thread("t")).values["secret"] == Secret(x=2)
