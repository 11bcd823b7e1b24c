"""Error of combined releases, of united sites, and of groups that are estimated together.

Run: python -m benchmarks.analyst.several [--quick] [--data DIR] [--repetitions N] [--out FILE]
                                            [--only KIND ...]
     python -m benchmarks.analyst.several --page

Of a FILE that is there, the lines that are measured again are replaced.

Rows of the result: what was compared, a table, the budgets, and the root mean square error of a
correlation: of what is compared with (one release at the whole budget; every group alone), and of
what is new.  For groups also against the population, from rows that were not released: the mean
squared error there, less the sampling variance of those rows, which a bootstrap tells.  "all rows"
has what the correlations of all rows, without noise, would be as estimates of every group's.  For
intervals: the share that is promised, and the share of them that held the truth.
"""

import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields, replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import gmean

import dpcov
from benchmarks.analyst.measure import Correlations
from benchmarks.analyst.page import DOCS
from benchmarks.analyst.tables import ADULT, NHANES, PUBLIC, Table, made
from benchmarks.data import MissingTable, data_directory
from benchmarks.measured import filled
from benchmarks.measured import table as markdown
from benchmarks.options import asked
from dpcov import Budget, Categorical, Numeric, Schema, SeededEntropy
from dpcov.errors import ReleaseError

LINES, PAGE = DOCS / "measured" / "several.csv", DOCS / "measured" / "several.md"
TOP_UPS = ((0.02, 0.02), (0.1, 0.1), (0.02, 0.18))
# How the second release finds its geometry; "planned" shares one of a survey for the whole budget.
WAYS = ("planned", "first's", "own")
# What the page advises: a second release that is much larger finds its own.
MUCH_LARGER = 4
SURVEY = 0.1
KINDS = ("top-ups", "sites", "groups", "held", "nested")
# Parts of the rows that five sites have, and how all but the largest find their geometry.
SITES, FOUND = (0.4, 0.3, 0.15, 0.1, 0.05), ("largest's", "surveyed", "own")
RHOS = (0.02, 0.1)
# By how much groups differ in trials of intervals, what is missing, and where the data are then.
APART, MISSING, FAR, WITHIN = (0.0, 0.1, 0.3, 1.0), (0.0, 0.15), 20.0, 1.96
# A group needs as many rows on either side to be scored, and so many bootstrap samples.
LEAST_ROWS, BOOTSTRAP = 20, 40


@dataclass(frozen=True)
class Line:
    """One line of the result."""

    what: str
    table: str
    budgets: str
    truth: str
    before: float
    now: float


@dataclass(frozen=True)
class Grouped:
    """Rows with a column of groups, and the bounds of the others."""

    name: str
    frame: pd.DataFrame
    bounds: dict[str, tuple[float, float]]
    by: str

    @property
    def schema(self) -> Schema:
        """The columns as somebody types them."""
        columns = {
            name: Numeric(lower=low, upper=high) for name, (low, high) in self.bounds.items()
        }
        labels = tuple(sorted(self.frame[self.by].unique()))
        return Schema(columns={**columns, self.by: Categorical(categories=labels)})


def regions(name: str, seed: int, differ: float, count: int = 50, rows: int = 300) -> Grouped:
    """Made-up regions; factors and means differ by so much of what they have in common."""
    return populations(name, seed, differ, count, rows)[0]


def populations(
    name: str, seed: int, differ: float, count: int, rows: int
) -> tuple[Grouped, list[tuple[np.ndarray, np.ndarray]]]:
    """The same, with the true mean and covariance of every region."""
    rng, p = np.random.default_rng(seed), 8
    common, parts, truth = rng.normal(size=(p, 3)), [], []
    for _ in range(count):
        own, mean = common + differ * rng.normal(size=(p, 3)), 2 * differ * rng.normal(size=p)
        parts.append(rng.normal(size=(rows, 3)) @ own.T + rng.normal(size=(rows, p)) + mean)
        truth.append((mean, own @ own.T + np.eye(p)))
    names = [f"x{i}" for i in range(p)]
    frame = pd.DataFrame(np.vstack(parts), columns=names)
    frame["region"] = [f"r{g:02d}" for g in range(count) for _ in range(rows)]
    return Grouped(name, frame, dict.fromkeys(names, (-40.0, 40.0)), "region"), truth


