"""Moments that are saved, resumed and merged equal those of the whole table, to the bit."""

import hashlib
import re

import msgspec
import numpy as np
import pytest

import dpcov
from dpcov import Boolean, Budget, Categorical, Numeric, Schema
from dpcov.data import checkpoint as checkpoint_module
from dpcov.data.checkpoint import Checkpoint
from dpcov.data.encode import Encoder
from dpcov.data.engines.base import BallEncoding
from dpcov.data.exact.moments import Moments, MomentsSpec
from dpcov.data.geometry import Geometry, Scale
from dpcov.data.groups import split_schema
from dpcov.data.questions import MomentsQuestion
from dpcov.data.vault import Key, lock_file
from dpcov.errors import BudgetError, DataError, UsageError

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


def test_more_parts_than_a_checkpoint_holds_are_refused(monkeypatch):
    monkeypatch.setattr(checkpoint_module, "_MAX_PARTS", 2)
    first, second, third = (gathered(table(9, seed), name=str(seed)) for seed in range(3))
    both = first.merge(second)
    with pytest.raises(DataError, match="at most 2 parts"):
        both.merge(third)


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
    facts = {"schema": SCHEMA, "budget": BUDGET, "geometry": "schema"}
    from_rows, from_saved = (
        dpcov.release(data, **facts, entropy=dpcov.SeededEntropy(1)) for data in (rows, saved)
    )
    assert all(
        np.array_equal(from_saved.statistics.arrays[name], array)
        for name, array in from_rows.statistics.arrays.items()
    )
    assert from_saved.n_rows == 500
    assert "500" not in repr(saved)


def test_the_same_part_is_never_counted_twice_and_merging_changes_neither_side():
    first, second = gathered(table()), gathered(table(seed=1))
    both = first.merge(second)
    assert first.moments == gathered(table()).moments
    for other in (first, both):
        with pytest.raises(DataError, match="twice"):
            other.merge(first)


def test_a_part_that_is_gathered_again_under_its_name_is_not_counted_twice():
    first = gathered(table(), name="a").merge(gathered(table(seed=1), name="/north/b"))
    with pytest.raises(DataError, match="A part called b was gathered into both"):
        first.merge(gathered(table(seed=1), name="/north/b"))
    assert len(first.merge(gathered(table(), name="c")).parts) == 3
    with pytest.raises(UsageError, match="name"):
        gathered(table(), name=7)


@pytest.mark.parametrize(
    "changes",
    [
        {"mechanism": "gaussian", "by": "x3"},
        {"mechanism": "laplace"},
        {"budget": Budget(epsilon=1), "by": "x3"},
        {"budget": Budget(rho="1e-300")},
    ],
)
def test_what_no_release_can_honor_is_refused_before_a_row_is_read(changes):
    rows, refusals = np.empty((0, 4)), (BudgetError, UsageError)
    with pytest.raises(refusals) as refusal:
        gathered(rows, **changes)
    with pytest.raises(refusals, match=re.escape(str(refusal.value))):
        dpcov.release(rows, geometry="schema", **({"schema": SCHEMA, "budget": BUDGET} | changes))


def test_no_geometry_is_found_in_saved_moments():
    """The bounds' was taken, without a word."""
    saved, terms = gathered(table()), {"schema": SCHEMA, "budget": BUDGET}
    for door, data in ((dpcov.release, saved), (dpcov.checkpoint, table())):
        with pytest.raises(UsageError, match=r"Leave out geometry .*, or find one first"):
            door(data, geometry="private", **terms)
    plain = dpcov.release(saved, entropy=dpcov.SeededEntropy(1), **terms)
    assert plain.manifest.columns[1].half_range == 3.0


def test_moments_in_a_geometry_of_before_that_names_no_units_are_added_and_released():
    """They were refused beside those in the same geometry, now that it names units."""
    columns = SCHEMA.columns | {"x0": Numeric(lower=-3, upper=3, unit="kg")}
    terms = {"schema": Schema(columns=columns), "budget": BUDGET}
    before, now, other = (
        Geometry(columns={"x0": Scale(0.0, scale, unit)}, norm_bound=3.0)
        for scale, unit in ((1.0, ""), (1.0, "kg"), (2.0, "kg"))
    )
    first, second = gathered(table(), geometry=before, **terms), gathered(table(seed=1), **terms)
    with pytest.raises(DataError, match="geometries"):
        first.merge(second)
    for again in (gathered(table(seed=1), geometry=now, **terms), second):
        with pytest.raises(DataError, match="geometries"):
            again.merge(gathered(table(), geometry=other, **terms))
    both = first.merge(gathered(table(seed=1), geometry=now, **terms))
    made = dpcov.release(both, geometry=now, entropy=dpcov.SeededEntropy(1), **terms)
    assert made.manifest.columns[1].half_range == 1.0


