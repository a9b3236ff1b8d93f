"""A queue discipline in a Rust crate: what it can do, and each way of breaking a rule."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from pairs import assert_same_rows
from tailback import _core, crates, examples, suites
from tailback.algorithms import demand_of_kernel
from tailback.assess.procedures import procedure_of
from tailback.errors import TailbackError
from tailback.queue_candidate import candidate

pytestmark = [
    pytest.mark.skipif(not hasattr(_core, "NativeAlgorithm"), reason="crates need Linux"),
    pytest.mark.skipif(shutil.which("cargo") is None, reason="not installed: cargo"),
]

TEMPLATE = Path(examples.__file__).parent / "queue_crate"
#: The queue that a packet is taken from is a FIFO; `how` chooses what it does wrong from the fiftieth packet on.
WRONG = """
mod tailback;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;
use tailback::{About, Fate, Link, Packet, Params, Queue, Reason};

static CALLS: AtomicU32 = AtomicU32::new(0);
static ELSEWHERE: Mutex<Vec<Packet>> = Mutex::new(Vec::new());

struct Wrong {
    how: String,
    count: u32,
    packets: VecDeque<Packet>,
    copy: Option<Packet>,
}

/// What safe Rust does not do.
fn copied(packet: &Packet) -> Packet {
    unsafe { std::ptr::read(packet) }
}

impl Queue for Wrong {
    const ABOUT: About = About { reorders: REORDERS, holds_back: HOLDS_BACK, ..About::PLAIN };

    fn new(params: &mut Params, link: &Link) -> Result<Self, String> {
        let how = params.word("how", "")?;
        assert!(how != "made" || link.seed == 0, "one was made");
        Ok(Wrong { how, count: 0, packets: VecDeque::new(), copy: None })
    }

    fn enqueue(&mut self, mut packet: Packet, _now_ns: u64, fate: &mut Fate) {
        self.count += 1;
        let calls = CALLS.fetch_add(1, Ordering::Relaxed);
        match self.how.as_str() {
            "panics" if self.count == 50 => panic!("no more than {}", self.count),
            "aborts" if self.count == 50 => std::process::abort(),
            "hangs" if self.count == 50 => while CALLS.load(Ordering::Relaxed) > 0 {},
            "loses" if self.count == 50 => drop(packet),
            "elsewhere" if self.count == 50 => ELSEWHERE.lock().unwrap().push(packet),
            "elsewhere" if self.count == 51 => {
                let other = ELSEWHERE.lock().unwrap().pop().unwrap();
                fate.drop(copied(&other), Reason::Aqm);
                self.packets.extend([other, packet]);
            }
            "marks" if self.count == 50 => {
                fate.mark(&mut packet);
                self.packets.push_back(packet);
            }
            // Room at first only: were a count kept, the next run would have none.
            "counts" if calls >= 500 => fate.drop(packet, Reason::QueueFull),
            _ if fate.held().packets == 20 => fate.drop(packet, Reason::QueueFull),
            _ => self.packets.push_back(packet),
        }
    }

    fn dequeue(&mut self, now_ns: u64, fate: &mut Fate) -> Option<Packet> {
        let is_time = self.count >= 50;
        match self.how.as_str() {
            "never" | "waits" | "waits back" if is_time => return None,
            "reorders" => return self.packets.pop_back(),
            "twice" if is_time && self.copy.is_some() => return self.copy.take(),
            "dropped" if is_time && !self.packets.is_empty() => {
                let packet = self.packets.pop_front()?;
                fate.drop(copied(&packet), Reason::Aqm);
                return Some(packet);
            }
            _ => {}
        }
        let _ = now_ns;
        let packet = self.packets.pop_front()?;
        if self.how == "twice" && self.copy.is_none() {
            self.copy = Some(copied(&packet));
        }
        Some(packet)
    }

