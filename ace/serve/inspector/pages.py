"""How the inspector answers: pages from templates, forms whose secret is checked, errors as pages."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from functools import wraps
from typing import Any, NamedTuple

import jinja2
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from ace.core import AceError, PlaybookError, visible
from ace.playbook import Playbook
from ace.serve.people import Person, Session

_LESSON = re.compile(r"b-\d{1,9}")
View = Callable[["Ask"], Response]


class Ask(NamedTuple):
    """One request: who asks, and what a form said."""

    request: Request
    person: Person
    session: Session | None
    form: Mapping[str, Any]

    def text(self, name: str, otherwise: str = "") -> str:
        """Read a field of the form, else of the address."""
        found = self.form.get(name, self.request.query_params.get(name, otherwise))
        return found if isinstance(found, str) else otherwise

    def number(self, name: str, otherwise: int = 0) -> int:
        """Read a whole number that is not negative.

        Raises:
            PlaybookError: It is none.
        """
        text = self.text(name, str(otherwise))
        if not text.isdecimal() or len(text) > 12:
            raise PlaybookError(f"{name} is {text[:20]!r}, expected a whole number")
        return int(text)

    def one_of(self, name: str, known: Iterable[str]) -> str | None:
        """Read one of some words; None where nothing was chosen."""
        text = self.text(name)
        return text if text in known else None


class Pages:
    """Makes routes of views: `Pages(book).read("/journal", view)` is one for a Starlette app.

    Args:
        book: Whose revision each page carries.
    """

    def __init__(self, book: Playbook) -> None:
        self._book = book
        self._templates = jinja2.Environment(
            loader=jinja2.PackageLoader("ace.serve.inspector"), autoescape=True, trim_blocks=True, lstrip_blocks=True
        )
        self._templates.filters.update(visible=_visible, when=_when)

    def read(self, path: str, view: View) -> Route:
        """Make the route of a page to look at."""
        return Route(path, self._answering(view), methods=["GET"])

    def change(self, path: str, view: View) -> Route:
        """Make the route to which a form is sent."""
        return Route(path, self._answering(view), methods=["POST"])

    def login(self, why: str, status: int) -> Response:
        """Show where a browser gives its token."""
        return HTMLResponse(self._templates.get_template("login.html").render(why=why), status)

    def render(self, ask: Ask, template: str, **context: Any) -> Response:
        """Render a template, with what every page shows."""
        told = ask.request.query_params
        lesson, undo = told.get("lesson", ""), told.get("undo", "")
        page = self._templates.get_template(template).render(
            person=ask.person,
            csrf=ask.session.csrf if ask.session is not None else "",
            revision=self._book.revision,
            address=f"{ask.request.url.path}{f'?{ask.request.url.query}' if ask.request.url.query else ''}",
            path=ask.request.url.path,
            said=told.get("said", "")[:200],
            said_of=lesson if _LESSON.fullmatch(lesson) else "",
            undo=undo if undo.isdecimal() else "",
            **{"follows": ask.request.method == "GET", **context},
        )
        return HTMLResponse(page)

    def _answering(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        """Wrap a view in a worker thread, with the form read, its secret checked, and errors as a page."""

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
                return self._error(ask, 403, "the form is not of this session; load the page again")
            try:
                return await run_in_threadpool(view, ask)
            except AceError as error:
                status = 503 if getattr(error, "out_of_reach", False) else 400 if form else 404
                return await run_in_threadpool(self._error, ask, status, str(error))

        return answer

    def _error(self, ask: Ask, status: int, why: str) -> Response:
        written = {name: ask.form[name] for name in ("trigger", "content") if name in ask.form}  # it must not be lost
        response = self.render(ask, "error.html", why=why, written=written, follows=False)
        response.status_code = status
        return response


def _visible(value: object) -> str:
    return visible(str(value))


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
