//! How punctual a run was, and whether that is enough for its result to be valid.

use tailback_core::probe::Table;
use tailback_core::probe::rows::{Emulator, EmulatorRow};
use tailback_core::time::Duration;

use crate::journal::Journal;

/// Lateness of each packet in nanoseconds, for quantiles.
#[derive(Clone, Debug, Default)]
pub struct Late(Journal<u32>);

impl Late {
    /// Adds one packet.
    pub fn push(&mut self, by: Duration) {
        self.0.push(u32::try_from(by.as_ps() / 1_000).unwrap_or(u32::MAX));
    }

    /// Number of packets.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Total lateness in seconds.
    pub fn total_s(&self) -> f64 {
        self.0.iter().map(|by| f64::from(*by)).sum::<f64>() / 1e9
    }

    /// Quantiles of the lateness in seconds, at these shares; NaN without packets.
    pub fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [f64; N] {
        let mut sorted: Vec<u32> = self.0.iter().copied().collect();
        sorted.sort_unstable();
        let Some(last) = sorted.len().checked_sub(1) else { return [f64::NAN; N] };
        shares.map(|share| f64::from(sorted[((last as f64 * share) as usize).min(last)]) / 1e9)
    }
}

/// How punctual a run was.
#[derive(Clone, Debug, Default)]
pub struct Punctuality {
    /// Lateness of every packet handed over: how much longer it took between its hosts than the path prescribes. With
    /// stamps, by the kernel's clock at both ends; without, from its due time to the write.
    pub late: Late,
    /// The part of it between sending and entering the path, for every packet with a stamp.
    pub late_in: Late,
    /// Packets that hosts sent; a large segment that the emulator cut counts once.
    pub frames: u64,
    /// Size of the largest of these, in bytes.
    pub largest_frame: u64,
    /// Packets that belong to no flow (the kernel's own, such as ICMP).
    pub foreign: u64,
    /// Packets that the kernel did not accept.
    pub refused: u64,
    /// Packets that entered without a send stamp.
    pub unstamped: u64,
    /// Whether the scheduler granted real-time priority.
    pub is_realtime: bool,
    /// Time asleep, in nanoseconds.
    pub asleep_ns: u64,
}

/// How promptly this machine ran the application threads.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// Lateness of each action that an application scheduled.
    pub late: Late,
    /// At each check of a thread: how long it waited for a processor since the previous check.
    pub waited: Late,
}

impl Service {
    /// Adds the samples of `other`.
    pub fn add(&mut self, other: &Service) {
        other.late.0.iter().for_each(|by| self.late.0.push(*by));
        other.waited.0.iter().for_each(|by| self.waited.0.push(*by));
    }
}

/// Limits that a run must not exceed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For the 99th percentile of packet lateness.
    pub most: Duration,
    /// Smallest propagation round trip of any flow.
    pub rtt_least: Duration,
}

impl Limits {
    /// Limit of the 99th percentile of application lateness. It adds to response times, which are at least one round
    /// trip; a twentieth of that is also the tolerance with which metrics are compared.
    fn of_applications(self) -> Duration {
        (self.rtt_least / 20).max(self.most).max(Duration::from_ms(1))
    }
}

/// Losses outside the path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Missing {
    /// Packets dropped by the hosts' devices.
    pub device_drops: u64,
    /// Rows lost from the state log.
    pub log_rows: u64,
}

