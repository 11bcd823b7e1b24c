"""Fixtures that several folders of tests share, and what holds for every test.

A busy machine fails no test: Hypothesis draws as many examples as it should, however long that
takes, and the same ones every time.  ``pytest --hypothesis-profile=search`` draws others.

Neither does bad luck: in the process of a test its name determines the noise.
``pytest --fresh-noise`` draws other noise in every run.
"""

import gc
import os
import tempfile
from contextlib import contextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path

# Before numpy is loaded, and for the processes that run the tests: threads of one would wait for
# those of the other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

from dpcov.noise import entropy
from tests.services.postgres import (
    durable_postgres,
    module_database,
    postgres_database,
    postgres_url,
)

__all__ = ["durable_postgres", "module_database", "postgres_database", "postgres_url"]


_RUNNER, _SYSTEM_KEY = os.getpid(), entropy._new_key


def pytest_addoption(parser):
    parser.addoption("--fresh-noise", action="store_true", help="draw other noise in every run")


@contextmanager
def noise_of(name, config):
    """Keys of the system's randomness follow from a name; those of forked children do not."""
    number = count()

    def key():
        if os.getpid() != _RUNNER:
            return _SYSTEM_KEY()
        return sha256(f"{name} {next(number)}".encode()).digest()

    with pytest.MonkeyPatch.context() as patch:
        if not config.getoption("--fresh-noise"):
            patch.setattr(entropy, "_new_key", key)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Thousands of tests are no garbage: nobody looks for it among them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    generator = getattr(getattr(item, "module", None), "RNG", None)
    if generator is not None:
        # What a test draws does not depend on which ran before it in this process.
        seed = int.from_bytes(sha256(item.nodeid.encode()).digest()[:8], "little")
        generator.bit_generator.state = type(generator.bit_generator)(seed).state
    with noise_of(item.nodeid, item.config):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """What several tests share is the same whichever of them is first."""
    if fixturedef.scope == "function":
        return (yield)
    name = f"{fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param_index', 0)}"
    with noise_of(name, request.config):
        return (yield)


@pytest.fixture
def unprivileged(tmp_path):
    """A folder for a user whom permissions bind, also where tests run as root."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        os.seteuid(65534)
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)


@pytest.fixture
def counts_drawn(monkeypatch):
    """What noise on counts is drawn for: a cost, how many numbers, whether cells are disjoint."""
    from dpcov.mechanisms.blocks.counts import CountNoise

    drawn, plain = [], CountNoise.draw

    def draw(self, size, entropy, *, disjoint=False):
        # Several counts are paid for together only as cells of which a row is in one.
        assert disjoint or size == 1
        drawn.append((self.cost, size, disjoint))
        return plain(self, size, entropy, disjoint=disjoint)

    monkeypatch.setattr(CountNoise, "draw", draw)
    return drawn


settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("any machine", settings.get_profile("search"), derandomize=True)
settings.load_profile("any machine")
