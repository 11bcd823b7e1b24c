"""What a comparison leaves behind: CSV files, a figure, one self-contained page, and tables for the
terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from benchmarks.measured import write_csv
from benchmarks.papers.page import page
from benchmarks.papers.plot import MARKERS, PALETTE, save, styled
from benchmarks.peers.catalog import OURS
from benchmarks.peers.laws import ALPHA

HEADINGS = {
    "second moment": "Second moment of rows in the unit ball: relative Frobenius error",
    "components": "First five components: share of the variance that is missed",
    "covariance": "Covariance of columns between bounds: relative Frobenius error",
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One method on one table; a refused one has a reason and no numbers."""

    kind: str
    table: str
    method: str
    peer: str
    promise: str
    note: str = ""
    error: float = float("nan")
    standard_error: float = float("nan")
    seconds: float = float("nan")
    repetitions: int = 0
    refused: str = ""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One sampler against the law that it claims."""

    sampler: str
    peer: str
    law: str
    statistic: str = ""
    claimed: float = float("nan")
    measured: float = float("nan")
    samples: int = 0
    distance: float = float("nan")
    p_value: float = float("nan")
    verdict: str = ""

    @property
    def numbers(self) -> tuple[str, ...]:
        """Claimed and measured mean, samples and p value, as texts."""
        means = f"{self.claimed:.4g}", f"{self.measured:.4g}"
        return *means, str(self.samples), f"{self.p_value:.2g}"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Everything that is reported."""

    measured: Sequence[Measured]
    checked: Sequence[Checked]
    versions: dict[str, str]
    skipped: dict[str, str]
    facts: str


def write(found: Comparison, directory: Path) -> None:
    """Write ``errors.csv``, ``laws.csv``, ``peers.svg`` and ``.png`` and ``index.html``."""
    write_csv(directory / "errors.csv", [vars(row) for row in found.measured])
    write_csv(directory / "laws.csv", [vars(row) for row in found.checked])
    svg = save(_draw(found.measured), directory / "peers")
    (directory / "index.html").write_text(_page(found, svg), encoding="utf-8")


def errors(measured: Sequence[Measured], kind: str) -> list[list[str]]:
    """Methods by tables: error, and processor seconds per release; then what they say."""
    rows = [row for row in measured if row.kind == kind]
    names = list(dict.fromkeys(row.table for row in rows))
    lines = [["method", *names, "promise, and what it says itself"]]
    for method in dict.fromkeys(row.method for row in rows):
        mine = {row.table: row for row in rows if row.method == method}
        said = filter(None, (row.refused or row.note for row in mine.values()))
        notes = dict.fromkeys((next(iter(mine.values())).promise, *said))
        cells = (_cell(mine[name]) if name in mine else "–" for name in names)
        lines.append([method, *cells, "; ".join(notes)])
    return lines


def laws(checked: Sequence[Checked]) -> list[list[str]]:
    """Samplers with claimed and measured mean and the verdict."""
    head = ["sampler", "claims", "statistic", "claimed", "measured", "samples", "p", "verdict"]
    return [head] + [
        [row.sampler, row.law, row.statistic, *row.numbers, row.verdict] for row in checked
    ]


def _cell(row: Measured) -> str:
    return "no result" if row.refused else f"{row.error:.3g} / {row.seconds:.2g}"


def _draw(measured: Sequence[Measured]) -> Canvas:
    """Error above, time below, one column for each kind; ours are filled."""
    kinds = [
        kind for kind in HEADINGS if any(row.kind == kind and not row.refused for row in measured)
    ]
    with styled():
        canvas = Canvas(figsize=(4.6 * max(1, len(kinds)), 7.2), layout="constrained")
        axes = canvas.subplots(2, max(1, len(kinds)), squeeze=False)
        for column, kind in enumerate(kinds):
            rows = [row for row in measured if row.kind == kind]
            above, below = axes[:, column]
            _points(above, rows, "error", "standard_error")
            _points(below, rows, "seconds", None)
            above.set_title(HEADINGS[kind].replace(": ", ":\n"))
            below.set_ylabel("processor seconds, one release")
            below.legend(loc="upper center", bbox_to_anchor=(0.5, -0.35), frameon=False)
    return canvas


def _points(ax: Axes, rows: Sequence[Measured], value: str, spread: str | None) -> None:
    tables = list(dict.fromkeys(row.table for row in rows))
    methods = list(dict.fromkeys(row.method for row in rows))
    for index, method in enumerate(methods):
        mine = [row for row in rows if row.method == method and not row.refused]
        x = [tables.index(row.table) + (index - len(methods) / 2) * 0.08 for row in mine]
        y = np.array([getattr(row, value) for row in mine])
        bars = None if spread is None else 2 * np.array([getattr(row, spread) for row in mine])
        low = None if bars is None else np.vstack([np.minimum(bars, 0.95 * y), bars])
        ours = method.startswith(OURS)
        ax.errorbar(
            x,
            y,
            yerr=low,
            label=method,
            linestyle="none",
            capsize=2,
            markersize=6,
            marker=MARKERS[index],
            color="black" if ours else PALETTE[index],
            markerfacecolor=None if ours else "white",
        )
    ax.set_yscale("log")
    ax.set_xticks(range(len(tables)), tables, rotation=25, ha="right")


def _page(found: Comparison, svg: str) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items() if version)
    skipped = "".join(
        f"<li>{escape(name)}: {escape(reason)}</li>" for name, reason in found.skipped.items()
    )
    kinds = [kind for kind in HEADINGS if any(row.kind == kind for row in found.measured)]
    body = [
        "<h1>Other libraries, in the same run</h1>",
        f'<p class="soft">{escape(found.facts)} · {escape(versions)}</p>',
        "<p>The same tables, bounds and epsilon for everybody, one thread, each library in an "
        "environment of its own. "
        "Means over repetitions; bars show two standard errors; "
        "the zero matrix has relative error 1. Nobody's randomness is seeded.</p>",
        f"<p>Left out:</p><ul>{skipped}</ul>" if skipped else "",
        f'<div class="figure">{svg}</div>',
        *(
            f"<h2>{escape(HEADINGS[kind])} / processor seconds</h2>"
            + _html_table(*errors(found.measured, kind))
            for kind in kinds
        ),
        "<h2>Do the samplers follow the laws that they claim?</h2>",
        f"<p>Kolmogorov-Smirnov tests; a correct sampler is accused with probability "
        f"{ALPHA:g}.</p>",
        _html_table(*laws(found.checked)),
    ]
    return page("Other libraries", "\n".join(body))


def _html_table(heads: Sequence[str], *rows: Sequence[str]) -> str:
    top = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<div class="scroll"><table><tr>{top}</tr>{body}</table></div>'
