"""Sum up a regression in a table, as statistical software does, with the privacy noise in it.

Contract: reads a fitted model; costs no privacy.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpcov.analysis.intervals.table import Interval, IntervalTable
from dpcov.errors import printable
from dpcov.markup import CELL, Child, card, el, facts, listing, name_of, shorten

_HEAD = ("coef", "std err", "sampling", "privacy")
_WIDTH, _LONGEST = 12, 40
NOTES = (
    "coef: what the model predicts with; intervals start from the estimate before post-processing.",
    "std err: both parts together; sampling: which rows are in the table; privacy: the noise.",
)
R2_ENDS = "Interval of R²: for what the model explains if no noise is in its coefficients."
NO_R2_ENDS = "The noise moves R² about zero, too, and no interval says how far."


@dataclass(frozen=True, kw_only=True, eq=False)
class RegressionSummary:
    """Coefficients of a regression with their standard errors and intervals, and its fit.

    Prints as text, and shows itself in notebooks.

    Attributes
    ----------
    title : str
    facts : tuple of pairs of str
        Rows, guarantee, R² and what else belongs to all coefficients.
    r2 : tuple of float
        Of every target, NaN where the noise hides it; of ``PrivateRidge`` on new rows.
    r2_intervals : tuple of Interval
        For R² of every target if no noise is in the coefficients: of least squares, or of the
        penalty in use.  Empty without an intercept.
    tables : tuple of IntervalTable
        One for each target.
    notes : tuple of str
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    r2: tuple[float, ...]
    r2_intervals: tuple[Interval, ...]
    tables: tuple[IntervalTable, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        names = [shorten(row.name, _LONGEST) for table in self.tables for row in table.rows]
        width = max(map(len, names), default=0)
        rule = "=" * (width + _WIDTH * (len(_HEAD) + 2))
        label = max(len(name) for name, _ in self.facts)
        lines = [self.title, rule, *(f"{name:<{label}}  {value}" for name, value in self.facts)]
        for table in self.tables:
            cells = "".join(f"{word:>{_WIDTH}}" for word in (*_HEAD, *_ends(table.level)))
            heading = [table.what] if len(self.tables) > 1 else []
            lines += [rule, *heading, " " * width + cells, "-" * len(rule)]
            for row in table.rows:
                numbers = "".join(f"{number:>{_WIDTH}}" for number in _numbers(row))
                lines.append(f"{shorten(row.name, _LONGEST):<{width}}{numbers}")
        return printable("\n".join([*lines, rule, *self.notes]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        made: list[Child] = [
            listing(
                ("", *_HEAD, *_ends(table.level)),
                [(name_of(row.name, CELL), *_numbers(row)) for row in table.rows],
                table.what,
            )
            for table in self.tables
        ]
        return card(
            "Regression",
            self.title,
            facts(self.facts),
            *made,
            [el("p", said) for said in self.notes],
        )


def with_coefficients(table: IntervalTable, coefficients: Sequence[float]) -> IntervalTable:
    """The same intervals beside what the model predicts with."""
    pairs = zip(table.rows, coefficients, strict=True)
    return replace(table, rows=tuple(replace(row, estimate=own) for row, own in pairs))


def _ends(level: float) -> tuple[str, str]:
    tail = (1 - level) / 2
    return f"[{tail:.4g}", f"{1 - tail:.4g}]"


def _numbers(row: Interval) -> list[str]:
    values = (row.estimate, row.std_error, row.sampling_std, row.privacy_std, row.lower, row.upper)
    return [f"{value:.4g}" for value in values]
