"""Figures apply to what they show: lists, looks, captions and windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from typer.testing import CliRunner

import tailback as tb
from tailback import cli, examples, metrics, plots, report
from tailback.errors import TailbackError
from tailback.plots import flows, style, timeseries

ALL = {"polls": "all", "queue_polls": "all", "packets": "all", "drops": "all", "poll_interval": "50ms"}


def made(**changes: object) -> tb.Result:
    """A download and an upload, and five flows over UDP in two directions."""
    base = tb.dumbbell(
        rate="10mbit",
        back_rate="5mbit",
        rtt="40ms",
        flows=[
            tb.bulk("cubic", name="download"),
            tb.bulk("reno", name="upload", from_="right"),
            tb.voip(name="call", two_way=True),
            tb.flow("media", name="film", two_way=True),
            tb.flow("udp-cbr", name="steady"),
        ],
        duration="3s",
        instruments=ALL,
    )
    return tb.run(base.with_(changes) if changes else base)


@pytest.fixture(scope="module")
def many() -> tb.Result:
    return made()


@pytest.fixture(scope="module")
def plain() -> tb.Result:
    return tb.run(tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.bulk("cubic")], duration="2s"))


def complaint(*words: object) -> str:
    done = CliRunner().invoke(cli.app, [str(word) for word in words])
    assert isinstance(done.exception, TailbackError), done.output
    return str(done.exception)


def invoke(*words: object) -> None:
    done = CliRunner().invoke(cli.app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output


def test_every_flow_and_the_queue_have_a_look_of_their_own(many: tb.Result) -> None:
    looks = flows.line_styles({"": metrics.Rows.of(many)})
    assert len({(look.colour, look.style) for look in looks.values()}) == len(many.flow_names)
    queue = [ax for ax in plots.get("overview")(many).axes if "queue" in ax.get_ylabel()]
    ink = {to_hex(line.get_color()) for ax in queue for line in ax.lines if line.get_linewidth() < 0.7}
    assert ink.isdisjoint({look.colour.lower() for look in looks.values()})


def test_the_overview_shows_films_and_pages() -> None:
    home = tb.run(tb.Scenario.from_toml(examples.located("household")).with_({"duration": "20s"}))
    panels = {panel.title: panel for panel in timeseries.single(metrics.Rows.of(home))}
    times, rates = metrics.film_series(home, "film")
    assert np.mean(rates) == pytest.approx(metrics.film(home, "film").bitrate_bps)
    assert times[0] - 15.0 == pytest.approx(metrics.film(home, "film").startup_s, abs=0.5)
    assert list(panels["bitrate of film"].curves[0].y) == list(rates / 1e6)
    loads = [load.load_time_s for load in metrics.page_loads(home, "page")]
    assert list(panels["page load"].curves[0].y) == [load for load in loads if load > 0]
    both = [panel.title for panel in timeseries.panels({"a": metrics.Rows.of(home), "b": metrics.Rows.of(home)})]
    assert {"bitrate of film", "page load"} <= set(both)


def test_forty_flows_have_forty_looks() -> None:
    crowd = [tb.bulk("cubic", name=f"t{n}") for n in range(20)] + [tb.voip(name=f"u{n}") for n in range(20)]
    rows = metrics.Rows.of(tb.run(tb.dumbbell(rate="10mbit", rtt="40ms", flows=crowd, duration="0.1s")))
    looks = flows.line_styles({"": rows}).values()
    assert len({(look.colour, look.style) for look in looks}) == 40


def test_names_of_many_flows_stand_in_one_legend_without_the_queue() -> None:
    crowd = [tb.bulk("cubic", name=f"t{n}") for n in range(6)]
    run = tb.run(tb.dumbbell(rate="10mbit", rtt="40ms", flows=crowd, duration="0.5s", instruments=ALL))
    (legend,) = plots.get("overview")(run).legends
    assert [text.get_text() for text in legend.get_texts()] == run.flow_names


def test_every_watched_queue_is_in_the_first_figure_and_its_caption_names_the_panels(many: tb.Result) -> None:
    titles = [panel.title for panel in timeseries.single(metrics.Rows.of(many))]
    assert titles[:2] == ["congestion window", "smoothed RTT"]
    assert titles[2:] == ["queue at bottleneck", "queue at return", "one-way delay", "throughput"]
    figure = plots.get("overview")(many)
    assert [ax.get_ylabel().replace("\n", " ").split(" (")[0] for ax in figure.axes] == titles
    page = report.single(many)
    assert f"Over time, from the top: {', '.join(titles)}." in page
    spec = report._overview_spec(metrics.Rows.of(many))
    assert spec is not None
    headings = [f"<b>{title}</b>" for title in titles]
    assert [each["text"] for each in spec["layout"]["annotations"] if each["text"] in headings] == headings
    units = [layout["title"]["text"] for key, layout in spec["layout"].items() if key.startswith("yaxis")]
    assert units == ["segments", "ms", "kB", "kB", "ms", "Mbit/s"]
    assert "limit 25 kB" in [each["text"] for each in spec["layout"]["annotations"]]
    over = plots.get("overview")({"a": many, "b": many})
    assert [ax.get_ylabel().split("\n")[0] for ax in over.axes if "queue" in ax.get_ylabel()] == titles[2:4]


def test_a_path_is_one_path_whatever_its_queue(many: tb.Result) -> None:
    def title(**changes: object) -> str:
        return plots.get("delay-cdf")({"a": many, "b": made(**changes)}).axes[0].get_title(loc="left")

    assert title(seed=2) == "10 Mbit/s, RTT 40 ms, queue 50 kB; whole run"
    assert title(**{"dumbbell.queue": "fq_codel"}) == "10 Mbit/s, RTT 40 ms, several queues; whole run"
    assert title(**{"dumbbell.rtt": "80ms"}) == "several paths; whole run"


def test_only_figures_that_apply_are_listed_and_no_table_is_read_for_it(many: tb.Result, tmp_path: Path) -> None:
    kept = tb.open_result(many.save(tmp_path / "kept"))
    listed = [recipe.name for recipe in plots.drawable(kept)]
    assert "htcp-irregularities" not in listed
    assert "response-times" not in listed
    assert "delay-cdf" in listed
    # The links' totals say which link is the bottleneck.
    assert set(kept._tables) <= {"links", "flows"}


@pytest.mark.parametrize("name", [recipe.name for recipe in plots.catalogue()])
def test_what_is_listed_can_be_drawn(many: tb.Result, plain: tb.Result, name: str) -> None:
    htcp = made(**{"flow.download.cc": "htcp"})
    for result in (many, plain, htcp):
        if name in [recipe.name for recipe in plots.drawable(result)]:
            assert plots.get(name)(result).axes
    if name == "htcp-irregularities":
        assert name in [recipe.name for recipe in plots.drawable(htcp)]
        with pytest.raises(plots.MissingRows, match="H-TCP"):
            plots.get(name)(many)


@pytest.fixture(scope="module")
def folder(many: tb.Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return many.save(tmp_path_factory.mktemp("figures") / "kept")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--from", 50, "--until", 10), ["--from 50", "--until 10"]),
        (("--from", 2, "--until", 2), ["--from 2", "--until 2"]),
        (("--from", 3), ["--from 3", "3 s"]),
        (("--from", -1), ["--from -1"]),
        (("--until", 0), ["--until 0"]),
    ],
)
def test_a_window_that_holds_nothing_is_refused(folder: Path, options: tuple[object, ...], named: list[str]) -> None:
    found = complaint("plot", folder, *options, "--out", folder.parent / "never.png")
    assert all(word in found for word in named), found
    assert not (folder.parent / "never.png").exists()


def test_a_format_that_cannot_be_written_is_refused_with_those_that_can(folder: Path) -> None:
    found = complaint("plot", folder, "--out", folder.parent / "x.gif")
    assert all(ending in found for ending in (".gif", ".png", ".pdf", ".svg"))
    assert not list(folder.parent.glob("x.gif*"))
    # A dot in a name is no format.
    invoke("plot", folder, "--out", folder.parent / "rate-1.5")
    assert sorted(path.name for path in folder.parent.glob("rate-1.5*")) == ["rate-1.5.pdf", "rate-1.5.png"]


def test_flows_and_a_title_can_be_chosen(many: tb.Result, folder: Path) -> None:
    figure = plots.get("throughput")(plots.only({"one": many}, "upload"))
    assert [line.get_label() for line in figure.axes[0].lines if not line.get_label().startswith("_")] == ["upload"]
    out = folder.parent / "titled.svg"
    invoke("plot", folder, "--flow", "call.back", "--figure", "delay-cdf", "--title", "A title", "--out", out)
    assert "A title" in out.read_text(encoding="utf-8")
    assert 'Did you mean "call"?' in complaint("plot", folder, "--flow", "cal", "--out", out)


def test_each_result_has_a_label_or_none_has(many: tb.Result, folder: Path) -> None:
    again = many.save(folder.parent / "again")
    assert "--label" in complaint("plot", folder, again, "--label", "one", "--out", folder.parent / "no.png")
    assert "--label" in complaint("plot", folder, again, "--label", "one", "--label", "one", "--out", "no.png")
    out = folder.parent / "labelled.svg"
    invoke("plot", folder, again, "--label", "the first", "--label", "the second", "--flow", "download", "--out", out)
    assert all(label in out.read_text(encoding="utf-8") for label in ("the first", "the second"))


def test_the_smallest_number_of_bins_is_drawn(plain: tb.Result) -> None:
    assert np.isfinite(metrics.goodput(plain, 0))
    assert plots.get("overview")(plain).axes


def test_the_overview_of_several_results_names_the_flow_and_has_one_axis_of_time() -> None:
    one = tb.run(
        tb.dumbbell(rate="10mbit", rtt="40ms", flows=[tb.bulk("cubic")], duration="2s", instruments={"polls": "all"})
    )
    figure = plots.get("overview")({"a": one, "b": one})
    labels = [ax.get_ylabel().replace("\n", " ") for ax in figure.axes]
    (flow,) = (rows := metrics.Rows.of(one)).tcp_flows
    assert f"congestion window of {rows.flow_names[flow]} (segments)" in labels
    assert {ax.get_xlim() for ax in figure.axes} == {(0.0, rows.duration_s)}
    # In print without colours, too, a result has a line of its own.
    styles = {str(line.get_linestyle()) for line in figure.axes[0].lines}
    assert len(styles) == 2


def test_labels_at_the_ends_of_lines_stay_beside_their_panel() -> None:
    ((ax,),) = style.new_figure()[1]
    ax.set_ylim(0, 10)
    style.label_ends(ax, [(1.0, 10.0, name, "black") for name in "abcd"], gap=0.16)
    heights = sorted(text.xy[1] for text in ax.texts)
    assert heights[-1] <= 10
    assert min(np.diff(heights)) == pytest.approx(1.6)
