"""`optimize`: one optimizer over one workload, in a folder that survives interruptions."""
# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import LMInvalidRequestError, LMUnsupportedModelError
from dspy.utils.usage_tracker import UsageTracker
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ace.core import AceError, TokenPrices
from ace.core.durable import claimed, same_job, write_atomic
from ace.evaluation.hosted import ReplyCache
from ace.evaluation.reach import check_answered
from ace.evaluation.report.models import ArmReport, OptimizedTask, OptimizeReport
from ace.evaluation.stats import difference, mean, share
from ace.optimization.optimizers import JobConfig, OptimizerContext, check, compile_with, runs_of
from ace.optimization.results import CONFIG, DIFF, LOG, REPLIES, SCORES, changes
from ace.optimization.workload import EpisodeProgram, StopSwitch, Workload, score_of
from ace.playbook import Playbook
from ace.react.model import CACHED
from ace.react.saved_program import save_program
from ace.tasks import Feedback, TaskOutput


def optimize(
    workload: Workload,
    config: JobConfig,
    lm: dspy.LM | None = None,
    *,
    out: str | Path,
    reflection_lm: dspy.LM | None = None,
    prices: TokenPrices | None = None,
    console: Console | None = None,
) -> OptimizeReport:
    """Optimize a program, `optimize(workload, JobConfig(optimizer="bootstrap"), lm, out="job")`, and measure it on others.

    The folder holds ``config.json``, ``program.json``, ``playbook.jsonl``, ``scores.json``, ``diff.md``, ``optimizer.log``,
    the output of the optimizer itself, and ``replies``, a cache. After an interruption, run the job again with the same
    arguments: it starts from the beginning, and replies that were paid for come out of that cache. Tools are called again.

    Args:
        workload: From `suite_workload` or `program_workload`.
        config: What to do.
        lm: Runs the agent; by default the agent's own, or DSPy's configured one.
        out: The folder; made when it is not there.
        reflection_lm: Writes instructions; `lm` by default. Without one, ACE learns without asking a model.
        prices: Of `lm`, to count dollars.
        console: Where progress is drawn; none by default.

    Returns:
        What is in ``scores.json``.

    Raises:
        AceError: Something is missing, the folder holds another job or one that is done, or a model failed; what was paid
            for is kept.
    """
    folder = Path(out).absolute()
    agent = workload.program.agent
    lm = lm or agent.lm or agent.agent.react.lm or dspy.settings.lm
    if lm is None:
        raise AceError("there is no language model: pass lm=, give the agent one, or call dspy.configure(lm=...)")
    workload = replace(workload, program=workload.program.for_job())
    config = config.model_copy(
        update={
            "workload": config.workload or workload.name,
            "lm": config.lm or lm.model,
            "reflection_lm": config.reflection_lm or (reflection_lm.model if reflection_lm else ""),
            "train": len(workload.trainset),
            "val": len(workload.valset),
            "test": len(workload.testset),
        }
    )
    check(config, workload)
    with claimed(folder):
        if (folder / SCORES).exists():
            raise AceError(f"the job in {str(folder)!r} is done, see {SCORES} and {DIFF} there; name another folder")
        same_job(folder / CONFIG, config.model_dump(mode="json"), {})
        return _Job(workload, config, lm, reflection_lm, prices, folder).run(console)


