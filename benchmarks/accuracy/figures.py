"""Drawings of the comparison, as SVG and PNG: ratios of all points, and error curves where the
budget varies."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.accuracy.measure import Measurement
from benchmarks.accuracy.report import Point, geometric_mean

CURVES = ("Amin",)
"""Groups of populations, by how their names begin, that are drawn as error against budget too."""


def draw_ratios(path: Path, found: Sequence[Point], title: str, limit: float) -> None:
    """One dot per point, one line per group: the ratio to the best rival, and the distance to the
    oracle."""
    from matplotlib.figure import Figure

    groups = list(dict.fromkeys(point.group for point in found))[::-1]
    figure = Figure(figsize=(12, 1.4 + 0.35 * len(groups)), layout="constrained")
    ratios, floors = figure.subplots(1, 2, sharey=True)
    for height, group in enumerate(groups):
        members = [point for point in found if point.group == group]
        offsets = height + np.linspace(-0.25, 0.25, len(members))
        colors = ["tab:gray" if point.best_rival == "zero" else "tab:blue" for point in members]
        for axes, name in ((ratios, "ratio"), (floors, "oracle")):
            values = [getattr(point, name) for point in members]
            errors = [3 * point.uncertainty if name == "ratio" else 0.0 for point in members]
            axes.errorbar(
                values,
                offsets,
                xerr=errors,
                fmt="none",
                ecolor="lightgray",
                linewidth=0.8,
                zorder=1,
            )
            axes.scatter(values, offsets, s=12, c=colors, zorder=2)
            axes.plot(
                [geometric_mean(values)] * 2,
                [height - 0.4, height + 0.4],
                color="tab:orange",
                zorder=3,
            )
    ratios.axvline(limit, color="black", linewidth=0.8)
    ratios.set_yticks(range(len(groups)), groups)
    ratios.set_xlabel(
        "error of auto / best rival, ± 3 standard errors\n(gray: zero is best; bar: geometric mean)"
    )
    floors.set_xlabel("error of auto / oracle on its eigenvectors")
    for axes in (ratios, floors):
        if np.isfinite(axes.dataLim.intervalx).all():
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("{x:g}")
            axes.tick_params(axis="x", which="minor", labelsize=7)
        axes.grid(axis="x", alpha=0.25)
    figure.suptitle(title)
    _save(figure, path)


def swept(measured: Sequence[Measurement]) -> list[str]:
    """Groups that are drawn as curves."""
    return list(dict.fromkeys(m.group for m in measured if m.group.startswith(CURVES)))


def draw_curves(path: Path, measured: Sequence[Measurement], group: str) -> None:
    """Relative error of ``auto``, the rivals and references against the budget, a panel for every
    population."""
    from matplotlib.figure import Figure

    cells = [m for m in measured if m.group == group and not m.skipped and m.role != "improved"]
    names = list(dict.fromkeys(m.population for m in cells))
    figure = Figure(figsize=(4.2 * len(names), 4.6), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)
    labels = list(dict.fromkeys(m.contestant for m in cells))
    for axes, name in zip(panels[0], names, strict=True):
        for number, label in enumerate(labels):
            curve = [m for m in cells if m.population == name and m.contestant == label]
            axes.plot(
                [float(m.budget.split("=")[1].split()[0]) for m in curve],
                [m.relative for m in curve],
                label=label,
                color="black" if label == "auto" else f"C{number % 10}",
                linewidth=2.2 if label == "auto" else 1.0,
                linestyle=":" if curve and curve[0].role == "reference" else "-",
                marker="osD^v"[number // 10],
                markersize=3,
            )
        axes.set_title(name)
        axes.set_xlabel("epsilon")
        axes.set_xscale("log")
        axes.set_yscale("log")
    panels[0][0].set_ylabel("Frobenius error / norm of the matrix")
    handles, shown = panels[0][0].get_legend_handles_labels()
    figure.legend(
        handles, shown, loc="outside lower center", ncols=2 * len(names), frameon=False, fontsize=8
    )
    _save(figure, path)


def _save(figure, path: Path) -> None:
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=150)
