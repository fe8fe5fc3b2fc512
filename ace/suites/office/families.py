"""The 25 families of tasks: how a user words them, and the reference solution."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

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


class Slots:
    """What one task is about, drawn from the world."""

    def __init__(self, world: OfficeWorld, rng: random.Random, customer: Row, person: Row, item: Row) -> None:
        self._tables = world.tables
        self.customer, self.person, self.item = customer, person, item
        self.reason = rng.choice(_REASONS)
        self.label = rng.choice(_LABELS)
        self.note = rng.choice(_NOTES)
        self.fix = rng.choice(_FIXES)
        # never the present value: a solved task must change something
        self.city = rng.choice([city for city in CITIES if city != self.order("open")["ship_to"]])
        self.warehouse = rng.choice([name for name in WAREHOUSES if name != item["warehouse"]])
        self.quantity = rng.randint(2, 30)
        self.mail = rng.choice([m for m in self._tables["mails"].values() if m["sender"] == customer["name"]])
        self.event = rng.choice([e for e in self._tables["events"].values() if e["person"] == person["name"]])
        self.new_day = rng.choice([day for day in DAYS if day != self.event["day"]])
        self.new_time = rng.choice(TIMES)

    def order(self, status: str) -> Row:
        """Return the customer's order of that status."""
        return self._one("orders", status)

    @property
    def ticket(self) -> Row:
        """The customer's open ticket."""
        return self._one("tickets", "open")

    def _one(self, table: str, status: str) -> Row:
        rows = (row for row in self._tables[table].values() if row["customer"] == self.customer["name"])
        return next(row for row in rows if row["status"] == status)

    def values(self) -> dict[str, str]:
        """Return the values of the templates' placeholders."""
        return {
            "customer": self.customer["name"],
            "person": self.person["name"],
            "item": self.item["name"],
            "subject": self.mail["subject"],
            "day": self.event["day"],
            **{name: str(getattr(self, name)) for name in ("reason", "label", "note", "fix", "city", "warehouse")},
            **{name: str(getattr(self, name)) for name in ("quantity", "new_day", "new_time")},
        }


@dataclass(frozen=True)
class Family:
    """One kind of task."""

    name: str
    domain: str
    templates: tuple[str, ...]
    solve: Callable[[Slots], list[GoldCall]]


def call(name: str, /, **args: object) -> GoldCall:
    """Make one gold call."""
    return GoldCall(name=name, args=args)


def _orders(s: Slots, status: str) -> GoldCall:
    return call("find_orders", customer=s.customer["name"], status=status)


def _mails(s: Slots) -> GoldCall:
    return call("search_mail", sender=s.customer["name"], subject=s.mail["subject"])


def _events(s: Slots) -> GoldCall:
    return call("find_events", person=s.person["name"], day=s.event["day"])


def _tickets(s: Slots) -> GoldCall:
    return call("find_tickets", customer=s.customer["name"], status="open")


def _item(s: Slots) -> GoldCall:
    return call("find_item", name=s.item["name"])


def _colleague(s: Slots) -> GoldCall:
    return call("find_person", name=s.person["name"])


def _mail_customer(s: Slots, subject: str, body: str) -> list[GoldCall]:
    return [
        call("find_customer", name=s.customer["name"]),
        call("send_mail", to=s.customer["email"], subject=subject, body=body),
    ]


def _mail_colleague(s: Slots, subject: str, body: str) -> list[GoldCall]:
    return [_colleague(s), call("send_mail", to=s.person["email"], subject=subject, body=body)]