def test_different_schemas_groups_and_mechanisms_do_not_mix():
    other = Schema(columns=SCHEMA.columns | {"x1": Numeric(lower=0, upper=2)})
    turned = Schema(columns=dict(reversed(SCHEMA.columns.items())))
    plain, grouped = gathered(table()), gathered(table(), by="x2")
    for schema, where in ((other, " in 'x1'"), (turned, "")):
        with pytest.raises(DataError, match=f"Their schemas differ{where}, so"):
            plain.merge(gathered(table(), schema=schema))
        with pytest.raises(UsageError, match="another schema"):
            dpcov.release(plain, schema=schema, budget=BUDGET)
    with pytest.raises(DataError, match="Their groups differ, so"):
        plain.merge(grouped)
    with pytest.raises(DataError):
        gathered(table(), mechanism="gaussian").merge(gathered(table(), mechanism="stratified"))
    with pytest.raises(UsageError, match="several times"):
        gathered(table(), budget=Budget(epsilon=1), mechanism="coinpress")


def test_the_length_of_the_file_does_not_depend_on_the_rows(tmp_path):
    lengths = set()
    for number, rows in enumerate((table(3), table(12345), table(500, seed=2) * 0)):
        gathered(rows, mechanism="stratified").save(tmp_path / str(number), KEY)
        lengths.add((tmp_path / str(number)).stat().st_size)
    assert len(lengths) == 1


def fixed(n_features=3, **options):
    """A checkpoint in which nothing is drawn."""
    moments = Moments(n_features, MomentsSpec(**options), norm_bound=2.0)
    rows = np.random.default_rng(0).uniform(-1, 1, (12, n_features)) / n_features
    moments.add(rows, np.arange(12) % moments.spec.groups if moments.spec.groups > 1 else None)
    return Checkpoint(moments=moments, schema_toml="[columns]", by="x", parts={"0a" * 16: "north"})


@pytest.mark.parametrize(
    ("options", "digest"),
    [
        ({}, "96f9eee70ac89384"),
        ({"n_features": 1}, "b7671675cabbc7bd"),
        ({"n_features": 40, "shells": 2}, "1e04a49116215f3b"),
        ({"shells": 2, "groups": 3, "normalized": True}, "bd8ebabdea4a5248"),
    ],
)
def test_moments_are_saved_in_the_same_bytes_for_ever(options, digest):
    made = fixed(**options)
    content = made._to_bytes()
    assert hashlib.sha256(content).hexdigest()[:16] == digest
    again = checkpoint_module._from_bytes(content)
    assert again == made
    assert again.moments == made.moments


def test_a_part_is_known_by_its_name_and_told_apart_by_128_random_bits():
    one, other = (Checkpoint.of_part(fixed().moments, "a", schema_toml="") for _ in range(2))
    assert list(one.parts.values()) == ["a"]
    (key,), (another,) = one.parts, other.parts
    assert len(bytes.fromhex(key)) == len(bytes.fromhex(another)) == 16
    assert key != another


@pytest.mark.parametrize("cut", [0, 8, 40, -8, -1])
def test_saved_moments_that_do_not_fit_their_heading_are_refused(tmp_path, cut):
    content = fixed()._to_bytes()
    lock_file(tmp_path / "a", content[:cut] if cut else content + bytes(8), KEY)
    with pytest.raises(DataError, match="another version"):
        Checkpoint.load(tmp_path / "a", KEY)


@pytest.mark.parametrize("other", ["schema", {"norm_bound": 2.0}, {"lost": 0.1}, {"seeded": True}])
def test_moments_are_released_in_the_geometry_that_they_were_gathered_in_alone(other):
    known = Geometry(columns={"x0": Scale(0.0, 1.0)}, norm_bound=3.0)
    saved, terms = gathered(table(), geometry=known), {"schema": SCHEMA, "budget": BUDGET}
    other = other if other == "schema" else msgspec.structs.replace(known, **other)
    with pytest.raises(UsageError, match="another schema, other groups or another geometry"):
        dpcov.release(saved, geometry=other, **terms)
    entropy = dpcov.SeededEntropy(1)
    assert dpcov.release(saved, geometry=known, entropy=entropy, **terms).n_rows == 500


def test_moments_are_taken_for_what_they_were_gathered_for_alone():
    grouped = gathered(table(), mechanism="stratified", by="x2")
    rest, grouping = split_schema(SCHEMA, "x2")
    question = MomentsQuestion(spec=grouped.moments.spec)
    assert grouped.take(Encoder(rest, grouping=grouping), question) is grouped.moments
    for encoding in (
        Encoder(rest),
        Encoder(SCHEMA, grouping=grouping),
        BallEncoding(n_features=3, norm_bound=2.0),
    ):
        with pytest.raises(UsageError, match="another schema"):
            grouped.take(encoding, question)
    with pytest.raises(UsageError, match="Gather them again"):
        grouped.take(Encoder(rest, grouping=grouping), MomentsQuestion())
