"""Fixtures that several folders of tests share, and what holds for every test.

A busy machine fails no test: Hypothesis draws as many examples as it should, however long that
takes, and the same ones every time.  ``pytest --hypothesis-profile=search`` draws others.
"""

import os
import shutil
import tempfile
from pathlib import Path

# Before numpy is loaded, and for the processes that run the tests: threads of one would wait for
# those of the other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

from tests.services.postgres import (
    durable_postgres,
    module_database,
    postgres_database,
    postgres_url,
)

__all__ = ["durable_postgres", "module_database", "postgres_database", "postgres_url"]


@pytest.fixture
def unprivileged(tmp_path):
    """A folder for a user whom permissions bind, also where tests run as root."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    os.seteuid(65534)
    try:
        yield folder
    finally:
        os.seteuid(0)
        shutil.rmtree(folder)


@pytest.fixture
def counts_drawn(monkeypatch):
    """What noise on counts is drawn for: a cost, how many numbers, whether cells are disjoint."""
    from dpcov.mechanisms.blocks.counts import CountNoise

    drawn, plain = [], CountNoise.draw

    def draw(self, size, entropy, *, disjoint=False):
        drawn.append((self.cost, size, disjoint))
        return plain(self, size, entropy, disjoint=disjoint)

    monkeypatch.setattr(CountNoise, "draw", draw)
    return drawn


settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("any machine", settings.get_profile("search"), derandomize=True)
settings.load_profile("any machine")
