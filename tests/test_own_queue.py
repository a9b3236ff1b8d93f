"""Queue disciplines written in Python: what they can do, and each way of breaking a rule."""

import contextlib
import random
import time
from collections import deque
from pathlib import Path

import pytest

import command
import tailback as tb
from pairs import assert_same_rows
from tailback import suites
from tailback.algorithms import load
from tailback.errors import TailbackError

PATH = {"rate": "10mbit", "rtt": "40ms", "duration": "4s"}


class Short(tb.OwnQueue):
    """Drop-tail by packets."""

    def __init__(self, limit_packets=20):
        super().__init__()
        self.limit = limit_packets

    def enqueue(self, packet, now):
        if len(self.packets) >= self.limit:
            return "drop"
        self.packets.append(packet)
        return None


def dumbbell(queue="mine", ecn=False, cc="reno", **params):
    flows = [tb.bulk(cc, name="bulk", stack={"name": "linux", "ecn": ecn}), tb.voip(start="1s")]
    queue = {"discipline": queue} | params if isinstance(queue, str) else queue
    return tb.dumbbell(**PATH, queue=queue, flows=flows, instruments={"queues": ["bottleneck"]}, seed=3)


def run(made_by, **more):
    return tb.run(dumbbell(**more), algorithms={"mine": made_by})


def broken(made_by, **more):
    with pytest.raises(tb.AlgorithmError) as raised:
        run(made_by, **more)
    return str(raised.value)


def test_a_drop_tail_queue_in_python_is_the_fifo_bit_for_bit():
    mine = run(Short, limit="20packets")
    builtin = tb.run(dumbbell("fifo", limit="20packets"))
    assert builtin.column("links", "dropped").sum() > 0
    for table in ("queue", "flows", "links"):
        assert_same_rows(mine, builtin, [table])


def test_a_limit_in_bytes_is_the_fifos_bit_for_bit_at_either_end():
    class Tail(tb.OwnQueue):
        pass

    class Head(tb.OwnQueue):
        def enqueue(self, packet, now):
            while not self.has_room(packet):
                self.packets.popleft().drop()
            self.packets.append(packet)

    for made_by, drop in ((Tail, "tail"), (Head, "head")):
        mine = run(made_by, limit="25kB")
        builtin = tb.run(dumbbell("fifo", limit="25kB", drop=drop))
        assert builtin.column("links", "dropped").sum() > 0
        assert_same_rows(mine, builtin, ["flows", "links"])


def test_codel_like_drops_and_marks_at_the_head_are_recorded_as_such():
    class AtHead(tb.OwnQueue):
        def __init__(self, every=50):
            super().__init__()
            self.every, self.count = every, 0

        def dequeue(self, now):
            packet = super().dequeue(now)
            self.count += 1
            if packet is not None and self.count % self.every == 0:
                if packet.is_ecn_capable:
                    packet.mark()
                elif self.packets:
                    packet.drop()
                    return super().dequeue(now)
            return packet

    marked = run(AtHead, ecn=True)
    assert marked.column("links", "marked")[0] > 10
    dropped = run(AtHead)
    assert (dropped.column("links", "marked")[0], dropped.column("links", "dropped")[0] > 0) == (0, True)


def test_a_queue_that_holds_back_shapes_and_says_so():
    class Half(tb.OwnQueue):
        holds_back = True

        def __init__(self, rate_bps):
            super().__init__()
            self.rate, self.free = rate_bps / 2, 0.0

        def dequeue(self, now):
            if not self.packets:
                return None
            if now < self.free:
                return self.free
            self.free = now + 8 * self.packets[0].bytes / self.rate
            return self.packets.popleft()

    bytes_acked = run(Half).column("flows", "bytes_acked")[0]
    assert 8 * bytes_acked / 4 == pytest.approx(5e6, rel=0.12)
    Half.holds_back = False
    assert "holds_back = True" in broken(Half)


class _Faulty(tb.OwnQueue):
    def __init__(self):
        super().__init__()
        self.last, self.count = None, 0

    def dequeue(self, now):
        self.count += 1
        packet = super().dequeue(now)
        if self.count < 50 or packet is None:
            self.last = packet or self.last
            return packet
        return self.fault(packet)


class Loses(_Faulty):
    def fault(self, packet):
        return super().dequeue(1.0)


class Twice(_Faulty):
    def fault(self, packet):
        return self.last


class Invents(_Faulty):
    def fault(self, packet):
        return "a packet"


class Never(_Faulty):
    def fault(self, packet):
        return None


class Throws(_Faulty):
    def fault(self, packet):
        raise ZeroDivisionError("by zero")


