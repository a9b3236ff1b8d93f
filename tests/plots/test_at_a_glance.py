"""Several results and whole sweeps at a glance: figures, tables, pages."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.text import Text
from typer.testing import CliRunner

import tailback as tb
from synthetic import sawtooth
from tailback import cli, compare, metrics, plots, report
from tailback.explorer import Opened
from tailback.plots import columns, flows, sweeps


def call_beside(cc: str, queue: str = "1bdp", name: str = "run") -> tb.Scenario:
    return tb.dumbbell(
        name=name,
        rate="10mbit",
        rtt="40ms",
        queue=queue,
        flows=[tb.bulk(cc, name="bulk"), tb.voip(name="call")],
        duration="4s",
        instruments={"polls": ["bulk"], "packets": ["call"], "queue_polls": ["bottleneck"]},
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root = tmp_path_factory.mktemp("four")
    settings = {"reno": ("reno", "1bdp"), "reno-long": ("reno", "4bdp"), "cubic": ("cubic", "1bdp")}
    return [str(tb.run(call_beside(*each)).save(root / name)) for name, each in settings.items()]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("glance") / "store"
    base = call_beside("reno").with_(randomness={"start_spread": "1s"}, duration="2s")
    axes = {"flow.bulk.cc": ["reno", "cubic"], "dumbbell.queue": ["0.5bdp", "2bdp"]}
    tb.sweep(base, axes, seeds=3, store=folder, progress=False)
    return folder


def invoke(*words: str) -> object:
    return CliRunner().invoke(cli.app, list(words))


def test_results_that_differ_only_in_the_queue_have_colours_of_their_own(folders):
    figure = plots.get("delay-cdf")({folder: tb.open_result(folder) for folder in folders})
    colours = [to_hex(line.get_color()) for line in figure.axes[0].lines]
    assert len(set(colours)) == len(folders)


def test_a_flow_has_one_colour_in_every_figure_of_a_page():
    rows = sawtooth()
    line_styles = flows.line_styles({"run": rows})
    cwnd = plots.get("cwnd-and-queue")(rows).axes[0].lines[0]
    goodput = plots.get("throughput")(rows).axes[0].lines[0]
    assert to_hex(cwnd.get_color()) == to_hex(goodput.get_color()) == line_styles["run", 0].colour.lower()
    call = rows.udp_flows[0]
    delay = plots.get("delay-cdf")(rows).axes[0].lines[0]
    assert to_hex(delay.get_color()) == line_styles["run", call].colour.lower() != line_styles["run", 0].colour.lower()


def test_the_distribution_of_delay_is_of_the_window_asked_for(folders):
    result = tb.open_result(folders[0])
    whole, late = (plots.get("delay-cdf")(result, **window) for window in ({}, {"start": 2.0, "end": 4.0}))
    assert "whole run" in whole.axes[0].get_title(loc="left")
    assert "2 to 4 s" in late.axes[0].get_title(loc="left")
    assert len(late.axes[0].lines[0].get_xdata()) < len(whole.axes[0].lines[0].get_xdata())


def test_several_results_are_drawn_over_one_another(folders, tmp_path):
    drawn = invoke("plot", *folders, "--figure", "all", "--out", str(tmp_path / "all.png"), "--json")
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "all.png").stat().st_size > 10_000
    overview = plots.get("overview")({folder: tb.open_result(folder) for folder in folders})
    # A curve a result in the panel of the windows: none is left out.
    assert len(overview.axes[0].lines) == len(folders)


def test_only_what_can_be_drawn_is_listed(folders):
    listed = {row["name"] for row in json.loads(invoke("plot", folders[0], "--list", "--json").stdout)["figures"]}
    assert {"overview", "delay-cdf", "all", "box"} <= listed
    assert "response-times" not in listed


def test_three_results_are_compared_with_the_baseline(folders):
    done = invoke("compare", *folders, "--baseline", folders[2], "--json")
    assert done.exit_code == 0, done.output
    reported = json.loads(done.stdout)
    assert reported["baseline"] == "cubic"
    (delay,) = [row for row in reported["metrics"] if (row["metric"], row["of"]) == ("delay, 95 %", "call")]
    assert set(delay["values"]) == {"reno", "reno-long", "cubic"}
    assert delay["change"]["reno-long"] > 0.5
    assert "cubic" not in delay["change"]


def test_an_unknown_baseline_names_the_nearest(folders):
    results = {Path(folder).name: tb.open_result(folder) for folder in folders}
    with pytest.raises(compare.NothingToCompare, match='Did you mean "cubic"'):
        compare.compare(results, baseline="cubick")


def test_a_box_and_its_whiskers_lie_within_the_picture(folders):
    figure = plots.get("box")({Path(folder).name: tb.open_result(folder) for folder in folders})
    for ax in figure.axes:
        ends = [x for line in ax.lines for x in line.get_xdata()]
        assert max(ends) < ax.get_xlim()[1]
        for box in ax.patches:
            assert box.get_linewidth() > 2, "a narrow box is seen beside its median"


def test_a_result_given_twice_is_refused(folders):
    done = invoke("plot", folders[0], folders[0])
    assert "given twice" in str(done.exception)


def test_print_shows_the_table(folders):
    text = str(tb.open_result(folders[0]))
    assert "goodput mbps" in text
    assert "bottleneck" in text


@pytest.mark.parametrize("name", sorted(set(sweeps.FIGURES) - {"pair-shares"}))
def test_every_figure_of_a_store_is_drawn(name, store, tmp_path):
    done = invoke("plot", str(store), "--figure", name, "--out", str(tmp_path / "figure.png"))
    assert done.exit_code == 0, done.output
    assert (tmp_path / "figure.png").stat().st_size > 5_000


def test_only_figures_that_can_be_drawn_are_offered(store):
    listed = {row["name"] for row in json.loads(invoke("plot", str(store), "--list", "--json").stdout)["figures"]}
    assert listed == set(sweeps.FIGURES) - {"pair-shares"}
    same = tb.open_store(store).frame().filter(pl.col("flow.bulk.cc") == "reno")
    assert set(sweeps.offered(same)) == {"lines", "box", "violin", "people", "throughput-delay"}


def test_each_of_several_metrics_has_a_panel(store, tmp_path):
    two = ("--metric", "call.delay_p95_ms", "--metric", "bulk.goodput_mbps", "--out", str(tmp_path / "two.png"))
    assert json.loads(invoke("plot", str(store), *two, "--json").stdout)["figure"] == "people"
    assert "the figure lines shows one metric" in str(invoke("plot", str(store), *two, "--figure", "lines").exception)
    frame = tb.open_store(store).frame()
    figure = sweeps.draw("people", frame, metric=[two[1], two[3]], axis=None, by=None, title="Two")
    assert [ax.get_ylabel().partition(":")[0] for ax in figure.axes] == ["call", "bulk"]
    assert figure.get_suptitle() == "Two"
    cubic = {line.get_label(): line for line in figure.axes[0].lines}["cubic"]
    runs = frame.filter((pl.col("flow.bulk.cc") == "cubic") & (pl.col("dumbbell.queue") == "2bdp"))
    assert cubic.get_ydata()[1] == pytest.approx(runs["call.delay_p95_ms"].median())


def test_what_people_notice_is_found_by_their_columns():
    columns = {
        "call.goodput_mbps": 0.1, "call.delay_p95_ms": 20.0, "film.goodput_mbps": 5.0, "film.startup_s": 0.1,
        "film.bitrate_mbps": 5.0, "page.goodput_mbps": 1.0, "page.load_time_s": 0.3, "page.experience_p95_ms": 9.0,
    }  # fmt: skip
    zipped = {"dumbbell.back_queue": ["codel", "pie"], "dumbbell.queue": ["codel", "pie"], "flow.bulk.cc": ["bbr"] * 2}
    frame = mixed(**zipped, **{name: [value] * 2 for name, value in columns.items()})
    figure = sweeps.draw("people", frame, metric=None, axis=None, by=None)
    noticed = [
        "goodput",
        "one-way delay, 95th percentile",
        "time until the film plays",
        "bitrate of the film",
        "page load time",
    ]
    assert len(figure.axes) == len(noticed)
    for ax, words in zip(figure.axes, noticed, strict=True):
        assert words in ax.get_ylabel().replace("-\n", "-").replace("\n", " ")
    # A zip's values vary together: one of them is the axis, and the other is not pooled.
    assert figure.axes[-1].get_xlabel() == "bottleneck queue"
    assert "over every" not in figure.get_suptitle()
    assert sweeps.usual(frame) == "people"
    assert sweeps.usual(frame.drop("film.startup_s")) == sweeps.usual(frame, ["page.load_time_s"]) == "lines"
    only = sweeps.draw("people", frame, metric=None, axis=None, by=None, flow=["call"])
    assert len(only.axes) == 1
    with pytest.raises(sweeps.NoSuchColumn, match='Did you mean "film"'):
        sweeps.draw("people", frame, metric=None, axis=None, by=None, flow=["fim"])


def test_shares_of_pairs_are_per_cent_of_half_the_link():
    names = ("reno", "cubic")
    rows = [
        {"status": "ok", "seed": seed, "dumbbell.rate": rate, "flow.mine.cc": own, "flow.theirs.cc": other,
         "mine.goodput_mbps": share * mbps * 1448 / 1500, "theirs.goodput_mbps": (1 - share) * mbps * 1448 / 1500}
        for rate, mbps in (("8mbit", 8.0), ("50mbit", 50.0))
        for own, other, share in zip("rrcc", "rcrc", (0.4, 0.25, 0.65, 0.5), strict=True)
        for own, other in [(names["rc".index(own)], names["rc".index(other)])]
        for seed in (1, 2, 3)
    ]  # fmt: skip
    figure = sweeps.draw("pair-shares", pl.DataFrame(rows), metric=None, axis=None, by=None)
    panels = [ax for ax in figure.axes if ax.get_ylabel() == "this one keeps"]
    assert [ax.get_title(loc="left") for ax in panels] == ["8 Mbit/s", "50 Mbit/s"]
    for ax in panels:
        assert [text.get_text() for text in ax.texts] == ["100", "60", "140", "100", "12 runs, 3 seeds"]
        assert [text.get_text() for text in ax.get_yticklabels()] == ["reno", "cubic"]
    assert "pair-shares" in sweeps.offered(pl.DataFrame(rows))
    one = pl.DataFrame(rows).drop("flow.theirs.cc")
    with pytest.raises(sweeps.NoSuchColumn, match=r"not of pairs of algorithms; they differ in: flow\.mine\.cc"):
        sweeps.draw("pair-shares", one, metric=None, axis=None, by=None)


def test_a_line_stands_at_the_median_and_its_band_is_the_interval(store):
    frame = tb.open_store(store).frame()
    figure = sweeps.draw("lines", frame, metric="call.delay_p95_ms", axis="dumbbell.queue", by="flow.bulk.cc")
    reno = frame.filter((pl.col("flow.bulk.cc") == "reno") & (pl.col("dumbbell.queue") == "0.5bdp"))
    drawn = {line.get_label(): line for line in figure.axes[0].lines}["reno"]
    assert drawn.get_ydata()[0] == pytest.approx(reno["call.delay_p95_ms"].median())


def test_the_legend_of_a_store_covers_no_line(store):
    for name in ("lines", "throughput-delay"):
        figure = sweeps.draw(name, tb.open_store(store).frame(), metric=None, axis=None, by=None)
        figure.draw_without_rendering()
        for legend in figure.legends:
            assert legend.get_window_extent().x0 >= figure.axes[0].get_window_extent().x1


def test_goodput_is_drawn_against_a_delay_or_not_at_all(store):
    frame = tb.open_store(store).frame()
    without = frame.drop([name for name in frame.columns if "delay" in name or "experience" in name])
    drawn = sweeps.draw("throughput-delay", without, metric=None, axis=None, by=None)
    assert "bulk: last smoothed round trip (ms)" in drawn.axes[0].get_xlabel()
    without = without.drop([name for name in without.columns if "srtt" in name])
    with pytest.raises(sweeps.NoSuchColumn, match=r"no delay to draw goodput against\. Record packets"):
        sweeps.draw("throughput-delay", without, metric=None, axis=None, by=None)


def test_axes_are_what_was_varied_in_the_order_of_their_quantity(store):
    frame = tb.open_store(store).frame()
    axes = {axis.column: axis.levels for axis in sweeps.axes_of(frame)}
    assert axes["dumbbell.queue"] == ["0.5bdp", "2bdp"]
    assert set(axes) == {"dumbbell.queue", "flow.bulk.cc"}


def test_a_column_the_store_does_not_have_is_named_with_the_nearest(store):
    frame = tb.open_store(store).frame()
    with pytest.raises(sweeps.NoSuchColumn, match=r"call\.delay_p95_ms"):
        sweeps.draw("lines", frame, metric="call.delays_p95", axis=None, by=None)
    with pytest.raises(sweeps.NoSuchColumn, match=r"dumbbell\.queue"):
        sweeps.draw("lines", frame, metric=None, axis="dumbbell.que", by=None)


def test_a_store_has_a_page(store):
    page = report.write(tb.open_store(store), store.parent / "page.html").read_text(encoding="utf-8")
    assert ">12<" in page
    assert "call: one-way delay, 95th percentile (ms) over bottleneck queue, by congestion control of bulk" in page
    assert "The median of the runs at each bottleneck queue, for each congestion control of bulk" in page
    assert "goodput (Mbit/s) against call: one-way delay, 95th percentile (ms)" in page


def test_a_question_can_be_answered_with_intervals(store):
    sql = 'SELECT "flow.bulk.cc", "call.delay_p95_ms" FROM runs'
    done = invoke("results", "query", sql, "--store", str(store), "--intervals", "--json")
    assert done.exit_code == 0, done.output
    for row in json.loads(done.stdout)["rows"]:
        assert row["n"] == 6
        assert row["call.delay_p95_ms low"] <= row["call.delay_p95_ms"] <= row["call.delay_p95_ms high"]
    done = invoke("results", "query", 'SELECT "call.delay_p95_ms" FROM runs', "--store", str(store), "--intervals")
    assert "of 4 settings: call.delay_p95_ms" in str(done.exception)


def test_runs_of_one_point_are_folded_whatever_is_selected(tmp_path):
    base = call_beside("reno").with_(randomness={"start_spread": "1s"}, duration="1s")
    tb.sweep(base, {"flow.bulk.cc": ["reno"]}, seeds=3, store=tmp_path / "one", progress=False)
    sql = 'SELECT "call.delay_p95_ms" FROM runs'
    done = invoke("results", "query", sql, "--store", str(tmp_path / "one"), "--intervals", "--json")
    assert done.exit_code == 0, done.output
    [row] = json.loads(done.stdout)["rows"]
    assert row["n"] == 3
    assert row["call.delay_p95_ms low"] <= row["call.delay_p95_ms"] <= row["call.delay_p95_ms high"]


@pytest.fixture(scope="module")
def late_flow() -> tb.Result:
    """A download of which half the run sees nothing, a call, a video call and a reader of pages."""
    flows = [
        tb.bulk("cubic", name="late", start="3s"),
        tb.voip(name="call"),
        tb.flow("media", name="video"),
        tb.flow("web", name="page", from_="right", params={"rate": 20.0}),
    ]
    recorded = {"polls": ["late"], "packets": ["call", "video"], "requests": ["page"]}
    return tb.run(tb.dumbbell(rate="4mbit", rtt="40ms", flows=flows, duration="6s", instruments=recorded))


def test_a_box_of_throughput_is_of_the_time_in_which_the_flow_was_on(late_flow):
    throughput = plots.get("box")(late_flow).axes[1]
    assert throughput.get_xlabel() == "throughput (Mbit/s)"
    _, rates = metrics.throughput_series(late_flow, "late", 1.0)
    drawn = [line.get_xdata()[0] for line in throughput.lines if line.get_color() == "white"]
    assert drawn == [pytest.approx(float(np.median(rates[3:])) / 1e6)]
    assert drawn[0] > 2 * float(np.median(rates)) / 1e6


def test_a_rating_is_of_voice_only_and_says_what_it_leaves_out(late_flow):
    figure = plots.get("voice-quality")(late_flow)
    (name,) = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    low, high = 1e3 * metrics.delay_quantiles(late_flow, "call", (0.05, 0.95), induced=False)
    assert name.startswith("call, MOS")
    assert name.endswith(f"delay {low:.0f} to {high:.0f} ms (5 to 95 %)")
    assert figure.get_supxlabel() == metrics.NOT_RATED
    assert metrics.NOT_RATED in report.single(late_flow)
    films = tb.run(late_flow.scenario.with_({"flow.call": None, "instruments.packets": ["video"], "duration": "4s"}))
    with pytest.raises(metrics.MissingRows):
        plots.get("voice-quality")(films)


def test_a_rating_with_long_names_leaves_the_axes_room(tmp_path, recwarn):
    names = [f"10.0.{n}.1:16384-10.0.{n}.2:16384-udp" for n in range(2)]
    calls = tb.run(
        tb.dumbbell(rate="4mbit", rtt="40ms", flows=[tb.voip(name=name) for name in names], duration="1s",
                    instruments={"packets": names})
    )  # fmt: skip
    plots.save(plots.get("voice-quality")(calls), tmp_path / "calls.png")
    assert not [str(each.message) for each in recwarn if "collapsed" in str(each.message)]


def test_a_call_of_which_nothing_was_recorded_has_no_legend_entry():
    path = {"rate": "4mbit", "rtt": "40ms", "duration": "1s"}
    calls = [tb.voip(name="heard"), tb.voip(name="not-yet", start="900ms")]
    recorded = {"packets": ["heard", "not-yet"], "until": "500ms"}
    figure = plots.get("voice-quality")(tb.run(tb.dumbbell(**path, flows=calls, instruments=recorded)))
    legend = figure.axes[1].get_legend()
    assert [text.get_text().split(",")[0] for text in legend.get_texts()] == ["heard"]


def test_retransmissions_and_loss_are_one_number_everywhere(late_flow):
    compared = {(row.metric, row.of): row.values["a"] for row in compare.compare({"a": late_flow, "b": late_flow})}
    summary = {row["flow"]: row for row in late_flow.flow_summary()}
    assert summary["page"]["retransmitted"] > 0
    for name, row in summary.items():
        if row["retransmitted"] is not None:
            assert compared["segments retransmitted", name] == row["retransmitted"]
        if row["loss"] is not None:
            assert compared["loss rate", name] == 100 * row["loss"]
            assert metrics.flow_loss_rate(late_flow, name) == row["loss"]
    assert ("loss rate", "page") not in compared, "most of its payload came back"
    (page,) = [row for row in Opened("result", "r", "", late_flow).described()["flows"] if row["name"] == "page"]
    assert page["retransmissions"] == summary["page"]["retransmitted"]
    assert page["loss"] is None


def mixed(**columns: list[object]) -> pl.DataFrame:
    """A store's frame: two seeds of each setting, and one column of goodput and of delay."""
    count = len(next(iter(columns.values())))
    rows = {"status": ["ok"] * 2 * count, "seed": [1] * count + [2] * count, "duration_s": [1.0] * 2 * count}
    rows |= {name: values * 2 for name, values in columns.items()}
    rows.setdefault("bulk.goodput_mbps", [float(n) for n in range(1, 2 * count + 1)])
    return pl.DataFrame(rows)


