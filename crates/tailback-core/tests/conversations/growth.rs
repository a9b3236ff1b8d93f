//! Window growth, compared with values computed by hand.

use tailback_core::scenario::Value;
use tailback_core::tcp::segment::{Flags, Segment};

use super::options::Options;
use super::talk::Talk;

/// A peer that acknowledges every `per_ack` segments of each round trip, and the window at each round's start
/// in segments.
fn windows(options: Options, per_ack: usize, ssthresh: u64, rounds: usize) -> Vec<f64> {
    let mss = u64::from(options.mss);
    let rtt = options.rtt;
    let mut talk = Talk::new(options).expect("a connection");
    talk.end.sender.control.ssthresh = ssthresh * mss;
    talk.end.sender.write_forever();
    talk.drain();
    let mut windows = vec![talk.end.sender.control.cwnd as f64 / mss as f64];
    let mut acked = 0;
    for _ in 1..rounds {
        let round: Vec<u64> = talk.sent.drain(..).map(|(_, sent)| sent.seq + u64::from(sent.len)).collect();
        talk.advance(talk.now + rtt);
        // Only complete groups: an odd segment is acknowledged with the next round's first.
        for end in round.into_iter().filter(|end| (end / mss) as usize % per_ack == 0) {
            assert!(end > acked, "segments are sent once");
            acked = end;
            let ack = Segment {
                flags: Flags::ACK,
                ack: end,
                window: 1 << 30,
                ts_val: talk.now,
                ..Segment::blank()
            };
            talk.hear(&ack);
        }
        windows.push(talk.end.sender.control.cwnd as f64 / mss as f64);
    }
    windows
}

fn options(stack: &str, initial_window: f64) -> Options {
    Options {
        stack: stack.into(),
        opened: Some("client".into()),
        fields: vec![
            ("initial_window".into(), Value::Number(initial_window)),
            ("timestamps".into(), Value::Flag(false)),
            ("tail_loss_probe".into(), Value::Flag(false)),
        ],
        ..Options::default()
    }
}

#[test]
fn linux_2_6_25_grows_by_the_ack_as_worked_by_hand() {
    let got = windows(options("linux-2.6.25", 2.0), 1, 16, 11);
    assert_eq!(got, [2., 4., 8., 16., 17., 18., 19., 20., 21., 22., 23.]);
    let got = windows(options("linux-2.6.25", 20.0), 1, 2, 11);
    assert_eq!(got, [20., 20., 21., 22., 23., 24., 25., 26., 27., 28., 29.]);
}

#[test]
fn one_ack_for_two_segments_halves_the_growth_of_linux_2_6_25() {
    let got = windows(options("linux-2.6.25", 20.0), 2, 2, 26);
    // Asymptotically half a segment per round trip: a step takes cwnd + 1 ACKs of two segments each.
    assert!((got[25] - got[5] - 10.0).abs() <= 1.0, "{got:?}");
    assert_eq!(got[..5], [20., 20., 20., 21., 21.]);
}

#[test]
fn linux_6_counts_segments_not_acks() {
    let by_hand = [10., 20., 40., 64., 65., 66., 67., 68., 69.];
    assert_eq!(windows(options("linux", 10.0), 1, 64, 9), by_hand);
    // Delayed ACKs change nothing except the ACK of an odd last segment, which arrives a round later.
    for (got, by_hand) in windows(options("linux", 10.0), 2, 64, 9).iter().zip(by_hand) {
        assert!((got - by_hand).abs() <= 1.0, "{got} {by_hand}");
    }
}

#[test]
fn ns3_counts_acks_in_3_27_and_segments_in_3_44() {
    // One ACK per two segments: half a segment per round trip in 3.27, a whole segment in 3.44 (LinuxReno).
    let grown = |stack: &str| {
        let got = windows(options(stack, 20.0), 2, 2, 21);
        got[20] - got[0]
    };
    assert!((grown("ns3") - 10.0).abs() <= 1.0, "{}", grown("ns3"));
    assert!((grown("ns3-3.44") - 20.0).abs() <= 1.0, "{}", grown("ns3-3.44"));
}

#[test]
fn freebsd_7_adds_whole_bytes_for_every_ack() {
    let mut options = options("freebsd-7", 10.0);
    options.mss = 1448;
    let got = windows(options, 1, 2, 9);
    let by_hand = [10.000, 10.955, 11.834, 12.729, 13.637, 14.557, 15.486, 16.423, 17.365];
    for (got, by_hand) in got.iter().zip(by_hand) {
        assert!((got - by_hand).abs() < 0.0006, "{got} {by_hand}");
    }
}

#[test]
fn freebsd_9_counts_two_segments_for_a_delayed_ack() {
    // RFC 3465 with L = 2: one ACK per two segments still doubles the window.
    assert_eq!(windows(options("freebsd-9", 4.0), 2, 64, 5), [4., 8., 16., 32., 64.]);
    // RFC 3465 section 2.1: one segment whenever cwnd bytes have been acknowledged.
    let got = windows(options("freebsd-9", 20.0), 2, 2, 21);
    assert!((got[20] - got[0] - 20.0).abs() <= 1.0, "{got:?}");
}
