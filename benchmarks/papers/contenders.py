"""One draw of one contender: from data and budget to a second moment, or the reason why there is
none."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers import extras
from benchmarks.papers.baselines import BASELINES
from benchmarks.papers.draws import draw
from benchmarks.papers.figure import Contender
from benchmarks.papers.sources import fingerprint
from benchmarks.papers.tables import Data
from dpcov import Budget, SeededEntropy
from dpcov.mechanisms.auto import AUTO
from dpcov.mechanisms.registry import find_mechanism, names

Array = NDArray[np.float64]

_MEASURING = (
    "benchmarks.papers.draws",
    "benchmarks.papers.tables",
    "benchmarks.papers.metrics",
    "dpcov.published.estimate.post",
)


def missing(contender: Contender) -> str | None:
    """Why a contender cannot take part at all; None if it can."""
    if contender.mechanism in (*BASELINES, *extras.METHODS, AUTO):
        return None
    if contender.mechanism not in names():
        return f"{contender.label}: there is no mechanism {contender.mechanism}; skipped"
    known = {field.name for field in dataclasses.fields(find_mechanism(contender.mechanism))}
    unknown = [name for name, _ in contender.options if name not in known]
    if unknown:
        return (
            f"{contender.label}: {contender.mechanism} has no option {', '.join(unknown)}; skipped"
        )
    return None


def version(contender: Contender) -> str:
    """Digest of the code that a result of this contender depends on."""
    if contender.mechanism in BASELINES:
        return fingerprint("benchmarks.papers.baselines", *_MEASURING)
    if contender.mechanism in extras.METHODS:
        return fingerprint(extras.__name__, *_MEASURING)
    if contender.mechanism == AUTO:
        return fingerprint("dpcov.mechanisms.auto", "dpcov.mechanisms.registry", *_MEASURING)
    return fingerprint(find_mechanism(contender.mechanism).__module__, *_MEASURING)


def estimate(contender: Contender, data: Data, budget: Budget, seed: int) -> Array:
    """Run a contender once; raises a dpcov error where it cannot honor the budget."""
    options: dict[str, Any] = dict(contender.options)
    entropy, own = SeededEntropy(seed), BASELINES | extras.METHODS
    if contender.mechanism in own:
        return own[contender.mechanism](data, budget, entropy, **options)
    return draw(contender.mechanism, options, data, budget, entropy, post=contender.post)
