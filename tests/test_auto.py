import numpy as np
import pytest

import dpcov
from dpcov.auto import AUTO, choose, resolve
from dpcov.errors import BudgetError, UsageError
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.registry import names
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.guarantee import NEIGHBORS
from tests.contracts.test_mechanisms import BUDGETS

ROWS = np.random.default_rng(5).uniform(size=(400, 20))
SOME_BUDGETS = [pytest.param(budget, id=kind.__name__) for kind, budget in BUDGETS.items()]


def schema_for(features, **settings):
    columns = {f"x{i}": dpcov.Numeric(lower=0, upper=1) for i in range(features)}
    return dpcov.Schema(columns=columns, **settings)


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("budget", SOME_BUDGETS)
@pytest.mark.parametrize("d", [1, 2, 3, 50, 1000])
def test_the_chosen_mechanism_keeps_every_kind_of_budget_under_both_relations(budget, neighbors, d):
    problem = Problem(n_features=d, neighbors=neighbors)
    for shortest_row in (0.0, 0.9):
        choice = choose(problem, budget, shortest_row=shortest_row)
        assert choice.mechanism in names()
        assert choice.reason
        choice.make().calibrate(problem, budget)


def test_rows_longer_than_half_the_norm_bound_need_no_shells():
    problem, budget = Problem(n_features=30, neighbors="replace-one"), dpcov.Budget(rho=1)
    assert choose(problem, budget, shortest_row=0.51).mechanism == "gaussian"
    assert choose(problem, budget, shortest_row=0.5).mechanism == "stratified"
    assert choose(problem, budget).mechanism == "stratified"


def test_a_named_mechanism_is_taken_as_named():
    problem = Problem(n_features=3, neighbors="replace-one")
    choice = resolve("gaussian", {"bits": 18}, problem, dpcov.Budget(rho=1))
    assert choice.make().bits == 18
    assert choice.notes == ()


def test_options_reach_the_chosen_mechanism_and_unknown_ones_are_refused():
    problem, budget = Problem(n_features=30, neighbors="replace-one"), dpcov.Budget(rho=1)
    assert resolve(AUTO, {"bits": 18}, problem, budget).make().bits == 18
    with pytest.raises(UsageError, match="stratified mechanism has no option"):
        resolve(AUTO, {"wings": 2}, problem, budget).make()


def test_a_budget_that_is_none_is_refused():
    with pytest.raises(BudgetError, match="Give the budget"):
        choose(Problem(n_features=3, neighbors="replace-one"), 1.0)


@pytest.mark.parametrize(("features", "chosen"), [(2, "gaussian"), (8, "stratified"), (20, "stratified")])
def test_release_chooses_by_default_and_says_why(features, chosen):
    made = dpcov.release(ROWS[:, :features], schema=schema_for(features), budget=dpcov.Budget(rho=1))
    record = made.manifest.mechanism
    assert (record.name, record.chosen_by) == (chosen, "auto")
    assert made.statistics.notes[0].startswith(f"auto chose {chosen}: ")
    assert made.statistics.notes[0] in " ".join(made.summary().split())
    assert made.statistics.post == "shrink"
    assert np.linalg.eigvalsh(made.covariance()).min() > -1e-12


@pytest.mark.parametrize(
    ("d", "neighbors", "mechanism"),
    [
        (1, "replace-one", "laplace"),
        (1, "add-remove-one", "laplace"),
        (2, "replace-one", "nuclear"),
        (3, "replace-one", "nuclear"),
        (2, "add-remove-one", "stratified-nuclear"),
        (4, "replace-one", "stratified-nuclear"),
    ],
)
def test_few_columns_under_pure_epsilon_get_one_matrix(d, neighbors, mechanism):
    choice = choose(Problem(n_features=d, neighbors=neighbors), dpcov.Budget(epsilon=1))
    assert choice.mechanism == mechanism
    assert choice.post == (None if mechanism == "stratified-nuclear" else "clip")
    options = {"nuclear": {"noise": "gauge"}, "stratified-nuclear": {"shorten": True}}
    assert dict(choice.options) == options.get(mechanism, {})


def test_rows_with_an_intercept_are_not_shortened():
    problem = Problem(n_features=10, neighbors="replace-one")
    assert not choose(problem, dpcov.Budget(epsilon=1), shortest_row=0.1).options["shorten"]


def test_few_rows_under_pure_epsilon_may_come_out_as_zero():
    for n_rows, person, mechanism in (
        (20, 1, "nuclear"),
        (19, 1, "stratified-nuclear"),
        (20, 2, "stratified-nuclear"),
    ):
        problem = Problem(n_features=2, neighbors="replace-one", n_rows=n_rows, rows_per_person=person)
        assert choose(problem, dpcov.Budget(epsilon=1)).mechanism == mechanism


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_choice_for_few_columns_is_better_than_shells_when_rows_are_long(d):
    rows = np.random.default_rng(d).normal(size=(1000, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    truth, errors = rows.T @ rows / len(rows), {}
    for mechanism in ("auto", "stratified-nuclear"):
        moved = [
            dpcov.second_moment(
                rows,
                norm_bound=1.0,
                budget=dpcov.Budget(epsilon=1),
                mechanism=mechanism,
                entropy=SeededEntropy(seed),
            ).second_moment()
            - truth
            for seed in range(30)
        ]
        errors[mechanism] = np.mean([np.linalg.norm(each) for each in moved])
    assert errors["auto"] < (1.15 if d == 1 else 0.85) * errors["stratified-nuclear"]


def test_the_choice_is_the_same_whatever_the_rows_hold():
    budget, schema = dpcov.Budget(rho=1), schema_for(20)
    records = [
        dpcov.release(rows, schema=schema, budget=budget).manifest.mechanism
        for rows in (ROWS, np.zeros_like(ROWS), np.ones_like(ROWS))
    ]
    assert records[0] == records[1] == records[2]


def test_second_moment_chooses_by_default_and_records_it(tmp_path):
    made = dpcov.second_moment(ROWS, norm_bound=5.0, budget=dpcov.Budget(rho=1))
    made.save(tmp_path / "release.dpcov")
    assert dpcov.load(tmp_path / "release.dpcov").manifest.mechanism.chosen_by == "auto"
    named = dpcov.second_moment(ROWS, norm_bound=5.0, budget=dpcov.Budget(rho=1), mechanism="gaussian")
    assert (named.manifest.mechanism.name, named.manifest.mechanism.chosen_by) == ("gaussian", "custodian")
