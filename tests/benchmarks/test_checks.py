import numpy as np
import pytest

from benchmarks.papers import claims
from benchmarks.papers.figure import Claim, Curve, Figure, FigureResult, Panel, PanelResult

X = np.array([1.0, 10.0, 100.0])


def curve(means, spread=0.1):
    means = np.array(means, dtype=float)
    values = tuple(np.array([(1 - spread) * mean, (1 + spread) * mean]) for mean in means)
    return Curve(x=X[: len(means)], mean=means, error=spread * means, values=values)


def result(curves, bounds=None):
    panel = Panel(key="p", title="", x_label="x")
    held = PanelResult(panel=panel, curves=curves, bounds=bounds or {})
    return FigureResult(
        figure=Figure(name="f", title="", source="", panels=(panel,)), panels={"p": held}
    )


RISING, FALLING, FLAT = curve([1, 10, 100]), curve([100, 10, 1]), curve([5, 5, 5])
ALL = result(
    {"rising": RISING, "falling": FALLING, "flat": FLAT}, {"limit": curve([2, 20, 200], spread=0)}
)


@pytest.mark.parametrize(
    ("check", "status"),
    [
        (claims.beats("p", "rising", "flat", within=(0, 5)), "confirmed"),
        (claims.beats("p", "rising", "flat"), "failed"),
        (claims.beats("p", "rising", "flat", factor=21), "confirmed"),
        (claims.best_of("p", "flat", "rising", "falling", factor=5.1), "confirmed"),
        (claims.best_of("p", "flat", "rising", "falling", factor=4.9), "failed"),
        (claims.crosses("p", "rising", "falling"), "confirmed"),
        (claims.crosses("p", "falling", "rising"), "failed"),
        (claims.grows("p", "rising", 1.0, 0.01), "confirmed"),
        (claims.grows("p", "falling", 1.0, 0.5), "failed"),
        (claims.falls("p", "falling", -0.5, 0.01), "confirmed"),
        (claims.falls("p", "flat", -0.5, 0.01), "failed"),
        (claims.ratio_rises("p", "rising", "flat"), "confirmed"),
        (claims.ratio_rises("p", "falling", "flat"), "failed"),
        (claims.changes_by("p", "flat", at_least=0.9, at_most=1.1), "confirmed"),
        (claims.changes_by("p", "rising", at_most=50), "failed"),
        (claims.beats_often(("p",), "rising", "flat", share=0.3), "confirmed"),
        (claims.beats_often(("p",), "rising", "flat", share=0.5), "failed"),
        (claims.below_bound("p", "rising", "limit"), "confirmed"),
        (claims.below_bound("p", "rising", "limit", factor=0.5), "failed"),
        (claims.below_measured("p", "rising", "flat"), "failed"),
        (claims.agrees("p", "rising", "limit", 2.0), "confirmed"),
        (claims.agrees("p", "rising", "limit", 1.9), "failed"),
        (claims.grows("p", "absent", 1, 1), "not checked"),
        (claims.grows("elsewhere", "rising", 1, 1), "not checked"),
        (claims.beats("p", "rising", "flat", within=(2, 3)), "not checked"),
        (
            claims.all_of(claims.grows("p", "absent", 1, 1), claims.grows("p", "rising", 1, 1)),
            "confirmed",
        ),
        (
            claims.all_of(claims.grows("p", "rising", 9, 1), claims.grows("p", "rising", 1, 1)),
            "failed",
        ),
        (claims.all_of(claims.grows("p", "absent", 1, 1)), "not checked"),
    ],
)
def test_verdict(check, status):
    assert Claim(text="", check=check, source="").verdict(ALL).status == status


def test_failure_comes_with_its_explanation():
    check = claims.grows("p", "rising", 2.0, 0.1)
    verdict = Claim(text="", check=check, source="", why="Because of this").verdict(ALL)
    assert verdict.reason == "p: measured exponent 1.00, claimed 2 (tolerance 0.1). Because of this"


def test_crossing_names_the_interval():
    verdict = claims.crosses("p", "rising", "falling")(
        result({"rising": RISING, "falling": curve([100, 11, 1])})
    )
    assert "between 10 and 100" in verdict.reason


def crossing(*panels, exponent=1.0, tolerance=0.01):
    """Pairs of curves that cross at 3.16 and at 31.6 in panels of sizes 10 and 100."""
    curves = (
        {"low": FLAT, "high": curve([50, 0.5, 0.005])},
        {"low": FLAT, "high": curve([500, 50, 0.5])},
    )
    held = {
        f"n{size}": PanelResult(
            panel=Panel(key=f"n{size}", title="", x_label="x"), curves=each, bounds={}
        )
        for size, each in zip((10, 100), curves, strict=True)
    }
    figure = Figure(
        name="f", title="", source="", panels=tuple(each.panel for each in held.values())
    )
    check = claims.crossing_grows(
        {size: f"n{size}" for size in panels}, "low", "high", exponent, tolerance
    )
    return Claim(text="", check=check, source="").verdict(FigureResult(figure=figure, panels=held))


def test_growth_of_a_crossing_is_measured():
    assert crossing(10, 100).status == "confirmed"
    assert "3.16, 31.6" in crossing(10, 100).reason
    assert crossing(10, 100, exponent=0.5, tolerance=0.2).status == "failed"
    assert crossing(10).status == "not checked"
    assert crossing(10, 1000).status == "not checked"


def test_curves_that_do_not_cross_have_no_crossing():
    check = claims.crossing_grows({1.0: "p", 2.0: "p"}, "flat", "rising", 1.0, 0.1)
    assert "do not cross" in check(ALL).reason
