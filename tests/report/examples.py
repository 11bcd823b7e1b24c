"""Releases that the tests of pages share: usual ones and those that a page must survive."""

from functools import cache

import numpy as np
import pyarrow as pa

import dpcov

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


def make(
    names,
    n_rows=4000,
    *,
    title="measurements",
    epsilon="2",
    delta="1e-6",
    seed=0,
    budget=None,
    **options,
):
    """A release of made-up rows in which neighbors of ten features share a cause."""
    rng = np.random.default_rng(seed)
    d = len(names)
    causes = rng.normal(size=(n_rows, -(-d // 10)))
    rows = 0.3 * causes[:, np.arange(d) // 10] * rng.choice([1, -1], size=d, p=[0.8, 0.2])
    rows = np.clip(rows + 0.25 * rng.normal(size=(n_rows, d)), -1, 1)
    schema = dpcov.Schema(
        columns={name: dpcov.Numeric(lower=-1, upper=1) for name in names},
        title=title,
        **options.pop("schema", {}),
    )
    table = pa.table({name: rows[:, place] for place, name in enumerate(names)})
    return dpcov.release(
        table, schema=schema, budget=budget or dpcov.Budget(epsilon=epsilon, delta=delta), **options
    )


@cache
def demo():
    """The biopsies of ``dpcov demo``."""
    from dpcov.cli import demo as command

    return dpcov.release(command._biopsies(), **command.terms())


@cache
def grouped():
    """Two sites and the rest, with a name that is markup."""
    rng = np.random.default_rng(0)
    sites = rng.choice(["north", "<i>south</i>"], size=3000)
    table = pa.table({"site": sites, **{f"x{k}": rng.uniform(-1, 1, size=3000) for k in range(4)}})
    columns = {
        "site": dpcov.Categorical(categories=("north", "<i>south</i>")),
        **{f"x{k}": dpcov.Numeric(lower=-1, upper=1) for k in range(4)},
    }
    schema = dpcov.Schema(columns=columns, title="two sites")
    entropy = dpcov.SeededEntropy(0)
    return dpcov.release(
        table, schema=schema, by="site", budget=dpcov.Budget(rho=1), entropy=entropy
    )


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
