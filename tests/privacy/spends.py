"""What tests of the ledger share: releases, and files with a setting."""

from fractions import Fraction

from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from dpcov.privacy.ledger.spend import Spend
from dpcov.privacy.ledger.sqlite import LedgerFile

ONE, THIRD, TENTH = Fraction(1), Fraction(1, 3), Fraction(1, 10)
MILLIONTH = Fraction(1, 10**6)
RELATION = "replace-one"


def pure(epsilon, **also):
    return Spend(promise=PureDP(epsilon=Fraction(epsilon)), mechanism="pure", **also)


def zcdp(rho, **also):
    return Spend(promise=ZCDP(rho=Fraction(rho)), mechanism="zcdp", **also)


def approximate(epsilon, delta, **also):
    promise = ApproxDP(epsilon=Fraction(epsilon), delta=Fraction(delta))
    return Spend(promise=promise, mechanism="approximate", **also)


def gaussian(multiplier, epsilon=1, delta=MILLIONTH):
    return approximate(epsilon, delta, noise_multiplier=Fraction(multiplier))


SPEND = zcdp(TENTH)


def with_pragma(monkeypatch, pragma):
    """Let every connection to a ledger file begin with a setting."""
    connect = LedgerFile._connect

    def asked(store):
        connection = connect(store)
        connection.execute(f"PRAGMA {pragma}")
        return connection

    monkeypatch.setattr(LedgerFile, "_connect", asked)
