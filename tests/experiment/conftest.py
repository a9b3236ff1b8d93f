"""The command, called as a user does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tailback import cli


@pytest.fixture
def tailback(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    def call(*arguments: str | Path) -> tuple[int, Any, str]:
        monkeypatch.setattr(sys, "argv", ["tailback", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), json.loads(out) if "--json" in arguments else out, err

    return call
