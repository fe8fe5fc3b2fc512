"""The 25 families of tasks, `families.json`: how a user words them, and the reference solution.

A family has three wordings and the calls that solve it, 2 to 6 reads and writes. Both have placeholders; `drawn` gives their
values for one task.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from ace.suites.office.world import CITIES, DAYS, TIMES, WAREHOUSES, OfficeWorld, Row
from ace.suites.protocol import GoldCall

_REASONS = ("damaged", "late", "incomplete", "in the wrong colour", "defective")
_LABELS = ("urgent", "billing", "follow-up", "legal", "done")
_NOTES = (
    "Please look at this today",
    "The customer called again",
    "We wait for a spare part",
    "A replacement is on its way",
)
_FIXES = ("solved by phone", "replaced the part", "explained the manual", "refunded the fee")
Values = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """One kind of task."""

    name: str
    domain: str
    templates: tuple[str, ...]
    calls: tuple[tuple[str, dict[str, str]], ...]

    def gold(self, values: Values) -> tuple[GoldCall, ...]:
        """Make the calls that solve the task with these values."""
        filled = (
            (name, {key: _filled(template, values) for key, template in args.items()}) for name, args in self.calls
        )
        return tuple(GoldCall(name=name, args=args) for name, args in filled)


def _filled(template: str, values: Values) -> Any:
    """Put values into a template; one that is a placeholder alone gives the value itself, a number too."""
    name = template[1:-1]
    return values[name] if name in values and template == f"{{{name}}}" else template.format(**values)


FAMILIES = TypeAdapter(tuple[Family, ...]).validate_json(Path(__file__).with_name("families.json").read_bytes())


def drawn(world: OfficeWorld, rng: random.Random, customer: Row, person: Row, item: Row) -> Values:
    """Draw what one task is about from the world: the placeholders' values by name."""
    orders = {row["status"]: row for row in _rows(world, "orders", "customer", customer)}
    ticket = next(row for row in _rows(world, "tickets", "customer", customer) if row["status"] == "open")
    values = {
        "customer": customer["name"],
        "customer_id": customer["customer_id"],
        "customer_email": customer["email"],
        "person": person["name"],
        "person_email": person["email"],
        "item": item["name"],
        "item_id": item["item_id"],
        "ticket_id": ticket["ticket_id"],
        **{f"{status}_order": order["order_id"] for status, order in orders.items()},
        "reason": rng.choice(_REASONS),
        "label": rng.choice(_LABELS),
        "note": rng.choice(_NOTES),
        "fix": rng.choice(_FIXES),
        # never the present value: a solved task must change something
        "city": rng.choice([city for city in CITIES if city != orders["open"]["ship_to"]]),
        "warehouse": rng.choice([name for name in WAREHOUSES if name != item["warehouse"]]),
        "quantity": rng.randint(2, 30),
    }
    mail = rng.choice(_rows(world, "mails", "sender", customer))
    event = rng.choice(_rows(world, "events", "person", person))
    return {
        **values,
        **{name: mail[name] for name in ("mail_id", "subject")},
        **{name: event[name] for name in ("event_id", "day")},
        "new_day": rng.choice([day for day in DAYS if day != event["day"]]),
        "new_time": rng.choice(TIMES),
    }


def _rows(world: OfficeWorld, table: str, column: str, who: Row) -> list[Row]:
    """Find the rows of somebody."""
    return [row for row in world.tables[table].values() if row[column] == who["name"]]
