import math
from fractions import Fraction

import numpy as np
import pytest

from dpcov.data.exact.moments import MomentsSpec
from dpcov.errors import UsageError
from dpcov.mechanisms.blocks.additive_noise import AdditiveNoise, additive_noise, scalar
from dpcov.mechanisms.eigenvectors import Eigenvectors
from dpcov.mechanisms.kapralov_talwar import KapralovTalwar, KapralovTalwarCalibration
from dpcov.mechanisms.nuclear import (
    Nuclear,
    NuclearCalibration,
    check_noise_shape,
    noise_law,
    nuclear_scale,
)
from dpcov.mechanisms.nuclear_projection import NuclearProjection, ProjectionCalibration
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import PureDP
from dpcov.published.estimate.nuclear_law import entry_variances
from tests.mechanisms.chosen import choose, drawn, problem, sscps


def sscp_noise(mechanism, rows, epsilon, size, neighbors="replace-one"):
    made = sscps(mechanism, rows, Budget(epsilon=epsilon), size, neighbors=neighbors)
    return made - rows.T @ rows


def schatten(matrix, p):
    return np.linalg.norm(np.linalg.eigvalsh(matrix), p)


@pytest.mark.parametrize("shape", ["square", "nuclear", "wishart"])
def test_theorem_bounds_the_error(shape):
    # Theorem 1 of the paper at d = 30; with its constant where that is right (p <= 2), else 2 pi.
    rows, epsilon, d = np.eye(30), 1.0, 30
    for noise in sscp_noise(Nuclear(noise=shape), rows, 1, 8):
        for p, constant in ((1, 3), (2, 3), (np.inf, 2 * math.pi)):
            assert schatten(noise, p) <= constant * d ** (1 + 1 / p) / epsilon
    twice = sscp_noise(Nuclear(noise=shape), rows, "0.35", 8)
    assert all(schatten(noise, 2) > 3 * d**1.5 / epsilon for noise in twice)


ENTROPY = SeededEntropy(0)
ROWS = np.array([[1.0, 0.0], [0.0, 0.75], [0.5, 0.25]])
SSCP = ROWS.T @ ROWS
NOISE = np.array([[3.0, 1.0], [0.0, 2.0]])
SYMMETRIC = np.array([[3.0, 0.5], [0.5, 2.0]])
RELATIONS = ("replace-one", "add-remove-one")


def pure(epsilon):
    return PureDP(epsilon=Fraction(epsilon))


def rest_of(neighbors):
    """What the row count leaves of epsilon, and the row count's part."""
    if neighbors == "replace-one":
        return Fraction(1), None
    return Fraction(19, 20), pure(Fraction("0.7") / 20)


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_parts_of_epsilon(neighbors):
    asked, budget, epsilon = problem(4, neighbors), Budget(epsilon="0.7"), Fraction("0.7")
    rest, count = rest_of(neighbors)
    assert Nuclear().calibrate(asked, budget) == NuclearCalibration(
        promise=budget.promise, scale=nuclear_scale(pure(epsilon * rest), asked), row_count=count
    )
    for split, promised, matrix, trace in (
        ("full", epsilon, Fraction(5, 7), Fraction(2, 7)),
        ("paper", epsilon * (1 - rest * Fraction(3, 10)), Fraction(1, 2), Fraction(1, 5)),
    ):
        made = NuclearProjection(budget_split=split).calibrate(asked, budget)
        assert made == ProjectionCalibration(
            promise=pure(promised),
            matrix_scale=nuclear_scale(pure(epsilon * rest * matrix), asked),
            trace=additive_noise(pure(epsilon * rest * trace), scalar(asked)),
            row_count=count,
        )
    half = pure(epsilon * rest / 8)
    assert KapralovTalwar().calibrate(asked, budget) == KapralovTalwarCalibration(
        promise=budget.promise,
        direction=half,
        value=additive_noise(half, scalar(asked)),
        row_count=count,
    )


