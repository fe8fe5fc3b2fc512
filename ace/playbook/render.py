"""How bullets look in a prompt, and how many fit into a budget of tokens."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from ace.playbook.bullet import PlaybookBullet

ENCODING = "cl100k_base"


TokenCounter = Callable[[str], int]
"""Counts the tokens of a text."""


def render_bullet(bullet: PlaybookBullet) -> str:
    """Write one bullet on one line.

    Examples:
        >>> render_bullet(PlaybookBullet(id="b-7", section="Pitfalls", content="Never guess an id."))
        '[b-7] (Pitfalls) Never guess an id.'
    """
    parts = [f"[{bullet.id}] ({bullet.section})"]
    if bullet.trigger:
        parts.append(f"For a task like <{bullet.trigger}>:")
    parts.append(bullet.content)
    if bullet.tool_sequence and bullet.section == "Strategies":
        parts.append(f"Tools: {' -> '.join(bullet.tool_sequence)}")
    return " ".join(" ".join(parts).split())


def render_bullets(bullets: Sequence[PlaybookBullet]) -> str:
    """Write the playbook field of a prompt, `render_bullets(book.bullets)`; the empty string when there is nothing to
    show."""
    return "\n".join(render_bullet(bullet) for bullet in bullets)


def pack(
    bullets: Sequence[PlaybookBullet], budget: int, k: int, count: TokenCounter | None = None
) -> list[PlaybookBullet]:
    """Choose at most `k` bullets, best first, that fit into `budget` tokens; one that is too long is passed over, never
    cut."""
    packed: list[PlaybookBullet] = []
    for bullet in bullets:
        if len(packed) == k:
            break
        text = render_bullets([*packed, bullet])
        # one of our tokens is at least one byte, so that a short text needs no counting
        short = count is None and len(text.encode("utf-8", "replace")) <= budget
        if short or (count or count_tokens)(text) <= budget:
            packed.append(bullet)
    return packed


def count_tokens(text: str) -> int:
    """Count tokens by tiktoken's cl100k_base when the encoding is on disk; else estimate three bytes a token, from above."""
    encode = _encoder()
    if encode is None:
        return -(-len(text.encode("utf-8", "replace")) // 3)
    return len(encode(text))


@lru_cache(maxsize=1)
def _encoder() -> Callable[[str], list[int]] | None:
    """Load the encoding from a file of LiteLLM, which DSPy brings along; nothing is fetched from a network."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or not spec.submodule_search_locations or importlib.util.find_spec("tiktoken") is None:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / "litellm_core_utils" / "tokenizers"
    if not (folder / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4").exists():
        return None
    import tiktoken

    previous = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        encoding = tiktoken.get_encoding(ENCODING)
    finally:
        if previous is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = previous
    return lambda text: encoding.encode(text, disallowed_special=())
