"""Which candidates come: plans that only read, where a better lesson says it already; of each tool sequence the best."""

from ace.playbook import PlaybookBullet
from ace.playbook.bullet import readable
from ace.playbook.plan import Call, Plan, Situation
from ace.playbook.ranking import NEARER, Scored, diversify, failed_nearer, without_reads


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


def test_a_call_for_each_item_is_another_lesson_than_one_call_and_a_lesson_on_failed_calls_another_than_on_right_ones():
    each = Call(tool="refund", changes=True, times="each")
    table = {
        1: lesson(1, READ, CHANGE, template="Refund the last order"),
        2: lesson(2, READ, each, template="Refund all orders"),
        3: lesson(3, CHANGE, template="Refund order {number}"),
        4: PlaybookBullet(id="b-4", section="Pitfalls", content="It failed.", changing_tools=("refund",)),
    }
    groups = diversify([Scored(number, 1.0) for number in table], table)
    assert [sorted(group.members) for group in groups] == [[1, 3], [2], [4]]
    assert [table[number].teaches(["refund", "refund"]) for number in (1, 2)] == [False, True]


def test_of_a_call_and_a_call_for_each_item_the_better_has_the_support_of_both_and_the_other_its_own_score():
    table = {
        1: lesson(1, CHANGE, template="Refund the last order"),
        2: lesson(2, CHANGE, template="Refund order {number}"),
        3: lesson(3, Call(tool="refund", changes=True, times="each"), template="Refund all orders"),
        4: lesson(4, Call(tool="refund", changes=True, times="each"), template="Refund the orders of {name}"),
        5: lesson(5, Call(tool="cancel", changes=True), template="Cancel order {number}"),
    }

    def places(**scores):
        groups = diversify([Scored(int(name[1:]), score) for name, score in scores.items()], table)
        return [(sorted(group.members), round(group.score, 3)) for group in groups]

    assert places(b1=1.0, b2=0.8, b3=0.8, b5=0.9) == [([1, 2], 1.6), ([5], 0.9), ([3], 0.8)]
    assert places(b1=0.8, b3=1.0, b4=0.8, b5=0.9) == [([3, 4], 1.6), ([5], 0.9), ([1], 0.8)]
    assert places(b1=1.0, b2=0.6, b3=0.9, b5=0.8) == [([1, 2], 1.6), ([3], 0.9), ([5], 0.8)]


def test_calls_fail_nearer_by_a_margin_for_each_strategy_and_each_of_its_members_and_for_the_same_changes():
    each = Call(tool="refund", changes=True, times="each")
    pitfall = {"section": "Pitfalls", "content": "It failed."}
    table = {
        1: lesson(1, READ, CHANGE),
        2: PlaybookBullet(id="b-2", changing_tools=("refund",), **pitfall),
        3: lesson(3, CHANGE),
        4: lesson(4, each),
        5: lesson(5, READ),
        6: PlaybookBullet(id="b-6", **pitfall),
        7: PlaybookBullet(id="b-7", changing_tools=("refund", "refund"), **pitfall),
    }

    def failed(**cosines):
        scored = [Scored(int(number.removeprefix("b")), 1.0, cosine=cosine) for number, cosine in cosines.items()]
        return failed_nearer(diversify(scored, table), scored, table)

    assert failed(b1=0.5, b2=0.5 + 2 * NEARER)
    assert not failed(b1=0.5, b2=0.5 + NEARER / 2), "as near as makes no difference"
    assert failed(b1=None, b2=0.2), "found by its words alone"
    assert not failed(b1=0.5, b3=0.9, b2=0.8), "the same calls were right in a nearer one"
    assert not failed(b4=0.5, b2=0.9), "a call for each item is another lesson"
    assert not failed(b1=0.5, b7=0.9), "so are two calls"
    assert not failed(b5=0.5, b6=0.9), "runs that changed nothing have nothing in common"
    assert not failed(b1=0.5, b5=0.4, b2=0.9), "one may be right: all of them stay"
    assert not failed(b2=0.9)
