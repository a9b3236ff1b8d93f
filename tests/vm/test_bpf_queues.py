"""Queue disciplines in BPF sources in a guest's kernel: loaded unchanged, and every refusal named."""

from pathlib import Path

import pytest
from test_vm import boots

import tailback as tb
from tailback import vm
from tailback.vm import kernels

EXAMPLE = Path(__file__).resolve().parents[2] / "bpf/examples/head_drop.bpf.c"
SHORTEST_FIRST = EXAMPLE.with_name("shortest_first.bpf.c")
KERNEL = "debian-7.3"


def path(queue: object, **more: object) -> tb.Scenario:
    return tb.dumbbell(
        **{"rate": "4mbit", "rtt": "20ms", "queue": queue, "flows": [tb.bulk("reno")], "duration": "6s"} | more
    )


def demand_kernel(name: str) -> None:
    if name not in [kernel.name for kernel in kernels.fetched()]:
        pytest.skip(f"a kernel is not here (tailback vm fetch {name})")


@pytest.mark.long
@boots
def test_the_example_drops_in_a_guest_what_it_drops_in_the_simulator() -> None:
    demand_kernel(KERNEL)
    scenario = path({"discipline": f"bpf:{EXAMPLE}", "limit": "7packets"})
    result = vm.run(scenario, kernel=KERNEL, allow_code=True)
    # The device holds one packet beyond the queue.
    simulated = tb.run(path({"discipline": f"bpf:{EXAMPLE}", "limit": "8packets"}), allow_code=True)
    dropped = [int(one.column("links", "dropped")[0]) for one in (result, simulated)]
    acked = [int(one.column("flows", "bytes_acked")[0]) for one in (result, simulated)]
    assert dropped[0] > 10
    assert dropped[0] == pytest.approx(dropped[1], abs=4)
    assert acked[0] == pytest.approx(acked[1], rel=0.02)
    row = result.meta["queues"]["bottleneck"]
    assert row["registered"] == "tailback_q0"
    assert row["sha256"] == result.algorithms[f"bpf:{EXAMPLE}"].sha256
    assert 'your own BPF queue, registered as "tailback_q0"' in str(result)


@pytest.mark.long
@boots
def test_what_its_verifier_refuses_is_named_with_its_words(tmp_path: Path) -> None:
    demand_kernel(KERNEL)
    source = tmp_path / "leaks.bpf.c"
    source.write_text(EXAMPLE.read_text().replace("bpf_qdisc_skb_drop(gone, to_free);", ""))
    with pytest.raises(tb.ScenarioError, match=r"(?s)dumbbell\.queue.*leaks\.bpf\.c.*does not take it.*reference"):
        vm.run(path({"discipline": f"bpf:{source}", "limit": "7packets"}), kernel=KERNEL, allow_code=True)


GIVES = "\tstruct sk_buff *skb = oldest(sch);\n\n\tif (skb)\n\t\tbpf_qdisc_bstats"


@boots
@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        pytest.param(
            "bpf_list_push_back(&packets",
            "bpf_list_push_front(&packets",
            "it came out after a later packet of its connection",
            marks=pytest.mark.long,
        ),
        pytest.param(
            GIVES,
            f"\tstatic u32 calls;\n\n\tif (calls++ > 200)\n\t\treturn NULL;\n{GIVES}",
            r"dequeue returned nothing from then to the end, with sch->q\.qlen = \d+ and a free wire",
            marks=pytest.mark.long,
        ),
    ],
    ids=["reorders", "gives-nothing"],
)
def test_a_broken_rule_ends_the_run_with_queue_packet_and_time(tmp_path: Path, old: str, new: str, rule: str) -> None:
    demand_kernel(KERNEL)
    source = tmp_path / "breaks.bpf.c"
    text = EXAMPLE.read_text()
    assert text.count(old) == 1
    source.write_text(text.replace(old, new))
    with pytest.raises(
        tb.ScenarioError, match=rf"dumbbell\.queue.*breaks\.bpf\.c.* at \d\.\d+ s, packet \d+ \(flow 0.*\): {rule}"
    ):
        vm.run(path({"discipline": f"bpf:{source}", "limit": "7packets"}), kernel=KERNEL, allow_code=True)


@pytest.mark.long
@boots
def test_a_queue_that_reorders_on_purpose_runs_to_its_end() -> None:
    demand_kernel(KERNEL)
    queue = {"discipline": f"bpf:{SHORTEST_FIRST}", "limit": "7packets"}
    flows = [tb.bulk("reno"), tb.voip()]
    # The device holds one packet beyond the queue.
    runs = [
        vm.run(path(queue, flows=flows), kernel=KERNEL, allow_code=True),
        tb.run(path(queue | {"limit": "8packets"}, flows=flows), allow_code=True),
    ]
    assert runs[0].meta["queues"]["bottleneck"]["registered"] == "tailback_qr0"
    assert all(run.column("links", "dropped")[0] > 10 for run in runs)
    acked = [int(run.column("flows", "bytes_acked")[0]) for run in runs]
    assert acked[0] == pytest.approx(acked[1], rel=0.02)


def test_a_kernel_without_queues_in_bpf_is_named_with_one_that_has_them() -> None:
    demand_kernel("debian-6.1")
    said = r"debian-6\.1 .*has no queues in BPF.*Linux 6\.16 or later with CONFIG_NET_SCH_BPF: debian-7\.3"
    with pytest.raises(tb.ScenarioError, match=said):
        vm.check(path(f"bpf:{EXAMPLE}"), kernel="debian-6.1", allow_code=True)
