//! Measures that network operators use, from round trips in seconds: RPM, bufferbloat grades, loaded latency.

/// Share of the samples, the smallest ones, that RPM's trimmed mean keeps (TMP of draft-ietf-ippm-responsiveness-09).
const TRIMMED_MEAN: f64 = 0.95;
/// Number of intervals that must agree (MAD).
pub const MOVING_AVERAGE: usize = 4;
/// How far they may deviate, relative to the last one (SDT).
const TOLERANCE: f64 = 0.05;
/// Grades, best first.
pub const GRADES: [&str; 6] = ["A+", "A", "B", "C", "D", "F"];
/// Latency increases in seconds below which each grade is given, best first (DSLReports FAQ 17930).
const INCREASE_S: [f64; 5] = [0.005, 0.030, 0.060, 0.200, 0.400];
/// The same for the LibreQoS test, `latencyGradeThresholds.json` version 1.0.
const LIBREQOS_INCREASE_S: [f64; 5] = [0.005, 0.025, 0.050, 0.075, 0.100];
/// The LibreQoS test's bounds of the idle latency, in seconds.
const LIBREQOS_IDLE_S: [f64; 5] = [0.075, 0.100, 0.125, 0.150, 0.175];

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// Mean of the smallest 95 % of the values, at least one; NaN without values.
pub fn trimmed_mean(values: &[f64]) -> f64 {
    let values = sorted(values);
    // Compensate for rounding: 0.95 · 20 must be 19.
    let kept = (TRIMMED_MEAN * values.len() as f64 + 1e-9).floor() as usize;
    mean(&values[..kept.clamp(1.min(values.len()), values.len())])
}

/// `responsiveness` in round trips per minute. The arguments are round trips in seconds: of TCP handshakes, of TLS
/// handshakes (empty without TLS), of fetches on separate connections, and on load-carrying connections.
pub fn responsiveness(tcp_f: &[f64], tls_f: &[f64], http_f: &[f64], loaded: &[f64]) -> f64 {
    let separate: Vec<f64> =
        [tcp_f, tls_f, http_f].into_iter().filter(|of| !of.is_empty()).map(trimmed_mean).collect();
    if tcp_f.is_empty() || http_f.is_empty() {
        return f64::NAN;
    }
    (60.0 / mean(&separate) + 60.0 / trimmed_mean(loaded)) / 2.0
}

/// Whether the last four values, one per interval, deviate by less than 5 % of the last.
pub fn is_saturated(values: &[f64]) -> bool {
    let Some(first) = values.len().checked_sub(MOVING_AVERAGE) else { return false };
    let (recent, last) = (&values[first..], values[values.len() - 1]);
    let middle = mean(recent);
    let variance =
        recent.iter().map(|value| (value - middle) * (value - middle)).sum::<f64>() / recent.len() as f64;
    variance.sqrt() < TOLERANCE * last
}

/// `loaded_latency`: the interquartile mean. The outermost values count by the part of them that lies inside the
/// quartiles.
pub fn interquartile_mean(values: &[f64]) -> f64 {
    let values = sorted(values);
    let (low, high) = (0.25 * values.len() as f64, 0.75 * values.len() as f64);
    let weight = |at: usize| (high.min(at as f64 + 1.0) - low.max(at as f64)).max(0.0);
    let sum: f64 = values.iter().enumerate().map(|(at, value)| weight(at) * value).sum();
    sum / (high - low)
}

/// Index of the grade, 0 for A+; `None` for NaN.
fn graded(value: f64, bounds: &[f64; 5]) -> Option<usize> {
    (!value.is_nan()).then(|| bounds.iter().position(|bound| value < *bound).unwrap_or(bounds.len()))
}

/// `bufferbloat_grade` from the idle latency and the latencies under load; `None` if one is NaN.
pub fn bufferbloat_grade(idle_s: f64, download_s: f64, upload_s: f64) -> Option<&'static str> {
    let increase = ((download_s - idle_s).max(0.0) + (upload_s - idle_s).max(0.0)) / 2.0;
    // `max` would replace NaN by 0.
    let known = idle_s + download_s + upload_s;
    graded(if known.is_nan() { known } else { increase }, &INCREASE_S).map(|grade| GRADES[grade])
}