    fn ready_at_ns(&self, now_ns: u64) -> Option<u64> {
        match self.how.as_str() {
            "waits" => Some(now_ns + 1_000_000),
            "waits back" => Some(now_ns),
            _ => None,
        }
    }
}
tailback::export!(Wrong);
"""
WRONG = WRONG.replace("REORDERS", "false").replace("HOLDS_BACK", "cfg!(tailback_holds_back)")
PATH = {"rate": "10mbit", "rtt": "40ms", "duration": "4s"}


def dumbbell(queue: str | dict[str, Any], ecn: bool = False, **more: Any) -> tb.Scenario:
    flows = [tb.bulk("reno", name="bulk", stack={"name": "linux", "ecn": ecn}), tb.voip(start="1s")]
    instruments = {"queues": ["bottleneck"], "packets": "all"}
    return tb.dumbbell(queue=queue, flows=flows, instruments=instruments, seed=3, **PATH | more)


def crate(folder: Path, text: str = WRONG) -> str:
    """The crate's name in a scenario."""
    shutil.copytree(TEMPLATE, folder / "mine", dirs_exist_ok=True)
    (folder / "mine" / "src" / "lib.rs").write_text(text)
    return f"rust:{folder / 'mine'}"


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """The crate that does something wrong, compiled once for all of it."""
    name = crate(tmp_path_factory.mktemp("wrong"))
    return lambda how: {"discipline": name, "how": how}


@pytest.mark.parametrize("limit", ["20packets", "25kB", None])
def test_the_template_is_the_built_in_fifo_row_by_row(limit: str | None) -> None:
    given = {} if limit is None else {"limit": limit}
    mine = tb.run(dumbbell({"discipline": f"rust:{TEMPLATE}"} | given), allow_code=True)
    builtin = tb.run(dumbbell({"discipline": "fifo"} | given))
    assert (builtin.column("links", "dropped").sum() > 0) == (limit is not None)
    assert_same_rows(mine, builtin)


@pytest.mark.parametrize("ecn", [False, True])
def test_the_example_is_codel_as_linux_has_it_row_by_row(tmp_path: Path, ecn: bool) -> None:
    name = crate(tmp_path, (TEMPLATE / "codel.rs").read_text())
    given = {"ecn": ecn, "limit": "60packets", "target_ms": 3}
    mine = tb.run(dumbbell({"discipline": name} | given, ecn=ecn, duration="10s"), allow_code=True)
    builtin = tb.run(dumbbell({"discipline": "codel", "variant": "linux"} | given, ecn=ecn, duration="10s"))
    assert builtin.column("links", "marked" if ecn else "dropped")[0] > 10
    assert_same_rows(mine, builtin)


def test_its_parameters_are_its_own() -> None:
    def waited(**params: Any) -> float:
        result = tb.run(dumbbell({"discipline": f"rust:{TEMPLATE}"} | params), allow_code=True)
        return float(result.column("queue", "backlog_bytes").mean()) / 1.25e6

    assert waited(most_ms=20) < 0.02 < waited(most_ms=100)
    for params, says in (
        ({"mots_ms": 20}, "it has no parameter mots_ms. There are: most_ms, limit_packets, limit_bytes"),
        ({"most_ms": -1}, "most_ms = -1: must be above 0"),
        ({"most_ms": "long"}, "most_ms = long: must be a number"),
    ):
        with pytest.raises(tb.ScenarioError, match=re.escape(says)):
            waited(**params)


@pytest.mark.parametrize(
    ("how", "hook", "rule", "names_packet"),
    [
        ("loses", "dequeue", "it was kept, and dequeue returns no packet although", True),
        ("never", "dequeue", "dequeue returns no packet although", True),
        ("twice", "dequeue", "it is returned although it left or was dropped before", True),
        ("dropped", "dequeue", "it is returned although it left or was dropped before", True),
        ("elsewhere", "dequeue", "it is returned although it left or was dropped before", True),
        ("reorders", "dequeue", "a queue that means this has reorders: true in its ABOUT", True),
        ("waits", "dequeue", "a queue that means this has holds_back: true in its ABOUT", False),
        ("marks", "enqueue", "it is marked although its sender does not speak ECN", True),
        ("panics", "enqueue", "it panicked: no more than 50 at src/lib.rs:", True),
        ("aborts", "enqueue", "crashed: it aborted", False),
        ("hangs", "enqueue", "does not return: it has used two seconds of processor time", False),
    ],
)
def test_a_broken_rule_ends_the_run_with_queue_packet_time_and_rule(
    wrong: Callable[[str], dict[str, Any]], how: str, hook: str, rule: str, names_packet: bool
) -> None:
    queue = wrong(how)
    with pytest.raises(tb.AlgorithmError, match=re.escape(rule)) as error:
        tb.run(dumbbell(queue), allow_code=True)
    assert error.value.algorithm.startswith(f"{queue['discipline']} at link ")
    assert error.value.hook == hook
    assert error.value.at_s > 0
    assert bool(re.search(r"simulated time: packet \d+", str(error.value))) == names_packet


