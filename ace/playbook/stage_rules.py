"""Rules of the stages of a lesson: what a commit may show, and what waits for evidence or for a person."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from ace.core import PlaybookError
from ace.core.text import is_key, is_tool_name
from ace.playbook.bullet import SHOWN_STAGES, PlaybookBullet
from ace.playbook.delta import Delta, Merge, Promote, Quarantine

Screen = Callable[[str, Collection[str]], str]
"""Looks at the words of a lesson, with the names of the registered tools: why they wait for a person, or an empty text."""
UNTRUSTED = "held: it rests on what is not trusted"
"""Why a tainted bullet waits that says no more."""


def check_names(tools: Iterable[str], arguments: Iterable[str]) -> None:
    """Refuse names that are none: a lesson shows them as they are, and a sentence in their place would be an instruction.

    Args:
        tools: Names of tools.
        arguments: Names of arguments, those of objects with dots: ``items[].sku``.

    Raises:
        PlaybookError: It says which name, and what a name is.
    """
    for tool in tools:
        if not is_tool_name(tool):
            raise PlaybookError(
                f"{tool!r:.80} is no name of a tool: expected 1 to 64 of A-Z a-z 0-9 _ . / -; nothing was learned"
            )
    for name in arguments:
        if not all(map(is_key, name.replace("[]", "").split("."))):
            raise PlaybookError(
                f"{name!r:.80} is no name of an argument: expected 1 to 40 letters, digits, _ or -; nothing was learned"
            )


def why_held(bullet: PlaybookBullet, screen: Screen | None, tools: Collection[str]) -> str:
    """Say why a bullet is not shown without a review; empty when it may be."""
    if bullet.trust == "tainted":
        return UNTRUSTED
    why = screen(f"{bullet.trigger}\n{bullet.content}", tools) if screen is not None else ""
    return f"held: {why}" if why else ""


def required_stage_changes(
    before: Mapping[str, PlaybookBullet],
    after: Mapping[str, PlaybookBullet | None],
    deltas: Iterable[Delta],
    *,
    screen: Screen | None,
    tools: Collection[str],
    promote_after: int,
) -> list[Delta]:
    """Return what a commit that no person has reviewed has to add.

    Args:
        before: The bullets that the commit touches, as they were.
        after: The same as they would be; None for one that goes.
        deltas: Of the commit.
        screen: Looks at new words; None lets all pass.
        tools: Names of the registered tools.
        promote_after: Distinct tasks that show a lesson which runs have taught.

    Raises:
        PlaybookError: A bullet would leave the quarantine, or become trusted, without a review.
    """
    freed = {delta.bullet_id for delta in deltas if isinstance(delta, Merge) and delta.clean}
    found: list[Delta] = []
    for bullet_id, bullet in after.items():
        old = before.get(bullet_id)
        if bullet is None:
            continue
        if old is None or old.plan != bullet.plan:
            calls = bullet.plan.calls if bullet.plan is not None else ()
            check_names(bullet.tool_sequence, (name for call in calls for name in call.args))
        if bullet.released and (old is None or old.released != bullet.released):
            raise PlaybookError(
                f"only a person releases the plan of {bullet_id}: `ace playbook release`; nothing was written"
            )
        if bullet.stage == "quarantined":
            continue
        if old is not None and _waits(old) and not _waits(bullet) and bullet_id not in freed:
            raise PlaybookError(
                f"{bullet_id} waits for review, and no commit makes it {bullet.stage}: approve or reject it with "
                "`playbook.review` (`ace playbook review`); nothing was written"
            )
        shown = bullet.stage in SHOWN_STAGES
        if shown and bullet.trust == "tainted":
            found.append(Quarantine(bullet_id=bullet_id, reason=UNTRUSTED))
        elif shown and _new_words(old, bullet) and (why := why_held(bullet, screen, tools)):
            found.append(Quarantine(bullet_id=bullet_id, reason=why))
        elif promote_after > 1 and bullet.provenance.run_ids and bullet.stage in ("active", "shadow"):
            found += _by_evidence(old, bullet, promote_after, freed=bullet_id in freed)
    return found


def _by_evidence(old: PlaybookBullet | None, bullet: PlaybookBullet, enough: int, *, freed: bool) -> list[Delta]:
    """Set the stage of a lesson that runs have taught, by how many tasks did."""
    support = bullet.provenance.support
    if support < enough and bullet.stage == "active" and (old is None or freed):
        return [Promote(bullet_id=bullet.id, stage="shadow", reason=f"taught by {support} of {enough} tasks")]
    if bullet.stage == "shadow" and old is not None and old.provenance.support < enough <= support:
        return [Promote(bullet_id=bullet.id, stage="active", reason=f"taught by {support} tasks")]
    return []


def _waits(bullet: PlaybookBullet) -> bool:
    return bullet.stage == "quarantined" or bullet.trust == "tainted"


def _new_words(old: PlaybookBullet | None, bullet: PlaybookBullet) -> bool:
    return old is None or (old.trigger, old.content, old.trust) != (bullet.trigger, bullet.content, bullet.trust)
