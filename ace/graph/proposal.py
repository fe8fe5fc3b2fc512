"""What a proposed change to the playbook would do, in words for a person, and which of it a person should see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from ace.core import PlaybookError
from ace.core.durable import digest
from ace.playbook import Playbook
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.delta import DELTAS, Add, Delta, Merge, Promote, Remove, Restore, Update, apply, checked
from ace.playbook.render import render_bullet

Risk = Callable[[Playbook, Delta, Collection[str]], str]
"""Why a person should see a delta before it is committed; empty when nobody has to. Given the tools' names, too."""


class ProposedChange(BaseModel, frozen=True, extra="forbid"):
    """One delta as a reviewer reads it: `ProposedChange(index=0, kind="add", risk="new", delta={})`."""

    index: int
    """Its place among the proposed deltas, from 0."""
    kind: str
    risk: str
    """Why it waits; empty for what would be committed without anybody's word."""
    before: str | None = None
    after: str | None = None
    reason: str = ""
    delta: dict[str, Any]
    """The delta itself, so that a reviewer can edit it."""


class Review(BaseModel, frozen=True, extra="forbid"):
    """What a reviewer says, `Review(decision="approve")`: with `edit`, the deltas to commit in place of those that wait."""

    decision: Literal["approve", "edit", "reject"]
    deltas: tuple[dict[str, Any], ...] = ()
    reviewer: str = ""
    note: str = ""


class Proposal(BaseModel, frozen=True, extra="forbid"):
    """Deltas on their way into the book."""

    deltas: tuple[dict[str, Any], ...] = ()
    approved: frozenset[str] = Field(default_factory=frozenset)
    """Digests of deltas that a reviewer has let pass."""
    refused: frozenset[str] = Field(default_factory=frozenset)
    """And of those that a reviewer has rejected, or put others in the place of."""
    edited: tuple[dict[str, Any], ...] = ()
    """What a reviewer wrote."""
    reviewer: str = ""
    note: str = ""

    def with_deltas(self, deltas: Iterable[Delta]) -> Proposal:
        """Make a proposal of other deltas; what a reviewer said of this one still holds."""
        wanted = [delta for delta in deltas if fingerprint(delta) not in self.refused]
        return self.model_copy(update={"deltas": (*_dumped(wanted), *self.edited)})

    def reviewed(self, review: Review, waiting: Collection[int], edited: Sequence[Delta]) -> Proposal:
        """Return the proposal after a review of the deltas that wait."""
        deltas = self.read()
        shown = [deltas[i] for i in sorted(waiting)]
        safe = [delta for i, delta in enumerate(deltas) if i not in waiting]
        passed = {"approve": shown, "edit": list(edited), "reject": []}[review.decision]
        gone = {fingerprint(delta) for delta in shown} - {fingerprint(delta) for delta in passed}
        return self.model_copy(
            update={
                "deltas": _dumped([*safe, *passed]),
                "approved": self.approved | {fingerprint(delta) for delta in passed},
                "refused": self.refused | gone,
                "edited": _dumped(edited) if review.decision == "edit" else self.edited if passed else (),
                "reviewer": review.reviewer,
                "note": review.note,
            }
        )

    def read(self) -> list[Delta]:
        """Read the deltas."""
        return [DELTAS.validate_python(delta) for delta in self.deltas]

    def is_approved(self, delta: Delta) -> bool:
        """Check whether a reviewer has let this very change pass."""
        return fingerprint(delta) in self.approved

    def changes(self, book: Playbook, risk: Risk, tools: Collection[str]) -> list[ProposedChange]:
        """Describe every delta with what it would do; one that was approved waits no more."""
        return [
            describe(book, i, delta, "" if self.is_approved(delta) else risk(book, delta, tools))
            for i, delta in enumerate(self.read())
        ]


def _dumped(deltas: Iterable[Delta]) -> tuple[dict[str, Any], ...]:
    return tuple(delta.model_dump(mode="json") for delta in deltas)


def fingerprint(delta: Delta) -> str:
    """Hash what a reviewer approves: what a delta does, not when it was proposed or which run it rests on.

    Examples:
        >>> one, other = Remove(bullet_id="b-1", reason="outdated"), Remove(bullet_id="b-1")
        >>> fingerprint(one) == fingerprint(other)
        True
    """
    plain = delta.model_dump(mode="json", exclude={"reason", "at", "run_id"})
    if isinstance(delta, Add):
        compared = ("section", "trigger", "content", "domain", "tenant", "tags", "tool_sequence", "changing_tools")
        plain["bullet"] = {name: plain["bullet"].get(name) for name in compared}
    return digest(plain)


