"""Charts as inline SVG, drawn here so that they need no script and print as they are.

Contract: colors come from the style sheet, never from the chart; every chart has a text alternative and the
page has a table behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np
from numpy.typing import NDArray

from dpcov.report.html import Child, Html, el

Array = NDArray[np.float64]

WIDTH, HEIGHT = 460.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 66.0, 20.0, 12.0, 40.0


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A linear or logarithmic scale from data to a range of pixels."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = True

    def __call__(self, value: float) -> float:
        """Pixel of a value; values outside end up at the border."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        share = (self._scaled(max(value, self.low)) - low) / (high - low or 1.0)
        return round(self.start + min(1.0, share) * (self.end - self.start), 2)

    def _scaled(self, value: float) -> float:
        return log10(value) if self.logarithmic else value

    @property
    def ticks(self) -> list[float]:
        """Round values, about five: powers of ten with 2 and 5 between them where the scale is short."""
        if not self.logarithmic:
            return _round_steps(self.low, self.high)
        powers = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
        stride = max(1, len(powers) // 6)
        between = (1.0, 2.0, 5.0) if len(powers) <= 4 else (1.0,)
        marks = [10.0**power * step for power in powers if power % stride == 0 for step in between]
        return [mark for mark in marks if self.low * 0.999 <= mark <= self.high * 1.001]


def _round_steps(low: float, high: float) -> list[float]:
    rough = max(1.0, (high - low) / 6)
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = ceil(low / step)
    return [step * (first + count) for count in range(int((high - first * step) / step) + 1)]


def horizontal(low: float, high: float, *, logarithmic: bool = True) -> Axis:
    """Scale along the width of a chart."""
    return Axis(low=low, high=high, start=LEFT, end=WIDTH - RIGHT, logarithmic=logarithmic)


def vertical(low: float, high: float, *, logarithmic: bool = True) -> Axis:
    """Scale along the height of a chart, upward."""
    return Axis(low=low, high=high, start=HEIGHT - BOTTOM, end=TOP, logarithmic=logarithmic)


def chart(
    x: Axis, y: Axis, *drawn: Child, label: str, x_label: str, y_label: str, **attributes: str
) -> Html:
    """Put axes around what is drawn."""
    return el(
        "svg",
        el("title", label),
        _grid(x, y),
        *drawn,
        el(
            "text",
            x_label,
            x=(LEFT + WIDTH - RIGHT) / 2,
            y=HEIGHT - 6,
            text_anchor="middle",
            class_="axis",
        ),
        el(
            "text",
            y_label,
            transform=f"translate(12 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)",
            text_anchor="middle",
            class_="axis",
        ),
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        role="img",
        class_="chart",
        **attributes,
    )


def _grid(x: Axis, y: Axis) -> list[Html]:
    bottom = HEIGHT - BOTTOM
    lines = [
        el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(value), y2=y(value), class_="grid")
        for value in y.ticks
    ]
    lines += [
        el("text", number(value), x=LEFT - 6, y=y(value) + 4, text_anchor="end", class_="tick")
        for value in y.ticks
    ]
    lines += [
        el("line", x1=x(value), x2=x(value), y1=bottom, y2=bottom + 4, class_="mark")
        for value in x.ticks
    ]
    lines += [
        el("text", number(value), x=x(value), y=bottom + 16, text_anchor="middle", class_="tick")
        for value in x.ticks
    ]
    return [*lines, el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=bottom, y2=bottom, class_="mark")]


def line(x: Axis, y: Axis, points: Sequence[tuple[float, float]], **attributes: str) -> Html:
    """Draw a polyline."""
    written = " ".join(f"{x(across):g},{y(up):g}" for across, up in points)
    return el("polyline", points=written, **attributes)


def number(value: float) -> str:
    """Print a number for people: three digits, no exponent where it can be avoided."""
    if not np.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e6:
        digits = max(0, 2 - floor(log10(abs(value))))
        text = f"{value:,.{digits}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        mantissa, power = f"{value:.2e}".split("e")
        text = f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"
    return text.replace("-", "−")
