"""`tailback pcap …`: exports captures from results, and analyses captures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from tailback.cli._app import app
from tailback.cli._common import AsJson, BadInput, ResultFolder, beside, console, described, emit, print_rows, say
from tailback.files import whole_file
from tailback.lazy import lazy

with lazy():
    import polars as pl

    from tailback import capture
    from tailback.capture import export_all
    from tailback.capture.reading import derived, read
    from tailback.result import open_result

pcap = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Packet captures: export those of a run, and analyse any. See docs/captures.md.",
)
app.add_typer(pcap, name="pcap")


@pcap.command("export")
def export(
    result: ResultFolder,
    point: Annotated[
        list[str] | None, typer.Option(help="Only this point; may be repeated. Default: all captured points.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write to, instead of RESULT-pcap.")] = None,
    snap: Annotated[int, typer.Option(min=0, help="Bytes kept of each frame; 0 keeps all.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Write a result's captured packets as pcapng, one file per point.

    The scenario names the points: `[instruments] captures = ["left", "bottleneck.out"]`.

    - `tailback pcap export results/seven`

    - `tailback pcap export results/seven --point bottleneck.out --snap 96`
    """
    written = export_all(open_result(result), out or beside(result, "-pcap"), only=point or (), snap=snap)
    if as_json:
        emit({"files": [{"path": path, "packets": count} for path, count in written.items()]})
        return
    print_rows([{"packets": count, "file": str(path)} for path, count in written.items()])
    say(f"look with: wireshark {escape(str(next(iter(written))))}")


_First = Annotated[Path, typer.Argument(metavar="A", help="A capture: pcap or pcapng, plain, gzip or zstd.")]
_Second = Annotated[Path | None, typer.Argument(metavar="[B]", help="A capture of the same traffic at another point.")]
_Flow = Annotated[str | None, typer.Option(help="A flow by number or name, as `tailback pcap flows` lists them.")]
_Correct = Annotated[
    str, typer.Option(help="Correction of the second clock: `none`, its `offset`, or offset and `drift`.")
]
_Csv = Annotated[Path | None, typer.Option("--csv", help="Write the whole table to this file instead.")]
_SHOWN = 40


def _table(frame: Any, columns: Sequence[str], csv: Path | None, as_json: bool, **more: Any) -> None:
    """Print a table (some columns, first rows), or write all of it as JSON or to a file."""
    if csv is not None:
        with whole_file(csv) as partial:
            frame.write_csv(partial)
    if as_json:
        emit({"rows": frame.to_dicts(), **more})
        return
    if csv is not None:
        say(f"wrote: {escape(str(csv))} ({len(frame):,} rows)")
        return
    shown = frame.select([name for name in columns if name in frame.columns]).head(_SHOWN)
    print_rows([{key: _brief(value) for key, value in row.items()} for row in shown.iter_rows(named=True)])
    if len(frame) > _SHOWN:
        say(f"… and {len(frame) - _SHOWN:,} rows more: --csv FILE writes them all")


def _brief(value: Any) -> Any:
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"
    return "" if value is None else value


def _notes(notes: Sequence[str]) -> None:
    for note in notes:
        say(f"[bold]note:[/bold] {escape(note)}")


@pcap.command("flows")
def flows(a: _First, csv: _Csv = None, as_json: AsJson = False) -> None:
    """List a capture's flows: addresses, volume, retransmissions, reordering, RTT, options.

    Columns of what the server sent begin with `back_` (with --csv and --json). RTTs are from the capture's point to the
    other end and back.

    - `tailback pcap flows download.pcap.gz`
    """
    found = read(a)
    columns = ("flow", "name", "start_s", "duration_s", "packets", "back_packets", "payload", "back_payload",
               "retransmitted", "back_retransmitted", "out_of_order", "back_out_of_order", "rtt_min_s", "rtt_mean_s",
               "loss")  # fmt: skip
    _table(derived(found.flows), columns, csv, as_json, info=found.info, notes=found.notes)
    if not as_json:
        _notes(found.notes)


@pcap.command("owd")
def owd(a: _First, b: _Second = None, correct: _Correct = "none", csv: _Csv = None, as_json: AsJson = False) -> None:
    """One-way delays between two captures of the same packets, or within one that holds each packet twice.

    Losses, duplicates and reordering between the points are counted, and the clocks compared.

    - `tailback pcap owd sender.pcapng receiver.pcapng --correct offset`

    - `tailback pcap owd both-sides.pcap`
    """
    found = capture.owd(a, b, correct=correct)
    clocks = dataclasses.asdict(found.clocks)
    columns = ("name", "from_to", "paired", "lost", "duplicated", "reordered", "min_ms", "p50_ms", "p95_ms", "max_ms")
    _table(found.table, columns, csv, as_json, clocks=clocks, notes=list(found.notes))
    if not as_json:
        _notes(found.notes)


