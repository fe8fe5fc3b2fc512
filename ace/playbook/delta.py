"""The changes a playbook knows. The bullet table is their fold, and nothing else ever writes to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator

from ace.core import PlaybookError, clean_value
from ace.playbook.bullet import HOLDOUT_COUNTERS, Count, PlanRuns, PlaybookBullet, Provenance, readable
from ace.playbook.insight import Insight
from ace.playbook.plan import Plan, Situation, added


class _Delta(BaseModel, frozen=True, extra="forbid"):
    reason: str = ""
    """Why, for the history."""


BulletId = Annotated[str, Field(pattern=r"^b-[1-9][0-9]{0,8}$")]


class Add(_Delta, frozen=True):
    """A new bullet, which gets its id at commit: `book.commit([Add(bullet=bullet)])`."""

    kind: Literal["add"] = "add"
    bullet: PlaybookBullet


class Update(_Delta, frozen=True):
    """New values for some fields of a bullet: `Update(bullet_id="b-1", changes={"content": "Ask first."})`."""

    kind: Literal["update"] = "update"
    bullet_id: BulletId
    changes: dict[str, Any]


class Merge(_Delta, frozen=True):
    """Another run taught the same lesson, `Merge(bullet_id="b-1", helpful=1)`: the evidence is added, the text stays."""

    kind: Literal["merge"] = "merge"
    bullet_id: BulletId
    provenance: Provenance = Provenance()
    helpful: Count = 0
    harmful: Count = 0
    avg_iterations: float | None = Field(default=None, allow_inf_nan=False)
    tool_success_rate: float | None = Field(default=None, allow_inf_nan=False)
    plan: Plan | None = None
    """The plan from now on, where the run changed it; None leaves it."""
    situation: Situation | None = None
    """The situation of the run, joined with the one that it was like."""
    instead_of: str = ""
    """The wording that `situation` replaces; empty for another wording."""
    clean: bool = False
    """Whether no untrusted answer asked for what the run did: a lesson that waits for such a run is shown from now on."""
    after: tuple[str, ...] | None = None
    """See `PlaybookBullet.after`, from now on; None leaves it."""
    absorbed: tuple[BulletId, ...] = ()
    """Ids of bullets that this one replaces; it takes over what they have, counters included."""


class Remove(_Delta, frozen=True):
    """A bullet goes, `Remove(bullet_id="b-1")`; its id is never given again."""

    kind: Literal["remove"] = "remove"
    bullet_id: BulletId
    back_to: int | None = None
    """The revision that a rollback brings back."""


class Tag(_Delta, frozen=True):
    """Credit, `Tag(bullet_id="b-1", helpful=1, run_id="r-1")`: counters only, the content revision does not move.

    A run gives its credit for a bullet once, so that the arm of an experiment and a use belong into one tag.
    """

    kind: Literal["tag"] = "tag"
    bullet_id: BulletId
    helpful: Count = 0
    harmful: Count = 0
    arm: Literal["none", "treated", "control"] = "none"
    """Of the experiment that decided, at random, whether the run was shown the bullet: it was, or it was not."""
    success: bool | None = None
    """Whether that run succeeded; needed with an arm."""
    plan_runs: PlanRuns = PlanRuns()
    """What became of the bullet's plan in that run, where it could be one call."""
    run_id: str = ""
    """The run that gives the credit: each counts once per bullet."""

    @model_validator(mode="after")
    def _arm_and_success(self) -> Tag:
        if (self.arm == "none") != (self.success is None):
            raise ValueError("an arm needs `success`, and `success` an arm: they are the two halves of one observation")
        return self


class Promote(_Delta, frozen=True):
    """Another stage in a bullet's life: `Promote(bullet_id="b-1", stage="pinned")`."""

    kind: Literal["promote"] = "promote"
    bullet_id: BulletId
    stage: Literal["shadow", "active", "pinned", "retired"]


class Quarantine(_Delta, frozen=True):
    """Not shown until a person has reviewed it: `Quarantine(bullet_id="b-1")`."""

    kind: Literal["quarantine"] = "quarantine"
    bullet_id: BulletId


class Restore(_Delta, frozen=True):
    """A bullet as it was, byte for byte, `Restore(bullet=bullet)`; only `playbook.history` writes these."""

    kind: Literal["restore"] = "restore"
    bullet: PlaybookBullet
    credited: tuple[str, ...] | None = None
    """The runs that have given it their credit; a rollback that does not say so, as earlier ones, means those of then."""
    back_to: int | None = None
    """As for `Remove`."""

    @property
    def bullet_id(self) -> str:
        """The bullet's id."""
        return self.bullet.id


