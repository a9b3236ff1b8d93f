"""Layers of the package: a module imports from its own layer and those below, and at its top."""

from __future__ import annotations

import ast
import functools
import graphlib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "python"

#: From the lowest to the highest, each with its modules; a folder counts with everything in it.
LAYERS = {
    "units and errors": "_core checksums errors extras files git lazy numbers progress terminal units views",
    "scenario": """algorithms bpf candidate compiled consent crates examples hooks isolated modules native presets
        programs queue_candidate queues registry scenario stacks trace_sources traces""",
    "result": "result",
    "measures": "experience judge metrics pages responsiveness",
    "experiment": "bench engines expect experiment hunting live repeatable run stack_versions suites verifying vm",
    "report": "against answer assess capture compare explain explorer export plots qlog report",
    "cli": "__main__ cli",
}
LAYER = {name: level for level, names in enumerate(LAYERS.values()) for name in names.split()}

#: Imports inside functions, as pairs of modules. They may only become fewer: what must not slow the start-up stands in
#: a block `with lazy():`, whose imports count as those at the top. `side` runs beside the package of another revision.
MOST_HIDDEN = {"cli": 3, "against.side": 10, "the rest": 1}


def modules() -> dict[str, Path]:
    """Every module of the package by its name."""
    found = {}
    for path in [*ROOT.glob("tailback/**/*.py"), ROOT / "tailback" / "_core.pyi"]:
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imported(module: str, node: ast.Import | ast.ImportFrom) -> set[str]:
    """The modules of the package that a statement imports."""
    if isinstance(node, ast.Import):
        names = {each.name for each in node.names}
    else:
        parts = module.split(".") if MODULES[module].stem == "__init__" else module.split(".")[:-1]
        above = parts[: len(parts) + 1 - node.level] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        names = {f"{base}.{each.name}" if f"{base}.{each.name}" in MODULES else base for each in node.names}
    return {name for name in names if name.partition(".")[0] == "tailback"}


@functools.cache
def arrows() -> dict[tuple[str, str], set[str]]:
    """Every import of a module by another: at the top, for types only, or hidden in a function."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)

    def walk(module: str, node: ast.AST, kind: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = kind
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                inner = "hidden"
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                inner = "types"
            elif isinstance(child, ast.Import | ast.ImportFrom):
                for target in imported(module, child) - {module}:
                    found[module, target].add(kind)
            walk(module, child, inner)

    for module, path in MODULES.items():
        if path.suffix == ".py":
            walk(module, ast.parse(path.read_text(encoding="utf-8")), "top")
    return found


def level(module: str) -> int:
    """The layer of a module. The package itself has names of all layers, which the command line may use."""
    parts = module.split(".")
    return LAYER[parts[1]] if len(parts) > 1 else LAYER["cli"]


def test_every_module_has_a_layer_and_every_name_a_module() -> None:
    first = {name.split(".")[1] for name in MODULES if name != "tailback"}
    assert first == LAYER.keys()


def test_no_module_imports_from_a_layer_above() -> None:
    back = [
        f"{module} ({list(LAYERS)[level(module)]}) imports {target}"
        for module, target in arrows()
        if module != "tailback" and level(target) > level(module)
    ]
    assert not back, "\n".join(sorted(back))


def test_imports_inside_functions_become_fewer() -> None:
    hidden = defaultdict(list)
    for (module, target), kinds in sorted(arrows().items()):
        if "hidden" in kinds:
            part = next((part for part in MOST_HIDDEN if module.startswith(f"tailback.{part}")), "the rest")
            hidden[part].append(f"{module} imports {target}")
    for part, most in MOST_HIDDEN.items():
        assert len(hidden[part]) == most, f"{part}: {len(hidden[part])}, not {most}\n" + "\n".join(hidden[part])


def test_no_modules_import_each_other_in_a_circle() -> None:
    """At the top, Python would refuse some of them; hidden in functions they work, and no part can be moved alone."""
    below: dict[str, set[str]] = {module: set() for module in MODULES}
    for (module, target), kinds in arrows().items():
        # The package imports lazily, by name.
        if kinds & {"top", "hidden"} and "tailback" not in (module, target):
            below[module].add(target)
    try:
        graphlib.TopologicalSorter(below).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))
