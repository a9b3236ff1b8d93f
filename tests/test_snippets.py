"""What the pages show as TOML and Python can be used as it stands there."""

import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tailback as tb
from tailback.expect import demand_sound
from tailback.experiment import read_sweep

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
SWEEPS = ROOT / "docs/sweeps.md"
NO_SCENARIOS = {
    ROOT / "docs" / name for name in ("candidates.md", "papers.md", "rust.md", "suites.md", "tutorials/own-stack.md")
}


def blocks(language: str, page: Path) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def alternatives(block: str) -> list[str]:
    """A block as it is; if its lines are several values of one key, each line."""
    keys = re.findall(r"^([\w-]+) =", block, re.MULTILINE)
    return block.splitlines() if len(keys) > len(set(keys)) and "[" not in block else [block]


def whole(part: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario with this part in it: what the part leaves out is an ordinary path with a flow or two."""
    rest = dict(part)
    out: dict[str, Any] = {"duration": "20s", "flow": [{"name": "a"}, {"name": "b", "app": "voip"}]}
    if "expect" in rest:
        out["flow"] = [{"name": "a"}, {"name": "b"}, {"name": "call", "app": "voip"}]
        out["instruments"] = {"packets": ["call"], "polls": ["a", "b"]}
    flow = {key: rest.pop(key) for key in ("cc", "stack") if key in rest}
    out["flow"][0] |= flow
    if "medium" in rest:
        rest["link"] = [{"name": "there", "from": "left", "to": "right", "medium": rest.pop("medium")}]
    if "link" in rest:
        ends = {"from": rest["link"][0]["to"], "to": rest["link"][0]["from"]}
        rest["link"] = [*rest["link"], {"name": "way-back", **ends}]
        if rest["link"][0].get("medium", {}).get("name") == "tunnel":
            rest["link"] += [{"name": "line", "rate": "8mbit", "from": "left", "to": "right"}]
        for each in (out | rest)["flow"]:
            each |= {"from": ends["to"], "to": ends["from"]}
    elif not {"path", "dumbbell"} & set(rest):
        out["dumbbell"] = {"rate": "10mbit", "rtt": "40ms"}
        if queue := rest.pop("queue", None):
            out["dumbbell"]["queue"] = queue
            # A queue of classes names the flows of each.
            bands = queue.get("bands", []) if isinstance(queue, Mapping) else []
            out["flow"] += [{"name": name} for band in bands for name in band.get("flows", [])]
    return out | rest


SCENARIOS = [
    pytest.param(text, id=f"{page.relative_to(ROOT)}: {text.splitlines()[0]}")
    for page in PAGES
    for block in blocks("toml", page)
    for text in alternatives(block)
    if page not in {SWEEPS, *NO_SCENARIOS}
]


@pytest.mark.parametrize("text", SCENARIOS)
def test_what_a_page_says_of_a_scenario_has_nothing_wrong(text: str) -> None:
    scenario = tb.Scenario.from_dict(whole(tomllib.loads(text)))
    resolved = scenario.resolve(live=True)
    if scenario.expect is not None:
        demand_sound(scenario, resolved, {})


def test_the_error_of_the_page_is_what_is_said() -> None:
    page = ROOT / "docs/scenario.md"
    (shown,) = blocks("text", page)
    with pytest.raises(tb.ScenarioError) as error:
        tb.Scenario.parse_toml(blocks("toml", page)[0].replace('"cubic"', '"qubic"'), file="hello.toml").resolve()
    assert str(error.value).startswith(shown.removesuffix("…\n"))


def test_the_sweeps_of_the_page_can_be_read(tmp_path: Path) -> None:
    first, until, metrics = blocks("toml", SWEEPS)
    base = ROOT / "scenarios/voip-and-bulk.toml"
    (tmp_path / "voip-and-bulk.toml").write_bytes(base.read_bytes())
    (tmp_path / "grids").mkdir()
    for text in (first, re.sub(r"^seeds = .*", "", first, flags=re.MULTILINE) + until, first + metrics):
        (tmp_path / "grids/sweep.toml").write_text(text)
        wanted = read_sweep(tmp_path / "grids/sweep.toml")
        assert len(wanted.design) == 4


def runs(page: str, names: dict[str, Any], changed: Mapping[str, str] = {}) -> None:
    """Run a page's Python, a block after the other; `changed` is what stands there for the reader's own."""
    shown = blocks("python", ROOT / f"docs/{page}.md")
    assert shown
    assert all(any(text in block for block in shown) for text in changed)
    for block in shown:
        for text, own in changed.items():
            block = block.replace(text, own)
        exec(compile(block, f"{page}.md", "exec"), names)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run a page in, with what its reader has."""
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "page", ["candidates", "own-algorithm", "scenario", "links/index", "export", "sweeps"], ids=lambda page: page
)
def test_the_python_of_a_page_runs(page: str, here: Path) -> None:
    runs(page, {"tb": tb, "scenario": tb.Scenario.from_toml(here / "scenarios/voip-and-bulk.toml")})


def test_the_python_of_plots_runs_on_what_its_commands_write(here: Path) -> None:
    base = tb.Scenario.from_toml("scenarios/voip-and-bulk.toml").with_(duration="11s", instruments={"packets": "all"})
    for cc in ("reno", "cubic", "htcp"):
        tb.run(base.with_({"flow.bulk.cc": cc}), out=here / "results" / cc)
    runs("plots", {})
    assert (here / "htcp.html").exists()
    assert (here / "all.pdf").exists()


def test_the_python_of_the_explorer_prints_the_hash(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = tb.dumbbell(rate="1mbit", rtt="16ms", flows=[tb.voip()], duration="1s")
    (here / "scenario.toml").write_text(base.to_toml())
    runs("explorer", {})
    assert re.fullmatch(r"\d+-[0-9a-f]{8}\n", capsys.readouterr().out)


def test_the_python_of_clusters_runs_on_a_cluster_in_this_process(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    local, connect = distributed.LocalCluster, distributed.Client
    quiet = {"processes": False, "n_workers": 1, "threads_per_worker": 2, "dashboard_address": ":0"}

    class Lent(local):  # type: ignore[misc, valid-type]
        """In place of a cluster whose machines are not here: what it is asked for is not checked."""

        def __init__(self, **asked: object) -> None:
            super().__init__(**quiet)

        def adapt(self, **asked: object) -> None: ...

    for module, name in (("dask_jobqueue", "SLURMCluster"), ("dask_kubernetes.operator", "KubeCluster")):
        for each in (module.partition(".")[0], module):
            monkeypatch.setitem(sys.modules, each, ModuleType(each))
        setattr(sys.modules[module], name, Lent)
    base = tb.dumbbell(rate="1mbit", rtt="16ms", flows=[tb.bulk("reno", name="bulk")], duration="1s")
    (here / "base.toml").write_text(base.to_toml())
    (here / "grid.toml").write_text('base = "base.toml"\nseeds = 2\n\n[grid]\n"flow.bulk.cc" = ["reno", "cubic"]\n')
    with local(**quiet) as running, connect(running, set_as_default=False) as client:
        own = {
            'tb.Scenario.from_toml("scenarios/voip-and-bulk.toml")': "short",
            'Client("tcp://HOST:8786")': "client",
            "s3://BUCKET/PREFIX": f"file://{here}/bucket",
            "seeds=100": "seeds=4",
        }
        runs("cluster", {"short": base, "client": client}, own)
    assert len(tb.open_store(here / "store").frame()) == 4