FAMILIES: tuple[Family, ...] = (
    Family(
        "refund", "orders",
        ("Refund the order that {customer} received: it arrived {reason}.",
         "{customer}'s delivered order came {reason}, give the money back with that as the reason.",
         "Please pay {customer} back for the delivered order, reason: {reason}."),
        lambda s: [_orders(s, "delivered"),
                   call("refund_order", order_id=s.order("delivered")["order_id"], reason=s.reason)],
    ),
    Family(
        "cancel-order", "orders",
        ("Cancel the open order of {customer}.",
         "{customer} does not want the order any more that is still open, stop it.",
         "Stop the pending purchase of {customer} before it ships."),
        lambda s: [_orders(s, "open"), call("cancel_order", order_id=s.order("open")["order_id"])],
    ),
    Family(
        "redirect-order", "orders",
        ("Ship the open order of {customer} to {city} instead.",
         "{customer} has moved: send the order that is still open to {city}.",
         "Change the delivery city of {customer}'s pending order to {city}."),
        lambda s: [_orders(s, "open"), call("get_order", order_id=s.order("open")["order_id"]),
                   call("update_shipping", order_id=s.order("open")["order_id"], ship_to=s.city)],
    ),
    Family(
        "shipping-news", "orders",
        ("Check the shipped order of {customer} and mail them 'It is on its way' with the subject 'Your order'.",
         "Look at what was shipped to {customer}, then write to them: subject 'Your order', text 'It is on its way'.",
         "{customer} asks where the parcel is; after a look at the order answer 'It is on its way' (subject 'Your order')."),
        lambda s: [_orders(s, "shipped"), call("get_order", order_id=s.order("shipped")["order_id"]),
                   *_mail_customer(s, "Your order", "It is on its way")],
    ),
    Family(
        "cancel-and-apologise", "orders",
        ("Cancel {customer}'s open order and mail them 'We are sorry' with the subject 'Cancelled'.",
         "We cannot deliver to {customer}: cancel the open order and apologise by mail, subject 'Cancelled', text 'We are sorry'.",
         "Call off the pending order of {customer}, then write 'We are sorry' to them under 'Cancelled'."),
        lambda s: [_orders(s, "open"), call("cancel_order", order_id=s.order("open")["order_id"]),
                   *_mail_customer(s, "Cancelled", "We are sorry")],
    ),
    Family(
        "archive", "mail",
        ("Archive the mail from {customer} about the {subject}.",
         "Put {customer}'s message on the {subject} into the archive.",
         "I am done with what {customer} wrote about the {subject}, file it away."),
        lambda s: [_mails(s), call("archive_mail", mail_id=s.mail["mail_id"])],
    ),
    Family(
        "label", "mail",
        ("Read {customer}'s mail about the {subject} and label it {label}.",
         "Have a look at the {subject} message of {customer}, then tag it as {label}.",
         "After reading it, mark the mail on the {subject} from {customer} with {label}."),
        lambda s: [_mails(s), call("read_mail", mail_id=s.mail["mail_id"]),
                   call("label_mail", mail_id=s.mail["mail_id"], label=s.label)],
    ),
    Family(
        "answer", "mail",
        ("Answer {customer}'s mail about the {subject} with '{note}', subject 'Re: {subject}'.",
         "Write back to {customer} on the {subject}: '{note}' (subject 'Re: {subject}').",
         "Find what {customer} wrote about the {subject} and reply '{note}' under 'Re: {subject}'."),
        lambda s: [_mails(s), *_mail_customer(s, f"Re: {s.mail['subject']}", s.note)],
    ),
    Family(
        "forward", "mail",
        ("Forward {customer}'s mail about the {subject} to {person}.",
         "{person} should see what {customer} wrote on the {subject}, pass it on.",
         "Send the {subject} message from {customer} along to {person}."),
        lambda s: [_mails(s), _colleague(s),
                   call("forward_mail", mail_id=s.mail["mail_id"], to=s.person["email"])],
    ),
    Family(
        "label-and-archive", "mail",
        ("Label {customer}'s mail about the {subject} as {label} and archive it.",
         "Tag the {subject} message of {customer} with {label}, then file it away.",
         "The mail on the {subject} from {customer} gets {label} and goes to the archive."),
        lambda s: [_mails(s), call("label_mail", mail_id=s.mail["mail_id"], label=s.label),
                   call("archive_mail", mail_id=s.mail["mail_id"])],
    ),
    Family(
        "book", "calendar",
        ("Book a catch-up with {person} on {new_day} at {new_time}; see first what else is on that day.",
         "Check {person}'s {new_day}, then set up a catch-up at {new_time}.",
         "Put a catch-up with {person} into the calendar for {new_day}, {new_time}, after a look at that day."),
        lambda s: [call("find_events", person=s.person["name"], day=s.new_day),
                   call("create_event", title="catch-up", person=s.person["name"], day=s.new_day, time=s.new_time)],
    ),
    Family(
        "move", "calendar",
        ("Move {person}'s event on {day} to {new_day} at {new_time}.",
         "What {person} has on {day} must be rescheduled to {new_day}, {new_time}.",
         "Postpone the {day} appointment of {person} until {new_day} {new_time}."),
        lambda s: [_events(s), call("move_event", event_id=s.event["event_id"], day=s.new_day, time=s.new_time)],
    ),
    Family(
        "cancel-event", "calendar",
        ("Cancel what {person} has on {day}.",
         "Take {person}'s {day} appointment out of the calendar after checking its details.",
         "{person} is ill on {day}: look at the event and drop it."),
        lambda s: [_events(s), call("get_event", event_id=s.event["event_id"]),
                   call("cancel_event", event_id=s.event["event_id"])],
    ),
    Family(
        "cancel-and-tell", "calendar",
        ("Cancel {person}'s event on {day} and mail them 'It is off' with the subject 'Cancelled'.",
         "Drop the {day} appointment of {person} and let them know: subject 'Cancelled', text 'It is off'.",
         "Call off what {person} has on {day}, then write 'It is off' to them under 'Cancelled'."),
        lambda s: [_events(s), call("cancel_event", event_id=s.event["event_id"]),
                   *_mail_colleague(s, "Cancelled", "It is off")],
    ),
    Family(
        "move-and-tell", "calendar",
        ("Move {person}'s event on {day} to {new_day} at {new_time} and mail them 'New time' with the subject 'Moved'.",
         "Reschedule the {day} appointment of {person} to {new_day}, {new_time}, and tell them: subject 'Moved', text 'New time'.",
         "Look at what {person} has on {day}, shift it to {new_day} {new_time}, then write 'New time' under 'Moved'."),
        lambda s: [_events(s), call("get_event", event_id=s.event["event_id"]),
                   call("move_event", event_id=s.event["event_id"], day=s.new_day, time=s.new_time),
                   *_mail_colleague(s, "Moved", "New time")],
    ),
    Family(
        "close-ticket", "tickets",
        ("Close {customer}'s open ticket: {fix}.",
         "The problem of {customer} is gone, {fix}; close the case with that.",
         "Resolve the support case of {customer} as '{fix}'."),
        lambda s: [_tickets(s), call("close_ticket", ticket_id=s.ticket["ticket_id"], resolution=s.fix)],
    ),
    Family(
        "assign-ticket", "tickets",
        ("Assign {customer}'s open ticket to {person}.",
         "{person} should take care of the support case of {customer}.",
         "Hand the problem of {customer} over to {person}."),
        lambda s: [_tickets(s), _colleague(s),
                   call("assign_ticket", ticket_id=s.ticket["ticket_id"], agent=s.person["email"])],
    ),
    Family(
        "comment-ticket", "tickets",
        ("Read {customer}'s open ticket and comment '{note}' on it.",
         "Add the remark '{note}' to the support case of {customer} after reading it.",
         "Have a look at {customer}'s problem and note there: '{note}'."),
        lambda s: [_tickets(s), call("get_ticket", ticket_id=s.ticket["ticket_id"]),
                   call("comment_ticket", ticket_id=s.ticket["ticket_id"], comment=s.note)],
    ),
    Family(
        "escalate", "tickets",
        ("Escalate {customer}'s open ticket to {person} with the comment '{note}'.",
         "Give the support case of {customer} to {person} and leave the remark '{note}'.",
         "{person} takes over {customer}'s problem; write '{note}' into the case as well."),
        lambda s: [_tickets(s), _colleague(s),
                   call("assign_ticket", ticket_id=s.ticket["ticket_id"], agent=s.person["email"]),
                   call("comment_ticket", ticket_id=s.ticket["ticket_id"], comment=s.note)],
    ),
    Family(
        "close-and-mail", "tickets",
        ("Close {customer}'s open ticket ({fix}) and mail them 'All done' with the subject 'Your case'.",
         "Resolve the support case of {customer} as '{fix}' and write to them: subject 'Your case', text 'All done'.",
         "{customer}'s problem is over, {fix}: close it, then mail 'All done' under 'Your case'."),
        lambda s: [_tickets(s), call("close_ticket", ticket_id=s.ticket["ticket_id"], resolution=s.fix),
                   *_mail_customer(s, "Your case", "All done")],
    ),
    Family(
        "reorder", "inventory",
        ("Check the stock of the {item} and order {quantity} more.",
         "We run low: see how many of the {item} are left and buy {quantity}.",
         "Get {quantity} of the {item} from the supplier after a look at the stock."),
        lambda s: [_item(s), call("get_stock", item_id=s.item["item_id"]),
                   call("order_stock", item_id=s.item["item_id"], quantity=s.quantity)],
    ),
    Family(
        "relocate", "inventory",
        ("Move the {item} to the {warehouse} warehouse.",
         "The {item} belongs into the {warehouse} store, bring it there.",
         "Relocate our stock of the {item} to {warehouse}."),
        lambda s: [_item(s), call("move_stock", item_id=s.item["item_id"], warehouse=s.warehouse)],
    ),
    Family(
        "reserve", "inventory",
        ("Reserve the {item} for {customer}.",
         "Put the {item} aside for {customer}.",
         "{customer} wants the {item}, keep one back for them."),
        lambda s: [_item(s), call("find_customer", name=s.customer["name"]),
                   call("reserve_item", item_id=s.item["item_id"], customer_id=s.customer["customer_id"])],
    ),
    Family(
        "reserve-and-mail", "inventory",
        ("Check the stock of the {item}, reserve it for {customer} and mail them 'It is yours' with the subject 'Reserved'.",
         "Is the {item} there? Keep it for {customer} and write to them: subject 'Reserved', text 'It is yours'.",
         "Put the {item} aside for {customer} after a look at the stock, then mail 'It is yours' under 'Reserved'."),
        lambda s: [_item(s), call("get_stock", item_id=s.item["item_id"]),
                   call("find_customer", name=s.customer["name"]),
                   call("reserve_item", item_id=s.item["item_id"], customer_id=s.customer["customer_id"]),
                   call("send_mail", to=s.customer["email"], subject="Reserved", body="It is yours")],
    ),
    Family(
        "reorder-and-plan", "inventory",
        ("Order {quantity} of the {item} after checking the stock, and book 'stocktaking' with {person} on {new_day} at {new_time}.",
         "See how many of the {item} are left, buy {quantity}, and plan 'stocktaking' with {person} for {new_day}, {new_time}.",
         "Get {quantity} more of the {item} (look at the stock first) and set up 'stocktaking' with {person}, {new_day} {new_time}."),
        lambda s: [_item(s), call("get_stock", item_id=s.item["item_id"]),
                   call("order_stock", item_id=s.item["item_id"], quantity=s.quantity), _colleague(s),
                   call("find_events", person=s.person["name"], day=s.new_day),
                   call("create_event", title="stocktaking", person=s.person["name"], day=s.new_day, time=s.new_time)],
    ),
)  # fmt: skip
"""Reads and writes, 2 to 6 calls each."""
