"""dpmm's answers: rows that MST and AIM make up, for any table of numbers and levels."""

from importlib.metadata import version

import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline
from serve import serve

PIPELINES = {"MST": MSTPipeline, "AIM": AIMPipeline}
BINNING = 0.1
"""Part of epsilon for the bins of numbers, which the library adds to the epsilon it is given."""


def synthetic_rows(rows, *, mechanism, bins, bounds, levels, epsilon, delta, seed):
    """Columns of ``bounds`` are numbers; those after them are codes of as many levels."""
    frame = pd.DataFrame(rows, columns=[f"x{place}" for place in range(rows.shape[1])])
    numbers, codes = frame.columns[: len(bounds)], frame.columns[len(bounds) :]
    pairs = zip(numbers, bounds, strict=True)
    domain = {name: {"lower": lower, "upper": upper} for name, (lower, upper) in pairs}
    for name, count in zip(codes, levels, strict=True):
        domain[name] = {"categories": list(range(count))}
    frame = frame.astype(dict.fromkeys(codes, int)).astype(dict.fromkeys(codes, "category"))
    pipeline = PIPELINES[mechanism](
        epsilon=(1 - BINNING) * epsilon,
        delta=delta,
        proc_epsilon=BINNING * epsilon,
        n_bins=bins,
        n_jobs=1,
    )
    pipeline.fit(frame, domain=domain, random_state=seed)
    made = pipeline.generate(n_records=len(rows), random_state=seed)
    return made[list(frame)].astype(float), f"{mechanism}, {bins} bins"


if __name__ == "__main__":
    serve(version("dpmm"), {"synthetic_rows": synthetic_rows})
