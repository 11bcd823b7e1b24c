"""The tightest known composition of releases that were all planned in advance.

Contract: the delta returned is an upper bound for the composition of the given spends, *if none of
them was chosen after seeing the result of another*; a computation that cannot be trusted raises or
is left out, and never lowers delta.  The smallest of three bounds counts: basic composition, zCDP
by the optimal conversion, privacy loss distributions of the library dp-accounting (``ledger``).
"""

import importlib
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpcov.errors import LedgerError, NumericError
from dpcov.privacy import calibrate, convert
from dpcov.privacy.guarantee import ZCDP, ApproxDP, promise_numbers
from dpcov.privacy.ledger.spend import Spend

# The library's estimates are pessimistic, but its FFT loses up to about 1e-11 of absolute mass.
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

    Raises LedgerError if dp-accounting is missing, NumericError if a result is no upper bound.
    """
    if not spends:
        return Fraction(0)
    # Each bound holds by itself, and so does the smallest.
    bounds = (_basic(spends, epsilon), _zcdp(spends, epsilon), _loss_distribution(spends, epsilon))
    return min(bound for bound in bounds if bound is not None)


def _basic(spends: Sequence[Spend], epsilon: Fraction) -> Fraction | None:
    numbers = [promise_numbers(spend.promise) for spend in spends]
    if any("rho" in each for each in numbers) or sum(each["epsilon"] for each in numbers) > epsilon:
        return None
    return sum((each.get("delta", Fraction(0)) for each in numbers), Fraction(0))


# The library's own Renyi accountant reports zero when it is unstable; the closed form does not.
def _zcdp(spends: Sequence[Spend], epsilon: Fraction) -> Fraction:
    rho = delta = Fraction(0)
    for spend in spends:
        known = spend.best_rho()
        if known is None:
            # (epsilon, delta) is delta-approximately epsilon^2/2-zCDP (Bun & Steinke 2016, 8).
            assert isinstance(spend.promise, ApproxDP)
            known = convert.pure_to_zcdp(spend.promise.epsilon)
            delta += spend.promise.delta
        rho += known
    return min(Fraction(1), delta + convert.zcdp_delta(rho, epsilon))


def _loss_distribution(spends: Sequence[Spend], epsilon: Fraction) -> Fraction | None:
    # Compose dominating pairs; None where a spend has no known pair or its support is too long.
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
    # Replace all Gaussian releases by the one they are equivalent to.
    gaussian = [spend for spend in spends if spend.noise_multiplier]
    multipliers = [spend.noise_multiplier for spend in gaussian if spend.noise_multiplier]
    if len(multipliers) < 2:
        return list(spends)
    # 1 / multiplier^2 adds up exactly; less noise is the safe side of the root.
    inverse_square = sum((1 / multiplier**2 for multiplier in multipliers), Fraction(0))
    merged = replace(gaussian[0], noise_multiplier=convert.sqrt_down(1 / inverse_square))
    return [merged, *(spend for spend in spends if not spend.noise_multiplier)]


def _trusted(delta: float, n_spends: int, largest_alone: Fraction) -> Fraction:
    # Return delta with the margin, or refuse NaN and less than one of the releases costs.
    if not math.isfinite(delta) or delta < -float(_FFT_MARGIN):
        raise NumericError("The composition could not be computed reliably; nothing was spent.")
    bound = Fraction(delta) + n_spends * _FFT_MARGIN
    if bound < largest_alone:
        raise NumericError(
            "The composition came out smaller than one of its releases; nothing was spent."
        )
    return min(Fraction(1), bound)


def _delta_alone(spend: Spend, epsilon: Fraction) -> Fraction:
    # Return the delta at this epsilon of the same dominating pair, by itself.
    if spend.noise_multiplier is not None:
        return calibrate.gaussian_delta(spend.noise_multiplier, epsilon)
    return promise_numbers(spend.promise).get("delta", Fraction(0))


def _distribution(library: Any, spend: Spend) -> Any:
    # Return a pessimistic privacy loss distribution, None where there is none of bearable size.
    if spend.noise_multiplier is not None:
        if spend.noise_multiplier < _SMALLEST_MULTIPLIER:
            return None
        # Add-or-remove, the default: replace-one doubles the sensitivity that we already contain.
        return library.privacy_loss_distribution.from_gaussian_mechanism(
            standard_deviation=_float_down(spend.noise_multiplier),
            value_discretization_interval=_INTERVAL,
        )
    promise = spend.promise
    if isinstance(promise, ZCDP) or promise.epsilon > _LARGEST_LOSS:
        return None
    delta = promise_numbers(promise).get("delta", Fraction(0))
    # The library rounds the loss up to whole intervals after a division that may round down.
    parameters = library.common.DifferentialPrivacyParameters(
        float(promise.epsilon) + _INTERVAL / 100, _float_up(delta)
    )
    return library.privacy_loss_distribution.from_privacy_parameters(parameters, _INTERVAL)


def _library() -> Any:
    # Imported when it is needed: it takes a second.
    try:
        return importlib.import_module("dp_accounting.pld")
    except ImportError:
        raise LedgerError(_INSTALL_HINT) from None


# A nearest float may lie on the unsafe side; its neighbor does not.
def _float_down(value: Fraction) -> float:
    return math.nextafter(float(value), 0.0)


def _float_up(value: Fraction) -> float:
    return math.nextafter(float(value), math.inf) if value else 0.0
