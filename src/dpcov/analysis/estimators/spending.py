"""Give an estimator the right to spend one budget, once, from whichever thread."""

from threading import Lock
from typing import Literal

from dpcov.analysis.problems import SpentError

Origin = Literal["constructed", "cloned", "copied"]

_REASONS = {
    "constructed": "This estimator has already spent its budget; fitting rows again would spend it "
    "once more.",
    "cloned": "This estimator is a clone. Cross-validation, grid search and refits fit one clone "
    "after another, and each fit of rows would spend the whole budget, so a clone spends none. "
    "Nothing was charged, and the original's right is as it was.",
    "copied": "This estimator was copied or unpickled, so it cannot know whether its original has "
    "already spent the budget. Make the release once, outside parallel jobs.",
}
_REMEDY = (
    "To try other settings for free, read the release that was made: "
    "{name}.from_release(fitted.release_, ...). To spend again on purpose, construct a new "
    "estimator or set spend_again=True; a ledger keeps the sum."
)


class Spending:
    """A right to be used once, and only by an estimator that was constructed."""

    # A clone is what grid search fits, and the first clone cannot tell that more will follow.
    def __init__(self, origin: Origin = "constructed") -> None:
        self._origin, self._spent, self._lock = origin, False, Lock()

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
