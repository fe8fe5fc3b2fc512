"""Which lessons somebody may look at, and which they may change: those of their tenant, and to look at everybody's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ace.playbook import Playbook, PlaybookBullet
from ace.serve.people import Person


class Access:
    """A playbook as one person sees it: `Access(book).may_see(bullet, Person("ana", tenant="shop"))`.

    Args:
        book: The playbook.
        tools: Name to schema hash of the tools as they are; by default as the newest lessons have known them.
    """

    def __init__(self, book: Playbook, tools: Mapping[str, str] | None = None) -> None:
        self._book = book
        self._tools = tools
        self.tools_given = tools is not None

    def may_see(self, bullet: PlaybookBullet, person: Person) -> bool:
        """Check whether somebody may look at a lesson."""
        return bullet.tenant in (None, person.tenant)

    def seen(self, person: Person) -> Iterable[PlaybookBullet]:
        """Return the lessons that somebody may look at."""
        return (bullet for bullet in self._book.bullets if self.may_see(bullet, person))

    def own(self, person: Person) -> Iterable[PlaybookBullet]:
        """Return the lessons that somebody may change, and bring in elsewhere."""
        return (bullet for bullet in self._book.bullets if bullet.tenant == person.tenant)

    def imported(self, revision: int, person: Person) -> list[PlaybookBullet]:
        """Return those of somebody's own lessons that came in by an import at a revision, and are still there."""
        entries = self._book.history.entries(after=revision - 1, until=revision)
        came = {e["bullet"]["id"] for e in entries if e["kind"] == "add" and e["reason"].startswith("imported")}
        return [bullet for bullet in self._book.find(came).values() if bullet.tenant == person.tenant]

    def may_read(self, owners: list[tuple[int, str | None]], revision: int, person: Person) -> bool:
        """Check whether somebody may read an entry of the journal: it counts whose the bullet was then, and has been
        since."""
        whose = [tenant for since, tenant in owners if since <= revision][-1:] + [t for s, t in owners if s > revision]
        return bool(owners) and all(tenant in (None, person.tenant) for tenant in whose)

    def tools(self, person: Person) -> dict[str, str]:
        """Name to schema hash of the tools as they are, or as the newest lessons know them, the tenant's own first."""
        if self._tools is not None:
            return dict(self._tools)
        known: dict[str, tuple[bool, int, str]] = {}
        for bullet in self.seen(person):
            for name, digest in bullet.tool_schema_hashes.items():
                rank = (bullet.tenant == person.tenant, bullet.created_revision, digest)
                known[name] = max(known.get(name, (False, -1, "")), rank)
        return {name: digest for name, (_, _, digest) in known.items()}


def changed_tools(bullet: PlaybookBullet, tools: Mapping[str, str]) -> list[str]:
    """Name the tools that are not any more as a lesson has known them: `changed_tools(bullet, access.tools(person))`."""
    hashes = bullet.tool_schema_hashes
    return sorted(name for name in hashes if name in tools and tools[name] != hashes[name])
