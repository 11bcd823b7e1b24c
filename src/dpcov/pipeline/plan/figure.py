"""The figure of ``dpcov plan``: predicted relative error against the assumed trace, a line per mechanism.

Contract: draws predictions only.  Needs matplotlib, the extra ``plots``.
"""

import io
from collections.abc import Sequence
from typing import Any

from dpcov.errors import UsageError
from dpcov.mechanisms.auto import AUTO
from dpcov.pipeline.plan.predict import Assumption, Prediction

FORMATS = ("png", "svg", "pdf")
WORST_SHOWN = 10.0
"""Errors beyond ten times that of publishing zeros are cut off."""


def draw_plan(
    assumptions: Sequence[Assumption], found: Sequence[Sequence[Prediction]], file_format: str
) -> bytes:
    """Draw predictions as an image file.

    Parameters
    ----------
    assumptions : sequence of Assumption
        Equal but for the trace.
    found : sequence of sequences of Prediction
        Predictions under each assumption.
    file_format : {"png", "svg", "pdf"}

    Returns
    -------
    bytes

    Raises
    ------
    UsageError
        Without matplotlib.
    """
    figure = empty_figure()
    axes = figure.subplots()
    for name in dict.fromkeys(prediction.mechanism for row in found for prediction in row):
        line = [
            (assumed.trace, prediction.relative_error)
            for assumed, row in zip(assumptions, found, strict=True)
            for prediction in row
            if prediction.mechanism == name
        ]
        traces, errors = zip(*sorted(line), strict=True)
        chosen = name == AUTO
        axes.plot(
            traces, errors, label=name, marker="o", markersize=3, linewidth=3 if chosen else 1
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="assumed trace: mean squared row length over the squared norm bound",
        ylabel="expected relative error (1: publishing zeros)",
        title=_title(assumptions[0]),
    )
    axes.set_ylim(top=min(axes.get_ylim()[1], WORST_SHOWN))
    axes.legend(fontsize="small")
    image = io.BytesIO()
    figure.savefig(image, format=file_format)
    return image.getvalue()


def empty_figure() -> Any:
    """Return a matplotlib figure that needs no display, or say how to install matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(
            "Figures need matplotlib. Install it: pip install 'dpcov[plots]'"
        ) from None
    figure = Figure(figsize=(7, 4.5), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _title(assumed: Assumption) -> str:
    return f"{assumed.n_rows:,} rows, {assumed.n_features} features, {assumed.budget}, {assumed.neighbors}"
