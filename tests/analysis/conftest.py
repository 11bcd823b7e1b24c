"""Releases that the tests read, made once, with little noise unless a name says otherwise."""

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


def released(rows, rho, seed, *, schema=SCHEMA, **options):
    terms = {"geometry": "schema", "budget": dpcov.Budget(rho=rho)} | options
    return dpcov.release(rows, schema=schema, entropy=dpcov.SeededEntropy(seed), **terms)


def noise_covariance(law, forms):
    """Of ⟨G, W⟩ for symmetric G, (m, d, d), (m, m): entry by entry of what noise there is."""
    along = np.sum(forms * law.noises[0].mapped(law.taken), axis=(1, 2))
    found = np.outer(along, along)
    for noise in law.noises:
        inner = noise.back.T @ forms @ noise.back
        upper = np.triu_indices(len(noise.diagonal), 1)
        entries, diagonals = 2 * inner[:, *upper], np.diagonal(inner, axis1=1, axis2=2)
        own = np.diag(noise.diagonal)
        later = np.arange(len(own)) >= noise.start
        own += noise.between * (np.outer(later, later) & ~np.eye(len(own), dtype=bool))
        found += noise.off_diagonal * entries @ entries.T + diagonals @ own @ diagonals.T
    return found


@pytest.fixture(scope="session")
def frame():
    return make_frame()


@pytest.fixture(scope="session")
def made(frame):
    """A release of the frame whose noise is negligible."""
    return released(frame, 1000, 1)


@pytest.fixture(scope="session")
def noisy(frame):
    """A release that is all noise."""
    return released(frame[:200], "0.0001", 3)


@pytest.fixture(scope="session")
def encoded(frame):
    """The frame as encoded features in original units, in the release's order."""
    sectors = [(frame.sector == name).astype(float) for name in ("care", "trade", "farm")]
    member = frame.member.astype(float)
    return np.column_stack([frame.age, frame.income, *sectors, frame.constant, member])
