"""Seeded releases of tables that tests make up: a test says only what is its own."""

import numpy as np
import pandas as pd

import dpcov

BUDGET = dpcov.Budget(epsilon=1, delta="1e-6")


def ledger_in(folder, *names, file="ledger.sqlite"):
    """A ledger with accounts of these names, which may spend a rho of 1 each."""
    ledger = dpcov.Ledger(folder / file)
    for name in names:
        ledger.create(name, dpcov.Budget(rho=1), "replace-one")
    return ledger


def released_of(columns, rows, seed=0, *, budget=BUDGET, rho=None, **terms):
    """Of columns that the test declares; terms are fields of a schema, or a release's."""
    facts = {name: terms.pop(name) for name in dpcov.Schema.__struct_fields__ if name in terms}
    schema, entropy = dpcov.Schema(columns=columns, **facts), dpcov.SeededEntropy(seed)
    budget = budget if rho is None else dpcov.Budget(rho=rho)
    return dpcov.release(rows, schema=schema, budget=budget, entropy=entropy, **terms)


def released(rows, lower, upper, seed=0, *, missing="never", **terms):
    """Of a frame, or of an array whose columns are called x0, x1 and so on.

    Numbers are within the same bounds, texts have the levels that are there.
    """
    frame = pd.DataFrame(rows).add_prefix("x") if isinstance(rows, np.ndarray) else rows
    columns = {}
    for name, cells in frame.items():
        if cells.dtype == bool:
            columns[name] = dpcov.Boolean()
        elif pd.api.types.is_numeric_dtype(cells):
            columns[name] = dpcov.Numeric(lower=lower, upper=upper)
        else:
            columns[name] = dpcov.Categorical(categories=tuple(sorted(cells.unique())))
    return released_of(columns, frame, seed, missing=missing, **terms)
