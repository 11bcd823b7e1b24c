import itertools
import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.errors import ReleaseError
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from dpcov.published.words.summary import told_by_doctor
from dpcov.published.words.verdicts import ColumnVerdict, Diagnosis
from dpcov.published.words.words import conversions, promise_in_words, rows_in_words, short_number
from tests.releases import released_of
from tests.report.examples import make


def release(n_features=3, mechanism="gaussian", **options):
    columns = {f"x{index}": dpcov.Numeric(lower=-1, upper=3) for index in range(n_features)}
    rows = np.random.default_rng(0).uniform(0, 1, size=(4000, n_features))
    schema = dpcov.Schema(columns=columns, title="measurements", **options.pop("schema", {}))
    options = {"budget": dpcov.Budget(rho="0.5"), **options}
    return dpcov.release(rows, schema=schema, mechanism=mechanism, **options)


SEEDED = {"entropy": dpcov.SeededEntropy(1)}
PRIVATE = {"neighbors": "add-remove-one"}
SAID = [
    ({}, "Private covariance release: measurements"),
    ({}, "(0.5)-zCDP, replace-one neighbors"),
    ({}, "what one person's row says; not how many rows the table has"),
    ({}, "4,000 (published exactly: this number is not protected)"),
    ({}, "no ledger"),
    ({}, "exact. Computer rounding does not weaken the guarantee."),
    (PRIVATE, "(the exact number is protected)"),
    (PRIVATE, "what one person's row says, and who is in the table at all"),
    ({"schema": {"rows_per_person": 7}}, "what one person's rows (at most 7) say; not how many"),
    (SEEDED, "WARNING"),
    ({}, "3 of 3 columns can be used; their correlations are within ±"),
    ({"budget": dpcov.Budget(rho="1e-9"), **PRIVATE, **SEEDED}, "None of 3 columns can be used"),
]


@pytest.mark.parametrize(("options", "words"), SAID, ids=[words for _, words in SAID])
def test_it_says_what_an_officer_must_know(options, words):
    made = release(**options)
    text = made.summary()
    assert words in " ".join(text.split())
    assert made.fingerprint in text
    assert ("WARNING" in text) == ("entropy" in options)
    assert "Causes and advice: dpcov doctor RELEASE" in text and "Functions" not in text


def test_nothing_is_said_of_noise_where_there_is_none():
    made = release(mechanism="zero")
    text = made.summary()
    assert "noise" not in text and "Can be read  Nothing in this release depends" in text
    with pytest.raises(ReleaseError, match="Nothing in this release depends"):
        made.mean_vector()


def test_a_combined_release_names_the_mechanisms_of_all():
    both = release().combine(release(mechanism="stratified"))
    assert "Mechanism    gaussian, stratified\n" in both.summary()


def test_the_table_holds_the_estimates():
    made = release(14, budget=dpcov.Budget(rho=1000))
    lines = made.summary().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("   Column "))
    shown = [line.split() for line in lines[start + 1 : start + 13]]
    assert [name for _, name, *_ in shown] == [f"x{index}" for index in range(12)]
    numbers = np.array([[line[2], line[4]] for line in shown], dtype=float).T
    exact = np.array([made.mean_vector(), np.sqrt(np.diagonal(made.covariance_matrix()))])[:, :12]
    np.testing.assert_allclose(numbers, exact, rtol=1e-3)
    assert lines[start + 13] == "... and 2 more"


ONE_COLUMN = {"x0": dpcov.Numeric(lower=0, upper=1)}


def test_control_codes_in_names_do_not_reach_the_terminal():
    made = released_of(ONE_COLUMN, np.zeros((5, 1)), rho=1, title="\x1b[31mred\x07")
    assert "\x1b" not in made.summary()
    assert "?[31mred?" in made.summary()


def test_words_never_promise_more_than_the_numbers():
    for digits, power in itertools.product((100, 271, 2718, 99999), range(-6, 6)):
        value = Fraction(digits) * Fraction(10) ** power
        assert value <= Fraction(short_number(value)) <= value * Fraction(101, 100)


def first(is_wanted, make):
    """The first seeded release that is as wanted."""
    made = (make(dpcov.SeededEntropy(seed)) for seed in range(20))
    return next(release for release in made if is_wanted(release))


@pytest.mark.parametrize("mechanism", ["gaussian", "stratified"])
def test_where_everything_drowned_the_bound_on_the_truth_holds(mechanism):
    schema = dpcov.Schema(columns={"x0": dpcov.Numeric(lower=-1, upper=1)})
    terms = {"schema": schema, "budget": dpcov.Budget(rho="0.01"), "mechanism": mechanism}
    drowned = first(
        # The number of rows is public, so their intercept is known.
        lambda made: not made.second_moment("shrink")[1:, 1:].any(),
        lambda entropy: dpcov.release([[0.5]], entropy=entropy, **terms),
    )
    assert drowned.expected_error("shrink") >= np.linalg.norm([[1.0, 0.5], [0.5, 0.25]])
    assert drowned.statistics.post != "shrink" or "Noise exceeds" in drowned.summary(details=True)


