"""Calendar, project, customer and directory tools. See `Sandbox` for how they are bound."""

from __future__ import annotations

from typing import Any

from ace_suites.workbench import rules
from ace_suites.workbench.dates import naive, point_in_time
from ace_suites.workbench.tables import Row, Table, Text

LISTS = ("Backlog", "In Progress", "In Review", "Completed")
BOARDS = ("Back end", "Front end", "Design")
STATUSES = ("Qualified", "Won", "Lost", "Lead", "Proposal")
PRODUCTS = ("Software", "Hardware", "Services", "Consulting", "Training")
_ASSIGNEE = "Assignee email not valid. Please choose from the list of team members."
_LIST = "List not valid. Please choose from: 'Backlog', 'In Progress', 'In Review', 'Completed'."
_BOARD = "Board not valid. Please choose from: 'Back end', 'Front end', 'Design'."


class Calendar:
    """Events of the user."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def get_event_information_by_id(self, event_id: Text = None, field: Text = None) -> Any:
        """Look up one field of an event: event_id, event_name, participant_email, event_start or duration."""
        return rules.get_field(self.table, "event_id", event_id, field, "Event")

    def search_events(self, query: Text = "", time_min: Text = None, time_max: Text = None) -> Any:
        """Search events by name or participant; time_min and time_max bound the start. At most five are returned."""
        matches = rules.pattern_of(query)
        rows = [
            row
            for row in self.table.rows
            if isinstance(row["event_name"], str) and (matches(row["event_name"]) or matches(row["participant_email"]))
        ]
        for bound, after in ((time_min, True), (time_max, False)):
            if bound:
                # parsed row by row: with no row left, a bad bound goes unnoticed
                rows = [row for row in rows if self._within(row["event_start"], bound, after)]
        return rows[:5] or "No events found."

    @staticmethod
    def _within(cell: Any, bound: Any, after: bool) -> bool:
        start, limit = naive(point_in_time(cell)), naive(point_in_time(bound))
        if start is None or limit is None:
            return False
        return start >= limit if after else start <= limit

    def create_event(
        self, event_name: Text = None, participant_email: Text = None, event_start: Text = None, duration: Text = None
    ) -> str:
        """Create an event; event_start as YYYY-MM-DD HH:MM:SS, duration in minutes. Returns its id."""
        for value, noun in (
            (event_name, "name"),
            (participant_email, "Participant"),
            (event_start, "start"),
            (duration, "duration"),
        ):
            if not value:
                return "Participant email not provided." if noun == "Participant" else f"Event {noun} not provided."
        participant_email = participant_email.lower()
        event_id = rules.padded(rules.next_id(self.table, "event_id"))
        row: Row = {
            "event_id": event_id,
            "event_name": event_name,
            "participant_email": participant_email,
            "event_start": event_start,
            "duration": duration,
        }
        self.table.append(row, label=0)
        return event_id

    def delete_event(self, event_id: Text = None) -> str:
        """Delete an event by its id."""
        return rules.delete_row(self.table, "event_id", event_id, "Event")

    def update_event(self, event_id: Text = None, field: Text = None, new_value: Text = None) -> str:
        """Set one field of an event (event_name, participant_email, event_start, duration)."""
        if not event_id or not field or not new_value:
            return "Event ID, field, or new value not provided."
        if not rules.has_id(self.table, "event_id", event_id):
            return "Event not found."
        if field == "participant_email":
            new_value = new_value.lower()
        if not rules.known_column(self.table, field):
            new_value = self._add_column(field, new_value)
        self.table.update(lambda row: row["event_id"] == event_id, field, new_value)
        return "Event updated successfully."

    def _add_column(self, field: Any, new_value: Any) -> Any:
        """Add a column, as the field is not checked: an unknown one gets an odd filler in the other rows."""
        number = isinstance(new_value, (int, float)) and not isinstance(new_value, bool)
        filler = "nan"[: len(new_value)] if isinstance(new_value, str) else None
        self.table.add_column(field, filler)
        return float(new_value) if number else new_value


class Projects:
    """Tasks on the team's boards."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def get_task_information_by_id(self, task_id: Text = None, field: Text = None) -> Any:
        """Look up one field of a task: task_id, task_name, assigned_to_email, list_name, due_date or board."""
        return rules.get_field(self.table, "task_id", task_id, field, "Task")

    def search_tasks(
        self,
        task_name: Text = None,
        assigned_to_email: Text = None,
        list_name: Text = None,
        due_date: Text = None,
        board: Text = None,
    ) -> Any:
        """Search tasks by name, assignee, list, due date (YYYY-MM-DD) and board; all that are given must fit."""
        given = {
            "task_name": task_name,
            "assigned_to_email": assigned_to_email,
            "list_name": list_name,
            "due_date": due_date,
            "board": board,
        }
        if not any(given.values()):
            return "No search parameters provided."
        rows = list(self.table.rows)
        for column, value in given.items():
            if value:
                rows = rules.filter_pattern(rows, column, value)
        return rows

    def _assignee_refused(self, address: str) -> bool:
        return address not in {cell.lower() for cell in self.table.column("assigned_to_email") if isinstance(cell, str)}

    def create_task(
        self,
        task_name: Text = None,
        assigned_to_email: Text = None,
        list_name: Text = None,
        due_date: Text = None,
        board: Text = None,
    ) -> str:
        """Create a task on a board (Back end, Front end, Design) in a list (Backlog, In Progress, In Review, Completed)."""
        if not all([task_name, assigned_to_email, list_name, due_date, board]):
            return "Missing task details."
        assigned_to_email = assigned_to_email.lower()
        if self._assignee_refused(assigned_to_email):
            return _ASSIGNEE
        if list_name not in LISTS:
            return _LIST
        if board not in BOARDS:
            return _BOARD
        task_id = rules.padded(rules.next_id(self.table, "task_id"))
        row: Row = {
            "task_id": task_id,
            "task_name": task_name,
            "assigned_to_email": assigned_to_email,
            "list_name": list_name,
            "due_date": due_date,
            "board": board,
        }
        self.table.append(row, label=0)
        self.table.relabel()
        return task_id

    def delete_task(self, task_id: Text = None) -> str:
        """Delete a task by its id."""
        return rules.delete_row(self.table, "task_id", task_id, "Task")

    def update_task(self, task_id: Text = None, field: Text = None, new_value: Text = None) -> str:
        """Set one field of a task (task_name, assigned_to_email, list_name, due_date, board)."""
        if not task_id or not field or not new_value:
            return "Task ID, field, or new value not provided."
        # checks on the value come before the look-up
        if field == "assigned_to_email":
            new_value = new_value.lower()
        if field == "board" and new_value not in BOARDS:
            return _BOARD
        if field == "list_name" and new_value not in LISTS:
            return _LIST
        if field == "assigned_to_email" and self._assignee_refused(new_value):
            return _ASSIGNEE
        if not rules.has_id(self.table, "task_id", task_id):
            return "Task not found."
        if not rules.known_column(self.table, field):
            return "Field not valid."
        self.table.update(lambda row: row["task_id"] == task_id, field, new_value)
        return "Task updated successfully."


