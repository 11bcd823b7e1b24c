"""Public linear maps in integers, digests of rows, and asking one table several times."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpcov.data.encode import _shorten
from dpcov.data.engines.arrays import DeviceMoments
from dpcov.data.engines.base import BallEncoding, MomentsTask
from dpcov.data.exact.library import NUMPY
from dpcov.data.exact.linear import ROW_BITS, LinearMap, _bits, by_columns
from dpcov.data.exact.moments import Moments, MomentsSpec
from dpcov.data.questions import Ask, MomentsQuestion, digest_of
from dpcov.errors import DataError, NumericError, UsageError

RNG = np.random.default_rng(3)


def unit_rows(n_rows, d, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n_rows, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def mixing(d, alone):
    """A matrix with outputs of which some are one column and the first, as indicators are."""
    matrix = RNG.normal(size=(d, d))
    matrix[:alone, 1:] *= np.eye(d)[:alone, 1:]
    matrix[alone:, :alone] *= np.arange(alone) == 0
    return matrix


@pytest.mark.parametrize(("d", "alone"), [(1, 0), (2, 0), (7, 0), (7, 3), (8, 8), (200, 90)])
@pytest.mark.parametrize("empty", [False, True])
def test_a_map_is_exact_integer_arithmetic(d, alone, empty):
    linear = LinearMap.nearest(mixing(d, alone) * 10.0 ** RNG.integers(-30, 30))
    rows = unit_rows(5, d)
    # Columns that are zero in all rows, and one that begins with a zero.
    rows[:, 2::3] *= not empty
    rows[0, -1] = 0.0
    whole = np.trunc(rows * 2.0**ROW_BITS).astype(np.int64).astype(object)
    integers = np.array(linear.numbers, dtype=object)
    for row, mapped in zip(whole, linear.apply(rows), strict=True):
        exact = integers @ row
        assert max(map(abs, exact)) <= 2**53
        assert [float(number) for number in exact] == np.ldexp(
            mapped, ROW_BITS - linear.exponent
        ).tolist()


@pytest.mark.parametrize(("d", "alone"), [(1, 0), (2, 0), (7, 0), (7, 3), (8, 8), (200, 90)])
@pytest.mark.parametrize("empty", [False, True])
def test_columns_that_rows_have_are_mapped_as_whole_rows_are(d, alone, empty):
    linear, rows = LinearMap.nearest(mixing(d, alone)), unit_rows(5, d)
    rows[:, 2::3] *= not empty
    places, mapped = np.flatnonzero(rows.any(axis=0)), linear.apply(rows)
    outputs = linear.inhabited(places)
    found = by_columns(5, len(outputs))
    linear.apply_scaled(rows[:, places] * 2.0**ROW_BITS, places, 0.5, found)
    assert found.tolist() == (mapped[:, outputs] / 2).tolist()
    assert not np.delete(mapped, outputs, axis=1).any()


@pytest.mark.parametrize("d", [4, 15, 16, 17, 256])
@given(st.floats(1, 1e9))
@example(1.0)
def test_sums_of_rows_that_are_scaled_down_are_exact_in_any_order(d, entry):
    """Of equal entries, which sum up to most, and which rounding may leave a little too long."""
    rows = np.asfortranarray(np.full((1, d), entry * 2.0**ROW_BITS))
    _shorten(rows, 4.0**ROW_BITS)
    largest = 2 ** _bits(d) * sum(int(each) for each in rows[0])
    assert largest <= 2**53
    assert largest == 2**53 or d in (15, 17) or entry != 1


@given(st.integers(1, 40), st.integers(0, 2**32))
def test_the_nearest_map_is_near(d, seed):
    matrix = np.random.default_rng(seed).normal(size=(d, d))
    error = np.abs(LinearMap.nearest(matrix).matrix - matrix).max()
    assert error <= np.abs(matrix).max() * np.sqrt(d) * 2.0 ** (ROW_BITS - 53 + 1)


@pytest.mark.parametrize(
    "bad", [np.zeros((2, 2)), np.full((2, 2), np.nan), np.full((2, 2), np.inf)]
)
def test_no_map_is_made_of_nothing(bad):
    with pytest.raises(NumericError):
        LinearMap.nearest(bad)


@pytest.mark.parametrize("spec", [MomentsSpec(), MomentsSpec(shells=4), MomentsSpec(clip=0.25)])
def test_a_device_maps_and_watches_as_this_machine_does(spec):
    rows = unit_rows(300, 5)
    task = MomentsTask(
        encoding=BallEncoding(n_features=5, norm_bound=1.0),
        spec=spec,
        linear=LinearMap.nearest(3 * RNG.normal(size=(5, 5))),
        watched=True,
    )
    device = DeviceMoments(NUMPY, task)
    device.add_raw(rows.copy())
    assert device.fetch() == task.gather(rows)


def test_a_digest_does_not_depend_on_order_and_sees_every_change():
    rows = unit_rows(50, 4)
    whole = digest_of(rows.T)
    assert digest_of(rows[RNG.permutation(50)].T) == whole
    assert (digest_of(rows[:20].T) + digest_of(rows[20:].T)) % 2**64 == whole
    assert digest_of(np.asfortranarray(rows).T) == whole
    seen = {whole, digest_of(rows[:-1].T), digest_of(rows.T[::-1])}
    for place in np.ndindex(rows.shape):
        other = rows.copy()
        other[place] = np.nextafter(other[place], 2)
        seen.add(digest_of(other.T))
    for column in range(4):
        other = rows.copy()
        other[[0, 1], column] = other[[1, 0], column]
        seen.add(digest_of(other.T))
    assert len(seen) == 3 + rows.size + 4


def moments(n_rows, digest=0):
    made = Moments(2)
    made.add(np.eye(2)[[0] * n_rows])
    made.watch(digest)
    return made


def test_the_first_answer_is_kept():
    asked = []

    def answer(question):
        asked.append(question)
        return moments(3)

    ask = Ask(answer)
    first, other = MomentsQuestion(), MomentsQuestion(spec=MomentsSpec(clip=0.5))
    assert ask(first) is ask(first)
    assert ask(other) == moments(3)
    assert asked == [first, other]
    assert repr(ask) == "Ask(<sensitive>)"


@pytest.mark.parametrize("later", [moments(4), moments(3, digest=1)])
def test_a_table_that_changed_is_noticed(later):
    answers = iter([moments(3), later])
    ask = Ask(lambda question: next(answers))
    ask(MomentsQuestion())
    with pytest.raises(DataError, match="changed"):
        ask(MomentsQuestion(spec=MomentsSpec(clip=0.5)))


@pytest.mark.parametrize(
    "other",
    [
        MomentsQuestion(spec=MomentsSpec(bits=9)),
        MomentsQuestion(linear=LinearMap(((1, 0), (0, 1)), 0)),
        MomentsQuestion(watched=True),
    ],
)
def test_saved_moments_answer_their_own_question(other):
    ask = Ask.saved(moments(3))
    assert ask(MomentsQuestion()) == moments(3)
    with pytest.raises(UsageError, match="Gather them again") as refused:
        Ask.saved(moments(3))(other)
    assert "MomentsSpec" not in str(refused.value)
    assert ("with bits=9" in str(refused.value)) == (other.spec.bits == 9)
