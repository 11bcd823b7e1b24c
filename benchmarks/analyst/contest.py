"""Everybody in the same cells: releases, made-up rows, noisy components, single regressions.

Run: python -m benchmarks.analyst.contest --out FILE [--venvs DIR] [--data DIR] [--only NAME ...]
     [--methods METHOD ...] [--epsilon E ...] [--wide W] [--repetitions N] [--limit S]
     [--quick]

A cell is a table, an epsilon, bounds, a method and a repetition. Everybody gets four fifths of the
rows. Correlations are compared with those of these rows, and a regression predicts the others.
Lines go to FILE as they are found; cells that are there already are left out, so that a run can be
ended and taken up again, and runs with other methods may write to the same file. Rivals that are
packages get environments of their own under ``--venvs``, made by pip at first; without it they are
left out. ``seconds`` is processor time: for a release and its correlations, a matrix, rows, or one
regression.
"""

import argparse
import csv
import itertools
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.analyst.__main__ import tables
from benchmarks.analyst.measure import Array, Correlations, r2
from benchmarks.analyst.rivals import GRID, Descent, Design, ada_ssp, gradient_descent, unit_rows
from benchmarks.analyst.tables import DELTA, Table, budget_of, made
from benchmarks.data import data_directory
from benchmarks.peers.catalog import Peer
from benchmarks.peers.environment import prepare
from benchmarks.peers.exchange import Task, ask
from dpcov.analysis import PrivateRidge

TARGETS = {"communities": ("PctKids2Par", "medIncome", "PctUnemployed")}
FIELDS = (
    "table",
    "epsilon",
    "wide",
    "method",
    "repetition",
    "target",
    "rms",
    "frobenius",
    "largest",
    "r2",
    "seconds",
    "refused",
)
_CELL = FIELDS[:5]


class Refused(Exception):  # noqa: N818
    """A method gives no answer here; the text says why."""


