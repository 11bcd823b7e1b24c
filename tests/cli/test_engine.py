"""Where moments are gathered, from the command line: the same release, and refusals before anything is spent."""

import pytest

from dpcov.errors import UsageError


def test_engine_and_threads_do_not_change_a_seeded_release(desk):
    seeded = ("--seed", "5", "--not-private", "--overwrite", "--no-ledger", "--rho", "0.5")
    fixed = ("release", desk.data, "--schema", desk.schema, "-o", desk.output)
    written = []
    for where in ((), ("--engine", "local", "--threads", "3", "--memory-limit", "1.5")):
        result = desk.run(*fixed, *seeded, *where)
        assert result.exit_code == 0, result.output
        shown = desk.run("export", desk.output, "-o", "-", "--overwrite")
        written.append(shown.output)
    assert written[0] == written[1]


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (("--engine", "abacus"), "local, dask, spark, device"),
        (("--memory-limit", "0.001"), "GiB of memory"),
        (("--memory-limit", "0"), "above 0"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_spent(desk, where, told):
    result = desk.release(*where)
    assert result.exit_code == UsageError.exit_code
    assert told in " ".join(result.output.split())
    assert desk.untouched()
