//! Captures: the Python interface of `tailback-capture` for writing.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use numpy::{Element, PyReadonlyArray1};
use pyo3::exceptions::{PyKeyError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tailback_capture::frames::{self, Builder, Connection, Flow, Headers, Kind, LINK_BYTES};
use tailback_capture::write::{About, Writer};

/// A column of a table passed by Python.
fn column<'py, T: Element>(table: &Bound<'py, PyDict>, name: &str) -> PyResult<PyReadonlyArray1<'py, T>> {
    let array = table.get_item(name)?.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
    array
        .extract()
        .map_err(|_| PyValueError::new_err(format!("column {name} has another type than expected")))
}

/// An error for a table with a missing or wrong column.
fn odd(what: &str) -> PyErr {
    PyValueError::new_err(format!("the tables of captures do not fit together: {what}"))
}

/// A flow as Python passes it: kind, nodes of client and server, RTP clock step, IP version.
type FlowTuple = (String, [u16; 2], u32, u8);

fn flow_of((kind, nodes, rtp_step, ip): &FlowTuple) -> PyResult<Flow> {
    let kind = match kind.as_str() {
        "tcp" => Kind::Tcp,
        "rtp" => Kind::Rtp,
        "echo" => Kind::Echo,
        "udp" => Kind::Udp,
        other => return Err(PyValueError::new_err(format!("there is no kind of packets {other}"))),
    };
    Ok(Flow { kind, nodes: *nodes, rtp_step: *rtp_step, is_v6: *ip == 6 })
}

fn connections_of(table: &Bound<'_, PyDict>) -> PyResult<HashMap<(u32, u32), Connection>> {
    let (flow, connection) = (column::<u32>(table, "flow")?, column::<u32>(table, "connection")?);
    let (mss, back_mss) = (column::<u32>(table, "mss")?, column::<u32>(table, "back_mss")?);
    let [timestamps, sack] = [column::<bool>(table, "timestamps")?, column::<bool>(table, "sack")?];
    let [scaling, ecn] = [column::<bool>(table, "scaling")?, column::<bool>(table, "ecn")?];
    let [scale, back_scale] = [column::<u8>(table, "scale")?, column::<u8>(table, "back_scale")?];
    let (flow, connection) = (flow.as_array(), connection.as_array());
    let mut all = HashMap::new();
    for row in 0..flow.len() {
        let timestamps = timestamps.as_array()[row];
        // RFC 6691: the MSS option does not subtract TCP options.
        let whole = |mss: u32| (mss + if timestamps { 12 } else { 0 }).min(65_535) as u16;
        let it = Connection {
            mss: [whole(mss.as_array()[row]), whole(back_mss.as_array()[row])],
            timestamps,
            sack: sack.as_array()[row],
            scaling: scaling.as_array()[row],
            ecn: ecn.as_array()[row],
            scale: [scale.as_array()[row], back_scale.as_array()[row]],
        };
        all.insert((flow[row], connection[row]), it);
    }
    Ok(all)
}

/// The addresses of a flow's client and server, by its number and IP version.
#[pyfunction]
pub fn flow_addresses(number: u32, ip: u8) -> [String; 2] {
    frames::addresses(number, ip == 6).map(|address| address.to_string())
}

