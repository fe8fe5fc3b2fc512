"""The 28 tools of the office, as methods over one world. Reads come first in each domain."""

from __future__ import annotations

from typing import Any, cast

from typing_extensions import TypedDict

from ace.core import ToolError
from ace.suites.office.world import OfficeWorld, Row

DOMAIN_TOOLS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "orders": (("find_orders", "get_order"), ("refund_order", "cancel_order", "update_shipping")),
    "mail": (("search_mail", "read_mail"), ("send_mail", "forward_mail", "label_mail", "archive_mail")),
    "calendar": (("find_events", "get_event"), ("create_event", "move_event", "cancel_event")),
    "tickets": (("find_tickets", "get_ticket"), ("assign_ticket", "comment_ticket", "close_ticket")),
    "inventory": (("find_item", "get_stock"), ("order_stock", "move_stock", "reserve_item")),
    "people": (("find_person", "find_customer"), ()),
}
WRITING = frozenset(name for _, writing in DOMAIN_TOOLS.values() for name in writing)


class Contact(TypedDict):
    """How somebody can be reached."""

    name: str
    email: str


class OfficeTools:
    """Tools bound to one world, `OfficeTools(build_world())`; an id that does not exist is refused."""

    def __init__(self, world: OfficeWorld) -> None:
        self.world = world

    def _row(self, table: str, row_id: str) -> Row:
        row = self.world.tables[table].get(row_id)
        if row is None:
            raise ToolError("refused", f"There is no {table[:-1]} with the id {row_id!r}.")
        return row

    def _find(self, table: str, **wanted: str) -> list[Row]:
        return [
            dict(row)
            for row in self.world.tables[table].values()
            if all(not value or value.lower() in str(row[name]).lower() for name, value in wanted.items())
        ][:10]

    # orders

    def find_orders(self, customer: str, status: str = "") -> list[Row]:
        """Find a customer's orders; status is open, shipped, delivered, cancelled or refunded."""
        return self._find("orders", customer=customer, status=status)

    def get_order(self, order_id: str) -> Row:
        """Show one order with its total and where it ships to."""
        return dict(self._row("orders", order_id))

    def refund_order(self, order_id: str, reason: str) -> str:
        """Refund a delivered order and note the reason."""
        row = self._row("orders", order_id)
        if row["status"] != "delivered":
            raise ToolError("refused", f"Order {order_id} is {row['status']}; only delivered orders can be refunded.")
        row.update(status="refunded", reason=reason)
        return f"Order {order_id} refunded."

    def cancel_order(self, order_id: str) -> str:
        """Cancel an open order."""
        row = self._row("orders", order_id)
        if row["status"] != "open":
            raise ToolError("refused", f"Order {order_id} is {row['status']}; only open orders can be cancelled.")
        row["status"] = "cancelled"
        return f"Order {order_id} cancelled."

    def update_shipping(self, order_id: str, ship_to: str) -> str:
        """Change where an open order ships to."""
        row = self._row("orders", order_id)
        if row["status"] != "open":
            raise ToolError("refused", f"Order {order_id} is {row['status']}; only open orders can change.")
        row["ship_to"] = ship_to
        return f"Order {order_id} ships to {ship_to}."

    # mail

    def search_mail(self, sender: str = "", subject: str = "") -> list[Row]:
        """Find mails by sender and subject."""
        return self._find("mails", sender=sender, subject=subject)

    def read_mail(self, mail_id: str) -> Row:
        """Show one mail in full."""
        return dict(self._row("mails", mail_id))

    def send_mail(self, to: str, subject: str, body: str) -> str:
        """Send a mail to an address."""
        if "@" not in to:
            raise ToolError("refused", f"{to!r} is no mail address; look it up first.")
        return self._new_mail(to, subject, body)

    def _new_mail(self, to: str, subject: str, body: str) -> str:
        mail_id = self.world.new_id("m")
        self.world.tables["mails"][mail_id] = {
            "mail_id": mail_id,
            "sender": "me",
            "recipient": to,
            "subject": subject,
            "body": body,
            "label": "",
            "archived": False,
        }
        return f"Sent as {mail_id}."

    def forward_mail(self, mail_id: str, to: str) -> str:
        """Forward a mail to an address."""
        row = self._row("mails", mail_id)
        if "@" not in to:
            raise ToolError("refused", f"{to!r} is no mail address; look it up first.")
        return self._new_mail(to, f"Fwd: {row['subject']}", row["body"])

    def label_mail(self, mail_id: str, label: str) -> str:
        """Put a label on a mail."""
        self._row("mails", mail_id)["label"] = label
        return f"Mail {mail_id} labelled {label}."

    def archive_mail(self, mail_id: str) -> str:
        """Move a mail to the archive."""
        self._row("mails", mail_id)["archived"] = True
        return f"Mail {mail_id} archived."

    # calendar

    def find_events(self, person: str, day: str = "") -> list[Row]:
        """Find a colleague's events, on one day (YYYY-MM-DD) or all."""
        return self._find("events", person=person, day=day)

    def get_event(self, event_id: str) -> Row:
        """Show one event."""
        return dict(self._row("events", event_id))

    def create_event(self, title: str, person: str, day: str, time: str) -> str:
        """Put an event with a colleague into the calendar; day as YYYY-MM-DD, time as HH:MM."""
        event_id = self.world.new_id("e")
        row = {"event_id": event_id, "title": title, "person": person, "day": day, "time": time}
        self.world.tables["events"][event_id] = row
        return f"Event {event_id} created."

    def move_event(self, event_id: str, day: str, time: str) -> str:
        """Move an event to another day and time."""
        self._row("events", event_id).update(day=day, time=time)
        return f"Event {event_id} moved to {day} {time}."

    def cancel_event(self, event_id: str) -> str:
        """Take an event out of the calendar."""
        self._row("events", event_id)
        del self.world.tables["events"][event_id]
        return f"Event {event_id} cancelled."

    # tickets

    def find_tickets(self, customer: str, status: str = "") -> list[Row]:
        """Find a customer's support tickets; status is open or closed."""
        return self._find("tickets", customer=customer, status=status)

    def get_ticket(self, ticket_id: str) -> Row:
        """Show one ticket with its comments."""
        return dict(self._row("tickets", ticket_id))

    def assign_ticket(self, ticket_id: str, agent: str) -> str:
        """Hand a ticket to a colleague, by mail address."""
        if "@" not in agent:
            raise ToolError("refused", f"{agent!r} is no mail address; look the colleague up first.")
        self._row("tickets", ticket_id)["agent"] = agent
        return f"Ticket {ticket_id} assigned to {agent}."

    def comment_ticket(self, ticket_id: str, comment: str) -> str:
        """Add a comment to a ticket."""
        row = self._row("tickets", ticket_id)
        row["comments"] = [*row["comments"], comment]
        return f"Comment added to {ticket_id}."

    def close_ticket(self, ticket_id: str, resolution: str) -> str:
        """Close a ticket with a resolution."""
        self._row("tickets", ticket_id).update(status="closed", resolution=resolution)
        return f"Ticket {ticket_id} closed."

    # inventory

    def find_item(self, name: str) -> list[Row]:
        """Find items in stock by name."""
        return self._find("items", name=name)

    def get_stock(self, item_id: str) -> Row:
        """Show how many of an item there are, and where."""
        return dict(self._row("items", item_id))

    def order_stock(self, item_id: str, quantity: int) -> str:
        """Order more of an item from the supplier."""
        if quantity < 1:
            raise ToolError("refused", "The quantity must be at least 1.")
        self._row("items", item_id)["on_order"] += quantity
        return f"{quantity} of {item_id} ordered."

    def move_stock(self, item_id: str, warehouse: str) -> str:
        """Move an item to another warehouse: north, south or harbour."""
        self._row("items", item_id)["warehouse"] = warehouse
        return f"{item_id} moved to {warehouse}."

    def reserve_item(self, item_id: str, customer_id: str) -> str:
        """Reserve an item for a customer, by customer id."""
        self._row("items", item_id)
        self._row("customers", customer_id)
        self.world.tables["reservations"][f"{item_id}/{customer_id}"] = {"item": item_id, "customer": customer_id}
        return f"{item_id} reserved for {customer_id}."

    # people

    def find_person(self, name: str) -> list[Contact]:
        """Find a colleague's mail address."""
        return cast("list[Contact]", self._find("people", name=name))

    def find_customer(self, name: str) -> list[Contact]:
        """Find a customer's id and mail address."""
        return cast("list[Contact]", self._find("customers", name=name))

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Run one call by name; refusals come back as ``{"error_type", "message"}``."""
        if not any(name in (*reading, *writing) for reading, writing in DOMAIN_TOOLS.values()):
            return {"error_type": "UnknownTool", "message": name}
        try:
            return getattr(self, name)(**args)
        except (ToolError, TypeError) as error:
            return {"error_type": type(error).__name__, "message": str(error)}
