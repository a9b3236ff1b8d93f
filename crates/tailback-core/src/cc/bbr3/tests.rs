use super::*;
use crate::cc::fixture::{Lab, MSS, build};
use crate::cc::{Counting, DeliverySample, Loss, Signal};

/// A bottleneck of `bps` of payload and 80 ms without queue; `lossy`: with every tenth ACK a packet of the last round is lost.
fn feed(bbr: &mut Bbr3, lab: &mut Lab, bps: u64, rounds: usize, lossy: bool) {
    let mss = u64::from(MSS);
    for _ in 0..rounds {
        let segments = lab.window();
        let span = Rate::from_bps(bps).time_for(segments * mss).as_us().max(80_000);
        let sample = DeliverySample { bytes: segments * mss, interval: Duration::from_us(span) };
        let sent = lab.delivered;
        lab.rtt = Duration::from_us(span);
        for n in 0..segments {
            lab.now += Duration::from_us(span) / segments;
            let ack = lab.ack(1);
            let in_flight = ack.in_flight.min(Rate::from_bps(bps).bytes_in(Duration::from_ms(80)));
            let lost_segments = u32::from(lossy && n % 10 == 0);
            let ack = Ack { delivery: Some(sample), prior_delivered: sent, in_flight, lost_segments, ..ack };
            acked(bbr, lab, &ack);
        }
    }
}

/// An ACK of the oldest packet but one, as the sender reports it; the oldest is lost `lost_segments` times.
fn acked(bbr: &mut Bbr3, lab: &mut Lab, ack: &Ack) {
    let oldest = bbr.state.sent.front().copied();
    let lost: Vec<_> = oldest
        .into_iter()
        .flat_map(|it| (0..ack.lost_segments).map(move |_| it))
        .map(|it| Loss { sent: it.at, end: it.end, bytes: u64::from(MSS) })
        .collect();
    let newest = bbr.state.sent.get(1).map_or((Time::ZERO, 0), |it| (it.at, it.end));
    let (now, snd_una, in_flight) = (lab.now, lab.snd_una, ack.in_flight);
    let fates = Fates { now, ack: Some(ack), newest, lost: &lost, snd_una, in_flight };
    bbr.on_fates(&fates, &mut lab.control);
    bbr.on_ack(ack, &mut lab.control);
    // A window ahead of what is acknowledged.
    let ahead = snd_una + lab.control.cwnd;
    let end = bbr.state.sent.back().map_or(ahead, |it| ahead.max(it.end + u64::from(MSS)));
    let departure =
        Departure { now, end, bytes: u64::from(MSS), in_flight: ack.prior_in_flight, app_limited: false };
    bbr.on_sent(&departure, &mut lab.control);
}

fn started() -> (Bbr3, Lab) {
    let mut bbr = build::<Bbr3>(&[]);
    let mut lab = Lab::new(10, Counting::PerSegment);
    bbr.on_established(lab.now, Some(Duration::from_ms(80)), &mut lab.control);
    (bbr, lab)
}

#[test]
fn gains_are_the_drafts() {
    let (mut bbr, lab) = started();
    // 10 · 8000 bit/80 ms = 1 Mbit/s, · 2.77 · 0.99.
    assert_eq!(lab.control.pacing.unwrap().as_bps(), 2_742_300);
    let gains = [
        (Mode::Drain, (50, 200)),
        (Mode::Down, (90, 200)),
        (Mode::Cruise, (100, 200)),
        (Mode::Refill, (100, 200)),
        (Mode::Up, (125, 225)),
        (Mode::ProbeRtt, (100, 50)),
    ];
    for (mode, expected) in gains {
        bbr.state.mode = mode;
        assert_eq!(bbr.state.gains(), expected);
    }
}

#[test]
fn startup_drains_and_then_cruises_at_the_estimate() {
    let (mut bbr, mut lab) = started();
    feed(&mut bbr, &mut lab, 10_000_000, 14, false);
    assert!(bbr.state.full && bbr.state.is_probe_bw(), "{:?}", bbr.state.mode);
    assert!((9_900_000..=10_100_000).contains(&bbr.state.estimate()));
    // BDP 100 segments; twice that, and what arrives in bunches.
    assert!((195..=420).contains(&lab.window()), "{}", lab.window());
}

