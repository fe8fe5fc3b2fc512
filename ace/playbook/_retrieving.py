"""The part of `Playbook` that finds bullets."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from cachetools import LRUCache

from ace.core import clean_text
from ace.playbook.bullet import PlaybookBullet, Section
from ace.playbook.embedder import Embedder, Vectors, embedded
from ace.playbook.render import TokenCounter, count_tokens, pack
from ace.playbook.results import Explanation, Retrieved
from ace.playbook.retrieval import Filters, Scored, diversify, in_turn, pinned_first
from ace.playbook.scoring import coin, thompson, utility
from ace.playbook.search import Searcher
from ace.playbook.store import Store
from ace.playbook.table import BulletTable

if TYPE_CHECKING:
    from ace.tasks import TaskInput

DEFAULT_K = 3
"""More bullets than this help less (SkillsBench: 2-3 skills +18.6 points, 4 and more +5.9)."""
REFRESH_SECONDS = 0.5
"""Commits of other processes are seen after at most this long."""
BACKGROUND_FROM = 64
"""After a change of embedder, so many missing vectors or more are computed in a thread."""
_LIVING = ("shadow", "active", "pinned", "quarantined")
_ANY_STAGE = (*_LIVING, "retired")


@dataclass(frozen=True)
class Trial:
    """How much a retrieval experiments, to learn what its bullets do.

    Example:
        >>> Trial(withhold=0.1).explore
        0.0
    """

    explore: float = 0.0
    """With this probability, order by a draw from each bullet's posterior (Thompson sampling), and let shadow bullets
    compete, one of them at most."""
    withhold: float = 0.0
    """With this probability each, leave a bullet out that would have come; pinned ones always come."""
    seed: int | str = 0
    run: str = ""
    """Names the run; the same run gets the same draws and coins."""

    def __post_init__(self) -> None:
        for name in ("explore", "withhold"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected a probability from 0 to 1")


class Retrieving(ABC):
    """What a playbook does to answer: candidates out of a cache or the indexes, then utility, diversity and the budget."""

    embedder: Embedder
    prompt_budget: int
    half_life_days: float | None
    revision: int
    content_revision: int
    evidence_revision: int
    cache_hits: int
    cache_misses: int
    _count_tokens: TokenCounter | None
    _store: Store
    _lock: threading.RLock
    _bullets: BulletTable
    _searcher: Searcher
    _candidates: LRUCache[Any, list[Scored]]
    _packed: LRUCache[Any, tuple[PlaybookBullet, ...]]
    _query_vectors: LRUCache[str, Vectors]
    _checked_at: float
    _scopes: dict[str | None, int]
    """By domain, when the content of its bullets changed last in this process's sight."""

    @abstractmethod
    def refresh(self) -> None:
        """Follow the commits of other processes, now."""

    @overload
    def retrieve(
        self,
        query: str,
        domain: str | None = None,
        filters: Filters | None = None,
        k: int = DEFAULT_K,
        *,
        tenant: str | None = None,
        trial: Trial | None = None,
        explain: Literal[False] = False,
    ) -> Retrieved: ...
    @overload
    def retrieve(
        self,
        query: str,
        domain: str | None = None,
        filters: Filters | None = None,
        k: int = DEFAULT_K,
        *,
        tenant: str | None = None,
        trial: Trial | None = None,
        explain: Literal[True],
    ) -> Explanation: ...
    def retrieve(
        self,
        query: str,
        domain: str | None = None,
        filters: Filters | None = None,
        k: int = DEFAULT_K,
        *,
        tenant: str | None = None,
        trial: Trial | None = None,
        explain: bool = False,
    ) -> Retrieved | Explanation:
        """The bullets that fit a task, best first, pinned ones before them.

        Args:
            query: The task in its own words.
            domain: Only bullets of this domain, or of none.
            filters: What else may come.
            k: How many at most; each with another tool sequence, and advice that names no tools where slots are left.
            tenant: Bullets of other tenants never come.
            trial: Exploration and coins; without one, nobody is experimented on.
            explain: Say for each bullet why it came, and what else was near; without trial.

        Returns:
            At most `k` bullets that fit `prompt_budget` together; an `Explanation` when asked.
        """
        filters, query = filters or Filters(), clean_text(query)
        if k < 1:
            return Retrieved() if not explain else self._explained(query, filters, domain, tenant, 0)
        if explain:
            return self._explained(query, filters, domain, tenant, k)
        if trial is None:
            return Retrieved(self._chosen(query, domain, tenant, filters, k))
        chosen, explored = self._chosen(query, domain, tenant, filters, k), tuple[str, ...]()
        if coin(trial.seed, trial.run, "explore", trial.explore):
            chosen, explored = self._explored(query, domain, tenant, filters, k, f"{trial.seed}|{trial.run}")
        kept = [b for b in chosen if b.stage == "pinned" or not coin(trial.seed, trial.run, b.id, trial.withhold)]
        return Retrieved(
            kept,
            withheld=[b.id for b in chosen if b not in kept],
            tossed=[b.id for b in kept if trial.withhold and b.stage != "pinned"],
            explored=[b.id for b in kept if b.id in explored],
        )

    def retrieve_many(
        self,
        queries: Sequence[str],
        domain: str | None = None,
        filters: Filters | None = None,
        k: int = DEFAULT_K,
        *,
        tenant: str | None = None,
        on_query: Callable[[], None] = lambda: None,
    ) -> list[Retrieved]:
        """`retrieve` for many queries; those that are new are embedded together."""
        cleaned = [clean_text(query) for query in queries]
        with self._lock:
            fresh = [query for query in dict.fromkeys(cleaned) if query not in self._query_vectors]
        vectors = dict(zip(fresh, embedded(self.embedder, fresh), strict=True)) if fresh else {}
        found: list[Retrieved] = []
        for query in cleaned:
            if query in vectors:
                with self._lock:
                    self._query_vectors[query] = vectors[query]
            found.append(self.retrieve(query, domain, filters, k, tenant=tenant))
            on_query()
        return found

    def retrieve_for(
        self, task: TaskInput, tools: Mapping[str, str], filters: Filters | None = None, trial: Trial | None = None
    ) -> Retrieved:
        """The bullets for a task of an agent that has these tools (name to schema hash).

        Args:
            task: The task.
            tools: Of the agent that will do it.
            filters: What else may come.
            trial: Exploration and coins; the task's id is the run, unless the trial names one.
        """
        filters = (filters or Filters()).with_tools(tools)
        if trial is not None and not trial.run:
            trial = replace(trial, run=task.task_id)
        found = self.retrieve(task.text, task.domain, filters, tenant=task.tenant, trial=trial)
        found.stale = tuple(self.stale(tools, task.domain, task.tenant))
        return found

    def guarded(self, filters: Filters, trial: Trial | None = None) -> GuardedPlaybook:
        """A view for evaluation and learning.

        Args:
            filters: `retrieve_for` leaves out what the guard names.
            trial: Exploration and coins.
        """
        return GuardedPlaybook(self, filters, trial)

    def stale(self, tools: Mapping[str, str], domain: str | None = None, tenant: str | None = None) -> list[str]:
        """Ids of the bullets that would be shown, had not one of their tools changed its signature since."""
        with self._lock:
            return [f"b-{number}" for number in self._bullets.changed_tools(tools, domain, tenant)]

    def similar(
        self, text: str, section: Section, domain: str | None = None, tenant: str | None = None
    ) -> list[tuple[PlaybookBullet, float]]:
        """The bullets of one section and scope that are near a text, with their cosine, best first.

        Those that wait or are not shown are among them, retired ones are not: what is added is compared with them.
        """
        text = clean_text(text)
        self._keep_up()
        found = self._found(text, domain, tenant, Filters(sections=(section,), stages=_LIVING), counted=False)
        with self._lock:
            near = [(self._bullets[s.number], s.cosine or 0.0) for s in found if s.number in self._bullets]
        near = [(b, cosine) for b, cosine in near if (b.domain, b.tenant) == (domain, tenant)]
        return sorted(near, key=lambda pair: (-pair[1], pair[0].number))

    def vectors(self, bullets: Sequence[PlaybookBullet]) -> Vectors:
        """Unit vectors of what bullets are searched by, shape (len(bullets), dimension)."""
        return self._searcher.vectors([bullet.searched for bullet in bullets])

    @property
    def _weigh(self) -> Callable[[PlaybookBullet], float]:
        """Asked for each of a hundred candidates."""
        days, now = self.half_life_days, time.time()
        return utility if not days else lambda bullet: utility(bullet, now, days)

    def _chosen(
        self, query: str, domain: str | None, tenant: str | None, filters: Filters, k: int
    ) -> tuple[PlaybookBullet, ...]:
        with self._lock:
            self._keep_up()
            hour = int(time.time() // 3600) if self.half_life_days is not None else 0
            key = (*self._key(query, domain, tenant, filters), self.revision, k, self.prompt_budget, hour)
            packed = self._packed.get(key)
            if packed is not None:
                self.cache_hits += 1
                return packed
        candidates = self._found(query, domain, tenant, filters)
        with self._lock:
            ordered = self._ordered(self._bullets.still(candidates, filters, domain, tenant), self._weigh)
            complete = not self._searcher.waiting
        # one that is too long for the budget must not cost a slot
        packed = tuple(pinned_first(pack(ordered, self.prompt_budget, k, self._count_tokens)))
        if complete:  # what is found while vectors are missing is not worth remembering
            with self._lock:
                self._packed[key] = packed
        return packed

    def _ordered(self, candidates: Sequence[Scored], weigh: Callable[[PlaybookBullet], float]) -> list[PlaybookBullet]:
        groups = diversify(candidates, self._bullets, weigh)
        return [self._bullets[number] for number in in_turn(groups, self._bullets)]

    def _explored(
        self, query: str, domain: str | None, tenant: str | None, filters: Filters, k: int, draw: str
    ) -> tuple[tuple[PlaybookBullet, ...], tuple[str, ...]]:
        """Shadow bullets compete, and everybody by a draw from the posterior; at most one shadow bullet comes."""
        random = np.random.default_rng(list(draw.encode("utf-8", "replace")) or [0])
        filters = filters.with_stages((*filters.stages, "shadow"))
        candidates = self._found(query, domain, tenant, filters)
        with self._lock:
            there = self._bullets.still(candidates, filters, domain, tenant)
            ordered = self._ordered(there, lambda bullet: thompson(bullet, random))
        first = next((b.id for b in ordered if b.stage == "shadow"), None)
        ordered = [b for b in ordered if b.stage != "shadow" or b.id == first]
        packed = tuple(pinned_first(pack(ordered, self.prompt_budget, k, self._count_tokens)))
        return packed, tuple(b.id for b in packed if b.stage == "shadow")

    def _found(
        self, query: str, domain: str | None, tenant: str | None, filters: Filters, *, counted: bool = True
    ) -> list[Scored]:
        """Candidates, out of the cache or of the indexes."""
        with self._lock:
            vector = self._query_vectors.get(query)
            key = self._key(query, domain, tenant, filters)
            candidates = self._candidates.get(key)
            if candidates is not None:
                self.cache_hits += counted
                return candidates
            self.cache_misses += counted
        if vector is None and len(self._bullets):
            (vector,) = embedded(self.embedder, [query])  # not under the lock: it takes longest
            with self._lock:
                self._query_vectors[query] = vector
        with self._lock:
            if vector is None:
                return []
            self._searcher.update(self._in_background)
            self._searcher.embed_later(self._lock)
            key = self._key(query, domain, tenant, filters)
            candidates = self._searcher.candidates(query, vector, domain, tenant, filters)
            if not self._searcher.waiting:
                self._candidates[key] = candidates
            return candidates

    def _key(self, query: str, domain: str | None, tenant: str | None, filters: Filters) -> tuple[Any, ...]:
        # a lesson of another domain cannot come, so that its arrival leaves this domain's candidates as they are
        content = self.content_revision
        if domain is not None:
            content = max(self._scopes.get(None, 0), self._scopes.get(domain, 0))
        evidence = self.evidence_revision if filters.guarded else 0
        return (self.embedder.name, query, domain, tenant, filters.cache_key, content, evidence)

    def _keep_up(self) -> None:
        if time.monotonic() - self._checked_at > REFRESH_SECONDS:
            self.refresh()

    def _in_background(self, missing: Sequence[int]) -> bool:
        """A book that was embedded with another model is re-embedded in a thread; new bullets are embedded at once."""
        return len(missing) >= BACKGROUND_FROM and self._store.has_vectors_of_others(self.embedder.name)

    def wait_until_indexed(self, seconds: float | None = None) -> bool:
        """Wait until every bullet can be found by its meaning, after a change of embedder; whether that is so now."""
        with self._lock:
            self._searcher.update(self._in_background)
            self._searcher.embed_later(self._lock)
        return self._searcher.wait(seconds)

    def save_index(self) -> bool:
        """Write the indexes beside the store now, as `close` does; whether they are there."""
        self.wait_until_indexed()
        with self._lock:
            return self._searcher.save(self.revision)

    def _explained(self, query: str, filters: Filters, domain: str | None, tenant: str | None, k: int) -> Explanation:
        from ace.playbook.explain import explain

        with self._lock:
            self._keep_up()
            cached = self._key(query, domain, tenant, filters) in self._candidates
        candidates = self._found(query, domain, tenant, filters, counted=False)  # looking is not use
        everything = self._found(query, None, tenant, Filters(stages=_ANY_STAGE), counted=False)
        with self._lock:
            candidates = self._bullets.still(candidates, filters, domain, tenant)
            everything = [scored for scored in everything if scored.number in self._bullets]
            groups = diversify(candidates, self._bullets, self._weigh)
            ordered = [self._bullets[number] for number in in_turn(groups, self._bullets)]
            objections = {s: self._bullets.objection(s.number, filters, domain, tenant) for s in everything}
            return explain(
                query=query,
                chosen=pinned_first(pack(ordered, self.prompt_budget, k, self._count_tokens)),
                ordered=[bullet.number for bullet in ordered],
                groups=groups,
                candidates=candidates,
                refused={scored: why for scored, why in objections.items() if why},
                bullets=self._bullets,
                weigh=self._weigh,
                k=k,
                budget=self.prompt_budget,
                count=self._count_tokens or count_tokens,
                embedder=self.embedder.name,
                index=self._searcher.kind,
                cached=cached,
            )


class GuardedPlaybook:
    """A playbook seen through a leave-out guard, and possibly with exploration and coins."""

    def __init__(self, playbook: Retrieving, filters: Filters, trial: Trial | None = None) -> None:
        self.playbook = playbook
        self.filters = filters
        self.trial = trial

    def retrieve_for(self, task: TaskInput, tools: Mapping[str, str]) -> Retrieved:
        """As `Playbook.retrieve_for`, without what the guard names."""
        return self.playbook.retrieve_for(task, tools, self.filters, self.trial)
