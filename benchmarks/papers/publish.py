"""Keep full runs of figures with the documentation: curves, verdicts, drawings, and the page.

    python -m benchmarks.papers.publish DIR [DIR ...] [--quick]

DIR is what ``python -m benchmarks.papers FIGURE --out DIR`` has written; ``--quick`` says that it
was a quick run.  Figures that were kept before stay, unless a DIR holds them; a quick run never
takes the place of a full one.  Without DIR the page alone is written anew.
"""

import argparse
import shutil
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from benchmarks.gallery import FIGURES
from benchmarks.measured import filled, table
from benchmarks.papers.catalog import FIGURES as CATALOG

DOCS = FIGURES.parent
CURVES = DOCS / "measured" / "papers-curves.csv"
CLAIMS = DOCS / "measured" / "papers-claims.csv"
DRAWINGS = DOCS / "measured" / "papers"
PAGE = DOCS / "measured" / "papers.md"
POINT = ["figure", "panel", "curve", "metric", "x"]
VERDICTS = {"confirmed": "confirmed", "failed": "failed", "not measured": "not checked"}
DIGITS = 5
FULL, QUICK = "full", "quick"
OWN = "this project"
"""The source of claims that no paper makes."""
REPETITIONS = 50
"""Of the papers."""


def curves_of(results: pd.DataFrame) -> pd.DataFrame:
    """Mean, standard error, repetitions and processor seconds of every point."""
    grouped = results.groupby(POINT, sort=False)
    found = grouped.agg(
        mean=("value", "mean"),
        standard_error=("value", "sem"),
        repetitions=("value", "size"),
        seconds=("seconds", "mean"),
    )
    return found.fillna(0.0).reset_index()


def keep(folders: Iterable[Path], run: str) -> None:
    """Take over what finished runs wrote."""
    for folder in folders:
        curves = curves_of(pd.read_parquet(folder / "results.parquet"))
        claims = pd.read_csv(folder / "claims.csv").assign(run=run)
        if run == QUICK and CLAIMS.exists():
            known = pd.read_csv(CLAIMS)
            full = set(known.loc[known["run"] == FULL, "figure"])
            curves, claims = (x[~x["figure"].isin(full)] for x in (curves, claims))
        _replace(CURVES, curves)
        _replace(CLAIMS, claims)
        DRAWINGS.mkdir(parents=True, exist_ok=True)
        for name in curves["figure"].unique():
            shutil.copyfile(folder / f"{name}.svg", DRAWINGS / f"{name}.svg")


def _replace(path: Path, new: pd.DataFrame) -> None:
    if path.exists():
        old = pd.read_csv(path)
        new = pd.concat([old[~old["figure"].isin(set(new["figure"]))], new])
    order = {name: place for place, name in enumerate(CATALOG)}
    new = new.sort_values("figure", key=lambda names: names.map(order), kind="stable")
    new.to_csv(path, index=False, float_format=f"%.{DIGITS}g")


def blocks(curves: pd.DataFrame, claims: pd.DataFrame) -> dict[str, str]:
    """What stands between the markers of the page; claims that hold are in the file alone."""
    lists = {name: claims[claims["verdict"] == word] for name, word in VERDICTS.items()}
    return {
        "summary": _summary(curves, lists),
        "figures": _figures(curves, claims),
        "failed": _failed(lists["failed"]),
        "not measured": _unmeasured(lists["not measured"]),
    }


def _summary(curves: pd.DataFrame, lists: dict[str, pd.DataFrame]) -> str:
    """How much was measured, in two sentences."""
    least = curves.groupby("figure")["repetitions"].min()
    whole = least.index[least >= REPETITIONS]
    held, failed, left = (len(found) for found in lists.values())
    many = "all" if len(whole) == len(least) else len(whole)
    own = sum((found["source"] == OWN).sum() for found in lists.values())
    return (
        f"**{len(least)} figures** were measured, **{many} of them with {REPETITIONS} "
        f"repetitions** at every point. Of {held + failed + left} claims **{held} held**, "
        f"**{failed} failed**, and **{left} could not be measured**; {own} of them are this "
        f"project's own."
    )


def _figures(curves: pd.DataFrame, claims: pd.DataFrame) -> str:
    lines = [["figure", "points", "repetitions", *VERDICTS]]
    for name in CATALOG:
        found, verdicts = curves[curves["figure"] == name], claims[claims["figure"] == name]
        if found.empty:
            continue
        counts = [(verdicts["verdict"] == word).sum() for word in VERDICTS.values()]
        quick = ", fewer points" if verdicts["run"].iloc[0] == QUICK else ""
        link, points = f"[{name}](papers/{name}.svg)", f"{len(found)}{quick}"
        lines.append([link, points, _repetitions(found), *map(str, counts)])
    return table(lines)


def _repetitions(found: pd.DataFrame) -> str:
    """Usually one number; else also at how many points there are fewer."""
    numbers = found["repetitions"]
    most, least = numbers.max(), numbers.min()
    if most == least:
        return str(most)
    return f"{most} at {(numbers == most).sum()} points, {least} or more at the others"


def _failed(found: pd.DataFrame) -> str:
    """Claims by the reason why they fail, each once, with the first part of what was measured."""
    lines, above = [], ""
    for why, claims in found.fillna("").groupby("why", sort=False):
        figures = ", ".join(claims["figure"].unique())
        lines += ["", f"**{figures}**", ""] if figures != above else [""]
        above = figures
        for claim in claims.drop_duplicates("claim").itertuples():
            measured = claim.reason.partition("; ")[0]
            lines.append(f"* {_plain(claim.claim)} ({claim.source})<br>{_plain(measured)}.")
        lines += ["", f"*{_plain(why)}.*"] if why else []
    return "\n".join(lines).strip() or "None."


def _unmeasured(found: pd.DataFrame) -> str:
    """Claims with the reason why draws cannot show them."""
    lines = [
        f"* **{claim.figure}**: {_plain(claim.claim)} ({claim.source})<br>{_plain(claim.reason)}."
        for claim in found.itertuples()
    ]
    return "\n".join(lines) or "None."


def _plain(text: str) -> str:
    """Text whose stars and bars mean themselves."""
    return text.replace("*", "\\*").replace("|", "\\|")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="DIR")
    parser.add_argument("--quick", action="store_true", help="the runs were quick ones")
    chosen = parser.parse_args(arguments)
    keep(chosen.folders, QUICK if chosen.quick else FULL)
    page = PAGE.read_text(encoding="utf-8")
    found = blocks(pd.read_csv(CURVES), pd.read_csv(CLAIMS))
    PAGE.write_text(filled(page, found), encoding="utf-8")


if __name__ == "__main__":
    main()
