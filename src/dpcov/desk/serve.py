"""Listen on the loopback address until the person stops it."""

import contextlib
import secrets
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from dpcov.desk.app import Desk
from dpcov.desk.guard import HOST, Guard
from dpcov.desk.job import hear_warnings
from dpcov.errors import UsageError
from dpcov.files import reason_of


def serve(folder: Path, port: int, *, show: Callable[[str], object], browse: bool) -> None:
    """Serve the desk of a folder, and return when it is interrupted."""
    listening = listen(port)
    # Words that nobody can guess, 192 bits.  The command line of a browser, which others can list,
    # has one that is good for once.
    port, token, ticket = listening.getsockname()[1], _word(), _word() if browse else ""
    desk = Desk(folder, token)
    server = server_of(desk, port, ticket)
    address = f"http://{HOST}:{port}/"
    show(f"The desk is open: {address}{token}/\nStop it with Ctrl-C.")
    if browse:
        webbrowser.open(f"{address}{ticket}")
    hear_warnings()
    # Statements name files of the folder.
    with contextlib.chdir(folder):
        try:
            server.run(sockets=[listening])
        finally:
            desk.close(show)


def listen(port: int) -> socket.socket:
    """A socket that only this machine reaches."""
    try:
        # It listens at once: a browser that is faster than the server waits, and is not refused.
        return socket.create_server((HOST, port))
    except OSError as error:
        raise UsageError(
            f"Port {port} cannot be used: {reason_of(error)}. Leave out --port."
        ) from None


def _word() -> str:
    return secrets.token_urlsafe(24)


def server_of(desk: Desk, port: int, ticket: str = "") -> uvicorn.Server:
    """The server of a desk; addresses are kept out of its log, since they hold the token."""
    app = Guard(desk.app(), desk.token, port, ticket)
    quiet = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    return uvicorn.Server(quiet)
