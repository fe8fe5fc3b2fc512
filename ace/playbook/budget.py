"""Tokens: what bullets take in a prompt and in the book, and the limits on both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ace.core import PlaybookError
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.render import TokenCounter, count_tokens, render_bullet, render_bullets

DEFAULT_PROMPT_BUDGET = 1_000
"""Tokens that bullets may take in a prompt."""


class TokenBudget:
    """Counts the tokens of bullets, each once.

    Args:
        prompt: Tokens that a retrieval may fill.
        book: Tokens that all bullets together may take; None for no limit.
        count: Counts the tokens of a text.

    Examples:
        >>> bullet = PlaybookBullet(id="b-1", section="Pitfalls", content="Never guess an id.")
        >>> TokenBudget(count=lambda text: len(text.split())).tokens_of(bullet)
        7
    """

    def __init__(
        self, prompt: int = DEFAULT_PROMPT_BUDGET, book: int | None = None, count: TokenCounter | None = None
    ) -> None:
        self.prompt = prompt
        self.book = book
        self.counter = count
        """As it was given; None for the default, of which a short text needs no counting."""
        self._sizes: dict[int, tuple[PlaybookBullet, int]] = {}
        """By number: a bullet and its tokens."""

    def count(self, text: str) -> int:
        """Count the tokens of a text."""
        return (self.counter or count_tokens)(text)

    def tokens_of(self, bullet: PlaybookBullet) -> int:
        """Count the tokens that a bullet takes in a prompt or in the book, its line feed included."""
        if not bullet.id:  # not committed yet: an id of the usual length
            return self.count(render_bullet(bullet.model_copy(update={"id": "b-1000"}))) + 1
        known = self._sizes.get(bullet.number)
        if known is None or known[0] is not bullet:
            known = self._sizes[bullet.number] = (bullet, self.count(render_bullet(bullet)))
        return known[1] + 1

    def check(self, bullets: Iterable[PlaybookBullet], after: Mapping[str, PlaybookBullet | None]) -> None:
        """Refuse a commit that would make the book longer than its budget; one that makes it shorter is always welcome.

        Args:
            bullets: All bullets before the commit.
            after: By id, what the commit would change; None for a bullet that goes.

        Raises:
            PlaybookError: It names the length that the book would have, and what to do.
        """
        if self.book is None:
            return
        now = list(bullets)
        then = [bullet for bullet in now if bullet.id not in after]
        then += [bullet for bullet in after.values() if bullet is not None]
        # a bullet costs no more in the book than alone, apart from its line feed; counting all of them again is slow
        if sum(map(self.tokens_of, then)) <= self.book:
            return
        tokens = self.count(render_bullets(then))
        if tokens > self.book and tokens > self.count(render_bullets(now)):
            raise PlaybookError(
                f"the book would take {tokens} tokens, book_budget is {self.book}; nothing was written: prune or "
                "merge bullets first (`ace playbook merge`, `ace playbook stage BOOK auto`), or raise the budget"
            )