class Learned(_Delta, frozen=True):
    """What one run taught, `Learned(run_id="r-1", success=True)`: so that a later verdict can take the place of this one."""

    kind: Literal["learned"] = "learned"
    run_id: str = Field(min_length=1)
    task_id: str = ""
    tenant: str | None = None
    success: bool | None
    """The verdict; None for a run that was withdrawn."""
    insights: tuple[Insight, ...] = ()
    """The lessons that it teaches by itself, the main one first."""
    changed: tuple[tuple[str, str], ...] = ()
    """Its changing calls, each with its tool and in words: another run of the same task is compared by them."""
    asked: dict[str, str] = Field(default_factory=dict)
    """Tools that an untrusted answer asked for: why a lesson that names one waits for a person."""
    tools: dict[str, str] = Field(default_factory=dict)
    """Of the tools that it names or changed something with, name to schema hash."""
    again: bool = False
    """Whether it takes the place of an earlier verdict on the run."""

    @property
    def bullet_id(self) -> str:
        """None of its own."""
        return "b-0"


class Purge(_Delta, frozen=True):
    """A tombstone: something was taken out of the journal, `Purge(what="text")`; only `playbook.purge` writes these."""

    kind: Literal["purge"] = "purge"
    what: Literal["text", "run", "tenant", "entry", "added"]
    """What was purged; ``entry`` and ``added`` stand where a delta, or a new bullet, stood."""
    bullet_id: str = "b-0"
    entries: Count = 0
    """How many entries were changed."""

    @property
    def of_run(self) -> bool:
        """Whether it stands where a run had said what it taught."""
        return (self.what, self.bullet_id) == ("entry", "b-0")


Delta = Annotated[
    Add | Update | Merge | Remove | Tag | Promote | Quarantine | Restore | Learned | Purge, Field(discriminator="kind")
]
"""Any change of a playbook, told apart by `kind`."""
DELTAS: TypeAdapter[Delta] = TypeAdapter(Delta)


def checked(delta: Delta) -> Delta:
    """Return the delta with encodable text throughout; what is no delta is refused before anything is written."""
    try:
        return DELTAS.validate_python(clean_value(delta.model_dump()))
    except (ValidationError, AttributeError) as error:
        detail = error.errors(include_url=False, include_context=False) if isinstance(error, ValidationError) else delta
        raise PlaybookError(
            f"not a delta: {detail}; expected Add, Update, Merge, Remove, Tag, Promote, Quarantine, Learned or Restore"
        ) from error


_FIXED = frozenset({"id", "created_revision", "updated_revision"})


def apply(bullets: dict[str, PlaybookBullet], delta: Delta, revision: int) -> dict[str, PlaybookBullet | None]:
    """Change bullets, by id, by one delta: `apply(bullets, Remove(bullet_id="b-1"), 7)`.

    Returns:
        What changed: id to the new bullet, or to None for one that goes.

    Raises:
        PlaybookError: The bullet does not exist, or a field is unknown or has an illegal value.
    """
    changed = _changes(bullets, delta, revision)
    for bullet_id, bullet in changed.items():
        if bullet is None:
            bullets.pop(bullet_id, None)
        else:
            bullets[bullet_id] = bullet
    return changed


def _changes(bullets: Mapping[str, PlaybookBullet], delta: Delta, revision: int) -> dict[str, PlaybookBullet | None]:
    """Return what one delta changes: id to the new bullet, or to None for one that goes.

    Raises:
        PlaybookError: The bullet does not exist, or a field is unknown or has an illegal value.
    """
    if isinstance(delta, Add):
        if not delta.bullet.id or delta.bullet.id in bullets:
            raise PlaybookError(f"cannot add a bullet with the id {delta.bullet.id!r}: ids are given at commit")
        fixed = {"created_revision": revision, "updated_revision": revision}
        return {delta.bullet.id: delta.bullet.model_copy(update=fixed)}
    if isinstance(delta, Restore):
        return {delta.bullet_id: delta.bullet}
    if isinstance(delta, (Learned, Purge)):
        return {}
    old = bullets.get(delta.bullet_id)
    if old is None:
        raise PlaybookError(f"no lesson {delta.bullet_id!r} to {delta.kind}; `ace playbook list` shows the ids")
    if isinstance(delta, Remove):
        return {delta.bullet_id: None}
    absorbed = getattr(delta, "absorbed", ())
    for other in absorbed:
        if other not in bullets or other == old.id:
            raise PlaybookError(f"{old.id} cannot absorb {other!r}: it is not there, or the same bullet")
    gone = {other: bullets[other] for other in absorbed}
    changed = _changed(old, delta, revision, list(gone.values()))
    return {delta.bullet_id: changed, **dict.fromkeys(gone)}