class Reorders(tb.OwnQueue):
    def dequeue(self, now):
        return self.packets.pop() if self.packets else None


class Foreign(_Faulty):
    def fault(self, packet):
        packet.drop()
        return packet


@pytest.mark.parametrize(
    ("made_by", "rule"),
    [
        (Loses, "it was kept, and dequeue returns no packet although"),
        (Twice, "it is returned although it left or was dropped before"),
        (Invents, "dequeue returned 'a packet'"),
        (Never, "dequeue returns no packet although"),
        (Throws, "by zero"),
        (Reorders, "reorders = True"),
        (Foreign, "it is returned although it left or was dropped before"),
    ],
)
def test_a_broken_rule_ends_the_run_with_queue_time_and_rule(made_by, rule):
    text = broken(made_by)
    assert rule in text
    assert "mine at link bottleneck failed in dequeue at " in text
    assert "s of simulated time" in text
    if made_by not in (Invents, Throws):
        assert "packet " in text


def test_a_broken_rule_is_printed_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.py").write_text(SOURCE)
    (tmp_path / "full.toml").write_text(dumbbell("python:my.py:Mute").to_toml())
    code, _, err = command.tailback("run", "full.toml", "--allow-code")
    assert code == 1
    assert err.count("it was kept, and dequeue returns no packet") == 1


@pytest.mark.parametrize("limit", ["limit_packets", "limit_bytes", "LIMIT_PACKETS"])
def test_a_limit_of_nothing_is_refused_whatever_queue_it_is_of(limit):
    with pytest.raises(tb.ScenarioError, match="a queue of nothing drops") as raised:
        run(Short, **{limit: 0})
    assert raised.value.problems[0].field == f"dumbbell.queue.{limit}"


def test_reordering_is_allowed_to_a_class_that_says_so():
    class Last(Reorders):
        reorders = True

    assert run(Last).column("flows", "bytes_acked")[0] > 0


def test_what_enqueue_returns_and_raises_is_reported_with_the_packet():
    class Odd(tb.OwnQueue):
        def enqueue(self, packet, now):
            return "maybe"

    assert "failed in enqueue" in broken(Odd)
    assert "packet 0 (flow 0, " in broken(Odd)
    assert "'maybe'" in broken(Odd)

    class Marks(tb.OwnQueue):
        def enqueue(self, packet, now):
            super().enqueue(packet, now)
            return "mark"

    assert "does not speak ECN" in broken(Marks)


def test_a_packet_is_dropped_only_by_the_queue_that_holds_it():
    kept = []

    class Keeps(tb.OwnQueue):
        def enqueue(self, packet, now):
            kept.append(packet)
            super().enqueue(packet, now)

    run(Keeps)
    with pytest.raises(RuntimeError, match="only within enqueue or dequeue"):
        kept[0].drop()


def test_a_class_that_reads_the_clock_or_draws_unseeded_chance_is_refused():
    class Clock(tb.OwnQueue):
        def dequeue(self, now):
            self.at = time.monotonic()
            return super().dequeue(now)

    class Chance(tb.OwnQueue):
        def enqueue(self, packet, now):
            if random.random() < 0.1:
                return "drop"
            return super().enqueue(packet, now)

    class Local(tb.OwnQueue):
        def enqueue(self, packet, now):
            from time import perf_counter

            self.at = perf_counter()

    class Unseeded(tb.OwnQueue):
        def __init__(self):
            super().__init__()
            self.random = random.Random()

    class Systems(tb.OwnQueue):
        def __init__(self):
            super().__init__()
            self.random = random.SystemRandom()

    class Seeded(tb.OwnQueue):
        def __init__(self, seed):
            super().__init__()
            self.random = random.Random(seed)

        def enqueue(self, packet, now):
            return "drop" if self.random.random() < 0.05 else super().enqueue(packet, now)

    for made_by, where in [
        (Clock, "time.monotonic in Clock.dequeue"),
        (Chance, "random.random in Chance.enqueue"),
        (Local, "time.perf_counter in Local.enqueue"),
        (Unseeded, r"random.Random\(\) without a seed in Unseeded.__init__"),
        (Systems, "random.SystemRandom in Systems.__init__"),
    ]:
        with pytest.raises(TailbackError, match=where):
            run(made_by)
    assert_same_rows(run(Seeded), run(Seeded), ["queue"])


def test_a_hook_that_does_not_return_ends_the_run():
    class Endless(tb.OwnQueue):
        def dequeue(self, now):
            while now > 0.1:
                with contextlib.suppress(Exception):
                    int(now)
            return super().dequeue(now)

    assert "dequeue" in (text := broken(Endless))
    assert "processor time and does not return" in text


