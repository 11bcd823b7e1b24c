"""Draw charts as inline SVG, which needs no script and prints as it is.

Contract: colors come from the style sheet.  A chart has a text alternative and a table behind it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from dpcov.markup import Child, Html, el

WIDTH, HEIGHT = 460.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 74.0, 20.0, 12.0, 40.0


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
        # Below the scale there may be zero, which has no logarithm.
        share = (self._scaled(max(value, self.low)) - low) / (high - low or 1.0)
        return round(self.start + min(1.0, share) * (self.end - self.start), 2)

    def _scaled(self, value: float) -> float:
        return log10(value) if self.logarithmic else value

    @property
    def ticks(self) -> list[float]:
        """About five round values."""
        if not self.logarithmic:
            return _round_steps(self.low, self.high)
        # Powers of ten, with 2 and 5 between them where the scale is short.
        powers = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
        stride = max(1, len(powers) // 6)
        between = (1.0, 2.0, 5.0) if len(powers) <= 4 else (1.0,)
        marks = [10.0**power * step for power in powers if power % stride == 0 for step in between]
        # A tick at the very end may be a rounding error outside.
        return [mark for mark in marks if self.low * 0.999 <= mark <= self.high * 1.001]


def _round_steps(low: float, high: float) -> list[float]:
    rough = max(1.0, (high - low) / 6)
    # The first of 1, 2, 5, 10 times a power of ten that leaves at most six steps.
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = ceil(low / step)
    return [step * (first + count) for count in range(int((high - first * step) / step) + 1)]


def horizontal(low: float, high: float, *, logarithmic: bool = True) -> Axis:
    """Scale along the width of a chart."""
    return Axis(low=low, high=high, start=LEFT, end=WIDTH - RIGHT, logarithmic=logarithmic)


def vertical(low: float, high: float) -> Axis:
    """Logarithmic scale along the height of a chart, upward."""
    return Axis(low=low, high=high, start=HEIGHT - BOTTOM, end=TOP)


def chart(x: Axis, y: Axis, *drawn: Child, label: str, x_label: str, y_label: str) -> Html:
    """Put axes around what is drawn."""
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f"translate(12 {middle}) rotate(-90)"
    centered = {"text_anchor": "middle", "class_": "axis"}
    return el(
        "svg",
        el("title", label),
        _grid(x, y),
        *drawn,
        el("text", x_label, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, **centered),
        el("text", y_label, transform=turned, **centered),
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        role="img",
        class_="chart",
    )


def _grid(x: Axis, y: Axis) -> Iterator[Html]:
    low, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for value in y.ticks:
        up = y(value)
        yield el("line", x1=LEFT, x2=right, y1=up, y2=up, class_="grid")
        yield tick(number(value), LEFT - 6, up + 4, "end")
    for value in x.ticks:
        across = x(value)
        yield el("line", x1=across, x2=across, y1=low, y2=low + 4, class_="mark")
        yield tick(number(value), across, low + 16, "middle")
    yield el("line", x1=LEFT, x2=right, y1=low, y2=low, class_="mark")


def tick(text: str, x: float, y: float, anchor: str) -> Html:
    """Write small words into a chart."""
    return el("text", text, x=x, y=y, text_anchor=anchor, class_="tick")


def line(x: Axis, y: Axis, points: Sequence[tuple[float, float]], **attributes: str) -> Html:
    """Draw a polyline."""
    written = " ".join(f"{x(across):g},{y(up):g}" for across, up in points)
    return el("polyline", points=written, **attributes)


def number(value: float) -> str:
    """Print a number for people: three digits, no exponent where it can be avoided."""
    if value == 0 or not isfinite(value):
        return "–" if value else "0"
    digits, tail = max(0, 2 - floor(log10(abs(value)))), ""
    # Years have no comma.
    comma = "," if abs(value) >= 10_000 else ""
    text = f"{value:{comma}.{digits}f}"
    if not 1e-4 <= abs(value) < 1e6:
        text, _, power = f"{value:.2e}".partition("e")
        tail = f"e{int(power)}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text}{tail}".replace("-", "−")
