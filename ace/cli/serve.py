"""`ace serve`: one playbook for agents of any framework."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ace.cli._shared import JsonOption, check_writable, write_json

EXAMPLES = "Example, as a client's configuration has it: ace serve team.db --mcp --author ana"


def serve(
    path: Annotated[str, typer.Argument(help="A playbook: a file, or postgresql://...; made when it is not there.")],
    mcp: Annotated[bool, typer.Option("--mcp", help="Speak MCP over standard input and output.")] = False,
    author: Annotated[str, typer.Option(help="The name in the journal of what comes in here.")] = "mcp",
    tenant: Annotated[str | None, typer.Option(help="Whose lessons are read and written, beside everybody's.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Nothing may be written.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Offer a playbook to any agent with an MCP client: recall, remember, feedback, lessons, explain."""
    from ace.core import PlaybookError
    from ace.playbook import Playbook

    check_writable(json_file)
    if not mcp:
        raise typer.BadParameter("say how: --mcp speaks MCP over standard input and output")
    try:
        from ace.serve import SharedMemory, mcp_server
    except ModuleNotFoundError as error:
        raise PlaybookError(f"serving needs the package {error.name!r}: pip install 'dspy-ace[serve]'") from error
    if read_only and "://" not in path and not Path(path).exists():
        raise PlaybookError(f"there is no playbook {path!r}, and --read-only makes none")
    with Playbook.open(path) as book:
        book.warm()
        mcp_server(SharedMemory(book, author=author, tenant=tenant, read_only=read_only)).run("stdio")
        write_json({"lessons": len(book), "revision": book.revision}, json_file)
