"""`RecordedLM`: plays back the decisions that a real model took in a recorded run.

It knows nothing but the prompt: the task says which recording it is, and the length of the trajectory says which step
comes next.
"""
# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportReturnType=false

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ace.agent import Policy
from ace.core import SuiteError
from ace.evaluation.models import ModelChoice
from ace.suites import Suite
from ace.testing.engine import FunctionLM, Prompt, render_reply
from ace_suites.workbench.recordings import Recording, read_recordings
from ace_suites.workbench.suite import WorkBenchSuite


class RecordedLM(FunctionLM):
    """A model whose decisions were recorded.

    Args:
        run: The run's name, for the label.
        recordings: Query to recording.

    Raises:
        LookupError: When asked about a task that was not recorded, or past the end of a recording that was cut off; the
            agent sees it as a transport error.
    """

    def __init__(self, run: str, recordings: Mapping[str, Recording]) -> None:
        self.run = run
        self.recordings = {" ".join(query.split()): recording for query, recording in recordings.items()}
        super().__init__(f"recorded/{run}", self._answer)
        self.label = f"recorded:{run}"

    def recording(self, query: str) -> Recording | None:
        """Return the recording of a task, if there is one."""
        return self.recordings.get(" ".join(query.split()))

    def _answer(self, prompt: Prompt) -> str:
        recording = self.recording(prompt.fields.get("task", ""))
        if recording is None:
            raise LookupError(f"the run {self.run!r} holds no recording of this task")
        if "tool_calls" not in prompt.wants:
            return render_reply(reasoning="", answer=recording.answer or "")
        position = len(prompt.steps)
        if position < len(recording.steps):
            step = recording.steps[position]
            return _turn(step.log, step.tool, step.args)
        if recording.answer is None:
            raise LookupError(f"the recording ends after {position} steps without an answer")
        return _turn("", "finish", {"answer": recording.answer})


def _turn(thought: str, tool: str, args: Any) -> str:
    # JSON in ASCII on one line: nothing in a recorded text can be taken for a field header
    shown = " ".join(thought.replace("[[", "[ [").split())
    return render_reply(next_thought=shown, next_tool_name=tool, next_tool_args=json.dumps(args))


class RecordedRuns:
    """``--lm recorded:RUN``: WorkBench's recorded runs as a model; see `ace.evaluation.models.ModelSource`."""

    def suite_options(self, argument: str) -> Mapping[str, Any]:
        """Return the toolkits that the recorded run was offered."""
        return {"toolkits": "all" if argument.removesuffix(".csv").endswith("_all") else "domains"}

    def choose(self, spec: str, argument: str, suite: Suite | None) -> ModelChoice:
        """Choose the model that plays a run back.

        Raises:
            SuiteError: The suite is another one, or holds no such run.
        """
        if not isinstance(suite, WorkBenchSuite):
            raise SuiteError(f"{spec!r} plays back WorkBench's recorded runs; use it with the suite workbench:PATH")
        lm = RecordedLM(argument, read_recordings(suite.path, argument))
        return ModelChoice(
            name=spec,
            label=lm.label,
            policy=Policy.replay(),
            lm_for=lambda seed: lm,
            knows=lambda task: lm.recording(task.task.text) is not None,
            replays=True,
        )
