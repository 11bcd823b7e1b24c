"""Noise that a test chooses: what a mechanism does with a draw can then be worked out by hand.

Where one number is drawn, tests often return a second one, which must not matter.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpcov.data.questions import Ask
from dpcov.mechanisms.base import Problem
from dpcov.noise.entropy import SeededEntropy
from tests.data.reading import gather


class Chosen:
    """Stands in for a function that draws: remembers what it was asked, answers as it was told.

    Entropy, the one argument that no answer depends on, is left out of what is remembered.
    """

    def __init__(self, answer: Callable[..., Any]) -> None:
        self.answer, self.asked = answer, []

    def __call__(self, *asked: Any, **options: Any) -> Any:
        told = tuple(each for each in asked if not hasattr(each, "words"))
        self.asked.append((*told, *(value for name, value in options.items() if name != "entropy")))
        return self.answer(
            *told, **{name: value for name, value in options.items() if name != "entropy"}
        )


def choose(monkeypatch: pytest.MonkeyPatch, target: str, answer: Callable[..., Any]) -> Chosen:
    """Replace a function of the package, given by its full name, until the test ends."""
    chosen = Chosen(answer)
    monkeypatch.setattr(target, chosen)
    return chosen


def problem(
    n_features: int, neighbors: str = "replace-one", k: int = 1, n_rows: int | None = 10
) -> Problem:
    """A problem in few words; the number of rows is public under replace-one only."""
    public = n_rows if neighbors == "replace-one" else None
    return Problem(n_features=n_features, neighbors=neighbors, n_rows=public, rows_per_person=k)


def rows_of_norm(norms, d, seed=0):
    rows = np.random.default_rng(seed).normal(size=(len(norms), d))
    return rows * (np.array(norms) / np.linalg.norm(rows, axis=1))[:, None]


def shell_sscps(rows, shells, bits):
    """Shell by shell in lattice units, from the rows' norms."""
    norms = np.linalg.norm(rows, axis=1)
    number = np.minimum(np.floor(-np.log2(norms) + 1e-12), shells - 1)
    return [4.0 ** (bits + s) * rows[number == s].T @ rows[number == s] for s in range(shells)]


def drawn(mechanism, rows, budget, size=1, *, neighbors="replace-one", k=1, seed=1, n_rows=None):
    """Draws of a mechanism from a table, one after another from one seed."""
    d = rows.shape[1]
    asked = problem(d, neighbors, k, n_rows or len(rows))
    ask = Ask.saved(gather([rows], d, mechanism.moments_spec(asked)))
    calibration, entropy = mechanism.calibrate(asked, budget), SeededEntropy(seed)
    return [mechanism.draw(ask, calibration, asked, entropy) for _ in range(size)]


def sscp_of(made, rows):
    """The released second moment times the number of rows that it was divided by."""
    return made.arrays["second_moment"] * max(1, int(made.arrays.get("row_count", [rows])[0]))


def sscps(mechanism, rows, budget, size=1, **options):
    """Released sscps, one after another from one seed."""
    made = drawn(mechanism, rows, budget, size, **options)
    return np.array([sscp_of(each, len(rows)) for each in made])
