//! What an ACK does, in conversations, and the fast path for plain ACKs compared with the general one.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::cc::registry::Algorithm;
use crate::cc::{Congestion, PhaseChange, Resume};
use crate::tcp::receiver::{AckWhen, Receiver};
use crate::tcp::segment::Range;
use crate::tcp::stack::Stack;

const MSS: u32 = 1000;
const WINDOW: Bytes = 1 << 22;

fn established(cc: &str, is_plain: bool) -> Sender {
    let stack = Arc::new(Stack::named("linux", "stack").unwrap());
    let algorithm = crate::cc::registry::build(cc, &Default::default(), "tcp", 1).unwrap();
    let mut sender = Sender::new(stack, algorithm, MSS, WINDOW);
    assert!(sender.takes_plain_acks);
    sender.takes_plain_acks = is_plain;
    sender.on_established(Time::from_ms(20), WINDOW, Some(Duration::from_ms(20)));
    sender
}

/// The state of a sender, except `takes_plain_acks` and how far RACK has checked, which the fast path may defer.
fn shown(sender: &Sender) -> String {
    let text = format!("{sender:?}");
    let (before, after) = text.split_once("unjudged: ").unwrap();
    let after = after.split_once(',').unwrap().1;
    format!("{before}{after}").replace("takes_plain_acks: true", "").replace("takes_plain_acks: false", "")
}

