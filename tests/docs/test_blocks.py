"""Every code block of the README and the pages runs, page by page, in a folder with made data.

Python blocks of a page share their names; ``dpcov`` commands run in order.  A block after
``<!-- not run: reason -->`` is left out, and so are commands that set up environments.
"""

import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import dpcov
from dpcov import Boolean, Budget, Categorical, Ledger, Numeric, Schema
from dpcov.cli.main import app
from dpcov.pipeline.plan import page as plan_page
from dpcov.pipeline.plan import predict

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?P<skip><!-- not run: [^>]+-->\n+)?```(?P<language>\w+)\n(?P<code>.*?)```", re.DOTALL
)
MODULES = r"python3? -m (venv|pip|pytest|benchmarks|build)\b"
ELSEWHERE = re.compile(rf"^({MODULES}|pip install|npm |mkdocs |\.ci/|git |export |docker )")
# Pages whose blocks have a test of their own.
RUN_ELSEWHERE = {"exports.md"}

SCHEMA = Schema(
    title="patients",
    columns={
        "age": Numeric(lower=0, upper=110),
        "dose": Numeric(lower=0, upper=20),
        "pressure": Numeric(lower=80, upper=220),
        "recovery": Numeric(lower=0, upper=30),
        "smoker": Boolean(),
        "ward": Categorical(categories=("north", "south")),
    },
)


def blocks(page):
    found = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [(block["language"], block["code"]) for block in found if not block["skip"]]


def logical_lines(code):
    lines = code.replace("\\\n", " ").splitlines()
    return [line.split("  #")[0].strip() for line in lines if line.strip()]


def patients(n, seed):
    rng = np.random.default_rng(seed)
    health, noise = rng.normal(size=n), rng.normal(size=(5, n))
    columns = {
        "age": np.clip(50 - 12 * health + 8 * noise[0], 0, 110).round(),
        "dose": np.clip(8 - 2 * health + noise[1], 0, 20),
        "pressure": np.clip(130 - 10 * health + 8 * noise[2], 80, 220),
        "recovery": np.clip(10 - 3 * health + 2 * noise[3], 0, 30),
        "smoker": health + noise[4] < -0.5,
        "ward": np.where(rng.uniform(size=n) < 0.4, "north", "south"),
    }
    return pa.table(columns)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Tables, a schema, a ledger and a release under the names that the pages use."""
    monkeypatch.chdir(tmp_path)
    # Plans are simulated once each, at one budget: here they only have to run.
    monkeypatch.setattr(predict, "_ENOUGH_VALUES", 1)
    monkeypatch.setattr(plan_page, "FACTORS", (1,))
    for name, seed in (("patients", 0), ("jan", 1), ("feb", 2), ("mar", 3)):
        pyarrow.parquet.write_table(patients(2000, seed), f"{name}.parquet")
    pyarrow.csv.write_csv(patients(2000, 0), "patients.csv")
    Path("schema.toml").write_text(SCHEMA.dumps())
    return tmp_path


def prepare(page):
    """What a page takes for granted, unless it makes it itself."""
    text = page.read_text(encoding="utf-8")
    terms = {"schema": SCHEMA, "budget": Budget(rho=1)}
    if "-o patients.toml" not in text:
        Path("patients.toml").write_text(SCHEMA.dumps())
    if "ledger create ledger.sqlite" not in text:
        Ledger("ledger.sqlite").create("patients", Budget(epsilon=100, delta="1e-3"), "replace-one")
    if "-o patients.dpcov" not in text:
        dpcov.release("patients.parquet", **terms, output="patients.dpcov")
    if "demo.dpcov" in text and "dpcov demo" not in text:
        # As the demo's.
        terms["budget"] = Budget(epsilon=1, delta="1e-6")
        dpcov.release("patients.parquet", **terms, output="demo.dpcov")


def run(command):
    done = CliRunner().invoke(app, shlex.split(command))
    assert done.exit_code == 0, f"dpcov {command}\n{done.output}"
    if command.startswith("schema draft"):  # the person fills in bounds and categories
        Path("patients.toml").write_text(SCHEMA.dumps())


def run_shell(code):
    for line in logical_lines(code):
        commands = [each for each in line.split(" && ") if each.startswith("dpcov ")]
        for command in commands:
            run(command.removeprefix("dpcov "))
        # What sets a line up is run by those who copy the repository.
        assert commands or ELSEWHERE.match(line), f"nothing runs this line: {line}"


LONG = {"audit.md"}
PAGES = [
    pytest.param(page, marks=pytest.mark.thorough if page.name in LONG else ())
    for page in PAGES
    if blocks(page) and page.name not in RUN_ELSEWHERE
]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run(page, folder, capsys):
    prepare(page)
    names = {"__name__": "page"}
    for language, code in blocks(page):
        if language == "python":
            exec(compile(code, str(page.relative_to(ROOT)), "exec"), names)
        elif language in ("sh", "bash", "console"):
            run_shell(code)


def test_the_runner_sees_a_command_that_fails_and_a_line_that_nothing_runs(folder):
    with pytest.raises(AssertionError, match="dpcov show absent"):
        run_shell("dpcov show absent.dpcov")
    with pytest.raises(AssertionError, match="nothing runs"):
        run_shell("curl somewhere")


@pytest.mark.thorough
def test_the_intervals_of_the_readme_are_finite_and_hold_the_table_s_own_coefficients():
    """In 99 of 100 releases of the demo, and in 90 of 100 at a level of 95: the seeds are fixed."""
    from dpcov.cli import demo

    table, terms = demo.answers(), demo.terms()
    read = {name: table[name].to_numpy().astype(float) for name in table.column_names}
    features = np.column_stack([np.ones(len(table)), read["satisfaction"], read["years married"]])
    own = np.linalg.lstsq(features, read["affair"])[0]
    readme = [code for _, code in blocks(ROOT / "README.md")]
    (code,) = [code for code in readme if "PrivateRidge.from_release" in code]
    found = []
    for seed in range(200):
        made = dpcov.release(table, entropy=dpcov.SeededEntropy(seed), **terms)
        names = {}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dpcov, "load", lambda path, made=made: made)
            exec(code, names)
        found.append(names["model"].conf_int())
    assert sum(np.isfinite([*each.lower, *each.upper]).all() for each in found) >= 198
    held = [(each.lower <= own) & (own <= each.upper) for each in found]
    assert (np.sum(held, axis=0) >= 180).all()
