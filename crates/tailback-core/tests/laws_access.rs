//! Laws of modern access links: the request and grant delays of a cable modem, and the reallocations of a satellite
//! link.

use crate::common::media::{Notebook, arrivals, back_to_back, build, link, medium, number, packet};
use tailback_core::link::Link;
use tailback_core::queue::Fate;
use tailback_core::scenario::{LinkSpec, Value};
use tailback_core::time::{Duration, Rate, Time};

const MAP: Duration = Duration::from_ms(2);

fn docsis(params: &[(&str, Value)]) -> LinkSpec {
    link(medium("docsis", params))
}

fn leo(params: &[(&str, Value)]) -> LinkSpec {
    link(medium("leo", params))
}

/// `n` packets of `bytes` bytes, one per `gap`.
fn every(gap: Duration, n: u64, bytes: u32) -> Vec<(Time, u32)> {
    (0..n).map(|i| (Time::ZERO + gap * i, bytes)).collect()
}

fn interval_of(at: Time, length: Duration) -> u64 {
    at.as_ps() / length.as_ps()
}

// -------------------------------------------------------------------------------- DOCSIS

#[test]
fn a_lone_packet_asks_and_waits_one_to_four_map_intervals() {
    // An odd gap, so that packets arrive at all phases of an interval.
    let pushes = every(Duration::from_us(50_337), 4000, 1482);
    let delays: Vec<f64> = arrivals(&docsis(&[]), &pushes)
        .iter()
        .zip(&pushes)
        .map(|(got, (at, _))| got.since(*at).as_secs_f64() * 1e3)
        .collect();
    // 1500 bytes with Ethernet's 18 at 100 Mbit/s; the largest grant, 2500 bytes, may begin up to 1.8 ms late.
    let sending = 0.12;
    for delay in &delays {
        assert!((2.0 + sending..6.0 + 1.8 + sending).contains(delay), "{delay}");
    }
    // Come at phase a, it asks in its own interval with probability 1 − a and then waits 2 − a intervals, else 3 − a:
    // two on average. Deviations 0.82 and, of the place, 0.52 ms.
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    assert!((mean - (4.0 + 0.9 + sending)).abs() < 4.0 * 0.97 / 4000f64.sqrt(), "{mean}");
}

#[test]
fn a_grant_no_later_than_the_request_allows_is_the_floor() {
    // A grant as long as the interval fits in only one position.
    let fast = [("rate_bps", number(1e8)), ("grant_ms", number(0.1))];
    let pushes = every(Duration::from_us(50_337), 2000, 1482);
    let sending = Duration::from_us(120);
    for (got, (at, _)) in arrivals(&docsis(&fast), &pushes).iter().zip(&pushes) {
        let waited = got.since(*at) - sending;
        assert_eq!((got.as_ps() - sending.as_ps()) % MAP.as_ps(), 0, "{got:?}");
        // It asks within two intervals, and the next one that begins 0.1 ms later is at most one further.
        assert!(waited >= Duration::from_us(100) && waited <= MAP * 3, "{waited:?}");
    }
}

#[test]
fn a_backlogged_modem_has_its_whole_rate_in_blocks() {
    for (rate, line) in [(10e6, 1e8), (10e6, 10e6), (7.3e6, 31e6)] {
        let n = 5000;
        let spec = docsis(&[("rate_bps", number(rate)), ("line_bps", number(line))]);
        let got = arrivals(&spec, &back_to_back(n, 1500));
        let full = n as f64 * 1518.0 * 8.0 / rate;
        let took = got[n - 1].as_secs_f64();
        // The first request, its grant and the first block's place come on top; the last block begins early.
        assert!(took > full && took < full + 0.008, "{took} {full}");
        let sending = Rate::from_bps(line as u64).time_for(1518);
        // Within a block packets follow each other at the line's rate.
        let same =
            got.windows(2).filter(|pair| pair[1].since(pair[0]).abs_diff(sending) <= Duration::from_ps(1));
        let blocks = rate * MAP.as_secs_f64() / 8.0 / 1518.0;
        let within = 1.0 - 1.0 / blocks.max(1.0);
        assert!(same.count() as f64 >= (within - 0.01) * n as f64);
        // And no interval carries more than its share, one byte more if that is no whole number.
        let mut sent = vec![0u64; interval_of(got[n - 1], MAP) as usize + 1];
        for at in &got {
            sent[interval_of(*at, MAP) as usize] += 1518;
        }
        let share = rate * MAP.as_secs_f64() / 8.0;
        assert!(sent.iter().all(|bytes| (*bytes as f64) < share + 1519.0));
    }
}

