"""Rivals in the benchmark: right without noise, within their budget, and resumable."""

import csv
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib")

from benchmarks.analyst import contest, geometry_page, page, several
from benchmarks.analyst.contest import Case, Terms
from benchmarks.analyst.rivals import GRID, UNTUNED, Descent, ada_ssp, gradient_descent, unit_rows
from benchmarks.analyst.tables import Table, made

PEOPLE = Table(
    "people",
    pd.DataFrame({"age": [20.0, 90.0, 40.0, 30.0] * 5, "town": ["a", "b", "a", "c"] * 5}),
    {"age": (0.0, 100.0)},
    "age",
    categories={"town": ("a", "b", "c")},
)


class Recorded:
    """Draws zeros, and keeps the scale of every draw."""

    def __init__(self):
        self.scales = []

    def normal(self, *, scale, size=()):
        self.scales.append(scale)
        return np.zeros(size)


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(400), rng.uniform(-1, 1, size=(400, 2))]) / np.sqrt(3)
    return x, x @ [0.5, -0.3, 0.2] + 0.01 * rng.normal(size=400)


@pytest.mark.parametrize(
    ("solve", "more"),
    [(ada_ssp, ()), (gradient_descent, (Descent(steps=200, clip=2.0, rate=3.0),))],
)
def test_without_noise_rivals_are_least_squares(regression, solve, more):
    x, y = regression
    exact = np.linalg.lstsq(x, y, rcond=None)[0]
    found = solve(x, y, 1e12, np.random.default_rng(0), *more)
    assert found == pytest.approx(exact, abs=1e-4)
    noisy = solve(x, y, 1e-3, np.random.default_rng(0), *more)
    assert np.abs(noisy - exact).max() > 0.05


def test_draws_of_rivals_cost_what_they_are_given(regression):
    rho, asked = 0.3, Recorded()
    ada_ssp(*regression, rho, asked)
    assert len(asked.scales) == 3
    assert sum(1 / (2 * scale**2) for scale in asked.scales) == pytest.approx(rho)
    for settings in (UNTUNED, *GRID):
        asked = Recorded()
        gradient_descent(*regression, rho, asked, settings)
        spent = sum(settings.clip**2 / (2 * scale**2) for scale in asked.scales)
        assert spent == pytest.approx(rho)


def test_no_row_moves_a_step_by_more_than_the_clip():
    x = np.array([[0.6, 0.8], [0.0, 0.1], [1.0, 0.0]])
    y, settings = np.array([-1.0, 0.5, 1e-3]), Descent(steps=1, clip=0.05, rate=1.0)
    steps = [gradient_descent(x[[i]], y[[i]], 1.0, Recorded(), settings) for i in range(3)]
    assert np.linalg.norm(steps, axis=1) == pytest.approx([0.05, 0.05, 1e-3])


def test_rows_by_public_bounds_lie_in_the_unit_ball():
    rows, names = unit_rows(PEOPLE, PEOPLE.frame)
    assert names == ["", "age", "town=a", "town=b", "town=c"]
    assert rows[1] * np.sqrt(3) == pytest.approx([1, 0.8, 0, 1, 0])
    edge = PEOPLE.frame.assign(age=100.0)
    assert np.linalg.norm(unit_rows(PEOPLE, edge)[0], axis=1) == pytest.approx(1.0)


def test_rows_are_read_as_people_read_them():
    case = Case.of(PEOPLE)
    assert (len(case.table.frame), len(case.held_out)) == (16, 4)
    found = contest.from_rows(case, case.table.frame)
    errors = case.truth.errors(found.correlation)
    # A town tells the age but for town a.
    assert errors["rms"] == 0 and 0.5 < found.r2["age"] < 1
    assert case.truth.apart.sum() == 3
    other = case.table.frame.assign(town="a")
    blind = contest.from_rows(case, other)
    assert case.truth.errors(blind.correlation)["undefined"] == 1
    assert abs(blind.r2["age"]) < 0.1


def ask(path, *methods, repetitions=2):
    options = ["--quick", "--out", str(path), "--epsilon", "4", "--repetitions", str(repetitions)]
    contest.main([*options, "--methods", *methods])
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_contest_goes_on_where_it_was_ended(tmp_path):
    path = tmp_path / "lines.csv"
    assert len(ask(path, "dpcov", repetitions=1)) == 1
    methods = ("nothing", "no privacy", "dpcov", "AdaSSP", "MST, 16 bins")
    lines = ask(path, *methods)
    assert ask(path, *methods) == lines
    counts = pd.Series([line["method"] for line in lines]).value_counts()
    assert counts.to_dict() == dict(zip(methods, (1, 1, 2, 2, 2), strict=True))
    rms = {line["method"]: float(line["rms"] or "nan") for line in lines}
    assert rms["no privacy"] == 0 < rms["dpcov"] < rms["nothing"]
    assert "--venvs" in lines[-1]["refused"]


@pytest.mark.skipif("DPCOV_VENVS" not in os.environ, reason="needs DPCOV_VENVS, where dpmm is")
def test_made_up_rows_resemble_the_table():
    case = Case.of(replace(made(1, n_rows=2_000, n_columns=3), name="small"))
    terms = Terms(4.0, 1.0, 0, Path(os.environ["DPCOV_VENVS"]), 600.0)
    found = contest.METHODS["MST, 16 bins"](case, terms)
    nothing = contest.METHODS["nothing"](case, terms)
    errors = [case.truth.errors(each.correlation)["rms"] for each in (found, nothing)]
    assert errors[0] < errors[1] and found.seconds > 0


@pytest.mark.parametrize(("writer", "error"), [(geometry_page, "rms"), (several, "now")])
def test_a_page_says_what_was_measured(writer, error):
    text, lines = writer.PAGE.read_text(encoding="utf-8"), pd.read_csv(writer.LINES)
    assert page.filled(text, writer.blocks(lines)) == text
    # A better release would change the page.
    better = lines.assign(**{error: lines[error] / 2})
    assert page.filled(text, writer.blocks(better)) != text


def test_the_page_says_what_was_measured():
    lines = page.measured(page.LINES)
    for path, found in ((page.PAGE, page.blocks(lines)), (page.TABLES, page.tables(lines))):
        text = path.read_text(encoding="utf-8")
        assert page.filled(text, found) == text
    assert set(page.drawn(lines)) <= {path.stem for path in page.FIGURES.glob("*.svg")}
    with pytest.raises(SystemExit, match="correlations"):
        page.filled(text.replace("<!-- correlations -->", ""), page.tables(lines))


def test_losses_name_the_better_ones_and_ties_are_none():
    lines = pd.DataFrame(
        [
            ("t", "y", 1.0, "dpcov", 0.10, 0.400),
            ("t", "y", 1.0, "MST, 16 bins", 0.09, 0.405),
            ("t", "y", 1.0, "AIM, 16 bins", 0.20, 0.500),
            ("u", "y", 1.0, "dpcov", 0.10, 0.4),
        ],
        columns=["table", "target", "epsilon", "method", "rms", "r2"],
    )
    said = page.losses(lines).splitlines()[2:]
    assert said == [
        "| t, ε = 1 | error of correlations | 0.100 | MST, 16 bins 0.090 |",
        "| t, y, ε = 1 | R² | 0.400 | AIM, 16 bins 0.500 |",
    ]
