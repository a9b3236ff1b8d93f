"""The command, called as a user does; what it prints as JSON is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import command


@pytest.fixture
def tailback() -> Any:
    def call(*words: str | Path) -> tuple[int, Any, str]:
        ran = command.tailback(*words)
        return ran.code, ran.data if "--json" in words else ran.out, ran.err

    return call
