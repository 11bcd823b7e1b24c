"""Draw figures with matplotlib: error bars of two standard errors, ours in bold, bounds dashed."""

import re
from contextlib import AbstractContextManager
from io import StringIO
from math import ceil
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from benchmarks.papers.figure import Curve, FigureResult, PanelResult

_STYLE = {
    "svg.hashsalt": "dpcov",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.titlesize": 10,
}
PALETTE = (
    "#4477aa",
    "#ee6677",
    "#228833",
    "#ccbb44",
    "#66ccee",
    "#aa3377",
    "#bb5566",
    "#004488",
    "#997700",
)
_FIXED = {"zero": "#999999", "auto": "#000000"}
MARKERS = "osD^vP*X"
_COLUMNS = 3
_MOST_TICKS = 7
_LETTERS, _HANDLE = 14, 6
"""Letters of a legend on an inch; letters that the line before a label takes."""


def styled() -> AbstractContextManager[None]:
    """The look of all drawings, while they are made and saved."""
    return mpl.rc_context(_STYLE)


def draw(result: FigureResult) -> Canvas:
    """All panels of a figure with one legend."""
    with styled():
        panels = list(result.panels.values())
        columns = min(_COLUMNS, len(panels))
        rows = ceil(len(panels) / columns)
        canvas = Canvas(figsize=(3.9 * columns, 3.1 * rows + 0.7), layout="constrained")
        axes = np.atleast_1d(canvas.subplots(rows, columns)).ravel()
        colors = _assign(panels)
        for ax, panel in zip(axes, panels, strict=False):
            _draw_panel(ax, panel, colors)
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        _legend(canvas, axes[: len(panels)], 2 * columns)
    return canvas


def save(canvas: Canvas, path: Path) -> str:
    """Write SVG and PNG, and return the SVG for embedding."""
    with styled():
        canvas.savefig(path.with_suffix(".png"), dpi=150)
        text = StringIO()
        canvas.savefig(text, format="svg", metadata={"Date": None})
    path.with_suffix(".svg").write_text(text.getvalue())
    return _embeddable(text.getvalue(), path.stem)


def _embeddable(svg: str, prefix: str) -> str:
    """Drop the XML prologue and make identifiers unique, so that several drawings fit into one
    page."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r'\bid="', f'id="{prefix}-', body)
    body = re.sub(r'href="#', f'href="#{prefix}-', body)
    body = re.sub(r"url\(#", f"url(#{prefix}-", body)
    points = float(re.search(r'viewBox="0 0 ([0-9.]+)', body)[1])  # type: ignore[index]
    shown = rf'<svg \1style="max-width: {points / 72:.2f}in"'
    return re.sub(r'<svg ([^>]*?)width="[^"]*" height="[^"]*"', shown, body, count=1)


def _assign(panels: list[PanelResult]) -> dict[str, tuple[str, str]]:
    """A color and a marker per label, the same in every panel.

    A bound, or a bold curve, takes the color of the curve it belongs to: ``bound, p = 1`` that of
    ``p = 1``.
    """
    kinds = {label: "bound" for panel in panels for label in panel.bounds}
    kinds |= {
        line.label: "ours" if line.ours else "paper"
        for panel in panels
        for line in panel.panel.lines
    }
    assigned: dict[str, tuple[str, str]] = {}
    for label in sorted(kinds, key=lambda label: ("paper", "ours", "bound").index(kinds[label])):
        family = next(
            (part for part in label.split(", ") if kinds.get(part, kinds[label]) != kinds[label]),
            None,
        )
        used = len({color for color, _ in assigned.values()})
        index = used if used < len(PALETTE) else len(assigned)
        color = assigned[family][0] if family in assigned else PALETTE[index % len(PALETTE)]
        assigned[label] = _FIXED.get(label, color), MARKERS[len(assigned) % len(MARKERS)]
    return assigned


def _draw_panel(ax: Axes, held: PanelResult, colors: dict[str, tuple[str, str]]) -> None:
    panel = held.panel
    ours = {line.label for line in panel.lines if line.ours}
    for label, curve in held.curves.items():
        _draw_curve(ax, label, curve, *colors[label], bold=label in ours)
    for label, curve in held.bounds.items():
        ax.plot(curve.x, curve.mean, "--", color=colors[label][0], label=label, linewidth=1.2)
    ax.set_title(panel.title)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    if panel.log_x:
        ax.set_xscale("log")
        _label_points(ax, held)
    ax.set_yscale("log")
    if not held.curves and not held.bounds:
        ax.text(0.5, 0.5, "nothing measured", ha="center", transform=ax.transAxes)


def _label_points(ax: Axes, held: PanelResult) -> None:
    """Ticks where something was measured, if these are few."""
    x = np.unique(
        np.concatenate(
            [curve.x for curve in (*held.curves.values(), *held.bounds.values())] or [[]]
        )
    )
    if 0 < len(x) <= _MOST_TICKS:
        ax.set_xticks(x, [f"{value:g}" for value in x])
        ax.set_xticks([], minor=True)


def _draw_curve(ax: Axes, label: str, curve: Curve, color: str, marker: str, *, bold: bool) -> None:
    below = np.minimum(2 * curve.error, 0.95 * curve.mean)
    ax.errorbar(
        curve.x,
        curve.mean,
        yerr=np.array([below, 2 * curve.error]),
        label=label,
        color=color,
        marker=marker,
        markersize=4,
        linewidth=2.2 if bold else 1.2,
        capsize=2,
        zorder=3 if bold else 2,
    )


def _legend(canvas: Canvas, axes: np.ndarray, columns: int) -> None:
    handles = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        room = _LETTERS * canvas.get_figwidth() / (max(map(len, handles)) + _HANDLE)
        canvas.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=max(1, min(columns, int(room))),
            frameon=False,
        )
