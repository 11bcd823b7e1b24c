from fractions import Fraction

import dpcov
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Guarantee, PureDP
from dpcov.published.words import cautions, change_in_words, conversions, promise_in_words
from tests.report.examples import make, plain


def formulas(promise):
    return {formula for formula, _ in conversions(promise)}


def test_conversions_follow_the_promise():
    pure = formulas(PureDP(epsilon=Fraction(2)))
    assert pure >= {"(2)-DP", "(2)-zCDP", "(4)-DP", "(10)-DP"}
    zcdp = formulas(ZCDP(rho=Fraction(1, 2)))
    assert any(formula.endswith("1e-6)-DP") for formula in zcdp)
    assert "(2)-zCDP" in zcdp
    # k e^(k - 1) epsilon delta, rounded up
    approximate = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6))
    assert "(2, 5.44e-6)-DP" in formulas(approximate)


def test_zero_epsilon_needs_no_attacker():
    free = PureDP(epsilon=Fraction(0))
    assert promise_in_words(free) == "Nothing in this file depends on the table."
    assert formulas(free) == {"(0)-DP"}


def test_the_relation_decides_what_is_hidden():
    def said(neighbors, rows):
        fixed = {"promise": ZCDP(rho=Fraction(1)), "numerics": "exact"}
        return change_in_words(Guarantee(neighbors=neighbors, rows_per_person=rows, **fixed))

    assert "The number of rows is public" in said("replace-one", 1)
    assert "hides who is in the table" in said("add-remove-one", 1)
    assert "at most 7" in said("replace-one", 7)


def test_cautions_name_what_holds_for_this_release():
    def heads(release):
        return " ".join(head for head, _ in cautions(release))

    assert "protects nobody" in heads(plain(entropy=dpcov.SeededEntropy(0)))
    usual = heads(make(("a", "b")))
    assert "protects nobody" not in usual
    assert "No ledger was charged" in usual
    assert "number of rows" in usual
    assert "number of rows" not in heads(make(("a", "b"), neighbors="add-remove-one"))
