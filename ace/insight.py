"""`Insight`: a lesson between the reflector that found it and the curator that compares it with the playbook."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from ace.playbook.bullet import PlaybookBullet, Provenance, Section


class Insight(BaseModel):
    """A lesson that has not yet been compared with the playbook."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    section: Section
    trigger: str
    content: str
    domain: str | None = None
    tenant: str | None = None
    tool_sequence: tuple[str, ...] = ()
    changing_tools: tuple[str, ...] = ()
    tool_success_rate: float | None = None
    iterations: int = 0
    provenance: Provenance = Provenance()

    def as_bullet(self, schema_hashes: dict[str, str]) -> PlaybookBullet:
        """The bullet that this lesson would become."""
        used = {name: schema_hashes[name] for name in self.tool_sequence if name in schema_hashes}
        return PlaybookBullet(
            section=self.section,
            trigger=self.trigger,
            content=self.content,
            domain=self.domain,
            tenant=self.tenant,
            tool_sequence=self.tool_sequence,
            changing_tools=self.changing_tools,
            tool_success_rate=self.tool_success_rate,
            avg_iterations=float(self.iterations),
            tool_schema_hashes=used,
            provenance=self.provenance,
        )
