"""Token budgets of prompts and of the book."""

import threading

from playbook_kit import bullet, opened

from ace.core import PlaybookError
from ace.playbook import Add, Tag


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
