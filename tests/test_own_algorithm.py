"""Congestion controls written in Python."""

import json
import os
import py_compile
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import command
import tailback as tb
from pairs import assert_same_rows
from tailback import hooks
from tailback.algorithms import load
from tailback.examples.newreno import NewReno
from tailback.result import PHASES

FLOWS = {"duration": "20s", "seed": 3}


class Still:
    """A window that never grows."""

    def on_ack(self, ack, control): ...

    def on_congestion(self, congestion, control):
        control.ssthresh = max(control.cwnd, 2 * control.mss)


def dumbbell(cc="mine", *, stack="linux", rtt="40ms", loss=0.0, queue="1bdp", tables=True, **more):
    instruments = {"polls": "all", "segments": "all", "poll_interval": "5ms"} if tables else None
    return tb.dumbbell(
        rate="10mbit",
        rtt=rtt,
        queue=queue,
        wire={"loss": loss},
        flows=[tb.bulk(cc, name="bulk", stack=stack), tb.bulk("cubic", name="other", start="3s"), tb.voip()],
        instruments=instruments,
        **(FLOWS | more),
    )


@pytest.mark.parametrize(
    "path",
    [
        {},
        {"loss": 0.01},
        {"rtt": "300ms", "queue": "4packets"},
        {"queue": {"discipline": "codel"}, "stack": {"name": "linux", "ecn": True}},
        {"rtt": "2s", "loss": 0.05},
        {"stack": "linux-3.2"},
    ],
    ids=["plain", "loss", "short queue", "ecn", "timeouts", "linux-3.2 counts per ack"],
)
def test_newreno_in_python_is_the_builtin_one_bit_for_bit(path):
    mine = tb.run(dumbbell(**path), algorithms={"mine": NewReno})
    builtin = tb.run(dumbbell("reno", **path))
    if path.get("stack") == "linux-3.2":
        # The comparison can fail: this stack counts ACKs, the example counts segments.
        assert mine.column("flows", "bytes_acked")[0] != builtin.column("flows", "bytes_acked")[0]
        return
    assert builtin.rows("congestion") > 2
    assert_same_rows(mine, builtin)


def test_the_example_has_under_20_lines_of_code():
    source = Path(sys.modules[NewReno.__module__].__file__).read_text()
    body = source[source.index("class NewReno") :].splitlines()
    code = [line for line in body if line.strip() and not line.strip().startswith(('"""', "#"))]
    assert len(code) < 20


def test_the_same_seed_gives_the_same_run_on_any_number_of_threads():
    class Drawn(NewReno):
        def __init__(self, seed, gain=1):
            self.seed, self.gain = seed, gain

        def on_ack(self, ack, control):
            self.seed = (self.seed * 6364136223846793005 + 1442695040888963407) % 2**64
            if self.seed < self.gain * 2**63:
                super().on_ack(ack, control)

    own = {"drawn": Drawn}
    one = tb.run(dumbbell("drawn"), algorithms=own)
    each = tb.run_many([dumbbell("drawn")] * 3, workers=3, algorithms=own)
    for other in each:
        assert_same_rows(one, other)
    # The seed is the run's, and the scenario's parameters are the constructor's.
    for changed in (dumbbell("drawn", seed=4), dumbbell({"name": "drawn", "gain": 0.5})):
        other = tb.run(changed, algorithms=own)
        assert other.column("flows", "bytes_acked")[0] != one.column("flows", "bytes_acked")[0]


def test_a_window_that_never_grows_is_a_window_that_never_grows():
    result = tb.run(dumbbell("still"), algorithms={"still": Still})
    polls = result.where_flow("polls", "bulk")
    # In recovery the stack may keep it a segment short for a while (PRR).
    is_open = polls["phase"] == PHASES.index("open")
    assert set(polls["cwnd"][(polls["t_s"] > 1.0) & is_open]) == {10 * 1448}
    # Ten segments a round trip of 40 ms and its queueing.
    rate = result.column("flows", "bytes_acked")[0] * 8 / 20
    assert 0.5e6 < rate < 10 * 1448 * 8 / 0.04


