"""Queue disciplines in BPF sources, as people write them for the kernel: an example, and ways of breaking a rule."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import tailback as tb
from pairs import assert_same_rows
from tailback import _core, suites
from tailback.algorithms import demand_of_kernel
from tailback.assess.procedures import procedure_of
from tailback.errors import TailbackError
from tailback.queue_candidate import candidate

pytestmark = [
    pytest.mark.skipif(not hasattr(_core, "bpf_library"), reason="BPF sources need Linux"),
    pytest.mark.skipif(shutil.which("clang") is None, reason="not installed: clang"),
]

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "bpf" / "examples" / "head_drop.bpf.c"
TREE = ROOT / "bpf" / "examples" / "shortest_first.bpf.c"
HEADERS = """
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_experimental.h"
#include "bpf_qdisc_common.h"
"""
#: A ring of packets in an array; HOW chooses what it does wrong from the fiftieth packet on.
WRONG = (
    HEADERS
    + """
#ifndef HOW
#define HOW 0
#endif
enum { FINE, LOSES, NEVER, TWICE, KEEPS, CODE, COUNT, ELSEWHERE, REORDERS, WAITS, CRASHES, HANGS, INIT, STATS, PUSHES };

struct slot { struct sk_buff __kptr *skb; };
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 20); __type(key, u32); __type(value, struct slot); }
	ring SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 9); __type(key, u64); __type(value, u64); }
	counts SEC(".maps");
struct item { struct bpf_list_node node; };
private(all) struct bpf_list_head items __contains(item, node);
private(all) struct bpf_spin_lock lock;
u32 head, tail;
volatile u32 never;
struct sk_buff *copy;

static u64 add(u64 key)
{
	u64 one = 1, *count = bpf_map_lookup_elem(&counts, &key);

	if (!count)
		bpf_map_update_elem(&counts, &key, &one, BPF_NOEXIST);
	return count ? ++*count : 1;
}

SEC("struct_ops")
int BPF_PROG(enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	bool is_time = add(7) == 50;
	struct slot *slot;
	u32 key = tail % 20;

	if (HOW == KEEPS && is_time) {
		sch->q.qlen++;
		return NET_XMIT_DROP;
	}
	if (HOW == CODE && is_time) {
		bpf_qdisc_skb_drop(skb, to_free);
		return 5;
	}
	if (HOW == CRASHES && is_time)
		*(volatile int *)8 = 1;
	if (HOW == HANGS && is_time)
		while (!never) {}
	if (HOW == LOSES && is_time) {
		sch->q.qlen++;
		return NET_XMIT_SUCCESS;
	}
	if (HOW == STATS && is_time)
		bpf_qdisc_bstats_update(sch, skb);
	if (HOW == PUSHES && is_time) {
		struct item *item = bpf_obj_new(typeof(*item));

		bpf_list_push_front(&items, &item->node);
		bpf_list_push_back(&items, &item->node);
	}
	if (tail - head == 20) {
		bpf_qdisc_skb_drop(skb, to_free);
		return NET_XMIT_DROP;
	}
	if (HOW != COUNT || !is_time)
		sch->q.qlen++;
	slot = bpf_map_lookup_elem(&ring, &key);
	skb = bpf_kptr_xchg(&slot->skb, skb);
	tail++;
	if (skb)
		bpf_kfree_skb(skb);
	return NET_XMIT_SUCCESS;
}

SEC("struct_ops")
struct sk_buff *BPF_PROG(dequeue, struct Qdisc *sch)
{
	u64 key = 7, *count = bpf_map_lookup_elem(&counts, &key);
	bool is_time = count && *count >= 50;
	struct sk_buff *skb;
	struct slot *slot;
	u32 at;

	if (head == tail || (HOW == NEVER && is_time))
		return NULL;
#if HOW == 9
	if (is_time) {
		bpf_qdisc_watchdog_schedule(sch, bpf_ktime_get_ns() + 1000000, 0);
		*count = 49;
		return NULL;
	}
#endif
	if (HOW == TWICE && is_time && copy)
		return copy;
	at = HOW == REORDERS ? --tail % 20 : head++ % 20;
	slot = bpf_map_lookup_elem(&ring, &at);
	skb = bpf_kptr_xchg(&slot->skb, NULL);
	sch->q.qlen--;
	if (HOW == ELSEWHERE && is_time) {
		bpf_qdisc_skb_drop(skb, NULL);
		return NULL;
	}
	copy = skb;
	bpf_qdisc_bstats_update(sch, skb);
	return skb;
}

