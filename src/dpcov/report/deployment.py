"""Write an entry for a registry of differential privacy deployments.

The fields follow the three transparency tiers of the community's registry (Dwork, Kohli, Mulligan
2019; Nanayakkara, Ghazi, Vadhan 2025): who releases what for whom; flavor, unit, parameters and
model; accounting and implementation.  :func:`registry_schema` states them as JSON Schema.

Contract: an entry is complete for its tier and valid; numbers are the release's own.
"""

from typing import Literal

import msgspec

from dpcov.errors import UsageError
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise, PureDP
from dpcov.privacy.ledger.ledger import Balance
from dpcov.published.manifest import PromiseRecord
from dpcov.published.release import Release
from dpcov.published.statistics import NoiseLaw

Flavor = Literal["pure DP", "zero-concentrated DP", "approximate DP"]
# The flavor, and how costs add up where the ledger's rule is not shown.
_FLAVORS: dict[type[Promise], tuple[Flavor, str]] = {
    PureDP: ("pure DP", "epsilon adds up"),
    ZCDP: ("zero-concentrated DP", "rho adds up"),
    ApproxDP: ("approximate DP", "by the ledger's rule"),
}
_METRIC = {
    "replace-one": "replace one person's rows (bounded); the number of rows is public",
    "add-remove-one": "add or remove one person's rows (unbounded); "
    "the number of rows is protected",
}


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of every part of an entry."""


class Deployment(_Record, frozen=True, kw_only=True):
    """What only the custodian knows; tier 1.  ``published`` is a date, YYYY-MM-DD."""

    curator: str
    intended_use: str
    description: str = ""
    sector: str = ""
    published: str = ""
    link: str = ""

    def __post_init__(self) -> None:
        if not self.curator.strip() or not self.intended_use.strip():
            raise UsageError(
                "An entry needs the curator and the intended use (--curator, --intended-use)."
            )


class Product(_Record, frozen=True, kw_only=True):
    """What was published; tier 1."""

    name: str
    kind: str
    description: str
    features: tuple[str, ...]
    groups: tuple[str, ...]
    fingerprint: str


class PrivacyLoss(_Record, frozen=True, kw_only=True):
    """Flavor, unit and parameters; tier 2."""

    flavor: Flavor
    parameters: PromiseRecord
    unit: str
    input_metric: str
    rows_per_person: int


class Model(_Record, frozen=True, kw_only=True):
    """Who is trusted, and how the release is used; tier 2."""

    model: Literal["central"]
    actors: tuple[str, ...]
    release: Literal["static"]
    interactive: Literal[False]


class Details(_Record, frozen=True, kw_only=True):
    """What the guarantee leaves out, and how it was reached; tier 3."""

    data_domain: str
    unprotected_quantities: tuple[str, ...]
    composition: str
    post_processing: str
    mechanism: str
    mechanism_options: dict[str, str | int | float | bool | None]
    noise: NoiseLaw | None
    numerics: str
    pre_processing: str
    software: dict[str, str]
    justification: str
    warnings: tuple[str, ...]


class RegistryEntry(_Record, frozen=True, kw_only=True):
    """A whole entry."""

    format: Literal["dpcov-deployment-record"] = "dpcov-deployment-record"
    version: Literal[1] = 1
    tier: Literal[3] = 3
    deployment: Deployment
    product: Product
    privacy_loss: PrivacyLoss
    model: Model
    details: Details


def registry_entry(
    release: Release,
    deployment: Deployment,
    *,
    justification: str = "",
    balance: Balance | None = None,
) -> bytes:
    """Return an entry of tier 3 as JSON.

    ``justification`` says why these parameters were chosen, ``balance`` what is left of the
    account that paid.

    Raises
    ------
    UsageError
        A release with seeded randomness protects nobody and has no place in a registry.
    """
    # A registry would present the parameters as if they protected somebody.
    if not release.is_private:
        raise UsageError(
            "This release was made with seeded randomness and protects nobody; "
            "it cannot be registered."
        )
    model = Model(
        model="central",
        actors=("a custodian that holds the rows and is trusted with them", "the public"),
        release="static",
        interactive=False,
    )
    entry = RegistryEntry(
        deployment=deployment,
        product=_product(release),
        privacy_loss=_privacy_loss(release),
        model=model,
        details=_details(release, justification, balance),
    )
    encoded = msgspec.json.encode(entry)
    # Structs do not check the types of what they are made of; decoding does.
    msgspec.json.decode(encoded, type=RegistryEntry)
    return msgspec.json.format(encoded, indent=1) + b"\n"


def registry_schema() -> bytes:
    """JSON Schema of an entry."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(RegistryEntry)), indent=2)


def _product(release: Release) -> Product:
    kind = "means and covariance matrix" if release.has_intercept else "second moment matrix"
    return Product(
        name=release.manifest.title or "untitled table",
        kind=f"noisy {kind}, one file",
        description="Sufficient statistics for regression, principal components, factor analysis "
        "and plots; no rows.",
        features=release.feature_names,
        groups=release.group_names,
        fingerprint=release.fingerprint,
    )


def _privacy_loss(release: Release) -> PrivacyLoss:
    rows = release.guarantee.rows_per_person
    return PrivacyLoss(
        flavor=_FLAVORS[type(release.guarantee.promise)][0],
        parameters=release.manifest.guarantee.promise,
        unit="one row" if rows == 1 else f"one person with up to {rows} rows",
        input_metric=_METRIC[release.guarantee.neighbors],
        rows_per_person=rows,
    )


def _details(release: Release, justification: str, balance: Balance | None) -> Details:
    manifest = release.manifest
    # Under add-remove-one the number of rows is protected, so it is no public quantity.
    counted = [] if manifest.n_rows is None else [f"number of rows: {manifest.n_rows}"]
    return Details(
        data_domain=f"rows of {len(manifest.columns)} encoded columns with public bounds; "
        f"l2 norm of an encoded row at most {manifest.norm_bound:.6g}",
        unprotected_quantities=(
            *counted,
            "schema: column names, bounds, categories",
            "norm bound, mechanism and its options",
        ),
        composition=_composition(release, balance),
        post_processing=f"read with post={manifest.statistics.post!r}; "
        "any other use of the file costs nothing further",
        mechanism=manifest.mechanism.name,
        mechanism_options=manifest.mechanism.options,
        noise=manifest.statistics.noise,
        numerics=manifest.guarantee.numerics,
        pre_processing="values are moved to their public bounds; "
        "unlisted categories and missing values count as none",
        software=manifest.software,
        justification=justification,
        warnings=manifest.warnings,
    )


def _composition(release: Release, balance: Balance | None) -> str:
    spent = release.manifest.spent
    if spent is None:
        return (
            "no ledger was used; "
            "the custodian keeps account of other releases about the same people"
        )
    paid = f"entry {spent.entry} of dataset {spent.dataset}"
    if balance is None:
        return f"{paid}; {_FLAVORS[type(release.guarantee.promise)][1]}"
    return f"{paid}; composition by the rule '{balance.composition}'. {balance.in_words}"
