"""What waits for a person: quarantined bullets, bullets of changed tools, and the stages that people set."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, get_args

from ace.core import PlaybookError, clean_text
from ace.playbook.bullet import SHOWN_STAGES, PlaybookBullet
from ace.playbook.delta import Delta, Promote, Remove, Update
from ace.playbook.plan import Situation
from ace.playbook.release import is_released, release_of, why_no_call, why_stopped
from ace.playbook.results import ReviewItem
from ace.playbook.retriever import outdated
from ace.playbook.stage_rules import why_held
from ace.playbook.state import PlaybookState

SetStage = Literal["shadow", "active", "pinned", "retired"]
"""Stages that a person may put a bullet into; quarantine is entered and left by review."""

_EDITED = frozenset({"section", "domain", "tenant", "tags"})
"""Fields that a person may change beside trigger and content."""


class ReviewQueue:
    """Decisions about the bullets of one playbook that only a person takes.

    Args:
        state: The playbook's bullets.
    """

    def __init__(self, state: PlaybookState) -> None:
        self._state = state

    def pending(self) -> list[ReviewItem]:
        """Return the bullets that wait in quarantine, oldest first, with what held them back."""
        self._state.refresh()
        waiting = {bullet.id: bullet for bullet in self._state.all() if bullet.stage == "quarantined"}
        items: dict[str, ReviewItem] = {}
        for entry in self._state.store.entries() if waiting else ():
            if (bullet_id := entry.subject) not in waiting:
                continue  # unread: a journal is long, and few wait
            delta = entry.delta
            if delta.kind in ("add", "quarantine") or "held:" in delta.reason:
                items[bullet_id] = ReviewItem(
                    bullet=waiting[bullet_id],
                    why=delta.reason or "quarantined",
                    author=entry.author,
                    revision=entry.revision,
                )
        return sorted(items.values(), key=lambda item: (item.revision, item.bullet.number))

    def stopped(self) -> dict[str, str]:
        """Return lessons whose plan is no longer offered, because it stopped at the same call in several runs: id to why."""
        self._state.refresh()
        found = {bullet.id: why_stopped(bullet) for bullet in self._state.all()}
        return {bullet_id: why for bullet_id, why in found.items() if why}

    def why_held(self, bullet: PlaybookBullet, tools: Collection[str] = ()) -> str:
        """Say why a commit would hold a new bullet back for review; empty when it would not."""
        return why_held(bullet, self._state.screen, self._state.tools.union(tools))

    def approve(self, bullet_id: str, *, seen: int | None = None, author: str = "", note: str = "") -> int:
        """Let a bullet out of quarantine: from now on it may be shown.

        Args:
            bullet_id: The bullet.
            seen: The `updated_revision` of the bullet that was looked at: when it changed since, it keeps waiting.
            author: Who approves.
            note: Why, for the journal.

        Raises:
            PlaybookError: It does not wait for review, or has changed since it was looked at.
        """
        reason = clean_text(f"approved: {note}" if note else "approved")
        with self._state.transaction(author, reviewed=True) as tx:
            self._quarantined(bullet_id, seen)
            tx.add(Update(bullet_id=bullet_id, changes={"stage": "active", "trust": "trusted"}, reason=reason))
        return self._state.revision

    def reject(self, bullet_id: str, *, seen: int | None = None, author: str = "", note: str = "") -> int:
        """Remove a bullet that waits in quarantine; the journal keeps it.

        Args:
            bullet_id: The bullet.
            seen: As for `approve`.
            author: Who rejects.
            note: Why, for the journal.

        Raises:
            PlaybookError: It does not wait for review, or has changed since it was looked at.
        """
        reason = clean_text(f"rejected: {note}" if note else "rejected")
        with self._state.transaction(author) as tx:
            tx.add(Remove(bullet_id=self._quarantined(bullet_id, seen).id, reason=reason))
        return self._state.revision

    def release(self, bullet_id: str, *, seen: int | None = None, author: str = "", note: str = "") -> int:
        """Let agents with ``plans="approved"`` run a lesson's plan as one call, as long as its calls stay as they are.

        Where it had stopped too often, it is offered again.

        Args:
            bullet_id: The bullet.
            seen: The `updated_revision` of the bullet that was looked at: when it changed since, it is not released.
            author: Who releases it.
            note: Why, for the journal.

        Raises:
            PlaybookError: There is no such bullet, its plan cannot be one call, or it has changed since it was looked at.
        """
        reason = clean_text(f"released: {note}" if note else "released")
        with self._state.transaction(author, reviewed=True) as tx:
            bullet = self._unchanged(bullet_id, seen)
            if why := why_no_call(bullet):
                raise PlaybookError(f"{why}; nothing was released")
            assert bullet.plan is not None
            runs = bullet.plan_runs.model_copy(update={"stops": {}})
            changes = {"released": release_of(bullet.plan, self._state.store.book_id), "plan_runs": runs.model_dump()}
            tx.add(Update(bullet_id=bullet_id, changes=changes, reason=reason))
        return self._state.revision

    def is_released(self, bullet: PlaybookBullet) -> bool:
        """Return whether a person released the plan of a bullet as it is now."""
        return is_released(bullet, self._state.store.book_id)

    def set_stage(
        self,
        bullet_id: str,
        stage: SetStage,
        *,
        seen: int | None = None,
        author: str = "",
        note: str = "",
    ) -> int:
        """Put a bullet into another stage: pin it, retire it, or bring it back.

        Args:
            bullet_id: The bullet; one that waits for review is approved or rejected instead.
            stage: `pinned` ones come first where they fit, `active` ones are shown, `shadow` ones only in experiments,
                `retired` ones not at all.
            seen: As for `approve`.
            author: Who decides.
            note: Why, for the journal.

        Raises:
            PlaybookError: There is no such bullet or stage, it waits for review, or has changed since it was looked at.
        """
        if stage not in get_args(SetStage):
            raise PlaybookError(f"no stage {stage!r}; expected {', '.join(get_args(SetStage))}")
        reason = clean_text(note or f"made {stage}")
        with self._state.transaction(author, screened=False, reviewed=True) as tx:
            bullet = self._unchanged(bullet_id, seen)
            if bullet.stage == "quarantined":
                raise PlaybookError(
                    f"{bullet_id} waits for review: approve or reject it with `playbook.review` (`ace playbook review`)"
                )
            if bullet.trust == "tainted" and stage in SHOWN_STAGES:
                tx.add(Update(bullet_id=bullet_id, changes={"stage": stage, "trust": "trusted"}, reason=reason))
            elif bullet.stage != stage:
                tx.add(Promote(bullet_id=bullet_id, stage=stage, reason=reason))
        return self._state.revision

    def trust(self, bullet_id: str, *, author: str = "", note: str = "") -> int:
        """Say that a bullet may be believed: out of quarantine it becomes active, one of another book stays shadow.

        Raises:
            PlaybookError: There is no such bullet.
        """
        bullet = self._state.get(bullet_id)
        if bullet.stage == "quarantined":
            return self.approve(bullet_id, author=author, note=note)
        with self._state.transaction(author, screened=False, reviewed=True) as tx:
            if self._state.get(bullet_id).trust != "trusted":
                reason = clean_text(note or "trusted")
                tx.add(Update(bullet_id=bullet_id, changes={"trust": "trusted"}, reason=reason))
        return self._state.revision

    def edit(
        self,
        bullet_id: str,
        *,
        trigger: str | None = None,
        content: str | None = None,
        instead_of: Mapping[str, str] | None = None,
        author: str = "",
        note: str = "",
        **fields: Any,
    ) -> int:
        """Put a bullet in a person's words; what waits for review goes on waiting.

        Args:
            bullet_id: The bullet.
            trigger: When it applies; the requests that it was mined from are forgotten.
            content: What it says; a mined plan is forgotten.
            instead_of: Trigger and content as they were when the editing began: when somebody else has changed them since,
                nothing is written.
            author: Who decides.
            note: Why, for the journal.
            **fields: Others of its fields: `section`, `domain`, `tenant`, `tags`.

        Raises:
            PlaybookError: There is no such bullet or field, a value is illegal, or it says something else by now.
        """
        if unknown := sorted(fields.keys() - _EDITED):
            raise PlaybookError(f"cannot edit {unknown}; expected trigger, content, {', '.join(sorted(_EDITED))}")
        with self._state.transaction(author) as tx:
            bullet, changes = self._state.get(bullet_id), dict[str, Any](fields)
            for name, was in (instead_of or {}).items():
                if getattr(bullet, name) != was:
                    raise PlaybookError(f"{bullet_id} was changed by somebody else meanwhile; look at it again")
            if content is not None:
                changes |= {"content": clean_text(content), "plan": None, "words_from": ("person",)}
            if trigger is not None:
                known = (Situation(template=clean_text(trigger)),) if bullet.situations and trigger else ()
                changes |= {"trigger": clean_text(trigger), "situations": tuple(s.model_dump() for s in known)}
            if changes:
                tx.add(Update(bullet_id=bullet_id, changes=changes, reason=clean_text(note or "edited")))
        return self._state.revision

    def remove(self, bullet_id: str, *, author: str = "", note: str = "") -> int:
        """Take a bullet out of the book, whatever its stage; the journal keeps it.

        Raises:
            PlaybookError: There is no such bullet.
        """
        with self._state.transaction(author) as tx:
            tx.add(Remove(bullet_id=self._state.get(bullet_id).id, reason=clean_text(note or "removed")))
        return self._state.revision

    def outdated(self, tools: Mapping[str, str], domain: str | None = None, tenant: str | None = None) -> list[str]:
        """Return ids of the bullets that would be shown, had not one of their tools (name to schema hash) changed since."""
        return list(outdated(self._state, tools, domain, tenant))

    def confirm(self, bullet_ids: Sequence[str], tools: Mapping[str, str], *, author: str = "") -> int:
        """Confirm that bullets still hold for the tools as they are now (name to schema hash), so that they are shown again.

        Raises:
            PlaybookError: A bullet is not there, or one of its tools is not.
        """
        with self._state.transaction(author, screened=False) as tx:
            tx.add(*(self._confirmed(bullet_id, tools) for bullet_id in bullet_ids))
        return self._state.revision

    def _confirmed(self, bullet_id: str, tools: Mapping[str, str]) -> Delta:
        hashes = self._state.get(bullet_id).tool_schema_hashes
        if missing := sorted(hashes.keys() - tools.keys()):
            raise PlaybookError(f"{bullet_id} names {', '.join(missing)}, which is not among these tools")
        changes = {"tool_schema_hashes": {name: tools[name] for name in hashes}}
        return Update(bullet_id=bullet_id, changes=changes, reason="confirmed for the tools as they are now")

    def _quarantined(self, bullet_id: str, seen: int | None = None) -> PlaybookBullet:
        bullet = self._unchanged(bullet_id, seen)
        if bullet.stage != "quarantined":
            raise PlaybookError(
                f"{bullet_id} is {bullet.stage} and waits for no review; `ace playbook review --list` shows what does"
            )
        return bullet

    def _unchanged(self, bullet_id: str, seen: int | None) -> PlaybookBullet:
        bullet = self._state.get(bullet_id)
        if seen is not None and bullet.updated_revision != seen:
            raise PlaybookError(
                f"{bullet_id} changed at revision {bullet.updated_revision}, after revision {seen} that was looked at; "
                "look again: `ace playbook show`"
            )
        return bullet