/// Records each hook call and the phase at that time. The flag: whether it owns its window.
#[derive(Debug, Default)]
struct Diary(Vec<(&'static str, Phase)>, bool);

impl CongestionControl for Diary {
    fn on_sample(&mut self, ack: &Ack, _control: &mut crate::cc::Control) {
        self.0.push(("sample", ack.phase));
    }
    fn on_ack(&mut self, ack: &Ack, _control: &mut crate::cc::Control) {
        self.0.push(("ack", ack.phase));
    }
    fn on_congestion(&mut self, _congestion: &Congestion, control: &mut crate::cc::Control) {
        control.ssthresh = control.cwnd / 2;
        self.0.push(("congestion", Phase::Open));
    }
    fn on_phase(&mut self, change: &PhaseChange, _control: &mut crate::cc::Control) {
        self.0.push((if change.completes { "completed" } else { "phase" }, change.to));
    }
    fn on_undo(&mut self, _now: Time, _control: &mut crate::cc::Control) {
        self.0.push(("undo", Phase::Open));
    }
    fn on_resume(&mut self, _resume: &Resume, _control: &mut crate::cc::Control) {
        self.0.push(("resume", Phase::Open));
    }
    fn owns_window(&self) -> bool {
        self.1
    }
    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        out.extend(self.0.iter().map(|(hook, phase)| (*hook, f64::from(*phase as u8))));
    }
}

/// A sender that has written `bytes` and sent what its window of ten segments allows.
fn written(algorithm: Diary, bytes: Bytes) -> Sender {
    let stack = Arc::new(Stack::named("linux", "stack").unwrap());
    let mut sender = Sender::new(stack, Algorithm::External(Box::new(algorithm)), MSS, WINDOW);
    sender.on_established(Time::from_ms(20), WINDOW, Some(Duration::from_ms(20)));
    sender.write(bytes);
    send(&mut sender, 20);
    sender
}

fn send(sender: &mut Sender, now_ms: u64) {
    let now = Time::from_ms(now_ms);
    while sender.next_segment(now).is_some() {}
    sender.settle(now);
}

/// Passes an ACK to the sender, then sends what it allows.
fn hear(sender: &mut Sender, now_ms: u64, ack: u64, blocks: &[(u64, u64)]) {
    let mut segment = Segment {
        ack,
        window: WINDOW,
        flags: Flags::ACK,
        sack_count: blocks.len() as u8,
        is_dsack: blocks.first().is_some_and(|block| block.1 <= ack),
        ..Segment::blank()
    };
    for (slot, &(start, end)) in segment.sack.iter_mut().zip(blocks) {
        *slot = Range { start, end };
    }
    sender.on_ack(&segment, Time::from_ms(now_ms), &mut Vec::new());
    send(sender, now_ms);
}

fn diary(sender: &Sender) -> Vec<(&'static str, Phase)> {
    let mut diary = Vec::new();
    sender.algorithm.internals(&mut diary);
    let phases = [Phase::Open, Phase::Disorder, Phase::Cwr, Phase::Recovery, Phase::Loss];
    diary.into_iter().map(|(hook, phase)| (hook, phases[phase as usize])).collect()
}

#[test]
fn an_ack_is_sampled_before_the_state_changes() {
    let mut sender = written(Diary::default(), 100_000);
    // Three segments of ten arrive without the first; then all of them.
    hear(&mut sender, 40, 0, &[(1000, 4000)]);
    let all = sender.snd_nxt;
    hear(&mut sender, 60, all, &[]);
    let begins = [
        ("sample", Phase::Open),
        ("congestion", Phase::Open),
        ("phase", Phase::Recovery),
        ("ack", Phase::Recovery),
    ];
    let ends = [("sample", Phase::Recovery), ("completed", Phase::Open), ("ack", Phase::Open)];
    assert!(diary(&sender).starts_with(&[&begins[..], &ends].concat()), "{:?}", diary(&sender));
}

#[test]
fn an_undo_at_the_end_of_a_recovery_completes_it() {
    let mut sender = written(Diary::default(), 10_000);
    hear(&mut sender, 40, 0, &[(1000, 4000)]);
    sender.trouble.undo.unexplained = 0;
    hear(&mut sender, 60, 10_000, &[]);
    let ends = [
        ("sample", Phase::Recovery),
        ("undo", Phase::Open),
        ("completed", Phase::Open),
        ("ack", Phase::Open),
    ];
    assert!(diary(&sender).ends_with(&ends), "{:?}", diary(&sender));
}

#[test]
fn a_loss_that_the_probe_repaired_passes_cwr() {
    let mut sender = written(Diary::default(), 3_000);
    let now = sender.next_wake();
    sender.on_timer(now, &mut Vec::new());
    sender.next_segment(now).expect("the probe");
    hear(&mut sender, 100, 3_000, &[]);
    sender.write(1_000);
    send(&mut sender, 110);
    hear(&mut sender, 140, 4_000, &[]);
    let wanted = [
        ("sample", Phase::Open),
        ("congestion", Phase::Open),
        ("phase", Phase::Cwr),
        ("completed", Phase::Open),
        ("ack", Phase::Open),
    ];
    assert!(diary(&sender).ends_with(&wanted), "{:?}", diary(&sender));
}

#[test]
fn a_partial_ack_undoes_a_recovery_that_has_repaired_nothing() {
    let mut sender = written(Diary::default(), 100_000);
    let mut hole = Segment { window: WINDOW, flags: Flags::ACK, sack_count: 1, ..Segment::blank() };
    hole.sack[0] = Range { start: 2000, end: 5000 };
    sender.on_ack(&hole, Time::from_ms(40), &mut Vec::new());
    assert_eq!(sender.phase, Phase::Recovery);
    hear(&mut sender, 41, 1000, &[(2000, 5000)]);
    assert_eq!((sender.count.undos, sender.control.cwnd), (1, 10_000));
}

#[test]
fn a_timeout_holds_an_algorithm_that_owns_its_window() {
    let mut sender = written(Diary(Vec::new(), true), 10_000);
    assert!(sender.algorithm.owns_window());
    sender.control.cwnd = 100_000;
    sender.on_timeout(Time::from_ms(500), &mut Vec::new());
    assert_eq!((sender.control.cwnd, sender.in_flight()), (u64::from(MSS), 0));
}

#[test]
fn a_repair_resumes_when_nothing_else_is_in_flight() {
    let mut sender = written(Diary::default(), 3_000);
    sender.on_timeout(Time::from_ms(500), &mut Vec::new());
    send(&mut sender, 500);
    let wanted = [("congestion", Phase::Open), ("phase", Phase::Loss), ("resume", Phase::Open)];
    assert_eq!(diary(&sender), wanted);
}

#[test]
fn an_undo_restores_three_quarters_of_the_window_at_least() {
    let mut sender = written(Diary::default(), 3_000);
    for (phase, cwnd, ssthresh, kept) in [
        (Phase::Open, 115_000, 76_000, 85_000),
        (Phase::Open, 100_000, 90_000, 90_000),
        (Phase::Recovery, 115_000, 76_000, 76_000),
    ] {
        (sender.phase, sender.control.cwnd, sender.control.ssthresh) = (phase, cwnd, ssthresh);
        sender.arm_undo();
        assert_eq!(sender.trouble.undo.ssthresh, kept, "{phase:?} {cwnd}");
    }
}

#[test]
fn the_first_acknowledgement_of_a_flight_is_plain() {
    let (mut sender, now) = (established("reno", true), Time::from_ms(20));
    sender.write_forever();
    let sent = std::iter::from_fn(|| sender.next_segment(now)).count();
    let ack = Segment { ack: u64::from(MSS), window: WINDOW, flags: Flags::ACK, ..Segment::blank() };
    assert!(sent == 10 && sender.expects_plain(&ack));
    assert!(sender.on_plain_news(&ack, sender.peer.right_edge, Time::from_ms(40), &mut Vec::new()));
    assert_eq!((sender.snd_una, sender.in_flight()), (1000, 9000));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn plain_acknowledgements_do_what_the_long_way_does(
        cc in prop::sample::select(vec!["reno", "cubic", "bbr", "htcp", "ledbat"]),
        // For each step: whether data is lost, reordered or delayed, whether its ACK is lost, and how many microseconds
        // it takes.
        steps in prop::collection::vec((0u32..100, 0u32..100, 1u64..3000), 50..250),
        disturbance in 0u32..12,
    ) {
        let mut senders = [true, false].map(|is_plain| established(cc, is_plain));
        let stack = Stack::named("linux", "stack").unwrap();
        let mut receiver = Receiver::new(&stack, 2 * WINDOW, MSS);
        let (mut now, mut way, mut events) = (Time::from_ms(20), Vec::new(), [Vec::new(), Vec::new()]);
        senders.iter_mut().for_each(|sender| sender.write(300_000));
        for (fate, ack_fate, wait) in steps {
            let [one, other] = senders.each_mut().map(|sender| {
                let sent: Vec<_> = std::iter::from_fn(|| sender.next_segment(now)).collect();
                sender.settle(now);
                sent
            });
            prop_assert_eq!(format!("{one:?}"), format!("{other:?}"));
            way.extend(one.into_iter().map(|it| Segment {
                seq: it.seq, len: it.len, flags: it.flags, ts_val: now, ..Segment::blank()
            }));
            now += Duration::from_us(wait);
            for (sender, events) in senders.iter_mut().zip(&mut events) {
                if sender.next_wake() <= now {
                    sender.on_timer(now, events);
                }
            }
            if way.is_empty() {
                continue;
            }
            let overtakes = fate < disturbance && way.len() > 1;
            let segment = way.remove(usize::from(overtakes));
            let is_lost = (disturbance..2 * disturbance).contains(&fate);
            if is_lost || receiver.on_segment(&segment, now, &Default::default(), &stack) == AckWhen::Never {
                continue;
            }
            let mut ack = Segment { ts_val: now, ..Segment::blank() };
            receiver.stamp(&mut ack, &stack);
            if ack_fate >= disturbance {
                for (sender, events) in senders.iter_mut().zip(&mut events) {
                    sender.on_ack(&ack, now, events);
                }
            }
            prop_assert_eq!(shown(&senders[0]), shown(&senders[1]));
        }
        prop_assert_eq!(format!("{:?}", events[0]), format!("{:?}", events[1]));
    }
}
