import itertools
from fractions import Fraction

import msgspec
import numpy as np
import pytest

import dpcov
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from dpcov.published.manifest import promise_record
from dpcov.published.release import Release
from dpcov.published.summary import _in_words
from dpcov.published.words import short_number


def release(n_features=3, mechanism="gaussian", **options):
    columns = {f"x{index}": dpcov.Numeric(lower=-1, upper=3) for index in range(n_features)}
    rows = np.random.default_rng(0).uniform(0, 1, size=(4000, n_features))
    schema = dpcov.Schema(columns=columns, title="measurements", **options.pop("schema", {}))
    return dpcov.release(
        rows, schema=schema, mechanism=mechanism, **{"budget": dpcov.Budget(rho="0.5"), **options}
    )


def test_one_screen():
    for text in (
        release().summary(),
        release(40, mechanism="auto", neighbors="add-remove-one").summary(),
    ):
        assert len(text.splitlines()) <= 45
        assert text.endswith("\n")
        assert max(map(len, text.splitlines())) <= 110
        assert text.isascii()


def test_it_says_what_an_officer_must_know():
    made = release()
    text = made.summary()
    for words in (
        "measurements",
        made.fingerprint,
        "(0.5)-zCDP",
        "replace-one",
        "4,000",
        "not protected",
        "no ledger",
    ):
        assert words in text


def test_a_private_row_count_is_called_private():
    text = release(neighbors="add-remove-one").summary()
    assert "exact number is protected" in text
    assert "whether the person is in the table" in text


def test_rows_per_person_are_named():
    assert "at most 7" in release(schema={"rows_per_person": 7}).summary()


def test_the_table_holds_the_estimates():
    made = release(14, budget=dpcov.Budget(rho=1000))
    lines = made.summary().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("Feature "))
    shown = [line.split() for line in lines[start + 1 : start + 13]]
    assert [name for name, *_ in shown] == [f"x{index}" for index in range(12)]
    for (_, mean, deviation), exact, variance in zip(
        shown, made.mean(), np.diagonal(made.covariance()), strict=False
    ):
        assert float(mean) == pytest.approx(exact, rel=1e-3)
        assert float(deviation) == pytest.approx(variance**0.5, rel=1e-3)
    assert lines[start + 13] == "... and 2 more"


def test_there_is_no_table_without_an_intercept():
    made = dpcov.second_moment(np.eye(3), norm_bound=1, budget=dpcov.Budget(rho=1))
    assert "mean" not in made.summary().replace("means", "")
    assert "not centered" in made.summary()


def test_too_much_noise_is_said_instead_of_a_table():
    made = release(
        budget=dpcov.Budget(rho="1e-9"), neighbors="add-remove-one", entropy=dpcov.SeededEntropy(0)
    )
    assert "\nEstimates    " in made.summary()
    assert "\nFeature " not in made.summary()


def test_seeded_releases_carry_the_warning():
    assert "WARNING" in release(entropy=dpcov.SeededEntropy(1)).summary()
    assert "WARNING" not in release().summary()


def test_control_codes_in_names_do_not_reach_the_terminal():
    schema = dpcov.Schema(columns={"x0": dpcov.Numeric(lower=0, upper=1)}, title="\x1b[31mred\x07")
    made = dpcov.release(np.zeros((5, 1)), schema=schema, budget=dpcov.Budget(rho=1))
    assert "\x1b" not in made.summary()
    assert "?[31mred?" in made.summary()


def test_ledger_entries_are_named(tmp_path):
    ledger = dpcov.Ledger(tmp_path / "ledger")
    ledger.create("patients", dpcov.Budget(rho=2), "replace-one")
    columns = {"x0": dpcov.Numeric(lower=0, upper=1)}
    made = dpcov.release(
        np.zeros((5, 1)),
        schema=dpcov.Schema(columns=columns),
        budget=dpcov.Budget(rho=1),
        ledger=ledger,
        dataset="patients",
    )
    assert "entry 1 of dataset patients" in made.summary()


@pytest.mark.parametrize(
    "promise",
    [
        PureDP(epsilon=Fraction(1)),
        PureDP(epsilon=Fraction(99)),
        ZCDP(rho=Fraction(1, 3)),
        ApproxDP(epsilon=Fraction(1, 10), delta=Fraction(1, 10**9)),
    ],
)
def test_every_kind_of_promise_can_be_told(promise):
    made = release()
    guarantee = msgspec.structs.replace(made.manifest.guarantee, promise=promise_record(promise))
    told = Release(
        msgspec.structs.replace(made.manifest, guarantee=guarantee), dict(made.statistics.arrays)
    )
    assert str(promise) in told.summary()
    assert "In words" in told.summary()


def test_words_never_promise_more_than_the_numbers():
    assert "2.72 times" in _in_words(PureDP(epsilon=Fraction(1)))
    for digits, power in itertools.product((100, 271, 2718, 99999), range(-6, 6)):
        value = Fraction(digits) * Fraction(10) ** power
        assert value <= Fraction(short_number(value)) <= value * Fraction(101, 100)


def test_groups_are_named_where_there_are_some():
    schema = dpcov.Schema(
        columns={
            "x0": dpcov.Numeric(lower=-1, upper=3),
            "x1": dpcov.Categorical(categories=("0", "1")),
        }
    )
    rows = np.tile([[1.0, 0.0], [2.0, 1.0]], (100, 1))
    made = dpcov.release(rows, schema=schema, budget=dpcov.Budget(rho=1), by="x1")
    lines = made.summary().splitlines()
    assert "Groups       the same for each of 0, 1, (other)" in lines
    assert lines[3].startswith("Published    means and covariance of 1 feature,")
    assert "Groups" not in made.group("1").summary()


@pytest.mark.parametrize("mechanism", ["gaussian", "stratified"])
def test_where_everything_drowned_the_bound_on_the_truth_holds(mechanism):
    schema = dpcov.Schema(columns={"x0": dpcov.Numeric(lower=-1, upper=1)})
    for seed in range(20):
        made = dpcov.release(
            [[0.5]],
            schema=schema,
            budget=dpcov.Budget(rho="0.01"),
            mechanism=mechanism,
            entropy=dpcov.SeededEntropy(seed),
        )
        if not made.second_moment("shrink").any():
            break
    else:
        pytest.fail("no release drowned in noise")
    assert made.expected_error("shrink") >= np.linalg.norm([[1.0, 0.5], [0.5, 0.25]])


def test_a_release_without_any_matrix_bounds_the_truth():
    rows = np.full((500, 70), 0.1)
    for seed in range(20):
        made = dpcov.second_moment(
            rows,
            norm_bound=1,
            budget=dpcov.Budget(rho="1e-7"),
            mechanism="stratified",
            shells=2,
            entropy=dpcov.SeededEntropy(seed),
        )
        if not len(made.statistics.arrays["first_shell"]):
            break
    else:
        pytest.fail("every release drew a matrix")
    assert made.expected_error("shrink") >= np.linalg.norm(rows.T @ rows / 500)
    assert "drowned" in made.summary()


def test_one_matrix_of_an_empty_table_bounds_the_truth_by_its_trace():
    found = []
    for seed in range(200):
        made = dpcov.second_moment(
            np.zeros((1000, 3)),
            norm_bound=1,
            budget=dpcov.Budget(rho=1),
            mechanism="gaussian",
            entropy=dpcov.SeededEntropy(seed),
        )
        if not made.second_moment("shrink").any():
            found.append(made.expected_error("shrink"))
    # A trace has the noise of three diagonal entries, each of 1/1000; the public bound alone would be 1.
    assert len(found) > 20
    assert max(found) < 0.01
