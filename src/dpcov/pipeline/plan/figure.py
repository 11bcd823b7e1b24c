"""Draw the figure of ``dpcov plan``: predicted relative error against the assumed trace.

Contract: draws predictions only.  Needs matplotlib, the extra ``plots``.
"""

import io
from collections.abc import Sequence
from typing import Any

from dpcov.errors import UsageError
from dpcov.mechanisms.auto import AUTO
from dpcov.pipeline.plan.predict import Assumption, Prediction

FORMATS = ("png", "svg", "pdf")
# Errors beyond ten times that of publishing zeros are cut off.
WORST_SHOWN = 10.0


def draw_plan(
    assumptions: Sequence[Assumption], found: Sequence[Sequence[Prediction]], file_format: str
) -> bytes:
    """Draw predictions under assumptions that differ in the trace: a line for every mechanism."""
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
        width = 3 if name == AUTO else 1
        axes.plot(traces, errors, label=name, marker="o", markersize=3, linewidth=width)
    first = assumptions[0]
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="assumed trace: mean squared row length over the squared norm bound",
        ylabel="expected relative error (1: publishing zeros)",
        title=f"{first.n_rows:,} rows, {first.n_features} features, {first.budget}, "
        f"{first.neighbors}",
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
