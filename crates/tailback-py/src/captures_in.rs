//! Captures: reads files into columns for Python.

use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use numpy::PyArray1;
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tailback_capture::decode::Naming;
use tailback_capture::flows::{Flow, Flows};
use tailback_capture::pairing::{self, Count, Failure, Found, REVERSE, Unpaired};
use tailback_capture::rows::{self, Wanted};
use tailback_capture::source::{NoCapture, Source};
use tailback_capture::tcp::{Samples, Side, Track};

create_exception!(
    tailback._core,
    CaptureError,
    PyValueError,
    "A file that is no capture, or captures that do not belong together; the text says why, with counts."
);

fn no_capture(path: &Path, error: &NoCapture) -> PyErr {
    CaptureError::new_err(format!("{} {error}", path.display()))
}

/// Whether to go on: checks for signals while a file is read.
fn keep_on() -> bool {
    Python::attach(|py| py.check_signals().is_ok())
}

fn address(bytes: [u8; 16]) -> String {
    let address = Ipv6Addr::from(bytes);
    address.to_ipv4_mapped().map_or_else(|| address.to_string(), |v4| v4.to_string())
}

macro_rules! put {
    ($py:expr, $dict:expr, $($name:literal: $column:expr),+ $(,)?) => {
        $($dict.set_item($name, PyArray1::from_vec($py, $column))?;)+
    };
}

fn flow_columns<'py>(py: Python<'py>, flows: &Flows) -> PyResult<Bound<'py, PyDict>> {
    let all = &flows.all;
    let dict = PyDict::new(py);
    for (end, name) in ["client", "server"].into_iter().enumerate() {
        let addresses: Vec<String> = all.iter().map(|flow| address(flow.ends[end].0)).collect();
        dict.set_item(name, addresses)?;
        let ports: Vec<u16> = all.iter().map(|flow| flow.ends[end].1).collect();
        dict.set_item(format!("{name}_port"), PyArray1::from_vec(py, ports))?;
    }
    put!(py, dict,
        "protocol": all.iter().map(|flow| flow.protocol).collect::<Vec<u8>>(),
        "first_ns": all.iter().map(|flow| flow.first_ns).collect::<Vec<u64>>(),
        "last_ns": all.iter().map(|flow| flow.last_ns).collect::<Vec<u64>>(),
        "quic": all.iter().map(|flow| flow.is_quic).collect::<Vec<bool>>(),
    );
    for (side, prefix) in ["", "back_"].into_iter().enumerate() {
        side_columns(py, &dict, all, side, prefix)?;
    }
    Ok(dict)
}

