"""Scripts for R run as they are, with the numbers of the release; the text of others has a shape.

Julia is run where it is installed, and read by its grammar; of Stata's script brackets, quotes,
numbers and names are checked.
"""

import json
import os
import re
import shutil
import subprocess
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import dpcov
from dpcov.analysis import PrivateLinearRegression
from dpcov.cli.main import app
from dpcov.errors import ReleaseError, UsageError
from dpcov.published.scripts import Program, write_script
from tests.docs.test_blocks import SCHEMA, patients
from tests.releases import released_of
from tests.report.examples import UNHELPFUL_NAMES, plain, unhelpful

ENDINGS = {"r": "R", "julia": "jl", "stata": "do"}
HOSTILE = (
    *('a"); quit(status = 7); c("', "back\\slash", "$(exit 3)", "`shell rm x'", '"; exit(3); "'),
    *("new\nline", "* /* comment", "#| x |#", "\\$HOME", "if", "IF", "_", "1st", "x" * 90),
    *("str9", "STR2045", "strL"),
)
needs_r = pytest.mark.skipif(shutil.which("Rscript") is None, reason="needs R")
needs_julia = pytest.mark.skipif(shutil.which("julia") is None, reason="needs Julia")


@pytest.fixture(scope="module")
def release():
    budget, entropy = dpcov.Budget(epsilon=4, delta="1e-6"), dpcov.SeededEntropy(0)
    return dpcov.release(patients(20_000, 0), schema=SCHEMA, budget=budget, entropy=entropy)


@pytest.fixture(scope="module")
def hostile():
    columns = {name: dpcov.Numeric(lower=-1, upper=1) for name in HOSTILE}
    random = np.random.default_rng(0)
    table = pa.table({name: random.uniform(-1, 1, 3000) for name in HOSTILE})
    return released_of(columns, table, rho=5, title='"; quit(status = 7) #$(`')


def written(release, program, tmp_path, **options):
    path = tmp_path / f"script.{ENDINGS[program]}"
    write_script(release, path, program, **options)
    return path


def run(folder, *command):
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )


def run_r(path, more=""):
    code = f'source("{path.name}", encoding = "UTF-8", echo = FALSE); {more}'
    return run(path.parent, "Rscript", "-e", code)


PRINTED_BELOW = "These errors do not count the privacy noise: they are too small."
PRINTED = 'writeLines(format(c(fit$coefficients[, 1:2], fit$r.squared), digits = 17)); "end"'


@needs_r
def test_the_script_for_r_runs_as_it_is_with_the_coefficients_of_this_package(release, tmp_path):
    path = written(release, "r", tmp_path, target="recovery")
    done = run(tmp_path, "Rscript", path.name)
    assert done.returncode == 0, done.stderr
    assert "t value" not in done.stdout
    assert "R squared: 0.6" in done.stdout and f"\n{PRINTED_BELOW}\n" in done.stdout
    found = run_r(path, f'cat("numbers\\n"); {PRINTED}')
    numbers = [float(x) for x in found.stdout.split("numbers\n")[1].split()[:13]]
    model = PrivateLinearRegression.from_release(release, target="recovery")
    ours = [model.intercept_, *model.coef_]
    np.testing.assert_allclose(numbers[:6], ours, rtol=2e-3, atol=4e-3)
    without_noise = model.summary().tables[0].sampling_std
    np.testing.assert_allclose(numbers[6:12], without_noise, rtol=0.35)


@pytest.mark.parametrize("program", get_args(Program))
def test_a_script_says_what_its_standard_errors_do_not_count(release, program, tmp_path):
    text = written(release, program, tmp_path).read_text()
    assert "privacy noise: they are too small" in text
    # Also where whoever runs it reads the errors.
    assert text.index(PRINTED_BELOW) > text.lower().index("regress")
    assert "PrivateLinearRegression may differ" in text


@needs_r
def test_lavaan_and_psych_run_where_they_are_installed(release, tmp_path):
    packages = 'library("lavaan"); library("psych")'
    if run(tmp_path, "Rscript", "-e", packages).returncode:
        pytest.skip("needs r-cran-lavaan and r-cran-psych")
    done = run_r(written(release, "r", tmp_path, target="recovery"))
    assert "recovery~dose" in done.stdout and "SS loadings" in done.stdout


@needs_r
def test_hostile_names_stay_text_in_r(hostile, tmp_path):
    done = run_r(
        written(hostile, "r", tmp_path), "writeLines(dpcov$labels); writeLines(dpcov$names)"
    )
    assert done.returncode == 0, done.stderr
    assert HOSTILE[0] in done.stdout and "back\\slash" in done.stdout
    assert len(set(done.stdout.split()[-len(HOSTILE) :])) == len(HOSTILE)


