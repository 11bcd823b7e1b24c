import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov import Budget, Numeric, Schema
from dpcov.published.export import export

PAGE = (Path(__file__).parents[2] / "docs" / "exports.md").read_text(encoding="utf-8")
NAMES = ("age", "dose", "pressure", "recovery")


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
    table = pa.table({name: values[:, place] for place, name in enumerate(NAMES)})
    schema = Schema(columns={name: Numeric(lower=-1, upper=1) for name in NAMES})
    release = dpcov.release(table, schema=schema, budget=Budget(rho=1), output="patients.dpcov")
    for ending in ("R", "csv", "npz"):
        export(release, f"patients.{ending}")
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


def test_r_reads_the_same_numbers_and_hostile_names_stay_text(folder):
    if not has_r_packages("stats"):
        pytest.skip("R is not installed")
    names = ('a"); quit(status = 7); c("', "back\\slash", "naïve 変数", "tab\there")
    columns = {name: Numeric(lower=-1, upper=1) for name in names}
    values = np.linspace(-1, 1, 50)
    table = pa.table({name: values ** (place + 1) for place, name in enumerate(names)})
    release = dpcov.release(table, schema=Schema(columns=columns), budget=Budget(rho=5))
    export(release, "odd.R")
    script = (
        'source("odd.R", encoding = "UTF-8"); '
        "writeLines(format(dpcov$covariance[2, 3], digits = 17)); "
        "writeLines(rownames(dpcov$covariance))"
    )
    run = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    first, *rest = run.stdout.splitlines()
    assert float(first) == pytest.approx(release.covariance()[1, 2], rel=1e-12)
    assert rest[:2] == list(names[:2])
