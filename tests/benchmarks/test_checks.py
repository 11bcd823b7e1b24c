"""Every check of a paper's claim tells a claim that holds from one that does not."""

import numpy as np
import pytest

from benchmarks.papers import claims
from benchmarks.papers.figure import Claim, Curve, Figure, FigureResult, Panel, PanelResult

X = np.array([1.0, 10.0, 100.0])
YES, NO, OPEN = "confirmed", "failed", "not checked"


def curve(means, spread=0.1):
    means = np.array(means, dtype=float)
    values = tuple(np.array([(1 - spread) * mean, (1 + spread) * mean]) for mean in means)
    return Curve(x=X[: len(means)], mean=means, error=spread * means, values=values)


def result(*panels, bounds=None):
    """Panels called p, p1, ... with the given curves."""
    made = [Panel(key=f"p{k or ''}", title="", x_label="x") for k in range(len(panels))]
    held = {
        panel.key: PanelResult(panel=panel, curves=curves, bounds=bounds or {})
        for panel, curves in zip(made, panels, strict=True)
    }
    figure = Figure(name="f", title="", source="", panels=tuple(made))
    return FigureResult(figure=figure, panels=held)


RISING, FALLING, FLAT = curve([1, 10, 100]), curve([100, 10, 1]), curve([5, 5, 5])
ALL = result(
    {"rising": RISING, "falling": FALLING, "flat": FLAT},
    bounds={"limit": curve([2, 20, 200], spread=0)},
)
GROWS, STEEP, ABSENT = (
    claims.grows("p", name, slope, 0.1)
    for name, slope in (("rising", 1.0), ("rising", 9.0), ("absent", 1.0))
)


@pytest.mark.parametrize(
    ("check", "status"),
    [
        (claims.beats("p", "rising", "flat", within=(0, 5)), YES),
        (claims.beats("p", "rising", "flat", factor=21), YES),
        (claims.beats("p", "rising", "flat", factor=19), NO),
        (claims.best_of("p", "flat", "rising", "falling", factor=5.1), YES),
        (claims.best_of("p", "flat", "rising", "falling", factor=4.9), NO),
        (claims.crosses("p", "rising", "falling"), YES),
        (claims.crosses("p", "falling", "rising"), NO),
        (claims.grows("p", "rising", 1.0, 0.01), YES),
        (claims.grows("p", "falling", 1.0, 0.5), NO),
        (claims.falls("p", "falling", -0.5, 0.01), YES),
        (claims.falls("p", "flat", -0.5, 0.01), NO),
        (claims.ratio_rises("p", "rising", "flat"), YES),
        (claims.ratio_rises("p", "falling", "flat"), NO),
        (claims.changes_by("p", "flat", at_least=0.9, at_most=1.1), YES),
        (claims.changes_by("p", "rising", at_most=50), NO),
        (claims.beats_often(("p",), "rising", "flat", share=0.3), YES),
        (claims.beats_often(("p",), "rising", "flat", share=0.5), NO),
        (claims.below_bound("p", "rising", "limit", factor=0.5), NO),
        (claims.below_measured("p", "rising", "flat"), NO),
        (claims.agrees("p", "rising", "limit", 2.0), YES),
        (claims.agrees("p", "rising", "limit", 1.9), NO),
        (ABSENT, OPEN),
        (claims.beats("p", "rising", "flat", within=(2, 3)), OPEN),
        (claims.all_of(ABSENT, GROWS), YES),
        (claims.all_of(STEEP, GROWS), NO),
        (claims.all_of(ABSENT), OPEN),
    ],
)
def test_verdict(check, status):
    assert Claim(text="", check=check, source="").verdict(ALL).status == status


CROSSING = result(
    {"low": FLAT, "high": curve([50, 0.5, 0.005])}, {"low": FLAT, "high": curve([500, 50, 0.5])}
)
"""Curves that cross at 3.16 in the first panel (size 10), and at 31.6 in the second (size 100)."""


@pytest.mark.parametrize(
    ("panels", "exponent", "tolerance", "status"),
    [
        ({10: "p", 100: "p1"}, 1.0, 0.01, YES),
        ({10: "p", 100: "p1"}, 0.5, 0.2, NO),
        ({10: "p", 1000: "p2"}, 1.0, 0.01, OPEN),
    ],
)
def test_growth_of_a_crossing_is_measured(panels, exponent, tolerance, status):
    check = claims.crossing_grows(panels, "low", "high", exponent, tolerance)
    verdict = Claim(text="", check=check, source="").verdict(CROSSING)
    assert verdict.status == status
    assert status != YES or "3.16, 31.6" in verdict.reason
