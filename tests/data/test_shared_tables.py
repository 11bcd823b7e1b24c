import os
from pathlib import Path

import numpy as np
import pytest

from dpcov.data.encode import Encoder
from dpcov.data.schema.declared import Categorical, Ignored, Numeric
from dpcov.data.schema.draft import draft
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import open_source
from tests.data.reading import read_encoded

pytestmark = pytest.mark.shared_data


@pytest.fixture
def shared():
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("DPCOV_DATA", beside))
    if not folder.is_dir():
        pytest.skip("the shared data sets are absent; set DPCOV_DATA to their folder")
    return folder


def test_adult(shared):
    source = open_source(shared / "adult.csv.gz")
    columns = draft(source).columns
    numeric = {name for name, declared in columns.items() if isinstance(declared, Numeric)}
    assert numeric == {
        *("age", "fnlwgt", "education-num"),
        *("capital-gain", "capital-loss", "hours-per-week"),
    }
    schema = Schema(
        columns={
            **dict.fromkeys(columns, Ignored()),
            "age": Numeric(lower=17, upper=90),
            "hours-per-week": Numeric(lower=0, upper=100),
            "sex": Categorical(categories=("Male", "Female")),
            "income": Categorical(categories=("<=50K", ">50K")),
            "workclass": Categorical(categories=("Private", "State-gov"), missing="indicator"),
        }
    )
    encoder = Encoder(schema)
    encoded = np.vstack(list(read_encoded(source, schema, 10_000))) * encoder.norm_bound
    assert encoded.shape == (48_842, 10)
    totals = {
        column.name: total
        for column, total in zip(encoder.columns, encoded.sum(axis=0), strict=True)
    }
    assert totals["income=<=50K"] == pytest.approx(37_155)
    assert totals["income=>50K"] == pytest.approx(11_687)
    assert totals["sex=Male"] + totals["sex=Female"] == pytest.approx(48_842)
    assert totals["workclass (missing)"] == pytest.approx(2_799)
    assert np.linalg.norm(encoded, axis=1).max() <= encoder.norm_bound * (1 + 1e-12)
