"""`ace serve`: one playbook for people, in a browser, and for agents of any framework."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ace.cli._shared import JsonOption, ToolsOption, check_reachable, check_writable, console, examples, write_json
from ace.cli.playbook import named
from ace.core import PlaybookError

EXAMPLES = examples(
    "ace serve team.db",
    "ace serve team.db --token-file t.toml --host 0.0.0.0 --name memory.lan",
    "ace serve team.db --mcp --author ana",
    "ace serve team.db --check",
)


WILDCARDS = ("0.0.0.0", "::")
"""Addresses that are all of a machine's."""


def _check_log(param: typer.CallbackParam, path: Path | None) -> Path | None:
    return path if str(path) == "-" else check_writable(param, path)


def serve(
    path: Annotated[str, typer.Argument(help="A playbook: a file, or postgresql://...; made when it is not there.")],
    mcp: Annotated[bool, typer.Option("--mcp", help="Speak MCP over standard input and output instead.")] = False,
    host: Annotated[
        str, typer.Option(help="The address to listen at; all but this machine's own need --token-file.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8137,
    name: Annotated[list[str] | None, typer.Option(help="A name under which others reach it; repeat for more.")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="One line with a token; or TOML, a table for each name: token, tenant, read_only."),
    ] = None,
    author: Annotated[
        str, typer.Option(envvar="ACE_AUTHOR", help="The name in the journal; by default mcp, or your user name.")
    ] = "",
    tenant: Annotated[str | None, typer.Option(help="Whose lessons are read and written, beside everybody's.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Nothing may be written.")] = False,
    https: Annotated[bool, typer.Option("--https", help="Browsers come through a proxy that speaks https.")] = False,
    runs: Annotated[Path | None, typer.Option(help="A folder of runs that agents have kept, to look at.")] = None,
    reports: Annotated[Path | None, typer.Option(help="A folder of evaluations, to look at.")] = None,
    tools: ToolsOption = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    log: Annotated[
        Path | None,
        typer.Option(
            callback=_check_log, help="Write one JSON line for each request to this file; - for standard error."
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only find out whether it could serve, and end.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Show a playbook in a browser, and offer it to agents with an MCP client under /mcp of the same address.

    People search, review, edit, undo, import and export; agents recall, remember, give feedback and ask why. Both
    need a token, which is printed once; `/healthz`, `/readyz` and `/metrics` need none. Ctrl-C ends it, and nothing is lost.
    """
    from ace.playbook import Playbook

    check_reachable([], None, path, made=not (read_only or check))
    try:
        from ace.serve import People, Person, SharedMemory, WebServer, mcp_server, web_app
    except ModuleNotFoundError as error:
        raise PlaybookError(f"serving needs the package {error.name!r}: pip install 'dspy-ace[serve]'") from error
    person = Person(author or ("mcp" if mcp else named("")), tenant, read_only)
    people, token = (People.from_file(token_file, person), "") if token_file is not None else People.alone(person)
    _check_folders(runs, reports)
    if token_file is None and not mcp and not is_loopback(host):
        raise PlaybookError(f"{host} can be reached by others: name a --token-file, whose tokens say who they are")
    if host in WILDCARDS and not name and not mcp:
        raise PlaybookError(f"{host} is no name: say with --name under which name others reach it")
    with Playbook.open(path) as book:
        if mcp:
            book.warm()
            mcp_server(SharedMemory(book, author=person.name, tenant=tenant, read_only=read_only)).run("stdio")
        else:
            hashes = _hashes(tools)
            names = _hosts(host, name or [])
            app = web_app(book, people, hosts=names, secure=https, apart=True, runs=runs, reports=reports, tools=hashes)
            server = WebServer(app, host, port)
            if check:
                server.close()
                console.print(f"{path} opens, {server.url} is free: it could serve", soft_wrap=True)
                return
            if log is not None:
                _log_requests(log)
            url = f"http{'s' if https else ''}://{name[0]}" if name else server.url
            if name and not https:
                url += f":{server.url.rpartition(':')[2]}"
            _welcome(path, url, token, token_file)
            if browser:
                import webbrowser

                webbrowser.open(f"{url}/login?ticket={people.ticket(person)}" if token else f"{url}/login")
            server.run()
        write_json({"lessons": len(book), "revision": book.revision}, json_file)


def is_loopback(host: str) -> bool:
    """Check whether only this machine reaches an address."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _log_requests(path: Path) -> None:
    """Log one line for each request, as `ace.serve.operations` writes it."""
    import logging

    from ace.serve.operations import REQUESTS

    handler = logging.StreamHandler() if str(path) == "-" else logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(message)s"))
    REQUESTS.addHandler(handler)
    REQUESTS.setLevel(logging.INFO)
    REQUESTS.propagate = False


def _hosts(host: str, names: list[str]) -> list[str]:
    """Return the names under which the server is asked."""
    from ace.serve.guard import LOOPBACK

    own = f"[{host}]" if ":" in host else host
    return [*LOOPBACK, *names, *([own] if host not in WILDCARDS else [])]


def _hashes(tools: list[str] | None) -> dict[str, str] | None:
    """Name to schema hash of the tools that were named."""
    if not tools:
        return None
    from ace.cli.run import named_tools
    from ace.tools import ToolRegistry

    return dict(ToolRegistry(named_tools(tools, None)).schema_hashes)


def _check_folders(*folders: Path | None) -> None:
    for folder in folders:
        if folder is not None and not folder.is_dir():
            raise PlaybookError(f"there is no folder {str(folder)!r}")


def _welcome(path: str, url: str, token: str, token_file: Path | None) -> None:
    """Say where it is, and how to come in; the token is in no log and is not shown again."""
    from ace.serve.people import others_can_read

    address = f"{url}/login?token={token}" if token else f"{url}/login"
    console.print(f"{path}: {address}", soft_wrap=True)
    console.print(f"Agents: {url}/mcp, with the header Authorization: Bearer {token or 'TOKEN'}", soft_wrap=True)
    if token_file is not None and others_can_read(token_file):
        console.print(f"{token_file} can be read by others on this machine: chmod 600 {token_file}")
    console.print("Ctrl-C ends it.")
