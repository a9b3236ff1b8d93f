"""From the engine's form back to a scenario: the general network, as TOML would hold it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailback.units import Bytes, Duration, Rate

from .links import LOSSES


def _named(key: str, name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: name} | dict(row.get("params") or {})


def _queue(row: Mapping[str, Any]) -> dict[str, Any]:
    inner = row.get("inner")
    return _named("discipline", row["discipline"], row) | ({"inner": _queue(inner)} if inner else {})


def unresolve(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The general network of a resolved description, as TOML would hold it."""

    def span(ps: int | None) -> str | None:
        return None if ps is None else str(Duration(ps))

    def lean(**values: Any) -> dict[str, Any]:
        return {key: value for key, value in values.items() if value not in (None, {}, [], ())}

    links = []
    for row in resolved["links"]:
        queue, wire = row.get("queue"), row.get("wire") or {}
        medium, trace = row.get("medium"), row.get("trace")
        finite = row.get("rate_bps") is not None or medium is not None or trace is not None
        links.append(
            lean(
                **{"from": row["from"]},
                name=row["name"],
                to=row["to"],
                rate=str(Rate(row["rate_bps"])) if row.get("rate_bps") is not None else None,
                delay=span(row.get("delay_ps") or None),
                tick_hz=row.get("tick_hz"),
                queue=_queue(queue) if queue and finite else None,
                wire=lean(
                    loss=wire.get("loss") or None,
                    duplicate=wire.get("duplicate") or None,
                    reorder=wire.get("reorder") or None,
                    reorder_delay=span(wire.get("reorder_delay_ps") or None),
                    reorder_packets=wire.get("reorder_packets") or None,
                    jitter=span(wire.get("jitter_ps") or None),
                    **{key: wire.get(key) or None for key in LOSSES},
                ),
                medium=(
                    _named("name", medium["name"], medium)
                    | lean(channel=medium.get("channel"), flow=medium.get("flow"))
                    if medium
                    else None
                ),
                schedule=[
                    lean(
                        at=str(Duration(step["at_ps"])),
                        rate=None if step.get("rate_bps") is None else str(Rate(step["rate_bps"])),
                        delay=span(step.get("delay_ps")),
                    )
                    for step in row.get("schedule") or ()
                ],
                trace=list(trace["deliveries_ms"]) if trace else None,
            )
        )
    flows = []
    for row in resolved["flows"]:
        tcp = row.get("tcp") or {}
        flows.append(
            lean(
                **{"from": row["from"]},
                name=row["name"],
                app=row["app"]["kind"],
                to=row["to"],
                route=row.get("route"),
                back_route=row.get("back_route"),
                start=span(row.get("start_ps") or None),
                stop=span(row.get("stop_ps")),
                again=[
                    lean(start=span(part["start_ps"]), stop=span(part.get("stop_ps")))
                    for part in row.get("again") or ()
                ],
                cc_turns=[
                    _named("name", turn["cc"], {"params": turn.get("cc_params")}) for turn in tcp.get("cc_turns") or ()
                ],
                cc=_named("name", tcp["cc"], {"params": tcp.get("cc_params")}) if tcp else None,
                stack=_named("name", tcp["stack"], {"params": tcp.get("stack_params")}) if tcp else None,
                receiver_stack=tcp.get("receiver_stack"),
                send_buffer=str(Bytes(tcp["send_buffer"])) if tcp.get("send_buffer") else None,
                receive_buffer=str(Bytes(tcp["receive_buffer"])) if tcp.get("receive_buffer") else None,
                mtu=str(Bytes(tcp["mtu"])) if tcp.get("mtu") else None,
                params=dict(row["app"].get("params") or {}),
            )
        )
    randomness = resolved.get("randomness") or {}
    given = resolved.get("instruments") or {}
    words = ("segments", "polls", "queue_polls", "queues", "drops", "packets", "requests", "echoes", "captures")
    return lean(
        name=resolved.get("name") or None,
        seed=resolved["seed"],
        duration=span(resolved["duration_ps"]),
        nodes=list(resolved.get("nodes") or ()),
        link=links,
        flow=flows,
        randomness=lean(
            start_spread=span(randomness.get("start_spread_ps") or None),
            processing_jitter=span(randomness.get("processing_jitter_ps") or None),
        ),
        instruments=lean(
            **{"from": span(given.get("from_ps") or None)},
            **{word: list(given.get(word) or ()) for word in words},
            internals=given.get("internals") or None,
            most_rows=given.get("most_rows"),
            poll_interval=span(given.get("poll_interval_ps") or None),
            until=span(given.get("until_ps")),
        ),
    )
