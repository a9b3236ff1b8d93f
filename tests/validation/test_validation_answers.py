"""How a program's answers are measured."""

import pytest

import tailback as tb
from tailback_papers.stacks import PROGRAM
from tailback_validation import answers
from tailback_validation.standing import APART_US


@pytest.mark.parametrize("is_beside", [False, True])
def test_a_program_of_known_lateness_and_gaps_is_measured_as_such(is_beside: bool) -> None:
    what = answers.scenario("s2n-quic", is_beside=is_beside)
    at_once = answers.measure(tb.run(what))
    apart = APART_US["s2n-quic"]
    rate = f"{12_000 / apart:.0f}mbit"
    first, *others = what.flows
    spaced = first.with_(access_delay=PROGRAM, access_schedule=[{"at": "1ms", "delay": PROGRAM, "rate": rate}])
    found = answers.measure(tb.run(what.with_(flows=[spaced, *others])))
    assert (at_once.first_us, at_once.apart_us) == pytest.approx((0, 0), abs=1)
    # The delay counts each way, and the first datagram needs its own time, too.
    assert found.first_us == pytest.approx(2 * float(PROGRAM.removesuffix("us")) + apart, abs=2)
    assert found.apart_us == pytest.approx(apart, abs=2)
    assert found.datagrams > 2
