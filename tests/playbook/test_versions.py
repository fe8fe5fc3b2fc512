"""One bullet through time, and the way back to one of its versions."""

import pytest
from playbook_kit import filled, strategy

from ace.core import PlaybookError
from ace.playbook import Add, Merge, Remove, Tag, Update


def test_versions_say_who_changed_what_and_how_the_record_grew(book):
    filled(book, "a", "b")
    book.commit([Tag(bullet_id="b-1", helpful=1, run_id="r-1")], author="agent")
    book.commit([Tag(bullet_id="b-2", helpful=1, run_id="r-1")], author="agent")
    book.review.edit("b-1", content="c", author="bo", note="clearer")
    versions = book.history.versions("b-1")
    assert [(v.author, v.fields, v.runs) for v in versions[1:]] == [
        ("agent", ("helpful_count",), ("r-1",)),
        ("bo", ("content", "words_from"), ()),
    ]
    assert [v.bullet.helpful_count for v in versions] == [0, 1, 1]
    assert versions[-1].reasons == ("clearer",)
    assert versions[-1].bullet == book.get("b-1")
    with pytest.raises(PlaybookError, match="never was a lesson 'b-9'"):
        book.history.versions("b-9")


def test_versions_of_a_bullet_that_absorbed_others_are_what_the_book_held(book):
    filled(book, "a", "b", "c")
    book.commit([Tag(bullet_id="b-2", helpful=2, run_id="r-1")])
    book.commit([Merge(bullet_id="b-1", absorbed=("b-2",))])
    book.commit([Merge(bullet_id="b-3", absorbed=("b-1",))])
    for bullet_id in ("b-1", "b-2", "b-3"):
        for version in book.history.versions(bullet_id):
            then = {bullet.id: bullet for bullet in book.history.at(version.revision)}
            assert version.bullet == then.get(bullet_id)
    assert [v.into for v in book.history.versions("b-2")] == ["", "", "b-1"]
    assert book.history.versions("b-3")[-1].bullet.helpful_count == 2


def test_a_bullet_says_again_what_it_said_and_keeps_what_runs_have_shown(book):
    filled(book, "a", "b")
    book.review.edit("b-1", content="worse", trigger="when it rains", author="bo")
    book.commit([Tag(bullet_id="b-1", helpful=1, run_id="r-1")])
    book.review.set_stage("b-1", "retired")
    before = book.revision
    assert book.history.restore("b-1", 1, author="ana", note="it was right") == before + 1
    restored, first = book.get("b-1"), book.history.versions("b-1")[0].bullet
    assert (restored.content, restored.trigger, restored.stage) == (first.content, first.trigger, "active")
    assert restored.helpful_count == 1
    assert book.history.entries("b-1")[-1]["reason"] == "it was right"
    assert book.history.verify().ok
    assert book.history.restore("b-1", 1) == before + 1, "nothing differs, and nothing is written"


def test_a_removed_bullet_comes_back_with_its_credit(book):
    filled(book, "a", "b")
    book.commit([Tag(bullet_id="b-1", helpful=1, run_id="r-1")])
    removed = book.review.remove("b-1")
    book.review.edit("b-2", content="other words")
    book.history.rollback(removed)  # forgets the credits of what is not there
    book.history.restore("b-1", removed - 1)
    assert book.get("b-1").helpful_count == 1
    assert book.history.verify().ok
    book.commit([Tag(bullet_id="b-1", helpful=1, run_id="r-1")])
    assert book.get("b-1").helpful_count == 1, "a run gives its credit once"


def test_what_was_refused_waits_again_and_what_was_approved_too(book):
    book.commit([Add(bullet=strategy("a").model_copy(update={"trust": "tainted"}))])
    held = book.revision
    book.review.approve("b-1")
    book.history.restore("b-1", held)
    assert [item.bullet.id for item in book.review.pending()] == ["b-1"]
    book.review.reject("b-1")
    book.history.restore("b-1", held)
    assert (book.get("b-1").stage, book.get("b-1").trust) == ("quarantined", "tainted")
    assert book.history.verify().ok


def test_what_cannot_come_back_says_why(book):
    filled(book, "a", "b")
    book.commit([Merge(bullet_id="b-1", absorbed=("b-2",))])
    with pytest.raises(PlaybookError, match="b-2 was merged into b-1"):
        book.history.restore("b-2", 1)
    filled(book, "c")
    with pytest.raises(PlaybookError, match="was not there at revision 1"):
        book.history.restore("b-3", 1)
    with pytest.raises(PlaybookError, match="no revision 99"):
        book.history.restore("b-1", 99)


def test_words_that_look_like_an_id_are_nobodys_history(book):
    filled(book, "a", "b")
    book.commit([Update(bullet_id="b-2", changes={"content": 'see "b-1"'}, reason='"bullet_id":"b-1"')])
    book.commit([Remove(bullet_id="b-2", reason='"id":"b-1"')])
    assert len(book.history.versions("b-1")) == 1
    assert [v.bullet is None for v in book.history.versions("b-2")] == [False, False, True]


def test_whose_a_bullet_was_is_known_also_when_it_is_gone(book):
    book.add(section="Strategies", content="a", tenant="shop")
    book.add(section="Strategies", content="b")
    book.review.edit("b-1", tenant=None)
    book.review.remove("b-1")
    assert book.history.tenants({"b-1"}) == {"b-1": [(1, "shop"), (3, None)]}
    book.history.restore("b-1", 1)
    assert book.history.tenants({"b-1", "b-2"})["b-1"][-1] == (5, "shop")
    assert book.history.tenants({"b-2"}) == {"b-2": [(2, None)]}
