"""Fill in a checklist for evaluators along the questions of NIST SP 800-226 (2025).

Contract: answers come from the release.  Where the release cannot know, the box stays open with a
question for the custodian.  Nothing is ticked that no number or proof stands behind.
"""

import re
from math import isfinite

from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise, format_number
from dpcov.privacy.ledger.ledger import Balance
from dpcov.privacy.meaning import USUAL_DELTA, implied_epsilon, rounded_up
from dpcov.published.file.manifest import MechanismRecord
from dpcov.published.release import Release
from dpcov.report.html import filled

# With delta below this part of one over n, a mechanism that published whole rows rarely would.
FAR_BELOW = 0.1


def checklist(release: Release, balance: Balance | None = None) -> str:
    """Return the checklist as Markdown; ``balance`` says what is left of the account that paid."""
    promise = release.guarantee.promise
    implied = rounded_up(implied_epsilon(promise)) if isinstance(promise, ZCDP) else None
    # A question that does not arise here is left out.
    return filled(
        "checklist.md",
        release=release,
        found=release.diagnose(),
        balance=balance,
        mechanisms=_mechanisms(release),
        implied=None if implied is None else format_number(implied),
        usual_delta=format_number(USUAL_DELTA),
        delta=_delta(promise, release),
        plain=_plain,
    )


def _mechanisms(release: Release) -> list[MechanismRecord]:
    # Each of them once: those of releases that were combined have their own proofs.
    made = [each.mechanism for each in release.manifest.combined or (release.manifest,)]
    return list({(each.name, each.chosen_by): each for each in made}.values())


def _delta(promise: Promise, release: Release) -> tuple[bool, str] | None:
    if not isinstance(promise, ApproxDP):
        return None
    delta = format_number(promise.delta)
    if not isfinite(release.n_rows):
        return False, f"delta is {delta}; the number of rows is not published."
    # The promise is to everybody in the table, of which a group is a part.
    if release.manifest.n_rows is None and release.guarantee.neighbors == "replace-one":
        return False, f"delta is {delta}; this file of a group does not say how large the table is."
    # There are at most as many people as rows.
    expected = float(promise.delta) * max(1.0, release.n_rows)
    small = expected <= FAR_BELOW
    said = f"delta times the number of rows, {release.n_rows:,.0f}, is {expected:.2g}."
    return small, f"{'Yes' if small else 'No'}: {said}"


def _plain(text: str) -> str:
    # Titles and names come from the custodian, and the checklist may be shown as HTML.
    return re.sub(r"[^\w .,()-]", " ", text)
