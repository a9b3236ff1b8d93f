//! Reads a packet capture in the web page: its flows, and as polls what each carried and its round-trip times.
//!
//! The result has the form of a run, so the same code draws both. Bytes, retransmissions and round trips (from the
//! capture's point to the receiver and back) are measured. The window is an estimate: the bytes in flight minus what
//! SACK blocks report. This code reads neither files nor a clock.

use std::net::Ipv6Addr;

use serde_json::{Value, json};
use tailback_capture::flows::{Flow, Flows};
use tailback_capture::source::{NoCapture, Source};
use tailback_capture::tcp::{Class, Seen, Side};

/// Number of flows shown: those with most payload.
const MOST_FLOWS: usize = 50;
/// Number of polls per flow.
const POLLS: u64 = 600;
/// Most RTT samples kept per flow for its quantiles.
const MOST_SAMPLES: usize = 200_000;
const TCP: u8 = 6;
const PING: [u8; 2] = [1, 58];

/// What every flow carried, at equally spaced times; rows are in order of time.
#[derive(Debug, Default)]
pub struct Polls {
    /// Seconds since the first packet.
    pub t_s: Vec<f64>,
    /// Index of the flow.
    pub flow: Vec<u32>,
    /// Estimated window in bytes (NaN: nothing is in flight yet).
    pub cwnd: Vec<f64>,
    /// Mean round-trip time since the previous poll, in seconds (NaN: no sample).
    pub srtt_s: Vec<f64>,
    /// Payload seen so far, each byte once.
    pub bytes_arrived: Vec<f64>,
}

/// A capture as the page shows it.
#[derive(Debug)]
pub struct Captured {
    /// Names of the flows.
    pub names: Vec<String>,
    /// The rows.
    pub polls: Polls,
    /// Summaries, description and warnings.
    pub summary: Value,
}

/// State of one flow while reading.
#[derive(Debug, Default)]
struct Track {
    is_reverse: bool,
    fresh: u64,
    window: Option<u64>,
    largest: u64,
    sum_s: f64,
    samples: u32,
    all_ms: Vec<f64>,
}

impl Track {
    fn on_packet(&mut self, is_reverse: bool, payload: u32, seen: Option<&Seen>) {
        let is_own = is_reverse == self.is_reverse;
        let is_fresh = seen.is_none_or(|seen| seen.class != Class::Repeated);
        if is_own && is_fresh {
            self.fresh += u64::from(payload);
        }
        let Some(seen) = seen else { return };
        if is_own {
            if payload > 0 {
                self.largest = self.largest.max(seen.outstanding);
                self.window = Some(seen.outstanding);
            }
            return;
        }
        let Some(ns) = seen.rtt_ns.or(seen.stamp_rtt_ns).filter(|ns| *ns > 0) else { return };
        self.sum_s += ns as f64 * 1e-9;
        self.samples += 1;
        if self.all_ms.len() < MOST_SAMPLES {
            self.all_ms.push(ns as f64 * 1e-6);
        }
    }

    fn poll(&mut self, t_s: f64, number: u32, into: &mut Polls) {
        let window = (self.largest > 0).then_some(self.largest).or(self.window);
        into.t_s.push(t_s);
        into.flow.push(number);
        into.cwnd.push(window.map_or(f64::NAN, |bytes| bytes as f64));
        into.srtt_s.push(if self.samples > 0 { self.sum_s / f64::from(self.samples) } else { f64::NAN });
        into.bytes_arrived.push(self.fresh as f64);
        (self.largest, self.sum_s, self.samples) = (0, 0.0, 0);
    }

    fn quantile(&self, share: f64) -> Value {
        let Some(last) = self.all_ms.len().checked_sub(1) else { return Value::Null };
        json!(self.all_ms[(share * last as f64).round() as usize])
    }
}

