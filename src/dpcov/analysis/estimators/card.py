"""What an estimator looks like in a notebook: its settings, where it read, what it found.

Contract: computes nothing; names in a release stay text.
"""

from typing import Any

import numpy as np

from dpcov.markup import Child, card, details, el, facts, join, name_of
from dpcov.published.words import rows_in_words

_LONGEST = 120


def estimator_card(estimator: Any, found: Child) -> str:
    """Describe an estimator; ``found`` is its own table, None if it is not fitted or has none."""
    if not hasattr(estimator, "release_"):
        said = "Not fitted yet: call from_release(release), or fit."
        return card(type(estimator).__name__, "", el("p", said), facts(_settings(estimator)))
    release = estimator.release_
    title = join("“", name_of(release.manifest.title or "untitled table"), "”")
    read: list[tuple[str, Child]] = [
        ("Read from", join(title, f", {release.guarantee.promise}, {rows_in_words(release)} rows")),
        *_settings(estimator),
    ]
    attributes = [
        f"{name} {value.shape}" if isinstance(value, np.ndarray) else name
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("_")
    ]
    made = details("Attributes", el("p", el("code", ", ".join(attributes))))
    return card(type(estimator).__name__, "", found, facts(read), made)


def _settings(estimator: Any) -> list[tuple[str, Child]]:
    # Those that differ from the defaults.  The address of a ledger may hold a password.
    plain = type(estimator)().get_params(deep=False)
    given = estimator.get_params(deep=False)
    return [
        (name, el("code", name_of("given" if name == "ledger" else repr(value), _LONGEST)))
        for name, value in given.items()
        if value is not plain[name] and repr(value) != repr(plain[name])
    ]