@needs_r
def test_the_script_for_r_is_read_in_seconds_with_hundreds_of_columns(tmp_path):
    """Rscript needs time that grows with the square of a statement: 28 seconds for one of these."""
    names = [f"c{place}" for place in range(300)]
    random = np.random.default_rng(0)
    table = pa.table({name: random.uniform(-1, 1, 1000) for name in names})
    columns = {name: dpcov.Numeric(lower=-1, upper=1) for name in names}
    made = released_of(columns, table, rho=1, missing="never", geometry="schema")
    path = written(made, "r", tmp_path)
    before = os.times().children_user
    assert run(tmp_path, "Rscript", path.name).returncode == 0
    assert os.times().children_user - before < 8


@needs_r
def test_r_gets_by_where_a_column_never_varies(tmp_path):
    table = pa.table({"a": np.zeros(500), "b": np.linspace(-1, 1, 500), "c": np.zeros(500)})
    made = released_of(dict.fromkeys("abc", dpcov.Numeric(lower=-1, upper=1)), table, rho=1)
    done = run_r(written(made, "r", tmp_path, target="b"))
    assert done.returncode == 0, done.stderr


def run_julia(path):
    return run(path.parent, "julia", path.name)


@pytest.mark.parametrize("flat", [["dose"], ["recovery"], None])
@pytest.mark.parametrize(
    ("program", "run"),
    [pytest.param("r", run_r, marks=needs_r), pytest.param("julia", run_julia, marks=needs_julia)],
)
def test_what_has_no_spread_has_no_coefficient(release, tmp_path, monkeypatch, program, run, flat):
    covariance = release.covariance_matrix().copy()
    places = [release.feature_names.index(name) for name in flat or release.feature_names]
    covariance[places, :] = covariance[:, places] = 0
    monkeypatch.setattr(type(release), "covariance_matrix", lambda *_, **__: covariance)
    path = written(release, program, tmp_path, target="recovery")
    done = run(path)
    assert done.returncode == 0, done.stderr
    assert not re.search(r"Inf|e[+-][0-9]{3}", done.stdout), done.stdout
    # Left out of the regression, or, where that is the target or nothing is left, told by it.
    left_out = re.search(r"the noise hides them: (.*)", path.read_text(encoding="utf-8"))[1]
    told = re.findall("No spread shows of: (.*)", done.stdout)
    named = (left_out if flat == ["dose"] else told[0]).split()
    assert named == flat if flat else len(named) == 6


@needs_julia
def test_the_script_for_julia_runs_as_it_is(release, tmp_path):
    path = written(release, "julia", tmp_path, target="recovery")
    done = run_julia(path)
    assert done.returncode == 0, done.stderr
    lines = [line.rsplit(maxsplit=2) for line in done.stdout.splitlines()]
    found = {line[0]: float(line[1]) for line in lines if line[0] in ("(intercept)", "dose")}
    model = PrivateLinearRegression.from_release(release, target="recovery")
    ours = dict(zip(model.feature_names_in_, model.coef_, strict=True))
    assert found["dose"] == pytest.approx(ours["dose"], rel=2e-3)
    assert found["(intercept)"] == pytest.approx(model.intercept_, rel=2e-3)


def without_strings(text, comment):
    """The script without texts in quotes and comments."""
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
    return "\n".join(line for line in text.splitlines() if not line.startswith(comment))


@pytest.mark.parametrize(("program", "comment"), [("julia", "#"), ("stata", "*"), ("r", "#")])
def test_brackets_match_and_hostile_names_are_in_quotes_alone(hostile, tmp_path, program, comment):
    text = written(hostile, program, tmp_path).read_text(encoding="utf-8")
    code = without_strings(text, comment)
    assert code.count('"') == 2 * code.count('""')
    for opening, closing in ("()", "[]", "{}"):
        assert code.count(opening) == code.count(closing)
    assert not re.search(r"quit\(|exit\(|\$\(|shell rm|/\*|#\|", code)
    assert "${" not in text and "\x00" not in text


def test_julia_and_stata_hold_the_numbers(release, tmp_path):
    text = written(release, "julia", tmp_path, target="recovery").read_text()
    means, covariance = (
        json.loads(text.split(f"\n{name}")[1].split("]")[0] + "]")
        for name in ("means = ", "covariance = reshape(")
    )
    np.testing.assert_array_equal(means, release.mean_vector())
    p = len(means)
    np.testing.assert_array_equal(np.reshape(covariance, (p, p)), release.covariance_matrix())
    place = release.feature_names.index("recovery")
    assert f"y = {place + 1}\n" in text and "rtol" in text
    # The reference level and the target are no predictors.
    assert re.search(r"\nx = \[1, 2, 3, 5,\s+7\]\n", text)

    text = written(release, "stata", tmp_path, target="recovery").read_text()
    joined = text.replace("///\n", "")
    rows = re.findall(r"matrix [MC] = (?:C \\ )?\(([^)]*)\)", joined)
    numbers = np.array([[float(x) for x in row.split(",")] for row in rows])
    np.testing.assert_array_equal(numbers[0], release.mean_vector())
    np.testing.assert_array_equal(numbers[1:], release.covariance_matrix())
    assert "regress recovery age dose pressure smoker ward_south\n" in text
    assert "n(20000)" in text and 'label variable ward_north "ward=north"\n' in text


