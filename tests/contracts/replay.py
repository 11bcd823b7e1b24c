"""Make releases of different rows with the same noisy numbers.

Noise is handed out as `Noise`, which may only be added to exact numbers, and once.  A first run
records the sums, and another one gets the recorded sums, whatever its rows are.  The exact numbers
of both tell how much the noise had to hide.
"""

import builtins
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from dpcov.data.exact.sums import ExactSum
from dpcov.data.questions import Ask
from dpcov.mechanisms import gaussian, laplace, nuclear, stratified, stratified_nuclear
from dpcov.mechanisms.blocks import clip_search, counts
from dpcov.mechanisms.blocks.additive_noise import AdditiveNoise, MatrixNoise
from dpcov.mechanisms.geometry import survey_at_once
from dpcov.noise import choice, lattice
from dpcov.noise.nuclear import nuclear_noise, symmetric_nuclear_noise
from dpcov.privacy.guarantee import ZCDP


class Law(NamedTuple):
    """Of noise: its variance, scale or rate, and what was paid for it, where a count says so."""

    kind: str
    parameter: Any
    paid: Any = None

    def loss(self, exact, other):
        """What the noise has to hide: a rho if it is Gaussian, else an epsilon."""
        if self.kind == "choice":
            odds = [-float(self.parameter) * (costs - costs.min()) for costs in (exact, other)]
            one, two = (each - np.logaddexp.reduce(each) for each in odds)
            return float(np.abs(one - two).max())
        apart = np.asarray(exact, np.float64) - np.asarray(other, np.float64)
        if self.kind == "gaussian":
            return float((apart**2).sum() / (2 * self.parameter))
        if self.kind == "nuclear":
            return float(np.linalg.norm(apart, "nuc") / self.parameter)
        if self.kind == "upper":
            apart = np.triu(apart)
        return float(np.abs(apart).sum() / self.parameter)


class Step(NamedTuple):
    """Noisy numbers, and the exact ones behind them."""

    law: Law
    exact: Any
    made: Any


class Run:
    """All steps of a release, its questions, and the entropies that its noise was drawn from.

    An ``earlier`` one tells what is made.
    """

    def __init__(self, earlier=None):
        self.steps, self.questions, self.entropies, self.earlier = [], [], [], earlier

    def make(self, law, exact, how):
        """Record what is made, or take what was made earlier."""
        if self.earlier is None:
            made = how()
        else:
            before = self.earlier.steps[len(self.steps)]
            assert (before.law, np.shape(before.exact)) == (law, np.shape(exact))
            made = before.made
        self.steps.append(Step(law, exact, made))
        return made

    def losses(self, other):
        """Of every step, with its law, against a run on a neighboring table."""
        both = zip(self.steps, other.steps, strict=True)
        return [(one.law, one.law.loss(one.exact, two.exact)) for one, two in both]


class Noise:
    """Can be added to exact numbers once, and nothing else."""

    def __init__(self, run, law, drawn):
        self.run, self.law, self.drawn, self.exact, self.is_spent = run, law, drawn, 0, False

    def __radd__(self, exact):
        assert not self.is_spent
        self.is_spent = True
        # Traces are Python's integers, which may be long.
        drawn = self.drawn.item() if np.ndim(self.drawn) == 0 else self.drawn
        exact = exact if isinstance(exact, int) else np.add(exact, np.zeros_like(drawn))
        return self.run.make(self.law, exact, lambda: exact + drawn)

    def __array_ufunc__(self, ufunc, method, *inputs, **_):
        assert (ufunc, method) == (np.add, "__call__")
        return self.__radd__(next(each for each in inputs if each is not self))

    # The sum of all traces grows, and is read at the end.
    def __iadd__(self, exact):
        self.exact += exact
        return self

    @cached_property
    def _sum(self):
        return self.__radd__(self.exact)

    def __abs__(self):
        return abs(self._sum)

    def __rshift__(self, bits):
        return self._sum >> bits

    def __getitem__(self, place):
        return Noise(self.run, self.law, self.drawn[place])

    def __iter__(self):
        return (self[place] for place in range(len(self.drawn)))

    def reshape(self, *shape):
        return Noise(self.run, self.law, self.drawn.reshape(*shape))