@dataclass
class _Job:
    workload: Workload
    config: JobConfig
    lm: dspy.LM
    reflection_lm: dspy.LM | None
    prices: TokenPrices | None
    folder: Path
    runs: int = 0
    requests: int = 0
    usage: Any = field(default_factory=UsageTracker)
    started: float = field(default_factory=time.monotonic)

    def run(self, console: Console | None) -> OptimizeReport:
        work = self.workload
        models = [lm.copy(cache=True) for lm in (self.lm, self.reflection_lm or self.lm)]
        expected = 2 * len(work.testset) + runs_of(self.config, work)
        with _bar(console, self.config.optimizer, expected) as show, _output_to(self.folder / LOG):

            def ran(_: TaskOutput, __: Feedback) -> None:
                self.runs += 1
                show(self._spent())

            work.program.watch(ran)
            callbacks = [*dspy.settings.callbacks, _Requests(self)]
            settings = {"lm": models[0], "callbacks": callbacks, "usage_tracker": self.usage}
            with dspy.context(**settings), _kept_replies(self.folder / REPLIES), _stopped_by_ctrl_c(work.program.stop):
                if self.config.optimizer != "bootstrap" and self.reflection_lm is not None:
                    # a wrong name or key shows before the agent has spent anything
                    models[1]("Answer with the word: ready")
                before = self._tested(work.program)
                optimizing = self.runs
                compiled = self._compiled(models)
                optimizing = self.runs - optimizing
                after = self._tested(compiled)
        return self._finish(compiled, before, after, optimizing)

    def _compiled(self, models: Sequence[dspy.LM]) -> EpisodeProgram:
        own = self.workload.program.agent.playbook
        book = own.fork() if isinstance(own, Playbook) else Playbook()
        reflect = self.reflection_lm is not None
        try:
            compiled = compile_with(OptimizerContext(self.workload, self.config, *models, book=book, reflect=reflect))
        except Exception as error:
            self._raise_failure(error)
            raise
        self._raise_failure()
        return compiled

    def _raise_failure(self, error: Exception | None = None) -> None:
        """Raise the error of a model or the metric, if one has failed.

        Raises:
            AceError: One has failed; the message says what to do.
        """
        reason = self.workload.program.stop.reason
        if reason is None:
            return
        if isinstance(reason, (AceError, KeyboardInterrupt)):
            raise reason
        raise AceError(
            f"a request to {self.config.lm!r} or the reflection model failed: {reason}; what was paid for is kept, run the "
            "same job again to go on"
        ) from (error or reason)

    def _tested(self, program: EpisodeProgram) -> list[tuple[TaskOutput, Feedback]]:
        """Run the test set, one task after another."""
        rows: list[tuple[TaskOutput, Feedback]] = []
        for example in self.workload.testset:
            prediction: Any = program(**example.inputs())
            self._raise_failure()
            check_answered(prediction.output, self.config.lm or self.lm.model, "nothing was optimized")
            rows.append((prediction.output, self.workload.feedback(example, prediction)))
        return rows

    def _finish(self, compiled: EpisodeProgram, before: Any, after: Any, optimizing: int) -> OptimizeReport:
        work, config = self.workload, self.config
        families = [str(example.get("group", "") or number) for number, example in enumerate(work.testset)]
        scores = [[score_of(feedback) for _, feedback in rows] for rows in (before, after)]
        gains = [late - early for early, late in zip(*scores, strict=True)]
        text, changed = changes(work.program.agent, compiled.agent)
        read, written = self._tokens()
        report = OptimizeReport(
            workload=work.name,
            optimizer=config.optimizer,
            label=work.label,
            lm=config.lm or self.lm.model,
            reflection_lm=config.reflection_lm or (self.reflection_lm.model if self.reflection_lm else ""),
            arms={"before": _arm(before, families), "after": _arm(after, families)},
            scores={"before": _mean(scores[0]), "after": _mean(scores[1])},
            gain=_mean(gains),
            gain_interval=difference(scores[0], scores[1], families).interval,
            changed=changed,
            runs=optimizing,
            requests=self.requests,
            replayed=self._spent_of(CACHED),
            input_tokens=read,
            output_tokens=written,
            cost=self.prices.cost(read, written) if self.prices else None,
            seconds=time.monotonic() - self.started,
            tasks=[
                OptimizedTask(id=output.task_id, before=early, after=late)
                for (output, _), early, late in zip(before, *scores, strict=True)
            ],
        )
        save_program(compiled.agent, self.folder)
        label = f" ({work.label})" if work.label else ""
        title = (
            f"# {config.optimizer} over {work.name}{label}\n\nBefore: the program as it was. After: `program.json`.\n"
        )
        write_atomic(self.folder / DIFF, f"{title}\n{text}")
        write_atomic(self.folder / SCORES, report.model_dump_json(indent=1))  # last: this file marks the job as done
        return report

    def _tokens(self) -> tuple[int, int]:
        return self._spent_of("prompt_tokens"), self._spent_of("completion_tokens")

    def _spent_of(self, name: str) -> int:
        return sum(
            int(entry.get(name) or 0) for entries in list(self.usage.usage_data.values()) for entry in list(entries)
        )

    def _spent(self) -> str:
        read, written = self._tokens()
        money = f", ${self.prices.cost(read, written):.2f}" if self.prices else ""
        replayed = self._spent_of(CACHED)
        old = f" ({replayed} replayed)" if replayed else ""
        return f"{self.requests} requests{old}, {(read + written) / 1000:.0f}k tokens{money}"


class _Requests(BaseCallback):
    """Counts the requests of a job; one that fails stops it, unless the model's API refused what the program asked."""

    def __init__(self, job: _Job) -> None:
        self.job = job

    def on_lm_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Count a request, called as DSPy calls it."""
        self.job.requests += exception is None
        if exception is not None and not isinstance(exception, (LMInvalidRequestError, LMUnsupportedModelError)):
            self.job.workload.program.stop.stop(exception)


@contextmanager
def _stopped_by_ctrl_c(stop: StopSwitch) -> Generator[None]:
    """Stop all requests at Ctrl-C: some optimizers finish a whole batch before they let the interrupt through."""

    def interrupt(number: int, frame: Any) -> None:
        stop.stop(KeyboardInterrupt())
        signal.default_int_handler(number, frame)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _kept_replies(folder: Path) -> Generator[None]:
    """Let DSPy keep replies in the job's folder, unless the user has chosen a cache for them."""
    before = dspy.cache
    if not isinstance(before, ReplyCache):
        dspy.cache = ReplyCache(folder=folder)
    try:
        yield
    finally:
        dspy.cache = before


def _arm(rows: Sequence[tuple[TaskOutput, Feedback]], families: Sequence[str]) -> ArmReport:
    success = [float(feedback.success) for _, feedback in rows]
    iterations = [float(output.usage.iterations) for output, _ in rows]
    return ArmReport(
        success=_mean(success),
        iterations=_mean(iterations),
        n=len(rows),
        success_interval=share(success, families).interval,
        iterations_interval=mean(iterations, families).interval,
        lm_calls=_mean([float(output.usage.lm_calls) for output, _ in rows]),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


# -- progress -----------------------------------------------------------------------------------------------------------


@contextmanager
def _output_to(path: Path) -> Generator[None]:
    """Write what optimizers print, their own progress bars included, to a file: the screen has one bar."""
    with path.open("a", encoding="utf-8") as log, redirect_stdout(log), redirect_stderr(log):
        yield


@contextmanager
def _bar(console: Console | None, title: str, total: int) -> Generator[Callable[[str], None]]:
    """Show a progress bar with the time left; yield a function to call after each run with what was spent until then."""
    if console is None:
        yield lambda _: None
        return
    left = TimeRemainingColumn(elapsed_when_finished=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), left)
    screen = Console(file=console.file)  # the stream as it is now, before `_output_to` replaces it
    with Progress(*columns, TextColumn("{task.fields[spent]}"), console=screen, redirect_stdout=False) as bars:
        bar = bars.add_task(f"{title}, runs (about)", total=total, spent="")
        yield lambda spent: bars.update(bar, advance=1, spent=spent)