def test_the_scale_is_the_nuclear_sensitivity_over_epsilon():
    for k in (1, 3):
        assert nuclear_scale(pure("0.5"), problem(2, k=k)) == pytest.approx(4 * k, rel=1e-14)
        assert nuclear_scale(pure("0.5"), problem(2, "add-remove-one", k)) == pytest.approx(
            2 * k, rel=1e-14
        )


def test_the_gauge_law_is_refused_where_it_has_no_proof_or_use():
    check_noise_shape("gauge", problem(200))
    check_noise_shape("nuclear", problem(201, "add-remove-one"))
    with pytest.raises(UsageError, match="up to 200 features"):
        check_noise_shape("gauge", problem(201))
    with pytest.raises(UsageError, match="replace-one neighbors"):
        check_noise_shape("gauge", problem(2, "add-remove-one"))
    for mechanism in (Nuclear(noise="gauge"), NuclearProjection(noise="gauge")):
        with pytest.raises(UsageError):
            mechanism.calibrate(problem(2, "add-remove-one"), Budget(epsilon=1))


@pytest.mark.parametrize("shape", ["square", "nuclear", "gauge", "wishart"])
def test_a_law_states_its_variances_in_lattice_units(shape):
    law = noise_law(shape, 3.0, 4)
    diagonal, off_diagonal = entry_variances(shape, 4)
    assert float(law.diagonal_variance) == pytest.approx(diagonal * 9 * 16.0**20, rel=1e-12)
    assert float(law.off_diagonal_variance) == pytest.approx(off_diagonal * 9 * 16.0**20, rel=1e-12)
    assert law.scale == (str(3 * 4.0**20) if shape == "nuclear" else None)


@pytest.mark.parametrize("shape", ["square", "nuclear", "wishart"])
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_nuclear_noise_is_added_and_described(monkeypatch, shape, neighbors):
    square = choose(monkeypatch, "dpcov.mechanisms.nuclear.nuclear_noise", lambda d, scale: NOISE)
    symmetric = choose(
        monkeypatch,
        "dpcov.mechanisms.nuclear.symmetric_nuclear_noise",
        lambda d, scale, law: SYMMETRIC,
    )
    monkeypatch.setattr("dpcov.mechanisms.blocks.counts.discrete_laplace", lambda *_: np.array([2]))
    (made,) = drawn(Nuclear(noise=shape), ROWS, Budget(epsilon=1), neighbors=neighbors)
    rows = 3 if neighbors == "replace-one" else 5
    np.testing.assert_allclose(made.arrays["second_moment"], (SSCP + SYMMETRIC) / rows, rtol=1e-12)
    scale = 2.0 if neighbors == "replace-one" else 20 / 19
    (told,) = [*square.asked, *symmetric.asked]
    assert told[0] == 2
    assert told[1] == pytest.approx(scale)
    assert told[2:] == (() if shape == "square" else (shape,))
    assert ("row_count" in made.arrays) == (neighbors == "add-remove-one")
    # Laplace noise of a twentieth of epsilon on the number of rows.
    counted = None if neighbors == "replace-one" else 2 * 20**2
    assert made.noise == noise_law(shape, told[1], 2, counted)
    assert (made.post, made.lattice_bits, made.radius) == ("psd", 20, 1.0)


