"""Queue disciplines in kernel modules: built against a guest's kernel, loaded there, and every fault named."""

from pathlib import Path

import pytest
from test_vm import boots

import tailback as tb
from tailback import modules, vm
from tailback.vm import build, headers, kernels

SOURCE = Path(__file__).with_name("sch_short.c")


def path(queue: object, **more: object) -> tb.Scenario:
    return tb.dumbbell(rate="4mbit", rtt="20ms", queue=queue, flows=[tb.bulk("reno")], duration="2s", **more)


@pytest.fixture(scope="module")
def kernel() -> kernels.Kernel:
    """A fetched kernel with headers."""
    if not kernels.fetched():
        pytest.skip("a kernel is not here (tailback vm fetch debian-6.1)")
    found = kernels.find()
    try:
        headers.of_kernel(found)
    except vm.KernelError as error:
        pytest.skip(f"the headers of {found.name} cannot be fetched: {error}")
    return found


@pytest.mark.long
@boots
def test_a_fifo_from_source_drops_what_the_kernels_own_of_that_limit_drops(kernel: kernels.Kernel) -> None:
    mine = {"discipline": f"module:{SOURCE}", "most": 7}
    result = vm.run(path(mine), kernel=kernel.name, allow_code=True)
    twin = vm.run(path({"discipline": "kernel:pfifo", "limit": "7packets"}), kernel=kernel.name)
    dropped = [int(one.column("links", "dropped")[0]) for one in (result, twin)]
    # From Linux 6.12 on CUBIC leaves slow start earlier, and loses less.
    assert dropped[0] > 5
    assert dropped[0] == pytest.approx(dropped[1], abs=2)
    row = result.meta["queues"]["bottleneck"]
    assert row["registered"] == "short"
    assert row["sha256"] == result.algorithms[mine["discipline"]].sha256
    assert 'your own module, registered as "short"' in str(result)
    assert not any("dropped" in note for note in result.meta["notes"])


@boots
def test_the_compilers_first_error_is_at_the_users_line(kernel: kernels.Kernel, tmp_path: Path) -> None:
    source = tmp_path / "sch_broken.c"
    source.write_text(SOURCE.read_text().replace("sch->limit = most;", "sch->limit = mst;"))
    line = source.read_text().splitlines().index("\tsch->limit = mst;") + 1
    with pytest.raises(tb.ScenarioError, match=rf"dumbbell\.queue.*sch_broken\.c:{line}: .mst. undeclared"):
        vm.check(path(f"module:{source}"), kernel=kernel.name, allow_code=True)


@boots
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(('.id = "short"', '.id = "pfifo_fast"'), r"File exists.*another \.id", marks=pytest.mark.long),
        pytest.param(
            ("sch->limit = most;", "return -ENODEV;"),
            r"\.init function of your short returned",
            marks=pytest.mark.long,
        ),
        pytest.param(
            ("return register_qdisc(&short_ops);", "return most < 0 ? register_qdisc(&short_ops) : 0;"),
            "registered no queue discipline short",
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_the_guests_kernel_refuses_is_named(
    kernel: kernels.Kernel, tmp_path: Path, change: tuple[str, str], problem: str
) -> None:
    source = tmp_path / "sch_other.c"
    source.write_text(SOURCE.read_text().replace(*change))
    with pytest.raises(tb.errors.TailbackError, match=problem):
        vm.run(path(f"module:{source}"), kernel=kernel.name, allow_code=True)


@pytest.mark.long
@boots
def test_a_queue_that_oopses_shows_its_stack(kernel: kernels.Kernel, tmp_path: Path) -> None:
    source = tmp_path / "sch_oops.c"
    source.write_text(SOURCE.read_text().replace("sch->q.qlen < most", "sch->q.qlen < *(volatile u32 *)8"))
    with pytest.raises(vm.GuestError, match=r"(?s)sch_oops\.c.*BUG: .*RIP: .*short_enqueue.*Call Trace"):
        vm.run(path(f"module:{source}"), kernel=kernel.name, allow_code=True)


@boots
def test_parameters_and_kinds_are_checked_before_the_guest_starts(kernel: kernels.Kernel) -> None:
    with pytest.raises(tb.ScenarioError, match=r"no parameter mst.*most"):
        vm.check(path({"discipline": f"module:{SOURCE}", "mst": 3}), kernel=kernel.name, allow_code=True)
    other = f"module:{SOURCE.with_name('tcp_window.c')}"
    with pytest.raises(tb.ScenarioError, match="registers no queue discipline"):
        vm.check(path(other), kernel=kernel.name, allow_code=True)


@boots
def test_two_modules_of_one_name_are_refused(kernel: kernels.Kernel, tmp_path: Path) -> None:
    (tmp_path / "sch_copy.c").write_text(SOURCE.read_text())
    flow = tb.bulk("reno", **{"from": "x", "to": "z"})
    rows = [
        tb.Link(name=name, rate="4mbit", delay="5ms", duplex=True, queue=f"module:{file}", **{"from": start, "to": end})
        for name, file, start, end in [("a", SOURCE, "x", "y"), ("b", tmp_path / "sch_copy.c", "y", "z")]
    ]
    one = tb.Scenario(duration="1s", link=rows, flow=[flow])
    with pytest.raises(tb.ScenarioError, match=r"registers short, as .* does"):
        vm.check(one, kernel=kernel.name, allow_code=True)


@boots
def test_a_known_name_takes_the_cards_parameters(kernel: kernels.Kernel, tmp_path: Path) -> None:
    source = tmp_path / "sch_codel.c"
    source.write_text(SOURCE.read_text().replace('.id = "short"', '.id = "codel"'))
    with pytest.raises(tb.ScenarioError, match=r"(?s)targt.*target"):
        vm.check(path({"discipline": f"module:{source}", "targt": "5ms"}), kernel=kernel.name, allow_code=True)
    job = vm._job(path({"discipline": f"module:{source}", "target": "5ms", "most": 9}), kernel.name, False, True, 1)
    queues = [link["queue"] for link in job.guests["links"] if "module:" in link["queue"]["discipline"]]
    assert queues[0] == {"discipline": "module:codel", "params": {"target_ps": 5_000_000_000}}
    assert [row.params for row in job.own] == ["most=9"]


def test_a_queue_module_runs_nowhere_but_in_a_guest_and_only_if_code_is_allowed() -> None:
    one = path(f"module:{SOURCE}")
    with pytest.raises(tb.ScenarioError, match=r"in a guest's kernel only.*--engine vm"):
        tb.run(one, allow_code=True)
    with pytest.raises(tb.ScenarioError, match="never into this machine's"):
        tb.live.check(one)
    with pytest.raises(tb.ScenarioError, match=r"(?s)compile and run.*allow-code"):
        vm.check(one)


def test_a_file_that_is_no_module_is_refused() -> None:
    assert modules.is_source("module:sch_mine.c")
    with pytest.raises(build.BuildError, match="no kernel module"):
        build.queue_of("module:x.ko", build.Module(b"no ELF file"))