def grouped(directory: Path) -> Iterator[Grouped]:
    """Public tables by a column, and made-up regions."""
    bounds = {key: tuple(map(float, pair)) for key, pair in ADULT.items()}
    people = PUBLIC["adult-full"](directory).frame
    for by in ("occupation", "native-country"):
        yield Grouped(f"adult by {by}", people[[*bounds, by]], bounds, by)
    patients = PUBLIC["nhanes"](directory).frame
    bounds = {key: tuple(map(float, pair)) for key, pair in NHANES.items()}
    del bounds["race"]
    ages = pd.cut(patients["age"], [0, 30, 40, 50, 60, 70, 200], right=False).astype(str)
    yield Grouped("nhanes by age", patients.assign(ages=ages), bounds, "ages")
    races = patients.drop(columns="race").assign(races=patients["race"].map("r{:.0f}".format))
    yield Grouped("nhanes by race", races, bounds, "races")
    yield regions("regions alike", 1, 0.0)
    yield regions("regions", 0, 0.3)
    yield regions("regions apart", 2, 1.0)


def found_by(release: dpcov.Release) -> object:
    """Its geometry: that of the bounds where it had too few rows to find one."""
    return "schema" if release.features[0].lower is None else release


def top_up(table: Table, first: float, second: float, seeds: range) -> Iterator[Line]:
    """Two releases together against one."""
    truth, schema, rows = Correlations(table), table.schema(), table.frame
    found: dict[str, list[float]] = {}

    def error(release: dpcov.Release) -> float:
        return truth.errors(release.correlation_matrix())["rms"] ** 2

    def draw(rho: float, seed: int, geometry: object) -> dpcov.Release:
        return dpcov.release(
            rows,
            schema=schema,
            budget=Budget(rho=f"{rho:g}"),
            geometry=geometry,
            entropy=SeededEntropy(seed),
        )

    whole = first + second
    for seed in (4 * each for each in seeds):
        one, both = draw(first, seed, "private"), draw(whole, seed + 1, "private")
        survey = dpcov.survey(
            rows,
            schema=schema,
            budget=Budget(rho=f"{SURVEY * whole:g}"),
            coming=Budget(rho=f"{whole:g}"),
            entropy=SeededEntropy(seed + 2),
        )
        left = 1 - SURVEY
        planned = [draw(rho * left, seed + k, survey) for k, rho in enumerate((first, second))]
        made = {
            "planned": planned[0].combine(planned[1]),
            "planned, one": draw(whole * left, seed + 3, survey),
            "one": both,
            "first's": one.combine(draw(second, seed + 2, found_by(one))),
            "own": one.combine(draw(second, seed + 3, "private")),
        }
        for name, release in made.items():
            found.setdefault(name, []).append(error(release))
    size = {name: float(np.sqrt(np.mean(squares))) for name, squares in found.items()}
    for way in WAYS:
        one_release = size["planned, one" if way == "planned" else "one"]
        budgets = f"{first:g} + {second:g}"
        yield Line(f"top-up, {way}", table.name, budgets, "table", one_release, size[way])


def sites(table: Table, rho: float, seeds: range) -> Iterator[Line]:
    """United releases of five sites, and that of the largest, against one of all rows."""
    truth, schema = Correlations(table), table.schema()
    rows = table.frame.sample(frac=1, random_state=0)
    ends = np.cumsum([0, *(np.array(SITES) * len(rows)).astype(int)])
    parts = [rows.iloc[start:end] for start, end in pairwise(ends)]
    found: dict[str, list[float]] = {}

    def draw(part: pd.DataFrame, seed: int, geometry: object, share: float = 1) -> dpcov.Release:
        budget = Budget(rho=f"{share * rho:g}")
        entropy = SeededEntropy(seed)
        return dpcov.release(part, schema=schema, budget=budget, geometry=geometry, entropy=entropy)

    for seed in (100 * each for each in seeds):
        own = [draw(part, seed + k, "private") for k, part in enumerate(parts)]
        survey = dpcov.survey(
            parts[0],
            schema=schema,
            budget=Budget(rho=f"{SURVEY * rho:g}"),
            coming=Budget(rho=f"{rho:g}"),
            entropy=SeededEntropy(seed + 10),
        )
        surveyed = [draw(parts[0], seed + 20, survey, 1 - SURVEY)]
        surveyed += [draw(part, seed + 21 + k, survey) for k, part in enumerate(parts[1:])]
        first = found_by(own[0])
        in_largest = [draw(part, seed + 30 + k, first) for k, part in enumerate(parts[1:])]
        made = {
            "largest's": own[0].unite(*in_largest),
            "surveyed": surveyed[0].unite(*surveyed[1:]),
            "own": own[0].unite(*own[1:]),
            "alone": own[0],
            "one": draw(rows, seed + 40, "private"),
        }
        for name, release in made.items():
            error = truth.errors(release.correlation_matrix())["rms"] ** 2
            found.setdefault(name, []).append(error)
    size = {name: float(np.sqrt(np.mean(squares))) for name, squares in found.items()}
    for way in (*FOUND, "alone"):
        yield Line(f"sites, {way}", table.name, f"{rho:g}", "table", size["one"], size[way])


