"""``dpcov release --sql``: a table from a database, at the command line."""

import os
import subprocess
import sys

import duckdb
import pyarrow.csv
import pyarrow.parquet
import pytest

import dpcov

SECRET = "secretpw"
EVERYTHING = "SELECT * FROM patients"


@pytest.fixture
def database(desk):
    """The desk's table in a database beside it."""
    path = desk.folder / "patients.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE patients AS SELECT * FROM '{desk.data}'")
    desk.before = desk.names()
    return f"duckdb:///{path}"


def query(desk, sql, *where, **options):
    sql = () if sql is None else ("--sql", sql)
    return desk.run("release --rho 0.5", *desk.fixed, *desk.paid, *sql, *where, **options)


def test_a_query_is_released_like_a_file(desk, database):
    sql = "SELECT age, sex, ill FROM patients ORDER BY random()"
    seed = ("--seed", "7", "--not-private", "--overwrite")
    result = query(desk, sql, "--db", database, *seed)
    assert result.exit_code == 0, result.output
    desk.assert_sealed(result)
    from_query = dpcov.load(desk.output)
    assert desk.release(*seed).exit_code == 0
    assert from_query.covariance().equals(dpcov.load(desk.output).covariance())
    assert sql.encode() not in desk.output.read_bytes()


def test_a_query_over_files_needs_no_database(desk):
    refused = query(desk, f"SELECT * FROM '{desk.data}'", "--db", "duckdb://")
    desk.assert_refused(refused, 4, "DuckDB guesses types")
    typed = desk.data.with_suffix(".parquet")
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(desk.data), typed)
    result = query(desk, f"SELECT * FROM '{typed}'", "--db", "duckdb://")
    assert result.exit_code == 0, result.output
    assert desk.states() == ["committed"]


def test_the_url_may_come_from_the_environment(desk, database):
    named = (EVERYTHING, "--db-env", "PATIENTS", "--overwrite")
    result = query(desk, *named, env={"PATIENTS": database})
    assert result.exit_code == 0, result.output
    refused = query(desk, *named, env={"PATIENTS": ""})
    assert refused.exit_code == 2
    assert "is not set" in refused.output


@pytest.mark.parametrize(
    ("sql", "arguments", "words"),
    [
        ("SELECT 1 AS a", "", "--db URL"),
        (None, "--db duckdb://", "needs a statement"),
        ("SELECT 1 AS a", "--db duckdb:// --db-env X", "one of the two"),
        ("SELECT 1 AS a", "x.csv --db duckdb://", "not both"),
        (None, "", "Name the table"),
        ("SELECT 1 AS a", "--db nothing", "named by a URL"),
    ],
)
def test_contradicting_arguments_are_refused(desk, sql, arguments, words):
    desk.assert_refused(query(desk, sql, *arguments.split()), 2, words)


def test_a_failing_query_spends_nothing_and_quotes_nothing(desk, database):
    sql = "SELECT CAST(name AS int) AS age, sex, ill FROM patients"
    desk.assert_refused(query(desk, sql, "--db", database), 4, "CAST")


def test_a_password_on_the_command_line_is_warned_about_and_never_repeated(desk):
    url = f"postgresql://custodian:{SECRET}@127.0.0.1:1/patients"
    shown = query(desk, "SELECT 1 AS age", "--db", url)
    desk.assert_refused(shown, 4, "for --db also --db-env")
    quiet = query(desk, "SELECT 1 AS age", "--db-env", "PATIENTS", env={"PATIENTS": url})
    desk.assert_refused(quiet, 4, "check URL")
    ledger = desk.run("ledger list", url)
    assert SECRET not in shown.output + quiet.output + ledger.output
    assert "other users" not in quiet.output and "other users" in ledger.stderr


def test_postgres_to_release_as_a_process(desk, postgres_database):
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres_database) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE patients (name text, age float8, sex text, ill bool)")
        with cursor.copy("COPY patients FROM STDIN WITH (FORMAT csv, HEADER)") as copy:
            copy.write(desk.data.read_bytes())
    fixed = ("--rho", "0.5", "--no-ledger", *map(str, desk.fixed), "--sql", EVERYTHING)
    command = [sys.executable, "-m", "dpcov", "release", *fixed, "--db-env", "PATIENTS"]
    environment = {"PATIENTS": postgres_database, "PATH": "/usr/bin:/bin"}
    environment |= {k: v for k, v in os.environ.items() if k == "PYTHONPATH"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert dpcov.load(desk.output).n_rows == 301
    assert postgres_database not in run.stdout + run.stderr


def test_a_ledger_on_a_server_pays_for_a_release(desk, postgres_database):
    pytest.importorskip("sqlalchemy")
    account = (postgres_database, "--dataset", "patients")
    told = desk.done("ledger create --rho 1", *account)
    for code in (0, 0, 6):
        spending = ("release --rho 0.5 --overwrite", desk.data, *desk.fixed, "--ledger", *account)
        result = desk.run(*spending)
        assert result.exit_code == code, result.output
        told += result.output
    shown = desk.done("ledger show", *account)
    assert shown.count("committed") == 2
    assert "left 0" in shown
    password = postgres_database.split(":")[2].split("@")[0]
    assert password not in shown + told
    assert password.encode() not in desk.output.read_bytes()
