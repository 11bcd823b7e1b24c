"""Ridge regression from one release against models that each pay for themselves.

Run: python -m benchmarks.analysis.ridge [--data DIR] [--repetitions N] [--diffprivlib PYTHON]

For 1, 2, 5 and 10 models trained on the same people, the total budget is always epsilon = 1, delta
= 1e-6. The release is made once for all of them. Output perturbation draws Gaussian noise for every
model, with the exact composition of m Gaussian mechanisms (noise times sqrt(m)) and, per m, the
penalty that turns out best on the test rows; its intercept, which its penalty would spoil, is taken
from the rows without noise and free of charge: better than a custodian could do. diffprivlib spends
epsilon / m on each model, without delta (m pure mechanisms compose no better at this epsilon and
m); its interpreter is named with --diffprivlib because it needs an older scikit-learn.

Reported are means over all ten targets, so that the models themselves are the same for every m: R²
on the test rows, floored at -1 for each fit; and the distance of the coefficients from those of the
non-private ridge, relative to their length, in encoded units.
"""

import argparse
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import dpcov
from benchmarks.analysis.tasks import Task, adult
from benchmarks.data import MissingTable, data_directory
from benchmarks.measured import table
from benchmarks.papers.baselines import output_perturbation
from benchmarks.papers.ridge import ridge_weights
from benchmarks.papers.tables import Data
from benchmarks.peers import exchange
from benchmarks.peers.catalog import Peer
from dpcov import Budget, SeededEntropy
from dpcov.analysis import NoiseWarning, PrivateRidge

Array = NDArray[np.float64]

BUDGET = Budget(epsilon=1, delta="1e-6")
MODELS = (1, 2, 5, 10)
REFERENCE_ALPHA = 1e-3
"""Penalty of the non-private fit, in encoded units: small, but with one solution although
categories are collinear."""
RIVAL_ALPHAS = tuple(np.geomspace(1e-4, 1.0, 13))
WORST_R2 = -1.0


@dataclass(frozen=True, kw_only=True)
class Score:
    """One line of the table."""

    method: str
    models: int
    r2: float
    coefficient_error: float
    note: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Goal:
    """One target of a task: rows for the rivals, and the non-private fit."""

    target: str
    data: Data
    test: Data
    best: Array

    def judge(self, weights: Array) -> tuple[float, float]:
        """R² on the test rows, and relative coefficient error (without the intercept)."""
        u, moment = np.append(weights, -1.0), self.test.second_moment
        mean = moment[0, -1] / np.sqrt(moment[0, 0])
        r2 = 1 - float(u @ moment @ u) / float(moment[-1, -1] - mean**2)
        distance = float(
            np.linalg.norm(weights[1:] - self.best[1:]) / np.linalg.norm(self.best[1:])
        )
        return max(WORST_R2, r2), distance

    def with_exact_intercept(self, weights: Array) -> Array:
        """Give a model the intercept that suits its coefficients, from the rows themselves."""
        means = self.data.second_moment[0] / self.data.second_moment[0, 0]
        return np.concatenate([[means[-1] - means[1:-1] @ weights[1:]], weights[1:]])


def goals_of(task: Task) -> list[Goal]:
    """All targets, with rows whose last column is the target."""
    found = []
    for target in task.targets:
        features, place = task.columns_for(target)
        data = Data(rows=task.rows[:, [*features, place]])
        alpha = REFERENCE_ALPHA / task.encoder.norm_bound**2 / 2
        found.append(
            Goal(
                target=target,
                data=data,
                test=Data(rows=task.test_rows[:, [*features, place]]),
                best=ridge_weights(data.second_moment, alpha),
            )
        )
    return found


def non_private(goals: list[Goal]) -> Score:
    r2 = np.mean([goal.judge(goal.best)[0] for goal in goals])
    return Score(method="non-private ridge", models=0, r2=float(r2), coefficient_error=0.0)


def from_release(task: Task, goals: list[Goal], budget: Budget, repetitions: int) -> Score:
    """One release; every model reads it."""
    found = []
    for seed in range(repetitions):
        made = dpcov.release(
            task.train, schema=task.schema, budget=budget, entropy=SeededEntropy(seed)
        )
        for goal in goals:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NoiseWarning)
                model = PrivateRidge.from_release(made, target=goal.target)
            found.append(_judge_model(task, goal, model))
    r2, distance = np.mean(found, axis=0)
    return Score(
        method="dpcov: one release", models=0, r2=float(r2), coefficient_error=float(distance)
    )


