"""One BPF source file in both worlds: natively in the simulator, and on this machine's kernel."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tailback as tb
from real_engines import FOUND, needs_live
from tailback import live

EXAMPLES = Path(__file__).parents[2] / "bpf" / "examples"
LEASES = Path("/run/tailback")
pytestmark = [
    needs_live,
    pytest.mark.skipif(not FOUND["bpf_twins"], reason="no BPF here"),
    pytest.mark.skipif(shutil.which("clang") is None, reason="not installed: clang"),
]


def left_behind() -> list[str]:
    """Names of runs' congestion controls that the kernel knows and no run owns. Other runs come and go meanwhile."""
    before = [path.stem for path in LEASES.glob("tb*.json")]
    known = [name for name in live.doctor(0.0)["congestion_controls"] if name.startswith("tb")]
    marks = (*before, *(path.stem for path in LEASES.glob("tb*.json")))
    return [name for name in known if not name.startswith(marks)]


def summary(result: tb.Result) -> dict[str, float]:
    row = result.flow_summary()[0]
    return {"goodput_mbps": row["goodput_mbps"], "loss": row["loss"], "srtt_ms": row["srtt_ms"]}


@pytest.mark.parametrize("name", ["gentle", "steady"])
def test_the_same_file_does_the_same_in_the_simulator_and_on_the_kernel(name: str) -> None:
    candidate = tb.candidate(str(EXAMPLES / f"{name}.bpf.c"), allow_code=True)
    scenario = tb.dumbbell(
        rate="8mbit", rtt="50ms", queue="1bdp", flows=[tb.bulk(candidate.cc, name="bulk")], duration="4s"
    )
    one = summary(tb.run(scenario, allow_code=True))
    real = live.run(scenario, allow_code=True)
    other = summary(real)
    assert other["goodput_mbps"] == pytest.approx(one["goodput_mbps"], rel=0.08)
    if name == "gentle":
        # Steady takes the highest of its rate samples, and a busy machine's samples are scattered: its queue is not the
        # simulator's.
        assert other["srtt_ms"] == pytest.approx(one["srtt_ms"], rel=0.15)
        assert other["loss"] == pytest.approx(one["loss"], rel=0.25)
    assert [row["by"] for row in real.meta["controls"]["bulk"]] == ["own"]
    assert left_behind() == []


def test_what_the_kernel_refuses_is_said_with_the_verifiers_reason(tmp_path: Path) -> None:
    text = (EXAMPLES / "gentle.bpf.c").read_text()
    # A field that no BPF program may write; compiled natively it may.
    text = text.replace("gentle->rtt_us = 0;", "gentle->rtt_us = 0; tcp_sk(sk)->srtt_us = 8;")
    (tmp_path / "bad.bpf.c").write_text(text)
    bad = tb.candidate(str(tmp_path / "bad.bpf.c"), allow_code=True)
    scenario = tb.dumbbell(rate="8mbit", rtt="50ms", flows=[tb.bulk(bad.cc)], duration="1s")
    with pytest.raises(live.LiveError, match=r"bad\.bpf\.c"):
        live.run(scenario, allow_code=True)


def test_code_is_not_compiled_unless_allowed() -> None:
    scenario = tb.dumbbell(rate="8mbit", rtt="50ms", flows=[tb.bulk("bpf:mine.bpf.c")], duration="1s")
    with pytest.raises(tb.ScenarioError, match=r"asks to compile and run mine\.bpf\.c"):
        live.run(scenario)
