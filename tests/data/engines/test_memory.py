"""What gathering takes, counted by hand, and what a machine or a container may take."""

import math
import os

import pytest

from dpcov.data.engines import BallEncoding, MomentsTask
from dpcov.data.engines import base as memory
from dpcov.data.engines.base import machine_memory, require_memory, working_bytes
from dpcov.data.moments import MomentsSpec
from dpcov.errors import UsageError

GIB = 2**30


def task(n_features, memory_limit=None, **spec):
    encoding = BallEncoding(n_features=n_features, norm_bound=1.0)
    return MomentsTask(encoding=encoding, spec=MomentsSpec(**spec), memory_limit=memory_limit)


@pytest.mark.parametrize(
    ("n_features", "spec", "entries"),
    [
        (10, {}, 100),
        (10, {"normalized": True}, 200),
        (10, {"shells": 3, "groups": 4}, 1200),
        (1025, {}, 512 * 1025 + 512 * 513 + 1),
    ],
)
def test_sums_take_two_words_for_every_entry_of_every_stratum(n_features, spec, entries):
    assert task(n_features, **spec).answer_bytes == 16 * entries


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(
    ("n_features", "block", "panel"), [(10, 2**15 * 10, 100), (2000, 4194 * 2000, 512 * 2000)]
)
def test_work_takes_four_blocks_and_two_products_a_thread_and_three_blocks_ahead(
    n_features, block, panel, threads
):
    expected = 8 * (threads * (4 * block + 2 * panel) + 3 * block)
    assert working_bytes(task(n_features), threads) == expected


@pytest.mark.parametrize(("threads", "copies"), [(1, 1), (3, 1), (1, 4)])
def test_what_fits_to_the_byte_is_taken_and_one_byte_more_is_refused(threads, copies):
    needed = copies * task(300).answer_bytes + working_bytes(task(300), threads)
    options = {"threads": threads, "copies": copies}
    require_memory(task(300, needed / GIB), **options)
    with pytest.raises(UsageError, match="Gathering needs"):
        require_memory(task(300, (needed - 1) / GIB), **options)


def test_a_refusal_names_every_number_that_counts():
    words = r"up to 4.8 GiB of memory, but may take 1.0: 4.0 for .* 0.75 for blocks in 2 threads"
    with pytest.raises(UsageError, match=words):
        require_memory(task(4000, 1, shells=3, groups=5, normalized=True), threads=2)


def test_no_stated_limit_is_that_of_the_machine(monkeypatch):
    monkeypatch.setattr(memory, "machine_memory", lambda: 12345.0)
    assert memory.allowed_bytes(None) == 12345.0
    with pytest.raises(UsageError):
        require_memory(task(300))


def test_a_container_may_take_less_than_its_machine(tmp_path, monkeypatch):
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__, raising=False)
    files = [tmp_path / name for name in ("first", "second")]
    monkeypatch.setattr(memory, "_CGROUP_LIMITS", [str(file) for file in files])
    assert machine_memory() == 4_096_000
    files[0].write_text("max\n")
    assert machine_memory() == 4_096_000
    files[1].write_text("5000000\n")
    assert machine_memory() == 4_096_000
    files[1].write_text("3000000\n")
    assert machine_memory() == 3_000_000
    monkeypatch.delattr(os, "sysconf")
    assert machine_memory() == 3_000_000
    files[1].unlink()
    assert machine_memory() == math.inf