def test_what_it_declares_is_allowed_and_a_wait_must_lie_ahead(tmp_path: Path) -> None:
    text = WRONG.replace("reorders: false", "reorders: true").replace("cfg!(tailback_holds_back)", "true")
    name = crate(tmp_path, text)
    shaped = {how: tb.run(dumbbell({"discipline": name, "how": how}), allow_code=True) for how in ("", "reorders")}
    assert shaped["reorders"].column("flows", "bytes_acked")[0] > 0
    with pytest.raises(tb.AlgorithmError, match="return a time after now"):
        tb.run(dumbbell({"discipline": name, "how": "waits back"}), allow_code=True)


SHAPER = """
mod tailback;
use std::collections::VecDeque;
use tailback::{About, Fate, Link, Packet, Params, Queue};

/// Half of the link's rate.
struct Half {
    rate_bps: u64,
    free_ns: u64,
    packets: VecDeque<Packet>,
}

impl Queue for Half {
    const ABOUT: About = About { holds_back: true, target_ms: Some(7.0), isolates: "flows", ..About::PLAIN };

    fn new(params: &mut Params, link: &Link) -> Result<Self, String> {
        params.flag("ecn", false)?;
        params.number("burst_ms", 33.0)?;
        let rate_bps = link.rate_bps.ok_or("it needs a link with a rate")? / 2;
        Ok(Half { rate_bps, free_ns: 0, packets: VecDeque::new() })
    }
    fn enqueue(&mut self, packet: Packet, _: u64, _: &mut Fate) {
        self.packets.push_back(packet);
    }
    fn dequeue(&mut self, now_ns: u64, _: &mut Fate) -> Option<Packet> {
        if now_ns < self.free_ns {
            return None;
        }
        let packet = self.packets.pop_front()?;
        self.free_ns = now_ns + 8_000_000_000 * u64::from(packet.bytes()) / self.rate_bps;
        Some(packet)
    }
    fn ready_at_ns(&self, now_ns: u64) -> Option<u64> {
        (self.free_ns > now_ns).then_some(self.free_ns)
    }
}
tailback::export!(Half);
"""


def test_a_queue_that_holds_back_shapes_and_says_what_its_dossier_asks(tmp_path: Path) -> None:
    name = crate(tmp_path, SHAPER)
    result = tb.run(dumbbell(name), allow_code=True)
    assert 8 * result.column("flows", "bytes_acked")[0] / 4 == pytest.approx(5e6, rel=0.12)
    found = candidate(f"{tmp_path}/mine/Cargo.toml", allow_code=True)
    assert (found.kind, found.label, found.allow_code, found.name) == ("rust", "mine", True, name)
    assert (found.target_ms, found.burst_ms, found.isolates, found.drops_at_head) == (7.0, 33.0, "flows", False)
    assert (found.limits, found.takes_ecn) == ("", True)