#[test]
fn probes_come_every_two_to_three_seconds() {
    let (mut bbr, mut lab) = started();
    feed(&mut bbr, &mut lab, 10_000_000, 14, false);
    let mut ups = Vec::new();
    let mut before = bbr.state.mode;
    let start = lab.now;
    while lab.now.since(start) < Duration::from_secs(40) {
        feed(&mut bbr, &mut lab, 10_000_000, 1, false);
        if bbr.state.mode == Mode::Up && before != Mode::Up {
            ups.push(lab.now);
        }
        before = bbr.state.mode;
    }
    assert!(ups.len() >= 8, "{}", ups.len());
    for pair in ups.windows(2) {
        let gap = pair[1].since(pair[0]);
        assert!(gap > Duration::from_ms(1_900) && gap < Duration::from_ms(6_500), "{gap:?}");
    }
}

#[test]
fn loss_while_cruising_keeps_seven_tenths() {
    let (mut bbr, mut lab) = started();
    feed(&mut bbr, &mut lab, 10_000_000, 14, false);
    let state = &mut *bbr.state;
    state.mode = Mode::Cruise;
    state.loss_in_round = true;
    state.loss_round_start = true;
    state.bw_latest = 5_000_000;
    state.inflight_latest = 40_000;
    lab.control.cwnd = 200_000;
    let bandwidth = state.max_bandwidth();
    state.adapt_lower_bounds(&lab.control);
    assert_eq!((state.bw_lo, state.inflight_lo), (bandwidth / 100 * 70, 140_000));
}

#[test]
fn a_lossy_probe_sets_the_long_term_bound_and_ends() {
    let (mut bbr, mut lab) = started();
    feed(&mut bbr, &mut lab, 10_000_000, 14, false);
    let ack = lab.ack(1);
    bbr.state.begin_up(&ack, &lab.control);
    feed(&mut bbr, &mut lab, 10_000_000, 1, true);
    assert_ne!(bbr.state.mode, Mode::Up);
    assert_ne!(bbr.state.inflight_hi, UNBOUNDED);
    // And cruising leaves 15 % of it to others.
    let headroom = bbr.state.with_headroom(MSS);
    assert_eq!(headroom, bbr.state.inflight_hi - bbr.state.inflight_hi * 15 / 100);
}

#[test]
fn every_five_seconds_half_a_window() {
    let (mut bbr, mut lab) = started();
    feed(&mut bbr, &mut lab, 10_000_000, 14, false);
    let mut probes = 0;
    let start = lab.now;
    let mut before = bbr.state.mode;
    while lab.now.since(start) < Duration::from_secs(21) {
        // A standing queue: the smallest RTT does not return.
        feed(&mut bbr, &mut lab, 9_000_000, 1, false);
        if bbr.state.mode == Mode::ProbeRtt && before != Mode::ProbeRtt {
            probes += 1;
            assert!(bbr.state.probe_rtt_window(&lab.control) < 60_000);
        }
        before = bbr.state.mode;
    }
    assert!((3..=4).contains(&probes), "{probes}");
}

#[test]
fn the_window_before_a_timeout_returns() {
    let (mut bbr, mut lab) = started();
    feed(&mut bbr, &mut lab, 10_000_000, 14, false);
    let before = lab.window();
    bbr.on_congestion(&lab.congestion(Signal::Timeout { first: true }), &mut lab.control);
    lab.control.cwnd = u64::from(MSS);
    lab.change(Phase::Loss, &mut bbr);
    lab.change(Phase::Open, &mut bbr);
    feed(&mut bbr, &mut lab, 10_000_000, 1, false);
    assert!(lab.window() * 2 > before, "{} after {before}", lab.window());
}

/// Past Startup at 10 Mbit/s, BDP 100 segments, probing at a bound of 150.
fn probing() -> (Bbr3, Lab) {
    let (mut bbr, mut lab) = started();
    feed(&mut bbr, &mut lab, 10_000_000, 14, false);
    let ack = lab.ack(1);
    bbr.state.begin_up(&ack, &lab.control);
    bbr.state.inflight_hi = 150_000;
    bbr.state.latest = Latest { in_flight: 100_000, lost: 0 };
    (bbr, lab)
}

fn lose(bbr: &mut Bbr3, lab: &mut Lab, in_flight: Bytes, packets: u64) {
    let at = lab.now;
    let ends: Vec<_> = (1..=packets).map(|n| lab.snd_nxt + 2 * n * u64::from(MSS)).collect();
    for end in &ends {
        let departure = Departure { now: at, end: *end, bytes: 1_000, in_flight, app_limited: false };
        bbr.on_sent(&departure, &mut lab.control);
    }
    let lost: Vec<_> = ends.iter().map(|end| Loss { sent: at, end: *end, bytes: 1_000 }).collect();
    let fates = Fates { now: at, ack: None, newest: (at, 0), lost: &lost, snd_una: lab.snd_una, in_flight };
    bbr.on_fates(&fates, &mut lab.control);
}

