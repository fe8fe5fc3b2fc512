"""What the commands write as JSON; the schemas are exported to ``contracts/``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ace.evaluation.row import ReportModel, RunReport

Interval = tuple[float | None, float | None]
"""95 %, low and high; null where nothing bounds it, as with tasks of a single family."""


class ArmReport(ReportModel):
    """How one arm did."""

    success: float
    """Share of runs that solved their task."""
    iterations: float
    """Mean iterations per run, of all runs."""
    n: int
    success_interval: Interval
    """Families are drawn as a whole: Wilson's shape, CR2 variance, Student's quantiles."""
    iterations_interval: Interval
    lm_calls: float = 0.0
    memory_tokens: float = 0.0
    """Mean per run."""
    tokens: float = 0.0
    """Input and output, mean per run, as the model's API reported them."""
    seconds: float = 0.0
    """Mean wall time per run."""
    cost: float = 0.0
    """US dollars of all runs, where prices are known."""
    unfinished: int = 0
    """Runs that did not end by the model's own finish."""
    pass_hat_k: dict[int, float] = Field(default_factory=dict)
    """The chance that k runs of a task all succeed, where each task has several."""


class ComparisonReport(ReportModel):
    """One arm against another on the same tasks with the same seeds."""

    metric: str
    """`success`, `iterations`, or `tokens`."""
    before: str
    after: str
    n: int
    difference: float
    """After minus before."""
    interval: Interval
    """Families are drawn as a whole."""
    p: float | None
    """Two-sided; null where it is not defined."""
    p_corrected: float | None
    """Holm's correction for all comparisons of the report."""
    gained: int = 0
    """Success: runs that only the second arm got right."""
    lost: int = 0
    mcnemar: float | None = None
    """Success: mid-p value, which takes all runs for independent."""
    smallest_effect: float | None = None
    """What these tasks would have shown with a power of 80 %; null where no difference would have, as with few families."""
    families: int = 0
    """How many families there are."""
    rule: str = ""
    """How the interval was made, or why there is none, in words."""


class FamilyEffect(ReportModel):
    """What the tasks of one family gain in success over the first arm."""

    after: str
    group: str
    n: int
    difference: float
    interval: Interval
    iterations: float
    """Change in the mean."""


class BulletEffect(ReportModel):
    """What runs that were shown a bullet gain in success over the first arm; not what the bullet alone caused."""

    after: str
    bullet: str
    seed: int | None
    """The seed whose playbook it is in, where each seed has its own."""
    n: int
    difference: float
    interval: Interval
    text: str = ""


class TaskEffect(ReportModel):
    """A task in two arms."""

    after: str
    id: str
    group: str
    outcome: Literal["won", "lost", "equal"]
    """Whether this arm solves it with more seeds than the first arm, with fewer, or with as many."""
    gained: int
    """Seeds that this arm solved and the first one did not."""
    lost: int
    """Seeds that the first arm solved and this one did not."""
    n: int
    seed: int
    """The one to look at: of those gained or lost."""
    bullets: list[str]
    """What was shown with that seed."""


class CurvePoint(ReportModel):
    """Success of an arm that learns while it goes."""

    arm: str
    learned_from: float
    """Mean number of runs it had learned from before."""
    success: float
    interval: Interval


class DemoReport(ReportModel):
    """``ace demo --json``."""

    label: str
    policy: str
    arms: dict[str, ArmReport]
    """Held-out tasks of the families that were learned from."""
    unseen_families: dict[str, ArmReport]
    """The same tasks, where all lessons of the task's own family are left out."""
    closed: dict[str, dict[str, float]]
    """For each arm, how much of the way from `none` to `gold` it went, in `iterations` and in `success`."""
    bullets: int
    playbook_path: str
    report_path: str
    """The same as a page, with the families and the lessons that won and lost."""
    seconds: float


