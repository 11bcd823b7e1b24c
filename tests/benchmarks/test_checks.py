import numpy as np
import pytest

from benchmarks.papers import claims
from benchmarks.papers.claims import Claim
from benchmarks.papers.figure import Figure, Panel
from benchmarks.papers.results import Curve, FigureResult, PanelResult

X = np.array([1.0, 10.0, 100.0])


def curve(means, spread=0.1):
    means = np.array(means, dtype=float)
    values = tuple(np.array([(1 - spread) * mean, (1 + spread) * mean]) for mean in means)
    return Curve(x=X[: len(means)], mean=means, error=spread * means, values=values)


def result(curves, bounds=None):
    panel = Panel(key="p", title="", x_label="x")
    held = PanelResult(panel=panel, curves=curves, bounds=bounds or {})
    return FigureResult(figure=Figure(name="f", title="", source="", panels=(panel,)), panels={"p": held})


RISING, FALLING, FLAT = curve([1, 10, 100]), curve([100, 10, 1]), curve([5, 5, 5])
ALL = result({"rising": RISING, "falling": FALLING, "flat": FLAT}, {"limit": curve([2, 20, 200], spread=0)})


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
        (claims.all_of(claims.grows("p", "absent", 1, 1), claims.grows("p", "rising", 1, 1)), "confirmed"),
        (claims.all_of(claims.grows("p", "rising", 9, 1), claims.grows("p", "rising", 1, 1)), "failed"),
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
