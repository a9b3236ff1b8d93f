//! The scoreboard compared with a plain record of its segments, under any order of steps.

use super::*;
use proptest::prelude::*;

const MSS: u64 = 1000;

#[derive(Clone, Debug)]
enum Step {
    // Segments, and whether the last ends a burst.
    Send(u8, bool),
    Ack(u8),
    // First segment above the head and length.
    Sack(u8, u8),
    Repair(u8),
    Head,
    Holes,
    HolesAgain,
    Fack,
    SackedAbove,
    Rack,
    Probe,
    Rescue,
    Timeout(bool),
    Stale,
    Undo,
    AppLimited,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u8..12, any::<bool>()).prop_map(|(count, ends)| Step::Send(count, ends)),
        4 => (1u8..6).prop_map(Step::Ack),
        6 => (1u8..20, 1u8..6).prop_map(|(at, length)| Step::Sack(at, length)),
        6 => (1u8..4).prop_map(Step::Repair),
        1 => Just(Step::Head),
        1 => Just(Step::Holes),
        1 => Just(Step::HolesAgain),
        2 => Just(Step::Fack),
        2 => Just(Step::SackedAbove),
        3 => Just(Step::Rack),
        1 => Just(Step::Probe),
        1 => Just(Step::Rescue),
        1 => any::<bool>().prop_map(Step::Timeout),
        1 => Just(Step::Stale),
        1 => Just(Step::Undo),
        1 => Just(Step::AppLimited),
    ]
}

/// Reference model of RACK: one log of all transmissions in order, processed from the front.
#[derive(Default)]
struct Plain {
    log: VecDeque<(u64, u64)>,
    logged: u64,
}

impl Plain {
    /// Logs the transmissions since the last call.
    fn follow(&mut self, board: &Scoreboard) {
        for order in self.logged..board.next_order {
            let index =
                board.segments.iter().position(|segment| segment.order == order).expect("it just left");
            self.log.push_back((board.base + index as u64, order));
        }
        self.logged = board.next_order;
    }

    /// The segment of this transmission, if it is in flight and neither SACKed nor waiting for repair.
    fn in_question(board: &Scoreboard, number: u64, order: u64) -> Option<Sent> {
        let segment = board.segments[number.checked_sub(board.base)? as usize];
        let is_waiting = segment.flags & LOST != 0 && segment.flags & RETRANSMITTED == 0;
        (segment.order == order && segment.flags & SACKED == 0 && !is_waiting).then_some(segment)
    }

    fn mark_by_rack(&mut self, board: &mut Scoreboard, now: Time, window: Duration) -> (u32, Option<Time>) {
        let mut marked = 0;
        if board.rack.sent == Time::ZERO && board.rack.end == 0 {
            return (0, None);
        }
        while let Some(&(number, order)) = self.log.front() {
            if let Some(segment) = Self::in_question(board, number, order) {
                if (segment.sent, segment.end) >= (board.rack.sent, board.rack.end) {
                    return (marked, None);
                }
                let due = segment.sent + board.rack.rtt + window;
                if due > now {
                    let sent = self
                        .log
                        .iter()
                        .filter_map(|&(number, order)| Self::in_question(board, number, order))
                        .filter(|segment| (segment.sent, segment.end) < (board.rack.sent, board.rack.end))
                        .map(|segment| segment.sent);
                    return (marked, sent.max().map(|last| last + board.rack.rtt + window));
                }
                marked += u32::from(board.mark_lost(number));
            }
            self.log.pop_front();
        }
        (marked, None)
    }
}

/// The union of all SACKed ranges, computed over all of them.
fn join(known: &mut Vec<Range>, block: Range) {
    let (apart, joined): (Vec<Range>, Vec<Range>) =
        known.iter().partition(|other| other.end < block.start || block.end < other.start);
    let start = joined.iter().map(|other| other.start).fold(block.start, u64::min);
    let end = joined.iter().map(|other| other.end).fold(block.end, u64::max);
    *known = [apart, vec![Range { start, end }]].concat();
    known.sort_by_key(|range| range.start);
}