fn side_columns(
    py: Python<'_>,
    dict: &Bound<'_, PyDict>,
    all: &[Flow],
    side: usize,
    prefix: &str,
) -> PyResult<()> {
    let whole = |name: &str, get: &dyn Fn(&Side) -> u64| -> PyResult<()> {
        let column: Vec<u64> = all.iter().map(|flow| get(&flow.talk.sides[side])).collect();
        // In a scan most columns are zero: for an all-zero array the system allocates no memory until it is written.
        let is_zero = column.iter().all(|value| *value == 0);
        let array =
            if is_zero { PyArray1::zeros(py, column.len(), false) } else { PyArray1::from_vec(py, column) };
        dict.set_item(format!("{prefix}{name}"), array)
    };
    whole("packets", &|it| it.packets)?;
    whole("bytes", &|it| it.bytes)?;
    whole("payload", &|it| it.payload)?;
    whole("data_packets", &|it| it.data_packets)?;
    whole("data_segments", &|it| it.track().data_segments)?;
    whole("retransmitted", &|it| it.track().retransmitted())?;
    whole("retransmitted_segments", &|it| it.track().retransmitted_segments)?;
    whole("repeated", &|it| it.track().repeated)?;
    whole("repaired", &|it| it.track().repaired)?;
    whole("retransmitted_bytes", &|it| it.track().retransmitted_bytes)?;
    whole("out_of_order", &|it| it.track().overtaken)?;
    whole("duplicate_acks", &|it| it.track().duplicate_acks)?;
    whole("probes", &|it| it.track().probes)?;
    whole("zero_windows", &|it| it.track().zero_windows)?;
    whole("sack_blocks", &|it| it.track().sack_blocks)?;
    whole("marked", &|it| it.marked)?;
    whole("mss", &|it| u64::from(it.mss))?;
    whole("flight_max", &|it| it.track().flight_max)?;
    whole("syn", &|it| u64::from(it.has_syn))?;
    whole("fin", &|it| u64::from(it.has_fin))?;
    whole("reset", &|it| u64::from(it.has_reset))?;
    whole("sack", &|it| u64::from(it.sack_permitted))?;
    whole("timestamps", &|it| u64::from(it.has_stamps))?;
    // 255: the option is missing.
    whole("scale", &|it| it.scale.map_or(255, u64::from))?;
    for (name, get) in [("rtt", (|it| &it.rtt) as fn(&Track) -> &Samples), ("stamp_rtt", |it| &it.stamp_rtt)]
    {
        let figure = |what: &str, of: &dyn Fn(&Samples) -> f64| -> PyResult<()> {
            let column: Vec<f64> = all
                .iter()
                .map(|flow| get(flow.talk.sides[side].track()))
                .map(|samples| if samples.count == 0 { f64::NAN } else { of(samples) })
                .collect();
            dict.set_item(format!("{prefix}{name}_{what}"), PyArray1::from_vec(py, column))
        };
        let count = |it: &Samples| it.count as f64;
        figure("count", &count)?;
        figure("min_s", &|it| it.min as f64 * 1e-9)?;
        figure("max_s", &|it| it.max as f64 * 1e-9)?;
        figure("mean_s", &|it| it.sum / count(it) * 1e-9)?;
        let deviation =
            |it: &Samples| (it.squares / count(it) - (it.sum / count(it)).powi(2)).max(0.0).sqrt() * 1e-9;
        figure("deviation_s", &deviation)?;
    }
    Ok(())
}

fn info<'py>(py: Python<'py>, flows: &Flows) -> PyResult<Bound<'py, PyDict>> {
    let (dict, skipped) = (PyDict::new(py), flows.skipped);
    dict.set_item("packets", flows.packets)?;
    dict.set_item("bytes", flows.bytes)?;
    dict.set_item("first_ns", flows.first_ns)?;
    dict.set_item("last_ns", flows.last_ns)?;
    for (name, count) in [
        ("not_ip", skipped.not_ip),
        ("broken", skipped.broken),
        ("unknown_link", skipped.unknown_link),
        ("headless", skipped.headless),
        ("orphans", skipped.orphans),
        ("fragments", skipped.fragments),
        ("oversize", skipped.oversize),
        ("backwards", skipped.backwards),
    ] {
        dict.set_item(name, count)?;
    }
    Ok(dict)
}