def store_figure(name: str, frame: pl.DataFrame, **options: object):
    chosen = {"metric": "bulk.goodput_mbps", "axis": None, "by": None} | options
    return sweeps.draw(name, frame, **chosen)


def test_categories_are_not_joined_by_a_line_and_quantities_are():
    kinds = mixed(**{"dumbbell.queue": ["1bdp", "4bdp", "fq_codel"]})
    ax = store_figure("lines", kinds).axes[0]
    assert {line.get_linestyle() for line in ax.lines} == {"None"}
    assert [text.get_text() for text in ax.get_xticklabels()] == ["FIFO, 1 BDP", "FIFO, 4 BDP", "fq_codel"]
    # Packets and multiples of the BDP are no common scale either.
    assert (
        store_figure("lines", mixed(**{"dumbbell.queue": ["1bdp", "100packets"]})).axes[0].lines[0].get_linestyle()
        == "None"
    )
    sizes = store_figure("lines", mixed(**{"dumbbell.queue": ["1bdp", "4bdp"]})).axes[0]
    assert sizes.lines[0].get_linestyle() == "-"
    assert sizes.get_xlabel() == "bottleneck queue (BDP)"
    assert [text.get_text() for text in sizes.get_xticklabels()] == ["1", "4"]


def test_axes_of_a_sweep_have_names_and_units():
    rates = mixed(**{"dumbbell.rate": ["5mbit", "20mbit"], "dumbbell.rate.si": [5e6, 2e7]})
    assert [axis.column for axis in sweeps.axes_of(rates)] == ["dumbbell.rate"]
    ax = store_figure("lines", rates).axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("bottleneck rate (Mbit/s)", "bulk: goodput (Mbit/s)")
    assert list(ax.get_xticks()) == [5, 20]
    assert sweeps.metric_title("return.backlog_mean_bytes") == "return: queue, mean (B)"
    assert sweeps.metric_title("my_time_ms") == "my time (ms)"


