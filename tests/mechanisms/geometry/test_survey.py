"""The survey: what it costs, what it finds in all kinds of columns, and nothing in noise alone."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dpcov.data.histograms import ABOVE, BELOW, FINE_CELLS, MISSING, UNIT, Histograms
from dpcov.data.questions import Ask
from dpcov.errors import BudgetError
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.cost import part_of
from dpcov.mechanisms.blocks.counts import CountNoise
from dpcov.mechanisms.geometry import survey as module
from dpcov.mechanisms.geometry import survey_at_once, survey_counts, survey_shells
from dpcov.mechanisms.geometry.survey import SurveyColumn, check_cost, pays, summed_energy, survey
from dpcov.mechanisms.geometry.survey_at_once import PARTS_OF, exponential_choice, look_at_once
from dpcov.mechanisms.geometry.survey_rings import look_around
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.lattice import LARGEST_STD
from dpcov.privacy.guarantee import ZCDP, PureDP
from tests.contracts.replay import recorded

RHO = Fraction(1, 20)
RNG = np.random.default_rng(5)
N = 20_000
NORMAL = RNG.normal(size=N)


def asked(columns):
    def answer(question):
        found = Histograms(question)
        found.add(columns)
        return found

    return Ask(answer)


def problem(k=1, neighbors="replace-one", n_rows=N):
    n_rows = n_rows if neighbors == "replace-one" else None
    return Problem(n_features=3, neighbors=neighbors, n_rows=n_rows, rows_per_person=k)


def first(columns, seed=0, cost=None, anchor=0.0):
    """Center and scale of the first of some numbers."""
    cost = cost or ZCDP(rho=Fraction("0.003"))
    names = [SurveyColumn("0", anchor=anchor)]
    names += [SurveyColumn(str(place)) for place in range(1, len(columns))]
    few = problem(n_rows=len(columns[0]))
    return survey(asked(columns), names, cost, few, SeededEntropy(seed))[0][0]


def found(column, seed=0, cost=None, others=9, anchor=0.0):
    """The same of one column among normal ones."""
    return first([column] + [NORMAL / 8] * others, seed, cost, anchor)


@pytest.fixture
def spent(counts_drawn, monkeypatch):
    """Every cost that noise was drawn for, with the size of the draw."""

    def choice(costs, rate, entropy):
        # One row moves a cost by one: a factor of two for costs that move in both directions.
        counts_drawn.append((PureDP(epsilon=rate), 1, False))
        return exponential_choice(costs, rate, entropy)

    monkeypatch.setattr(survey_at_once, "exponential_choice", choice)
    return counts_drawn


CONSTANT, LEVELS = np.full(N, 0.3), RNG.integers(0, 4, N).astype(float)


@pytest.mark.parametrize("cost", [ZCDP(rho=Fraction("0.01")), PureDP(epsilon=Fraction(1))])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_all_parts_together_cost_what_was_charged(spent, cost, neighbors):
    columns = [CONSTANT, NORMAL / 8, LEVELS, np.full(N, np.nan)]
    names = [
        SurveyColumn("a"),
        SurveyColumn("b"),
        SurveyColumn("c", categories=4),
        SurveyColumn("d"),
    ]
    survey(asked(columns), names, cost, problem(neighbors=neighbors), SeededEntropy(1))
    parts = [each.rho if isinstance(each, ZCDP) else each.epsilon for each, _, _ in spent]
    whole = cost.rho if isinstance(cost, ZCDP) else cost.epsilon
    assert sum(parts) <= whole
    # The constant is searched to the end twice.  Replacing doubles what a choice costs.
    assert sum(parts) > Fraction(3, 10) * whole
    # One number at a time, or disjoint cells.
    assert all(disjoint or size == 1 for _, size, disjoint in spent)


@pytest.mark.parametrize("cost", [ZCDP(rho=Fraction("0.5")), PureDP(epsilon=Fraction(40))])
@pytest.mark.parametrize("finer", [False, True])
def test_the_second_look_costs_the_numbers_fifths(spent, cost, finer):
    """The rings have all of it, or half beside finer cells; levels have a 16th of a number's."""
    column = np.full(N, 0.3125 if finer else 0.0)
    names = [SurveyColumn("a"), SurveyColumn("b"), SurveyColumn("c", categories=4)]
    survey(asked([column, column, LEVELS]), names, cost, problem(), SeededEntropy(1))
    parts = [each.rho if isinstance(each, ZCDP) else each.epsilon for each, _, _ in spent]
    whole = cost.rho if isinstance(cost, ZCDP) else cost.epsilon
    assert parts[-1] == whole * Fraction(32, 33) / 5 / (1 + finer)
    assert parts.count(whole / 33) == 1
    assert whole / 33 + parts[-1] < sum(parts) <= whole


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_draws_hide_the_rows_of_a_person_at_their_parts_of_the_price(neighbors, k):
    """Against the odds of the draws themselves, for rows moved from anywhere to anywhere."""

    def looked(values, earlier=None):
        counts = asked([values])(module.question([SurveyColumn("x")])).counts
        cells = survey_counts.Cells.whole(counts[0], 0.0)
        with recorded(earlier) as run:
            look_at_once(cells, cost, problem(k, neighbors, 200), SeededEntropy(1))
        return run

    cost, parts = PureDP(epsilon=Fraction(40)), PARTS_OF[neighbors]
    prices = np.array([parts.counting, parts.middle, parts.one_value, parts.radius], float)
    assert sum(parts[:4]) == 1
    most = np.zeros(4)
    # A middle is the lower end of a neighborhood, as the value is that many share.
    many = np.append(np.full(120, 0.3125), np.linspace(-0.5, 0.5, 80))
    for values in (np.full(200, 0.3), np.linspace(-0.5, 0.5, 200), many):
        run = looked(values)
        assert [step.law.kind for step in run.steps] == ["laplace", "choice"] * 2
        for start, away in product((0, 100, 200 - k), (-1.0, 0.0, 0.3125, 1.0, np.nan)):
            person = slice(start, start + k)
            others = np.delete(values, person)
            if neighbors == "replace-one":
                others = np.append(others, np.full(k, away))
            losses = [loss / 40 for _, loss in run.losses(looked(others, run))]
            most = np.maximum(most, losses)
    assert np.all(most <= prices * (1 + 1e-9))
    assert most[:3] == pytest.approx(prices[:3]) and most[3] > 0.45 * prices[3]