#[test]
fn the_bound_is_the_flight_in_which_losses_came_to_two_per_cent() {
    let (bbr, _) = started();
    // Of 99,000 bytes before the packet 1,980 may be lost; 1,500 were, and of its own 480/0.98.
    for (lost, flight) in [(2_500, 99_489), (3_000, 99_000), (3_500, 99_000)] {
        assert_eq!(bbr.state.inflight_at_loss(Latest { in_flight: 100_000, lost }, 1_000), flight);
    }
}

#[test]
fn packets_lost_from_a_probe_count_against_the_flight_they_were_sent_in() {
    // Two of 100 are 2 %, the third is too much: inflight_hi is what was in flight before it.
    for (packets, bound, mode) in [(2, 150_000, Mode::Up), (3, 99_000, Mode::Down)] {
        let (mut bbr, mut lab) = probing();
        lose(&mut bbr, &mut lab, 100_000, packets);
        assert_eq!((bbr.state.inflight_hi, bbr.state.mode), (bound, mode), "{packets} lost");
        assert_eq!(bbr.state.was_too_high, packets == 3);
    }
}

#[test]
fn what_was_sent_after_a_probe_does_not_lower_the_bound() {
    let (mut bbr, mut lab) = probing();
    bbr.state.begin_down(lab.now);
    bbr.state.round_start = true;
    let ack = lab.ack(1);
    bbr.state.adapt_long_term(&ack, &lab.control);
    lose(&mut bbr, &mut lab, 100_000, 20);
    assert_eq!(bbr.state.inflight_hi, 150_000);
}

#[test]
fn a_probe_after_one_that_lost_too_much_stops_at_the_bound_and_goes_on_if_that_was_safe() {
    let (mut bbr, mut lab) = probing();
    bbr.state.was_too_high = true;
    let ack = Ack { prior_in_flight: 149_000, ..lab.ack(1) };
    bbr.state.round_start = false;
    bbr.state.advance_cycle(&ack, &lab.control);
    assert_eq!(bbr.state.mode, Mode::Up, "below the bound");
    bbr.state.advance_cycle(&Ack { prior_in_flight: 150_000, ..ack }, &lab.control);
    assert_eq!((bbr.state.mode, bbr.state.was_cautious, bbr.state.was_too_high), (Mode::Down, true, false));
    bbr.state.round_start = true;
    bbr.state.advance_cycle(&ack, &lab.control);
    assert_eq!((bbr.state.mode, bbr.state.was_cautious), (Mode::Refill, false));
}

#[test]
fn recovery_does_not_conserve_packets() {
    let (mut bbr, mut lab) = started();
    feed(&mut bbr, &mut lab, 10_000_000, 30, false);
    let before = lab.window();
    bbr.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
    lab.change(Phase::Recovery, &mut bbr);
    let ack = Ack { in_flight: 50_000, lost_segments: 3, ..lab.ack(1) };
    acked(&mut bbr, &mut lab, &ack);
    assert!(lab.window() >= before, "{} after {before}", lab.window());
}

#[test]
fn a_loss_round_begins_with_its_first_loss() {
    let (mut bbr, mut lab) = probing();
    bbr.state.delivered = 777_000;
    lose(&mut bbr, &mut lab, 100_000, 1);
    assert_eq!(bbr.state.loss_round, 777_000);
    bbr.state.delivered = 888_000;
    lose(&mut bbr, &mut lab, 100_000, 1);
    assert_eq!(bbr.state.loss_round, 777_000, "the second is of the same round");
}

#[test]
fn ranges_and_not_packets_are_counted() {
    let (mut bbr, lab) = probing();
    let mut control = lab.control;
    let at = lab.now;
    // Two packets in a row, and one alone.
    for end in [11_000, 12_000, 20_000] {
        bbr.state.take_loss(&Loss { sent: at, end, bytes: 1_000 }, at, &mut control);
    }
    assert_eq!(bbr.state.lost_ranges, 2);
}

