"""Regression tasks: a table with its public schema, rows to learn from, rows to test on, several
targets."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

import dpcov
from benchmarks.data import file_of
from dpcov.data.encode import Encoder, whole

Array = NDArray[np.float64]

ADULT_BOUNDS: Mapping[str, tuple[float, float]] = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}
ADULT_TARGETS = (
    "income=>50K",
    "hours-per-week",
    "age",
    "education-num",
    "sex=Male",
    "marital-status=Married-civ-spouse",
    "race=White",
    "occupation=Prof-specialty",
    "capital-gain",
    "capital-loss",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """A table split in two; targets are encoded features, each predicted from all other table
    columns."""

    name: str
    schema: dpcov.Schema
    train: pd.DataFrame
    test: pd.DataFrame
    targets: tuple[str, ...]

    @cached_property
    def encoder(self) -> Encoder:
        return Encoder(self.schema)

    @cached_property
    def rows(self) -> Array:
        """Encoded training rows in the unit ball, intercept first."""
        return self._encode(self.train)

    @cached_property
    def test_rows(self) -> Array:
        return self._encode(self.test)

    def columns_for(self, target: str) -> tuple[list[int], int]:
        """Places of the features, intercept included, and of the target."""
        columns = self.encoder.columns
        place = next(i for i, column in enumerate(columns) if column.name == target)
        kept = [i for i, column in enumerate(columns) if column.source != columns[place].source]
        return kept, place

    def _encode(self, frame: pd.DataFrame) -> Array:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        encoder = self.encoder
        blocks = (encoder.encode(encoder.read(block)) for block in table.to_batches())
        return np.vstack([whole(*block, len(encoder.columns)) for block in blocks])


def adult(directory: Path) -> Task:
    """48842 people, income included; education is left out because education-num says the same."""
    frame = pd.read_csv(file_of(directory, "adult.csv.gz"), keep_default_na=False)
    frame = frame.drop(columns="education")
    split = frame.pop("split")
    columns = {
        name: dpcov.Numeric(lower=ADULT_BOUNDS[name][0], upper=ADULT_BOUNDS[name][1])
        if name in ADULT_BOUNDS
        # The categories are in the census's documentation.
        else dpcov.Categorical(categories=tuple(sorted(frame[name].unique())))
        for name in frame.columns
    }
    return Task(
        name="adult",
        schema=dpcov.Schema(columns=columns, title="Adult"),
        train=frame[split == "train"],
        test=frame[split == "test"],
        targets=ADULT_TARGETS,
    )


def digits() -> Task:
    """1797 images shrunk to 4 x 4 pixels, bundled with scikit-learn: each of ten pixels from the
    others."""
    from sklearn.datasets import load_digits

    small = load_digits().images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    frame = pd.DataFrame(small, columns=[f"pixel{i}" for i in range(16)])
    columns = {name: dpcov.Numeric(lower=0, upper=16) for name in frame.columns}
    return Task(
        name="digits",
        schema=dpcov.Schema(columns=columns, title="Digits, 4 x 4"),
        train=frame[:1400],
        test=frame[1400:],
        targets=tuple(frame.columns[3:13]),
    )