/// Reads a capture: pcap or pcapng, plain or compressed with gzip or zstd.
pub fn read(bytes: &[u8], name: &str) -> Result<Captured, NoCapture> {
    let mut source = Source::in_memory(bytes.to_vec())?;
    let flows = Flows::read(&mut source);
    let shown = shown(&flows);
    let mut places = vec![None; flows.all.len()];
    let mut tracks = Vec::new();
    for (place, number) in shown.iter().enumerate() {
        places[*number] = Some(place);
        tracks.push(Track { is_reverse: is_reversed(&flows.all[*number]), ..Track::default() });
    }
    let polls = polls(bytes, &flows, &places, &mut tracks)?;
    for track in &mut tracks {
        track.all_ms.sort_unstable_by(f64::total_cmp);
    }
    let names: Vec<String> = shown.iter().map(|number| name_of(&flows.all[*number])).collect();
    let duration_ns = (flows.last_ns - flows.first_ns).max(1);
    let described = shown.iter().zip(&names).map(|(number, name)| described(&flows, *number, name));
    let summaries = shown.iter().zip(&names).zip(&tracks);
    let summary = json!({
        "hash": "",
        "events": flows.packets,
        "flows": summaries.map(|((number, name), track)| summary(&flows.all[*number], name, track)).collect::<Value>(),
        "links": [],
        "scenario": { "name": name },
        "toml": format!("# Captured, not described: {name}\n"),
        "warnings": warnings(&flows, &source, shown.len()),
        "engine": {
            "duration_ps": duration_ns.saturating_mul(1000),
            "links": [],
            "flows": described.collect::<Value>(),
        },
    });
    Ok(Captured { names, polls, summary })
}

/// The second pass: all frames have been counted, and every stamp is between the first and the last.
fn polls(
    bytes: &[u8],
    whole: &Flows,
    places: &[Option<usize>],
    tracks: &mut [Track],
) -> Result<Polls, NoCapture> {
    let mut source = Source::in_memory(bytes.to_vec())?;
    let mut flows = Flows::default();
    let mut out = Polls::default();
    let span_ns = whole.last_ns - whole.first_ns;
    let step = span_ns.div_ceil(POLLS).max(1);
    let mut due = 1;
    let mut poll_until = |now_ns: u64, tracks: &mut [Track]| {
        while due <= POLLS && due * step <= now_ns {
            // The last poll is at the end, because the number of polls may not divide the nanoseconds.
            let t_s = (due * step).min(span_ns) as f64 * 1e-9;
            for (number, track) in tracks.iter_mut().enumerate() {
                track.poll(t_s, number as u32, &mut out);
            }
            due += 1;
        }
    };
    source.each(|frame| {
        let Some(owned) = flows.take(&frame) else { return true };
        poll_until(owned.packet.t_ns - whole.first_ns, tracks);
        if let Some(place) = places[owned.flow as usize] {
            tracks[place].on_packet(owned.is_reverse, owned.packet.payload, owned.seen.as_ref());
        }
        true
    });
    poll_until(u64::MAX, tracks);
    Ok(out)
}

/// Indices of the flows that are shown, in order of their first packets.
fn shown(flows: &Flows) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..flows.all.len()).collect();
    let payload = |number: &usize| -> u64 {
        let [one, two] = &flows.all[*number].talk.sides;
        one.payload + two.payload
    };
    numbers.sort_by_key(|number| std::cmp::Reverse(payload(number)));
    numbers.truncate(MOST_FLOWS);
    numbers.sort_unstable();
    numbers
}

/// Whether most payload comes from the server.
fn is_reversed(flow: &Flow) -> bool {
    flow.talk.sides[1].payload > flow.talk.sides[0].payload
}

/// The side that sends most payload.
fn sender(flow: &Flow) -> &Side {
    &flow.talk.sides[usize::from(is_reversed(flow))]
}

/// The same name as in Python's `capture.flows`.
fn name_of(flow: &Flow) -> String {
    let protocol = match flow.protocol {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmpv6".to_owned(),
        132 => "sctp".to_owned(),
        other => other.to_string(),
    };
    let [client, server] = flow.ends.map(|(address, port)| {
        let address = Ipv6Addr::from(address);
        match (address.to_ipv4_mapped(), port) {
            (Some(v4), 0) => v4.to_string(),
            (Some(v4), port) => format!("{v4}:{port}"),
            (None, 0) => address.to_string(),
            (None, port) => format!("[{address}]:{port}"),
        }
    });
    format!("{client}>{server}/{protocol}")
}

fn kind(flow: &Flow) -> &'static str {
    match flow.protocol {
        TCP => "bulk",
        protocol if PING.contains(&protocol) => "ping",
        _ => "udp-cbr",
    }
}

