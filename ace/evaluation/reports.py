"""What the commands write as JSON; the schemas are exported to ``contracts/``."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Report(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


Interval = tuple[float | None, float | None]
"""95 %, low and high; null where nothing bounds it, as with tasks of a single family."""


class ArmReport(_Report):
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
    pass_hat_k: dict[int, float] = Field(default_factory=dict)
    """The chance that k runs of a task all succeed, where each task has several."""


class ComparisonReport(_Report):
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
    """Two-sided; null where nothing can be said."""
    p_corrected: float | None
    """Holm's correction for all comparisons of the report."""
    gained: int = 0
    """Success: runs that only the second arm got right."""
    lost: int = 0
    bootstrap: Interval = (None, None)
    """The same by a paired bootstrap over families, its percentiles widened for how few they are."""
    mcnemar: float | None = None
    """Success: mid-p value, which takes all runs for independent."""
    smallest_effect: float | None = None
    """What these tasks would have shown with a power of 80 %."""


class FamilyEffect(_Report):
    """What the tasks of one family gain in success over the first arm."""

    after: str
    group: str
    n: int
    difference: float
    interval: Interval
    iterations: float
    """Change in the mean."""


class BulletEffect(_Report):
    """What runs that were shown a bullet gain in success over the first arm; not what the bullet alone caused."""

    after: str
    bullet: str
    seed: int | None
    """Whose playbook it stands in, where each seed has its own."""
    n: int
    difference: float
    interval: Interval
    text: str = ""


class Regression(_Report):
    """A task that the first arm solves more often."""

    after: str
    id: str
    group: str
    lost: int
    """Seeds that the first arm solved and this one did not."""
    gained: int
    n: int
    seed: int
    """One of those lost."""
    bullets: list[str]


class CurvePoint(_Report):
    """Success of an arm that learns while it goes."""

    arm: str
    learned_from: float
    """Mean number of runs it had learned from before."""
    success: float
    interval: Interval


class DemoReport(_Report):
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
    seconds: float


class InvalidAction(_Report):
    """A reply that was no legal action."""

    iteration: int
    kind: str
    tool: str
    message: str


class RunReport(_Report):
    """One run of one task."""

    id: str
    arm: str
    seed: int
    domain: str
    group: str
    correct: bool
    iterations: int
    lm_calls: int
    termination: str
    state_sha256: str
    """Hash over the hashes of all tables after the run."""
    tables_sha256: dict[str, str]
    invalid_actions: int
    input_tokens: int = 0
    output_tokens: int = 0
    memory_tokens: int = 0
    """Of what stood in the prompt's playbook."""
    cost: float = 0.0
    """US dollars, where prices are known."""
    seconds: float = 0.0
    confidence: float | None = None
    """What a verifier gave the answer."""
    bullets: list[str] = Field(default_factory=list)
    """Ids of the bullets that stood in the prompt."""
    learned_from: int = 0
    """Arms that learn while they go: how many runs were learned from before this one."""
    errors: list[InvalidAction] = Field(default_factory=list)
    empty: bool = False
    """Recorded runs: the recording has no step."""
    ways: list[str] = Field(default_factory=list)
    """Recorded runs: in which of the four ways this run live differs from the replay that published scores rest on."""


class DomainReport(_Report):
    """How many tasks of a domain were solved."""

    n: int = 0
    correct: int = 0
    empty: int = 0
    """Recorded runs without a step."""
    error: int = 0
    """Runs that did not end by the model's own finish."""


class ConfidenceBin(_Report):
    """Runs of an arm that are about as sure."""

    confidence: float
    success: float
    interval: Interval
    n: int


class CalibrationReport(_Report):
    """Whether runs that say they are sure are right."""

    n: int
    brier: float
    """Mean squared difference between confidence and success; 0 is perfect."""
    error: float
    """Expected calibration error over the bins."""
    bins: list[ConfidenceBin]


