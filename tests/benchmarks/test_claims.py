"""The papers' claims on the smallest grids, seeded; each tolerance stands in the claim itself."""

import pytest

from benchmarks.data import data_directory
from benchmarks.papers.catalog import FIGURES
from benchmarks.papers.study import measure

SMALL = (
    *("dong1", "dong2", "dong3", "dong7", "dong-text", "wang1", "wang-rate"),
    *("amin1", "amin-regression", "amin-text", "dorsi"),
)
# How claims begin that come out otherwise where grids are so small, and those about time.
OTHERWISE = {
    "dong2": ("AdaptiveCov, ours", "For d far above n**(2/3)"),
    "dong3": ("AdaptiveCov, published",),
    "dong-text": ("The error of EMCov under zCDP", "SeparateCov takes less time", "The time of"),
    "wang1": ("The dimension only slightly affects the error",),
    "amin1": ("How the budget is split",),
    "amin-text": ("Theorem 2 for k directions",),
}


@pytest.fixture(scope="module")
def measured():
    figures = {name: FIGURES[name]("test") for name in SMALL}
    results = measure(figures.values(), directory=data_directory(), seed=1)
    return {name: (made.claims, results[made.name]) for name, made in figures.items()}


@pytest.mark.thorough
@pytest.mark.parametrize("name", SMALL)
def test_claims_that_a_small_grid_can_check_come_out_as_on_the_page(measured, name):
    pd = pytest.importorskip("pandas")
    from benchmarks.papers.publish import CLAIMS

    kept, (claims, result) = pd.read_csv(CLAIMS), measured[name]
    expected = kept[kept["figure"] == name].set_index("claim")["verdict"]
    alike = [claim for claim in claims if not claim.text.startswith(OTHERWISE.get(name, ()))]
    checked = 0
    for claim in alike:
        verdict = claim.verdict(result)
        if verdict.status != "not checked":
            assert verdict.status == expected[claim.text], (claim.text, verdict.reason)
            assert verdict.status == "confirmed" or verdict.reason.endswith(claim.why or "?")
            checked += 1
    assert checked >= len(alike) / 2


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
