"""A flow's TCP state as the log of FreeBSD's siftr(4), 9.x layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tailback import _core
from tailback.errors import ResultError

if TYPE_CHECKING:
    from tailback.result import Result

#: ssthresh before any congestion as siftr prints it: 65535 << 14.
_UNLIMITED = 65535 << 14
_RTT_SCALE = 32


def lines(result: Result, flow: int, at_receiver: bool, hz: int) -> list[str]:
    """The log's lines: on, a record a segment (inbound before TCP saw it, outbound after), off."""
    table = result.numpy("segments")
    mask = (table["flow"] == flow) & (table["at_receiver"] == at_receiver)
    rows = {name: column[mask] for name, column in table.items()}
    count = len(rows["t_s"])
    if not count:
        side = "receiver" if at_receiver else "sender"
        raise ResultError(
            f"no segments of {result.flow_names[flow]} were recorded at its {side}. "
            "Switch them on in the scenario, [instruments] segments, and run again."
        )
    hosts = _core.flow_addresses(flow, int(result.flow_spec(flow).get("ip", 4)))
    ports = [49152 + flow % 16384, 5001]
    own, peer = (1, 0) if at_receiver else (0, 1)
    ends = f"{hosts[own]},{ports[own]},{hosts[peer]},{ports[peer]}"

    def whole(name: str, scale: float = 1.0) -> list[int]:
        values = np.nan_to_num(np.asarray(rows[name], dtype=np.float64)) * scale
        return np.rint(values).astype(np.int64).tolist()  # type: ignore[no-any-return]

    ssthresh = np.fmin(rows["ssthresh"], _UNLIMITED).astype(np.int64).tolist()
    columns = [
        ["o" if outgoing else "i" for outgoing in rows["outgoing"].tolist()],
        ["0x00000000"] * count,
        [f"{t:.6f}" for t in rows["t_s"].tolist()],
        [ends] * count,
        ssthresh,
        whole("cwnd"),
        [_UNLIMITED] * count,  # the bandwidth-limited window, unused since FreeBSD 8
        whole("snd_wnd"),
        whole("rcv_wnd"),
        whole("snd_scale"),
        whole("rcv_scale"),
        whole("state"),
        whole("mss"),
        whole("srtt_s", _RTT_SCALE * hz),
        whole("sack_enabled"),
        whole("flags"),
        whole("rto_s", hz),
        whole("snd_buf"),
        whole("snd_buf_used"),
        whole("rcv_buf"),
        whole("rcv_buf_used"),
        whole("in_flight"),
        whole("reassembly"),
    ]
    outbound = int(np.count_nonzero(rows["outgoing"]))
    on = {
        "enable_time_secs": 0, "enable_time_usecs": 0, "siftrver": "1.2.4", "hz": hz,
        "tcp_rtt_scale": _RTT_SCALE, "sysname": "tailback", "sysver": _core.version(), "ipmode": 4,
    }  # fmt: skip
    seconds, micros = divmod(round(result.duration_s * 1e6), 10**6)
    off = {
        "disable_time_secs": seconds, "disable_time_usecs": micros,
        "num_inbound_tcp_pkts": count - outbound, "num_outbound_tcp_pkts": outbound, "total_tcp_pkts": count,
        "num_inbound_skipped_pkts_malloc": 0, "num_outbound_skipped_pkts_malloc": 0,
        "num_inbound_skipped_pkts_mtx": 0, "num_outbound_skipped_pkts_mtx": 0,
        "num_inbound_skipped_pkts_tcb": 0, "num_outbound_skipped_pkts_tcb": 0,
        "num_inbound_skipped_pkts_icb": 0, "num_outbound_skipped_pkts_icb": 0,
        "total_skipped_tcp_pkts": 0, "flow_list": "{};{}-{};{},".format(*ends.split(",")),
    }  # fmt: skip
    records = (",".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))
    return ["\t".join(f"{k}={v}" for k, v in on.items()) + "\n", *records,
            "\t".join(f"{k}={v}" for k, v in off.items()) + "\n"]  # fmt: skip
