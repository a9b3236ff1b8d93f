"""The trust boundary: which effects an input may have, and the consent that each effect needs.

A file may come from a stranger. Reading, checking, showing and comparing it run no code that it names. A run does so
only if its caller allows it: `allow_code=True`, or `--allow-code` on the command line. `BOUNDARY` is the complete
table; docs/security.md shows it (`scripts/security_page`), and tests/test_boundary.py tests every cell.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailback import registry
from tailback.algorithms import disciplines, is_reference
from tailback.errors import Problem, ScenarioError, StoreError

if TYPE_CHECKING:
    from tailback.scenario import Scenario

__all__ = [
    "BOUNDARY",
    "EFFECTS",
    "allow_bucket",
    "asked_for",
    "demand_allowed",
    "demand_bucket_allowed",
    "demand_kept_allowed",
    "demand_kernel_allowed",
    "markdown",
    "without_references",
]

#: Effects that an input might have besides being read.
EFFECTS = ("run code", "boot", "write outside", "network", "delete")
_CODE, _BUCKET, _KERNEL, _OUT = "`--allow-code`", "`--tables-at URL`", "`--kernel IMAGE`", "`--out`"
#: By input and effect: the consent that the effect requires. An effect that is not listed never happens.
BOUNDARY: dict[str, dict[str, str]] = {
    "scenario": {"run code": _CODE},
    "sweep": {"run code": _CODE},
    "result": {"run code": f"`repeat` with {_CODE}", "boot": f"`repeat` with {_KERNEL}", "delete": _OUT},
    "store": {"write outside": _BUCKET, "network": _BUCKET, "delete": "`results gc`"},
    "capture": {},
    "suite": {"run code": _CODE},
    "kernel path": {"boot": _KERNEL},
    "bucket": {},
    "trace": {},
    "action input": {
        "run code": "`allow-code`, `algorithm`, `package`",
        "write outside": "`junit`, `comment`, `page`, `history`",
    },
    "working folder": {},
}

_FIX = "Read that code first; then allow it with --allow-code, or allow_code=True in Python."


def asked_for(resolved: Mapping[str, Any]) -> list[Problem]:
    """The code that a resolved scenario names, as the problems to report without consent; often empty."""
    out = []
    named = {name for link in resolved.get("links", ()) for _, name in disciplines(link.get("queue", {}))}
    for name in sorted(filter(is_reference, named)):
        kind, _, what = name.partition(":")
        verb = "import" if kind == "python" else "compile"
        problem = f"the scenario asks to {verb} and run {what}"
        out.append(Problem("queue.discipline", name, problem, _FIX))
    for index, flow in enumerate(resolved.get("flows", ())):
        place, tcp = f"flow[{index}]", flow.get("tcp") or {}
        transport = str(tcp.get("transport") or "")
        if is_reference(transport):
            kind, _, what = transport.partition(":")
            verb = "import" if kind == "python" else "compile"
            problem = f"the scenario asks to {verb} and run {what}"
            out.append(Problem(f"{place}.transport", transport, problem, _FIX))
        rows = [(f"{place}.cc", tcp)]
        rows += [(f"{place}.cc_turns[{turn}]", row) for turn, row in enumerate(tcp.get("cc_turns") or ())]
        for field, row in rows:
            name = str(row.get("cc", ""))
            if is_reference(name):
                kind, _, what = name.partition(":")
                verb = "import" if kind == "python" else "compile"
                out.append(Problem(field, name, f"the scenario asks to {verb} and run {what}", _FIX))
        if registry.application(flow).runs_programs:
            for role in ("server", "client"):
                line = (flow["app"].get("params") or {}).get(role)
                if line:
                    out.append(Problem(f"{place}.{role}", line, "the scenario asks to run this program", _FIX))
    return out


def demand_allowed(resolved: Mapping[str, Any], allow_code: bool, written: Scenario | None = None) -> None:
    """Raise `ScenarioError`, with lines of `written`, if a scenario needs to run code without consent."""
    found = [] if allow_code else asked_for(resolved)
    if found:
        error = ScenarioError(found)
        raise error if written is None else error.located(written._file, written._places)


def demand_kept_allowed(kept: Iterable[str], allow_code: bool) -> None:
    """Raise `ScenarioError` if a result keeps sources of algorithms and may not run them."""
    names = ", ".join(kept)
    if names and not allow_code:
        fix = "Read the sources in the result's folder algorithms/; then allow it with --allow-code, or allow_code=True"
        raise ScenarioError([Problem("cc", names, "the result asks to run the code it keeps", fix)])


def without_references(resolved: Mapping[str, Any], which: Callable[[str], bool] = is_reference) -> dict[str, Any]:
    """The resolved scenario with "reno" or a FIFO in place of references (or of what `which` selects)."""

    def plain(row: Mapping[str, Any]) -> dict[str, Any]:
        if which(str(row.get("transport") or "")):
            return {key: value for key, value in row.items() if key != "transport"} | {"cc": "reno", "stack": "linux"}
        return dict(row) | ({"cc": "reno", "cc_params": {}} if which(str(row.get("cc", ""))) else {})

    flows = []
    for flow in resolved["flows"]:
        tcp = flow.get("tcp")
        if tcp:
            turns = {"cc_turns": [plain(turn) for turn in tcp["cc_turns"]]} if tcp.get("cc_turns") else {}
            flow = flow | {"tcp": plain(tcp) | turns}
        flows.append(flow)
    links = [
        link | {"queue": {"discipline": "fifo", "params": {}}}
        if any(which(name) for _, name in disciplines(link.get("queue", {})))
        else link
        for link in resolved.get("links", ())
    ]
    return dict(resolved) | {"flows": flows} | ({"links": links} if links else {})


_TABLES_AT = "TAILBACK_TABLES_AT"
_allowed_buckets: set[str] = set()


def allow_bucket(url: str) -> None:
    """Allow this process to access the bucket at `url` for the tables of stores that name it."""
    _allowed_buckets.add(url)


def demand_bucket_allowed(store: Path, url: str) -> None:
    """Raise `StoreError` unless the caller has named the bucket that a store names for its tables."""
    if url not in _allowed_buckets and url not in os.environ.get(_TABLES_AT, "").split():
        raise StoreError(
            f"{store} says that its tables are at {url}. If you trust this address, give it as --tables-at {url}, as "
            f'Store("{store}", tables_at="{url}") in Python, or in the environment as {_TABLES_AT}'
        )


def demand_kernel_allowed(named: str, given: str | None) -> str:
    """The kernel to boot for a result made on the kernel `named`; `ScenarioError` if the caller must give it.

    A fetched kernel has a plain name. The path of an image comes from the result, which may be a stranger's, so the
    caller must give it.
    """
    if given is None and ("/" in named or "\\" in named):
        fix = f"If you trust this image, give it: --kernel {named}, or kernel=... in Python"
        raise ScenarioError([Problem("kernel", named, "the result asks to boot this kernel image", fix)])
    return named if given is None else given


def markdown() -> str:
    """`BOUNDARY` as the table in docs/security.md."""
    rows = [["input", *EFFECTS], ["---"] * (len(EFFECTS) + 1)]
    rows += [[name, *(row.get(effect, "never") for effect in EFFECTS)] for name, row in BOUNDARY.items()]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
