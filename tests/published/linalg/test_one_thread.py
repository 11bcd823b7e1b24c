import threading
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  # loads the library whose threads are counted
from threadpoolctl import threadpool_info, threadpool_limits

import dpcov
from dpcov.analysis import PrivateCorrelation, PrivateCovariance, PrivatePCA, PrivateRidge
from dpcov.published.linalg.one_thread import SHARED_FROM, one_thread
from dpcov.published.linalg.symmetric import Solver, solving_with
from dpcov.report import render_release


def blas_threads():
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return {library["num_threads"] for library in libraries}


@pytest.fixture(autouse=True)
def two_threads():
    """Of BLAS, whatever the machine and the environment allow."""
    with threadpool_limits(2, user_api="blas"):
        assert blas_threads() == {2}
        yield
        assert blas_threads() == {2}


@pytest.mark.parametrize("dimension", [1, SHARED_FROM - 1, None])
def test_matrices_that_are_not_large_get_one_thread(dimension):
    with one_thread(dimension), one_thread(dimension):
        assert blas_threads() == {1}
    with one_thread(SHARED_FROM):
        assert blas_threads() == {2}
    # Threads come back after an error.
    with pytest.raises(ValueError, match="inside"), one_thread(dimension):
        raise ValueError("inside")


def test_threads_come_back_when_blocks_of_two_threads_overlap():
    entered, leave = threading.Event(), threading.Event()

    def first():
        with one_thread(500):
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=first)
    other.start()
    assert entered.wait(10)
    with one_thread(500):
        leave.set()
        other.join(10)


LARGE = 64
SOLVERS = ("eigh", "eigvalsh", "solve", "cholesky", "qr", "inv")


@contextmanager
def counted(monkeypatch):
    """Threads of BLAS in every larger operation of cubic cost."""
    found = []

    def watched(solve):
        def solving(matrix, *args, **kwargs):
            if np.shape(matrix)[-1] >= LARGE:
                found.append(blas_threads())
            return solve(matrix, *args, **kwargs)

        return solving

    with monkeypatch.context() as patch:
        for name in SOLVERS:
            patch.setattr(np.linalg, name, watched(getattr(np.linalg, name)))
        with solving_with(Solver(eigh=np.linalg.eigh, matmul=watched(np.matmul))):
            yield found


N_FEATURES = 70
ROWS = np.random.default_rng(0).uniform(-1, 1, size=(2000, 2)) @ np.ones((2, N_FEATURES)) / 2
COLUMNS = {f"x{k}": dpcov.Numeric(lower=-1, upper=1) for k in range(N_FEATURES)}
SCHEMA = dpcov.Schema(columns=COLUMNS)
READINGS = {
    "second moment": lambda made: made.second_moment(),
    "covariance": lambda made: made.covariance(),
    "projection": lambda made: made.covariance("projection"),
    "error": lambda made: made.expected_error("shrink"),
    "estimator of covariance": lambda made: PrivateCovariance.from_release(made).get_precision(),
    "estimator of correlation": PrivateCorrelation.from_release,
    "components": lambda made: PrivatePCA.from_release(made, n_components=1).conf_int(draws=2),
    "ridge": lambda made: PrivateRidge.from_release(made, target="x0").coef_path(),
    "synthetic rows": lambda made: made.sample(100),
    "page": render_release,
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("released") / "made.dpcov"
    budget = dpcov.Budget(rho=1)
    dpcov.release(ROWS, schema=SCHEMA, budget=budget, mechanism="gaussian").save(path)
    return path


@pytest.mark.filterwarnings("ignore::dpcov.analysis.NoiseWarning")
@pytest.mark.parametrize("reading", READINGS)
def test_reading_a_release_takes_one_thread(reading, file, monkeypatch):
    # One of its own, of which nothing was read yet.
    made = dpcov.load(file)
    monkeypatch.setattr("dpcov.published.synthetic._ROUNDS", 1)
    with counted(monkeypatch) as threads:
        READINGS[reading](made)
    assert threads and all(number == {1} for number in threads)


@pytest.mark.parametrize("mechanism", ["separate", "adaptive", "eigenvectors"])
def test_a_draw_takes_one_thread(mechanism, monkeypatch):
    with counted(monkeypatch) as threads:
        dpcov.release(ROWS, schema=SCHEMA, budget=dpcov.Budget(rho=1), mechanism=mechanism)
    assert threads and all(number == {1} for number in threads)
