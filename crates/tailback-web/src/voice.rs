//! What a caller hears: the E-model of ITU-T G.107 over an ideal playout buffer, as `tailback.metrics.voice` has it.

/// R of G.711 with every other parameter at G.107's default value (G.107, section 7.7).
const BEST_RATING: f64 = 93.2;
/// A packet of 20 ms of speech can leave only when the last of its samples was spoken.
const FRAMING_S: f64 = 0.020;
/// Bpl of G.711 with packet loss concealment (ITU-T G.113, Appendix I).
const LOSS_ROBUSTNESS: f64 = 25.1;
/// A playout buffer is judged over so long.
const WINDOW_S: f64 = 10.0;
/// Shares of the packets that a playout delay may wait for.
const QUANTILES: [f64; 7] = [0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 1.0];

/// A packet of a call whose fate is known.
#[derive(Clone, Copy, Debug)]
pub struct Spoken {
    /// When it was sent.
    pub sent_s: f64,
    /// How long it took; none if it was lost.
    pub delay_s: Option<f64>,
    /// Which of the flow's calls it belongs to.
    pub stream: u64,
}

/// Idd of G.107 section 7.4: what a pure delay costs.
pub fn delay_impairment(mouth_to_ear_s: f64) -> f64 {
    if mouth_to_ear_s <= 0.1 {
        return 0.0;
    }
    let x = (mouth_to_ear_s / 0.1).log2();
    25.0 * ((1.0 + x.powi(6)).powf(1.0 / 6.0) - 3.0 * (1.0 + (x / 3.0).powi(6)).powf(1.0 / 6.0) + 2.0)
}

/// Ie,eff of G.107 section 7.5: what lost frames of G.711 cost.
pub fn loss_impairment(loss: f64, burst_ratio: f64) -> f64 {
    let per_cent = 100.0 * loss;
    95.0 * per_cent / (per_cent / burst_ratio + LOSS_ROBUSTNESS)
}

/// G.107 Annex B.
pub fn mean_opinion_score(rating: f64) -> f64 {
    if rating <= 0.0 {
        return 1.0;
    }
    if rating >= 100.0 {
        return 4.5;
    }
    // The cubic dips below 1 for R under 6.5.
    (1.0 + 0.035 * rating + 7e-6 * rating * (rating - 60.0) * (100.0 - rating)).max(1.0)
}

/// Mean length of the bursts over the one random loss would give; at least 1.
pub fn burst_ratio(lost: &[bool]) -> f64 {
    let count = lost.iter().filter(|lost| **lost).count();
    if count == 0 || count == lost.len() {
        return 1.0;
    }
    let bursts = usize::from(lost[0]) + lost.windows(2).filter(|pair| pair[1] && !pair[0]).count();
    (count as f64 / bursts as f64 * (1.0 - count as f64 / lost.len() as f64)).max(1.0)
}

/// R under the best constant playout delay for these packets in order of sending; none are lost for ever.
fn rating(packets: &[&Spoken]) -> f64 {
    let mut delays: Vec<f64> = packets.iter().filter_map(|packet| packet.delay_s).collect();
    if delays.is_empty() {
        return 0.0;
    }
    delays.sort_by(f64::total_cmp);
    let deadlines = QUANTILES.map(|share| delays[((delays.len() - 1) as f64 * share).ceil() as usize]);
    let heard = |deadline: &f64| {
        let unheard: Vec<bool> =
            packets.iter().map(|packet| packet.delay_s.is_none_or(|delay| delay > *deadline)).collect();
        let loss = unheard.iter().filter(|lost| **lost).count() as f64 / unheard.len() as f64;
        BEST_RATING - delay_impairment(FRAMING_S + deadline) - loss_impairment(loss, burst_ratio(&unheard))
    };
    deadlines.iter().map(heard).fold(0.0, f64::max)
}

/// Mean opinion score of a flow's calls: of the mean R over windows and calls; none without packets.
pub fn opinion(packets: &[Spoken]) -> Option<f64> {
    let mut groups: std::collections::BTreeMap<(i64, u64), Vec<&Spoken>> = std::collections::BTreeMap::new();
    for packet in packets {
        let window = (packet.sent_s / WINDOW_S).floor() as i64;
        groups.entry((window, packet.stream)).or_default().push(packet);
    }
    let ratings: Vec<f64> = groups.values().map(|group| rating(group)).collect();
    let mean = ratings.iter().sum::<f64>() / ratings.len() as f64;
    (!ratings.is_empty()).then(|| mean_opinion_score(mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-12, "{found} is not {wanted}");
    }

    /// The numbers are those of `tailback.metrics` for the same arguments.
    #[test]
    fn says_what_the_python_package_says() {
        assert_near(delay_impairment(0.1), 0.0);
        assert_near(delay_impairment(0.15), 0.1635311865867406);
        assert_near(delay_impairment(0.4), 24.070089219772616);
        assert_near(loss_impairment(0.05, 2.5), 17.527675276752767);
        for (rating, score) in
            [(0.0, 1.0), (3.0, 1.0), (20.0, 1.252), (50.0, 2.575), (93.2, 4.409285824), (100.0, 4.5)]
        {
            assert_near(mean_opinion_score(rating), score);
        }
        assert_near(burst_ratio(&[false, true, true, false, false, true, false, false, false, false]), 1.05);
    }

    #[test]
    fn two_calls_in_two_windows_are_judged_as_voice_quality_judges_them() {
        let spoken = |number: u64| Spoken {
            sent_s: number as f64 * 0.02,
            delay_s: (number % 97 >= 3).then(|| 0.03 + 0.001 * ((number * 7919) % 101) as f64),
            stream: number % 2,
        };
        let packets: Vec<Spoken> = (0..1000).map(spoken).collect();
        let found = opinion(&packets).expect("there are packets");
        assert!((found - 4.082737809247679).abs() < 1e-9, "{found}");
        assert_eq!(opinion(&[]), None);
    }
}
