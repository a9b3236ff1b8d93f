"""Worked examples: algorithms to import, and scenarios by name, all inside the package.

>>> from tailback import examples
>>> "voip-and-bulk" in examples.names()
True
"""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import takewhile
from pathlib import Path
from posixpath import dirname, join, normpath

__all__ = ["about", "copying", "crate", "data", "located", "names", "needs", "queue_crate", "read"]


def crate() -> Path:
    """The folder of the template of a congestion control in Rust.

    >>> from tailback import examples
    >>> sorted(each.name for each in examples.crate().iterdir())
    ['Cargo.toml', 'src']
    """
    return Path(__file__).parent / "crate"


def queue_crate() -> Path:
    """The folder of the template of a queue discipline in Rust, and CoDel as a worked example.

    >>> from tailback import examples
    >>> sorted(each.name for each in examples.queue_crate().iterdir())
    ['Cargo.toml', 'codel.rs', 'src']
    """
    return Path(__file__).parent / "queue_crate"


def _folder() -> Traversable:
    return files(__name__).joinpath("scenarios")


def names() -> list[str]:
    """The scenarios' names, such as "voip-and-bulk" and "grids/queue-length", in alphabetical order."""
    return sorted(_below(_folder(), ""))


def _below(folder: Traversable, prefix: str) -> list[str]:
    out = []
    for each in folder.iterdir():
        if each.is_dir():
            out += _below(each, f"{prefix}{each.name}/")
        elif each.name.endswith(".toml") and each.name != "Cargo.toml":
            out.append(prefix + each.name.removesuffix(".toml"))
    return out


def read(name: str) -> str:
    """The text of a scenario by name; `KeyError` if there is none of that name."""
    if name not in names():
        raise KeyError(name)
    return _folder().joinpath(*f"{name}.toml".split("/")).read_text(encoding="utf-8")


def located(path: str | os.PathLike[str]) -> Path:
    """The path itself if it exists; else, if it is an example's name, the example's file."""
    given = Path(path)
    name = given.as_posix().removesuffix(".toml")
    if given.exists() or name not in names():
        return given
    return Path(__file__).parent.joinpath("scenarios", *f"{name}.toml".split("/"))


def copying(path: str | os.PathLike[str]) -> str | None:
    """The command that copies an example to a path that ends in its name; `None` if no name matches.

    >>> from tailback import examples
    >>> examples.copying("scenarios/household.toml")
    'tailback examples household --out scenarios/household.toml'
    """
    parts = Path(path).with_suffix("").parts
    for at in range(len(parts)):
        name = "/".join(parts[at:])
        if name in names():
            # An example that needs other files is copied with them, into a folder.
            out = Path(path).with_suffix(".toml") if not needs(name) else Path(*parts[:at])
            return f"tailback examples {name} --out {shlex.quote(str(out))}"
    return None


def about(name: str) -> str:
    """The first sentence of a scenario's first comment, which describes it."""
    comment = " ".join(line.lstrip("# ").strip() for line in takewhile(_is_text, read(name).splitlines()))
    return re.split(r"(?<=[.?:]) ", comment)[0].rstrip(":.")


def _is_text(line: str) -> bool:
    return line.startswith("#") and bool(line.strip("# "))


def data(name: str) -> dict[str, str]:
    """Data files of a scenario's links, by name, with their text.

    >>> from tailback import examples
    >>> list(examples.data("gallery/cellular"))
    ['cellular.csv']
    """
    fields = tomllib.loads(read(name))
    links = [fields.get("dumbbell", {}), *fields.get("link", ())]
    named = {value for link in links for key in ("schedule", "trace") if isinstance(value := link.get(key), str)}
    return {
        file: _folder().joinpath(*dirname(name).split("/"), file).read_text(encoding="utf-8") for file in sorted(named)
    }


def needs(name: str) -> list[str]:
    """Names of the scenarios on which a sweep is based."""
    base = tomllib.loads(read(name)).get("base")
    return [normpath(join(dirname(name), base)).removesuffix(".toml")] if isinstance(base, str) else []
