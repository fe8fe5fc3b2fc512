"""Where the arguments of mined plans come from: ``python -m benchmarks.learning.bindings OUT.json``.

Six small worlds of real tools are run with known calls; for each run the plan that it should teach was written down by hand:
arguments from the task, from a field of an answer, from an answer's text, constants and loops. Beside them each plan that is
mined from a reference solution of `office` is carried over to the other tasks of its family: every argument must be where
the plan says, and what the model is said to write must stand neither in the task nor in an answer.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ace.core.text import value_to_text
from ace.playbook.plan import Constant, FromAnswer, FromTask, Plan, plan_with
from ace.reflector.knowledge import Knowledge
from ace.reflector.plans import mined
from ace.reflector.values import fields, said_in
from ace.suites.office import OfficeSuite
from ace.tasks import ReasoningStep, TaskInput
from ace.tools import ToolRegistry
from ace.tools.execution import call_tool, check_call
from benchmarks.command import command

Calls = Sequence[tuple[str, dict[str, Any]]]
NAMES = ("Ana Kovač", "Ben Otieno", "Chiara Rossi", "Dmitri Orlov", "Efua Mensah", "Farid Haddad", "Grete Lund")


@dataclass
class World:
    """Tools, and for a number the task, the calls and the plan in words."""

    tools: Sequence[Callable[..., Any]]
    reads: Sequence[str]
    run: Callable[[int], tuple[str, Calls, str]]


# -- shop: an id out of a structured answer, a reason that the schema lists ---------------------------------------------


def find_order(number: int) -> dict[str, Any]:
    """Find an order by its number."""
    return {"order_id": f"o-{number * 7}", "number": number, "status": "paid", "total": number + 0.5}


def refund(order_id: str, reason: Literal["damaged", "late", "unwanted"], notify: bool = True) -> str:
    """Pay an order back."""
    return f"{order_id} refunded"


def shop(n: int) -> tuple[str, Calls, str]:
    """Make two plans: with a constant of the schema, and with the total paid back in words of the task."""
    number = 3_100 + n
    task = f"Order {number} of {NAMES[n % 7]} came broken, pay it back."
    calls = [("find_order", {"number": number}), ("refund", {"order_id": f"o-{number * 7}", "reason": "damaged"})]
    return task, calls, (
        "find_order(number from the task), then refund(order_id from find_order.order_id, reason='damaged')"
    )  # fmt: skip


# -- clinic: a loop over a list of an answer ---------------------------------------------------------------------------


def list_visits(patient: str, day: str) -> list[dict[str, str]]:
    """List the visits of a patient on a day."""
    return [{"visit_id": f"v-{len(patient)}{len(day)}{i}", "patient": patient} for i in range(2 + len(patient) % 2)]


def cancel_visit(visit_id: str, inform: bool) -> str:
    """Cancel a visit."""
    return "cancelled"


def clinic(n: int) -> tuple[str, Calls, str]:
    """Cancel each visit that was found."""
    patient, day = NAMES[n % 7], f"2026-03-{10 + n:02}"
    visits = list_visits(patient, day)
    calls: Calls = [
        ("list_visits", {"patient": patient, "day": day}),
        *(("cancel_visit", {"visit_id": visit["visit_id"], "inform": True}) for visit in visits),
    ]
    return (
        f"{patient} is ill: cancel all visits on {day}.",
        calls,
        (
            "list_visits(patient from the task, day from the task), then for each visit_id from list_visits.visit_id: "
            "cancel_visit(visit_id, inform=true)"
        ),
    )


# -- library: the task says the id that an answer repeats; the loop is over the task ------------------------------------


def find_book(book_id: str) -> dict[str, str]:
    """Look a book up by its id."""
    return {"book_id": book_id, "shelf": f"S{len(book_id) + int(book_id[-1])}", "title": f"Volume {book_id[-2:]}"}


def reserve(book_id: str, member: str) -> str:
    """Reserve a book for a member."""
    return "ok"


def library(n: int) -> tuple[str, Calls, str]:
    """Reserve one book that was looked up for odd numbers, and several that the task lists for even ones."""
    first, second, member = f"bk-{410 + n}", f"bk-{610 + n}", f"m-{n + 20}"
    if n % 2:
        calls: Calls = [("find_book", {"book_id": first}), ("reserve", {"book_id": first, "member": member})]
        return (
            f"Is {first} in? If so reserve it for member {member}.",
            calls,
            ("find_book(book_id from the task), then reserve(book_id from the task, member from the task)"),
        )
    calls = [("reserve", {"book_id": book, "member": member}) for book in (first, second)]
    return (
        f"Reserve {first} and {second} for {member}",
        calls,
        ("for each book_id from the task: reserve(book_id, member from the task)"),
    )


# -- bank: an account out of nested fields, a default, an amount of the task ---------------------------------------------


def customer_record(name: str) -> dict[str, Any]:
    """Everything about a customer."""
    return {
        "name": name,
        "accounts": [{"kind": "giro", "iban": f"DE{len(name):02}5001{ord(name[0]):04}77"}],
        "vip": False,
    }


def transfer(iban: str, amount: float, currency: str = "EUR", urgent: bool = False) -> str:
    """Transfer money."""
    return "sent"


def bank(n: int) -> tuple[str, Calls, str]:
    """Pay somebody by name."""
    name, amount = NAMES[n % 7], 40.5 + n
    iban = customer_record(name)["accounts"][0]["iban"]
    calls: Calls = [
        ("customer_record", {"name": name}),
        ("transfer", {"iban": iban, "amount": amount, "currency": "EUR", "urgent": True}),
    ]
    return (
        f"Pay {name} {amount} at once",
        calls,
        (
            "customer_record(name from the task), then transfer(iban from customer_record.accounts.iban, "
            "amount from the task, currency='EUR', urgent=true)"
        ),
    )


# -- office: an answer that is text, words that the model writes ---------------------------------------------------------


def who_is(role: str, team: str) -> str:
    """Say who has a role in a team."""
    return f"The {role} of {team} is reached at {role}.{team.lower()}@example.org since May."


def send(to: str, subject: str, body: str) -> str:
    """Send a mail."""
    return "sent"


def mails(n: int) -> tuple[str, Calls, str]:
    """Write to somebody whose address is in a sentence."""
    team, subject = ("Sales", "Legal", "Design", "Tax", "Support", "Press", "Audit")[n % 7], f"Budget {2020 + n}"
    calls: Calls = [
        ("who_is", {"role": "lead", "team": team}),
        (
            "send",
            {"to": f"lead.{team.lower()}@example.org", "subject": subject, "body": f"Dear lead, about {n}, kindly"},
        ),
    ]
    return (
        f'Ask the lead of {team} about "{subject}".',
        calls,
        ("who_is(role from the task, team from the task), then send(to from who_is, subject from the task, body)"),
    )


# -- house: several calls a turn of the loop, a value of the first call of each ------------------------------------------


def rooms(floor: int) -> list[str]:
    """List the rooms of a floor."""
    return [f"r{floor}{letter}" for letter in "abc"]


def lamp_of(room: str) -> dict[str, str]:
    """Look up the lamp of a room."""
    return {"room": room, "lamp": f"lamp-{room}-x"}


def switch(lamp: str, state: Literal["on", "off"]) -> str:
    """Switch a lamp."""
    return "done"


def house(n: int) -> tuple[str, Calls, str]:
    """Switch the lamps of a floor off."""
    floor, calls = n + 1, [("rooms", {"floor": n + 1})]
    for room in rooms(floor):
        calls += [("lamp_of", {"room": room}), ("switch", {"lamp": f"lamp-{room}-x", "state": "off"})]
    return (
        f"Nobody is on floor {floor}, no lamp should burn",
        calls,
        (
            "rooms(floor from the task), then for each room from rooms: lamp_of(room), then "
            "switch(lamp from lamp_of.lamp, state='off')"
        ),
    )


WORLDS = {
    "shop": World((find_order, refund), ["find_order"], shop),
    "clinic": World((list_visits, cancel_visit), ["list_visits"], clinic),
    "library": World((find_book, reserve), ["find_book"], library),
    "bank": World((customer_record, transfer), ["customer_record"], bank),
    "mails": World((who_is, send), ["who_is"], mails),
    "house": World((rooms, lamp_of, switch), ["rooms", "lamp_of"], house),
}
RUNS = 7


def steps_of(calls: Calls, tools: dict[str, Callable[..., Any]], reads: Sequence[str]) -> list[ReasoningStep]:
    """Make the calls."""
    return [
        ReasoningStep(
            iteration=i,
            tool_call_id=f"c{i}",
            tool_name=name,
            tool_args=args,
            outcome="success",
            observation=value_to_text(tools[name](**args)),
            changes_state=name not in reads,
            executed=True,
        )
        for i, (name, args) in enumerate(calls, 1)
    ]


def worlds() -> Iterator[dict[str, Any]]:
    """Yield each run with the plan that it taught."""
    for name, world in WORLDS.items():
        tools = {tool.__name__: tool for tool in world.tools}
        knowledge = Knowledge(ToolRegistry(world.tools).schemas)
        for number in range(RUNS):
            text, calls, wanted = world.run(number)
            task = TaskInput(task_id=f"{name}-{number}", inputs={"task": text})
            plan = mined(task, steps_of(calls, tools, world.reads), knowledge).plan.stored
            yield {
                "world": name,
                "task": text,
                "right": _named(plan) == f"{wanted}, then submit(...)",
                "plan": _named(plan),
                "wanted": wanted,
            }


# -- office ------------------------------------------------------------------------------------------------------------


def at(path: str, answer: str) -> set[str]:
    """Find the values of an answer at a path, as text in lower case."""
    found = {value for value, where in _fields(answer) if where == path}
    return found if path else {answer.lower()}


def _fields(answer: str) -> Iterator[tuple[str, str]]:
    try:
        value = json.loads(answer)
    except ValueError:
        return
    stack = [("", value)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, dict):
            stack += [(f"{path}.{k}" if path else k, v) for k, v in item.items()]
        elif isinstance(item, list):
            stack += [(f"{path}[]", v) for v in item]
        else:
            yield (item if isinstance(item, str) else json.dumps(item)).lower(), path


def _named(plan: Plan) -> str:
    """Write a plan as it is shown once a second task has had the same keys in its answers."""
    return plan_with(plan, plan, differs=True).text


def carries_over(plan: Plan, task: TaskInput, steps: Sequence[ReasoningStep]) -> str:
    """Say what of a plan is not so in another run of the same calls; empty when all is."""
    if [call.tool for call in plan.calls] != [step.tool_name for step in steps]:
        return ""  # a loop, or other calls: nothing to compare
    for call, step in zip(plan.calls, steps, strict=True):
        for name, arg in call.args.items():
            value = step.tool_args.get(name)
            text = value if isinstance(value, str) else json.dumps(value)
            place = f"{step.tool_name}({name}={text!r})"
            if isinstance(arg, FromTask) and arg.value != value and not any(said_in(task.text, text)):
                return f"{place} is not in the task"
            if isinstance(arg, FromAnswer):
                values = at(arg.path, steps[arg.call].observation)
                if text.lower() not in values and not (not arg.path and any(text.lower() in v for v in values)):
                    return f"{place} is not at {arg.path!r} of {steps[arg.call].tool_name}"
            if isinstance(arg, Constant) and arg.value != value:
                return f"{place} is not {arg.value!r}"
            earlier = steps[: steps.index(step)]
            if arg.kind == "written" and (
                any(said_in(task.text, text)) or any(text.lower() in fields(s.observation) for s in earlier)
            ):
                return f"{place} is not written by the model"
    return ""


def office() -> list[dict[str, Any]]:
    """Carry each plan of a reference solution over to the next task of its family."""
    suite = OfficeSuite()
    families: dict[str, list[tuple[TaskInput, list[ReasoningStep], Plan]]] = defaultdict(list)
    for task in suite.tasks:
        registry = suite.episode(task).registry
        steps: list[ReasoningStep] = []
        for i, gold in enumerate(task.gold, 1):
            tool = registry.get(gold.name)
            answer = call_tool(tool, check_call(registry, gold.name, gold.args, "c")).text
            steps.append(
                ReasoningStep(
                    iteration=i,
                    tool_call_id=f"c{i}",
                    tool_name=gold.name,
                    tool_args=dict(gold.args),
                    outcome="success",
                    observation=answer,
                    changes_state=not tool.read_only,
                    executed=True,
                )
            )
        plan = mined(task.task, steps, Knowledge(registry.schemas)).plan.stored
        families[task.group].append((task.task, steps, plan))
    rows: list[dict[str, Any]] = []
    for family, runs in families.items():
        for task, _, plan in runs:
            wrong = [why for other, steps, _ in runs if (why := carries_over(plan, other, steps))]
            rows.append(
                {"family": family, "task": task.text, "plan": plan.text, "right": not wrong, "wrong": wrong[:3]}
            )
    return rows


def main() -> dict[str, Any]:
    """Mine, compare, and return the report."""
    runs, plans = list(worlds()), office()
    return {
        "runs": len(runs),
        "right": sum(run["right"] for run in runs) / len(runs),
        "office_plans": len(plans),
        "office_right": sum(plan["right"] for plan in plans) / len(plans),
        "wrong": [row for row in (*runs, *plans) if not row["right"]],
        "texts": sorted({run["plan"] for run in runs} | {f"office: {plan['plan']}" for plan in plans}),
    }


if __name__ == "__main__":
    command(main)