def groups(table: Grouped, rho: float, seeds: range) -> Iterator[Line]:
    """Groups together against groups alone."""
    squares: dict[str, list[tuple[float, ...]]] = {"table": [], "population": []}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        released = rng.random(len(table.frame)) < 0.5
        half = replace(table, frame=table.frame[released])
        release, typed = (_by(half, rho, seed, geometry) for geometry in ("private", "schema"))
        whole = table.frame.loc[released, list(table.bounds)].to_numpy()
        for place, name in enumerate(release.pooled.names):
            together = release.pooled.correlations[place]
            alone = _alone(release, name), _alone(typed, name)
            estimates = *alone, together, np.corrcoef(whole.T)
            for truth, kept in (("table", released), ("population", ~released)):
                rows = table.frame[kept & (table.frame[table.by] == name)][list(table.bounds)]
                if len(rows) >= LEAST_ROWS:
                    noise = rng if truth == "population" else None
                    squares[truth].append(_squares(estimates, rows.to_numpy(), noise))
    for truth, pairs in squares.items():
        errors = np.sqrt(np.maximum(np.mean(pairs, axis=0), 0.0)).tolist()
        before, in_bounds, now, exact = errors
        yield Line("groups", table.name, f"{rho:g}", truth, before, now)
        yield Line("in bounds", table.name, f"{rho:g}", truth, in_bounds, now)
        # What all rows have, without noise, for every group.
        yield Line("all rows", table.name, f"{rho:g}", truth, before, exact)


def nested(differ: float, rho: float, seeds: range) -> Iterator[Line]:
    """Sixteen regions in four states, each level alone against both that add up."""
    squares: dict[str, list[list[float]]] = {"regions": [], "states": []}
    for seed in seeds:
        table = regions("", seed, differ, 16, 600)
        names, labels = list(table.bounds), sorted(table.frame[table.by].unique())
        inside = {label: f"s{place // 4}" for place, label in enumerate(labels)}
        table.frame["state"] = table.frame[table.by].map(inside)
        above = _by(replace(table, by="state"), rho, 2 * seed, "private")
        below = _by(table, rho, 2 * seed + 1, above)
        found = below.nest(above, inside)
        for level, together, before, by in zip(
            squares, found, (below, above), (table.by, "state"), strict=True
        ):
            for name, rows in table.frame.groupby(by):
                pair = _alone(before, name), together[name].correlation_matrix()
                squares[level].append(list(_squares(pair, rows[names].to_numpy(), None)))
    for level, pairs in squares.items():
        before, now = np.sqrt(np.mean(pairs, axis=0)).tolist()
        yield Line(f"nested, {level}", f"differ by {differ:g}", f"{rho:g}", "table", before, now)


def _by(table: Grouped, rho: float, seed: int, geometry: object) -> dpcov.Release:
    columns = [*table.bounds, table.by]
    return dpcov.release(
        table.frame[columns],
        schema=table.schema,
        budget=Budget(rho=f"{rho:g}"),
        by=table.by,
        geometry=geometry,
        entropy=SeededEntropy(seed),
    )