proptest! {
    #[test]
    fn the_counters_agree_with_the_segments(steps in prop::collection::vec(step(), 0..300)) {
        let mut board = Scoreboard::new(true, Duration::ZERO);
        let mut plain = Plain::default();
        let (mut known, mut reported) = (Vec::new(), Vec::new());
        let (mut una, mut nxt, mut now) = (0, 0, Time::ZERO);
        for step in steps {
            now += Duration::from_ms(7);
            match step {
                Step::Send(count, ends) => {
                    for _ in 0..count {
                        nxt += MSS;
                        board.push(nxt, MSS as u32, false, now);
                    }
                    if ends {
                        board.end_burst();
                    }
                }
                Step::Ack(count) => {
                    una = (una + u64::from(count) * MSS).min(nxt);
                    let before = board.delivered();
                    let mut twin = board.clone();
                    let delivery = board.on_ack(una, &[], Time::NEVER, now, Duration::from_ms(7));
                    let singly = twin.take::<false>(una, &[], Time::NEVER, now, Duration::from_ms(7));
                    prop_assert_eq!(format!("{delivery:?} {board:?}"), format!("{singly:?} {twin:?}"));
                    prop_assert_eq!(board.delivered() - before, delivery.delivered_bytes);
                }
                Step::Sack(at, length) => {
                    let start = una + u64::from(at) * MSS;
                    let block = Range { start, end: (start + u64::from(length) * MSS).min(nxt) };
                    if block.start < block.end {
                        // Repeats the blocks reported last, as far as there is room.
                        reported.insert(0, block);
                        reported.truncate(4);
                        board.on_ack(una, &reported, Time::NEVER, now, Duration::from_ms(7));
                        reported.iter().filter(|block| block.start >= una).for_each(|block| join(&mut known, *block));
                    }
                }
                Step::Repair(count) => for _ in 0..count {
                    if let Some((range, _)) = board.next_repair() {
                        prop_assert!(una <= range.start && range.end <= nxt);
                        board.on_repaired(now, nxt);
                    }
                },
                Step::Head => drop(board.mark_head()),
                Step::Holes => drop(board.mark_holes()),
                Step::HolesAgain => drop(board.mark_holes_again()),
                Step::Fack => drop(board.mark_by_fack(3, MSS as u32)),
                Step::SackedAbove => drop(board.mark_by_sacked_above(3)),
                Step::Rack => {
                    let (window, mut twin) = (Duration::from_ms(2), board.clone());
                    let expected = plain.mark_by_rack(&mut twin, now, window);
                    prop_assert_eq!(board.mark_by_rack(now, window), expected);
                    prop_assert_eq!(&board.disturbed.to_repair, &twin.disturbed.to_repair);
                }
                Step::Probe => board.on_probe(now, nxt),
                Step::Rescue => {
                    let number = board.first_unrepaired_hole().or_else(|| board.highest_unsacked());
                    if let Some(number) = number {
                        board.on_rescued(number, now, nxt);
                    }
                }
                Step::Timeout(forget) => {
                    board.mark_all(forget);
                    known.retain(|_| !forget);
                    prop_assert_eq!(board.in_flight(), 0);
                }
                Step::Stale => drop(board.mark_stale(now)),
                Step::Undo => board.unmark(),
                Step::AppLimited => board.on_app_limited(),
            }
            plain.follow(&board);
            board.assert_consistent();
            known.retain(|range| range.end > una);
            prop_assert_eq!(&board.disturbed.known, &known);
            for at in (una..nxt + MSS).step_by(MSS as usize / 2) {
                prop_assert_eq!(board.first_beyond(at), board.segments.partition_point(|segment| segment.end <= at));
            }
            let limit = (board.rack.sent, board.rack.end);
            let held = |segment: &Sent| segment.flags & (SACKED | LOST) == 0 || segment.flags & RETRANSMITTED != 0;
            let waits = |segment: &Sent| held(segment) && (segment.sent, segment.end) < limit;
            let mut judging = board.clone();
            // The last that waits is asked for while something waits that RACK has not judged.
            if judging.next_unjudged().is_some_and(|(number, _)| waits(&board.segments[(number - board.base) as usize])) {
                let last = board.segments.iter().filter(|segment| waits(segment)).map(|segment| segment.sent).max();
                prop_assert_eq!(judging.last_waiting(), last);
            }
            // What is SACKed is one piece as far as it reaches, and nothing else belongs to it.
            for pair in board.segments.make_contiguous().windows(2) {
                if let [SACKED, _] | [_, SACKED] = [pair[0].flags & SACKED, pair[1].flags & SACKED] {
                    let joins = pair[0].flags & pair[1].flags & SACKED != 0;
                    prop_assert_eq!(pair[0].flags & PIECE_END == 0, joins);
                }
            }
            prop_assert_eq!(board.outstanding(), nxt - una);
            // Every segment is in flight at most twice: the original and its latest retransmission.
            prop_assert!(board.in_flight() <= 2 * board.outstanding());
            prop_assert!(board.delivered() <= nxt);
            prop_assert!(board.delivered() >= una, "what is acknowledged was delivered");
        }
    }
}

#[test]
fn pipe_is_that_of_rfc6675_by_hand() {
    // Ten in flight, the first lost, three SACKed: 10 - 3 - 1, and + 1 for the retransmission.
    let mut board = Scoreboard::new(false, Duration::ZERO);
    for number in 1..=10 {
        board.push(number * MSS, MSS as u32, false, Time::ZERO);
    }
    let now = Time::from_ms(100);
    board.on_ack(0, &[Range { start: MSS, end: 4 * MSS }], Time::NEVER, now, Duration::MAX);
    assert_eq!(board.mark_by_sacked_above(3), 1);
    assert_eq!(board.in_flight(), 6 * MSS);
    board.on_repaired(now, 10 * MSS);
    assert_eq!(board.in_flight(), 7 * MSS);
}