@pytest.mark.parametrize(("noise", "radius"), [(-5.0, 0.0), (-1.5, 0.75), (40.0, None)])
def test_the_ball_has_twice_the_noisy_trace_as_radius(monkeypatch, noise, radius):
    """The trace is 1.875; a ball of radius 0.75 cuts the noisy sum, one of 80 leaves all of it."""
    monkeypatch.setattr("dpcov.mechanisms.nuclear.symmetric_nuclear_noise", lambda *_: SYMMETRIC)
    scales = []

    def draw(self, size, entropy):
        scales.append((self.law, self.scale, size))
        return np.array([noise, 1e9])

    monkeypatch.setattr(AdditiveNoise, "draw", draw)
    (made,) = drawn(NuclearProjection(), ROWS, Budget(epsilon=7), k=2)
    assert scales == [("laplace", pytest.approx(1.0), 1)]
    values, vectors = np.linalg.eigh(SSCP + SYMMETRIC)
    if radius is None:
        expected = SSCP + SYMMETRIC
    else:
        # Both eigenvalues lose the same, the smaller one all it has if that is less.
        cut = max((values.sum() - radius) / 2, values[1] - radius)
        expected = (vectors * np.maximum(values - cut, 0)) @ vectors.T
    np.testing.assert_allclose(made.arrays["second_moment"], expected / 3, atol=1e-12)
    assert (made.post, made.radius) == ("psd", 1.0)


@pytest.mark.parametrize(
    "mechanism",
    [
        Nuclear(noise="wishart", clip=0.5),
        NuclearProjection(clip=0.5),
        KapralovTalwar(clip=0.5),
        Eigenvectors(clip=0.5),
    ],
)
def test_a_clip_norm_is_gathered_and_scaled_back(monkeypatch, mechanism):
    monkeypatch.setattr(
        "dpcov.mechanisms.nuclear.symmetric_nuclear_noise", lambda *_: np.zeros((1, 1))
    )
    monkeypatch.setattr(AdditiveNoise, "draw", lambda self, size, entropy: np.zeros(size))
    assert mechanism.moments_spec(problem(1)) == MomentsSpec(clip=0.5)
    (made,) = drawn(mechanism, np.array([[1.0], [0.25]]), Budget(epsilon=1))
    assert made.radius == 0.5
    expected = [[(0.25 + 0.0625) / 2]]
    np.testing.assert_allclose(made.arrays["second_moment"], expected, atol=1e-5)


@pytest.mark.parametrize("exponent", ["tight", "paper"])
def test_deflation_takes_off_what_it_measured(monkeypatch, exponent):
    turn = np.array([[math.cos(0.3), -math.sin(0.3)], [math.sin(0.3), math.cos(0.3)]])
    directions = [turn[:, 0], turn[:, 1]]
    sampler = choose(
        monkeypatch,
        "dpcov.mechanisms.kapralov_talwar.sample_binghams",
        lambda matrix, size: [directions[len(sampler.asked) - 1]],
    )
    sizes = []

    def quarter(self, size, entropy):
        sizes.append(size)
        return np.array([0.25 * self.scale, 1e9])

    monkeypatch.setattr(AdditiveNoise, "draw", quarter)
    (made,) = drawn(KapralovTalwar(exponent=exponent), ROWS, Budget(epsilon=4))
    # Two rounds, in each epsilon = 1 for the direction and 1 for the value.
    factor = 1 / (2 if exponent == "tight" else 4)
    residue, found = SSCP.copy(), np.zeros((2, 2))
    for place in range(2):
        np.testing.assert_allclose(sampler.asked[place][0], factor * residue, rtol=1e-9)
        u = directions[place]
        value = u @ residue @ u + 0.25
        residue, found = residue - value * np.outer(u, u), found + value * np.outer(u, u)
    assert len(sampler.asked) == 2
    assert sizes == [1, 1]
    np.testing.assert_allclose(made.arrays["second_moment"], found / 3, rtol=1e-9)
    assert made.post == "clip"


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize(
    "mechanism", [Nuclear(), NuclearProjection(), KapralovTalwar(), Eigenvectors()], ids=str
)
def test_doubling_the_rows_per_person_is_halving_epsilon(mechanism, neighbors):
    once = sscps(mechanism, ROWS, Budget(epsilon=1), 3, neighbors=neighbors)
    twice = sscps(mechanism, ROWS, Budget(epsilon=2), 3, neighbors=neighbors, k=2)
    assert twice == pytest.approx(once, rel=1e-9, abs=1e-9)