def test_a_level_without_a_value_has_no_legend_entry_and_is_named_beneath():
    counts = mixed(
        **{
            "dumbbell.rate": ["5mbit", "10mbit"] * 2,
            "flow.rest.count": [2.0, 2.0, 40.0, 40.0],
            "bulk.goodput_mbps": [1.0, 2.0, None, None],
        }
    )
    for name in ("lines", "box"):
        figure = store_figure(name, counts, axis="dumbbell.rate")
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["2"]
        assert figure.get_supxlabel().startswith("No value: 40. Of runs with more than 16 flows")
    none = counts.with_columns(pl.lit(None, dtype=pl.Float64).alias("bulk.goodput_mbps"))
    with pytest.raises(sweeps.NoSuchColumn, match="more than 16 flows"):
        store_figure("lines", none, axis="dumbbell.rate")


def test_a_box_is_of_the_seeds_of_a_setting():
    frame = mixed(**{"dumbbell.queue": ["1bdp", "fq_codel"], "bulk.goodput_mbps": [1.0, 5.0]})
    frame = frame.with_columns(pl.Series("bulk.goodput_mbps", [1.0, 5.0, 3.0, 9.0]))
    ax = store_figure("box", frame).axes[0]
    medians = [
        line.get_ydata()[0] for line in ax.lines if len(set(line.get_ydata())) == 1 and len(line.get_ydata()) == 2
    ]
    assert {2.0, 7.0} <= set(medians)
    assert ax.get_xlabel() == "bottleneck queue"


