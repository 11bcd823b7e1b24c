"""Several threads may use the package at once, from the first call on."""

import subprocess
import sys

# msgspec crashes where two threads use a type first, so types are learned while modules are
# imported, which one thread does.
_LEARNED_LATE = """
import sys, traceback
import numpy as np
import dpcov
from dpcov.analysis import difference_intervals
from dpcov.data.checkpoint import Checkpoint
from dpcov.data.geometry import Geometry
from dpcov.data.vault import Key

late = []

def watch(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "get_class_annotations":
        names = [each.name for each in traceback.extract_stack(frame)]
        if "_find_and_load" not in names:
            late.append(names[-2])

sys.setprofile(watch)
columns = {name: dpcov.Numeric(lower=0, upper=1) for name in ("x0", "x1", "x2")}
schema = dpcov.Schema(columns=columns, weights=dpcov.Weights(column="x2", upper=1))
schema.save("s.toml")
rows, budget = np.random.default_rng(0).uniform(size=(5000, 3)), dpcov.Budget(rho=1)
one, two = (
    dpcov.release(rows, schema="s.toml", budget=budget, output=f"{name}.dpcov") for name in "ab"
)
dpcov.load("a.dpcov").covariance()
dpcov.survey(rows, schema="s.toml", budget=budget, output="g.toml")
Geometry.from_toml("g.toml")
key = Key(bytes(range(32)))
dpcov.checkpoint(rows, schema="s.toml", budget=budget).save("c.moments", key)
Checkpoint.load("c.moments", key)
difference_intervals(one, two)
sys.setprofile(None)
assert not late, late
"""


def test_no_type_is_learned_after_its_module_is_imported(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", _LEARNED_LATE]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
