"""The answer of a result, on runs whose answer is known: who gains, who suffers, by how much, how certain."""

from __future__ import annotations

import math
import re
from typing import Any

import polars as pl
import pytest

import tailback as tb
from tailback import metrics
from tailback.answer import Measured, answer, answer_of_runs
from tailback.answer.compared import answer_of_comparison
from tailback.answer.parts import LINES
from tailback.compare import compare
from tailback.numbers import written
from tailback.plots.flows import carrier

#: A line of 2 Mbit/s whose buffer holds half a second.
LINE = {"rate": "2mbit", "rtt": "40ms", "queue": "500ms"}


def again(rows: tb.Result, found: Measured) -> float:
    """The same measure, asked of `tailback.metrics` by its name."""
    window = found.window or (None, None)
    if found.measure == "goodput":
        return metrics.goodput(rows, found.of, *window) / 1e6
    if found.measure == "jain":
        return math.nan
    if found.measure == "voice_quality":
        return metrics.voice_quality(rows, found.of, *window).mos
    if found.measure == "flow_loss_rate":
        return 100 * metrics.flow_loss_rate(rows, found.of, *window)
    if found.measure == "late_share":
        return 100 * metrics.late_share(rows, found.of, 0.1, *window)
    if found.measure == "loaded_latency":
        return 1e3 * metrics.loaded_latency(rows, found.of, *window)
    if found.measure == "film":
        seen = metrics.film(rows, found.of)
        if found.asked == "time until it plays":
            return seen.startup_s
        return {"s": seen.stalled_s, "1": float(seen.stalls), "Mbit/s": seen.bitrate_bps / 1e6}[found.unit]
    quantile = 0.5 if "median" in found.asked else 0.95
    if found.measure == "queue_delay_quantiles":
        return 1e3 * metrics.queue_delay_quantiles(rows, found.of, (quantile,))[0]
    function = metrics.get(found.measure).function
    if found.measure == "delay_quantiles" and found.asked == "95 %":
        return 1e3 * float(metrics.delay_quantiles(rows, found.of, (quantile,), *window, induced=False)[0])
    return 1e3 * float(function(rows, found.of, (quantile,), *window)[0])


def kinds(result: tb.Result) -> dict[str, str]:
    """By the first name in each sentence, its kind."""
    return {re.split(r"[ :,]", each.text)[0]: each.kind for each in answer(result).statements}


@pytest.fixture(scope="module")
def on_and_off() -> tb.Result:
    """An upload that is on from 6 s to 12 s and from 20 s to 30 s beside a call, a reader, a ping and a game."""
    upload = tb.flow("bulk", name="upload", cc="cubic", start="6s", stop="12s", again=[{"start": "20s", "stop": "30s"}])
    flows = [
        upload,
        tb.voip(name="call"),
        tb.flow("ping", name="ping"),
        tb.flow("game", name="game"),
        tb.flow("web-probe", name="reader", from_="right", to="left", params={"gap": 200.0}),
    ]
    recorded = {"packets": ["call", "game"], "echoes": ["ping"], "requests": ["reader"], "queue_polls": "all"}
    return tb.run(tb.dumbbell(**LINE, flows=flows, duration="40s", instruments=recorded))


def test_an_upload_on_and_off_makes_everyone_suffer_while_it_is_on(on_and_off: tb.Result) -> None:
    assert kinds(on_and_off) == {
        "upload": "gains", "call": "suffers", "ping": "suffers", "game": "suffers", "reader": "suffers",
        "The": "queue", "One": "certainty",
    }  # fmt: skip
    for person in answer(on_and_off).people:
        assert person.beside == ("upload",)
        assert person.before is not None
        # The longest period of each kind: 20 to 30 s on, 30 to 40 s off.
        assert person.now.window == pytest.approx((20.0, 30.0), abs=1.0)
        assert person.before.window == pytest.approx((30.0, 40.0), abs=1.0)
    (ping,) = [each for each in answer(on_and_off).people if each.flow == "ping"]
    # The path takes 40 ms; CUBIC keeps at least 0.7 of a buffer of 500 ms filled.
    assert ping.before is not None
    assert ping.now.value > 40.0 + 0.7 * 400.0
    assert ping.before.value < 0.5 * ping.now.value


