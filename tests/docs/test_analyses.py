"""Analyses by name give what the rows give, where there is next to no noise."""

import numpy as np
import pytest

import dpcov
from tests.docs.test_blocks import ROOT, SCHEMA, blocks, patients

sm = pytest.importorskip("statsmodels.api")
FEATURES, TARGET = ["age", "dose", "pressure"], "recovery"


@pytest.fixture
def page(tmp_path, monkeypatch):
    """The names of the block, and the rows."""
    monkeypatch.chdir(tmp_path)
    rows = patients(20_000, 0)
    budget, entropy = dpcov.Budget(epsilon=100, delta="1e-6"), dpcov.SeededEntropy(0)
    dpcov.release(rows, schema=SCHEMA, budget=budget, entropy=entropy, output="patients.dpcov")
    names = {"np": np, "dpcov": dpcov}
    (code,) = (code for _, code in blocks(ROOT / "docs/analysis.md") if "log_odds" in code)
    exec(compile(code, "analysis.md", "exec"), names)
    return names, rows.to_pandas().drop(columns="ward").astype(float)


@pytest.mark.filterwarnings("ignore::dpcov.errors.PrivacyWarning")
def test_they_are_those_of_the_rows(page):
    names, rows = page
    scaled = (rows - rows.mean()) / rows.std()
    whole = sm.OLS(scaled[TARGET], scaled[FEATURES]).fit()
    assert names["regression"].estimate == pytest.approx(whole.params.to_numpy(), abs=0.01)
    inflation = np.diag(np.linalg.inv(rows[FEATURES].corr()))
    assert names["items"].estimate[:-1] == pytest.approx(inflation, rel=0.02)
    items = rows[FEATURES].cov().to_numpy()
    alpha = 1.5 * (1 - np.trace(items) / items.sum())
    assert names["items"]["alpha"].estimate == pytest.approx(alpha, abs=0.01)
    first = sm.OLS(rows["dose"], sm.add_constant(rows[["age"]])).fit().params["age"]
    second = sm.OLS(rows[TARGET], sm.add_constant(rows[["dose", "age"]])).fit().params["dose"]
    assert names["mediation"]["indirect"].estimate == pytest.approx(first * second, rel=0.02)


@pytest.mark.filterwarnings("ignore::dpcov.errors.PrivacyWarning")
def test_log_odds_are_about_those_of_a_logistic_regression(page):
    names, rows = page
    fit = sm.Logit(rows["smoker"], sm.add_constant(rows[FEATURES])).fit(disp=0)
    assert names["log_odds"] == pytest.approx(fit.params[FEATURES], rel=0.1)
    linear = sm.OLS(rows["smoker"], sm.add_constant(rows[FEATURES])).fit().params[FEATURES]
    assert linear.to_numpy() != pytest.approx(fit.params[FEATURES], rel=0.5)
