"""What a release says about itself, in words that a data-protection officer can check.

Promise: reads a release only.
"""

from fractions import Fraction
from typing import TYPE_CHECKING

from dpcov.privacy.guarantee import ApproxDP, Promise, PureDP, format_number

if TYPE_CHECKING:
    from dpcov.artifact import Release


def summarize(release: "Release") -> str:
    """Plain-text account of a release, about one screen."""
    sections = [_title(release), _warnings(release), _what(release), _guarantee(release), _noise(release)]
    sections.append(_provenance(release))
    return "\n\n".join(section for section in sections if section) + "\n"


def _title(release: "Release") -> str:
    title = release.manifest.title or "untitled table"
    return f"Private covariance release: {title}\nFingerprint  {release.fingerprint}"


def _warnings(release: "Release") -> str:
    return "\n".join(f"WARNING  {warning}" for warning in release.manifest.warnings)


def _what(release: "Release") -> str:
    manifest = release.manifest
    exact = manifest.n_rows is not None
    rows = (
        f"{manifest.n_rows:,} (public)"
        if exact
        else f"about {release.n_rows:,.0f} (noisy; the exact number is private)"
    )
    names = release.feature_names
    listed = ", ".join(names[:8]) + (f", and {len(names) - 8} more" if len(names) > 8 else "")
    kind = "means and covariance" if release.has_intercept else "second moments (not centered)"
    return _table(
        ("Released", kind),
        ("Rows", rows),
        ("Features", f"{len(names)}: {listed}"),
        ("Norm bound", f"{manifest.norm_bound:.6g} (public bound on the length of an encoded row)"),
    )


def _guarantee(release: "Release") -> str:
    guarantee = release.guarantee
    unit = (
        "one row"
        if guarantee.rows_per_person == 1
        else f"all rows of one person (at most {guarantee.rows_per_person})"
    )
    change = "is exchanged for another" if guarantee.neighbors == "replace-one" else "is added or removed"
    facts = _table(
        ("Guarantee", str(guarantee.promise)),
        (
            "Protects",
            f"{unit}: what is published is nearly as likely when it {change} ({guarantee.neighbors})",
        ),
        ("Numerics", _NUMERICS[guarantee.numerics]),
        ("Mechanism", release.manifest.mechanism.name),
    )
    return f"{facts}\n{_in_words(guarantee.promise)}"


_NUMERICS = {
    "exact": "exact: the proof covers the computer's arithmetic",
    "idealized": "idealized: the proof assumes real-number arithmetic (see docs/limitations.md)",
}


_AT_MOST = "  In words: no event becomes more than {} times as likely by a person's data"


def _in_words(promise: Promise) -> str:
    """What the numbers mean for one person."""
    if isinstance(promise, PureDP):
        return _AT_MOST.format(_factor(float(promise.epsilon))) + "."
    if isinstance(promise, ApproxDP):
        most = _AT_MOST.format(_factor(float(promise.epsilon)))
        return f"{most},\n  up to an extra probability of {format_number(promise.delta)}."
    from dpcov.privacy.convert import zcdp_epsilon

    rows = []
    for delta in (Fraction("1e-6"), Fraction("1e-9")):
        epsilon = float(zcdp_epsilon(promise.rho, delta))
        rows.append(f"({epsilon:.3g}, {format_number(delta)})-DP")
    return f"  In words: implies {' and '.join(rows)}, and every other point of that curve."


def _factor(epsilon: float) -> str:
    from math import exp

    return f"{exp(epsilon):.3g}" if epsilon < 20 else f"e^{epsilon:.3g}"


def _noise(release: "Release") -> str:
    error = release.expected_error()
    if error is None:
        return ""
    size = float((release.second_moment("psd") ** 2).sum()) ** 0.5
    return _table(
        ("Noise", release.manifest.statistics.noise.family if release.manifest.statistics.noise else "none"),
        ("Error", f"expected Frobenius error about {error:.3g} on a second moment matrix of size {size:.3g}"),
    )


def _provenance(release: "Release") -> str:
    manifest = release.manifest
    spent = (
        "no ledger was used"
        if manifest.spent is None
        else (f"entry {manifest.spent.entry} of dataset {manifest.spent.dataset}")
    )
    software = ", ".join(f"{name} {number}" for name, number in manifest.software.items())
    return _table(("Charged to", spent), ("Created", manifest.created), ("Made with", software))


def _table(*rows: tuple[str, str]) -> str:
    return "\n".join(f"{label:<12} {text}" for label, text in rows)