#[test]
fn without_concatenation_a_packet_goes_every_other_interval() {
    let single = [("concatenation", Value::Flag(false))];
    let got = arrivals(&docsis(&single), &back_to_back(500, 1000));
    // The next request goes with the grant, somewhere in its interval; a whole interval later at the earliest one that
    // grants it begins.
    for pair in got.windows(2) {
        assert_eq!(interval_of(pair[1], MAP) - interval_of(pair[0], MAP), 2);
    }
    // On a channel with room for nothing else a grant begins with its interval, and so does the next.
    let tight = [single[0].clone(), ("rate_bps", number(1e8))];
    for pair in arrivals(&docsis(&tight), &back_to_back(500, 1000)).windows(2) {
        assert_eq!(pair[1].since(pair[0]), MAP);
    }
}

#[test]
fn a_stream_below_the_rate_is_never_further_than_its_requests() {
    // 9 of 10 Mbit/s. A packet asks in its interval or the next, is granted two later, and may find the allowance of
    // one interval used.
    let pushes = every(Duration::from_us(1349), 5000, 1500);
    for (got, (at, _)) in arrivals(&docsis(&[]), &pushes).iter().zip(&pushes) {
        assert!(got.since(*at) < MAP * 6, "{at:?} {got:?}");
    }
}

// -------------------------------------------------------------------------------- low orbit

/// Only rates vary between intervals.
fn rates_only(interval_ms: f64) -> Vec<(&'static str, Value)> {
    vec![
        ("delay_ms", number(0.0)),
        ("delay_most_ms", number(0.0)),
        ("outage_ms", number(0.0)),
        ("loss", number(0.0)),
        ("rate_bps", number(10e6)),
        ("interval_ms", number(interval_ms)),
    ]
}

/// Only delays vary between intervals, at a rate so high that a packet takes 1.2 µs.
fn delays_only() -> Vec<(&'static str, Value)> {
    vec![
        ("spread", number(0.0)),
        ("rate_bps", number(1e10)),
        ("outage_ms", number(0.0)),
        ("loss", number(0.0)),
    ]
}

#[test]
fn a_rate_holds_for_its_interval_and_changes_at_its_end_only() {
    let got = arrivals(&leo(&rates_only(15_000.0)), &back_to_back(100_000, 1500));
    let length = Duration::from_ms(15_000);
    let (mut rates, mut changes) = (vec![], 0);
    for pair in got.windows(3) {
        let gaps = (pair[1].since(pair[0]), pair[2].since(pair[1]));
        let is_within = interval_of(pair[0], length) == interval_of(pair[2], length);
        if is_within {
            assert!(gaps.0.abs_diff(gaps.1) <= Duration::from_ps(1), "{pair:?}");
            let rate = 12_000.0 / gaps.0.as_secs_f64();
            assert!((6e6 - 1.0..14e6 + 1.0).contains(&rate), "{rate}");
            rates.push(rate as u64);
        } else {
            changes += 1;
        }
    }
    rates.dedup_by(|a, b| a.abs_diff(*b) < 100);
    assert_eq!(rates.len() as u64, interval_of(got[99_999], length) + 1, "a rate an interval: {rates:?}");
    // The two triples about a reallocation, or three if a packet ends just there.
    assert!(changes <= 3 * (rates.len() - 1));
}

#[test]
fn the_rate_has_the_mean_it_is_given() {
    let n = 250_000;
    let took = arrivals(&leo(&rates_only(100.0)), &back_to_back(n, 1500))[n - 1].as_secs_f64();
    // 3,000 intervals, each uniform in 10 ± 4 Mbit/s: 0.23 / √3000 = 0.42 % of the mean; four of them.
    assert!((n as f64 * 12_000.0 / took / 10e6 - 1.0).abs() < 0.017, "{took}");
}

#[test]
fn a_delay_holds_for_its_interval_and_never_reorders() {
    let gap = Duration::from_ms(1);
    let pushes = every(gap, 600_000, 1500);
    let got = arrivals(&leo(&delays_only()), &pushes);
    let length = Duration::from_ms(15_000);
    let sending = Duration::from_ps(1_200_000);
    let mut waited = 0;
    for (i, (due, (at, _))) in got.iter().zip(&pushes).enumerate() {
        // The delay of an interval, as its last packet has it: by then nothing waits for an earlier one.
        let last = (interval_of(*at, length) + 1) * 15_000 - 1;
        let own = got[last as usize].since(pushes[last as usize].0);
        assert!((10_000_000_000..=30_000_000_000u64).contains(&(own.as_ps() - sending.as_ps())));
        if due.since(*at) != own {
            // The path became shorter: the packet arrives together with the last one of the longer path.
            assert!(due.since(*at) > own && *due == got[i - 1], "{at:?} {due:?}");
            waited += 1;
        }
    }
    assert!(waited > 0, "no delay fell in 40 intervals");
    assert!(got.windows(2).all(|pair| pair[0] <= pair[1]));
}

