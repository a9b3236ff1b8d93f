use super::*;
use crate::cc::fixture::{Lab, MSS, build};
use crate::cc::{Counting, DeliverySample, Signal};

/// A bottleneck of `bps` of payload and 80 ms without queue; `lossy`: every tenth ACK reports a loss.
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
            bbr.on_ack(&ack, &mut lab.control);
        }
    }
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
            assert!(bbr.state.probe_rtt_window(MSS) < 60_000);
        }
        before = bbr.state.mode;
    }
    assert!((3..=4).contains(&probes), "{probes}");
}

#[test]
fn a_timeout_restarts_from_one_segment_and_restores() {
    let (mut bbr, mut lab) = started();
    feed(&mut bbr, &mut lab, 10_000_000, 14, false);
    let before = lab.window();
    bbr.on_congestion(&lab.congestion(Signal::Timeout { first: true }), &mut lab.control);
    assert_eq!(lab.window(), 1);
    lab.change(Phase::Loss, &mut bbr);
    lab.change(Phase::Open, &mut bbr);
    feed(&mut bbr, &mut lab, 10_000_000, 1, false);
    assert!(lab.window() * 2 > before, "{} after {before}", lab.window());
}
