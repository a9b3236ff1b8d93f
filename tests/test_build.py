"""The build's promises: locked dependencies, named prerequisites, one version, every dependency accounted for."""

import importlib.metadata
import json
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tailback import _core

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements.lock").read_text()


def bare_name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower()


def declared_python() -> set[str]:
    project, groups = PYPROJECT["project"], PYPROJECT["dependency-groups"]
    lists = [project["dependencies"], *project["optional-dependencies"].values(), *groups.values()]
    return {bare_name(one) for some in lists for one in some if isinstance(one, str)}


def declared_rust() -> set[str]:
    names: set[str] = set()
    for manifest in [*ROOT.glob("crates/*/Cargo.toml"), ROOT / "explorer/bindings/Cargo.toml"]:
        tables = tomllib.loads(manifest.read_text())
        for group in (tables, *tables.get("target", {}).values()):
            for kind in ("dependencies", "dev-dependencies", "build-dependencies"):
                # What has a path is our own.
                names |= {name for name, given in group.get(kind, {}).items() if "path" not in given}
    return names


def declared_npm() -> set[str]:
    package = json.loads((ROOT / "explorer/package.json").read_text())
    return package["dependencies"].keys() | package["devDependencies"].keys()


def test_the_compiled_core_is_the_installed_version() -> None:
    assert _core.version() == importlib.metadata.version("tailback-lab")


def test_everything_has_the_version_of_the_crates() -> None:
    crates = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    minor = crates.rpartition(".")[0]
    papers = tomllib.loads((ROOT / "papers/pyproject.toml").read_text())["project"]
    assert papers["version"] == crates, "make version V=… sets all"
    assert papers["dependencies"] == [f"tailback-lab[analysis]>={minor}"]
    bench = ROOT / "crates/tailback-bench"
    for file in (bench / "README.md", *bench.glob("adapters/*/Cargo.toml")):
        assert f'\ntailback-bench = "{minor}"\n' in file.read_text(), file
    # The newest release of the changelog, below what is not released yet, if anything.
    assert re.search(r"^## (\d\S*) – ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == crates


def test_every_declared_dependency_is_locked() -> None:
    locked = set(re.findall(r"^([a-z0-9._-]+)==", LOCK, re.MULTILINE))
    assert declared_python() <= locked


def test_every_locked_file_has_a_hash_and_no_address() -> None:
    requirements = re.split(r"^(?=[a-z0-9])", LOCK, flags=re.MULTILINE)[1:]
    assert len(requirements) > 30
    assert [text.split()[0] for text in requirements if "--hash=sha256:" not in text] == []
    assert "://" not in LOCK
    assert "--index" not in LOCK


def test_every_dependency_says_what_it_replaces() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text().split("## Dependencies")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) \| [^|]+ \|$", text, re.MULTILINE)
    given = {re.sub(r" \(.*\)", "", name) for row in rows for name in row.split(", ")}
    headings = {"Rust", "Python", "To develop", "---"}
    assert given - headings == declared_python() | declared_rust() | declared_npm()


def test_make_knows_every_target_the_documents_name() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in ROOT.glob("*.md"):
        code = re.findall(r"`make ([a-z -]+)`|^make ([a-z -]+?)(?:  |$)", document.read_text(), re.MULTILINE)
        named = {target for pair in code for target in " ".join(pair).split()}
        assert named <= targets, document.name


def test_ci_compiles_by_the_quick_profile_and_once() -> None:
    text = (ROOT / ".ci/run").read_text()
    assert text.index("export PROFILE=local") < text.index("make env")
    assert tomllib.loads((ROOT / "Cargo.toml").read_text())["profile"]["local"]["lto"] == "off"
    made = (ROOT / "Makefile").read_text()
    # The extension, the guests' program and the journey's wheel: none has a profile of its own.
    assert made.count("$(PROFILE)") >= 4
    recipe = made[made.index("$(VENV)/.built: ") :]
    assert "--release" not in recipe


def test_a_test_that_takes_too_long_fails_unless_it_is_marked_long() -> None:
    over = runpy.run_path(str(ROOT / "tests/conftest.py"))["over_budget"]
    assert over(59.0, False) is None
    assert over(600.0, True) is None
    assert "took 61 s" in over(61.0, False)


class Machine:
    """A machine of which `check_prerequisites` sees only what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for tool in ("sh", "sed", "uname"):
            found = shutil.which(tool)
            assert found is not None
            (folder / tool).symlink_to(found)
        self.has("python3", "exit 0")
        self.has("cargo", "exit 0")
        self.has("rustc", "echo 'rustc 1.95.0 (59807616e 2026-04-14)'")
        self.has("cc", "exit 0")
        self.has("apt-get", "exit 0")

    def has(self, tool: str, script: str) -> None:
        (self.folder / tool).write_text(f"#!/bin/sh\n{script}\n")
        (self.folder / tool).chmod(0o755)

    def lacks(self, tool: str) -> None:
        (self.folder / tool).unlink()

    def check(self, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [ROOT / "scripts/check_prerequisites", *options]
        variables = {"PATH": str(self.folder), **environment}
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_complete_machine_is_left_in_peace(machine: Machine) -> None:
    done = machine.check()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("lacks", "says"),
    [("cargo", "Rust 1.95 or newer"), ("rustc", "Rust 1.95 or newer"), ("cc", "a C compiler (cc)"), (None, None)],
)
def test_a_source_distribution_says_what_it_lacks_before_it_compiles(
    machine: Machine, lacks: str | None, says: str | None
) -> None:
    if lacks is not None:
        machine.lacks(lacks)
    # maturin's own hooks would compile: what they are called with is printed.
    code = (
        "import sys, maturin; maturin.build_wheel = lambda *words: print('compiles', *words); "
        f"sys.path.insert(0, {str(ROOT / 'scripts')!r}); import build_backend; build_backend.build_wheel('out')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PATH": str(machine.folder)}, capture_output=True, text=True, check=False
    )
    if says is None:
        assert (done.returncode, done.stdout, done.stderr) == (0, "compiles out\n", "")
    else:
        assert (done.returncode, done.stdout) == (1, "")
        assert f"this machine lacks:\n{says}" in done.stderr
        assert "Traceback" not in done.stderr


#: Runs a command line as if a package were not installed.
WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "scipy":
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
from tailback.cli import main
main()
"""


