"""Self-contained HTML pages: all figures with their checked claims, and the leaderboard."""

from collections import Counter
from dataclasses import dataclass
from html import escape

import numpy as np

from benchmarks.papers.figure import Claim, FigureResult, Verdict
from benchmarks.papers.leaderboard import Board

_STYLE = """
:root { color-scheme: light; --line: #ddd; --text: #1b1b1b; --soft: #5c5c5c; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text);
       max-width: 76rem; margin: 0 auto; padding: 1rem; }
h1, h2 { line-height: 1.2; }
h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1.5rem; }
.soft { color: var(--soft); font-size: .9rem; } .figure svg { width: 100%; height: auto; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: left;
         vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.status { font-weight: 600; white-space: nowrap; }
.confirmed { color: #15692f; } .failed { color: #a3161f; }
.unchecked { color: #6b5900; } details { margin: .5rem 0; } table.claims { width: 100%; }
table.claims td:nth-child(2) { width: 32%; min-width: 16rem; } tr.sum td { font-weight: 600; }
"""
_MARKS = {"confirmed": "✓ confirmed", "failed": "✗ failed", "not checked": "○ not checked"}
_CLASSES = {"confirmed": "confirmed", "failed": "failed", "not checked": "unchecked"}


@dataclass(frozen=True, kw_only=True)
class Section:
    """A drawn figure with the verdicts on its claims."""

    result: FigureResult
    svg: str
    verdicts: tuple[tuple[Claim, Verdict], ...]

    @property
    def counts(self) -> Counter[str]:
        return Counter(verdict.status for _, verdict in self.verdicts)


def figures_page(sections: list[Section], facts: str, *, leaderboard: str | None = None) -> str:
    """One page with every figure; ``leaderboard`` is the address of that page, where there is
    one."""
    other = (
        f'<p>See also the <a href="{escape(leaderboard)}">leaderboard</a>.</p>'
        if leaderboard
        else ""
    )
    body = [
        "<h1>Figures of four papers, measured with dpcov</h1>",
        f'<p class="soft">{escape(facts)}</p>',
        "<p>Points are means over repetitions; bars show two standard errors. Bold curves are "
        "ours, dashed ones come "
        "from theorems or published code. Below each figure: what the paper claims, and whether "
        "it holds here.</p>",
        other,
        _overview(sections),
        *(_section(section) for section in sections),
    ]
    return page("Figures of four papers", "\n".join(body))


def leaderboard_page(boards: dict[str, Board], facts: str, skipped: tuple[str, ...]) -> str:
    """One table per budget."""
    body = [
        "<h1>Leaderboard</h1>",
        f'<p class="soft">{escape(facts)}</p>',
        "<p>Mean Frobenius error of every registered mechanism with its default options, divided "
        "by that of the best "
        "one on the same table; the mean is geometric, over the tables that it has entries for. "
        "A mechanism without a guarantee of the kind has no row.</p>",
        *(f"<h2>{escape(name)}</h2>{_board(board)}" for name, board in boards.items()),
        _skipped(skipped),
    ]
    return page("Leaderboard", "\n".join(body))


def _overview(sections: list[Section]) -> str:
    rows = "".join(
        f'<tr><td><a href="#{escape(s.result.figure.name)}">{escape(s.result.figure.name)}</a></td>'
        f"<td>{escape(s.result.figure.title)}</td>"
        + "".join(
            f'<td class="number '
            f'{_CLASSES[status] if s.counts[status] else ""}">{s.counts[status]}</td>'
            for status in _MARKS
        )
        + "</tr>"
        for s in sections
    )
    heads = "".join(f'<th class="number">{status}</th>' for status in _MARKS)
    counts = sum((section.counts for section in sections), Counter())
    sums = "".join(f'<td class="number">{counts[status]}</td>' for status in _MARKS)
    return (
        f'<div class="scroll"><table><tr><th>figure</th><th></th>{heads}</tr>{rows}'
        f'<tr class="sum"><td></td><td>all claims</td>{sums}</tr></table></div>'
    )


def _section(section: Section) -> str:
    figure = section.result.figure
    claims = "".join(_claim(claim, verdict) for claim, verdict in section.verdicts)
    notes = "".join(f"<li>{escape(note)}</li>" for note in figure.notes)
    repeated = f"{figure.repetitions} repetitions" if figure.repetitions else "nothing to measure"
    return (
        f'<section><h2 id="{escape(figure.name)}">{escape(figure.name)}: '
        f"{escape(figure.title)}</h2>"
        f'<p class="soft">{escape(figure.source)} · {repeated}</p>'
        f'<div class="figure">{section.svg}</div><ul class="soft">{notes}</ul>'
        '<div class="scroll"><table '
        'class="claims"><tr><th>verdict</th><th>claim</th><th>measured</th></tr>'
        f"{claims}</table></div>"
        f"{_skipped(section.result.skipped)}</section>"
    )


def _claim(claim: Claim, verdict: Verdict) -> str:
    return (
        f'<tr><td class="status {_CLASSES[verdict.status]}">{_MARKS[verdict.status]}</td>'
        f'<td>{escape(claim.text)} <span class="soft">({escape(claim.source)})</span></td>'
        f"<td>{escape(verdict.reason)}</td></tr>"
    )


def _skipped(lines: tuple[str, ...]) -> str:
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return (
        f'<details class="soft"><summary>{len(lines)} skipped</summary><ul>{items}</ul></details>'
    )


def _board(board: Board) -> str:
    heads = "".join(f'<th class="number">{escape(name)}</th>' for name in board.tables)
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="number"><b>{score:.2f}</b></td>'
        + "".join(_cell(value) for value in relative)
        + "</tr>"
        for name, relative, score in zip(board.mechanisms, board.relative, board.score, strict=True)
    )
    best = "".join(f'<td class="number soft">{value:.3g}</td>' for value in board.best)
    return (
        f'<div class="scroll"><table><tr><th>mechanism</th><th '
        f'class="number">mean</th>{heads}</tr>{rows}'
        f'<tr><td class="soft">error of the best</td><td></td>{best}</tr></table></div>'
    )


def _cell(value: float) -> str:
    """Green at 1, fading to white at a factor of ten."""
    if np.isnan(value):
        return '<td class="number soft">–</td>'
    share = max(0.0, 1 - np.log10(value))
    text = f"{value:.2f}" if value < 100 else f"{value:.0f}"
    return f'<td class="number" style="background: rgb(46 160 90 / {0.45 * share:.2f})">{text}</td>'


def page(title: str, body: str) -> str:
    """A document without anything to load."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, '
        f'initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body>{body}</body></html>"
    )
