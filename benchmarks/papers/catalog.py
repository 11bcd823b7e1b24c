"""Every figure by the name it has on the command line."""

from collections.abc import Callable

from benchmarks.papers.figure import Effort, Figure
from benchmarks.papers.figures.amin import amin1, amin_regression
from benchmarks.papers.figures.amin_text import amin_text
from benchmarks.papers.figures.dong import dong2, dong3
from benchmarks.papers.figures.dong_bounds import dong1
from benchmarks.papers.figures.dong_digits import dong4, dong6
from benchmarks.papers.figures.dong_news import dong5
from benchmarks.papers.figures.dong_pure import dong7, dong8
from benchmarks.papers.figures.dong_text import dong_text
from benchmarks.papers.figures.dorsi import dorsi
from benchmarks.papers.figures.wang import wang1, wang_rate
from benchmarks.papers.leaderboard import leaderboard

FIGURES: dict[str, Callable[[Effort], Figure]] = {
    "dong1": dong1,
    "dong2": dong2,
    "dong3": dong3,
    "dong4": dong4,
    "dong5": dong5,
    "dong6": dong6,
    "dong7": dong7,
    "dong8": dong8,
    "dong-text": dong_text,
    "wang1": wang1,
    "wang-rate": wang_rate,
    "amin1": amin1,
    "amin-regression": amin_regression,
    "amin-text": amin_text,
    "dorsi": dorsi,
    "leaderboard": leaderboard,
}
