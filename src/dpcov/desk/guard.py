"""Let in nobody but the person who started the desk: token, host, origin and headers.

Contract: an address without the token, a host that is not this machine, and a request that another
page makes get a bare refusal.  Pages load nothing from elsewhere, and nobody may frame them.
"""

import secrets
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = "127.0.0.1"
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    # Chromium sends the origin "null" with forms where no referrer is allowed at all.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
_SAFE = frozenset({"GET", "HEAD"})
_OURS = frozenset({"same-origin", "none"})


class Guard:
    """ASGI middleware in front of every page; the token is the first part of every address.

    Whoever asks with the ``ticket`` first is led to the token, and nobody later.
    """

    def __init__(self, app: ASGIApp, token: str, port: int, ticket: str = "") -> None:
        self._app, self._token, self._ticket = app, token, ticket
        self._hosts = {f"{name}:{port}" for name in (HOST, "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        answer = self._answer(scope)
        if answer is not None:
            await answer(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = dict(HEADERS)
                # Pages that stand alone carry a policy of their own.
                if not any(name == b"content-security-policy" for name, _ in message["headers"]):
                    headers["Content-Security-Policy"] = POLICY
                message["headers"] = [
                    *message["headers"],
                    *((name.lower().encode(), text.encode()) for name, text in headers.items()),
                ]
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _answer(self, scope: Scope) -> Response | None:
        # A refusal, or the way to the first page; None for a request that is let in.
        if scope["type"] != "http":
            return PlainTextResponse("Not found", status_code=404)
        request = Request(scope)
        # A name that was made to point here (DNS rebinding) is not one of ours.
        if request.headers.get("host", "") not in self._hosts:
            return PlainTextResponse("Not found", status_code=404)
        given = request.url.path.split("/")[1]
        is_ticket = bool(self._ticket) and _is_same(given, self._ticket)
        if not (is_ticket or _is_same(given, self._token)):
            return PlainTextResponse("Not found", status_code=404)
        if not self._is_ours(request):
            return PlainTextResponse("Another page asked for this.", status_code=403)
        if is_ticket:
            self._ticket = ""
            return RedirectResponse(f"/{self._token}/", status_code=303, headers=HEADERS)
        return None

    def _is_ours(self, request: Request) -> bool:
        if request.headers.get("sec-fetch-site", "none") not in _OURS:
            return False
        if request.method in _SAFE:
            return True
        return request.headers.get("origin") == f"http://{request.headers['host']}"


def _is_same(given: str, known: str) -> bool:
    # In a time that does not tell how much of it is right.
    return secrets.compare_digest(given.encode(), known.encode())
