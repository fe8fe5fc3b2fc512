"""The office: customers, colleagues, orders, mails, events, tickets and stock, generated from a seed."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Tables = dict[str, dict[str, Row]]

_FIRST = (  # noqa: SIM905
    "Ana Ben Chloe Dan Elif Femi Greta Hugo Ines Jonas Kira Liam Maya Noor Omar Pia Quinn Rosa Sven Tara Uma Viktor Wanda "
    "Xavier Yara Zeno Aiko Bruno Carla Diego Emma Farid Gita Henrik Irene Joao Karin Luca Mona Nils"
).split()
_LAST = (  # noqa: SIM905
    "Abel Brandt Costa Duarte Ek Fischer Gomez Haas Ivanov Jensen Kaya Lindt Moreau Novak Okafor Petit"
).split()
_STAFF = (  # noqa: SIM905
    "Alma Boris Celine Dario Edith Felix Gloria Hanna Ivo Judith Kaspar Leonie"
).split()
_ITEMS = (  # noqa: SIM905
    "desk lamp, office chair, whiteboard, paper shredder, laptop stand, webcam, headset, docking station, label printer, "
    "standing desk, monitor arm, keyboard, projector, conference phone, filing cabinet, coffee machine, water filter, "
    "desk fan, power strip, cable tray, bookshelf, door stopper, wall clock, noise panel, plant pot, key safe"
).split(", ")
_SUBJECTS = (
    "invoice question", "delivery window", "contract renewal", "broken part", "address change", "price quote",
    "training slots", "holiday notice", "warranty claim", "meeting notes",
)  # fmt: skip
_PROBLEMS = ("cannot log in", "screen stays dark", "wrong item came", "double charge", "missing manual", "noisy fan")
_TITLES = ("review", "sync", "interview", "planning", "budget talk")
DAYS = tuple(f"2026-03-{day:02d}" for day in range(2, 28) if day % 7 not in (0, 1))
TIMES = ("09:00", "10:30", "13:00", "14:30", "16:00")
WAREHOUSES = ("north", "south", "harbour")
CITIES = ("Lisbon", "Turku", "Graz", "Ghent", "Bergen", "Porto", "Aarhus", "Basel")


def put(rows: dict[str, Row], **row: Any) -> None:
    """Add a row under its id, which is named first: `put(tables["items"], item_id="i-1", name="webcam")`."""
    rows[next(iter(row.values()))] = row


@dataclass
class OfficeWorld:
    """The tables, id to row, and the counters that give new ids: `build_world(seed=1)`."""

    tables: Tables
    next_number: int = 9_000

    def copy(self) -> OfficeWorld:
        """Copy it to a world that can be changed without touching this one."""
        # rows are flat and their lists are replaced, never changed in place
        tables = {name: {key: dict(row) for key, row in rows.items()} for name, rows in self.tables.items()}
        return OfficeWorld(tables, self.next_number)

    def new_id(self, prefix: str) -> str:
        """Return an id that is not in use."""
        self.next_number += 1
        return f"{prefix}-{self.next_number}"

    def differing(self, other: OfficeWorld) -> int:
        """Count the rows that are not the same in another world."""
        pairs = ((rows, other.tables[name]) for name, rows in self.tables.items())
        return sum(mine.get(key) != theirs.get(key) for mine, theirs in pairs for key in mine | theirs)

    def sha256(self) -> str:
        """Hash of all tables."""
        text = json.dumps(self.tables, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def build_world(seed: int = 0) -> OfficeWorld:
    """Build the world of a seed: `build_world(seed=1)`.

    Every customer has one open, one shipped and one delivered order, one open ticket and two mails with different
    subjects; every colleague has at most one event a day. So whatever a task names is exactly one row.
    """
    rng = random.Random(f"office-world-{seed}")
    tables: Tables = {
        name: {} for name in ("customers", "people", "orders", "mails", "events", "tickets", "items", "reservations")
    }
    for number, first in enumerate(_FIRST):
        name = f"{first} {rng.choice(_LAST)}"
        address = f"{name.lower().replace(' ', '.')}@example.com"
        put(tables["customers"], customer_id=f"c-{100 + number}", name=name, email=address)
    for number, first in enumerate(_STAFF):
        put(tables["people"], person_id=f"p-{10 + number}", name=first, email=f"{first.lower()}@office.example")
    for number, item in enumerate(_ITEMS):
        stock, warehouse = rng.randint(0, 40), rng.choice(WAREHOUSES)
        put(tables["items"], item_id=f"i-{300 + number}", name=item, stock=stock, warehouse=warehouse, on_order=0)
    numbers = iter(rng.sample(range(1_000, 9_000), 1_000))
    for customer in tables["customers"].values():
        _add_customer_rows(tables, customer, rng, numbers)
    for person in tables["people"].values():
        for day in rng.sample(DAYS, 9):
            event_id, title, time = f"e-{next(numbers)}", rng.choice(_TITLES), rng.choice(TIMES)
            put(tables["events"], event_id=event_id, title=title, person=person["name"], day=day, time=time)
    return OfficeWorld(tables)


def _add_customer_rows(tables: Tables, customer: Row, rng: random.Random, numbers: Any) -> None:
    name = customer["name"]
    for status in ("open", "shipped", "delivered"):
        put(
            tables["orders"],
            order_id=f"o-{next(numbers)}",
            customer=name,
            item=rng.choice(_ITEMS),
            status=status,
            total=round(rng.uniform(20, 900), 2),
            ship_to=rng.choice(CITIES),
        )
    ticket_id, problem = f"t-{next(numbers)}", rng.choice(_PROBLEMS)
    put(tables["tickets"], ticket_id=ticket_id, customer=name, problem=problem, status="open", agent="", comments=[])
    for subject in rng.sample(_SUBJECTS, 2):
        mail = {"mail_id": f"m-{next(numbers)}", "sender": name, "recipient": "", "subject": subject}
        body = f"Hello, about the {subject}: please see to it. {name.split()[0]}"
        put(tables["mails"], **mail, body=body, label="", archived=False)
