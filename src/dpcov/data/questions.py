"""Ask the rows what a mechanism wants to know; there is no other way.

Contract: a question is public: it follows from options and from noise already drawn.  The answer is
exact and **sensitive**, the same integers whatever engine computes it, and all answers are about
the same table.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias, overload

import numpy as np

from dpcov.data.exact.linear import FloatMatrix, LinearMap
from dpcov.data.exact.losses import LossQuestion
from dpcov.data.exact.moments import Moments, MomentsSpec
from dpcov.data.geometry import Geometry
from dpcov.data.histograms import HistogramQuestion, Histograms
from dpcov.errors import DataError, UsageError


@dataclass(frozen=True, kw_only=True)
class MomentsQuestion:
    """The moments of all rows, as they are encoded or after a public linear map.

    One person with k rows moves each answered sscp by at most ``sqrt(2) k`` (replace-one) or ``k``
    (add-remove-one) in Frobenius norm, in units of the squared radius: mapped rows longer than 1
    are scaled down to it.
    """

    spec: MomentsSpec = field(default_factory=MomentsSpec)
    # Applied to every encoded row before it is clipped.
    linear: LinearMap | None = None
    # Whether to sum up a digest of the rows: a table that changes meanwhile is noticed.
    watched: bool = False
    # Centers and scales that a table is encoded in; by default its bounds'.
    geometry: Geometry | None = None
    # Answered by the same pass, about rows that the geometry scales down.
    losses: LossQuestion | None = None


Question: TypeAlias = MomentsQuestion | HistogramQuestion


class Ask:
    """Ask questions of one table; the first answer is kept, and the same question is answered once.

    ``answer`` gathers the answer to a question.
    """

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self._answer = answer
        self._first: tuple[Any, Any] | None = None

    def __repr__(self) -> str:
        return "Ask(<sensitive>)"

    @overload
    def __call__(self, question: MomentsQuestion) -> Moments: ...

    @overload
    def __call__(self, question: HistogramQuestion) -> Histograms: ...

    def __call__(self, question: Question) -> Any:
        """Answer a question; DataError if the table is another one than at the first."""
        if self._first is None:
            self._first = question, self._answer(question)
            return self._first[1]
        asked, first = self._first
        if question == asked:
            return first
        answer = self._answer(question)
        if (answer.n_rows, answer.digest) != (first.n_rows, first.digest):
            raise DataError(
                "The table changed while it was being read again. "
                "Release from a copy that stays as it is."
            )
        return answer

    def under(self, geometry: Geometry | None, losses: LossQuestion | None = None) -> "Ask":
        """Ask the same table, which is watched, for moments in a geometry, and for losses."""
        more = {"geometry": geometry, "losses": losses, "watched": True}
        return Ask(lambda question: self(replace(question, **more)))

    @classmethod
    def saved(cls, moments: Moments) -> "Ask":
        """Answer the one question that the moments were gathered for."""

        def answer(question: Question) -> Moments:
            if question != MomentsQuestion(spec=moments.spec):
                raise UsageError(
                    "These moments were gathered for another mechanism. Gather them again"
                    f"{_options_of(question, moments.spec)}."
                )
            return moments

        return cls(answer)


def _options_of(question: Question, gathered: MomentsSpec) -> str:
    # What `dpcov.moments` is to be told, which knows no mechanism.
    if not isinstance(question, MomentsQuestion) or question.spec == gathered:
        return ""
    names = (each.name for each in fields(MomentsSpec))
    wanted = {name: getattr(question.spec, name) for name in names}
    differ = {name: each for name, each in wanted.items() if each != getattr(gathered, name)}
    told = ", ".join(f"{name}={each}" for name, each in differ.items())
    return f" with {told}"


def digest_of(columns: Iterable[FloatMatrix]) -> int:
    """A **sensitive** number below 2**64 for rows in any order, given column by column."""
    # A polynomial of the cells of a row.
    mixed = np.zeros(1, dtype=np.uint64)
    for column in columns:
        mixed = mixed * np.uint64(_ODD) + np.ascontiguousarray(column).view(np.uint64)
    # A sum of polynomials alone would not change if two rows swapped cells.
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(_ODD)
    mixed ^= mixed >> np.uint64(29)
    return int(np.add.reduce(mixed))


_ODD = 0x9E3779B97F4A7C15
