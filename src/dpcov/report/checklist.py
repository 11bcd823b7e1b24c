"""Fill in a checklist for evaluators along the questions of NIST SP 800-226 (2025).

Contract: answers come from the release.  Where the release cannot know, the box stays open with a
question for the custodian.  Nothing is ticked that no number or proof stands behind.
"""

import re
from math import isfinite

from dpcov.privacy.guarantee import ZCDP, ApproxDP, format_number
from dpcov.privacy.ledger.ledger import Balance
from dpcov.privacy.meaning import USUAL_DELTA, implied_epsilon, rounded_up
from dpcov.published.release import Release
from dpcov.report.html import lines

# With delta below this part of one over n, a mechanism that published whole rows rarely would.
FAR_BELOW = 0.1


def checklist(release: Release, balance: Balance | None = None) -> str:
    """Return the checklist as Markdown; ``balance`` says what is left of the account that paid."""
    answers = _answers(release) | _delta(release)
    # Known only where the publisher gave the ledger.
    answers["left"] = None if balance is None else balance.in_words
    # A question that does not arise here has no answer and is left out.
    return "\n".join([*lines("checklist.md", answers), ""])


def _answers(release: Release) -> dict[str, object]:
    manifest, guarantee = release.manifest, release.guarantee
    promise, warnings = guarantee.promise, manifest.warnings
    implied = format_number(rounded_up(implied_epsilon(promise)))
    paid = " ".join(f"Entry {x.entry} of dataset {_plain(x.dataset)}." for x in manifest.charges)
    exact, found = guarantee.numerics == "exact", release.diagnose()
    idealized = "No: idealized numerics; see docs/limitations.md."
    estimate_only = "No: this mechanism publishes an estimate only."
    return {
        "title": _plain(manifest.title or "untitled table"),
        "fingerprint": release.fingerprint,
        "promise": promise,
        "randomness": _box(not warnings),
        "warnings": "; ".join(warnings) or "Operating system randomness through a stream cipher.",
        "implied": implied if isinstance(promise, ZCDP) else None,
        "usual_delta": format_number(USUAL_DELTA),
        "neighbors": guarantee.neighbors,
        "rows_per_person": guarantee.rows_per_person,
        "public_rows": manifest.n_rows,
        "private_rows": "" if manifest.n_rows is None else None,
        "charged": _box(manifest.is_charged),
        "entry": paid or "No ledger was charged.",
        "mechanism": manifest.mechanism.name,
        "chosen_by": manifest.mechanism.chosen_by,
        "exact": _box(exact),
        "numerics": "Yes: integers and exact samplers." if exact else idealized,
        "norm_bound": f"{manifest.norm_bound:.6g}",
        "known": _box(any(column.verdict != "unknown" for column in found.columns)),
        "error": found.headline,
        "post": manifest.statistics.post,
        "noise": "Yes, in the file." if manifest.laws else estimate_only,
    }


def _delta(release: Release) -> dict[str, object]:
    promise, n_rows = release.guarantee.promise, release.n_rows
    if not isinstance(promise, ApproxDP):
        return {"small": None, "delta": None}
    if not isfinite(n_rows):
        delta = format_number(promise.delta)
        said = f"delta is {delta}; the number of rows is not published."
        return {"small": _box(False), "delta": said}
    # There are at most as many people as rows.
    expected = float(promise.delta) * max(1.0, n_rows)
    small = expected <= FAR_BELOW
    said = f"delta times the number of rows, {n_rows:,.0f}, is {expected:.2g}."
    return {"small": _box(small), "delta": f"{'Yes' if small else 'No'}: {said}"}


def _box(known: bool) -> str:
    return f"- [{'x' if known else ' '}]"


def _plain(text: str) -> str:
    # Titles and names come from the custodian, and the checklist may be shown as HTML.
    return re.sub(r"[^\w .,()-]", " ", text)
