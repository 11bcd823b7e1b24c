"""Releases that the tests of pages share: usual ones and those that a page must survive."""

from functools import cache

import numpy as np
import pyarrow as pa

import dpcov
from tests.releases import released_of

UNHELPFUL_NAMES = (
    "</script><script>window.hacked = 1</script>",
    "\"><img src=x onerror='window.hacked = 1'>",
    "' onmouseover='window.hacked = 1",
    "&lt;b&gt; &amp;",
    "very long " + "name " * 60,
    "x" * 300,
    "עברית ימין לשמאל",
    "\u202eoverride",
    "👩\u200d🔬 emoji 🧪",
    "`${window.hacked = 1}`",
    "line\u2028break",
    "__proto__",
)


def make(names, n_rows=4000, *, title="measurements", epsilon="2", budget=None, **options):
    """A release of made-up rows in which neighbors of ten features share a cause."""
    rng, d = np.random.default_rng(0), len(names)
    causes = rng.normal(size=(n_rows, -(-d // 10)))
    rows = 0.3 * causes[:, np.arange(d) // 10] * rng.choice([1, -1], size=d, p=[0.8, 0.2])
    rows = np.clip(rows + 0.25 * rng.normal(size=(n_rows, d)), -1, 1)
    columns = dict.fromkeys(names, dpcov.Numeric(lower=-1, upper=1))
    facts = {"missing": "never"} | options.pop("schema", {})
    schema = dpcov.Schema(columns=columns, title=title, **facts)
    budget = budget or dpcov.Budget(epsilon=epsilon, delta="1e-6")
    table = pa.table(dict(zip(names, rows.T, strict=True)))
    return dpcov.release(table, schema=schema, budget=budget, **options)


@cache
def demo():
    """The survey of ``dpcov demo``."""
    from dpcov.cli import demo as command

    return dpcov.release(command.answers(), **command.terms())


@cache
def grouped():
    """Two sites and the rest, with a name that is markup."""
    rng, names = np.random.default_rng(0), ("north", "<i>south</i>")
    sites, numbers = rng.choice(names, size=3000), [f"x{k}" for k in range(4)]
    table = pa.table({"site": sites, **{x: rng.uniform(-1, 1, size=3000) for x in numbers}})
    columns = dict.fromkeys(numbers, dpcov.Numeric(lower=-1, upper=1))
    columns["site"] = dpcov.Categorical(categories=names)
    return released_of(columns, table, rho=1, title="two sites", missing="never", by="site")


@cache
def unhelpful():
    """Names and a title that would break a careless page."""
    return make(UNHELPFUL_NAMES, title=UNHELPFUL_NAMES[0])


@cache
def wide(n_features, n_rows=20_000, epsilon="2"):
    """Many features."""
    names = tuple(f"sensor {k}" for k in range(n_features))
    return make(names, n_rows, title=f"{n_features} sensors", epsilon=epsilon)


def plain(n_features=5, n_rows=2000, **options):
    """A release without an intercept, names or bounds."""
    rows = np.random.default_rng(0).normal(size=(n_rows, n_features))
    return dpcov.second_moment(rows, norm_bound=4.0, **{"budget": dpcov.Budget(rho=1), **options})
