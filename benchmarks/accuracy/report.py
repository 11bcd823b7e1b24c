"""Ratios of measured errors as a table, a CSV file and a figure."""

import csv
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from benchmarks.accuracy.measure import Measurement

TIE = 1.002
"""Errors this close are equal: two estimates that are both zero differ in rounding."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One population at one budget: ours against the best rival.

    ``ratio`` is the quotient of mean errors and ``uncertainty`` its standard error.  ``oracle`` is ours over the error
    of the oracle that knows the truth and keeps the noisy eigenvectors.  ``improved`` is ours over the best of all
    others, those included that use this package's own noise and post-processing.  A rival within the tie margin of the
    zero matrix counts as ``zero``.
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


def points(measurements: Iterable[Measurement]) -> list[Point]:
    """Compare at every population and budget where both ours and a rival were measured."""
    cells: dict[tuple[str, str, str], list[Measurement]] = defaultdict(list)
    for measurement in measurements:
        if not measurement.skipped:
            cells[measurement.group, measurement.population, measurement.budget].append(measurement)
    compared = [_point(key, cell) for key, cell in cells.items()]
    return [point for point in compared if point is not None]


def _point(key: tuple[str, str, str], cell: Sequence[Measurement]) -> Point | None:
    ours = next((m for m in cell if m.role == "ours"), None)
    rivals = [m for m in cell if m.role == "rival"]
    if ours is None or not rivals:
        return None
    best = min(rivals, key=lambda m: m.error)
    everybody = min(m.error for m in cell if m.role != "ours")
    zero = next((m for m in rivals if m.contestant == "zero"), best)
    if zero.error <= TIE * best.error:
        best = zero
    spread = np.hypot(ours.standard_error / max(ours.error, 1e-300), best.standard_error / best.error)
    ratio = ours.error / best.error
    return Point(
        group=key[0],
        population=key[1],
        budget=key[2],
        ours=ours.error,
        best=best.error,
        best_rival=best.contestant,
        ratio=ratio,
        uncertainty=float(ratio * spread),
        oracle=ours.error / ours.oracle if ours.oracle > 0 else float("nan"),
        improved=ours.error / everybody,
    )


def geometric_mean(ratios: Iterable[float]) -> float:
    kept = [ratio for ratio in ratios if np.isfinite(ratio) and ratio > 0]
    return float(np.exp(np.mean(np.log(kept)))) if kept else float("nan")


def table(found: Sequence[Point], limit: float) -> str:
    """Every point, then the groups' geometric means; points above ``limit`` are marked."""
    width = max((len(f"{p.group}: {p.population}") for p in found), default=10)
    lines = [f"{'point':<{width}}  {'budget':<18} ratio  ±      oracle  improved  best rival"]
    lines += [
        f"{point.group + ': ' + point.population:<{width}}  {point.budget:<18} {point.ratio:.3f}  "
        f"{point.uncertainty:.3f}  {point.oracle:6.3f}  {point.improved:8.3f}  {point.best_rival}"
        f"{'   <-- above ' + format(limit, 'g') if point.ratio > TIE * limit else ''}"
        for point in found
    ]
    return "\n".join([*lines, "", *summary(found, limit)])


def summary(found: Sequence[Point], limit: float) -> list[str]:
    """Geometric means by group, over all points and over those whose best rival is not zero."""
    lines = ["group: geometric mean of ratios (points; best rival not zero; largest; distance to oracle)"]
    for group in (*dict.fromkeys(point.group for point in found), "all"):
        members = [point for point in found if group in (point.group, "all")]
        nonzero = geometric_mean(point.ratio for point in members if point.best_rival != "zero")
        means = [
            geometric_mean(getattr(p, field) for p in members) for field in ("ratio", "oracle", "improved")
        ]
        largest = [
            max((getattr(p, field) for p in members), default=np.nan) for field in ("ratio", "improved")
        ]
        lines.append(
            f"{group}: {means[0]:.3f} ({len(members)}; {nonzero:.3f}; {largest[0]:.3f}; {means[1]:.3f}; "
            f"improved {means[2]:.3f}, largest {largest[1]:.3f})"
        )
    above = sum(point.ratio > TIE * limit for point in found)
    return [*lines, f"points above {limit:g}: {above} of {len(found)}"]


def skipped(measurements: Iterable[Measurement]) -> list[str]:
    """Who did not compete, once per reason."""
    reasons = dict.fromkeys((m.contestant, m.skipped) for m in measurements if m.skipped)
    return [f"not measured: {contestant}: {reason}" for contestant, reason in reasons]


def write_csv(path: Path, rows: Sequence[Measurement | Point]) -> None:
    if not rows:
        return
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(rows[0])])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def draw(path: Path, found: Sequence[Point], title: str, limit: float) -> None:
    """One dot per point, one line per group, ratios on a logarithmic axis."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    groups = list(dict.fromkeys(point.group for point in found))[::-1]
    figure, axes = plt.subplots(figsize=(8, 1.2 + 0.35 * len(groups)), layout="constrained")
    for height, group in enumerate(groups):
        ratios = [point.ratio for point in found if point.group == group]
        offsets = height + np.linspace(-0.2, 0.2, len(ratios))
        zero = [point.best_rival == "zero" for point in found if point.group == group]
        colors = np.where(zero, "tab:gray", "tab:blue")
        axes.scatter(ratios, offsets, s=14, c=list(colors))
        axes.plot([geometric_mean(ratios)] * 2, [height - 0.35, height + 0.35], color="tab:orange")
    axes.axvline(limit, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(groups)), groups)
    axes.set_xlabel("error of auto / best rival (gray: best rival is zero; bar: geometric mean)")
    axes.set_title(title)
    figure.savefig(path, dpi=150)
    plt.close(figure)