def test_hooks_are_called_when_their_time_comes():
    called = []

    class Curious(NewReno):
        def on_established(self, now_s, srtt_s, control):
            called.append("established")
            assert 0.03 < now_s < 0.1
            assert 0.03 < srtt_s < 0.1
            assert control.ssthresh == tb.Control.UNLIMITED

        def on_ack(self, ack, control):
            called.append("ack")
            assert ack.rtt_min_s <= (ack.rtt_s or 1e9)
            assert ack.in_flight <= ack.prior_in_flight
            assert ack.mss == control.mss == 1448
            assert ack.counting == "per-segment"
            super().on_ack(ack, control)

        def on_congestion(self, congestion, control):
            called.append(congestion.signal)
            assert "Congestion" in repr(congestion)
            super().on_congestion(congestion, control)

        def on_phase(self, change, control):
            called.append(f"{change.before} to {change.after}")

        def internals(self):
            return {"credit": self.credit}

    scenario = dumbbell("curious").with_({"instruments.internals": True})
    result = tb.run(scenario, algorithms={"curious": Curious})
    assert called.index("established") < called.index("ack") < called.index("loss")
    assert "open to disorder" in called
    assert "disorder to recovery" in called or "open to recovery" in called
    assert "credit" in result.internals_names
    builtin = tb.run(dumbbell("reno"))
    np.testing.assert_array_equal(result.column("polls", "cwnd"), builtin.column("polls", "cwnd"))


def test_pauses_are_reported():
    pauses, restarts = [], []

    class Patient(NewReno):
        def on_resume(self, now_s, idle_s, app_limited, control):
            pauses.append((idle_s, app_limited))

        def on_idle_restart(self, now_s, idle_s, control):
            restarts.append(idle_s)

    asking = tb.flow("request-response", cc="patient", params={"think": 2000, "count": 3})
    tb.run(tb.dumbbell(rate="10mbit", rtt="40ms", flows=[asking], duration="10s"), algorithms={"patient": Patient})
    # Two further requests and two further responses, two seconds apart.
    assert len(pauses) == 4
    assert all(2.0 < idle_s < 2.1 and app_limited for idle_s, app_limited in pauses)
    assert restarts == [idle_s for idle_s, _ in pauses]


def test_a_wish_for_a_reduction_is_granted():
    class Shy(NewReno):
        def on_ack(self, ack, control):
            super().on_ack(ack, control)
            control.wants_reduction = control.cwnd > 20 * control.mss and ack.phase == "open"

    result = tb.run(dumbbell("shy"), algorithms={"shy": Shy})
    assert result.where_flow("polls", "bulk")["cwnd"].max() <= 22 * 1448
    assert 3 in result.where_flow("congestion", "bulk")["kind"]  # cwr entered


def test_a_pacing_rate_is_kept():
    class Paced(Still):
        owns_window = True

        def on_ack(self, ack, control):
            control.cwnd = 1000 * control.mss
            control.pacing_bps = 2e6

    result = tb.run(dumbbell("paced", duration="10s"), algorithms={"paced": Paced})
    assert result.column("flows", "bytes_acked")[0] * 8 / 10 == pytest.approx(2e6, rel=0.05)


# --- What goes wrong ------------------------------------------------------------------------------------------


