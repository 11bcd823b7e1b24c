"""Rehearse a release on made-up or public rows, and say what could be read from it.

Contract: never sees a sensitive row.  A release of r times as many rows is rehearsed with noise
that is r times as small, as what it gives is the same.  Randomness is seeded and protects nobody.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import cycle
from math import ceil, exp, expm1, inf, isnan, log, sqrt
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from dpcov.data.dates import days_of_numbers
from dpcov.data.geometry import Geometry
from dpcov.data.schema.declared import Boolean, Categorical, Date
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import open_source
from dpcov.errors import PrivacyWarning, UsageError
from dpcov.mechanisms.geometry.budget_split import one_gaussian
from dpcov.noise.entropy import SeededEntropy
from dpcov.pipeline.table import release
from dpcov.privacy.budget import LARGEST_EPSILON, LARGEST_RHO, Budget, budget_of
from dpcov.privacy.calibrate import gaussian_delta, gaussian_noise_multiplier
from dpcov.privacy.guarantee import ZCDP, Neighbors, PureDP
from dpcov.privacy.together import gaussian_epsilon
from dpcov.published.digits import percent, plus_minus
from dpcov.published.file.columns import EncodedColumn
from dpcov.published.release import Release
from dpcov.published.words.numbers import WITHIN
from dpcov.published.words.summary import LIGHTS, short_name
from dpcov.published.words.verdicts import ColumnVerdict, Diagnosis

# Is told the number of rehearsals done, and that of all.
Tell: TypeAlias = Callable[[int, int], None]

SPREAD = 1 / 8
"""Assumed spread of a number, as a part of the width of its bounds."""

# Logarithms' deviations of numbers that are made up, in turn: tables have columns with long tails,
# and of those a release loses more than of normal ones (docs/report.md).
TAILS = (0.5, 1.2)
# Assumed parts of the rows: a yes, and a missing value where those are marked.
YES, MISSING = 0.3, 0.02
# Of weights that are made up: their mean over their upper, and their logarithms' deviation at most.
WEIGHT_SHARE, WEIGHT_TAIL = 1 / 8, 0.84
# Rows that are made up at most, and numbers in them.
MOST_ROWS, MOST_CELLS = 10_000, 1_000_000
# Levels that a long list of them is merged into.
FEW_LEVELS = 3
# Budgets with which noise is still hundreds of times as coarse as the grid that it is on.
_FINEST_EPSILON, _FINEST_RHO = Fraction(10**6), Fraction(10**12)
# Least part of a width that is worth a column.
_WORTH = 0.1
# Part of the encoded columns that must go for noise to become smaller by a tenth, or nearly so.
_MANY = 0.05
# Of a search for rows: steps, how close it ends, growth where all is hidden, and how far it goes.
_STEPS, _CLOSE, _UNSEEN, _FURTHEST = 12, 1.1, 4.0, 1000.0


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """A release as it is planned.

    Parameters
    ----------
    schema : Schema
    n_rows : int
        Of the sensitive table, at least roughly.
    public : path, data frame or another table, optional
        Public rows like those of the table; by default rows are made up.
    n_public : int
        How many there are.
    spread : float
        Assumed standard deviation of numbers that are made up, over the width of their bounds.
    weight_share : float
        Assumed mean of weights that are made up, over their upper.
    tails : mapping of str to float
        Of numbers that are made up: standard deviations of their logarithms; by default `TAILS`.
    neighbors, geometry, options
        As the release will have them; ``options`` are those of the mechanism, its name and ``by``.
    """

    schema: Schema
    n_rows: int
    public: Any = None
    n_public: int = 0
    spread: float = SPREAD
    weight_share: float = WEIGHT_SHARE
    tails: Mapping[str, float] = field(default_factory=dict)
    neighbors: Neighbors = "replace-one"
    geometry: Geometry | str = "private"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.spread <= 1:
            raise UsageError("An assumed spread is a part of the width of the bounds: (0, 1].")
        if not 0 < self.weight_share <= 1:
            raise UsageError("An assumed mean weight is above 0, and at most the weights' upper.")
        if self.n_rows < 1:
            raise UsageError("A plan needs a number of rows, at least 1.")
        self.schema.require_complete()
        if not self.tails:
            # Short and long tails in turn.  What is compared with a rehearsal of fewer columns has
            # the tails that it had.
            tails = dict(zip(self.schema.features, cycle(TAILS), strict=False))
            object.__setattr__(self, "tails", tails)

    def at(self, budget: Budget, factor: float = 1.0) -> "Planned":
        """What could be read with this budget from ``factor`` times as many rows."""
        rows, count = self.public, self.n_public
        if rows is None:
            most = min(MOST_ROWS, MOST_CELLS // len(self.schema.encoded_columns))
            count = max(1, min(most, ceil(self.n_rows * factor)))
            rows = self.made_up(count)
        ratio = Fraction(self.n_rows) * Fraction(factor) / count
        # The release would warn of what `assumptions` says.
        keeps_bounds = self.geometry == "private" and self.schema.norm_bound is not None
        with warnings.catch_warnings():
            # Nobody's rows are in a rehearsal, so a large epsilon harms nobody here.
            warnings.simplefilter("ignore", PrivacyWarning)
            made = release(
                rows,
                schema=self.schema,
                budget=_sharper(budget, ratio),
                neighbors=self.neighbors,
                geometry="schema" if keeps_bounds else self.geometry,
                entropy=SeededEntropy(0),
                **self.options,
            )
        return Planned.of(_one_group(made) if made.group_names else made)

    def made_up(self, n_rows: int) -> pa.Table:
        """Independent columns: numbers with tails to one side, equally frequent levels."""
        schema, rng = self.schema, np.random.default_rng(0)
        columns: dict[str, Any] = {}
        for name, kind in schema.features.items():
            values: Any
            if isinstance(kind, Categorical):
                texts = np.array([kind.spelling_of(level) for level in kind.levels])
                values = texts[rng.integers(len(texts), size=n_rows)]
            elif isinstance(kind, Boolean):
                values = rng.random(n_rows) < YES
            else:
                lower, upper = kind.lower or 0.0, kind.upper or 0.0
                tail = self.tails[name]
                skewed = np.exp(tail * rng.normal(size=n_rows)) - exp(tail**2 / 2)
                skewed /= exp(tail**2 / 2) * sqrt(expm1(tail**2))
                values = lower / 2 + upper / 2 + self.spread * (upper - lower) * skewed
                if isinstance(kind, Date):
                    days = days_of_numbers(values, kind.as_, kind.reference)
                    values = days.astype("datetime64[D]")
            is_marked = schema.missing_of(name) == "indicator"
            columns[name] = pa.array(values, mask=rng.random(n_rows) < MISSING * is_marked)
        if schema.weights is not None:
            # As those of surveys are: few are as large as the largest.
            mean = self.weight_share
            tail = min(WEIGHT_TAIL, abs(log(mean)) / 2)
            shares = np.minimum(mean * rng.lognormal(-(tail**2) / 2, tail, size=n_rows), 1.0)
            columns[schema.weights.column] = pa.array(shares * (schema.weights.upper or 0.0))
        return pa.table(columns)

    def needed(self, budget: Budget, within: float, planned: "Planned | None" = None) -> float:
        """How many times as many rows correlations are typically within this; inf if too many.

        ``planned`` is what `at` says of this budget, if that is known already.
        """
        too_few, enough, factor = 0.0, inf, 1.0
        for _ in range(_STEPS):
            typical, planned = (planned or self.at(budget, factor)).diagnosis.typical, None
            if typical <= within:
                enough = factor
            else:
                too_few = factor
            if enough <= _CLOSE * too_few or too_few >= _FURTHEST:
                break
            # Widths are about as many times as small, and nothing is seen of what is hidden.
            guess = min(_FURTHEST, factor * (_UNSEEN if isnan(typical) else typical / within))
            low, high = too_few or enough / 16, min(enough, 16 * too_few or inf)
            factor = guess if 1.02 * too_few < guess < enough / 1.02 else sqrt(low * high)
        return enough

    def cheaper(self, *, lost: bool = False) -> Iterator[tuple[str, "Rehearsal"]]:
        """The same with less: without weights, without a column, or with few of its levels.

        Noise is in proportion to encoded columns, so it is only tried where many of them go.  Where
        all is ``lost``, every second column goes, or three of four.
        """
        encoded = [column.source for column in self.schema.encoded_columns]
        weights = None if self.schema.weights is None else self.schema.weights.column
        by = self.options.get("by")
        names = [name for name in self.schema.features if name not in (weights, by)]
        if weights is not None:
            kept = {name: kind for name, kind in self.schema.columns.items() if name != weights}
            yield "without the weights", self._with(kept, weights=None)
        for part, step in (("half", 2), ("a quarter", 4)) if lost else ():
            left_out = set(names) - set(names[::step])
            kept = {
                name: kind for name, kind in self.schema.columns.items() if name not in left_out
            }
            if len(names) >= 2 * step:
                yield f"with {part} of the columns", self._with(kept)
        names.sort(key=lambda name: -encoded.count(name))
        for name in names[:3] if len(names) > 2 else []:
            columns = dict(self.schema.columns)
            kind, own = columns.pop(name), encoded.count(name)
            if own < _MANY * len(encoded):
                return
            yield f"without {short_name(name)}", self._with(columns)
            if self.public is not None or not isinstance(kind, Categorical):
                continue
            if len(kind.levels) > FEW_LEVELS + 1:
                few = Categorical(categories=kind.levels[:FEW_LEVELS], missing=kind.missing)
                said = (
                    f"with {FEW_LEVELS} levels of {short_name(name)} instead of {len(kind.levels)}"
                )
                yield said, self._with({**self.schema.columns, name: few})

    def gains(self, budget: Budget, planned: "Planned", progress: Tell) -> list[str]:
        """What correlations would gain with less, where that shows, in sentences."""
        typical = planned.diagnosis.typical
        now = plus_minus(typical)
        instead = "where nothing shows now" if isnan(typical) else f"instead of ±{now}"
        told = []
        cheaper = list(self.cheaper(lost=isnan(typical)))
        for done, (what, less) in enumerate(cheaper, start=1):
            then = less.at(budget).diagnosis.typical
            progress(done, len(cheaper))
            if not (isnan(then) or then >= (1 - _WORTH) * typical or plus_minus(then) == now):
                told.append(f"{what[0].upper()}{what[1:]}: ±{plus_minus(then)} {instead}.")
        return told

    def assumptions(self, planned: "Planned") -> list[str]:
        """What the numbers rest on, in sentences."""
        if self.public is not None:
            told = "Rehearsed on public rows; those of the table were not read."
        else:
            is_weighted = self.schema.weights is not None
            is_usual = self.weight_share == WEIGHT_SHARE
            part = "an eighth" if is_usual else f"{self.weight_share:.2g}"
            told = (
                "Rehearsed on made-up rows; no data were read. Assumed: independent columns, "
                "numbers with long tails and a spread of "
                f"{self.spread:.3g} of the width of their bounds, "
                "equally frequent levels, yes in three of ten rows"
                f"{f', weights {part} of their upper on average' * is_weighted}."
            )
        scales = (
            "Scales are found for a part of the budget, so any spread shows ('any'), except where "
            "the noise hides the column."
            if planned.scales_are_found
            else f"Scales are those of the bounds: {self._why_bounds()}."
        )
        groups = "What is said is of one group, the one of middle size, as it is released."
        return [
            told,
            *[groups] * bool(self.options.get("by")),
            scales,
            "Nothing was spent.  ± holds 95 of 100 errors that noise and scaling down make.",
        ]

    def _why_bounds(self) -> str:
        if self.geometry == "schema":
            return "you said so"
        if self.schema.norm_bound is not None:
            return "the schema has a norm_bound"
        if all(isinstance(kind, Boolean | Categorical) for kind in self.schema.features.values()):
            return "all columns have levels"
        return "they fit as well, or rows are too few for this budget to find others"

    def _with(self, columns: Mapping[str, Any], **more: Any) -> "Rehearsal":
        schema = msgspec.structs.replace(self.schema, columns=dict(columns), **more)
        return replace(self, schema=schema)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The diagnosis of a rehearsal, whether scales were found, and the smallest that will show.

    That is a spread in the column's unit, or for levels a part of the rows.
    """

    diagnosis: Diagnosis
    scales_are_found: bool
    smallest: tuple[str, ...]

    @property
    def cells(self) -> list[list[str]]:
        """Verdict, ± of correlations and of the mean, and smallest spread, for each column."""
        return [
            [LIGHTS[c.verdict], plus_minus(c.within), _size(WITHIN * c.mean_noise), least]
            for c, least in zip(self.diagnosis.columns, self.smallest, strict=True)
        ]

    @classmethod
    def of(cls, made: Release) -> "Planned":
        """What a rehearsal's release says."""
        found, columns = made.diagnose(), made.features
        smallest = map(_smallest, columns, found.columns)
        are_found = any(column.lower is not None for column in columns)
        return cls(diagnosis=found, scales_are_found=are_found, smallest=tuple(smallest))


