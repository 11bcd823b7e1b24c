"""The right of an estimator, and of everything cloned from it, to spend one budget.

Promise: an identity is spent once, whichever clone spends it and from whichever thread; copies whose history cannot be
known, such as unpickled ones in another process, may not spend at all.  Knows nothing of tables and releases.
"""

from threading import Lock

from dpcov.analysis.problems import SpentError

_REMEDY = (
    "To try other settings for free, read the release that was made: "
    "{name}.from_release(fitted.release_, ...). To spend again on purpose, construct a new estimator "
    "or set spend_again=True; a ledger keeps the sum."
)


class Spending:
    """A once-only right.

    Parameters
    ----------
    known : bool
        False where the copy cannot know whether its original has spent already.
    """

    def __init__(self, *, known: bool = True) -> None:
        self._known = known
        self._spent = False
        self._lock = Lock()

    def claim(self, name: str) -> None:
        """Use the right up, or refuse; ``name`` is the estimator's."""
        with self._lock:
            if not self._known:
                raise SpentError(
                    "This estimator was copied or unpickled, so it cannot know whether its original has already spent "
                    "the budget. Make the release once, outside parallel jobs. " + _REMEDY.format(name=name)
                )
            if self._spent:
                raise SpentError(
                    "This estimator, or one that it was cloned from or into, has already spent its budget; fitting "
                    "rows again (refit, cross-validation, grid search) would spend it once more. "
                    + _REMEDY.format(name=name)
                )
            self._spent = True

    def give_back(self) -> None:
        """Restore the right after a refusal that came before any budget was spent."""
        with self._lock:
            self._spent = False
