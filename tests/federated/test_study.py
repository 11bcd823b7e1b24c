"""A whole study in simulation: several sites, one coordinator, one release."""

from dataclasses import replace

import numpy as np
import pytest

import dpcov
from dpcov import Boolean, Budget, Ledger, Numeric, Schema, SeededEntropy
from dpcov.errors import DataError, DpcovError, LedgerError, NumericError, UsageError
from dpcov.federated import Contribution, Site, Study, combine
from dpcov.federated import site as site_module
from dpcov.federated.residues import Residues, total
from dpcov.gathering import table_moments
from tests.statistical.goodness import GoodnessError, assert_mean_square, mean_square_samples

SCHEMA = Schema(columns={"x0": Numeric(lower=-1, upper=1), "x1": Numeric(lower=0, upper=4), "x2": Boolean()})
NAMES = ("north", "south", "west")


def plan(**changes: object) -> Study:
    facts = {"schema": SCHEMA, "budget": Budget(rho=1), "sites": NAMES, "honest": 3}
    return Study(**(facts | changes))  # type: ignore[arg-type]


def tables(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        name: np.column_stack(
            [rng.uniform(-1, 1, n), rng.uniform(0, 4, n), rng.integers(0, 2, n).astype(float)]
        )
        for name, n in zip(NAMES, (400, 250, 350), strict=True)
    }


def contributions(study: Study, data: dict[str, np.ndarray], seed: int = 1) -> list[Contribution]:
    sites = {name: Site(name, study) for name in study.sites}
    roster = {name: site.public_key for name, site in sites.items()}
    return [
        site.contribute(data[name], roster, entropy=SeededEntropy(seed + place))
        for place, (name, site) in enumerate(sites.items())
    ]


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_the_release_is_the_sum_over_sites_with_the_stated_noise(neighbors: str) -> None:
    study, data = plan(neighbors=neighbors), tables()
    made = combine(study, contributions(study, data))
    rows = np.concatenate(list(data.values()))
    alone = dpcov.release(
        rows, schema=SCHEMA, budget=Budget(rho=50), mechanism="gaussian", neighbors=neighbors
    )
    assert made.feature_names == alone.feature_names
    np.testing.assert_allclose(made.covariance(post="none"), alone.covariance(post="none"), atol=0.15)
    assert (made.n_rows == 1000) == (neighbors == "replace-one")
    assert str(made.guarantee.promise) == "(1)-zCDP"


def test_the_sum_carries_exactly_one_central_noise_when_all_are_honest() -> None:
    """7,381 noisy entries, enough to notice that a site left its share out, or that one was drawn twice."""
    wide = Schema(columns={f"x{i}": Numeric(lower=-1, upper=1) for i in range(120)})
    study = plan(schema=wide)
    data = {name: np.random.default_rng(3).uniform(-1, 1, (50, 120)) for name in NAMES}
    made = combine(study, contributions(study, data))
    exact = table_moments(np.concatenate(list(data.values())), wide, study.spec).strata[0].sscp.words()
    noise = (made.statistics.arrays["sscp"] - ((exact[0] << 32) + exact[1]))[np.triu_indices(121)]
    assert len(noise) >= mean_square_samples()
    variance = np.where(np.equal(*np.triu_indices(121)), 1.0, 0.5) * study.central().diagonal_variance
    assert_mean_square(noise / np.sqrt(variance), 1.0)
    with pytest.raises(GoodnessError):
        assert_mean_square(noise / np.sqrt(variance), 2 / 3)


