"""One fresh copy of the benchmark's world, and its 27 tools bound to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ace.core import SuiteError
from ace.tools import Tool
from ace_suites.workbench.office_tools import Calendar, Customers, Directory, Projects
from ace_suites.workbench.tables import Table, plain_value, read_table
from ace_suites.workbench.traffic_tools import Analytics, Mail

SCORED = ("calendar", "email", "analytics_plots", "project_tasks", "crm")
"""The tables that scoring looks at."""

# toolkits in listing order; in each, writing tools first
TOOLKITS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "email": (
        ("send_email", "delete_email", "forward_email", "reply_email"),
        ("get_email_information_by_id", "search_emails"),
    ),
    "calendar": (("create_event", "delete_event", "update_event"), ("get_event_information_by_id", "search_events")),
    "analytics": (
        ("create_plot",),
        (
            "engaged_users_count",
            "get_visitor_information_by_id",
            "traffic_source_count",
            "total_visits_count",
            "get_average_session_duration",
        ),
    ),
    "project_management": (
        ("create_task", "delete_task", "update_task"),
        ("get_task_information_by_id", "search_tasks"),
    ),
    "customer_relationship_manager": (
        ("update_customer", "add_customer", "delete_customer"),
        ("search_customers",),
    ),
    "company_directory": ((), ("find_email_address",)),
}
WRITING = frozenset(f"{kit}.{name}" for kit, (writing, _) in TOOLKITS.items() for name in writing)


@dataclass(frozen=True)
class World:
    """The tables as they are on disk."""

    calendar: Table
    email: Table
    visits: Table
    project_tasks: Table
    crm: Table
    directory: tuple[str, ...]

    @classmethod
    def read(cls, folder: Path) -> World:
        """Read the database files.

        Raises:
            SuiteError: A file is missing.
        """
        try:
            visits = read_table(folder / "analytics_data.csv")
            visits.rows = [{**row, "user_engaged": row["user_engaged"] == "True"} for row in visits.rows]
            world = cls(
                calendar=read_table(folder / "calendar_events.csv"),
                email=read_table(folder / "emails.csv"),
                visits=visits,
                project_tasks=read_table(folder / "project_tasks.csv"),
                crm=read_table(folder / "customer_relationship_manager_data.csv"),
                directory=tuple((folder / "email_addresses.csv").read_text(encoding="utf-8").split()),
            )
            for table in (world.calendar, world.email, world.project_tasks, world.crm):
                table.sha256()  # every copy starts with the hash
            return world
        except (OSError, KeyError) as error:
            raise SuiteError(
                f"{str(folder)!r} is no WorkBench folder ({error}); expected its CSV databases and "
                "`queries_and_answers/` there"
            ) from error


class Sandbox:
    """A fresh world; tools change it, nothing else does."""

    def __init__(self, world: World) -> None:
        plots = Table(["file_path"], [])
        self.tables = {
            "calendar": world.calendar.copy(),
            "email": world.email.copy(),
            "analytics_plots": plots,
            "project_tasks": world.project_tasks.copy(),
            "crm": world.crm.copy(),
        }
        homes: dict[str, Any] = {
            "email": Mail(self.tables["email"]),
            "calendar": Calendar(self.tables["calendar"]),
            "analytics": Analytics(world.visits.copy(), plots),
            "project_management": Projects(self.tables["project_tasks"]),
            "customer_relationship_manager": Customers(self.tables["crm"]),
            "company_directory": Directory(world.directory),
        }
        self.functions: dict[str, Callable[..., Any]] = {
            f"{kit}.{name}": getattr(homes[kit], name)
            for kit, (writing, reading) in TOOLKITS.items()
            for name in (*writing, *reading)
        }

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Run one call as the benchmark's scoring does, without any validation.

        Returns:
            The result as JSON values, or ``{"error_type", "message"}`` for what it raised.
        """
        if name not in self.functions:
            return {"error_type": "UnknownTool", "message": name}
        try:
            return plain_value(self.functions[name](**args))
        except Exception as error:  # the class of what a tool raises is part of the benchmark
            kind = "error" if isinstance(error, re.error) else type(error).__name__
            return {"error_type": kind, "message": str(error)}

    def same_state(self, other: Sandbox) -> bool:
        """Check whether the five scored tables are equal."""
        return all(self.tables[name].equals(other.tables[name]) for name in SCORED)

    def state_sha256(self) -> dict[str, str]:
        """Hash of each scored table."""
        return {name: self.tables[name].sha256() for name in SCORED}

    def labels_sha256(self) -> dict[str, str]:
        """Hash of each scored table's labels."""
        return {name: self.tables[name].labels_sha256() for name in SCORED}

    def tools(self, kits: tuple[str, ...]) -> tuple[Tool, ...]:
        """Return the tools of some toolkits, bound to this sandbox."""
        return tuple(tool.bind(self.functions[tool.name]) for tool in _templates() if tool.category in kits)


@lru_cache(maxsize=1)
def _templates() -> tuple[Tool, ...]:
    """Build the 27 tools in listing order; schemas are built once and shared by every sandbox."""
    empty = World(*(Table([], []) for _ in range(5)), directory=())
    functions = Sandbox(empty).functions
    return tuple(
        Tool.from_function(functions[name], name=name, category=kit, read_only=name not in WRITING)
        for kit, (writing, reading) in TOOLKITS.items()
        for name in (f"{kit}.{short}" for short in (*writing, *reading))
    )
