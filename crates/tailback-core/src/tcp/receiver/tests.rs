//! The receiver against its stream, under any order of arrival; and a buffer that grows.

use super::*;
use proptest::prelude::*;

const MSS: u64 = 1000;

/// An estimator after a first sample of this many milliseconds.
fn rtt(ms: u64) -> RttEstimator {
    let mut rtt = RttEstimator::default();
    let sample = Duration::from_ms(ms);
    rtt.on_sample(&Stack::named("linux", "").unwrap(), sample, sample, 0, 0);
    rtt
}

fn data(start: u64, len: u64, is_last: bool) -> Segment {
    let flags = if is_last { Flags::ACK.with(Flags::FIN) } else { Flags::ACK };
    Segment { seq: start, len: len as u32, flags, ..Segment::blank() }
}

/// Segments of a stream of `count`, in the order of arrival the indices give, some more than once.
fn arrivals() -> impl Strategy<Value = (u64, Vec<u64>)> {
    (2u64..30).prop_flat_map(|count| {
        let first = Just((0..count).collect::<Vec<_>>()).prop_shuffle();
        let again = prop::collection::vec(0..count, 0..10);
        (Just(count), (first, again).prop_map(|(first, again)| [first, again].concat()))
    })
}

proptest! {
    #[test]
    fn any_order_of_arrival_gives_the_stream_and_valid_sack_blocks(
        (count, order) in arrivals(),
        shuffle in any::<u64>(),
        timestamps in any::<bool>(),
        name in prop::sample::select(vec!["linux", "linux-2.6.25", "freebsd-7"]),
    ) {
        let mut stack = Stack::named(name, "").unwrap();
        stack.timestamps = timestamps;
        // The whole buffer from the start, so that nothing falls outside the window.
        stack.initial_receive_window = None;
        let mut receiver = Receiver::new(&stack, 1 << 20, MSS as u32);
        let mut got = vec![false; count as usize];
        let mut now = Time::from_ms(1);
        let mut order = order;
        // Repetitions anywhere, not only at the end.
        let length = order.len() as u64;
        order.swap((shuffle % length) as usize, (length - 1) as usize);
        for number in order {
            now += Duration::from_us(100);
            let is_news = !std::mem::replace(&mut got[number as usize], true);
            let segment = data(number * MSS, MSS, number + 1 == count);
            let when = receiver.on_segment(&segment, now, &rtt(50), &stack);
            prop_assert_ne!(when, AckWhen::Never);
            let in_order = got.iter().take_while(|got| **got).count() as u64;
            let is_whole = in_order == count;
            prop_assert_eq!(receiver.next(), in_order * MSS + u64::from(is_whole));
            prop_assert_eq!(receiver.delivered(), in_order * MSS);
            let arrived = got.iter().filter(|got| **got).count() as u64;
            prop_assert_eq!(receiver.arrived(), arrived * MSS);
            prop_assert_eq!(receiver.is_finished(), is_whole);
            let waiting = got[in_order as usize..].iter().filter(|got| **got).count() as u32;
            prop_assert_eq!(receiver.reassembly_segments(), waiting);

            let mut ack = Segment::blank();
            receiver.stamp(&mut ack, &stack);
            prop_assert_eq!(ack.ack, receiver.next());
            let blocks = ack.sack_blocks();
            let room = if timestamps { 3 } else { 4 };
            prop_assert!(blocks.len() <= room);
            if ack.is_dsack {
                prop_assert!(!is_news, "a first arrival is no duplicate");
                prop_assert_eq!((blocks[0].start, blocks[0].end - blocks[0].start),
                    (number * MSS, MSS + u64::from(number + 1 == count)));
            }
            let blocks = &blocks[usize::from(ack.is_dsack)..];
            for (index, block) in blocks.iter().enumerate() {
                prop_assert!(block.start > ack.ack && block.start < block.end);
                let all_got = (block.start / MSS..block.end.div_ceil(MSS).min(count))
                    .all(|number| got[number as usize]);
                prop_assert!(all_got, "{block:?} claims what never came");
                for other in &blocks[..index] {
                    prop_assert!(block.end < other.start || other.end < block.start, "{blocks:?}");
                }
            }
            // RFC 2018 section 4: the first block holds the segment that triggered the ACK.
            if is_news && number >= in_order {
                let first = blocks.first().expect("out-of-order data is reported");
                prop_assert!(first.start <= number * MSS && number * MSS < first.end);
            }
        }
        prop_assert!(receiver.is_finished());
    }
}

