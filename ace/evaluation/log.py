"""Every run of an evaluation on disk as it comes, with its trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ace.core import SuiteError, json_line
from ace.core.durable import JsonLog
from ace.evaluation.row import RunReport
from ace.tasks import Feedback, TaskOutput

Key = tuple[str, int, str]
"""Arm, seed and task of a run."""


class RunLog:
    """Runs as JSON lines; a run that is in the log is not made again.

    Args:
        path: Made when it is not there; a torn last line is cut off.

    Raises:
        SuiteError: The file is damaged before its last line.

    Examples:
        >>> with RunLog(getfixture("tmp_path") / "runs.jsonl") as log:
        ...     len(log.done)
        0
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done: set[Key] = set()
        """The runs in the log when it was opened."""
        self._log = JsonLog(path, self._known, self._damaged)

    def put(self, row: RunReport, output: TaskOutput, feedback: Feedback) -> None:
        """Keep a run; on return it survives the end of the process."""
        self._log.append(json_line({"row": row, "output": output, "feedback": feedback}))

    def rows(self) -> Iterator[RunReport]:
        """Yield what the report needs of each run, in the order in which they ended."""
        for value in self._log.values():
            yield RunReport.model_validate(value["row"])

    def runs(self, arm: str | None = None, seed: int | None = None) -> Iterator[tuple[RunReport, TaskOutput, Feedback]]:
        """Yield runs with their traces.

        Args:
            arm: Only those of this arm.
            seed: Only those of this seed.
        """
        for value in self._log.values():
            row = value["row"]
            if (arm is None or row["arm"] == arm) and (seed is None or row["seed"] == seed):
                yield (
                    RunReport.model_validate(row),
                    TaskOutput.model_validate(value["output"]),
                    Feedback.model_validate(value["feedback"]),
                )

    def close(self) -> None:
        """Put everything on the disk, and close the file."""
        self._log.close()

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _known(self, value: Any) -> None:
        row = RunReport.model_validate(value["row"])
        self.done.add((row.arm, row.seed, row.id))

    def _damaged(self, number: int, error: Exception) -> SuiteError:
        problem = f"{error.error_count()} fields are wrong" if isinstance(error, ValidationError) else error
        return SuiteError(
            f"line {number} of {str(self.path)!r} is damaged ({problem}), or an earlier version wrote it; "
            "move the file away to run everything again"
        )
