"""The speed benchmarks measure what they say, whoever else uses the machine."""

import time
from pathlib import Path

import dpcov
from benchmarks.speed import scaling, under_load


def test_the_exponent_is_the_slope_of_a_power_law():
    assert abs(scaling.exponent((1, 10, 100), [2.0, 2.0 * 10**1.3, 2.0 * 100**1.3]) - 1.3) < 1e-12


def test_the_busiest_thread_is_timed_and_moments_are_those_of_the_rows():
    scaling.spent.clear()
    X = scaling.rows_of(70_000, 8)
    assert scaling.gather(X, threads=2) == dpcov.moments(X, norm_bound=1.0, threads=1)
    assert 1 <= len(scaling.spent) <= 2
    assert min(scaling.spent.values()) > 0


def test_the_load_works_only_while_it_is_timed(capsys):
    load = under_load.Load()
    try:
        assert stops(load)
        with load.running():
            assert not is_stopped(load)
        assert stops(load)
    finally:
        load.end()
    under_load.main(["--features", "20", "--rounds", "1"])
    told = capsys.readouterr().out.splitlines()[2:]
    assert [line.rsplit(maxsplit=6)[0] for line in told] == list(under_load.actions_of(20))
    assert all(float(cell) > 0 for line in told for cell in line.split()[-6:])


def is_stopped(load):
    return Path(f"/proc/{load._process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def stops(load):
    return any(is_stopped(load) or time.sleep(0.05) for _ in range(100))