/// Reads a capture: `flows`, `info` and, if requested, `segments`, `blocks`, `datagrams` and `bins`.
#[pyfunction]
#[pyo3(signature = (path, segments=false, datagrams=false, bin_ns=0, only=Vec::new(), most_rows=20_000_000))]
pub fn capture_read<'py>(
    py: Python<'py>,
    path: PathBuf,
    segments: bool,
    datagrams: bool,
    bin_ns: u64,
    only: Vec<u32>,
    most_rows: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let wanted = Wanted { segments, datagrams, bin_ns, only, most_rows };
    let (read, frames, trouble) = py
        .detach(|| {
            let mut source = Source::open(&path)?;
            let read = rows::read(&mut source, &wanted, keep_on);
            Ok((read, source.frames, source.trouble))
        })
        .map_err(|error| no_capture(&path, &error))?;
    py.check_signals()?;
    let all = PyDict::new(py);
    all.set_item("flows", flow_columns(py, &read.flows)?)?;
    let about = info(py, &read.flows)?;
    about.set_item("frames", frames)?;
    about.set_item("trouble", trouble)?;
    about.set_item("too_many_rows", read.too_many)?;
    all.set_item("info", about)?;
    let (it, dict, blocks) = (read.segments, PyDict::new(py), PyDict::new(py));
    put!(py, dict,
        "t_ns": it.t_ns, "flow": it.flow, "reverse": it.reverse, "seq": it.seq, "length": it.length, "ack": it.ack,
        "window": it.window, "flags": it.flags, "class": it.class, "in_flight": it.in_flight, "outstanding": it.outstanding, "rtt_ns": it.rtt_ns,
        "stamp_rtt_ns": it.stamp_rtt_ns, "bytes": it.bytes, "ecn": it.ecn,
        "stamp": it.stamp, "echo": it.echo,
    );
    put!(py, blocks, "row": it.block_row, "start": it.block_start, "end": it.block_end);
    all.set_item("segments", dict)?;
    all.set_item("blocks", blocks)?;
    let (it, dict) = (read.datagrams, PyDict::new(py));
    put!(py, dict,
        "t_ns": it.t_ns, "flow": it.flow, "reverse": it.reverse, "bytes": it.bytes, "is_rtp": it.is_rtp,
        "rtp_number": it.rtp_number, "rtp_clock": it.rtp_clock, "rtp_source": it.rtp_source, "rtp_type": it.rtp_type,
    );
    all.set_item("datagrams", dict)?;
    let (it, dict) = (read.bins, PyDict::new(py));
    put!(py, dict,
        "flow": it.flow, "reverse": it.reverse, "bin": it.bin, "bytes": it.bytes, "packets": it.packets,
    );
    all.set_item("bins", dict)?;
    Ok(all)
}

fn unpaired(error: &Unpaired) -> PyErr {
    let seconds = |ns: u64| ns as f64 * 1e-9;
    let text = match error {
        Unpaired::NothingNamed { packets, short } => format!(
            "nothing can be paired: of {} and {} packets, {} and {} were cut too short. Capture at least 96 bytes of each \
             (tcpdump -s 96)",
            packets[0], packets[1], short[0], short[1]
        ),
        Unpaired::NothingCommon { packets, short, spans_ns: [a, b] } => {
            let is_apart = a.1 < b.0 || b.1 < a.0;
            let apart = if is_apart { "; they do not overlap in time" } else { "" };
            let cut = if *short == [0, 0] {
                String::new()
            } else {
                format!(
                    "; {} and {} more were cut too short to be named: capture at least 96 bytes of each (tcpdump -s 96)",
                    short[0], short[1]
                )
            };
            format!(
                "none of the first {} packets of one capture is among the first {} of the other (stamps {:.3} to {:.3} s \
                 and {:.3} to {:.3} s{apart}{cut}). Give captures of the same traffic; address translation between them, or \
                 cards that join packets (ethtool -K … gro off tso off gso off), hide it",
                packets[0],
                packets[1],
                seconds(a.0),
                seconds(a.1),
                seconds(b.0),
                seconds(b.1)
            )
        }
    };
    CaptureError::new_err(text)
}

