import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpcov
from dpcov.data.engines.base import BallEncoding
from dpcov.data.exact.linear import LinearMap
from dpcov.data.gather import Gathering
from dpcov.errors import DataError, NumericError, UsageError
from dpcov.mechanisms.blocks.additive_noise import MatrixNoise
from dpcov.mechanisms.coinpress import CoinPress, _inverse_root, round_shares
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP
from dpcov.published.linalg.symmetric import symmetrize
from tests.mechanisms.chosen import problem


def asked(rows):
    encoding = BallEncoding(n_features=rows.shape[1], norm_bound=1.0)
    return Gathering(threads=1).ask(rows, encoding, again=True)


def mahalanobis_error(estimate, reference):
    """||B E B - I||_F with B the inverse root of the reference."""
    root = _inverse_root(reference)
    return np.linalg.norm(root @ estimate @ root - np.eye(len(root)))


@pytest.mark.parametrize("matrix", [np.zeros((2, 2)), np.diag([1.0, -1.0])])
def test_matrices_that_are_not_positive_definite_have_no_inverse_root(matrix):
    with pytest.raises(NumericError):
        _inverse_root(matrix)


def moment(mechanism, budget, rows, entropy, neighbors="replace-one"):
    """The released second moment."""
    asked_of = problem(rows.shape[1], neighbors, n_rows=len(rows))
    calibration = mechanism.calibrate(asked_of, Budget(rho=str(budget)))
    made = mechanism.draw(asked(rows), calibration, asked_of, entropy)
    return made.arrays["second_moment"]


def normal_rows(n_rows, d, condition, seed=0):
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(d, d)))
    rows = rng.normal(size=(n_rows, d)) * np.geomspace(1.0, condition**-0.5, d) @ basis.T
    return rows / np.linalg.norm(rows, axis=1).max()


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_badly_conditioned_normal_rows_are_estimated_in_every_direction(neighbors):
    rows = normal_rows(30_000, 5, 1e4)
    truth, errors = rows.T @ rows / len(rows), {}
    for rounds in (1, 4):
        mechanism = CoinPress(rounds=rounds)
        made = [moment(mechanism, 0.5, rows, SeededEntropy(s), neighbors) for s in range(5)]
        errors[rounds] = np.median([mahalanobis_error(each, truth) for each in made])
    assert errors[4] < 0.1
    assert errors[1] > 20 * errors[4]


def release_of(data, **keywords):
    return dpcov.second_moment(
        data,
        norm_bound=1.0,
        budget=dpcov.Budget(rho=5),
        mechanism="coinpress",
        entropy=SeededEntropy(1),
        **keywords,
    )


def test_every_engine_answers_every_round_with_the_same_integers(tmp_path):
    rows = normal_rows(5_000, 3, 100.0)
    made = release_of(rows, threads=1)
    assert mahalanobis_error(made.second_moment(), rows.T @ rows / len(rows)) < 0.1
    table = pa.table({f"x{place}": column for place, column in enumerate(rows.T)})
    pq.write_table(table, tmp_path / "rows.parquet")
    np.save(tmp_path / "rows.npy", rows)
    others = [tmp_path / "rows.parquet", tmp_path / "rows.npy", table.to_reader(), table]
    pytest.importorskip("dask")
    import dask.array

    others.append(dask.array.from_array(rows, chunks=(700, 3)))
    for other in others:
        assert release_of(other).second_moment().tolist() == made.second_moment().tolist()


def test_saved_moments_answer_one_question(tmp_path):
    rows = normal_rows(100, 3, 10.0)
    moments = dpcov.moments(rows, norm_bound=1.0)
    assert release_of(moments, rounds=1).second_moment().shape == (3, 3)


def test_what_can_be_read_once_and_does_not_fit_is_refused_before_the_charge():
    rows = normal_rows(200_000, 3, 10.0)
    reader = pa.table({f"x{place}": column for place, column in enumerate(rows.T)}).to_reader()
    with pytest.raises(UsageError, match="Save it to a file") as caught:
        release_of(reader, memory_limit=0.03, threads=1)
    assert "200000" not in str(caught.value)
    with pytest.raises(UsageError, match="read once only"):
        release_of(reader, neighbors="add-remove-one")