@pcap.command("rtt")
def rtt(
    a: _First,
    b: _Second = None,
    flow: _Flow = None,
    method: Annotated[str, typer.Option(help="With one capture: `karn` (as tcptrace) or `timestamps`.")] = "karn",
    csv: _Csv = None,
    as_json: AsJson = False,
) -> None:
    """Round trips: from one capture by Karn's rule or timestamps, from two by synthetic packet pairs (SPP).

    - `tailback pcap rtt server.pcapng`

    - `tailback pcap rtt server.pcapng client.pcapng --csv pairs.csv`
    """
    samples = capture.rtt(a, b, flow=flow, method=method)
    milli = pl.col("rtt_s") * 1e3
    summary = samples.group_by("flow", "direction", maintain_order=True).agg(
        samples=pl.len(), min_ms=milli.min(), median_ms=milli.median(), mean_ms=milli.mean(),
        p95_ms=milli.quantile(0.95), max_ms=milli.max(),
    )  # fmt: skip
    _table(samples if csv is not None else summary, summary.columns, csv, as_json)


@pcap.command("throughput")
def throughput(
    a: _First,
    interval: Annotated[float, typer.Option(min=1e-6, help="Seconds a bin.")] = 1.0,
    by: Annotated[str, typer.Option(help="`flow` (each direction), `host` (sent by each address) or `all`.")] = "all",
    csv: _Csv = None,
    as_json: AsJson = False,
) -> None:
    """Throughput in bins of time, as tcpstat: IP bytes of all packets, retransmissions included.

    - `tailback pcap throughput uplink.pcap --interval 0.1 --by host --csv uplink.csv`
    """
    _table(capture.throughput(a, bin_s=interval, by=by), ("t_s", "who", "packets", "bytes", "bps"), csv, as_json)


@pcap.command("window")
def window(
    a: _First,
    flow: _Flow = None,
    out: Annotated[Path | None, typer.Option(help="A .html (zoomable), .png, .pdf or .svg file.")] = None,
    start: Annotated[float | None, typer.Option("--from", help="Seconds: draw only what comes after.")] = None,
    end: Annotated[float | None, typer.Option("--until", help="Seconds: draw only what comes before.")] = None,
    csv: _Csv = None,
    as_json: AsJson = False,
) -> None:
    """Bytes in flight, estimated cwnd, and tcptrace's time–sequence plot of one connection.

    - `tailback pcap window server.pcapng --flow 0 --out sequence.html`
    """
    found = capture.window(a, flow)
    target = out or a.with_name(f"{a.name.split('.')[0]}-sequence.html")
    if csv is not None or as_json:
        _table(found.sent, found.sent.columns, csv, as_json, flow=found.name)
        return
    if target.suffix == ".html":
        capture.write_page(found, target)
    else:
        if target.suffix not in (".png", ".pdf", ".svg"):
            raise BadInput(f"--out {target}: give a file that ends in .html, .png, .pdf or .svg")
        with whole_file(target) as partial:
            capture.draw(found, start_s=start, end_s=end).savefig(partial, format=target.suffix[1:], dpi=150)
    counts = dict(found.sent.group_by("what").len().iter_rows())
    print_rows([{"flow": found.name, **counts, "flight_max_bytes": found.sent["in_flight"].max(),
                 "sack_blocks": len(found.blocks)}])  # fmt: skip
    say(f"figure: {escape(str(target))}")


@pcap.command("voip")
def voip(a: _First, b: _Second = None, correct: _Correct = "none", csv: _Csv = None, as_json: AsJson = False) -> None:
    """Calls: loss, delay, jitter and MOS of RTP or fixed-size UDP streams.

    - `tailback pcap voip phone.pcapng gateway.pcapng --correct offset`
    """
    found = capture.voip(a, b, correct=correct)
    unknown = ", ".join(found.filter(pl.col("mos").is_null())["flow"].unique(maintain_order=True))
    why = f"{unknown}: no packet was seen in both captures, so jitter, delay and mos are unknown"
    if b is None:
        why = (
            "one capture shows no transit times: jitter supposes even sending times, or RTP's; delay, mos and, without "
            "RTP, loss need a second capture"
        )
    notes = [why] if unknown else []
    _table(found, found.columns, csv, as_json, notes=notes)
    if not as_json:
        _notes(notes)