def held(differ: float, missing: float, rho: float, seeds: range) -> Iterator[Line]:
    """How many 95 % intervals of means and correlations of 16 regions hold the truth.

    ``missing`` is the share of values that are; then bounds are far from the data, too.
    """
    found: dict[str, list[np.ndarray]] = {"means": [], "correlations": []}
    for seed in seeds:
        table, truth = populations("", seed, differ, 16, 300)
        names, shift = list(table.bounds), FAR * (missing > 0)
        table.frame[names] += shift
        gone = np.random.default_rng(seed).random((len(table.frame), len(names))) < missing
        table.frame[names] = table.frame[names].mask(gone)
        pooled = _by(table, rho, seed, "private").pooled
        pairs = np.triu_indices(len(names), 1)
        for place, name in enumerate(sorted(table.frame[table.by].unique())):
            own, (mean, covariance) = pooled.names.index(name), truth[place]
            spread = np.sqrt(np.diagonal(covariance))
            apart = pooled.means[own] - mean - shift
            found["means"].append(np.abs(apart) < WITHIN * pooled.mean_std[own])
            apart = (pooled.correlations[own] - covariance / np.outer(spread, spread))[pairs]
            said = pooled.correlation_std[own][pairs]
            found["correlations"].append(np.abs(apart) < WITHIN * said)
    words = f"regions differ by {differ:g}" + f", {missing:.0%} missing" * (missing > 0)
    for what, each in found.items():
        yield Line(f"held, {what}", words, f"{rho:g}", "population", 0.95, float(np.mean(each)))


def _alone(release: dpcov.Release, name: str) -> np.ndarray:
    try:
        return release.group(name).correlation_matrix()
    # The noise hides the number of rows: nothing is known.
    except ReleaseError:
        return np.eye(len(release.features))


def _squares(
    estimates: tuple[np.ndarray, ...], rows: np.ndarray, rng: np.random.Generator | None
) -> tuple[float, ...]:
    pairs = np.triu_indices(rows.shape[1], 1)
    with np.errstate(all="ignore"):
        truth, sampling = np.corrcoef(rows.T)[pairs], np.zeros(len(pairs[0]))
        if rng is not None:
            chosen = rng.integers(0, len(rows), (BOOTSTRAP, len(rows)))
            drawn = [np.corrcoef(rows[places].T)[pairs] for places in chosen]
            sampling = np.nanvar(drawn, axis=0, ddof=1)
    known = np.isfinite(truth) & np.isfinite(sampling)
    errors = [(np.nan_to_num(each[pairs]) - truth) ** 2 - sampling for each in estimates]
    return tuple(float(each[known].mean()) for each in errors)


def run(options: Namespace) -> Iterator[Line]:
    """Everything, or two small cases."""
    seeds = range(options.repetitions)
    if options.quick:
        yield from top_up(made(1, n_rows=4_000, n_columns=5), 0.1, 0.1, seeds)
        yield from sites(made(1, n_rows=20_000, n_columns=5), 0.1, seeds)
        yield from groups(regions("regions", 0, 0.3, count=6, rows=200), 0.1, seeds)
        yield from held(0.3, 0.15, 0.1, seeds)
        yield from nested(0.3, 0.1, seeds)
        return
    directory = data_directory(options.data)
    try:
        tables = [PUBLIC[name](directory) for name in ("nhanes", "credit", "adult")]
        by_group = list(grouped(directory))
        tables += [made(seed) for seed in (1, 2, 3)]
    except MissingTable as missing:
        sys.exit(str(missing))
    kinds = {
        "top-ups": (
            line
            for table in tables
            for first, second in TOP_UPS
            for line in top_up(table, first, second, seeds)
        ),
        "sites": (
            line for table, rho in product(tables, RHOS) for line in sites(table, rho, seeds)
        ),
        "groups": (
            line for each, rho in product(by_group, RHOS) for line in groups(each, rho, seeds)
        ),
        "held": (line for case in product(APART, MISSING, RHOS) for line in held(*case, seeds)),
        "nested": (line for case in product(APART[1:3], RHOS) for line in nested(*case, seeds)),
    }
    for kind in options.only:
        yield from kinds[kind]


def blocks(lines: pd.DataFrame) -> dict[str, str]:
    """What stands between the markers of the page."""
    lines = lines.assign(ratio=lines["now"] / lines["before"])
    kind = lines["what"].str.split(",").str[0]
    return {
        "top-ups": _top_ups(lines[kind == "top-up"]),
        "sites": _sites(lines[kind == "sites"]),
        "groups": _groups(*(lines[kind == name] for name in ("groups", "in bounds", "all rows"))),
        "nested": _nested(lines[kind == "nested"]),
        "held": _held(lines[kind == "held"]),
    }


