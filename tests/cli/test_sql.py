"""``dpcov release --sql``: a table from a database, at the command line."""

import subprocess
import sys

import duckdb
import pyarrow.csv
import pyarrow.parquet
import pytest

import dpcov
from tests.cli.conftest import TEXT_SENTINEL

SECRET = "secretpw"


@pytest.fixture
def database(desk):
    """The desk's table in a database beside it."""
    path = desk.folder / "patients.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE patients AS SELECT * FROM '{desk.data}'")
    desk.before = desk.names()
    return f"duckdb:///{path}"


def released(desk, *arguments, **options):
    paid = ("--ledger", desk.ledger, "--dataset", "patients", "--rho", "0.5")
    fixed = ("release", "--schema", desk.schema, "-o", desk.output)
    return desk.run(*fixed, *paid, *arguments, **options)


def test_a_query_is_released_like_a_file(desk, database):
    sql = "SELECT age, sex, ill FROM patients ORDER BY random()"
    seed = ("--seed", "7", "--not-private", "--overwrite")
    result = released(desk, "--sql", sql, "--db", database, *seed)
    assert result.exit_code == 0, result.output
    desk.assert_sealed(result)
    from_query = dpcov.load(desk.output)
    assert desk.release(*seed).exit_code == 0
    from_file = dpcov.load(desk.output)
    assert (from_query.covariance() == from_file.covariance()).all()
    assert sql.encode() not in desk.output.read_bytes()


def test_a_query_over_files_needs_no_database(desk):
    refused = released(desk, "--sql", f"SELECT * FROM '{desk.data}'", "--db", "duckdb://")
    assert refused.exit_code == 4
    assert "DuckDB guesses types" in refused.output
    assert desk.states() == []
    table = pyarrow.csv.read_csv(desk.data)
    pyarrow.parquet.write_table(table, desk.data.with_suffix(".parquet"))
    sql = f"SELECT * FROM '{desk.data.with_suffix('.parquet')}'"
    result = released(desk, "--sql", sql, "--db", "duckdb://")
    assert result.exit_code == 0, result.output
    assert desk.states() == ["committed"]


def test_the_url_may_come_from_the_environment(desk, database):
    sql = ("--sql", "SELECT * FROM patients")
    result = released(desk, *sql, "--db-env", "PATIENTS", env={"PATIENTS": database})
    assert result.exit_code == 0, result.output
    desk.before = desk.names()
    for environment in ({}, {"PATIENTS": ""}):
        refused = released(
            desk, *sql, "--db-env", "PATIENTS", "--overwrite", env={"PATIENTS": "", **environment}
        )
        assert refused.exit_code == 2
        assert "is not set" in refused.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sql", "SELECT 1 AS a"], "--db URL"),
        (["--db", "duckdb://"], "needs a statement"),
        (["--sql", "SELECT 1 AS a", "--db", "duckdb://", "--db-env", "X"], "one of the two"),
        (["x.csv", "--sql", "SELECT 1 AS a", "--db", "duckdb://"], "not both"),
        ([], "Name the table"),
        (["--sql", "SELECT 1 AS a", "--db", "nothing"], "named by a URL"),
    ],
)
def test_contradicting_arguments_are_refused(desk, arguments, words):
    desk.assert_refused(released(desk, *arguments), 2, words)


def test_a_failing_query_spends_nothing_and_quotes_nothing(desk, database):
    sql = "SELECT CAST(name AS int) AS age, sex, ill FROM patients"
    result = released(desk, "--sql", sql, "--db", database)
    desk.assert_refused(result, 4, "CAST")
    assert TEXT_SENTINEL not in result.output


def test_a_password_on_the_command_line_is_warned_about_and_never_repeated(desk):
    url = f"postgresql://custodian:{SECRET}@127.0.0.1:1/patients"
    result = released(desk, "--sql", "SELECT 1 AS age", "--db", url)
    desk.assert_refused(result, 4, "for --db also --db-env")
    assert SECRET not in result.output
    quiet = released(
        desk, "--sql", "SELECT 1 AS age", "--db-env", "PATIENTS", env={"PATIENTS": url}
    )
    desk.assert_refused(quiet, 4, "check URL")
    assert SECRET not in quiet.output
    assert "other users" not in quiet.output


def test_schemas_are_drafted_and_checked_against_queries(desk, database):
    drafted = desk.run("schema", "draft", "--sql", "SELECT * FROM patients", "--db", database)
    assert drafted.exit_code == 0, drafted.output
    assert "[columns.age]" in drafted.output
    assert TEXT_SENTINEL not in drafted.output
    check = ("schema", "check", desk.schema, "--db", database, "--sql")
    assert desk.run(*check, "SELECT * FROM patients").exit_code == 0
    lacking = desk.run(*check, "SELECT age, sex FROM patients")
    assert lacking.exit_code == 3
    assert "lacks 1 columns of the schema: ill" in lacking.output


def test_postgres_to_release_as_a_process(desk, postgres_database):
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres_database) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE patients (name text, age float8, sex text, ill bool)")
        with cursor.copy("COPY patients FROM STDIN WITH (FORMAT csv, HEADER)") as copy:
            copy.write(desk.data.read_bytes())
    command = ["release", "--schema", desk.schema, "-o", desk.output, "--rho", "0.5", "--no-ledger"]
    query = ["--sql", "SELECT * FROM patients", "--db-env", "PATIENTS"]
    run = subprocess.run(
        [sys.executable, "-m", "dpcov", *map(str, command), *query],
        env={"PATIENTS": postgres_database, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert dpcov.load(desk.output).n_rows == 301
    assert postgres_database not in run.stdout + run.stderr


def test_a_ledger_on_a_server_pays_for_a_release(desk, postgres_database):
    pytest.importorskip("sqlalchemy")
    opened = desk.run("ledger", "create", postgres_database, "--dataset", "patients", "--rho", "1")
    assert opened.exit_code == 0, opened.output
    fixed = ("release", desk.data, "--schema", desk.schema, "-o", desk.output, "--overwrite")
    for code in (0, 0, 6):
        result = desk.run(
            *fixed, "--rho", "0.5", "--ledger", postgres_database, "--dataset", "patients"
        )
        assert result.exit_code == code, result.output
    shown = desk.run("ledger", "show", postgres_database, "--dataset", "patients")
    assert shown.output.count("committed") == 2
    assert "left 0" in shown.output
    password = postgres_database.split(":")[2].split("@")[0]
    assert password not in shown.output + result.output + opened.output
    assert password.encode() not in desk.output.read_bytes()
