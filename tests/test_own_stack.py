"""Transports of the user's own: in C by tailback_stack.h, and in Python by the same nine calls."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from tailback import _core, stacks
from tailback.examples import __file__ as _examples

EXAMPLES = Path(_examples).parent
AIMD = EXAMPLES / "stack" / "aimd.c"
TEXT = AIMD.read_text(encoding="utf-8")
in_c = pytest.mark.skipif(
    not hasattr(_core, "NativeStack") or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)


def path(*flows: Any, **more: Any) -> tb.Scenario:
    given = {"rate": "10mbit", "rtt": "40ms", "queue": {"limit": "1bdp"}, "duration": "10s"} | more
    return tb.dumbbell(flows=list(flows), **given)


def over(source: Path | str, **more: Any) -> Any:
    return tb.bulk("aimd", transport=f"c:{source}", name="mine", **more)


def run(scenario: tb.Scenario) -> tb.Result:
    return tb.run(scenario, allow_code=True)


def demand_same(one: tb.Result, other: tb.Result) -> None:
    assert set(one.tables) == set(other.tables)
    for name in set(one.tables) - {"engine"}:
        columns, others = one.numpy(name), other.numpy(name)
        assert [key for key in columns if columns[key].tobytes() != others[key].tobytes()] == [], name


@in_c
def test_aimd_in_c_shares_a_link_with_reno_and_repeats_every_byte(tmp_path: Path) -> None:
    """Both halve on a loss and add a segment a round trip (Chiu and Jain 1989): each gets its half, give or take."""
    scenario = path(over(AIMD), tb.bulk("reno", name="theirs"), duration="30s")
    result = run(scenario)
    mine, theirs = (row["goodput_mbps"] for row in result.flow_summary())
    assert mine + theirs > 9.0
    assert 0.5 < mine / theirs < 2.0
    result.save(tmp_path / "kept")
    # By the source that the result keeps.
    demand_same(result, tb.repeat(tb.Result.load(tmp_path / "kept"), allow_code=True))


@in_c
def test_what_is_lost_is_sent_again_until_a_transfer_is_whole() -> None:
    lossy = path(over(AIMD, bytes="2MB"), wire={"loss": 0.03}, back_wire={"loss": 0.03}, duration="60s")
    result = run(lossy)
    assert result.numpy("flows")["connections_open"][0] == result.numpy("flows")["connections_failed"][0] == 0
    assert result.numpy("flows")["bytes_received"][0] == 2_000_000
    assert not result.meta["warnings"]


@in_c
def test_a_source_in_c_is_a_candidate() -> None:
    made = tb.candidate(str(AIMD), allow_code=True)
    assert (made.label, made.kind) == ("aimd.c aimd", "transport")
    assert made.cc == {"transport": f"c:{AIMD}", "cc": "aimd"}
    with pytest.raises(tb.TailbackError, match="is code, which would be run"):
        tb.candidate(str(AIMD))
    with pytest.raises(tb.TailbackError, match=r'no congestion control .* named "reno"\. There are aimd'):
        tb.candidate(f"{AIMD},cc=reno", allow_code=True)


@in_c
def test_nothing_is_compiled_without_consent() -> None:
    with pytest.raises(tb.ScenarioError, match=r"asks to compile and run .*aimd.c"):
        tb.run(path(over(AIMD)))


@pytest.fixture
def changed(tmp_path: Path) -> Any:
    """A function that writes aimd.c with one text replaced by another."""

    def write(old: str, new: str) -> Path:
        assert TEXT.count(old) >= 1, old
        file = tmp_path / "mine.c"
        file.write_text(TEXT.replace(old, new), encoding="utf-8")
        return file

    return write


@in_c
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("TAILBACK_STACK(aimd);", "void *unused(void) { return (void *)&aimd; }", "it exports no stack: end"),
        (".abi = TAILBACK_STACK_ABI", ".abi = 7", "written for version 7 of tailback_stack.h"),
        (".progress = progress,", "", "has no progress: set .progress"),
        ('.algorithms = "aimd"', '.algorithms = ""', "it names no congestion control"),
        ("end->backoff++;", "end->backof++;", "has no member named"),
        ("halve(end);", "halve_it(end);", "halve_it"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_source_is_said_before_anything_runs(changed: Any, old: str, new: str, says: str) -> None:
    with pytest.raises((tb.ScenarioError, tb.TailbackError)) as raised:
        run(path(over(changed(old, new))))
    assert says in str(raised.value)


@in_c
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("return rto <<", "return (uint64_t)time(NULL) + rto <<", "calls time(), which no run repeats"),
        ("end->cwnd = 10;", "end->cwnd = 10 + rand() % 4;", "connect calls rand(), which no run repeats"),
        ("return HEADER + payload;", "return 99999;", "poll_transmit returns 99999 bytes, and the buffer has room for"),
        ("return taken;", "return most;", "it takes bytes to send without end"),
        ("if (end == NULL)", "if (end != NULL)", "connect returns NULL"),
        ("return ((struct end *)it)->timer;", "return 0;", "without letting time pass"),
        ("return bytes;", "return 2 * bytes;", "bytes, of which"),
        ("end->flight >= (uint64_t)end->cwnd", "end->flight >= 200", "beyond its window: 33 datagrams in a row"),
    ],
)
def test_what_a_stack_may_not_do_ends_its_flow_and_the_others_go_on(
    changed: Any, old: str, new: str, says: str
) -> None:
    source = changed(old, new)
    source.write_text(source.read_text().replace("#include <stdlib.h>", "#include <stdlib.h>\n#include <time.h>"))
    result = run(path(over(source), tb.bulk("reno", name="theirs")))
    (warning,) = result.meta["warnings"]
    assert "warning: c:" in str(result)
    assert says in warning
    assert f"c:{source} 1, flow mine" in warning
    # What the stack sent beyond its window before it was stopped costs Reno some reductions.
    assert result.flow_summary()[1]["goodput_mbps"] > (8.0 if "beyond" in says else 9.0)


@in_c
def test_what_a_stack_may_not_do_is_found_by_a_search_and_fails_a_test(changed: Any, tmp_path: Path) -> None:
    source = changed("return HEADER + payload;", "return 99999;")
    (found,) = tb.hunt(str(source), weaknesses=["panic"], runs=20, allow_code=True, out=tmp_path / "hunt")
    assert "poll_transmit returns 99999 bytes" in found.said
    (tested,) = tb.test(tmp_path / "hunt", allow_code=True).scenarios
    assert (tested.verdict, found.said.partition(", flow")[0] in tested.error) == ("failed", True)


@in_c
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("end->ack_due = 1;", "end->ack_due = *(volatile int *)8;", "it used memory that is not its own"),
        ("end->ack_due = 1;", "for (volatile int i = 1; i;) {}", "does not return"),
    ],
)
def test_a_stack_that_crashes_or_never_returns_is_named_with_the_call(
    changed: Any, old: str, new: str, says: str
) -> None:
    source = changed(old, new)
    with pytest.raises(tb.AlgorithmError) as raised:
        run(path(over(source)))
    assert (raised.value.algorithm, raised.value.hook) == (f"c:{source}", "on_datagram")
    assert 0.0 < raised.value.at_s < 1.0
    assert says in str(raised.value)


@in_c
def test_a_stack_is_no_congestion_control_and_no_queue() -> None:
    with pytest.raises(tb.ScenarioError, match="it is a transport: name it as a flow's transport"):
        run(path(tb.bulk(f"c:{AIMD}")))
    newreno = EXAMPLES / "newreno.py"
    with pytest.raises(tb.ScenarioError, match=r"transport = .*it is no transport. Name a class with connect"):
        run(path(tb.bulk("reno", transport=f"python:{newreno}:NewReno")))


def test_the_header_says_what_its_reader_reads() -> None:
    """The version and the calls, of the header and of the Python form, are the same."""
    header = stacks.HEADER.read_text(encoding="utf-8")
    assert "#define TAILBACK_STACK_ABI 1\n" in header
    places = [header.index(f"(*{call})(void *end") for call in stacks.CALLS]
    assert places == sorted(places)


#: Sends one datagram at a time, and the next once it was acknowledged: stop and wait.
STOP_AND_WAIT = """
class Stop:
    version = "1"
    algorithms = ("none",)

    def connect(self, setup):
        return End(setup, True), End(setup, False)

