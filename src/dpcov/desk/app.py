"""Addresses of the desk, and what they do.

Contract: what changes anything is posted with the version of the page it was typed on, so that a
second tab never undoes what the first one did.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dpcov.data.sources import Query
from dpcov.desk import pages
from dpcov.desk.commands import script_of
from dpcov.desk.decisions import STEPS, count_of
from dpcov.desk.job import in_words
from dpcov.desk.work import Work
from dpcov.errors import DpcovError
from dpcov.report.html import asset

Handler = Callable[[Request], Awaitable[Response]]
Do = Callable[[Work, "Form"], list[str] | None]
# Of a form: more than the largest schema.
_FIELDS, _PART = 100_000, 16 * 2**20


class Form(dict[str, str]):
    """Fields of a form; those that it lacks are empty."""

    def __missing__(self, key: str) -> str:
        return ""


class Sealed:
    """ASGI middleware: a plain page for an unforeseen error, whose text may quote a row."""

    def __init__(self, app: ASGIApp, base: str) -> None:
        self._app, self._base = app, base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; the terminal shows no traceback."""
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            title, status = "Internal error", 500
            if isinstance(error, DpcovError):
                title, status = "This cannot be shown", 422
            onward = "Begin again", f"{self._base}/"
            page = pages.message(self._base, title, in_words(error), *onward)
            await HTMLResponse(page, status_code=status)(scope, receive, send)


class Desk:
    """All tables that are open, and the pages about them."""

    def __init__(self, folder: Path, token: str) -> None:
        self.folder, self.token, self.base = folder, token, f"/{token}"
        self.works: dict[str, Work] = {}
        self._lock = asyncio.Lock()

    def app(self) -> Starlette:
        """The ASGI application, without its guard."""
        one = f"{self.base}/{{work}}"
        style, script = asset("style.css") + _own("desk.css"), _own("desk.js") + asset("plan.js")
        return Starlette(
            routes=[
                Route(f"{self.base}/", self.start),
                Route(f"{self.base}/style.css", _served(style, "text/css")),
                Route(f"{self.base}/desk.js", _served(script, "text/javascript")),
                Route(f"{self.base}/open", self.open, methods=["POST"]),
                Route(f"{self.base}/query", self.query, methods=["POST"]),
                # Addresses of forms, typed or reloaded, lead to the page of the form.
                *(Route(f"{self.base}/{each}", self.start) for each in ("open", "query")),
                *(Route(f"{one}/{step}", self.page(step)) for step in STEPS),
                *(Route(f"{one}/{deed}", self.posted(deed), methods=["POST"]) for deed in _DEEDS),
                *(Route(f"{one}/{name}", self.page(deed.here)) for name, deed in _DEEDS.items()),
                Route(f"{one}/news", self.news),
                Route(f"{one}/files/{{what}}", self.file),
            ],
            middleware=[Middleware(Sealed, base=self.base)],
        )

    def close(self, show: Callable[[str], object]) -> None:
        """Stop releases that go on, and say what became of them and of their budgets."""
        for work in self.works.values():
            job = work.jobs.get("release")
            if job is not None and job.running:
                show(f"{work.about} is being released. Wait until that has stopped.")
                work.stop()
                show(job.problem or f"It had ended: {work.begun.files['release'].name} is whole.")

    # --- pages -------------------------------------------------------------------------------

    async def start(self, request: Request) -> Response:
        """Choose a table."""
        return HTMLResponse(pages.start(self.base, self.folder, works=self.works.values()))

    def page(self, step: str) -> Handler:
        """Show a step."""

        async def show(request: Request) -> Response:
            work = self._work(request)
            if work is None:
                return self._gone()
            made = await run_in_threadpool(pages.show, step, self.base, work)
            return HTMLResponse(made)

        return show

    async def news(self, request: Request) -> Response:
        """How far the work in the background is."""
        work = self._work(request)
        asked = request.query_params.get("step", work.step if work else "")
        job = work.jobs.get(asked) if work else None
        if job is None:
            return JSONResponse({"running": False})
        told = {"running": job.running, "done": job.done, "total": job.total, "told": job.told}
        return JSONResponse(told)

    async def file(self, request: Request) -> Response:
        """A file that was written, or the script."""
        work, what = self._work(request), request.path_params["what"]
        if work is not None and what == "script":
            name = f"{work.stem}-release.sh"
            # Names of files are anybody's; a header takes few of their letters as they are.
            headers = {
                "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"
            }
            return PlainTextResponse(script_of(work.begun), headers=headers)
        if work is None or what not in work.files:
            return self._gone()
        path = work.begun.files[what]
        if not path.exists():
            on = "Back to the release", f"{self.base}/{work.name}/release"
            told = f"{path.name} is not in its folder any more."
            page = pages.message(self.base, "This file is not there", told, *on)
            return HTMLResponse(page, status_code=404)
        if what == "report":
            # The page brings a policy of its own, by the hashes of its style and script.
            headers = {"Content-Security-Policy": "frame-ancestors 'none'"}
            return HTMLResponse(path.read_bytes(), headers=headers)
        return FileResponse(path, filename=path.name)

    # --- what is posted ----------------------------------------------------------------------

    async def open(self, request: Request) -> Response:
        """Open a file."""
        given = await _form(request)
        return await self._opened(
            given,
            lambda: Work.open(
                given["data"],
                self.folder,
                given["schema"],
                delimiter=given["delimiter"],
                decimal=given["decimal"],
                encoding=given["encoding"],
                header=given["header"] and count_of(given["header"], "The line of names"),
                part=given["part"],
            ),
        )

    async def query(self, request: Request) -> Response:
        """Open a database."""
        given = await _form(request)
        query = Query(given["sql"], db=given["db"])
        return await self._opened(given, lambda: Work.open(query, self.folder))

    async def _opened(self, given: Form, make: Callable[[], Work]) -> Response:
        try:
            work = await run_in_threadpool(make)
        except DpcovError as error:
            problems, works = str(error).splitlines(), self.works.values()
            page = pages.start(self.base, self.folder, problems, works, given)
            return HTMLResponse(page, status_code=422)
        self.works[work.name] = work
        return self._to(work, "columns")

    def posted(self, what: str) -> Handler:
        """Do what a form asks for, unless another tab was first."""
        here, do, after = _DEEDS[what]

        async def act(request: Request) -> Response:
            work, given = self._work(request), await _form(request)
            if work is None:
                return self._gone()
            async with self._lock:
                if what != "stop" and not work.takes(given["version"]):
                    return self._stale(work, here)
                problems = await run_in_threadpool(_done, do, work, given)
            if not problems:
                return self._to(work, after or work.step or "columns")
            made = await run_in_threadpool(pages.show, here, self.base, work, problems, given)
            return HTMLResponse(made, status_code=422)

        return act

    # --- helpers -----------------------------------------------------------------------------

    def _work(self, request: Request) -> Work | None:
        return self.works.get(request.path_params["work"])

    def _to(self, work: Work, step: str) -> Response:
        return RedirectResponse(f"{self.base}/{work.name}/{step}", status_code=303)

    def _gone(self) -> Response:
        told = "The desk was started anew.", "Begin again", f"{self.base}/"
        page = pages.message(self.base, "Nothing is open here", *told)
        return HTMLResponse(page, status_code=404)

    def _stale(self, work: Work, step: str) -> Response:
        told = "What is decided was changed after this page was made, in another tab or on a later "
        told += "page. What was typed here is not taken."
        there = "Show what is there now", f"{self.base}/{work.name}/{step}"
        page = pages.message(self.base, "Changed meanwhile", told, *there)
        return HTMLResponse(page, status_code=409)


