"""The optimizers that a job can run: what each needs, how it is called, and about how many runs it makes."""
# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, cast, get_args

import dspy
from pydantic import BaseModel, Field

from ace.core import AceError
from ace.optimization.teleprompter import ACE
from ace.optimization.workload import EpisodeProgram, Workload
from ace.playbook import Playbook
from ace.react.tool_cards import without_catalog
from ace.tasks import TaskOutput, run_of

OptimizerName = Literal["ace", "gepa", "mipro", "simba", "bootstrap"]
NAMES: tuple[OptimizerName, ...] = get_args(OptimizerName)
KEEP_TOOLS = (
    "Tool names and arguments are listed elsewhere; never invent any. Keep the rules on JSON arguments and finish."
)
_CANDIDATES = 3
_BATCH = 8


class JobConfig(BaseModel, frozen=True, extra="forbid"):
    """What a job does; the same configuration over the same journal gives the same requests.

    Examples:
        >>> JobConfig(optimizer="gepa", lm="openai/gpt-5-mini").seed
        0
    """

    optimizer: OptimizerName
    workload: str = ""
    """The suite, or a name of your own."""
    lm: str = ""
    """Runs the agent."""
    reflection_lm: str = ""
    """Writes instructions; the agent's by default."""
    train: int = Field(default=20, ge=1)
    """Examples to learn from."""
    val: int = Field(default=10, ge=1)
    """Examples to choose by."""
    test: int = Field(default=20, ge=1)
    """Examples that the result is measured on, and that no optimizer sees."""
    budget: int = Field(default=150, ge=1)
    """About this many runs of the agent."""
    seed: int = 0
    threads: int = Field(default=1, ge=1)
    tool_cards: bool = True
    """Whether tool descriptions are optimized too (by GEPA; the others leave them alone)."""


@dataclass(frozen=True)
class OptimizerContext:
    """What an optimizer works with besides the program."""

    workload: Workload
    config: JobConfig
    task_lm: Any
    reflection_lm: Any
    book: Playbook
    """Receives ACE's lessons."""
    reflect: bool
    """Whether ACE reads runs with the reflection model too."""


def check(config: JobConfig, workload: Workload) -> None:
    """Find what is missing before any request is sent.

    Raises:
        AceError: Something is missing; the message names all of it.
    """
    missing: list[str] = []
    if config.optimizer == "mipro" and find_spec("optuna") is None:
        missing.append("MIPROv2 needs optuna: pip install 'dspy-ace[mipro]'")
    if config.optimizer == "gepa" and find_spec("gepa") is None:
        missing.append("GEPA needs gepa, which DSPy installs on Python below 3.15")
    least = runs_of(config.model_copy(update={"budget": 1}), workload)
    if config.optimizer == "gepa":
        least = len(workload.valset) + 2
    if config.budget < least:
        missing.append(
            f"with {len(workload.trainset)} training and {len(workload.valset)} validation examples it makes at least "
            f"{least} runs, and the budget is {config.budget}: raise it, or take fewer examples"
        )
    if config.optimizer in ("mipro", "simba"):
        try:  # they show the program's source to the model that writes instructions
            inspect.getsource(type(workload.program))
        except OSError:
            missing.append("the program's source cannot be read, and this optimizer shows it to the reflection model")
    if missing:
        raise AceError(f"{config.optimizer} cannot run; nothing was spent. " + "; ".join(missing))


def runs_of(config: JobConfig, workload: Workload) -> int:
    """Estimate how many runs of the agent an optimizer makes."""
    train, val = len(workload.trainset), len(workload.valset)
    if config.optimizer == "gepa":
        return config.budget
    if config.optimizer == "bootstrap":
        return train
    if config.optimizer == "ace":
        return train * _epochs(config, train)
    if config.optimizer == "simba":
        return _simba_runs(_simba_steps(config, train), train)
    return _mipro_runs(_mipro_trials(config, train, val), train, val)


def compile_with(context: OptimizerContext) -> EpisodeProgram:
    """Run the optimizer on a copy of the program."""
    compiled = _COMPILE[context.config.optimizer](context)
    for _, predictor in compiled.named_predictors():  # the prompt has the catalog: demos need none of their own
        predictor.demos = [without_catalog(demo) for demo in predictor.demos]
    return compiled