@contextmanager
def recorded(earlier=None):
    """Within, a release is recorded, or made with what an earlier one made."""
    run, plus, draw, ask = Run(earlier), ExactSum.plus, counts.CountNoise.draw, Ask.__call__

    def drawn_by(law, sampler, *given):
        run.entropies.append(given[-1])
        return Noise(run, law, sampler(*given))

    def rounded(variance, size, entropy):
        return drawn_by(
            Law("gaussian", variance), lattice.rounded_gaussian, variance, size, entropy
        )

    def discrete(scale, size, entropy):
        return drawn_by(Law("laplace", scale), lattice.discrete_laplace, scale, size, entropy)

    def count(noise, size, entropy, *, disjoint=False):
        made = draw(noise, size, entropy, disjoint=disjoint)
        paid = noise.cost.rho if isinstance(noise.cost, ZCDP) else noise.cost.epsilon
        made.law = made.law._replace(paid=paid)
        return made

    def isotropic(d, variance, entropy, **_):
        return drawn_by(Law("gaussian", variance), _isotropic, d, variance, entropy)

    def entrywise(d, scale, entropy):
        return drawn_by(Law("upper", scale), _entrywise, d, scale, entropy)

    def idealized(draw):
        return lambda noise, size, entropy: drawn_by(_law_of(noise), draw, noise, size, entropy)

    def of_matrix(draw):
        def drawn(d, scale, entropy, *law):
            how = lambda entropy: draw(d, scale, entropy, *law)  # noqa: E731
            return drawn_by(Law("nuclear", scale), how, entropy)

        return drawn

    def chosen(costs, rate, entropy):
        run.entropies.append(entropy)
        how = partial(choice.exponential_choice, costs, rate, entropy)
        return run.make(Law("choice", rate), costs, how)

    def noisy(total, noise, *, room_for=0):
        if not isinstance(noise, Noise):
            return plus(total, noise, room_for=room_for)
        how = partial(plus, total, noise.drawn, room_for=room_for)
        matrix, dropped = run.make(noise.law, total.to_float(), how)
        return matrix.copy(), dropped

    def asked(self, question):
        run.questions.append(question)
        return ask(self, question)

    with pytest.MonkeyPatch.context() as patch:
        for module in (counts, gaussian, laplace, stratified, stratified_nuclear, clip_search):
            patch.setattr(module, "int", _int, raising=False)
            for name, function in (("rounded_gaussian", rounded), ("discrete_laplace", discrete)):
                if hasattr(module, name):
                    patch.setattr(module, name, function)
        for module in (gaussian, stratified):
            patch.setattr(module, "symmetric_noise", isotropic)
        patch.setattr(laplace, "symmetric_laplace", entrywise)
        for module in (nuclear, stratified_nuclear):
            patch.setattr(module, "symmetric_nuclear_noise", of_matrix(symmetric_nuclear_noise))
        patch.setattr(nuclear, "nuclear_noise", of_matrix(nuclear_noise))
        for kind in (AdditiveNoise, MatrixNoise):
            patch.setattr(kind, "draw", idealized(kind.draw))
        patch.setattr(survey_at_once, "exponential_choice", chosen)
        patch.setattr(counts.CountNoise, "draw", count)
        patch.setattr(ExactSum, "plus", noisy)
        patch.setattr(Ask, "__call__", asked)
        yield run


def _isotropic(d, variance, entropy):
    upper = np.triu(lattice.rounded_gaussian(variance // 2, d * d, entropy).reshape(d, d), 1)
    return upper + upper.T + np.diag(lattice.rounded_gaussian(variance, d, entropy))


def _entrywise(d, scale, entropy):
    upper = np.triu(lattice.discrete_laplace(scale, d * d, entropy).reshape(d, d))
    return upper + np.triu(upper, 1).T


def _law_of(noise):
    if "gaussian" in noise.law:
        return Law("gaussian", noise.scale**2)
    return Law({"laplace": "laplace", "wishart": "nuclear"}[noise.law], noise.scale)


def _int(number):
    return number if isinstance(number, Noise) else builtins.int(number)