def test_a_first_run_does_without_the_extras_and_what_needs_one_names_it(tmp_path: Path) -> None:
    def tailback(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WITHOUT, *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    scenario = str(ROOT / "scenarios/voip-and-bulk.toml")
    for words in (
        ("run", scenario, "--set", "duration=3s", "--out", "r"),
        ("plot", "r", "--out", "r.png"),
        ("report", "r"),
    ):
        done = tailback(*words)
        assert done.returncode == 0, (words, done.stderr)
    done = tailback("hunt", "reno", "--runs", "40")
    assert done.returncode != 0
    assert "scipy is not installed" in done.stderr
    assert "pip install 'tailback-lab[analysis]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("tool", "script", "problem", "command"),
    [
        ("python3", None, "Python 3.11 or newer (python3 is not there)", "sudo apt-get install python3.11"),
        ("python3", "[ $1 = --version ] && echo Python 3.9.2; exit 1", "python3 is Python 3.9.2", "python3.11-venv"),
        ("cargo", None, "cargo", "sh.rustup.rs"),
        ("rustc", "echo 'rustc 1.63.0'", "rustc 1.63.0", "rustup update stable"),
        ("rustc", "exit 1", "toolchain behind", "rustup default stable"),
        ("cargo", "[ $1 = clippy ] && exit 1; exit 0", "clippy", "rustup component add clippy"),
        ("cargo", "[ $1 = fmt ] && exit 1; exit 0", "rustfmt", "rustup component add rustfmt"),
        ("cc", None, "linker (cc)", "sudo apt-get install build-essential"),
    ],
)
def test_what_is_missing_is_named_with_its_cure(
    machine: Machine, tool: str, script: str | None, problem: str, command: str
) -> None:
    if script is None:
        machine.lacks(tool)
    else:
        machine.has(tool, script)
    done = machine.check()
    assert done.returncode == 1
    wrong, cure = done.stderr.splitlines()
    assert problem in wrong
    assert command in cure


def test_debian_without_venv_gets_the_name_of_its_package(machine: Machine) -> None:
    script = 'case "$2" in *ensurepip*) exit 1;; *print*) echo 3.12;; esac'
    machine.has("python3", script)
    done = machine.check()
    assert done.returncode == 1
    assert "sudo apt-get install python3.12-venv" in done.stderr


def test_everything_missing_is_reported_at_once(machine: Machine) -> None:
    for tool in ("python3", "cargo", "cc"):
        machine.lacks(tool)
    assert machine.check().stderr.count("missing: ") == 3


def test_a_newer_python_beside_an_old_one_is_found(machine: Machine) -> None:
    machine.has("python3", "exit 1")
    machine.has("python3.12", "exit 0")
    assert machine.check("--python").stdout == "python3.12\n"
    assert machine.check("--python", PYTHON="python3").stdout == "\n"


def test_help_lists_the_targets_people_need() -> None:
    done = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = set(re.findall(r"^  make ([a-z]+)", done.stdout, re.MULTILINE))
    assert {"demo", "test", "bench", "docs", "lint", "fmt", "clean", "help"} <= listed


def published(checkout: Path, url: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts/published_at"), url, str(checkout)]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_published_wheel_has_urls_and_no_relative_links(tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    names = [
        "Cargo.toml",
        *(f"{folder}{name}" for folder in ("", "papers/") for name in ("pyproject.toml", "README.md")),
    ]
    for name in names:
        shutil.copy(ROOT / name, tmp_path / name)
    # The second call replaces what the first one wrote.
    for host in ("https://one.example/a/b", "https://two.example/c/d/"):
        done = published(tmp_path, host)
        assert done.returncode == 0, done.stderr
    for folder in (tmp_path, tmp_path / "papers"):
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        assert project["urls"]["Repository"] == "https://two.example/c/d"
        assert (
            project.keys() - {"urls"}
            == tomllib.loads((ROOT / folder.relative_to(tmp_path) / "pyproject.toml").read_text())["project"].keys()
        )
        text = (folder / "README.md").read_text()
        targets = re.findall(r"\]\(([^)\s]+)\)", text)
        assert targets
        assert all(target.startswith("https://two.example/c/d/") for target in targets)
        for kind, _, path in re.findall(r"two\.example/c/d/(blob|raw)/(v[^/]+)/([^)#\s]+)", text):
            assert (ROOT / path).exists(), f"{kind}: {path}"


def test_a_home_that_is_no_url_is_refused(tmp_path: Path) -> None:
    done = published(tmp_path, "owner/tailback")
    assert done.returncode == 2
    assert "'owner/tailback' is not the page of a repository" in done.stderr


def test_no_source_that_a_pages_command_fetches_is_committed() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone")
    listed = subprocess.run(["git", "ls-files", "*.c", "*.h"], cwd=ROOT, check=True, capture_output=True, text=True)
    ours = ("bpf/", "crates/", "tests/", "python/tailback/examples/", "python/tailback/stacks/")
    assert [name for name in listed.stdout.splitlines() if not name.startswith(ours)] == []
