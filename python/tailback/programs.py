"""Programs as candidates: a flow's `cc = "program:mine.toml"` replaces its transport by two command lines.

The file has the command lines of a server, a client and, for transfers of a given size, another client:

    server = "{here}/quic serve {server_addr} {port}"
    client = "{here}/quic get {server_addr}:{port} {seconds}"
    transfer = "{here}/quic fetch {server_addr}:{port} {bytes}"
    sends = "server"

A bulk flow with it becomes a flow of programs (`app = "exec"`), which runs on a kernel. `{here}` is the file's folder,
`{seconds}` the flow's time rounded up, `{bytes}` its size; the others are those of docs/live.md. See
docs/candidates.md.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailback.compiled import place
from tailback.errors import Problem, ScenarioError, TailbackError, nearest
from tailback.units import Bytes, Duration

__all__ = ["PREFIX", "Program", "in_place", "is_source", "over_kernel", "read", "written_in"]

PREFIX = "program:"
CLIENT, SERVER = "client", "server"
#: Optional fields of a file, besides the required ones.
_OWN = ("server", "client", "transfer", "sends", "cc")
#: Parameters of `app = "exec"` that a program's file may set.
_PASSED = (
    "files",
    "needs",
    "collect",
    "parse",
    "pattern",
    "port",
    "ready",
    "ready_by",
    "grace",
    "status",
    "server_status",
)
_EXAMPLE = "See docs/candidates.md"
#: Metrics that need the kernel's TCP, or a flow's internal state.
_OF_TCP = ("retransmitted", "timeouts", "rtt_min_ms", "srtt_ms", "slow_start_cwnd_bytes", "in_flight_max_bytes")
_OF_TCP_BEGIN = ("cwnd_", "window_", "own_")


@dataclass(frozen=True)
class Program:
    """A program, as its file describes it."""

    file: Path
    text: str
    server: str
    client: str
    transfer: str
    #: The end that sends the data: "client" or "server".
    sends: str
    #: Congestion control for its TCP connections; empty if it does not use the kernel's TCP.
    cc: str
    params: Mapping[str, Any]

    def flow(self, row: Mapping[str, Any], at: str, until: Any) -> dict[str, Any]:
        """The flow `row` (field `at`) of a scenario that ends at `until`, with the program as its application.

        Raises `ScenarioError` for a flow that the program cannot replace.
        """
        cc = row["cc"] if isinstance(row["cc"], Mapping) else {}
        for key in cc:
            if key not in ("name", "cc"):
                fix = f"Write it into a command line of {self.file.name}; only cc can be given: {PREFIX}FILE,cc=bbr"
                raise _refused(f"{at}.cc.{key}", cc[key], "a program has no such parameter", fix)
        app, params = str(row.get("app", "bulk")), dict(row.get("params") or {})
        size = params.pop("bytes", row.get("bytes"))
        if app != "bulk" or params:
            what = f"is of {app}" if app != "bulk" else f"sets {', '.join(params)}"
            problem = f"a program stands for bulk transfers alone, and this flow {what}"
            raise _refused(f"{at}.app", app, problem, "Take another candidate here, or another scenario")
        if size and not self.transfer:
            problem = f"this flow transfers {size}, and {self.file.name} has no command line for that"
            fix = 'Add for example transfer = "{here}/mine get {server_addr} {port} {bytes}"'
            raise _refused(f"{at}.params.bytes", size, problem, fix)
        line = self.transfer.replace("{bytes}", str(int(Bytes(size)))) if size else self.client
        seconds = Duration(row.get("stop", until)).seconds - Duration(row.get("start", "0s")).seconds
        line = line.replace("{seconds}", str(math.ceil(seconds)))
        out = {key: value for key, value in row.items() if key not in ("bytes", "params", "transport")}
        out |= {"app": "exec", "server": self.server, "client": line, "cc": cc.get("cc", self.cc)}
        out["params"] = {key: value for key, value in self.params.items() if key != "parse"}
        if "parse" in self.params:
            out["parse"] = self.params["parse"]
        if self.sends == SERVER:
            # Clients run at `from`, where the flow's data start.
            out |= {"from": row.get("to", "right"), "to": row.get("from", "left")}
        return out


def is_source(name: str) -> bool:
    """Whether it is like "program:mine.toml"."""
    return name.startswith(PREFIX)


def read(name: str, folder: Path | None = None) -> Program:
    """The program of "program:mine.toml", from `folder` or here; `TailbackError` with the fault of the file."""
    file = place(name.removeprefix(PREFIX), folder)
    try:
        text = file.read_text(encoding="utf-8-sig")
        given = tomllib.loads(text)
    except OSError as error:
        fix = "Give the file that describes the program"
        raise TailbackError(f"{file} cannot be read: {error.strerror}. {fix}") from None
    except UnicodeDecodeError:
        raise TailbackError(f"{file} is not UTF-8 text. Save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise TailbackError(f"{file} is not TOML: {error}. {_EXAMPLE}") from None
    known = (*_OWN, *_PASSED)
    for key, value in given.items():
        if key not in known:
            close = nearest(key, known)
            hint = f'Did you mean "{close}"? ' if close else ""
            raise TailbackError(f"{file}: {key}: there is no such field. {hint}There are: {', '.join(known)}")
        if key in _OWN and not (isinstance(value, str) and value.strip()):
            raise TailbackError(f"{file}: {key} = {json.dumps(value, default=str)}: it is no text. {_EXAMPLE}")
    for key in (SERVER, CLIENT):
        if key not in given:
            fix = f'Add for example {key} = "{{here}}/mine {key} {{server_addr}} {{port}}"'
            raise TailbackError(f"{file}: {key}: there is no command line of the {key}. {fix}")
    if given.get("sends", CLIENT) not in (CLIENT, SERVER):
        raise TailbackError(f'{file}: sends = "{given["sends"]}": it is no end. Write "{CLIENT}" or "{SERVER}"')
    if "{bytes}" not in given.get("transfer", "{bytes}"):
        line = json.dumps(given["transfer"])
        raise TailbackError(f"{file}: transfer = {line}: nothing says how much. Write {{bytes}} in it")
    return Program(
        file, text, given[SERVER], given[CLIENT], given.get("transfer", ""), given.get("sends", CLIENT),
        given.get("cc", "cubic"), {key: given[key] for key in _PASSED if key in given},
    )  # fmt: skip


def written_in(flows: Any) -> list[str]:
    """The programs that flows name, in the form that `Scenario` holds."""
    return list(dict.fromkeys(cc["name"] for row in flows if (cc := row["cc"]) and is_source(str(cc["name"]))))


def in_place(fields: dict[str, Any], names: list[str], folder: Path | None) -> dict[str, Any]:
    """A scenario's fields with command lines in place of flows' programs; `names` are the names of all flows."""
    flows = []
    for number, (row, name) in enumerate(zip(fields["flow"], names, strict=True)):
        cc = row.get("cc") or ""
        written = str(cc.get("name") if isinstance(cc, Mapping) else cc)
        if is_source(written):
            try:
                row = read(written, folder).flow(row, f"flow[{number}]", fields["duration"]) | {"name": name}
            except ScenarioError:
                raise
            except TailbackError as error:
                problem, _, fix = str(error).partition(". ")
                raise _refused(f"flow[{number}].cc", written, problem, fix) from None
        flows.append(row)
    return fields | {"flow": flows}


def over_kernel(metric: str) -> bool:
    """Whether a flow's metric needs the kernel's TCP, which a program may not use."""
    key = metric.rpartition(".")[2]
    return key in _OF_TCP or key.startswith(_OF_TCP_BEGIN)


def _refused(field: str, value: Any, problem: str, fix: str) -> ScenarioError:
    return ScenarioError([Problem(field, value, problem, fix)])
