"""The tables of the page on geometry, from the lines of the analyst's benchmark.

Run: python -m benchmarks.analyst.geometry_page [--lines FILE]
"""

import numpy as np
import pandas as pd
from scipy.stats import gmean

from benchmarks.analyst.page import DOCS, WORST_R2
from benchmarks.analyst.tables import in_words
from benchmarks.measured import filled, table
from benchmarks.options import asked

LINES, PAGE = DOCS / "measured" / "geometry.csv", DOCS / "measured" / "geometry.md"
ENOUGH_ROWS = ("nhanes", "credit", "adult", "made-1", "made-2", "made-3")
WIDTHS = (10.0, 100.0, 1000.0)
LEAST, MOST = 0.93, 0.99


def blocks(lines: pd.DataFrame) -> dict[str, str]:
    """What stands between the markers of the page."""
    by = lines.set_index(["table", "epsilon", "wide", "geometry"])
    return {"geometry": cells(by), "geometry-means": means(by), "geometry-hold": hold(lines)}


def cells(by: pd.DataFrame) -> str:
    """A line for each table and budget."""
    head = ["table", "epsilon", "bounds", "**private**", f"×{WIDTHS[-1]:g}", "floor"]
    head += ["R², bounds", "R²", "whitened", "finite", "width", "hold"]
    rows = [head]
    for name, epsilon in dict.fromkeys((key[0], key[1]) for key in by.index):
        cell = by.loc[(name, epsilon)]
        typed, bounds = cell.loc[(1.0, "private")], cell.loc[(1.0, "schema")]
        rows.append(
            [
                name,
                in_words(epsilon),
                f"{bounds.rms:.3f}",
                f"**{typed.rms:.3f}**",
                _text(cell.rms.get((WIDTHS[-1], "private"), np.nan), ".3f"),
                f"{cell.loc[(1.0, 'floor')].rms:.3f}",
                _r2(bounds.r2),
                _r2(typed.r2),
                f"{typed.whitened:.2f}",
                _text(typed.finite, ".0%"),
                f"{typed.width:.2f}",
                f"{typed.covered:.0%}",
            ]
        )
    return table(rows)


def means(by: pd.DataFrame) -> str:
    """Geometric means over the tables of 5,000 rows and more."""
    rows = [["epsilon", "private over floor", *(f"×{w:g}" for w in WIDTHS)]]
    for epsilon in dict.fromkeys(by.index.get_level_values("epsilon")):
        rms = {t: by.loc[(t, epsilon)]["rms"] for t in ENOUGH_ROWS if (t, epsilon) in by.index}
        if not rms:
            continue
        pairs = [((1.0, "private"), (1.0, "floor"))]
        pairs += [((width, "private"), (1.0, "private")) for width in WIDTHS]
        ratios = [[each[one] / each[other] for each in rms.values()] for one, other in pairs]
        texts = [f"{gmean(each):.2f}" for each in ratios]
        rows.append([in_words(epsilon), *texts])
    return table(rows)


def hold(lines: pd.DataFrame) -> str:
    """How many cells of each table have intervals that hold as often as they should."""
    rows = [["table", "cells", f"{LEAST:.0%} to {MOST:.0%} hold", "fewer", "more", "least", "most"]]
    found = lines[lines.geometry == "private"].groupby("table", sort=False).covered
    for name, held in [*found, ("all", found.obj)]:
        counts = (held.between(LEAST, MOST), held < LEAST, held > MOST)
        sizes = [len(held), *(int(each.sum()) for each in counts)]
        ends = [f"{100 * each:.1f}%" for each in (held.min(), held.max())]
        rows.append([str(name), *map(str, sizes), *ends])
    return table(rows)


def _text(value: float, form: str) -> str:
    return "" if np.isnan(value) else format(value, form)


def _r2(value: float) -> str:
    return "below −1" if value < WORST_R2 else f"{value:.2f}".replace("-", "−")


def main() -> None:
    """Write the tables of the page anew."""
    options = asked(__doc__, lines=LINES)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(filled(page, blocks(pd.read_csv(options.lines))), encoding="utf-8")


if __name__ == "__main__":
    main()