def _one_group(made: Release) -> Release:
    """The group of middle size."""
    groups = sorted(map(made.group, made.group_names), key=lambda group: group.n_rows)
    return groups[len(groups) // 2]


def _size(value: float) -> str:
    return "–" if isnan(value) else f"{value:.2g}"


def _smallest(column: EncodedColumn, verdict: ColumnVerdict) -> str:
    spread = verdict.smallest
    if isnan(spread):
        return "–"
    if column.kind == "numeric":
        is_found = column.lower is not None and not verdict.hidden
        return "any" if is_found else _size(spread)
    # Of two values that p and 1 - p of the rows have: spread**2 = p (1 - p).
    return percent((1 - sqrt(1 - 4 * spread**2)) / 2) if spread < 0.5 else "–"


def count_rows(public: Path, schema: Schema) -> int:
    """How many rows a public table has."""
    first = next(iter(schema.features))
    source = open_source(public, schema.file)
    return sum(map(len, source.blocks(2**16, wanted={first: "text"})))


def needed_epsilon(budget: Budget, factor: float) -> Fraction | None:
    """Epsilon or rho with as little noise as so many times as many rows; None if above the most."""
    if isinstance(budget.promise, ZCDP | PureDP):
        amount = budget.rho or budget.epsilon or Fraction(0)
        found = amount * Fraction(factor) ** (2 if budget.rho else 1)
        return found if found <= (LARGEST_RHO if budget.rho else LARGEST_EPSILON) else None
    epsilon, delta = budget.promise.epsilon, budget.promise.delta
    wanted = gaussian_noise_multiplier(epsilon, delta) / Fraction(factor)
    # Found at once: a search far beyond takes a second.
    is_enough = gaussian_delta(wanted, LARGEST_EPSILON) <= delta
    return gaussian_epsilon(wanted, delta) if is_enough else None


def _sharper(budget: Budget, ratio: Fraction) -> Budget:
    """The budget with which noise is so many times as small, as far as the grid allows.

    It may be larger than anybody's: nobody's rows are in a rehearsal.
    """
    cost = one_gaussian(budget.promise)
    if isinstance(cost, PureDP):
        return budget_of(PureDP(epsilon=min(_FINEST_EPSILON, cost.epsilon * ratio)))
    return budget_of(ZCDP(rho=min(_FINEST_RHO, cost.rho * ratio**2)))
