"""Kills a run of an agent with SIGKILL, for real, and goes on with it in another process.

Run as a script: ``harness.py FOLDER CASE...`` where a case is ``plan-save:N`` or ``plan-tool:SEED`` (the calls are those of a
lesson's plan, which the model takes as one call), or without a plan ``save:N`` (die right after the Nth state is on the disk) or
``tool:SEED`` (the parent kills at a random moment inside a random tool call). One JSON line per case goes to stdout. Each run
is a process of its own, forked from one that has imported everything, so that a hundred kills take seconds.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
from pathlib import Path

from ace import FolderRunStore, ReActGenerator, tool
from ace.agent import Acting, Thinking
from ace.playbook import PlaybookBullet
from ace.playbook.bullet import readable
from ace.playbook.plan import Call, FromTask, Plan, Situation
from ace.playbook.results import Retrieved
from ace.testing import FunctionLM, decision

STEPS = 30
PLAN_NAME = "plan_append_put_look"


def lm() -> FunctionLM:
    """Appends, puts and looks in turn; what comes next depends on the prompt alone."""

    def answer(prompt):
        done = len(prompt.steps)
        if PLAN_NAME in prompt.tools and not done:
            slots = {name: list(range(first, STEPS, 3)) for first, name in enumerate(("n", "put_n", "look_n"))}
            return decision(PLAN_NAME, **slots)
        if done >= STEPS:
            return decision("finish", answer=f"{done} steps")
        return decision(("append", "put", "look")[done % 3], n=done)

    return FunctionLM("test/crash", answer)


class Lesson:
    """A memory that holds one lesson, with a plan that was released: the thirty calls as a loop."""

    def retrieve_for(self, task, tools) -> Retrieved:
        said = {"args": {"n": FromTask(slot="n")}, "changes": True, "times": "each", "over": "n", "loop": 1}
        plan = Plan(calls=tuple(Call(tool=name, **said) for name in ("append", "put", "look")))
        fields = readable(plan, [Situation(template="x")])
        bullet = PlaybookBullet(id="b-1", section="Strategies", tool_schema_hashes=dict(tools), **fields)
        return Retrieved([bullet], released=["b-1"])


def tools(world: Path, inside: int | None, seed: int):
    """Tools with real effects; in call number `seed` they tell the parent that they are inside."""
    draw = random.Random(seed)
    target, before, after = draw.randrange(STEPS), draw.random() * 0.01, draw.random() * 0.01

    def effect(n: int, act) -> None:
        here = inside is not None and n == target
        if here:
            os.write(inside, b"x")
            time.sleep(before)
        act()
        if here:
            time.sleep(after)

    def write_line(n: int) -> None:
        with (world / "lines").open("a", encoding="utf-8") as file:
            file.write(f"{n}\n")
            file.flush()
            os.fsync(file.fileno())

    @tool
    def append(n: int) -> str:
        """Append a line: not to be done twice."""
        effect(n, lambda: write_line(n))
        return f"appended {n}"

    @tool(idempotent=True)
    def put(n: int) -> str:
        """Put a file: may be done twice."""
        effect(n, lambda: (world / f"put-{n}").write_text(str(n), encoding="utf-8"))
        return f"put {n}"

    @tool(read_only=True)
    def look(n: int) -> str:
        """Look."""
        effect(n, lambda: None)
        return f"saw {n}"

    return [append, put, look]


class DeadlyStore(FolderRunStore):
    """Kills its own process right after the nth state is safe."""

    def __init__(self, folder: Path, die_at: int | None) -> None:
        super().__init__(folder)
        self.die_at, self.saves = die_at, 0

    def save(self, snapshot) -> None:
        super().save(snapshot)
        self.saves += 1
        if self.saves == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)


def agent(folder: Path, die_at: int | None = None, inside: int | None = None, seed: int = 0) -> ReActGenerator:
    (folder / "world").mkdir(parents=True, exist_ok=True)
    planned = {"playbook": Lesson(), "plans": "approved"} if folder.name.startswith("plan-") else {}
    store, made = DeadlyStore(folder / "runs", die_at), tools(folder / "world", inside, seed)
    return ReActGenerator(tools=made, lm=lm(), run_store=store, max_iters=STEPS + 5, **planned)


def state(folder: Path) -> list:
    """Everything the tools did."""
    world = folder / "world"
    lines = (world / "lines").read_text(encoding="utf-8").split() if (world / "lines").exists() else []
    return [lines, sorted(path.name for path in world.glob("put-*"))]


def in_child(work) -> tuple[int, dict]:
    """Run `work` in a forked process; its exit status and what it returned as JSON."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            os.write(write, json.dumps(work()).encode())
            os._exit(0)
        except BaseException as error:
            os.write(write, json.dumps({"error": repr(error)}).encode())
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        text = file.read()
    _, status = os.waitpid(pid, 0)
    return status, json.loads(text) if text else {}


def resume(folder: Path, run_id: str, decision: str | None = None) -> dict:
    def work() -> dict:
        out = agent(folder).resume(run_id, decision)
        last = [step for step in out.structured_trace if step.outcome == "interrupted"]
        return {
            "reason": out.termination_reason,
            "answer": out.answer,
            "waits": out.request.kind if out.request else None,
            "interrupted": [step.tool_name for step in last],
            "attempts": max(step.attempts for step in out.structured_trace) if out.structured_trace else 1,
        }

    status, result = in_child(work)
    assert status == 0, result
    return result


def die_in_tool(folder: Path, seed: int) -> None:
    """Start a run and kill it at a random moment inside a random tool call."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        agent(folder, inside=write, seed=seed).run("x")
        os._exit(0)
    os.close(write)
    select.select([read], [], [], 60)
    time.sleep(random.Random(seed + 1).random() * 0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(read)


def die_at_save(folder: Path, n: int) -> bool:
    """Start a run that kills itself; False when it ended before."""
    status, result = in_child(lambda: {"done": agent(folder, die_at=n).run("x").answer})
    assert os.WIFSIGNALED(status) or "done" in result, result
    return os.WIFSIGNALED(status)


def case(folder: Path, spec: str) -> dict:
    kind, _, number = spec.partition(":")
    folder = folder / f"{kind}-{number}"
    killed = die_at_save(folder, int(number)) if kind.endswith("save") else die_in_tool(folder, int(number)) is None
    store = FolderRunStore(folder / "runs")
    (run_id,) = store.run_ids()
    stored = store.load(run_id)
    out = [c.call.name for c in stored.state.calls if c.status == "out"] if isinstance(stored.state, Acting) else []
    at_boundary = isinstance(stored.state, Thinking)
    before = state(folder)
    first = resume(folder, run_id)
    report = {"case": spec, "killed": killed, "boundary": at_boundary, "out": out, "first": first, "repeated": False}
    if first["waits"]:
        report["repeated"] = state(folder) != before
        done = str(_current(stored)) in before[0]
        report["last"] = resume(folder, run_id, "deny" if done else "approve")
    else:
        report["last"] = first
    report["state"] = state(folder)
    return report


def _current(stored) -> int:
    return next(c.call.args["n"] for c in stored.state.calls if c.status == "out")


if __name__ == "__main__":
    root = Path(sys.argv[1])
    whole = in_child(lambda: {"answer": agent(root / "whole").run("x").answer})[1]
    print(json.dumps({"case": "whole", "last": whole, "state": state(root / "whole")}), flush=True)
    for wanted in sys.argv[2:]:
        print(json.dumps(case(root, wanted)), flush=True)