class Difference(_Report):
    """A recorded run that is right live and wrong replayed, or the other way round."""

    id: str
    arm: str
    live: bool
    replay: bool
    ways: list[str]


class EvaluateReport(_Report):
    """``ace evaluate --json``."""

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
    regressions: list[Regression] = Field(default_factory=list)
    curves: list[CurvePoint] = Field(default_factory=list)
    calibrations: dict[str, CalibrationReport] = Field(default_factory=dict)
    """Of arms whose runs say how sure they are."""
    differences: list[Difference] = Field(default_factory=list)
    interrupted: bool = False
    stopped: str = ""
    """Which cap ended the evaluation before all runs were made."""
    folder: str = ""
    """Where every run lies with its trace."""
    seconds: float = 0.0


class HitReport(_Report):
    """Retrieval of one set of queries, in percent."""

    n: int
    hit_1: float = Field(serialization_alias="hit@1", validation_alias="hit@1")
    hit_3: float = Field(serialization_alias="hit@3", validation_alias="hit@3")
    interval: Interval
    """Of hit@3: Wilson, 95 %."""


class RetrievalSplit(_Report):
    """One guard over three sets of queries."""

    all: HitReport
    nonempty: HitReport
    """Bullets and queries of tasks with calls only."""
    empty: HitReport
    """Queries of tasks without calls, against all bullets."""


class BenchRetrievalReport(_Report):
    """``ace bench retrieval --json``."""

    loo: RetrievalSplit
    """The bullet of the task itself is left out."""
    group: RetrievalSplit
    """All bullets of its group are left out."""


class Milliseconds(_Report):
    """How long something took."""

    p50: float
    p95: float
    p99: float


class BenchPlaybookReport(_Report):
    """``ace bench playbook --json``; times on one machine."""

    bullets: int
    embedder: str
    store: str
    """`sqlite` or `postgresql`."""
    load_seconds: float
    """To fill it, embedding included; for a copy, to bring its index up to date."""
    open_ms: float
    """To open it again, with its saved index."""
    embedding: Milliseconds
    """Of one query, apart."""
    retrieval: Milliseconds
    """Of a query that was not asked before, embedding included."""
    retrieval_cached: Milliseconds
    """Of the same query again."""
    commit: Milliseconds
    """Of one new bullet, on the disk."""
    megabytes: float | None
    """On the disk, indexes included; null for a server."""


class GoldenReport(_Report):
    """Golden cases that were replayed."""

    n: int
    passed: int
    failed: list[dict[str, Any]]


class TasksReport(_Report):
    """What a suite's own tasks were checked for."""

    n: int
    gold_plans_run: int
    """Reference solutions of which no call fails."""
    oracle_right: int
    """Tasks that the scorer calls right after the reference solution."""
    empty_wrong: int
    """Those of `empty_expected` that the scorer calls wrong when nothing was done."""
    empty_expected: int
    """Tasks whose reference solution changes the state or that ask for an answer."""
    idle_right: int = 0
    """Further tasks that doing nothing solves: their calls leave the state as it was, and no answer is scored."""
    unique_ids: bool
    problems: list[str]


class SuiteCheckReport(_Report):
    """``ace suite check --json``."""

    suite: str
    golden: GoldenReport
    tasks: TasksReport


class LearnReport(_Report):
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


class OptimizedTask(_Report):
    """What one test task scored."""

    id: str
    before: float
    after: float


class OptimizeReport(_Report):
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
    """Requests to language models, those of interrupted processes included."""
    replayed: int
    """Requests that an interrupted process had paid for, and that were not sent again."""
    input_tokens: int
    output_tokens: int
    cost: float | None
    """US dollars, where prices are known."""
    seconds: float
    tasks: list[OptimizedTask]


class VerifyRow(_Report):
    """One row of ``make verify``."""

    name: str
    issue: str
    claimed: str
    measured: float | None
    unit: str
    ok: bool
    seconds: float
