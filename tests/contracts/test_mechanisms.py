"""What every registered mechanism must do; a new registry row is tested by itself."""

import dataclasses
import math
from typing import get_args

import numpy as np
import pytest

import dpcov
from dpcov.data.exact.moments import Moments
from dpcov.data.questions import Ask
from dpcov.data.sources import Source
from dpcov.errors import BudgetError, DataError, DpcovError, LedgerError, NumericError, UsageError
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.registry import MECHANISMS
from dpcov.mechanisms.thresholding import Thresholding
from dpcov.noise.entropy import BlockEntropy, SeededEntropy, SystemEntropy
from dpcov.privacy.convert import pure_to_zcdp, zcdp_delta, zcdp_epsilon
from dpcov.privacy.guarantee import NEIGHBORS, ZCDP, ApproxDP, PureDP, costs_nothing
from dpcov.published.file.statistics import Post
from tests.statistical.goodness import assert_mean_square, mean_square_samples

BUDGETS = {
    PureDP: dpcov.Budget(epsilon=2),
    ZCDP: dpcov.Budget(rho="0.5"),
    ApproxDP: dpcov.Budget(epsilon=1, delta="1e-6"),
}
TOO_SMALL = {
    PureDP: dpcov.Budget(epsilon="1e-200"),
    ZCDP: dpcov.Budget(rho="1e-200"),
    ApproxDP: dpcov.Budget(epsilon="1e-200", delta="1e-200"),
}
X = np.random.default_rng(0).normal(size=(500, 4)) / 4
EVERY = [pytest.param(mechanism, id=mechanism.name) for mechanism in MECHANISMS]
CASES = [
    pytest.param(mechanism, neighbors, kind, id=f"{mechanism.name}-{neighbors}-{kind.__name__}")
    for mechanism in MECHANISMS
    for neighbors in mechanism.relations
    for kind in mechanism.promises
]

every_mechanism = pytest.mark.parametrize("mechanism", EVERY)
every_case = pytest.mark.parametrize(("mechanism", "neighbors", "kind"), CASES)


def problem_of(neighbors, n_rows):
    n_rows = n_rows if neighbors == "replace-one" else None
    return Problem(n_features=4, neighbors=neighbors, n_rows=n_rows)


def is_free(mechanism, neighbors, kind):
    """Whether the output ignores the table, so that there is nothing to draw and nothing to pay."""
    calibration = mechanism().calibrate(problem_of(neighbors, 500), BUDGETS[kind])
    return costs_nothing(calibration.promise)


DRAWN = [case for case in CASES if not is_free(*case.values)]
FREE = [case for case in CASES if is_free(*case.values)]
every_drawn_case = pytest.mark.parametrize(("mechanism", "neighbors", "kind"), DRAWN)


def release(mechanism, neighbors, kind, data=X, **options):
    options = {"norm_bound": 1.0, "budget": BUDGETS[kind], **options}
    return dpcov.second_moment(data, mechanism=mechanism.name, neighbors=neighbors, **options)


def first_case(mechanism):
    return mechanism, mechanism.relations[0], mechanism.promises[0]


class UnreadSource(Source):
    """Rows that nobody may look at before everything that can be refused was refused."""

    name = "the unread table"
    columns = ("x0", "x1", "x2", "x3")

    def kinds(self):
        return dict.fromkeys(self.columns, "number")

    def _read(self, block_rows, wanted):
        raise AssertionError("the data were read")


class EntropySpy:
    """System randomness that records, at every draw, what the ledger said."""

    private = True

    def __init__(self, ledger):
        self.ledger = ledger
        self.seen = []
        self.source = SystemEntropy()

    def words(self, count):
        self.seen.append([entry.state for entry in self.ledger.entries("people")])
        return self.source.words(count)


class Failing:
    """Randomness that ends after so many requests."""

    private = True

    def __init__(self, requests):
        self.left, self.source = requests, SystemEntropy()

    def words(self, count):
        self.left -= 1
        if self.left < 0:
            raise NumericError("The source of randomness failed.")
        return self.source.words(count)


def refused_unread(error, ledger, mechanism, neighbors, **options):
    with pytest.raises(error) as caught:
        how = {"ledger": ledger, "dataset": "people", **options}
        release(mechanism, neighbors, mechanism.promises[0], UnreadSource(), **how)
    assert ledger.entries("people") == ()
    return str(caught.value)


