"""Fill in a checklist for evaluators along the questions of NIST SP 800-226 (2025).

Contract: answers come from the release.  Where the release cannot know, the box stays open with a
question for the custodian.  Nothing is ticked that no number or proof stands behind.
"""

import re
from math import isfinite
from string import Template

from dpcov.privacy.guarantee import ZCDP, ApproxDP, format_number
from dpcov.privacy.ledger.ledger import Balance
from dpcov.privacy.meaning import USUAL_DELTA, implied_epsilon, rounded_up
from dpcov.published.release import Release
from dpcov.published.summary import expected_error
from dpcov.report.html import asset

# With delta below this part of one over n, a mechanism that published whole rows rarely would.
FAR_BELOW = 0.1


def checklist(release: Release, balance: Balance | None = None) -> str:
    """Return the checklist as Markdown.

    Parameters
    ----------
    release : Release
    balance : Balance, optional
        What is left of the account that paid.
    """
    manifest, guarantee, spent = release.manifest, release.guarantee, release.manifest.spent
    account = "" if spent is None else f"Entry {spent.entry} of dataset {_plain(spent.dataset)}."
    system = "Operating system randomness through a stream cipher."
    estimate_only = "No: this mechanism publishes an estimate only."
    answers = {
        "title": _plain(manifest.title or "untitled table"),
        "fingerprint": release.fingerprint,
        "promise": str(guarantee.promise),
        "randomness": _box(not manifest.warnings),
        "warnings": "; ".join(manifest.warnings) or system,
        "conversion": _conversion(release),
        "delta": _delta(release),
        "neighbors": guarantee.neighbors,
        "rows_per_person": str(guarantee.rows_per_person),
        "row_count": _row_count(release),
        "charged": _box(spent is not None),
        "entry": account or "No ledger was charged.",
        "left": balance and _item(True, "How much may further releases cost?", balance.in_words),
        "mechanism": manifest.mechanism.name,
        "chosen_by": manifest.mechanism.chosen_by,
        "numerics": _numerics(release),
        "norm_bound": f"{manifest.norm_bound:.6g}",
        "error": _error(release),
        "post": manifest.statistics.post,
        "noise": "Yes, in the file." if manifest.statistics.noise else estimate_only,
    }
    lines = asset("checklist.md").splitlines(keepends=True)
    kept = (line for line in lines if answers.get(line.strip().removeprefix("$"), "") is not None)
    return Template("".join(kept)).substitute(answers)


def _box(known: bool) -> str:
    return f"- [{'x' if known else ' '}]"


def _item(known: bool, question: str, answer: str) -> str:
    return f"{_box(known)} **{question}** {answer}"


def _conversion(release: Release) -> str | None:
    promise = release.guarantee.promise
    if not isinstance(promise, ZCDP):
        return None
    epsilon = format_number(rounded_up(implied_epsilon(promise)))
    answer = f"epsilon {epsilon} at delta {format_number(USUAL_DELTA)}."
    return _item(True, "What does it mean as (epsilon, delta)?", answer)


def _delta(release: Release) -> str | None:
    promise = release.guarantee.promise
    if not isinstance(promise, ApproxDP):
        return None
    question = "Is delta far below one over the number of people?"
    if not isfinite(release.n_rows):
        delta = format_number(promise.delta)
        return _item(False, question, f"delta is {delta}; the number of rows is not published.")
    # There are at most as many people as rows.
    expected = float(promise.delta) * max(1.0, release.n_rows)
    small = expected <= FAR_BELOW
    answer = f"delta times the number of rows, {release.n_rows:,.0f}, is {expected:.2g}."
    return _item(small, question, f"{'Yes' if small else 'No'}: {answer}")


def _row_count(release: Release) -> str:
    if release.guarantee.neighbors == "replace-one":
        answer = f"It is published exactly: {release.manifest.n_rows}."
        return _item(False, "May the number of rows be public?", answer)
    answer = "Yes; only a noisy number is published."
    return _item(True, "Is the number of rows protected?", answer)


def _numerics(release: Release) -> str:
    exact = release.guarantee.numerics == "exact"
    idealized = "No: idealized numerics; see docs/limitations.md."
    answer = "Yes: integers and exact samplers." if exact else idealized
    return _item(exact, "Does the proof cover floating-point arithmetic?", answer)


def _error(release: Release) -> str:
    error = expected_error(release)
    answer = "Not stated by this mechanism." if error is None else f"{error[0].upper()}{error[1:]}."
    return _item(error is not None, "How large is the error?", answer)


def _plain(text: str) -> str:
    """Text that cannot become markup."""
    return re.sub(r"[^\w .,()-]", " ", text)
