"""What a release looks like in a notebook.

Contract: public numbers only; names in a file that anybody may have written stay text.
"""

from dpcov.markup import CELL, Child, card, details, el, facts, listing, name_of, names_of
from dpcov.published.base import BaseRelease
from dpcov.published.diagnosis import Diagnosis
from dpcov.published.numbers import WITHIN
from dpcov.published.pooled import PooledGroups
from dpcov.published.summary import LIGHTS, told_numbers
from dpcov.published.words import promise_in_words, rows_in_words, rows_within

_HEAD = ("Column", "Verdict", "Mean", "±", "Spread", "±", "Correlations ±")
_NAMES = 6


def release_card(release: BaseRelease, found: Diagnosis, made: PooledGroups | None) -> str:
    """What is promised to whom, and what can be read from every column."""
    manifest, promise = release.manifest, release.guarantee.promise
    groups = release.group_names
    more = f" and {len(groups) - _NAMES} more" if len(groups) > _NAMES else ""
    told: list[tuple[str, Child]] = [
        ("Guarantee", f"{promise}, {release.guarantee.neighbors} neighbors"),
        ("Rows", rows_in_words(release)),
        ("Mechanism", manifest.mechanism.name),
        ("Groups", [names_of(groups[:_NAMES]), more] if groups else None),
        ("Fingerprint", el("code", release.fingerprint[:16], title=release.fingerprint)),
    ]
    rows = [
        (name_of(column.in_unit, CELL), LIGHTS[column.verdict], *told_numbers(column))
        for column in found.columns
    ]
    findings = [
        el("li", names_of(names[:_NAMES]), f": {column.cause} {column.advice}")
        for names, column in found.by_finding()
    ]
    caption = "± holds 95 of 100 errors that noise and scaling rows down make"
    return card(
        "Release",
        manifest.title or "untitled table",
        [el("p", el("strong", f"Warning: {warning}")) for warning in manifest.warnings],
        el("p", found.headline),
        facts(told),
        listing(_HEAD, rows, caption, text=(1,)),
        _side_by_side(release, made) if made else None,
        details("Why, and what would help", el("ul", findings)) if findings else None,
        details("What the guarantee means for one person", el("p", promise_in_words(promise))),
    )


def _side_by_side(release: BaseRelease, made: PooledGroups) -> Child:
    columns = release.features[:_NAMES]
    head = ["Group", "Rows", *(name_of(column.name, CELL) for column in columns)]
    within, rows = WITHIN * made.mean_std, []
    for place, name in enumerate(made.names):
        pairs = zip(made.means[place, :_NAMES], within[place], strict=False)
        told = (f"{mean:.4g} ± {half:.2g}" for mean, half in pairs)
        rows.append((name_of(name, CELL), rows_within(release.group(name)), *told))
    caption = "Means, groups estimated together; ± holds 95 of 100 errors"
    return details("Groups side by side", listing(head, rows, caption))
