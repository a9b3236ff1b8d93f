"""One BPF source file, as people write them for the kernel, in the simulator."""

import re
import shutil
import threading
import time
from pathlib import Path

import pytest

import tailback as tb
from pairs import assert_same_rows, beside_reno
from tailback import _core, vm

pytestmark = [
    pytest.mark.skipif(not hasattr(_core, "bpf_library"), reason="BPF sources need Linux"),
    pytest.mark.skipif(shutil.which("clang") is None, reason="not installed: clang"),
]

EXAMPLES = Path(__file__).parents[1] / "bpf" / "examples"
#: The kernel's own Reno, in the least a file can be.
RENO = """
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
char _license[] SEC("license") = "GPL";
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
static int calls;
SEC("struct_ops") void BPF_PROG(mine_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	calls++;
	(void)tp;
	CONG_AVOID;
}
SEC("struct_ops") __u32 BPF_PROG(mine_ssthresh, struct sock *sk) { SSTHRESH; }
SEC("struct_ops") __u32 BPF_PROG(mine_undo_cwnd, struct sock *sk) { return tcp_reno_undo_cwnd(sk); }
SEC(".struct_ops") struct tcp_congestion_ops mine = {
	.cong_avoid = (void *)mine_cong_avoid, .ssthresh = (void *)mine_ssthresh,
	.undo_cwnd = (void *)mine_undo_cwnd, .name = "mine",
};
"""


def source(folder: Path, cong_avoid: str = "tcp_reno_cong_avoid(sk, ack, acked)", ssthresh: str = "") -> tb.Candidate:
    text = RENO.replace("CONG_AVOID", cong_avoid).replace("SSTHRESH", ssthresh or "return tcp_reno_ssthresh(sk)")
    (folder / "mine.bpf.c").write_text(text)
    return tb.candidate(str(folder / "mine.bpf.c"), allow_code=True)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"wire": {"loss": 0.02}},
        {"queue": {"discipline": "red", "ecn": True}, "rate": "4mbit"},
        {"queue": "3packets", "wire": {"reorder": 0.05, "reorder_delay": "20ms"}},
        {"rate": "500kbit", "queue": "4packets", "wire": {"loss": 0.2}},
    ],
    ids=["queue", "loss", "ecn", "reordering", "timeouts"],
)
def test_the_kernels_reno_in_bpf_is_the_built_in_reno_row_by_row(tmp_path: Path, more: dict[str, object]) -> None:
    mine = source(tmp_path)
    assert (mine.kind, mine.label, mine.allow_code) == ("bpf", "mine", True)
    one = tb.run(beside_reno(mine.cc, **more), allow_code=True)
    other = tb.run(beside_reno("reno", **more))
    assert_same_rows(one, other)


def test_the_examples_fill_a_link_and_give_way(tmp_path: Path) -> None:
    for name, least in (("gentle", 8.5), ("steady", 8.0)):
        found = tb.candidate(str(EXAMPLES / f"{name}.bpf.c"), allow_code=True)
        alone = tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.bulk(found.cc, name="bulk")], duration="10s")
        first, again = (tb.run(alone, allow_code=True) for _ in range(2))
        assert first.flow_summary()[0]["goodput_mbps"] > least, name
        assert first.column("flows", "bytes_acked") == again.column("flows", "bytes_acked")


def test_a_file_s_global_variables_begin_again_with_each_run(tmp_path: Path) -> None:
    # Fast at first only: were the count kept, the second run would be slow.
    mine = source(tmp_path, "if (calls < 500) tcp_reno_cong_avoid(sk, ack, acked); else tp->snd_cwnd = 2")
    runs = [tb.run(beside_reno(mine.cc), allow_code=True).column("flows", "bytes_acked").tolist() for _ in range(3)]
    assert runs[0] == runs[1] == runs[2]