class Customers:
    """The customer register."""

    PATTERNS = ("customer_name", "customer_email", "product_interest", "status", "assigned_to_email")

    def __init__(self, table: Table) -> None:
        self.table = table

    def search_customers(
        self,
        customer_name: Text = None,
        customer_email: Text = None,
        product_interest: Text = None,
        status: Text = None,
        assigned_to_email: Text = None,
        last_contact_date_min: Text = None,
        last_contact_date_max: Text = None,
        follow_up_by_min: Text = None,
        follow_up_by_max: Text = None,
    ) -> Any:
        """Search customers by name, address, product, status, assignee and date bounds. At most five are returned."""
        patterns = (customer_name, customer_email, product_interest, status, assigned_to_email)
        bounds = (last_contact_date_min, last_contact_date_max, follow_up_by_min, follow_up_by_max)
        if not any(patterns) and not any(bounds):
            return "No search parameters provided. Please provide at least one parameter."
        rows = list(self.table.rows)
        for column, value in zip(self.PATTERNS, patterns, strict=True):
            if value:
                rows = rules.filter_pattern(rows, column, value)
        rows = rules.filter_text_order(rows, "last_contact_date", last_contact_date_min, last_contact_date_max)
        rows = rules.filter_text_order(rows, "follow_up_by", follow_up_by_min, follow_up_by_max)
        return rows[:5]

    def update_customer(self, customer_id: Text = None, field: Text = None, new_value: Text = None) -> str:
        """Set one field of a customer (customer_name, assigned_to_email, customer_email, customer_phone,
        last_contact_date, product_interest, status, notes, follow_up_by)."""
        if not customer_id or not field or not new_value:
            return "Customer ID, field, or new value not provided."
        if field == "status" and new_value not in STATUSES:
            return "Status not valid. Please choose from: 'Qualified', 'Won', 'Lost', 'Lead', 'Proposal'"
        if field == "product_interest" and new_value not in PRODUCTS:
            return (
                "Product interest not valid. Please choose from: 'Software', 'Hardware', 'Services', 'Consulting', "
                "'Training'"
            )
        if field in ("customer_email", "assigned_to_email"):
            new_value = new_value.lower()
        if not rules.has_id(self.table, "customer_id", customer_id):
            return "Customer not found."
        if not rules.known_column(self.table, field):
            return (
                "Field not valid. Please choose from: 'customer_name', 'assigned_to_email', 'customer_email', "
                "'customer_phone', 'last_contact_date', 'product_interest', 'status', 'notes', 'follow_up_by'"
            )
        self.table.update(lambda row: row["customer_id"] == customer_id, field, new_value)
        return "Customer updated successfully."

    def add_customer(
        self,
        customer_name: Text = None,
        assigned_to_email: Text = None,
        status: Text = None,
        customer_email: Text = None,
        customer_phone: Text = None,
        last_contact_date: Text = None,
        product_interest: Text = None,
        notes: Text = "",
        follow_up_by: Text = None,
    ) -> str:
        """Add a customer; customer_name, assigned_to_email and status are needed. Returns the new id."""
        if not all([customer_name, assigned_to_email, status]):
            return "Please provide all required fields: customer_name, assigned_to_email, status."
        assigned_to_email = assigned_to_email.lower()
        if customer_email:
            customer_email = customer_email.lower()
        customer_id = rules.padded(rules.next_id(self.table, "customer_id"))
        row: Row = {
            "customer_id": customer_id,
            "assigned_to_email": assigned_to_email,
            "customer_name": customer_name,
            "customer_email": customer_email,
            "customer_phone": customer_phone,
            "last_contact_date": last_contact_date,
            "product_interest": product_interest,
            "status": status,
            "follow_up_by": follow_up_by,
            "notes": notes,
        }
        self.table.append(row, label=0)
        self.table.relabel()
        return customer_id

    def delete_customer(self, customer_id: Text = None) -> str:
        """Delete a customer by id."""
        return rules.delete_row(self.table, "customer_id", customer_id, "Customer")


class Directory:
    """The company's mail addresses; the user is not among them."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self.addresses = addresses

    def find_email_address(self, name: Text = "") -> Any:
        """Find the mail addresses of colleagues whose address holds the name."""
        if name == "":
            return "Name not provided."
        # lower-cased before it becomes a pattern, so an escape such as \D turns into \d
        pattern = name.lower()
        matches = rules.case_sensitive(pattern)
        return [address for address in self.addresses if matches(address)]
