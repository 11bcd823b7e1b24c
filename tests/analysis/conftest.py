"""Releases that the tests of the estimators read: made once, with little noise unless a name says otherwise."""

import numpy as np
import pandas as pd
import pytest

import dpcov

N_ROWS = 20_000


def make_frame(n_rows=N_ROWS, seed=11):
    """Ages, incomes that follow from them and from the sector, a constant, and a yes or no."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 70, n_rows)
    sector = rng.choice(["care", "trade", "farm"], p=[0.5, 0.3, 0.2], size=n_rows)
    income = 20 + 0.4 * age + np.where(sector == "trade", 8.0, 0.0) + rng.normal(size=n_rows) * 3
    return pd.DataFrame(
        {
            "age": age,
            "income": np.clip(income, 0, 100),
            "sector": sector,
            "constant": np.full(n_rows, 3.0),
            "member": rng.random(n_rows) < 0.3,
        }
    )


SCHEMA = dpcov.Schema(
    columns={
        "age": dpcov.Numeric(lower=20, upper=70),
        "income": dpcov.Numeric(lower=0, upper=100),
        "sector": dpcov.Categorical(categories=("care", "trade", "farm")),
        "constant": dpcov.Numeric(lower=0, upper=10),
        "member": dpcov.Boolean(),
    }
)


@pytest.fixture(scope="session")
def frame():
    return make_frame()


@pytest.fixture(scope="session")
def made(frame):
    """A release of the frame whose noise is negligible."""
    return dpcov.release(
        frame, schema=SCHEMA, budget=dpcov.Budget(rho=1000), entropy=dpcov.SeededEntropy(1)
    )


@pytest.fixture(scope="session")
def noisy(frame):
    """A release that is all noise."""
    return dpcov.release(
        frame[:200],
        schema=SCHEMA,
        budget=dpcov.Budget(rho="0.0001"),
        entropy=dpcov.SeededEntropy(2),
    )


@pytest.fixture(scope="session")
def grouped(frame):
    """One matrix for each sector."""
    return dpcov.release(
        frame,
        schema=SCHEMA,
        by="sector",
        budget=dpcov.Budget(rho=100),
        entropy=dpcov.SeededEntropy(3),
    )


@pytest.fixture(scope="session")
def encoded(frame):
    """The frame as encoded features in original units, in the release's order."""
    sectors = [(frame.sector == name).astype(float) for name in ("care", "trade", "farm")]
    return np.column_stack(
        [frame.age, frame.income, *sectors, frame.constant, frame.member.astype(float)]
    )