@pcap.command("identify")
def identify(
    a: _First,
    flow: _Flow = None,
    least_bytes: Annotated[int, typer.Option(min=1, help="Skip connections with less payload.")] = 100_000,
    csv: _Csv = None,
    as_json: AsJson = False,
) -> None:
    """Identify the congestion control of each connection's sender: an algorithm, a family, or "unknown".

    QUIC flows are only listed, as their acknowledgements are encrypted. The capture may be from any point of the path.
    The confidence is the accuracy of such answers on runs that were not used for training; docs/identify.md has the
    confusion matrix.

    - `tailback pcap identify download.pcap`
    """
    found = capture.identify(a, flow, least_bytes=least_bytes)
    frame = pl.DataFrame([it.row() for it in found])
    _table(frame, frame.columns, csv, as_json, votes=[{"flow": it.name, **it.votes} for it in found])


@pcap.command("open")
def open_(
    a: _First,
    b: _Second = None,
    out: Annotated[Path | None, typer.Option(help="Save the result to this folder.")] = None,
    correct: _Correct = "none",
    as_json: AsJson = False,
) -> None:
    """Open a capture, or a pair of them, as a result: show, plot, report and compare work on it.

    The first is taken at the senders' side. The result states what is measured and what is inferred.

    - `tailback pcap open sender.pcapng receiver.pcapng --out results/measured`
    """
    result = capture.open_capture(a, b, correct=correct)
    saved = result.save(out) if out is not None else None
    if as_json:
        emit(described(result) | {"saved": saved})
        return
    console().print(result)
    _notes(result.meta["warnings"])
    if out is not None:
        say(f"saved: {escape(str(out))}   look again with: tailback show {escape(str(out))}")


@pcap.command("siftr")
def siftr(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A SIFTR log, or with --result the file to write.")],
    result: Annotated[Path | None, typer.Option(help="Write a flow of this result, instead of reading.")] = None,
    flow: Annotated[str | None, typer.Option(help="The flow to write.")] = None,
    csv: _Csv = None,
    as_json: AsJson = False,
) -> None:
    """Read a log of FreeBSD's siftr(4), or write one from a result.

    - `tailback pcap siftr siftr.log --csv siftr.csv`

    - `tailback pcap siftr bulk.log --result results/seven --flow bulk`
    """
    if result is not None:
        opened = open_result(result)
        written = opened.to_siftr(log, flow if flow is not None else opened.flow_names[0])
        emit({"file": written}) if as_json else say(f"wrote: {escape(str(written))}")
        return
    about, frame = capture.siftr(log)
    columns = ("t_s", "direction", "local_ip", "foreign_ip", "cwnd", "ssthresh", "srtt_s", "rto_s", "in_flight")
    _table(frame, columns, csv, as_json, about=about)
    if "partial" in about and not as_json:
        _notes([about["partial"]])


@pcap.command("web100")
def web100(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A polled log, or with --result the file to write.")],
    result: Annotated[
        Path | None, typer.Option(help="Write a flow's polls of this result, instead of reading.")
    ] = None,
    flow: Annotated[str | None, typer.Option(help="The flow to write.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read a polled log with Web100's variables (CSV), or write one from a result's polls.

    - `tailback pcap web100 bulk.csv --result results/seven --flow bulk`
    """
    if result is not None:
        opened = open_result(result)
        written = capture.write_web100(opened, log, flow if flow is not None else opened.flow_names[0])
        emit({"file": written}) if as_json else say(f"wrote: {escape(str(written))}")
        return
    frame = capture.web100(log)
    _table(frame, frame.columns, None, as_json)


@pcap.command("flent")
def flent(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .flent.gz file, or with --result the file to write.")],
    result: Annotated[Path | None, typer.Option(help="Write this result, instead of reading.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save what was read as a result to this folder.")] = None,
    csv: _Csv = None,
    as_json: AsJson = False,
) -> None:
    """Read a data file of Flent, or write one from a result: Flent opens and plots it.

    A file that is read becomes a result: show, plot, report and compare work on it.

    - `tailback pcap flent rrul-2024.flent.gz --out results/measured`

    - `tailback pcap flent seven.flent.gz --result results/seven`
    """
    if result is not None:
        written = capture.write_flent(open_result(result), file)
        emit({"file": written}) if as_json else say(f"wrote: {escape(str(written))}   flent -i {escape(str(written))}")
        return
    found = capture.flent(file)
    if csv is not None or as_json:
        _table(found.series, found.series.columns, csv, as_json, test=found.test, title=found.title, units=found.units)
    opened = capture.open_flent(file)
    if not as_json:
        console().print(opened)
        _notes(opened.meta["notes"])
    if out is not None:
        saved = opened.save(out)
        if not as_json:
            say(f"saved: {escape(str(saved))}   look again with: tailback show {escape(str(saved))}")