#[test]
fn what_was_unmarked_can_be_lost_again() {
    let mut board = Scoreboard::new(false, Duration::ZERO);
    for number in 1..=10 {
        board.push(number * MSS, MSS as u32, false, Time::ZERO);
    }
    let now = Time::from_ms(100);
    board.on_ack(0, &[Range { start: 2 * MSS, end: 5 * MSS }], Time::NEVER, now, Duration::MAX);
    assert_eq!(board.mark_by_sacked_above(3), 2);
    board.unmark();
    // The first arrived after all; the second did not.
    board.on_ack(MSS, &[Range { start: 2 * MSS, end: 7 * MSS }], Time::NEVER, now, Duration::MAX);
    assert_eq!(board.mark_by_sacked_above(5), 1);
    assert_eq!(board.next_repair().unwrap().0, Range { start: MSS, end: 2 * MSS });
    board.assert_consistent();
}

#[test]
fn what_was_sent_again_does_not_hide_what_was_sent_before() {
    let mut board = Scoreboard::new(true, Duration::ZERO);
    for number in 1..=10 {
        board.push(number * MSS, MSS as u32, false, Time::from_ms(number));
    }
    board.on_rescued(1, Time::from_ms(100), 10 * MSS);
    board.on_rescued(5, Time::from_ms(101), 10 * MSS);
    let now = Time::from_ms(200);
    board.on_ack(0, &[Range { start: MSS, end: 2 * MSS }], Time::NEVER, now, Duration::from_ms(100));
    assert_eq!(board.rack.sent, Time::from_ms(100));
    // The tenth is the last that left before what was delivered; the sixth left after it.
    let due = Time::from_ms(10) + Duration::from_ms(100 + 1000);
    assert_eq!(board.mark_by_rack(now, Duration::from_ms(1000)), (0, Some(due)));
}

#[test]
fn the_segment_that_left_last_gives_the_rate_sample() {
    let mut board = Scoreboard::new(true, Duration::ZERO);
    board.on_app_limited();
    board.push(MSS, MSS as u32, false, Time::from_ms(0));
    board.app_limited_until = 0;
    // Paced: nothing was delivered in between.
    board.push(2 * MSS, MSS as u32, false, Time::from_ms(10));
    let delivery = board.on_ack(2 * MSS, &[], Time::NEVER, Time::from_ms(100), Duration::MAX);
    let sample = board.rate_sample(&delivery, Time::from_ms(100), Duration::MAX).expect("a sample");
    assert!(!sample.app_limited);
    // The next one's time of sending counts from the second's.
    assert_eq!(board.first_sent, Time::from_ms(10));
}

#[test]
fn a_retransmission_is_as_limited_as_the_application_is_when_it_leaves() {
    let mut board = Scoreboard::new(true, Duration::ZERO);
    board.on_app_limited();
    for number in 1..=4 {
        board.push(number * MSS, MSS as u32, false, Time::from_ms(0));
    }
    // The last arrives, which ends the application's limit; the first is sent again, and sampled by that departure.
    let now = Time::from_ms(100);
    let block = [Range { start: 3 * MSS, end: 4 * MSS }];
    let first = board.on_ack(0, &block, Time::NEVER, now, Duration::MAX);
    assert!(board.rate_sample(&first, now, Duration::MAX).is_some_and(|sample| sample.app_limited));
    board.on_rescued(0, now, 4 * MSS);
    let later = Time::from_ms(200);
    let second = board.on_ack(MSS, &block, Time::NEVER, later, Duration::MAX);
    assert!(board.rate_sample(&second, later, Duration::MAX).is_some_and(|sample| !sample.app_limited));
}

#[test]
fn a_sack_that_comes_again_after_a_timeout_forgot_it_measures_nothing() {
    let mut board = Scoreboard::new(false, Duration::ZERO);
    for number in 1..=4 {
        board.push(number * MSS, MSS as u32, false, Time::from_ms(0));
    }
    let block = [Range { start: MSS, end: 3 * MSS }];
    let first = board.on_ack(0, &block, Time::NEVER, Time::from_ms(100), Duration::MAX);
    assert_eq!((first.rtt_sack, first.original_end), (Some(Duration::from_ms(100)), 2 * MSS));
    board.mark_all(true);
    let again = board.on_ack(0, &block, Time::NEVER, Time::from_ms(5_000), Duration::MAX);
    assert_eq!((again.rtt_sack, again.original_end, again.delivered_segments), (None, u64::MAX, 0));
    board.mark_all(true);
    let acked = board.on_ack(3 * MSS, &[], Time::NEVER, Time::from_ms(6_000), Duration::MAX);
    // Only the head came now.
    assert_eq!((acked.original_end, acked.delivered_segments), (MSS, 1));
}
