"""Finding duplicates, and the threshold that is fitted for it."""

import re

import numpy as np
import pytest
from conftest import DATA, needs_data

from ace.playbook import Add, CallableEmbedder, MiniLMEmbedder, Playbook, PlaybookBullet
from ace.playbook.bullet import readable
from ace.playbook.duplicates import labelled_pairs
from ace.playbook.duplicates.find import (
    LOOK_FROM,
    THRESHOLDS,
    LabelledPair,
    calibrate,
    find_duplicates,
    same_lesson,
    text_of,
)
from ace.playbook.duplicates.similarity import jaccard, marks
from ace.playbook.plan import Call, Plan, Situation


def learned(name):
    lines = (DATA / "ace_playbooks" / f"{name}.txt").read_text().splitlines()
    return [re.sub(r"^\[[^\]]*\] ", "", line) for line in lines if line.startswith("[")]


def test_the_pairs_are_what_they_say():
    pairs = labelled_pairs()
    assert len(pairs) == 300
    assert {pair.kind for pair in pairs if pair.same} == {"paraphrase"}
    assert {pair.kind for pair in pairs} >= {"negation", "number", "tool", "related"}
    assert len({(pair.a, pair.b) for pair in pairs}) == 300


def test_the_threshold_of_minilm_is_calibrated():
    found = calibrate(MiniLMEmbedder())
    assert found.false_merges <= 0.01 * found.pairs
    assert found.threshold <= THRESHOLDS["all-MiniLM-L6-v2"]
    assert found.merges > 0.2 * found.same


def duplicates_of(*bullets):
    vectors = np.ones((len(bullets), 2), dtype=np.float32) / np.sqrt(2)
    report = find_duplicates(bullets, vectors, 0.9)
    return [(pair.successor.id, pair.removed.id) for pair in report.duplicates], report


def lesson(number, content="Look the order up first.", **fields):
    return PlaybookBullet(**{"id": f"b-{number}", "section": "Strategies", "content": content} | fields)


def test_who_is_shown_stays_shown():
    longer = "Look the order up first; see `find`."
    assert duplicates_of(lesson(1), lesson(2, stage="shadow"))[0] == [("b-1", "b-2")]
    found, report = duplicates_of(lesson(1), lesson(2, longer))
    assert found == []
    assert report.near[0][3] == "names: - / find"
    assert duplicates_of(lesson(1), lesson(2, "Look the order up first!!"))[0] == [("b-2", "b-1")]
    assert duplicates_of(lesson(1, helpful_count=9), lesson(2, stage="pinned"))[0] == [("b-2", "b-1")]


def test_what_is_kept_apart_is_not_joined_through_a_third():
    assert duplicates_of(lesson(1, distinct_from=("b-3",)), lesson(2), lesson(3))[0] == [("b-1", "b-2")]
    assert duplicates_of(lesson(1), lesson(2, distinct_from=("b-3",)), lesson(3))[0] == [("b-1", "b-2")]
    assert len(duplicates_of(lesson(1), lesson(2), lesson(3))[0]) == 2


def test_other_tools_and_other_versions_of_them_are_not_duplicates():
    assert duplicates_of(lesson(1, changing_tools=("pay",)), lesson(2, changing_tools=("refund",)))[0] == []
    assert duplicates_of(lesson(1, tool_schema_hashes={"f": "1"}), lesson(2, tool_schema_hashes={"f": "2"}))[0] == []


def test_mined_lessons_with_other_plans_are_not_duplicates_however_alike_they_read():
    """Delete one, or delete each of them."""
    plans = [Plan(calls=(Call(tool="delete", changes=True, times=times),)) for times in ("once", "each")]
    one, other = (
        lesson(n, **readable(plan, [Situation(template="Cancel it")]) | {"content": "Delete the event."})
        for n, plan in enumerate(plans, 1)
    )
    assert duplicates_of(one, other)[0] == []
    assert duplicates_of(*(lesson(n, "Delete the event.", tool_sequence=("delete",)) for n in (1, 2)))[0]


@needs_data
@pytest.mark.parametrize("name", ["offline", "online"])
def test_real_playbooks_lose_their_duplicates_and_nothing_else(name, tmp_path):
    texts = learned(name)
    with Playbook.open(tmp_path / "b.db", embedder=MiniLMEmbedder(), screen=None) as book:
        book.commit([Add(bullet=PlaybookBullet(section="Strategies", content=text)) for text in texts])
        before = {bullet.id: bullet for bullet in book.bullets}
        report = book.maintenance.dedup()
        ids = {b.id for pair in report.duplicates for b in (pair.successor, pair.removed)}
        assert len(ids) > 0.05 * len(before)
        for bullet_id in before.keys() - {bullet.id for bullet in book.bullets}:
            successor = book.history.successor(bullet_id)
            kept, lost = marks(successor.content), marks(before[bullet_id].content)
            assert lost.numbers <= kept.numbers
            assert lost.identifiers <= kept.identifiers
            assert lost.negations <= kept.negations
        left = list(book.bullets)
        vectors = book.index.text_vectors([text_of(bullet) for bullet in left])
        cosines = vectors @ vectors.T
        duplicated = set()
        for i, j in np.argwhere(cosines >= LOOK_FROM):
            if i < j:
                a, b = left[i].content, left[j].content
                if jaccard(a, b) >= 0.9 or same_lesson(a, b, float(cosines[i, j]), THRESHOLDS[book.embedder.name]):
                    duplicated |= {i, j}
        assert len(duplicated) < 0.01 * len(left), [left[i].content[:80] for i in duplicated]
        assert book.history.verify().ok


def test_a_lesson_takes_three_variants_and_no_more():
    long = "Open the list of all songs, read each entry once, keep the last song that {} shows of every artist, then write the names "
    long += (
        "of these artists in the order of the alphabet to the file that the user has named before, one in each line."
    )
    words = ("Spotify", "Deezer", "Tidal", "Qobuz", "Napster")
    tried = {1: {"helpful_count": 9}}  # the better tried one takes in the others
    lessons = [lesson(number, long.format(word), **tried.get(number, {})) for number, word in enumerate(words, 1)]
    found, report = duplicates_of(*lessons)
    assert found[:3] == [("b-1", "b-2"), ("b-1", "b-3"), ("b-1", "b-4")]
    assert found[3:] == []
    assert [pair.kind for pair in report.duplicates] == ["variant"] * 3


def test_texts_that_share_nine_words_in_ten_are_looked_at_whatever_their_vectors_say():
    ten = " ".join(f"word{chr(97 + n)}" for n in range(10))
    nine, eight = (" ".join(ten.split()[:n]) for n in (9, 8))
    assert jaccard(ten, nine) == 0.9
    far = np.array([[1.0, 0.0], [0.75, np.sqrt(1 - 0.75**2)]], dtype=np.float32)
    for other, looked_at in ((nine, True), (eight, False)):
        report = find_duplicates([lesson(1, ten), lesson(2, other)], far, 0.9)
        assert bool(report.duplicates or report.near) is looked_at


def test_where_even_equal_vectors_merge_what_differs_the_threshold_stays_at_1():
    embedder = CallableEmbedder("flat", lambda texts: [[1.0, 0.0] for _ in texts])
    pairs = [LabelledPair(a="Look the order up.", b="Greet the guest.", same=False, kind="related")]
    found = calibrate(embedder, pairs)
    assert (found.threshold, found.merges, found.false_merges) == (1.0, 0, 0)
