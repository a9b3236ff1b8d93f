"""What a fair queue takes for a flow: each call and connection, as a hash of addresses and ports would."""

from __future__ import annotations

import numpy as np
import pytest

import tailback as tb


@pytest.mark.parametrize("discipline", ["fq_codel", "sfq"])
def test_calls_of_one_flow_are_flows_of_their_own_to_a_fair_queue(discipline: str) -> None:
    calls = tb.flow("voip", params={"calls": 20})
    made = tb.dumbbell(
        rate="4mbit", rtt="40ms", queue=discipline, flows=[tb.bulk("cubic"), calls], duration="10s",
        instruments={"packets": "all"},
    )  # fmt: skip
    result = tb.run(made)
    rows = result.where_flow("packets", 1)
    assert set(rows["stream"]) == set(range(20))
    # 20 calls of 80 kbit/s take less than their share: none waits behind the transfer, none is dropped.
    assert int(result.numpy("flows")["packets_dropped"][1]) == 0
    assert np.nanmax(rows["received_s"] - rows["sent_s"]) < 0.040
