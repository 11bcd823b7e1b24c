"""Say what a promise means for one person, and refuse or warn of promises that mean too little.

Contract: an attacker can do at most what is said here; every number is rounded up.
"""

from decimal import ROUND_CEILING, Context, localcontext
from fractions import Fraction

from dpcov.errors import BudgetError, PrivacyWarning, warn_caller
from dpcov.privacy.convert import round_up, to_decimal, zcdp_delta, zcdp_epsilon
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Neighbors, Promise, format_number

LARGEST_QUIET_EPSILON = Fraction(4)
# Where zCDP is stated as (epsilon, delta).
USUAL_DELTA = Fraction(1, 10**6)
# Where the number of rows is private, delta cannot be compared with it.
LARGEST_PRIVATE_DELTA = Fraction(1, 1000)

# Whatever decimal context the caller has set.
_UPWARD = Context(prec=60, rounding=ROUND_CEILING)


def check_delta(
    promise: Promise, neighbors: Neighbors, n_rows: int | None, or_else: str = ""
) -> None:
    """Refuse a delta that would allow publishing somebody's whole row; ``n_rows`` if public.

    ``or_else`` is what else than a smaller one helps.
    """
    if not isinstance(promise, ApproxDP):
        return
    # Publishing one of n rows, chosen at random, is (0, 1/n)-DP.
    too_large = n_rows is not None and promise.delta * n_rows >= 1
    most = f"below one over the number of rows, {n_rows}"
    if neighbors == "add-remove-one":
        too_large = promise.delta > LARGEST_PRIVATE_DELTA
        largest = format_number(LARGEST_PRIVATE_DELTA)
        most = f"{largest} or less, as it must be where the number of rows is private"
    if too_large:
        # A power of ten, a tenth of one over the number of rows at most.
        usual = f"1e-{max(6, len(str(n_rows or 0)) + 1)}"
        raise BudgetError(
            f"delta = {format_number(promise.delta)} is not {most}. With such a delta, publishing "
            f"somebody's whole row would be allowed. Use a delta such as {usual}{or_else}."
        )


def warn_of_large_delta(promise: Promise, neighbors: Neighbors, n_rows: int | None) -> None:
    """Warn of a delta that `check_delta` refuses, where nothing is released yet."""
    try:
        check_delta(promise, neighbors, n_rows)
    except BudgetError as error:
        warn_caller(f"A release will refuse this. {error}", PrivacyWarning)


def warn_of_large_epsilon(promise: Promise) -> None:
    """Warn of an epsilon above 4, stated or implied by rho, and say what it means for a person."""
    if (epsilon := implied_epsilon(promise)) <= LARGEST_QUIET_EPSILON:
        return
    number = f"epsilon = {format_number(rounded_up(epsilon))}"
    said = f"{number} is large."
    if isinstance(promise, ZCDP):
        implied, delta = f"rho = {format_number(promise.rho)} implies", format_number(USUAL_DELTA)
        said = f"{implied} {number} at delta = {delta}, which is large."
    warn_caller(f"{said} {certainty_in_words(promise)}", PrivacyWarning)


def implied_epsilon(promise: Promise) -> Fraction:
    """Epsilon of a promise, for zCDP at the usual delta."""
    return zcdp_epsilon(promise.rho, USUAL_DELTA) if isinstance(promise, ZCDP) else promise.epsilon


def certainty_in_words(promise: Promise) -> str:
    """Say how sure somebody can become of something about one person."""
    found = format_number(rounded_up(100 * certainty(promise), 4))
    return (
        "Somebody who knows everybody else's rows, and holds a suspicion about one person for as "
        "likely as not (50 %), can tell from the release whether it is true in up to "
        f"{found} % of cases."
    )


def certainty(promise: Promise) -> Fraction:
    """Largest probability of guessing right between two equally likely neighboring tables."""
    # At most (e^epsilon + delta) / (e^epsilon + 1), for every point on the curve of zCDP.
    points = ((exponential(epsilon), delta) for epsilon, delta in _points(promise))
    return min([Fraction(1), *((growth + delta) / (growth + 1) for growth, delta in points)])


def detection(promise: Promise, false_alarms: Fraction) -> Fraction:
    """Largest power of a test between two neighboring tables at this size, rounded up."""
    # At most e^epsilon a + delta and 1 - e^-epsilon (1 - a - delta), for every point of the curve.
    bounds = [Fraction(1)]
    for epsilon, delta in _points(promise):
        growth, hidden = exponential(epsilon), max(Fraction(0), 1 - false_alarms - delta)
        bounds += [growth * false_alarms + delta, 1 - hidden / growth]
    return min(bounds)


def _points(promise: Promise) -> list[tuple[Fraction, Fraction]]:
    # Pairs of epsilon and delta that hold.
    if not isinstance(promise, ZCDP):
        return [(promise.epsilon, getattr(promise, "delta", Fraction(0)))]
    # Epsilons of rho + s sqrt(rho), s up to 5, hold the best point of every small test.
    steps = (Fraction(step, 8) for step in range(1, 41))
    size = rounded_up(Fraction(float(promise.rho) ** 0.5), 4)
    candidates = [promise.rho + step * size for step in steps]
    return [(epsilon, zcdp_delta(promise.rho, epsilon)) for epsilon in candidates if epsilon < 100]


def exponential(epsilon: Fraction) -> Fraction:
    """e^epsilon, rounded up."""
    with localcontext(_UPWARD):
        # The factor exceeds the rounding error of exp, which goes to the nearest number.
        return round_up(to_decimal(epsilon).exp() * (1 + to_decimal(Fraction(1, 10**20))))


def rounded_up(value: Fraction, digits: int = 3) -> Fraction:
    """Return the next larger number of few digits."""
    with localcontext(_UPWARD):
        return round_up(to_decimal(value), digits)
