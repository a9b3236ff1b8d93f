//! Laws of a cell: the results of fading, proportional fairness, HARQ and handovers.

use crate::common::media::{Notebook, link, medium, name, number, packet, saturate};
use tailback_core::link::{Link, channel};
use tailback_core::queue::Fate;
use tailback_core::scenario::{LinkSpec, Value};
use tailback_core::time::Time;

type Params<'a> = &'a [(&'a str, Value)];

/// The link of a user in the cell.
fn user(number: usize, params: Params<'_>) -> LinkSpec {
    let mut medium = medium("cell", params);
    medium.as_mut().unwrap().channel = Some("carrier".into());
    LinkSpec { name: format!("l{number}"), to: format!("u{number}"), medium, ..link(None) }
}

/// No fading, and no errors except those in `params`.
fn steady(params: Params<'_>) -> LinkSpec {
    user(0, &[&[("branches", number(0.0))], params].concat())
}

/// Rayleigh fading of each slot alone, without table, errors or a highest rate that is reached. A weak user has slots so large
/// that whole bits are exact to 0.1 %, and a strong one so small that 100 packets fill them.
fn rayleigh(place: usize, snr_db: f64, scheduler: &str) -> LinkSpec {
    let (slot_ms, mhz, layers) = if snr_db < 0.0 { (10.0, 400.0, 8.0) } else { (1.0, 40.0, 1.0) };
    let own = [
        ("snr_db", number(snr_db)),
        ("branches", number(1.0)),
        ("coherence_ms", number(0.0)),
        ("slot_ms", number(slot_ms)),
        ("report_ms", number(slot_ms)),
        ("bandwidth_mhz", number(mhz)),
        ("table", name("none")),
        ("efficiency_most", number(10.0)),
        ("bler", number(0.0)),
        ("scheduler", name(scheduler)),
        ("layers", number(layers)),
    ];
    user(place, &own)
}

fn total(specs: &[LinkSpec], bytes: u32, seconds: u64) -> f64 {
    saturate(specs, bytes, seconds).0.iter().sum()
}

// -------------------------------------------------------------------------------- one user

#[test]
fn a_lone_user_has_the_level_below_attenuated_shannon() {
    // 0.6·log2(1 + 10^1.5) = 3.017 bit/s/Hz; levels are CQI's times 4.4/5.5547, of which 3.3223 is the highest below.
    let expected = 3.3223 * 4.4 / 5.5547 * 20.0;
    let got = saturate(&[steady(&[("bler", number(0.0))])], 1500, 5).0[0];
    assert!((got / expected - 1.0).abs() < 1e-3, "{got} for {expected}");
    // TR 36.942 at −10, 0 and 10 dB down: 0.08, 0.60 and 2.08 bit/s/Hz, and 4.40 from 22 dB on.
    for (snr_db, efficiency) in [(-10.0, 0.08), (0.0, 0.60), (10.0, 2.08), (22.0, 4.40), (40.0, 4.40)] {
        let params = [("bler", number(0.0)), ("table", name("none")), ("snr_db", number(snr_db))];
        let got = saturate(&[steady(&params)], 1500, 2).0[0] / 20.0;
        assert!((got - efficiency).abs() < 0.012, "{snr_db} dB: {got}");
    }
}

#[test]
fn one_block_in_ten_is_repeated_once_and_takes_its_share() {
    let clean = saturate(&[steady(&[("bler", number(0.0))])], 1500, 20).0[0];
    let (got, book) = saturate(&[steady(&[])], 1500, 20);
    assert_eq!(book.dropped, 0);
    // 20,000 blocks, each sent 1/(1 − 0.1) times: deviation of the number of repetitions 0.35/√20000.
    assert!((got[0] / clean - 0.9).abs() < 4.0 * 0.35 / 20_000f64.sqrt() + 0.002, "{} of {clean}", got[0]);
}

#[test]
fn a_repetition_costs_eight_milliseconds_each_and_rlc_fifty() {
    // A packet each 500.3 ms, so that none waits for another's repetitions.
    let n = 20_000u64;
    let pushes: Vec<(Time, u32)> = (0..n).map(|i| (Time::from_us(500_300 * i), 100)).collect();
    let spec = LinkSpec { medium: steady(&[]).medium, ..link(None) };
    let mut rounds = [0u64; 12];
    let arrived = cell_arrivals(&spec, &pushes);
    assert_eq!(arrived.len(), pushes.len());
    for (got, (at, _)) in arrived.iter().zip(&pushes) {
        // It begins with a slot of 1 ms and has arrived at its end.
        let start = at.as_ps().div_ceil(1_000_000_000);
        let waited = got.as_ps() / 1_000_000_000 - start - 1;
        assert_eq!(got.as_ps() % 1_000_000_000, 0, "at a slot's end");
        let round = match waited {
            0 | 8 | 16 | 24 => waited / 8,
            // RLC sends it again 50 ms after the fourth failure.
            74 => 4,
            82 | 90 => (waited - 74) / 8 + 4,
            other => panic!("{other} ms"),
        };
        rounds[round as usize] += 1;
    }
    let mut reached = n as f64;
    for seen in &rounds[..4] {
        let expected = 0.9 * reached;
        let deviation = (reached * 0.09).sqrt();
        assert!((*seen as f64 - expected).abs() < 4.0 * deviation + 1.0, "{rounds:?}");
        reached *= 0.1;
    }
}

/// Arrival times of packets pushed at the given times.
fn cell_arrivals(spec: &LinkSpec, pushes: &[(Time, u32)]) -> Vec<Time> {
    let specs = [spec.clone()];
    let mut links = [Link::build(spec, 0, 1).unwrap()];
    let mut channels = channel::build(&specs, &mut links, 1).unwrap();
    let (mut book, mut fate) = (Notebook::default(), Fate::default());
    for (slot, &(at, bytes)) in pushes.iter().enumerate() {
        while channels[0].next_wake(&links) <= at {
            let wake = channels[0].next_wake(&links);
            channels[0].advance(&mut links, wake, &mut fate, &mut book);
        }
        channels[0].push(&mut links, 0, packet(slot as u32, bytes), at, &mut fate, &mut book);
    }
    while channels[0].next_wake(&links) != Time::NEVER {
        let wake = channels[0].next_wake(&links);
        channels[0].advance(&mut links, wake, &mut fate, &mut book);
    }
    assert!(book.arrivals.windows(2).all(|pair| pair[0].1 < pair[1].1), "order is kept");
    book.arrivals.iter().map(|(due, ..)| *due).collect()
}

#[test]
fn a_handover_interrupts_for_as_long_as_it_says_and_loses_nothing() {
    // A packet each slot, and a handover each 500 ms.
    let pushes: Vec<(Time, u32)> = (0..100_000).map(|ms| (Time::from_ms(ms), 100)).collect();
    let params = [("bler", number(0.0)), ("handover_every_ms", number(500.0))];
    let got = cell_arrivals(&steady(&params), &pushes);
    assert_eq!(got.len(), pushes.len());
    let gaps: Vec<u64> = got
        .windows(2)
        .map(|pair| pair[1].since(pair[0]).as_ps() / 1_000_000_000)
        .filter(|ms| *ms > 1)
        .collect();
    // One to 20 to 50 ms: what waits goes in the first slot after it, up to 51 ms after the last before it.
    assert!(gaps.iter().all(|ms| (20..=52).contains(ms)), "{gaps:?}");
    // 100 s of cycles of 535 ms: 187, with a deviation of about √187.
    assert!((gaps.len() as f64 - 187.0).abs() < 4.0 * 13.7, "{}", gaps.len());
    let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
    assert!((mean - 36.0).abs() < 4.0 * 8.7 / 187f64.sqrt(), "{mean}");
}

// -------------------------------------------------------------------------------- many users

/// The mean of `f` over the strongest of `users` channels with exponentially distributed powers of mean 1.
fn of_the_strongest(users: i32, f: impl Fn(f64) -> f64) -> f64 {
    let step = 1e-3;
    let density = |x: f64| f64::from(users) * (-x).exp() * (1.0 - (-x).exp()).powi(users - 1);
    (0..40_000).map(|i| (f64::from(i) + 0.5) * step).map(|x| f(x) * density(x) * step).sum()
}

#[test]
fn users_that_fade_give_the_harmonic_sum_where_rate_grows_with_power() {
    // At −30 dB log2(1 + SNR) is linear to 0.3 %, and the mean of the strongest of K exponential powers is 1 + 1/2 + … + 1/K.
    // The average of 1000 slots strays, which costs a little: 2 %.
    let one = total(&[rayleigh(0, -30.0, "fair")], 1500, 400);
    let mut sum = 0.0;
    for users in 1..=8usize {
        sum += 1.0 / users as f64;
        if [2, 4, 8].contains(&users) {
            let specs: Vec<LinkSpec> = (0..users).map(|place| rayleigh(place, -30.0, "fair")).collect();
            let gain = total(&specs, 1500, 400) / one;
            assert!((gain / sum - 1.0).abs() < 0.02, "{users} users: {gain} for {sum}");
        }
    }
    // Round-robin scheduling gains nothing.
    let specs: Vec<LinkSpec> = (0..4).map(|place| rayleigh(place, -30.0, "turns")).collect();
    assert!((total(&specs, 1500, 400) / one - 1.0).abs() < 0.02);
}

#[test]
fn unequal_users_of_equal_fading_get_as_many_slots() {
    // Holtzman 2000: what distance takes from the rate it takes from the average too.
    let specs: Vec<LinkSpec> =
        [-24.0, -30.0, -36.0].iter().enumerate().map(|(place, snr)| rayleigh(place, *snr, "fair")).collect();
    let got = saturate(&specs, 1500, 400).0;
    // 6 dB are a factor of 3.981; slots alike, so throughputs differ by as much.
    for pair in got.windows(2) {
        assert!((pair[0] / pair[1] / 3.981 - 1.0).abs() < 0.04, "{got:?}");
    }
}

/// Validation, its band set before the first run: Liu and Leung, "Throughput of proportional fair scheduling over Rayleigh
/// fading channels", Electronics Letters 45(23), 2009, treat a user's rate as normal. K users then have m + σd together, with
/// the mean m and the deviation σ of one user's rate and d the mean of the largest of K standard normal numbers. They call
/// that accurate, without a number: within 5 %. The exact mean of the strongest of K: within 1.5 %.
#[test]
fn many_users_at_10_db_have_what_liu_and_leung_say() {
    let rate = |power: f64| 0.6 * (1.0 + 10.0 * power).log2() * 40.0;
    let mean = of_the_strongest(1, rate);
    let deviation = (of_the_strongest(1, |power| rate(power).powi(2)) - mean * mean).sqrt();
    for (users, largest) in [(2, 0.5642), (4, 1.0294), (8, 1.4236), (16, 1.7660)] {
        let specs: Vec<LinkSpec> = (0..users as usize).map(|place| rayleigh(place, 10.0, "fair")).collect();
        let got = total(&specs, 1500, 40);
        let normal = mean + deviation * largest;
        let exact = of_the_strongest(users, rate);
        println!("{users} users: {got:.1} Mbit/s, normal {normal:.1}, exact {exact:.1}");
        assert!((got / normal - 1.0).abs() < 0.05, "{users} users: {got} for {normal}");
        assert!((got / exact - 1.0).abs() < 0.015, "{users} users: {got} for {exact}");
    }
}

#[test]
fn a_user_with_little_to_send_leaves_the_rest_of_its_slots() {
    // A packet of 100 bytes each 10 ms beside one that takes all it gets: together as much as that one alone.
    let alone = saturate(&[steady(&[("bler", number(0.0))])], 1500, 2).0[0];
    let specs =
        [steady(&[("bler", number(0.0))]), user(1, &[("branches", number(0.0)), ("bler", number(0.0))])];
    let mut links = [Link::build(&specs[0], 0, 1).unwrap(), Link::build(&specs[1], 1, 1).unwrap()];
    let mut channels = channel::build(&specs, &mut links, 1).unwrap();
    let (mut book, mut fate) = (Notebook::default(), Fate::default());
    for ms in 0..2000u64 {
        let at = Time::from_ms(ms);
        channels[0].advance(&mut links, at, &mut fate, &mut book);
        let (count, bytes, link) = if ms % 10 == 0 { (1, 100, 1) } else { (0, 0, 1) };
        for _ in 0..count {
            channels[0].push(&mut links, link, packet(0, bytes), at, &mut fate, &mut book);
        }
        for _ in 0..5 {
            channels[0].push(&mut links, 0, packet(0, 1500), at, &mut fate, &mut book);
        }
    }
    let small = book.arrivals.iter().filter(|(.., link)| *link == 1).count() as f64;
    let large = book.arrivals.iter().filter(|(.., link)| *link == 0).count() as f64;
    let mbps = (small * 800.0 + large * 12_000.0) / 2e6;
    assert!(small >= 199.0 && (mbps / alone - 1.0).abs() < 0.005, "{small} {mbps} {alone}");
}

// -------------------------------------------------------------------------------- contradictions

#[test]
fn contradictions_are_refused_by_field_with_a_value_that_fits() {
    let error = Link::build(&user(0, &[("snr_db", number(-20.0))]), 0, 1).unwrap_err();
    assert_eq!(error.field, "links[0].medium.params.snr_db");
    let odd = [("handover_every_ms", number(9.0)), ("handover_ms", number(60.0))];
    let error = Link::build(&user(0, &odd), 0, 1).unwrap_err();
    assert_eq!(error.field, "links[0].medium.params.handover_ms");
    assert!(error.fix.starts_with("Give at most handover_most_ms"), "{}", error.fix);
    let specs = [user(0, &[]), user(1, &[("memory", number(50.0))])];
    let mut links = [Link::build(&specs[0], 0, 1).unwrap(), Link::build(&specs[1], 1, 1).unwrap()];
    assert_eq!(channel::build(&specs, &mut links, 1).unwrap_err().field, "links[1].medium.channel");
}
