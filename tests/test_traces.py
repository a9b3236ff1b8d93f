"""Links that change by a file: CSV of time and rate, and the generators that make such files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tailback as tb
from command import tailback
from tailback import traces

ROWS = "time (s),rate (Mbit/s),delay (ms)\n0,10,20\n1.5,2.5,\n2,,40\n3,0,\n4,10,20\n"
STEPS = [
    {"at_ps": 0, "rate_bps": 10_000_000, "delay_ps": 20_000_000_000},
    {"at_ps": 1_500_000_000_000, "rate_bps": 2_500_000, "delay_ps": None},
    {"at_ps": 2_000_000_000_000, "rate_bps": None, "delay_ps": 40_000_000_000},
    {"at_ps": 3_000_000_000_000, "rate_bps": 0, "delay_ps": None},
    {"at_ps": 4_000_000_000_000, "rate_bps": 10_000_000, "delay_ps": 20_000_000_000},
]


def written(folder: Path, name: str, more: str = "") -> Path:
    file = folder / "s.toml"
    file.write_text(
        f'duration = "5s"\n[[link]]\nname = "down"\nfrom = "a"\nto = "b"\nschedule = "{name}"\nqueue = "60kB"\n{more}'
        '[[link]]\nname = "up"\nfrom = "b"\nto = "a"\nrate = "5mbit"\ndelay = "20ms"\nqueue = "60kB"\n'
        '[[flow]]\nfrom = "a"\nto = "b"\n'
    )
    return file


def test_a_schedule_from_a_file_is_the_same_as_its_steps(tmp_path: Path) -> None:
    (tmp_path / "path.csv").write_text(ROWS)
    from_file = tb.Scenario.from_toml(written(tmp_path, "path.csv"))
    assert from_file.links[0].schedule == "path.csv"
    link = from_file.resolve()["links"][0]
    # Without a rate of its own the link takes the file's first.
    assert (link["rate_bps"], link["schedule"]) == (10_000_000, STEPS)
    spelt_out = from_file.with_(
        {
            "link.down.rate": "10mbit",
            "link.down.schedule": [
                {"at": "0s", "rate": "10mbit", "delay": "20ms"},
                {"at": "1.5s", "rate": "2.5mbit"},
                {"at": "2s", "delay": "40ms"},
                {"at": "3s", "rate": "0bit"},
                {"at": "4s", "rate": "10mbit", "delay": "20ms"},
            ],
        }
    )
    assert from_file.to_json() == spelt_out.to_json()
    assert tb.Scenario.parse_toml(from_file.to_toml(), file=str(tmp_path / "x.toml")).to_json() == spelt_out.to_json()


def test_a_file_of_changes_lies_in_the_scenarios_folder_unless_its_user_names_it(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (tmp_path / "outside.csv").write_text(ROWS)
    (theirs / "link.csv").symlink_to(tmp_path / "outside.csv")
    outside = "outside the scenario's folder"
    for name, says in (
        ("../outside.csv", outside),
        ("link.csv", outside),
        ("/dev/zero", outside),
        ("none.csv", "cannot be read"),
    ):
        with pytest.raises(tb.ScenarioError, match=re.escape(f'link[0].schedule = "{name}": ') + f".*{says}"):
            tb.Scenario.from_toml(written(theirs, name)).resolve()
    named = tb.Scenario.from_toml(written(theirs, "link.csv"))
    named = named.with_({"link.down.schedule": str(tmp_path / "outside.csv")})
    assert named.resolve()["links"][0]["schedule"] == STEPS


def test_what_is_wrong_in_a_file_of_changes_is_reported_with_line_and_column(tmp_path: Path) -> None:
    file = written(tmp_path, "path.csv")
    for text, says in (
        (ROWS.replace("2.5", "fast"), 'line 3, column 5: "fast": this is not a number'),
        (ROWS.replace("\n3,", "\n1,"), "line 5, column 1: 1s does not come after 2s, the row before"),
        ("1\n2\n5\n", "If this is a mahimahi trace, write trace"),
    ):
        (tmp_path / "path.csv").write_text(text)
        with pytest.raises(tb.ScenarioError, match=re.escape(says)) as caught:
            tb.Scenario.from_toml(file).resolve()
        assert str(caught.value).startswith(f"{file}:6:12: link[0].schedule")
    (tmp_path / "path.csv").write_text(ROWS)
    mistaken = tb.Scenario.from_toml(file).with_({"link.down.schedule": None, "link.down.trace": "path.csv"})
    with pytest.raises(tb.ScenarioError, match="If this is a CSV file, write schedule"):
        mistaken.resolve()


def test_a_duplex_link_reports_what_is_wrong_with_its_file_once(tmp_path: Path) -> None:
    scenario = tb.Scenario.from_toml(written(tmp_path, "none.csv", "duplex = true\n"))
    with pytest.raises(tb.ScenarioError) as caught:
        scenario.resolve()
    assert str(caught.value).count('none.csv": ') == 1


def notes(folder: Path, rows: str) -> list[str]:
    (folder / "path.csv").write_text(rows)
    return tb.Scenario.from_toml(written(folder, "path.csv")).notes()


def test_a_file_of_changes_is_summed_up_and_a_gap_or_a_wrong_unit_stands_out(tmp_path: Path) -> None:
    good = "time (s),rate (Mbit/s)\n" + "".join(f"{at / 10},{at % 7}\n" for at in range(50))
    assert notes(tmp_path, good) == ["path.csv: 50 rows from 0 to 4.9 s of 5 s; 0 to 6 Mbit/s; longest step 0.1 s"]
    # Seconds labelled ms.
    summed, short = notes(tmp_path, good.replace("(s)", "(ms)"))
    assert "rows from 0 to 0.0049 s of 5 s" in summed
    assert "ends at 0.0049 s of the run's 5 s" in short
    kept = [line for number, line in enumerate(good.splitlines(True)) if not 10 < number < 40]
    _, gap = notes(tmp_path, "".join(kept))
    assert "no row for 3 s after 0.9 s, and a row every 0.1 s in the median" in gap
    code, _, err = tailback("check", tmp_path / "s.toml")
    assert code == 0
    assert "warning: path.csv has no row" in err


def test_a_trace_of_opportunities_is_summed_up(tmp_path: Path) -> None:
    traces.write(tmp_path / "x.trace", traces.constant(6e6, 2000))
    scenario = tb.network(
        links=[tb.link("x", "a", "b", trace=str(tmp_path / "x.trace")), tb.link("y", "b", "a", rate="1mbit")],
        flows=[tb.bulk(from_="a", to="b")],
        duration="5s",
    )
    endless, summed = scenario.notes()
    assert endless.startswith("the queue of x has no limit")
    assert "x.trace: 997 opportunities in 2 s, repeated over the run's 5 s; 5.99 to 6 Mbit/s" in summed
    (tmp_path / "x.trace").write_text("1\n")
    assert "12 to 12 Mbit/s in windows of 0.001 s" in scenario.notes()[1]


def test_the_rate_of_a_link_with_a_schedule_is_its_mean(tmp_path: Path) -> None:
    (tmp_path / "path.csv").write_text(ROWS)
    result = tb.run(tb.Scenario.from_toml(written(tmp_path, "path.csv")))
    # 10 for 1.5 s, 2.5 for 1.5 s, 0 for 1 s, 10 for 1 s.
    assert result.link_summary()[0]["rate_mbps"] == pytest.approx((15 + 3.75 + 10) / 5)


@pytest.mark.parametrize("make", [traces.lte, traces.low_orbit])
def test_a_generator_makes_the_same_for_the_same_seed_and_a_file_holds_all_of_it(make: Any, tmp_path: Path) -> None:
    steps = make(60, seed=3)
    assert steps == make(60, seed=3) != make(60, seed=4)
    assert steps == make(30, seed=3) + steps[len(make(30, seed=3)) :], "a longer one begins alike"
    traces.write_csv(tmp_path / "path.csv", steps, "made up")
    from_file = tb.Scenario.from_toml(written(tmp_path, "path.csv")).resolve()["links"][0]["schedule"]
    by_hand = tb.network(
        links=[tb.link("x", "a", "b", rate="1mbit", schedule=steps), tb.link("y", "b", "a", rate="1mbit", delay="1ms")],
        flows=[tb.bulk(from_="a", to="b")],
        duration="60s",
    )
    assert from_file == by_hand.resolve()["links"][0]["schedule"]


def test_what_the_generators_make_has_the_figures_they_were_fitted_to() -> None:
    rows = [[float(step["rate"].removesuffix("mbit")) for step in traces.lte(786, seed)] for seed in range(20)]
    tenths = np.array(rows)
    seconds = tenths.reshape(20, 786, 10).mean(axis=2)
    # The recorded trace's figures; the tolerance is what single traces of this length differ by.
    assert seconds.mean() == pytest.approx(5.19, abs=0.5)
    assert seconds.std() == pytest.approx(2.89, abs=0.4)
    assert (tenths == 0).mean() == pytest.approx(0.051, abs=0.01)
    after_5_s = np.mean([np.corrcoef(row[:-5], row[5:])[0, 1] for row in seconds])
    assert after_5_s == pytest.approx(0.70, abs=0.07)
    steps = [step for seed in range(50) for step in traces.low_orbit(600, seed)]
    delays = [float(step["delay"].removesuffix("ms")) for step in steps if "delay" in step]
    assert np.percentile(delays, [25, 50, 75]) == pytest.approx([40, 50, 60], abs=2)
    rates = [float(step["rate"].removesuffix("mbit")) for step in steps if step["rate"] != "0mbit"]
    assert np.median(rates) == pytest.approx(105, rel=0.05)
    assert max(rates) < 300


def test_the_command_says_in_the_file_what_it_is_and_what_takes_it(tmp_path: Path) -> None:
    done = tailback("trace", "generate", "lte", "--seconds", "5", "--seed", "2", "--out", tmp_path / "lte.csv")
    assert (done.code, done.out) == (0, "")
    assert 'a link takes it as: schedule = "lte.csv"' in done.err
    text = (tmp_path / "lte.csv").read_text()
    assert "trace generate lte --seconds 5 --seed 2" in text.splitlines()[0]
    assert "no measurement" in text
    assert "mahimahi" in text
    again = tailback("trace", "generate", "lte", "--out", tmp_path / "lte.csv")
    assert (again.code, "is there already" in again.err) == (2, True)
    assert (tmp_path / "lte.csv").read_text() == text
    orbit = tailback("trace", "generate", "low-orbit", "--out", tmp_path / "orbit.trace")
    assert (orbit.code, "has no delays" in orbit.err) == (2, True)
    assert tailback("trace", "generate", "lte", "--seconds", "0", "--out", tmp_path / "none.csv").code == 1
    assert not (tmp_path / "none.csv").exists()
    assert (
        tailback("trace", "generate", "lte", "--seconds", "5", "--seed", "2", "--out", tmp_path / "lte.trace").code == 0
    )
    rates = [float(line.split(",")[1]) for line in text.splitlines() if line[0].isdigit()]
    bits = 8 * 1504 * len(traces.read(tmp_path / "lte.trace"))
    assert bits == pytest.approx(sum(rates) * 1e5, rel=0.001)
