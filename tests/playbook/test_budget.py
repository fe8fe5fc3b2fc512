"""Token budgets of prompts and of the book."""

import threading

import pytest
from playbook_kit import bullet, opened

from ace.core import PlaybookError
from ace.playbook import Add, Tag, Update


def test_books_with_a_budget_keep_it_together(tmp_path):
    def write(n):
        with opened(tmp_path / "book.db", book_budget=150) as one:
            for i in range(20):
                try:
                    one.commit([Add(bullet=bullet(f"lesson {n} {i}"))])
                except PlaybookError:
                    return

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    from ace.playbook.render import count_tokens, render_bullets

    with opened(tmp_path / "book.db") as book:
        assert 0 < count_tokens(render_bullets(book.bullets)) <= 150


def test_an_own_counter_is_asked_for_short_texts_too(tmp_path):
    with opened(tmp_path / "book.db", prompt_budget=100, count_tokens=lambda text: 10 * len(text.split())) as book:
        book.commit([Add(bullet=bullet(f"a lesson of six words {n}")) for n in range(5)])
        found = book.retrieve("lesson", k=5)
        assert 0 < sum(10 * len(f"[{b.id}] ({b.section}) {b.content}".split()) for b in found) <= 100


def test_a_budget_knows_the_ids_of_its_own_commit(tmp_path):
    with opened(tmp_path / "book.db", book_budget=1_000) as book:
        book.commit([Add(bullet=bullet()), Tag(bullet_id="b-1", helpful=1)])
        assert book.get("b-1").helpful_count == 1


def test_a_book_that_is_over_its_budget_may_shrink_and_may_not_grow(tmp_path):
    from ace.playbook import Remove
    from ace.playbook.render import count_tokens, render_bullets

    with opened(tmp_path / "book.db") as book:
        book.commit([Add(bullet=bullet("a long lesson about many things " * 3)), Add(bullet=bullet("a short one"))])
        tokens = count_tokens(render_bullets(book.bullets))
    with opened(tmp_path / "book.db", book_budget=tokens // 2) as book:
        book.commit([Update(bullet_id="b-1", changes={"content": "a long lesson about many things " * 2})])
        with pytest.raises(PlaybookError, match=rf"book_budget is {tokens // 2}; nothing was written"):
            book.commit([Add(bullet=bullet("one more"))])
        book.commit([Remove(bullet_id="b-2")])
        assert len(book) == 1
    with opened(tmp_path / "book.db") as book:
        exact = count_tokens(render_bullets([*book.bullets, bullet("one more")]))
    with opened(tmp_path / "book.db", book_budget=exact + 4) as book:
        book.commit([Add(bullet=bullet("one more"))])


def test_a_lesson_that_becomes_longer_counts_with_its_new_length(tmp_path):
    with opened(tmp_path / "book.db", book_budget=60) as book:
        book.commit([Add(bullet=bullet("a short lesson"))])
        book.commit([Update(bullet_id="b-1", changes={"content": "another short lesson"})])
        with pytest.raises(PlaybookError, match="book_budget is 60"):
            book.commit([Update(bullet_id="b-1", changes={"content": "a long lesson about many things " * 20})])
