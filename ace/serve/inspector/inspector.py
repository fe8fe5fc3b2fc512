"""The inspector: a playbook in a browser."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from ace.core import PlaybookError
from ace.playbook import Playbook, PlaybookBullet, Section, Stage
from ace.playbook.review import SetStage
from ace.playbook.transfer import write_bullets
from ace.serve.inspector.access import Access, changed_tools
from ace.serve.inspector.changes import Changes
from ace.serve.inspector.lesson_page import lesson_page
from ace.serve.inspector.overview import overview
from ace.serve.inspector.pages import Ask, Pages
from ace.serve.inspector.records import Records
from ace.serve.live import Live
from ace.serve.people import Person, Sessions

PER_PAGE = 50
MOST_ENTRIES = 500
"""Of the journal on one page: a commit may hold very many."""
MOST_QUERY = 2_000
"""Characters of a search."""
ORDERS: Mapping[str, Callable[[PlaybookBullet], int]] = {
    "number": lambda bullet: bullet.number,
    "newest": lambda bullet: -bullet.number,
    "changed last": lambda bullet: -bullet.updated_revision,
    "helped most": lambda bullet: -bullet.helpful_count,
    "harmed most": lambda bullet: -bullet.harmful_count,
}
"""Of the list of lessons."""


class Inspector:
    """A playbook in a browser: pages to read, and forms whose changes stand in the journal under the person's name.

    Args:
        book: The playbook.
        sessions: Of the browsers that have shown a token.
        live: Follows the journal.
        runs: A folder of runs that agents have kept (`run_store="runs"`).
        reports: A folder of evaluations, as `ace evaluate` writes it.
        tools: Name to schema hash of the tools as they are; by default as the newest lessons have known them.

    Examples:
        >>> from ace.playbook import CallableEmbedder
        >>> book = Playbook(embedder=CallableEmbedder("toy", lambda texts: [[len(t), 1.0] for t in texts]))
        >>> [route.path for route in Inspector(book, Sessions(), Live(book)).routes()][:2]
        ['/', '/lessons']
    """

    def __init__(
        self,
        book: Playbook,
        sessions: Sessions,
        live: Live,
        *,
        runs: str | Path | None = None,
        reports: str | Path | None = None,
        tools: Mapping[str, str] | None = None,
    ) -> None:
        self.book = book
        self._sessions = sessions
        self._live = live
        self._pages = Pages(book)
        self._access = Access(book, tools)
        self._changes = Changes(book, self._access)
        self._records = Records(runs, reports)
        book.history.verdicts()  # before somebody waits for them

    def routes(self) -> list[Route]:
        """Return every page, for a Starlette app: `Starlette(routes=inspector.routes())`."""
        read, change = self._pages.read, self._pages.change
        return [
            read("/", self._overview),
            read("/lessons", self._lessons),
            change("/lessons", self._changes.add),
            read("/lessons/new", self._new),
            read("/lessons/{lesson}", self._lesson),
            change("/lessons/{lesson}/{action}", self._changes.of_lesson),
            read("/review", self._review),
            read("/outdated", self._outdated),
            read("/journal", self._journal),
            read("/runs", self._runs),
            read("/runs/{run}", self._run),
            change("/runs/{run}/retract", self._changes.retract),
            read("/reports", self._reports),
            read("/reports/{report}", self._report),
            read("/files", self._files),
            read("/export.jsonl", self._export),
            change("/import", self._changes.bring_in),
            read("/imports/{revision:int}", self._arrived),
            change("/imports/{revision:int}/approve", self._changes.approve_import),
            change("/logout", self._logout),
            Route("/live", self._follow),
        ]

    def login_page(self, why: str = "", status: int = 200) -> Response:
        """Show where a browser gives its token: `inspector.login_page("that token is nobody's", 401)`."""
        return self._pages.login(why, status)

    def login(self, request: Request, person: Person, *, secure: bool = False) -> Response:
        """Begin a browser's session, and show it the book: `inspector.login(request, Person("ana"))`."""
        response = RedirectResponse("/", 303)
        key = self._sessions.begin(person)
        response.set_cookie(request.state.cookie, key, httponly=True, samesite="strict", secure=secure)
        return response

    def _logout(self, ask: Ask) -> Response:
        self._sessions.end(ask.request.cookies.get(ask.request.state.cookie, ""))
        response = RedirectResponse("/login", 303)
        response.delete_cookie(ask.request.state.cookie)
        return response

    # -- lessons -------------------------------------------------------------------------------------------------------

    def _overview(self, ask: Ask) -> Response:
        self.book.refresh()
        return self._pages.render(ask, "overview.html", o=overview(self.book, self._access, ask.person))

    def _new(self, ask: Ask) -> Response:
        return self._pages.render(ask, "new.html", sections=get_args(Section), follows=False)

    def _lessons(self, ask: Ask) -> Response:
        query = ask.text("q")[:MOST_QUERY].strip()
        self.book.refresh()
        return self._found(ask, query) if query else self._listed(ask)

    def _found(self, ask: Ask, query: str) -> Response:
        """Show what a search finds, and why; a lesson is also found by its id."""
        domain = ask.text("domain").strip() or None
        explanation = self.book.explain(query, domain, tenant=ask.person.tenant)
        return self._pages.render(
            ask,
            "lessons.html",
            query=query,
            domain=domain or "",
            named=[bullet for bullet in self.book.find([query]).values() if self._access.may_see(bullet, ask.person)],
            explanation=explanation,
            reasons=[reason for reason in explanation.reasons if self._access.may_see(reason.bullet, ask.person)],
        )

    def _listed(self, ask: Ask) -> Response:
        """Show all lessons, in pages, narrowed by what was chosen."""
        chosen = {
            "domain": ask.text("domain").strip() or None,
            "stage": ask.one_of("stage", get_args(Stage)),
            "section": ask.one_of("section", get_args(Section)),
        }
        bullets = [
            bullet
            for bullet in self._access.seen(ask.person)
            if all(value in (None, getattr(bullet, name)) for name, value in chosen.items())
        ]
        order = ask.one_of("order", ORDERS) or "number"
        return self._pages.render(
            ask,
            "lessons.html",
            **{name: value or "" for name, value in chosen.items()},
            **_page(ask, bullets if order == "number" else sorted(bullets, key=ORDERS[order])),
            order=order,
            orders=tuple(ORDERS),
            stages=get_args(Stage),
            sections=get_args(Section),
        )

    def _lesson(self, ask: Ask) -> Response:
        lesson = ask.request.path_params["lesson"]
        page = lesson_page(self.book, lesson, lambda bullet: self._access.may_see(bullet, ask.person))
        if page is None:
            raise PlaybookError(f"there never was a lesson {lesson!r}")
        return self._pages.render(
            ask,
            "lesson.html",
            page=page,
            mine=page.bullet.tenant == ask.person.tenant,
            stages=get_args(SetStage),
            traced=set(self._records.run_ids()),
            reports=self._records.about(page.bullet, ask.person),
            changed=changed_tools(page.bullet, self._access.tools(ask.person)),
        )

    def _review(self, ask: Ask) -> Response:
        items = [item for item in self.book.review.pending() if item.bullet.tenant == ask.person.tenant]
        stopped = {
            i: why for i, why in self.book.review.stopped().items() if self.book.get(i).tenant == ask.person.tenant
        }
        return self._pages.render(ask, "review.html", stopped=stopped, **_page(ask, items))

    def _outdated(self, ask: Ask) -> Response:
        tools = self._access.tools(ask.person)
        found = self.book.find(self.book.review.outdated(tools, tenant=ask.person.tenant)).values()
        rows = [(b, changed_tools(b, tools)) for b in found if self._access.may_see(b, ask.person)]
        return self._pages.render(ask, "outdated.html", **_page(ask, rows), given=self._access.tools_given)

    def _files(self, ask: Ask) -> Response:
        return self._pages.render(ask, "files.html", lessons=sum(1 for _ in self._access.own(ask.person)))

    def _arrived(self, ask: Ask) -> Response:
        at = ask.request.path_params["revision"]
        bullets = self._access.imported(at, ask.person)
        waiting = sum(bullet.stage == "shadow" for bullet in bullets)
        return self._pages.render(ask, "arrived.html", at=at, open=waiting, **_page(ask, bullets))

    def _export(self, ask: Ask) -> Response:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "lessons.jsonl"
            write_bullets(self._access.own(ask.person), file)
            text = file.read_bytes()
        headers = {"content-disposition": "attachment; filename=lessons.jsonl"}
        return Response(text, media_type="application/jsonl", headers=headers)

    # -- the journal ---------------------------------------------------------------------------------------------------

    def _journal(self, ask: Ask) -> Response:
        newest = self.book.revision
        last = min(ask.number("until", newest), newest)
        entries = self.book.history.entries(after=max(0, last - PER_PAGE), until=last, newest=MOST_ENTRIES)
        named = [
            (entry, entry.get("bullet_id") or entry.get("bullet", {}).get("id", "")) for entry in reversed(entries)
        ]
        owners = self.book.history.tenants({name for _, name in named})
        shown: list[dict[str, Any]] = []
        for entry, name in named:
            whose = [(0, entry["tenant"])] if entry["kind"] == "learned" else owners.get(name, [])
            if self._access.may_read(whose, entry["revision"], ask.person):
                shown.append(entry | {"subject": name})
        return self._pages.render(
            ask, "journal.html", entries=shown, most=MOST_ENTRIES, last=last, newest=newest, per_page=PER_PAGE
        )

    async def _follow(self, request: Request) -> Response:
        key = request.cookies.get(request.state.cookie, "")

        async def events() -> AsyncIterator[str]:
            async for revision in self._live.revisions():
                if request.state.session is not None and self._sessions.get(key) is None:
                    return
                yield f"event: revision\ndata: {revision}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    # -- runs and reports ----------------------------------------------------------------------------------------------

    def _runs(self, ask: Ask) -> Response:
        first = ask.number("first")
        return self._pages.render(
            ask,
            "runs.html",
            **self._records.run_page(ask.person, first, PER_PAGE),
            first=first,
            per_page=PER_PAGE,
            known=self._records.has_runs,
            verdicts=self.book.history.verdicts(),
        )

    def _run(self, ask: Ask) -> Response:
        run = self._records.run(ask.request.path_params["run"], ask.person)
        if run is None:
            raise PlaybookError("there is no such run, or it cannot be read")
        verdict = self.book.history.verdicts().get(run.run_id)
        may = verdict is not None and verdict.tenant == ask.person.tenant and not ask.person.read_only
        return self._pages.render(
            ask, "run.html", run=run, there=set(self.book.find(run.injected_bullets)), verdict=verdict, may=may
        )

    def _reports(self, ask: Ask) -> Response:
        found = list(self._records.evaluations(ask.person))
        return self._pages.render(ask, "reports.html", reports=found, known=self._records.has_reports)

    def _report(self, ask: Ask) -> Response:
        page = self._records.evaluation_page(ask.request.path_params["report"], ask.person, self.book)
        # a page of its own, with styles in it: nothing else may happen there but following a link
        policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox allow-same-origin; frame-ancestors 'none'"
        return HTMLResponse(page, headers={"content-security-policy": policy})


def _page(ask: Ask, found: Sequence[object]) -> dict[str, object]:
    """Return what a template with a pager is given: the part of what was found that was asked for, or the last one."""
    first = min(ask.number("first"), max(0, len(found) - 1) // PER_PAGE * PER_PAGE)  # reviewing makes a list shorter
    return {
        "shown": found[first : first + PER_PAGE],
        "total": len(found),
        "first": first,
        "per_page": PER_PAGE,
        "page": partial(_with, ask.request, "first"),
    }


def _with(request: Request, name: str, value: object) -> str:
    """Return the address of a request with another value for one of its parameters, and without what was said once."""
    kept = {key: text for key, text in request.query_params.items() if key not in ("said", "lesson", "undo")}
    return f"{request.url.path}?{urlencode({**kept, name: str(value)})}"
