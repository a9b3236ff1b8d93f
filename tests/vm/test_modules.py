"""Congestion controls in kernel modules: built against a guest's kernel, loaded there, and every fault named."""

from pathlib import Path

import pytest
from test_vm import boots

import tailback as tb
from tailback import modules, vm
from tailback.vm import build, headers, kernel_log, kernels, machine

SOURCE = Path(__file__).with_name("tcp_window.c")


def path(cc: object, **more: object) -> tb.Scenario:
    return tb.dumbbell(rate="4mbit", rtt="20ms", queue="4bdp", flows=[tb.bulk(cc)], duration="1s", **more)


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


@boots
def test_a_module_from_source_runs_with_its_parameter_and_is_named_as_the_users_own(kernel: kernels.Kernel) -> None:
    cc = {"name": f"module:{SOURCE}", "window": 5}
    result = vm.run(path(cc), kernel=kernel.name, allow_code=True)
    # Five segments a round trip of 20 ms and five serialisations of 3 ms: 5 × 1448 bytes in at most 35 ms.
    rate_mbps = result.numpy("flows")["bytes_received"][0] * 8e-6
    assert 1.6 < rate_mbps < 2.9
    (row,) = result.meta["controls"]["bulk"]
    assert (row["by"], row["registered"]) == ("own", "window")
    assert row["sha256"] == result.algorithms[cc["name"]].sha256
    assert "your own module" in str(result)
    sent = {row["host"]: row["count"] for row in result.counters() if row["counter"] == "TcpOutSegs"}
    assert sent["left"] > 100
    assert result.meta["kernel_log"] == []


@boots
def test_the_compilers_first_error_is_at_the_users_line(kernel: kernels.Kernel, tmp_path: Path) -> None:
    source = tmp_path / "tcp_broken.c"
    source.write_text(SOURCE.read_text().replace("return window;\n}\n\nstatic void", "return windw;\n}\n\nstatic void"))
    line = source.read_text().splitlines().index("\treturn windw;") + 1
    with pytest.raises(tb.ScenarioError, match=rf"tcp_broken\.c:{line}: .windw. undeclared"):
        vm.check(path(f"module:{source}"), kernel=kernel.name, allow_code=True)


@pytest.mark.long
@boots
def test_a_module_that_oopses_shows_its_stack(kernel: kernels.Kernel, tmp_path: Path) -> None:
    source = tmp_path / "tcp_oops.c"
    source.write_text(SOURCE.read_text().replace("snd_cwnd = window", "snd_cwnd = *(volatile u32 *)8"))
    with pytest.raises(vm.GuestError, match=r"(?s)tcp_oops\.c.*BUG: .*RIP: .*window_cong_avoid.*Call Trace"):
        vm.run(path(f"module:{source}"), kernel=kernel.name, allow_code=True)