SEC("struct_ops")
int BPF_PROG(init, struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	return HOW == INIT ? -22 : 0;
}

SEC("struct_ops")
void BPF_PROG(reset, struct Qdisc *sch) {}
SEC("struct_ops")
void BPF_PROG(destroy, struct Qdisc *sch) {}

SEC(".struct_ops.link")
struct Qdisc_ops wrong = {
	.enqueue = (void *)enqueue,
	.dequeue = (void *)dequeue,
	.init = (void *)init,
	.reset = (void *)reset,
	.destroy = (void *)destroy,
	.id = "wrong",
};
"""
)
PATH = {"rate": "10mbit", "rtt": "40ms", "duration": "4s"}


def dumbbell(queue: str | dict[str, Any], **more: Any) -> tb.Scenario:
    flows = [tb.bulk("reno", name="bulk"), tb.voip(start="1s")]
    instruments = {"queues": ["bottleneck"], "packets": "all"}
    return tb.dumbbell(queue=queue, flows=flows, instruments=instruments, seed=3, **PATH | more)


def source(folder: Path, text: str = WRONG) -> str:
    """The source's name in a scenario."""
    (folder / "mine.bpf.c").write_text(text)
    return f"bpf:{folder / 'mine.bpf.c'}"


@pytest.mark.parametrize("limit", ["20packets", "3packets", None])
def test_the_example_is_the_built_in_fifo_that_drops_at_the_head_row_by_row(limit: str | None) -> None:
    given = {} if limit is None else {"limit": limit}
    mine = tb.run(dumbbell({"discipline": f"bpf:{EXAMPLE}"} | given), allow_code=True)
    builtin = tb.run(dumbbell({"discipline": "fifo", "drop": "head", "limit": limit or "1000packets"}))
    assert builtin.column("links", "dropped").sum() > 0
    assert_same_rows(mine, builtin)


def test_inside_a_token_bucket_and_in_a_band_it_is_the_built_in_one_too() -> None:
    runs = []
    for inner in ({"discipline": f"bpf:{EXAMPLE}"}, {"discipline": "fifo", "drop": "head"}):
        own = inner | {"limit": "20packets"}
        bucket = {"discipline": "token_bucket", "rate": "5mbit", "inner": own}
        bands = {"discipline": "prio", "bands": [{"flows": ["voip"]}, {"queue": own}]}
        runs.append([tb.run(dumbbell(queue), allow_code=True) for queue in (bucket, bands)])
    (in_bucket, in_band), (bucket_of_fifo, band_of_fifo) = runs
    assert_same_rows(in_band, band_of_fifo)
    # Of a queue that shows no head the bucket takes a packet ahead.
    received = [float(run.column("flows", "bytes_received")[0]) for run in (in_bucket, bucket_of_fifo)]
    assert received[0] == pytest.approx(received[1], rel=0.02)


def test_in_a_guest_it_stands_at_a_link_and_not_inside_another_queue() -> None:
    from tailback.vm import own_code

    queue = {"discipline": "token_bucket", "rate": "5mbit", "inner": {"discipline": f"bpf:{EXAMPLE}"}}
    scenario = dumbbell(queue)
    resolved = scenario.resolve(allow_code=True)
    with pytest.raises(tb.ScenarioError, match=r"queue\.inner = .*stands at a link's device, not inside"):
        own_code.compiled(scenario, resolved, {})


