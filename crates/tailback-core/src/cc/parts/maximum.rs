//! The largest value in a sliding window, from three samples (Linux `lib/win_minmax.c`, after Nichols).

/// A value and when it was seen, in whatever unit the caller counts (rounds, usually).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sample {
    at: u32,
    value: u64,
}

/// Best, second best and third best of the window; constant memory, exact when the maximum is recent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WindowedMax {
    best: [Sample; 3],
}

impl WindowedMax {
    /// The maximum.
    pub fn get(&self) -> u64 {
        self.best[0].value
    }

    /// Enter `value` seen `at`; forget what is older than `window`.
    pub fn update(&mut self, window: u32, at: u32, value: u64) {
        let new = Sample { at, value };
        let [first, second, third] = self.best;
        if value >= first.value || at.wrapping_sub(third.at) > window {
            self.best = [new; 3];
            return;
        }
        if value >= second.value {
            self.best[1] = new;
            self.best[2] = new;
        } else if value >= third.value {
            self.best[2] = new;
        }
        let [first, second, third] = self.best;
        let age = at.wrapping_sub(first.at);
        if age > window {
            // The best has expired: everyone moves up, perhaps twice.
            self.best = [second, third, new];
            if at.wrapping_sub(self.best[0].at) > window {
                self.best = [self.best[1], self.best[2], new];
            }
        } else if second.at == first.at && age > window / 4 {
            self.best[1] = new;
            self.best[2] = new;
        } else if third.at == second.at && age > window / 2 {
            self.best[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_lasts_for_the_window_and_no_longer() {
        let mut max = WindowedMax::default();
        max.update(10, 1, 100);
        for at in 2..=11 {
            max.update(10, at, 50);
            assert_eq!(max.get(), 100, "{at}");
        }
        max.update(10, 12, 50);
        assert_eq!(max.get(), 50);
    }

    #[test]
    fn a_new_maximum_counts_at_once() {
        let mut max = WindowedMax::default();
        max.update(10, 1, 100);
        max.update(10, 2, 120);
        assert_eq!(max.get(), 120);
    }
}
