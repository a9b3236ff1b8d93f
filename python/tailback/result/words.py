"""What the codes in a result's tables mean, and which instrument fills a table."""

from __future__ import annotations

#: What happened to a packet in a queue, by code.
EVENTS = ("enqueue", "dequeue", "drop", "mark")
#: Why a packet was dropped, by code; 255 is none.
REASONS = ("queue-full", "overlimit", "aqm", "wire")
#: What happened to a sender's window, by code.
KINDS = ("recovery-entered", "recovery-left", "timeout", "cwr-entered", "undo", "cwr-left")
#: Recovery state of a sender, by code.
PHASES = ("open", "disorder", "cwr", "recovery", "loss")
#: What became of a packet, by code.
FATES = ("received", "dropped", "in-transit")

#: What kind of exchange a row of `requests` is, by code.
EXCHANGES = ("web", "probe", "transfer", "request")
#: What became of it, by code.
ANSWERS = ("answered", "abandoned", "waiting")

#: Which program of a flow a row of `programs` is, by code,
ROLES = ("server", "client")
#: and how it ended: by itself, when asked at its stop, or by force because it did not when asked.
ENDS = ("exited", "stopped", "killed")

#: The code, in a column of one byte, that is no word.
NONE = 255
#: The words of a table's column, by code.
WORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("queue", "event"): EVENTS,
    ("queue", "reason"): REASONS,
    ("congestion", "kind"): KINDS,
    ("segments", "phase"): PHASES,
    ("polls", "phase"): PHASES,
    ("packets", "fate"): FATES,
    ("requests", "kind"): EXCHANGES,
    ("requests", "fate"): ANSWERS,
    ("programs", "role"): ROLES,
    ("programs", "fate"): ENDS,
}

#: The instruments that fill a table; a table not listed here is always there.
INSTRUMENTS = {
    "segments": ("segments",),
    "polls": ("polls",),
    "internals": ("internals",),
    "queue": ("queues", "drops"),
    "queue_polls": ("queue_polls",),
    "packets": ("packets",),
    "requests": ("requests",),
    "echoes": ("echoes",),
    "wire": ("captures",),
    "headers": ("captures",),
    "header_sacks": ("captures",),
    "connections": ("captures",),
}
