import sqlite3
import threading

import pytest
from hypothesis import given, settings, strategies as st

from ace.core import PlaybookError
from ace.playbook import (
    Add,
    CallableEmbedder,
    Filters,
    Merge,
    Playbook,
    PlaybookBullet,
    Promote,
    Provenance,
    Quarantine,
    Remove,
    Tag,
    Update,
    fold,
)


def strategy(trigger, *tools, **fields):
    return PlaybookBullet(
        section="Strategies", trigger=trigger, content="Do it.", tool_sequence=tools, changing_tools=tools, **fields
    )


def test_a_commit_is_all_or_nothing(book):
    book.add(section="Strategies", content="a")
    before = book.bullets
    with pytest.raises(PlaybookError, match="b-99"):
        book.commit([Add(bullet=strategy("x", "t")), Remove(bullet_id="b-99")])
    assert (book.bullets, book.revision) == (before, 1)
    book.refresh()
    assert book.bullets == before


def test_ids_are_never_given_again(book):
    first = book.add(section="Strategies", content="a")
    book.commit([Remove(bullet_id=first.id)])
    assert book.add(section="Strategies", content="b").id == "b-2"


def test_an_illegal_change_says_what_is_wrong(book):
    bullet = book.add(section="Strategies", content="a")
    for delta, words in (
        (Update(bullet_id=bullet.id, changes={"colour": 1}), "colour"),
        (Update(bullet_id=bullet.id, changes={"id": "b-7"}), "given at commit"),
        (Update(bullet_id=bullet.id, changes={"content": ""}), "content"),
    ):
        with pytest.raises(PlaybookError, match=words):
            book.commit([delta])
    with pytest.raises(PlaybookError, match="section"):
        book.add(section="Ideas", content="a")


ids = st.sampled_from([f"b-{n}" for n in range(1, 6)])
deltas = st.one_of(
    st.builds(lambda text, tool: Add(bullet=strategy(text, tool)), st.text(min_size=1), st.sampled_from("abc")),
    st.builds(Tag, bullet_id=ids, helpful=st.integers(0, 3), harmful=st.integers(0, 3)),
    st.builds(lambda i, text: Update(bullet_id=i, changes={"content": text}), ids, st.text(min_size=1)),
    st.builds(Merge, bullet_id=ids, helpful=st.integers(0, 2), absorbed=st.lists(ids, max_size=2).map(tuple)),
    st.builds(Remove, bullet_id=ids),
    st.builds(Promote, bullet_id=ids, stage=st.sampled_from(["shadow", "active", "pinned", "retired"])),
    st.builds(Quarantine, bullet_id=ids),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(deltas, max_size=3), max_size=12))
def test_the_fold_of_the_journal_is_the_table(commits):
    embedder = CallableEmbedder("len", lambda texts: [[len(t), 1.0] for t in texts])
    with Playbook(embedder=embedder) as book:
        for commit in commits:
            before = {bullet.id: bullet.model_dump_json() for bullet in book.bullets}
            named = {getattr(d, "bullet_id", "") for d in commit} | {
                i for d in commit for i in getattr(d, "absorbed", ())
            }
            try:
                book.commit(commit)
            except PlaybookError:
                named = set()
            after = {bullet.id: bullet.model_dump_json() for bullet in book.bullets}
            # bullets that no delta names keep every byte
            assert all(after[i] == text for i, text in before.items() if i not in named)
        table = {bullet.id: bullet for bullet in book.bullets}
        assert fold(book.history.deltas()) == table
        rows = book._state.store.snapshot()[1]
        assert [row.bullet for row in rows] == [bullet.model_dump_json() for bullet in table.values()]
        assert book.history.verify().ok


def test_another_process_is_followed(tmp_path, embedder):
    with (
        Playbook.open(tmp_path / "a.db", embedder=embedder) as one,
        Playbook.open(tmp_path / "a.db", embedder=embedder) as two,
    ):
        one.commit([Add(bullet=strategy("refund order", "refund"))])
        two.refresh()
        assert [b.id for b in two.retrieve("refund order")] == ["b-1"]
        two.commit([Tag(bullet_id="b-1", helpful=1)])
        one.commit([Add(bullet=strategy("cancel order", "cancel"))])  # one is behind by a revision here
        assert one.get("b-1").helpful_count == 1
        assert one.revision == 3


