"""Forest plots and biplots: what is drawn is what the tables say, and noise is marked."""

import io
from math import inf

import numpy as np
import pytest

from dpcov.analysis import IntervalTable, PrivatePCA, PrivateRidge, mean_intervals
from dpcov.analysis.intervals.table import Interval
from dpcov.errors import UsageError
from tests.report.examples import demo, unhelpful, wide

pyplot = pytest.importorskip("matplotlib.pyplot")
Annotation = pytest.importorskip("matplotlib.text").Annotation
pyplot.switch_backend("Agg")

pytestmark = pytest.mark.filterwarnings(
    "ignore::dpcov.analysis.NoiseWarning", "ignore:Glyph:UserWarning"
)


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def drawn(axes):
    """Ends of the bounded intervals by place."""
    lines = [line for line in axes.lines if len(line.get_xdata()) == 2]
    level = [line for line in lines if line.get_ydata()[0] == line.get_ydata()[1]]
    bounded = [line for line in level if line.get_linestyle() == "-"]
    return {int(line.get_ydata()[0]): tuple(line.get_xdata()) for line in bounded}


def test_a_forest_plot_draws_every_interval_and_hostile_names():
    table = mean_intervals(unhelpful())
    axes = table.plot()
    limits = zip(table.lower, table.upper, strict=True)
    assert drawn(axes) == dict(enumerate(limits))
    assert len(axes.get_yticklabels()) == len(table.rows)
    axes.figure.savefig(io.BytesIO(), format="png")


def test_unbounded_intervals_are_dotted_and_the_intercept_is_left_out():
    rows = (
        Interval("(intercept)", 1e6, 2e6, 1.5e6),
        Interval("$a_{$", 1.0, 2.0, 1.5),
        Interval("b", -inf, inf),
    )
    axes = IntervalTable(what="coefficients", level=0.95, rows=rows).plot()
    assert drawn(axes) == {0: (1.0, 2.0)}
    assert [line.get_linestyle() for line in axes.lines].count(":") == 1
    assert axes.get_xlabel() == "coefficients, 95 % intervals; dotted: not bounded"
    axes.figure.savefig(io.BytesIO(), format="svg")
    nothing = IntervalTable(what="coefficients", level=0.95, rows=rows[2:]).plot()
    assert drawn(nothing) == {}


def test_the_forest_of_a_regression_holds_its_coefficients():
    model = PrivateRidge.from_release(demo(), target="affair")
    axes = model.conf_int().plot(pyplot.figure().subplots())
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [str(name) for name in model.get_encoded_names()]


def arrows(axes):
    found = [text for text in axes.texts if isinstance(text, Annotation)]
    return {text.xy: text.arrow_patch.get_edgecolor()[:3] for text in found}


def test_a_biplot_draws_loadings_and_those_that_noise_could_make_in_gray():
    pca = PrivatePCA.from_release(wide(40, 4000), scaling="encoded")
    axes = pca.plot_biplot()
    loadings = pca.components_[:2].T * np.sqrt(pca.explained_variance_[:2])
    found = arrows(axes)
    np.testing.assert_allclose(list(found), loadings)
    gray = [color == (0.6, 0.6, 0.6) for color in found.values()]
    inside = np.hypot(*loadings.T) <= np.sqrt(pca.noise_edge_)
    assert gray == inside.tolist() and inside.any() and not inside.all()
    (circle,) = [line for line in axes.lines if line.get_label() == "noise edge"]
    np.testing.assert_allclose(np.hypot(*circle.get_data()) ** 2, pca.noise_edge_)
    # The origin is the middle, and everything is inside.
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    assert left == bottom == -right == -top
    assert np.abs([*found, *zip(*circle.get_data(), strict=True)]).max() < right
    assert "within the noise" not in axes.get_xlabel()
    hidden = pca.plot_biplot((1, pca.n_above_noise_ + 1))
    assert "within the noise" in hidden.get_ylabel()
    axes.figure.savefig(io.BytesIO(), format="png")


def test_loadings_in_correlation_units_are_correlations_with_the_component():
    pca = PrivatePCA.from_release(demo(), scaling="correlation")
    covariance = demo().covariance_matrix()
    correlation = covariance / np.sqrt(np.outer(*[np.diagonal(covariance)] * 2))
    vectors, values = pca.components_[:2].T, pca.explained_variance_[:2]
    expected = correlation @ vectors / np.sqrt(values)
    np.testing.assert_allclose(list(arrows(pca.plot_biplot())), expected, atol=1e-6)


@pytest.mark.parametrize("wrong", [(1, 1), (0, 1), (1, 3), 3, "12", ([1], [2])])
def test_components_that_are_not_there_are_refused(wrong):
    pca = PrivatePCA.from_release(demo(), n_components=2)
    with pytest.raises(UsageError, match="from 1 to 2"):
        pca.plot_biplot(wrong)


def test_a_biplot_of_one_component_is_refused_with_advice():
    pca = PrivatePCA.from_release(demo(), n_components=1)
    with pytest.raises(UsageError, match="n_components=2"):
        pca.plot_biplot()


def test_what_is_no_axes_is_refused():
    pca = PrivatePCA.from_release(demo(), n_components=2)
    for draw in (pca.plot_scree, pca.plot_biplot, demo().plot, mean_intervals(demo()).plot):
        with pytest.raises(UsageError, match="axes must be"):
            draw(axes=3)
