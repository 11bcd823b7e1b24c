"""Results of SQL: DuckDB with every type, SQLite with cells of any type, damaged databases."""

import functools
import sqlite3
from contextlib import closing

from dpcov.data.sources import Query
from tests.fuzz.contract import TEXT_SENTINEL
from tests.fuzz.mutate import TEXTS, mutate_bytes, words
from tests.fuzz.tables import read_all

_VALUES = (
    *words(
        "1 -1 0 NULL true 1.5 'x' 31337.25 1e308 1e308::FLOAT 'nan'::DOUBLE 'inf'::DOUBLE [] ''"
    ),
    *words("'-inf'::FLOAT 127::TINYINT 255::UTINYINT 9223372036854775807 1::BIGNUM 1/0 uuid()"),
    *words("now() 'abc'::BLOB '101'::BIT [[NULL]] NULL::INTEGER chr(0) random()"),
    *("170141183460469231731687303715884105727::HUGEINT", "12.34::DECIMAL(38, 2)", "1 % 0"),
    *("1::DECIMAL(4, 1)", "DATE '2020-01-01'", "TIMESTAMP 'infinity'", "TIME '12:34:56'"),
    *("INTERVAL 3 MONTH", "TIMESTAMPTZ 'epoch'", "[1, 2]", "{'a': 1}", "MAP {'k': 4711}"),
    *("'F'::ENUM('F', 'M')", "union_value(n := 1)", "array_value(1, 2, 3)", "repeat('4711', 3000)"),
    *(f"'{TEXT_SENTINEL}'", f"'{TEXT_SENTINEL}'::INTEGER", f"error('{TEXT_SENTINEL}')"),
    "(SELECT 1 WHERE false)",
)
_SHAPES = """
SELECT {cells}
SELECT 31 AS age, 'F' AS sex, 1 AS ill
SELECT {cells} FROM range({rows}) t(age)
WITH t AS (SELECT {cells}) SELECT * FROM t
SELECT * FROM (SELECT {cells} UNION ALL SELECT {cells})
VALUES ({values})
SELECT {cells}; SELECT 1
SELECT {cells};;
CREATE TABLE t AS SELECT {cells}
COPY (SELECT {cells}) TO 'escaped.csv'
EXPLAIN SELECT {cells}
PRAGMA version
ATTACH 'escaped.db'
INSTALL httpfs
SELECT {cells} FROM absent
SELECT
;
-- nothing
FROM range(3) SELECT {cells}
SELECT {cells} LIMIT 0
""".strip().split("\n")
_NAMES = ("age", "sex", "ill", "x0", "x1", '""', '" "', '"age "', '"a,b"', '"é"', "age", "age")


def statement(random, values):
    """Return one statement, of which few are good."""
    names = ["age", "sex", "ill"]
    if random.random() < 0.4:
        names = random.choices(_NAMES, k=random.randrange(1, 5))
    drawn = [random.choice(values) for _ in names]
    cells = ", ".join(f"{value} AS {name}" for value, name in zip(drawn, names, strict=True))
    shape = random.choice(_SHAPES[:2] if random.random() < 0.5 else _SHAPES)
    text = shape.format(cells=cells, values=", ".join(drawn), rows=random.choice((0, 1, 100)))
    if random.random() < 0.1:
        return mutate_bytes(random, text.encode()).decode("utf-8", "surrogateescape")
    return text


def run_duckdb(random, folder):
    """Read the result of a statement in DuckDB."""
    read_all(random, Query(statement(random, _VALUES), db="duckdb://"))


@functools.cache
def _databases():
    """Return SQLite files with cells whose types differ and texts that are no texts."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (age NUMERIC, sex TEXT, ill INTEGER)")
        rows = [(20 + n, "FM"[n % 2], n % 3 == 0) for n in range(40)]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        connection.commit()
        plain = connection.serialize()
        odd = [
            *((None, b"\xff\xfe", 2**62), (1e308, TEXT_SENTINEL, "x"), ("31337.25", "", b"")),
            (float("inf"), "\0", -1),
        ]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", odd)
        connection.execute("INSERT INTO t VALUES (1, CAST(x'ff' AS TEXT), 1)")
        connection.commit()
        return plain, connection.serialize()


_SQLITE_VALUES = (
    *words("age sex ill NULL 1 x'ff' 1e999 load_extension('x') zeroblob(20) randomblob(3)"),
    *("CAST(x'ff' AS TEXT)", "abs(-9223372036854775808)", "json('[')", "sum(age)", "char(0)"),
)


def run_sqlite(random, folder):
    """Read the result of a statement in a good, an odd or a damaged file."""
    content = random.choice(_databases())
    if random.random() < 0.6:
        content = mutate_bytes(random, content, _databases())
    path = folder / "in.db"
    path.write_bytes(content)
    sql = "SELECT age, sex, ill FROM t"
    if random.random() < 0.5:
        table = random.choice(("", " FROM t", " FROM sqlite_master"))
        sql = statement(random, _SQLITE_VALUES) + table
    place = str(path) if random.random() < 0.95 else str(random.choice(TEXTS)).replace("\0", "")
    read_all(random, Query(sql, db=f"sqlite:///{place}"))
