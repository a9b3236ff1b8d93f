"""What is not used is not imported: start-up is most of a short run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tailback as tb

ROOT = Path(__file__).parents[1]
HEAVY = {"numpy", "polars", "pyarrow", "scipy", "pandas", "matplotlib", "plotly", "pydantic", "typer", "rich", "jinja2"}


def imported_by(code: str) -> set[str]:
    """Which of the heavy packages a program has imported at its end."""
    end = "import json, sys, atexit; atexit.register(lambda: print(json.dumps(list(sys.modules)), file=sys.stderr))\n"
    done = subprocess.run([sys.executable, "-c", end + code], capture_output=True, text=True, check=True, cwd=ROOT)
    return HEAVY & set(json.loads(done.stderr.splitlines()[-1]))


def command(*words: str) -> str:
    return f"import sys; sys.argv = {['tailback', *words]!r}; from tailback.cli import main; main()"


def test_the_version_needs_nothing() -> None:
    assert imported_by(command("--version")) == set()
    assert imported_by("import tailback") == set()


def test_a_run_needs_no_frames_no_figures_and_no_statistics() -> None:
    imported = imported_by(command("run", "scenarios/voip-and-bulk.toml", "--set", "duration=2s", "--json"))
    assert imported == {"numpy", "typer", "rich"}
    flows = "flows=[tb.bulk()], duration='1s'"
    assert imported_by(f"import tailback as tb; tb.dumbbell(rate='1mbit', rtt='80ms', {flows}).resolve()") == set()


def test_a_saved_run_needs_pyarrow_but_neither_pandas_nor_its_compute_functions(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    kept = str(tmp_path / "kept")
    words = ("run", "scenarios/voip-and-bulk.toml", "--set", "duration=2s", "--out", kept)
    assert imported_by(command(*words)) == {"numpy", "typer", "rich", "pyarrow"}
    assert imported_by(command("show", kept)) == {"numpy", "typer", "rich", "pyarrow"}


def test_every_public_name_is_found_when_it_is_first_used() -> None:
    code = "import tailback as tb; print(len([getattr(tb, name) for name in tb.__all__]), len(tb.__all__))"
    found, listed = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert found == listed
    assert set(tb.__all__) <= set(dir(tb))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = tb.nothing  # type: ignore[attr-defined]


def test_everything_public_is_there_without_what_only_unix_has() -> None:
    # As on Windows, where these modules do not exist.
    missing = "import sys; [sys.modules.__setitem__(name, None) for name in ('fcntl', 'resource', 'pwd', 'termios')]\n"
    code = (
        missing + "import tailback as tb, tailback.vm, tailback.experiment; [getattr(tb, name) for name in tb.__all__]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize("first", ["tailback.run", "tailback.experiment", "tailback.plots", "tailback.cli"])
def test_a_function_stays_one_whatever_is_imported_first(first: str) -> None:
    code = f"import {first}; import tailback as tb; print(callable(tb.run), callable(tb.sweep), tb.plots.__name__)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == [
        "True",
        "True",
        "tailback.plots",
    ]
