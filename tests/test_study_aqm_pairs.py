"""The fourth paper's study: its claims can come out either way, and its cells say what the paper says."""

from __future__ import annotations

import pytest

import tailback as tb
from tailback import studies
from tailback.studies.aqm_pairs import extract, grid
from tailback.studies.aqm_pairs.claims import CLAIMS
from tailback.studies.framework import Cell, Data, judge


def _data(summaries: dict[str, dict[str, object]], tmp_path) -> Data:
    return Data({}, {(key, 1): summary for key, summary in summaries.items()}, (1,), tmp_path)


def test_every_claim_names_a_figure_of_the_study():
    study = studies.get("aqm-pairs")
    figures = {plot.name for plot in study.plots}
    assert {claim.figure for claim in CLAIMS} <= figures
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS) == 13


def test_the_grid_is_the_papers():
    cells = {cell.key: cell for cell in grid.all_cells(quick=True)}
    assert len(cells) == 2 * 2 * (len(grid.DELAYS_MS) + len(grid.FAIR_DELAYS_MS))
    resolved = cells[grid.fair_key("cubic", "codel", 30)].scenario.resolve()
    assert len(resolved["flows"]) == 10
    bottleneck = next(link for link in resolved["links"] if link["name"] == "bottleneck")
    assert bottleneck["rate_bps"] == 100_000_000
    assert bottleneck["delay_ps"] == 30 * 10**9
    assert bottleneck["queue"]["discipline"] == "codel"


@pytest.mark.parametrize(("lead", "verdict"), [(1.2, "reproduced"), (1.0, "partly"), (0.8, "not")])
def test_cubics_lead_decides_its_claim(lead, verdict, tmp_path):
    rates = {"reno": 10.0, "cubic": 10.0 * lead}
    summaries = {
        grid.key_of(algorithm, queue, delay): {"wire_mbps": rate}
        for algorithm, rate in rates.items()
        for queue in grid.QUEUES
        for delay in grid.DELAYS_MS
    }
    claim = next(claim for claim in CLAIMS if claim.id == "004-L2")
    assert judge(claim, _data(summaries, tmp_path)).verdict == verdict


def test_without_runs_nothing_is_judged(tmp_path):
    # What was not run is neither for nor against a claim.
    for claim in CLAIMS:
        assert judge(claim, _data({}, tmp_path)).verdict == "not measured", claim.id


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