def test_a_table_that_changes_between_rounds_ends_the_release(monkeypatch):
    rows, seen = normal_rows(1_000, 3, 10.0), []
    kept = LinearMap.apply

    def changing(self, block, *terms):
        seen.append(len(block))
        rows[0] *= 0.5
        return kept(self, block, *terms)

    monkeypatch.setattr(LinearMap, "apply", changing)
    with pytest.raises(DataError, match="changed while") as caught:
        release_of(rows, rounds=4)
    assert len(seen) == 2
    assert "No ledger was charged." in caught.value.__notes__


ROWS = np.random.default_rng(1).normal(size=(9, 2)) * [0.3, 0.05]
NOISE = np.array([[0.5, 0.125], [0.125, 0.25]])


@pytest.fixture
def chosen_matrices(monkeypatch):
    """Every matrix of noise is the same, in its scale."""
    monkeypatch.setattr(
        MatrixNoise, "draw", lambda self, size, entropy: NOISE[:size, :size] * self.scale
    )


@pytest.mark.parametrize("shares", [[1.0], [0.25, 0.75], [0.0625] * 4 + [0.75]])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_every_round_buys_the_noise_of_its_share(neighbors, shares):
    assert sum(round_shares(len(shares))) == 1
    made = CoinPress(rounds=len(shares)).calibrate(problem(2, neighbors, 3), Budget(rho="0.8"))
    moved, rest = (2, 0.8) if neighbors == "replace-one" else (1, 0.8 * 0.95)
    expected = [math.sqrt(9 * moved / (2 * rest * share)) for share in shares]
    assert [noise.scale for noise in made.rounds] == pytest.approx(expected)
    assert {noise.law for noise in made.rounds} == {"gaussian-isotropic"}
    assert made.row_count == (None if moved == 2 else ZCDP(rho=Fraction("0.8") / 20))
    assert made.promise == Budget(rho="0.8").promise


def by_hand(rows, n_rows, scales, spectral):
    """All rounds with plain inverses; ``spectral`` bounds the spectrum of noise of scale 1."""
    d = rows.shape[1]
    log = math.log(n_rows * len(scales) / 0.05)
    whitening = np.eye(d)
    for place, scale in enumerate(scales):
        norm = min(math.sqrt(d + 2 * math.sqrt(d * log) + 2 * log), np.linalg.norm(whitening, 2))
        images = rows @ whitening.T
        images *= np.minimum(1, norm / np.linalg.norm(images, axis=1))[:, None]
        moment = (images.T @ images + norm**2 * scale * NOISE) / n_rows
        if place + 1 == len(scales):
            back = np.linalg.inv(whitening)
            return back @ moment @ back.T
        values, vectors = np.linalg.eigh(moment)
        values = np.maximum(values, 0) + scale * spectral * norm**2 / n_rows
        whitening = (vectors / np.sqrt(values)) @ vectors.T @ whitening
    raise AssertionError


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize("times", [1, 400])
def test_all_rounds_by_hand(monkeypatch, chosen_matrices, rounds, neighbors, times):
    """With many rows the norm of normal rows is what clips, with few that of the unit ball."""
    monkeypatch.setattr("dpcov.mechanisms.blocks.counts.rounded_gaussian", lambda *_: np.array([3]))
    rows = np.repeat(ROWS, times, axis=0)
    mechanism = CoinPress(rounds=rounds)
    public = problem(2, neighbors, n_rows=len(rows))
    calibration = mechanism.calibrate(public, Budget(rho=1))
    made = mechanism.draw(asked(rows), calibration, public, SeededEntropy(0))
    n_rows = len(rows) + (0 if neighbors == "replace-one" else 3)
    scales = [noise.scale for noise in calibration.rounds]
    spectral = 2 + math.sqrt(2 * math.log(2 * rounds / 0.05))
    expected = by_hand(rows, n_rows, scales, spectral)
    np.testing.assert_allclose(
        made.arrays["second_moment"], symmetrize(expected), rtol=1e-4, atol=1e-7
    )
    assert (made.post, made.radius) == ("psd", 1.0)
    assert ("row_count" in made.arrays) == (neighbors == "add-remove-one")
