import re
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import dpcov
from dpcov.errors import UsageError
from dpcov.mechanisms.auto import AUTO, choose, resolve
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.privacy.guarantee import NEIGHBORS
from tests.contracts.test_mechanisms import BUDGETS
from tests.releases import released

ROWS = np.random.default_rng(5).uniform(size=(400, 20))


def documented_rules():
    """The table of choosing.md: every row's conditions and what it says that auto takes."""
    page = (Path(__file__).parents[2] / "docs/choosing.md").read_text(encoding="utf-8")
    header, _, *rows = re.findall(r"^\| budget .*\n(?:\|.*\n)*", page, re.MULTILINE)[0].splitlines()
    keys = [key.strip() for key in header.strip("|").split("|")]
    return [
        dict(zip(keys, (cell.strip() for cell in row.strip("|").split("|")), strict=True))
        for row in rows
    ]


def fits(rule, problem, budget, shortest_row):
    low, _, high = rule["columns"].partition(" to ")
    columns = low == "any" or int(low) <= problem.n_features <= int(high or low)
    kind = (budget.rho is None and budget.delta is None) == {"ε": True, "ρ, or ε and δ": False}[
        rule["budget"]
    ]
    relation = rule["neighbors"] in ("any", problem.neighbors)
    groups = rule["groups"] == "any" or {"one": 1}[rule["groups"]] == problem.n_groups
    return (
        columns
        and kind
        and relation
        and groups
        and also(rule["and"], problem, budget, shortest_row)
    )


def also(condition, problem, budget, shortest_row):
    if condition == "":
        return True
    if found := re.fullmatch(r"shortest row ([>=]) ([\d/]+)", condition):
        number = float(Fraction(found[2]))
        return shortest_row > number if found[1] == ">" else shortest_row == number
    (factor,) = re.fullmatch(r"n ε ≥ (\d+) k d²", condition).groups()
    needed = int(factor) * problem.rows_per_person * problem.n_features**2
    return problem.n_rows is None or problem.n_rows * budget.epsilon >= needed


def public_facts():
    for neighbors, d, k, groups in product(NEIGHBORS, (1, 2, 3, 4, 30), (1, 2), (1, 3)):
        few = (5 * k * d**2 - 1) // 2  # the largest n with n ε < 5 k d² at the ε = 2 of BUDGETS
        for n_rows in (None, few, few + 1) if neighbors == "replace-one" else (None,):
            yield Problem(
                n_features=d, neighbors=neighbors, n_rows=n_rows, rows_per_person=k, n_groups=groups
            )


def test_auto_chooses_what_the_documentation_says():
    rules, used = documented_rules(), set()
    for problem, budget, shortest in product(public_facts(), BUDGETS.values(), (0.0, 0.5, 0.51)):
        place = next(i for i, rule in enumerate(rules) if fits(rule, problem, budget, shortest))
        used.add(place)
        choice = choose(problem, budget, shortest_row=shortest)
        assert choice.reason
        if problem.n_groups == 1:
            choice.make().calibrate(problem, budget)
        options = "".join(f", with `{name}={value}`" for name, value in choice.options.items())
        read_with = f"`{choice.post}`" if choice.post else "its default"
        taken = tuple(rules[place][key] for key in ("`auto` takes", "read with"))
        assert taken == (f"`{choice.mechanism}`{options}", read_with), problem
    assert used == set(range(len(rules)))


def test_a_named_mechanism_is_taken_as_named_and_options_reach_a_chosen_one():
    problem, budget = Problem(n_features=30, neighbors="replace-one"), dpcov.Budget(rho=1)
    choice = resolve("gaussian", {"bits": 18}, problem, budget)
    assert choice.make().bits == 18
    assert choice.notes == ()
    assert resolve(AUTO, {"bits": 18}, problem, budget).make().bits == 18
    with pytest.raises(UsageError, match="stratified mechanism has no option"):
        resolve(AUTO, {"wings": 2}, problem, budget).make()


class Sharper(Gaussian):
    """A mechanism of somebody's own."""

    name = "sharper"


def test_a_mechanism_of_ones_own_is_taken_as_it_is_made_and_said_to_be_one():
    budget = dpcov.Budget(rho=1)
    made = dpcov.second_moment(ROWS, norm_bound=9, budget=budget, mechanism=Sharper(bits=18))
    assert made.manifest.mechanism.name == "sharper" and made.manifest.statistics.lattice_bits == 18
    (note,) = made.statistics.notes
    assert note.startswith("sharper is no mechanism of dpcov")
    own = dpcov.second_moment(ROWS, norm_bound=9, budget=budget, mechanism=Gaussian(bits=18))
    assert own.statistics.notes == ()
    with pytest.raises(UsageError, match="no argument bits"):
        dpcov.second_moment(ROWS, norm_bound=9, budget=budget, mechanism=Sharper(), bits=18)


def test_the_choice_is_the_same_whatever_the_rows_hold():
    tables = (ROWS, np.zeros_like(ROWS), np.ones_like(ROWS))
    releases = [released(rows, 0, 1, rho=1, missing="indicator") for rows in tables]
    records = [made.manifest.mechanism for made in releases]
    assert records[0] == records[1] == records[2]
    assert records[0].chosen_by == "auto"
    assert releases[0].statistics.notes[0].startswith(f"auto chose {records[0].name}: ")
