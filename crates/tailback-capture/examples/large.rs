//! Writes two captures of the same traffic at two points, for measuring the speed of readers: `cargo run --release -p
//! tailback-capture --example large FOLDER FRAMES`.
//!
//! 64 connections send full segments with timestamps. Every second segment is acknowledged; one in 500 is lost between
//! the points and retransmitted. There are also 16 calls. Frames keep 96 bytes: 8 million are 1 GB.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use tailback_capture::frames::{Builder, Connection, Flow, Headers, Kind};
use tailback_capture::write::{About, Writer};

const CONNECTIONS: u64 = 64;
const CALLS: u64 = 16;
const MSS: u64 = 1448;
const DELAY_NS: u64 = 12_345_678;
const STEP_NS: u64 = 5_000;

fn main() {
    let mut words = std::env::args().skip(1);
    let folder = words.next().expect("a folder");
    let frames: u64 = words.next().expect("how many frames").parse().expect("a number");
    let open = |name: &str| {
        let about = About { name: name.into(), snap: 96, ..About::default() };
        let file = File::create(Path::new(&folder).join(format!("{name}.pcapng"))).expect("a file");
        Writer::new(BufWriter::with_capacity(1 << 20, file), &about).expect("a file")
    };
    let (mut near, mut far) = (open("A"), open("B"));
    let mut builder = Builder::default();
    let agreed =
        Connection { mss: [1460; 2], timestamps: true, sack: true, scaling: true, ecn: false, scale: [7; 2] };
    let tcp = Flow { kind: Kind::Tcp, nodes: [1, 2], rtp_step: 0, is_v6: false };
    let call = Flow { kind: Kind::Rtp, nodes: [1, 2], rtp_step: 160, is_v6: false };
    let mut sent = vec![0u64; CONNECTIONS as usize];
    let mut ids = vec![[0u16; 2]; (CONNECTIONS + CALLS) as usize];
    let mut spoken = vec![0u64; CALLS as usize];
    for number in 0..frames {
        let t_ns = number * STEP_NS;
        let ps = t_ns * 1000;
        if number % 100 == 99 {
            let it = (number / 100 % CALLS) as usize;
            let flow = CONNECTIONS as usize + it;
            ids[flow][0] = ids[flow][0].wrapping_add(1);
            let headers = Headers {
                flow: flow as u32,
                bytes: 200,
                ip_id: ids[flow][0],
                number: spoken[it],
                ..Headers::default()
            };
            spoken[it] += 1;
            let frame = builder.build(&headers, &call, &agreed, 0).expect("it has room");
            near.packet(t_ns, frame, frame.len() as u32).expect("room on the disk");
            far.packet(t_ns + DELAY_NS, frame, frame.len() as u32).expect("room on the disk");
            continue;
        }
        let flow = (number % CONNECTIONS) as usize;
        let turn = number / CONNECTIONS;
        let is_reverse = turn % 3 == 2;
        let own = &mut ids[flow][usize::from(is_reverse)];
        *own = own.wrapping_add(1);
        let is_again = !is_reverse && number % 500 == 0 && sent[flow] > 0;
        let mut headers = Headers {
            flow: flow as u32,
            is_reverse,
            window: 1 << 20,
            ts_val_ps: ps,
            ts_ecr_ps: ps.saturating_sub(40_000_000_000),
            ip_id: *own,
            flags: 0x10,
            bytes: 52,
            ..Headers::default()
        };
        if turn == 0 {
            (headers.flags, headers.bytes) = (2, 60);
        } else if is_reverse {
            headers.ack = sent[flow];
        } else {
            headers.bytes = 52 + MSS as u32;
            headers.seq = if is_again { sent[flow] - MSS } else { sent[flow] };
            sent[flow] = headers.seq + MSS;
        }
        let frame = builder.build(&headers, &tcp, &agreed, 0).expect("it has room");
        near.packet(t_ns, frame, frame.len() as u32).expect("room on the disk");
        if number % 500 != 0 || is_reverse {
            far.packet(t_ns + DELAY_NS, frame, frame.len() as u32).expect("room on the disk");
        }
    }
    println!("{} and {} packets", near.finish().expect("written"), far.finish().expect("written"));
}