/// What waits for a gap by looking at all of it: the ranges with their segments, what is reported, and the duplicate.
#[derive(Default)]
struct Plain {
    ranges: Vec<(Range, u32)>,
    recent: Vec<Range>,
    duplicate: Option<Range>,
}

impl Plain {
    fn note_overlap(&mut self, range: Range) {
        for (held, _) in &self.ranges {
            let shared = Range { start: held.start.max(range.start), end: held.end.min(range.end) };
            match &mut self.duplicate {
                _ if shared.start >= shared.end => {}
                None => self.duplicate = Some(shared),
                Some(known) if known.end == shared.start => known.end = shared.end,
                Some(_) => return,
            }
        }
    }

    fn add(&mut self, range: Range) {
        self.note_overlap(range);
        let touches = |other: &Range| other.start <= range.end && range.start <= other.end;
        let (joined, apart): (Vec<_>, Vec<_>) = self.ranges.iter().partition(|(held, _)| touches(held));
        let is_held = joined.iter().any(|(held, _)| held.start <= range.start && range.end <= held.end);
        let start = joined.iter().map(|(held, _)| held.start).fold(range.start, u64::min);
        let end = joined.iter().map(|(held, _)| held.end).fold(range.end, u64::max);
        let whole = Range { start, end };
        let segments = joined.iter().map(|(_, segments)| segments).sum::<u32>() + u32::from(!is_held);
        self.ranges = [apart, vec![(whole, segments)]].concat();
        self.ranges.sort_by_key(|(held, _)| held.start);
        self.recent.retain(|block| block.end < whole.start || whole.end < block.start);
        self.recent.insert(0, whole);
        self.recent.truncate(4);
    }

    /// In order up to `next`.
    fn advance(&mut self, mut next: u64) -> u64 {
        while self.ranges.first().is_some_and(|(held, _)| held.start <= next) {
            next = next.max(self.ranges.remove(0).0.end);
        }
        self.recent.retain(|block| block.start > next);
        next
    }
}

proptest! {
    #[test]
    fn what_waits_for_a_gap_is_what_looking_at_all_of_it_gives(
        // Where a segment begins beyond what is expected, how long it is, and whether an acknowledgement leaves then.
        arrivals in prop::collection::vec((0u64..60, 1u64..8, any::<bool>()), 1..200),
    ) {
        let mut stack = Stack::named("linux", "").unwrap();
        stack.initial_receive_window = None;
        let mut receiver = Receiver::new(&stack, 1 << 20, MSS as u32);
        let (mut plain, mut next) = (Plain::default(), 0);
        for (at, length, is_acknowledged) in arrivals {
            let start = next + at;
            let range = Range { start, end: start + length };
            receiver.on_segment(&data(start, length, false), Time::from_ms(1), &RttEstimator::default(), &stack);
            // Linux forgets a duplicate that no ACK has reported when the next segment comes.
            plain.duplicate = None;
            if start > next {
                plain.add(range);
            } else {
                plain.note_overlap(range);
                next = plain.advance(range.end);
            }
            let held = &receiver.reassembly;
            prop_assert_eq!(receiver.next, next);
            prop_assert_eq!(&held.ranges, &plain.ranges);
            prop_assert_eq!(held.segments, plain.ranges.iter().map(|(_, segments)| segments).sum::<u32>());
            prop_assert_eq!(&held.recent[..usize::from(held.recent_count)], &plain.recent);
            prop_assert_eq!(held.duplicate, plain.duplicate);
            if is_acknowledged {
                if receiver.owes_early_ack() {
                    receiver.stamp(&mut Segment::blank(), &stack);
                }
                receiver.stamp(&mut Segment::blank(), &stack);
                plain.duplicate = None;
            }
        }
    }
}

#[test]
fn a_small_buffer_lets_the_window_double_once_a_round_trip() {
    let mut stack = Stack::named("linux-3.2", "").unwrap();
    stack.initial_receive_window = None;
    stack.initial_receive_buffer = Some(20_000);
    let mut receiver = Receiver::new(&stack, 1 << 20, MSS as u32);
    let mut windows = Vec::new();
    for round in 1..=4u64 {
        // A full window of data, one segment a ms, echoing what was sent a round trip of 100 ms ago.
        for _ in 0..receiver.window() / MSS {
            let at = Time::from_ms(100 * round);
            let segment =
                Segment { ts_ecr: Time::from_ms(100 * (round - 1)), ..data(receiver.next(), MSS, false) };
            receiver.on_segment(&segment, at, &rtt(100), &stack);
            let mut ack = Segment::blank();
            receiver.stamp(&mut ack, &stack);
        }
        windows.push(receiver.window());
    }
    // Half of 20 kB less a segment, in units of the scale; then never more than twice what a round trip brought.
    assert!((8_988..=9_020).contains(&windows[0]), "{windows:?}");
    assert!(windows.windows(2).all(|pair| pair[1] <= 2 * pair[0] + 2 * MSS), "{windows:?}");
    assert!(windows[3] >= 3 * windows[0], "{windows:?}");
}

