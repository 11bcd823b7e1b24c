"""The right of an estimator to spend one budget, once.

Contract: the right is used once, from whichever thread.  Clones and copies have none: a clone is what
cross-validation, grid search and refits fit, and the first of them cannot tell that more will follow, so each
is refused before anything is spent, and the original keeps its right.  Knows nothing of tables and releases.
"""

from threading import Lock
from typing import Literal

from dpcov.analysis.problems import SpentError

Origin = Literal["constructed", "cloned", "copied"]

_REASONS = {
    "constructed": (
        "This estimator has already spent its budget; fitting rows again would spend it once more."
    ),
    "cloned": (
        "This estimator is a clone. Cross-validation, grid search and refits fit one clone after another, and each "
        "fit of rows would spend the whole budget, so a clone spends none. Nothing was charged, and the original's "
        "right is as it was."
    ),
    "copied": (
        "This estimator was copied or unpickled, so it cannot know whether its original has already spent the budget. "
        "Make the release once, outside parallel jobs."
    ),
}
_REMEDY = (
    "To try other settings for free, read the release that was made: "
    "{name}.from_release(fitted.release_, ...). To spend again on purpose, construct a new estimator "
    "or set spend_again=True; a ledger keeps the sum."
)


class Spending:
    """A once-only right.

    Parameters
    ----------
    origin : {"constructed", "cloned", "copied"}
        How the estimator that holds it came about; only a constructed one may spend.
    """

    def __init__(self, origin: Origin = "constructed") -> None:
        self._origin = origin
        self._spent = False
        self._lock = Lock()

    def claim(self, name: str) -> None:
        """Use the right up, or refuse; ``name`` is the estimator's."""
        with self._lock:
            if self._spent or self._origin != "constructed":
                raise SpentError(f"{_REASONS[self._origin]} {_REMEDY.format(name=name)}")
            self._spent = True

    def give_back(self) -> None:
        """Restore the right after a refusal that came before any budget was spent."""
        with self._lock:
            self._spent = False
