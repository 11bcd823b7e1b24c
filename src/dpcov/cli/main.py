"""The ``dpcov`` command: one small module per command, one place where errors become messages and exit codes.

Contract: an error is one screen that says what to do; it never shows a traceback, a local variable or a value
that came from a row.  Heavy imports happen inside the commands, so that ``--help`` is quick.
"""

import errno
import io
import os
import signal
import sys
import traceback
import warnings
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from dpcov.cli import (
    audit,
    demo,
    export,
    ledger,
    mechanisms,
    moments,
    plan,
    record,
    release,
    report,
    sample,
    schema,
    show,
)
from dpcov.errors import DpcovError, PrivacyWarning

INTERNAL_ERROR, INTERRUPTED = 70, 130
EXIT_CODES = """
Exit codes: 0 done · 1 other error · 2 wrong usage · 3 schema · 4 data · 5 budget · 6 ledger · 7 release file ·
8 numerical failure · 9 audit without power · 70 internal error · 130 interrupted.
"""


class Commands(TyperGroup):
    """Turns every expected failure into a short message on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        _print_any_name()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", PrivacyWarning)
                warnings.showwarning = _warn
                return super().invoke(ctx)
        except DpcovError as error:
            _fail(str(error), error.exit_code, error)
        except KeyboardInterrupt as error:
            # The process ends without a farewell: what the interrupted calls held has to remove its files now.
            traceback.clear_frames(error.__traceback__)
            _fail("Interrupted.", INTERRUPTED, error)
        except MemoryError as error:
            _fail("Not enough memory. Use fewer columns or a larger machine.", 1, error)
        except OSError as error:
            if error.errno in (None, errno.EPIPE):
                raise
            # The system's own words; the error's text would hold the path as well.
            _fail(
                f"A path cannot be used: {os.strerror(error.errno).lower()}. Check the paths.",
                1,
                error,
            )


def _warn(
    message: Warning | str, category: object, filename: str, *place: Any, **code: Any
) -> None:
    """Show a warning without the line of code that it comes from."""
    typer.echo(f"Warning: {message}", err=True)


def _print_any_name() -> None:
    """Let names of files be printed that are no text in the screen's encoding."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _fail(message: str, code: int, error: BaseException) -> NoReturn:
    """Say what went wrong, and the pipeline's notes on what was spent and written."""
    for line in (f"Error: {message}", *getattr(error, "__notes__", ())):
        typer.echo(line, err=True)
    raise typer.Exit(code) from None


def _internal(error: Exception) -> str:
    """Type and place only: the text of an unforeseen exception may quote the data."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
    return (
        f"Internal error ({type(error).__name__}{place}). This is a bug in dpcov; please report these words.\n"
        "The exception's own text is withheld because it may quote your data (DPCOV_DEBUG=1 shows it)."
    )


app = typer.Typer(
    cls=Commands,
    name="dpcov",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Release the covariance matrix of a sensitive table once, under differential privacy.",
    epilog=EXIT_CODES,
)
app.command("demo", epilog=demo.EXAMPLE)(demo.demo)
app.add_typer(schema.app, name="schema")
app.command("plan", epilog=plan.EXAMPLE)(plan.plan)
app.command("release", epilog=release.EXAMPLE)(release.release)
app.command("mechanisms", epilog=mechanisms.EXAMPLE)(mechanisms.mechanisms)
app.command("show", epilog=show.EXAMPLE)(show.show)
app.command("report", epilog=report.EXAMPLE)(report.report)
app.command("export", epilog=export.EXAMPLE)(export.export)
app.command("sample", epilog=sample.EXAMPLE)(sample.sample)
app.command("audit", epilog=audit.EXAMPLE)(audit.audit)
app.command("record", epilog=record.EXAMPLE)(record.record)
app.add_typer(ledger.app, name="ledger")
app.add_typer(moments.app, name="moments")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"dpcov {version('dpcov')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """Release the covariance matrix of a sensitive table once, under differential privacy."""


def run() -> None:
    """Entry point of the ``dpcov`` script."""
    # Schedulers stop a job with SIGTERM; like Ctrl-C it must not leave a half-written file behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app()
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            _leave(INTERRUPTED)
        raise
    except Exception as error:
        if os.environ.get("DPCOV_DEBUG"):
            raise
        for line in (f"Error: {_internal(error)}", *getattr(error, "__notes__", ())):
            typer.echo(line, err=True)
        _leave(INTERNAL_ERROR)


def _leave(code: int) -> NoReturn:
    """End without the interpreter's farewell, which aborts when a reader thread still waits for standard input."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