@pytest.mark.parametrize("cost", [ZCDP(rho=Fraction(1)), PureDP(epsilon=Fraction(40))], ids=str)
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_rings_of_all_columns_hide_a_row_that_is_far_out_in_each(neighbors, cost):
    """The pair of rows that moves counts most: they are in other rings of every column."""

    def looked(row, earlier=None):
        rows = np.zeros((399 if row is None else 400, 4))
        rows[:4] = 0.7
        rows[399:] = row
        names = [SurveyColumn(str(place)) for place in range(4)]
        with recorded(earlier) as run:
            survey(asked(rows.T), names, cost, problem(1, neighbors, 400), SeededEntropy(1))
        return run

    run = looked(0.9)
    assert len(run.questions[1].shared.rings) == 4
    other = 0.001 if neighbors == "replace-one" else None
    law, loss = run.losses(looked(other, run))[-1]
    assert 0.9 * law.paid < loss <= law.paid * (1 + 1e-9)


@pytest.mark.parametrize("unit", [1, UNIT])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_noise_is_that_of_the_sensitivity(k, disjoint, neighbors, unit):
    asked_of = problem(k, neighbors)
    moved = 2 if disjoint and neighbors == "replace-one" else 1
    gaussian = CountNoise(ZCDP(rho=Fraction("0.02")), asked_of, unit)
    laplace = CountNoise(PureDP(epsilon=Fraction("0.2")), asked_of, unit)
    k *= unit
    draws = gaussian.draw(40_000, SeededEntropy(1), disjoint=disjoint)
    assert np.var(draws) == pytest.approx(moved * k**2 / 0.04, rel=0.05)
    assert gaussian.std(disjoint=disjoint) == pytest.approx((moved * k**2 / 0.04) ** 0.5)
    draws = laplace.draw(40_000, SeededEntropy(2), disjoint=disjoint)
    assert np.abs(draws).mean() == pytest.approx(moved * k / 0.2, rel=0.05)
    assert laplace.std(disjoint=disjoint) == pytest.approx(2**0.5 * moved * k / 0.2)


@pytest.mark.parametrize("wide", [1, 100, 1000])
@pytest.mark.parametrize("center", [0.0, 0.3, -0.125])
@pytest.mark.parametrize("shape", ["normal", "skew", "uniform", "integers"])
def test_center_and_scale_whatever_the_bounds(wide, center, shape):
    raw = {
        "normal": NORMAL,
        "skew": np.exp(NORMAL),
        "uniform": RNG.uniform(-1, 1, N),
        "integers": np.round(NORMAL * 2),
    }[shape]
    column = np.clip(center / wide + (raw - raw.mean()) / 16 / wide, -1, 1)
    spreads = [found(column, seed) for seed in range(3)]
    center, scale = np.median([(each.center, each.scale) for each in spreads], axis=0)
    assert abs(center - column.mean()) < 0.6 * column.std()
    # A shell that noise makes shows once in a hundred columns.
    assert 0.6 * column.std() < scale < 2.5 * column.std()
    assert min(each.scale for each in spreads) > 0.6 * column.std()


@pytest.mark.parametrize("quantile", [lambda u: 2 * u - 1, lambda u: np.sin(np.pi * (u - 0.5))])
def test_values_are_spread_out_as_far_as_the_bounds_and_no_farther(quantile):
    column = quantile(RNG.uniform(size=N))
    for seed in range(4):
        assert found(column, seed, anchor=-1.0).scale == pytest.approx(np.std(column), rel=0.06)


def test_scales_in_pure_epsilon_are_alike_whatever_the_unit():
    cost, units = PureDP(epsilon=Fraction(1, 2)), np.geomspace(1, 2, 9) / 16
    ratios = [found(unit * NORMAL, cost=cost).scale / unit for unit in units]
    assert max(ratios) / min(ratios) < 1.5


@pytest.mark.parametrize("share", [0.49, 0.51])
@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(4)])
def test_values_at_both_bounds_are_around_their_middle_in_pure_epsilon(epsilon, share):
    """Around an end they would be twice as far away."""
    column, cost = np.where(RNG.uniform(size=N) < share, -1.0, 1.0), PureDP(epsilon=epsilon)
    surveyed = [found(column, seed, cost, anchor=-1.0) for seed in range(8)]
    assert sum((each.center, each.scale) == (0.0, 1.0) for each in surveyed) >= 5
    assert all(each.energy <= 1 for each in surveyed)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_a_column_that_is_mostly_one_value_is_not_blown_up(share):
    column = np.where(np.arange(N) < share * N, 0.75, -0.5)
    for seed in range(5):
        assert found(column, seed).scale > 0.5 * column.std()


# What a release at epsilon = 1, delta = 1e-6 and at a pure epsilon of 1 spends on 15 columns.
SPENT = [ZCDP(rho=Fraction("0.0022")), PureDP(epsilon=Fraction("0.27"))]


@pytest.mark.parametrize("cost", SPENT, ids=["zcdp", "pure"])
@pytest.mark.parametrize("wide", [1, 1000])
def test_rare_values_show_in_all_columns_together_whatever_the_bounds(cost, wide):
    """Three in a hundred rows: as counts of each column for itself they would drown."""
    rare = [np.where(RNG.random(N) < 0.03, 0.5, 0.0) / wide for _ in range(5)]
    names = [SurveyColumn(str(place)) for place in range(15)]
    for seed in range(5):
        ask = asked([*rare, *[NORMAL / 8 / wide] * 10])
        spreads = survey(ask, names, cost, problem(), SeededEntropy(seed))
        scales = np.array([spread.scale for (spread,) in spreads[:5]]) / [c.std() for c in rare]
        assert (scales > 0.5).all() and (scales < 6).all()


@pytest.mark.parametrize("cost", SPENT, ids=["zcdp", "pure"])
def test_rare_values_of_the_same_rows_give_no_scale_that_is_far_too_small(cost):
    """A row shares its unit among twenty columns: the rest of it is proven by the first look."""
    column = np.where(np.arange(N) % 22, 0.0, 0.5)
    names = [SurveyColumn(str(place)) for place in range(26)]
    for seed in range(3):
        ask = asked([column] * 20 + [NORMAL / 8] * 6)
        spreads = survey(ask, names, cost, problem(), SeededEntropy(seed))
        assert min(spread.scale for (spread,) in spreads[:20]) > 0.3 * column.std()


def around(counts, cost=SPENT[0], seed=0, rows=N):
    """Spreads that rings of these numbers of rows give, and what they are without any."""
    alone = [
        survey_counts.Alone(survey_counts.Spread(0.0, 1.0), 2.0**-9, rows, 0, 0, None)
        for _ in counts
    ]
    sums = [UNIT * np.array(each) for each in counts]
    found = look_around(
        alone, sums, cost, problem(n_rows=rows), len(counts), SeededEntropy(seed), fits=False
    )
    return [each.scale for each in found]


