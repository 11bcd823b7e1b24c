from fractions import Fraction

from dpcov.privacy.guarantee import ZCDP, ApproxDP, Guarantee, PureDP
from dpcov.published.words import cautions, change_in_words, conversions, promise_in_words
from tests.report.examples import make, plain


def test_conversions_follow_the_promise():
    assert dict(conversions(PureDP(epsilon=Fraction(2)))).keys() >= {
        "(2)-DP",
        "(2)-zCDP",
        "(4)-DP",
        "(10)-DP",
    }
    zcdp = [formula for formula, _ in conversions(ZCDP(rho=Fraction(1, 2)))]
    assert any(formula.endswith("1e-6)-DP") for formula in zcdp)
    assert "(2)-zCDP" in zcdp
    approximate = [
        formula
        for formula, _ in conversions(ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6)))
    ]
    # k e^(k - 1) epsilon delta, rounded up
    assert "(2, 5.44e-6)-DP" in approximate


def test_zero_epsilon_needs_no_attacker():
    free = PureDP(epsilon=Fraction(0))
    assert promise_in_words(free) == "Nothing in this file depends on the table."
    assert [formula for formula, _ in conversions(free)] == ["(0)-DP"]


def test_the_relation_decides_what_is_hidden():
    def said(neighbors, rows):
        promise = ZCDP(rho=Fraction(1))
        return change_in_words(
            Guarantee(promise=promise, neighbors=neighbors, rows_per_person=rows, numerics="exact")
        )

    assert "The number of rows is public" in said("replace-one", 1)
    assert "hides who is in the table" in said("add-remove-one", 1)
    assert "at most 7" in said("replace-one", 7)


def test_cautions_name_what_holds_for_this_release():
    import dpcov

    def heads(release):
        return " ".join(head for head, _ in cautions(release))

    assert "protects nobody" in heads(plain(entropy=dpcov.SeededEntropy(0)))
    usual = make(("a", "b"))
    assert "protects nobody" not in heads(usual)
    assert "No ledger was charged" in heads(usual)
    assert "number of rows" in heads(usual)
    assert "number of rows" not in heads(make(("a", "b"), neighbors="add-remove-one"))
