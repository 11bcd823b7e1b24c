"""Tables of the pages, written from the committed files of results in docs/measured.

Run: python -m benchmarks.measured [--store NAME.csv ...]

A table stands in a page between ``<!-- NAME.csv -->`` and ``<!-- end -->``; its first line is the
head.  ``--store`` reads what a benchmark prints, and writes its tables to these files, in order:

    python -m benchmarks.analysis.tails | python -m benchmarks.measured --store inference-tails.csv

Benchmarks whose pages need more than a file as it is have modules of their own, with ``filled``.
"""

import argparse
import csv
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = DOCS / "measured"
MARK = re.compile(r"<!-- ([\w-]+\.csv) -->\n")


def filled(page: str, blocks: Mapping[str, str]) -> str:
    """The page with its blocks written anew."""
    for name, text in blocks.items():
        pattern = rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)"
        page, count = re.subn(
            pattern, lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page, flags=re.DOTALL
        )
        if count != 1:
            raise SystemExit(f"The page needs one block {name!r} instead of {count}.")
    return page


def row(cells: Iterable[str]) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def heading(names: Sequence[str]) -> str:
    """The two lines with which a Markdown table begins."""
    return f"{row(names)}\n{row(['---'] * len(names))}"


def table(lines: Iterable[Sequence[str]]) -> str:
    """Markdown of a head and its rows."""
    head, *rows = lines
    return "\n".join([heading(head), *map(row, rows)])


def results(name: str) -> list[list[str]]:
    """The lines of a file, as texts."""
    with (RESULTS / name).open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def tables(printed: str) -> list[list[list[str]]]:
    """The lines of every Markdown table in a text."""
    found = re.findall(r"^(\|.*\n)\|[ |:-]+\n((?:\|.*\n?)*)", printed, re.MULTILINE)
    return [[_cells(line) for line in (head + rows).splitlines()] for head, rows in found]


def _cells(line: str) -> list[str]:
    inside = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in inside.split("|")]


def store(name: str, lines: Iterable[Sequence[str]]) -> None:
    """Write a file of results."""
    with (RESULTS / name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows with the same keys, if there are any."""
    if not rows:
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def shown(page: str) -> list[str]:
    """Files whose tables stand in a page."""
    return MARK.findall(page)


def written(page: str) -> str:
    """The page as its files say."""
    return filled(page, {name: table(results(name)) for name in shown(page)})


def main() -> None:
    """Write the tables of all pages anew."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--store", nargs="+", default=[], metavar="NAME.csv")
    if names := parser.parse_args().store:
        for name, lines in zip(names, tables(sys.stdin.read()), strict=False):
            store(name, lines)
    for path in sorted(DOCS.rglob("*.md")):
        old = path.read_text(encoding="utf-8")
        if (new := written(old)) != old:
            path.write_text(new, encoding="utf-8")
            print(path.relative_to(DOCS))


if __name__ == "__main__":
    main()
