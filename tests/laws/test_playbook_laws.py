"""Laws of the playbook, whatever is done to it; and for each law a mutant of our code that it catches."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pytest
import sqlalchemy as sa
from hypothesis import strategies as st
from laws.examine import examine, must_break

from ace.core import PlaybookError
from ace.playbook import (
    Add,
    CallableEmbedder,
    Merge,
    Playbook,
    PlaybookBullet,
    Promote,
    Quarantine,
    Remove,
    Restore,
    Tag,
    Update,
    fold,
    history as history_module,
    retriever as retrieving,
    schema,
    state as state_module,
    store,
)
from ace.playbook.render import count_tokens, render_bullets
from ace.playbook.state import PlaybookState

FULL, SHORT = 2_000, 100
MOST = 10_000  # a mutant is looked for until it is found
BUDGET = 60

words = st.sampled_from(
    ["refund", "order", "mail", "Ana", "find", "the", "7", "days", "not", "`send_mail`", "cancel", "meeting", "before"]
)
texts = st.lists(words, min_size=1, max_size=12).map(" ".join)
ids = st.sampled_from([f"b-{n}" for n in range(1, 9)])
bullets = st.builds(
    PlaybookBullet,
    section=st.sampled_from(["Strategies", "Pitfalls"]),
    trigger=st.one_of(st.just(""), texts),
    content=texts,
    domain=st.sampled_from([None, "shop"]),
    tool_sequence=st.lists(st.sampled_from("ab"), max_size=2).map(tuple),
    changing_tools=st.lists(st.sampled_from("ab"), max_size=2).map(tuple),
    stage=st.sampled_from(["active", "active", "shadow", "pinned"]),
    trust=st.sampled_from(["trusted", "trusted", "tainted"]),
)
arms = st.sampled_from([("none", None), ("treated", True), ("control", False)])
deltas = st.one_of(
    st.builds(Add, bullet=bullets),
    st.builds(
        lambda i, h, arm, run: Tag(bullet_id=i, helpful=h, arm=arm[0], success=arm[1], run_id=run),
        *(ids, st.integers(0, 3), arms, st.sampled_from(["", "r1", "r2"])),
    ),
    st.builds(lambda i, text: Update(bullet_id=i, changes={"content": text}), ids, texts),
    st.builds(
        Merge, bullet_id=ids, helpful=st.integers(0, 2), absorbed=st.lists(ids, max_size=2, unique=True).map(tuple)
    ),
    st.builds(Remove, bullet_id=ids),
    st.builds(Promote, bullet_id=ids, stage=st.sampled_from(["shadow", "active", "pinned", "retired"])),
    st.builds(Quarantine, bullet_id=ids),
)
steps = st.one_of(
    st.lists(deltas, min_size=1, max_size=3),
    st.tuples(st.just("rollback"), st.floats(0, 1)),
    st.sampled_from(["import", "dedup", "reopen", "prune"]),
)
histories = st.lists(steps, max_size=10)


def toy(list_of_texts):
    return [[text.count(letter) + 0.1 for letter in "aeinorst"] for text in list_of_texts]


def opened(folder: str, **options) -> Playbook:
    return Playbook.open(Path(folder) / "book.db", embedder=CallableEmbedder("toy", toy), **options)


def json_of(book: Playbook) -> dict[str, str]:
    return {bullet.id: bullet.model_dump_json() for bullet in book.bullets}


def play(folder: str, history, after_each=lambda book, before, named, given: None, **options) -> Playbook:
    """Run a history; `after_each` sees the book, its bullets before, the ids that a commit named, and ids ever given."""
    book = opened(folder, **options)
    given: set[str] = set()
    for step in history:
        before, named = json_of(book), set()
        try:
            if step == "reopen":
                book.close()
                book = opened(folder, **options)
            elif step == "import":
                path = Path(folder) / "bullets.jsonl"
                book.export_jsonl(path)
                book.import_jsonl(path)
            elif step == "dedup":
                report = book.maintenance.dedup(threshold=0.97)
                named = {i for pair in report.duplicates for i in (pair.successor.id, pair.removed.id)}
            elif step == "prune":
                named = {assessment.bullet.id for assessment in book.maintenance.prune(0.9)}
            elif isinstance(step, tuple):
                revision = round(step[1] * book.revision)
                book.history.rollback(revision)
                assert json_of(book) == {b.id: b.model_dump_json() for b in book.history.at(revision)}
                named = before.keys() | json_of(book).keys()
            else:
                named = {getattr(d, "bullet_id", "") for d in step} | {
                    i for d in step for i in getattr(d, "absorbed", ())
                }
                book.commit(step)
        except PlaybookError:
            named = set()
        after_each(book, before, named, given)
        given |= json_of(book).keys()
    return book


def law_the_table_is_the_fold_of_the_journal(history):
    with tempfile.TemporaryDirectory() as folder, play(folder, history) as book:
        table = {bullet.id: bullet for bullet in book.bullets}
        assert fold(book.history.deltas()) == table
        report = book.history.verify()
        assert report.ok, report.problems
        with opened(folder) as again:
            assert json_of(again) == json_of(book)
            assert [b.id for b in again.retrieve("refund order", k=5)] == [
                b.id for b in book.retrieve("refund order", k=5)
            ]


def law_untouched_bullets_keep_every_byte(history):
    def check(book, before, named, given):
        after = json_of(book)
        assert all(after[i] == text for i, text in before.items() if i not in named)

    with tempfile.TemporaryDirectory() as folder:
        play(folder, history, check).close()


def law_ids_never_come_twice(history):
    def check(book, before, named, given):
        added = [d.bullet.id for _, d in book.history.deltas() if isinstance(d, Add)]
        assert len(added) == len(set(added))
        restored = {d.bullet.id for _, d in book.history.deltas() if isinstance(d, Restore)}
        assert json_of(book).keys() - before.keys() <= restored | (set(added) - given)

    with tempfile.TemporaryDirectory() as folder:
        play(folder, history, check).close()


def law_rollback_then_replay_is_the_identity(history, where):
    with tempfile.TemporaryDirectory() as folder, play(folder, history) as book:
        newest, now = book.revision, json_of(book)
        target = round(where * newest)
        then = {b.id: b.model_dump_json() for b in book.history.at(target)}
        book.history.rollback(target)
        assert json_of(book) == then == {b.id: b.model_dump_json() for b in book.history.at(book.revision)}
        book.history.rollback(newest)
        assert json_of(book) == now
        assert book.history.verify().ok


def law_budgets_are_never_exceeded(history, k):
    def check(book, before, named, given):
        shown = render_bullets(book.retrieve("refund the order of Ana", k=k))
        assert count_tokens(shown) <= BUDGET // 2

    with tempfile.TemporaryDirectory() as folder:
        book = play(folder, history, check, prompt_budget=BUDGET // 2, book_budget=4 * BUDGET)
        # importing and merging go through the same gate; a rollback only leads to what was allowed before
        assert count_tokens(render_bullets(book.bullets)) <= 4 * BUDGET
        book.close()


def law_nothing_in_quarantine_is_shown(history):
    def check(book, before, named, given):
        assert all(b.stage in ("active", "pinned") for b in book.retrieve("refund the order", k=9))
        assert not any(
            b.stage in ("active", "pinned") for b in book.bullets if b.trust == "tainted" and b.id not in before
        )

    with tempfile.TemporaryDirectory() as folder:
        play(folder, [s for s in history if not isinstance(s, tuple)], check).close()


LAWS = {
    "fold": (law_the_table_is_the_fold_of_the_journal, (histories,)),
    "untouched": (law_untouched_bullets_keep_every_byte, (histories,)),
    "ids": (law_ids_never_come_twice, (histories,)),
    "rollback": (law_rollback_then_replay_is_the_identity, (histories, st.floats(0, 1))),
    "budgets": (law_budgets_are_never_exceeded, (histories, st.integers(1, 5))),
    "quarantine": (law_nothing_in_quarantine_is_shown, (histories,)),
}


@pytest.mark.parametrize("name", LAWS)
def test_law_of_the_playbook(name):
    examine(*LAWS[name], SHORT, derandomize=True)


@pytest.mark.full
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", LAWS)
def test_law_of_the_playbook_at_full_count(name):
    examine(*LAWS[name], FULL)


# -- a mutant for each law ---------------------------------------------------------------------------------------------


def _forgets_removals(connection, bullet_id, bullet, _put=store._put):
    if bullet is not None:
        _put(connection, bullet_id, bullet)


def _touches_a_neighbour(self, journal, _follow=PlaybookState._follow):
    _follow(self, journal)
    first = next(iter(self.bullets.values()), None)
    if first is not None:
        self.bullets.put(first.model_copy(update={"updated_revision": self.revision}))


def _counts_what_is_there(self, bullet):
    rows = self._connection.execute(sa.select(sa.func.max(schema.bullets.c.number))).scalar_one()
    return bullet.model_copy(update={"id": f"b-{(rows or 0) + 1}"})


def _forgets_who_came_back(*given, _way_back=history_module._way_back):
    return [delta for delta in _way_back(*given) if delta.kind != "restore"]


MUTANTS = {
    "fold": [(store, "_put", _forgets_removals)],
    "untouched": [(PlaybookState, "_follow", _touches_a_neighbour)],
    "ids": [(store.Transaction, "_with_id", _counts_what_is_there)],
    "rollback": [(history_module, "_way_back", _forgets_who_came_back)],
    "budgets": [(retrieving, "pack", lambda bullets, budget, k, count=None: list(bullets)[:k])],
    "quarantine": [(state_module, "required_stage_changes", lambda *_, **__: [])],
}


@pytest.mark.parametrize("name", LAWS)
def test_the_law_catches_a_mutant(name):
    with ExitStack() as stack:
        for where, what, mutant in MUTANTS[name]:
            stack.enter_context(mock.patch.object(where, what, mutant))
        must_break(*LAWS[name], MOST)
