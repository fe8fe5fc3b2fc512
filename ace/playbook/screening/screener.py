"""Decides which bullets of a commit wait for review: tainted ones, and those that the screen holds."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping

from cachetools import LRUCache

from ace.core import PlaybookError
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.delta import Delta, Quarantine
from ace.playbook.screening.screen import Screen


class Screener:
    """Caches the screen's verdicts, so that a commit does not screen the same text twice.

    Args:
        screen: Looks at a text; None lets every word pass that is not tainted.
    """

    def __init__(self, screen: Screen | None) -> None:
        self.screen = screen
        self._known: LRUCache[tuple[object, ...], str] = LRUCache(10_000)
        self._lock = threading.Lock()

    def why_held(self, bullet: PlaybookBullet, tools: Collection[str]) -> str:
        """Why a bullet is not shown without a review; empty when it may be."""
        if bullet.trust == "tainted":
            return "held: its words came out of a tool"
        if self.screen is None:
            return ""
        if odd := next((name for name in bullet.tool_sequence if not _TOOL_NAME.fullmatch(name)), None):
            return f"held: {odd[:60]!r} is no tool's name"
        text = f"{bullet.trigger}\n{bullet.content}"
        key = (text, frozenset(tools))
        with self._lock:
            known = self._known.get(key)
        if known is None:
            verdict = self.screen(text, tools)
            known = f"held: {verdict.why}" if verdict.held else ""
            with self._lock:
                self._known[key] = known
        return known


_TOOL_NAME = re.compile(r"[\w.:/-]{1,128}")


def quarantines(
    before: Mapping[str, PlaybookBullet],
    after: Mapping[str, PlaybookBullet | None],
    screener: Screener | None,
    tools: Collection[str],
) -> list[Delta]:
    """What a commit has to add: quarantine for new words that are tainted, or that the screen holds.

    Args:
        before: The bullets that the commit touches, as they were.
        after: The same as they would be; None for one that goes.
        screener: The screen; None screens nothing.
        tools: Names of the registered tools.

    Raises:
        PlaybookError: A bullet would leave the quarantine without a review.
    """
    held: list[Delta] = []
    for bullet_id, bullet in after.items():
        old = before.get(bullet_id)
        if bullet is None or bullet.stage == "quarantined":
            continue
        if old is not None and old.stage == "quarantined":
            raise PlaybookError(
                f"{bullet_id} waits for review, and no commit makes it {bullet.stage}: approve or reject it with "
                "`playbook.review` (`ace playbook review`); nothing was written"
            )
        if (
            screener is not None
            and (old is None or _screened_fields(old) != _screened_fields(bullet))
            and (why := screener.why_held(bullet, tools))
        ):
            held.append(Quarantine(bullet_id=bullet_id, reason=why))
    return held


def _screened_fields(bullet: PlaybookBullet) -> tuple[object, ...]:
    return (bullet.trigger, bullet.content, bullet.tool_sequence, bullet.trust)