@dataclass(frozen=True, eq=False)
class Case:
    """A table with four fifths of its rows, and the others."""

    table: Table
    held_out: pd.DataFrame

    @classmethod
    def of(cls, table: Table) -> "Case":
        """Every fifth row is held out."""
        left_out = np.arange(len(table.frame)) % 5 == 0
        return cls(table.of(table.frame[~left_out]), table.frame[left_out])

    @cached_property
    def truth(self) -> Correlations:
        return Correlations(self.table)

    @property
    def targets(self) -> tuple[str, ...]:
        return TARGETS.get(self.table.name, (self.table.target,))

    def goals(self) -> Iterator[tuple[Table, Array]]:
        """The table with every target, and that of the rows held out."""
        for target in self.targets:
            yield replace(self.table, target=target), self.held_out[target].to_numpy()


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a method has to say: correlations, R² for targets, processor time."""

    correlation: Array | None = None
    r2: dict[str, float] = field(default_factory=dict)
    seconds: float = float("nan")


@dataclass(frozen=True)
class Terms:
    """What a method is given beside a case."""

    epsilon: float
    wide: float
    seed: int
    venvs: Path | None = None
    limit_s: float = 60.0

    def bounds(self, table: Table) -> Table:
        """The table with bounds as wide as asked for."""
        columns = table.schema(self.wide).columns
        return replace(
            table,
            bounds={name: (columns[name].lower, columns[name].upper) for name in table.bounds},
        )


Method = Callable[[Case, Terms], Answer]


def released(case: Case, terms: Terms, *, neighbors: str, pure: bool = False) -> Answer:
    """One release for everything."""
    start = time.process_time()
    epsilon = -terms.epsilon if pure else terms.epsilon
    release = case.table.release(epsilon, terms.seed, terms.wide, neighbors=neighbors)
    correlation = release.correlation_matrix()
    seconds = time.process_time() - start
    found = {}
    for table, y in case.goals():
        model = PrivateRidge.from_release(release, target=table.target, features=table.features)
        found[table.target] = r2(y, model.predict(case.held_out[table.features]))
    return Answer(correlation=correlation, r2=found, seconds=seconds)


def nothing(case: Case, terms: Terms) -> Answer:
    """All columns unrelated, means for targets: free of charge."""
    return Answer(correlation=np.eye(len(case.truth.values)), r2=dict.fromkeys(case.targets, 0.0))


def exact(case: Case, terms: Terms) -> Answer:
    """Without privacy."""
    return from_rows(case, case.table.frame)


def from_rows(case: Case, rows: pd.DataFrame, seconds: float = float("nan")) -> Answer:
    """What people do with rows: correlations, and least squares."""
    encoded = case.table.of(rows).encoded
    found = {}
    for table, y in case.goals():
        away = (table.target, *table.left_out)
        kept = [name for name in encoded if name not in away]
        test = table.of(case.held_out).encoded[kept]
        center, scale = encoded.mean(), encoded.std().replace(0, 1)
        x = ((encoded - center) / scale).to_numpy()
        places = [encoded.columns.get_loc(name) for name in kept]
        target = x[:, encoded.columns.get_loc(table.target)]
        weights, *_ = np.linalg.lstsq(x[:, places], target, rcond=1e-6)
        predicted = ((test - center[kept]) / scale[kept]).to_numpy() @ weights
        predicted = center[table.target] + scale[table.target] * predicted
        found[table.target] = r2(y, predicted)
    return Answer(correlation=encoded.corr().to_numpy(), r2=found, seconds=seconds)


def answered(
    peer: str, call: str, terms: Terms, rows: Array, **arguments: Any
) -> tuple[Array, float]:
    """One call of a package in its own environment."""
    worker = Peer(name=peer, worker=f"use_{peer}.py")
    if terms.venvs is None or worker.requirements is None:
        raise Refused("no environments: name a folder with --venvs")
    python = prepare(peer, worker.requirements, terms.venvs)
    if not isinstance(python, Path):
        raise Refused(python.reason)
    task = Task(key="task", method=call, table="t", arguments=arguments, limit_s=terms.limit_s / 3)
    with tempfile.TemporaryDirectory() as folder:
        found = ask(
            python, worker.script, [task], {"t": rows}, Path(folder), limit_s=2 * terms.limit_s
        )
    answer = found.answers["task"]
    if answer.refused:
        raise Refused(answer.refused)
    return answer.values[0], answer.seconds[0]


def made_up(case: Case, terms: Terms, *, mechanism: str, bins: int) -> Answer:
    """Rows of MST or AIM, as many as there are."""
    table = terms.bounds(case.table)
    columns = table.frame[[*table.bounds, *table.categories]].copy()
    for name, levels in table.categories.items():
        columns[name] = pd.Categorical(columns[name], categories=levels).codes
    about = {
        "bounds": list(table.bounds.values()),
        "levels": [len(levels) for levels in table.categories.values()],
        "epsilon": terms.epsilon,
        "delta": float(DELTA),
        "seed": terms.seed,
    }
    about |= {"mechanism": mechanism, "bins": bins}
    rows, seconds = answered("dpmm", "synthetic_rows", terms, columns.to_numpy(float), **about)
    frame = pd.DataFrame(rows, columns=columns.columns)
    for name, levels in table.categories.items():
        frame[name] = np.array(levels)[frame[name].astype(int)]
    return from_rows(case, frame, seconds)


def components(case: Case, terms: Terms, *, peer: str, call: str) -> Answer:
    """All noisy components of rows in the unit ball, intercept included, put together again."""
    rows, _ = unit_rows(terms.bounds(case.table), case.table.frame)
    moment, seconds = answered(peer, call, terms, rows, epsilon=terms.epsilon)
    means = moment[0, 1:] / moment[0, 0]
    covariance = moment[1:, 1:] / moment[0, 0] - np.outer(means, means)
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = np.sqrt(np.diag(covariance))
        return Answer(correlation=covariance / np.outer(scale, scale), seconds=seconds)


def regressed(
    case: Case, terms: Terms, *, fit: Callable[[Design, Array, Terms], tuple[Array, float]]
) -> Answer:
    """Every target with a whole budget of its own."""
    found, seconds = {}, []
    for table, y in case.goals():
        design = Design.of(terms.bounds(table), case.held_out)
        weights, took = fit(design, y, terms)
        found[table.target] = r2(y, design.predict(weights))
        seconds.append(took)
    return Answer(r2=found, seconds=float(np.mean(seconds)))


def timed(
    solve: Callable[..., Array], design: Design, y: Array, terms: Terms
) -> tuple[Array, float]:
    """By a function of this folder."""
    rho, rng = float(budget_of(terms.epsilon).zcdp_rho()), np.random.default_rng(terms.seed)
    start = time.process_time()
    return solve(design.x, design.y, rho, rng), time.process_time() - start


def by_oracle(design: Design, y: Array, terms: Terms) -> tuple[Array, float]:
    """Gradient descent with settings that rows held out choose, by other noise, free of charge."""

    def chosen(settings: Descent) -> float:
        solve = partial(gradient_descent, chosen=settings)
        weights, _ = timed(solve, design, y, replace(terms, seed=terms.seed + 1000))
        return r2(y, design.predict(weights))

    with np.errstate(over="ignore", invalid="ignore"):
        scores = np.nan_to_num([chosen(settings) for settings in GRID], nan=-np.inf)
    best = GRID[int(np.argmax(scores))]
    return timed(partial(gradient_descent, chosen=best), design, y, terms)


def by_diffprivlib(design: Design, y: Array, terms: Terms) -> tuple[Array, float]:
    """Its linear regression, with pure epsilon, for columns between -1 and 1."""
    largest = 1 / design.x[0, 0]
    rows = np.column_stack([design.x[:, 1:] * largest, design.y])
    about = {"epsilon": terms.epsilon, "seed": terms.seed}
    weights, seconds = answered("diffprivlib", "LinearRegression", terms, rows, **about)
    return weights * largest, seconds


METHODS: dict[str, Method] = {
    "nothing": nothing,
    "no privacy": exact,
    "dpcov": partial(released, neighbors="add-remove-one"),
    "dpcov, replace-one": partial(released, neighbors="replace-one"),
    "dpcov, pure epsilon": partial(released, neighbors="replace-one", pure=True),
    "AdaSSP": partial(regressed, fit=partial(timed, ada_ssp)),
    "gradient descent": partial(regressed, fit=partial(timed, gradient_descent)),
    "gradient descent, best rate": partial(regressed, fit=by_oracle),
    "diffprivlib regression": partial(regressed, fit=by_diffprivlib),
    "diffprivlib PCA": partial(components, peer="diffprivlib", call="covariance_eig"),
    "OpenDP PCA": partial(components, peer="opendp", call="eigendecomposition"),
}
for _mechanism, _bins in itertools.product(("MST", "AIM"), (16, 32)):
    METHODS[f"{_mechanism}, {_bins} bins"] = partial(made_up, mechanism=_mechanism, bins=_bins)
ONCE = ("nothing", "no privacy")
"""Methods that draw nothing at random."""


def lines(name: str, case: Case, terms: Terms) -> Iterator[dict[str, Any]]:
    """A line of the result for every target."""
    line = {"table": case.table.name, "epsilon": terms.epsilon, "wide": terms.wide}
    line |= {"method": name, "repetition": terms.seed}
    try:
        answer = METHODS[name](case, terms)
    except Refused as refused:
        yield line | {"target": case.table.target, "refused": str(refused)}
        return
    line["seconds"] = answer.seconds
    if answer.correlation is not None:
        errors = case.truth.errors(answer.correlation)
        count = 2 * len(case.truth.pairs[0])
        line |= {name: errors[name] for name in ("rms", "largest")}
        line["frobenius"] = errors["rms"] * count**0.5
    for target in case.targets:
        yield line | {"target": target, "r2": answer.r2.get(target, float("nan"))}


def cells(options: argparse.Namespace) -> Iterator[tuple[str, Case, Terms]]:
    """First repetitions first, and quick methods of a table before slow ones."""
    quick = [made(1, n_rows=2_000, n_columns=4)] if options.quick else None
    cases = [Case.of(each) for each in quick or tables(data_directory(options.data), options.only)]
    for seed, epsilon, case, name in itertools.product(
        range(options.repetitions), options.epsilon, cases, options.methods
    ):
        if seed == 0 or name not in ONCE:
            yield name, case, Terms(epsilon, options.wide, seed, options.venvs, options.limit)


def done(path: Path) -> set[tuple[str, ...]]:
    """Cells that a file holds."""
    if not path.exists():
        return set()
    with path.open(newline="") as file:
        return {tuple(line[key] for key in _CELL) for line in csv.DictReader(file)}


def main(arguments: list[str] | None = None) -> None:
    """Append what is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--venvs", type=Path)
    parser.add_argument("--data")
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--wide", type=float, default=1.0)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for one answer")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    for name, case, terms in cells(options):
        values = (case.table.name, terms.epsilon, terms.wide, name, terms.seed)
        there = done(options.out)
        if tuple(map(str, values)) in there:
            continue
        new = not options.out.exists()
        with options.out.open("a", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            if new:
                writer.writeheader()
            for line in lines(name, case, terms):
                numbers = {
                    key: f"{value:.4g}" for key, value in line.items() if key in FIELDS[6:11]
                }
                writer.writerow(line | numbers)
                file.flush()
                print(*(line | numbers).values(), flush=True)


if __name__ == "__main__":
    main()