/// Writes a run's packets at one point as pcapng; returns their number. `about` is comment, name, description and snap
/// length; `wire` has the point's rows; `headers`, `sacks` and `connections` are the result's tables.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "one argument a table")]
pub fn capture_write(
    py: Python<'_>,
    path: PathBuf,
    about: (String, String, String, u32),
    flows: Vec<FlowTuple>,
    wire: &Bound<'_, PyDict>,
    headers: &Bound<'_, PyDict>,
    sacks: &Bound<'_, PyDict>,
    connections: &Bound<'_, PyDict>,
) -> PyResult<u64> {
    let flows: Vec<Flow> = flows.iter().map(flow_of).collect::<PyResult<_>>()?;
    let connections = connections_of(connections)?;
    let (t_ps, rows, ecn) =
        (column::<u64>(wire, "t_ps")?, column::<u32>(wire, "header")?, column::<u8>(wire, "ecn")?);
    let [seq, ack, window] =
        [column::<u64>(headers, "seq")?, column(headers, "ack")?, column(headers, "window")?];
    let [ts_val, ts_ecr, number] =
        [column::<u64>(headers, "ts_val_ps")?, column(headers, "ts_ecr_ps")?, column(headers, "number")?];
    let [flow, connection, bytes] =
        [column::<u32>(headers, "flow")?, column(headers, "connection")?, column(headers, "bytes")?];
    let [ip_id, stream] = [column::<u16>(headers, "ip_id")?, column(headers, "stream")?];
    let [flags, blocks] = [column::<u8>(headers, "flags")?, column(headers, "blocks")?];
    let reverse = column::<bool>(headers, "reverse")?;
    let (block_start, block_end) = (column::<u64>(sacks, "start")?, column::<u64>(sacks, "end")?);

    let pairs: Vec<(u64, u64)> =
        block_start.as_array().iter().zip(block_end.as_array()).map(|(start, end)| (*start, *end)).collect();
    let mut first_block = vec![0usize];
    for count in blocks.as_array() {
        first_block.push(first_block[first_block.len() - 1] + usize::from(*count));
    }
    if first_block[first_block.len() - 1] != pairs.len() {
        return Err(odd("headers count other SACK blocks than header_sacks has"));
    }
    let (comment, name, description, snap) = about;
    let file = File::create(&path).map_err(|error| PyOSError::new_err(error.to_string()))?;
    let about = About { comment, name, description, snap };
    let failed = |error: std::io::Error| PyOSError::new_err(error.to_string());
    let mut writer = Writer::new(BufWriter::with_capacity(1 << 20, file), &about).map_err(failed)?;
    let mut builder = Builder::default();
    let none = Connection::default();
    for (place, (t_ps, row)) in t_ps.as_array().iter().zip(rows.as_array()).enumerate() {
        let row = *row as usize;
        if place % 65_536 == 0 {
            py.check_signals()?;
        }
        let range = first_block.get(row).zip(first_block.get(row + 1));
        let (start, end) = range.ok_or_else(|| odd("wire names a row that headers has not"))?;
        let it = Headers {
            flow: flow.as_array()[row],
            is_reverse: reverse.as_array()[row],
            connection: connection.as_array()[row],
            seq: seq.as_array()[row],
            ack: ack.as_array()[row],
            window: window.as_array()[row],
            ts_val_ps: ts_val.as_array()[row],
            ts_ecr_ps: ts_ecr.as_array()[row],
            flags: flags.as_array()[row],
            bytes: bytes.as_array()[row],
            ip_id: ip_id.as_array()[row],
            stream: stream.as_array()[row],
            number: number.as_array()[row],
            blocks: &pairs[*start..*end],
        };
        let flow = flows
            .get(it.flow as usize)
            .ok_or_else(|| odd("headers names a flow that the scenario has not"))?;
        let agreed = connections.get(&(it.flow, it.connection)).unwrap_or(&none);
        let frame = builder
            .build(&it, flow, agreed, ecn.as_array()[place])
            .ok_or_else(|| odd(&format!("a packet of {} bytes has no room for its headers", it.bytes)))?;
        writer.packet(t_ps / 1000, frame, frame.len() as u32).map_err(failed)?;
    }
    writer.finish().map_err(failed)
}

/// Writes a live run's packets at one point as pcapng; returns their number. `about` and `wire` are as for
/// `capture_write`, `nodes` are those of each flow's client and server, `frames` and `frame_bytes` the result's tables.
#[pyfunction]
pub fn capture_write_real(
    py: Python<'_>,
    path: PathBuf,
    about: (String, String, String, u32),
    nodes: Vec<[u16; 2]>,
    wire: &Bound<'_, PyDict>,
    frames: &Bound<'_, PyDict>,
    frame_bytes: &Bound<'_, PyDict>,
) -> PyResult<u64> {
    let (t_ps, rows, ecn) =
        (column::<u64>(wire, "t_ps")?, column::<u32>(wire, "header")?, column::<u8>(wire, "ecn")?);
    let (flow, bytes) = (column::<u32>(frames, "flow")?, column::<u32>(frames, "bytes")?);
    let (reverse, kept) = (column::<bool>(frames, "reverse")?, column::<u8>(frames, "kept")?);
    let all = column::<u8>(frame_bytes, "byte")?;
    let all: Vec<u8> = all.as_array().iter().copied().collect();
    let mut starts = vec![0usize];
    for count in kept.as_array() {
        starts.push(starts[starts.len() - 1] + usize::from(*count));
    }
    if starts[starts.len() - 1] != all.len() {
        return Err(odd("frames count other bytes than frame_bytes has"));
    }
    let (comment, name, description, snap) = about;
    let file = File::create(&path).map_err(|error| PyOSError::new_err(error.to_string()))?;
    let about = About { comment, name, description, snap };
    let failed = |error: std::io::Error| PyOSError::new_err(error.to_string());
    let mut writer = Writer::new(BufWriter::with_capacity(1 << 20, file), &about).map_err(failed)?;
    let mut builder = Builder::default();
    for (place, (t_ps, row)) in t_ps.as_array().iter().zip(rows.as_array()).enumerate() {
        let row = *row as usize;
        if place % 65_536 == 0 {
            py.check_signals()?;
        }
        let range = starts.get(row).zip(starts.get(row + 1));
        let (start, end) = range.ok_or_else(|| odd("wire names a row that frames has not"))?;
        let ends = nodes
            .get(flow.as_array()[row] as usize)
            .ok_or_else(|| odd("frames names a flow that the scenario has not"))?;
        let frame = builder
            .real(&all[*start..*end], *ends, reverse.as_array()[row], ecn.as_array()[place])
            .ok_or_else(|| odd("a packet of frames has no IP header"))?;
        writer.packet(t_ps / 1000, frame, bytes.as_array()[row] + LINK_BYTES).map_err(failed)?;
    }
    writer.finish().map_err(failed)
}