def test_retrieval_prefers_different_sequences(book):
    book.commit(Add(bullet=strategy(f"refund order {n}", "refund")) for n in range(5))
    book.commit([Add(bullet=strategy("cancel the order", "cancel")), Add(bullet=strategy("zip", "zip", "zap"))])
    keys = [bullet.key for bullet in book.retrieve("refund order 7", k=3)]
    assert keys[0] == ("refund",)
    assert len(keys) == len(set(keys)) == 3


def test_equal_sequences_are_equal_multisets(book):
    book.commit([Add(bullet=strategy("refund order", "a", "b")), Add(bullet=strategy("refund order!", "b", "a"))])
    assert len(book.retrieve("refund order")) == 1


def test_filters(book):
    book.commit(
        [
            Add(bullet=strategy("refund", "a", domain="shop", provenance=Provenance(task_ids=("t1",), groups=("g1",)))),
            Add(bullet=strategy("refund it", "b", domain="mail")),
            Add(bullet=strategy("refund all", "c", tenant="acme")),
            Add(bullet=strategy("refund now", "d", stage="quarantined")),
            Add(bullet=strategy("refund new", "e", tool_schema_hashes={"e": "old"})),
        ]
    )

    def found(**options):
        return {b.key[0] for b in book.retrieve("refund", k=9, **options)}

    assert found() == {"a", "b", "e"}
    assert found(domain="shop") == {"a", "e"}
    assert found(tenant="acme") == {"a", "b", "c", "e"}
    assert found(filters=Filters(exclude_tasks=("t1",))) == {"b", "e"}
    assert found(filters=Filters(exclude_groups=("g1",))) == {"b", "e"}
    assert found(filters=Filters(tools={"a": "1", "e": "new"})) == {"a"}, "a changed tool hides its bullets"
    assert found(filters=Filters(sections=("Pitfalls",))) == set()


def test_the_cache_moves_with_the_content_only(book):
    book.commit([Add(bullet=strategy("refund order", "a")), Add(bullet=strategy("refund item", "b"))])
    book.retrieve("refund")
    book.retrieve("refund")
    assert (book.cache.hits, book.cache.misses) == (1, 1)
    book.commit([Tag(bullet_id="b-1", harmful=50)])
    assert book.retrieve("refund")[0].id == "b-2", "utility comes after the cache"
    assert (book.cache.hits, book.cache.misses) == (2, 1)
    book.commit([Quarantine(bullet_id="b-2")])
    assert [b.id for b in book.retrieve("refund")] == ["b-1"]
    assert book.cache.misses == 2


def test_changed_and_removed_texts_leave_the_index(book):
    book.commit([Add(bullet=strategy("aaaa", "a")), Add(bullet=strategy("bbbb", "b"))])
    assert book.retrieve("aaaa", k=1)[0].id == "b-1"
    book.commit(
        [Update(bullet_id="b-1", changes={"trigger": "zzzz"}), Update(bullet_id="b-2", changes={"trigger": "aaaa"})]
    )
    assert book.retrieve("aaaa", k=1)[0].id == "b-2"
    book.commit([Remove(bullet_id="b-2")])
    assert [b.id for b in book.retrieve("aaaa")] == ["b-1"]


def test_the_prompt_budget_is_kept(tmp_path, embedder):
    with Playbook.open(tmp_path / "b.db", embedder=embedder, prompt_budget=40) as book:
        book.commit(Add(bullet=strategy("refund " * 5, tool)) for tool in "abcdef")
        shown = book.retrieve("refund", k=6)
        from ace.playbook.render import count_tokens, render_bullets

        assert 0 < len(shown) < 6
        assert count_tokens(render_bullets(shown)) <= 40


