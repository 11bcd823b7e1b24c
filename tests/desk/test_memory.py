"""Memory of the desk does not grow with the table, from the choice of a file to the report."""

import sys

import pytest

from benchmarks.speed.desk import peak_of

pytest.importorskip("dpcov.desk.serve")
# The copy of rows that a release keeps has a limit of its own (docs/geometry.md): far below here.
WITHOUT_A_COPY = "import dpcov.data.kept as kept; kept.MOST_BYTES = 1"


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="reads peak memory from /proc")
def test_a_file_of_sixteen_times_the_size_takes_no_more_memory(tmp_path):
    small, few = peak_of(tmp_path, 0.015, WITHOUT_A_COPY)
    large, many = peak_of(tmp_path, 0.24, WITHOUT_A_COPY)
    assert many >= 16 * few
    # One copy of the larger one as numbers would take 90 megabytes.
    assert large - small < 45
