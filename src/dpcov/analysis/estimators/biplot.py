"""Draw loadings as arrows around a circle of noise, on matplotlib axes that the caller gives."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpcov.markup import shorten
from dpcov.published.linalg.symmetric import Array
from dpcov.published.plots import NAME_LENGTH

# Arrows up to which all have names; of more, those that are clear of the noise and the longest.
_NAMED = 25


def draw_loadings(axes: Any, loadings: Array, names: Sequence[str], radius: float) -> None:
    """Draw ``loadings``, (p, 2); those within ``radius`` of the origin in gray."""
    lengths = np.hypot(*loadings.T)
    reach = 1.25 * max(float(lengths.max()), radius, np.finfo(np.float64).tiny)
    named = set(np.argsort(-lengths)[:_NAMED].tolist())
    for place, (x, y) in enumerate(loadings.tolist()):
        color = "C0" if lengths[place] > radius else "0.6"
        arrow = {"arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (x, y), (0, 0), arrowprops=arrow)
        if place in named:
            side = {"ha": "left" if x >= 0 else "right", "va": "bottom" if y >= 0 else "top"}
            name = shorten(names[place], NAME_LENGTH)
            axes.text(x, y, name, color=color, fontsize="small", parse_math=False, **side)
    if radius > 0:
        angle = np.linspace(0, 2 * np.pi, 200)
        circle = radius * np.cos(angle), radius * np.sin(angle)
        axes.plot(*circle, linestyle="--", color="0.3", linewidth=1, label="noise edge")
        axes.legend(loc="lower left", frameon=False)
    axes.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    axes.axvline(0, color="0.8", linewidth=0.8, zorder=0)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
