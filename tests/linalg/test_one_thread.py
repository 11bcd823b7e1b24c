import pytest
import scipy.linalg  # noqa: F401  # loads the library whose threads are counted
from threadpoolctl import threadpool_info

from dpcov.linalg.one_thread import SHARED_FROM, WORTH_IT, one_thread


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.mark.parametrize("dimension", [WORTH_IT, SHARED_FROM - 1])
def test_matrices_of_middling_size_get_one_thread_and_threads_come_back(dimension):
    before = blas_threads()
    with one_thread(dimension):
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


@pytest.mark.parametrize("dimension", [1, WORTH_IT - 1, SHARED_FROM])
def test_others_are_left_alone(dimension):
    before = blas_threads()
    with one_thread(dimension):
        assert blas_threads() == before


def test_threads_come_back_after_an_error():
    before = blas_threads()
    with pytest.raises(ValueError, match="inside"), one_thread(500):
        raise ValueError("inside")
    assert blas_threads() == before
