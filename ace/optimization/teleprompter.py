"""`ACE`: a DSPy optimizer that fills a playbook instead of rewriting a prompt."""
# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import dspy
from dspy.teleprompt.teleprompt import Teleprompter
from rich.console import Console
from rich.progress import Progress

from ace.agent.episode import Episode
from ace.curator import AcceptanceGate
from ace.learner import Learner, LearningReport
from ace.optimization.workload import EpisodeProgram, as_generator, judged, score_of, task_of
from ace.playbook import Playbook
from ace.react import ReActGenerator, ReActPrediction
from ace.reflector import Reflector
from ace.tasks import GOOD_SCORE, Feedback, TaskInput, TaskOutput

HELD_IN = 10
"""How many training examples the gate runs."""


@dataclass(eq=False, repr=False)
class ACE(Teleprompter):
    """Runs a program on examples, learns a playbook from what happened, and returns an agent that uses it.

    No predictor's instructions or demos are touched, so that it composes with the optimizers that rewrite those: compile
    with `dspy.GEPA` first or afterwards. Tools are really called, once per example and epoch.

    Args:
        metric: ``metric(example, prediction, trace=None)`` as for any DSPy optimizer: True or False, a number, or a
            `dspy.Prediction` with `score` and `feedback`.
        playbook: Receives the lessons; a new one in memory by default.
        threshold: A score from here on counts as success.
        epochs: How often the training set is run; examples that succeeded are left out afterwards.
        reflection_lm: A language model that reads the runs too; None for the miner alone.
        max_gate_calls: With a `valset`, new bullets are committed only when they help on training examples and do not hurt
            on the validation set; at most this many runs are spent on that.
        state: A file that remembers what was learned from: compile again after an interruption, and it goes on.
        progress: Whether to draw a progress bar.

    Attributes:
        report: What the last `compile` did.

    Examples:
        >>> from ace.playbook import CallableEmbedder
        >>> from ace.testing import ScriptedLM, decision
        >>> def double(n: int) -> int:
        ...     "Twice a number."
        ...     return 2 * n
        >>> lm = ScriptedLM([decision("double", n=4), decision("submit", answer="8")])
        >>> book = Playbook(embedder=CallableEmbedder("toy", lambda texts: [[len(t), 1.0] for t in texts]))
        >>> def metric(example, prediction, trace=None):
        ...     return prediction.answer == "8"
        >>> optimizer = ACE(metric, playbook=book, progress=False)
        >>> with dspy.context(lm=lm):
        ...     agent = optimizer.compile(dspy.ReAct("question -> answer", tools=[double]),
        ...                               trainset=[dspy.Example(question="Twice 4?").with_inputs("question")])
        >>> agent.playbook.bullets[0].content
        'double(n from the task), then submit(...)'
    """

    metric: Callable[..., Any]
    _: KW_ONLY
    playbook: Playbook | None = None
    threshold: float = GOOD_SCORE
    epochs: int = 1
    reflection_lm: Any = None
    max_gate_calls: int = 200
    state: str | Path | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        if not callable(self.metric):
            raise ValueError(f"metric is {self.metric!r}, expected a function of example and prediction")
        if self.epochs < 1:
            raise ValueError(f"epochs must be at least 1, got {self.epochs!r}")
        self.report = LearningReport()

    def compile(
        self,
        student: dspy.Module,
        *,
        trainset: Sequence[dspy.Example],
        teacher: dspy.Module | None = None,
        valset: Sequence[dspy.Example] | None = None,
        **_: Any,
    ) -> Any:
        """Learn, and return an agent with what was learned.

        Args:
            student: A `ReActGenerator` or a plain `dspy.ReAct`; it stays as it is.
            trainset: Examples with inputs for the student's signature; `task_id`, `domain`, `tenant` and `group` are read
                when an example has them.
            teacher: Not used.
            valset: Examples that no lesson comes from, for the gate.

        Returns:
            A `ReActGenerator` with the student's predictors, tools and state, and the playbook; of a job's program, such a
            program.

        Raises:
            ValueError: There are no examples, or one lacks an input of the signature.
        """
        if not trainset:
            raise ValueError("trainset is empty: there is nothing to learn from")
        agent = as_generator(student)
        own = [book for book in (self.playbook, getattr(student, "playbook", None)) if isinstance(book, Playbook)]
        book = own[0] if own else Playbook()  # an empty book is a book
        agent.playbook = book
        episode = partial(self._episode, student if isinstance(student, EpisodeProgram) else None, agent)
        names = tuple(agent.signature.input_fields)
        tasks = [(example, task_of(example, names, number)) for number, example in enumerate(trainset)]
        held_out = [(example, task_of(example, names, number)) for number, example in enumerate(valset or ())]
        gate = None
        if held_out:
            score = partial(self._score, agent, episode)
            gate = AcceptanceGate(score, tasks[:HELD_IN], held_out, max_calls=self.max_gate_calls)
        teacher_name = str(getattr(agent.lm or dspy.settings.lm, "model", "") or "")
        reflector = Reflector(teacher_name, lm=self.reflection_lm)
        with (
            Learner(
                book, partial(_bound, agent, book), reflector=reflector, gate=gate, state=self.state, author="ACE"
            ) as learner,
            Progress(console=Console(stderr=True), disable=not self.progress) as bars,
        ):
            bar = bars.add_task("learning", total=len(tasks) * self.epochs)
            self.report = learner.fit(
                [partial(episode, example, task) for example, task in tasks],
                epochs=self.epochs,
                skip_solved=True,
                on_run=lambda *_: bars.advance(bar),
            )
        if isinstance(student, EpisodeProgram):
            program = student.deepcopy()
            program.agent = agent
            return program
        return agent

    def _episode(
        self, program: EpisodeProgram | None, agent: ReActGenerator, example: dspy.Example, task: TaskInput
    ) -> Episode:
        group = str(example.get("group", "") or "")
        if program is None:
            return Episode(task, agent.registry, partial(self._feedback, agent, example), group)
        world = program.episode(example.inputs())
        return replace(world, score=lambda output: self._feedback(agent, example, judged(output, world.score(output))))

    def _feedback(self, agent: ReActGenerator, example: dspy.Example, output: TaskOutput) -> Feedback:
        """Return the verdict of the metric, as feedback."""
        prediction = ReActPrediction.of(output, agent.signature.output_fields, output)
        return Feedback.by(self.metric, example, prediction, threshold=self.threshold)

    def _score(
        self,
        agent: ReActGenerator,
        episode_of: Callable[[dspy.Example, TaskInput], Episode],
        task: tuple[dspy.Example, TaskInput],
        _: int,
        book: Playbook,
    ) -> float:
        episode = episode_of(*task)
        output = _bound(agent, book, episode).run(episode.task)
        return score_of(episode.score(output))


def _bound(agent: ReActGenerator, book: Playbook, episode: Episode) -> ReActGenerator:
    """Return the agent of an attempt; a task that is tried again is sampled again, as `dspy.BootstrapFewShot` does."""
    lm = agent.lm or agent.agent.react.lm or dspy.settings.lm
    if episode.attempt and lm is not None:
        lm = lm.copy(rollout_id=episode.attempt, temperature=1.0)
    else:
        lm = None
    return agent.bound_to(episode.registry, playbook=book, lm=lm)
