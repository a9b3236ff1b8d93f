"""The examples in the documentation of the public names run as printed."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "",
    ".errors",
    ".expect.conditions",
    ".expect.testing",
    ".expect.verdicts",
    ".export",
    ".export.common",
    ".judge.discovery",
    ".judge.intervals",
    ".judge.rules",
    ".judge.seeds",
    ".judge.verdict",
    ".presets",
    ".progress",
    ".registry",
    ".result",
    ".run",
    ".scenario.build",
    ".scenario.whole",
    ".units",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run_as_printed(name: str) -> None:
    done = doctest.testmod(importlib.import_module(f"tailback{name}"), raise_on_error=False)
    assert done.failed == 0


def test_every_public_class_and_function_says_what_it_is() -> None:
    import tailback

    for name in tailback.__all__:
        if not name.startswith("_"):
            assert getattr(tailback, name).__doc__, name
