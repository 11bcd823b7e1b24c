import base64

import numpy as np

from dpcov.report import heatmap
from dpcov.report.heatmap import clustered, pack, strongest


def unpacked(data):
    """What the page's script reads: correlations and noise above the diagonal."""
    codes = np.frombuffer(base64.b64decode(data["r"]), "<i2").astype(float)
    noise_codes = np.frombuffer(base64.b64decode(data["noise"]), "<u2").astype(float)
    low, high = np.log(data["range"])
    noise = np.exp(low + (noise_codes - 1) * (high - low) / 65534)
    r = np.where(codes == -(2**15), np.nan, codes * data["step"])
    return r, np.where(noise_codes == 0, np.nan, noise)


def test_every_pair_comes_back_at_the_stated_precision():
    rng, upper = np.random.default_rng(0), np.triu_indices(30, 1)
    r = np.corrcoef(rng.normal(size=(30, 50)))
    noise = 10.0 ** rng.uniform(-6, 0, size=(30, 30))
    r[3, :] = r[:, 3] = np.nan
    noise = np.where(np.isnan(r), np.nan, (noise + noise.T) / 2)
    noise[0, 1] = 1e-30  # outside of the range: moved into it
    data = pack(r, noise, 4.0)
    found, found_noise = unpacked(data)
    np.testing.assert_allclose(found, r[upper], atol=5e-5 + 1e-12)
    noise[0, 1] = heatmap.NOISE_RANGE[0]
    np.testing.assert_allclose(found_noise, noise[upper], rtol=2e-4)
    assert data["clear"] == 4.0
    assert data["known"] == [bool(known) for known in np.isfinite(np.diagonal(r))]


def test_what_nothing_is_known_of_is_no_zero():
    r, noise = np.eye(3), np.full((3, 3), np.nan)
    noise[:2, :2] = 0.1
    found, _ = unpacked(pack(r, noise, 4.0))
    np.testing.assert_array_equal(found, [0, np.nan, np.nan])


def test_features_with_one_cause_become_neighbors():
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(4), 6))
    rows = rng.normal(size=(500, 4))[:, groups] + 0.3 * rng.normal(size=(500, 24))
    order = clustered(np.corrcoef(rows.T))
    assert sorted(order) == list(range(24))
    assert np.count_nonzero(np.diff(groups[order])) == 3


def test_the_strongest_pairs_are_found_in_either_direction():
    nan = np.nan
    r = np.array([[1, 0.2, -0.9, nan], [0.2, 1, 0.5, 0], [-0.9, 0.5, 1, 0.1], [nan, 0, 0.1, 1]])
    assert strongest(r, 3) == [(0, 2), (1, 2), (0, 1)]
    assert strongest(r, 99) == [(0, 2), (1, 2), (0, 1), (2, 3)]
    assert strongest(np.eye(3), 5) == []