def _judge_model(task: Task, goal: Goal, model: PrivateRidge) -> tuple[float, float]:
    """Bring a model in original units to the encoded rows that the rivals are judged on."""
    features, place = task.columns_for(goal.target)
    columns = task.encoder.columns
    half_ranges = np.array([columns[i].half_range for i in features[1:]])
    centers = np.array([columns[i].center for i in features[1:]])
    goal_column = columns[place]
    known = dict(zip(model.get_encoded_names(), model.coef_, strict=True))
    coefficients = np.array([known.get(columns[i].name, 0.0) for i in features[1:]])
    slopes = coefficients * half_ranges / goal_column.half_range
    offset = (
        model.intercept_ + coefficients @ centers - goal_column.center
    ) / goal_column.half_range
    r2, _ = goal.judge(np.concatenate([[offset], slopes]))
    # The non-private fit has no reference levels: its coefficients of a column's levels sum to
    # about zero.
    for name in model.reference_levels_:
        source = next(column.source for column in columns if column.name == name)
        levels = [
            columns[i].source == source and columns[i].kind == "category" for i in features[1:]
        ]
        slopes[levels] -= slopes[levels].mean()
    return r2, goal.judge(np.concatenate([[offset], slopes]))[1]


def perturbed(
    goals: list[Goal], budget: Budget, models: tuple[int, ...], repetitions: int
) -> list[Score]:
    """Output perturbation of every model, at the best penalty for each number of models."""
    found = {
        number: [_Try(alpha=alpha, models=number, judged=[]) for alpha in RIVAL_ALPHAS]
        for number in models
    }
    for place, alpha in enumerate(RIVAL_ALPHAS):
        for number, goal in enumerate(goals):
            exact = ridge_weights(goal.data.second_moment, alpha)
            for seed in range(repetitions):
                entropy = SeededEntropy(1000 * seed + number)
                noise = output_perturbation(goal.data, budget, entropy, alpha=alpha) - exact
                for count, tries in found.items():
                    weights = goal.with_exact_intercept(exact + np.sqrt(count) * noise)
                    tries[place].judged.append(goal.judge(weights))
    return [
        max((each.score() for each in tries), key=lambda score: score.r2)
        for tries in found.values()
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Try:
    """Output perturbation at one penalty, for one number of models."""

    alpha: float
    models: int
    judged: list[tuple[float, float]]

    def score(self) -> Score:
        r2, distance = np.mean(self.judged, axis=0)
        return Score(
            method="output perturbation",
            models=self.models,
            r2=float(r2),
            coefficient_error=float(distance),
            note=f"alpha {self.alpha:.1e}",
        )


def diffprivlib(
    goals: list[Goal], epsilon: float, models: int, repetitions: int, python: str
) -> Score:
    """diffprivlib's LinearRegression in an interpreter of its own."""
    peer, found = Peer(name="diffprivlib", worker="use_diffprivlib.py"), []
    for goal in goals:
        # Columns by their largest magnitude, 1 in encoded units.
        rows = goal.data.rows[:, 1:] / float(np.abs(goal.data.rows[0, 0]))
        asked = {"arguments": {"epsilon": epsilon / models}, "repetitions": repetitions}
        task = exchange.Task(key="task", method="LinearRegression", table="t", **asked)
        with tempfile.TemporaryDirectory() as scratch:
            where = peer.script, [task], {"t": rows}, Path(scratch)
            answer = exchange.ask(Path(python), *where, limit_s=600.0).answers["task"]
        if answer.refused:
            raise SystemExit(f"diffprivlib: {answer.refused}")
        found += [goal.judge(weights) for weights in answer.values]
    r2, distance = np.mean(found, axis=0)
    return Score(
        method="diffprivlib",
        models=models,
        r2=float(r2),
        coefficient_error=float(distance),
        note="pure epsilon",
    )


def compare(
    task: Task,
    budget: Budget = BUDGET,
    models: tuple[int, ...] = MODELS,
    repetitions: int = 10,
    python: str | None = None,
) -> Iterator[Score]:
    """All lines of the table; the first two do not depend on the number of models."""
    goals = goals_of(task)
    yield non_private(goals)
    yield from_release(task, goals, budget, repetitions)
    yield from perturbed(goals, budget, models, repetitions)
    if python is not None and budget.epsilon is not None:
        for number in models:
            yield diffprivlib(goals, float(budget.epsilon), number, min(3, repetitions), python)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.analysis.ridge", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--data", type=Path, help="directory of the public tables")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--diffprivlib", metavar="PYTHON", help="interpreter that has diffprivlib")
    arguments = parser.parse_args()
    try:
        task = adult(data_directory(arguments.data))
    except MissingTable as missing:
        print(f"skipped: {missing}", file=sys.stderr)
        return
    lines = [["method", "models", "R²", "coefficient error", "note"]]
    for score in compare(task, repetitions=arguments.repetitions, python=arguments.diffprivlib):
        numbers = f"{score.r2:.3f}", f"{score.coefficient_error:.3g}"
        lines.append([score.method, str(score.models or "any"), *numbers, score.note])
    print(table(lines))
    if arguments.diffprivlib is None:
        print("diffprivlib skipped: name an interpreter that has it with --diffprivlib")


if __name__ == "__main__":
    main()
