"""The fourth paper's study: its claims can come out either way, and its cells say what the paper says."""

from __future__ import annotations

import numpy as np
import pytest

import tailback as tb
from tailback.experiment import Cell, Data, judge, studies
from tailback_papers.aqm_pairs import extract, grid
from tailback_papers.aqm_pairs.claims import CLAIMS

CELLS = {cell.key: cell for cell in grid.all_cells(quick=False)}
WHICH = Data(CELLS, {}, (1,))


def one(algorithm: str, queue: str, delay_ms: int) -> str:
    return WHICH.key(algorithm=algorithm, queue=queue, delay_ms=delay_ms)


def ten(algorithm: str, queue: str, delay_ms: int) -> str:
    return WHICH.key(algorithm=algorithm, queue=queue, delay_ms=delay_ms, flows=grid.FLOWS)


def _data(summaries: dict[str, dict[str, object]]) -> Data:
    return Data(CELLS, {(key, 1): summary for key, summary in summaries.items()}, (1,))


def test_every_claim_names_a_figure_of_the_study():
    study = studies.get("aqm-pairs")
    figures = {plot.name for plot in study.plots}
    assert {claim.figure for claim in CLAIMS} <= figures
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS) == 16


def test_the_grid_is_the_papers():
    cells = {cell.key: cell for cell in grid.all_cells(quick=True)}
    assert len(cells) == 2 * 2 * (len(grid.DELAYS_MS) + len(grid.FAIR_DELAYS_MS))
    resolved = cells[ten("cubic", "codel", 30)].scenario.resolve()
    assert len(resolved["flows"]) == 10
    bottleneck = next(link for link in resolved["links"] if link["name"] == "bottleneck")
    assert bottleneck["rate_bps"] == 100_000_000
    assert bottleneck["delay_ps"] == 30 * 10**9
    assert bottleneck["queue"]["discipline"] == "codel"


@pytest.mark.parametrize(("lead", "verdict"), [(1.2, "reproduced"), (1.0, "partly"), (0.8, "not")])
def test_cubics_lead_decides_its_claim(lead, verdict):
    rates = {"reno": 10.0, "cubic": 10.0 * lead}
    summaries = {
        one(algorithm, queue, delay): {"wire_mbps": rate}
        for algorithm, rate in rates.items()
        for queue in grid.QUEUES
        for delay in grid.DELAYS_MS
    }
    claim = next(claim for claim in CLAIMS if claim.id == "004-L2")
    assert judge(claim, _data(summaries)).verdict == verdict


def test_without_runs_nothing_is_judged():
    # What was not run is neither for nor against a claim.
    for claim in CLAIMS:
        assert judge(claim, _data({})).verdict == "not measured", claim.id


def test_extraction_counts_what_arrived():
    scenario = grid.scenario("one", "reno", "pfifo", 5).with_({}, duration="200s")
    result = tb.run(scenario)
    summary = extract.summarise(Cell("one", "one", scenario, {}), result)
    received = float(result.numpy("flows")["bytes_received"][0])
    assert summary["goodput_mbps"] == pytest.approx(received * 8e-6 / 200)
    # 536 of 588 bytes are payload, and the paper's unit is 1024 bits.
    assert summary["goodput_mbps"] == pytest.approx(summary["wire_mbps"] * 536 / 588, rel=0.01)
    assert summary["received_kibps"] == pytest.approx(summary["wire_mbps"] * 1e6 / 1024)
    assert len(summary["mbps_per_second"]) == 200


def _ten(index_so_far, per_second=None, algorithm="cubic", queue="codel", delay=5) -> dict[str, dict[str, object]]:
    """One fairness cell with an index for each of 200 seconds."""
    so_far = list(map(float, index_so_far))
    second = so_far if per_second is None else list(map(float, per_second))
    return {ten(algorithm, queue, delay): {"jain_so_far": so_far, "jain_per_second": second}}


def _verdict(name: str, summaries: dict[str, dict[str, object]], tmp_path) -> str:
    claim = next(claim for claim in CLAIMS if claim.id == name)
    return judge(claim, _data(summaries)).verdict


def test_an_index_that_never_rose_does_not_settle(tmp_path):
    # Constant from the first second: the old rule, the spread after 40 s alone, was met.
    rising = np.interp(np.arange(200), [0, 4, 35, 200], [0.5, 0.6, 0.9, 0.9])
    assert _verdict("004-Q1", _ten(np.full(200, 0.9)), tmp_path) == "not"
    assert _verdict("004-Q1", _ten(rising), tmp_path) == "reproduced"


def test_what_did_not_rise_cannot_stop_rising(tmp_path):
    late = np.where(np.arange(200) < 40, 0.9, 0.85)
    rising = np.interp(np.arange(200), [0, 4, 39, 40, 200], [0.5, 0.8, 0.9, 0.85, 0.85])
    assert _verdict("004-Q2", _ten(np.full(200, 0.9), late, queue="pfifo"), tmp_path) == "not"
    assert _verdict("004-Q2", _ten(rising, late, queue="pfifo"), tmp_path) == "reproduced"


@pytest.mark.parametrize(("power", "verdict"), [(2.0, "reproduced"), (1.1, "partly"), (0.5, "not")])
def test_growth_of_the_index_is_convex_or_not(power, verdict, tmp_path):
    # The old rule timed the sum of the rates, which says nothing of how evenly the flows share it.
    index = 0.4 + 0.5 * (np.minimum(np.arange(200), 100) / 100.0) ** power
    assert _verdict("004-L9", _ten(index, delay=30), tmp_path) == verdict


def test_a_flat_index_does_not_grow_convexly(tmp_path):
    assert _verdict("004-L9", _ten(np.full(200, 0.9), delay=30), tmp_path) == "not"


def test_a_little_less_fair_is_no_improvement(tmp_path):
    # Lower by less than 0.01 counted as improved.
    summaries: dict[str, dict[str, object]] = {}
    for algorithm in grid.ALGORITHMS:
        for delay in grid.FAIR_DELAYS_MS:
            for queue, level in (("codel", 0.895), ("pfifo", 0.9)):
                summaries |= _ten(np.full(200, level), algorithm=algorithm, queue=queue, delay=delay)
    assert _verdict("004-L5", summaries, tmp_path) == "not"


def test_every_figure_does_with_what_there_is(tmp_path):
    # With five readings for four panels the study crashed after its last run.
    for plot in studies.get("aqm-pairs").plots:
        plot.draw(Data({}, {}, (1,)))