def failing(statement, hook="on_ack"):
    """An algorithm that does `statement` when `hook` is called."""
    names: dict = {}
    arguments = {"on_ack": "ack, control", "on_congestion": "congestion, control"}.get(hook, "")
    exec(f"def {hook}(self, {arguments}):\n    {statement}", names)
    return type("Failing", (NewReno,), {hook: names[hook]})


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("control.cwnd = float('nan')", "cwnd was set to nan: a window has one segment (1448 B) or more"),
        ("control.cwnd = -5", "cwnd was set to -5: a window has"),
        ("control.cwnd = 0", "cwnd was set to 0: a window has"),
        ("control.cwnd = float('inf')", "cwnd was set to inf: a window has"),
        ("control.cwnd = 10**30", "cwnd was set to 1000000000000000000000000000000: a window has"),
        ("control.cwnd = 'wide'", "cwnd was set to 'wide', which is no number"),
        ("control.ssthresh = 1448", "ssthresh was set to 1448: ssthresh has two segments (2896 B) or more"),
        ("control.ssthresh = -float('inf')", "ssthresh was set to -inf"),
        ("control.pacing_bps = 0", "pacing_bps was set to 0: pacing is a rate of 1 bit/s or more"),
        ("control.mss = 1", "attribute 'mss' of"),
        ("ack.cwnd", "has no attribute 'cwnd'"),
        ("control.cwind = 9", "no attribute 'cwind'. Did you mean cwnd? It has: cwnd, mss, "),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
@pytest.mark.parametrize("hook", ["on_ack", "on_congestion"])
def test_an_error_ends_the_run_with_its_time_and_its_traceback(statement, what, hook):
    statement = statement.replace("ack.", "congestion.") if hook == "on_congestion" else statement
    with pytest.raises(tb.AlgorithmError) as caught:
        tb.run(dumbbell(tables=False, name="seven"), algorithms={"mine": failing(statement, hook)})
    error = caught.value
    assert str(error).startswith(f"seven: mine failed in {hook} at {error.at_s:.9g} s of simulated time: ")
    assert what in str(error)
    # The first ACK that it sees comes after a handshake; the first congestion after slow start.
    assert (0.03 if hook == "on_ack" else 0.2) < error.at_s < 20
    assert (error.algorithm, error.hook) == ("mine", hook)
    shown = "".join(traceback.format_exception(error))
    assert f'File "<string>", line 2, in {hook}' in shown


def test_an_error_in_a_probe_ends_the_run_too():
    scenario = dumbbell().with_({"instruments.internals": True})
    named = r"failed in internals.*'a' is 'b', which is no number"
    with pytest.raises(tb.AlgorithmError, match=named):
        tb.run(scenario, algorithms={"mine": failing("return {'a': 'b'}", "internals")})


@pytest.mark.parametrize("statement", ["pass", "control.ssthresh = float('inf')"])
def test_a_window_needs_a_target(statement):
    with pytest.raises(tb.AlgorithmError, match=r"control\.ssthresh is unlimited after on_congestion: set it"):
        tb.run(dumbbell(tables=False), algorithms={"mine": failing(statement, "on_congestion")})


def test_infinity_lifts_the_threshold():
    # The kernel's BBR leaves ssthresh unlimited, and its window alone.
    free = failing("control.ssthresh = float('inf')", "on_congestion")
    free.owns_window = True
    result = tb.run(dumbbell(), algorithms={"mine": free})
    assert np.isnan(result.where_flow("polls", "bulk")["ssthresh"]).all()


def test_one_bad_algorithm_among_many_runs_is_named():
    with pytest.raises(tb.AlgorithmError) as caught:
        tb.run_many([dumbbell("reno"), dumbbell("mine", name="bad")], algorithms={"mine": failing("1 / 0")})
    assert "while running scenario 1, bad" in caught.value.__notes__


def test_an_algorithm_cannot_end_the_program() -> None:
    with pytest.raises(tb.AlgorithmError, match="3"):
        tb.run(dumbbell(tables=False), algorithms={"mine": failing("raise SystemExit(3)")})


def test_an_interrupt_inside_a_hook_is_an_interrupt():
    with pytest.raises(KeyboardInterrupt):
        tb.run(dumbbell(tables=False), algorithms={"mine": failing("raise KeyboardInterrupt")})