fn described(flows: &Flows, number: usize, name: &str) -> Value {
    let flow = &flows.all[number];
    let mss = flow.talk.sides.iter().map(|side| side.mss).filter(|mss| *mss > 0).min().unwrap_or(1460);
    let tcp = json!({ "cc": "unknown", "stack": "unknown", "mtu": u32::from(mss) + 40 });
    json!({
        "name": name, "from": "near", "to": "far", "route": [], "back_route": [],
        "start_ps": (flow.first_ns - flows.first_ns).saturating_mul(1000),
        "stop_ps": (flow.last_ns - flows.first_ns).saturating_mul(1000),
        "app": { "kind": kind(flow), "params": {} },
        "tcp": if flow.protocol == TCP { tcp } else { Value::Null },
    })
}

fn summary(flow: &Flow, name: &str, track: &Track) -> Value {
    let is_tcp = flow.protocol == TCP;
    let (side, seconds) = (sender(flow), (flow.last_ns - flow.first_ns) as f64 * 1e-9);
    let sent = side.track();
    let loss = sent.retransmitted_segments as f64 / sent.data_segments as f64;
    json!({
        "name": name,
        "kind": kind(flow),
        "goodput_mbps": if seconds > 0.0 { json!(8e-6 * track.fresh as f64 / seconds) } else { Value::Null },
        "delay_p50_ms": track.quantile(0.5),
        "delay_p95_ms": track.quantile(0.95),
        "delay_of": if track.all_ms.is_empty() { "unknown" } else { "round-trip" },
        "loss": if is_tcp && sent.data_segments > 0 { json!(loss) } else { Value::Null },
        "retransmissions": if is_tcp { json!(sent.retransmitted_segments) } else { Value::Null },
        "timeouts": Value::Null,
    })
}

fn warnings(flows: &Flows, source: &Source, shown: usize) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(trouble) = &source.trouble {
        out.push(format!("Only a part could be read: {trouble}."));
    }
    if flows.all.len() > shown {
        out.push(format!("{shown} of {} flows are shown, those of most payload.", flows.all.len()));
    }
    let skipped = flows.skipped;
    for (count, what) in [
        (
            skipped.oversize,
            "packets are larger than 1500 bytes: a card or kernel had joined or not yet cut them",
        ),
        (skipped.headless, "packets were cut before their ports"),
        (skipped.broken, "frames had no readable IP header"),
        (skipped.backwards, "stamps are earlier than the one before"),
    ] {
        if count > 0 {
            out.push(format!("{count} {what}."));
        }
    }
    if flows.all.is_empty() {
        out.push("There is no IP packet in it.".to_owned());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One datagram every 10 ms for a second, with 100 bytes of payload or another size.
    fn capture(more: &[u8]) -> Vec<u8> {
        let mut out =
            vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0, 0, 0];
        for number in 0..101u32 {
            let mut frame =
                vec![0x45, 0, 0, 128, 0, number as u8, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            frame.extend([15, 160, 19, 136, 0, 108, 0, 0]);
            frame.extend([0; 100]);
            let stamp = [number / 100, number % 100 * 10_000, frame.len() as u32, frame.len() as u32];
            out.extend(stamp.into_iter().flat_map(u32::to_le_bytes));
            out.extend(frame);
        }
        out.extend(more);
        out
    }

    #[test]
    fn what_was_carried_adds_up_and_ends_with_all_of_it() {
        let found = read(&capture(&[]), "x.pcap").expect("a capture");
        assert_eq!(found.names, ["10.0.0.1:4000>10.0.0.2:5000/udp"]);
        let polls = &found.polls;
        assert_eq!(polls.t_s.len() as u64, POLLS);
        assert_eq!((polls.t_s.last(), polls.bytes_arrived.last()), (Some(&1.0), Some(&10_100.0)));
        let middle = polls.t_s.partition_point(|t| *t < 0.495);
        assert_eq!(polls.bytes_arrived[middle], 5_000.0);
        assert!((found.summary["flows"][0]["goodput_mbps"].as_f64().expect("a rate") - 0.0808).abs() < 1e-9);
        assert_eq!(found.summary["engine"]["duration_ps"], 1_000_000_000_000u64);
        assert_eq!(found.summary["warnings"], json!([]));
    }

    #[test]
    fn what_is_damaged_says_so_and_what_is_no_capture_is_refused() {
        let found = read(&capture(&[1, 0, 0, 0, 0]), "x.pcap").expect("a capture");
        assert!(found.summary["warnings"][0].as_str().is_some_and(|text| text.starts_with("Only a part")));
        assert!(read(b"hello, this is text", "x.pcap").is_err());
        assert!(read(b"", "x.pcap").is_err());
    }
}
