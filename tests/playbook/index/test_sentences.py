"""Requests of several sentences are compared with lessons sentence by sentence."""

import zlib

import numpy as np
import pytest
from playbook_kit import strategy

from ace.playbook import Add, CallableEmbedder, Playbook, Update
from ace.playbook.index.sentences import FLOOR, LEAST, MOST, compared, in_sentences, nearness, parts

ANN = "You are Ann and polite. You live in the big town. You do not know your address."
SMALL_TALK = ["You are calm and very kind.", "You live near the old harbor.", "You like short answers best."]


def words(texts):
    """Texts as bags of words."""
    found = np.zeros((len(texts), 512), dtype=np.float32)
    for row, text in zip(found, texts, strict=True):
        for word in text.lower().replace(".", " ").split():
            row[zlib.crc32(word.encode()) % 512] += 1
    return found


class Counting(CallableEmbedder):
    def __init__(self):
        super().__init__("words", words)
        self.seen = []

    def embed(self, texts):
        self.seen += texts
        return super().embed(texts)


@pytest.fixture
def embedder():
    return Counting()


@pytest.fixture
def book(embedder):
    """Two plans; each request is one telling sentence among small talk, which says nothing of the plan."""
    with Playbook(embedder=embedder) as book:
        for i, talk in enumerate(SMALL_TALK):
            for plan, asked in (("cancel", "Please cancel the pending order."), ("refund", "Give the money back now.")):
                rest = " ".join(SMALL_TALK[:i] + SMALL_TALK[i + 1 :])
                book.commit([Add(bullet=strategy(f"{talk} {rest} {asked} Case {plan}{i}.", plan))])
        yield book


def test_parts_are_the_sentences_that_say_something():
    assert parts("One thing only") == ["One thing only"]
    assert parts("Thank you. Cancel the order now.") == ["Thank you. Cancel the order now."]
    assert parts("Cancel the order now. Ok. Then send it back.") == ["Cancel the order now.", "Then send it back."]
    assert len(parts("Say it once more. " * (MOST + 5))) == MOST


def test_a_request_is_long_from_four_sentences_on():
    three = "Say it once more. " * (LEAST - 1)
    assert not in_sentences(three)
    assert compared(three) == [three]
    four = three + "And then stop it."
    assert in_sentences(four)
    assert compared(four) == [four, *parts(four)]


def test_the_sentence_counts_most_whose_nearest_lessons_agree_on_a_plan():
    told, chat = np.eye(2, dtype=np.float32)
    asked = np.stack([told, chat])
    near_told, near_chat = told[None], chat[None]
    # five lessons near the telling sentence share a plan, five near the small talk have five plans
    lessons = [near_told] * 5 + [near_chat] * 5
    plans = [("cancel",)] * 5 + [(name,) for name in "abcde"]
    found = nearness(asked, lessons, plans)
    share = (1 + FLOOR) / (1 + 2 * FLOOR)
    assert found[:5] == pytest.approx([(share + 1) / 2] * 5)
    assert found[5:] == pytest.approx([(1 - share + 1) / 2] * 5)


def test_without_plans_to_tell_them_apart_sentences_count_alike():
    asked = np.eye(3, dtype=np.float32)
    found = nearness(asked, [asked[:1], asked[:2], asked], [("x",)] * 3)
    # asked: one, two, three of three are met; the lessons' own sentences are all asked
    assert found == pytest.approx([(1 / 3 + 1) / 2, (2 / 3 + 1) / 2, 1])
    assert nearness(asked[:2], [asked[:1]], [("x",)]) == pytest.approx([0.75])  # one lesson: nothing to compare


