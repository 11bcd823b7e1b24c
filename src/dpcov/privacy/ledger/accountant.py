"""The tightest known composition of releases that were all planned in advance.

Contract: the delta returned is an upper bound for the composition of the given spends, *if none of them was
chosen after seeing the result of another*; a computation that cannot be trusted raises or is left out, and
never lowers delta.  Knows nothing of files, totals or data.

Three bounds are computed and the smallest is returned:

* basic: (sum epsilon, sum delta) by itself;
* zCDP: sum of rho by the optimal conversion, plus the sum of the deltas of (epsilon, delta) releases, each of which
  is delta-approximately epsilon^2/2-zCDP (Bun & Steinke 2016, section 8);
* privacy loss distributions, by the library dp-accounting (extra ``ledger``).

How the library is used, and why: the relation is add-or-remove, because its replace-one doubles the sensitivity that
our multipliers already contain; each number is passed as the nearest float on the unsafe-for-us side; its estimates
are pessimistic, but convolution by FFT loses up to about 1e-11 of absolute mass, so ``_FFT_MARGIN`` is added per
composition; its Renyi accountant works on a grid of orders and reports zero when it is unstable, so the closed form
replaces it.
"""

import importlib
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpcov.errors import LedgerError, NumericError
from dpcov.privacy import calibrate, convert
from dpcov.privacy.guarantee import ZCDP, ApproxDP
from dpcov.privacy.ledger.spend import Spend

_FFT_MARGIN = Fraction(1, 10**10)
_INTERVAL = 1e-4
# Beyond these the distribution has millions of points, and nobody plans such releases.
_LARGEST_LOSS = 20
_SMALLEST_MULTIPLIER = Fraction(1, 2)
_INSTALL_HINT = (
    "Adding up planned releases needs dp-accounting. Install it with: pip install 'dpcov[ledger]'."
)


def planned_delta(spends: Sequence[Spend], epsilon: Fraction) -> Fraction:
    """Return a delta for which all spends together, fixed in advance, are (epsilon, delta)-DP.

    Raises
    ------
    LedgerError
        If dp-accounting is missing.
    NumericError
        If a result cannot be an upper bound.
    """
    if not spends:
        return Fraction(0)
    bounds = (_basic(spends, epsilon), _zcdp(spends, epsilon), _loss_distribution(spends, epsilon))
    return min(bound for bound in bounds if bound is not None)


def _basic(spends: Sequence[Spend], epsilon: Fraction) -> Fraction | None:
    promises = [spend.promise for spend in spends]
    if any(isinstance(promise, ZCDP) for promise in promises):
        return None
    total = sum(promise.epsilon for promise in promises if not isinstance(promise, ZCDP))
    if total > epsilon:
        return None
    return sum(
        (promise.delta for promise in promises if isinstance(promise, ApproxDP)), Fraction(0)
    )


def _zcdp(spends: Sequence[Spend], epsilon: Fraction) -> Fraction:
    rho = delta = Fraction(0)
    for spend in spends:
        known = spend.best_rho()
        if known is None:
            assert isinstance(spend.promise, ApproxDP)  # every other promise has a rho
            known = convert.pure_to_zcdp(spend.promise.epsilon)
            delta += spend.promise.delta
        rho += known
    return min(Fraction(1), delta + convert.zcdp_delta(rho, epsilon))


def _loss_distribution(spends: Sequence[Spend], epsilon: Fraction) -> Fraction | None:
    """Compose dominating pairs of all spends; None where one of them has no known pair or the support is too long."""
    library = _library()
    parts = [_distribution(library, spend) for spend in _merge_gaussians(spends)]
    if any(part is None for part in parts):
        return None
    composed = parts[0]
    for part in parts[1:]:
        composed = composed.compose(part)
    delta = float(composed.get_delta_for_epsilon(_float_down(epsilon)))
    largest_alone = max(_delta_alone(spend, epsilon) for spend in spends)
    return _trusted(delta, len(parts), largest_alone)


def _merge_gaussians(spends: Sequence[Spend]) -> list[Spend]:
    """Replace all Gaussian releases by the one they are equivalent to: 1 / multiplier^2 adds up."""
    gaussian = [spend for spend in spends if spend.noise_multiplier is not None]
    others = [spend for spend in spends if spend.noise_multiplier is None]
    if len(gaussian) < 2:
        return list(spends)
    inverse_square = sum(
        1 / spend.noise_multiplier**2 for spend in gaussian if spend.noise_multiplier is not None
    )
    merged = replace(gaussian[0], noise_multiplier=convert.sqrt_down(1 / Fraction(inverse_square)))
    return [merged, *others]


def _trusted(delta: float, n_spends: int, largest_alone: Fraction) -> Fraction:
    """Return delta with the margin, or refuse what cannot be true: NaN, or less than one of the releases costs."""
    if not math.isfinite(delta) or delta < -float(_FFT_MARGIN):
        raise NumericError("The composition could not be computed reliably; nothing was spent.")
    bound = Fraction(delta) + n_spends * _FFT_MARGIN
    if bound < largest_alone:
        raise NumericError(
            "The composition came out smaller than one of its releases; nothing was spent."
        )
    return min(Fraction(1), bound)


def _delta_alone(spend: Spend, epsilon: Fraction) -> Fraction:
    """Return the delta at this epsilon of the same dominating pair, by itself."""
    if spend.noise_multiplier is not None:
        return calibrate.gaussian_delta(spend.noise_multiplier, epsilon)
    promise = spend.promise
    return promise.delta if isinstance(promise, ApproxDP) else Fraction(0)


def _distribution(library: Any, spend: Spend) -> Any:
    """Return a pessimistic privacy loss distribution."""
    if spend.noise_multiplier is not None:
        if spend.noise_multiplier < _SMALLEST_MULTIPLIER:
            return None
        return library.privacy_loss_distribution.from_gaussian_mechanism(
            standard_deviation=_float_down(spend.noise_multiplier),
            value_discretization_interval=_INTERVAL,
        )
    promise = spend.promise
    if isinstance(promise, ZCDP) or promise.epsilon > _LARGEST_LOSS:
        return None
    delta = promise.delta if isinstance(promise, ApproxDP) else Fraction(0)
    # The library rounds the loss up to a whole number of intervals after a division that may round down.
    parameters = library.common.DifferentialPrivacyParameters(
        float(promise.epsilon) + _INTERVAL / 100, _float_up(delta)
    )
    return library.privacy_loss_distribution.from_privacy_parameters(parameters, _INTERVAL)


def _library() -> Any:
    """Import dp-accounting when it is needed: it takes a second."""
    try:
        return importlib.import_module("dp_accounting.pld")
    except ImportError:
        raise LedgerError(_INSTALL_HINT) from None


def _float_down(value: Fraction) -> float:
    return math.nextafter(float(value), 0.0)


def _float_up(value: Fraction) -> float:
    return math.nextafter(float(value), math.inf) if value else 0.0
