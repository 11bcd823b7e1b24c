"""Start-up in processor seconds, the least of several, so that a busy machine fails nothing."""

import os
import subprocess
import sys

import pytest

HEAVY = {"pyarrow", "scipy", "pandas", "polars", "narwhals", "cryptography", "sklearn"}


def seconds(*arguments, repeats=3):
    """Processor time of a Python process, its own and the system's."""

    def children():
        times = os.times()
        return times.children_user + times.children_system

    used = []
    for _ in range(repeats):
        before = children()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        used.append(children() - before)
    return min(used)


@pytest.mark.parametrize(
    ("action", "more"), [("import dpcov", set()), ("from dpcov.cli.main import app", {"numpy"})]
)
def test_nothing_heavy_is_imported_at_the_start(action, more):
    script = [sys.executable, "-c", f"import sys; {action}; print(*sys.modules)"]
    loaded = subprocess.run(script, check=True, capture_output=True, text=True).stdout.split()
    assert "dpcov" in loaded
    assert not {name.partition(".")[0] for name in loaded} & (HEAVY | more)


def test_help_is_quick():
    bare = seconds("-c", "pass")
    assert seconds("-m", "dpcov", "--help") < max(0.6, 15 * bare)


def test_the_import_is_light():
    numpy = seconds("-c", "import numpy")
    assert seconds("-c", "import numpy, dpcov") < max(numpy + 0.3, 2 * numpy)