@pytest.mark.parametrize(
    ("queue", "what"),
    [
        ("mine.py:Mine", 'Write "python:mine.py:Mine"'),
        ("python:tailback.examples.newreno:NewReno", "this class is a congestion control"),
    ],
)
def test_what_is_no_queue_is_refused_with_what_to_write(queue, what):
    with pytest.raises(tb.ScenarioError) as refused:
        tb.run(
            tb.dumbbell(rate="10mbit", rtt="40ms", queue=queue, flows=[tb.bulk("reno")], duration="1s"), allow_code=True
        )
    assert what in str(refused.value)


def test_a_parameter_that_a_class_lacks_is_named_with_those_it_has():
    class Late(tb.OwnQueue):
        def __init__(self, most_ms=20, **limits):
            super().__init__(**limits)

    path = {"rate": "10mbit", "rtt": "40ms", "duration": "1s", "queue": {"discipline": "late", "mots_ms": 5}}
    with pytest.raises(TailbackError, match=r"Late has no parameter mots_ms. Did you mean most_ms\? There are: limit_"):
        tb.run(tb.dumbbell(flows=[tb.bulk("reno")], **path), algorithms={"late": Late})


SOURCE = """
import tailback as tb

class Mine(tb.OwnQueue):
    def enqueue(self, packet, now):
        if len(self.packets) >= 20:
            return "drop"
        self.packets.append(packet)

class Mute(Mine):
    def dequeue(self, now):
        return None

class Half:
    def enqueue(self, packet, now): ...
"""


def test_a_reference_is_followed_only_where_code_is_allowed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.py").write_text(SOURCE)
    scenario = dumbbell("python:my.py:Mine")
    assert tb.Scenario.parse_toml(scenario.to_toml()) == scenario
    with pytest.raises(tb.ScenarioError, match=r"asks to import and run my\.py:Mine"):
        tb.run(scenario)
    result = tb.run(scenario, allow_code=True)
    assert result.column("links", "dropped")[0] > 0
    result.save(tmp_path / "kept")
    (tmp_path / "my.py").unlink()
    assert "class Mine" in next((tmp_path / "kept" / "algorithms").iterdir()).read_text()
    bare = tb.dumbbell(**PATH, queue="python:my.py:Mine", flows=[tb.bulk("reno")])
    assert bare.dumbbell.queue.discipline == "python:my.py:Mine"
    (tmp_path / "my.py").write_text(SOURCE)
    with pytest.raises(tb.ScenarioError, match="no dequeue"):
        tb.run(dumbbell("python:my.py:Half"), allow_code=True)


def test_a_queue_is_no_congestion_control_nor_the_other_way_round():
    with pytest.raises(tb.ScenarioError):
        tb.run(tb.dumbbell(**PATH, flows=[tb.bulk("mine")]), algorithms={"mine": Short})

    class Control:
        def on_ack(self, ack, control): ...
        def on_congestion(self, congestion, control): ...

    with pytest.raises(tb.ScenarioError):
        run(Control)
    with pytest.raises(tb.TailbackError, match="Neither is neither a queue, which has enqueue and dequeue, nor"):
        run(type("Neither", (), {}))


def test_the_kernel_runs_none(tmp_path):
    from tailback.algorithms import demand_of_kernel

    scenario = dumbbell("python:my.py:Mine")
    with pytest.raises(tb.ScenarioError, match="the kernel runs no Python class"):
        demand_of_kernel(scenario, scenario.resolve(check=False))


def test_a_suite_of_queues_takes_a_class_as_its_candidate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.py").write_text(SOURCE)
    burst = Path(suites.__file__).parent / "aqm" / "burst.toml"
    tested = tb.test(burst, candidate="my.py:Mine", allow_code=True)
    assert [scenario.has_candidate for scenario in tested.scenarios] == [True]
    assert tested.scenarios[0].seeds > 0
    assert "allow" in str(tb.test(burst, candidate="my.py:Mine").unreadable[0].error)


BROKEN = """
import time
import tailback as tb

class Faulty(tb.OwnQueue):
    def __init__(self, **limits):
        super().__init__(**limits)
        self.last, self.count = None, 0

    def dequeue(self, now):
        self.count += 1
        packet = super().dequeue(now)
        if self.count < 50 or packet is None:
            self.last = packet or self.last
            return packet
        return self.fault(packet)

class Loses(Faulty):
    def fault(self, packet): return super(Faulty, self).dequeue(0.0)

class Twice(Faulty):
    def fault(self, packet): return self.last

class Invents(Faulty):
    def fault(self, packet): return "a packet"

class Never(tb.OwnQueue):
    def dequeue(self, now): return None

class Throws(tb.OwnQueue):
    def enqueue(self, packet, now): raise ZeroDivisionError("by zero")

class Reorders(tb.OwnQueue):
    def dequeue(self, now): return self.packets.pop() if self.packets else None

class Forever(tb.OwnQueue):
    holds_back = True
    def dequeue(self, now): return 1e9 if self.packets else None

class Clock(tb.OwnQueue):
    def dequeue(self, now):
        self.at = time.monotonic()
        return super().dequeue(now)

class Bare:
    def __init__(self): self.held = []
    def enqueue(self, packet, now): self.held.append(packet)
    def dequeue(self, now): return self.held.pop(0) if self.held else None
"""


