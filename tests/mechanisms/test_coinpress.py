import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpcov
from dpcov.audit import half_noise, lower_bound_rho
from dpcov.data.engines import BallEncoding
from dpcov.data.gather import Gathering
from dpcov.data.linear import LinearMap
from dpcov.errors import BudgetError, DataError, UsageError
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.whitening import mahalanobis_error
from dpcov.mechanisms.coinpress import CoinPress, round_shares
from dpcov.noise.continuous import normals
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget


def asked(rows):
    encoding = BallEncoding(n_features=rows.shape[1], norm_bound=1.0)
    return Gathering(threads=1).ask(rows, encoding, again=True)


def problem_of(rows, relation="replace-one", k=1):
    n_rows = len(rows) if relation == "replace-one" else None
    return Problem(n_features=rows.shape[1], neighbors=relation, n_rows=n_rows, rows_per_person=k)


def sscp_release(mechanism, budget, rows, entropy, relation="replace-one"):
    problem = problem_of(rows, relation)
    calibration = mechanism.calibrate(problem, budget)
    return mechanism.draw(asked(rows), calibration, problem, entropy)


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
        made = sscp_release(
            CoinPress(rounds=rounds, bits=22), Budget(rho="0.4"), rows, SeededEntropy(seed)
        )
        expected = naive(rows, 0.4, rounds, 0.05, SeededEntropy(seed))
        np.testing.assert_allclose(made.arrays["second_moment"], expected, rtol=1e-5, atol=1e-7)


def test_one_round_is_the_gaussian_mechanism():
    rows = normal_rows(2_000, 4, 1.0)
    noise = [
        sscp_release(CoinPress(rounds=1), Budget(rho=1), rows, SeededEntropy(s)).arrays[
            "second_moment"
        ]
        * 2_000
        - rows.T @ rows
        for s in range(200)
    ]
    # rho = 1 under replace-one: standard deviation 1 on the diagonal.
    assert np.std([matrix.diagonal() for matrix in noise]) == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_badly_conditioned_normal_rows_are_estimated_in_every_direction(relation):
    rows = normal_rows(30_000, 5, 1e4)
    moment = rows.T @ rows / len(rows)
    errors = {
        rounds: np.median(
            [
                mahalanobis_error(
                    sscp_release(
                        CoinPress(rounds=rounds),
                        Budget(rho="0.5"),
                        rows,
                        SeededEntropy(s),
                        relation,
                    ).arrays["second_moment"],
                    moment,
                )
                for s in range(5)
            ]
        )
        for rounds in (1, 4)
    }
    assert errors[4] < 0.1
    assert errors[1] > 20 * errors[4]


def test_the_theorem_about_the_error_of_the_last_round():
    # Normal rows, nobody clipped: A C A' is between I/2 and I, and the error at most twice g**2/n ||E||.
    rows = normal_rows(30_000, 5, 100.0)
    moment, d, n = rows.T @ rows / len(rows), 5, len(rows)
    log = math.log(n * 4 / 0.05)
    radius = d + 2 * math.sqrt(d * log) + 2 * log
    std = radius / (n * math.sqrt(0.75 * 0.5))
    bound = (
        2 * std * math.sqrt(d * (d + 1) / 2 + 2 * math.sqrt(15 * math.log(20)) + 2 * math.log(20))
    )
    errors = [
        mahalanobis_error(
            sscp_release(CoinPress(rounds=4), Budget(rho="0.5"), rows, SeededEntropy(s)).arrays[
                "second_moment"
            ],
            moment,
        )
        for s in range(20)
    ]
    assert np.sum(np.array(errors) > bound) <= 10
    assert bound < 0.1


def test_a_smaller_public_upper_bound_means_less_noise():
    rows = 0.1 * normal_rows(1_000, 3, 1.0)
    moment = rows.T @ rows / len(rows)
    loose, close = (
        np.mean(
            [
                np.linalg.norm(
                    sscp_release(
                        CoinPress(rounds=1, upper=upper), Budget(rho="0.1"), rows, SeededEntropy(s)
                    ).arrays["second_moment"]
                    - moment
                )
                for s in range(10)
            ]
        )
        for upper in (1.0, 1e-3)
    )
    assert close < loose / 5


@pytest.mark.parametrize("rounds", [1, 2, 3, 7])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_rounds_spend_the_whole_budget(rounds, relation):
    assert sum(round_shares(rounds)) == 1
    rows, moved = np.eye(3), 2 if relation == "replace-one" else 1
    calibration = CoinPress(rounds=rounds).calibrate(
        problem_of(rows, relation, 2), Budget(rho="0.3")
    )
    spent = sum(moved * 4 / (2 * noise.scale**2) for noise in calibration.rounds)
    spent += float(calibration.row_count.rho) if calibration.row_count else 0.0
    assert spent == pytest.approx(0.3, rel=1e-9)


def scores(budget, draws, rounds=1):
    # The pair that attains the sensitivity.
    both, entropy = [], SeededEntropy(1)
    for row in ([1.0, 0.0], [0.0, 1.0]):
        rows = np.array([row, [0.0, 0.0], [0.0, 0.0]])
        made = [
            sscp_release(CoinPress(rounds=rounds), budget, rows, entropy).arrays["second_moment"]
            for _ in range(draws)
        ]
        both.append(np.array([matrix[0, 0] - matrix[1, 1] for matrix in made]))
    return both


def test_audit():
    assert 0 < lower_bound_rho(*scores(Budget(rho=2), 1_000)) <= 2
    assert lower_bound_rho(*scores(half_noise(Budget(rho=2)), 1_500)) > 2


def test_audit_of_several_rounds():
    assert 0 < lower_bound_rho(*scores(Budget(rho=2), 400, rounds=3)) <= 2
    assert lower_bound_rho(*scores(Budget(rho=32), 800, rounds=3)) > 2


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
    assert caught.value.__notes__ == [] if hasattr(caught.value, "__notes__") else True


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


def test_what_cannot_be_honored_is_refused():
    for options in (
        {"rounds": 0},
        {"rounds": 1.5},
        {"upper": 0.0},
        {"upper": 2.0},
        {"noise": "x"},
        {"failure_probability": 1},
    ):
        with pytest.raises(UsageError):
            CoinPress(**options)
    for budget in (Budget(epsilon=1), Budget(rho="1e-60")):
        with pytest.raises(BudgetError):
            CoinPress().calibrate(problem_of(np.eye(2)), budget)
