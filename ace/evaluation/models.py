"""From a name, as `--lm` takes it, to a language model, its label, and the policy that suits it.

A package registers further models by an entry point in the group ``ace.models``, whose value is a `ModelSource` or a class
of one; its name stands before the colon, as in ``recorded:RUN``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol

from ace.agent import Policy
from ace.core import SuiteError
from ace.evaluation.hosted import PROVIDERS, ModelServer
from ace.evaluation.reach import NO_PROVIDER, check_named, in_words
from ace.suites.protocol import Suite, SuiteTask
from ace.suites.registry import load_suite, loaded

GROUP = "ace.models"


@dataclass(frozen=True)
class ModelChoice:
    """A chosen model: `ModelChoice("mine", "", Policy.forgiving(), lm_for=lambda seed: lm)`."""

    name: str
    label: str
    """Shown with every result; empty for a real model."""
    policy: Policy
    lm_for: Callable[[int], Any]
    """The model of a seed."""
    knows: Callable[[SuiteTask], bool] = lambda task: True
    """Whether a task can be asked: a recorded run may hold some of them only."""
    others: Mapping[str, Callable[[int], Any]] = field(default_factory=dict[str, Callable[[int], Any]])
    """By arm, where arms have models of their own."""
    replays: bool = False
    """Whether it plays back recorded decisions: it needs its own policy, and learns nothing from what it is shown."""


class ModelSource(Protocol):
    """What an entry point in ``ace.models`` gives: `source.choose("mine:small", "small", suite)` returns the model."""

    def suite_options(self, argument: str) -> Mapping[str, Any]:
        """Return options that the suite has to be loaded with for this model; empty for any."""
        ...

    def choose(self, spec: str, argument: str, suite: Suite | None) -> ModelChoice:
        """Return the model.

        Args:
            spec: As it was named: ``NAME:ARGUMENT``.
            argument: What stands after the colon.
            suite: Whose tasks it is asked; None outside of a suite.

        Raises:
            SuiteError: It cannot be had, or needs another suite.
        """
        ...


def load_suite_for(
    spec: str, lm: str = "", judge: str = "", server: ModelServer = PROVIDERS, others: Iterable[str] = ()
) -> Suite:
    """Load a suite as its models need it.

    Raises:
        SuiteError: They need it with different options.
    """
    options: dict[str, Any] = {"judge": server.lm(judge)} if judge else {}
    needed: dict[str, tuple[str, Any]] = {}
    for name in (lm, *others):
        source, argument = _source(name)
        wanted: Mapping[str, Any] = source.suite_options(argument) if source is not None else {}
        for option, value in wanted.items():
            first, known = needed.setdefault(option, (name, value))
            if known != value:
                raise SuiteError(
                    f"{first!r} needs the suite with {option}={known!r}, and {name!r} with {value!r}; compare models that "
                    "need the same"
                )
    return load_suite(spec, **options, **{option: value for option, (_, value) in needed.items()})


def choose_model(spec: str, suite: Suite | None, server: ModelServer = PROVIDERS) -> ModelChoice:
    """Choose the model that `--lm` names.

    Raises:
        SuiteError: The name is empty, or needs another suite; or no server answers at its address.
    """
    kind, _, argument = spec.partition(":")
    check_named(spec)
    if kind == "simulated":
        return _simulated(spec, argument, suite)
    source, argument = _source(spec)
    if source is not None:
        return source.choose(spec, argument, suite)
    if argument and kind.isidentifier() and kind != "ft" and "/" not in spec:  # DSPy's names are PROVIDER/MODEL
        raise SuiteError(
            f"no model {spec!r}: no installed package registers {kind!r}; dspy-ace-suites brings 'recorded'"
        )
    if "/" not in spec:
        raise SuiteError(in_words(NO_PROVIDER, spec))
    model = server.lm(spec)
    return ModelChoice(spec, "", Policy.forgiving(), lambda seed: model)


def with_others(
    lm: str, others: Mapping[str, str], suite: Suite, server: ModelServer = PROVIDERS, arms: Iterable[str] = ()
) -> ModelChoice:
    """Choose the model that `--lm` names, and those that `arms` name for themselves; `--lm` may be left out when all do.

    Raises:
        SuiteError: One of them is no model.
    """
    without = [arm for arm in arms if arm not in others]
    if without and not lm:
        raise SuiteError(f"no language model for the arms {', '.join(without)}; name one (--lm NAME)")
    found = {arm: choose_model(spec, suite, server) for arm, spec in others.items()}
    chosen = [*([choose_model(lm, suite, server)] if lm or not found else []), *found.values()]
    replay = next((choice.policy for choice in chosen if choice.replays), None)
    return ModelChoice(
        name=", ".join(dict.fromkeys(choice.name for choice in chosen)),
        label=", ".join(dict.fromkeys(choice.label for choice in chosen if choice.label)),
        policy=replay or chosen[0].policy,
        lm_for=chosen[0].lm_for,
        knows=lambda task: all(choice.knows(task) for choice in chosen),
        others={arm: choice.lm_for for arm, choice in found.items()},
        replays=replay is not None,
    )


def names_model(text: str) -> bool:
    """Check whether the words of an arm name a model, as ``lm:NAME``, ``simulated:PRESET`` or that of an installed
    source."""
    return text == "simulated" or text.startswith(("lm:", "simulated:")) or _source(text)[0] is not None


def _source(spec: str) -> tuple[ModelSource | None, str]:
    """Find the installed source that a model's name begins with, if it does, and the rest."""
    kind, colon, argument = spec.partition(":")
    point = next((point for point in entry_points(group=GROUP) if point.name == kind), None) if colon else None
    if point is None:
        return None, argument
    source = loaded(point)
    return (source() if isinstance(source, type) else source), argument


def reflection_for(spec: str, choice: ModelChoice, seed: int, server: ModelServer = PROVIDERS) -> Any:
    """Choose the model that `--reflection-lm` names; by default the agent's own, and for a simulated one its stand-in."""
    if spec == "simulated" or (not spec and choice.label == "simulated"):
        from ace.testing import SimulatedProposer

        return SimulatedProposer()
    return server.lm(spec) if spec else choice.lm_for(seed)


def _simulated(spec: str, preset: str, suite: Suite | None) -> ModelChoice:
    from ace.testing import SimulatedLM

    if suite is None:
        raise SuiteError("the simulated LM only knows the tasks of a suite; name one (--suite office --task ID)")
    preset = preset or "learner"

    @cache
    def lm_for(seed: int) -> Any:
        return SimulatedLM(suite, preset, seed=seed)

    lm_for(0)  # an unknown preset is reported at once
    return ModelChoice(spec, "simulated", Policy.forgiving(), lm_for)
