"""The contract of every mechanism, for a release in a geometry that is found privately."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.audit.neighboring import far_out
from dpcov.audit.releases import drawers
from dpcov.data.encode import Encoder
from dpcov.data.exact.linear import LinearMap
from dpcov.data.gather import Gathering
from dpcov.data.geometry import Geometry
from dpcov.data.questions import MomentsQuestion
from dpcov.errors import BudgetError, DpcovError, LedgerError, NumericError, UsageError
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.geometry import budget_split, search, survey, surveyed
from dpcov.mechanisms.geometry.budget_split import LENGTHS
from dpcov.mechanisms.geometry.search import FIRST_LOOK, SECOND_LOOK
from dpcov.mechanisms.geometry.surveyed import Surveyed
from dpcov.mechanisms.geometry.whitening import Whitening
from dpcov.mechanisms.nuclear import Nuclear
from dpcov.mechanisms.stratified import Stratified
from dpcov.mechanisms.stratified_nuclear import StratifiedNuclear
from dpcov.noise.entropy import BlockEntropy, SeededEntropy
from dpcov.privacy.calibrate import gaussian_delta
from dpcov.privacy.guarantee import NEIGHBORS, ZCDP, ApproxDP, PureDP
from tests.audit.zoo import PrivateGeometry, UnchargedSurvey
from tests.contracts.test_mechanisms import (
    BUDGETS,
    TOO_SMALL,
    EntropySpy,
    Failing,
    UnreadSource,
    at_least_as_strong,
    same_numbers,
)
from tests.statistical.goodness import assert_mean_square, mean_square_samples

NAMES = UnreadSource.columns
# Bounds that are far too wide, so that the geometry is another than that of the schema.
SCHEMA = dpcov.Schema(
    missing="never", columns={name: dpcov.Numeric(lower=-50, upper=50) for name in NAMES}
)
N = 4000


def table(scale=1.0, n=N):
    rows = np.random.default_rng(0).normal(size=(n, 4)) * scale
    rows[:, 1] += rows[:, 0]
    return pa.table(dict(zip(NAMES, rows.T, strict=True)))


TABLE = table()
# The same with marks of missing values, of which some are missing.
MARKED = dpcov.Schema(columns=SCHEMA.columns)
HOLES = pa.table(
    {
        name: pa.array(column.to_numpy(), mask=np.arange(N) % 11 == place)
        for place, (name, column) in enumerate(zip(NAMES, TABLE.columns, strict=True))
    }
)
# The same with a column that is mostly zero: a second look is needed.
RARE = TABLE.set_column(0, NAMES[0], pa.array(np.where(np.arange(N) % 20, 0.0, 3.0)))
with_and_without_marks = pytest.mark.parametrize(
    "rows",
    [{}, {"data": HOLES, "schema": MARKED}, {"data": RARE}],
    ids=["complete", "marked", "rare"],
)
every_case = pytest.mark.parametrize(
    ("neighbors", "kind"),
    [(neighbors, kind) for neighbors in NEIGHBORS for kind in BUDGETS],
    ids=lambda value: getattr(value, "__name__", value),
)


def release(neighbors, kind, data=TABLE, schema=SCHEMA, **options):
    options = {"budget": BUDGETS[kind], "neighbors": neighbors, **options}
    return dpcov.release(data, schema=schema, **options)


def was_surveyed(made):
    return any("found with" in note for note in made.manifest.statistics.notes)


@every_case
def test_what_cannot_be_honored_is_refused_unread_and_unspent(neighbors, kind, ledger_for):
    ledger = ledger_for(neighbors, kind)
    other = NEIGHBORS[1 - NEIGHBORS.index(neighbors)]
    for error, asked, wrong in (
        (BudgetError, neighbors, {"budget": 1.0}),
        (BudgetError, "whoever", {}),
        (LedgerError, other, {}),
        (LedgerError, neighbors, {"budget": dpcov.Budget(rho=60)}),
        (UsageError, neighbors, {"no_such_option": 1}),
        (UsageError, neighbors, {"entropy": 7}),
    ):
        with pytest.raises(error):
            release(asked, kind, UnreadSource(), ledger=ledger, dataset="people", **wrong)
    assert ledger.entries("people") == ()


@every_case
def test_a_budget_too_small_to_split_costs_nothing(neighbors, kind, ledger_for):
    ledger = ledger_for(neighbors, kind)
    paid = {"ledger": ledger, "dataset": "people", "budget": TOO_SMALL[kind]}
    with pytest.raises(DpcovError) as caught:
        release(neighbors, kind, UnreadSource(), **paid)
    assert isinstance(caught.value, BudgetError | NumericError)
    assert ledger.entries("people") == ()


@every_case
@with_and_without_marks
def test_the_whole_is_charged_once_and_before_any_draw(neighbors, kind, rows, ledger_for):
    ledger = ledger_for(neighbors, kind)
    spy = EntropySpy(ledger)
    made = release(neighbors, kind, ledger=ledger, dataset="people", entropy=spy, **rows)
    assert was_surveyed(made) and made.is_private
    assert spy.seen and all(states == ["drawn"] for states in spy.seen)
    (entry,) = ledger.entries("people")
    assert entry.state == "committed"
    assert entry.fingerprint == made.fingerprint
    assert entry.spend.promise == made.guarantee.promise
    assert at_least_as_strong(made.guarantee.promise, BUDGETS[kind].promise)
    assert made.guarantee.neighbors == neighbors


@pytest.mark.parametrize("geometry", ["private", Geometry(columns={})], ids=["private", "given"])
def test_parts_that_meet_a_delta_through_zcdp_state_it(geometry, ledger_for):
    ledger = ledger_for("replace-one", ApproxDP)
    how = {"mechanism": "coinpress", "geometry": geometry, "entropy": SeededEntropy(0)}
    release("replace-one", ApproxDP, ledger=ledger, dataset="people", **how)
    (entry,) = ledger.entries("people")
    assert entry.spend.noise_multiplier is None
    assert entry.spend.rho == BUDGETS[ApproxDP].zcdp_rho()


@every_case
@pytest.mark.parametrize("requests", [0, 12])
def test_a_failing_draw_stays_spent_and_says_so(neighbors, kind, requests, ledger_for):
    ledger, failing = ledger_for(neighbors, kind), Failing(requests)
    with pytest.raises(NumericError) as caught:
        release(neighbors, kind, ledger=ledger, dataset="people", entropy=failing)
    assert any("IS spent: entry 1 of dataset people" in note for note in caught.value.__notes__)
    assert [entry.state for entry in ledger.entries("people")] == ["drawn"]


@every_case
def test_more_rows_of_one_person_mean_more_noise(neighbors, kind):
    variances = []
    for unit in (1, 4):
        # A variance in units of the norm bound does not depend on the geometry.
        schema = dpcov.Schema(missing="never", columns=SCHEMA.columns, rows_per_person=unit)
        made = release(neighbors, kind, table(n=50_000), schema, entropy=SeededEntropy(1))
        assert was_surveyed(made) and made.guarantee.rows_per_person == unit
        variances.append(float(made.statistics.noise.diagonal_variance))
    assert variances[1] > 10 * variances[0]


@every_case
@with_and_without_marks
def test_releases_are_saved_and_read_back_equal(neighbors, kind, rows, tmp_path):
    made = release(neighbors, kind, **rows)
    made.save(tmp_path / "made.dpcov")
    loaded = dpcov.load(tmp_path / "made.dpcov")
    assert loaded == made
    assert loaded.manifest.columns == made.manifest.columns
    np.testing.assert_array_equal(loaded.covariance(), made.covariance())


@every_case
def test_noise_is_fresh_unless_seeded(neighbors, kind):
    first, second = (release(neighbors, kind) for _ in range(2))
    assert not same_numbers(first, second)
    assert first.manifest.columns != second.manifest.columns
    one, same, other = (release(neighbors, kind, entropy=SeededEntropy(s)) for s in (1, 1, 2))
    assert same_numbers(one, same) and one.manifest.columns == same.manifest.columns
    assert not same_numbers(one, other)
    assert not one.is_private


@pytest.fixture
def spent(monkeypatch):
    """What surveys, lengths and matrices were drawn for, one after the other."""
    costs = []

    def recorded(place, name, cost_of):
        plain = getattr(place, name)

        def draw(*given):
            costs.append(cost_of(given))
            return plain(*given)

        monkeypatch.setattr(place, name, draw)

    recorded(search, "survey", lambda given: given[2])
    recorded(search, "find_lengths", lambda given: given[2])
    recorded(surveyed, "with_losses", lambda given: given[2].cost)
    for mechanism in (Gaussian, Nuclear, Stratified, StratifiedNuclear):
        recorded(mechanism, "draw", lambda given: given[2].promise)
    return costs


def assert_all_is_drawn(promise, spent, unused=0, part=1):
    """Costs, and what was charged and not used, are this part of a promise."""
    if isinstance(promise, PureDP):
        assert sum(cost.epsilon for cost in spent) + unused == promise.epsilon * part
        return
    drawn = (sum(cost.rho for cost in spent) + unused) / part
    if isinstance(promise, ZCDP):
        assert drawn == promise.rho
    else:
        delta = gaussian_delta(Fraction(1 / math.sqrt(2 * drawn)), promise.epsilon)
        assert 0.99 * promise.delta < delta < promise.delta * (1 + 1e-9)


@every_case
@pytest.mark.parametrize(
    ("seen", "again", "twice"),
    [(True, 0, True), (True, 1, False), (True, 1, True), (False, 0, False), (False, 3, True)],
)
def test_all_that_is_drawn_adds_up_to_the_promise(
    neighbors, kind, seen, again, twice, spent, monkeypatch
):
    turns = iter([True] * again + [False])
    monkeypatch.setattr(Whitening, "goes_on", property(lambda self: next(turns)))
    # Lengths are looked at under the first map, too, where rows lose much under the last.
    monkeypatch.setattr(search, "_MUCH_LOST", -1.0 if twice else 1.0)
    again = again if kind is not PureDP else 0
    if not seen:
        # As if the survey had shown less than half of the columns.
        monkeypatch.setattr(survey, "_SEEN", 2.0)
    promise = release(neighbors, kind).guarantee.promise
    # Columns, lengths where little was seen, matrices for the map, lengths, the last one, losses.
    assert len(spent) == (5 if seen else 6) + again + (twice and again > 0)
    unused = 0
    if again and not twice:
        # What a second look may cost is charged all the same.
        lengths = spent[0].rho * LENGTHS / (1 - LENGTHS) * (1 if seen else 1 - FIRST_LOOK)
        unused = SECOND_LOOK * lengths
    assert_all_is_drawn(promise, spent, unused)


@every_case
def test_all_that_is_drawn_where_bounds_are_kept_is_what_is_charged_but_for_losses(
    neighbors, kind, spent, monkeypatch
):
    monkeypatch.setattr(search.Search, "_fits_in_bounds", lambda *_: True)
    monkeypatch.setattr(Whitening, "goes_on", False)
    made = release(neighbors, kind)
    promise = made.guarantee.promise
    assert made.statistics.losses is None and made.statistics.lost == 0
    assert len(spent) == 4
    assert_all_is_drawn(promise, spent, part=1 - budget_split.LOSSES)


@pytest.mark.parametrize(
    ("mechanism", "beside"),
    [
        (PrivateGeometry, 0),
        (UnchargedSurvey, budget_split.SHARE_PRIVATE + budget_split.FIRST + budget_split.LOSSES),
    ],
    ids=["sound", "planted"],
)
def test_a_survey_that_is_not_charged_is_noticed(mechanism, beside, spent):
    pair, budget = far_out("add-remove-one", 2)[0], dpcov.Budget(rho=1)
    drawers(mechanism(), budget, pair, SeededEntropy(1))[0]()
    assert sum(cost.rho for cost in spent) == 1 + beside


@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_the_noise_given_the_geometry_has_the_stated_law(neighbors):
    """Size 1e-9, power 1 - 1e-6 against a scale error of ten percent."""
    # Each draw of so many columns has 120 numbers with noise of their own.
    rows = np.random.default_rng(0).normal(size=(1000, 14))
    columns = {f"x{place}": dpcov.Numeric(lower=-50, upper=50) for place in range(14)}
    encoding = Encoder(dpcov.Schema(missing="never", columns=columns))
    mechanism = Surveyed.of(Gaussian(), encoding.schema, encoding)
    n_rows = len(rows) if neighbors == "replace-one" else None
    problem = Problem(n_features=15, neighbors=neighbors, n_rows=n_rows)
    calibration = mechanism.calibrate(problem, dpcov.Budget(rho=5))
    gathering, entropy = Gathering(threads=1), BlockEntropy(SeededEntropy(1))
    upper, found, maps = np.triu_indices(15), [], set()
    draws = math.ceil(mean_square_samples() / len(upper[0]))
    for _ in range(draws):
        made = mechanism.draw(gathering.ask(rows, encoding), calibration, problem, entropy)
        numbers = tuple(map(tuple, made.arrays["linear"].tolist()))
        maps.add(numbers)
        linear = LinearMap(numbers, made.linear_exponent)
        geometry = Geometry.of(made.columns, made.norm_bound, linear)
        encoded = Encoder(encoding.schema, geometry)
        (stratum,) = gathering.answer(rows, encoded, MomentsQuestion()).strata
        variances = np.full((15, 15), float(made.noise.off_diagonal_variance))
        np.fill_diagonal(variances, float(made.noise.diagonal_variance))
        noise = made.arrays["sscp"] * 2.0**made.dropped_bits - stratum.sscp.to_float()
        found.append((noise / np.sqrt(variances))[upper])
    assert len(maps) == draws
    assert_mean_square(np.concatenate(found), 1.0)
