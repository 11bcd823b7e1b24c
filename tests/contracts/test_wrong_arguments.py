"""An argument of another type is refused in words that say what is expected.

The errors were Python's own, such as ``'int' object has no attribute 'strip'``, and a text that
says no counted as a yes.
"""

import numpy as np
import pytest

import dpcov
from dpcov import analysis
from dpcov.data.checkpoint import Checkpoint
from dpcov.data.geometry import Geometry, Scale
from dpcov.data.vault import Key, write_key
from dpcov.errors import DpcovError
from dpcov.mechanisms.registry import find_mechanism
from dpcov.pipeline.plan.predict import Assumption, predict
from dpcov.report.deployment import Deployment

X = np.random.default_rng(0).uniform(size=(200, 2))
UNIT = dpcov.Numeric(lower=0, upper=1)
SCHEMA = dpcov.Schema(columns={"x0": UNIT, "x1": UNIT}, missing="never")
BUDGET = dpcov.Budget(rho=5)
TERMS = {"schema": SCHEMA, "budget": BUDGET}
MADE = dpcov.release(X, **TERMS)
SAVED, MOMENTS = dpcov.checkpoint(X, **TERMS), dpcov.moments(X, norm_bound=2.0)
LISTS = {"norm_bound": 2.0, "budget": BUDGET, "groups": ["a", "b"] * 100}
PATH, BOOL = "named by a text or a Path, not int", "must be True or False"


def ridge(**parameters):
    return analysis.PrivateRidge.from_release(MADE, **{"target": "x1"} | parameters)


def weighted(weights):
    return dpcov.Schema(columns=SCHEMA.columns, weights=weights).require_complete()


REFUSED = [
    (lambda: SAVED.merge(1), "other must be of type Checkpoint, not int"),
    (lambda: MOMENTS.merge(SAVED), "other must be of type Moments, not Checkpoint"),
    (lambda: dpcov.moments(X, norm_bound=2.0, foo=1), "no option foo; they have: shells"),
    (lambda: dpcov.moments(X, norm_bound=2.0, progress=1), "progress must be a function"),
    (lambda: dpcov.release(X, **TERMS, progress=1), "progress must be a function"),
    (lambda: dpcov.release(X, **TERMS, output=1), PATH),
    (lambda: dpcov.release(X, **TERMS, geometry=X), "geometry must be"),
    (lambda: dpcov.release(X, **TERMS, neighbors=X), "neighbor relation"),
    (lambda: dpcov.second_moment(X, **LISTS, categories=1), "list of distinct categories"),
    (lambda: dpcov.release(X, **TERMS, mechanism=find_mechanism("zero")), "is called first"),
    (lambda: dpcov.release(X, **TERMS, mechanism=1), "a name or a Mechanism object"),
    (lambda: MADE.correlation(["x0", "x1"]), r"\.loc\[names, names\]"),
    (lambda: dpcov.load(1), PATH),
    (lambda: dpcov.Schema.from_toml(1), PATH),
    (lambda: dpcov.Schema.loads(1), "text must be text"),
    (lambda: SCHEMA.save(1), PATH),
    (lambda: weighted("w"), "weights are Weights"),
    (lambda: dpcov.FileLayout(delimiter=1), "delimiter of a file"),
    (lambda: Geometry(columns=1), "columns of a geometry"),
    (lambda: Geometry(columns={"x0": 1}), "columns of a geometry"),
    (lambda: Geometry(columns={"x0": Scale(0.0, 1.0, 5)}), "unit of 'x0' must be text"),
    (lambda: Geometry.from_toml(1), PATH),
    (lambda: Key.from_file(1), PATH),
    (lambda: write_key(1), PATH),
    (lambda: Checkpoint.load("c", 1), "key must be of type Key, not int"),
    (lambda: SAVED.save("c", b"k"), "key must be of type Key, not bytes"),
    (lambda: MADE.save("r", overwrite="no"), "overwrite must be True or False"),
    (lambda: MADE.mean(indicators="no"), BOOL),
    (lambda: MADE.summary(details="no"), BOOL),
    (lambda: Assumption(n_rows=9, n_features=2, budget=1), "Give the budget"),
    (lambda: Assumption(n_rows=9, n_features=2, budget=BUDGET, trace="x"), "trace must be"),
    (lambda: predict(1), "assumed must be of type Assumption, not int"),
    (lambda: Deployment(curator=1, intended_use="b"), "curator must be text"),
    (lambda: ridge(target=1), "Name a feature"),
    (lambda: ridge(alpha=np.ones(2)), "alpha must be a number"),
    (lambda: ridge(missing=X), "missing must be one of"),
    (lambda: analysis.PrivatePCA.from_release(MADE, n_components=X), "n_components"),
    (lambda: analysis.PrivateLDA(classes=1, **TERMS).fit(X, X[:, 0]), "list of labels"),
    (lambda: analysis.mean_intervals(MADE, sampling="no"), BOOL),
    (lambda: analysis.correlation_intervals(MADE, partial="no"), BOOL),
    (lambda: analysis.coefficient_intervals(MADE, "x1", fit_intercept="no"), BOOL),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_it_is_refused_in_words(call, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DpcovError, match=words):
        call()
    assert not list(tmp_path.iterdir())


TRUE, MODEL = np.True_, Assumption(n_rows=900, n_features=2, budget=BUDGET)
TAKEN = [
    lambda: MADE.save("r", overwrite=TRUE),
    lambda: analysis.correlation_intervals(MADE, partial=TRUE, sampling=TRUE),
    lambda: analysis.coefficient_intervals(MADE, "x1", fit_intercept=TRUE),
    lambda: predict(MODEL, np.array(["zero"])),
    lambda: predict(MODEL, {"zero": 1}.keys()),
]


@pytest.mark.parametrize("call", TAKEN)
def test_what_computes_as_the_type_is_taken(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call() is None or len(list(call()))


@pytest.mark.parametrize("name", [1, None, b"people"])
def test_a_ledger_says_what_a_name_is(tmp_path, name):
    ledger = dpcov.Ledger(tmp_path / "l.sqlite")
    with pytest.raises(DpcovError, match="must be text"):
        ledger.create(name, BUDGET, "replace-one")
    with pytest.raises(DpcovError, match="Give the budget"):
        ledger.create("people", 1, "replace-one")
    ledger.create("people", BUDGET, "replace-one")
    for asked in (ledger.has, ledger.entries, ledger.remaining):
        with pytest.raises(DpcovError, match="dataset must be text"):
            asked(name)