def test_noise_alone_shows_a_ring_as_rarely_as_promised():
    draws, columns, empty = 600, 3, [0] * 9
    scales = np.array([around([empty] * columns, seed=seed) for seed in range(draws)])
    # Where nothing shows, all that noise may hide is taken to be at the bounds.
    false, most = (
        (scales != np.median(scales)).any(axis=1).sum(),
        survey_counts.FALSE_SHELLS * draws,
    )
    assert false <= most + 5 * most**0.5


def test_rings_that_show_give_their_distance():
    for ring in (2, 6):
        counts = [0] * 9
        counts[ring] = N // 50
        distance = 1.5 * 2.0 ** (ring - 9)
        others = [[0] * 9] * 15
        assert around([counts, *others])[0] == pytest.approx(distance / 50**0.5, rel=1.0)


def heavy():
    """One row of twenty lies anywhere from a sixteenth of the bounds on; shells of rows show none.

    Every shell holds few of them.
    """
    rng = np.random.default_rng(9)
    far = np.exp(rng.uniform(np.log(1 / 16), 0.0, N)) * rng.choice([-1, 1], N)
    return np.where(rng.random(N) < 0.05, far, rng.normal(size=N) / 800)


def test_a_tail_that_is_missing_from_the_shells_lies_where_rings_show_it(monkeypatch):
    column, seen = heavy(), []
    for doubtful in (survey_shells.DOUBTFUL, np.inf):
        monkeypatch.setattr(survey_shells, "DOUBTFUL", doubtful)
        seen.append(np.array([found(column, seed).scale for seed in range(24)]) / column.std())
    # In 4 of 10 and, without rings, in 1 of 16.
    assert np.sum(seen[0] > 0.5) > np.sum(seen[1] > 0.5)
    assert seen[0].max() < 5


def test_a_second_look_at_tails_costs_what_any_does(spent):
    """Four fifths of a cost for the first look at each number, and one for all rings."""
    cost = ZCDP(rho=Fraction("0.003"))
    seed = next(seed for seed in range(16) if found(heavy(), seed, cost).scale > 0.05)
    spent.clear()
    found(heavy(), seed, cost)
    parts = [each.rho for each, _, _ in spent]
    assert parts[-1] == cost.rho / 5
    assert sum(parts) <= cost.rho


def test_noise_alone_rarely_makes_a_second_look_at_tails():
    columns, draws = [RNG.uniform(-0.2, 0.2, N) for _ in range(6)], 200
    questions, answer = [], asked(columns)
    names, cost = [SurveyColumn(str(place)) for place in range(6)], ZCDP(rho=Fraction("0.003"))
    for seed in range(draws):
        ask = Ask(lambda question: questions.append(question) or answer(question))
        survey(ask, names, cost, problem(), SeededEntropy(seed))
    most = survey_counts.FALSE_SHELLS * draws
    assert len(questions) - draws <= most + 5 * most**0.5


def test_tails_of_many_rows_show_in_rings_in_pure_epsilon(monkeypatch):
    """The radius leaves out one of 64 rows, and these may hold most of the variance."""
    rng, cost = np.random.default_rng(2), PureDP(epsilon=Fraction(10))
    skew = np.exp(rng.normal(size=N) * 2) / 10_000
    # Rows far out are no longer than the ten columns together make them.
    far, seeds = np.quantile(skew, 0.999), range(12)
    assert far < 1.2 * 10**0.5 * min(found(skew, seed, cost).scale for seed in seeds)
    # Normal columns have no tail.
    plain = [found(NORMAL / 8, seed, cost).scale for seed in seeds]
    assert 0.5 / 8 < min(plain) <= max(plain) < 2.5 / 8
    # Without a second look the scale is that of most rows.
    monkeypatch.setattr(survey_at_once, "_AMPLE", 0.0)
    assert far > 3 * 10**0.5 * max(found(skew, seed, cost).scale for seed in seeds)


def test_a_tail_of_which_no_ring_shows_leaves_its_spread_as_it_was():
    seen = survey_counts.Spread(0.1, 0.02, 0.6)
    more = 300.0, 100.0, None
    tail = survey_counts.Alone(seen, 2.0**-5, N, *more, finer=seen, is_spread=True)
    for rows, changed in [(0, False), (400, True)]:
        sums = [UNIT * np.array([0, 0, rows, 0, 0])]
        kept = [
            look_around([tail], sums, SPENT[0], problem(), 8, SeededEntropy(s), fits=False)
            == [seen]
            for s in range(40)
        ]
        assert all(kept) is not changed
        assert any(kept) is not changed


@pytest.mark.parametrize("fits", [False, True])
def test_a_wide_spread_keeps_its_scale_where_no_ring_shows_what_was_counted_beyond(fits):
    """Where bounds fit, others might be taken to lie anywhere, which is narrower here."""
    seen = survey_counts.Spread(0.1, 0.5, 0.6)
    tail = survey_counts.Alone(seen, 0.6, N, 900.0, 5.0, None, finer=seen, is_spread=True)
    empty = [np.zeros(1, dtype=np.int64)]
    found = look_around([tail], empty, SPENT[1], problem(), 8, SeededEntropy(0), fits=fits)
    assert found == [seen]


def test_tails_that_nobody_counted_do_not_make_other_columns_show_less(monkeypatch):
    monkeypatch.setattr(
        CountNoise, "draw", lambda self, size, entropy, disjoint: np.zeros(size, dtype=np.int64)
    )
    seen = survey_counts.Spread(0.1, 0.02, 0.6)
    tail = survey_counts.Alone(seen, 2.0**-5, N, 300.0, 0.0, None, finer=seen, is_spread=True)
    value = survey_counts.Alone(survey_counts.Spread(0.0, 1.0), 2.0**-9, N, 500.0, 50.0, None)

    def least(tails):
        """Rows of which the second ring around a value shows."""
        for rows in range(10, 500, 2):
            sums = [UNIT * np.array([0, rows, *[0] * 7])] + [np.zeros(5, dtype=np.int64)] * tails
            alone = [value, *[tail] * tails]
            found = look_around(alone, sums, SPENT[1], problem(), 8, SeededEntropy(0), fits=False)
            if found[0].scale < 0.01:
                return rows
        return None

    assert least(0) is not None
    assert least(30) == least(0)


