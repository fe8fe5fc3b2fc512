"""How a playbook looks on a console: tables, diffs, bars."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from rich.console import Group, RenderableType
from rich.table import Table

from ace.cli._shared import Text, counted

if TYPE_CHECKING:
    from ace.playbook import Explanation, PlaybookBullet
    from ace.playbook.history import Change, Diff
    from ace.playbook.results import Assessment, ReviewItem

_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "merged": ("-", "red"), "changed": ("~", "yellow")}
_STYLES = {"pinned": "cyan", "active": "green", "shadow": "yellow", "quarantined": "magenta", "retired": "dim"}


def bullet_table(title: str, bullets: Iterable[PlaybookBullet]) -> Table:
    """Show one row per bullet: what it says, how far it is trusted, what it rests on, where it came from."""
    table = Table(title=Text(title), title_justify="left", show_lines=True)
    for name in ("id", "stage", "support", "source"):
        table.add_column(name, no_wrap=name == "id")
    table.add_column("lesson", ratio=1, overflow="fold")
    for b in bullets:
        scope = " ".join(filter(None, (b.section, b.domain, b.tenant and f"tenant {b.tenant}")))
        cells = (Text(b.id), stage_text(b), Text(support_text(b)), Text("\n".join(sources_in(b))))
        table.add_row(*cells, Text(f"{scope}\n{lesson_text(b)}"))
    return table


def lesson_text(bullet: PlaybookBullet) -> str:
    """Show the lesson itself."""
    return f"when: {bullet.trigger}\ndo: {bullet.content}" if bullet.trigger else f"always: {bullet.content}"


def stage_text(bullet: PlaybookBullet) -> Text:
    """Show the stage, and whether it rests on what is not trusted."""
    tainted = "\nnot trusted" if bullet.trust == "tainted" else ""
    return Text(f"{bullet.stage}{tainted}", style=_STYLES[bullet.stage])


def support_text(bullet: PlaybookBullet) -> str:
    """Show the tasks and users that taught it, and how runs that used it ended."""
    known = bullet.provenance
    lines = [counted(n, what) for n, what in ((len(known.task_ids), "task"), (len(known.users), "user")) if n]
    if bullet.helpful_count or bullet.harmful_count:
        lines.append(f"+{bullet.helpful_count} -{bullet.harmful_count}")
    return "\n".join(lines) or "-"


def sources_in(bullet: PlaybookBullet) -> list[str]:
    """Return where the parts of a bullet came from, each source once."""
    return list(dict.fromkeys(part.source for part in bullet.sources))


def bullet_json(bullet: PlaybookBullet) -> dict[str, Any]:
    """Return a bullet with the sources of its parts."""
    return bullet.model_dump(mode="json") | {"sources": [part._asdict() for part in bullet.sources]}


def bullet_view(bullet: PlaybookBullet, item: ReviewItem | None = None) -> Table:
    """Show everything about one bullet: the lesson first, why it waits, its parts with their sources, its other fields."""
    from ace.playbook.sources import SOURCES

    table = Table(show_header=False)
    table.add_column("name", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_row("lesson", Text(lesson_text(bullet)))
    table.add_row("stage", stage_text(bullet))
    table.add_row("support", Text(support_text(bullet).replace("\n", ", ")))
    if item is not None:
        table.add_row("waits", Text(f"{item.why} (revision {item.revision}, by {item.author or 'nobody named'})"))
    if said := ", ".join(filter(None, ["released" if bullet.released else "", bullet.plan_record])):
        table.add_row("plan as a call", Text(said))
    for part in bullet.sources:
        of = f" of {part.tool}" if part.tool else ""
        table.add_row(Text(f"source of {part.part}"), Text(f"{part.source}{of}: {SOURCES[part.source]}"))
    for name in type(bullet).model_fields:
        if name not in _TOLD and (value := _shown(getattr(bullet, name))) and value != "0":
            table.add_row(name.replace("_", " "), Text(value))
    return table


_TOLD = frozenset({"trigger", "content", "stage", "trust", "words_from", "plan_runs", "released"})
"""Fields that a view of a bullet shows in words."""


def history_table(title: str, entries: Iterable[dict[str, Any]]) -> Table:
    """Show one row for each entry of the journal."""
    table = Table(title=Text(title), title_justify="left")
    for name in ("revision", "when", "by", "what", "lesson", "why"):
        table.add_column(name, overflow="fold")
    for entry in entries:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry["created_at"]))  # in this machine's zone
        subject = entry.get("bullet_id") or entry.get("bullet", {}).get("id", "")
        absorbed = entry.get("absorbed") or ()
        subject = f"{subject} <- {', '.join(absorbed)}" if absorbed else subject
        cells = (str(entry["revision"]), when, entry["author"], entry["kind"], subject)
        table.add_row(*(Text(cell) for cell in (*cells, entry["reason"])))
    return table


def explanation_table(found: Explanation) -> Table:
    """Show why each bullet came, and what else was near."""
    title = f"for {found.query!r}: {found.tokens} of {found.budget} tokens, {found.index} index; * is shown"
    table = Table(title=Text(title), title_justify="left", show_lines=True)
    for name in ("", "id", "scores"):
        table.add_column(name, no_wrap=True)
    table.add_column("lesson, and why", ratio=1, overflow="fold")
    for reason in found.reasons:
        bullet = reason.bullet
        runs = [
            "" if bullet.tool_success_rate is None else f"{100 * bullet.tool_success_rate:.0f} % of calls ok",
            "" if bullet.avg_iterations is None else f"{bullet.avg_iterations:.1f} iterations",
        ]
        scores = [
            f"meaning {'-' if reason.dense_rank is None else f'{reason.dense_rank} ({reason.cosine:.2f})'}",
            f"words   {'-' if reason.lexical_rank is None else f'{reason.lexical_rank} ({reason.words:.2f})'}",
            f"score   {reason.fused:.3f}",
            f"utility {reason.utility:.2f}",
        ]
        said = [bullet.trigger or bullet.content, ", ".join(filter(None, runs)), reason.why]
        cells = ("*" if reason.chosen else "", bullet.id, "\n".join(scores), "\n".join(filter(None, said)))
        table.add_row(*(Text(cell) for cell in cells))
    return table


def review_table(items: Iterable[ReviewItem]) -> Table:
    """Show what waits for review, oldest first, and why."""
    items = list(items)
    table = Table(title=Text(f"{counted(len(items), 'lesson')} to review"), title_justify="left", show_lines=True)
    for name in ("id", "source"):
        table.add_column(name, no_wrap=name == "id")
    for name in ("why it waits", "lesson"):
        table.add_column(name, ratio=1, overflow="fold")
    for item in items:
        cells = (item.bullet.id, "\n".join(sources_in(item.bullet)), item.why, lesson_text(item.bullet))
        table.add_row(*(Text(cell) for cell in cells))
    return table


def review_view(item: ReviewItem, place: str, decided: str) -> RenderableType:
    """Show one lesson that waits for a decision: what it says, and the words that made it wait."""
    head = Text(f"{place}  {item.bullet.id}  {item.bullet.section}", style="bold")
    if decided:
        head.append(f"  ({decided} was decided)")
    about = f"{support_text(item.bullet)}; from {', '.join(sources_in(item.bullet))}".replace("\n", ", ")
    return Group(
        Text(""),
        head,
        Text(lesson_text(item.bullet)),
        Text(f"why: {item.why}", style="magenta"),
        Text(about, style="dim"),
    )


# -- a diff that reads like a review -----------------------------------------------------------------------------------


def diff_view(found: Diff) -> RenderableType:
    """Show added, removed and changed bullets with the words that differ, why, and by whom; counters in one line."""
    names = {kind: len(found.of(kind)) for kind in ("added", "changed", "merged", "removed", "credited")}
    said = ", ".join(f"{n} {kind}" for kind, n in names.items() if n) or "nothing differs"
    parts: list[RenderableType] = [Text(f"revision {found.a} -> {found.b}: {said}", style="bold")]
    for change in found.changes:
        if change.kind != "credited":
            parts += [Text(""), *_change(change)]
    credited = found.of("credited")
    if credited:
        parts += [Text(""), Text(f"credit only ({len(credited)}):", style="dim")]
        parts += [Text(f"  {change.bullet_id}  {_credit(change)}", style="dim") for change in credited]
    return Group(*parts)


def _change(change: Change) -> list[Text]:
    sign, style = _SIGNS[change.kind]
    bullet = change.after or change.before
    assert bullet is not None
    scope = " ".join(part for part in (bullet.section, bullet.domain or "", bullet.stage) if part)
    into = f" into {change.into}" if change.into else ""
    lines = [Text(f"{sign} {change.bullet_id} {change.kind}{into}  [{scope}]", style=f"bold {style}")]
    if change.before is not None and change.after is not None:
        for name in change.fields:
            lines += _field(name, getattr(change.before, name), getattr(change.after, name))
        if credit := _credit(change):
            lines.append(Text(f"    credit: {credit}", style="dim"))
    else:
        texts = [("when", bullet.trigger), ("do", bullet.content), ("tools", " -> ".join(bullet.tool_sequence))]
        lines += [Text(f"  {sign} {name}: {value}", style=style) for name, value in texts if value]
    if change.reasons:
        lines.append(Text(f"    why: {'; '.join(change.reasons)}", style="dim"))
    if change.authors:
        lines.append(Text(f"    by: {', '.join(change.authors)}", style="dim"))
    return lines


def _field(name: str, old: Any, new: Any) -> list[Text]:
    """Show a field's old and new value; in longer texts the words that differ stand out."""
    before, after = _shown(old), _shown(new)
    if isinstance(old, str) and len(before.split()) > 3:
        return [_worded(f"  - {name}: ", before, after, "red"), _worded(f"  + {name}: ", after, before, "green")]
    return [Text(f"  ~ {name}: {before or '(none)'} -> {after or '(none)'}", style="yellow")]


