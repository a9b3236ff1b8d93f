"""A stranger's first hour, from an installed wheel: run by `make journey`, and by continuous integration.

Builds the source distribution, from it the wheel, installs that with the locked dependencies into an empty
environment, and then types what the README says, in an empty folder. Whatever a command prints that it should not,
whatever is missing from the wheel, and whatever a browser complains about ends the journey with exit code 1.

    python tests/journey/journey.py [--keep FOLDER] [--wheel WHEEL] [--profile PROFILE]

With `--keep` the folder, with the screenshots of the pages in it, stays.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Ended(Exception):
    """The journey ended here; the text says what happened."""


def step(text: str) -> None:
    print(f"== {text}", flush=True)


def demand(condition: object, text: str) -> None:
    if not condition:
        raise Ended(text)


def call(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    settings: dict[str, object] = {"text": True, "capture_output": True, "timeout": 900}
    done = subprocess.run([str(word) for word in words], check=False, **(settings | options))  # type: ignore[call-overload]
    if done.returncode:
        raise Ended(f"{' '.join(map(str, words))} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


def same(one: Path, other: Path) -> bool:
    return one.is_file() and other.is_file() and one.read_bytes() == other.read_bytes()


def of_ours(read: str, source: Path) -> list[Path]:
    """Of the files that the compiler read, those of this tree and not of the source distribution, from its root."""
    paths = [Path(os.path.normpath(ROOT / name)) for name in read.split()]
    ours = [path for path in paths if path.is_relative_to(ROOT) and not path.is_relative_to(source.resolve())]
    return [path.relative_to(ROOT) for path in ours]


def as_old_as_ours(source: Path) -> None:
    """What is the same here keeps its time, so cargo compiles nothing twice; what differs is of now, and compiled.

    Cargo notices a file that a crate lacks, but not one outside the crates: those are compared after it.
    """
    for path in source.rglob("*"):
        ours = ROOT / path.relative_to(source)
        if same(path, ours):
            os.utime(path, ns=(ours.stat().st_atime_ns, ours.stat().st_mtime_ns))
        elif path.is_file():
            os.utime(path)


def build(folder: Path, profile: str) -> Path:
    step("source distribution, and the wheel from it")
    maturin = Path(sys.executable).with_name("maturin")
    environment = {**os.environ, "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))}
    call(maturin, "sdist", "--out", folder, cwd=ROOT, env=environment)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed_source:
        packed_source.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    for place in (
        "bpf",
        "docs",
        "tests",
        "papers",
        "validation",
        "requirements.lock",
        "Makefile",
        "python/tailback/examples/scenarios",
    ):
        demand((source / place).exists(), f"the source distribution lacks {place}")
    as_old_as_ours(source)
    call(
        maturin, "build", "--profile", profile, "--strip", "true", "--out", folder / "dist", cwd=source, env=environment
    )
    read = (Path(environment["CARGO_TARGET_DIR"]) / profile / "lib_core.d").read_text().partition(": ")[2]
    lacks = {str(path) for path in of_ours(read, source) if not same(source / path, ROOT / path)}
    demand(not lacks, f"the compiler read what the source distribution lacks: {sorted(lacks)[:3]}")
    (wheel,) = (folder / "dist").glob("*.whl")
    demand(wheel.name.startswith("tailback_lab-"), f"the wheel is called {wheel.name}")
    outside = re.compile("papers|validation|truth.*(csv|parquet|json)")
    packed = [name for name in zipfile.ZipFile(wheel).namelist() if outside.search(name)]
    demand(not packed, f"the wheel has what is not for it: {packed[:3]}")
    demand(wheel.stat().st_size < 9e6, f"{wheel.name} has {wheel.stat().st_size / 1e6:.0f} MB")
    return wheel


def install(folder: Path, wheel: Path) -> Path:
    step("an empty environment, and the wheel in it")
    call(sys.executable, "-m", "venv", folder / "env")
    python = folder / "env" / "bin" / "python"
    # Only what the wheel asks for, in the locked versions.
    call(python, "-m", "pip", "install", "--quiet", "--constraint", constraints(folder), wheel)
    return folder / "env" / "bin" / "tailback"


def constraints(folder: Path) -> Path:
    lines = re.findall(r"^([A-Za-z0-9_.-]+==[^\s\\]+(?: ; [^\\\n]+)?)", (ROOT / "requirements.lock").read_text(), re.M)
    path = folder / "constraints.txt"
    path.write_text("\n".join(line.strip() for line in lines) + "\n")
    return path


def journey(tailback: Path, work: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}

    def tb(*words: object) -> subprocess.CompletedProcess[str]:
        return call(tailback, *words, cwd=work, env=environment)

    step("version, examples, a scenario of one's own")
    demand(re.match(r"tailback \d+\.\d+\.\d+", tb("--version").stdout), "no version")
    demand("voip-and-bulk" in tb("examples").stdout, "the examples are not in the wheel")
    tb("init", "home.toml")
    tb("check", "home.toml")

    step("run, and compare four")
    for cc in ("reno", "cubic", "htcp", "bbr"):
        tb("run", "home.toml", "--set", f"flow.bulk.cc={cc}", "--set", "duration=20s", "--out", f"results/{cc}")
    four = [f"results/{cc}" for cc in ("reno", "cubic", "htcp", "bbr")]
    reported = json.loads(tb("compare", *four, "--baseline", "results/cubic", "--out", "four.html", "--json").stdout)
    demand(all(len(row["values"]) == 4 for row in reported["metrics"]), "compare has not all four")
    tb("plot", *four, "--figure", "all", "--out", "four.png")
    tb("report", "results/cubic", "--out", "cubic.html")

    demand("backed off" in tb("explain", "results/cubic").stdout, "explain does not say who backed off")

    step("a path that changes, from a file")
    tb("trace", "generate", "lte", "--seconds", "20", "--out", "lte.csv")
    tb("run", "home.toml", "--set", "dumbbell.schedule=lte.csv", "--set", "duration=20s", "--out", "results/lte")

    step("an algorithm of one's own, run again when its file is gone")
    mine = work / "mine.py"
    mine.write_text("from tailback.examples.newreno import NewReno\n\n\nclass Mine(NewReno):\n    pass\n")
    own = ["--algorithm", "mine=mine.py:Mine", "--set", "flow.bulk.cc=mine", "--set", "duration=5s"]
    tb("run", "home.toml", *own, "--out", "results/mine")
    mine.unlink()
    demand(
        (work / "results/mine/scenario.toml").read_text() == (work / "home.toml").read_text(),
        "the file is not kept as it was written",
    )
    again = json.loads(tb("repeat", "results/mine", "--allow-code", "--json").stdout)
    demand(again["same"], f"the same run gave something else: {again}")

    step("something wrong on purpose")
    wrong = subprocess.run(
        [tailback, "run", "home.toml", "--set", "flow.bulk.cc=cubik"],
        cwd=work, env=environment, text=True, capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    demand(wrong.returncode == 2 and "cubic" in wrong.stderr, f"the error does not help:\n{wrong.stderr}")

    step("a sweep, interrupted and taken up again")
    tb("examples", "grids/queue-length", "--out", ".")
    grid = work / "grids/queue-length.toml"
    # Fewer than six seeds get their range, which needs no extra.
    grid.write_text(grid.read_text().replace("seeds = 5 ", "seeds = 6 "))
    sweep = [str(tailback), "sweep", "grids/queue-length.toml", "--store", "store", "--workers", "1", "--json"]
    running = subprocess.Popen(
        sweep, cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until = time.monotonic() + 120
    # Rows of the store's journal, whole lines.
    while sum(path.read_bytes().count(b"\n") for path in work.glob("store/journal/*")) < 3:
        demand(time.monotonic() < until and running.poll() is None, "the sweep did not begin")
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=120)
    demand(running.returncode == 130, f"an interrupted sweep exits with {running.returncode}, not 130")
    done = json.loads(call(*sweep, cwd=work, env=environment).stdout)
    demand(done["failed"] == 0 and done["reused"] >= 3, f"the sweep did not resume: {done}")
    step("intervals, which need an extra")
    sql = 'SELECT "flow.bulk.cc", "dumbbell.queue", "voip.delay_p95_ms" FROM runs'
    asked = [tailback, "results", "query", sql, "--store", "store", "--intervals"]
    lacks = subprocess.run(asked, cwd=work, env=environment, text=True, capture_output=True, check=False, timeout=60)
    demand("tailback-lab[analysis]" in lacks.stderr, f"it does not name the extra:\n{lacks.stderr}")
    pip = [
        tailback.with_name("python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--constraint",
        work.parent / "constraints.txt",
    ]
    call(*pip, "scipy")
    rows = json.loads(tb("results", "query", sql, "--store", "store", "--intervals", "--json").stdout)["rows"]
    demand(len(rows) == 12, f"the store answers with {len(rows)} settings")
    tb("plot", "store", "--figure", "lines", "--out", "lines.png")
    tb("report", "store", "--out", "sweep.html")


def explore(tailback: Path, work: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    words = [tailback, "explore", "results/cubic", "--no-browser"]
    settings: dict[str, Any] = {"cwd": work, "env": environment, "text": True, "stderr": subprocess.PIPE}
    if not (ROOT / "python/tailback/explorer/site/index.html").exists():
        step("the explorer, which was not built")
        done = subprocess.run(words, check=False, timeout=60, **settings)
        demand(
            done.returncode == 1 and "make explorer" in done.stderr, f"it does not say how to build it: {done.stderr}"
        )
        return
    step("the explorer, with a stored result")
    with subprocess.Popen(words, **settings) as running:
        assert running.stderr is not None
        address = re.search(r"http://127\.0\.0\.1:\d+/", running.stderr.readline())
        demand(address, "it does not say its address")
        assert address is not None
        with urllib.request.urlopen(address[0] + "opened.json") as answer:
            demand(json.load(answer)["kind"] == "result", "it does not give what was opened")
        with urllib.request.urlopen(address[0]) as answer:
            demand(b"tailback-opened" in answer.read(), "it does not give its page")
        running.send_signal(signal.SIGINT)
        try:
            ended = running.wait(20)
        finally:
            running.kill()
        demand(ended == 0, "it does not end with Ctrl-C")


def papers(tailback: Path, folder: Path, work: Path) -> None:
    step("without the papers, and with them")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    for words, says in ((["study", "--list"], "pip install ./papers"), (["validate"], "not in the wheel")):
        done = subprocess.run(
            [tailback, *words], cwd=work, env=environment, text=True, capture_output=True, check=False
        )
        demand(done.returncode == 2 and says in done.stderr, f"{words} does not say what it needs:\n{done.stderr}")
    build = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", ROOT / "papers"]
    call(sys.executable, "-m", *build, "--wheel-dir", folder / "papers")
    (wheel,) = (folder / "papers").glob("tailback_papers-*.whl")
    call(tailback.with_name("python"), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel)
    rows = json.loads(call(tailback, "study", "--list", "--json", cwd=work, env=environment).stdout)["studies"]
    demand(len(rows) == 7, f"of the papers' wheel these studies are found: {rows}")


def look(work: Path, folder: Path) -> None:
    """Open the pages in a real browser: what it complains about is an error, what it shows a screenshot."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        print("   no Chromium on this machine: the pages were not opened")
        return
    step("the pages in a browser")
    for page in ("cubic.html", "four.html", "sweep.html"):
        with tempfile.TemporaryDirectory() as profile:
            done = call(
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--enable-logging=stderr", f"--user-data-dir={profile}", "--window-size=1100,1500",
                "--virtual-time-budget=8000", f"--screenshot={folder / page}.png", (work / page).as_uri(), timeout=120,
            )  # fmt: skip
        said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        demand(not said, f"the browser complains about {page}: {said}")
        demand((folder / f"{page}.png").stat().st_size > 20_000, f"the screenshot of {page} is all but empty")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="a folder to work in, which stays")
    parser.add_argument("--wheel", type=Path, help="a wheel that was built already")
    parser.add_argument("--profile", default="release", help="Cargo's profile for the wheel")
    asked = parser.parse_args()
    # A shell starts background jobs, and so all that they start, with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep or Path(temporary)
        work = folder / "work"
        work.mkdir(parents=True)
        try:
            tailback = install(folder, asked.wheel or build(folder, asked.profile))
            journey(tailback, work)
            explore(tailback, work)
            papers(tailback, folder, work)
            look(work, folder)
        except Ended as ended:
            print(f"journey: {ended}", file=sys.stderr)
            return 1
    print(f"journey: done in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