def _gepa(context: OptimizerContext) -> EpisodeProgram:
    from dspy.teleprompt.gepa import InstructionProposer

    work, config = context.workload, context.config

    def metric(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> Any:
        feedback = work.feedback(gold, pred)
        output = run_of(pred)
        # GEPA shows one step of a predictor only: the feedback holds the whole run
        parts = [feedback.text, output.reasoning_trace if isinstance(output, TaskOutput) else ""]
        return dspy.Prediction(
            score=work.score(gold, pred), feedback="\n".join(filter(None, parts)) or "No more is known."
        )

    optimizer = dspy.GEPA(
        metric=metric,
        max_metric_calls=config.budget,
        reflection_lm=context.reflection_lm,
        instruction_proposer=InstructionProposer(additional_instructions=KEEP_TOOLS),
        num_threads=config.threads,
        seed=config.seed,
    )
    student = work.program.deepcopy()
    if config.tool_cards:  # the others would spend requests and demos on each tool
        student.agent = student.agent.with_tool_cards()
    return cast(EpisodeProgram, optimizer.compile(student, trainset=work.trainset, valset=work.valset))


def _mipro(context: OptimizerContext) -> EpisodeProgram:
    work, config = context.workload, context.config
    optimizer = dspy.MIPROv2(
        metric=work.score,
        prompt_model=context.reflection_lm,
        task_model=context.task_lm,
        auto=None,
        num_candidates=_CANDIDATES,
        max_bootstrapped_demos=2,
        max_labeled_demos=0,
        num_threads=config.threads,
        seed=config.seed,
    )
    return optimizer.compile(
        work.program.deepcopy(),
        trainset=work.trainset,
        valset=work.valset,
        num_trials=_mipro_trials(config, len(work.trainset), len(work.valset)),
        minibatch=False,
        seed=config.seed,
    )


def _mipro_trials(config: JobConfig, train: int, val: int) -> int:
    return max(2, (config.budget - _mipro_runs(0, train, val)) // val)


def _mipro_runs(trials: int, train: int, val: int) -> int:
    return (trials + 1) * val + 2 * train


def _simba(context: OptimizerContext) -> EpisodeProgram:
    work, config = context.workload, context.config
    optimizer = dspy.SIMBA(
        metric=work.score,
        bsize=min(_BATCH, len(work.trainset)),
        num_candidates=_CANDIDATES,
        max_steps=_simba_steps(config, len(work.trainset)),
        max_demos=2,
        prompt_model=context.reflection_lm,
        num_threads=config.threads,
    )
    return cast(EpisodeProgram, optimizer.compile(work.program.deepcopy(), trainset=work.trainset, seed=config.seed))


def _simba_steps(config: JobConfig, train: int) -> int:
    steps = 1
    while steps < 20 and _simba_runs(steps + 1, train) <= config.budget:
        steps += 1
    return steps


def _simba_runs(steps: int, train: int) -> int:
    """Count the runs: each step samples a batch with every candidate and tries new ones on it; at the end the winners run
    all."""
    return steps * (2 * _CANDIDATES + 1) * min(_BATCH, train) + train * (1 + min(steps, _CANDIDATES))


def _bootstrap(context: OptimizerContext) -> EpisodeProgram:
    work = context.workload
    # no labelled demos: they have no trajectory
    optimizer = dspy.BootstrapFewShot(metric=work.score, max_bootstrapped_demos=3, max_labeled_demos=0)
    compiled = optimizer.compile(work.program.deepcopy(), trainset=work.trainset)
    compiled._compiled = False  # it may be optimized further, and saved as part of something else
    return cast(EpisodeProgram, compiled)


def _ace(context: OptimizerContext) -> EpisodeProgram:
    work, config = context.workload, context.config
    optimizer = ACE(
        lambda example, prediction, trace=None: work.feedback(example, prediction),
        playbook=context.book,
        epochs=_epochs(config, len(work.trainset)),
        reflection_lm=context.reflection_lm if context.reflect else None,
        progress=False,
    )
    return optimizer.compile(work.program.deepcopy(), trainset=work.trainset)


def _epochs(config: JobConfig, train: int) -> int:
    return max(1, config.budget // train)


_COMPILE: dict[str, Callable[[OptimizerContext], EpisodeProgram]] = {
    "ace": _ace,
    "gepa": _gepa,
    "mipro": _mipro,
    "simba": _simba,
    "bootstrap": _bootstrap,
}
