"""Work in the background, with a number of steps done, that can be stopped.

Contract: a job that is stopped or fails leaves what the command would leave: before the charge
nothing, after it a spent budget, and the message says which.
"""

import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dpcov.errors import DpcovError, PrivacyWarning, ReleaseWarning, place_of
from dpcov.published.digits import plural

Tell = Callable[[int, int | None], None]
# The job of a thread.
_HERE = threading.local()
_IN_THE_TERMINAL = warnings.showwarning


def hear_warnings() -> None:
    """From now on pages show what a release warns of; the terminal shows what is of others."""
    # Said before the release, by the step of the budget.
    warnings.simplefilter("ignore", PrivacyWarning)
    # Python shows a warning once a place, but every release has its own.
    warnings.simplefilter("always", ReleaseWarning)
    warnings.showwarning = _hear


def _hear(message: Warning | str, category: type[Warning], *place: Any, **code: Any) -> None:
    job = getattr(_HERE, "job", None)
    if job is None or not issubclass(category, ReleaseWarning):
        _IN_THE_TERMINAL(message, category, *place, **code)
    else:
        job.warned.append(str(message))


def counting(tell: Tell) -> Callable[[int], None]:
    """Rows after every block become steps done."""
    done = 0

    def read(rows: int) -> None:
        nonlocal done
        done += rows
        tell(done, None)

    return read


class StoppedError(DpcovError):
    """The person stopped the work."""


@dataclass
class Job:
    """One piece of work in a thread of its own."""

    # For the person who waits.
    what: str
    # Is given a function that is told steps done and steps in all (None where not known), and
    # returns what came of it.
    run: Callable[[Tell], Any]
    # What had been decided when it began.
    decided: Any = None
    made: Any = None
    done: int = 0
    total: int | None = None
    problem: str = ""
    # What the person should know of what was made.
    warned: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> "Job":
        """Begin; returns itself."""
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        return self

    @property
    def running(self) -> bool:
        """Whether it has neither ended nor failed."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def told(self) -> str:
        """How far it is, in words."""
        if self.total:
            return f"{self.done} of {self.total}"
        return f"{plural(self.done, 'row')} read" if self.done else "At work"

    def stop(self) -> None:
        """Ask it to end at the next step."""
        self._stop.set()

    def wait(self) -> None:
        """Until it has ended."""
        if self._thread is not None:
            self._thread.join()

    def _tell(self, done: int, total: int | None = None) -> None:
        if self._stop.is_set():
            raise StoppedError("Stopped.")
        self.done, self.total = done, total

    def _work(self) -> None:
        _HERE.job = self
        try:
            self._tell(0)
            self.made = self.run(self._tell)
        except Exception as error:
            # The notes say whether the budget is spent.
            self.problem = "\n".join([in_words(error), *getattr(error, "__notes__", ())])


def in_words(error: Exception) -> str:
    """What went wrong; the text of an unforeseen error may quote a row."""
    if isinstance(error, DpcovError):
        return str(error)
    if isinstance(error, MemoryError):
        return "Not enough memory. Use fewer columns or a larger machine."
    return f"Internal error ({place_of(error)}). Please report these words."
