"""Figures: every recipe draws, says what it needs, and writes whole files."""

from __future__ import annotations

import errno
from typing import Any

import polars as pl
import pytest
from matplotlib.figure import Figure

import tailback as tb
from synthetic import sawtooth
from tailback import plots
from tailback.files import whole_file
from tailback.metrics import Rows
from tailback.report import interactive


def options_of(name: str) -> dict[str, str]:
    """The sawtooth is no H-TCP, whose figure is of it only when a flow is named."""
    return {"flow": "tcp"} if name == "htcp-irregularities" else {}


@pytest.mark.parametrize("name", plots.names())
def test_every_recipe_draws_one_result(name):
    figure = plots.get(name)(sawtooth(), **options_of(name))
    assert isinstance(figure, Figure)
    assert figure.axes


@pytest.mark.parametrize("name", plots.names())
def test_every_recipe_draws_several_results(name):
    figure = plots.get(name)({"one": sawtooth(), "two": sawtooth(period_s=4.0, depth=0.4)}, **options_of(name))
    assert figure.axes


@pytest.mark.parametrize("name", plots.names())
def test_axes_carry_units_or_say_share(name):
    figure = plots.get(name)(sawtooth(), **options_of(name))
    labelled = [ax.get_ylabel() or ax.get_xlabel() for ax in figure.axes if ax.get_visible()]
    assert any(labelled)
    for text in filter(None, labelled):
        assert any(mark in text for mark in ("(", "share", "per", "%", "growth")), text


def test_no_result_hides_another_of_the_same_sender_and_path():
    figure = plots.get("median-delay-by-bdp")
    drawn = figure({"one": sawtooth(), "two": sawtooth(period_s=4.0, depth=0.4)}).axes[0]
    assert [line.get_label() for line in drawn.lines] == ["one", "two"]
    alone = [figure(each).axes[0].lines[0].get_ydata() for each in (sawtooth(), sawtooth(period_s=4.0, depth=0.4))]
    assert [line.get_ydata() for line in drawn.lines] == alone


def test_default_figure_exists():
    assert plots.default in plots.names()


def test_unknown_figure_suggests_the_nearest():
    with pytest.raises(plots.UnknownFigure, match="delay-cdf"):
        plots.get("delay-cfd")


def test_a_figure_whose_instrument_was_off_names_it():
    base = sawtooth()
    rows = Rows({k: v for k, v in base.tables.items() if k != "packets"}, base.scenario)
    with pytest.raises(plots.MissingRows, match=r"instruments\.packets"):
        plots.get("delay-cdf")(rows)


def test_overview_leaves_out_what_was_not_recorded():
    base = sawtooth()
    rows = Rows({k: v for k, v in base.tables.items() if k != "packets"}, base.scenario)
    assert len(plots.get("overview")(rows).axes) == len(plots.get("overview")(base).axes) - 1


def test_overview_of_a_run_without_instruments_shows_the_totals():
    base = sawtooth()
    described = {**base.scenario, "instruments": {}}
    rows = Rows({k: base.tables[k] for k in ("flows", "links", "congestion")}, described)
    assert "goodput" in plots.get("overview")(rows).axes[0].get_xlabel()


def test_saving_writes_png_and_pdf_and_nothing_else(tmp_path):
    figure = plots.get("delay-cdf")(sawtooth())
    paths = plots.save(figure, tmp_path / "figure")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figure.pdf", "figure.png"]
    assert sorted(paths) == sorted(tmp_path.iterdir())
    assert (tmp_path / "figure.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "figure.pdf").read_bytes()[:5] == b"%PDF-"


def test_a_suffix_chooses_the_format(tmp_path):
    assert plots.save(plots.get("loss")(sawtooth()), tmp_path / "x.svg") == [tmp_path / "x.svg"]


def test_the_same_rows_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        plots.save(plots.get("cwnd-and-queue")(sawtooth()), tmp_path / name)
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_drawing_leaves_matplotlibs_settings_alone():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    plots.get("overview")(sawtooth())
    assert dict(mpl.rcParams) == before


def test_a_figure_that_cannot_be_written_says_so_and_leaves_nothing(tmp_path):
    (tmp_path / "file").write_text("here first")
    with pytest.raises(tb.ResultError, match="not a folder"):
        plots.save(plots.get("loss")(sawtooth()), tmp_path / "file" / "figure")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_failure_while_writing_keeps_the_earlier_file(tmp_path):
    target = tmp_path / "figure.txt"
    target.write_text("earlier")

    def fail() -> None:
        with whole_file(target) as temporary:
            temporary.write_text("half of the")
            raise OSError(errno.ENOSPC, "no space")

    with pytest.raises(tb.ResultError, match="the disk is full"):
        fail()
    assert target.read_text() == "earlier"
    assert [p.name for p in tmp_path.iterdir()] == ["figure.txt"]


def test_epochs_of_twice_the_length_are_twice_as_wide():
    # Each panel had its own scale: 26 beside 50 s hid a ratio of 1.85.
    figure = plots.get("cwnd-and-queue")(
        {"short": sawtooth(duration_s=100.0), "long": sawtooth(period_s=16.0, duration_s=100.0)}
    )
    windows = [axes for axes in figure.axes if axes.get_ylabel() != "" or axes.get_title()]
    spans = {round(axes.get_xlim()[1] - axes.get_xlim()[0], 6) for axes in windows}
    assert len(spans) == 1
    assert spans.pop() >= 3 * 16.0


def test_a_polled_queue_is_whole_above_its_limit():
    base = tb.dumbbell(rate="10mbit", rtt="40ms", queue="6kB", flows=[tb.bulk("reno")], duration="20s")
    watched = {"polls": "all", "poll_interval": "1ms", "drops": "all"}
    limits, labels = {}, {}
    for instrument in ("queue_polls", "queues"):
        result = tb.run(base.with_(instruments=watched | {instrument: "all"}))
        bottom = plots.get("cwnd-and-queue")(result).axes[1]
        most = max(max(line.get_ydata()) for line in bottom.lines if line.get_drawstyle() == "steps-post")
        labels[instrument], limits[instrument] = bottom.get_ylabel(), most
        assert most < bottom.get_ylim()[1]
    # A poll counts the packet being sent, which the limit does not.
    assert limits == {"queue_polls": 7.5, "queues": 6.0}
    assert labels == {"queue_polls": "queue, with the packet\nbeing sent (kB)", "queues": "queue (kB)"}


def test_interactive_cells_have_one_time_scale():
    def summary(length: float) -> dict[str, Any]:
        t = [10.0, 10.0 + length]
        return {"series": {"cwnd": [t, [1.0, 2.0]], "queue": [t, [1.0, 2.0]]}, "limit_bytes": 1e5}

    spec = interactive.cells({"short": summary(26.0), "long": summary(50.0)}, {"short": "#000000", "long": "#000000"})
    assert spec is not None
    ranges = [spec["layout"][axis]["range"] for axis in ("xaxis", "xaxis2")]
    assert [high - low for low, high in ranges] == [50.0, 50.0]


def test_a_band_of_few_runs_is_called_their_range() -> None:
    from tailback.plots.sweeps import _band_words

    def words(*kinds: str) -> str:
        return _band_words(pl.DataFrame({"interval": list(kinds)}), 0.95)

    assert words("95 % interval", "7 equal runs") == "95 % interval"
    assert words("range of 3 runs", "none") == "range of 3 runs"
    assert words("range of 3 runs", "range of 5 runs") == "range of the runs"
    assert words("range of 3 runs", "95 % interval") == "95 % interval, or range of few runs"