def test_every_number_is_a_measure_and_stands_in_its_sentence(on_and_off: tb.Result) -> None:
    for each in answer(on_and_off).statements:
        for found in each.measured:
            assert found.measure in metrics.names()
            assert again(on_and_off, found) == pytest.approx(found.value, rel=1e-9), each.text
            assert str(found) in each.text or written(found.value, 3) in each.text


def test_the_answer_has_at_most_ten_sentences_and_says_that_it_is_one_run(on_and_off: tb.Result) -> None:
    found = answer(on_and_off).statements
    assert len(found) <= LINES
    assert found[-1].kind == "certainty"
    assert found[-1].text.startswith("One run, 40 s simulated, seed 1:")
    assert on_and_off.answer() == [each.text for each in found]


def two_way(loaded: str) -> tb.Result:
    """A call in both directions beside one transfer that fills one of them."""
    ends = {"from_": "right", "to": "left"} if loaded == "back" else {}
    flows = [
        tb.flow("voip", name="call", two_way=True),
        tb.flow("bulk", name="transfer", cc="cubic", start="5s", **ends),
    ]
    return tb.run(
        tb.dumbbell(
            **LINE, back_rate="2mbit", back_queue="500ms", flows=flows, duration="20s",
            instruments={"packets": ["call", "call.back"]},
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("loaded", "suffers", "spared"), [("there", "call", "call.back"), ("back", "call.back", "call")]
)
def test_of_a_two_way_call_only_the_direction_of_the_transfer_suffers(loaded: str, suffers: str, spared: str) -> None:
    people = {each.flow: each for each in answer(two_way(loaded)).people}
    assert people[suffers].suffers
    assert people[suffers].beside == ("transfer",)
    assert people[spared].suffers is False
    # The transfer's acknowledgements are no load.
    assert people[spared].beside == ()


def test_of_several_links_only_who_shares_the_transfers_link_suffers() -> None:
    link = {"rate": "2mbit", "delay": "10ms", "queue": "500ms", "duplex": True}
    result = tb.run(
        tb.Scenario.from_dict(
            {
                "name": "links", "duration": "20s", "seed": 1,
                "link": [
                    {"name": "one", "from": "a", "to": "b"} | link,
                    {"name": "two", "from": "b", "to": "c"} | link,
                ],
                "flow": [
                    {"name": "bulk", "from": "a", "to": "b", "cc": "cubic", "start": "5s"},
                    {"name": "near", "app": "voip", "from": "a", "to": "b"},
                    {"name": "far", "app": "voip", "from": "b", "to": "c"},
                ],
                "instruments": {"packets": ["near", "far"]},
            }
        )
    )  # fmt: skip
    people = {each.flow: each for each in answer(result).people}
    assert (people["near"].suffers, people["near"].beside) == (True, ("bulk",))
    assert (people["far"].suffers, people["far"].beside) == (False, ())


def test_a_transfer_suffers_below_half_of_an_equal_share_while_all_are_on() -> None:
    """Two equal flows share alike; one with many times the other's round trip does not."""
    flows = [tb.bulk("reno", name="near"), tb.bulk("reno", name="far", start="4s", access_delay="200ms")]
    unequal = tb.run(
        tb.dumbbell(rate="5mbit", rtt="20ms", queue="30ms", flows=flows, duration="40s", instruments={"polls": "all"})
    )
    (first, second, *_) = answer(unequal).statements
    assert (first.kind, second.kind) == ("gains", "suffers")
    assert second.text.startswith("far (")
    assert second.measured[0].window == pytest.approx((4.0, 40.0), abs=1.5)
    alike = [tb.bulk("reno", name="a"), tb.bulk("reno", name="b")]
    equal = tb.run(tb.dumbbell(rate="5mbit", rtt="20ms", queue="30ms", flows=alike, duration="40s"))
    assert [each.kind for each in answer(equal).statements] == ["takes", "certainty"]


def test_a_call_alone_is_spared_and_one_without_rows_is_left_out() -> None:
    scenario = tb.dumbbell(**LINE, flows=[tb.voip(name="call")], duration="4s", instruments={"packets": ["call"]})
    assert kinds(tb.run(scenario)) == {"call": "spared", "One": "certainty"}
    assert kinds(tb.run(scenario.with_(instruments={"packets": []}))) == {"One": "certainty"}


def test_a_call_that_suffers_from_loss_is_given_the_loss_and_no_wait() -> None:
    lossy = tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.voip(name="call")], duration="10s")
    result = tb.run(lossy.with_({"dumbbell.wire": {"loss": 0.05}, "instruments": {"packets": ["call"]}}))
    (person,) = answer(result).people
    assert person.suffers
    assert [each.measure for each in person.measured] == ["voice_quality", "flow_loss_rate"]
    assert person.measured[1].value == pytest.approx(again(result, person.measured[1]))
    assert person.measured[1].value == pytest.approx(5.0, abs=2.5)
    assert "The network loses" in person.text
    assert "wait" not in person.text