class End:
    def __init__(self, setup, is_client):
        self.size, self.is_client, self.is_up = setup.most_payload - 9, is_client, False
        self.hello, self.ack, self.over, self.ends = is_client, None, False, False
        self.held = self.number = self.arrived = self.expected = 0
        self.finishing = self.sent_end = self.peer_ended = self.bye = False
        self.out, self.due, self.at = None, False, None

    def on_datagram(self, now, datagram, ecn):
        kind, number = datagram[:1], int.from_bytes(datagram[1:9], "little")
        self.over |= kind == b"B"
        if not self.is_up:
            self.is_up, self.hello, self.at = True, not self.is_client, None
        if kind == b"A" and self.out is not None and number == self.number:
            self.out, self.at, self.number = None, None, self.number + 1
        elif kind in b"DE":
            if number == self.expected:
                self.expected += 1
                self.arrived += len(datagram) - 9
                self.peer_ended = kind == b"E"
            self.ack = number

    def poll_transmit(self, now):
        head = lambda kind, number: kind + number.to_bytes(8, "little")
        if self.bye:
            self.bye = False
            return head(b"B", 0)
        if self.hello:
            self.hello = False
            self.at = now + 1.0 if self.is_client else None
            return head(b"H", 0)
        if self.ack is not None:
            number, self.ack = self.ack, None
            return head(b"A", number), 0
        if self.is_up and self.out is None and (self.held >= self.size or self.finishing and not self.sent_end):
            taken = min(self.held, self.size)
            self.held -= taken
            self.sent_end = self.finishing and self.held == 0
            self.out, self.due = head(b"E" if self.sent_end else b"D", self.number) + bytes(taken), True
        if self.due:
            self.due, self.at = False, now + 0.3
            return self.out

    def next_timeout(self):
        return self.at

    def on_timeout(self, now):
        assert now >= self.at
        self.hello, self.due, self.at = not self.is_up, self.is_up, None

    def write(self, most):
        taken = max(min(most, 2 * self.size - self.held), 0) if self.is_up else 0
        self.held += taken
        return taken

    def finish(self):
        self.finishing = True

    def read(self, now):
        arrived, self.arrived = self.arrived, 0
        return arrived

    def close(self, now):
        self.over = self.bye = True

    def progress(self):
        states = {"established": self.is_up, "closed": self.over, "peer_finished": self.peer_ended,
                  "acknowledged": self.sent_end and self.out is None}
        return [name for name, is_so in states.items() if is_so]
