use super::*;
use crate::cc::fixture::{Lab, MSS, build};
use crate::cc::{Counting, DeliverySample};

/// A bottleneck of 10 Mbit/s of payload and 80 ms, `window` segments in flight.
fn feed(bbr: &mut Bbr, lab: &mut Lab, bps: u64, rounds: usize) {
    for _ in 0..rounds {
        let segments = lab.window();
        let mss = u64::from(MSS);
        let span = Rate::from_bps(bps).time_for(segments * mss).as_us().max(80_000);
        let sample = DeliverySample { bytes: segments * mss, interval: Duration::from_us(span) };
        let sent = lab.delivered;
        lab.rtt = Duration::from_us(span);
        for _ in 0..segments {
            lab.now += Duration::from_us(span) / segments;
            let ack = lab.ack(1);
            // Pacing below the estimate lets the queue drain whatever the window allows.
            let empty_path = Rate::from_bps(bps).bytes_in(Duration::from_ms(80));
            let in_flight = ack.in_flight.min(empty_path);
            let ack = Ack { delivery: Some(sample), prior_delivered: sent, in_flight, ..ack };
            bbr.on_ack(&ack, &mut lab.control);
        }
    }
}

fn started() -> (Bbr, Lab) {
    let mut bbr = build::<Bbr>(&[]);
    let mut lab = Lab::new(10, Counting::PerSegment);
    bbr.on_established(lab.now, Some(Duration::from_ms(80)), &mut lab.control);
    (bbr, lab)
}

#[test]
fn the_first_pacing_rate_is_2_89_initial_windows_a_handshake() {
    let (_, lab) = started();
    // 10 · 8000 bit/80 ms = 1 Mbit/s, · 739/256 · 0.99.
    assert_eq!(lab.control.pacing.unwrap().as_bps(), 2_857_851);
}

#[test]
fn startup_ends_after_three_rounds_without_growth() {
    let (mut bbr, mut lab) = started();
    feed(&mut bbr, &mut lab, 10_000_000, 4);
    assert_eq!(bbr.state.mode, Mode::Startup);
    feed(&mut bbr, &mut lab, 10_000_000, 6);
    assert!(bbr.state.full);
    assert_ne!(bbr.state.mode, Mode::Startup);
}

#[test]
fn the_window_is_two_empty_paths_and_three_bursts() {
    let (mut bbr, mut lab) = started();
    feed(&mut bbr, &mut lab, 10_000_000, 30);
    assert_eq!(bbr.state.mode, Mode::ProbeBw);
    // BDP 100 segments of 1000 bytes; 200, three bursts of two or so, and what arrives in bunches.
    assert!((204..=320).contains(&lab.window()), "{}", lab.window());
    bbr.state.extra = [0; 2];
    let target = bbr.state.budget(bbr.state.bdp(2 * ONE, MSS), 10_000_000, MSS);
    assert!((206..=210).contains(&target) && target % 2 == 0, "{target}");
}

#[test]
fn the_cycle_has_eight_phases_and_never_starts_below() {
    for seed in 0..50 {
        let (mut bbr, _) = started();
        bbr.state.stream = Stream::named(seed, "bbr");
        bbr.state.begin_probe_bw(Time::ZERO);
        assert_ne!(CYCLE[usize::from(bbr.state.cycle)], 192);
    }
}

#[test]
fn every_ten_seconds_four_segments_for_a_fifth_of_one() {
    let (mut bbr, mut lab) = started();
    feed(&mut bbr, &mut lab, 10_000_000, 12);
    let mut least = u64::MAX;
    let start = lab.now;
    while lab.now.since(start) < Duration::from_secs(25) {
        // The RTT never comes down to its minimum again.
        lab.control.cwnd = lab.control.cwnd.max(u64::from(MSS));
        feed(&mut bbr, &mut lab, 8_000_000, 1);
        least = least.min(lab.window());
    }
    assert_eq!(least, MIN_WINDOW);
    assert_ne!(bbr.state.mode, Mode::Startup);
}

#[test]
fn recovery_conserves_packets_for_a_round_and_then_restores_the_window() {
    let (mut bbr, mut lab) = started();
    feed(&mut bbr, &mut lab, 10_000_000, 30);
    let before = lab.window();
    bbr.on_congestion(&lab.congestion(crate::cc::Signal::Loss), &mut lab.control);
    lab.change(Phase::Recovery, &mut bbr);
    let ack = lab.ack(1);
    let ack = Ack { in_flight: 50_000, lost_segments: 3, ..ack };
    bbr.on_ack(&ack, &mut lab.control);
    assert_eq!(lab.window(), 51);
    lab.change(Phase::Open, &mut bbr);
    let ack = lab.ack(1);
    bbr.on_ack(&ack, &mut lab.control);
    assert!(lab.window() + 10 >= before.min(206), "{} after {before}", lab.window());
}

#[test]
fn a_held_departure_counts_what_is_delivered_until_then() {
    let (mut bbr, mut lab) = started();
    feed(&mut bbr, &mut lab, 10_000_000, 30);
    let ack = lab.ack(1);
    let held = Ack { departs: ack.now + Duration::from_us(1_700), ..ack };
    // 10 Mbit/s in 1.7 ms: 2,125 bytes, two whole segments of 1000.
    for (gain, at_once, later) in [(ONE, 100, 98), (192, 100, 98), (320, 102, 100)] {
        bbr.state.pacing_gain = gain;
        assert_eq!(bbr.state.in_network(100_000, &ack, &lab.control), at_once, "gain {gain}");
        assert_eq!(bbr.state.in_network(100_000, &held, &lab.control), later, "gain {gain}");
    }
}
