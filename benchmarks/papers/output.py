"""What a run leaves behind: tables, drawings and pages."""

import csv
from pathlib import Path

from benchmarks.papers.figure import FigureResult
from benchmarks.papers.leaderboard import boards
from benchmarks.papers.page import Section, figures_page, leaderboard_page
from benchmarks.papers.plot import draw, save
from benchmarks.papers.results import rows
from benchmarks.papers.study import Study

LEADERBOARD = "leaderboard"


def write(study: Study, directory: Path, facts: str) -> list[Section]:
    """Write everything and return the sections with their verdicts."""
    _write_tables(study, directory)
    results = [study.result(figure) for figure in study.figures]
    sections = [
        _section(result, directory) for result in results if result.figure.name != LEADERBOARD
    ]
    if sections:
        board = (
            f"{LEADERBOARD}.html"
            if LEADERBOARD in {result.figure.name for result in results}
            else None
        )
        page = figures_page(sections, facts, leaderboard=board)
        (directory / "index.html").write_text(page, encoding="utf-8")
        _write_claims(sections, directory / "claims.csv")
    for result in results:
        if result.figure.name == LEADERBOARD:
            page = leaderboard_page(boards(result), facts, result.skipped)
            (directory / f"{LEADERBOARD}.html").write_text(page, encoding="utf-8")
    return sections


def _section(result: FigureResult, directory: Path) -> Section:
    svg = save(draw(result), directory / result.figure.name)
    verdicts = tuple((claim, claim.verdict(result)) for claim in result.figure.claims)
    return Section(result=result, svg=svg, verdicts=verdicts)


def _write_tables(study: Study, directory: Path) -> None:
    """All repetitions as Parquet and CSV."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    found = [row for values in study.values.values() for row in rows(values, study.store)]
    if found:
        # Seeds may exceed what a column of integers holds.
        table = pa.Table.from_pylist([row | {"seed": str(row["seed"])} for row in found])
        parquet.write_table(table, directory / "results.parquet")
        arrow_csv.write_csv(table, directory / "results.csv")


def _write_claims(sections: list[Section], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["figure", "claim", "source", "verdict", "reason", "why"])
        for section in sections:
            for claim, verdict in section.verdicts:
                why = f". {claim.why}"
                known = claim.why if verdict.status == "failed" else ""
                writer.writerow(
                    [
                        section.result.figure.name,
                        claim.text,
                        claim.source,
                        verdict.status,
                        verdict.reason.removesuffix(why) if known else verdict.reason,
                        known,
                    ]
                )
