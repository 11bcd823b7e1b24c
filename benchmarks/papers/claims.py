"""What a paper says about its figure, as small checks with a verdict and a reason.

Contract: a check looks at measured means only; where a curve is absent the verdict is ``not
checked``, never confirmed.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from benchmarks.papers.figure import (
    Absent,
    Array,
    Check,
    Claim,
    Curve,
    FigureResult,
    PanelResult,
    Verdict,
    or_absent,
)

Range = tuple[float, float]
EVERYWHERE: Range = (-np.inf, np.inf)


def beats(
    panel: str, winner: str, *losers: str, within: Range = EVERYWHERE, factor: float = 1.0
) -> Check:
    """The winner's mean error is at most ``factor`` times every loser's at each x in the range."""

    def check(result: FigureResult) -> Verdict:
        worst, where, against = -np.inf, np.nan, ""
        for loser in losers:
            first, second = _pair(result, panel, winner, loser, within)
            ratio = first.mean / second.mean
            if ratio.max() > worst:
                worst, where, against = ratio.max(), first.x[ratio.argmax()], loser
        return _decide(
            worst <= factor,
            f"largest ratio {winner} / {against} is {worst:.3g} at {where:g} (allowed {factor:g})",
        )

    return _on(panel, check)


def best_of(
    panel: str, follower: str, *others: str, within: Range = EVERYWHERE, factor: float
) -> Check:
    """The follower's error is at most ``factor`` times that of the best of the others, point by
    point."""

    def check(result: FigureResult) -> Verdict:
        pairs = [_pair(result, panel, follower, other, within) for other in others]
        best = np.min([second.mean for _, second in pairs], axis=0)
        follower_curve = pairs[0][0]
        ratio = follower_curve.mean / best
        return _decide(
            ratio.max() <= factor,
            f"largest ratio to the best of {', '.join(others)} is {ratio.max():.3g} at "
            f"{follower_curve.x[ratio.argmax()]:g} (allowed {factor:g})",
        )

    return _on(panel, check)


def crosses(panel: str, low: str, high: str) -> Check:
    """``low`` has the smaller error at the smallest x, ``high`` at the largest; says where they
    cross."""

    def check(result: FigureResult) -> Verdict:
        first, second = _pair(result, panel, low, high, EVERYWHERE)
        gap = np.log(first.mean) - np.log(second.mean)
        if not (gap[0] < 0 < gap[-1]):
            start, end = np.exp(gap[0]), np.exp(gap[-1])
            return _decide(
                False,
                f"{low} / {high} is {start:.3g} at {first.x[0]:g} and {end:.3g} at {first.x[-1]:g}",
            )
        after = int(np.flatnonzero(gap > 0)[0])
        return _decide(
            True,
            f"they cross between {first.x[after - 1]:g} and {first.x[after]:g}, near "
            f"{_crossing(first.x, gap):.3g}",
        )

    return _on(panel, check)


def crossing_grows(
    panels: Mapping[float, str], low: str, high: str, exponent: float, tolerance: float
) -> Check:
    """The x at which ``high`` overtakes ``low`` grows like a power of the number that each panel
    stands for."""

    def check(result: FigureResult) -> Verdict:
        found = {}
        for size, panel in panels.items():
            first, second = _pair(result, panel, low, high, EVERYWHERE)
            gap = np.log(first.mean) - np.log(second.mean)
            if not gap[0] < 0 < gap[-1]:
                return _decide(False, f"{low} and {high} do not cross in {panel}")
            found[size] = _crossing(first.x, gap)
        if len(found) < 2:
            raise Absent("a growth needs two panels")
        slope = float(np.polyfit(np.log(list(found)), np.log(list(found.values())), 1)[0])
        return _decide(
            abs(slope - exponent) <= tolerance,
            f"they cross near {', '.join(f'{x:.3g}' for x in found.values())}: measured exponent "
            f"{slope:.2f}, "
            f"claimed {exponent:.2f} (tolerance {tolerance:g})",
        )

    return check


def _crossing(x: Array, gap: Array) -> float:
    """Where a gap of logarithms first turns positive, by a straight line over log x."""
    after = int(np.flatnonzero(gap > 0)[0])
    share = -gap[after - 1] / (gap[after] - gap[after - 1])
    return float(x[after - 1] * (x[after] / x[after - 1]) ** share)


def grows(
    panel: str, label: str, exponent: float, tolerance: float, *, within: Range = EVERYWHERE
) -> Check:
    """The slope of log error against log x is ``exponent`` up to ``tolerance``."""

    def check(result: FigureResult) -> Verdict:
        slope = _slope(_inside(_curve(result, panel, label), within), label)
        return _decide(
            abs(slope - exponent) <= tolerance,
            f"measured exponent {slope:.2f}, claimed {exponent:g} (tolerance {tolerance:g})",
        )

    return _on(panel, check)


def falls(
    panel: str, label: str, exponent: float, tolerance: float, *, within: Range = EVERYWHERE
) -> Check:
    """The slope of log error against log x is at most ``exponent`` up to ``tolerance``: a rate that
    is guaranteed."""

    def check(result: FigureResult) -> Verdict:
        slope = _slope(_inside(_curve(result, panel, label), within), label)
        return _decide(
            slope <= exponent + tolerance,
            f"measured exponent {slope:.2f}, at most {exponent:g} claimed (tolerance "
            f"{tolerance:g})",
        )

    return _on(panel, check)


def ratio_rises(panel: str, label: str, other: str) -> Check:
    """The error relative to the other's is larger at the largest x than at the smallest."""

    def check(result: FigureResult) -> Verdict:
        first, second = _pair(result, panel, label, other, EVERYWHERE)
        start, end = first.mean[0] / second.mean[0], first.mean[-1] / second.mean[-1]
        return _decide(
            start < end,
            f"{label} / {other} is {start:.3g} at {first.x[0]:g} and {end:.3g} at {first.x[-1]:g}",
        )

    return _on(panel, check)