/// Pairs two captures, or one that holds each packet twice: `flows`, `counts`, `delays`, `info` and, with `rows`,
/// `pairs` and `lost`.
#[pyfunction]
#[pyo3(signature = (first, second=None, horizon_ns=pairing::HORIZON_NS, rows=true))]
pub fn capture_pair<'py>(
    py: Python<'py>,
    first: PathBuf,
    second: Option<PathBuf>,
    horizon_ns: u64,
    rows: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let place = |which: usize| if which == 0 { &first } else { second.as_ref().unwrap_or(&first) };
    let work = || -> Result<Found, PyErr> {
        if second.is_none() {
            let mut source = Source::open(&first).map_err(|error| no_capture(&first, &error))?;
            let naming = pairing::naming(&mut [&mut source]);
            let mut source = Source::open(&first).map_err(|error| no_capture(&first, &error))?;
            return Ok(pairing::pair_within(&mut source, naming, horizon_ns, keep_on));
        }
        let mut failed = None;
        let open = |which: usize| {
            Source::open(place(which)).inspect_err(|error| failed = Some(no_capture(place(which), error)))
        };
        match pairing::pair(open, horizon_ns, keep_on) {
            Ok(found) => Ok(found),
            Err(Failure::Unpaired(error)) => Err(unpaired(&error)),
            Err(Failure::NoCapture(error)) => {
                Err(failed.unwrap_or_else(|| CaptureError::new_err(error.to_string())))
            }
        }
    };
    let (mut found, delays) = py.detach(|| {
        work().map(|found| {
            let delays = found.pairs.delays();
            (found, delays)
        })
    })?;
    py.check_signals()?;
    let all = PyDict::new(py);
    all.set_item("flows", flow_columns(py, &found.flows)?)?;
    let about = info(py, &found.flows)?;
    about.set_item("second_packets", found.b_packets)?;
    about.set_item("second_first_ns", found.b_first_ns)?;
    about.set_item("second_last_ns", found.b_last_ns)?;
    about.set_item("short", found.short)?;
    about.set_item("outside", found.outside)?;
    about.set_item("under_way", found.under_way)?;
    about.set_item("without_stamps", found.naming == Naming::WithoutStamps)?;
    about.set_item("strangers", found.strangers)?;
    about.set_item("crowded", found.crowded)?;
    about.set_item("trouble", std::mem::take(&mut found.trouble))?;
    about.set_item("pairs", found.pairs.flow.len())?;
    all.set_item("info", about)?;
    let dict = PyDict::new(py);
    let each = || found.counts.iter().flatten();
    let column = |get: fn(&Count) -> u64| each().map(get).collect::<Vec<u64>>();
    put!(py, dict,
        "flow": each().enumerate().map(|(number, _)| number as u32 / 2).collect::<Vec<u32>>(),
        "reverse": each().enumerate().map(|(number, _)| number % 2 == 1).collect::<Vec<bool>>(),
        "paired": column(|it| it.paired),
        "only_a": column(|it| it.only_a), "only_b": column(|it| it.only_b),
        "again_a": column(|it| it.again_a), "again_b": column(|it| it.again_b),
        "early_again_a": column(|it| it.early_again_a), "early_again_b": column(|it| it.early_again_b),
        "overtaken_a": column(|it| it.overtaken_a), "overtaken_b": column(|it| it.overtaken_b),
    );
    all.set_item("counts", dict)?;
    let dict = PyDict::new(py);
    put!(py, dict,
        "flow": delays.iter().map(|it| it.flow & !REVERSE).collect::<Vec<u32>>(),
        "reverse": delays.iter().map(|it| it.flow & REVERSE != 0).collect::<Vec<bool>>(),
        "min_ns": delays.iter().map(|it| it.min).collect::<Vec<i64>>(),
        "max_ns": delays.iter().map(|it| it.max).collect::<Vec<i64>>(),
        "mean_ns": delays.iter().map(|it| it.mean).collect::<Vec<f64>>(),
    );
    for (place, share) in pairing::QUANTILES.iter().enumerate() {
        let column: Vec<i64> = delays.iter().map(|it| it.quantiles[place]).collect();
        dict.set_item(format!("p{:02}_ns", (share * 100.0).round()), PyArray1::from_vec(py, column))?;
    }
    all.set_item("delays", dict)?;
    if rows {
        let (it, dict) = (std::mem::take(&mut found.pairs), PyDict::new(py));
        put!(py, dict,
            "reverse": it.flow.iter().map(|flow| flow & REVERSE != 0).collect::<Vec<bool>>(),
            "flow": it.flow.into_iter().map(|flow| flow & !REVERSE).collect::<Vec<u32>>(),
            "a_ns": it.a_ns, "b_ns": it.b_ns, "bytes": it.bytes,
        );
        all.set_item("pairs", dict)?;
        let (it, dict) = (std::mem::take(&mut found.lost), PyDict::new(py));
        put!(py, dict,
            "reverse": it.flow.iter().map(|flow| flow & REVERSE != 0).collect::<Vec<bool>>(),
            "flow": it.flow.into_iter().map(|flow| flow & !REVERSE).collect::<Vec<u32>>(),
            "t_ns": it.t_ns, "bytes": it.bytes, "second": it.is_second,
        );
        all.set_item("lost", dict)?;
    }
    Ok(all)
}
