//! For how long a queue holds each backlog, and how long a link takes to send it.

use tailback_core::scenario::LinkSpec;

/// A backlog that lasted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// When it began, or the start of the interval.
    pub at_s: f64,
    /// The backlog in bytes.
    pub bytes: f64,
    /// For how long it lasted in the interval.
    pub lasted_s: f64,
}

/// The backlogs of an interval in seconds; each lasts until the next one's time, the last until the interval ends.
pub fn held(times_s: &[f64], bytes: &[f64], begin_s: f64, end_s: f64) -> Vec<Held> {
    let end_s = end_s.max(begin_s);
    let inside = |time: f64| time.clamp(begin_s, end_s);
    let ends = times_s.iter().copied().skip(1).chain([end_s]);
    let each = times_s.iter().zip(bytes).zip(ends).map(|((time, bytes), next)| Held {
        at_s: inside(*time),
        bytes: *bytes,
        lasted_s: inside(next) - inside(*time),
    });
    each.filter(|held| held.lasted_s > 0.0).collect()
}

/// How fast a link sends.
#[derive(Clone, Debug)]
pub enum Drain {
    /// At one rate in bit/s; of a medium, a trace or framing the one that the link carried.
    Steady(f64),
    /// At the rates of a schedule: times in seconds, and the bits that a link always sending has sent by then.
    Scheduled(Vec<f64>, Vec<f64>),
}

impl Drain {
    /// Of a link that carried this much while it was sending.
    pub fn of(link: &LinkSpec, carried_bps: f64, duration_s: f64) -> Self {
        let steps =
            link.schedule.iter().filter_map(|step| Some((step.at_ps as f64 / 1e12, step.rate_bps? as f64)));
        let steps: Vec<(f64, f64)> = steps.collect();
        let Some(rate) = link.rate_bps.filter(|_| !steps.is_empty() && link.framing.is_plain()) else {
            return Drain::Steady(carried_bps);
        };
        let (mut times, mut sent, mut rate) = (vec![0.0], vec![0.0], rate as f64);
        let mut reach = |time: f64, rate: f64| {
            sent.push(sent[sent.len() - 1] + (time - times[times.len() - 1]) * rate);
            times.push(time);
        };
        for (at_s, next) in &steps {
            reach(*at_s, rate);
            rate = *next;
        }
        // The last rate goes on after the run. What it never sends takes an hour.
        reach(steps[steps.len() - 1].0.max(duration_s) + 3600.0, rate);
        Drain::Scheduled(times, sent)
    }

    /// Seconds that the link takes to send a backlog, from when it began.
    pub fn seconds(&self, held: &Held) -> f64 {
        match self {
            Drain::Steady(rate) => 8.0 * held.bytes / rate,
            Drain::Scheduled(..) if held.bytes == 0.0 => 0.0,
            Drain::Scheduled(times, sent) => {
                let before = interpolated(held.at_s, times, sent);
                interpolated(before + 8.0 * held.bytes, sent, times) - held.at_s
            }
        }
    }
}

/// Linear interpolation of `values` over ascending `times`; constant beyond the ends.
pub(crate) fn interpolated(at: f64, times: &[f64], values: &[f64]) -> f64 {
    let after = times.partition_point(|time| *time <= at);
    if after == 0 {
        return values[0];
    }
    if after == times.len() {
        return values[after - 1];
    }
    let (before, slope) =
        (after - 1, (values[after] - values[after - 1]) / (times[after] - times[after - 1]));
    slope * (at - times[before]) + values[before]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tailback_core::scenario::StepSpec;

    #[test]
    fn an_interval_begins_with_the_backlog_that_it_finds_and_ends_with_the_last() {
        let log = |begin, end| held(&[0.0, 4.0, 4.5, 4.5], &[0.0, 1500.0, 3000.0, 500.0], begin, end);
        let lasted = |of: Vec<Held>| of.iter().map(|held| (held.bytes, held.lasted_s)).collect::<Vec<_>>();
        assert_eq!(lasted(log(3.0, 5.0)), [(0.0, 1.0), (1500.0, 0.5), (500.0, 0.5)]);
        assert_eq!(lasted(log(4.25, 4.5)), [(1500.0, 0.25)]);
        assert_eq!(lasted(log(6.0, 8.0)), [(500.0, 2.0)]);
        assert!(log(6.0, 6.0).is_empty() && held(&[], &[], 0.0, 1.0).is_empty());
    }

    #[test]
    fn a_backlog_is_sent_at_the_rates_of_a_schedule() {
        let step = |at_s: u64, rate: u64| StepSpec {
            at_ps: at_s * 1_000_000_000_000,
            rate_bps: Some(rate),
            delay_ps: None,
            loss: None,
        };
        let mut link = LinkSpec { rate_bps: Some(8000), ..LinkSpec::default() };
        let wait = |link: &LinkSpec, at_s, bytes| {
            Drain::of(link, 8000.0, 9.0).seconds(&Held { at_s, bytes, lasted_s: 1.0 })
        };
        assert_eq!(wait(&link, 1.0, 500.0), 0.5);
        link.schedule = vec![step(2, 0), step(4, 4000)];
        assert_eq!(wait(&link, 1.0, 500.0), 0.5);
        // Half of it before the outage, half after it at half the rate.
        assert_eq!(wait(&link, 1.5, 1000.0), 0.5 + 2.0 + 1.0);
        assert_eq!((wait(&link, 3.0, 0.0), wait(&link, 12.0, 500.0)), (0.0, 1.0));
    }
}