"""


@pytest.fixture
def stop(tmp_path: Path) -> Any:
    """A function that writes the stack in Python with one text replaced, and gives a flow over it."""

    def write(old: str = "", new: str = "", **more: Any) -> Any:
        assert old in STOP_AND_WAIT
        file = tmp_path / f"stop{len(list(tmp_path.iterdir()))}.py"
        file.write_text(STOP_AND_WAIT.replace(old, new) if old else STOP_AND_WAIT, encoding="utf-8")
        return tb.bulk("none", transport=f"python:{file}:Stop", name="mine", **more)

    return write


def test_stop_and_wait_in_python_sends_one_datagram_a_round_trip(stop: Any) -> None:
    """Its rate is a payload by the round trip, in which a packet and its ACK are serialised (RFC 3366, idle RQ)."""
    result = run(path(stop()))
    trip_s = 0.040 + 1500 * 8 / 10e6 + (28 + 9) * 8 / 10e6
    assert result.flow_summary()[0]["goodput_mbps"] == pytest.approx((1472 - 9) * 8 / trip_s / 1e6, rel=0.02)


def test_a_transfer_over_a_stack_in_python_survives_losses_and_repeats_every_byte(stop: Any) -> None:
    flow = stop(bytes="100kB")
    results = [run(path(flow, wire={"loss": 0.1}, duration="60s")) for _ in range(2)]
    assert results[0].numpy("flows")["bytes_received"][0] == 100_000
    assert results[0].numpy("flows")["connections_open"][0] == 0
    demand_same(*results)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("return self.at\n", "return self.nowhere\n", "next_timeout raised AttributeError"),
        ("return self.out\n", "return str(self.out)\n", "poll_transmit raised TypeError: it returns bytes"),
        ('"acknowledged": ', '"acked": True, "acknowledged": ', '"acked" is no progress'),
        ("return End(setup, True), End(setup, False)", "return End(setup, True)", "the client's end and the server's"),
        ("return taken\n", "return most\n", "it takes bytes to send without end"),
        ("return arrived\n", "return 2 * arrived\n", "bytes, of which"),
    ],
)
def test_what_a_stack_in_python_does_wrong_ends_its_flow(stop: Any, old: str, new: str, says: str) -> None:
    result = run(path(stop(old, new), tb.bulk("reno", name="theirs")))
    (warning,) = result.meta["warnings"]
    assert says in warning
    assert result.flow_summary()[1]["goodput_mbps"] > 8.0


def test_a_class_without_version_is_refused(stop: Any) -> None:
    with pytest.raises(tb.ScenarioError, match=r"Stop has no version\. Set it"):
        run(path(stop('    version = "1"\n', "")))


def test_a_class_with_connect_is_a_candidate(stop: Any) -> None:
    name = str(stop().plain()["transport"])
    made = tb.candidate(name, allow_code=True)
    assert made.kind == "transport"
    assert made.cc == {"transport": name, "cc": "none"}


def test_aioquic_fills_a_link_and_repeats_every_byte() -> None:
    pytest.importorskip("aioquic")
    flow = tb.bulk("reno", transport=f"python:{EXAMPLES / 'aioquic_stack.py'}:Aioquic", name="mine")
    results = [run(path(flow, rate="4mbit", duration="4s")) for _ in range(2)]
    assert not results[0].meta["warnings"]
    assert results[0].flow_summary()[0]["goodput_mbps"] > 2.5
    demand_same(*results)


@in_c
def test_the_example_compiles_without_a_warning_and_is_short() -> None:
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", f"-I{stacks.HEADER.parent}"]
    done = subprocess.run(["cc", *flags, str(AIMD)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(TEXT.splitlines()) < 300