def _worded(head: str, text: str, other: str, style: str) -> Text:
    words, others = text.split(), other.split()
    line = Text(head, style=style)
    for kind, i1, i2, _, _ in difflib.SequenceMatcher(None, words, others, autojunk=False).get_opcodes():
        if i1 < i2:
            line.append(" ".join(words[i1:i2]) + " ", style="" if kind == "equal" else f"bold reverse {style}")
    return line


def _shown(value: Any) -> str:
    """Show a field's value in words: of a plan its calls, of a situation the request, of other records what was set."""
    from pydantic import BaseModel  # after `ace --help` has answered

    if isinstance(value, (tuple, list)):
        return " -> ".join(_shown(item) for item in cast(list[Any], value))
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_shown(item)}" for key, item in cast(dict[str, Any], value).items() if item)
    if isinstance(value, BaseModel):
        said = getattr(value, "text", "") or getattr(value, "template", "")
        return str(said) or _shown(dict(value))
    return "" if value is None else str(value)


def _credit(change: Change) -> str:
    from ace.playbook.bullet import COUNTERS

    pairs = [
        (name.removesuffix("_count").replace("_", " "), getattr(change.before, name), getattr(change.after, name))
        for name in COUNTERS
    ]
    return ", ".join(f"{name} {old} -> {new}" for name, old, new in pairs if old != new)


