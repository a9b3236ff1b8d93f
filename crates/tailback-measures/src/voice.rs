//! Voice quality: the E-model of ITU-T G.107 over an ideal playout buffer.

use tailback_core::math;

/// R of G.711 with every other parameter at its G.107 default (G.107, section 7.7).
const BEST_RATING: f64 = 93.2;
/// A packet with 20 ms of speech can be sent only after its last sample was spoken.
const FRAMING_S: f64 = 0.020;
/// Bpl of G.711 with packet loss concealment (ITU-T G.113, Appendix I).
const CONCEALED: f64 = 25.1;
/// Bpl of G.711 without packet loss concealment.
const UNCONCEALED: f64 = 4.3;
/// Length of the window in which the playout delay is constant, in seconds.
pub const WINDOW_S: f64 = 10.0;
/// Candidate playout delays: these quantiles of the packet delay.
const QUANTILES: [f64; 7] = [0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 1.0];

/// A packet of a call with a known fate.
#[derive(Clone, Copy, Debug)]
pub struct Spoken {
    /// When it was sent.
    pub sent_s: f64,
    /// Its one-way delay; `None` if it was lost.
    pub delay_s: Option<f64>,
    /// The number of its call within the flow.
    pub stream: u64,
}

/// `delay_impairment`: Idd of G.107 section 7.4, the impairment by pure delay.
pub fn delay_impairment(mouth_to_ear_s: f64) -> f64 {
    if mouth_to_ear_s <= 0.1 {
        return 0.0;
    }
    let x = math::log2(mouth_to_ear_s / 0.1);
    // (1 + x⁶)^⅙
    let root = |x: f64| math::cbrt((1.0 + (x * x * x) * (x * x * x)).sqrt());
    25.0 * (root(x) - 3.0 * root(x / 3.0) + 2.0)
}

/// `loss_impairment`: Ie,eff of G.107 section 7.5, the impairment by lost frames of G.711.
pub fn loss_impairment(loss: f64, burst_ratio: f64, concealment: bool) -> f64 {
    let per_cent = 100.0 * loss;
    95.0 * per_cent / (per_cent / burst_ratio + if concealment { CONCEALED } else { UNCONCEALED })
}

/// `mean_opinion_score`: G.107 Annex B; NaN for NaN.
pub fn mean_opinion_score(rating: f64) -> f64 {
    if rating <= 0.0 {
        return 1.0;
    }
    if rating >= 100.0 {
        return 4.5;
    }
    let score = 1.0 + 0.035 * rating + 7e-6 * rating * (rating - 60.0) * (100.0 - rating);
    // The cubic dips below 1 for R under 6.5.
    if score < 1.0 { 1.0 } else { score }
}

/// `burst_ratio`: the mean burst length divided by that of random loss; at least 1.
pub fn burst_ratio(lost: &[bool]) -> f64 {
    let count = lost.iter().filter(|lost| **lost).count();
    if count == 0 || count == lost.len() {
        return 1.0;
    }
    let bursts = usize::from(lost[0]) + lost.windows(2).filter(|pair| pair[1] && !pair[0]).count();
    (count as f64 / bursts as f64 * (1.0 - count as f64 / lost.len() as f64)).max(1.0)
}

/// R of a call in a window, and the share of its packets that arrived too late for playout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heard {
    /// Number of the window, from 0.
    pub window: i64,
    /// R, 0 … 93.2.
    pub rating: f64,
    /// Share of packets, 0 … 1.
    pub late: f64,
}

/// R with the best constant playout delay for these packets in order of sending, and the share of packets that it makes
/// late.
fn rating(packets: &[&Spoken], concealment: bool) -> (f64, f64) {
    let mut delays: Vec<f64> = packets.iter().filter_map(|packet| packet.delay_s).collect();
    if delays.is_empty() {
        return (0.0, 0.0);
    }
    delays.sort_by(f64::total_cmp);
    let deadlines = QUANTILES.map(|share| delays[((delays.len() - 1) as f64 * share).ceil() as usize]);
    let mut best = (f64::NEG_INFINITY, 0.0);
    for deadline in deadlines {
        let unheard: Vec<bool> =
            packets.iter().map(|packet| packet.delay_s.is_none_or(|delay| delay > deadline)).collect();
        let loss = unheard.iter().filter(|lost| **lost).count() as f64 / unheard.len() as f64;
        let rating = BEST_RATING
            - delay_impairment(FRAMING_S + deadline)
            - loss_impairment(loss, burst_ratio(&unheard), concealment);
        if rating > best.0 {
            let late = delays.iter().filter(|delay| **delay > deadline).count();
            best = (rating, late as f64 / packets.len() as f64);
        }
    }
    (best.0.max(0.0), best.1)
}

/// A result for each call and each window of `window_s` seconds with packets, ordered by window and call.
pub fn heard(packets: &[Spoken], window_s: f64, concealment: bool) -> Vec<Heard> {
    let mut groups: std::collections::BTreeMap<(i64, u64), Vec<&Spoken>> = std::collections::BTreeMap::new();
    for packet in packets {
        let window = (packet.sent_s / window_s).floor() as i64;
        groups.entry((window, packet.stream)).or_default().push(packet);
    }
    let each = groups.iter().map(|((window, _), group)| {
        let (rating, late) = rating(group, concealment);
        Heard { window: *window, rating, late }
    });
    each.collect()
}

/// R of a flow's calls: the mean over windows and calls; NaN without any.
pub fn mean_rating(heard: &[Heard]) -> f64 {
    heard.iter().map(|one| one.rating).sum::<f64>() / heard.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-12, "{found} is not {wanted}");
    }

    /// Idd, Ie,eff and MOS equal values computed by hand from G.107's formulas.
    #[test]
    fn follows_the_formulas_of_g_107() {
        assert_near(delay_impairment(0.1), 0.0);
        assert_near(delay_impairment(0.15), 0.1635311865867406);
        assert_near(delay_impairment(0.4), 24.070089219772616);
        assert_near(loss_impairment(0.05, 2.5, true), 17.527675276752767);
        assert_near(loss_impairment(0.05, 1.0, false), 475.0 / 9.3);
        for (rating, score) in
            [(0.0, 1.0), (3.0, 1.0), (20.0, 1.252), (50.0, 2.575), (93.2, 4.409285824), (100.0, 4.5)]
        {
            assert_near(mean_opinion_score(rating), score);
        }
        assert!(mean_opinion_score(f64::NAN).is_nan());
        assert_near(burst_ratio(&[false, true, true, false, false, true, false, false, false, false]), 1.05);
    }

    #[test]
    fn two_calls_in_two_windows_are_rated_separately() {
        let spoken = |number: u64| Spoken {
            sent_s: number as f64 * 0.02,
            delay_s: (number % 97 >= 3).then(|| 0.03 + 0.001 * ((number * 7919) % 101) as f64),
            stream: number % 2,
        };
        let packets: Vec<Spoken> = (0..1000).map(spoken).collect();
        let found = heard(&packets, WINDOW_S, true);
        assert_eq!(found.iter().map(|one| one.window).collect::<Vec<_>>(), [0, 0, 1, 1]);
        let score = mean_opinion_score(mean_rating(&found));
        assert!((score - 4.082737809247679).abs() < 1e-9, "{score}");
        assert!(mean_rating(&heard(&[], WINDOW_S, true)).is_nan());
    }
}