def _changed(
    old: PlaybookBullet,
    delta: Update | Merge | Tag | Promote | Quarantine,
    revision: int,
    absorbed: Sequence[PlaybookBullet],
) -> PlaybookBullet:
    changes: dict[str, Any]
    match delta:
        case Update(changes=given):
            if fixed := sorted(_FIXED & given.keys()):
                raise PlaybookError(f"cannot change {fixed} of {old.id}: they are given at commit")
            changes = given
        case Merge():
            changes = {
                "provenance": old.provenance.joined(delta.provenance),
                "helpful_count": old.helpful_count + delta.helpful + sum(b.helpful_count for b in absorbed),
                "harmful_count": old.harmful_count + delta.harmful + sum(b.harmful_count for b in absorbed),
                "avg_iterations": _mean(old.avg_iterations, delta.avg_iterations, len(old.provenance.run_ids)),
                "tool_success_rate": _mean(old.tool_success_rate, delta.tool_success_rate, len(old.provenance.run_ids)),
                **_inherited(old, absorbed),
                **_said(old, delta, absorbed),
                **_freed(old, delta),
            }
        case Tag():
            changes = _credited(old, delta)
        case Promote(stage=stage):
            changes = {"stage": stage}
        case Quarantine():
            changes = {"stage": "quarantined"}
    try:
        new = PlaybookBullet.model_validate({**old.model_dump(), **changes, "updated_revision": revision})
    except ValidationError as error:
        raise PlaybookError(f"cannot {delta.kind} {old.id}: {error.errors(include_url=False)}") from error
    if old.plan and new.plan and old.plan.canonical != new.plan.canonical:  # what was seen was of other calls
        return new.model_copy(update={**dict.fromkeys(HOLDOUT_COUNTERS, 0), "plan_runs": PlanRuns()})
    return new


def _freed(old: PlaybookBullet, merge: Merge) -> dict[str, Any]:
    """Return what a clean run changes of a lesson that waited for one; what a person has put away stays there."""
    after = {} if merge.after is None else {"after": merge.after}
    if not merge.clean or old.trust != "tainted" or old.stage == "retired":
        return after
    return {"trust": "trusted", "stage": "active", **after}


def _said(old: PlaybookBullet, merge: Merge, absorbed: Sequence[PlaybookBullet]) -> dict[str, Any]:
    """Return what a mined lesson says after a merge: its plan and its situations, and the sentences made of them."""
    situations, runs = old.situations, len(old.provenance.run_ids)
    if merge.situation is not None:
        situations = added(situations, merge.situation, merge.instead_of, runs)
    for bullet in absorbed:
        for situation in bullet.situations if old.situations else ():
            situations = added(situations, situation, "", runs)
    plan = merge.plan or old.plan
    changed = (plan, situations) != (old.plan, old.situations)
    return readable(plan, situations) if changed else {}


def _inherited(old: PlaybookBullet, absorbed: Sequence[PlaybookBullet]) -> dict[str, Any]:
    """Return what a bullet takes over from those it replaces."""
    all_of_them = (old, *absorbed)
    names = {old.id, *(bullet.id for bullet in absorbed)}
    distinct = dict.fromkeys(other for bullet in all_of_them for other in bullet.distinct_from if other not in names)
    return {
        **{name: sum(getattr(bullet, name) for bullet in all_of_them) for name in HOLDOUT_COUNTERS},
        "plan_runs": old.plan_runs.joined(*(b.plan_runs for b in absorbed if _same_calls(old, b))),
        "tags": tuple(dict.fromkeys(tag for bullet in all_of_them for tag in bullet.tags)),
        "tool_schema_hashes": {k: v for bullet in reversed(all_of_them) for k, v in bullet.tool_schema_hashes.items()},
        "distinct_from": tuple(distinct),
    }


def _same_calls(one: PlaybookBullet, other: PlaybookBullet) -> bool:
    return one.plan is not None and other.plan is not None and one.plan.canonical == other.plan.canonical


def _credited(old: PlaybookBullet, tag: Tag) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "helpful_count": old.helpful_count + tag.helpful,
        "harmful_count": old.harmful_count + tag.harmful,
        "plan_runs": old.plan_runs.joined(tag.plan_runs),
    }
    if tag.arm != "none":
        name = f"{tag.arm}_{'successes' if tag.success else 'failures'}"
        changes[name] = getattr(old, name) + 1
    return changes


def _mean(old: float | None, new: float | None, weight: int) -> float | None:
    if old is None or new is None:
        return old if new is None else new
    return (old * max(weight, 1) + new) / (max(weight, 1) + 1)


def fold(journal: Iterable[tuple[int, Delta]]) -> dict[str, PlaybookBullet]:
    """Fold a journal of (revision, delta) into the bullets that it adds up to.

    Examples:
        >>> bullet = PlaybookBullet(id="b-1", section="Pitfalls", content="Never guess an id.")
        >>> fold([(1, Add(bullet=bullet)), (2, Tag(bullet_id="b-1", helpful=1))])["b-1"].helpful_count
        1
    """
    bullets: dict[str, PlaybookBullet] = {}
    for revision, delta in journal:
        apply(bullets, delta, revision)
    return bullets