# -- where the bullets stand -------------------------------------------------------------------------------------------


def standing(assessments: list[Assessment], baseline: float, limit: int) -> Table:
    """Show each bullet's helpful rate with its 95 % interval on a scale from 0 to 1, its use, and its measured effect."""
    from ace.playbook.statistics import credible_interval, record

    title = (
        f"helpful rate, 95 % credible interval; | is the baseline {baseline:g}; better: than nothing, probability; effect: "
        "success with it minus without it, where a holdout measured it"
    )
    table = Table(title=Text(title), title_justify="left")
    scale = f"0{'0.5':^{_WIDTH - 1}}1"
    for name in ("lesson", "uses", scale, "better\neffect"):
        table.add_column(Text(name), justify="left" if name in ("lesson", scale) else "right", no_wrap=True)
    table.add_column("when", overflow="fold")
    order = sorted(assessments, key=lambda a: (-(a.bullet.helpful_count + a.bullet.harmful_count), a.bullet.number))
    for assessment in order[:limit]:
        bullet = assessment.bullet
        known = record(bullet)
        low, high = credible_interval(known)
        table.add_row(
            Text(f"{bullet.id}\n").append(Text(bullet.stage, style=_STYLES[bullet.stage])),
            str(int(known.uses)),
            _bar(low, known.mean, high, baseline),
            f"{f'{100 * assessment.better:.1f} %' if known.uses else '-'}\n{effect_text(assessment)}",
            Text((bullet.trigger or bullet.content)[:60]),
        )
    return table


def effect_text(assessment: Assessment) -> str:
    """Show the measured effect with its interval, in points; a dash where there is none."""
    if assessment.effect is None:
        return "-"
    low, high = assessment.effect_interval
    return f"{100 * assessment.effect:+.0f} [{100 * low:+.0f}, {100 * high:+.0f}]"


_WIDTH = 20


def _bar(low: float, mean: float, high: float, baseline: float) -> Text:
    cells = [" "] * (_WIDTH + 1)
    for i in range(round(low * _WIDTH), round(high * _WIDTH) + 1):
        cells[i] = "-"
    cells[round(baseline * _WIDTH)] = "|"
    cells[round(mean * _WIDTH)] = "o"
    style = "green" if low > baseline else "red" if high < baseline else ""
    return Text("".join(cells), style=style)


def stage_bars(counts: dict[str, int], width: int = 40) -> list[Text]:
    """Draw one bar per stage."""
    most = max(counts.values(), default=1)
    lines: list[Text] = []
    for stage, style in _STYLES.items():
        if counts.get(stage):
            lines.append(Text(f"{stage:<12}{counts[stage]:>6}  "))
            lines[-1].append("█" * max(1, round(width * counts[stage] / most)), style=style)
    return lines