def test_other_values_that_a_point_pools_are_named():
    frame = mixed(
        **{
            "dumbbell.rate": ["5mbit", "5mbit", "10mbit", "10mbit"],
            "dumbbell.rtt": ["10ms", "20ms"] * 2,
            "dumbbell.back_rate": ["1mbit", "1mbit", "2mbit", "2mbit"],
            "flow.bulk.cc": ["reno", "reno", "cubic", "cubic"],
        }
    )
    ax = store_figure("lines", frame, axis="dumbbell.rate", by="flow.bulk.cc").axes[0]
    assert below(ax).endswith("over every round-trip time")


def below(ax: Axes) -> str:
    """The line beneath the title."""
    return next(text.get_text() for text in ax.texts if text.get_gid() == "below-the-title")


def test_what_all_runs_share_of_the_path_stands_beneath_the_title(store):
    ax = store_figure("lines", tb.open_store(store).frame()).axes[0]
    assert ax.get_title(loc="left") == "median and range of 3 runs"
    assert below(ax).startswith("10 Mbit/s, RTT ")


def test_a_table_whose_keys_have_columns_is_no_axis_of_its_own():
    tables = ['{"queue": "1bdp", "rate": "5mbit"}', '{"queue": "fq_codel", "rate": "5mbit"}']
    frame = mixed(**{"dumbbell": tables, "dumbbell.queue": ["1bdp", "fq_codel"]})
    assert [axis.column for axis in sweeps.axes_of(frame)] == ["dumbbell.queue"]