def test_pinned_bullets_come_first_in_id_order(book):
    book.commit(Add(bullet=strategy(f"refund {c * 4}", c)) for c in "xyz")
    book.commit([Promote(bullet_id="b-3", stage="pinned"), Promote(bullet_id="b-2", stage="pinned")])
    assert [b.id for b in book.retrieve("refund xxxx")] == ["b-2", "b-3", "b-1"]


def test_odd_queries_and_an_empty_book(book):
    assert book.retrieve("anything") == []
    book.commit([Add(bullet=strategy("\ud800 ...", "a")), Add(bullet=strategy("???", "b"))])
    assert len(book.retrieve("\udfff ???")) == 2
    assert book.retrieve("", k=1)
    assert book.retrieve("x", k=0) == []


def test_export_and_import_keep_the_words(book, tmp_path, embedder):
    book.commit([Add(bullet=strategy("refund", "a", helpful_count=3)), Add(bullet=strategy("cancel", "b"))])
    path = tmp_path / "b.jsonl"
    assert book.export_jsonl(path) == 2
    with Playbook.open(tmp_path / "new.db", embedder=embedder) as other:
        other.add(section="Pitfalls", content="mine")
        assert other.import_jsonl(path) == 2
        assert [(b.id, b.trigger, b.helpful_count) for b in other.bullets[1:]] == [
            ("b-2", "refund", 3),
            ("b-3", "cancel", 0),
        ]
    path.write_text('{"section": "Ideas"}\n')
    with pytest.raises(PlaybookError, match=r"line 1 .*nothing was imported"):
        book.import_jsonl(path)
    assert len(book) == 2


def test_a_file_that_is_no_playbook_is_refused(tmp_path):
    (tmp_path / "x.db").write_text("not a database, but a text that is long enough to look like one")
    with pytest.raises(PlaybookError, match="is it a playbook"):
        Playbook.open(tmp_path / "x.db")
    with pytest.raises(PlaybookError, match="does not exist"):
        Playbook.open(tmp_path / "nowhere" / "x.db")


def test_a_newer_schema_is_refused(tmp_path, embedder):
    Playbook.open(tmp_path / "x.db", embedder=embedder).close()
    connection = sqlite3.connect(tmp_path / "x.db")
    connection.execute("update alembic_version set version_num = '9999'")
    connection.commit()
    connection.close()
    with pytest.raises(PlaybookError, match="9999"):
        Playbook.open(tmp_path / "x.db", embedder=embedder)


def test_vectors_are_computed_once(tmp_path):
    seen = []

    def embed(texts):
        seen.extend(texts)
        return [[len(t), 1.0] for t in texts]

    for _ in range(2):
        with Playbook.open(tmp_path / "v.db", embedder=CallableEmbedder("n", embed)) as book:
            if not len(book):
                book.commit([Add(bullet=strategy("one", "a")), Add(bullet=strategy("two", "b"))])
            book.retrieve("query")
    assert sorted(seen) == ["one", "query", "query", "two"]


def test_minilm_comes_from_the_package_with_the_right_hash():
    from ace.playbook import MiniLMEmbedder
    from ace.playbook.index.minilm import weights_folder

    assert weights_folder() is not None
    vectors = MiniLMEmbedder().embed(["refund an order", "give the money back", "tomorrow it rains"])
    assert vectors.shape == (3, 384)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]


def test_a_commit_while_another_opens_is_not_counted_twice(tmp_path, embedder, monkeypatch):
    path = tmp_path / "a.db"
    with Playbook.open(path, embedder=embedder) as one:
        one.add(section="Strategies", content="a")
        from ace.playbook.store import Store

        plain = Store.snapshot

        def slow(self):
            taken = plain(self)
            monkeypatch.setattr(Store, "snapshot", plain)
            one.commit([Add(bullet=strategy("b", "t")), Tag(bullet_id="b-1", helpful=1)])
            return taken

        monkeypatch.setattr(Store, "snapshot", slow)
        with Playbook.open(path, embedder=embedder) as two:
            two.refresh()
            assert {b.id: b for b in two.bullets} == {b.id: b for b in one.bullets}