@pytest.mark.parametrize(
    ("queue", "suffers", "words"),
    [("200ms", True, "a conversation bears 150 ms"), ("100ms", False, "users are very satisfied")],
)
def test_a_call_suffers_by_one_threshold_and_the_words_agree_with_it(queue: str, suffers: bool, words: str) -> None:
    """A FIFO of 200 ms adds more than G.114's 150 ms although users of its quality are satisfied."""
    flows = [tb.bulk("cubic", name="upload", start="5s"), tb.voip(name="call")]
    line = tb.dumbbell(rate="10mbit", rtt="40ms", queue=queue, flows=flows, duration="20s")
    (person,) = answer(tb.run(line.with_({"instruments.packets": ["call"]}))).people
    assert person.suffers is suffers
    assert words in person.text
    assert (person.harm >= 1.0) is suffers
    assert not (suffers and "are satisfied" in person.text), person.text


def test_of_a_crowd_the_first_are_named_and_the_others_counted() -> None:
    flows = [tb.flow("bulk", name="bulk", count=200, bytes="20kB"), tb.flow("voip", name="call", count=20)]
    names = [f"call-{number}" for number in range(1, 21)]
    crowd = tb.dumbbell(rate="100mbit", rtt="20ms", flows=flows, duration="4s", instruments={"packets": names})
    found = answer(tb.run(crowd)).statements
    assert len(found) <= LINES
    assert "200 transfers share bottleneck: each gets from" in found[0].text
    assert any(re.search(r", and \d+ more\.$", each.text) for each in found)
    assert max(len(each.text) for each in found) < 400


def runs(**columns: Any) -> pl.DataFrame:
    """Runs of a store, with what every store has."""
    count = len(next(iter(columns.values())))
    return pl.DataFrame({"status": ["ok"] * count, "seed": list(range(count)), "duration_s": [1.0] * count} | columns)


def test_of_several_seeds_the_answer_has_the_median_and_its_interval() -> None:
    frame = runs(**{"call.experience_mos": [4.0, 4.1, 4.2, 4.3, 4.4], "bulk.goodput_mbps": [9.0] * 5})
    call, bulk, certain = answer_of_runs(frame).statements
    assert call.measured[0].value == pytest.approx(4.2)
    # Of five values the median has no interval of 95 %.
    assert call.text == "call: quality is 4.2 MOS (4 to 4.4)."
    assert bulk.text == "bulk: goodput is 9 Mbit/s (9 to 9)."
    assert certain.text.startswith("5 runs, 5 seeds each: in parentheses the range over the seeds")


def test_of_settings_the_answer_names_the_best_and_the_worst() -> None:
    queues = ["fifo"] * 4 + ["codel"] * 4
    frame = runs(
        **{"dumbbell.queue": queues, "call.experience_p95_ms": [200, 201, 202, 203, 20, 21, 22, 23],
           "ping.experience_p95_ms": [10, 20, 30, 40, 11, 21, 31, 41]}
    ).with_columns(seed=pl.Series([1, 2, 3, 4] * 2))  # fmt: skip
    call, ping, certain = answer_of_runs(frame).statements
    assert call.text.startswith("call: response time at 95 % is best with dumbbell.queue = codel, 21.5 ms (")
    assert "worst with dumbbell.queue = fifo, 202 ms (" in call.text
    assert "no setting is seen to differ" in ping.text
    assert "8 runs in 2 settings, 4 seeds each" in certain.text


