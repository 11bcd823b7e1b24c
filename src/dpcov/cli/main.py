"""The ``dpcov`` command: its subcommands, and how errors become messages and exit codes.

Contract: an error is one screen that says what to do.  It never shows a traceback, a local variable
or a value that came from a row.  Heavy imports happen inside the commands, so ``--help`` is quick.
"""

import contextlib
import errno
import io
import os
import signal
import sys
import traceback
import warnings
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from dpcov.cli import analyst, audit, demo, desk, ledger, moments, plan, release, schema
from dpcov.cli.options import example, option
from dpcov.errors import DpcovError, PrivacyWarning, place_of, printable
from dpcov.files import reason_of, remove_folders

# As in sysexits.h, and 128 + SIGINT.
INTERNAL_ERROR, INTERRUPTED = 70, 130
EXIT_CODES = """
Exit codes: 0 done · 1 other error · 2 wrong usage · 3 schema · 4 data · 5 budget · 6 ledger ·
7 release file · 8 numerical failure · 9 audit without power · 70 internal error · 130 interrupted.
"""


class Commands(TyperGroup):
    """Turns every expected failure into a short message on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        for stream in (sys.stdout, sys.stderr):
            # Names of files may be no text in the screen's encoding.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        try:
            with warnings.catch_warnings():
                # Python shows a warning once a place, but every release has a budget of its own.
                warnings.simplefilter("always", PrivacyWarning)
                warnings.showwarning = _warn
                return super().invoke(ctx)
        except DpcovError as error:
            _fail(str(error), error.exit_code, error)
        except KeyboardInterrupt as error:
            _fail("Interrupted.", INTERRUPTED, error)
        except MemoryError as error:
            _fail("Not enough memory. Use fewer columns or a larger machine.", 1, error)
        except OSError as error:
            # A closed pipe ends quietly; an error without a number is not the system's.
            if error.errno in (None, errno.EPIPE):
                raise
            _fail(f"A path cannot be used: {reason_of(error)}. Check the paths.", 1, error)


def _warn(message: Warning | str, *place: Any, **code: Any) -> None:
    # Without the line of code that it comes from.
    _say(f"Warning: {message}")


def _fail(message: str, code: int, error: BaseException) -> NoReturn:
    _tell(message, error)
    # What the calls held must remove its files before the process ends.
    traceback.clear_frames(error.__traceback__)
    raise typer.Exit(code) from None


def _tell(message: str, error: BaseException) -> None:
    # Say what went wrong, and the pipeline's notes on what was spent and written; a terminal that
    # closed takes no words.
    with contextlib.suppress(OSError):
        for line in (f"Error: {message}", *getattr(error, "__notes__", ())):
            _say(line)


def _say(line: str) -> None:
    # A name in it may come from a file that anybody may have written.
    typer.echo(printable(line), err=True)


def _internal(error: Exception) -> str:
    place = place_of(error)
    return f"""Internal error ({place}). This is a bug in dpcov; please report these words.
The exception's own text is withheld because it may quote your data (DPCOV_DEBUG=1 shows it)."""


app = typer.Typer(
    cls=Commands,
    name="dpcov",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)
_COMMANDS = (
    demo.demo,
    desk.desk,
    plan.plan,
    release.survey,
    release.release,
    plan.mechanisms,
    audit.audit,
)
for _command in _COMMANDS:
    app.command(epilog=example(_command.__name__))(_command)
app.registered_commands += analyst.app.registered_commands
for _module in (schema, ledger, moments):
    app.add_typer(_module.app, name=_module.__name__.rpartition(".")[2])


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"dpcov {version('dpcov')}")
        raise typer.Exit


_VERSION = option("version", callback=_version, is_eager=True)


@app.callback()
def main(version: Annotated[bool, _VERSION] = False) -> None:
    """Release the covariance matrix of a sensitive table once, under differential privacy."""


def run() -> None:
    """Entry point of the ``dpcov`` script."""
    _interrupt_on("SIGTERM", "SIGHUP")
    try:
        app()
    except SystemExit as stop:
        if isinstance(stop.code, int) and stop.code:
            _leave(stop.code)
        raise
    # What no command foresaw: sealed, since its text may quote a row.
    except Exception as error:
        if os.environ.get("DPCOV_DEBUG"):
            raise
        _tell(_internal(error), error)
        _leave(INTERNAL_ERROR)


def _interrupt_on(*names: str) -> None:
    # Schedulers stop a job with SIGTERM, a terminal that closes with SIGHUP; like Ctrl-C neither
    # may leave a half-written file behind.  What a job was told to ignore (nohup) is left alone.
    for number in (getattr(signal, name) for name in names if hasattr(signal, name)):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def _leave(code: int) -> NoReturn:
    # The interpreter's own end aborts while a reader thread still waits for standard input.  No
    # thread removes its folder any more, and rows may be in it.
    remove_folders()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)
