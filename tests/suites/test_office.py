from collections import Counter

from ace.suites.office import OfficeSuite, OfficeTools
from ace.suites.office.tools import DOMAIN_TOOLS, WRITING
from ace.suites.protocol import changing
from ace.tasks import TaskOutput


def test_the_suite_has_the_promised_size(office):
    assert len(office.tasks) == 200
    assert len({task.group for task in office.tasks}) == 25
    assert len({task.domain for task in office.tasks}) == 5
    assert len({task.task.text for task in office.tasks}) == 200
    assert sum(len(r) + len(w) for r, w in DOMAIN_TOOLS.values()) == 28
    lengths = Counter(len(task.gold) for task in office.tasks)
    assert set(lengths) == {2, 3, 4, 5, 6}
    assert all({c.name for c in t.gold} & WRITING and {c.name for c in t.gold} - WRITING for t in office.tasks)


def test_another_seed_is_another_office_over_the_same_families(office):
    other = OfficeSuite(seed=1)
    assert [t.task.text for t in other.tasks] != [t.task.text for t in office.tasks]
    assert [changing(other, t) for t in other.tasks] == [changing(office, t) for t in office.tasks]
    assert [t.task.text for t in OfficeSuite().tasks] == [t.task.text for t in office.tasks]


def test_gold_plans_are_right_and_nothing_else_is(office):
    for task in office.tasks:
        done = TaskOutput(task_id=task.id, run_id="r", task=task.task, termination_reason="completed")
        episode = office.episode(task)
        assert not episode.score(done).success
        for call in task.gold:
            result = episode.registry.get(call.name).func(**call.args)
            assert not (isinstance(result, dict) and "error_type" in result)
        assert episode.score(done).success
        assert not episode.score(done.model_copy(update={"termination_reason": "max_iterations"})).success


def test_what_a_task_names_is_one_thing(office):
    for task in office.tasks:
        tools = OfficeTools(office.world.copy())
        for call in task.gold:
            found = tools.call(call.name, call.args)
            if call.name in ("find_orders", "search_mail", "find_tickets", "find_item", "find_person", "find_customer"):
                assert len(found) == 1, (task.id, call)


def test_a_world_is_fresh_for_each_episode(office):
    before = office.world.sha256()
    task = office.tasks[0]
    episode = office.episode(task)
    for call in task.gold:
        episode.registry.get(call.name).func(**call.args)
    assert office.world.sha256() == before
    assert office.replay(task.gold).sha256() != before