def at_least_as_strong(promise, budget):
    """Whether a promise implies the one that was asked for."""
    if costs_nothing(promise):
        return True
    match promise, budget:
        case (PureDP(), PureDP()):
            return promise.epsilon <= budget.epsilon
        case (ZCDP(), ZCDP()):
            return promise.rho <= budget.rho
        case (ApproxDP(), ApproxDP()):
            return promise.epsilon <= budget.epsilon and promise.delta <= budget.delta
        case (PureDP(), ZCDP()):
            return pure_to_zcdp(promise.epsilon) <= budget.rho
        case (PureDP(), ApproxDP()):
            return promise.epsilon <= budget.epsilon
        case (ZCDP(), ApproxDP()):
            return zcdp_epsilon(promise.rho, budget.delta) <= budget.epsilon
    return False


@every_mechanism
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_that_are_not_finite_are_refused_before_anything_is_spent(mechanism, ledger_for):
    _, neighbors, kind = first_case(mechanism)
    ledger, rows = ledger_for(neighbors, kind), X.copy()
    for bad in (np.nan, np.inf, -np.inf):
        rows[7, 1] = bad
        with pytest.raises((DataError, NumericError)):
            release(mechanism, neighbors, kind, rows, ledger=ledger, dataset="people")
    assert ledger.entries("people") == ()


@every_mechanism
def test_what_cannot_be_honored_is_refused_unread(mechanism, ledger_for):
    _, neighbors, kind = first_case(mechanism)
    ledger = ledger_for(neighbors, kind)
    others = [budget for other, budget in BUDGETS.items() if other not in mechanism.promises]
    for budget in [*others, 1.0, None]:
        refused_unread(BudgetError, ledger, mechanism, neighbors, budget=budget)
    for other in [*(set(NEIGHBORS) - set(mechanism.relations)), "whoever"]:
        refused_unread(BudgetError, ledger, mechanism, other)
    refused_unread(UsageError, ledger, mechanism, neighbors, no_such_option=1)
    for bits in (3, 25, 18.5, "20"):
        if "bits" in {field.name for field in dataclasses.fields(mechanism)}:
            refused_unread(UsageError, ledger, mechanism, neighbors, bits=bits)
    for entropy in (7, np.random.default_rng(0), object(), SystemEntropy):
        refused_unread(UsageError, ledger, mechanism, neighbors, entropy=entropy)


@every_drawn_case
def test_an_overspent_ledger_is_refused_unread(mechanism, neighbors, kind, tmp_path):
    ledger = dpcov.Ledger(tmp_path / "ledger.sqlite")
    small = {"rho": "1e-6"} if kind is ZCDP else {"epsilon": "1e-3"}
    small |= {"delta": "1e-9"} if kind is ApproxDP else {}
    ledger.create("people", dpcov.Budget(**small), neighbors)
    refused_unread(LedgerError, ledger, mechanism, neighbors, budget=BUDGETS[kind])


@every_drawn_case
def test_a_budget_too_small_for_the_lattice_costs_nothing(mechanism, neighbors, kind, ledger_for):
    ledger = ledger_for(neighbors, kind)
    paid = {"ledger": ledger, "dataset": "people"}
    try:
        release(mechanism, neighbors, kind, UnreadSource(), budget=TOO_SMALL[kind], **paid)
    except DpcovError as error:
        assert isinstance(error, BudgetError | NumericError)
        assert ledger.entries("people") == ()
    except AssertionError:
        made = release(mechanism, neighbors, kind, budget=TOO_SMALL[kind])
        assert all(np.isfinite(array).all() for array in made.statistics.arrays.values())


@every_drawn_case
def test_the_ledger_is_charged_once_and_before_any_draw(mechanism, neighbors, kind, ledger_for):
    ledger = ledger_for(neighbors, kind)
    spy = EntropySpy(ledger)
    made = release(mechanism, neighbors, kind, ledger=ledger, dataset="people", entropy=spy)
    assert spy.seen
    assert all(states == ["drawn"] for states in spy.seen)
    (entry,) = ledger.entries("people")
    assert entry.state == "committed"
    assert entry.fingerprint == made.fingerprint
    assert entry.spend.promise == made.guarantee.promise
    # Noise of an (epsilon, delta) adds up better than the two numbers do.
    assert kind is PureDP or entry.spend.best_rho() is not None
    if kind is ApproxDP and entry.spend.noise_multiplier is None:
        assert entry.spend.rho == BUDGETS[kind].zcdp_rho()
    assert entry.spend.mechanism == mechanism.name == made.manifest.mechanism.name
    assert made.manifest.spent.entry == entry.id
    assert made.is_private


