"""``dpcov doctor``."""

from tests.published.mistakes import MISTAKES, released


def test_doctor_prints_verdicts_causes_and_advice(desk):
    made = released("hospital", 7, [MISTAKES[0], MISTAKES[2]])
    made.save(desk.folder / "ill.dpcov")
    told = desk.done("doctor", desk.folder / "ill.dpcov")
    assert told.startswith(made.diagnose().headline)
    assert "▲ height: Its mean lies at the lower bound" in told
    assert "▲ ward: Its labels hold" in told
    assert "● " in told
