"""scikit-learn's own checks of estimators, and the ways its tools handle them."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import narwhals as nw
import numpy as np
import pandas as pd
import pytest
from joblib import parallel_backend
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import dpcov
import dpcov.errors
from dpcov.analysis import (
    PrivateCorrelation,
    PrivateCovariance,
    PrivateFactorAnalysis,
    PrivateGraphicalLasso,
    PrivateLDA,
    PrivateLinearRegression,
    PrivatePCA,
    PrivateQDA,
    PrivateRidge,
)
from dpcov.analysis.problems import InputError, SpentError
from dpcov.data.gather import Gathering
from dpcov.errors import UsageError
from dpcov.noise.entropy import SystemEntropy
from tests.analysis.conftest import SCHEMA
from tests.releases import released

# The checks fit an estimator and its clones again and again, on a few dozen rows: that takes
# permission to spend again, seeds so that fits repeat, and little noise.
TERMS = {"budget": dpcov.Budget(rho=1000), "bounds": (-4, 4), "seed": 0, "spend_again": True}
PLAIN = {**TERMS, "mechanism": "gaussian"}
REGRESSIONS = (PrivateLinearRegression, PrivateRidge)
DISCRIMINANTS = (PrivateLDA, PrivateQDA)
OTHERS = (PrivateCovariance, PrivateCorrelation, PrivateGraphicalLasso, PrivatePCA)
ESTIMATORS = [
    *(make(**PLAIN) for make in (*OTHERS, PrivateFactorAnalysis)),
    *(make(target_bounds=(-4, 4), **PLAIN) for make in REGRESSIONS),
    *(make(classes="observed", **TERMS) for make in DISCRIMINANTS),
]

OF_FEW_FEATURES = (
    "check_estimators_fit_returns_self",
    "check_estimators_overwrite_params",
    "check_fit2d_1feature",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_n_features_in",
    "check_readonly_memmap_input",
)


def ruled_out(estimator):
    """Checks that do not apply, each with its reason; docs/analysis.md says the same."""
    if isinstance(estimator, REGRESSIONS):
        reason = "an infinite target is moved to its public bound: an error would reveal it"
        return {"check_supervised_y_no_nan": reason}
    if isinstance(estimator, PrivateFactorAnalysis):
        return dict.fromkeys(OF_FEW_FEATURES, "two features cannot tell a factor")
    return {}


ONE_OF_EACH_KIND = (PrivateCovariance, PrivatePCA, PrivateRidge, PrivateLDA)
CHECKED_ALWAYS = [each for each in ESTIMATORS if isinstance(each, ONE_OF_EACH_KIND)]
CHECKED_SLOWLY = [each for each in ESTIMATORS if not isinstance(each, ONE_OF_EACH_KIND)]


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(CHECKED_ALWAYS, expected_failed_checks=ruled_out, xfail_strict=True)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(CHECKED_SLOWLY, expected_failed_checks=ruled_out, xfail_strict=True)
def test_scikit_learn_check_of_the_others(estimator, check):
    check(estimator)


def ledger_of(tmp_path, total=1):
    ledger = dpcov.Ledger(tmp_path / "privacy.ledger")
    ledger.create("people", dpcov.Budget(rho=total), "replace-one")
    return ledger


@pytest.fixture
def ledger(tmp_path):
    return ledger_of(tmp_path)


def entries(ledger):
    return len(ledger.entries("people"))


ROWS = np.random.default_rng(4).uniform(size=(3000, 3))


def ridge(ledger=None):
    account = {} if ledger is None else {"ledger": ledger, "dataset": "people"}
    budget = dpcov.Budget(rho="0.1")
    return PrivateRidge(bounds=(0, 1), target_bounds=(0, 2), budget=budget, **account)


def test_fitting_rows_charges_the_ledger_once_and_a_second_fit_is_refused(ledger):
    model = ridge(ledger).fit(ROWS, ROWS[:, 0])
    assert entries(ledger) == 1
    with pytest.raises(dpcov.DpcovError, match="from_release"):
        model.fit(ROWS, ROWS[:, 0])
    assert entries(ledger) == 1
    again = PrivateRidge.from_release(model.release_, target="y", alpha=0.1)
    assert again.release_ is model.release_
    assert clone(ridge(ledger)).set_params(target="y").fit(again.release_).coef_.shape == (3,)
    assert entries(ledger) == 1


def test_a_clone_may_not_spend_and_takes_nothing_from_its_original(ledger):
    model = ridge(ledger)
    for copy in (clone(clone(model)), clone(model).set_params(alpha=1.0)):
        with pytest.raises(dpcov.DpcovError, match="is a clone"):
            copy.fit(ROWS, ROWS[:, 0])
    assert entries(ledger) == 0
    model.fit(ROWS, ROWS[:, 0])
    with pytest.raises(dpcov.DpcovError, match="is a clone"):
        clone(model).fit(ROWS, ROWS[:, 0])
    assert entries(ledger) == 1


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("jobs", [1, 2])
def test_cross_validation_is_refused_before_anything_is_spent(ledger, jobs):
    model = ridge(ledger)
    with parallel_backend("threading"):
        search = GridSearchCV(model, {"alpha": [0.01, 0.1]}, cv=3, n_jobs=jobs)
        with pytest.raises(ValueError, match="SpentError"):
            search.fit(ROWS, ROWS[:, 0])
        with pytest.raises(ValueError, match="Nothing was charged"):
            pipeline = make_pipeline(FunctionTransformer(), model)
            cross_val_score(pipeline, ROWS, ROWS[:, 0], n_jobs=jobs)
    assert entries(ledger) == 0
    model.fit(ROWS, ROWS[:, 0])
    assert entries(ledger) == 1


def test_what_has_read_a_release_is_a_step_of_a_pipeline_if_frozen():
    frozen = pytest.importorskip("sklearn.frozen")
    frame = pd.DataFrame(ROWS).add_prefix("x")
    pca = PrivatePCA.from_release(released(frame, -4, 4, rho=1000), n_components=2)
    with pytest.raises(InputError, match="a release is free"):
        make_pipeline(pca, LinearRegression()).fit(frame, frame["x0"])
    pipeline = make_pipeline(frozen.FrozenEstimator(pca), LinearRegression())
    pipeline.fit(frame, frame["x0"])
    alone = LinearRegression().fit(pca.transform(frame), frame["x0"])
    np.testing.assert_allclose(pipeline[-1].coef_, alone.coef_)


def test_one_right_is_used_once_by_many_threads(ledger):
    model = ridge(ledger)

    def attempt(_):
        try:
            model.fit(ROWS, ROWS[:, 0])
        except dpcov.DpcovError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(8))) == 1
    assert entries(ledger) == 1


def test_an_unpickled_copy_predicts_the_same_and_may_not_spend():
    model = ridge().fit(ROWS, ROWS[:, 0])
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(ROWS[:5]), model.predict(ROWS[:5]))
    for unpickled in (copy, pickle.loads(pickle.dumps(ridge()))):
        with pytest.raises(dpcov.DpcovError, match="cannot know"):
            unpickled.fit(ROWS, ROWS[:, 0])


def test_a_pickle_holds_the_release_and_no_row():
    sentinel = 0.123456789012345
    rows = np.full((3000, 3), sentinel)
    content = pickle.dumps(ridge().fit(rows, rows[:, 0]))
    assert np.float64(sentinel).tobytes() not in content
    assert len(content) < rows.nbytes / 4


def test_permission_to_spend_again_charges_every_fit(ledger):
    model = ridge(ledger).set_params(spend_again=True)
    model.fit(ROWS, ROWS[:, 0])
    clone(model).fit(ROWS, ROWS[:, 0])
    assert entries(ledger) == 2


def test_what_is_refused_leaves_the_estimator_unspent(tmp_path):
    ledger = ledger_of(tmp_path, total="0.05")
    model = ridge(ledger)
    for terms, refusal in (
        ({"mechanism": "no such mechanism"}, dpcov.DpcovError),
        ({"mechanism": "gaussian"}, dpcov.errors.LedgerError),
    ):
        with pytest.raises(refusal):
            model.set_params(**terms).fit(ROWS, ROWS[:, 0])
    model.set_params(budget=dpcov.Budget(rho="0.05")).fit(ROWS, ROWS[:, 0])
    assert entries(ledger) == 1


def test_a_reading_that_cannot_be_is_refused_before_anything_is_spent(ledger):
    for terms, said in (
        ({"missing": "at_random"}, "pairwise, at-random"),
        *(({"alpha": alpha}, "alpha") for alpha in (-1.0, float("nan"), "best")),
        ({"target": []}, "every column of y"),
        ({"target": ["a", "b"]}, "every column of y"),
        ({"mechanism": "separate"}, "Give alpha, or another mechanism"),
        ({"alpha": 1.0, "mechanism": "separate", "post": "shrink"}, "cannot be read with post='sh"),
    ):
        with pytest.raises(dpcov.DpcovError, match=said):
            ridge(ledger).set_params(**terms).fit(ROWS, ROWS[:, 0])
    columns = {name: dpcov.Numeric(lower=-1, upper=1) for name in ("x0", "x1", "x2", "y")}
    schema = dpcov.Schema(columns=columns, missing="never", intercept=False)
    model = ridge(ledger).set_params(schema=schema, bounds=None, target_bounds=None)
    with pytest.raises(dpcov.DpcovError, match="nothing can be centered"):
        model.fit(ROWS, ROWS[:, 0])
    # What the first refusal advises holds for bounds around zero alone.
    columns["x0"] = dpcov.Numeric(lower=-1, upper=3)
    around = dpcov.Schema(columns=columns, missing="never", intercept=False)
    uneven = ridge(ledger).set_params(schema=around, bounds=None, target_bounds=None)
    with pytest.raises(dpcov.DpcovError, match="middle of all bounds"):
        uneven.set_params(fit_intercept=False).fit(ROWS, ROWS[:, 0])
    assert entries(ledger) == 0
    assert model.set_params(fit_intercept=False).fit(ROWS, ROWS[:, 0]).intercept_ == 0.0


@pytest.mark.parametrize("estimator", [PrivateRidge, PrivateGraphicalLasso])
@pytest.mark.parametrize("alpha", [-1.0, "cv", None])
def test_a_penalty_is_a_number_or_auto(estimator, alpha):
    release = released(ROWS, 0, 1)
    more = {"target": release.feature_names[0]} if estimator is PrivateRidge else {}
    with pytest.raises(dpcov.DpcovError, match='alpha must be a number, 0 or more, or "auto"'):
        estimator.from_release(release, alpha=alpha, **more)


def test_bounds_that_name_the_target_are_its_bounds():
    frame = pd.DataFrame(ROWS, columns=[f"x{place}" for place in range(ROWS.shape[1])])
    bounds = dict.fromkeys(frame, (0, 1))
    terms = {"budget": dpcov.Budget(rho=1), "seed": 1}
    within = PrivateRidge(target="x0", bounds=bounds, **terms).fit(frame)
    apart = PrivateRidge(target="x0", bounds=bounds, target_bounds=(0, 1), **terms).fit(frame)
    assert within.coef_.tolist() == apart.coef_.tolist()
    # Beside a y of that name, too.
    named = PrivateRidge(bounds=bounds | {"y": (0, 2)}, **terms).fit(frame, ROWS[:, 0])
    assert named.release_.bounds_of(named.release_.features)[-1].tolist() == [0, 2]


def test_public_terms_have_no_defaults_and_do_not_contradict_each_other():
    for terms, said in (
        ({"budget": None}, "budget"),
        ({"bounds": None}, "one of the two"),
        ({"schema": SCHEMA}, "one of the two"),
        ({"target_bounds": None}, "target_bounds"),
        ({"bounds": {"x0": (0, 1)}}, "column x1"),
        ({"bounds": [(0, 1)] * 3}, "one for each name"),
    ):
        with pytest.raises(dpcov.DpcovError, match=said):
            ridge().set_params(**terms).fit(ROWS, ROWS[:, 0])


@pytest.mark.parametrize(
    "table",
    [
        np.array([["sentinel-7391"] * 2] * 5),
        np.full(7, 73917391.5),
        pd.DataFrame({"a": ["7391x"]}),
        pd.DataFrame({"a": [1.0, "7391x"]}),
        pd.DataFrame({"a": [b"7391", 2]}),
    ],
)
def test_errors_never_quote_a_cell(table):
    with pytest.raises((dpcov.DpcovError, ValueError)) as caught:
        ridge().fit(table, np.arange(len(table)))
    assert "7391" not in str(caught.value)
    assert "7391" not in "".join(map(str, getattr(caught.value, "__notes__", ())))


def test_set_output_names_and_pipelines(made, frame):
    pca = PrivatePCA.from_release(made, n_components=2, features=["age", "income"])
    scores = pca.set_output(transform="pandas").transform(frame[["age", "income"]])
    names = ["privatepca0", "privatepca1"]
    assert list(scores.columns) == list(pca.get_feature_names_out()) == names
    assert list(pca.feature_names_in_) == ["age", "income"]
    pipeline = make_pipeline(FunctionTransformer(), ridge()).fit(ROWS, ROWS @ [0.5, 0.5, 0.0])
    assert pipeline.score(ROWS, ROWS @ [0.5, 0.5, 0.0]) > 0.9


def test_rows_of_a_mixed_table_with_a_schema(frame):
    model = PrivateRidge(target="income", schema=SCHEMA, budget=dpcov.Budget(rho=1)).fit(frame)
    assert list(model.feature_names_in_) == ["age", "sector", "constant", "member"]
    assert model.predict(frame.drop(columns="income")).shape == (len(frame),)
    # The schema of a whole table has no column called y.
    unnamed = PrivateRidge(schema=SCHEMA, budget=dpcov.Budget(rho=1))
    with pytest.raises(InputError, match=r"no column y, as .* target=NAME"):
        unnamed.fit(frame.drop(columns="income"), frame.income)
    unnamed.set_params(target="income").fit(frame.drop(columns="income"), frame.income)
    with pytest.raises(InputError, match=r"no column y, as .* call its column so"):
        PrivateLDA(schema=SCHEMA, budget=dpcov.Budget(rho=1)).fit(frame, frame.sector)


READ_ONLY = """
import sys
import dpcov.analysis as analysis
from dpcov.published.release import Release
made = Release.load(sys.argv[1])
analysis.PrivateRidge.from_release(made, target="income", alpha=0.1)
analysis.PrivatePCA.from_release(made)
forbidden = ("dpcov.data", "dpcov.noise", "dpcov.mechanisms")
assert not [name for name in sys.modules if name.startswith(forbidden)]
"""


def test_reading_a_release_loads_nothing_that_handles_rows_or_randomness(made, tmp_path):
    path = tmp_path / "made.dpcov"
    made.save(path)
    subprocess.run([sys.executable, "-W", "ignore", "-c", READ_ONLY, str(path)], check=True)


def statistics_of(release):
    return [array.tolist() for _, array in sorted(release.statistics.arrays.items())]


def test_a_data_frame_is_fitted_as_it_is_released():
    budget, chosen = dpcov.Budget(rho=1), np.flatnonzero(ROWS[:, 2] > 0.5)
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"]).astype({"b": object})
    # No common type, which Arrow would ask for.
    frame.loc[chosen[7], "b"], frame.loc[chosen[8], "b"] = "0.5", True
    part, target = frame.iloc[chosen], ROWS[chosen, 0] + ROWS[chosen, 1]
    columns = dict.fromkeys(frame.columns, dpcov.Numeric(lower=0, upper=1))
    schema = dpcov.Schema(columns={**columns, "y": dpcov.Numeric(lower=0, upper=2)})
    seeded = {"schema": schema, "budget": budget, "entropy": dpcov.SeededEntropy(1)}
    made = dpcov.release(part.assign(y=target), **seeded)
    # The index that choosing rows leaves, and a named one, are no columns.
    for given in (part, part.rename_axis("patient")):
        model = PrivateRidge(bounds=(0, 1), target_bounds=(0, 2), budget=budget, seed=1)
        model.fit(given, pd.Series(target))
        assert list(model.feature_names_in_) == ["a", "b", "c"]
        assert statistics_of(model.release_) == statistics_of(made)
        assert model.predict(given).shape == target.shape


def test_a_target_never_takes_the_place_of_a_column(ledger):
    rows = pd.DataFrame(ROWS[:, :3], columns=["a", "y", "b"])
    with pytest.raises(InputError, match="has a column y already"):
        ridge(ledger).fit(rows, ROWS[:, 0])
    assert entries(ledger) == 0


def test_what_a_mask_hides_is_missing():
    def fitted(rows, target):
        model = PrivateRidge(
            bounds=(0, 1), target_bounds=(0, 1), budget=dpcov.Budget(rho=1), seed=1
        )
        return model.fit(rows, target)

    hidden = ROWS > 0.9
    rows, target = np.ma.array(ROWS, mask=hidden), np.ma.array(ROWS[:, 0], mask=hidden[:, 0])
    masked, missing = fitted(rows, target), fitted(rows.filled(np.nan), target.filled(np.nan))
    assert statistics_of(masked.release_) == statistics_of(missing.release_)
    np.testing.assert_array_equal(masked.predict(rows), masked.predict(rows.filled(np.nan)))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (csr_array(ROWS), "toarray"),
        (nw.from_native(pd.DataFrame(ROWS[:, :2], columns=["a", "b"])).lazy(), "Compute it first"),
        (pd.DataFrame(ROWS, columns=["a", "a", "b"]), "one name"),
        (ROWS[:0], "no rows"),
    ],
)
def test_rows_that_are_not_taken_are_refused_in_words(rows, said):
    with pytest.raises(InputError, match=said):
        ridge().fit(rows, np.zeros(0))


@pytest.mark.parametrize("switch", ["fit_intercept", "spend_again"])
def test_a_text_is_no_switch(made, ledger, switch):
    with pytest.raises(UsageError, match=switch):
        ridge(ledger).set_params(**{switch: "no"}).fit(ROWS, ROWS[:, 0])
    with pytest.raises(UsageError, match=switch):
        PrivateRidge.from_release(made, target="age", **{switch: "no"})
    assert entries(ledger) == 0


def interrupted(*_):
    raise KeyboardInterrupt


def test_an_interrupt_before_the_charge_leaves_the_estimator_unspent(ledger, monkeypatch):
    model = ridge(ledger)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Gathering, "answer", interrupted)
        model.fit(ROWS, ROWS[:, 0])
    assert entries(ledger) == 0
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(SystemEntropy, "words", interrupted)
        model.fit(ROWS, ROWS[:, 0])
    with pytest.raises(SpentError):
        model.fit(ROWS, ROWS[:, 0])
    assert entries(ledger) == 1


def test_an_estimator_does_not_forget_its_parameters(made):
    """A class method called on an object made another one, with the default parameters."""
    estimator = PrivatePCA(n_components=1, features=["age", "income"])
    assert estimator.from_release(made).n_components_ == 1
    assert estimator.from_release(made, n_components=2).n_components_ == 2
    assert not hasattr(estimator, "release_") and PrivatePCA.from_release(made).n_components is None