class DomainReport(ReportModel):
    """How many tasks of a domain were solved."""

    n: int = 0
    correct: int = 0
    error: int = 0
    """Runs that did not end by the model's own finish."""


class ConfidenceBin(ReportModel):
    """Runs of an arm that are about as sure."""

    confidence: float
    success: float
    interval: Interval
    n: int


class CalibrationReport(ReportModel):
    """Whether runs with high stated confidence are right."""

    n: int
    brier: float
    """Mean squared difference between confidence and success; 0 is perfect."""
    error: float
    """Expected calibration error over the bins."""
    bins: list[ConfidenceBin]


class EvaluateReport(ReportModel):
    """What `study.run()` returns, and ``ace evaluate --json`` writes."""

    run: str
    """The LM."""
    suite: str
    label: str
    """`simulated`, `recorded:RUN`, or empty for a real model."""
    policy: str
    domains: dict[str, dict[str, DomainReport]]
    """By arm and domain."""
    arms: dict[str, ArmReport]
    runs: list[RunReport]
    comparisons: list[ComparisonReport] = Field(default_factory=list)
    closed: dict[str, dict[str, tuple[float | None, float | None, float | None]]] = Field(default_factory=dict)
    """For each arm and metric, how much of the way from `none` to `gold` it went: estimate, low, high."""
    families: list[FamilyEffect] = Field(default_factory=list)
    bullets: list[BulletEffect] = Field(default_factory=list)
    verdicts: list[str] = Field(default_factory=list)
    """One sentence for each arm with a memory, or model, of its own: whether it helped, on how many tasks, how sure that is,
    and what it cost; or that there is nothing to compare with."""
    notes: list[str] = Field(default_factory=list)
    """What else a reader has to know, a sentence each."""
    tasks: list[TaskEffect] = Field(default_factory=list)
    curves: list[CurvePoint] = Field(default_factory=list)
    calibrations: dict[str, CalibrationReport] = Field(default_factory=dict)
    """Of arms whose runs state a confidence."""
    interrupted: bool = False
    stopped: str = ""
    """Which cap ended the evaluation before all runs were made."""
    folder: str = ""
    """The folder of all runs with their traces."""
    created: str = ""
    """When the report was made: ``2026-11-28 14:05 UTC``."""
    seconds: float = 0.0

    @property
    def title(self) -> str:
        """Suite, arms and model."""
        return f"{self.suite}: {', '.join(self.arms)} with {self.run}"


class LearnReport(ReportModel):
    """``ace learn --json``."""

    suite: str
    label: str
    policy: str
    runs: int
    successes: int
    bullets: int
    tokens: int
    """Of the whole book."""
    pitfalls: int
    pitfalls_without_run: int
    """Pitfalls that name no run which they rest on."""
    playbook_path: str
    held_out: dict[str, float | int]
    """`n` tasks of the other half whose changing calls some run taught, and `hit@3` of them in percent."""


class OptimizedTask(ReportModel):
    """What one test task scored."""

    id: str
    before: float
    after: float


class OptimizeReport(ReportModel):
    """``ace optimize --json``, and ``scores.json`` in its folder."""

    workload: str
    optimizer: str
    label: str
    lm: str
    reflection_lm: str
    arms: dict[str, ArmReport]
    """The test tasks, which no optimizer saw: `before` and `after`."""
    scores: dict[str, float]
    """The metric's mean over the same runs."""
    gain: float
    """After minus before, of the score."""
    gain_interval: Interval
    """Paired by task; families are drawn as a whole."""
    changed: dict[str, int]
    """How many `instructions`, `tool_descriptions`, `demos` and `bullets` differ."""
    runs: int
    """Runs of the agent while optimizing."""
    requests: int
    """Requests to language models."""
    replayed: int
    """Of these, how many were answered as before and not sent again; their tokens are counted like the others'."""
    input_tokens: int
    output_tokens: int
    cost: float | None
    """US dollars, where prices are known."""
    seconds: float
    tasks: list[OptimizedTask]
