"""What the analyst's side may reach, and that it needs no rows."""

import subprocess
import sys

READ_ONLY = """
import sys
import dpcov.analysis as analysis
from dpcov.published.release import Release
for name in analysis.__all__:
    assert getattr(analysis, name).__name__ == name
made = Release.load(sys.argv[1])
analysis.PrivateRidge.from_release(made, target="income", alpha=0.1)
analysis.PrivatePCA.from_release(made)
forbidden = ("dpcov.data", "dpcov.noise", "dpcov.mechanisms")
reached = [name for name in sys.modules if name.startswith(forbidden)]
assert not reached, reached
"""


def test_reading_a_release_loads_nothing_that_handles_rows_or_randomness(made, tmp_path):
    path = tmp_path / "made.dpcov"
    made.save(path)
    subprocess.run([sys.executable, "-W", "ignore", "-c", READ_ONLY, str(path)], check=True)