#[test]
fn what_was_not_lost_gives_the_bounds_back_and_probes_again() {
    let (mut bbr, mut lab) = probing();
    bbr.state.bw_lo = 9_000_000;
    bbr.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
    lose(&mut bbr, &mut lab, 100_000, 8);
    lab.change(Phase::Recovery, &mut bbr);
    assert!(bbr.state.inflight_hi < 150_000 && bbr.state.mode == Mode::Down);
    bbr.state.bw_lo = 5_000_000;
    bbr.on_undo(lab.now, &mut lab.control);
    // Earlier bounds stay; a probe begins with a round at the estimate, which drops the short-term ones.
    assert_eq!((bbr.state.inflight_hi, bbr.state.mode), (150_000, Mode::Refill));
    let (mut bbr, mut lab) = probing();
    bbr.state.mode = Mode::Cruise;
    bbr.state.bw_lo = 9_000_000;
    bbr.on_congestion(&lab.congestion(Signal::Loss), &mut lab.control);
    bbr.state.bw_lo = 5_000_000;
    bbr.on_undo(lab.now, &mut lab.control);
    assert_eq!((bbr.state.bw_lo, bbr.state.mode), (9_000_000, Mode::Cruise));
}

#[test]
fn drain_lasts_three_rounds_at_most() {
    let (mut bbr, mut lab) = started();
    feed(&mut bbr, &mut lab, 10_000_000, 14, false);
    bbr.state.mode = Mode::Startup;
    for round in 0..5 {
        bbr.state.rounds += u32::from(round > 0);
        // The flight never comes down.
        let ack = Ack { in_flight: 900_000, ..lab.ack(1) };
        bbr.state.check_startup_and_drain(&ack, &lab.control);
        assert_eq!(bbr.state.mode, if round < 4 { Mode::Drain } else { Mode::Down }, "round {round}");
    }
}

#[test]
fn a_plateau_is_looked_for_once_a_round() {
    let (mut bbr, mut lab) = started();
    let rate = |bps: u64| Some(DeliverySample { bytes: bps / 8, interval: Duration::from_secs(1) });
    bbr.state.full_bandwidth = 10_000_000;
    bbr.state.full_rounds = 2;
    let ack = Ack { delivery: rate(20_000_000), ..lab.ack(1) };
    bbr.state.round_start = false;
    bbr.state.check_full(&ack);
    assert_eq!(bbr.state.full_rounds, 2, "a faster sample within the round changes nothing");
    bbr.state.round_start = true;
    bbr.state.check_full(&ack);
    assert_eq!((bbr.state.full_rounds, bbr.state.full_bandwidth), (0, 20_000_000));
}

#[test]
fn the_rtts_probe_does_not_count_for_the_rate_and_a_pause_may_end_it() {
    let (mut bbr, mut lab) = started();
    feed(&mut bbr, &mut lab, 10_000_000, 14, false);
    lab.control.self_limited = false;
    lab.now = bbr.state.probe_rtt_at + Duration::from_ms(5_001);
    for _ in 0..2 {
        let ack = Ack { in_flight: 0, ..lab.ack(1) };
        acked(&mut bbr, &mut lab, &ack);
    }
    assert!(bbr.state.mode == Mode::ProbeRtt && lab.control.self_limited);
    for (idle_ms, mode) in [(100, Mode::ProbeRtt), (101, Mode::Cruise)] {
        lab.now += Duration::from_ms(idle_ms);
        let resume = Resume { now: lab.now, idle: Duration::from_ms(idle_ms), app_limited: true, snd_nxt: 0 };
        bbr.on_resume(&resume, &mut lab.control);
        assert_eq!(bbr.state.mode, mode);
    }
}

#[test]
fn room_for_bursts_comes_after_what_arrives_at_once() {
    // A BDP of 5 segments, 3 of aggregation: 2·5 + 3 segments are more than three bursts of two.
    let (mut bbr, mut lab) = started();
    bbr.state.rtt_us = 80_000;
    bbr.state.bandwidth = [500_000, 0];
    bbr.state.full = true;
    bbr.state.mode = Mode::Cruise;
    bbr.state.extra.update(10, 0, 3_000);
    lab.control.cwnd = 50_000;
    let ack = lab.ack(1);
    bbr.state.set_window(&ack, &mut lab.control);
    assert_eq!(lab.window(), 13);
    bbr.state.bandwidth = [100_000, 0];
    bbr.state.set_window(&ack, &mut lab.control);
    assert_eq!(lab.window(), 6, "2·1 + 3 are fewer than three bursts of two");
}