def test_a_release_without_any_matrix_bounds_the_truth():
    rows = np.full((500, 70), 0.1)
    terms = {"norm_bound": 1, "budget": dpcov.Budget(rho="1e-7"), "shells": 2}
    empty = first(
        lambda made: not len(made.statistics.arrays["first_shell"]),
        lambda entropy: dpcov.second_moment(rows, mechanism="stratified", entropy=entropy, **terms),
    )
    assert empty.expected_error("shrink") >= np.linalg.norm(rows.T @ rows / 500)
    assert "Noise exceeds signal" in empty.summary(details=True)
    assert "Error" not in empty.summary()
    assert "not centered" in empty.summary()


def formulas(promise):
    return {formula for formula, _ in conversions(promise)}


def test_conversions_follow_the_promise():
    pure = formulas(PureDP(epsilon=Fraction(2)))
    assert pure >= {"(2)-DP", "(2)-zCDP", "(4)-DP", "(10)-DP"}
    # Of suspicions that are false 5 % are confirmed; e² times as many of those that are true.
    told = promise_in_words(PureDP(epsilon=Fraction(2)))
    assert "in 5 of 100 cases" in told and told.endswith("guessing confirms 5.")
    # However many rows a person has.
    assert "suspects something about one person." in told
    assert f"at most {np.ceil(50 * np.e**2) / 10:g} of 100 suspicions" in told
    zcdp = formulas(ZCDP(rho=Fraction(1, 2)))
    assert any(formula.endswith("1e-6)-DP") for formula in zcdp)
    assert "(2)-zCDP" in zcdp
    # k e^(k - 1) epsilon delta, rounded up
    approximate = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6))
    assert {"(2, 5.44e-6)-DP", "(5, 0.000273)-DP"} <= formulas(approximate)
    free = PureDP(epsilon=Fraction(0))
    assert promise_in_words(free) == "Nothing in this file depends on the table."
    assert formulas(free) == {"(0)-DP"}


def test_the_stated_error_says_that_scaling_rows_down_comes_on_top():
    rows = np.exp(np.random.default_rng(0).normal(size=(4000, 3)))
    schema = dpcov.Schema(columns={f"x{k}": dpcov.Numeric(lower=0, upper=1000) for k in range(3)})
    terms = {"schema": schema, "budget": dpcov.Budget(rho="0.5"), **SEEDED}
    made = dpcov.release(rows, **terms)
    told = " ".join(made.summary(details=True).split())
    assert made.statistics.lost > 0.1
    part = f"{100 * made.statistics.lost:.2g} %"
    assert f"scaling rows down, which took {part} of squared lengths, is on top" in told
    whole = dpcov.release(rows, **terms, geometry="schema")
    told = " ".join(whole.summary(details=True).split())
    error, size = whole.expected_error("shrink"), np.linalg.norm(whole.second_moment())
    stated = f"Error about {error:.3g} (Frobenius norm), of noise alone, in a second moment matrix"
    assert f"{stated} of size {size:.3g}" in told and "scaling rows down, which" not in told


def test_a_noisy_number_of_rows_has_its_error():
    terms = {"neighbors": "add-remove-one", "entropy": dpcov.SeededEntropy(0)}
    made = make(("a", "b"), 500, **terms)
    found = re.search(r"about (\d+) ± (\d+)", rows_in_words(made))
    assert found is not None and abs(int(found[1]) - 500) < 4 * int(found[2])
    assert rows_in_words(make(("a", "b"), 500)) == "500"


@pytest.mark.parametrize(
    ("share", "noise", "told"),
    [(0.00000152, 0.0000201, "0.00015 % 0.0039 %"), (0.3, 0.9, "       –      –")],
)
def test_no_cell_of_the_table_runs_into_the_next(share, noise, told):
    """Shares of five million rows are longer than the cells of other tables."""
    known = {"mean": -12345.678901, "mean_noise": 1e-5, "spread": 0.5, "spread_noise": 1e-8}
    known |= {"smallest": 0.0, "within": 0.001, "missing": share, "missing_noise": noise}
    column = ColumnVerdict("x", "x", "good", "", "", **known)
    line = told_by_doctor(Diagnosis(columns=(column,), typical=0.001, worst=0.001)).splitlines()[3]
    cells = "-12,345.678901  0.000020         0.5     2e-08           0.001"
    assert line == f"●  x      {cells} {told}  good"


@pytest.mark.parametrize(
    ("names", "weighted", "helps"),
    [
        ("a", False, "More rows or"),
        ("ab", False, "Fewer columns, more rows or"),
        ("ab", True, "Fewer columns, more rows, rows without weights or"),
    ],
)
def test_what_would_help_is_what_there_is(names, weighted, helps):
    made = make(names, 300, epsilon="0.3", entropy=dpcov.SeededEntropy(0))
    if weighted:
        columns = dict.fromkeys(names, dpcov.Numeric(lower=-1, upper=1))
        columns["w"], weights = dpcov.Numeric(lower=0, upper=1), dpcov.Weights(column="w", upper=1)
        rows = pd.DataFrame({name: np.linspace(0, 1, 300) for name in (*names, "w")})
        made = released_of(columns, rows, weights=weights, missing="never")
    advice = {column.advice for column in made.diagnose().columns}
    assert advice and all(each.startswith(helps) for each in advice), advice
