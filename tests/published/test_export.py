import csv
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.errors import ReleaseError, UsageError
from dpcov.published.export import Exported, Quantity, estimate, export
from dpcov.published.scripts import write_script
from tests.releases import released, released_of
from tests.report.examples import plain

KINDS = "csv", "json", "npz", "r"
NAMES = ['plain, "quoted"', "größe", "b", "two\rlines"]


@pytest.fixture(scope="module")
def made():
    columns = {name: dpcov.Numeric(lower=-1, upper=1) for name in NAMES}
    random = np.random.default_rng(0)
    table = pa.table({name: random.uniform(-1, 1, 500) for name in NAMES})
    return released_of(columns, table, rho=1, missing="never", title="Four columns")


def read_csv(path):
    with path.open(newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    values = np.array([[float(x) for x in line[1:]] for line in lines])
    return header[1:], [line[0] for line in lines], values


def read_json(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    return record, np.array(record["values"], dtype=float)


def test_what_is_missing_at_random_is_exported_without_noise_of_what_is_present(tmp_path):
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, 5000)
    y = np.where(random.uniform(size=5000) < (x > 0), np.nan, np.clip(x + x**3, -2, 2))
    columns = {"x": dpcov.Numeric(lower=-1, upper=1), "y": dpcov.Numeric(lower=-2, upper=2)}
    gap = released_of(columns, pa.table({"x": x, "y": y}), rho=1)
    for quantity in ("mean", "covariance", "correlation"):
        terms = {"quantity": quantity, "missing": "at-random", "overwrite": True}
        export(gap, tmp_path / "x.json", **terms)
        record, values = read_json(tmp_path / "x.json")
        read = getattr(gap, f"{quantity}_{'vector' if quantity == 'mean' else 'matrix'}")
        np.testing.assert_array_equal(values, read(missing="at-random"))
        assert np.abs(values - read()).max() > 0.01 and record["noise_std"] is None
        export(gap, tmp_path / "x.csv", **terms)
    assert not (tmp_path / "x-noise.csv").exists()
    export(gap, tmp_path / "x.csv", overwrite=True)
    with pytest.raises(UsageError, match=r"x-noise.csv is of another export"):
        export(gap, tmp_path / "x.csv", **terms)
    with pytest.raises(UsageError, match="export covariance or correlation"):
        export(gap, tmp_path / "s.csv", quantity="second-moment", missing="at-random")
    write_script(gap, tmp_path / "x.jl", "julia", missing="at-random")
    for number in gap.covariance_matrix(missing="at-random").ravel():
        assert repr(float(number)) in (tmp_path / "x.jl").read_text()


@pytest.mark.parametrize("quantity", get_args(Quantity))
@pytest.mark.parametrize("post", ["none", "psd"])
def test_every_format_holds_the_same_numbers(made, tmp_path, quantity, post):
    labels, values = estimate(made, quantity, post)
    for kind in KINDS:
        export(made, tmp_path / f"x.{kind}", quantity=quantity, post=post)
    columns, first, from_csv = read_csv(tmp_path / "x.csv")
    record, from_json = read_json(tmp_path / "x.json")
    with np.load(tmp_path / "x.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["values"], values)
        assert tuple(arrays["features"]) == labels
    np.testing.assert_array_equal(from_csv, np.atleast_2d(values))
    np.testing.assert_array_equal(from_json, values)
    assert tuple(columns) == tuple(record["features"]) == labels
    assert tuple(first) == (labels if quantity != "mean" else ("mean",))
    assert (record["quantity"], record["fingerprint"]) == (quantity, made.fingerprint)
    assert record["guarantee"] == str(made.guarantee)
    assert record["n_rows"] == record["n_effective"] == 500
    assert len(record["units"]) == len(record["descriptions"]) == len(labels)
    assert labels == (("(intercept)", *NAMES) if quantity == "second-moment" else tuple(NAMES))


class Unknown:
    """Stands for a release whose numbers are not all known."""

    feature_names = ("a", "b")
    features = ()
    n_rows = float("nan")
    guarantee = fingerprint = "stated"

    def correlation_matrix(self, post, *, missing):
        return np.array([[1.0, np.nan], [np.nan, np.inf]])


def test_unknown_numbers_are_null(tmp_path, monkeypatch):
    monkeypatch.setattr("dpcov.published.export.noise_std", lambda *what: None)
    monkeypatch.setattr("dpcov.published.export.rows_worth", lambda release: np.nan)
    export(Unknown(), tmp_path / "x.json", quantity="correlation")
    record = json.loads((tmp_path / "x.json").read_text())
    assert record["values"] == [[1.0, None], [None, None]]
    assert record["n_rows"] is None and record["n_effective"] is None


@pytest.mark.filterwarnings("error")
def test_a_number_whose_noise_is_not_known_is_marked(tmp_path):
    """One of a column of which no variance shows; and one of features that no row has together."""
    rows = np.random.default_rng(0).normal(size=(500, 2)) * [1.0, 0.0]
    terms = {"mechanism": "gaussian", "geometry": "schema"}
    releases = (released(rows, -9, 9, seed, **terms) for seed in range(20))
    hidden = next(x for x in releases if x.covariance_matrix("none")[1, 1] < 0)
    export(hidden, tmp_path / "x.json", quantity="correlation", post="none")
    record, _ = read_json(tmp_path / "x.json")
    assert record["noise_std"][0] == [0.0, None]
    assert record["below_noise"] == [[False, True], [True, True]]
    facts = {"release": hidden, "quantity": "covariance", "labels": ("a", "b")}
    found = Exported(**facts, values=np.array([3.0, -1.0]), noise=np.array([1.0, np.inf]))
    assert found.below_noise.tolist() == [False, True]


def test_the_ending_says_the_format(made, tmp_path):
    export(made, tmp_path / "X.JSON")
    assert json.loads((tmp_path / "X.JSON").read_text())["quantity"] == "covariance"
    with pytest.raises(UsageError, match=r"\.json"):
        export(made, tmp_path / "y.txt")


@pytest.mark.parametrize("quantity", ["mean", "covariance", "correlation"])
def test_every_format_holds_the_noise_and_marks_what_it_may_have_made(made, tmp_path, quantity):
    exported = [export(made, tmp_path / f"x.{kind}", quantity=quantity) for kind in KINDS]
    assert len(exported) == 4
    _, values = estimate(made, quantity, None)
    _, _, from_csv = read_csv(tmp_path / "x-noise.csv")
    record, _ = read_json(tmp_path / "x.json")
    with np.load(tmp_path / "x.npz") as arrays:
        np.testing.assert_array_equal(np.atleast_2d(arrays["noise_std"]), from_csv)
        np.testing.assert_array_equal(arrays["below_noise"], record["below_noise"])
    np.testing.assert_array_equal(np.atleast_2d(record["noise_std"]), from_csv)
    below = np.abs(np.atleast_2d(values)) < 2 * from_csv
    np.testing.assert_array_equal(np.atleast_2d(record["below_noise"]), below)
    assert "below.noise = " in (tmp_path / "x.r").read_text()
    assert (from_csv >= 0).all()
    assert from_csv.any()


def test_neither_file_is_written_where_one_is_in_the_way(made, tmp_path):
    (tmp_path / "x-noise.csv").write_text("mine")
    with pytest.raises(ReleaseError, match="exists already"):
        export(made, tmp_path / "x.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["x-noise.csv"]


@pytest.mark.parametrize("wrong", [{"quantity": "precision"}, {"post": "best"}])
def test_unknown_choices_are_refused(made, tmp_path, wrong):
    with pytest.raises(UsageError, match="one of"):
        export(made, tmp_path / "x.csv", **wrong)
    assert list(tmp_path.iterdir()) == []


PAGE = (Path(__file__).parents[2] / "docs" / "exports.md").read_text(encoding="utf-8")
FACTORS = ("age", "dose", "pressure", "recovery")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def has_r_packages(*names):
    if shutil.which("Rscript") is None:
        return False
    wanted = "".join(f"library({name});" for name in names)
    run = subprocess.run(["Rscript", "-e", wanted], capture_output=True, check=False)
    return run.returncode == 0


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    health = rng.normal(size=(4000, 1))
    values = np.tanh(0.7 * health * [1.0, -0.8, 0.6, 0.9] + 0.5 * rng.normal(size=(4000, 4)))
    table = pa.table({name: values[:, place] for place, name in enumerate(FACTORS)})
    columns = dict.fromkeys(FACTORS, dpcov.Numeric(lower=-1, upper=1))
    release = released_of(columns, table, rho=1, output="patients.dpcov")
    for name in ("patients.R", "patients-covariance.csv", "patients.npz"):
        export(release, name)
    return tmp_path


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_the_python_blocks_run(folder, number, capsys):
    exec(compile(blocks("python")[number], "docs/exports.md", "exec"), {})
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("number", range(len(blocks("r"))))
def test_the_r_blocks_run(folder, number):
    script = blocks("r")[number]
    if not has_r_packages("stats", *re.findall(r"library\((\w+)\)", script)):
        pytest.skip("R or its packages are not installed (Debian: r-cran-lavaan, r-cran-psych)")
    run = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()


@pytest.fixture(scope="module")
def weighted():
    random = np.random.default_rng(0)
    table = {"x": random.uniform(0, 1, 4000), "w": random.uniform(0, 2, 4000)}
    columns = {"x": dpcov.Numeric(lower=0, upper=1), "w": dpcov.Numeric(lower=0, upper=2)}
    terms = {"weights": dpcov.Weights(column="w", upper=2), "rho": 1, "missing": "never"}
    return released_of(columns, pa.table(table), **terms)


def test_rows_count_as_their_weights_say(weighted, tmp_path):
    export(weighted, tmp_path / "x.json")
    record, _ = read_json(tmp_path / "x.json")
    # Uniform weights from 0: Kish's design effect is 4/3.
    assert record["n_rows"] == 4000 and record["n_effective"] == pytest.approx(3000, rel=0.05)
    effect = re.search(r"rows count as ([\d,]+)", weighted.summary())
    assert round(record["n_effective"]) == int(effect[1].replace(",", ""))


def test_r_has_means_and_what_rows_count_as_beside_a_matrix(weighted, tmp_path):
    """Measurement invariance needs means, and survey software the effective number of rows."""
    if not has_r_packages("stats"):
        pytest.skip("R is not installed")
    for quantity in ("covariance", "correlation", "mean"):
        export(weighted, tmp_path / "x.R", quantity=quantity, overwrite=True)
        told = 'source("x.R"); writeLines(format(c(dpcov$mean, dpcov$n.effective), digits = 17))'
        run = subprocess.run(
            ["Rscript", "-e", told], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        *means, worth = map(float, run.stdout.split())
        assert means == pytest.approx(weighted.mean_vector(), rel=1e-12)
        assert worth == pytest.approx(3000, rel=0.05)


def test_r_reads_the_same_numbers_and_hostile_names_stay_text(folder):
    if not has_r_packages("stats"):
        pytest.skip("R is not installed")
    names = ('a"); quit(status = 7); c("', "back\\slash", "naïve 変数", "tab\there", "NA")
    columns = {name: dpcov.Numeric(lower=-1, upper=1) for name in names}
    values = np.linspace(-1, 1, 50)
    table = pa.table({name: values ** (place + 1) for place, name in enumerate(names)})
    release = released_of(columns, table, rho=5)
    export(release, "odd.R")
    export(release, "odd.csv")
    (reads,) = re.findall(r"as\.matrix\((read\.csv\(.*\))\)", PAGE)
    reads = reads.replace("patients-covariance", "odd")
    script = (
        'source("odd.R", encoding = "UTF-8"); '
        f"stopifnot(identical(c(as.matrix({reads})), c(dpcov$covariance))); "
        "writeLines(format(dpcov$covariance[2, 3], digits = 17)); "
        "writeLines(rownames(dpcov$covariance))"
    )
    run = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    first, *rest = run.stdout.splitlines()
    assert float(first) == pytest.approx(release.covariance_matrix()[1, 2], rel=1e-12)
    assert rest[:2] == list(names[:2])


def test_a_data_package_holds_the_numbers_and_describes_the_columns(made, tmp_path):
    path = tmp_path / "datapackage.json"
    export(made, path)
    package = json.loads(path.read_text(encoding="utf-8"))
    tables = {resource["name"]: resource for resource in package["resources"]}
    labels, values = estimate(made, "covariance", None)
    rows = tables["covariance"]["data"]
    assert [row["column"] for row in rows] == list(labels)
    np.testing.assert_array_equal([[row[label] for label in labels] for row in rows], values)
    names = [field["name"] for field in tables["covariance"]["schema"]["fields"]]
    assert names == ["column", *labels]
    assert tables["noise-std"]["data"][0][labels[0]] > 0
    for column, told in zip(made.features, tables["columns"]["data"], strict=True):
        assert (told["name"], told["lower"], told["upper"]) == (column.name, *column.bounds)
    assert str(made.guarantee) in package["description"]
    # Of an array only the length of rows is bounded.
    export(plain(), path, quantity="second-moment", overwrite=True)
    columns = json.loads(path.read_text(encoding="utf-8"))["resources"][-1]["data"]
    assert {(column["lower"], column["upper"]) for column in columns} == {(None, None)}
    assert package["id"] == made.fingerprint
    export(made, path, quantity="mean", overwrite=True)
    mean = json.loads(path.read_text(encoding="utf-8"))["resources"][0]
    assert [mean["data"][0][label] for label in labels] == made.mean().tolist()


def test_a_number_of_rows_that_is_not_known_is_left_out(tmp_path):
    terms = {"rho": 1, "mechanism": "zero", "neighbors": "add-remove-one"}
    made = released_of({"x": dpcov.Numeric(lower=-1, upper=1)}, pa.table({"x": [0.5]}), **terms)
    export(made, tmp_path / "x.jsonld", quantity="second-moment")
    record = json.loads((tmp_path / "x.jsonld").read_text(encoding="utf-8"))
    assert "Moments, released" in record["dct:description"] and record["dct:title"] == "Table"


def test_dcat_states_the_guarantee(made, tmp_path):
    export(made, tmp_path / "x.jsonld")
    record = json.loads((tmp_path / "x.jsonld").read_text(encoding="utf-8"))
    assert record["@type"] == "dcat:Dataset" and record["dct:title"] == "Four columns"
    assert record["dct:identifier"] == made.fingerprint
    assert str(made.guarantee) in record["dct:accessRights"]
    assert record["dcat:distribution"]["@type"] == "dcat:Distribution"
    # Only names with prefixes that the context explains.
    keys = [key for key in (*record, *record["dcat:distribution"]) if not key.startswith("@")]
    assert {key.partition(":")[0] for key in keys} <= set(record["@context"])
