"""Moments that are saved, resumed and merged equal those of the whole table, to the bit."""

import numpy as np
import pytest

import dpcov
from dpcov import Boolean, Budget, Categorical, Numeric, Schema
from dpcov.data.checkpoint import Checkpoint
from dpcov.data.vault import Key
from dpcov.errors import DataError, UsageError

KEY = Key(bytes(range(32)))
SCHEMA = Schema(
    columns={
        "x0": Numeric(lower=-3, upper=3),
        "x1": Numeric(lower=0, upper=1),
        "x2": Boolean(),
        "x3": Categorical(categories=("0", "1")),
    }
)
BUDGET = Budget(rho="0.5")


def table(n=500, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(size=n), rng.uniform(size=n), rng.integers(0, 2, (2, n)).T])


def gathered(rows, **changes):
    return dpcov.checkpoint(rows, **({"schema": SCHEMA, "budget": BUDGET} | changes))


@pytest.mark.parametrize(
    "how",
    [
        {"mechanism": "stratified"},
        {"mechanism": "gaussian"},
        {"mechanism": "stratified", "by": "x2"},
        {"mechanism": "separate"},
        {"mechanism": "adaptive"},
    ],
)
def test_parts_saved_and_merged_equal_the_whole(tmp_path, how):
    rows = table()
    for name, part in (("a", rows[:100]), ("b", rows[100:101]), ("c", rows[101:])):
        gathered(part, name=name, **how).save(tmp_path / name, KEY)
    a, b, c = (Checkpoint.load(tmp_path / name, KEY) for name in "abc")
    merged = c.merge(a).merge(b)
    assert merged.moments == gathered(rows, **how).moments
    assert sorted(merged.parts.values()) == ["a", "b", "c"]


def test_sums_beyond_one_word_survive(tmp_path):
    checkpoint = gathered(table(20), mechanism="gaussian")
    total = checkpoint.moments.strata[0].sscp
    big = np.arange(total.words()[0].size).reshape(total.words()[0].shape)
    total.add_words((big + big.T) << 40, big * 0)
    checkpoint.save(tmp_path / "a", KEY)
    assert Checkpoint.load(tmp_path / "a", KEY).moments == checkpoint.moments


def test_a_release_from_saved_moments_is_the_release_from_the_rows(tmp_path):
    rows = table()
    saved = gathered(rows[:300]).merge(gathered(rows[300:]))
    facts = {"schema": SCHEMA, "budget": BUDGET}
    from_rows, from_saved = (
        dpcov.release(data, **facts, entropy=dpcov.SeededEntropy(1)) for data in (rows, saved)
    )
    assert all(
        np.array_equal(from_saved.statistics.arrays[name], array)
        for name, array in from_rows.statistics.arrays.items()
    )
    assert from_saved.n_rows == 500


def test_the_same_part_is_never_counted_twice(tmp_path):
    first = gathered(table())
    with pytest.raises(DataError, match="twice"):
        first.merge(first)
    both = first.merge(gathered(table(seed=1)))
    with pytest.raises(DataError, match="twice"):
        both.merge(first)


def test_merging_changes_neither_side():
    first, second = gathered(table()), gathered(table(seed=1))
    before = gathered(table()).moments
    first.merge(second)
    assert first.moments == before


def test_different_schemas_groups_and_mechanisms_do_not_mix():
    other = Schema(columns=SCHEMA.columns | {"x1": Numeric(lower=0, upper=2)})
    plain = gathered(table())
    with pytest.raises(DataError, match="different schemas"):
        plain.merge(gathered(table(), schema=other))
    with pytest.raises(DataError, match="different schemas"):
        gathered(table(), mechanism="stratified").merge(gathered(table(), mechanism="stratified", by="x2"))
    with pytest.raises(DataError):
        gathered(table(), mechanism="gaussian").merge(gathered(table(), mechanism="stratified"))
    with pytest.raises(UsageError, match="another schema"):
        dpcov.release(plain, schema=other, budget=BUDGET)
    with pytest.raises(UsageError, match="Gather again"):
        dpcov.release(
            gathered(table(), mechanism="stratified"), schema=SCHEMA, budget=BUDGET, mechanism="gaussian"
        )
    with pytest.raises(UsageError, match="needs the rows"):
        gathered(table(), budget=Budget(epsilon=1), mechanism="coinpress")


def test_the_length_of_the_file_does_not_depend_on_the_rows(tmp_path):
    lengths = set()
    for number, rows in enumerate((table(3), table(12345), table(500, seed=2) * 0)):
        gathered(rows, mechanism="stratified").save(tmp_path / str(number), KEY)
        lengths.add((tmp_path / str(number)).stat().st_size)
    assert len(lengths) == 1


def test_checkpoints_do_not_show_what_they_hold():
    assert "500" not in repr(gathered(table()))