def test_half_of_a_plan_in_common_is_half_an_agreement():
    asked = np.eye(2, dtype=np.float32)
    lessons = [asked[:1], asked[:1], asked[1:], asked[1:]]
    equal = nearness(asked, lessons, [("a", "b"), ("a", "b"), ("c",), ("c",)])
    assert equal == pytest.approx([0.75] * 4)
    plans = [("a", "b"), ("a", "c"), ("d",), ("e",)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ace.playbook.index.sentences.NEIGHBORS", 2)
        found = nearness(asked, lessons, plans)
    weight = (1 / 3 + FLOOR) / (1 / 3 + 2 * FLOOR)  # one of three tools is shared
    assert found == pytest.approx([(weight + 1) / 2] * 2 + [(1 - weight + 1) / 2] * 2)


def test_a_long_request_finds_the_lesson_of_its_telling_sentence(book):
    request = f"{ANN} {SMALL_TALK[1]} {SMALL_TALK[0]} Please cancel the pending order."
    assert book.retrieve(request)[0].tool_sequence == ("cancel",)
    swapped = request.replace("Please cancel the pending order.", "Give the money back now.")
    assert book.retrieve(swapped)[0].tool_sequence == ("refund",)


def test_sentences_are_embedded_once_and_only_for_long_requests(book, embedder):
    book.retrieve("Please cancel the pending order.")
    assert not [text for text in embedder.seen if text == SMALL_TALK[0]]
    embedder.seen.clear()
    book.retrieve(f"{ANN} Please cancel the pending order.")
    assert embedder.seen.count(SMALL_TALK[0]) == 1
    embedder.seen.clear()
    book.retrieve(f"{ANN} Give the money back now.")
    assert SMALL_TALK[0] not in embedder.seen
    embedder.seen.clear()
    book.retrieve_many([f"{ANN} Send it to me.", f"{ANN} Tell me the price."])
    assert {"Send it to me.", "Tell me the price."} <= set(embedder.seen)


def test_a_lesson_that_changed_is_compared_by_its_new_sentences(book):
    request = f"{ANN} {SMALL_TALK[0]} Please cancel the pending order."
    assert book.retrieve(request)[0].tool_sequence == ("cancel",)
    for bullet in list(book.bullets):
        old, new = "Please cancel the pending order.", "Water the green plants daily."
        if old in bullet.trigger:
            book.commit([Update(bullet_id=bullet.id, changes={"trigger": bullet.trigger.replace(old, new)})])
    watered = request.replace("Please cancel the pending order.", "Water the green plants daily.")
    assert book.retrieve(watered)[0].tool_sequence == ("cancel",)


def test_likeness_of_lessons_stays_the_cosine_of_whole_texts(book):
    text = book.bullets[0].trigger
    near = book._state.index.similar(text, "Strategies")
    assert near[0][1] == pytest.approx(1.0, abs=1e-5)
    whole = words([near[1][0].trigger, text])
    cosine = float(whole[0] @ whole[1] / np.prod(np.linalg.norm(whole, axis=1)))
    assert near[1][1] == pytest.approx(cosine, abs=0.05)


def test_vectors_of_sentences_go_with_the_lesson(tmp_path, embedder):
    with Playbook.open(tmp_path / "book.db", embedder=embedder) as book:
        book.commit([Add(bullet=strategy(f"{ANN} Please cancel the pending order.", "cancel"))])
        book.retrieve(f"{ANN} {SMALL_TALK[0]} Please cancel it.")
        kept = book._state.index.text_vectors
        embedder.seen.clear()
        kept(["Please cancel the pending order."])
        assert embedder.seen == []
        book.maintenance.gc()
        kept(["Please cancel the pending order."])
        assert embedder.seen == []  # needed, so kept
        book.purge(text="pending order")
        kept(["Please cancel the pending order."])
        assert embedder.seen == ["Please cancel the pending order."]


def test_a_long_request_finds_a_lesson_that_shares_its_meaning_and_no_word():
    with Playbook(embedder=CallableEmbedder("alike", lambda texts: [[1.0, 0.0] for _ in texts])) as book:
        book.commit([Add(bullet=strategy("Refund something", "refund"))])
        assert [bullet.id for bullet in book.retrieve(" ".join(SMALL_TALK) + " Give the money back now.")] == ["b-1"]
