import math
from dataclasses import replace

import numpy as np
import pytest

from dpcov.errors import NumericError
from dpcov.noise import log_gas
from dpcov.noise.entropy import SeededEntropy


def law(dimension, half_line=False):
    return log_gas.prepare.__wrapped__(dimension, half_line)


def log_density(points, half_line):
    """Logarithm of the density in the module's first lines, up to its constant."""
    powers = points**2 if half_line else points
    first, second = np.triu_indices(len(points), 1)
    return np.log(np.abs(powers[first] - powers[second])).sum() - np.abs(points).sum()


@pytest.fixture
def watched(monkeypatch):
    """Every `_Drawn` that is made."""
    made = []

    class Watched(log_gas._Drawn):
        def __init__(self, gas):
            super().__init__(gas)
            made.append(self)

    monkeypatch.setattr(log_gas, "_Drawn", Watched)
    return made


def excess(watched, gas, seed, half_line):
    """Logarithm of the product of all conditional intensities over the density, for one draw."""
    watched.clear()
    points = log_gas.sample(gas, SeededEntropy(seed))
    assert np.all(np.diff(points) > 0)
    intensities = np.concatenate([drawn.pivots[: drawn.count] for drawn in watched])
    assert len(intensities) == len(points)
    return float(np.log(intensities).sum()) - log_density(points, half_line)


CONSTANTS = {(1, False): 1 / 2, (2, False): 2 / 6, (1, True): 1.0, (2, True): 2 / 3}
# d! over the integral of the density by hand: for two points 4 + 2 on the line, 3 on the half line.


@pytest.mark.parametrize("half_line", [False, True])
@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 7, 20])
def test_conditional_intensities_multiply_up_to_the_density(dimension, half_line, watched):
    gas = law(dimension, half_line)
    found = [excess(watched, gas, seed, half_line) for seed in range(8)]
    assert found == pytest.approx([found[0]] * 8, abs=1e-7)
    if (dimension, half_line) in CONSTANTS:
        assert found[0] == pytest.approx(math.log(CONSTANTS[dimension, half_line]), abs=1e-9)


@pytest.mark.parametrize("half_line", [False, True])
@pytest.mark.parametrize("dimension", [11, 12])
def test_points_drawn_in_stages_have_the_density_of_points_drawn_at_once(
    dimension, half_line, watched, monkeypatch
):
    gas = law(dimension, half_line)
    at_once = excess(watched, gas, 0, half_line)
    assert len(watched) == 1
    monkeypatch.setattr(log_gas, "SMALLEST_STAGED", 4)
    monkeypatch.setattr(log_gas, "STAGE_RATIO", 2)
    in_stages = [excess(watched, gas, seed, half_line) for seed in range(6)]
    assert [drawn.gas.dimension for drawn in watched] == [dimension, dimension // 4 * 2, 2]
    assert in_stages == pytest.approx([at_once] * 6, abs=1e-6)


def summary(dimension, half_line):
    """Panels, a point and the sum of squares of two draws, and the word that comes after them."""
    gas, entropy = law(dimension, half_line), SeededEntropy(dimension)
    first, second = log_gas.sample(gas, entropy), log_gas.sample(gas, entropy)
    values = [gas.edges[-1], first[0], np.sum(first**2), second[-1], np.sum(second**2)]
    return len(gas.edges), [float(value) for value in values], int(entropy.words(1)[0])


RECORDED = """
2 line 37 70.4352859 0.230257349 1.11347239 0.257083922 5.43092804 3318716133097416120
31 line 77 142.254481 -40.9820404 12958.9295 40.4802676 10322.964 14291314110862606221
200 line 253 449.261879 -319.882977 3361577.78 308.534065 3281858.2 3640310867269196538
1 half 17 63.1640697 0.36811479 0.135508499 5.01113357 25.1114597 11675829030975602478
6 half 27 99.7136605 1.49164406 285.764701 13.0120671 277.602099 8999368039141883303
200 half 224 784.54955 0.0978993216 13371621.2 619.856085 12992877.8 3274874911713543752
"""


@pytest.mark.parametrize("row", RECORDED.split("\n")[1:-1])
def test_a_seed_gives_the_same_points_in_every_version(row):
    dimension, kind, panels, *values, word = row.split()
    found_panels, found, found_word = summary(int(dimension), kind == "half")
    assert (found_panels, found_word) == (int(panels), int(word))
    assert found == pytest.approx([float(value) for value in values], rel=1e-6)


@pytest.mark.parametrize("half_line", [False, True])
def test_a_table_that_does_not_count_its_points_is_refused(half_line, monkeypatch):
    law(4, half_line)
    monkeypatch.setattr(log_gas, "RELATIVE_SLACK", 0.0)
    with pytest.raises(NumericError, match="lost its accuracy"):
        law(4, half_line)


def test_functions_that_do_not_span_the_law_are_refused():
    gas = law(4)
    table = gas.table.copy()
    table[..., 1] = table[..., 0] + 1e-13 * table[..., 1]
    with pytest.raises(NumericError, match="lost its accuracy"):
        log_gas._tabulated(4, gas.edges, table)


@pytest.mark.parametrize("first_too_low", [True, False])
def test_an_intensity_above_its_bound_ends_the_draw(first_too_low):
    """By a thousandth at one proposal; by a ten-millionth it counts as rounding."""
    gas = law(4)
    block = log_gas._propose(gas, 40, SeededEntropy(2))
    count = len(block.heights)
    never = np.ones(count)  # nothing is accepted at these levels
    for factor, refused in ((1 - 1e-7, False), (1 - 1e-3, True)):
        heights = block.heights.copy()
        heights[0 if first_too_low else count - 1] *= factor
        drawn = log_gas._Drawn(gas)
        changed = replace(block, heights=heights, levels=2.0 * never)
        if refused:
            with pytest.raises(NumericError, match="nothing was released"):
                drawn.extend(changed, 4)
        else:
            drawn.extend(changed, 4)
        assert drawn.count == 0