def test_parameters_are_the_numbers_it_leaves_open(tmp_path: Path) -> None:
    file = EXAMPLES / "gentle.bpf.c"
    never, always = (tb.candidate({"name": str(file), "SHORT": short}, allow_code=True) for short in (0, 10_000))
    assert never.label == "gentle SHORT=0"
    assert never.digest != always.digest
    shape = tb.dumbbell(
        rate="10mbit", rtt="40ms", queue="1bdp", duration="20s",
        flows=[tb.bulk(never.cc, name="never"), tb.bulk(always.cc, name="always")],
    )  # fmt: skip
    found = {row["flow"]: row["goodput_mbps"] for row in tb.run(shape, allow_code=True).flow_summary()}
    assert found["always"] > 1.3 * found["never"]
    with pytest.raises(tb.TailbackError, match=r'no parameter SHRT. Did you mean "SHORT"\?'):
        tb.candidate({"name": str(file), "SHRT": 3}, allow_code=True)
    with pytest.raises(tb.TailbackError, match="whole numbers"):
        tb.candidate({"name": str(file), "SHORT": 3.5}, allow_code=True)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("*(int *)(long)calls = 1", "crashed: it used memory that is not its own"),
        ("tp->snd_cwnd_cnt = 7 / tp->lost_out", "crashed: it divided by zero, which in the kernel gives zero"),
        ('while (tp->snd_cwnd) asm volatile("" ::: "memory")', "does not return"),
        ("tp->snd_cwnd = 0", "it set snd_cwnd to 0: nothing would ever be sent again"),
        ("tp->snd_cwnd = 0x7fffffff", "more than 1 TiB"),
    ],
    ids=["memory", "division", "loop", "nothing sent", "too much"],
)
def test_one_that_goes_wrong_is_named_and_the_others_go_on(tmp_path: Path, body: str, says: str) -> None:
    bad = source(tmp_path, body)
    done = tb.sweep(
        beside_reno("reno", duration="2s"), {"flow.bulk.cc": ["cubic", bad.cc, "reno"]}, allow_code=True,
        store=tmp_path / "store",
    )  # fmt: skip
    assert (done.run, done.failed) == (2, 1)
    assert re.search(rf"mine\.bpf\.c failed in an acknowledgement at [\d.e-]+ s.*{re.escape(says)}", str(done.errors))


def test_what_is_wrong_with_a_file_is_said_before_anything_runs(tmp_path: Path) -> None:
    for body, says in (
        ("no_such_function(sk)", "no_such_function"),
        ("tp->reordering = 3", "no member named 'reordering'"),
    ):
        with pytest.raises(tb.TailbackError, match=says) as error:
            source(tmp_path, body)
        assert "docs/candidates.md" in str(error.value)
        assert "mine.bpf.c:" in str(error.value)
    (tmp_path / "empty.bpf.c").write_text("int a;\n")
    with pytest.raises(tb.TailbackError, match="no congestion control in it"):
        tb.candidate(str(tmp_path / "empty.bpf.c"), allow_code=True)


def test_without_clang_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(tb.TailbackError, match=r"clang, which is not installed\. Install it: apt install clang"):
        source(tmp_path, "tp->snd_cwnd += 1 + 1 - 1")


def test_a_scenario_names_the_file_beside_it_and_needs_permission_to_run_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source(tmp_path)
    file = tmp_path / "scenario.toml"
    file.write_text(beside_reno("bpf:mine.bpf.c").to_toml())
    monkeypatch.chdir("/")
    with pytest.raises(tb.ScenarioError, match=r"the scenario asks to compile and run mine\.bpf\.c"):
        tb.run(file)
    result = tb.run(file, allow_code=True, out=tmp_path / "result")
    assert (tmp_path / "result" / "algorithms" / "mine.bpf.c").read_text() == (tmp_path / "mine.bpf.c").read_text()
    (tmp_path / "mine.bpf.c").unlink()
    kept = tb.open_result(tmp_path / "result")
    with pytest.raises(tb.ScenarioError, match="asks to run the code it keeps"):
        tb.repeat(kept)
    again = tb.repeat(kept, allow_code=True)
    assert again.column("flows", "bytes_acked").tolist() == result.column("flows", "bytes_acked").tolist()


def test_a_guest_runs_it_only_with_permission() -> None:
    with pytest.raises(tb.ScenarioError, match="Read that code first"):
        vm.run(beside_reno("bpf:mine.bpf.c"))


def test_a_run_is_cancelled_like_any_other(tmp_path: Path) -> None:
    cancel = tb.Cancel()
    threading.Timer(0.5, cancel.set).start()
    began = time.monotonic()
    with pytest.raises(tb.Cancelled):
        tb.run(beside_reno(source(tmp_path).cc, duration="20000s"), allow_code=True, cancel=cancel)
    assert time.monotonic() - began < 10