def _top_ups(lines: pd.DataFrame) -> str:
    """The geometric mean over tables, and the largest ratio."""
    rows = [["ρ", *(f"{way} geometry" for way in WAYS), "as advised"]]
    wide = lines.pivot_table(index=["table", "budgets"], columns="what", values="ratio", sort=False)
    wide = wide[[f"top-up, {way}" for way in WAYS]]
    first, second = (
        np.array([float(budgets.split(" + ")[i]) for _, budgets in wide.index]) for i in (0, 1)
    )
    own = second > MUCH_LARGER * first
    wide["advised"] = np.where(own, wide["top-up, own"], wide["top-up, first's"])
    for budgets, found in wide.groupby("budgets", sort=False):
        cells = (f"{gmean(found[what]):.2f} ({found[what].max():.2f})" for what in found)
        rows.append([budgets, *cells])
    return markdown(rows)


def _sites(lines: pd.DataFrame) -> str:
    rows = [["ρ", *(f"{way} geometry" for way in FOUND), "largest site alone"]]
    for rho, found in lines.groupby("budgets", sort=False):
        ratios = found.groupby("what", sort=False)["ratio"]
        rows.append([rho, *(f"{gmean(each):.2f} ({each.max():.2f})" for _, each in ratios)])
    return markdown(rows)


def _groups(lines: pd.DataFrame, in_bounds: pd.DataFrame, exact: pd.DataFrame) -> str:
    """Errors together over those alone, in a private geometry and in that of the bounds."""
    head = ["rows", "rows, of bounds", "population", "population, of bounds"]
    rows = [["table", "ρ", *head]]
    typed = in_bounds.set_index(["table", "budgets", "truth"])
    for (table, rho), found in lines.groupby(["table", "budgets"], sort=False):
        cells = []
        for truth in ("table", "population"):
            line, far = found.set_index("truth").loc[truth], typed.loc[(table, rho, truth)]
            cells += [f"**{line.ratio:.2f}**", f"{far.ratio:.2f}"]
        rows.append([table, rho if isinstance(rho, str) else f"{rho:g}", *cells])
    means, cells, known = [], [], exact[exact["ratio"] > 0]
    for truth in ("table", "population"):
        each = (found[found["truth"] == truth]["ratio"] for found in (lines, in_bounds))
        means += [f"**{gmean(ratios):.2f}**" for ratios in each]
        # Nothing is left of regions that are alike against the population.
        cells += [f"{gmean(known[known['truth'] == truth]['ratio']):.2f}", ""]
    rows.append(["**geometric mean**", "", *means])
    rows.append(["all rows, without noise", "", *cells])
    return markdown(rows)


def _nested(lines: pd.DataFrame) -> str:
    rows = [["regions", "ρ", "level", "alone", "adding up", "ratio"]]
    for line in lines.itertuples():
        rho = line.budgets if isinstance(line.budgets, str) else f"{line.budgets:g}"
        sizes = f"{line.before:.3f}", f"{line.now:.3f}", f"**{line.ratio:.2f}**"
        rows.append([line.table, rho, line.what.removeprefix("nested, "), *sizes])
    return markdown(rows)


def _held(lines: pd.DataFrame) -> str:
    """The least and the largest share over budgets."""
    rows = [["groups", "means", "correlations"]]
    for table, found in lines.groupby("table", sort=False):
        shares = found.groupby("what")["now"].agg(["min", "max"])
        ends = (shares.loc[f"held, {what}"] for what in ("means", "correlations"))
        shown = (dict.fromkeys(f"{100 * end:.0f} %" for end in pair) for pair in ends)
        rows.append([table, *map(" to ".join, shown)])
    return markdown(rows)


def main() -> None:
    """Print lines, and write them as CSV where a file is named; or write the page anew."""
    options = asked(
        __doc__, quick=False, page=False, data=Path, repetitions=10, only=KINDS, out=Path
    )
    warnings.simplefilter("ignore")
    if options.page:
        text, lines = PAGE.read_text(encoding="utf-8"), pd.read_csv(LINES)
        PAGE.write_text(filled(text, blocks(lines)), encoding="utf-8")
        return
    found = []
    for line in run(options):
        print(line, flush=True)
        found.append(astuple(line))
    if options.out is not None:
        made_now = pd.DataFrame(found, columns=[field.name for field in fields(Line)])
        if options.out.exists():
            made_now = pd.concat([made_now, pd.read_csv(options.out, dtype={"budgets": str})])
            made_now = made_now.drop_duplicates(["what", "table", "budgets", "truth"])
        made_now.to_csv(options.out, index=False)


if __name__ == "__main__":
    main()
