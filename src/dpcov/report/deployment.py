"""Write an entry for a registry of differential privacy deployments.

The fields follow the three transparency tiers of the community's registry (Dwork, Kohli, Mulligan
2019; Nanayakkara, Ghazi, Vadhan 2025): who releases what for whom; flavor, unit, parameters and
model; accounting and implementation.

Contract: an entry is complete for its tier; numbers are the release's own.
"""

import json
from dataclasses import dataclass
from datetime import date

from dpcov.errors import UsageError
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise, PureDP
from dpcov.privacy.ledger.ledger import Balance
from dpcov.privacy.options import make_plain
from dpcov.published.export import json_text
from dpcov.published.release import Release
from dpcov.report.html import asset

# The flavor, and how costs add up where the ledger's rule is not shown.
_FLAVORS: dict[type[Promise], tuple[str, str]] = {
    PureDP: ("pure DP", "epsilon adds up"),
    ZCDP: ("zero-concentrated DP", "rho adds up"),
    ApproxDP: ("approximate DP", "by the ledger's rule"),
}
_METRIC = {
    "replace-one": "replace one person's rows (bounded); "
    "the number of rows of the whole table is public",
    "add-remove-one": "add or remove one person's rows (unbounded); "
    "the number of rows is protected",
}


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """What only the custodian knows; tier 1.  ``published`` is a date, YYYY-MM-DD."""

    curator: str
    intended_use: str
    description: str = ""
    sector: str = ""
    published: str = ""
    link: str = ""

    def __post_init__(self) -> None:
        make_plain(self)
        if not self.curator.strip() or not self.intended_use.strip():
            raise UsageError(
                "An entry needs the curator and the intended use (--curator, --intended-use)."
            )
        if self.published and not _is_date(self.published):
            raise UsageError("The date of publication is written as 2026-01-31 (--published).")


def _is_date(text: str) -> bool:
    try:
        # Other ways to write a date are read, too.
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def registry_entry(
    release: Release,
    deployment: Deployment,
    *,
    justification: str = "",
    balance: Balance | None = None,
) -> bytes:
    """Return an entry of tier 3 as JSON.

    ``justification`` says why these parameters were chosen, ``balance`` what is left of the
    account that paid.  UsageError for a release with seeded randomness, which protects nobody.
    """
    # A registry would present the parameters as if they protected somebody.
    if not release.is_private:
        raise UsageError("A release with seeded randomness protects nobody: it is not registered.")
    manifest, guarantee = release.manifest, release.guarantee
    rows, statistics = guarantee.rows_per_person, manifest.statistics
    kind = "means and covariance matrix" if release.has_intercept else "second moment matrix"
    # The asset has every field in its order; those of the release are null there.
    entry = json.loads(asset("deployment.json"))
    entry["deployment"] = deployment
    entry["product"] |= {
        "name": manifest.title or "untitled table",
        "kind": f"noisy {kind}, one file",
        "features": release.feature_names,
        "groups": release.group_names,
        "fingerprint": release.fingerprint,
    }
    entry["privacy_loss"] |= {
        "flavor": _FLAVORS[type(guarantee.promise)][0],
        "promise": str(guarantee.promise),
        "parameters": manifest.guarantee.promise,
        "unit": "one row" if rows == 1 else f"one person with up to {rows} rows",
        "input_metric": _METRIC[guarantee.neighbors],
        "rows_per_person": rows,
    }
    # Under add-remove-one the number of rows is protected, so it is no public quantity.
    counted = [] if manifest.n_rows is None else [f"number of rows: {manifest.n_rows}"]
    entry["details"] |= {
        "data_domain": f"rows of {len(manifest.columns)} encoded columns with public bounds; "
        f"l2 norm of an encoded row at most {manifest.norm_bound:.6g}",
        "unprotected_quantities": counted + entry["details"]["unprotected_quantities"],
        "composition": _composition(release, balance),
        "post_processing": f"read with post={statistics.post!r}; "
        "any other use of the file costs nothing further",
        "mechanism": manifest.mechanisms,
        "mechanism_options": [each.mechanism for each in manifest.combined]
        or manifest.mechanism.options,
        "noise": list(manifest.laws) if manifest.combined else statistics.noise,
        "numerics": guarantee.numerics,
        "software": manifest.software,
        "justification": justification,
        "warnings": manifest.warnings,
    }
    return json_text(entry)


def _composition(release: Release, balance: Balance | None) -> str:
    if not release.manifest.is_charged:
        return "no ledger was used; the custodian keeps account of releases about the same people"
    paid = release.manifest.paid()
    if balance is None:
        return f"{paid}; {_FLAVORS[type(release.guarantee.promise)][1]}"
    told = f"{balance.so_far} {balance.in_words}"
    return f"{paid}; composition by the rule '{balance.composition}'. {told}"
