"""The papers' claims on the smallest grids, seeded; each tolerance stands in the claim itself."""

import pytest

from benchmarks.data import data_directory
from benchmarks.papers.catalog import FIGURES
from benchmarks.papers.study import measure

SMALL = (
    "dong1",
    "dong2",
    "dong3",
    "dong7",
    "dong-text",
    "wang1",
    "wang-rate",
    "amin1",
    "amin-regression",
    "amin-text",
    "dorsi",
)
BEST = "auto is nowhere worse than the best of the paper's methods (5 % for chance)"
FOLLOWS = "it follows the better of the two at a small cost (up to half more)"

# How each claim begins.
CONFIRMED = {
    "dong1": (
        "No draw exceeds its bound",
        "The two bounds cross at a number of columns that grows like n**(2/3)",
        "SeparateCov is better than the zero matrix up to a number of columns that grows like n**2",
    ),
    "dong2": (
        "GaussCov is (slightly) better for small d, SeparateCov much better for large d",
        "The error of GaussCov grows like d",
        "SeparateCov has smaller error than EMCov",
        "GaussCov, SeparateCov and AdaptiveCov have the errors of the published code",
        BEST,
    ),
    "dong3": (
        "GaussCov is not trace-sensitive: its error does not depend on N",
        "SeparateCov, AdaptiveCov and the zero matrix are trace-sensitive",
        "For the smallest trace the zero matrix is best",
        f"AdaptiveCov, published: {FOLLOWS}",
        BEST,
    ),
    "dong7": ("The error of LapCov grows like d**2", "SeparateCov always outperforms EMCov", BEST),
    "dong-text": (
        "Theorem 1 holds in every draw for any trace",
        "Theorem 3 holds in every draw with the constant 1",
        "In the introduction's example the bound falls like n**(-9/16)",
        "Appendix F: SeparateCov has the exponents",
        "The projection mechanism is not trace-sensitive",
    ),
    "wang-rate": ("The squared error stays below Theorem 2's expression",),
    "amin-text": (
        "The median number of proposals for one direction is less than d",
        "Corollary 2 with the constant 1",
    ),
    "wang1": (
        "More privacy means a larger error",
        "With a guarantee, more rows help",
        "auto is not worse than thresholding with a guarantee",
    ),
    "amin1": (
        "In the high-privacy regime (epsilon up to 0.1) AD outperforms KT, L and G-10",
        "auto is not worse than any pure method of the paper",
    ),
    "amin-regression": (
        "Lemma 1 bounds the distance of the weights in every draw",
        "Regression from AD's matrix has smaller error than output perturbation with delta",
    ),
    "dorsi": (
        "The constant 3 is large enough for p up to 2",
        "Symmetrizing Z keeps the bound for p up to 4",
        "The error grows like d**(1 + 1/p)",
        "The error falls like 1/n",
        "Algorithm 2 stays below Theorem 2's bound with constant 6",
        "auto is not worse than Algorithm 2",
    ),
}
FAILED = {
    "dong-text": ("Appendix F: on the second data set the clip n**(-7/32)",),
    "dong2": (f"AdaptiveCov, published: {FOLLOWS}",),
    "dong3": (f"AdaptiveCov, paper: {FOLLOWS}", f"AdaptiveCov, ours: {FOLLOWS}"),
    "amin1": (
        "AD outperforms the analytic Gaussian mechanism even at delta = 0.001",
        "AD outperforms the classical Gaussian mechanism even at delta = 0.001",
    ),
    "dorsi": ("Theorem 1: the error is at most 3 d**(1 + 1/p) / (epsilon n)",),
    "wang1": ("The squared error falls like 1/n (Theorem 2)",),
}


@pytest.fixture(scope="module")
def verdict_of():
    figures = {name: FIGURES[name]("test") for name in SMALL}
    results = measure(figures.values(), directory=data_directory(), seed=1)

    def found(figure, text):
        (claim,) = (each for each in figures[figure].claims if each.text.startswith(text))
        return claim, claim.verdict(results[figures[figure].name])

    return found


EXPECTED = [
    (figure, text, status)
    for status, claims in (("confirmed", CONFIRMED), ("failed", FAILED))
    for figure, texts in claims.items()
    for text in texts
]


@pytest.mark.thorough
@pytest.mark.parametrize(("figure", "text", "status"), EXPECTED)
def test_claims_hold_or_fail_with_the_reason(verdict_of, figure, text, status):
    claim, verdict = verdict_of(figure, text)
    assert verdict.status == status, verdict.reason
    assert status == "confirmed" or (claim.why and verdict.reason.endswith(claim.why))


def test_every_claim_of_the_papers_has_a_verdict_on_the_page():
    pd = pytest.importorskip("pandas")
    from benchmarks.papers.publish import CLAIMS

    kept = pd.read_csv(CLAIMS)
    declared = {
        (name, claim.text, claim.source)
        for name, run in kept[["figure", "run"]].drop_duplicates().itertuples(index=False)
        for claim in FIGURES[name](run).claims
    }
    assert set(kept[["figure", "claim", "source"]].itertuples(index=False, name=None)) == declared
    assert set(FIGURES) - set(kept["figure"]) == {"leaderboard"}
