"""How a playbook looks on a console: tables, diffs, bars."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from ace.playbook import Explanation, PlaybookBullet
    from ace.playbook.history import Change, Diff
    from ace.playbook.results import Assessment

_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "merged": ("-", "red"), "changed": ("~", "yellow")}
_STYLES = {"pinned": "cyan", "active": "green", "shadow": "yellow", "quarantined": "magenta", "retired": "dim"}


def bullet_table(title: str, bullets: Iterable[PlaybookBullet]) -> Table:
    """One row per bullet."""
    table = Table(title=Text(title), title_justify="left")
    for name in ("id", "section", "domain", "stage", "+", "-", "when", "tools"):
        table.add_column(name, justify="right" if name in "+-" else "left")
    for b in bullets:
        counts = (str(b.helpful_count), str(b.harmful_count))
        when = (b.trigger or b.content)[:80]
        cells = (b.id, b.section, b.domain or "", b.stage, *counts, when, " -> ".join(b.tool_sequence) or "-")
        table.add_row(*(Text(cell) for cell in cells))
    return table


def explanation_table(found: Explanation) -> Table:
    """Why each bullet came, and what else was near."""
    title = f"for {found.query!r}: {found.tokens} of {found.budget} tokens, {found.index} index"
    table = Table(title=Text(title), title_justify="left")
    for name in ("", "id", "meaning", "words", "score", "utility", "calls ok", "iterations", "when", "why"):
        table.add_column(name)
    for reason in found.reasons:
        meaning = "-" if reason.dense_rank is None else f"{reason.dense_rank} ({reason.cosine:.2f})"
        words = "-" if reason.lexical_rank is None else f"{reason.lexical_rank} ({reason.words:.2f})"
        bullet = reason.bullet
        cells = (
            "*" if reason.chosen else "",
            bullet.id,
            meaning,
            words,
            f"{reason.fused:.3f}",
            f"{reason.utility:.2f}",
            "-" if bullet.tool_success_rate is None else f"{100 * bullet.tool_success_rate:.0f} %",
            "-" if bullet.avg_iterations is None else f"{bullet.avg_iterations:.1f}",
            (bullet.trigger or bullet.content)[:60],
            reason.why,
        )
        table.add_row(*(Text(cell) for cell in cells))
    return table


# -- a diff that reads like a review -----------------------------------------------------------------------------------


def diff_view(found: Diff) -> RenderableType:
    """Added, removed and changed bullets with the words that differ, why, and by whom; counters in one line."""
    names = {kind: len(found.of(kind)) for kind in ("added", "changed", "merged", "removed", "credited")}
    counted = ", ".join(f"{n} {kind}" for kind, n in names.items() if n) or "nothing differs"
    parts: list[RenderableType] = [Text(f"revision {found.a} -> {found.b}: {counted}", style="bold")]
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
    """A field's old and new value; in longer texts the words that differ stand out."""
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
    if isinstance(value, (tuple, list)):
        return " -> ".join(str(item) for item in cast(list[Any], value))
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in cast(dict[str, Any], value).items())
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
    """Each bullet's helpful rate with its 95 % interval on a scale from 0 to 1, its use, and its measured effect."""
    from scipy.special import betaincinv

    from ace.playbook.statistics import record

    title = (
        f"helpful rate, 95 % credible interval; | is the baseline {baseline:g}; better: than nothing, probability; effect: "
        "success with it minus without it, where a holdout measured it"
    )
    table = Table(title=Text(title), title_justify="left")
    scale = f"0{'0.5':^{_WIDTH - 1}}1"
    for name in ("id", "stage", "uses", scale, "better", "effect"):
        right = name in ("uses", "better", "effect")
        table.add_column(Text(name), justify="right" if right else "left", no_wrap=True)
    table.add_column("when", overflow="fold")
    order = sorted(assessments, key=lambda a: (-(a.bullet.helpful_count + a.bullet.harmful_count), a.bullet.number))
    for assessment in order[:limit]:
        bullet = assessment.bullet
        known = record(bullet)
        low, high = betaincinv(1 + known.successes, 1 + known.failures, [0.025, 0.975])
        table.add_row(
            bullet.id,
            Text(bullet.stage, style=_STYLES[bullet.stage]),
            str(int(known.uses)),
            _bar(float(low), known.mean, float(high), baseline),
            f"{100 * assessment.better:.1f} %" if known.uses else "-",
            effect_text(assessment),
            Text((bullet.trigger or bullet.content)[:40]),
        )
    return table


def effect_text(assessment: Assessment) -> str:
    """The measured effect with its interval, in points; a dash where there is none."""
    if assessment.effect is None:
        return "-"
    low, high = assessment.effect_interval
    return f"{100 * assessment.effect:+.0f} [{100 * low:+.0f}, {100 * high:+.0f}]"


_WIDTH = 30


def _bar(low: float, mean: float, high: float, baseline: float, width: int = _WIDTH) -> Text:
    cells = [" "] * (width + 1)
    for i in range(round(low * width), round(high * width) + 1):
        cells[i] = "-"
    cells[round(baseline * width)] = "|"
    cells[round(mean * width)] = "o"
    style = "green" if low > baseline else "red" if high < baseline else ""
    return Text("".join(cells), style=style)


def stage_bars(counts: dict[str, int], width: int = 40) -> list[Text]:
    """One bar per stage."""
    most = max(counts.values(), default=1)
    return [
        Text(f"{stage:<12}{counts[stage]:>6}  ") + Text("█" * max(1, round(width * counts[stage] / most)), style=style)
        for stage, style in _STYLES.items()
        if counts.get(stage)
    ]


def moment(seconds: float) -> str:
    """A point in time, in this machine's zone."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
