"""Seeded releases of tables that tests make up: a test says only what is its own."""

import numpy as np
import pandas as pd

import dpcov

BUDGET = dpcov.Budget(epsilon=1, delta="1e-6")


def schema_of(frame, lower, upper, missing="never"):
    """Numbers within the same bounds, yes or no, and texts with the levels that are there."""
    columns = {}
    for name, cells in frame.items():
        if cells.dtype == bool:
            columns[name] = dpcov.Boolean()
        elif pd.api.types.is_numeric_dtype(cells):
            columns[name] = dpcov.Numeric(lower=lower, upper=upper)
        else:
            columns[name] = dpcov.Categorical(categories=tuple(sorted(cells.unique())))
    return dpcov.Schema(columns=columns, missing=missing)


def released(rows, lower, upper, seed=0, *, budget=BUDGET, missing="never", **terms):
    """Of a frame, or of an array whose columns are called x0, x1 and so on."""
    frame = pd.DataFrame(rows).add_prefix("x") if isinstance(rows, np.ndarray) else rows
    schema, entropy = schema_of(frame, lower, upper, missing), dpcov.SeededEntropy(seed)
    return dpcov.release(frame, schema=schema, budget=budget, entropy=entropy, **terms)