/// `libreqos_grade` from the idle latency and the latencies under download, upload and both; `None` if one is NaN.
pub fn libreqos_grade(idle_s: f64, loaded_s: [f64; 3]) -> Option<&'static str> {
    // 6 for A+, 1 for F.
    let points = |grade: usize| (GRADES.len() - grade) as f64;
    let idle = points(graded(idle_s, &LIBREQOS_IDLE_S)?);
    let mut sum = 0.0;
    for loaded in loaded_s {
        sum += points(graded(loaded - idle_s, &LIBREQOS_INCREASE_S)?);
    }
    let total = idle.min(sum / 3.0);
    // A+ from 5.5 points, A from 4.5, and so on.
    Some(GRADES[(6.0 - (total + 0.5).floor().clamp(1.0, 6.0)) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rpm_is_the_mean_of_both_kinds_of_probe() {
        // 100 ms by every method: 600 round trips per minute.
        let of = |seconds: f64| vec![seconds; 20];
        assert!((responsiveness(&of(0.1), &of(0.1), &of(0.1), &of(0.1)) - 600.0).abs() < 1e-9);
        // 60/((0.05 + 0.1 + 0.15)/3) = 600 and 60/0.2 = 300.
        assert!((responsiveness(&of(0.05), &of(0.1), &of(0.15), &of(0.2)) - 450.0).abs() < 1e-9);
        // Without TLS two terms remain: again 60/0.1.
        assert!((responsiveness(&of(0.05), &[], &of(0.15), &of(0.2)) - 450.0).abs() < 1e-9);
        assert!(responsiveness(&of(0.1), &[], &[], &of(0.1)).is_nan());
        assert!(responsiveness(&of(0.1), &[], &of(0.1), &[]).is_nan());
    }

    #[test]
    fn the_slowest_twentieth_is_cut_off() {
        let mut values = vec![1.0; 19];
        values.push(1000.0);
        assert_eq!(trimmed_mean(&values), 1.0);
        assert_eq!(trimmed_mean(&[3.0]), 3.0);
        assert!(trimmed_mean(&[]).is_nan());
    }

    #[test]
    fn four_intervals_must_agree() {
        assert!(!is_saturated(&[1.0, 1.0, 1.0]));
        assert!(is_saturated(&[50.0, 1.0, 1.0, 1.0, 1.0]));
        // The values 0.9, 1.1, 0.9, 1.1 deviate by 0.1.
        assert!(!is_saturated(&[0.9, 1.1, 0.9, 1.1]));
        assert!(is_saturated(&[0.96, 1.04, 0.96, 1.04]));
    }

    #[test]
    fn the_interquartile_mean_weighs_what_the_quartiles_cut() {
        assert_eq!(interquartile_mean(&[1.0, 2.0, 3.0, 100.0]), 2.5);
        // Of 5 values 2.5 count: 0.75 of the 2nd, the 3rd, and 0.75 of the 4th.
        assert_eq!(interquartile_mean(&[0.0, 4.0, 5.0, 8.0, 99.0]), (0.75 * 4.0 + 5.0 + 0.75 * 8.0) / 2.5);
        assert_eq!(interquartile_mean(&[7.0]), 7.0);
        assert!(interquartile_mean(&[]).is_nan());
    }

    #[test]
    fn grades_follow_their_tables() {
        for (increase, grade) in [
            (0.0, "A+"),
            (0.0049, "A+"),
            (0.005, "A"),
            (0.03, "B"),
            (0.06, "C"),
            (0.2, "D"),
            (0.4, "F"),
            (9.0, "F"),
        ] {
            assert_eq!(bufferbloat_grade(0.02, 0.02 + increase, 0.02 + increase), Some(grade), "{increase}");
        }
        // The mean of 0 and 120 ms; a path that is faster under load counts as 0.
        assert_eq!(bufferbloat_grade(0.020, 0.010, 0.140), Some("C"));
        assert_eq!(bufferbloat_grade(0.02, f64::NAN, 0.02), None);
        // A+ (6), A (5) and F (1) average to 4, which is B; an idle latency of 160 ms alone yields D.
        assert_eq!(libreqos_grade(0.02, [0.021, 0.040, 0.500]), Some("B"));
        assert_eq!(libreqos_grade(0.16, [0.161, 0.161, 0.161]), Some("D"));
        assert_eq!(libreqos_grade(0.02, [f64::NAN, 0.02, 0.02]), None);
    }
}
