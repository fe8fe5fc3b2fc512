"""Which candidates come: plans that only read, where a better lesson says it already."""

from ace.playbook import PlaybookBullet
from ace.playbook.bullet import readable
from ace.playbook.plan import Call, Plan, Situation
from ace.playbook.ranking import Scored, without_reads


def lesson(number, *calls, template="Refund order {number}"):
    fields = readable(Plan(calls=calls), [Situation(template=template)])
    return PlaybookBullet(id=f"b-{number}", section="Strategies", **fields)


READ, CHANGE = Call(tool="find"), Call(tool="refund", changes=True)


def kept(*bullets):
    table = {bullet.number: bullet for bullet in bullets}
    return [scored.number for scored in without_reads([Scored(number, 1.0) for number in table], table)]


def test_a_plan_that_only_reads_does_not_come_beside_one_that_changes_something_in_the_same_situation():
    assert kept(lesson(1, READ), lesson(2, READ, CHANGE)) == [2]
    assert kept(lesson(1, READ), lesson(2, READ, CHANGE, template="Refund all orders")) == [1, 2]
    assert kept(lesson(1, READ), lesson(2, READ)) == [1, 2]
    assert kept(PlaybookBullet(id="b-1", section="Pitfalls", content="Ask."), lesson(2, CHANGE)) == [1, 2]
