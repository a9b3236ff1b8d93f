//! Quantiles of equally weighted values, and of values weighted by duration.

/// Up to this many shares are selected one by one; more are read from sorted values.
const FEW: usize = 8;

/// Quantiles by linear interpolation between order statistics; NaN without values, and wherever a NaN takes part.
///
/// With n values in ascending order, share q lies at position (n − 1)·q, counted from 0 (Hyndman and Fan 1996, type 7).
pub fn quantiles(mut values: Vec<f64>, shares: &[f64]) -> Vec<f64> {
    let Some(last) = values.len().checked_sub(1) else { return vec![f64::NAN; shares.len()] };
    if values.iter().any(|value| value.is_nan()) {
        return vec![f64::NAN; shares.len()];
    }
    let is_sorted = shares.len() > FEW;
    if is_sorted {
        values.sort_unstable_by(f64::total_cmp);
    }
    let mut at = |share: f64| {
        let position = last as f64 * share;
        let below = (position.floor() as usize).min(last);
        let (low, high) = if is_sorted {
            (values[below], values[(below + 1).min(last)])
        } else {
            let (_, low, above) = values.select_nth_unstable_by(below, f64::total_cmp);
            let low = *low;
            (low, above.iter().copied().min_by(f64::total_cmp).unwrap_or(low))
        };
        between(low, high, position - below as f64)
    };
    shares.iter().map(|share| at(*share)).collect()
}

/// Interpolates from the nearer end, so that a share of 1 yields exactly `high`.
fn between(low: f64, high: f64, share: f64) -> f64 {
    if share >= 0.5 { high - (high - low) * (1.0 - share) } else { low + (high - low) * share }
}

/// The values at or below which these shares of the time were spent; NaN without values.
///
/// `held[i]` is how long `values[i]` lasted, in any unit.
pub fn weighted_quantiles(values: &[f64], held: &[f64], shares: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut whole = 0.0;
    let spent: Vec<f64> = order
        .iter()
        .map(|row| {
            whole += held[*row];
            whole
        })
        .collect();
    let at = |share: &f64| {
        let reached = spent.partition_point(|spent| *spent < share * whole);
        order.get(reached).or(order.last()).map_or(f64::NAN, |row| values[*row])
    };
    shares.iter().map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_between_order_statistics() {
        assert_eq!(quantiles(vec![4.0, 1.0, 3.0, 2.0], &[0.0, 0.5, 1.0]), [1.0, 2.5, 4.0]);
        assert!(quantiles(vec![], &[0.5])[0].is_nan());
        assert!(quantiles(vec![1.0, f64::NAN], &[0.5])[0].is_nan());
    }

    #[test]
    fn selecting_and_sorting_give_the_same() {
        let values: Vec<f64> = (0..1000).map(|i| f64::from((i * 7919) % 1009)).collect();
        let many: Vec<f64> = (0..=20).map(|i| f64::from(i) / 20.0).collect();
        let sorted = quantiles(values.clone(), &many);
        for (share, wanted) in many.iter().zip(sorted) {
            assert_eq!(quantiles(values.clone(), &[*share]), [wanted]);
        }
    }

    #[test]
    fn time_at_a_value_weighs_it() {
        let found = weighted_quantiles(&[10.0, 0.0, 20.0], &[1.0, 8.0, 1.0], &[0.5, 0.9, 0.95]);
        assert_eq!(found, [0.0, 10.0, 20.0]);
        assert!(weighted_quantiles(&[], &[], &[0.5])[0].is_nan());
    }
}