def test_each_link_has_maps_and_globals_of_its_own(tmp_path: Path) -> None:
    text = """
name = "two"
seed = 2
duration = "3s"
[[link]]
name = "there"
from = "a"
to = "b"
rate = "10mbit"
delay = "20ms"
queue = { QUEUE }
[[link]]
name = "back"
from = "b"
to = "a"
rate = "8mbit"
delay = "20ms"
queue = { QUEUE }
[[flow]]
from = "a"
to = "b"
[[flow]]
from = "b"
to = "a"
"""
    queues = (f'discipline = "{source(tmp_path)}"', 'discipline = "fifo", limit = "20packets"')
    runs = []
    for queue in queues:
        (tmp_path / "two.toml").write_text(text.replace("QUEUE", queue))
        runs.append(tb.run(tmp_path / "two.toml", allow_code=True))
    mine, builtin = runs
    assert (builtin.column("links", "dropped") > 0).all()
    assert_same_rows(mine, builtin)


@pytest.mark.parametrize(
    ("how", "hook", "rule", "names_packet"),
    [
        (1, "dequeue", "it was kept, and dequeue returns no packet although", True),
        (2, "dequeue", "dequeue returns no packet although", True),
        (3, "dequeue", "it is returned although it left or was dropped before", True),
        (4, "enqueue", "enqueue returns NET_XMIT_DROP and keeps the packet: give it to bpf_qdisc_skb_drop", True),
        (5, "enqueue", "enqueue returns 5: return NET_XMIT_SUCCESS, NET_XMIT_DROP or NET_XMIT_CN", True),
        (6, "enqueue", "packets are held: count each that is kept, returned or dropped", True),
        (7, "dequeue", "bpf_qdisc_skb_drop is for enqueue alone: elsewhere call bpf_kfree_skb", False),
        (8, "dequeue", "a queue that means this says so: const bool tailback_reorders = true;", True),
        (10, "enqueue", "crashed: ", False),
        (11, "enqueue", "does not return: it has used two seconds of processor time", False),
        (13, "enqueue", "bpf_qdisc_bstats_update is for dequeue alone", True),
        (14, "enqueue", "an object is put into a list while it is in one", True),
    ],
)
def test_a_broken_rule_ends_the_run_with_queue_packet_time_and_rule(
    tmp_path: Path, how: int, hook: str, rule: str, names_packet: bool
) -> None:
    name = source(tmp_path)
    with pytest.raises(tb.AlgorithmError, match=re.escape(rule)) as error:
        tb.run(dumbbell({"discipline": name, "how": how}), allow_code=True)
    assert error.value.algorithm.startswith(f"{name} at link ")
    assert error.value.hook == hook
    assert error.value.at_s > 0
    assert bool(re.search(r"simulated time: packet \d+", str(error.value))) == names_packet


def test_it_may_reorder_if_it_says_so_and_wait_for_its_watchdog(tmp_path: Path) -> None:
    name = source(tmp_path, f"{WRONG}\nconst bool tailback_reorders = true;\n")
    runs = [tb.run(dumbbell({"discipline": name, "HOW": how}), allow_code=True) for how in (0, 8, 9)]
    acked = [int(run.column("flows", "bytes_acked")[0]) for run in runs]
    assert acked[1] > 0
    # Past the fiftieth it waits for a millisecond where one that the link is free for would be sent in 1.2 ms.
    assert 0.4 < acked[2] / acked[0] < 0.8


def test_packets_in_a_tree_leave_as_it_orders_them() -> None:
    name = f"bpf:{TREE}"
    limit = {"limit": "20packets"}
    assert_same_rows(
        tb.run(dumbbell({"discipline": name, "SHORTEST": 0} | limit), allow_code=True),
        tb.run(dumbbell({"discipline": "fifo"} | limit)),
    )
    # The call's packets are the shortest, so that this is strict priority: without offload the window's edge cuts no
    # segment.
    flows = [tb.bulk("reno", name="bulk", stack={"name": "linux", "burst_segments": 1}), tb.voip(start="1s")]
    shortest_first = {"discipline": name, "limit": "5000packets"}
    calls_first = {"discipline": "prio", "bands": [{"flows": ["voip"]}, {}], "limit": "5000packets"}
    queues = (shortest_first, calls_first)
    runs = [tb.run(dumbbell(queue).with_(flows=flows), allow_code=True) for queue in queues]
    assert runs[1].column("links", "backlog_bytes_max")[0] > 100 * 1500
    assert_same_rows(*runs)