#[test]
fn delays_are_uniform_between_their_bounds_whatever_the_traffic() {
    let length = Duration::from_ms(15_000);
    let rare = every(length, 2000, 1500);
    let got = arrivals(&leo(&delays_only()), &rare);
    let ms: Vec<f64> =
        got.iter().zip(&rare).map(|(got, (at, _))| got.since(*at).as_secs_f64() * 1e3).collect();
    let mean = ms.iter().sum::<f64>() / 2000.0;
    let deviation = (ms.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / 2000.0).sqrt();
    // Uniform from 10 to 30 ms: deviation 5.77, of the mean 0.13, of the deviation about 0.06.
    assert!((mean - 20.0).abs() < 4.0 * 0.13 && (deviation - 5.77).abs() < 4.0 * 0.06, "{mean} {deviation}");
    // A path with more traffic, and one with a pause of minutes, have the same delays.
    let busy = every(Duration::from_ms(500), 600, 1500);
    let again = arrivals(&leo(&delays_only()), &busy);
    for interval in 0..20 {
        let (slow, fast) = (interval, interval * 30 + 29);
        assert_eq!(got[slow].since(rare[slow].0), again[fast].since(busy[fast].0));
    }
    let late = [(Time::from_ms(15_000 * 19), 1500)];
    assert_eq!(arrivals(&leo(&delays_only()), &late)[0], got[19]);
}

#[test]
fn a_reallocation_silences_and_loses_what_is_under_way() {
    let params = |loss: f64| {
        vec![
            ("spread", number(0.0)),
            ("rate_bps", number(12e6)),
            ("delay_ms", number(20.0)),
            ("delay_most_ms", number(20.0)),
            ("loss", number(loss)),
        ]
    };
    // A millisecond a packet. At the run's beginning nothing is allocated again.
    let at = [0, 14_900, 15_000, 15_139, 15_500].map(|ms| (Time::from_ms(ms), 1500));
    let got = arrivals(&leo(&params(0.0)), &at);
    assert_eq!(got, [21, 14_921, 15_161, 15_162, 15_521].map(Time::from_ms));
    // Half a packet goes before the silence, and half after it.
    assert_eq!(
        arrivals(&leo(&params(0.0)), &[(Time::from_us(14_999_500), 1500)]),
        [Time::from_us(15_160_500)]
    );
    // Of the packets that leave at 14.976, 14.977 … 15.000 s those after 14.980 are under way at 15 s.
    let mut path = build(&leo(&params(1.0)));
    let (mut book, mut fate) = (Notebook::default(), Fate::default());
    for slot in 0..25 {
        let at = Time::from_ms(14_975 + u64::from(slot));
        path.advance(at, &mut fate, &mut book);
        path.push(packet(slot, 1500), at, &mut fate, &mut book);
    }
    while path.next_wake() != Time::NEVER {
        path.advance(path.next_wake(), &mut fate, &mut book);
    }
    let kept: Vec<u32> = book.arrivals.iter().map(|(_, slot, _)| *slot).collect();
    // The last one leaves at 15 s sharp, in the new interval.
    assert_eq!((kept, book.dropped), (vec![0, 1, 2, 3, 4, 24], 19));
}

// -------------------------------------------------------------------------------- both

#[test]
fn contradictions_are_refused_by_field_with_a_value_that_fits() {
    let refused = |which: &str, params: &[(&str, Value)]| {
        let error = Link::build(&link(medium(which, params)), 2, 1).unwrap_err();
        (error.field, error.value, error.fix)
    };
    type Case<'a> = (&'a str, &'a [(&'a str, Value)], &'a str, &'a str, &'a str);
    let cases: [Case; 4] = [
        ("docsis", &[("rate_bps", number(2e8))], "rate_bps", "200000000", "at most 100000000"),
        ("docsis", &[("map_ms", number(0.0))], "map_ms", "0", "0.5 to 20 ms"),
        ("leo", &[("delay_ms", number(40.0))], "delay_ms", "40", "at most 30"),
        (
            "leo",
            &[("outage_ms", number(500.0)), ("interval_ms", number(500.0))],
            "outage_ms",
            "500",
            "less than 500",
        ),
    ];
    for (which, params, field, value, fix) in cases {
        let error = refused(which, params);
        assert_eq!((&*error.0, &*error.1), (&*format!("links[2].medium.params.{field}"), value));
        assert!(error.2.contains(fix), "{}", error.2);
    }
}