def beats_often(panels: tuple[str, ...], winner: str, *losers: str, share: float) -> Check:
    """The winner has the smallest mean error at no less than a share of the points of all panels
    together."""

    def check(result: FigureResult) -> Verdict:
        wins = []
        for panel in panels:
            pairs = [_pair(result, panel, winner, loser, EVERYWHERE) for loser in losers]
            wins.extend(np.all([first.mean <= second.mean for first, second in pairs], axis=0))
        return _decide(
            np.mean(wins) >= share,
            f"{winner} is the best of {1 + len(losers)} at {sum(wins)} of {len(wins)} points",
        )

    return check


def changes_by(
    panel: str,
    label: str,
    *,
    at_least: float = 0.0,
    at_most: float = np.inf,
    within: Range = EVERYWHERE,
) -> Check:
    """Error at the largest x over error at the smallest lies between two numbers."""

    def check(result: FigureResult) -> Verdict:
        curve = _inside(_curve(result, panel, label), within)
        if len(curve.x) < 2:
            raise Absent(f"{label} has fewer than two points")
        ratio = float(curve.mean[-1] / curve.mean[0])
        return _decide(
            at_least <= ratio <= at_most,
            f"from {curve.x[0]:g} to {curve.x[-1]:g} the error changes by a factor {ratio:.3g}",
        )

    return _on(panel, check)


def below_bound(
    panel: str, label: str, bound: str, *, within: Range = EVERYWHERE, factor: float = 1.0
) -> Check:
    """No repetition exceeds ``factor`` times a bound drawn in the panel; says in what share of
    draws one does."""

    def check(result: FigureResult) -> Verdict:
        curve, limits = (
            _inside(_curve(result, panel, label), within),
            _panel(result, panel).bounds[bound],
        )
        ratios = [values / limits.at(x) for x, values in zip(curve.x, curve.values, strict=True)]
        worst = int(np.argmax([ratio.max() for ratio in ratios]))
        above = {
            x: float(np.mean(ratio > factor)) for x, ratio in zip(curve.x, ratios, strict=True)
        }
        shares = ", ".join(f"{share:.0%} at {x:g}" for x, share in above.items() if share)
        return _decide(
            not shares,
            f"largest error / bound is {ratios[worst].max():.3g} at {curve.x[worst]:g} (allowed "
            f"{factor:g})" + (f"; draws above it: {shares}" if shares else ""),
        )

    return _on(panel, check)


