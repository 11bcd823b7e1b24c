"""A ledger on a real PostgreSQL server: the same promises when clients die, connections break and servers fall."""

import os
import signal
import sys
from fractions import Fraction

import pytest

from dpcov.errors import LedgerError, UsageError
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, PureDP
from dpcov.privacy.ledger import store as ledger_store
from dpcov.privacy.ledger.ledger import Ledger
from dpcov.privacy.ledger.spend import Spend
from tests.privacy.ledger.faulty_disk import die, in_child
from tests.privacy.ledger.test_faults import assert_goes_on, assert_remembered, release

psycopg = pytest.importorskip("psycopg")
ledger_server = pytest.importorskip("dpcov.privacy.ledger.postgres")
pytest.importorskip("sqlalchemy")

TENTH = Fraction(1, 10)
SPEND = Spend(promise=ZCDP(rho=TENTH), mechanism="gaussian")
RELATION = "replace-one"
STRIDES = [9, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])]
"""Every statement in the deep run, some of each step in the quick one."""


@pytest.fixture
def url(postgres_database):
    Ledger(postgres_database).create("patients", Budget(rho=4), RELATION)
    return postgres_database


def reset(url):
    """One account with one release, nothing else."""
    with psycopg.connect(url) as connection:
        connection.execute("DROP SCHEMA IF EXISTS dpcov_ledger CASCADE")
    Ledger(url).create("patients", Budget(rho=1), RELATION)
    Ledger(url).reserve("patients", SPEND, RELATION)


def test_a_server_keeps_the_same_book_as_a_file(url, tmp_path):
    books = Ledger(url), Ledger(tmp_path / "file.ledger")
    books[1].create("patients", Budget(rho=4), RELATION)
    for book in books:
        book.create("staff", Budget(epsilon=Fraction(1, 3), delta="1e-6"), "add-remove-one")
        book.reserve("patients", SPEND, RELATION, note="Ünicode: 'quoted' :name %s").mark_drawn()
        reservation = book.reserve("patients", SPEND, RELATION)
        reservation.mark_drawn()
        reservation.commit("sha256:abc")
        pure = Spend(
            promise=PureDP(epsilon=TENTH), mechanism="laplace", noise_multiplier=Fraction(7, 3)
        )
        book.reserve("staff", pure, "add-remove-one")
        with pytest.raises(LedgerError, match="overspend"):
            book.reserve("patients", Spend(promise=ZCDP(rho=Fraction(4)), mechanism="x"), RELATION)
        with pytest.raises(LedgerError, match="already has an account"):
            book.create("patients", Budget(rho=100), RELATION)
    assert books[0].remaining("patients") == books[1].remaining("patients")
    assert books[0].remaining("staff") == books[1].remaining("staff")
    one, other = (
        [
            (entry.id, entry.spend, entry.note, entry.state, entry.fingerprint)
            for name in ("patients", "staff")
            for entry in book.entries(name)
        ]
        for book in books
    )
    assert one == other
    assert [book.verify().problems for book in books] == [(), ()]
    assert books[0].verify().head.events == books[1].verify().head.events


def test_tampering_on_the_server_is_found(url):
    for _ in range(3):
        Ledger(url).reserve("patients", SPEND, RELATION)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path TO dpcov_ledger")
        for statement in ("UPDATE event SET at = 'x'", "DELETE FROM event", "TRUNCATE event"):
            with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
                connection.execute(statement)
        connection.execute("UPDATE entry SET promise_rho = '1/1000' WHERE id = 2")
        assert "entry 2 was changed: promise_rho" in Ledger(url).verify().problems[0]
        connection.execute("DELETE FROM entry WHERE id = 2")
    assert "entry 2 was removed" in Ledger(url).verify().problems[0]
    with pytest.raises(LedgerError, match=r"damaged.*backup"):
        Ledger(url).reserve("patients", SPEND, RELATION)


def statements_of(monkeypatch, act):
    """Call ``act(number)`` before every statement and before each transaction's commit."""
    from sqlalchemy.engine import Connection, RootTransaction

    numbers = iter(range(10**6))

    execute = Connection.execute

    def watched(self, *arguments, **values):
        act(next(numbers), self)
        return execute(self, *arguments, **values)

    monkeypatch.setattr(Connection, "execute", watched)
    commit = RootTransaction.commit

    def committed(self):
        act(next(numbers), self.connection)
        commit(self)

    monkeypatch.setattr(RootTransaction, "commit", committed)


def count_statements(url, monkeypatch):
    seen = []
    with monkeypatch.context() as patch:
        statements_of(patch, lambda number, _: seen.append(number))
        release(url, lambda _: None)
    return len(seen)


