"""TOML beyond the standard library: writing it, and finding the line a value stands on.

The standard library reads TOML but neither writes it nor says where a key was; both needs here are small.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["dump", "lines", "look_up", "read"]

#: Parts of a key, and levels of brackets: the standard library takes quadratic time over the first and recurses over
#: the second; no description has six.
_DEEPEST = 100
_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w.-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{_DEEPEST}}}")


def read(text: str) -> dict[str, Any]:
    """What TOML text holds; `tomllib.TOMLDecodeError` if it is none, or nested as nothing here is."""
    found = _LONG_KEY.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        raise tomllib.TOMLDecodeError(f"A key of more than {_DEEPEST} parts (at line {line}, column 1)")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("Brackets are nested too deeply") from None


def dump(document: Mapping[str, Any], tables: Sequence[str]) -> str:
    """`document` as TOML text.

    The top-level keys in `tables` become `[table]` or `[[table]]` sections, deeper mappings inline tables; the
    rest comes first, in the order given.

    >>> print(dump({"seed": 1, "flow": [{"app": "bulk"}]}, ["flow"]), end="")
    seed = 1
    <BLANKLINE>
    [[flow]]
    app = "bulk"
    """
    out = [f"{_key(key)} = {_value(value)}\n" for key, value in document.items() if key not in tables]
    for name in tables:
        section = document.get(name)
        if isinstance(section, Mapping):
            out.append(f"\n[{_key(name)}]\n" + _body(section))
        elif section:
            out.extend(f"\n[[{_key(name)}]]\n" + _body(row) for row in section)
    return "".join(out).lstrip("\n")


def _body(section: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in section.items())


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _string(key)


def _string(text: str) -> str:
    # JSON's escapes are TOML's, but TOML also wants DEL escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }" if value else "{}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    raise TypeError(f"TOML has no {type(value).__name__}")


_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?")
_WORD = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_ASSIGNMENT = re.compile(rf"\s*({_WORD}(?:\s*\.\s*{_WORD})*)\s*=")


def lines(text: str) -> dict[str, int]:
    r"""Line (counted from one) of each table header and key, by path such as `flow[0].cc`.

    What stands inside a value that spans lines is found with the value.

    >>> lines('seed = 1\n[[flow]]\ncc = "reno"\n')
    {'seed': 1, 'flow': 2, 'flow[0]': 2, 'flow[0].cc': 3}
    """
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    prefix = ""
    depth = 0  # open brackets of a value that spans lines
    quote = ""  # the delimiter of a string that spans lines
    for number, line in enumerate(text.splitlines(), start=1):
        rest = line
        if not depth and not quote:
            header = _HEADER.fullmatch(line)
            if header:
                name = _path(header[2])
                # `[flow.app]` after `[[flow]]` belongs to the newest flow.
                for table, count in counts.items():
                    if name.startswith(table + "."):
                        name = f"{table}[{count - 1}]{name[len(table) :]}"
                found.setdefault(name, number)
                if header[1] == "[[":
                    counts[name] = counts.get(name, 0) + 1
                    name = f"{name}[{counts[name] - 1}]"
                    found.setdefault(name, number)
                prefix = name + "."
                continue
            assignment = _ASSIGNMENT.match(line)
            if not assignment:
                continue
            found.setdefault(prefix + _path(assignment[1]), number)
            rest = line[assignment.end() :]
        depth, quote = _scan(rest, depth, quote)
    return found


def _path(dotted: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in dotted.split("."))


def _scan(text: str, depth: int, quote: str) -> tuple[int, str]:
    """Brackets and multi-line string still open after `text`."""
    at = 0
    while at < len(text):
        if quote:
            end = text.find(quote, at)
            if end < 0:
                # A one-line string left open is a syntax error that the parser reports.
                return depth, quote if len(quote) == 3 else ""
            escaped = quote[0] == '"' and (end - len(text[:end].rstrip("\\"))) % 2 == 1
            at = end + (1 if escaped else len(quote))
            quote = quote if escaped else ""
            continue
        character = text[at]
        if character == "#":
            break
        if character in "\"'":
            quote = character * 3 if text.startswith(character * 3, at) else character
            at += len(quote)
            continue
        depth += (character in "[{") - (character in "]}")
        at += 1
    return max(depth, 0), quote if len(quote) == 3 else ""


def look_up(told: Mapping[str, Any], place: str) -> Any:
    """What a scenario, as TOML would hold it, says at `place`, if it is a single value."""
    here: Any = told
    for step in re.findall(r"[^.\[\]]+", place):
        if isinstance(here, Mapping):
            here = here.get(step)
        elif isinstance(here, list) and step.isdigit() and int(step) < len(here):
            here = here[int(step)]
        else:
            return None
    return None if isinstance(here, Mapping | list) else here
