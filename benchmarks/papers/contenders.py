"""One draw of one contender: from data and budget to a second moment, or the reason why there is none."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpcov
from benchmarks.papers.baselines import BASELINES, run_baseline
from benchmarks.papers.figure import Contender
from benchmarks.papers.sources import fingerprint
from benchmarks.papers.tables import Data
from dpcov import Budget, SeededEntropy
from dpcov.auto import AUTO, resolve
from dpcov.data.moments import MomentsSpec
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.registry import find_mechanism, names

Array = NDArray[np.float64]

_MEASURING = ("benchmarks.papers.tables", "benchmarks.papers.metrics", "dpcov.estimate")


def missing(contender: Contender) -> str | None:
    """Why a contender cannot take part at all; None if it can."""
    if contender.mechanism in BASELINES or contender.mechanism == AUTO:
        return None
    if contender.mechanism not in names():
        return f"{contender.label}: there is no mechanism {contender.mechanism}; skipped"
    known = {field.name for field in dataclasses.fields(find_mechanism(contender.mechanism))}
    unknown = [name for name, _ in contender.options if name not in known]
    if unknown:
        return f"{contender.label}: {contender.mechanism} has no option {', '.join(unknown)}; skipped"
    return None


def version(contender: Contender) -> str:
    """Digest of the code that a result of this contender depends on."""
    if contender.mechanism in BASELINES:
        return fingerprint("benchmarks.papers.baselines", *_MEASURING)
    if contender.mechanism == AUTO:
        return fingerprint("dpcov.auto", "dpcov.mechanisms.registry", *_MEASURING)
    return fingerprint(find_mechanism(contender.mechanism).__module__, *_MEASURING)


def estimate(contender: Contender, data: Data, budget: Budget, seed: int) -> Array:
    """Run a contender once; raises a dpcov error where it cannot honor the budget."""
    options: dict[str, Any] = dict(contender.options)
    if contender.mechanism in BASELINES:
        return run_baseline(contender.mechanism, data, budget, seed, options)
    n_rows, n_features = data.rows.shape
    problem = Problem(n_features=n_features, neighbors="replace-one", n_rows=n_rows)
    choice = resolve(contender.mechanism, options, problem, budget)
    mechanism = choice.make()
    mechanism.calibrate(problem, budget)
    wants = mechanism.wants(problem)
    release = dpcov.second_moment(
        data.moments(wants) if isinstance(wants, MomentsSpec) else data.rows,
        norm_bound=1.0,
        budget=budget,
        mechanism=choice.mechanism,
        entropy=SeededEntropy(seed),
        accept_large_delta=True,  # Wang et al. take 1/n
        **choice.options,
    )
    return release.second_moment(post=contender.post or choice.post)  # type: ignore[arg-type]
