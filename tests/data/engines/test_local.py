"""The local engine: any number of threads gives equal moments, and errors surface."""

import os
import signal
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.data.engines import base as engines_base
from dpcov.data.engines import local
from dpcov.data.engines.base import BallEncoding, MomentsTask
from dpcov.data.engines.local import prefetch, share
from dpcov.data.exact.moments import MomentsSpec
from dpcov.errors import DataError, UsageError
from tests.data.reading import rows


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(engines_base, "_MOST_ROWS", 64)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("spec", [{}, {"shells": 5, "normalized": True}, {"bits": 24}])
def test_any_number_of_threads_gives_equal_moments(spec):
    X = rows(3000, 7)
    one, two, five = (dpcov.moments(X, norm_bound=3.0, threads=n, **spec) for n in (1, 2, 5))
    assert one == two == five
    assert one.n_rows == 3000
    changed = X.copy()
    changed[1234, 3] += 0.01
    assert dpcov.moments(changed, norm_bound=3.0, threads=5, **spec) != one


@pytest.mark.usefixtures("small_blocks")
def test_threads_that_switch_all_the_time_lose_no_row():
    X = rows(20_000, 3)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        made = dpcov.moments(X, norm_bound=3.0, threads=8, shells=3)
    finally:
        sys.setswitchinterval(before)
    assert made.n_rows == 20_000
    assert made == dpcov.moments(X, norm_bound=3.0, threads=1, shells=3)


@pytest.mark.usefixtures("small_blocks")
def test_groups_stay_with_their_rows_in_several_threads():
    X, labels = rows(2000, 4), np.random.default_rng(1).integers(0, 3, 2000)
    groups = local.GroupedRows(rows=X, groups=labels)
    assert "sensitive" in repr(groups)
    encoding, spec = BallEncoding(n_features=4, norm_bound=9.0), MomentsSpec(groups=3)
    made = local.moments(groups, MomentsTask(encoding=encoding, spec=spec, threads=3))
    for group in range(3):
        alone = dpcov.moments(X[labels == group], norm_bound=9.0)
        assert made.strata[group] == alone.strata[0]


@pytest.mark.usefixtures("small_blocks")
def test_progress_counts_every_row_one_call_at_a_time():
    told, inside = [], threading.Lock()

    def progress(n_rows):
        assert inside.acquire(blocking=False)
        time.sleep(0.001)
        told.append(n_rows)
        inside.release()

    dpcov.moments(rows(1000, 3), norm_bound=1.0, threads=4, progress=progress)
    assert sum(told) == 1000
    assert len(told) == 16


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("threads", [1, 4])
def test_an_error_in_one_block_surfaces_and_no_thread_stays(threads):
    X = rows(5000, 3)
    X[2500, 1] = np.nan
    before = threading.active_count()
    with pytest.raises(DataError, match="NaN"):
        dpcov.moments(X, norm_bound=1.0, threads=threads)
    end = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.02)
    assert threading.active_count() <= before


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("threads", [1, 4])
def test_what_a_library_says_of_a_cell_is_not_told(monkeypatch, threads):
    def fails(*_):
        raise pa.ArrowInvalid("Failed to parse string: 'SENTINEL'")

    monkeypatch.setattr(BallEncoding, "read", fails)
    with pytest.raises(DataError, match="'the table' cannot be read") as caught:
        dpcov.moments(rows(5000, 3), norm_bound=1.0, threads=threads)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_an_error_of_the_reader_surfaces_in_several_threads():
    def items():
        yield from range(5)
        raise DataError("cut short")

    done = []
    with pytest.raises(DataError, match="cut short"):
        share(items(), done.append, 3)
    assert sorted(done) == list(range(5))


@pytest.mark.skipif(
    not hasattr(signal, "pthread_kill"), reason="this system has no signals to threads"
)
def test_an_interrupt_ends_the_wait_for_rows_that_never_come():
    never, done = threading.Event(), []

    def items():
        yield from range(5)
        time.sleep(0.1)  # the others have come to rest
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        never.wait()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            share(prefetch(items()), done.append, 2)
    finally:
        never.set()
        signal.signal(signal.SIGINT, before)
    assert sorted(done) == list(range(5))


def test_no_more_items_are_taken_than_threads_work_on():
    taken, released, most = [0], [0], [0]
    lock = threading.Lock()

    def items():
        for number in range(200):
            with lock:
                taken[0] += 1
                most[0] = max(most[0], taken[0] - released[0])
            yield number

    def work(_):
        time.sleep(0.0005)
        with lock:
            released[0] += 1

    share(items(), work, 4)
    assert most[0] <= 4 + 1


def test_blas_has_one_thread_while_threads_work_and_its_own_afterwards():
    from threadpoolctl import threadpool_info, threadpool_limits

    def blas():
        return {
            library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
        }

    seen = []
    with threadpool_limits(2, user_api="blas"):
        before = blas()
        share(iter(range(4)), lambda _: seen.append(blas()), 2)
        assert blas() == before
    assert all(counts == {1} for counts in seen)


def test_what_cannot_fit_is_refused_before_a_row_is_read_and_nothing_is_spent(tmp_path):
    wide = np.lib.stride_tricks.as_strided(np.zeros(1), shape=(10**6, 5000), strides=(0, 0))
    ledger = dpcov.Ledger(tmp_path / "ledger.sqlite")
    ledger.create("table", dpcov.Budget(rho=2), "replace-one")
    start = time.process_time()
    with pytest.raises(UsageError, match=r"(?s)Gathering needs up to .* GiB.*No budget was spent"):
        options = {"budget": dpcov.Budget(rho=1), "memory_limit": 0.5, "dataset": "table"}
        dpcov.second_moment(wide, norm_bound=1.0, ledger=ledger, **options)
    assert time.process_time() - start < 5
    assert not ledger.entries("table")


def test_all_cores_of_this_process_are_used_if_nothing_is_said(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {process, 5, 9}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert (local.thread_count(None), local.thread_count(11)) == (3, 11)
    monkeypatch.delattr(os, "sched_getaffinity")
    assert local.thread_count(None) == 7


def settled(taken, wanted):
    """How many items are taken, a while after as many as wanted were."""
    until = time.monotonic() + 20
    while len(taken) < wanted and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.1)
    return len(taken)


def test_two_items_wait_and_one_more_is_in_hand():
    taken = []
    items = prefetch(taken.append(n) or n for n in range(100))
    assert next(items) == 0
    assert settled(taken, 4) == 4
    items.close()


def test_items_come_in_order_and_then_the_error():
    def failing():
        yield from range(5)
        raise KeyError("late")

    assert list(prefetch(range(5))) == list(range(5))
    items = prefetch(failing())
    assert [next(items) for _ in range(5)] == list(range(5))
    with pytest.raises(KeyError, match="late"):
        next(items)


def test_nothing_more_is_taken_when_nobody_listens():
    taken = []
    items = prefetch(taken.append(n) or n for n in range(10**6))
    next(items)
    items.close()
    assert settled(taken, 0) <= 4
