"""Study stacks: the rules on s2n-quic can come out either way, and its tables name six stacks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tailback as tb
from tailback import metrics
from tailback.experiment import Data, judge
from tailback_papers import stacks

DEFECTS = Path(__file__).parents[2] / "docs/studies/stack-defects.md"

CELLS = {cell.key: cell for cell in stacks.grid(quick=False)}
#: What every sender does unless a case says otherwise: half of the link beside CUBIC, little loss.
USUAL = {"utilisation": 0.95, "loss": 0.001, "share": 0.5, "ours_mbps": 9.0, "short_s": 0.2}


def _data(**others: dict[str, float]) -> Data:
    """A run of every cell; `others` by sender, with `_` for what a keyword may not have."""
    summaries = {}
    for key, cell in CELLS.items():
        own = others.get(cell.factors["sender"].replace(" ", "_").replace("-", "_"), {})
        summaries[key, 1] = USUAL | own
    return Data(CELLS, summaries, (1,))


@pytest.mark.parametrize(
    ("ident", "good", "bad"),
    [
        ("ST-8", {}, {"s2n_quic_cubic": {"utilisation": 0.8}}),
        ("ST-9", {}, {"s2n_quic_cubic": {"share": 0.3}}),
        ("ST-10", {"linux_bbr": {"ours_mbps": 1.0}}, {"linux_bbr": {"ours_mbps": 8.9}}),
        ("ST-11", {}, {"s2n_quic_bbr2": {"loss": 0.3}}),
        ("ST-12", {}, {"s2n_quic_bbr2": {"utilisation": 0.5}}),
    ],
)
def test_a_rule_on_s2n_decides(ident: str, good: dict[str, dict[str, float]], bad: dict[str, dict[str, float]]) -> None:
    (claim,) = (claim for claim in stacks.CLAIMS if claim.id == ident)
    assert judge(claim, _data(**good)).verdict == "reproduced"
    assert judge(claim, _data(**bad)).verdict == "not"


def test_a_control_is_the_claims_rule_on_another_sender() -> None:
    known = {claim.id: claim for claim in stacks.CLAIMS}
    assert [each.id for each in stacks.CONTROLS] == ["ST-8", "ST-9", "ST-10", "ST-11", "ST-12"]
    for control in stacks.CONTROLS:
        assert (control.rule, control.definition) == (known[control.id].rule, known[control.id].definition)
    spoilt = _data(
        freebsd_cubic={"utilisation": 0.5}, quinn_cubic={"share": 0.2}, linux_cubic={"utilisation": 0.6},
        quinn_bbr={"loss": 0.4, "ours_mbps": 0.1}, linux_bbr={"ours_mbps": 1.0},
    )  # fmt: skip
    assert {judge(control, spoilt).verdict for control in stacks.CONTROLS} == {"not"}


def test_the_closing_table_has_six_stacks_and_quiche_was_not_run() -> None:
    rows = stacks.by_stack(_data()).rows
    assert [row[0].split()[0] for row in rows] == ["linux", "FreeBSD", "quinn", "noq", "s2n-quic", "quiche"]
    assert set(rows[-1][1:]) == {"–"}
    assert all("–" not in row[1:6] for row in rows[:-1])


@pytest.fixture(scope="module")
def defects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tb.Scenario]:
    """The page's scenarios, by name."""
    folder, found = tmp_path_factory.mktemp("defects"), {}
    for number, text in enumerate(re.findall(r"```toml\n(.*?)```", DEFECTS.read_text(encoding="utf-8"), re.DOTALL)):
        path = folder / f"{number}.toml"
        path.write_text(text, encoding="utf-8")
        scenario = tb.Scenario.from_toml(path)
        found[scenario.name] = scenario
        assert scenario.resolve()["flows"]
    return found


def test_s2ns_bursts_need_a_queue_of_ten_packets(defects: dict[str, tb.Scenario]) -> None:
    short = defects["s2n-cubic-bursts"]
    longer = tb.dumbbell(
        rate="20mbit", rtt="40ms", queue="14packets", flows=[tb.bulk("cubic", transport="s2n-quic")], duration="20s"
    )
    used = [100 * float(metrics.utilisation(tb.run(each), "bottleneck")) for each in (short, longer)]
    assert used == pytest.approx([10, 80], abs=2)


def test_quinns_bbr_loses_a_third_at_least_where_delay_varies(defects: dict[str, tb.Scenario]) -> None:
    def loss(scenario: tb.Scenario) -> float:
        return float(tb.run(scenario.with_(duration="8s")).flow_summary()[0]["loss"])

    varying = defects["quinn-bbr-jitter"]
    assert loss(varying) > 0.33
    assert loss(varying.with_({"dumbbell.wire": None})) < 0.05
    assert loss(varying.with_({"flow.theirs.transport": "noq", "flow.theirs.cc": "bbr3"})) < 0.05


def test_noqs_bbr3_answers_at_its_first_pacing_rate_and_its_cubic_loses_nothing(
    defects: dict[str, tb.Scenario],
) -> None:
    answers = defects["noq-bbr3-answers"]
    result = tb.run(answers)
    states = result.numpy("stack_states")
    assert set(states["pacing_bps"][states["at_receiver"]].tolist()) == {266_208_000}
    assert result.numpy("links")["dropped"][0] > 0.1 * result.numpy("links")["arrived"][0]
    other = tb.run(answers.with_({"flow.theirs.cc": "cubic"}))
    assert other.numpy("links")["dropped"].tolist() == [0, 0]


def test_s2ns_cubic_keeps_its_window_through_every_loss(defects: dict[str, tb.Scenario]) -> None:
    result = tb.run(defects["s2n-cubic-stuck"])
    polls = result.numpy("polls")
    assert set(polls["cwnd"][polls["t_s"] > 0.7].tolist()) == {48652}
    assert result.column("flows", "packets_dropped")[0] == 38


@pytest.mark.parametrize(("stack", "untold"), [("quinn", 20), ("noq", 0), ("s2n-quic", 0)])
def test_of_twenty_stops_with_a_full_window_quinn_announces_none(
    defects: dict[str, tb.Scenario], stack: str, untold: int
) -> None:
    found = []
    for stop_ms in range(1000, 1400, 20):
        flow = tb.bulk("cubic", transport=stack, name="theirs", stop=f"{stop_ms}ms")
        flows = tb.run(defects["quinn-untold"].with_(flows=[flow])).numpy("flows")
        found.append((int(flows["connections_failed"][0]), int(flows["connections_open"][0])))
    assert sum(failed + still_open for failed, still_open in found) == untold
    if untold:
        # Still open after five seconds, or failed by a reset, as the page says of these two.
        assert (found[0], found[2]) == ((0, 1), (1, 0))
        assert tb.run(defects["quinn-untold"]).numpy("packets")["sent_s"].max() < 1.0