def test_a_duration_stands_at_an_axis_in_milliseconds():
    (axis,) = sweeps.axes_of(mixed(**{"dumbbell.rtt": ["80ms", "20ms"]}))
    assert (axis.unit, list(axis.numbers)) == ("ms", [20.0, 80.0])


SCENARIO = '[dumbbell]\nrate = "50mbit"\nback_rate = "10mbit"\nrtt = "20ms"\n'


def many_controls() -> pl.DataFrame:
    """Nine controls behind two queues, and a run without an upload: it starts when the run is over."""
    controls = [f"cc{number}" for number in range(9)] + ["cc0"]
    rows = [
        {
            "status": "ok", "seed": 1, "duration_s": 10.0, "scenario": SCENARIO, "flow.upload.cc": cc,
            "flow.upload.start": "9999ms" if number == 9 else "1s", "dumbbell.queue": queue,
            "upload.goodput_mbps": 5.0, "call.goodput_mbps": 0.1, "call.back.goodput_mbps": 0.1,
            "call.delay_p95_ms": 10.0 + number, "call.back.delay_p95_ms": 200.0 if queue == "200ms" else 10.0,
        }
        for number, cc in enumerate(controls) for queue in ("200ms", "fq_codel", "codel")
    ]  # fmt: skip
    return pl.DataFrame(rows)


