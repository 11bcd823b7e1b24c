"""Ratios of measured errors as tables and CSV files."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.accuracy.measure import Measurement

TIE = 1.002
"""Errors this close are equal: two estimates that are both zero differ in rounding."""

SIGNIFICANT = 3.0
"""A ratio is significantly above a limit when it exceeds it by so many standard errors."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One population at one budget: ours against the best rival.

    ``ratio`` is the quotient of mean errors and ``uncertainty`` its standard error. ``oracle`` is
    ours over the error of the oracle that knows the truth and keeps the noisy eigenvectors.
    ``improved`` is ours over the best of all others, those included that use this package's own
    noise and post-processing. A rival within the tie margin of the zero matrix counts as ``zero``.
    """

    group: str
    population: str
    budget: str
    ours: float
    best: float
    best_rival: str
    ratio: float
    uncertainty: float
    oracle: float
    improved: float
    best_improved: str
    repetitions: int

    def above(self, limit: float) -> bool:
        return self.ratio > TIE * limit

    def significantly_above(self, limit: float) -> bool:
        return self.above(limit) and self.ratio - SIGNIFICANT * self.uncertainty > limit

    def row(self) -> dict[str, object]:
        return asdict(self)


def points(measurements: Iterable[Measurement]) -> list[Point]:
    """Compare at every population and budget where both ours and a rival were measured."""
    cells: dict[tuple[str, str, str], list[Measurement]] = defaultdict(list)
    for measurement in measurements:
        if not measurement.skipped and measurement.role != "reference":
            cells[measurement.group, measurement.population, measurement.budget].append(measurement)
    compared = [_point(key, cell) for key, cell in cells.items()]
    return [point for point in compared if point is not None]


def _point(key: tuple[str, str, str], cell: Sequence[Measurement]) -> Point | None:
    ours = next((m for m in cell if m.role == "ours"), None)
    others = [m for m in cell if m.role != "ours" and not m.dropped]
    rivals = [m for m in others if m.role == "rival"]
    if ours is None or not rivals:
        return None
    best = min(rivals, key=lambda m: m.error)
    improved = min(others, key=lambda m: m.error)
    zero = next((m for m in rivals if m.contestant == "zero"), best)
    if zero.error <= TIE * best.error:
        best = zero
    return Point(
        group=key[0],
        population=key[1],
        budget=key[2],
        ours=ours.error,
        best=best.error,
        best_rival=best.contestant,
        ratio=ours.error / best.error,
        uncertainty=ratio_error(np.array(ours.errors), np.array(best.errors)),
        # A single column has no direction to be wrong about: its floor is the rounding to the
        # lattice.
        oracle=ours.error / ours.oracle if ours.oracle > 0 and ours.d > 1 else float("nan"),
        improved=ours.error / improved.error,
        best_improved=improved.contestant,
        repetitions=ours.repetitions,
    )


def ratio_error(ours: np.ndarray, best: np.ndarray) -> float:
    """Standard error of the quotient of two means, by linearization; equal numbers of repetitions
    share their draws."""
    ratio, count = ours.mean() / best.mean(), len(ours)
    if len(best) == count:
        spread = float(np.std(ours - ratio * best, ddof=1)) / count**0.5 if count > 1 else 0.0
    else:
        parts = [
            np.std(v, ddof=1) / len(v) ** 0.5 if len(v) > 1 else 0.0 for v in (ours, ratio * best)
        ]
        spread = float(np.hypot(*parts))
    return spread / float(best.mean())


def geometric_mean(ratios: Iterable[float]) -> float:
    kept = [ratio for ratio in ratios if np.isfinite(ratio) and ratio > 0]
    return float(np.exp(np.mean(np.log(kept)))) if kept else float("nan")


def table(found: Sequence[Point], limit: float) -> str:
    """Every point, then the groups' summary; points above ``limit`` are marked."""
    width = max((len(f"{p.group}: {p.population}") for p in found), default=10)
    lines = [f"{'point':<{width}}  {'budget':<24} ratio  ±      oracle  improved  n    best rival"]
    lines += [
        f"{point.group + ': ' + point.population:<{width}}  {point.budget:<24} {point.ratio:.3f}  "
        f"{point.uncertainty:.3f}  {point.oracle:6.3f}  {point.improved:8.3f}  "
        f"{point.repetitions:<3}  "
        f"{point.best_rival}{_mark(point, limit)}"
        for point in found
    ]
    return "\n".join([*lines, "", *summary(found, limit)])


def _mark(point: Point, limit: float) -> str:
    if not point.above(limit):
        return ""
    return f"   <-- above {limit:g}" + (
        "" if point.significantly_above(limit) else ", within the noise"
    )


def summary(found: Sequence[Point], limit: float) -> list[str]:
    """A Markdown table: counts and geometric means by group, apart for points whose best rival is,
    or is not, zero."""
    lines = [
        f"| group | points | mean r | zero is not best: points, mean, largest, above {limit:g} "
        f"(significantly) "
        f"| zero is best: the same | over the oracle: mean, largest | over improved rivals: "
        f"mean, largest |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for group in (*dict.fromkeys(point.group for point in found), "all"):
        members = [point for point in found if group in (point.group, "all")]
        by_zero = [
            [p for p in members if (p.best_rival == "zero") == zero] for zero in (False, True)
        ]
        cells = [
            group,
            f"{len(members)}",
            f"{geometric_mean(p.ratio for p in members):.3f}",
            *(_counts(part, limit) for part in by_zero),
            *(
                f"{geometric_mean(getattr(p, name) for p in members):.3f}, "
                f"{_largest(getattr(p, name) for p in members):.3f}"
                for name in ("oracle", "improved")
            ),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _largest(values: Iterable[float]) -> float:
    return max((value for value in values if np.isfinite(value)), default=float("nan"))


def _counts(part: Sequence[Point], limit: float) -> str:
    if not part:
        return ""
    ratios = [point.ratio for point in part]
    above = sum(point.above(limit) for point in part)
    surely = sum(point.significantly_above(limit) for point in part)
    return f"{len(part)}: {geometric_mean(ratios):.3f}, {max(ratios):.3f}, {above} ({surely})"


def remarks(measurements: Sequence[Measurement]) -> list[str]:
    """Who did not compete, once per reason, and who was not repeated to the end."""
    reasons = dict.fromkeys((m.contestant, m.skipped) for m in measurements if m.skipped)
    lines = [f"not measured: {contestant}: {reason}" for contestant, reason in reasons]
    competed = Counter(m.contestant for m in measurements if not m.skipped)
    dropped: dict[str, list[int]] = defaultdict(list)
    for m in measurements:
        if m.dropped:
            dropped[m.contestant].append(m.repetitions)
    return lines + [
        f"behind the best, not repeated to the end: {contestant}: at {len(counts)} of "
        f"{competed[contestant]} points, "
        f"after {min(counts)} to {max(counts)} repetitions"
        for contestant, counts in dropped.items()
    ]