@pytest.mark.long
@boots
def test_a_module_that_hangs_the_guest_shows_its_stack(
    kernel: kernels.Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More than the kernel needs to start.
    monkeypatch.setattr(machine, "PATIENCE_S", 10.0)
    source = tmp_path / "tcp_stuck.c"
    # Not even a timer comes through.
    source.write_text(
        SOURCE.read_text().replace(
            "tcp_sk(sk)->snd", "local_irq_disable();\n\tfor (;;)\n\t\tcpu_relax();\n\ttcp_sk(sk)->snd"
        )
    )
    says = r"(?s)tcp_stuck\.c.* hangs in window_cong_avoid of module tcp_stuck.*RIP: .*window_cong_avoid.*Call Trace"
    with pytest.raises(vm.GuestError, match=says):
        vm.run(path(f"module:{source}"), kernel=kernel.name, allow_code=True)


@pytest.mark.long
@boots
def test_an_init_function_that_does_not_return_is_named(
    kernel: kernels.Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "OWN_PATIENCE_S", 2.0)
    source = tmp_path / "tcp_endless.c"
    # It sleeps, so that the stack shows an idle processor only.
    endless = "for (;;)\n\t\tschedule_timeout_uninterruptible(HZ);\n\treturn tcp_register"
    source.write_text(SOURCE.read_text().replace("return tcp_register", endless))
    with pytest.raises(vm.GuestError, match=r"hangs with an idle .*, in the init function of module:\S*tcp_endless\.c"):
        vm.run(path(f"module:{source}"), kernel=kernel.name, allow_code=True)


@pytest.mark.long
@boots
def test_a_name_that_the_kernel_has_built_in_is_refused(kernel: kernels.Kernel, tmp_path: Path) -> None:
    source = tmp_path / "tcp_mine.c"
    source.write_text(SOURCE.read_text().replace('"window"', '"cubic"'))
    with pytest.raises(tb.ScenarioError, match=r"(exists|busy) .*built in: give yours another \.name"):
        vm.run(path(f"module:{source}"), kernel=kernel.name, allow_code=True)


# A name that is built in is refused the same way.
@pytest.mark.long
@boots
def test_a_file_called_like_a_module_of_the_kernels_is_to_be_renamed(kernel: kernels.Kernel, tmp_path: Path) -> None:
    source = tmp_path / "tcp_cubic.c"
    source.write_text(SOURCE.read_text())
    with pytest.raises(tb.ScenarioError, match=r"has a module called tcp_cubic already\. Rename the file"):
        vm.run(path(f"module:{source}"), kernel=kernel.name, allow_code=True)


def test_a_module_of_another_release_is_refused_with_both(tmp_path: Path) -> None:
    image = tmp_path / "none"
    mine = kernels.Kernel("mine", image, image, image)
    vars(mine)["release"] = "7.3.4"
    (tmp_path / "tcp_mine.ko").write_bytes(b"\0vermagic=6.1.0 SMP \0")
    text = modules.read("module:tcp_mine.ko", tmp_path)
    with pytest.raises(build.BuildError, match=r"built for Linux 6\.1\.0, and mine is 7\.3\.4\. Build it for 7\.3\.4"):
        build.build("module:tcp_mine.ko", text, mine)
    (tmp_path / "tcp_mine.ko").write_bytes(b"words")
    nothing = modules.read("module:tcp_mine.ko", tmp_path)
    with pytest.raises(build.BuildError, match="it is no kernel module"):
        build.build("module:tcp_mine.ko", nothing, mine)


def test_a_kernel_given_a_module_has_it_and_the_first_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "cache", lambda: tmp_path / "cache")
    modules_folder = tmp_path / "cache/debian-7.9/lib/modules/7.9/kernel"
    modules_folder.mkdir(parents=True)
    for name in ("tcp_mine.ko.xz", "tcp_other.ko"):
        (modules_folder / name).write_bytes(b"the kernel's")
    image = modules_folder.with_name("vmlinuz")
    image.write_bytes(bytes(0x202) + b"HdrS" + bytes(0x100))
    first = kernels.Kernel("debian-7.9", image, modules_folder, modules_folder.with_name("config"))
    monkeypatch.setattr(kernels.Kernel, "demand_able", lambda self: None)
    mine = build.Module(b"\x7fELF name=tcp_mine\0")
    monkeypatch.setattr(build, "build", lambda name, text, kernel: mine)
    (tmp_path / "tcp_mine.c").write_text("/* mine */")

    made = build.give("module:tcp_mine.c", tmp_path, first)
    assert made.name == "debian-7.9-with-tcp_mine"
    assert {file.name for file in made.modules.iterdir()} == {"tcp_mine.ko", "tcp_other.ko"}
    # Once more, on itself: what it shares with the first is not written through.
    again = build.give("module:tcp_mine.c", tmp_path, made, called="again")
    assert again.has_module("tcp_mine")
    assert (modules_folder / "tcp_mine.ko.xz").read_bytes() == b"the kernel's"
    for name, problem in (("../out", "no name"), ("debian-7.9", "no kernel with a module of yours")):
        with pytest.raises(tb.errors.TailbackError, match=problem):
            build.give("module:tcp_mine.c", tmp_path, first, called=name)
    elsewhere = kernels.Kernel("elsewhere", image, tmp_path, image)
    with pytest.raises(kernels.KernelError, match="was not fetched"):
        build.give("module:tcp_mine.c", tmp_path, elsewhere)


def test_a_module_runs_nowhere_but_in_a_guest_and_only_if_code_is_allowed() -> None:
    one = path(f"module:{SOURCE}")
    with pytest.raises(tb.ScenarioError, match=r"in a guest's kernel only.*--engine vm"):
        tb.run(one, allow_code=True)
    with pytest.raises(tb.ScenarioError, match="never into this machine's"):
        tb.live.check(one)
    with pytest.raises(tb.ScenarioError, match="allow-code"):
        vm.check(one)


