"""Finds the bullets for a task: candidates out of the indexes, then utility, diversity and the budget."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cachetools import LRUCache

from ace.core import clean_text
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.explain import explain
from ace.playbook.filters import Filters
from ace.playbook.index.index import Masked
from ace.playbook.ranking import Group, Scored, diversify, failed_nearer, nearness, pinned_first, ranked, without_reads
from ace.playbook.release import is_released
from ace.playbook.render import pack
from ace.playbook.results import Explanation, Retrieved
from ace.playbook.state import PlaybookState
from ace.playbook.statistics import happens
from ace.tasks import TaskInput

DEFAULT_K = 3
"""More bullets than this help less (SkillsBench: 2-3 skills +18.6 points, 4 and more +5.9)."""


@dataclass(frozen=True)
class Experiment:
    """How much a retrieval experiments, to learn what its bullets do; off by default.

    Examples:
        >>> Experiment(holdout=0.1).active
        True
    """

    holdout: float = 0.0
    """With this probability each, leave a bullet out that would have come; pinned ones always come."""
    seed: int | str = 0
    run: str = ""
    """Names the run; the same run gets the same draws."""

    def __post_init__(self) -> None:
        if not 0 <= self.holdout <= 1:
            raise ValueError(f"holdout is {self.holdout!r}, expected a probability from 0 to 1")

    @property
    def active(self) -> bool:
        """Whether anything is random."""
        return self.holdout > 0


@dataclass(frozen=True)
class Query:
    """What is asked of a playbook."""

    text: str
    domain: str | None = None
    tenant: str | None = None
    filters: Filters = field(default_factory=Filters)
    k: int = DEFAULT_K


class Retriever:
    """Answers queries from one playbook.

    Args:
        state: The playbook's bullets.
        cache_size: How many answers are kept.
    """

    def __init__(self, state: PlaybookState, cache_size: int = 1_024) -> None:
        self._state = state
        self._answers: LRUCache[Any, tuple[PlaybookBullet, ...]] = LRUCache(cache_size)

    def retrieve(self, query: Query, experiment: Experiment | None = None) -> Retrieved:
        """Find the bullets that fit, best first, pinned ones before them."""
        query = replace(query, text=clean_text(query.text))
        if query.k < 1 or not re.search(r"\w", query.text):
            return Retrieved()  # a request that says nothing finds nothing
        chosen = self._chosen(query)
        if experiment is None or not experiment.active:
            return Retrieved(chosen)
        seed, run, share = experiment.seed, experiment.run, experiment.holdout
        kept = [b for b in chosen if b.stage == "pinned" or not happens(seed, run, b.id, share)]
        return Retrieved(
            kept,
            held_back_at_random=[b.id for b in chosen if b not in kept],
            randomized=[b.id for b in kept if share and b.stage != "pinned"],
        )

    def explain(self, query: Query) -> Explanation:
        """Say why each bullet would come, and what else is near."""
        query = replace(query, text=clean_text(query.text), k=max(0, query.k))
        state, filters, domain, tenant = self._state, query.filters, query.domain, query.tenant
        asked = self._masked(query)
        vector = state.index.query_vector(asked)
        with state.lock:
            everything = state.index.candidates(asked, vector, lambda n: state.bullets.key(n).tenant in (None, tenant))
            candidates = state.index.candidates(asked, vector, state.bullets.allowing(filters, domain, tenant))
            groups, ordered, nothing = self._grouped(query, candidates)
            reasons = {s: state.bullets.why_excluded(s.number, filters, domain, tenant) for s in everything}
            hidden = [s for s in candidates if nothing and state.bullets[s.number].stage != "pinned"]
            reasons |= dict.fromkeys(hidden, nothing)
            candidates = [scored for scored in candidates if scored not in hidden]
            return explain(
                state,
                query.text,
                query.k,
                ordered=ordered,
                groups=groups,
                candidates=candidates,
                refused={scored: why for scored, why in reasons.items() if why},
            )

    # -- from candidates to an answer --------------------------------------------------------------------------------

    def _chosen(self, query: Query) -> tuple[PlaybookBullet, ...]:
        state, scope = self._state, (query.filters, query.domain, query.tenant)
        with state.lock:
            asked = self._masked(query)
            scope_key = (query.domain, query.tenant, query.filters.cache_key, query.k)
            key = (asked, *scope_key, state.budget.prompt, state.revision)
            known = self._answers.get(key)
        if known is not None:
            return known
        vector = state.index.query_vector(asked)  # not under the lock: it takes longest
        with state.lock:
            _, ordered, _ = self._grouped(query, state.index.candidates(asked, vector, state.bullets.allowing(*scope)))
            # one that is too long for the budget must not cost a slot
            packed = tuple(pinned_first(pack(ordered, state.budget.prompt, query.k, state.budget.counter)))
            self._answers[key] = packed
        return packed

    def _masked(self, query: Query) -> Masked:
        """Return the query as it is compared, after following what other processes have committed."""
        with self._state.lock:
            self._state.keep_up()
            return self._state.index.asked(query.text)

    def _grouped(self, query: Query, candidates: Sequence[Scored]) -> tuple[list[Group], list[PlaybookBullet], str]:
        """Group the candidates by what they teach; return also the bullets in order, pinned ones first, and why no other
        one comes if so."""
        bullets, nearest, least = self._state.bullets, nearness(candidates), self._state.least
        groups = diversify(without_reads(candidates, bullets), bullets)
        nothing = ""
        if nearest < least:
            nothing = f"no lesson is near enough: {nearest:.2f}, expected {least:.2f}"
        elif failed_nearer(groups[: query.k], candidates, bullets):
            nothing = "the calls of all lessons that fit are known to fail in a situation nearer to this request"
        if nothing:
            groups = []
        pinned = dict.fromkeys(bullets.pinned(query.filters, query.domain, query.tenant))
        near = [scored.number for scored in candidates if scored.number in pinned]
        order = dict.fromkeys([*near, *pinned, *ranked(groups, bullets)])
        return groups, [bullets[number] for number in order], nothing


class PlaybookView:
    """A playbook as one agent sees it, `book.view(Filters(sections=("Pitfalls",)))`: with filters, perhaps an experiment.

    Made by `Playbook.view`; a `ReActGenerator` takes it in place of the playbook.

    Attributes:
        filters: What may come.
        experiment: A random holdout; None for none.
    """

    def __init__(
        self, state: PlaybookState, retriever: Retriever, filters: Filters, experiment: Experiment | None
    ) -> None:
        self._state = state
        self._retriever = retriever
        self.filters = filters
        self.experiment = experiment if experiment is not None and experiment.active else None
        self._runs: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def server_url(self) -> str | None:
        """Where other machines reach the playbook; None when they do not."""
        return self._state.store.server_url

    @property
    def revision(self) -> int:
        """The newest revision that this process has seen."""
        return self._state.revision

    def warm(self) -> None:
        """See `Playbook.warm`."""
        warm = getattr(self._state.embedder, "warm", None)
        if warm is not None:
            warm()

    def __deepcopy__(self, memo: dict[int, Any]) -> PlaybookView:
        return self  # as the playbook: one memory, however often an optimizer copies the program around it

    def retrieve_for(self, task: TaskInput, tools: Mapping[str, str]) -> Retrieved:
        """Find the bullets for a task of an agent with these tools (name to schema hash).

        In an experiment every run of a task gets draws of its own, unless the experiment names the run.
        """
        query = Query(task.text, task.domain, task.tenant, replace(self.filters, tools=tools))
        experiment = self.experiment
        if experiment is not None and not experiment.run:
            with self._lock:
                number = self._runs[task.task_id]
                self._runs[task.task_id] += 1
            experiment = replace(experiment, run=f"{task.task_id}/{number}")
        found = self._retriever.retrieve(query, experiment)
        found.outdated = outdated(self._state, tools, task.domain, task.tenant)
        found.released = tuple(b.id for b in found if is_released(b, self._state.store.book_id))
        return found


def outdated(
    state: PlaybookState, tools: Mapping[str, str], domain: str | None = None, tenant: str | None = None
) -> tuple[str, ...]:
    """Return ids of the bullets that would be shown, had not one of their tools changed its signature since."""
    with state.lock:
        return tuple(f"b-{number}" for number in state.bullets.changed_tools(tools, domain, tenant))