@pytest.mark.parametrize("fits", [True, False])
def test_others_that_were_surely_counted_are_in_the_likeliest_ring(monkeypatch, fits):
    """Also if few of them are in any: their rows lie in rings of many columns."""
    monkeypatch.setattr(
        CountNoise, "draw", lambda self, size, entropy, disjoint: np.zeros(size, dtype=np.int64)
    )
    std = CountNoise(SPENT[0], problem(), UNIT).std(disjoint=True) / UNIT
    others, value = 1000 * std, survey_counts.Spread(0.0, 1.0)
    seen = [np.array([0, 0, 0, round(std * UNIT), *[0] * 6])]

    def scale(**changed):
        alone = survey_counts.Alone(value, 2.0**-9, 100 * others, others, std, None)
        alone = replace(alone, **changed)
        (found,) = look_around([alone], seen, SPENT[0], problem(), 8, SeededEntropy(0), fits=fits)
        return found.scale

    # What finer cells showed is too narrow then.
    nearer = survey_counts.Spread(0.0, 1e-9)
    assert scale(finer=nearer) > 0.01 * 2.0**-9 * 2.0**3
    if not fits:
        assert scale() < 0.1


def larger(draws, n=100):
    """How often the scale is above a bound between those of two tables that differ in one row."""
    costs, exact = ZCDP(rho=RHO), ZCDP(rho=Fraction(10**6))
    both = [[[0] * 8 + [n * 6 // 10 + more]] for more in (0, 1)]
    bound = np.mean([around(each, exact, rows=n) for each in both])
    return [np.mean([around(each, costs, s, n)[0] > bound for s in range(draws)]) for each in both]


def test_an_audit_of_the_rings_holds_the_claim():
    first, second = larger(400)
    assert 0 < first < 1
    assert abs(first - second) <= float(RHO / 2) ** 0.5 + 5 * (0.5 / 400) ** 0.5


def test_an_audit_catches_rings_whose_unit_was_forgotten(monkeypatch):
    plain = CountNoise.draw
    monkeypatch.setattr(
        CountNoise,
        "draw",
        lambda self, *a, **k: plain(CountNoise(self.cost, self.problem), *a, **k),
    )
    first, second = larger(20)
    assert abs(first - second) == 1.0


def test_where_one_value_shows_the_scale_is_what_noise_may_hide():
    for column in (np.zeros(N), np.full(N, -1.0), np.full(N, 1.0)):
        spread = found(column)
        assert 0.02 < spread.scale < 0.4
        assert spread.center == pytest.approx(column[0], abs=2e-3)


@pytest.mark.parametrize(
    ("cost", "share"),
    [(ZCDP(rho=Fraction("0.00003")), 0.18), (PureDP(epsilon=Fraction("0.8")), 0.08)],
)
def test_noise_hardly_ever_makes_a_scale_far_too_small(cost, share):
    # Most rows share the lowest value; whether the others show depends on the noise.
    column = np.where(np.arange(N) < share * N, 0.0, -1.0)
    scales = [found(column, seed, cost).scale for seed in range(60)]
    assert sum(scale < 0.3 * column.std() for scale in scales) <= 1


@pytest.mark.parametrize("n", [0, 1, 30])
def test_where_nothing_shows_the_bounds_stay(n):
    column = np.full(N, np.nan)
    column[:n] = 0.01
    spread = found(column)
    assert (spread.center, spread.scale) == (0.0, 1.0)


def test_levels_have_the_spread_of_their_shares():
    counts = np.array([3 * N // 4, 20, N // 8])
    codes = np.repeat([0.0, 1.0, 2.0, np.nan], [*counts, N - counts.sum()])
    names = [SurveyColumn("kind", categories=3)] + [SurveyColumn(str(each)) for each in range(8)]
    cost = ZCDP(rho=Fraction("0.03"))
    spreads = survey(asked([codes] + [NORMAL / 8] * 8), names, cost, problem(), SeededEntropy(0))
    shares = counts[::2] / counts.sum()
    expected = np.sqrt(np.minimum(shares, 0.5) * (1 - np.minimum(shares, 0.5)))
    assert [each.scale for each in spreads[0][::2]] == pytest.approx(expected, rel=0.05)
    # A level too rare to be seen counts as one in ten.
    assert spreads[0][1].scale == pytest.approx(np.sqrt(0.1 * 0.9), rel=0.01)
    # Levels of a row without a value are zero, so they are around shares of all rows.
    of_all = counts[::2] / N
    assert [each.center for each in spreads[0][::2]] == pytest.approx(of_all, abs=0.05)
    # How many rows there are is not known where that is private.
    private = problem(neighbors="add-remove-one")
    spreads = survey(asked([codes] + [NORMAL / 8] * 8), names, cost, private, SeededEntropy(0))
    assert [each.center for each in spreads[0][::2]] == pytest.approx(shares, abs=0.05)


def test_yes_or_no_is_around_the_share_of_the_rows_with_a_value():
    """There a missing one is put."""
    answers = np.repeat([1.0, -1.0, np.nan], [N // 2, N // 4, N - N // 2 - N // 4])
    names = [SurveyColumn("yes", boolean=True)] + [SurveyColumn(str(each)) for each in range(8)]
    cost = ZCDP(rho=Fraction("0.003"))
    spreads = survey(asked([answers] + [NORMAL / 8] * 8), names, cost, problem(), SeededEntropy(0))
    assert spreads[0][1].center == pytest.approx(2 / 3, abs=0.05)


@pytest.mark.parametrize("cost", [ZCDP(rho=Fraction("1e-9")), PureDP(epsilon=Fraction("1e-4"))])
def test_levels_whose_shares_noise_hides_count_as_equal(cost):
    codes = np.repeat([0.0, 1.0, 2.0, 3.0], [N - 30, 10, 10, 10])
    names = [SurveyColumn("kind", categories=4), SurveyColumn("x")]
    ask, seeds = asked([codes, NORMAL / 8]), range(9)
    found = [survey(ask, names, cost, problem(), SeededEntropy(seed))[0] for seed in seeds]
    levels = [[(level.scale, level.center) for level in each] for each in found]
    scales, centers = np.median(levels, axis=0).T
    assert scales == pytest.approx([np.sqrt(3 / 16)] * 4, rel=0.05)
    assert centers == pytest.approx([0.25] * 4, abs=0.05)


@pytest.mark.parametrize(
    ("size", "has_numbers", "cost", "made"),
    [
        (3, False, ZCDP(rho=Fraction("0.1")), False),
        (4, False, ZCDP(rho=Fraction("0.1")), True),
        (9, False, PureDP(epsilon=Fraction(1)), False),
        (3, True, ZCDP(rho=Fraction("0.1")), True),
        (3, True, PureDP(epsilon=Fraction(1)), True),
    ],
)
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_levels_alone_are_surveyed_where_that_pays(size, has_numbers, cost, made, neighbors):
    names = [SurveyColumn(str(place), categories=3) for place in range(size)]
    names += [SurveyColumn("x")] * has_numbers
    assert pays(cost, names, problem(neighbors=neighbors)) == made


def test_a_cost_of_which_rings_cannot_be_drawn_is_refused():
    """Half of a fifth is for the rings of all columns, and of two columns each has half."""
    names, edge = [SurveyColumn("a"), SurveyColumn("b")], Fraction(UNIT, LARGEST_STD) ** 2
    check_cost(ZCDP(rho=2 * 5 * 2 * edge), names, problem())
    with pytest.raises(BudgetError, match="noise hides every table"):
        check_cost(ZCDP(rho=2 * 5 * 2 * edge * (1 - Fraction(1, 10**9))), names, problem())


def test_rows_are_as_long_as_their_spreads_say():
    """Levels around their shares are shorter; of yes or no all vary alike; half must be seen."""
    names = [SurveyColumn("x"), SurveyColumn("yes", boolean=True), SurveyColumn("k", categories=2)]
    answers = [survey_counts.Spread(share, 0.5, 1.0) for share in (0.3, 0.7)]
    numbers = [survey_counts.Spread(0.5, 0.1, energy) for energy in (0.8, 0.0)]
    levels = [survey_counts.Spread(0.25, 0.4, 1.2), survey_counts.Spread(0.6, 0.5, 2.0)]
    hidden = [survey_counts.Spread(0.0, 1.0)] * 2
    for number, of_levels, plain, centered in (
        (numbers[0], levels, 0.8 + 1 + 1.2 + 2, 0.8 + 1 + 1.2 * 0.75 + 2 * 0.4),
        (numbers[0], hidden, 0.8 + 1, 0.8 + 1),
        (numbers[1], hidden, None, None),
    ):
        for is_centered, expected in ((False, plain), (True, centered)):
            spreads = [[number], answers, of_levels]
            found = summed_energy(names, spreads, is_centered=is_centered)
            assert found == (expected if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("epsilon", [1, 4])
def test_a_narrow_column_far_from_zero_is_found_in_pure_epsilon(epsilon):
    """Such as dates in seconds: rings that noise made were taken for rows far out before."""
    n, random = 30_000, np.random.default_rng(2)
    narrow = -0.2 + 0.005 * random.normal(size=n)
    columns = [narrow, *random.uniform(-1, 1, (4, n))]
    for seed in range(20):
        spread = first(columns, seed, PureDP(epsilon=Fraction(epsilon, 5)), anchor=-1.0)
        assert 0.0025 < spread.scale < 0.02


@pytest.mark.parametrize("epsilon", [1, 4])
def test_the_finer_cells_of_a_narrow_column_hold_it_wherever_its_middle_was_drawn(epsilon):
    """Latitudes of one city: a middle 64 cells off has a radius of more than 64 cells."""
    n, random = 20_000, np.random.default_rng(3)
    latitude = (40.75 + 0.044 * random.normal(size=n)) / 90
    columns = [latitude, *random.normal(size=(5, n)) / 8]
    for seed in range(10):
        spread = first(columns, seed, PureDP(epsilon=Fraction(4 * epsilon, 25)))
        assert 0.5 < spread.scale / latitude.std() < 4
        assert abs(spread.center - latitude.mean()) < 2 * latitude.std()


def test_a_finer_look_that_noise_misled_is_not_taken():
    """It has less of the budget: what it finds lies in the first radius and is narrower."""
    first = survey_counts.Alone(survey_counts.Spread(0.1, 0.5), 0.02, N, 0.0, 9.0, None)
    first = replace(first, finer=survey_counts.Spread(0.1, 0.01))
    for spread, is_taken in (((0.11, 0.004), True), ((0.11, 0.3), False), ((0.2, 0.004), False)):
        seen = survey_counts.Seen(survey_counts.Spread(*spread))
        assert (module._closer(first, seen) is not first) == is_taken


def test_a_finer_look_at_one_value_after_all_counts_its_others_where_it_is_as_wide():
    """Where it is narrower it is what is taken; without others, or a first spread, nothing is."""
    value = survey_counts.Alone(survey_counts.Spread(0.1, 0.5), 0.02, N, 0.0, 9.0, None)
    first = replace(value, finer=survey_counts.Spread(0.1, 0.01))
    beside = survey_counts.Alone(survey_counts.Spread(0.1, 0.01), 0.02, N, 50.0, 7.0, None)

    def closer(first, scale, alone=beside):
        return module._closer(first, survey_counts.Seen(survey_counts.Spread(0.1, scale), alone))

    assert closer(first, 0.01) == replace(first, others=50.0, unsure=7.0)
    assert closer(first, 0.004) == replace(first, finer=survey_counts.Spread(0.1, 0.004))
    assert closer(first, 0.004, replace(beside, others=0.0)) == first
    assert closer(value, 0.004) == value
    assert closer(value, 0.004, None).is_spread


@pytest.mark.parametrize("epsilon", [Fraction(1, 5), Fraction(1)])
def test_a_column_within_few_cells_of_a_drawn_middle_has_its_own_scale_in_pure_epsilon(epsilon):
    """Such as a percentage near three quarters: windows less fine made some 200 times as wide."""
    random = np.random.default_rng(8)
    near = 0.75 + 1e-3 * random.integers(-1, 2, N)
    for seed in range(20):
        spread = first([near, *random.normal(size=(3, N)) / 8], seed, PureDP(epsilon=epsilon))
        assert 0.4 < spread.scale / near.std() < 2
        assert abs(spread.center - 0.75) < near.std()


def test_coordinates_keep_a_fine_scale():
    """Rows that the finer cells saw were counted as rows at the bounds before."""
    n, random = 50_000, np.random.default_rng(4)
    longitude = (-93.27 + 0.024 * random.normal(size=n)) / 100
    columns = [longitude, *random.uniform(-1, 1, (3, n))]
    for seed in range(30):
        spread = first(columns, seed, ZCDP(rho=Fraction("0.0004")))
        assert 0.0001 < spread.scale < 0.001


def test_noise_alone_shows_a_shell_as_rarely_as_promised():
    noise = CountNoise(ZCDP(rho=Fraction("0.001")), problem())
    std, shells, draws = noise.std(disjoint=True), 10, 2_000
    chance = survey_counts.FALSE_SHELLS / (2 * 2 * shells)
    seen = noise.draw(2 * shells * draws, SeededEntropy(3), disjoint=True)
    strengths = [survey_shells._strongest(each, std) for each in seen.reshape(draws, 2, shells)]
    last = [survey_shells._outermost(each, noise, chance) for each in strengths]
    assert sum(each > 0 for each in last) <= 2 * survey_counts.FALSE_SHELLS * draws
    # What lies on both sides is a sum of two counts.
    assert survey_shells._strongest(np.full((2, 1), std), std) == pytest.approx(2**0.5)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_center_of_a_skewed_column_is_its_mean_on_either_side(sign):
    """Wherever the middle is among the cells: the median is a third of a deviation away."""
    skewed = sign * np.random.default_rng(6).exponential(0.02, N)
    for shift in np.linspace(-0.3, 0.3, 7):
        spread = found(shift + skewed, 1, ZCDP(rho=Fraction("0.05")))
        assert abs(spread.center - shift - skewed.mean()) < 0.1 * skewed.std()


def test_one_value_beside_which_others_lie_anywhere_has_their_spread():
    seen = survey_counts.Spread(0.1, 0.02)
    tail = survey_counts.Alone(seen, 0.05, 1000.0, 40.0, 5.0, None, finer=seen, is_spread=True)
    found = tail.as_one_value()
    assert (found.spread.center, found.finer, found.is_tail) == (0.1, None, False)
    assert found.spread.scale == pytest.approx((0.02**2 + 0.04 * 1.1**2) ** 0.5)


@pytest.mark.parametrize(
    ("shown", "behind", "found"), [(0.08, 0.0, 0.01), (0.08, 0.05, 0.04), (0.004, 0.0, 0.005)]
)
def test_noise_may_hide_half_of_the_last_shell_behind_it(shown, behind, found):
    """Or what is not seen there, where that is less; what noise may hide counts as shown."""
    tail, square = np.array([0.2, shown, behind]), 4.0 ** np.arange(20)
    assert survey_counts.unseen(tail, square, 1, 0.01) == pytest.approx(16 * found)
    assert survey_counts.unseen(tail[:2], square[:2], 1, 0.01) == 0.0


def test_a_shell_far_from_the_last_must_hold_more_to_show():
    noise = CountNoise(ZCDP(rho=Fraction("0.001")), problem())
    std = noise.std(disjoint=True)
    # Where none shows the first is the last.
    assert survey_shells._outermost(np.zeros(9), noise, 1e-4) == 0
    shells = np.array([9.0, 5.0, 0, 0, 0, 0, 0, 0, 0, 0])
    for more, place, last in [(5, 2, 2), (5, 9, 1), (9, 9, 9)]:
        shells[2:] = 0
        shells[place] = more
        strengths = survey_counts.strength(shells * std, std)
        assert survey_shells._outermost(strengths, noise, 1e-4) == last


def sides(draws, n=100):
    """How often the middle is found on the right, for two tables that differ in one row."""
    found = []
    for right in (n // 2 - 1, n // 2):
        ask = asked([np.where(np.arange(n) < right, 0.5, -0.5)])
        cells = survey_counts.Cells.whole(ask(module.question([SurveyColumn("x")])).counts[0], 0.0)
        middles = [
            survey_shells._middle(cells, ZCDP(rho=RHO), problem(n_rows=n), SeededEntropy(seed))
            for seed in range(draws)
        ]
        found.append(np.mean([each is not None and each[0] > 0.0 for each in middles]))
    return found


def shares(draws, n=100):
    """How often half of the rows or more seem to have a level that rows are centered by.

    Of two tables that differ in one row.
    """
    names, found = [SurveyColumn("x", categories=2)], []
    for many in (n // 2 - 1, n // 2):
        ask = asked([1.0 * (np.arange(n) < many)])
        spreads = [
            survey(ask, names, ZCDP(rho=RHO), problem(n_rows=n), SeededEntropy(seed))[0][1]
            for seed in range(draws)
        ]
        found.append(np.mean([spread.center >= 0.5 for spread in spreads]))
    return found


@pytest.mark.parametrize("asking", [sides, shares])
def test_an_audit_of_the_middle_and_of_shares_holds_the_claim(asking):
    first, second = asking(400)
    # Under rho-zCDP probabilities differ by at most sqrt(rho / 2); five standard deviations more.
    assert abs(first - second) <= float(RHO / 2) ** 0.5 + 5 * (0.5 / 400) ** 0.5


@pytest.mark.parametrize("asking", [sides, shares])
def test_an_audit_catches_a_survey_from_exact_counts(asking, monkeypatch):
    plain = CountNoise.draw
    monkeypatch.setattr(CountNoise, "draw", lambda *a, **k: 0 * plain(*a, **k))
    first, second = asking(10)
    assert abs(first - second) == 1.0


@pytest.mark.parametrize(
    ("anchor", "center"),
    [*product([0.0, -1.0, 0.3], [0.5, -0.5, 2.0**-12]), (-1.0, 2.0), (1.0, -2.0)],
)
def test_a_finer_look_counts_every_value_once(anchor, center):
    """Also values on the ends of cells: one that counted twice would move two counts."""
    edges = survey_counts.fine_edges()
    distances = np.concatenate([edges, np.nextafter(edges, 9), np.nextafter(edges, -9)])
    near = edges[np.abs(edges - center) < 0.1 * abs(center)]
    values = anchor + np.concatenate([distances[::37], near, np.nextafter(near, 9)])
    values = np.unique(values)
    values = values[np.abs(values) <= 1]
    ask, name = asked([values]), SurveyColumn("x", anchor=anchor)
    wide = ask(module.question([name])).counts[0]
    window = survey_counts.Cells.whole(wide, anchor).around(center)
    fine = ask(module.HistogramQuestion(windows=(window,))).counts[0]
    cells = survey_counts.Cells.zoomed(wide, fine, window)
    assert cells.below[-1] == len(values)
    # A count below an edge is that of the values below it, on either grid.
    below = np.searchsorted(values - anchor, cells.edges[:-1])
    assert (cells.below[:-1] == below).all()


@pytest.mark.parametrize(("wide", "n_cells"), [(16, 2**16), (128, 2**12)])
def test_finer_windows_end_where_the_wide_cells_go_on(wide, n_cells):
    """At every border of two octaves, where widths are no powers of two and products round."""
    edges = survey_counts.fine_edges()
    whole = survey_counts.Cells.whole(np.zeros(FINE_CELLS + 3, np.int64), 0.0)
    borders = np.arange(0, FINE_CELLS, 1024)[:, None] + np.arange(-wide, wide + 1)
    odd_widths = 0
    for place in borders[(borders >= wide) & (borders < FINE_CELLS - wide)]:
        window = whole.around(float(edges[place]), wide, n_cells)
        if window is None or window.closed:
            continue
        below = np.nextafter([window.lower, window.upper], -9.0)
        ends = np.array([below[0], window.lower, below[1], window.upper])
        assert window.places(ends).tolist() == [BELOW, MISSING + 1, MISSING + n_cells, ABOVE]
        width = window.upper - window.lower
        odd_widths += width * (n_cells / width) < n_cells
    assert odd_widths > 20
    first, last = (whole.around(float(edges[place]), wide, n_cells) for place in (1, -2))
    assert (first.lower, last.upper) == (edges[0], edges[-1])
    assert last.closed and not first.closed


def test_exact_counts_are_not_printed():
    counts = np.zeros(FINE_CELLS + 3, np.int64)
    counts[-9:] = 65432
    assert repr(survey_counts.Cells.whole(counts, 0.0)) == "Cells(<sensitive>)"


def test_values_spread_over_many_shells_have_a_scale_though_none_shows():
    # Half of all cubes lie within a hundredth of the largest, and no shell holds a tenth.
    column = NORMAL**3 / 4.0 / np.abs(NORMAL**3).max()
    for seed in range(40):
        spread = found(column, seed, ZCDP(rho=Fraction("0.00012")))
        within = np.sort(((column - spread.center) / spread.scale) ** 2)[: int(0.98 * N)]
        assert within.mean() < 60


def test_a_code_that_most_rows_share_far_from_zero_has_a_scale_by_the_others():
    # A middle drawn among 64 cells lies beside the code 1, and the nearest radius is that far.
    codes = np.repeat([1.0, 2.0, 3.0], [int(0.8 * N), int(0.15 * N), N - int(0.95 * N)]) / 100
    scales = [found(codes, seed, PureDP(epsilon=Fraction(1, 10))).scale for seed in range(20)]
    assert min(scales) > codes.std() / 5


@pytest.mark.parametrize("share", [0.25, 0.42])
def test_a_yes_or_no_number_of_few_rows_is_no_column_of_one_value(share):
    rng, n, size = np.random.default_rng(2), 900, 10
    columns = list(rng.normal(size=(size, n)) / 8)
    # Zeros lie in the smallest shell, and ones some thirty shells farther out.
    columns[0] = np.where(rng.random(n) < share, 0.5, 0.0)
    for rho in ("0.02", "0.05"):
        scales = [first(columns, seed, ZCDP(rho=Fraction(rho))).scale for seed in range(20)]
        assert min(scales) > columns[0].std() / 2


def yes_or_no(share):
    """A number that is 1 in such a share of the rows, and 0 in the others: its bounds."""
    return np.where(np.arange(N) % 100 < 100 * share, 1.0, -1.0)


def scales(column, anchor, cost, seeds):
    return [found(column, seed, cost, 12, anchor).scale for seed in range(seeds)]


@pytest.mark.parametrize("share", [0.94, 0.06])
@pytest.mark.parametrize(
    "cost", [ZCDP(rho=Fraction("0.0001")), PureDP(epsilon=Fraction("0.2"))], ids=["zcdp", "pure"]
)
def test_a_yes_or_no_at_either_bound_has_its_own_scale(cost, share):
    column = yes_or_no(share)
    assert min(scales(column, -1.0, cost, 20)) > 0.5 * column.std()
    cells = survey_counts.Cells.whole(
        asked([column])(module.question([SurveyColumn("x", anchor=-1.0)])).counts[0], -1.0
    )
    for seed in range(5):
        look = part_of(cost, Fraction(4, 65))
        alone = module._look(cells, look, problem(), 13, SeededEntropy(seed)).alone
        # None of the rows that share the value takes part in its rings.
        far = alone.rings.places(column) >= 0
        assert far.mean() == pytest.approx(min(share, 1 - share))


def test_noise_on_many_shells_hides_no_value_that_most_rows_share():
    """Nor does it make one show far inside, where nothing is."""
    rng = np.random.default_rng(8)
    column = np.where(rng.random(N) < 0.71, 0.0, rng.gamma(2.0, 0.1, N)) / 1000
    rare = yes_or_no(0.01)
    cost = ZCDP(rho=Fraction("0.0002"))
    assert min(scales(column, 0.0, cost, 40)) > 0.3 * column.std()
    assert min(scales(rare, -1.0, cost, 40)) > 0.3 * rare.std()


@pytest.mark.parametrize(("fits", "many"), [(True, 200), (False, 300)])
def test_a_drawn_radius_is_doubted_where_a_ring_is_likelier_to_hold_rows(fits, many):
    """Of 500 rows that it may leave out; where the bounds of most columns do not fit, more must
    show than where they do."""
    narrow = survey_counts.Spread(0.0, 0.01)
    alone = survey_counts.Alone(survey_counts.Spread(0.0, 0.35), 2.0**-6, 4_000, 0.0, 500.0, None)
    alone, cost = replace(alone, finer=narrow), PureDP(epsilon=Fraction(7, 100))

    def doubted(rows):
        sums, few = [UNIT * np.array([0] * 5 + [rows, 0])], problem(n_rows=4_000)
        return np.mean(
            [
                look_around([alone], sums, cost, few, 8, SeededEntropy(s), fits=fits)[0] != narrow
                for s in range(100)
            ]
        )

    assert doubted(many) > 0.9
    assert doubted(0) < (0.3 if fits else 0.05)
    assert fits or doubted(100) < 0.2


def test_rows_behind_a_finer_look_lie_in_the_ring_that_is_likely_to_hold_them():
    """In rho too: not as far away as the bounds."""
    narrow, radius = survey_counts.Spread(0.0, 0.001), 2.0**-9
    alone = survey_counts.Alone(survey_counts.Spread(0.0, 0.5), radius, N, 120.0, 43.0, None)
    alone, cost = replace(alone, finer=narrow), ZCDP(rho=Fraction("0.0028"))
    sums = [UNIT * np.array([90, 0, 0, 0, 0, 0, 0, 0, 0])]
    scales = [
        look_around([alone], sums, cost, problem(), 8, SeededEntropy(seed), fits=False)[0].scale
        for seed in range(40)
    ]
    assert sum(scale < 4 * radius for scale in scales) >= 37


@pytest.mark.parametrize(
    "cost", [ZCDP(rho=Fraction("0.0028")), PureDP(epsilon=Fraction("0.06"))], ids=["zcdp", "pure"]
)
def test_others_in_several_rings_none_of_which_shows_are_not_as_far_away_as_the_bounds(cost):
    """In rings of several columns each adds a part: of 2,000 others 560 are left in eight."""
    radius, rows = 2.0**-16, [70] * 8 + [0] * 8
    others = survey_counts.Alone(survey_counts.Spread(0.0, 0.3), radius, N, 2_000.0, 300.0, None)
    sums = [UNIT * np.array(rows)]
    scales = [
        look_around([others], sums, cost, problem(), 8, SeededEntropy(seed), fits=False)[0]
        for seed in range(40)
    ]
    farthest, share = radius * 2.0**8, (2_000 / N) ** 0.5
    # As far away as the bounds they would have a scale of `share`.
    assert np.median([each.scale for each in scales]) < 4 * farthest * share < share / 10
    assert sum(each.scale < 0.1 * radius for each in scales) == 0


def radii(typical, scale, n):
    """Scales that draws of pure epsilon give a normal column of n rows."""
    column = scale * np.random.default_rng(5).normal(size=n)
    counts = asked([column])(module.question([SurveyColumn("x")])).counts[0]
    cells, cost = survey_counts.Cells.whole(counts, 0.0), PureDP(epsilon=Fraction("0.06"))
    looks = (
        survey_at_once.look_at_once(cells, cost, problem(n_rows=n), SeededEntropy(seed), typical)
        for seed in range(200)
    )
    spreads = (look.spread if look.alone is None else look.alone.finer for look in looks)
    return np.array([spread.scale for spread in spreads if spread is not None])


@pytest.mark.parametrize("n", [20_000, 80_000])
def test_where_one_value_alone_shows_others_are_as_far_as_can_be(n):
    """As many as noise may hide, which is a share that falls with the rows."""
    counts = asked([np.full(n, 0.25)])(module.question([SurveyColumn("x")])).counts[0]
    cells, cost = survey_counts.Cells.whole(counts, 0.0), PureDP(epsilon=Fraction("0.06"))
    seen = look_at_once(cells, cost, problem(n_rows=n), SeededEntropy(0))
    hidden = survey_at_once._RADII / float(cost.epsilon * PARTS_OF["replace-one"].radius / 2) / n
    unsure = CountNoise(part_of(cost, PARTS_OF["replace-one"].one_value), problem()).std() / n
    assert seen.spread.scale == pytest.approx(1.25 * max(hidden, unsure) ** 0.5, rel=1e-3)


def test_the_usual_scale_is_that_of_numbers_in_which_values_show():
    hidden = survey_counts.Alone(survey_counts.Spread(0.0, 1.0), 0.1, N, 0.0, 0.0, None)
    columns = [*map(SurveyColumn, "abc"), SurveyColumn("d", categories=1)]
    found = [[survey_counts.Spread(0.0, scale)] for scale in (1.0, 0.25, 0.5, 0.75)]
    assert module._usual_scale(columns, found, {0: hidden}) == 0.375
    assert module._usual_scale(columns, found, dict.fromkeys(range(3), hidden)) == 0.0


def test_radii_far_from_those_of_other_columns_are_drawn_less_often():
    scale = 2.0**-20
    alone, beside = (radii(typical, scale, 1_200) for typical in (None, scale))
    assert np.mean(beside > 2.0**5 * scale) < 0.1 < np.mean(alone > 2.0**5 * scale)
    # A column that is unlike the others is found where its rows tell.
    unlike = radii(2.0**10 * scale, scale, 60_000)
    assert np.mean(unlike < 8 * scale) > 0.95


@pytest.mark.parametrize("spacing", [1.0, 0.01])
@pytest.mark.parametrize("wide", [100, 1000])
def test_a_narrow_column_far_from_zero_has_its_own_scale_in_pure_epsilon(spacing, wide):
    """Years 2000 to 2015 in such bounds: 64 neighboring cells hold them all."""
    rng = np.random.default_rng(3)
    years = 2000 + np.floor(rng.random(N) * 16 / spacing) * spacing
    column = (years - 2000) / (100 * wide)
    columns = [column] + [rng.normal(size=N) / 8 / wide for _ in range(7)]
    # Zero is where numbers may lie close together.
    cost, anchor = PureDP(epsilon=Fraction(1, 2)), -20 / wide
    spreads = [first(columns, seed, cost, anchor=anchor) for seed in range(10)]
    fine = [0.7 < spread.scale / column.std() < 2.5 for spread in spreads]
    near = [abs(spread.center - column.mean()) < 2 * column.std() for spread in spreads]
    # A middle that is drawn far away once in a hundred looks.
    assert np.sum(np.logical_and(fine, near)) >= 7


def test_two_values_on_either_side_of_a_middle_are_not_one_value():
    """The same shell holds both: with bounds that are far too wide it was taken for one value."""
    rng, n, size = np.random.default_rng(4), 4_000, 8
    columns = list(rng.normal(size=(size, n)) / 800)
    columns[0] = np.where(rng.random(n) < 0.54, 0.0, -1 / 200)
    names = [SurveyColumn(str(place), anchor=-4 / 200) for place in range(size)]
    few = problem(n_rows=n)
    for rho in ("0.002", "0.02"):
        cost = ZCDP(rho=Fraction(rho))
        scales = [
            survey(asked(columns), names, cost, few, SeededEntropy(seed))[0][0].scale
            for seed in range(20)
        ]
        assert max(scales) < 10 * columns[0].std()


def test_a_hundred_million_rows_have_a_scale_in_pure_epsilon():
    window = module.question([SurveyColumn("x")])
    counts = asked([NORMAL / 8])(window).counts[0] * 5_000
    cells, many = survey_counts.Cells.whole(counts, 0.0), problem(n_rows=5_000 * N)
    seen = survey_at_once.look_at_once(cells, PureDP(epsilon=RHO), many, SeededEntropy(1))
    assert 0.5 / 8 < seen.spread.scale < 2 / 8


@pytest.mark.parametrize("share", [0.4, 0.6, 0.8])
def test_few_rows_that_share_a_value_hardly_ever_make_a_scale_far_too_small(share):
    rng, n, size = np.random.default_rng(1), 1500, 6
    columns = list(rng.normal(size=(size, n)) / 8)
    columns[0] = np.where(rng.random(n) < share, 0.0, columns[0])
    cost = PureDP(epsilon=Fraction(2, 5))
    scales = [first(columns, seed, cost).scale for seed in range(60)]
    # Without a cost for smaller radii up to 15 of 60 are below a thousandth.
    assert sum(scale < 0.05 * columns[0].std() for scale in scales) <= 5
