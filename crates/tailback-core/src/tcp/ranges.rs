//! Searches sorted lists of disjoint ranges: data that arrived beyond a gap, or data that is SACKed.

use std::collections::VecDeque;

/// Index of the first range that ends at `start` or later. Checks the back first, where new data arrives, and the
/// front, where gaps are filled; otherwise a binary search.
#[inline]
pub fn first_that_reaches<T>(ranges: &VecDeque<T>, start: u64, end: impl Fn(&T) -> u64) -> usize {
    let number = ranges.len();
    let is_before = |index: usize| end(&ranges[index]) < start;
    if number == 0 || is_before(number - 1) {
        number
    } else if number == 1 || is_before(number - 2) {
        number - 1
    } else if !is_before(0) {
        0
    } else {
        ranges.partition_point(|range| end(range) < start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_what_halving_alone_finds(mut ends in prop::collection::vec(0u64..40, 0..20), turns in 0usize..20) {
            ends.sort_unstable();
            // A buffer that goes round somewhere.
            let mut ranges = VecDeque::with_capacity(32);
            ranges.extend(vec![0; turns]);
            ranges.drain(..turns);
            ranges.extend(ends);
            for start in 0..42 {
                let found = first_that_reaches(&ranges, start, |end| *end);
                prop_assert_eq!(found, ranges.partition_point(|end| *end < start));
            }
        }
    }
}