def test_many_controls_are_cells_and_all_are_named():
    figure = store_figure("people", many_controls(), metric=None)
    panels = [ax for ax in figure.axes if ax.images]
    names = [text.get_text() for text in panels[0].get_yticklabels()]
    assert names == ["no upload", *(f"cc{number}" for number in range(9))]
    assert [text.get_text() for text in panels[2].get_xticklabels()] == ["FIFO, 200 ms", "fq_codel", "codel"]
    titles = [ax.get_title(loc="left") for ax in panels]
    assert titles[0] == "call, downward: one-way delay, 95th percentile (ms)"
    assert titles[1].startswith("call, upward: ")
    assert len(panels[0].texts) == 3 * 10 + 1, "a number a cell, and the line beneath the title"
    # Of an upload that there is not nothing was measured.
    assert len(panels[2].texts) == 3 * 9 + 1


def test_panels_of_cells_stand_one_above_another_in_a_column(tmp_path):
    figure = store_figure("people", many_controls(), metric=None)
    plots.save(figure, tmp_path / "a.svg", width=3.5)
    assert {ax.get_subplotspec().get_gridspec().ncols for ax in figure.axes if ax.images} == {1}


def test_a_scale_is_logarithmic_where_most_values_lie_at_the_foot():
    few = many_controls().filter(pl.col("flow.upload.cc").is_in(["cc1", "cc2"]))
    panels = store_figure("people", few, metric=None).axes
    assert [ax.get_yscale() for ax in panels] == ["linear", "log", "linear"]
    assert "log" in panels[1].get_ylabel()


def test_a_marker_says_the_queue_and_a_colour_the_algorithm(store):
    figure = store_figure("throughput-delay", tb.open_store(store).frame())
    algorithms, queues = figure.legends
    assert [text.get_text() for text in algorithms.get_texts()] == ["reno", "cubic"]
    assert queues.get_title().get_text() == "bottleneck queue (BDP)"
    assert len({handle.get_marker() for handle in queues.legend_handles}) == len(queues.get_texts()) > 1