def test_a_single_contribution_is_uniform_and_hides_the_rows() -> None:
    """The same rows and the same noise under two key exchanges: the masked bytes have nothing in common."""
    study, data = plan(), tables()
    first, second = (contributions(study, data, seed=5)[0] for _ in range(2))
    words = np.frombuffer(first.values, np.uint64) ^ np.frombuffer(second.values, np.uint64)
    ones = np.unpackbits(words.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 6.5 * 0.5 / np.sqrt(64 * len(words))


def test_all_but_one_contribution_do_not_decode() -> None:
    study, data = plan(), tables()
    parts = contributions(study, data)
    with pytest.raises(NumericError, match="out of range"):
        total((Residues.from_bytes(part.values) for part in parts[:2]), study.length).halves()


def test_without_masks_a_site_would_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted site that forgets its masks shows its number of rows to the coordinator."""
    study, data = plan(), tables()
    with pytest.raises(NumericError, match="out of range"):
        Residues.from_bytes(contributions(study, data)[0].values).halves()
    monkeypatch.setattr(site_module, "masked", lambda values, *_: values)
    naked = Residues.from_bytes(contributions(study, data)[0].values)
    assert naked.integers()[-1] >> study.bits == 400


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda parts: parts[:2], "Contributions of all 3 sites"),
        (lambda parts: [*parts[:2], parts[1]], "Contributions of all 3 sites"),
        (
            lambda parts: [*parts[:2], replace(parts[2], context=b"old", values=parts[2].values)],
            "another study",
        ),
        (
            lambda parts: [
                *parts[:2],
                replace(parts[2], context=parts[2].context, values=parts[2].values[:-16]),
            ],
            "wrong length",
        ),
        (
            lambda parts: [
                *parts[:2],
                replace(parts[2], context=parts[2].context, values=bytes(12 * 16)),
            ],
            "out of range",
        ),
    ],
)
def test_missing_foreign_and_damaged_contributions_are_refused(spoil: object, message: str) -> None:
    study, data = plan(), tables()
    with pytest.raises(DpcovError, match=message):
        combine(study, spoil(contributions(study, data)))  # type: ignore[operator]


def test_a_site_contributes_once_and_only_to_its_study() -> None:
    study, data = plan(), tables()
    sites = {name: Site(name, study) for name in NAMES}
    roster = {name: site.public_key for name, site in sites.items()}
    sites["north"].contribute(data["north"], roster)
    with pytest.raises(UsageError, match="has contributed"):
        sites["north"].contribute(data["north"], roster)
    with pytest.raises(UsageError, match="not in the study"):
        Site("east", study)
    with pytest.raises(UsageError, match="every site"):
        sites["south"].contribute(data["south"], {"south": sites["south"].public_key})
    with pytest.raises(UsageError, match="own public key"):
        sites["south"].contribute(data["south"], roster | {"south": roster["west"]})
    with pytest.raises(DataError, match="not gathered"):
        sites["west"].contribute(dpcov.moments(data["west"], norm_bound=1.0), roster)


def test_every_site_charges_its_own_ledger_before_it_draws(tmp_path: object) -> None:
    study, data = plan(), tables()
    sites = {name: Site(name, study) for name in NAMES}
    roster = {name: site.public_key for name, site in sites.items()}
    ledger = Ledger(f"{tmp_path}/ledger.sqlite")
    ledger.create("north", Budget(rho=1), "replace-one")
    part = sites["north"].contribute(data["north"], roster, ledger=ledger, dataset="north")
    (entry,) = ledger.entries("north")
    assert entry.state == "committed"
    assert entry.fingerprint
    again = Site("north", plan(round=2))
    with pytest.raises(LedgerError):
        again.contribute(data["north"], roster | {"north": again.public_key}, ledger=ledger, dataset="north")
    assert part.values


def test_one_site_with_seeded_noise_makes_the_release_not_private() -> None:
    study, data = plan(), tables()
    for seeded in (None, "south"):
        sites = {name: Site(name, study) for name in NAMES}
        roster = {name: site.public_key for name, site in sites.items()}
        parts = [
            site.contribute(data[name], roster, entropy=SeededEntropy(1) if name == seeded else None)
            for name, site in sites.items()
        ]
        assert combine(study, parts).is_private == (seeded is None)
