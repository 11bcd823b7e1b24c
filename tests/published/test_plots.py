"""The picture of a release: blank where noise alone could have made a correlation."""

import io
import sys

import numpy as np
import pytest

import dpcov
from dpcov.errors import ReleaseError, UsageError
from dpcov.published.words.numbers import group_numbers
from tests.releases import released
from tests.report.examples import demo, grouped, make, plain, unhelpful, wide

pyplot = pytest.importorskip("matplotlib.pyplot")
pyplot.switch_backend("Agg")


pytestmark = pytest.mark.filterwarnings("ignore:Glyph:UserWarning")


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


@pytest.mark.parametrize("release", [demo, unhelpful, plain, lambda: wide(100, 2000)])
def test_correlations_are_drawn_and_hidden_ones_are_blank(release):
    made = release()
    axes = made.plot()
    drawn = axes.images[0].get_array()
    numbers = group_numbers(made).estimates
    np.testing.assert_array_equal(np.ma.getmaskarray(drawn), numbers.hidden)
    np.testing.assert_array_equal(drawn.data, numbers.correlation)
    assert numbers.hidden.any() and not numbers.hidden.all()
    dots = [line for line in axes.lines if line.get_gid() == "hidden by the noise"]
    assert sum(len(line.get_xdata()) for line in dots) == (
        numbers.hidden.sum() if len(drawn) <= 60 else 0
    )
    axes.figure.savefig(io.BytesIO(), format="png")


def test_groups_are_drawn_side_by_side_all_rows_first():
    made = grouped()
    axes = made.plot()
    shown = [each for each in axes.figure.axes if each.images]
    titles = [each.get_title() for each in shown]
    assert titles[0] == "all rows" and set(titles[1:]) == set(made.group_names)
    assert axes is shown[0]
    place = made.pooled.names.index("north")
    drawn = shown[titles.index("north")].images[0]
    np.testing.assert_array_equal(drawn.get_array(), made.pooled.correlations[place])
    assert {each.images[0].get_clim() for each in shown} == {(-1, 1)}
    axes.figure.savefig(io.BytesIO(), format="png")
    assert made.plot(given := pyplot.figure().subplots()) is given


def test_names_are_no_formulas():
    made = make(("$\\frac{$", "$x^2$"), title="$\\broken{$")
    made.plot().figure.savefig(io.BytesIO(), format="svg")


def test_axes_may_be_given():
    axes = pyplot.figure().subplots()
    assert demo().plot(axes) is axes


def test_a_release_that_noise_hides_says_so():
    rows = np.random.default_rng(0).normal(size=(3, 2))
    terms = {"budget": dpcov.Budget(rho="0.0001"), "neighbors": "add-remove-one"}
    made = released(rows, -1, 1, 4, missing="indicator", **terms)
    with pytest.raises(ReleaseError, match=r"(?i)more rows"):
        made.plot()


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r"dpcov\[plots\]"):
        demo().plot()
