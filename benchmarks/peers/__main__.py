"""Compare with other libraries: error, time, and whether their samplers follow their laws.

    python -m benchmarks.peers --quick --out DIR [--venvs DIR] [--only PEER ...] [--seed S]

Each peer gets an environment of its own, made with pip on the first run; one that cannot be made is
left out and named.
"""

import argparse
import sys
from pathlib import Path

from benchmarks.measured import table
from benchmarks.peers.catalog import PEERS
from benchmarks.peers.compare import compare
from benchmarks.peers.environment import Unavailable, prepare
from benchmarks.peers.report import HEADINGS, errors, laws, write


def main(arguments: list[str] | None = None) -> None:
    chosen = _parse(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    pythons: dict[str, Path | Unavailable] = {}
    for peer in PEERS:
        if chosen.only and peer.requirements and peer.name not in chosen.only:
            pythons[peer.name] = Unavailable(reason="not asked for")
        else:
            print(f"environment: {peer.name}", flush=True)
            pythons[peer.name] = (
                Path(sys.executable)
                if peer.requirements is None
                else prepare(peer.name, peer.requirements, chosen.venvs or chosen.out / "venvs")
            )
    found = compare(
        pythons, chosen.out / "exchange", quick=chosen.quick, seed=chosen.seed, say=print
    )
    write(found, chosen.out)
    for kind in HEADINGS:
        print(f"\n{HEADINGS[kind]} / processor seconds\n\n{table(errors(found.measured, kind))}")
    print(f"\nSamplers against the laws they claim\n\n{table(laws(found.checked))}\n")
    for name, reason in found.skipped.items():
        print(f"{name}: {reason}; skipped")
    print(f"Written to {chosen.out}")


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--venvs", type=Path, help="where the environments are kept (default: OUT/venvs)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer repetitions and samples: minutes"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="where results, the figure and the page go"
    )
    parser.add_argument(
        "--only", nargs="+", choices=[peer.name for peer in PEERS], help="these peers only"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the synthetic tables (default: 0)"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