def test_of_a_damaged_revision_nothing_is_followed(tmp_path, embedder):
    path = tmp_path / "a.db"
    with Playbook.open(path, embedder=embedder) as one, Playbook.open(path, embedder=embedder) as two:
        two.commit([Add(bullet=strategy("a", "first")), Add(bullet=strategy("b", "second"))])
        connection = sqlite3.connect(path)
        connection.execute("update journal set delta = 'no delta' where position = 1")
        connection.commit()
        connection.close()
        for _ in range(2):
            with pytest.raises((PlaybookError, ValueError)):
                one.refresh()
            assert (one.revision, len(one)) == (0, 0)


@pytest.mark.parametrize(
    "delta",
    [
        lambda: Merge(bullet_id="b-1", absorbed=("foo",)),
        lambda: Remove(bullet_id="b-²"),
        lambda: "x",
        lambda: {"kind": "remove", "bullet_id": "b-1"},
        lambda: Merge(bullet_id="b-1", avg_iterations=float("inf")),
    ],
)
def test_what_is_no_delta_is_refused_before_anything_is_written(book, delta):
    book.add(section="Strategies", content="a")
    with pytest.raises((PlaybookError, ValueError)):
        book.commit([delta()])
    assert (book.revision, len(book)) == (1, 1)


@pytest.mark.parametrize("name", ["a?b.db", "h#x%20y.db", "p%41.db"])
def test_the_file_that_was_named_is_the_one_that_is_opened(tmp_path, embedder, name):
    Playbook.open(tmp_path / name, embedder=embedder).close()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_somebody_elses_database_is_left_alone(tmp_path, embedder):
    connection = sqlite3.connect(tmp_path / "app.db")
    connection.execute("create table users (id integer)")
    connection.commit()
    connection.close()
    with pytest.raises(PlaybookError, match="something else"):
        Playbook.open(tmp_path / "app.db", embedder=embedder)
    connection = sqlite3.connect(tmp_path / "app.db")
    assert connection.execute("select name from sqlite_master").fetchall() == [("users",)]
    connection.close()


def test_a_book_in_memory_may_be_shared_by_threads(embedder):
    with Playbook(embedder=embedder) as book:
        errors = []

        def work(n):
            try:
                for i in range(15):
                    book.add(section="Strategies", content=f"{n} {i}")
                    book.retrieve("x")
                    book.history.deltas()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert len(book) == 60


def test_surrogates_anywhere_in_a_delta_are_made_encodable(book):
    odd = "\ud800"
    bullet = strategy("x", odd, domain=odd, tags=(odd,), provenance=Provenance(task_ids=(odd,)))
    book.commit([Add(bullet=bullet, reason=odd)], author=odd)
    book.commit([Update(bullet_id="b-1", changes={"content": odd})])
    assert (book.bullets[0].domain, book.bullets[0].content) == ("?", "?")
    assert fold(book.history.deltas()) == {b.id: b for b in book.bullets}


def test_the_guard_holds_however_many_tasks_a_bullet_rests_on(book):
    book.commit([Add(bullet=strategy("refund", "a"))])
    book.commit(Merge(bullet_id="b-1", provenance=Provenance(task_ids=(f"t{n}",))) for n in range(120))
    for guard in (("t5",), ("t119",), ["t119"], "t119"):
        assert book.retrieve("refund", filters=Filters(exclude_tasks=guard)) == []
    assert book.retrieve("refund", filters=Filters(exclude_tasks=("t120",)))


def test_a_bullet_that_is_too_long_costs_no_slot(tmp_path, embedder):
    with Playbook.open(tmp_path / "b.db", embedder=embedder, prompt_budget=120) as book:
        giant = strategy("refund", "giant").model_copy(update={"content": "word " * 2_000})
        book.commit([Add(bullet=giant), *(Add(bullet=strategy("refund", tool)) for tool in "abc")])
        assert {b.key[0] for b in book.retrieve("refund", k=3)} == {"a", "b", "c"}
