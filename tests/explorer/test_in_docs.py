"""Scenarios that run inside the documents."""

from __future__ import annotations

import base64
import importlib.util
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

import tailback as tb

ROOT = Path(__file__).parents[2]


def _hook() -> Any:
    spec = importlib.util.spec_from_file_location("explorer_in_docs", ROOT / "scripts/explorer_in_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hook = _hook()
BLOCKS = [
    (page.name, title, toml)
    for page in sorted((ROOT / "docs").rglob("*.md"))
    for title, toml in hook.blocks(page.read_text())
]


def test_there_are_some() -> None:
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize(("page", "title", "toml"), BLOCKS, ids=[f"{page}: {title}" for page, title, _ in BLOCKS])
def test_each_is_a_scenario_that_runs(page: str, title: str, toml: str) -> None:
    tb.Scenario.parse_toml(toml, file=page).resolve()
    assert title[0].isupper()
    assert not title.endswith(".")


def test_the_address_holds_the_scenario() -> None:
    text = 'name = "Ü & <b>"\n'
    packed = hook.fragment(text).removeprefix("s=")
    inflated = zlib.decompress(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)), -15)
    assert json.loads(inflated) == {"toml": text}


def test_a_block_becomes_a_frame_and_the_rest_stays() -> None:
    page = 'before\n\n```explorer A "call"\nseed = 1\n```\n\n```toml\nseed = 2\n```\n'
    shown = hook.embedded(page, "../")
    assert shown.startswith("before\n\n<figure")
    assert 'title="A &quot;call&quot;" src="../explorer/index.html#s=' in shown
    assert shown.endswith("```toml\nseed = 2\n```\n")
