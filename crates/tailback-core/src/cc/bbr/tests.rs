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

/// Twelve rounds at 10 Mbit/s; then what `rtt_us` the filter of the smallest RTT has, and since when.
fn measured() -> (Bbr, Lab) {
    let (mut bbr, mut lab) = started();
    feed(&mut bbr, &mut lab, 10_000_000, 12);
    assert_eq!(bbr.state.rtt_us, 80_000);
    (bbr, lab)
}

#[test]
fn an_rtt_as_small_as_the_smallest_does_not_renew_it() {
    // Linux 6.1 compares with `<`: shallow buffers give the smallest RTT again and again, and it is probed for all the same.
    let (mut bbr, mut lab) = measured();
    let known_since = bbr.state.rtt_at;
    lab.rtt = Duration::from_ms(80);
    let ack = lab.ack(1);
    bbr.on_ack(&ack, &mut lab.control);
    assert_eq!(bbr.state.rtt_at, known_since);
    lab.now = known_since + Duration::from_ms(10_001);
    let ack = lab.ack(1);
    bbr.on_ack(&ack, &mut lab.control);
    assert_eq!((bbr.state.mode, bbr.state.rtt_at), (Mode::ProbeRtt, lab.now));
}

#[test]
fn an_ack_that_may_have_waited_does_not_replace_an_expired_rtt() {
    for (is_delayed, expected) in [(true, 80_000), (false, 120_000)] {
        let (mut bbr, mut lab) = measured();
        lab.now = bbr.state.rtt_at + Duration::from_ms(10_001);
        lab.rtt = Duration::from_ms(120);
        let ack = lab.ack(1);
        bbr.on_ack(&Ack { is_delayed, ..ack }, &mut lab.control);
        assert_eq!(bbr.state.rtt_us, expected, "delayed: {is_delayed}");
    }
}

#[test]
fn each_ack_while_the_rtt_is_probed_for_asks_not_to_count_for_the_rate() {
    let (mut bbr, mut lab) = measured();
    let ack = lab.ack(1);
    bbr.on_ack(&ack, &mut lab.control);
    assert!(!lab.control.self_limited);
    lab.now = bbr.state.rtt_at + Duration::from_ms(10_001);
    for _ in 0..3 {
        lab.control.self_limited = false;
        let ack = lab.ack(1);
        bbr.on_ack(&ack, &mut lab.control);
        assert!(bbr.state.mode == Mode::ProbeRtt && lab.control.self_limited);
    }
}

#[test]
fn a_pause_that_outlasts_the_probe_ends_it_before_the_next_segment() {
    let (mut bbr, mut lab) = measured();
    let before = lab.window();
    lab.now = bbr.state.rtt_at + Duration::from_ms(10_001);
    for _ in 0..2 {
        let ack = Ack { in_flight: 0, ..lab.ack(1) };
        bbr.on_ack(&ack, &mut lab.control);
    }
    assert_eq!((bbr.state.mode, lab.window()), (Mode::ProbeRtt, MIN_WINDOW));
    for (idle_ms, mode, window) in [(100, Mode::ProbeRtt, MIN_WINDOW), (101, Mode::ProbeBw, before)] {
        lab.now += Duration::from_ms(idle_ms);
        let resume = Resume { now: lab.now, idle: Duration::from_ms(idle_ms), app_limited: true, snd_nxt: 0 };
        bbr.on_resume(&resume, &mut lab.control);
        assert_eq!((bbr.state.mode, lab.window()), (mode, window), "after {idle_ms} ms more");
    }
}

#[test]
fn the_room_for_bursts_follows_the_pacing_rate_in_force() {
    // 200 Mbit/s and 80 ms: 2000 segments of 1000 bytes. Bursts of a millisecond (1/1024 s) at 1.25, 0.75 and 1 of that.
    let (mut bbr, mut lab) = started();
    bbr.state.rtt_us = 80_000;
    bbr.state.bandwidth.update(BW_ROUNDS, 1, 200_000_000);
    for (pacing_mbit, bursts) in [(250, 90), (150, 54), (200, 72)] {
        lab.control.pacing = Some(Rate::from_bps(pacing_mbit * 1_000_000));
        assert_eq!(bbr.state.inflight(ONE, &lab.control), 2_000 + bursts, "{pacing_mbit} Mbit/s");
    }
}

#[test]
fn a_timeout_is_a_loss_for_the_detection_of_policers() {
    let (mut bbr, mut lab) = measured();
    let change = PhaseChange {
        now: lab.now + Duration::from_ms(300),
        from: Phase::Open,
        to: Phase::Loss,
        completes: false,
        snd_una: lab.snd_una,
        snd_nxt: lab.snd_nxt,
        srtt: lab.rtt,
        delivered: lab.delivered,
        delivered_at: lab.now,
        lost: 30_000,
    };
    bbr.on_phase(&change, &mut lab.control);
    let policer = bbr.state.policer;
    assert!(policer.sampling);
    // The interval begins with what was delivered last, not with the timer.
    assert_eq!((policer.at, policer.delivered, policer.lost), (lab.now, lab.delivered, 30_000));
}