@pytest.mark.parametrize("name", ["lines", "box", "violin", "heat-map", "throughput-delay", "people"])
def test_no_text_of_a_sweeps_figure_is_below_seven_points(name, store):
    figure = store_figure(name, tb.open_store(store).frame())
    assert min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text()) >= 7


def test_a_sweep_figure_takes_a_flow_labels_and_a_title(store, tmp_path):
    out = tmp_path / "named.svg"
    words = ["--flow", "bulk", "--label", "reno=NewReno", "--label", "2bdp=long", "--title", "Two queues"]
    done = invoke("plot", str(store), *words, "--out", str(out))
    assert done.exit_code == 0, done.exception
    drawn = out.read_text(encoding="utf-8")
    assert all(text in drawn for text in ("NewReno", "Two queues", "bulk: goodput (Mbit/s)"))
    assert 'Did you mean "reno"' in str(invoke("plot", str(store), "--label", "rneo=x").exception)
    assert "LEVEL=NAME" in str(invoke("plot", str(store), "--label", "reno").exception)


def shares(**columns: object) -> pl.DataFrame:
    """Six runs of two levels, in which one flow has a fifth or three fifths of the goodput."""
    given = {
        "status": ["ok"] * 6, "seed": [1, 2, 3] * 2, "duration_s": [1.0] * 6,
        "flow.bulk.cc": ["reno"] * 3 + ["bbr"] * 3,
        "bulk.goodput_mbps": [2.0, 2.0, 2.0, 5.0, 6.0, 7.0], "goodput_mbps": [10.0] * 6,
        "call.delay_p95_ms": [100.0] * 6,
    }  # fmt: skip
    return pl.DataFrame(given | columns)


@pytest.mark.parametrize(
    ("expression", "medians"),
    [
        ("bulk.goodput / total", [0.2, 0.6]),
        ("bulk.goodput_mbps/goodput_mbps", [0.2, 0.6]),
        ('100 * (1 - "bulk.goodput_mbps" / total)', [80.0, 40.0]),
        ("call.delay_p95 / 1000", [0.1, 0.1]),
    ],
)
def test_a_metric_may_be_an_expression_over_columns(expression, medians):
    figure = store_figure("lines", shares(), metric=expression)
    (line,) = figure.axes[0].lines
    assert list(line.get_ydata()) == pytest.approx(medians)
    assert figure.axes[0].get_ylabel() == expression


@pytest.mark.parametrize(("metric", "column"), [("total", "goodput_mbps"), ("bulk.goodput", "bulk.goodput_mbps")])
def test_a_name_of_expressions_is_a_metric_by_itself(metric, column):
    drawn, full = (store_figure("lines", shares(), metric=each).axes[0] for each in (metric, column))
    assert [list(line.get_ydata()) for line in drawn.lines] == [list(line.get_ydata()) for line in full.lines]
    assert drawn.get_ylabel() == full.get_ylabel()


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("bulk.goodputt / total", 'no numbers in a column "bulk.goodputt". Did you mean "bulk.goodput_mbps"'),
        ("bulk.goodput / ", "cannot be reckoned"),
        ("1 / 2", "names no column"),
    ],
)
def test_an_expression_that_cannot_be_reckoned_is_refused_with_an_example(expression, says):
    with pytest.raises(sweeps.NoSuchColumn, match=says):
        store_figure("lines", shares(), metric=expression)


def test_an_expression_and_a_flow_exclude_one_another():
    with pytest.raises(sweeps.NoSuchColumn, match="names its flows itself"):
        store_figure("lines", shares(), metric="bulk.goodput / total", flow="bulk")


def test_a_violin_has_a_dot_a_run_a_line_at_the_median_and_a_body_where_runs_differ():
    ax = store_figure("violin", shares()).axes[0]
    dots = [line for line in ax.lines if line.get_marker() in "os"]
    assert sorted(y for line in dots for y in line.get_ydata()) == [2.0, 2.0, 2.0, 5.0, 6.0, 7.0]
    (lines,) = [each for each in ax.collections if type(each).__name__ == "LineCollection"]
    assert [float(path.vertices[0][1]) for path in lines.get_paths()] == [2.0, 6.0]
    # Three equal runs have no density; the others have one body.
    bodies = [each for each in ax.collections if type(each).__name__ in ("PolyCollection", "FillBetweenPolyCollection")]
    assert len(bodies) == 1