#[test]
fn linux_keeps_a_segment_of_its_first_buffer_back() {
    let stack = Stack::named("linux", "").unwrap();
    let mut receiver = Receiver::new(&stack, 6 << 20, 1448);
    // 65536 B: 44 segments of 1460 B in the handshake, one of 1448 B less than all of it after that.
    assert_eq!((receiver.window(), receiver.offer.offered, receiver.capacity()), (64_240, 64_088, 64_088));
    // The end that listens knows that each carries a timestamp: 45 segments of 1448 B.
    receiver.listen(&stack);
    assert_eq!((receiver.window(), receiver.offer.offered, receiver.scale()), (65_160, 64_088, 7));
    // Two segments are always offered, and all of what is no more than that.
    for (buffer, capacity) in [(7_000, 2_896), (5_000, 2_500)] {
        let stack = Stack { initial_receive_buffer: Some(buffer), ..stack.clone() };
        assert_eq!(Receiver::new(&stack, 6 << 20, 1448).capacity(), capacity);
    }
}

/// The windows that Linux announced in the guest on a path of 10 Mbit/s and 40 ms: 6.1.0-56 and 7.3.4 of Debian's cloud kernels.
#[test]
fn windows_are_those_that_linux_announces() {
    let windows = |name| {
        let stack = Stack::named(name, "").unwrap();
        let mut receiver = Receiver::new(&stack, 6 << 20, 1448);
        receiver.listen(&stack);
        receiver.on_established(Time::from_ms(40));
        let mut take = |ms, sent| {
            let segment = Segment { ts_ecr: Time::from_ms(sent), ..data(receiver.next(), 1448, false) };
            receiver.on_segment(&segment, Time::from_ms(ms), &rtt(40), &stack);
            let mut ack = Segment::blank();
            receiver.stamp(&mut ack, &stack);
            ack.window
        };
        let first: Vec<_> = (0..10).map(|_| take(41, 0)).collect();
        [first, (0..20).map(|_| take(83, 41)).collect(), vec![take(125, 83), take(126, 84)]].concat()
    };
    let linux = windows("linux");
    assert_eq!(linux[..10], [64_128; 10]);
    // 45 segments of 1460 B are the window, and the one that has come takes 1152 B of it.
    assert_eq!((linux[10], &linux[11..31], linux[31]), (64_128, &[64_640; 20][..], 67_456));
    let linux_7 = windows("linux-7");
    assert_eq!(linux_7[..7], [67_072, 69_888, 72_832, 75_776, 78_592, 80_512, 80_512]);
}

/// A first segment is missing for 60 ms while eighteen others come, whose timestamps give this RTT; returns the window
/// that the buffer yields when the gap is filled. The two segments in order give 100 ms.
fn capacity_after_a_gap(segments_join: bool, rtt_ms: u64) -> u64 {
    let stack = Stack { segments_join, ..Stack::named("linux", "").unwrap() };
    let mut receiver = Receiver::new(&stack, 6 << 20, 1448);
    receiver.on_established(Time::ZERO);
    let mut take = |number: u64, ms: u64, rtt_ms: u64| {
        let sent = Time::from_ms(ms - rtt_ms);
        let segment = Segment { ts_ecr: sent, ..data(1448 * number, 1448, false) };
        receiver.on_segment(&segment, Time::from_ms(ms), &rtt(50), &stack);
    };
    take(0, 200, 100);
    for later in 2..20 {
        take(later, 200 + later, rtt_ms);
    }
    take(1, 260, 100);
    receiver.stamp(&mut Segment::blank(), &stack);
    receiver.capacity()
}

/// `tcp_rcv_space_adjust` after each buffer that is read; seen with Debian's 6.1 in a guest, whose window stayed as it
/// was when a gap was filled.
#[test]
fn segments_that_do_not_join_are_read_one_by_one_when_a_gap_is_filled() {
    assert_eq!(capacity_after_a_gap(false, 50), 64_088);
    // Nineteen segments after ten: (2·19 + 16)·(1 + 2·9/10) segments, less the one that has come.
    assert_eq!(capacity_after_a_gap(true, 50), 151 * 1460 - 1152);
}

