"""Many of the package's noisy numbers at once, for attackers who look at their last bits.

A table of one row with all entries alike has moments that are alike too: one release of d columns shows d (d + 1) / 2
independent noisy copies of one number.
"""

import numpy as np

from dpcov.data.moments import Moments
from dpcov.data.questions import Ask
from dpcov.mechanisms.base import Problem
from dpcov.noise.entropy import SystemEntropy

N_FEATURES = 250
TRIALS = N_FEATURES * (N_FEATURES + 1) // 2


def noisy_copies(mechanism, budget, entry):
    """Integers of one release whose exact value is ``entry`` in every place, in lattice units."""
    problem = Problem(n_features=N_FEATURES, neighbors="replace-one", n_rows=1)
    moments = Moments(N_FEATURES, mechanism.moments_spec(problem))
    moments.add(np.full((1, N_FEATURES), entry**0.5))
    calibration = mechanism.calibrate(problem, budget)
    made = mechanism.draw(Ask.saved(moments), calibration, problem, SystemEntropy())
    return made.arrays["sscp"][np.triu_indices(N_FEATURES)], calibration