def test_accurate_ecn_is_had_with_prague_alone(kernel: kernels.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(cc: str) -> tb.Scenario:
        stack = {"name": "linux", "ecn": True, "accecn": True}
        return tb.dumbbell(rate="4mbit", rtt="20ms", queue="4bdp", flows=[tb.bulk(cc, stack=stack)], duration="1s")

    monkeypatch.setattr(kernels.Kernel, "controls", ["cubic", "dctcp", "prague"])
    monkeypatch.setattr(kernels.Kernel, "has_module", lambda self, name: True)
    vm.check(asked("prague"), kernel=kernel.name)
    for cc in ("cubic", "dctcp"):
        with pytest.raises(tb.ScenarioError, match="negotiate it for prague alone"):
            vm.check(asked(cc), kernel=kernel.name)


def test_a_modules_files_are_kept_as_one_text(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("obj-m := tcp_two.o\n")
    (tmp_path / "tcp_two.c").write_text("int two;\n")
    (tmp_path / "tcp_two.mod.c").write_text("written by kbuild\n")
    assert modules.files(modules.read(f"module:{tmp_path}")) == {
        "Makefile": b"obj-m := tcp_two.o\n",
        "tcp_two.c": b"int two;\n",
    }
    (tmp_path / "tcp_two.ko").write_bytes(b"\x7fELF\xff")
    assert modules.files(modules.read("module:tcp_two.ko", tmp_path)) == {"tcp_two.ko": b"\x7fELF\xff"}
    (tmp_path / "Makefile").unlink()
    for name, problem in [(tmp_path, "no Makefile"), ("tcp_two.o", "no module"), ("none.c", "No such file.*path from")]:
        with pytest.raises(tb.errors.TailbackError, match=problem):
            modules.read(f"module:{name}")


def test_parameters_are_those_the_module_has() -> None:
    module = build.Module(b"\0name=tcp_x\0vermagic=6.1.0 SMP \0parmtype=window:int\0parmtype=beta:uint\0")
    assert (module.name, module.release) == ("tcp_x", "6.1.0")
    assert build.parameters("module:x.c", module, {"window": 5.0, "beta": True}) == "window=5 beta=1"
    with pytest.raises(build.BuildError, match=r'no parameter windw\. Did you mean "window"\? .*: beta, window$'):
        build.parameters("module:x.c", module, {"windw": 5})


def test_a_fraction_for_a_whole_parameter_is_refused_before_the_guest_starts() -> None:
    module = build.Module(b"\0parmtype=beta:uint\0parmtype=gain:charp\0parmtype=steps:array of int\0")
    assert build.parameters("module:x.c", module, {"gain": 0.9, "steps": "1,2"}) == "gain=0.9 steps=1,2"
    with pytest.raises(build.BuildError, match=r"beta = 0\.9 is no whole number, and the module declares uint"):
        build.parameters("module:x.c", module, {"beta": 0.9})


def test_the_first_error_is_found_in_what_tools_say() -> None:
    said = "  CC [M] x.o\nx.c: In function 'f':\nx.c:12:5: error: expected ';'\nx.c:13:1: error: other\n"
    assert "src/x.c:12: expected ';'" in build._fault("module:src/x.c", "6.1", said).problem
    said = 'ERROR: modpost: "tcp_hidden" [x.ko] undefined!\n'
    assert '"tcp_hidden" [x.ko] undefined!' in build._fault("module:x.c", "6.1", said).problem


def test_a_warning_in_tcp_is_found_with_its_stack_and_no_other() -> None:
    other = ["WARNING: CPU: 0 PID: 1 at fs/exec.c:9", "Call Trace:", " do_exec+0x1/0x2", "---[ end trace 0 ]---"]
    own = [
        "WARNING: CPU: 0 PID: 1 at net/ipv4/tcp_input.c:9",
        "Call Trace:",
        " tcp_ack+0x1/0x2",
        "---[ end trace 0 ]---",
    ]
    assert kernel_log.tcp_warning(other) is None
    assert kernel_log.tcp_warning([]) is None
    found = kernel_log.tcp_warning([*other, *own, "later"])
    assert found is not None
    assert found.splitlines() == [f"    {line}" for line in own]


def test_an_oops_is_shown_without_registers() -> None:
    console = ["[    1.5] BUG: kernel NULL pointer dereference", "[    1.5] RIP: 0010:f+0x1/0x2 [tcp_x]", "RAX: 0",
               "[    1.6] Call Trace:", " <IRQ>", " tcp_ack+0x1/0x2", "[    1.6] Modules linked in: tcp_x"]  # fmt: skip
    assert kernel_log.trace(console) == [
        "BUG: kernel NULL pointer dereference",
        "RIP: 0010:f+0x1/0x2 [tcp_x]",
        "Call Trace:",
        " <IRQ>",
        " tcp_ack+0x1/0x2",
    ]
    assert kernel_log.trace(["Kernel panic - not syncing: No init"]) is None


def test_a_hang_is_named_by_the_innermost_function_of_a_module() -> None:
    stack = ["Call Trace:", " ? g+0x1/0x2 [tcp_y]", " f.cold+0x1a/0x2 [tcp_x]", " h+0x1/0x2 [tun]"]
    assert kernel_log.where(stack) == " in f.cold of module tcp_x"
    assert kernel_log.where(stack[:2]) == ""
    assert kernel_log.where(["RIP: 0010:native_safe_halt+0x1/0x2", " do_idle+0x1/0x2"]) == " with an idle processor"