/// The `emulator` table, notes about problems, and whether the run is fit.
pub fn judge(
    punctuality: &Punctuality,
    service: &Service,
    limits: Limits,
    missing: Missing,
) -> (Table, Vec<String>, bool) {
    let [median, high, worst] = punctuality.late.quantiles([0.5, 0.99, 1.0]);
    let [median_in, high_in, worst_in] = punctuality.late_in.quantiles([0.5, 0.99, 1.0]);
    let limit = limits.most.as_secs_f64();
    // A stall of half a round trip would make timers expire spuriously.
    let worst_limit = (limits.rtt_least.as_secs_f64() / 2.0).max(10.0 * limit);
    let mut notes = Vec::new();
    if high > limit {
        notes.push(format!(
            "unfit: 1 % of the packets were more than {:.0} µs late; more than {:.0} µs changes the result",
            high * 1e6,
            limit * 1e6
        ));
    }
    if worst > worst_limit {
        notes.push(format!(
            "unfit: a packet was {:.1} ms late; more than {:.1} ms makes timers fire",
            worst * 1e3,
            worst_limit * 1e3
        ));
    }
    let app_limit = limits.of_applications().as_secs_f64();
    // After a round trip without the application, the data in a socket's buffer runs out.
    let stall_limit = limits.rtt_least.as_secs_f64().max(10.0 * app_limit);
    let [app_late, app_latest] = service.late.quantiles([0.99, 1.0]);
    let [app_waited, app_longest] = service.waited.quantiles([0.99, 1.0]);
    for (what, high, worst) in [
        ("what applications do at an instant came late", app_late, app_latest),
        ("applications were ready and waited for a processor", app_waited, app_longest),
    ] {
        if high > app_limit || worst > stall_limit {
            notes.push(format!(
                "unfit: {what}: 1 % by more than {:.1} ms, at worst {:.1} ms; more than {:.1} ms, or once more than \
                 {:.0} ms, changes the result",
                high * 1e3,
                worst * 1e3,
                app_limit * 1e3,
                stall_limit * 1e3
            ));
        }
    }
    if missing.device_drops > 0 {
        notes.push(format!("unfit: {} packets were lost in the hosts' own devices", missing.device_drops));
    }
    if punctuality.refused > 0 {
        notes.push(format!("unfit: the kernel did not take {} packets", punctuality.refused));
    }
    let is_fit = notes.is_empty();
    if missing.log_rows > 0 {
        notes.push(format!("{} rows of the state log were lost: it was read too rarely", missing.log_rows));
    }
    let row = EmulatorRow {
        packets: punctuality.late.count(),
        late_median_s: median,
        late_p99_s: high,
        late_max_s: worst,
        late_limit_s: limit,
        late_in_median_s: median_in,
        late_in_p99_s: high_in,
        late_in_max_s: worst_in,
        app_late_p99_s: app_late,
        app_late_max_s: app_latest,
        app_waited_p99_s: app_waited,
        app_waited_max_s: app_longest,
        app_waited_s: service.waited.total_s(),
        app_limit_s: app_limit,
        fit: is_fit,
        realtime: punctuality.is_realtime,
        asleep_s: punctuality.asleep_ns as f64 * 1e-9,
        frames: punctuality.frames,
        largest_frame_bytes: punctuality.largest_frame,
        foreign_packets: punctuality.foreign,
        unstamped_packets: punctuality.unstamped,
        device_drops: missing.device_drops,
        log_rows_lost: missing.log_rows,
    };
    let table = [row].into_iter().collect::<Emulator>().into_table();
    (table, notes, is_fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(us: &[u64]) -> Late {
        let mut late = Late::default();
        us.iter().for_each(|us| late.push(Duration::from_us(*us)));
        late
    }

    #[test]
    fn quantiles_are_of_the_sorted_lateness() {
        assert_eq!(late(&[5, 1, 4, 2, 3]).quantiles([0.5, 1.0]), [3e-6, 5e-6]);
        assert!(Late::default().quantiles([0.5])[0].is_nan());
    }

    #[test]
    fn a_run_is_unfit_for_one_late_packet_in_a_hundred_or_one_very_late() {
        let limits = Limits { most: Duration::from_us(100), rtt_least: Duration::from_ms(20) };
        let verdict = |us: &[u64], missing| {
            let punctuality = Punctuality { late: late(us), ..Punctuality::default() };
            judge(&punctuality, &Service::default(), limits, missing).2
        };
        let mut all = vec![90; 1000];
        assert!(verdict(&all, Missing::default()));
        all[..9].fill(2_000);
        assert!(verdict(&all, Missing::default()), "nine in a thousand");
        all[..11].fill(2_000);
        assert!(!verdict(&all, Missing::default()));
        all.fill(90);
        all[0] = 11_000;
        assert!(!verdict(&all, Missing::default()), "half a round trip");
        all[0] = 90;
        assert!(verdict(&all, Missing { log_rows: 3, device_drops: 0 }));
        assert!(!verdict(&all, Missing { log_rows: 0, device_drops: 1 }));
    }

    #[test]
    fn a_run_is_unfit_for_starved_applications_though_the_path_was_punctual() {
        let limits = Limits { most: Duration::from_us(100), rtt_least: Duration::from_ms(80) };
        let punctuality = Punctuality { late: late(&[90; 1000]), ..Punctuality::default() };
        let verdict = |late_us: &[u64], waited_us: &[u64]| {
            let service = Service { late: late(late_us), waited: late(waited_us) };
            judge(&punctuality, &service, limits, Missing::default())
        };
        let mut some = vec![50; 1000];
        some[..9].fill(30_000);
        assert!(verdict(&some, &some).2, "nine in a thousand, for less than a round trip");
        some[..11].fill(4_100);
        assert!(!verdict(&some, &[50]).2, "a twentieth of the round trip is 4 ms");
        let (_, notes, is_fit) = verdict(&[50], &some);
        assert!(!is_fit && notes[0].contains("waited for a processor: 1 % by more than 4.1 ms"), "{notes:?}");
        assert!(!verdict(&[81_000, 50], &[50; 200]).2, "longer than a round trip, once");
    }
}