def below_measured(panel: str, label: str, limit: str) -> Check:
    """No repetition exceeds a bound computed from the same draw."""

    def check(result: FigureResult) -> Verdict:
        curve, limits = _curve(result, panel, label), _curve(result, panel, limit)
        ratios = [float((a / b).max()) for a, b in zip(curve.values, limits.values, strict=True)]
        worst = int(np.argmax(ratios))
        return _decide(
            ratios[worst] <= 1,
            f"largest error / bound is {ratios[worst]:.3g} at {curve.x[worst]:g}",
        )

    return _on(panel, check)


def agrees(panel: str, label: str, other: str, factor: float) -> Check:
    """Two curves are within a factor of each other at every common x."""

    def check(result: FigureResult) -> Verdict:
        first, second = _pair(result, panel, label, other, EVERYWHERE)
        ratio = first.mean / second.mean
        return _decide(
            1 / factor <= ratio.min() and ratio.max() <= factor,
            f"{label} / {other} lies between {ratio.min():.3g} and {ratio.max():.3g} (allowed "
            f"factor {factor:g})",
        )

    return _on(panel, check)


def all_of(*checks: Check | Iterable[Check]) -> Check:
    """Every check that can be made holds, and at least one can be made."""
    every = [one for each in checks for one in ([each] if callable(each) else each)]

    def check(result: FigureResult) -> Verdict:
        verdicts = [or_absent(each, result) for each in every]
        made = [verdict for verdict in verdicts if verdict.status != "not checked"]
        if not made:
            return verdicts[0]
        failed = [verdict.reason for verdict in made if verdict.status == "failed"]
        reasons = failed or [verdict.reason for verdict in made]
        missing = (
            "" if len(made) == len(verdicts) else f" ({len(verdicts) - len(made)} part not checked)"
        )
        return _decide(not failed, "; ".join(reasons) + missing)

    return check


def open_claims(*claims: tuple[str, str, str]) -> tuple[Claim, ...]:
    """Claims that nothing here can show: each with its place, and why."""
    return tuple(
        Claim(text=text, source=source, check=unmeasured(reason)) for text, source, reason in claims
    )


def unmeasured(reason: str) -> Check:
    """Nothing that draws could show; says why."""

    def check(result: FigureResult) -> Verdict:
        raise Absent(reason)

    return check


def _on(panel: str, check: Check) -> Check:
    """Say which panel a reason is about."""

    def named(result: FigureResult) -> Verdict:
        verdict = check(result)
        return Verdict(status=verdict.status, reason=f"{panel}: {verdict.reason}")

    return named


def _decide(holds: bool | np.bool_, reason: str) -> Verdict:
    return Verdict(status="confirmed" if holds else "failed", reason=reason)


def _panel(result: FigureResult, key: str) -> PanelResult:
    if key not in result.panels:
        raise Absent(f"panel {key} is not part of this run")
    return result.panels[key]


def _curve(result: FigureResult, panel: str, label: str) -> Curve:
    held = _panel(result, panel)
    if label in held.bounds:
        return held.bounds[label]
    if label not in held.curves:
        raise Absent(f"{label} was not measured")
    return held.curves[label]


def _slope(curve: Curve, label: str) -> float:
    if len(curve.x) < 2:
        raise Absent(f"{label} has fewer than two points")
    return float(np.polyfit(np.log(curve.x), np.log(curve.mean), 1)[0])


def _inside(curve: Curve, within: Range) -> Curve:
    return curve.where((curve.x >= within[0]) & (curve.x <= within[1]))


def _pair(
    result: FigureResult, panel: str, first: str, second: str, within: Range
) -> tuple[Curve, Curve]:
    """Two curves at their common x."""
    a, b = (_inside(_curve(result, panel, label), within) for label in (first, second))
    common = np.intersect1d(a.x, b.x)
    if not len(common):
        raise Absent(f"{first} and {second} have no point in common")
    return a.where(np.isin(a.x, common)), b.where(np.isin(b.x, common))
