"""Where each part of a lesson came from."""

import re
from pathlib import Path

from ace.playbook import SOURCES, PlaybookBullet
from ace.playbook.bullet import Provenance, readable
from ace.playbook.plan import Call, Constant, FromAnswer, FromTask, Plan, Situation, Written

GUIDE = Path(__file__).parents[2] / "docs" / "trust.md"


def test_the_guide_has_the_same_table():
    section = GUIDE.read_text(encoding="utf-8").split("## What each source may bring")[1].split("\n## ")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)) == SOURCES


def test_every_argument_of_a_plan_has_a_source():
    calls = (
        Call(tool="find", args={"number": FromTask(slot="number")}),
        Call(tool="ours", args={"id": FromAnswer(call=0, path="id")}, trusted=True),
        Call(
            tool="refund",
            args={
                "order": FromAnswer(call=0, path="[].id"),
                "note": FromAnswer(call=0),
                "rate": FromAnswer(call=1),
                "why": Constant(value="damaged"),
                "words": Written(),
            },
            changes=True,
        ),
    )
    bullet = PlaybookBullet(
        section="Strategies", **readable(Plan(calls=calls), [Situation(template="Refund {number}")])
    )
    assert [tuple(part) for part in bullet.sources] == [
        ("situation", "task", ""),
        ("find(number)", "task", ""),
        ("ours(id)", "field", "find"),
        ("refund(order)", "field", "find"),
        ("refund(note)", "text", "find"),
        ("refund(rate)", "program", "ours"),
        ("refund(why)", "schema", ""),
        ("refund(words)", "model", ""),
    ]


def test_words_have_the_source_that_is_written_down_or_the_likely_one():
    words = {"section": "Pitfalls", "content": "Ask first."}
    assert PlaybookBullet(**words).sources[0].source == "person"
    assert PlaybookBullet(**words, provenance=Provenance(run_ids=("r",))).sources[0].source == "model"
    assert [part.source for part in PlaybookBullet(**words, words_from=("schema", "judge")).sources] == [
        "schema",
        "judge",
    ]
