"""The gallery: its scenarios run, and the figures on its page are those of a fresh run."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import shlex
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from tailback import examples
from tailback.cli.reading import setting
from tailback.experiment import read_sweep

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "gallery.md"
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def script() -> Any:
    loader = importlib.machinery.SourceFileLoader("gallery_script", str(ROOT / "scripts" / "gallery"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


GALLERY = script()


def differing(page: str, fresh: str) -> list[tuple[str, str]]:
    """Numbers that differ by more than 5 % and one unit of their last digit."""
    pairs = list(zip(NUMBER.findall(page), NUMBER.findall(fresh), strict=True))
    out = []
    for old, new in pairs:
        unit = 10.0 ** -len(old.partition(".")[2])
        if abs(float(old) - float(new)) > 0.05 * float(old) + 1.001 * unit:
            out.append((old, new))
    return out


@pytest.mark.parametrize("each", GALLERY.EXAMPLES, ids=lambda each: each.name)
def test_the_page_says_what_a_fresh_run_gives(each: Any) -> None:
    section = PAGE.read_text().split(f"## {each.title}\n")[1].split("\n## ")[0]
    text = " ".join(section.split("*\n\n", 1)[1].split("```")[0].split())
    fresh = " ".join(textwrap.dedent(each.text.format(**each.measure().numbers)).split())
    assert NUMBER.sub("0", text) == NUMBER.sub("0", fresh)
    assert differing(text, fresh) == []


def test_a_number_that_is_off_would_be_seen() -> None:
    assert differing("182 ms, 4.58 Mbit/s", "190 ms, 4.60 Mbit/s") == []
    assert differing("182 ms, 4.58 Mbit/s", "193 ms, 4.58 Mbit/s") == [("182", "193")]


def test_every_scenario_of_the_gallery_has_its_section_and_picture() -> None:
    names = [name.removeprefix("gallery/") for name in examples.names() if name.startswith("gallery/")]
    assert sorted(each.name for each in GALLERY.EXAMPLES) == names
    text = PAGE.read_text()
    for each in GALLERY.EXAMPLES:
        picture = PAGE.parent / "images" / "gallery" / f"{each.name}.png"
        assert f"images/gallery/{each.name}.png" in text
        assert 1000 < picture.stat().st_size <= GALLERY.LARGEST, picture


@pytest.mark.parametrize("each", GALLERY.EXAMPLES, ids=lambda each: each.name)
def test_the_commands_of_the_page_can_be_given(each: Any) -> None:
    assert each.commands
    for command in each.commands:
        assert f"\n{command}\n" in PAGE.read_text()
        words = shlex.split(command, comments=True)
        assert words[:2] in (["tailback", "run"], ["tailback", "sweep"], ["tailback", "plot"])
        if words[1] == "plot":
            continue
        file = ROOT / words[2]
        assert file.read_text() == examples.read(f"gallery/{each.name}")
        if words[1] == "sweep":
            assert read_sweep(file)
            continue
        changes = dict(setting(word) for flag, word in pairwise(words) if flag == "--set")
        scenario = tb.Scenario.from_toml(file).with_(changes)
        assert scenario.resolve()["name"] == each.name