@pytest.mark.parametrize(
    ("name", "rule", "names_packet"),
    [
        ("Loses", "it was kept, and dequeue returns no packet although", True),
        ("Twice", "it is returned although it left or was dropped before", True),
        ("Invents", "dequeue returned 'a packet'", False),
        ("Never", "dequeue returns no packet although 1 packet", True),
        ("Throws", "ZeroDivisionError: by zero", True),
        ("Reorders", "a class that means this says reorders = True", True),
        ("Forever", "it waits until 1000000000 s: return a time after now", False),
    ],
)
def test_a_broken_candidate_of_a_suite_fails_by_queue_packet_time_and_rule(tmp_path, name, rule, names_packet):
    (tmp_path / "broken.py").write_text(BROKEN)
    burst = Path(suites.__file__).parent / "aqm" / "burst.toml"
    tested = tb.test(burst, candidate=f"{tmp_path}/broken.py:{name}", allow_code=True)
    why = str(tested.scenarios[0].error)
    assert tested.scenarios[0].verdict == "failed"
    assert rule in why
    assert f":{name} at link bottleneck failed in " in why
    assert "s of simulated time" in why
    assert ("packet " in why.partition("simulated time: ")[2].partition(":")[0]) == names_packet


def test_a_candidate_of_a_suite_that_reads_the_clock_is_unreadable(tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    burst = Path(suites.__file__).parent / "aqm" / "burst.toml"
    tested = tb.test(burst, candidate=f"{tmp_path}/broken.py:Clock", allow_code=True)
    assert "time.monotonic in Clock.dequeue" in str(tested.unreadable[0].error)


def test_a_candidate_of_a_suite_takes_parameters_and_needs_no_limit(tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    burst = Path(suites.__file__).parent / "aqm" / "burst.toml"
    bare = tb.test(burst, candidate=f"{tmp_path}/broken.py:Bare", allow_code=True)
    assert not bare.unreadable
    assert bare.scenarios[0].seeds > 0
    assert not tb.test(burst, candidate="codel,target=8ms").unreadable
    for candidate, says in (
        ("codel,max_p=0.1", "codel has no parameter max_p"),
        ("codel,limit=0packets", "a queue of nothing drops every packet"),
        ("kodel", "codel"),
    ):
        assert says in str(tb.test(burst, candidate=candidate).unreadable[0].error)


def test_the_tutorials_class_runs_as_it_stands_in_the_page(tmp_path):
    page = (Path(__file__).parents[1] / "docs" / "tutorials" / "own-queue.md").read_text(encoding="utf-8")
    (tmp_path / "my.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    result = tb.run(dumbbell(f"python:{tmp_path}/my.py:Threshold", most_ms=5), allow_code=True)
    assert result.column("links", "dropped")[0] > 0


def test_the_class_of_a_file_is_loaded_as_a_queue(tmp_path):
    (tmp_path / "my.py").write_text(SOURCE)
    made_by = load(f"{tmp_path}/my.py:Mine")
    assert isinstance(made_by().packets, deque)


class Late(tb.OwnQueue):
    """Gives no packet before it has waited 10 ms."""

    holds_back = True

    def dequeue(self, now):
        if self.packets and now < self.packets[0].enqueued_s + 0.01:
            return self.packets[0].enqueued_s + 0.01
        return super().dequeue(now)


def test_a_token_bucket_has_a_queue_of_ones_own_inside_also_one_that_waits():
    def goodput(inner):
        queue = {"discipline": "token_bucket", "rate": "5mbit", "inner": inner}
        result = tb.run(dumbbell(queue), algorithms={"mine": Short, "late": Late})
        return float(result.column("flows", "bytes_received")[0])

    mine, fifo = goodput({"discipline": "mine", "limit": "20packets"}), {"discipline": "fifo", "limit": "20packets"}
    # The bucket sees no head of a class of one's own, takes one packet ahead, and so holds one more.
    assert mine == pytest.approx(goodput(fifo), rel=0.02)
    assert 0.9 < goodput({"discipline": "late", "limit": "40packets"}) / mine < 1.1