@pytest.mark.parametrize("levels", [("x",), ("x", "y"), ("x", "y", "z")])
def test_a_level_is_left_out_where_levels_hold_all_rows(tmp_path, levels):
    """As regressions of this package do: other rows are no reference elsewhere."""
    rng = np.random.default_rng(0)
    rows = pa.table({"ward": rng.choice(["x", "y", "z"], 2000), "dose": rng.normal(size=2000)})
    columns = {
        "ward": dpcov.Categorical(categories=levels),
        "dose": dpcov.Numeric(lower=-4, upper=4),
    }
    made = released_of(columns, rows, rho=20)
    text = written(made, "stata", tmp_path, target="dose").read_text()
    named = re.search("^regress dose (.*)$", text, re.MULTILINE)[1].split()
    model = PrivateLinearRegression.from_release(made, target="dose")
    kept = [row.name for row in model.conf_int().rows if row.name != "(intercept)"]
    assert named == [name.replace("=", "_") for name in kept]
    assert len(named) == len(levels) - (len(levels) == 3)


@pytest.mark.parametrize("program", get_args(Program))
def test_names_keep_the_letters_below_their_accents(tmp_path, program):
    """Zürich became Z_rich."""
    columns = {"Größe": dpcov.Numeric(lower=0, upper=1), "âge": dpcov.Numeric(lower=0, upper=1)}
    columns["canton"] = dpcov.Categorical(categories=("Zürich", "Genève", "Łódź"))
    table = pa.table(
        {"Größe": [0.1, 0.9, 0.4] * 99, "âge": [0.5, 0.1] * 148 + [0.9]}
        | {"canton": ["Zürich", "Genève", "Łódź"] * 99}
    )
    text = written(released_of(columns, table, rho=5), program, tmp_path).read_text("utf-8")
    names = ("Gro_e", "age", "canton_Zurich", "canton_Geneve", "canton_odz")
    assert all(re.search(rf"\b{name}\b", text) for name in names)
    assert re.search(r"^. Left out, because other levels .*: canton_Zurich$", text, re.M)


@pytest.fixture(scope="module")
def weighted():
    random = np.random.default_rng(0)
    table = {"a": random.uniform(-1, 1, 3000), "b": random.uniform(-1, 1, 3000)}
    table |= {"w": random.uniform(0, 2, 3000)}
    columns = dict.fromkeys("ab", dpcov.Numeric(lower=-1, upper=1))
    columns["w"] = dpcov.Numeric(lower=0, upper=2)
    weights = dpcov.Weights(column="w", upper=2)
    table["g"] = ["m", "n", "o"] * 1000
    columns["g"] = dpcov.Categorical(categories=("m", "n", "o"))
    return released_of(columns, pa.table(table), rho=1, weights=weights, by="g")


@pytest.mark.parametrize("program", get_args(Program))
def test_errors_count_the_weights_where_they_are_known(weighted, tmp_path, program):
    """Errors of a survey were 1.25 times too small."""
    sizes = {"r": r"n\.effective = (\d+),", "julia": r"^n = (\d+)$", "stata": r" n\((\d+)\) "}
    text = written(weighted, program, tmp_path).read_text()
    # Uniform weights from 0: Kish's design effect is 4/3.
    assert int(re.search(sizes[program], text, re.M)[1]) == pytest.approx(2250, rel=0.1)
    assert PRINTED_BELOW in text
    # A finished matrix does not hold what the weights sum to.
    pooled = weighted.group("m", pooled=True)
    (tmp_path / "pooled").mkdir()
    written(pooled, program, tmp_path / "pooled")
    text = (tmp_path / "pooled" / f"script.{ENDINGS[program]}").read_text()
    assert int(re.search(sizes[program], text, re.M)[1]) == pytest.approx(1000, rel=0.1)
    assert "nor what weights and several rows of one person take: they are too small" in text


@pytest.mark.parametrize("program", ["r", "stata"])
def test_weights_are_neither_predicted_nor_predict(weighted, tmp_path, program):
    text = written(weighted, program, tmp_path).read_text()
    wanted = {"r": ("y <- dpcov$names[2]", "x <- dpcov$names[c(1)]"), "stata": ("regress b a\n",)}
    assert all(line in text for line in wanted[program])


