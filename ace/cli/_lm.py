"""`--lm`: from a name to a language model, its label, and the policy that suits it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ace.agent import Policy
from ace.cli._shared import read_lines
from ace.core import SuiteError
from ace.evaluation.suite import Suite, SuiteTask, load_suite


@dataclass(frozen=True)
class LMChoice:
    """A chosen model."""

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

    def of(self, arm: str, seed: int) -> Any:
        """The model of an arm."""
        return self.others.get(arm, self.lm_for)(seed)


def load_suite_for(
    spec: str, lm: str = "", judge: str = "", api_base: str | None = None, others: Iterable[str] = ()
) -> Suite:
    """A suite as its models need it: recorded runs were offered certain toolkits.

    Raises:
        SuiteError: They need different ones.
    """
    judges = {"judge": _hosted(judge, api_base)} if judge else {}
    recorded = [name.removesuffix(".csv") for name in (lm, *others) if name.startswith("recorded:")]
    kinds = {"all" if name.endswith("_all") else "domains" for name in recorded}
    if len(kinds) > 1:
        raise SuiteError(
            f"the recorded runs {', '.join(recorded)} were offered different tools; compare those that were not"
        )
    return load_suite(spec, **judges, **({"toolkits": kinds.pop()} if kinds else {}))


def choose_lm(spec: str, suite: Suite | None, api_base: str | None = None) -> LMChoice:
    """The model that `--lm` names.

    Raises:
        SuiteError: The name is empty, or needs another suite.
    """
    kind, _, argument = spec.partition(":")
    if not spec:
        raise SuiteError("no language model; pass --lm NAME or set ACE_LM, for example --lm ollama_chat/llama3.2")
    if kind == "simulated":
        return _simulated(spec, argument, suite)
    if kind == "recorded":
        return _recorded(spec, argument, suite)
    model = _hosted(spec, api_base)
    return LMChoice(spec, "", Policy.lenient(), lambda seed: model)


def with_others(
    lm: str, others: Mapping[str, str], suite: Suite, api_base: str | None = None, arms: Iterable[str] = ()
) -> LMChoice:
    """The model that `--lm` names, and those that `arms` name for themselves; `--lm` may be left out when all do.

    Raises:
        SuiteError: One of them is no model.
    """
    without = [arm for arm in arms if arm not in others]
    if without and not lm:
        raise SuiteError(f"no language model for the arms {', '.join(without)}; pass --lm NAME beside the arms' own")
    found = {arm: choose_lm(spec, suite, api_base) for arm, spec in others.items()}
    chosen = [*([choose_lm(lm, suite, api_base)] if lm or not found else []), *found.values()]
    replays = next((choice.policy for choice in chosen if choice.label.startswith("recorded:")), None)
    return LMChoice(
        ", ".join(dict.fromkeys(choice.name for choice in chosen)),
        ", ".join(dict.fromkeys(choice.label for choice in chosen if choice.label)),
        replays or chosen[0].policy,
        chosen[0].lm_for,
        lambda task: all(choice.knows(task) for choice in chosen),
        {arm: choice.lm_for for arm, choice in found.items()},
    )


def reflection_for(spec: str, choice: LMChoice, seed: int, api_base: str | None = None) -> Any:
    """The model that `--reflection-lm` names; by default the agent's own, and for a simulated one its stand-in."""
    if spec == "simulated" or (not spec and choice.label == "simulated"):
        from ace.testing import SimulatedProposer

        return SimulatedProposer()
    return _hosted(spec, api_base) if spec else choice.lm_for(seed)


def _hosted(spec: str, api_base: str | None) -> Any:
    import dspy

    # restricted: what lies in the cache folder must not be able to run code
    dspy.configure_cache(restrict_pickle=True)
    options: dict[str, Any] = (
        {"api_base": api_base, "api_key": os.environ.get("OPENAI_API_KEY", "none")} if api_base else {}
    )
    return dspy.LM(spec, **options)


def _simulated(spec: str, preset: str, suite: Suite | None) -> LMChoice:
    from ace.testing import SimulatedLM

    if suite is None:
        raise SuiteError("the simulated LM only knows the tasks of a suite; pass for example --suite office --task ID")
    preset, _, bad_calls = (preset or "learner").partition("=")
    known = _bad_calls(bad_calls) if bad_calls else {}
    models: dict[int, Any] = {}

    def lm_for(seed: int) -> Any:
        if seed not in models:
            models[seed] = SimulatedLM(suite, preset, seed=seed, bad_calls=known)
        return models[seed]

    lm_for(0)  # an unknown preset is said at once
    return LMChoice(spec, "simulated", Policy.lenient(), lm_for)


def _bad_calls(path: str) -> dict[str, tuple[str, Any]]:
    """Task id to a recorded bad call, from JSON lines with `task_id`, `tool` and `tool_input`."""
    import json

    try:
        rows = [json.loads(line) for line in read_lines(Path(path)) if line.strip()]
        return {row["task_id"]: (row["tool"], row["tool_input"]) for row in rows}
    except (ValueError, KeyError, TypeError) as error:
        raise SuiteError(
            f"cannot read the bad calls {path!r} ({error}); expected JSON lines with task_id, tool and tool_input"
        ) from error


def _recorded(spec: str, run: str, suite: Suite | None) -> LMChoice:
    from ace.evaluation.workbench import WorkBenchSuite, read_recordings
    from ace.testing import RecordedLM

    if not isinstance(suite, WorkBenchSuite):
        raise SuiteError(f"{spec!r} plays back WorkBench's recorded runs; use it with the suite workbench:PATH")
    lm = RecordedLM(run, read_recordings(suite.path, run))
    return LMChoice(
        spec, lm.label, Policy.replay(), lambda seed: lm, lambda task: lm.recording(task.task.text) is not None
    )