def _done(do: Do, work: Work, given: Form) -> list[str]:
    try:
        problems = do(work, given) or []
    except DpcovError as error:
        problems = str(error).splitlines()
    work.settle()
    work.oldest, work.refused = next(work.pages), given["version"] if problems else ""
    return problems


def _complete(work: Work, given: Form) -> list[str]:
    return _declared(work, given) or work.schema.problems()


def _columns(work: Work, given: Form) -> list[str]:
    return _complete(work, given) or work.unfit()


def _declared(work: Work, given: Form) -> list[str]:
    names, typed = list(work.schema.columns), dict[str, dict[str, str]]()
    for key, value in given.items():
        place, dot, what = key.partition(".")
        if dot and place.isdecimal() and int(place) < len(names):
            typed.setdefault(names[int(place)], {})[what] = value
    return work.declare(typed)


def _keep(work: Work, given: Form) -> list[str]:
    problems = _declared(work, given)
    if not problems:
        work.keep()
    return problems


def _people(work: Work, given: Form) -> list[str]:
    work.decide_people(given)
    return work.missing()["people"]


def _check(work: Work, given: Form) -> list[str]:
    problems = _complete(work, given)
    if not problems:
        work.check()
    return problems


def _budget(work: Work, given: Form) -> None:
    if given["expected_rows"]:
        work.expected_rows = count_of(given["expected_rows"], "The number of rows")
    work.decide_budget(given["chosen"], given["delta"])
    work.public = given["public"].strip()


def _rehearse(work: Work, given: Form) -> None:
    _budget(work, given)
    work.rehearse()


def _begin(work: Work, given: Form) -> None:
    work.begin(overwrite=given["overwrite"] == "yes")


class Deed(NamedTuple):
    """What a form asks for: on which page, what is done, which page is next."""

    here: str
    do: Do
    after: str


_DEEDS = {
    "columns": Deed("columns", _columns, "people"),
    "text": Deed("columns", lambda work, given: work.write_schema(given["toml"]), "columns"),
    "keep": Deed("columns", _keep, "columns"),
    "check": Deed("columns", _check, "columns"),
    "people": Deed("people", _people, "budget"),
    "rehearse": Deed("budget", _rehearse, "budget"),
    "budget": Deed("budget", _budget, "account"),
    "account": Deed("account", Work.decide_account, "release"),
    "begin": Deed("release", _begin, "release"),
    # On to the step that the work belonged to.
    "stop": Deed("release", lambda work, given: work.stop(), ""),
}


async def _form(request: Request) -> Form:
    given = await request.form(max_fields=_FIELDS, max_files=0, max_part_size=_PART)
    texts = ((key, text) for key, text in given.items() if isinstance(text, str))
    # Browsers end lines with two signs, one of which a page would show as a control code.
    return Form({key: text.replace("\r\n", "\n") for key, text in texts})


def _own(name: str) -> str:
    return Path(__file__).with_name("assets").joinpath(name).read_text(encoding="utf-8")


def _served(text: str, media_type: str) -> Handler:
    async def answer(request: Request) -> Response:
        return Response(text, media_type=media_type)

    return answer