def test_stata_expands_nothing_in_labels_and_names_are_names(hostile, tmp_path):
    text = written(hostile, "stata", tmp_path).read_text()
    labels = re.findall(r'^label variable (\w+) "(.*)"$', text, re.M)
    assert len(labels) == len(HOSTILE)
    assert not any(set(label) & set("\"`$\\'") for _, label in labels)
    names = [name for name, _ in labels]
    assert len({name.lower() for name in names}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z]\w{0,31}", name) for name in names)
    reserved = re.compile(r"if|str\d*|strL", re.I)
    assert not any(map(reserved.fullmatch, names))
    assert all(len(label) <= 80 for _, label in labels)


@pytest.mark.parametrize("program", get_args(Program))
def test_what_a_script_cannot_say_is_refused(release, tmp_path, program):
    with pytest.raises(UsageError, match="no feature of that name"):
        written(release, program, tmp_path, target="nothing")
    with pytest.raises(UsageError, match="Did you mean 'recovery'"):
        written(release, program, tmp_path, target="Recovery")
    with pytest.raises(ReleaseError, match="intercept"):
        written(plain(), program, tmp_path)
    with pytest.raises(UsageError, match="one of"):
        write_script(release, tmp_path / "x", "sas")
    written(unhelpful(), program, tmp_path, target=UNHELPFUL_NAMES[3])
    with pytest.raises(ReleaseError, match="exists already"):
        written(unhelpful(), program, tmp_path)


@pytest.mark.parametrize("n_rows", [np.inf, 0.4, 1.0])
def test_a_script_needs_a_number_of_rows_if_it_be_one(release, tmp_path, monkeypatch, n_rows):
    monkeypatch.setattr(type(release), "n_rows", n_rows)
    if n_rows == 1:
        assert "n.rows = 1,\n" in written(release, "r", tmp_path).read_text(encoding="utf-8")
    else:
        with pytest.raises(UsageError, match="number of rows is not known"):
            written(release, "r", tmp_path)


def test_the_command_writes_scripts_and_keeps_its_options_apart(release, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    release.save("patients.dpcov")

    def run(*words):
        return CliRunner().invoke(app, ["export", "patients.dpcov", *words])

    for program, ending in ENDINGS.items():
        done = run("--to", program, "--target", "recovery", "-o", f"a.{ending}")
        assert done.exit_code == 0, done.output
        write_script(release, tmp_path / f"b.{ending}", program, target="recovery")
        assert (tmp_path / f"a.{ending}").read_text() == (tmp_path / f"b.{ending}").read_text()
    assert run("--to", "sas", "-o", "c.sas").exit_code != 0
    assert run("--to", "r", "--what", "mean", "-o", "c.R").exit_code != 0
    assert run("--target", "recovery", "-o", "c.csv").exit_code != 0
    assert not list(tmp_path.glob("c.*"))


@pytest.mark.parametrize("names", ["usual", "hostile"])
def test_the_script_for_julia_is_julia_by_its_grammar(release, hostile, tmp_path, names):
    tree_sitter = pytest.importorskip("tree_sitter")
    grammar = pytest.importorskip("tree_sitter_julia")
    parser = tree_sitter.Parser(tree_sitter.Language(grammar.language()))
    text = written(hostile if names == "hostile" else release, "julia", tmp_path).read_bytes()
    found = parser.parse(text).root_node
    assert not found.has_error and "interpolation" not in str(found)
    for right, wrong in (
        (b"return vcat(", b"return vcat(("),
        (b"\nend\n", b"\n"),
        (b"x = [", b"x = [["),
    ):
        assert right in text
        assert parser.parse(text.replace(right, wrong)).root_node.has_error, right


@pytest.mark.parametrize("program", get_args(Program))
def test_the_regression_leaves_out_and_names_what_the_noise_hides(program, tmp_path):
    random = np.random.default_rng(0)
    table = pa.table(
        {"a": random.uniform(0, 1, 3000), "lost": np.zeros(3000), "y": np.arange(3000)}
    )
    limits = {"a": 1, "lost": 1, "y": 3000}
    made = released_of(
        {name: dpcov.Numeric(lower=0, upper=most) for name, most in limits.items()},
        table,
        rho="0.1",
        geometry="schema",
    )
    assert [column.hidden for column in made.diagnose().columns] == [False, True, False]
    text = written(made, program, tmp_path).read_text(encoding="utf-8")
    assert "because the noise hides them: lost\n" in text
    used = {"r": "dpcov$names[c(1)]", "julia": "x = [1]", "stata": "regress y a\n"}
    assert used[program] in text
