"""`ace playbook` as a process."""

from command import ace


def test_brackets_in_a_playbook_are_text(tmp_path):
    from ace.playbook import CallableEmbedder, Playbook

    with Playbook.open(tmp_path / "p.db", embedder=CallableEmbedder("x", lambda texts: [[1.0]] * len(texts))) as book:
        book.add(section="Strategies", trigger="[/b] [bold]refund[order_id]", content="[/x] do it")
    for words in (["list"], ["show"], ["search"]):
        more = {"show": ["b-1"], "search": ["[/x] refund"]}.get(words[0], [])
        assert "[bold]refund[order_id]" in ace("playbook", *words, tmp_path / "p.db", *more)