def _store_of_queues() -> pl.DataFrame:
    """Runs of seven queues, of which one is a table, and three algorithms."""
    queues = ["50ms", "200ms", "codel", "fq_codel", "pie", "fq_pie", '{"discipline": "cake", "rate": "9.5mbit"}']
    rows = [
        {"seed": seed, "status": "ok", "flow.up.cc": cc, "dumbbell.queue": queue, "goodput_mbps": 8.0 + seed,
         "video.delay_p95_ms": 20.0 + seed}
        for queue in queues for cc in ("cubic", "bbr", "reno") for seed in (1, 2)
    ]  # fmt: skip
    return pl.DataFrame(rows)


@pytest.mark.parametrize("width", [3.5, None])
@pytest.mark.parametrize("name", ["lines", "box", "heat-map", "throughput-delay"])
def test_no_text_of_a_figure_is_cut_or_overprinted(name: str, width: float | None, tmp_path: Path) -> None:
    figure = sweeps.draw(name, _store_of_queues(), metric=None, axis=None, by=None)
    plots.save(figure, tmp_path / "drawn.png", width=width)
    figure.draw_without_rendering()
    written = [text.get_text() for text in figure.findobj(Text)]
    assert not [text for text in written if "{" in text]
    for ax in figure.axes:
        ticks = [text for text in ax.get_xticklabels() if text.get_text() and not text.get_rotation()]
        boxes = sorted((text.get_window_extent() for text in ticks), key=lambda box: box.x0)
        assert all(one.x1 < other.x0 for one, other in pairwise(boxes))
        for label in (ax.xaxis.label, ax.yaxis.label) if width else ():
            box = label.get_window_extent()
            assert 0 <= box.x0 <= box.x1 <= figure.bbox.x1
            assert 0 <= box.y0 <= box.y1 <= figure.bbox.y1


def test_a_legend_of_a_narrow_figure_lies_below_it(tmp_path: Path) -> None:
    figure = plots.get("delay-cdf")({"one": sawtooth(), "two": sawtooth(period_s=4.0)})
    plots.save(figure, tmp_path / "drawn.png", width=3.5)
    assert figure.axes[0].get_legend() is None
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "two"]


def test_all_leaves_out_what_was_not_recorded() -> None:
    home = tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.bulk("cubic"), tb.voip(name="call")], duration="2s")
    figure = plots.get("all")(tb.run(home.with_(instruments={"packets": ["call"]})))
    assert [ax.get_ylabel() for ax in figure.axes] == ["one-way delay (ms)", "share of packets"]


def test_a_path_with_a_medium_has_its_rate_and_round_trip() -> None:
    text = """
        [dumbbell]
        rate = "10mbit"
        back_rate = "50mbit"
        rtt = "30ms"
        medium = { name = "docsis", rate = "10mbit" }
    """
    assert columns.path_of(pl.DataFrame({"scenario": [text]})) == "docsis 10/50 Mbit/s, RTT 30 ms"
    line = tb.dumbbell(rate="10mbit", rtt="30ms", flows=[tb.bulk("cubic")], duration="1s")
    runs = [tb.run(line.with_({"dumbbell.medium": {"name": "docsis", "rate": "10mbit"}, "dumbbell.queue": queue}))
            for queue in ("200ms", "codel")]  # fmt: skip
    both = {str(number): metrics.Rows.of(run) for number, run in enumerate(runs)}
    assert flows.paths_of(both) == "docsis 10 Mbit/s, RTT 30 ms, several queues"


@pytest.mark.parametrize(("width", "inches"), [("column", 3.5), ("page", 7.2), ("5", 5.0)])
def test_a_figure_for_a_paper_is_exactly_as_wide_as_asked(store, tmp_path, width, inches):
    for number, words in enumerate((["--figure", "lines"], ["--figure", "box", "--title", "A long title " * 8])):
        out = tmp_path / f"{number}.svg"
        done = invoke(
            "plot", str(store), "--metric", "bulk.goodput / total", *words, "--width", width, "--out", str(out)
        )
        assert done.exit_code == 0, done.output
        head = out.read_text(encoding="utf-8")[:1000]
        assert f'width="{72 * inches:g}pt"' in head


def test_a_width_that_is_none_is_refused(store):
    done = invoke("plot", str(store), "--width", "wide")
    assert str(done.exception) == "--width wide: give inches from 1 to 40, column (3.5) or page (7.2)"


def test_the_overview_of_a_capture_is_titled_without_a_bottleneck_and_a_seed() -> None:
    captures = Path(__file__).parents[2] / "docs/captures"
    opened = tb.capture.open_capture(captures / "phone.pcap.gz", captures / "gateway.pcap.gz")
    assert plots.get("overview")(opened).axes[0].get_title(loc="left") == "phone.pcap"
