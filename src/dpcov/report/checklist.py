"""A checklist for whoever evaluates a release, along the questions of NIST SP 800-226 (2025).

Contract: answers come from the release; where the release cannot know, the box stays open with a question for
the custodian.  Nothing is ticked that no number or proof stands behind.
"""

from collections.abc import Iterator
from math import isfinite

from dpcov.privacy.guarantee import ZCDP, ApproxDP, format_number
from dpcov.privacy.ledger.ledger import Balance
from dpcov.privacy.meaning import USUAL_DELTA, implied_epsilon, rounded_up
from dpcov.published.release import Release
from dpcov.published.summary import expected_error

FAR_BELOW = 0.1
"""With delta below this part of one over n, a mechanism that published whole rows would rarely publish any."""

Item = tuple[bool, str, str]
"""Whether the release answers it, the question, the answer or what the custodian has to say."""


def checklist(release: Release, balance: Balance | None = None) -> str:
    """Return the checklist as Markdown.

    Parameters
    ----------
    release : Release
    balance : Balance, optional
        What is left of the account that paid.
    """
    sections = (
        ("The guarantee", _guarantee(release)),
        ("The unit of privacy", _unit(release)),
        ("Other releases", _composition(release, balance)),
        ("Algorithm and correctness", _algorithm(release)),
        ("Utility and bias", _utility(release)),
        ("Trust, security and data collection", _trust()),
    )
    title = _plain(release.manifest.title or "untitled table")
    lines = [
        f"# Evaluation of a differentially private release: {title}",
        "",
        f"Fingerprint `{release.fingerprint}`. Questions after NIST SP 800-226, Guidelines for Evaluating Differential "
        "Privacy Guarantees. A ticked box is answered by the release file; an open one is for the custodian.",
    ]
    for heading, items in sections:
        lines += ["", f"## {heading}", ""]
        lines += [
            f"- [{'x' if known else ' '}] **{question}** {answer}"
            for known, question, answer in items
        ]
    return "\n".join(lines) + "\n"


def _guarantee(release: Release) -> Iterator[Item]:
    promise = release.guarantee.promise
    yield True, "Which definition, with which parameters?", f"{promise}."
    yield (
        not release.manifest.warnings,
        "Is the randomness fit for privacy?",
        (
            "; ".join(release.manifest.warnings)
            or "Operating system randomness through a stream cipher."
        ),
    )
    if isinstance(promise, ZCDP):
        epsilon = format_number(rounded_up(implied_epsilon(promise)))
        meant = f"epsilon {epsilon} at delta {format_number(USUAL_DELTA)}."
        yield True, "What does it mean as (epsilon, delta)?", meant
    if isinstance(promise, ApproxDP):
        yield _delta(release, promise)
    yield False, "Is epsilon small enough for these data?", "State why this value was chosen."


def _delta(release: Release, promise: ApproxDP) -> Item:
    """There are at most as many people as rows."""
    question = "Is delta far below one over the number of people?"
    if not isfinite(release.n_rows):
        return (
            False,
            question,
            f"delta is {format_number(promise.delta)}; the number of rows is not published.",
        )
    expected = float(promise.delta) * max(1.0, release.n_rows)
    answer = f"delta times the number of rows, {release.n_rows:,.0f}, is {expected:.2g}."
    small = expected <= FAR_BELOW
    return small, question, f"{'Yes' if small else 'No'}: {answer}"


def _unit(release: Release) -> Iterator[Item]:
    guarantee = release.guarantee
    yield (
        True,
        "Which neighbor relation?",
        f"{guarantee.neighbors}, {guarantee.rows_per_person} row(s) per person.",
    )
    yield (
        False,
        "Does nobody own more rows than that?",
        "The release cannot check it; say how it is ensured.",
    )
    if guarantee.neighbors == "replace-one":
        yield (
            False,
            "May the number of rows be public?",
            f"It is published exactly: {release.manifest.n_rows}.",
        )
    else:
        yield True, "Is the number of rows protected?", "Yes; only a noisy number is published."
    yield (
        False,
        "Do rows of different people depend on each other?",
        "Families or contacts may need a larger unit.",
    )


def _composition(release: Release, balance: Balance | None) -> Iterator[Item]:
    spent = release.manifest.spent
    answer = (
        "No ledger was charged."
        if spent is None
        else f"Entry {spent.entry} of dataset {_plain(spent.dataset)}."
    )
    yield spent is not None, "Is the release charged to an account of all releases?", answer
    yield (
        False,
        "Are all other uses of the same people's data in that account?",
        "Exploration counts as well.",
    )
    if balance is not None:
        yield True, "How much may further releases cost?", balance.in_words
    yield True, "Do later analyses of the file cost anything?", "No: they are post-processing."


def _algorithm(release: Release) -> Iterator[Item]:
    manifest = release.manifest
    name = manifest.mechanism.name
    yield (
        True,
        "Which mechanism?",
        f"`{name}`, chosen by {manifest.mechanism.chosen_by}; proof: mechanisms/{name}.md.",
    )
    exact = manifest.guarantee.numerics == "exact"
    yield (
        exact,
        "Does the proof cover floating-point arithmetic?",
        (
            "Yes: integers and exact samplers."
            if exact
            else "No: idealized numerics; see docs/limitations.md."
        ),
    )
    yield (
        False,
        "Are bounds and categories public knowledge?",
        (
            f"Norm bound {manifest.norm_bound:.6g}; the schema is in the file. Say where its bounds come from."
        ),
    )
    yield False, "Can somebody watch the computation's time or memory?", "Those are not protected."


def _utility(release: Release) -> Iterator[Item]:
    error = expected_error(release)
    yield (
        error is not None,
        "How large is the error?",
        "Not stated by this mechanism." if error is None else f"{error[0].upper()}{error[1:]}.",
    )
    yield (
        True,
        "Which bias does post-processing add?",
        f"Read with post=`{release.manifest.statistics.post}`.",
    )
    yield (
        True,
        "Are the noise law and its parameters published?",
        (
            "Yes, in the file."
            if release.manifest.statistics.noise
            else "No: this mechanism publishes an estimate only."
        ),
    )
    yield (
        False,
        "Is the error acceptable for small groups?",
        "Relative noise is largest where there are fewest rows.",
    )


def _trust() -> Iterator[Item]:
    yield (
        False,
        "Who sees the rows before the noise is added?",
        "Central model: the custodian is trusted.",
    )
    yield (
        False,
        "How are rows, saved moments and ledger protected at rest and in access?",
        "State controls.",
    )
    yield (
        False,
        "Was the collection of the data itself lawful and minimal?",
        "Outside of what noise can mend.",
    )
    yield (
        False,
        "Will the fingerprint be published through a second channel?",
        "The file's checksum is no signature.",
    )


def _plain(text: str) -> str:
    """Text that cannot become markup."""
    return "".join(letter if letter.isalnum() or letter in " .,-_()" else " " for letter in text)
