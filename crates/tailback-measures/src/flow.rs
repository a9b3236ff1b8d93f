//! Loss, goodput and completion time of a flow, and drop share of a link.

/// The columns of a flow's totals from which its loss is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Packets {
    /// Packets that the sender sent.
    pub sent: f64,
    /// Packets that reached the receiver, including copies made by a link.
    pub received: f64,
    /// Packets that a queue or a link dropped.
    pub dropped: f64,
    /// Payload bytes delivered at the receiver.
    pub bytes_received: f64,
    /// Payload bytes delivered at the end that opened the connection.
    pub bytes_returned: f64,
}

/// `flow_loss_rate` from a flow's totals; NaN if no packet arrived or was dropped, or if most payload flowed in the
/// reverse direction.
pub fn loss_of_totals(flow: &Packets) -> f64 {
    if flow.bytes_returned > flow.bytes_received {
        return f64::NAN;
    }
    // Copies made by a link arrive without having been sent.
    share(flow.dropped, flow.sent.min(flow.received + flow.dropped))
}

/// `flow_loss_rate` from counts of dropped and received packets; NaN if there are none.
pub fn loss_of_fates(dropped: f64, received: f64) -> f64 {
    share(dropped, dropped + received)
}

/// `drop_share_at_link`; NaN if no packet arrived at the queue.
pub fn drop_share_at_link(dropped: f64, arrived: f64) -> f64 {
    share(dropped, arrived)
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { f64::NAN }
}

/// A period in which a flow should be active, in seconds; without `stop_s`, until the end of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    /// When it should start.
    pub start_s: f64,
    /// When it should stop.
    pub stop_s: Option<f64>,
}

/// The periods in which a flow was active, in seconds and in order; empty if it never began.
///
/// `started_s` and `finished_s` are the flow's totals, NaN if that did not happen. Data in flight at the last stop
/// belongs to the flow: a flow that finished was active until then.
pub fn active_periods_s(
    periods: &[Period],
    started_s: f64,
    finished_s: f64,
    duration_s: f64,
) -> Vec<(f64, f64)> {
    let end_s = if finished_s.is_nan() { duration_s } else { finished_s };
    let spans = periods.iter().enumerate().map(|(number, period)| {
        let is_open = number + 1 == periods.len() && !finished_s.is_nan();
        let stop_s = period.stop_s.filter(|_| !is_open).map_or(end_s, |stop_s| stop_s.min(end_s));
        (if started_s.is_nan() { f64::NAN } else { period.start_s.max(started_s) }, stop_s)
    });
    // Comparisons with NaN, the start of a flow that never began, are false.
    spans.filter(|(start_s, stop_s)| stop_s > start_s).collect()
}

/// Total length of these periods in seconds; NaN if `started_s` is, for a flow that never began.
pub fn active_s(periods: &[(f64, f64)], started_s: f64) -> f64 {
    if started_s.is_nan() { f64::NAN } else { periods.iter().map(|(start, stop)| stop - start).sum() }
}

/// `goodput` in bit/s; NaN for zero seconds.
pub fn goodput_bps(bytes: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { 8.0 * bytes / seconds } else { f64::NAN }
}

/// `completion_time` in seconds of a flow with this many bytes to send; NaN if it has no end or did not reach it.
pub fn completion_s(given_bytes: f64, bytes_received: f64, started_s: f64, finished_s: f64) -> f64 {
    if given_bytes > 0.0 && bytes_received >= given_bytes { finished_s - started_s } else { f64::NAN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_under_way_are_neither_lost_nor_counted() {
        let flow = Packets { sent: 1000.0, received: 940.0, dropped: 40.0, ..Packets::default() };
        assert_eq!(loss_of_totals(&flow), 40.0 / 980.0);
        assert_eq!(loss_of_totals(&flow), loss_of_fates(40.0, 940.0));
    }

    #[test]
    fn copies_do_not_make_more_packets_than_were_sent() {
        let flow = Packets { sent: 100.0, received: 120.0, dropped: 5.0, ..Packets::default() };
        assert_eq!(loss_of_totals(&flow), 0.05);
    }

    #[test]
    fn loss_of_no_packets_and_of_a_reader_is_unknown() {
        assert!(loss_of_totals(&Packets { sent: 3.0, ..Packets::default() }).is_nan());
        let reader = Packets { sent: 9.0, received: 9.0, bytes_returned: 1e6, ..Packets::default() };
        assert!(loss_of_totals(&reader).is_nan());
        assert!(drop_share_at_link(0.0, 0.0).is_nan());
    }

    #[test]
    fn a_flow_that_finished_was_on_until_then() {
        let periods =
            [Period { start_s: 1.0, stop_s: Some(2.0) }, Period { start_s: 4.0, stop_s: Some(5.0) }];
        assert_eq!(active_periods_s(&periods, 1.0, f64::NAN, 4.5), [(1.0, 2.0), (4.0, 4.5)]);
        assert_eq!(active_periods_s(&periods, 1.0, 5.25, 9.0), [(1.0, 2.0), (4.0, 5.25)]);
        assert!(active_periods_s(&periods, f64::NAN, f64::NAN, 9.0).is_empty());
        assert_eq!(active_s(&[(1.0, 2.0), (4.0, 4.5)], 1.0), 1.5);
        assert!(active_s(&[], f64::NAN).is_nan());
    }

    #[test]
    fn only_a_whole_transfer_has_a_completion_time() {
        assert_eq!(completion_s(1e6, 1e6, 1.0, 3.0), 2.0);
        assert!(completion_s(1e6, 9e5, 1.0, 3.0).is_nan());
        assert!(completion_s(0.0, 9e5, 1.0, 3.0).is_nan());
    }
}
