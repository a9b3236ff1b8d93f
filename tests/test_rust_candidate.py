"""A congestion control in a Rust crate, in the simulator."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from pairs import assert_same_rows, beside_reno
from tailback import _core, crates, examples

pytestmark = [
    pytest.mark.skipif(not hasattr(_core, "NativeAlgorithm"), reason="crates need Linux"),
    pytest.mark.skipif(shutil.which("cargo") is None, reason="not installed: cargo"),
]

TEMPLATE = Path(examples.__file__).parent / "crate"
#: A crate of which a parameter chooses what it does wrong: compiled once for all of it.
WRONG = """
mod tailback;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use tailback::{Ack, Algorithm, Congestion, Params, Window};

static CALLS: AtomicU32 = AtomicU32::new(0);
struct Held(Cell<u32>);
impl Drop for Held {
    fn drop(&mut self) {}
}
// Something to drop with the thread keeps a library loaded after it was closed.
thread_local!(static HELD: Held = const { Held(Cell::new(0)) });

struct Wrong(String);

impl Algorithm for Wrong {
    fn new(params: &mut Params, seed: u64) -> Result<Self, String> {
        let how = params.word("how", "")?;
        assert!(how != "made" || seed == 0, "one was made");
        Ok(Wrong(how))
    }
    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        let calls = CALLS.fetch_add(1, Ordering::Relaxed);
        let held = HELD.with(|held| held.0.replace(held.0.get() + 1));
        match self.0.as_str() {
            "panic" if calls == 70 => panic!("no more than {calls}"),
            "abort" => std::process::abort(),
            "none" => window.cwnd = 0,
            "much" => window.cwnd = 0x7fff_ffff,
            // Fast at first only: were a count kept, the next run would be slow.
            "count" if calls < 500 && held < 500 && ack.may_grow() => window.cwnd += 1,
            "count" => window.cwnd = 2,
            _ => {}
        }
    }
    fn on_congestion(&mut self, _: &Congestion, window: &mut Window) {
        if self.0 != "left" {
            window.ssthresh = 2;
        }
    }
}
tailback::export!(Wrong);
"""


def crate(folder: Path, text: str = WRONG, **more: Any) -> tb.Candidate:
    shutil.copytree(TEMPLATE, folder / "mine", dirs_exist_ok=True)
    (folder / "mine" / "src" / "lib.rs").write_text(text)
    return tb.candidate({"name": f"rust:{folder / 'mine'}"} | more, allow_code=True)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"wire": {"loss": 0.02}},
        {"queue": {"discipline": "red", "ecn": True}, "rate": "4mbit"},
        {"rate": "500kbit", "queue": "4packets", "wire": {"loss": 0.2}},
    ],
    ids=["queue", "loss", "ecn", "timeouts"],
)
def test_the_template_is_the_built_in_reno_row_by_row(more: dict[str, object]) -> None:
    mine = tb.candidate(f"{TEMPLATE}/Cargo.toml", allow_code=True)
    assert (mine.kind, mine.label, mine.allow_code) == ("rust", "crate", True)
    one = tb.run(beside_reno(mine.cc, **more), allow_code=True)
    other = tb.run(beside_reno("reno", **more))
    assert_same_rows(one, other)


def test_its_parameters_are_its_own() -> None:
    less, more = (tb.candidate({"name": f"rust:{TEMPLATE}", "keeps": keeps}, allow_code=True) for keeps in (0.5, 0.8))
    shape = tb.dumbbell(
        rate="10mbit", rtt="40ms", queue="1bdp", duration="20s",
        flows=[tb.bulk(less.cc, name="less"), tb.bulk(more.cc, name="more")],
    )  # fmt: skip
    found = {row["flow"]: row["goodput_mbps"] for row in tb.run(shape, allow_code=True).flow_summary()}
    assert found["more"] > 1.3 * found["less"]
    for params, says in (
        ({"kepes": 0.5}, "it has no parameter kepes. There are: keeps"),
        ({"keeps": 1.5}, "keeps = 1.5: must be 0.1 to 0.95"),
        ({"keeps": "half"}, "keeps = half: must be a number"),
    ):
        with pytest.raises(tb.TailbackError, match=re.escape(says)):
            tb.candidate({"name": f"rust:{TEMPLATE}"} | params, allow_code=True)


@pytest.mark.parametrize(
    ("how", "hook", "says"),
    [
        ("panic", "on_ack", "it panicked: no more than 70 at src/lib.rs:27"),
        ("made", "on_established", "it panicked: one was made at src/lib.rs:20"),
        ("abort", "on_ack", "crashed: it aborted"),
        ("none", "on_ack", "it set cwnd to 0: nothing would ever be sent again"),
        ("much", "on_ack", "it set cwnd to 2147483647: more than 1 TiB"),
        ("left", "on_congestion", "it set no ssthresh: set where the window should land"),
    ],
)
def test_one_that_goes_wrong_is_named(tmp_path_factory: pytest.TempPathFactory, how: str, hook: str, says: str) -> None:
    mine = crate(tmp_path_factory.getbasetemp(), how=how)
    with pytest.raises(tb.AlgorithmError, match=re.escape(says)) as error:
        tb.run(beside_reno(mine.cc, wire={"loss": 0.02}), allow_code=True)
    assert error.value.hook == hook


def test_its_globals_begin_again_with_each_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    mine = crate(tmp_path_factory.getbasetemp(), how="count")
    runs = [tb.run(beside_reno(mine.cc), allow_code=True).column("flows", "bytes_acked").tolist() for _ in range(3)]
    assert runs[0] == runs[1] == runs[2]
    assert runs[0][0] > 500 * 1448
    # Also in several processes at once, each of which opens copies of the library.
    short = beside_reno(mine.cc, duration="1001ms")
    many = tb.run_many([short] * 400, workers=8, allow_code=True)
    assert len({tuple(run.column("flows", "bytes_acked").tolist()) for run in many}) == 1


def test_what_is_wrong_with_a_crate_is_said_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text, says in (
        (WRONG.replace("let calls", "let mut call"), r"does not compile:\n(.*\n)*.*src/lib\.rs:27"),
        (WRONG.replace("tailback::export!(Wrong);", ""), r"it exports no congestion control: end src/lib\.rs with"),
    ):
        with pytest.raises(tb.TailbackError, match=says):
            crate(tmp_path, text)
    file = tmp_path / "mine" / "src" / "tailback.rs"
    file.write_text(file.read_text().replace("VERSION: u32 = 1", "VERSION: u32 = 7"))
    (tmp_path / "mine" / "src" / "lib.rs").write_text(WRONG)
    with pytest.raises(tb.TailbackError, match=r"tailback\.rs is version 7, and this tailback works with version 1"):
        tb.candidate(f"rust:{tmp_path}/mine", allow_code=True)
    with pytest.raises(tb.TailbackError, match=r"is no Rust crate: it has no Cargo\.toml"):
        tb.candidate(f"rust:{tmp_path}/none", allow_code=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(tb.TailbackError, match=r"cargo, which is not installed\. Install Rust: https://rustup\.rs"):
        crate(tmp_path, WRONG + "\n")


def test_it_needs_permission_to_run_and_a_result_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(TEMPLATE, tmp_path / "mine")
    file = tmp_path / "scenario.toml"
    file.write_text(beside_reno("rust:mine", duration="2s").to_toml())
    monkeypatch.chdir("/")
    with pytest.raises(tb.TailbackError, match=r"is code, which would be run.*--allow-code"):
        tb.candidate(str(tmp_path / "mine" / "Cargo.toml"))
    with monkeypatch.context() as context:
        context.setattr(crates, "_library", lambda *_: pytest.fail("it was compiled"))
        with pytest.raises(tb.ScenarioError, match="the scenario asks to compile and run mine"):
            tb.run(file)
        tb.Scenario.from_toml(file).resolve()
    result = tb.run(file, allow_code=True, out=tmp_path / "result")
    shutil.rmtree(tmp_path / "mine")
    kept = tb.open_result(tmp_path / "result")
    with pytest.raises(tb.ScenarioError, match="asks to run the code it keeps"):
        tb.repeat(kept)
    again = tb.repeat(kept, allow_code=True)
    assert again.column("flows", "bytes_acked").tolist() == result.column("flows", "bytes_acked").tolist()