@every_drawn_case
def test_a_failing_draw_stays_spent_and_says_so(mechanism, neighbors, kind, ledger_for):
    ledger, failing = ledger_for(neighbors, kind), Failing(0)
    with pytest.raises(NumericError) as caught:
        release(mechanism, neighbors, kind, ledger=ledger, dataset="people", entropy=failing)
    assert any("IS spent: entry 1 of dataset people" in note for note in caught.value.__notes__)
    assert [entry.state for entry in ledger.entries("people")] == ["drawn"]


@pytest.mark.parametrize(("mechanism", "neighbors", "kind"), FREE)
def test_what_costs_nothing_ignores_the_table_and_is_not_charged(
    mechanism, neighbors, kind, ledger_for
):
    ledger = ledger_for(neighbors, kind)
    made = release(mechanism, neighbors, kind, ledger=ledger, dataset="people")
    assert ledger.entries("people") == ()
    assert same_numbers(made, release(mechanism, neighbors, kind, -X[::-1] / 3))


@every_case
def test_the_promise_is_not_weaker_than_the_budget(mechanism, neighbors, kind):
    budget = BUDGETS[kind]
    calibration = mechanism().calibrate(problem_of(neighbors, 500), budget)
    assert at_least_as_strong(calibration.promise, budget.promise)
    made = release(mechanism, neighbors, kind)
    assert at_least_as_strong(made.guarantee.promise, budget.promise)
    assert made.guarantee.neighbors == neighbors
    assert made.guarantee.numerics == mechanism.numerics
    assert (made.statistics.noise is not None) == mechanism.states_noise
    multiplier = calibration.noise_multiplier
    if multiplier is not None and isinstance(calibration.promise, ZCDP):
        assert 1 / (2 * multiplier**2) <= calibration.promise.rho * (1 + 1e-12)
    if isinstance(calibration.promise, ApproxDP) and multiplier is None:
        # What a ledger adds up: it holds, and without it releases would cost as much as they say.
        assert zcdp_delta(calibration.rho, budget.epsilon) <= budget.delta
    else:
        assert calibration.rho is None


def reads(made, post):
    try:
        return made.second_moment(post).shape == (4, 4)
    except UsageError:
        return False


@every_case
def test_which_posts_suit_a_release_is_known_before_it_is_made(mechanism, neighbors, kind):
    made = release(mechanism, neighbors, kind)
    for post in get_args(Post):
        assert mechanism().suits(post, BUDGETS[kind].promise) == reads(made, post), post


@pytest.mark.parametrize("mechanism", [Gaussian, Thresholding])
def test_noise_of_the_upper_triangle_alone_cannot_be_shrunk(mechanism):
    how = {"mechanism": mechanism(noise="upper-triangle"), "norm_bound": 1.0}
    made = dpcov.second_moment(X, budget=BUDGETS[ZCDP], **how)
    for post in get_args(Post):
        suits = how["mechanism"].suits(post, BUDGETS[ZCDP].promise)
        assert suits == reads(made, post) == (post != "shrink")


@every_drawn_case
def test_more_rows_of_one_person_mean_more_noise(mechanism, neighbors, kind):
    errors = []
    for unit in (1, 4):
        how = {"rows_per_person": unit, "entropy": SeededEntropy(1)}
        rows = np.tile([1.0, 0.0, 0.0, 0.0], (4000, 1))
        made = release(mechanism, neighbors, kind, rows, **how)
        assert made.guarantee.rows_per_person == unit
        errors.append(made.expected_error())
    assert errors == [None, None] or errors[1] > 2 * errors[0]