@pytest.mark.parametrize("stride", STRIDES)
def test_a_client_killed_before_any_statement(url, monkeypatch, stride):
    reset(url)
    count = count_statements(url, monkeypatch)
    assert count > 30
    for number in range(1, count, stride):
        reset(url)

        def work(tell, number=number):
            statements_of(monkeypatch, lambda reached, _: die() if reached == number else None)
            release(url, tell)

        status, told = in_child(work)
        assert status == signal.SIGKILL
        assert_remembered(url, told.split())
    assert_goes_on(url)


@pytest.mark.parametrize("stride", STRIDES)
def test_a_connection_that_ends_before_any_statement(url, monkeypatch, stride):
    reset(url)
    count = count_statements(url, monkeypatch)
    with psycopg.connect(url, autocommit=True) as killer:

        def cut(connection):
            pid = connection.connection.dbapi_connection.info.backend_pid
            killer.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))

        for number in range(0, count, stride):
            reset(url)
            told = []
            with monkeypatch.context() as patch:
                statements_of(
                    patch, lambda reached, c, number=number: cut(c) if reached == number else None
                )
                with pytest.raises(LedgerError, match="look at `show`"):
                    release(url, told.append)
            assert_remembered(url, told)
    assert_goes_on(url)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_server_killed_before_any_statement(durable_postgres, monkeypatch):
    url = durable_postgres.url
    reset(url)
    count = count_statements(url, monkeypatch)
    for number in range(0, count, 3):
        reset(url)
        told = []

        def fall(reached, _, number=number):
            if reached == number:
                durable_postgres.kill()

        with monkeypatch.context() as patch:
            statements_of(patch, fall)
            with pytest.raises(LedgerError, match="look at `show`"):
                release(url, told.append)
        durable_postgres.start()
        assert_remembered(url, told)
    assert_goes_on(url)


def test_a_server_that_is_gone_is_explained_without_its_password():
    with pytest.raises(LedgerError, match="does not answer") as refused:
        Ledger("postgresql://custodian:secretpw@127.0.0.1:1/books").datasets()
    assert (
        "secretpw"
        not in f"{refused.value!r} {refused.value.__context__!r} {refused.value.__cause__!r}"
    )


def test_a_wrong_password_is_explained_without_it(postgres_database):
    wrong = postgres_database.replace(postgres_database.split(":")[2].split("@")[0], "wrongpw")
    with pytest.raises(LedgerError, match="password") as refused:
        Ledger(wrong).datasets()
    assert "wrongpw" not in str(refused.value)


def test_a_database_without_a_ledger_is_refused(postgres_database):
    for call in (
        Ledger(postgres_database).datasets,
        lambda: Ledger(postgres_database).reserve("patients", SPEND, RELATION),
    ):
        with pytest.raises(LedgerError, match="no ledger in this database"):
            call()


def test_a_ledger_of_another_version_or_maker_is_refused(url):
    for change, words in (
        ("version = 4", "Upgrade"),
        ("version = 1", "Upgrade"),
        ("name = 'x'", "damaged"),
    ):
        with psycopg.connect(url) as connection:
            connection.execute(f"UPDATE dpcov_ledger.ledger_format SET {change}")
        with pytest.raises(LedgerError, match=words):
            Ledger(url).datasets()


def test_a_missing_driver_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError, match=r"dpcov\[postgres\]"):
        Ledger("postgresql://custodian@host/books")


@pytest.mark.parametrize("place", ["mysql://a:secretpw@b/c", "http://x"])
def test_another_kind_of_server_is_refused(place):
    with pytest.raises(UsageError, match="postgresql://") as refused:
        Ledger(place)
    assert "secretpw" not in str(refused.value)


def test_a_reader_without_the_right_to_write_spends_nothing(url):
    name = f"reader_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'readerpw'")
        connection.execute(f"GRANT USAGE ON SCHEMA dpcov_ledger TO {name}")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA dpcov_ledger TO {name}")
        reader = f"postgresql://{name}:readerpw@{url.partition('@')[2]}"
        try:
            assert Ledger(reader).remaining("patients").spent == {"rho": 0}
            assert Ledger(reader).verify().problems == ()
            with pytest.raises(LedgerError, match="cannot be written"):
                Ledger(reader).reserve("patients", SPEND, RELATION)
        finally:
            connection.execute(f"DROP OWNED BY {name}")
            connection.execute(f"DROP ROLE {name}")
    assert Ledger(url).entries("patients") == ()


def test_a_held_lock_is_explained(url, monkeypatch):
    monkeypatch.setattr(ledger_store, "LOCK_WAIT_SECONDS", 0.1)
    with psycopg.connect(url) as holder:
        holder.execute("SELECT * FROM dpcov_ledger.trail_head FOR UPDATE")
        with pytest.raises(LedgerError, match="Another process"):
            Ledger(url).reserve("patients", SPEND, RELATION)
        assert Ledger(url).remaining("patients").spent == {"rho": 0}
    Ledger(url).reserve("patients", SPEND, RELATION)
