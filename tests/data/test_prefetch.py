"""A reader that runs ahead: how far, in what order, and what becomes of its errors."""

import threading
import time

import pytest

from dpcov.data.engines.threads import prefetch


def readers():
    return [thread for thread in threading.enumerate() if thread.name == "dpcov-prefetch"]


@pytest.fixture(autouse=True)
def _ends():
    """Every reader ends soon after its last item is taken, or nobody listens."""
    yield
    for reader in readers():
        reader.join(10)
    assert readers() == []


def settled(taken, wanted):
    """How many items are taken, a while after as many as wanted were."""
    until = time.monotonic() + 20
    while len(taken) < wanted and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.1)
    return len(taken)


@pytest.mark.parametrize(("options", "ahead"), [({}, 2), ({"depth": 1}, 1), ({"depth": 3}, 3)])
def test_so_many_items_wait_and_one_more_is_in_hand(options, ahead):
    taken = []
    items = prefetch((taken.append(n) or n for n in range(100)), **options)
    assert next(items) == 0
    assert settled(taken, ahead + 2) == ahead + 2
    assert all(reader.daemon for reader in readers())
    items.close()


def test_items_come_in_order_and_then_the_error():
    def failing():
        yield from range(5)
        raise KeyError("late")

    assert list(prefetch(range(5))) == list(range(5))
    assert list(prefetch([])) == []
    got = []
    with pytest.raises(KeyError, match="late"):
        got.extend(prefetch(failing()))
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