def test_settings_within_a_step_of_the_best_are_named_as_equal() -> None:
    queues = ["fifo"] * 2 + ["codel"] * 2 + ["pie"] * 2
    mos = "call.experience_mos"
    frame = runs(**{"dumbbell.queue": queues, mos: [3.0, 3.1, 4.41, 4.41, 4.40, 4.41]})
    frame = frame.with_columns(seed=pl.Series([1, 2] * 3))
    text = answer_of_runs(frame).statements[0].text
    assert "best with dumbbell.queue = codel, 4.41 MOS" in text
    assert "equal within the step of 0.1 MOS that is noticed: 1 other settings, such as dumbbell.queue = pie" in text
    alike = answer_of_runs(frame.filter(pl.col("dumbbell.queue") != "fifo")).statements[0].text
    assert "no setting differs by the 0.1 MOS that are noticed" in alike


def test_of_a_film_is_said_when_its_picture_comes_or_that_none_does() -> None:
    def said(back_rate: str) -> str:
        film = tb.flow("video", name="film", from_="right", to="left")
        line = tb.dumbbell(
            rate="2mbit", back_rate=back_rate, rtt="40ms", queue="20packets", back_queue="20packets",
            flows=[tb.bulk("reno", name="upload", start="1s"), film], duration="8s", instruments={"requests": ["film"]},
        )  # fmt: skip
        return next(each.text for each in answer(tb.run(line)).statements if "picture" in each.text)

    assert re.search(r"the picture comes after [\d.]+ s and (never )?stands still", said("20mbit")), said("20mbit")
    assert said("2kbit") == "film: no picture comes."


def test_a_film_that_never_stood_still_is_judged_by_its_start() -> None:
    kept = {"seed": [1, 2] * 2, "dumbbell.queue": ["200ms"] * 2 + ["codel"] * 2, "status": ["ok"] * 4}
    film = {"film.startup_s": [0.8, 0.82, 0.1, 0.12], "film.experience_p95_ms": [9.0] * 4}
    smooth, still = (
        answer_of_runs(pl.DataFrame(kept | film | {"film.stalled_s": stalls})).statements[0].text
        for stalls in ([0.0] * 4, [3.0, 4.0, 0.0, 0.0])
    )
    assert smooth.startswith("film: time until it plays is best with dumbbell.queue = codel")
    assert still.startswith("film: standstill is best with dumbbell.queue = codel")


def test_of_one_seed_a_setting_the_answer_says_that_there_is_no_interval() -> None:
    frame = runs(**{"dumbbell.queue": ["fifo", "codel"], "call.experience_mos": [3.0, 4.4]}).with_columns(
        seed=pl.Series([1, 1])
    )
    call, certain = answer_of_runs(frame).statements
    assert call.text.count("(one run)") == 2
    assert "there are no intervals" in certain.text


def test_a_comparison_begins_with_the_differences_that_matter(on_and_off: tb.Result) -> None:
    rows = compare({"fifo": on_and_off, "again": on_and_off})
    assert [each.text for each in answer_of_comparison(rows).statements] == [
        "No measure differs.", "2 results, one run each: there are no intervals."
    ]  # fmt: skip
    home = tb.dumbbell(**LINE, flows=[tb.bulk("cubic", name="bulk"), tb.voip(name="call")], duration="8s")
    home = home.with_(instruments={"packets": ["call"]})
    both = {"fifo": tb.run(home), "codel": tb.run(home.with_({"dumbbell.queue": "codel"}))}
    found = [each.text for each in answer_of_comparison(compare(both)).statements]
    assert 2 < len(found) <= LINES
    assert re.match(r"call: delay, 95 % is [\d.,]+ ms in fifo, [\d.,]+ in codel \(-[\d.]+ %\)\.", found[0])


def test_a_scheduled_links_rate_is_its_mean_as_in_the_summary():
    path = {"rate": "4mbit", "rtt": "40ms", "schedule": [{"at": "5s", "rate": "2mbit"}]}
    result = tb.run(tb.dumbbell(**path, flows=[tb.bulk("reno")], duration="10s"))
    assert result.link_summary()[0]["rate_mbps"] == 3.0
    assert "of goodput of the 3 Mbit/s at bottleneck" in answer(result).statements[0].text
    assert carrier(metrics.Rows.of(result), 0) == "3 Mbit/s"
