"""`Playbook`: open one, commit deltas to it, retrieve from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from ace.core import PlaybookError
from ace.core.text import counted
from ace.playbook.budget import DEFAULT_PROMPT_BUDGET, TokenBudget
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.credits import credits_of
from ace.playbook.database import book_url, check_there
from ace.playbook.delta import Add, Delta, Learned, Purge, Restore, checked
from ace.playbook.filters import Filters
from ace.playbook.history import History
from ace.playbook.index.embedders import as_embedder
from ace.playbook.index.index import BulletIndex, text_key
from ace.playbook.index.minilm import Embedder
from ace.playbook.insight import HeardValues
from ace.playbook.maintenance import Maintenance
from ace.playbook.masking import Masker, PatternMasker
from ace.playbook.purge import Purger, PurgeReport, Target
from ace.playbook.render import TokenCounter
from ace.playbook.results import Explanation, Retrieved
from ace.playbook.retriever import DEFAULT_K, Experiment, PlaybookView, Query, Retriever
from ace.playbook.review import ReviewQueue
from ace.playbook.skills import write_skills
from ace.playbook.stage_rules import Screen
from ace.playbook.state import PlaybookState
from ace.playbook.store import Store
from ace.playbook.transfer import read_bullets, untrusted, write_bullets
from ace.tasks import TaskInput


def _reopened(state: Mapping[str, Any], options: dict[str, Any]) -> Playbook:
    """Open a playbook that was pickled.

    A pickle holds no password of a server; where one is needed, ``PGPASSWORD`` or a ``.pgpass`` file has it.
    """
    return Playbook.load_state(state, **options)


class Playbook:
    """A journaled memory of lessons, found by meaning and by words.

    Args:
        path: A file, made when it is not there, or an SQLAlchemy URL; in memory by default.
        embedder: MiniLM by default; anything that `as_embedder` takes.
        masker: Masks lessons and queries: what is personal, dates, numbers. Patterns by default.
        prompt_budget: Tokens that `retrieve` may fill.
        book_budget: Tokens that all bullets together may take; a commit that would exceed it is refused.
        cache_size: How many answers are kept, each as long as the book stays as it is.
        count_tokens: Counts tokens for the budgets.
        least_similarity: How near the nearest lesson has to be to a request, by meaning and by words together (0 to 2): else
            none comes. 0 lets the nearest ones come whatever is asked; None takes what was calibrated for MiniLM, and 0 for
            another embedder.
        screen: A rule of your own: looks at the words of a new lesson, and says why they wait for a person, or nothing.
        tools: Names of tools that are registered; the screen knows them.
        promote_after: Distinct tasks, of distinct users where `TaskInput.user` is given, that have to teach a lesson before
            it is shown; until then it is shadow. For a service that anybody may teach.

    Attributes:
        history: The journal, differences, rollback, verification.
        review: What waits for a person.
        maintenance: Duplicates, assessment, pruning, counts.
        budget: Tokens of bullets, of prompts and of the book.

    Examples:
        >>> from ace.playbook import CallableEmbedder
        >>> book = Playbook(embedder=CallableEmbedder("toy", lambda texts: [[len(t), 1.0] for t in texts]))
        >>> book.add(section="Strategies", trigger="Refund an order", content="Find the order first.").id
        'b-1'
        >>> [bullet.id for bullet in book.retrieve("Refund order 17")]
        ['b-1']
    """

    def __init__(
        self,
        path: str | Path | sa.URL = "sqlite://",
        *,
        embedder: Any = None,
        masker: Masker | None = None,
        prompt_budget: int = DEFAULT_PROMPT_BUDGET,
        book_budget: int | None = None,
        cache_size: int = 1_024,
        count_tokens: TokenCounter | None = None,
        least_similarity: float | None = None,
        screen: Screen | None = None,
        tools: Collection[str] = (),
        promote_after: int = 1,
    ) -> None:
        if promote_after < 1:
            raise ValueError(f"promote_after is {promote_after}, expected at least 1 task")
        if least_similarity is not None and not 0 <= least_similarity <= 2:
            raise ValueError(f"least_similarity is {least_similarity!r}, expected a number from 0 to 2")
        if cache_size < 1:
            raise ValueError(
                f"cache_size is {cache_size}, expected at least 1: a retrieval keeps what it is working on"
            )
        self._options: dict[str, Any] = {
            "masker": masker,
            "prompt_budget": prompt_budget,
            "book_budget": book_budget,
            "cache_size": cache_size,
            "count_tokens": count_tokens,
            "least_similarity": least_similarity,
            "screen": screen,
            "tools": tuple(tools),
            "promote_after": promote_after,
        }
        """As they were given, for a copy in another process."""
        self._state = PlaybookState(
            Store(path if isinstance(path, sa.URL) else book_url(path)),
            as_embedder(embedder),
            masker or PatternMasker(),
            budget=TokenBudget(prompt_budget, book_budget, count_tokens),
            screen=screen,
            tools=tools,
            promote_after=promote_after,
            least_similarity=least_similarity,
        )
        self._retriever = Retriever(self._state, cache_size)
        self.history = History(self._state)
        self.review = ReviewQueue(self._state)
        self.maintenance = Maintenance(self._state)
        self.budget = self._state.budget

    @classmethod
    def open(cls, path: str | Path, **options: Any) -> Playbook:
        """Open a playbook file, or make a new one: `Playbook.open("book.db")` is `Playbook("book.db")`.

        Raises:
            PlaybookError: The file is no playbook, or its folder does not exist.
        """
        return cls(path, **options)

    def close(self) -> None:
        """Release the database."""
        self._state.store.close()

    def __enter__(self) -> Playbook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        embedder = self._state.embedder
        known = None if type(embedder).__module__.startswith("ace.") and not callable(embedder) else embedder
        options = {**self._options, **({} if known is None else {"embedder": known})}
        address = self._state.store.address
        return _reopened, (self.dump_state() if address is None else {"path": address}, options)

    def dump_state(self) -> dict[str, Any]:
        """Return the book as JSON for a saved program: where it is and a digest of it, or, of one in memory, its lessons."""
        store = self._state.store
        if store.address is not None:
            return {"path": store.address, "digest": store.digest()}
        return {"lessons": [bullet.model_dump(mode="json") for bullet in self.bullets]}

    @classmethod
    def load_state(cls, state: Mapping[str, Any], **options: Any) -> Playbook:
        """Bring back what `dump_state` gave: `Playbook.load_state(book.dump_state())`.

        Args:
            state: A saved book; lessons come back with their ids, their counts and their trust.
            **options: As for the class.

        Raises:
            PlaybookError: The book is not where it was, or another one is there.
        """
        if "path" not in state:
            try:
                bullets = [PlaybookBullet.model_validate(lesson) for lesson in state["lessons"]]
            except (KeyError, TypeError, ValidationError) as error:
                raise PlaybookError(
                    f"this is no saved playbook: {str(error)[:200]}; expected its lessons, or its path"
                ) from error
            book = cls(**options)
            book._state.store.start_ids_after(max((bullet.number for bullet in bullets), default=0))
            book.history.write_again([Restore(bullet=bullet) for bullet in bullets])
            return book
        path = state["path"]
        check_there(path)
        book = cls(path, **options)
        if not book._state.store.has_been(state.get("digest", "")):
            book.close()
            raise PlaybookError(
                f"the playbook {path!r} is not the one that was saved: its journal does not hold that state"
            )
        return book

    def __deepcopy__(self, memo: dict[int, Any]) -> Playbook:
        # one memory, however often an optimizer copies the program around it
        return self

    def warm(self) -> None:
        """Load what a first retrieval would have to wait for, the embedder's model: `book.warm()`."""
        self.view().warm()

    # -- what is in it -----------------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """The newest revision that this process has seen."""
        return self._state.revision

    @property
    def in_memory(self) -> bool:
        """Whether it goes with this process, unless it is saved."""
        return self._state.store.address is None

    @property
    def promote_after(self) -> int:
        """Distinct tasks that have to teach a lesson before it is shown."""
        return self._state.promote_after

    @property
    def embedder(self) -> Embedder:
        """What makes the vectors."""
        return self._state.embedder

    @property
    def masker(self) -> Masker:
        """What masks lessons and queries."""
        return self._state.masker

    @property
    def heard(self) -> HeardValues:
        """What the runs of this process were asked and wrote; written nowhere."""
        return self._state.heard

    @property
    def index(self) -> BulletIndex:
        """The indexes, after following what other processes have committed."""
        self._state.keep_up()
        return self._state.index

    @property
    def bullets(self) -> tuple[PlaybookBullet, ...]:
        """All bullets in id order, whatever their stage."""
        return self._state.all()

    def __len__(self) -> int:
        return len(self._state.bullets)

    def __iter__(self) -> Iterator[PlaybookBullet]:
        return iter(self.bullets)

    def __getitem__(self, bullet_id: str) -> PlaybookBullet:
        return self.get(bullet_id)

    def __contains__(self, bullet_id: object) -> bool:
        return isinstance(bullet_id, str) and bool(self.find([bullet_id]))

    def __repr__(self) -> str:
        where = self._state.store.address or "in memory"
        return f"<Playbook {where}: {counted(len(self), 'lesson')}, revision {self.revision}>"

    def _repr_markdown_(self) -> str:
        rows = (f"| {b.id} | {b.section} | {b.stage} | {b.text.replace('|', '&#124;')} |" for b in self.bullets[:100])
        return "\n".join([repr(self), "", "| id | section | stage | lesson |", "|---|---|---|---|", *rows])

    def get(self, bullet_id: str) -> PlaybookBullet:
        """Return one bullet.

        Raises:
            PlaybookError: There is none of that id.
        """
        return self._state.get(bullet_id)

    def find(self, bullet_ids: Iterable[str]) -> dict[str, PlaybookBullet]:
        """Return those of the named bullets that are there, by id."""
        return self._state.find(bullet_ids)

    def refresh(self) -> None:
        """Follow the commits of other processes, now."""
        self._state.refresh()

    # -- retrieving --------------------------------------------------------------------------------------------------

    def retrieve(
        self,
        query: str,
        domain: str | None = None,
        filters: Filters | Mapping[str, Any] | None = None,
        k: int = DEFAULT_K,
        *,
        tenant: str | None = None,
        experiment: Experiment | None = None,
    ) -> Retrieved:
        """Find the bullets that fit a task, best first, pinned ones before them.

        Args:
            query: The task in its own words.
            domain: Only bullets of this domain, or of none.
            filters: What else may come.
            k: How many at most; each with another tool sequence, and advice that names no tools where slots are left.
            tenant: Bullets of other tenants never come.
            experiment: A random holdout; off by default.

        Returns:
            At most `k` bullets that fit the prompt budget together.
        """
        return self._retriever.retrieve(Query(query, domain, tenant, Filters.of(filters), k), experiment)

    def retrieve_for(
        self,
        task: TaskInput,
        tools: Mapping[str, str],
        filters: Filters | Mapping[str, Any] | None = None,
        experiment: Experiment | None = None,
    ) -> Retrieved:
        """Find the bullets for a task of an agent that has these tools (name to schema hash).

        Args:
            task: The task.
            tools: Of the agent that will do it.
            filters: What else may come.
            experiment: A random holdout; the task's id is the run, unless the experiment names one.
        """
        if experiment is not None and not experiment.run:
            experiment = replace(experiment, run=task.task_id)
        return self.view(filters, experiment).retrieve_for(task, tools)

    def explain(
        self,
        query: str,
        domain: str | None = None,
        filters: Filters | Mapping[str, Any] | None = None,
        k: int = DEFAULT_K,
        *,
        tenant: str | None = None,
    ) -> Explanation:
        """Say what `retrieve` returns without an experiment, why each bullet comes, and what else is near."""
        return self._retriever.explain(Query(query, domain, tenant, Filters.of(filters), k))

    def view(
        self, filters: Filters | Mapping[str, Any] | None = None, experiment: Experiment | None = None
    ) -> PlaybookView:
        """Return the playbook as one agent is to see it, for evaluation and learning.

        Args:
            filters: What may come: an evaluation leaves out what rests on the task itself.
            experiment: A random holdout, with draws of its own for every run of a task.
        """
        return PlaybookView(self._state, self._retriever, Filters.of(filters), experiment)

    # -- writing -----------------------------------------------------------------------------------------------------

    def commit(
        self, deltas: Iterable[Delta], *, author: str = "", tools: Collection[str] = (), at: int | None = None
    ) -> int:
        """Write deltas as one revision: all of them, or none.

        What rests on what is not trusted, or is held back by the screen, waits in quarantine for review.

        Args:
            deltas: What to change, in order.
            author: The name in the journal.
            tools: Names of registered tools, besides the book's own: the screen knows them.
            at: Write only if the book is still at this revision, for deltas that rest on having looked at all of it.

        Returns:
            The new revision; the old one when there was nothing to write.

        Raises:
            PlaybookError: A delta does not apply, the book would exceed `book_budget`, or it is not at revision `at` any
                more.
        """
        self._commit(deltas, author, tools, at)
        return self.revision

    def add(self, *, author: str = "", reason: str = "", **fields: Any) -> PlaybookBullet:
        """Commit one new bullet, given by its fields; the journal keeps author and reason.

        Raises:
            PlaybookError: A field is unknown or has an illegal value.
        """
        try:
            bullet = PlaybookBullet(**fields)
        except ValidationError as error:
            raise PlaybookError(f"not a bullet: {error.errors(include_url=False, include_context=False)}") from error
        with self._state.lock:
            added = self._commit([Add(bullet=bullet, reason=reason)], author)[0]
            assert isinstance(added, Add)
            return self.get(added.bullet.id)

    def _commit(
        self, deltas: Iterable[Delta], author: str, tools: Collection[str] = (), at: int | None = None
    ) -> list[Delta]:
        state, wanted = self._state, [checked(delta) for delta in deltas]
        for delta in wanted:
            if isinstance(delta, (Restore, Purge)) or (isinstance(delta, Learned) and delta.again):
                raise PlaybookError(
                    "`Purge` is written by `playbook.purge` only, `Restore` by `playbook.history.rollback`, and another "
                    "verdict on a run by `Learner`; to bring words back, add or update"
                )
        with state.transaction(author, tools=tools) as tx:
            if at is not None and tx.newest != at:
                raise PlaybookError(f"the playbook is at revision {tx.newest}, not at {at} any more; look at it again")
            tx.add(*wanted)
        return tx.deltas

    def fork(
        self, bullets: Iterable[PlaybookBullet] | None = None, *, journal: Sequence[tuple[int, Delta]] = ()
    ) -> Playbook:
        """Copy it in memory with the same bullets, ids and settings: changes there do not affect this one.

        It has its own history.

        Args:
            bullets: Others than those of now, for example as they were once.
            journal: What they are the fold of, so that no run gives a bullet its credit twice; none is recorded without it.
        """
        state = self._state
        with state.lock:
            bullets = state.all() if bullets is None else tuple(bullets)
            options: dict[str, Any] = {**self._options, "book_budget": None}
            copy = Playbook(embedder=state.embedder, **options)
            store, name = copy._state.store, state.embedder.name
            keys = [text_key(entry.meaning) for bullet in bullets for entry in state.index.entries(bullet)]
            store.put_vectors(name, state.store.vectors(name, keys))
            store.start_ids_after(state.store.last_number())
            with copy._state.transaction("fork", reviewed=True) as tx:
                credited = credits_of(journal)
                tx.add(*(Restore(bullet=b, credited=tuple(credited.get(b.id, ()))) for b in bullets))
            # as they are now, for what comes: what is there is copied whatever they are
            copy.budget.prompt, copy.budget.book = self.budget.prompt, self.budget.book
        return copy

    def purge(
        self,
        *,
        text: str = "",
        run_id: str = "",
        tenant: str | None = None,
        exact: bool = False,
        author: str = "",
        dry_run: bool = False,
    ) -> PurgeReport:
        """Take a text, a run or a tenant out of everything that the book has written, history included.

        A text is found whatever its case, also escaped for JSON, and replaced by ``[purged]``; single words of it that
        nothing else says and no list of words knows go, too. A bullet that was nothing else goes. The journal keeps a
        tombstone and verifies. A stored run that holds it is deleted, where its agent has learned into this book. Files that
        others made, such as exports and backups, are not touched, nor is DSPy's cache of replies.

        Args:
            text: What somebody wants to be forgotten.
            run_id: A run whose evidence goes, and what only it taught.
            tenant: Whose bullets go.
            exact: Leave single words of the text alone.
            author: The name in the journal.
            dry_run: Only say what would be touched.

        Raises:
            PlaybookError: Not exactly one of the three is given, or a learner holds its queue; nothing was written.
        """
        target, purger = Target(text, run_id, tenant, exact), Purger(self._state)
        return purger.look(target) if dry_run else purger.purge(target, author)

    def remember_queue(self, path: str | Path) -> None:
        """Note the folder of a learner's state, or of an agent's run store, so that `purge` looks through it."""
        if Path(path) not in self._state.store.queues():
            self._state.store.remember_queue(Path(path))

    @property
    def postponed(self) -> Path | None:
        """Where runs wait that could not be learned from: beside the book's file, or in the user's cache for a server."""
        return self._state.postponed

    # -- files -------------------------------------------------------------------------------------------------------

    def export_jsonl(self, path: str | Path, *, tenant: str | None = None) -> int:
        """Write every bullet as one JSON line, in id order; returns how many.

        Args:
            path: The file.
            tenant: Only the bullets of this one; None for all bullets.

        Raises:
            PlaybookError: The file cannot be written, or is the book itself.
        """
        own = self._state.store.file
        if own is not None and str(Path(path).resolve()) in {
            f"{Path(own).resolve()}{ending}" for ending in ("", "-wal", "-shm", "-journal")
        }:
            raise PlaybookError(f"{str(path)!r} is the playbook itself; export to another file")
        return write_bullets((bullet for bullet in self.bullets if tenant in (None, bullet.tenant)), path)

    def export_skills(self, folder: str | Path, *, tenant: str | None = None) -> list[Path]:
        """Write the lessons that are shown as Agent Skills, one SKILL.md for each domain: `book.export_skills("skills")`.

        One that this book wrote there before is removed when its domain has no lessons any more.

        Args:
            folder: Gets a folder for each skill.
            tenant: Whose lessons; None for those that are everybody's.

        Raises:
            PlaybookError: A file cannot be written or removed, or is there and was not written by this method.
        """
        return write_skills(self.bullets, folder, tenant, book=str(self._state.store.book_id))

    def back_up(self, path: str | Path) -> None:
        """Copy the book into a new file, safely while others write to it: `book.back_up("copy.db")`.

        Raises:
            PlaybookError: The file is there already, or the book is on a server; the error names what copies it there.
        """
        self._state.store.back_up(Path(path))

    def import_jsonl(self, path: str | Path, *, trust: bool = False, author: str = "import") -> int:
        """Add every bullet of a file that `export_jsonl` wrote, under new ids, as one commit; returns how many.

        The lessons are those of the file's author: they come in as shadow, without counts, and are shown when a person
        says so, or when a run of this book's own made the same plan.

        Args:
            path: The file.
            trust: A person's word that the bullets may keep their stages, their counts and their trust.
            author: The name in the journal.

        Raises:
            PlaybookError: A line is no bullet; nothing was written.
        """
        bullets = read_bullets(path)
        # ids of another book mean other bullets here, so what was kept apart is decided again
        fresh = {"id": "", "distinct_from": (), "released": ""}
        bullets = [(b.id, (b if trust else untrusted(b)).model_copy(update=fresh)) for b in bullets]
        self.commit([Add(bullet=b, reason=f"imported, was {was}") for was, b in bullets], author=author)
        return len(bullets)