def test_an_interrupt_inside_a_constructor_is_an_interrupt():
    with pytest.raises(KeyboardInterrupt):
        tb.run(dumbbell(tables=False), algorithms={"mine": failing("raise KeyboardInterrupt", "__init__")})


def test_what_does_not_return_is_ended_before_any_run_too(tmp_path, monkeypatch):
    monkeypatch.setattr(hooks, "MOST_S", 0.2)
    monkeypatch.setattr(hooks, "MOST_LOAD_S", 0.3)
    with pytest.raises(tb.ScenarioError, match=r"its constructor has used 0.2 s of processor time and does not return"):
        tb.run(dumbbell(tables=False), algorithms={"mine": failing("while True: pass", "__init__")})
    (tmp_path / "mine.py").write_text("while True: pass")
    with pytest.raises(tb.TailbackError, match=r"mine\.py cannot be imported: .* its module has used 0\.3 s"):
        load(f"{tmp_path / 'mine.py'}:Mine")


def test_a_run_after_a_failed_one_is_unharmed():
    scenario = dumbbell("reno")
    before = tb.run(scenario)
    with pytest.raises(tb.AlgorithmError):
        tb.run(dumbbell(), algorithms={"mine": failing("1 / 0")})
    assert_same_rows(before, tb.run(scenario))


class NoCongestion:
    def on_ack(self, ack, control): ...


class Misspelt(NewReno):
    def on_loss(self, congestion, control): ...


class Picky(NewReno):
    def __init__(self, gain, k=2.0):
        if gain > 2:
            raise ValueError("gain is at most 2")
        self.k = k / 2


@pytest.mark.parametrize(
    ("algorithms", "cc", "what"),
    [
        ({}, "mine", "there is no congestion control called mine"),
        ({"reno": NewReno}, "reno", '"reno" is a built-in algorithm'),
        ({"my:own": NewReno}, "my:own", "is no name for an algorithm"),
        ({"mine": NoCongestion}, "mine", "NoCongestion has no on_congestion"),
        ({"mine": NewReno()}, "mine", "give the class, not"),
        ({"mine": Misspelt}, "mine", "Misspelt has on_loss, which is never called. Called are on_ack, on_congestion,"),
        ({"mine": NoCongestion, "fine": NewReno}, "fine", "NoCongestion has no on_congestion"),
        ({"mine": lambda: NoCongestion()}, "mine", "no attribute 'on_congestion'"),
        ({"mine": Picky}, "mine", "missing 1 required positional argument: 'gain'"),
        ({"mine": Picky}, {"name": "mine", "gain": 3}, "ValueError: gain is at most 2"),
        ({"mine": Picky}, {"name": "mine", "gain": "3"}, "test_own_algorithm.py, line "),
        ({"mine": Picky}, {"name": "mine", "gain": 1, "k": "5ms"}, 'k = "5ms" is text, and its default is 2.0: give a'),
        ({"mine": NewReno}, {"name": "mine", "gain": 3}, "takes no arguments"),
        ({}, "python:tailback.examples.newreno:Vegas", "tailback.examples.newreno has no Vegas"),
        ({}, "python:no_such_module:Vegas", "no_such_module cannot be imported: ModuleNotFoundError"),
        ({}, "python:no_such_module:Vegas", "a file has its path: no_such_module.py:Vegas"),
        ({}, "python:NewReno", "names no class"),
        ({}, "python:subprocess:getoutput", "subprocess:getoutput is no class"),
        ({}, "python:subprocess:Popen", "Popen is neither a queue, which has"),
        ({}, "mine.py:Mine", 'Write "python:mine.py:Mine"'),
        ({}, "mine.bpf.c", 'Write "bpf:mine.bpf.c"'),
        ({"mine": tb.OwnQueue}, "mine", "this class is a queue, as it has enqueue and dequeue. Name it as queue"),
    ],
)
def test_what_cannot_be_made_is_refused_before_anything_is_simulated(algorithms, cc, what):
    with pytest.raises(tb.TailbackError) as caught:
        tb.run(dumbbell(cc), algorithms=algorithms, allow_code=True)
    assert what in str(caught.value)
    if not isinstance(cc, str) or not algorithms:
        assert isinstance(caught.value, tb.ScenarioError)
        assert caught.value.problems[0].field == "flow[0].cc"


