"""Mail and web-analytics tools. See `Sandbox` for how they are bound."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar, cast

from ace_suites.workbench import rules
from ace_suites.workbench.dates import calendar_date
from ace_suites.workbench.tables import Row, Table, Text

NOW = datetime(2023, 11, 30)
"""The benchmark's clock never moves."""
PLOT_VALUES = (
    "total_visits", "session_duration_seconds", "user_engaged", "visits_direct", "visits_referral",
    "visits_search_engine", "visits_social_media",
)  # fmt: skip
N = TypeVar("N", int, float)
PLOT_TYPES = ("bar", "line", "scatter", "histogram")


class Mail:
    """The user's mailbox."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def get_email_information_by_id(self, email_id: Text = None, field: Text = None) -> Any:
        """Look up one field of a mail: email_id, sender/recipient, subject, sent_datetime, body, inbox/outbox."""
        return rules.get_field(self.table, "email_id", email_id, field, "Email")

    def search_emails(self, query: Text = "", date_min: Text = None, date_max: Text = None) -> Any:
        """Search mails that hold every word of the query, newest first; dates bound the day. At most five are returned."""
        words = query.lower().split()
        rows = [row for row in self.table.rows if all(word in self._searched(row) for word in words)]
        # stored mails hold text, sent ones a date-time: both kinds together cannot be sorted, and that raises
        rows.sort(key=lambda row: row["sent_datetime"], reverse=True)
        if date_min:
            rows = [row for row in rows if calendar_date(row["sent_datetime"]) >= calendar_date(date_min)]
        if date_max:
            rows = [row for row in rows if calendar_date(row["sent_datetime"]) <= calendar_date(date_max)]
        return rows[:5] or "No emails found."

    @staticmethod
    def _searched(row: Row) -> str:
        return f"{row['subject']} {row['body']} {row['sender/recipient']}".lower()

    def _place(self, recipient: str, subject: Any, body: Any) -> None:
        row: Row = {
            "email_id": str(rules.next_id(self.table, "email_id")),
            "inbox/outbox": "outbox",
            "sender/recipient": recipient,
            "subject": subject,
            "sent_datetime": NOW,
            "body": body,
        }
        label = len(self.table.rows)
        if label in self.table.labels:  # possible after deletes: the old mail is lost
            self.table.replace(self.table.labels.index(label), row)
        else:
            self.table.append(row, label)

    def send_email(self, recipient: Text = None, subject: Text = None, body: Text = None) -> str:
        """Send a mail."""
        if not recipient or not subject or not body:
            return "Recipient, subject, or body not provided."
        if "@" not in recipient or "." not in recipient:
            return "Invalid recipient email address."
        self._place(recipient.lower(), subject, body)
        return "Email sent successfully."

    def delete_email(self, email_id: Text = None) -> str:
        """Delete a mail by its id."""
        return rules.delete_row(self.table, "email_id", email_id, "Email")

    def forward_email(self, email_id: Text = None, recipient: Text = None) -> str:
        """Forward a mail to an address."""
        if not email_id or not recipient:
            return "Email ID or recipient not provided."
        if not rules.has_id(self.table, "email_id", email_id):
            return "Email not found."
        if "@" not in recipient or "." not in recipient:
            return "Invalid recipient email address."
        mail = self._mail(email_id)
        answer = self.send_email(recipient.lower(), f"FW: {mail['subject']}", mail["body"])
        return "Email forwarded successfully." if answer == "Email sent successfully." else answer

    def reply_email(self, email_id: Text = None, body: Text = None) -> str:
        """Reply to the sender of a mail."""
        if not email_id or not body:
            return "Email ID or body not provided."
        if not rules.has_id(self.table, "email_id", email_id):
            return "Email not found."
        mail = self._mail(email_id)
        answer = self.send_email(mail["sender/recipient"], mail["subject"], body)
        return "Email replied successfully." if answer == "Email sent successfully." else answer

    def _mail(self, email_id: Any) -> Row:
        row = rules.find(self.table, "email_id", email_id)
        assert row is not None  # has_id was asked before
        return row


class Analytics:
    """Visits to the company's web site, and the plots made of them."""

    def __init__(self, visits: Table, plots: Table) -> None:
        self.visits = visits
        self.plots = plots

    def get_visitor_information_by_id(self, visitor_id: Text = None) -> Any:
        """Look up the visits of one visitor."""
        if not visitor_id:
            return "Visitor ID not provided."
        if rules.find(self.visits, "visitor_id", visitor_id) is None:
            return "Visitor not found."
        rows = [row for row in self.visits.rows if row["visitor_id"] == visitor_id]
        return rows or "Visitor not found."

    def _kept(self, time_min: Any, time_max: Any) -> list[Row]:
        return rules.filter_text_order(self.visits.rows, "date_of_visit", time_min, time_max)

    def total_visits_count(self, time_min: Text = None, time_max: Text = None) -> dict[str, int]:
        """Count visits per day between two dates (YYYY-MM-DD)."""
        return _per_date((row, 1) for row in self._kept(time_min, time_max))

    def engaged_users_count(self, time_min: Text = None, time_max: Text = None) -> dict[str, int]:
        """Count engaged visits per day between two dates."""
        return _per_date((row, int(row["user_engaged"])) for row in self._kept(time_min, time_max))

    def traffic_source_count(
        self, time_min: Text = None, time_max: Text = None, traffic_source: Text = None
    ) -> dict[str, int]:
        """Count visits per day from one source: direct, referral, search engine or social media."""
        kept = self._kept(time_min, time_max)
        if isinstance(traffic_source, list):
            rules.check_length(cast(list[Any], traffic_source), kept)
        return _per_date((row, int(not traffic_source or row["traffic_source"] == traffic_source)) for row in kept)

    def get_average_session_duration(self, time_min: Text = None, time_max: Text = None) -> dict[str, float]:
        """Average session duration in seconds per day between two dates."""
        column = "session_duration_seconds"
        if not time_min and not time_max:  # a hidden write: the column of the table itself turns into numbers
            self.visits.rows = [{**row, column: float(row[column])} for row in self.visits.rows]
        kept = self._kept(time_min, time_max)
        sums = _per_date((row, float(row[column])) for row in kept)
        counts = _per_date((row, 1) for row in kept)
        return {day: total / counts[day] for day, total in sums.items()}

    def create_plot(
        self, time_min: Text = None, time_max: Text = None, value_to_plot: Text = None, plot_type: Text = None
    ) -> str:
        """Plot a value between two dates. value_to_plot: total_visits, session_duration_seconds, user_engaged,
        visits_direct, visits_referral, visits_search_engine or visits_social_media; plot_type: bar, line, scatter or
        histogram."""
        if not time_min:
            return "Start date not provided."
        if not time_max:
            return "End date not provided."
        if value_to_plot not in PLOT_VALUES:
            return (
                "Value to plot must be one of 'total_visits', 'session_duration_seconds', 'user_engaged', 'direct', "
                "'referral', 'search engine', 'social media'"
            )
        if plot_type not in PLOT_TYPES:
            return "Plot type must be one of 'bar', 'line', 'scatter', or 'histogram'"
        path = f"plots/{time_min}_{time_max}_{value_to_plot}_{plot_type}.png"
        self.plots.append({"file_path": path}, label=len(self.plots.rows))
        return path


def _per_date(cells: Iterable[tuple[Row, N]]) -> dict[str, N]:
    """Sum per date of visit, dates ascending, only for dates that occur."""
    sums: dict[str, N] = {}
    for row, amount in cells:
        day = row["date_of_visit"]
        sums[day] = sums[day] + amount if day in sums else amount
    return dict(sorted(sums.items()))
