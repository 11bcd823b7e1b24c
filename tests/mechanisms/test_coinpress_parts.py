import math
from fractions import Fraction

import numpy as np
import pytest

from dpcov.data.engines import BallEncoding
from dpcov.data.gather import Gathering
from dpcov.mechanisms.blocks.matrix_noise import MatrixNoise
from dpcov.mechanisms.coinpress import CoinPress, round_shares
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP
from dpcov.published.linalg.symmetric import symmetrize
from tests.mechanisms.chosen import problem

ENTROPY = SeededEntropy(0)
ROWS = np.random.default_rng(1).normal(size=(9, 2)) * [0.3, 0.05]
NOISE = np.array([[0.5, 0.125], [0.125, 0.25]])


def asked_of(rows):
    encoding = BallEncoding(n_features=rows.shape[1], norm_bound=1.0)
    return Gathering(threads=1).ask(rows, encoding, again=True)


@pytest.fixture(autouse=True)
def chosen_matrices(monkeypatch):
    """Every matrix of noise is the same, in its scale."""
    monkeypatch.setattr(
        MatrixNoise, "draw", lambda self, size, entropy: NOISE[:size, :size] * self.scale
    )


def test_three_quarters_go_to_the_last_round():
    assert round_shares(1) == [1]
    assert round_shares(2) == [Fraction(1, 4), Fraction(3, 4)]
    assert round_shares(5) == [*[Fraction(1, 16)] * 4, Fraction(3, 4)]


@pytest.mark.parametrize("shape", ["isotropic", "entrywise"])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_every_round_buys_the_noise_of_its_share(shape, neighbors):
    made = CoinPress(rounds=2, noise=shape).calibrate(problem(2, neighbors, 3), Budget(rho="0.8"))
    moved, rest = (2, 0.8) if neighbors == "replace-one" else (1, 0.8 * 0.95)
    expected = [math.sqrt(9 * moved / (2 * rest * share)) for share in (0.25, 0.75)]
    assert [noise.scale for noise in made.rounds] == pytest.approx(expected)
    assert {noise.law for noise in made.rounds} == {f"gaussian-{shape}"}
    assert made.row_count == (None if moved == 2 else ZCDP(rho=Fraction("0.8") / 20))
    assert made.promise == Budget(rho="0.8").promise


def by_hand(rows, n_rows, scales, spectral, *, beta, upper):
    """All rounds with plain inverses; ``spectral`` bounds the spectrum of noise of scale 1."""
    d = rows.shape[1]
    log = math.log(n_rows * len(scales) / beta)
    whitening = np.eye(d) / math.sqrt(upper)
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
@pytest.mark.parametrize("upper", [1.0, 0.25])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize("times", [1, 400])
def test_all_rounds_by_hand(monkeypatch, rounds, upper, neighbors, times):
    """With many rows the norm of normal rows is what clips, with few that of the unit ball."""
    monkeypatch.setattr(
        "dpcov.mechanisms.blocks.finished.rounded_gaussian", lambda *_: np.array([3])
    )
    rows = np.repeat(ROWS, times, axis=0)
    mechanism = CoinPress(rounds=rounds, upper=upper, failure_probability=0.1, bits=22)
    asked = problem(2, neighbors, n_rows=len(rows))
    calibration = mechanism.calibrate(asked, Budget(rho=1))
    made = mechanism.draw(asked_of(rows), calibration, asked, ENTROPY)
    n_rows = len(rows) + (0 if neighbors == "replace-one" else 3)
    scales = [noise.scale for noise in calibration.rounds]
    spectral = 2 + math.sqrt(2 * math.log(2 * rounds / 0.1))
    expected = by_hand(rows, n_rows, scales, spectral, beta=0.1, upper=upper)
    np.testing.assert_allclose(
        made.arrays["second_moment"], symmetrize(expected), rtol=1e-5, atol=1e-8
    )
    assert (made.post, made.radius) == ("psd", 1.0)
    assert ("row_count" in made.arrays) == (neighbors == "add-remove-one")