def test_a_scenarios_text_is_no_key_for_code_that_may_change():
    with pytest.raises(tb.ScenarioError, match="no text of a scenario shows when its code changes"):
        dumbbell("python:tailback.examples.newreno:NewReno").to_json()


# --- Names, files, the command line ---------------------------------------------------------------------------


def test_registered_by_a_decorator_and_named_in_toml(tmp_path):
    @tb.algorithm("decorated")
    class Decorated(NewReno): ...

    path = tmp_path / "scenario.toml"
    path.write_text(dumbbell("decorated").to_toml())
    reference = dumbbell("python:tailback.examples.newreno:NewReno")
    assert_same_rows(tb.run(path), tb.run(dumbbell("reno")))
    assert_same_rows(tb.run(reference, allow_code=True), tb.run(dumbbell("reno")))
    assert_same_rows(tb.run(reference.resolve(), allow_code=True), tb.run(dumbbell("reno")))


def test_a_kept_result_opens_without_its_algorithm(tmp_path):
    result = tb.run(dumbbell(), algorithms={"mine": NewReno})
    result.save(tmp_path / "kept")
    opened = tb.open_result(tmp_path / "kept")
    assert opened.base_rtt_s("bulk") == pytest.approx(0.04)
    assert_same_rows(opened, result)


def test_a_class_in_a_file(tmp_path):
    file = tmp_path / "mine_in_a_file.py"
    file.write_text("from tailback.examples.newreno import NewReno\nclass Mine(NewReno): ...\n")
    assert issubclass(load(f"{file}:Mine"), NewReno)
    file.write_text("1 / 0\n")
    with pytest.raises(tb.TailbackError, match=r"mine_in_a_file.py cannot be imported: ZeroDivisionError"):
        load(f"{file}:Mine")
    with pytest.raises(tb.TailbackError, match=r"nowhere.py cannot be imported: FileNotFoundError"):
        load(f"{tmp_path / 'nowhere.py'}:Mine")


def tailback(*words, cwd):
    return command.process(*words, cwd=cwd, env=os.environ | {"NO_COLOR": "1"})


def test_the_command_line_runs_a_file_and_shows_where_it_failed(tmp_path):
    (tmp_path / "seven.toml").write_text(dumbbell(tables=False).to_toml())
    (tmp_path / "mine.py").write_text(
        "from tailback.examples.newreno import NewReno\n"
        "class Mine(NewReno): ...\n"
        "class Bad(NewReno):\n"
        "    def on_ack(self, ack, control):\n"
        "        control.cwnd = control.cwnd - 10**6\n"
    )
    good = tailback("run", "seven.toml", "--algorithm", "mine=mine.py:Mine", "--json", cwd=tmp_path)
    assert good.returncode == 0, good.stderr
    printed = json.loads(good.stdout)
    builtin = tb.run(dumbbell("reno", tables=False, name="seven"))
    shown = [row | {"cc": None} for row in printed["flows"]]
    assert shown == [row | {"cc": None} for row in json.loads(json.dumps(builtin.flow_summary()))]
    assert "--algorithm mine=mine.py:Mine" in printed["meta"]["command"]
    bad = tailback("run", "seven.toml", "--algorithm", "mine=mine.py:Bad", cwd=tmp_path)
    assert bad.returncode == 1
    assert "seven: mine failed in on_ack at 0.0" in bad.stderr
    assert "control.cwnd = control.cwnd - 10**6" in bad.stderr
    assert 'mine.py", line 5, in on_ack' in bad.stderr
    assert "ValueError: cwnd was set to -985520" in bad.stderr
    none = tailback("check", "seven.toml", cwd=tmp_path)
    assert none.returncode == 2
    assert "there is no congestion control called mine" in none.stderr
    assert tailback("check", "seven.toml", "--algorithm", "mine=mine.py:Mine", cwd=tmp_path).returncode == 0
    assert "write a name and a place" in tailback("check", "seven.toml", "--algorithm", "mine", cwd=tmp_path).stderr


