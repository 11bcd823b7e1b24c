import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpcov
from dpcov.data.engines import BallEncoding
from dpcov.data.gather import Gathering
from dpcov.data.linear import LinearMap
from dpcov.errors import DataError, NumericError, UsageError
from dpcov.mechanisms.coinpress import CoinPress, _inverse_root
from dpcov.noise.continuous import normals
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from tests.audit.bounds import lower_bound_rho
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


def naive(rows, rho, rounds, beta, entropy):
    # Whitening by the symmetric root of U, round by round, as in coinpress.md.
    n, d = rows.shape
    shares = [0.25 / (rounds - 1)] * (rounds - 1) + [0.75] if rounds > 1 else [1.0]
    frame = np.eye(d)
    log = math.log(n * rounds / beta)
    for step, share in enumerate(shares, 1):
        bound = math.sqrt(d + 2 * math.sqrt(d * log) + 2 * log)
        radius = min(bound, np.linalg.svd(frame)[1][0])
        whitened = np.array([frame @ row for row in rows])
        whitened = np.array([row * min(1.0, radius / np.linalg.norm(row)) for row in whitened])
        std = radius**2 * math.sqrt(2) / (n * math.sqrt(2 * share * rho))
        gaussian = normals((d, d), entropy)
        moment = whitened.T @ whitened / n + std * (gaussian + gaussian.T) / 2
        if step == rounds:
            back = np.linalg.inv(frame)
            return back @ moment @ back.T
        values, vectors = np.linalg.eigh(moment)
        slack = std * (math.sqrt(2 * d) + math.sqrt(2 * math.log(2 * rounds / beta)))
        spread = (vectors * (np.maximum(values, 0) + slack)) @ vectors.T
        values, vectors = np.linalg.eigh(spread)
        frame = (vectors / np.sqrt(values)) @ vectors.T @ frame
    raise AssertionError


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_naive_transcription(rounds):
    rows = normal_rows(300, 3, 100.0)
    for seed in range(4):
        made = moment(CoinPress(rounds=rounds, bits=22), 0.4, rows, SeededEntropy(seed))
        expected = naive(rows, 0.4, rounds, 0.05, SeededEntropy(seed))
        np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-7)


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


def test_the_theorem_about_the_error_of_the_last_round():
    # Normal rows, nobody clipped: A C A' is between I/2 and I, so the error is at most 2 g**2/n
    # ||E||.
    rows = normal_rows(30_000, 5, 100.0)
    truth, d, n = rows.T @ rows / len(rows), 5, len(rows)
    log = math.log(n * 4 / 0.05)
    std = (d + 2 * math.sqrt(d * log) + 2 * log) / (n * math.sqrt(0.75 * 0.5))
    squared = d * (d + 1) / 2 + 2 * math.sqrt(15 * math.log(20)) + 2 * math.log(20)
    bound = 2 * std * math.sqrt(squared)
    made = [moment(CoinPress(rounds=4), 0.5, rows, SeededEntropy(s)) for s in range(20)]
    assert sum(mahalanobis_error(each, truth) > bound for each in made) <= 10
    assert bound < 0.1


def test_a_smaller_public_upper_bound_means_less_noise():
    rows = 0.1 * normal_rows(1_000, 3, 1.0)
    truth, errors = rows.T @ rows / len(rows), []
    for upper in (1.0, 1e-3):
        mechanism = CoinPress(rounds=1, upper=upper)
        made = [moment(mechanism, 0.1, rows, SeededEntropy(s)) for s in range(10)]
        errors.append(np.mean([np.linalg.norm(each - truth) for each in made]))
    assert errors[1] < errors[0] / 5


def scores(rho, draws, rounds=1):
    # The pair that attains the sensitivity.
    both, entropy = [], SeededEntropy(1)
    for row in ([1.0, 0.0], [0.0, 1.0]):
        rows = np.array([row, [0.0, 0.0], [0.0, 0.0]])
        made = [moment(CoinPress(rounds=rounds), rho, rows, entropy) for _ in range(draws)]
        both.append(np.array([matrix[0, 0] - matrix[1, 1] for matrix in made]))
    return both


def test_audit():
    assert 0 < lower_bound_rho(*scores(2, 1_000)) <= 2
    # Half the noise has four times the rho.
    assert lower_bound_rho(*scores(8, 1_500)) > 2


def test_audit_of_several_rounds():
    assert 0 < lower_bound_rho(*scores(2, 400, rounds=3)) <= 2
    assert lower_bound_rho(*scores(32, 800, rounds=3)) > 2


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


def test_on_a_device_too():
    torch = pytest.importorskip("torch")
    rows = normal_rows(2_000, 3, 100.0)
    here, there = release_of(rows), release_of(torch.from_numpy(rows))
    assert here.second_moment().tolist() == there.second_moment().tolist()


def test_saved_moments_answer_one_question(tmp_path):
    rows = normal_rows(100, 3, 10.0)
    moments = dpcov.moments(rows, norm_bound=1.0)
    with pytest.raises(UsageError, match="several times"):
        release_of(moments)
    assert not CoinPress(rounds=1).asks_again
    assert release_of(moments, rounds=1).second_moment().shape == (3, 3)


def test_what_can_be_read_once_and_does_not_fit_is_refused_before_the_charge():
    rows = normal_rows(5_000, 3, 10.0)
    reader = pa.table({f"x{place}": column for place, column in enumerate(rows.T)}).to_reader()
    with pytest.raises(UsageError, match="Save it to a file") as caught:
        release_of(reader, memory_limit=1e-5)
    assert "5000" not in str(caught.value)
    with pytest.raises(UsageError, match="read once only"):
        release_of(reader, neighbors="add-remove-one")


def test_a_table_that_changes_between_rounds_ends_the_release(monkeypatch):
    rows, seen = normal_rows(1_000, 3, 10.0), []
    kept = LinearMap.apply

    def changing(self, block):
        seen.append(len(block))
        rows[0] *= 0.5
        return kept(self, block)

    monkeypatch.setattr(LinearMap, "apply", changing)
    with pytest.raises(DataError, match="changed while") as caught:
        release_of(rows, rounds=4)
    assert len(seen) == 2
    assert "No ledger was charged." in caught.value.__notes__