/// Linux calls `tcp_rcv_rtt_measure_ts` before `tcp_data_queue`. Only by these samples is the round trip of 60 ms over.
#[test]
fn a_segment_out_of_order_gives_a_sample_of_the_rtt() {
    assert_eq!(capacity_after_a_gap(true, 100), 64_088);
}

/// `__tcp_select_window` counts what is unread, and the application reads what fills a gap after the ACK. Seen with Debian's
/// 6.1 in a guest, like the window that a segment out of order may bring before it is charged (`tcp_data_queue_ofo`).
#[test]
fn the_ack_that_fills_a_gap_offers_less_by_what_it_delivers() {
    let stack = Stack::named("linux", "").unwrap();
    let mut receiver = Receiver::new(&stack, 6 << 20, 1448);
    receiver.listen(&stack);
    receiver.on_established(Time::from_ms(40));
    let mut take = |number: u64| {
        receiver.on_segment(&data(1448 * number, 1448, false), Time::from_ms(41), &rtt(40), &stack);
        let mut ack = Segment::blank();
        receiver.stamp(&mut ack, &stack);
        ack.window + ack.ack
    };
    let edges: Vec<u64> = [0, 2, 3, 4, 1, 5].into_iter().map(&mut take).collect();
    // Three segments more than usual take 1152 B each: 60,672 B after 7,240. They are read before the sixth comes.
    assert_eq!(edges, [65_576, 65_576, 65_576, 65_576, 7_240 + 60_672, 8_688 + 64_128]);
}

/// A receiver of Linux has taken these segments in turn and sent an ACK for each that asks for one. Returns what the last
/// one asked for, the latest window offered, and whether another ACK is due.
fn after(numbers: impl IntoIterator<Item = u64>) -> (AckWhen, u64, bool) {
    let stack = Stack { quick_acks: 0, ..Stack::named("linux", "").unwrap() };
    let mut receiver = Receiver::new(&stack, 6 << 20, 1448);
    receiver.listen(&stack);
    receiver.on_established(Time::from_ms(40));
    let now = Time::from_ms(41);
    let (mut when, mut window) = (AckWhen::Never, 0);
    for number in numbers {
        when = receiver.on_segment(&data(1448 * number, 1448, false), now, &rtt(40), &stack);
        if when == AckWhen::Now {
            let mut ack = Segment { ts_val: now, ..Segment::blank() };
            receiver.stamp(&mut ack, &stack);
            window = ack.window;
        }
    }
    (when, window, receiver.ack_deadline(&stack) == now)
}

/// `tcp_cleanup_rbuf`: the application has read what filled the gap, and the window can double. Seen with Debian's 6.1 in
/// a guest.
#[test]
fn a_window_that_can_double_after_a_filled_gap_is_announced_at_once() {
    let filled = |held: u64| after([0].into_iter().chain(2..2 + held).chain([1]));
    assert_eq!(filled(20), (AckWhen::Now, 41_088, false));
    assert_eq!(filled(30), (AckWhen::Now, 29_568, true));
}

/// `__tcp_ack_snd_check`: the ACK of a gap filled in part offers less than before, so it is the first of the three that are
/// never held back. Seen with Debian's 6.1 in a guest.
#[test]
fn the_ack_of_a_gap_filled_in_part_is_the_first_duplicate() {
    let first = [0, 2, 3, 4, 6, 1];
    let later = |count: u64| after(first.into_iter().chain((7..).take(count as usize))).0;
    assert_eq!([0, 1, 2, 3].map(later), [AckWhen::Now, AckWhen::Now, AckWhen::Now, AckWhen::Later]);
}

#[test]
fn the_buffer_grows_after_the_ack_of_the_segment_that_makes_it() {
    let mut stack = Stack::named("linux", "").unwrap();
    stack.quick_acks = 0;
    let mut receiver = Receiver::new(&stack, 6 << 20, MSS as u32);
    let mut take = |ms| {
        let segment = data(receiver.next(), MSS, false);
        let when = receiver.on_segment(&segment, Time::from_ms(ms), &rtt(100), &stack);
        if when == AckWhen::Now {
            receiver.stamp(&mut Segment::blank(), &stack);
        }
        (when, receiver.offer.offered, receiver.capacity())
    };
    let first = (0..30).map(&mut take).last().unwrap();
    // A round trip has passed that brought thirty segments, where ten were expected.
    let (when, offered, capacity) = take(110);
    assert_eq!((when, offered), (AckWhen::Later, first.1));
    assert!(capacity > first.2, "{capacity}");
    // The next one finds the room.
    let (when, offered, _) = take(111);
    assert_eq!((when, offered), (AckWhen::Now, first.1 + 2 * MSS));
}