def test_it_is_examined_as_a_queue_and_no_congestion_control_is(tmp_path: Path) -> None:
    mine, control = f"{TEMPLATE}/Cargo.toml", Path(examples.__file__).parent / "crate"
    found = candidate({"discipline": f"rust:{TEMPLATE}", "most_ms": 20}, allow_code=True)
    assert (found.label, found.limits, found.target_ms) == ("queue_crate most_ms=20", "packets", 15.0)
    assert [procedure_of(what, allow_code=True).rfc for what in (mine, f"{control}/Cargo.toml")] == [
        "RFC 7928",
        "RFC 9743",
    ]
    with pytest.raises(TailbackError, match=r"is code, which would be run.*--allow-code"):
        candidate(mine)
    with pytest.raises(TailbackError, match="it exports a congestion control, and no queue: name it as a flow's cc"):
        candidate(f"rust:{control}", allow_code=True)
    with pytest.raises(TailbackError, match="it exports a queue, and no congestion control: name it as a link's queue"):
        tb.candidate(mine, allow_code=True)
    empty = WRONG.replace("tailback::export!(Wrong);", "")
    with pytest.raises(TailbackError, match=r"it exports no queue: end src/lib\.rs with tailback::export!\(Mine\)"):
        candidate(crate(tmp_path, empty), allow_code=True)
    name = crate(tmp_path)
    file = tmp_path / "mine" / "src" / "tailback.rs"
    file.write_text(file.read_text().replace("VERSION: u32 = 1", "VERSION: u32 = 7"))
    with pytest.raises(TailbackError, match=r"tailback\.rs is version 7, and this tailback works with version 1"):
        candidate(name, allow_code=True)


def test_its_globals_begin_again_with_each_run(wrong: Callable[[str], dict[str, Any]]) -> None:
    runs = [tb.run(dumbbell(wrong("counts")), allow_code=True) for _ in range(3)]
    assert runs[0].column("links", "dropped")[0] > 0
    assert_same_rows(runs[0], runs[1])
    assert_same_rows(runs[0], runs[2])


def test_a_suite_and_a_sweep_take_it(tmp_path: Path, wrong: Callable[[str], dict[str, Any]]) -> None:
    burst = Path(suites.__file__).parent / "aqm" / "burst.toml"
    tested = tb.test(burst, candidate=f"{TEMPLATE}/Cargo.toml,most_ms=60", allow_code=True)
    assert not tested.unreadable
    assert tested.scenarios[0].seeds > 0
    assert "allow" in str(tb.test(burst, candidate=f"rust:{TEMPLATE}").unreadable[0].error)
    # One that takes no limit gets none.
    (broken,) = tb.test(burst, candidate=wrong("never"), allow_code=True).scenarios
    assert broken.verdict == "failed"
    assert "at link bottleneck failed in dequeue at " in str(broken.error)
    base, store = dumbbell("fifo", duration="2s"), tmp_path / "store"
    grid = {"dumbbell.queue": ["fifo", f"rust:{TEMPLATE}"]}
    with pytest.raises(tb.ScenarioError, match="--allow-code"):
        tb.sweep(base, grid, store=store)
    done = tb.sweep(base, grid, seeds=2, store=store, allow_code=True, workers=2)
    assert (done.run, done.failed) == (4, 0), done.errors
    codes = [str(code) for code in done.frame["code"].to_list()]
    assert [code.startswith(f"rust:{TEMPLATE} ") for code in codes] == [False, False, True, True]
    assert tb.sweep(base, grid, seeds=2, store=store, allow_code=True).reused == 4


def test_it_needs_permission_to_run_and_a_result_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(TEMPLATE, tmp_path / "mine")
    file = tmp_path / "scenario.toml"
    file.write_text(dumbbell({"discipline": "rust:mine", "limit": "20packets"}).to_toml())
    monkeypatch.chdir("/")
    with monkeypatch.context() as context:
        context.setattr(crates, "_library", lambda *_: pytest.fail("it was compiled"))
        with pytest.raises(tb.ScenarioError, match="the scenario asks to compile and run mine"):
            tb.run(file)
        scenario = tb.Scenario.from_toml(file)
        resolved = scenario.resolve()
        assert not procedure_of("rust:mine").rfc.endswith("7928")
    with pytest.raises(tb.ScenarioError, match="the kernel runs no Rust crate"):
        demand_of_kernel(scenario, resolved)
    result = tb.run(file, allow_code=True, out=tmp_path / "result")
    shutil.rmtree(tmp_path / "mine")
    kept = tb.open_result(tmp_path / "result")
    with pytest.raises(tb.ScenarioError, match="asks to run the code it keeps"):
        tb.repeat(kept)
    assert_same_rows(tb.repeat(kept, allow_code=True), result)
