"""Charts: what the scales promise, read from what is drawn."""

import re

import pytest

from dpcov.published.words.numbers import group_numbers
from dpcov.report import charts, results
from dpcov.report.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from tests.report.examples import demo

FLOOR, END = HEIGHT - BOTTOM, WIDTH - RIGHT


def test_scales_reach_from_end_to_end_and_what_lies_beyond_is_at_the_border():
    x, y = charts.horizontal(1, 5, logarithmic=False), charts.vertical(1e-2, 1e4)
    assert (x(1), x(2), x(5)) == (LEFT, LEFT + (END - LEFT) / 4, END)
    assert (y(1e-2), y(10), y(1e4)) == (FLOOR, (FLOOR + TOP) / 2, TOP)
    assert (y(0), y(1e9)) == (FLOOR, TOP)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1.0, 100.0, [1, 2, 5, 10, 20, 50, 100]),
        (1.0, 1e4, [1, 10, 100, 1e3, 1e4]),
        (1e-6, 1e6, [1e-6, 1e-4, 1e-2, 1, 100, 1e4, 1e6]),
        (1.0, 1e11, [1, 100, 1e4, 1e6, 1e8, 1e10]),
    ],
)
def test_ticks_are_round_and_about_five(low, high, ticks):
    assert charts.vertical(low, high).ticks == pytest.approx(ticks)


def test_ticks_of_a_linear_scale_are_whole_and_at_most_seven():
    axis = charts.horizontal(0.5, 20.5, logarithmic=False)
    assert axis.ticks == [5, 10, 15, 20]
    assert charts.horizontal(0.5, 3.5, logarithmic=False).ticks == [1, 2, 3]


def drawn(svg, name):
    """Attributes of elements, numbers as numbers, with the text in them."""
    found = re.findall(rf"<{name} ([^>]*?)/?>(?:([^<]*)</{name}>)?", svg)
    made = [dict(re.findall(r'([\w-]+)="(.*?)"', written)) | {"": text} for written, text in found]
    number = re.compile(r"-?[\d.]+")
    return [{k: float(v) if number.fullmatch(v) else v for k, v in each.items()} for each in made]


def test_the_chart_of_components_shows_the_edge_and_every_label_beside_its_mark():
    made = group_numbers(demo())
    svg = re.search("<svg.*?</svg>", results.spectrum(made), re.DOTALL)[0]
    lines, texts = drawn(svg, "line"), drawn(svg, "text")
    count = len(made.estimates.spectrum.noisy)
    assert f"<title>Eigenvalues of {count} components on a logarithmic scale." in svg
    (edge,) = (line for line in lines if line["class"] == "edge")
    (band,) = drawn(svg, "rect")
    # Below the edge there is room, and the band of the noise fills it.
    assert TOP < edge["y1"] == band["y"] < FLOOR - 20
    assert band["y"] + band["height"] == pytest.approx(FLOOR)
    assert (band["x"], band["width"]) == (LEFT, END - LEFT)
    (estimate,), circles = drawn(svg, "polyline"), drawn(svg, "circle")
    for circle in circles:
        assert LEFT < circle["cx"] < END and TOP <= circle["cy"] <= FLOOR
    assert estimate["class"] == "estimate"
    across = [float(point.split(",")[0]) for point in estimate["points"].split()]
    assert across == pytest.approx([circle["cx"] for circle in circles], abs=0.01)
    apart = (END - LEFT) / count
    assert across == pytest.approx([LEFT + apart * (k + 0.5) for k in range(count)], abs=0.01)
    ticks = [text for text in texts if text["class"] == "tick"]
    beside = [text["y"] - 4 for text in ticks if text["text-anchor"] == "end"]
    below = [text["x"] for text in ticks if text["text-anchor"] == "middle"]
    assert beside == pytest.approx([line["y1"] for line in lines if line["class"] == "grid"])
    assert below == [line["x1"] for line in lines if line["x1"] == line["x2"]]
    assert len(beside) >= 3 and len(below) >= 3
    across, up = (text for text in texts if text["class"] == "axis")
    assert (across["x"], across[""]) == ((LEFT + END) / 2, "component")
    assert up["transform"] == f"translate(12 {(TOP + FLOOR) / 2}) rotate(-90)"
    for text in ticks:
        side = text["text-anchor"] == "end"
        assert (0 < text["x"] < LEFT) if side else (FLOOR < text["y"] < HEIGHT - 10)