def test_an_object_is_in_one_place_of_a_tree(tmp_path: Path) -> None:
    adds = "	bpf_rbtree_add(&root, &item->node, less);\n"
    name = source(tmp_path, TREE.read_text().replace(adds, adds + adds))
    with pytest.raises(tb.AlgorithmError, match="an object is put into a tree while it is in one"):
        tb.run(dumbbell(name), allow_code=True)


def test_what_is_no_queue_or_cannot_be_made_is_named(tmp_path: Path) -> None:
    def problem(queue: str | dict[str, Any]) -> str:
        with pytest.raises(tb.ScenarioError) as error:
            tb.run(dumbbell(queue), allow_code=True)
        return str(error.value)

    name = source(tmp_path)
    assert "its init returns -22" in problem({"discipline": name, "how": 12})
    assert "has no parameter hwo. Did you mean" in problem({"discipline": name, "hwo": 1})
    assert "has no parameter limit_packets" in problem({"discipline": name, "limit": "5packets"})
    assert "the parameters of a BPF source are whole numbers" in problem({"discipline": name, "how": 0.5})
    assert "name it as a flow's cc" in problem(f"bpf:{ROOT / 'bpf/examples/gentle.bpf.c'}")
    assert "a struct Qdisc_ops in SEC" in problem(source(tmp_path, HEADERS))
    lacks = WRONG.replace("	.reset = (void *)reset,\n", "")
    assert "the kernel takes none without enqueue, dequeue, init, reset" in problem(source(tmp_path, lacks))
    percpu = WRONG.replace("BPF_MAP_TYPE_HASH", "BPF_MAP_TYPE_SK_STORAGE")
    with pytest.raises(tb.AlgorithmError, match="a map is of a type that there is not natively"):
        tb.run(dumbbell(source(tmp_path, percpu)), allow_code=True)
    marks = WRONG.replace("	copy = skb;", "	bpf_skb_ecn_set_ce(skb);")
    assert "bpf_skb_ecn_set_ce" in problem(source(tmp_path, marks))
    with pytest.raises(tb.ScenarioError, match="name it as a link's queue"):
        tb.run(tb.dumbbell(flows=[tb.bulk(name)], **PATH), allow_code=True)


def test_it_is_examined_as_a_queue(tmp_path: Path) -> None:
    gentle = ROOT / "bpf/examples/gentle.bpf.c"
    assert [procedure_of(str(what), allow_code=True).rfc for what in (EXAMPLE, gentle)] == ["RFC 7928", "RFC 9743"]
    found = candidate(str(EXAMPLE), allow_code=True)
    assert (found.kind, found.label, found.limits, found.name) == ("bpf", "head_drop", "packets", f"bpf:{EXAMPLE}")
    with pytest.raises(TailbackError, match=r"is code, which would be run.*--allow-code"):
        candidate(str(EXAMPLE))
    burst = Path(suites.__file__).parent / "aqm" / "burst.toml"
    tested = tb.test(burst, candidate=str(EXAMPLE), allow_code=True)
    assert not tested.unreadable
    assert tested.scenarios[0].seeds > 0


def test_it_needs_permission_to_run_and_a_result_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(EXAMPLE, tmp_path / "mine.bpf.c")
    file = tmp_path / "scenario.toml"
    file.write_text(dumbbell({"discipline": "bpf:mine.bpf.c", "limit": "20packets"}).to_toml())
    monkeypatch.chdir("/")
    with pytest.raises(tb.ScenarioError, match=r"the scenario asks to compile and run mine\.bpf\.c"):
        tb.run(file)
    result = tb.run(file, allow_code=True, out=tmp_path / "result")
    (tmp_path / "mine.bpf.c").unlink()
    kept = tb.open_result(tmp_path / "result")
    with pytest.raises(tb.ScenarioError, match="asks to run the code it keeps"):
        tb.repeat(kept)
    assert_same_rows(tb.repeat(kept, allow_code=True), result)


def test_this_machines_kernel_takes_none() -> None:
    scenario = dumbbell(f"bpf:{EXAMPLE}")
    with pytest.raises(tb.ScenarioError, match="a BPF queue is loaded into a guest's kernel"):
        demand_of_kernel(scenario, scenario.resolve())
