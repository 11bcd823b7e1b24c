"""How long a process takes to start: ``import dpcov`` over ``import numpy``, and ``dpcov --help``.

python -m benchmarks.speed.startup
"""

import subprocess
import sys

from benchmarks.measured import table
from benchmarks.speed.timing import interleaved


def run(*arguments: str) -> None:
    """Run Python to the end and throw its output away."""
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def main() -> None:
    """Print the table."""
    numpy, ours, usage = interleaved(
        lambda: run("-c", "import numpy"),
        lambda: run("-c", "import numpy, dpcov"),
        lambda: run("-m", "dpcov", "--help"),
    )
    lines = [["what", "seconds", "target"]]
    lines.append(["import dpcov, over import numpy", f"{ours - numpy:.3f}", "0.3"])
    lines.append(["dpcov --help", f"{usage:.3f}", "0.6"])
    print(table(lines))


if __name__ == "__main__":
    main()
