"""Estimates carry names where pandas or polars is installed, and are arrays where neither is."""

import subprocess
import sys

import numpy as np
import pytest

from tests.report.examples import demo, unhelpful

QUANTITIES = ("covariance", "correlation")


@pytest.mark.parametrize("release", [demo, unhelpful])
def test_matrices_are_frames_and_means_a_series_with_names(release):
    made, names = release(), list(release().feature_names)
    for quantity in QUANTITIES:
        frame = getattr(made, quantity)()
        assert list(frame.index) == list(frame.columns) == names
        np.testing.assert_array_equal(frame.to_numpy(), getattr(made, f"{quantity}_matrix")())
        assert frame.loc[names[1], names[2]] == getattr(made, f"{quantity}_matrix")()[1, 2]
    assert list(made.mean().index) == names
    np.testing.assert_array_equal(made.mean().to_numpy(), made.mean_vector())
    np.testing.assert_array_equal(
        made.covariance("none").to_numpy(), made.covariance_matrix("none")
    )


@pytest.mark.parametrize("release", [demo, unhelpful])
def test_with_polars_alone_columns_carry_the_names(release, monkeypatch):
    polars = pytest.importorskip("polars")
    # Reading the demo's table needs pandas.
    made = release()
    monkeypatch.setitem(sys.modules, "pandas", None)
    for quantity in QUANTITIES:
        frame = getattr(made, quantity)()
        assert isinstance(frame, polars.DataFrame)
        assert tuple(frame.columns) == made.feature_names
        np.testing.assert_array_equal(frame.to_numpy(), getattr(made, f"{quantity}_matrix")())
    np.testing.assert_array_equal(made.mean().to_numpy(), made.mean_vector())


def test_without_either_they_are_arrays_that_convert_themselves(monkeypatch):
    made = demo()
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    for found in (made.covariance(), made.correlation(), made.mean()):
        assert isinstance(found, np.ndarray)
        assert type(found.to_numpy()) is np.ndarray
        np.testing.assert_array_equal(found.to_numpy(), found)
    np.testing.assert_array_equal(made.covariance(), made.covariance_matrix())


def test_pandas_and_matplotlib_are_imported_by_nothing_but_their_methods(tmp_path):
    demo().save(tmp_path / "demo.dpcov")
    script = (
        "import sys, dpcov; from dpcov import Budget, Schema, Release, release\n"
        "made = dpcov.load(sys.argv[1]); made.covariance_matrix(); made._repr_html_(); repr(made)\n"
        "assert not {'pandas', 'polars', 'matplotlib'} & set(sys.modules)\n"
        "made.covariance()\n"
        "assert 'pandas' in sys.modules\n"
    )
    run = [sys.executable, "-c", script, str(tmp_path / "demo.dpcov")]
    subprocess.run(run, check=True, timeout=120)