@every_case
def test_neither_rows_nor_shared_moments_are_changed(mechanism, neighbors, kind):
    rows = X.copy()
    release(mechanism, neighbors, kind, rows)
    np.testing.assert_array_equal(rows, X)
    if mechanism().asks_again:
        with pytest.raises(UsageError, match="several times"):
            release(mechanism, neighbors, kind, dpcov.moments(X, norm_bound=1.0), norm_bound=None)
        return
    shared, copy = moments_for(mechanism, neighbors, X), moments_for(mechanism, neighbors, X)
    release(mechanism, neighbors, kind, shared, norm_bound=None)
    assert shared == copy


def moments_for(mechanism, neighbors, rows):
    spec = mechanism().moments_spec(problem_of(neighbors, len(rows)))
    return dpcov.moments(rows, norm_bound=1.0, **dataclasses.asdict(spec))


@every_case
def test_releases_are_saved_and_read_back_equal(mechanism, neighbors, kind, tmp_path):
    made = release(mechanism, neighbors, kind)
    made.save(tmp_path / "made.dpcov")
    loaded = dpcov.load(tmp_path / "made.dpcov")
    assert loaded == made
    np.testing.assert_array_equal(loaded.second_moment(), made.second_moment())
    assert mechanism.name in loaded.summary()


@every_drawn_case
def test_noise_is_fresh_unless_seeded(mechanism, neighbors, kind):
    first, second = (release(mechanism, neighbors, kind) for _ in range(2))
    assert not same_numbers(first, second)
    one, same, other = (
        release(mechanism, neighbors, kind, entropy=SeededEntropy(seed)) for seed in (1, 1, 2)
    )
    assert same_numbers(one, same)
    assert not same_numbers(one, other)
    for made in (one, other):
        assert not made.is_private
        assert any("not private" in warning for warning in made.manifest.warnings)


def same_numbers(first, second):
    mine, theirs = first.statistics.arrays, second.statistics.arrays
    return set(mine) == set(theirs) and all(
        np.array_equal(mine[name], theirs[name]) for name in mine
    )


@pytest.mark.parametrize(
    ("mechanism", "neighbors", "kind"),
    [case for case in DRAWN if case.values[2] is case.values[0].promises[0]],
)
def test_the_noise_has_the_stated_variance(mechanism, neighbors, kind):
    """Size 1e-9, power 1 - 1e-6 against a scale error of ten percent; rows are unit vectors."""
    rows = np.zeros((4000, 4))
    rows[:, 0] = 1.0
    made = release(mechanism, neighbors, kind, rows)
    if made.statistics.noise is None or "gaussian" not in made.statistics.noise.family:
        pytest.skip("the noise of this mechanism is tested where it is drawn")
    repeats = math.ceil(mean_square_samples() / 4)
    noise = noise_draws(mechanism, neighbors, kind, rows, repeats=repeats)
    law = made.statistics.noise
    np.testing.assert_array_equal(noise, noise.swapaxes(1, 2))
    diagonal = np.diagonal(noise, axis1=1, axis2=2).ravel()
    assert_mean_square(diagonal, float(int(law.diagonal_variance)))
    upper = np.triu_indices(4, 1)
    assert_mean_square(noise[:, upper[0], upper[1]].ravel(), float(int(law.off_diagonal_variance)))


@pytest.mark.parametrize(
    ("mechanism", "neighbors", "kind"), [case for case in DRAWN if case.values[0].states_noise]
)
def test_a_private_number_of_rows_says_how_noisy_it_is(mechanism, neighbors, kind):
    law = release(mechanism, neighbors, kind, X).statistics.noise
    is_stated = law.row_count_variance is not None
    assert is_stated == (neighbors == "add-remove-one")


def noise_draws(mechanism, neighbors, kind, rows, repeats):
    """Published matrices of the first stratum, less what is known to be in them."""
    gathered = moments_for(mechanism, neighbors, rows)
    assert isinstance(gathered, Moments)
    problem = problem_of(neighbors, len(rows))
    chosen = mechanism()
    calibration = chosen.calibrate(problem, BUDGETS[kind])
    entropy = BlockEntropy(SeededEntropy(1))
    exact = gathered.strata[0].sscp.to_float()
    draws = []
    for _ in range(repeats):
        statistics = chosen.draw(Ask.saved(gathered), calibration, problem, entropy)
        matrix = statistics.arrays["sscp"].reshape(-1, 4, 4)[0]
        draws.append(matrix * 2.0**statistics.dropped_bits - exact)
    return np.array(draws)
