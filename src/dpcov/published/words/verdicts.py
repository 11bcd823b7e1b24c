"""What is said of the columns of a release: verdicts, and one sentence on all.

Contract: records of what ``diagnosis.diagnose`` found, and how they read.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any, Literal, get_args

from dpcov.markup import CELL, card, el, listing, name_of
from dpcov.privacy.guarantee import NOTHING
from dpcov.published.digits import plural, plus_minus

Verdict = Literal["suspicious", "lost", "weak", "good", "unknown"]
ORDER: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True)
class ColumnVerdict:
    """What can be read from one column of the matrix.

    ``within`` is what 95 of 100 errors of its correlations with columns that can be used are
    smaller than, at the median; ``smallest`` the smallest spread that shows.  Means, spreads and
    their noise are in the column's unit; ``missing`` is the part of the rows without a value, where
    the schema marks them; NaN where not known.
    """

    name: str
    source: str
    verdict: Verdict
    cause: str
    advice: str
    mean: float
    mean_noise: float
    spread: float
    spread_noise: float
    smallest: float
    within: float
    missing: float = nan
    missing_noise: float = nan
    unit: str = field(default="", kw_only=True)

    @property
    def in_unit(self) -> str:
        """The name with the unit: ``weight [kg]``."""
        return f"{self.name} [{self.unit}]" if self.unit else self.name

    @property
    def usable(self) -> bool:
        """Whether anything can be read from the column."""
        return self.verdict in ("good", "weak")

    @property
    def hidden(self) -> bool:
        """Whether noise alone may have made its spread."""
        return self.verdict in ("lost", "suspicious") and not self.spread >= self.smallest


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The verdict on every column of a release, and one sentence on all.

    ``typical`` and ``worst`` say what 95 of 100 errors of a correlation of two usable columns are
    smaller than; NaN where there are no two.  ``remarks`` are about the weights.  Without means,
    spreads are root mean squares.
    """

    columns: tuple[ColumnVerdict, ...]
    typical: float
    worst: float
    remarks: tuple[str, ...] = ()
    knows_means: bool = True

    @property
    def headline(self) -> str:
        """What can be read, in one sentence."""
        if all(column.cause == NOTHING for column in self.columns):
            return NOTHING
        count, usable = len(self.columns), sum(column.usable for column in self.columns)
        if all(column.verdict == "unknown" for column in self.columns):
            return "This release does not say how large its noise is."
        wrong = sum(column.verdict == "suspicious" for column in self.columns)
        look = f"{wrong} look{'s' * (wrong == 1)} like a mistake"
        if not usable:
            why = look if wrong else f"the noise hides {'it' if count == 1 else 'them'}"
            return f"None of {plural(count, 'column')} can be used: {why}."
        told = f"{usable} of {plural(count, 'column')} can be used{f' ({look})' * bool(wrong)}"
        if isnan(self.typical):
            return f"{told}."
        sizes = f"±{plus_minus(self.typical)} (typical), ±{plus_minus(self.worst)} (worst)"
        return f"{told}; their correlations are within {sizes}."

    def to_frame(self) -> Any:
        """As a pandas data frame, indexed by name."""
        import pandas as pd  # type: ignore[import-untyped]

        rows = [vars(column) for column in self.columns]
        return pd.DataFrame(rows).set_index("name")

    def by_finding(self) -> Iterator[tuple[list[str], ColumnVerdict]]:
        """Names of columns of which the same is said, and the first; worst verdicts first.

        All columns made of one column of the table, if there are several, have its name.
        """
        made_of = Counter(column.source for column in self.columns)
        found: dict[tuple[str, ...], list[ColumnVerdict]] = {}
        for column in sorted(self.columns, key=lambda column: ORDER.index(column.verdict)):
            if column.cause:
                found.setdefault((column.verdict, column.cause, column.advice), []).append(column)
        for each in found.values():
            alike = Counter(column.source for column in each)
            whole = {source for source, count in alike.items() if 1 < count == made_of[source]}
            names = (c.source if c.source in whole else c.name for c in each)
            yield list(dict.fromkeys(names)), each[0]

    def __str__(self) -> str:
        width = max((len(column.name) for column in self.columns), default=0)
        lines = [f"{c.name:<{width}}  {c.verdict:<10}  {c.cause}" for c in self.columns]
        return "\n".join([self.headline, *self.remarks, *(line.rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        worst_first = sorted(self.columns, key=lambda column: ORDER.index(column.verdict))
        rows = [(name_of(c.in_unit, CELL), c.verdict, c.cause, c.advice) for c in worst_first]
        head = ("Column", "Verdict", "Why", "What would help")
        caption = "What can be read from every column; to_frame() has the numbers"
        told = [el("p", sentence) for sentence in (self.headline, *self.remarks)]
        table = listing(head, rows, caption, text=(1, 2, 3))
        return card("Diagnosis", f"of {plural(len(rows), 'column')}", told, table)