def test_a_result_keeps_the_source_and_repeats_by_one_command(tmp_path):
    (tmp_path / "seven.toml").write_text(dumbbell().to_toml())
    source = "from tailback.examples.newreno import NewReno\nclass Mine(NewReno): ...  # of today\n"
    (tmp_path / "mine.py").write_text(source)
    first = tailback("run", "seven.toml", "--algorithm", "mine=mine.py:Mine", "--out", "kept", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "tailback repeat kept --allow-code" in first.stderr
    (tmp_path / "mine.py").unlink()
    (row,) = json.loads((tmp_path / "kept/meta.json").read_text())["algorithms"]
    assert (row["name"], row["class"], row["file"]) == ("mine", "Mine", "algorithms/mine.py")
    assert (tmp_path / "kept" / row["file"]).read_text() == source
    assert row["sha256"] == tb.open_result(tmp_path / "kept").algorithms["mine"].sha256
    refused = tailback("repeat", "kept", cwd=tmp_path)
    assert (refused.returncode, "asks to run the code it keeps" in refused.stderr) == (2, True)
    again = tailback("repeat", "kept", "--allow-code", "--out", "again", cwd=tmp_path)
    assert (again.returncode, again.stderr.splitlines()[0]) == (0, "the same rows in all 6 tables")
    assert_same_rows(tb.open_result(tmp_path / "again"), tb.open_result(tmp_path / "kept"))
    assert (tmp_path / "again/algorithms/mine.py").read_text() == source
    # A source that was changed is noticed, and not run.
    (tmp_path / "kept/algorithms/mine.py").write_text("print('changed')\n" + source)
    changed = tailback("repeat", "kept", "--allow-code", cwd=tmp_path)
    assert (changed.returncode, "differs from its checksum" in changed.stderr, changed.stdout) == (1, True, "")


def test_a_class_without_a_file_is_named_and_not_repeated(tmp_path):
    typed = {}
    exec("from tailback.examples.newreno import NewReno\nclass Mine(NewReno): ...", typed)
    typed["Mine"].__module__ = "__nowhere__"
    result = tb.run(dumbbell(tables=False), algorithms={"mine": typed["Mine"]})
    assert result.meta["algorithms"] == [{"name": "mine", "class": "Mine", "file": None, "sha256": None}]
    opened = tb.open_result(result.save(tmp_path / "kept"))
    with pytest.raises(tb.TailbackError, match='the source of algorithm "mine" was not kept'):
        tb.repeat(opened, allow_code=True)


@pytest.mark.parametrize("reference", ["edited_cc:Mine", "edited_cc.py:Mine", "edited_package.inside:Mine"])
def test_an_edit_counts_though_the_file_has_its_size_and_its_time(tmp_path, monkeypatch, reference):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    name = reference.partition(":")[0].removesuffix(".py")
    file = tmp_path / f"{name.replace('.', '/')}.py"
    file.parent.mkdir(exist_ok=True)
    for gain in (1, 9):
        text = f"class Mine:\n    gain = {gain}\n    def on_ack(self, ack, control): ...\n"
        file.write_text(text + "    def on_congestion(self, congestion, control): ...\n")
        os.utime(file, (1e9, 1e9))
        for known in [known for known in sys.modules if known.startswith("edited_")]:
            del sys.modules[known]
        # Python itself writes down what it compiled, as an `import` elsewhere does.
        py_compile.compile(str(file), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP) if gain == 1 else None
        assert load(reference).gain == gain
