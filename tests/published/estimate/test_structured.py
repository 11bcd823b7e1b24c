import itertools

import numpy as np
import pytest

from dpcov.published.estimate.structured import blended, guided_candidates, sparse_candidate
from dpcov.published.estimate.unit import Estimate
from dpcov.published.linalg.symmetric import eigh
from tests.published.estimate.noises import noise

NAMES = ("the guide itself", "other eigenvalues", "other directions", "nothing")


def shapes(d):
    """A guide, and truths by name."""
    vectors, other = (
        np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0] for seed in (0, 1)
    )
    levels = np.arange(1, d + 1)
    guide = (vectors / levels) @ vectors.T
    softer = (vectors / np.sqrt(levels)) @ vectors.T
    truths = (3.0 * guide, softer, (other / levels) @ other.T, np.zeros((d, d)))
    return guide, dict(zip(NAMES, truths, strict=True))


def guided(truth, v, guide, generator):
    noisy = truth + noise(len(truth), v, generator)
    return guided_candidates(noisy, off_diagonal_variance=v, guide=guide)


@pytest.mark.parametrize("dimension", [1, 2, 5, 20])
@pytest.mark.parametrize("name", NAMES)
def test_the_risks_are_unbiased(dimension, name):
    # Size 1e-9 each; ten percent of the noise energy is granted to the scale, whose derivative
    # is not followed into the blocks.
    guide, truths = shapes(dimension)
    truth, generator, v = truths[name], np.random.default_rng(1), 0.05
    gaps = {"proportional": [], "aligned": []}
    for _ in range(400):
        for kind, candidate in guided(truth, v, guide, generator).items():
            gaps[kind].append(candidate.risk - np.sum((candidate.matrix - truth) ** 2))
    energy = v * dimension * (dimension + 1)
    for kind, values in gaps.items():
        margin = 6.11 * np.std(values) / np.sqrt(len(values))
        assert abs(np.mean(values)) < margin + (0.1 * energy if kind == "aligned" else 0.0)


def shrunk_block_by_block(matrix, edges, unit_variance):
    """James and Stein's factor on every block, the last one included."""
    estimate = np.zeros_like(matrix)
    for i, j in itertools.product(range(len(edges) - 1), repeat=2):
        place = slice(edges[i], edges[i + 1]), slice(edges[j], edges[j + 1])
        block = matrix[place]
        size = len(block) * (len(block) + 1) / 2 if i == j else block.size
        squared = np.sum(block**2) * (1 if i == j else 2)
        estimate[place] = block * max(0.0, 1.0 - size * unit_variance / max(squared, 1e-300))
    return estimate


@pytest.mark.parametrize(
    ("dimension", "edges"), [(1, (0, 1)), (3, (0, 1, 3)), (20, (0, 1, 4, 16, 20))]
)
def test_aligned_shrinks_every_block_in_the_eigenbasis_of_the_guide(dimension, edges):
    guide, truths = shapes(dimension)
    noisy = truths["other eigenvalues"] + noise(dimension, 0.02, np.random.default_rng(4))
    found = guided_candidates(noisy, off_diagonal_variance=0.02, guide=guide)
    vectors = eigh(guide).vectors[:, ::-1]
    multiple = found["proportional"].matrix
    rest = vectors.T @ (noisy - multiple) @ vectors
    expected = multiple + vectors @ shrunk_block_by_block(rest, edges, 0.04) @ vectors.T
    np.testing.assert_allclose(found["aligned"].matrix, expected, atol=1e-12)


def sparse(truth, v, generator):
    noisy = truth + noise(len(truth), v, generator)
    trace = {"trace": float(np.trace(noisy)), "trace_variance": 2 * v * len(noisy)}
    return sparse_candidate(noisy, off_diagonal_variance=v, **trace)


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_the_risk_of_the_sparse_estimate_is_not_too_low(share):
    # The least of many estimates is too low; at most two of its deviations are added for that.
    d, v, generator, gaps = 30, 0.05, np.random.default_rng(4), []
    upper = np.triu(generator.normal(size=(d, d)) * (generator.random((d, d)) < share), 1)
    truth = upper + upper.T + 5.0 * np.eye(d)
    for _ in range(200):
        found = sparse(truth, v, generator)
        gaps.append(found.risk - np.sum((found.matrix - truth) ** 2))
    margin = 6.11 * np.std(gaps) / np.sqrt(len(gaps))
    assert -margin < np.mean(gaps) < 4 * v * d + margin


def test_the_blend_is_the_best_point_between_two_estimates_and_says_how_good_it_is():
    # Independent errors of variance 1 and 4: weights 4/5 and 1/5, risk 4/5.
    generator, size, variance = np.random.default_rng(6), 60, 1e-6
    first, second = (std * generator.normal(size=(size, size)) / size for std in (1.0, 2.0))
    found = blended(Estimate(matrix=first, risk=1.0), Estimate(matrix=second, risk=4.0), variance)
    assert found.risk == pytest.approx(0.8, abs=0.1)
    assert np.sum(found.matrix**2) == pytest.approx(0.8, abs=0.1)


def test_a_blend_that_gains_less_than_it_costs_is_left_alone():
    first = Estimate(matrix=np.eye(3), risk=1.0)
    assert blended(first, Estimate(matrix=np.zeros((3, 3)), risk=9.0), 0.01) is first
    assert blended(first, Estimate(matrix=np.eye(3), risk=0.5), 0.01) is first
    assert blended(first, Estimate(matrix=np.zeros((3, 3)), risk=3.9), 1.0) is first


def test_the_order_of_columns_changes_no_guided_estimate():
    """Edges of blocks parted directions in which the guide has nothing, which are arbitrary."""
    rng, d, v = np.random.default_rng(0), 20, 0.1
    root = rng.normal(size=(d, 3))
    guide, order = root @ root.T, rng.permutation(d)
    noisy, across = guide + noise(d, v, rng), np.ix_(order, order)
    found, turned = (
        guided_candidates(each, off_diagonal_variance=v, guide=own)["aligned"]
        for each, own in ((noisy, guide), (noisy[across], guide[across]))
    )
    assert turned.risk == pytest.approx(found.risk, rel=1e-9)
    np.testing.assert_allclose(turned.matrix, found.matrix[across], atol=1e-9)
