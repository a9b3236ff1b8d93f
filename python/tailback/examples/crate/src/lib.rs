//! Reno (RFC 5681, counted as Linux counts), with one parameter: the share of the window that congestion leaves.

mod tailback;

use tailback::{Ack, Algorithm, Congestion, Params, Window};

struct Mine {
    keeps: f64,
    /// Segments acknowledged since the window last grew by one.
    credit: u32,
}

impl Algorithm for Mine {
    fn new(params: &mut Params, _seed: u64) -> Result<Self, String> {
        let keeps = params.number("keeps", 0.5)?;
        if !(0.1..=0.95).contains(&keeps) {
            return Err(format!("keeps = {keeps}: must be 0.1 to 0.95"));
        }
        Ok(Mine { keeps, credit: 0 })
    }

    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        if !ack.may_grow() {
            return;
        }
        let room = window.ssthresh.saturating_sub(window.cwnd);
        let in_slow_start = ack.delivered.min(room);
        window.cwnd += in_slow_start;
        let left = ack.delivered - in_slow_start;
        if room > 0 && left == 0 {
            return;
        }
        // Credit from a time when the window was larger is worth one step.
        if self.credit >= window.cwnd {
            self.credit = 0;
            window.cwnd += 1;
        }
        self.credit += left;
        let steps = self.credit / window.cwnd;
        self.credit %= window.cwnd;
        window.cwnd += steps;
    }

    fn on_congestion(&mut self, _congestion: &Congestion, window: &mut Window) {
        self.credit = 0;
        window.ssthresh = ((f64::from(window.cwnd) * self.keeps) as u32).max(2);
    }
}

tailback::export!(Mine);
