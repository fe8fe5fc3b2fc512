"""The inspector's pages, and what a person changes on them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from functools import partial, wraps
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args
from urllib.parse import quote, urlencode

import jinja2
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from ace.agent import FolderRunStore
from ace.core import AceError, PlaybookError, RunStoreError, visible
from ace.evaluation import EvaluateReport
from ace.evaluation.log import RunLog
from ace.evaluation.report.html import html, traces_of
from ace.playbook import Playbook, PlaybookBullet, Section, Stage
from ace.playbook.review import SetStage
from ace.playbook.transfer import read_bullets, write_bullets
from ace.serve.inspector.lesson_page import lesson_page
from ace.serve.live import Live
from ace.serve.people import Person, Session, Sessions

PER_PAGE = 50
MOST_ENTRIES = 500
"""Of the journal on one page: a commit may hold very many."""
MOST_QUERY = 2_000
"""Characters of a search."""
MOST_WRITTEN = 20_000
"""Characters of a trigger, or of what a lesson says, that a person may write."""
_LESSON = re.compile(r"b-\d{1,9}")
View = Callable[["Ask"], Response]


class Ask(NamedTuple):
    """One request: who asks, and what a form said."""

    request: Request
    person: Person
    session: Session | None
    form: Mapping[str, Any]

    def text(self, name: str, otherwise: str = "") -> str:
        """A field of the form, else of the address."""
        found = self.form.get(name, self.request.query_params.get(name, otherwise))
        return found if isinstance(found, str) else otherwise

    def number(self, name: str, otherwise: int = 0) -> int:
        """A whole number that is not negative.

        Raises:
            PlaybookError: It is none.
        """
        text = self.text(name, str(otherwise))
        if not text.isdecimal() or len(text) > 12:
            raise PlaybookError(f"{name} is {text[:20]!r}, expected a whole number")
        return int(text)

    def one_of(self, name: str, known: Iterable[str]) -> str | None:
        """One of some words; None where nothing was chosen."""
        text = self.text(name)
        return text if text in known else None


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
        ['/', '/lessons/{lesson}']
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
        self._runs = FolderRunStore(runs) if runs is not None else None
        self._reports = Path(reports) if reports is not None else None
        self._tools = tools
        self._templates = jinja2.Environment(
            loader=jinja2.PackageLoader("ace.serve.inspector"), autoescape=True, trim_blocks=True, lstrip_blocks=True
        )
        self._templates.filters.update(visible=_visible, when=_when)

    def routes(self) -> list[Route]:
        """Every page, for a Starlette app: `Starlette(routes=inspector.routes())`."""
        return [
            self._page("/", self._lessons),
            self._page("/lessons/{lesson}", self._lesson),
            self._form("/lessons/{lesson}/{action}", self._change),
            self._page("/review", self._review),
            self._page("/outdated", self._outdated),
            self._page("/journal", self._journal),
            self._page("/runs", self._run_list),
            self._page("/runs/{run}", self._run),
            self._page("/reports", self._report_list),
            self._page("/reports/{report}", self._report),
            self._page("/files", self._files),
            self._page("/export.jsonl", self._export),
            self._form("/import", self._import),
            self._form("/logout", self._logout),
            Route("/live", self._follow),
        ]

    def login_page(self, why: str = "", status: int = 200) -> Response:
        """Where a browser shows its token: `inspector.login_page("that token is nobody's", 401)`."""
        return HTMLResponse(self._templates.get_template("login.html").render(why=why), status)

    def login(self, request: Request, person: Person, *, secure: bool = False) -> Response:
        """Begin a browser's session, and show it the book: `inspector.login(request, Person("ana"))`."""
        response = RedirectResponse("/", 303)
        key = self._sessions.begin(person)
        response.set_cookie(request.state.cookie, key, httponly=True, samesite="strict", secure=secure)
        return response

    # -- reading -------------------------------------------------------------------------------------------------------

    def _lessons(self, ask: Ask) -> Response:
        query = ask.text("q")[:MOST_QUERY].strip()
        domain = ask.text("domain").strip() or None
        stage, section = ask.one_of("stage", get_args(Stage)), ask.one_of("section", get_args(Section))
        found, listed, explanation = list[PlaybookBullet](), list[PlaybookBullet](), None
        first = ask.number("first")
        self.book.refresh()
        if query:
            named = self.book.find([query]).values()
            found = [bullet for bullet in named if self._visible(bullet, ask.person)]
            explanation = self.book.explain(query, domain, tenant=ask.person.tenant)
        else:
            listed = [
                bullet
                for bullet in self._mine(ask.person)
                if stage in (None, bullet.stage)
                and section in (None, bullet.section)
                and domain in (None, bullet.domain)
            ]
        reasons = explanation.reasons if explanation is not None else ()
        return self._render(
            ask,
            "lessons.html",
            query=query,
            domain=domain or "",
            stage=stage or "",
            section=section or "",
            named=found,
            explanation=explanation,
            reasons=[r for r in reasons if self._visible(r.bullet, ask.person)],
            total=len(listed),
            bullets=listed[first : first + PER_PAGE],
            first=first,
            per_page=PER_PAGE,
            page=partial(_with, ask.request, "first"),
            stages=get_args(Stage),
            sections=get_args(Section),
        )

    def _lesson(self, ask: Ask) -> Response:
        lesson = ask.request.path_params["lesson"]
        page = lesson_page(self.book, lesson, lambda bullet: self._visible(bullet, ask.person))
        if page is None:
            raise PlaybookError(f"there never was a bullet {lesson!r}")
        return self._render(
            ask,
            "lesson.html",
            page=page,
            mine=page.bullet.tenant == ask.person.tenant,
            stages=get_args(SetStage),
            traced=set(self._runs.run_ids()) if self._runs is not None else set[str](),
            changed=self._changed_tools(page.bullet, self._known_tools(ask.person)),
        )

    def _review(self, ask: Ask) -> Response:
        items = [item for item in self.book.review.pending() if item.bullet.tenant == ask.person.tenant]
        return self._render(ask, "review.html", items=items[:PER_PAGE], total=len(items))

    def _outdated(self, ask: Ask) -> Response:
        tools = self._known_tools(ask.person)
        found = self.book.find(self.book.review.outdated(tools, tenant=ask.person.tenant)).values()
        rows = [(b, self._changed_tools(b, tools)) for b in found if self._visible(b, ask.person)]
        return self._render(ask, "outdated.html", rows=rows[:PER_PAGE], total=len(rows), given=self._tools is not None)

    def _journal(self, ask: Ask) -> Response:
        newest = self.book.revision
        last = min(ask.number("until", newest), newest)
        entries = self.book.history.entries(after=max(0, last - PER_PAGE), until=last, newest=MOST_ENTRIES)
        named = [(entry, str(entry.get("bullet_id") or entry["bullet"]["id"])) for entry in reversed(entries)]
        owners = self.book.history.tenants({name for _, name in named})
        shown = [
            entry | {"subject": name}
            for entry, name in named
            if self._may_read(owners.get(name, []), entry["revision"], ask.person)
        ]
        return self._render(
            ask, "journal.html", entries=shown, most=MOST_ENTRIES, last=last, newest=newest, per_page=PER_PAGE
        )

    def _run_list(self, ask: Ask) -> Response:
        first = ask.number("first")
        ids = self._runs.run_ids() if self._runs is not None else ()
        found, damaged = list[Any](), list[str]()
        for run_id in ids[first : first + PER_PAGE]:
            run = self._loaded(run_id, ask.person)
            if run is not None:
                found.append(run)
            elif ask.person.tenant is None and not self._store_is_whole(run_id):
                damaged.append(run_id)
        more = first + PER_PAGE < len(ids)
        known = self._runs is not None
        return self._render(
            ask, "runs.html", runs=found, damaged=damaged, more=more, first=first, per_page=PER_PAGE, known=known
        )

    def _run(self, ask: Ask) -> Response:
        run = self._loaded(ask.request.path_params["run"], ask.person)
        if run is None:
            raise PlaybookError("there is no such run, or it cannot be read")
        return self._render(ask, "run.html", run=run, there=set(self.book.find(run.injected_bullets)))

    def _report_list(self, ask: Ask) -> Response:
        found = list(self._evaluations(ask.person))
        return self._render(ask, "reports.html", reports=found, known=self._reports is not None)

    def _report(self, ask: Ask) -> Response:
        name = ask.request.path_params["report"]
        for folder, report in self._evaluations(ask.person):
            if folder.name == name:
                log = folder / "runs.jsonl"
                if log.exists():
                    with RunLog(log) as runs:
                        page = html(report, traces_of(report, runs))
                else:
                    page = html(report)
                # a page of its own, with styles in it: nothing else may happen there
                policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"
                return HTMLResponse(page, headers={"content-security-policy": policy})
        raise PlaybookError(f"there is no report {name!r}")

    def _files(self, ask: Ask) -> Response:
        return self._render(ask, "files.html", lessons=sum(1 for _ in self._own(ask.person)))

    def _export(self, ask: Ask) -> Response:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "lessons.jsonl"
            write_bullets(self._own(ask.person), file)
            text = file.read_bytes()
        headers = {"content-disposition": "attachment; filename=lessons.jsonl"}
        return Response(text, media_type="application/jsonl", headers=headers)

    async def _follow(self, request: Request) -> Response:
        async def events() -> AsyncIterator[str]:
            async for revision in self._live.revisions():
                if request.state.session is not None and self._session_of(request) is None:
                    return
                yield f"event: revision\ndata: {revision}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    # -- changing ------------------------------------------------------------------------------------------------------

    def _change(self, ask: Ask) -> Response:
        lesson, action = ask.request.path_params["lesson"], ask.request.path_params["action"]
        done = self._changes().get(action)
        if done is None:
            raise PlaybookError(f"there is nothing called {action!r} to do with a lesson")
        page = lesson_page(self.book, lesson, lambda bullet: self._visible(bullet, ask.person))
        if page is None or (page.gone and action != "restore"):
            raise PlaybookError(f"no bullet {lesson!r}")
        bullet = page.bullet
        if bullet.tenant != ask.person.tenant:
            may = f"{ask.person.name} may change the lessons of {ask.person.tenant} only"
            raise PlaybookError(f"{lesson} is everybody's; {may}")
        before, said = self.book.revision, done(ask, bullet)
        changed = self.book.revision > before
        back = ask.text("back")
        path = back if back in ("/review", "/outdated") else f"/lessons/{quote(lesson)}"
        # what was there just before, also when somebody else wrote meanwhile
        undo = self.book.history.versions(lesson)[-1].revision - 1 if changed and action != "confirm" else ""
        return RedirectResponse(f"{path}?{urlencode({'said': said, 'lesson': lesson, 'undo': undo})}", 303)

    def _changes(self) -> Mapping[str, Callable[[Ask, PlaybookBullet], str]]:
        return {
            "approve": self._approve,
            "reject": self._reject,
            "edit": self._edit,
            "stage": self._stage,
            "remove": self._remove,
            "restore": self._restore,
            "confirm": self._confirm,
        }

    def _approve(self, ask: Ask, bullet: PlaybookBullet) -> str:
        seen = ask.number("seen", bullet.updated_revision)
        self.book.review.approve(bullet.id, seen=seen, author=ask.person.name, note=ask.text("note"))
        return "approved"

    def _reject(self, ask: Ask, bullet: PlaybookBullet) -> str:
        seen = ask.number("seen", bullet.updated_revision)
        self.book.review.reject(bullet.id, seen=seen, author=ask.person.name, note=ask.text("note"))
        return "refused"

    def _edit(self, ask: Ask, bullet: PlaybookBullet) -> str:
        was = {name: _lines(ask.text(f"was_{name}", getattr(bullet, name))) for name in ("trigger", "content")}
        said = {name: _lines(ask.text(name, was[name])) for name in was}
        if not said["content"]:
            raise PlaybookError("a lesson says something; to take it away, remove it")
        if long := [name for name, text in said.items() if len(text) > MOST_WRITTEN]:
            raise PlaybookError(f"{', '.join(long)} may have {MOST_WRITTEN:,} characters")
        changed = {name: text for name, text in said.items() if text != was[name]}
        # what is stored may have other ends of lines than a browser sends
        stored = {name: getattr(bullet, name) for name in was if _lines(getattr(bullet, name)) == was[name]}
        self.book.review.edit(
            bullet.id, author=ask.person.name, note=ask.text("note"), instead_of={**was, **stored}, **changed
        )
        return "edited" if changed else "left as it was"

    def _stage(self, ask: Ask, bullet: PlaybookBullet) -> str:
        stage = cast("SetStage", ask.text("stage"))
        self.book.review.set_stage(bullet.id, stage, author=ask.person.name, note=ask.text("note"))
        return f"made {stage}"

    def _remove(self, ask: Ask, bullet: PlaybookBullet) -> str:
        self.book.review.remove(bullet.id, author=ask.person.name, note=ask.text("note"))
        return "removed"

    def _restore(self, ask: Ask, bullet: PlaybookBullet) -> str:
        revision = ask.number("revision")
        then = next((v for v in reversed(self.book.history.versions(bullet.id)) if v.revision <= revision), None)
        if then is not None and then.bullet is not None and then.bullet.tenant != ask.person.tenant:
            raise PlaybookError(f"{bullet.id} was another tenant's at revision {revision}")
        self.book.history.restore(bullet.id, revision, author=ask.person.name, note=ask.text("note"))
        return f"as at revision {revision}"

    def _confirm(self, ask: Ask, bullet: PlaybookBullet) -> str:
        self.book.review.confirm([bullet.id], self._known_tools(ask.person), author=ask.person.name)
        return "confirmed for the tools as they are"

    def _import(self, ask: Ask) -> Response:
        file = ask.form.get("file")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lessons.jsonl"
            if not isinstance(file, bytes) or not file.strip():
                raise PlaybookError("choose a file of lessons, as the export writes it")
            path.write_bytes(file)
            try:
                bullets = read_bullets(path)
            except PlaybookError as error:
                raise PlaybookError(str(error).replace(repr(str(path)), "the file")) from None
            if foreign := {bullet.tenant for bullet in bullets} - {ask.person.tenant}:
                whose = ", ".join(sorted(tenant or "everybody" for tenant in foreign))
                may = f"{ask.person.name} may add those of {ask.person.tenant or 'everybody'} only"
                raise PlaybookError(f"the file holds lessons of {whose}; {may}; nothing was written")
            added = self.book.import_jsonl(path, author=ask.person.name)
        return RedirectResponse(f"/files?{urlencode({'said': f'{added} lessons came in as shadow'})}", 303)

    def _logout(self, ask: Ask) -> Response:
        self._sessions.end(ask.request.cookies.get(ask.request.state.cookie, ""))
        response = RedirectResponse("/login", 303)
        response.delete_cookie(ask.request.state.cookie)
        return response

    # -- what all of them use ------------------------------------------------------------------------------------------

    def _page(self, path: str, view: View) -> Route:
        return Route(path, self._answering(view), methods=["GET"])

    def _form(self, path: str, view: View) -> Route:
        return Route(path, self._answering(view), methods=["POST"])

    def _answering(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        """A view in a worker thread, with the form read, its secret checked, and errors as a page."""

        @wraps(view)
        async def answer(request: Request) -> Response:
            session, person = request.state.session, request.state.person
            form = dict[str, Any]()
            if request.method == "POST":
                async with request.form(max_files=1, max_fields=20) as given:
                    form = {n: await v.read() if isinstance(v, UploadFile) else v for n, v in given.items()}
            ask = Ask(request, person, session, form)
            # a token in a header is nobody else's idea; a cookie comes with every form, also of other pages
            if request.method == "POST" and session is not None and form.get("csrf") != session.csrf:
                return await run_in_threadpool(
                    self._error, ask, 403, "the form is not of this session; load the page again"
                )
            try:
                return await run_in_threadpool(view, ask)
            except AceError as error:
                return await run_in_threadpool(self._error, ask, 400 if form else 404, str(error))

        return answer

    def _error(self, ask: Ask, status: int, why: str) -> Response:
        written = {name: ask.form[name] for name in ("trigger", "content") if name in ask.form}  # it must not be lost
        response = self._render(ask, "error.html", why=why, written=written, follows=False)
        response.status_code = status
        return response

    def _render(self, ask: Ask, template: str, **context: Any) -> Response:
        told = ask.request.query_params
        lesson, undo = told.get("lesson", ""), told.get("undo", "")
        page = self._templates.get_template(template).render(
            person=ask.person,
            csrf=ask.session.csrf if ask.session is not None else "",
            revision=self.book.revision,
            address=f"{ask.request.url.path}{f'?{ask.request.url.query}' if ask.request.url.query else ''}",
            path=ask.request.url.path,
            said=told.get("said", "")[:200],
            said_of=lesson if _LESSON.fullmatch(lesson) else "",
            undo=undo if undo.isdecimal() else "",
            **{"follows": ask.request.method == "GET", **context},
        )
        return HTMLResponse(page)

    def _visible(self, bullet: PlaybookBullet, person: Person) -> bool:
        return bullet.tenant in (None, person.tenant)

    def _may_read(self, owners: list[tuple[int, str | None]], revision: int, person: Person) -> bool:
        """Whether somebody may read an entry of the journal: it counts whose the bullet was then, and has been since."""
        whose = [tenant for since, tenant in owners if since <= revision][-1:] + [t for s, t in owners if s > revision]
        return bool(owners) and all(tenant in (None, person.tenant) for tenant in whose)

    def _loaded(self, run_id: str, person: Person) -> Any:
        """A run that somebody may look at; None where it is another tenant's, is not there or cannot be read."""
        try:
            run = self._store().load(run_id)
        except (RunStoreError, OSError):
            return None
        return run if run.task.tenant in (None, person.tenant) else None

    def _store_is_whole(self, run_id: str) -> bool:
        try:
            self._store().load(run_id)
        except (RunStoreError, OSError):
            return False
        return True

    def _session_of(self, request: Request) -> Session | None:
        return self._sessions.get(request.cookies.get(request.state.cookie, ""))

    def _own(self, person: Person) -> Iterable[PlaybookBullet]:
        """The lessons that somebody may change, and bring in elsewhere."""
        return (bullet for bullet in self.book.bullets if bullet.tenant == person.tenant)

    def _mine(self, person: Person) -> Iterable[PlaybookBullet]:
        return (bullet for bullet in self.book.bullets if self._visible(bullet, person))

    def _store(self) -> FolderRunStore:
        if self._runs is None:
            raise PlaybookError("no folder of runs was given: `ace serve BOOK --runs FOLDER`")
        return self._runs

    def _evaluations(self, person: Person) -> Iterable[tuple[Path, EvaluateReport]]:
        """The evaluations in the folder, the newest first; they show everybody's runs, so that no tenant sees them."""
        if self._reports is None or person.tenant is not None:
            return
        files = sorted(self._reports.glob("*/report.json"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files:
            try:
                yield file.parent, EvaluateReport.model_validate_json(file.read_bytes())
            except (OSError, ValidationError):
                continue  # of another release, or of something else

    def _known_tools(self, person: Person) -> dict[str, str]:
        """Name to schema hash of the tools as they are, or as the newest lessons know them, the tenant's own first."""
        if self._tools is not None:
            return dict(self._tools)
        known: dict[str, tuple[bool, int, str]] = {}
        for bullet in self._mine(person):
            for name, digest in bullet.tool_schema_hashes.items():
                rank = (bullet.tenant == person.tenant, bullet.created_revision, digest)
                known[name] = max(known.get(name, (False, -1, "")), rank)
        return {name: digest for name, (_, _, digest) in known.items()}

    def _changed_tools(self, bullet: PlaybookBullet, tools: Mapping[str, str]) -> list[str]:
        hashes = bullet.tool_schema_hashes
        return sorted(name for name in hashes if name in tools and tools[name] != hashes[name])


def _lines(text: str) -> str:
    """A text as it is stored: browsers end lines otherwise."""
    return text.replace("\r\n", "\n").strip()


def _visible(value: object) -> str:
    return visible(str(value))


def _with(request: Request, name: str, value: object) -> str:
    """The address of a request with another value for one of its parameters."""
    return f"{request.url.path}?{urlencode({**request.query_params, name: str(value)})}"


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