def why_risky(book: Playbook, delta: Delta, tools: Collection[str] = ()) -> str:
    """Say by the default rule why a delta is risky: its words would be held back, or it changes or removes what is there.

    Evidence and credit are no risk: they change no word that an agent reads.

    Examples:
        >>> from ace.playbook import CallableEmbedder
        >>> book = Playbook(embedder=CallableEmbedder("toy", lambda texts: [[len(t), 1.0] for t in texts]))
        >>> why_risky(book, Add(bullet=PlaybookBullet(section="Pitfalls", content="Ask first.", trust="tainted")))
        'held: it rests on what is not trusted'
        >>> why_risky(book, Add(bullet=PlaybookBullet(section="Pitfalls", content="Ask first.")))
        ''
    """
    match delta:
        case Add(bullet=PlaybookBullet(stage="quarantined")):
            return delta.reason or "held: it waits for review"
        case Add(bullet=PlaybookBullet(stage="pinned")) | Promote(stage="pinned"):
            return "pinned: it would come first in prompts"
        case Add(bullet=bullet):
            return book.review.why_held(bullet, tools)
        case Update():
            return f"changes {', '.join(sorted(delta.changes))}"
        case Remove():
            return "removes a bullet"
        case Merge() if delta.absorbed:
            return f"takes the place of {', '.join(delta.absorbed)}"
        case Restore():
            return "brings back an earlier state"
        case _:
            return ""


def describe(book: Playbook, index: int, delta: Delta, risk: str) -> ProposedChange:
    """Describe one delta in words; what it speaks of may have gone since."""
    ids = () if isinstance(delta, (Add, Restore)) else (delta.bullet_id, *getattr(delta, "absorbed", ()))
    there = book.find(ids)
    before = "\n".join(render_bullet(bullet) for bullet in there.values()) or None
    if isinstance(delta, Add):
        after: str | None = render_bullet(delta.bullet.model_copy(update={"id": "new"}))
    else:
        try:
            changed = apply(there, delta, book.revision)
        except PlaybookError as error:
            changed = dict[str, PlaybookBullet | None]()
            risk = risk or f"it does not apply any more: {error}"
        after = "\n".join(render_bullet(bullet) for bullet in changed.values() if bullet is not None) or None
    return ProposedChange(
        index=index,
        kind=delta.kind,
        risk=risk,
        before=before,
        after=after,
        reason=delta.reason,
        delta=delta.model_dump(mode="json"),
    )


def as_text(changes: Sequence[ProposedChange]) -> str:
    """Write changes as a diff.

    Examples:
        >>> old = "[b-1] (Pitfalls) Ask."
        >>> change = ProposedChange(index=0, kind="remove", risk="removes a bullet", before=old, delta={})
        >>> print(as_text([change]))
        # 0: remove, waits: removes a bullet
        - [b-1] (Pitfalls) Ask.
    """
    lines: list[str] = []
    for change in changes:
        lines.append(f"# {change.index}: {change.kind}" + (f", waits: {change.risk}" if change.risk else ""))
        if change.reason:
            lines.append(f"#    {change.reason}")
        if change.before == change.after and change.before is not None:
            lines.append(f"  {change.before}")
            continue
        for sign, text in (("-", change.before), ("+", change.after)):
            lines += [f"{sign} {line}" for line in (text or "").splitlines()]
    return "\n".join(lines)


def read_review(answer: Any) -> tuple[Review | None, list[Delta], str]:
    """Read an answer as a review with the deltas of an edit, or say what is wrong with it.

    Examples:
        >>> read_review("approve")[0].decision, read_review("perhaps")[2]
        ('approve', "the answer is 'perhaps', expected 'approve', 'edit' with deltas, or 'reject'")
    """
    try:
        review = Review.model_validate(answer if isinstance(answer, (Mapping, Review)) else {"decision": answer})
    except ValidationError:
        return None, [], f"the answer is {answer!r:.200}, expected 'approve', 'edit' with deltas, or 'reject'"
    if review.decision != "edit":
        return review, [], ""
    edited: list[Delta] = []
    for number, delta in enumerate(review.deltas):
        try:
            edited.append(checked(DELTAS.validate_python(delta)))
        except (ValidationError, PlaybookError) as error:
            return None, [], f"delta {number} of the edit, from 0, is none: {str(error)[:300]}"
    if not edited:
        return None, [], "an edit needs `deltas`; to commit none of them, reject"
    return review, edited, ""
