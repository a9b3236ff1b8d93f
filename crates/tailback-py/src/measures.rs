//! The measures of `tailback-measures`: their rows as JSON, and their functions on NumPy columns.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tailback_measures::flow::{self, Packets, Period};
use tailback_measures::people::{self, Segment};
use tailback_measures::run::keys;
use tailback_measures::voice::{self, Spoken};
use tailback_measures::{operators, quantile, rows};

/// The rows of all measures, as JSON.
#[pyfunction]
pub fn measures() -> String {
    rows::as_json().to_string()
}

/// Descriptions of a run's measures as JSON text: name, title, unit, and whether higher is better.
#[pyfunction]
pub fn run_measures() -> String {
    keys::as_json().to_string()
}

/// The measure with this name, for measures whose row computes them from columns of numbers.
#[pyfunction]
pub fn measure(name: &str, columns: Vec<PyReadonlyArray1<'_, f64>>) -> PyResult<f64> {
    let wrong = |what: String| Err(PyValueError::new_err(format!("{name}: {what}")));
    let Some(of) = rows::measure(name).and_then(|row| row.of) else {
        return wrong("no row computes it from columns".into());
    };
    if of.columns != columns.len() {
        return wrong(format!("it is of {} columns, not of {}", of.columns, columns.len()));
    }
    let columns: Vec<Vec<f64>> = columns.iter().map(values).collect();
    let columns: Vec<&[f64]> = columns.iter().map(Vec::as_slice).collect();
    Ok((of.value)(&columns))
}

/// Loss of a flow from its totals: packets sent, received, dropped; bytes received, returned.
#[pyfunction]
pub fn loss_of_totals(
    sent: f64,
    received: f64,
    dropped: f64,
    bytes_received: f64,
    bytes_returned: f64,
) -> f64 {
    flow::loss_of_totals(&Packets { sent, received, dropped, bytes_received, bytes_returned })
}

/// Loss from counts of dropped and received packets.
#[pyfunction]
pub fn loss_of_fates(dropped: f64, received: f64) -> f64 {
    flow::loss_of_fates(dropped, received)
}

/// Drop share at a link.
#[pyfunction]
pub fn drop_share_at_link(dropped: f64, arrived: f64) -> f64 {
    flow::drop_share_at_link(dropped, arrived)
}

/// Periods in which a flow was active, given `(start_s, stop_s or None)` of each period in which it should be.
#[pyfunction]
pub fn active_periods_s(
    periods: Vec<(f64, Option<f64>)>,
    started_s: f64,
    finished_s: f64,
    duration_s: f64,
) -> Vec<(f64, f64)> {
    let periods: Vec<Period> =
        periods.into_iter().map(|(start_s, stop_s)| Period { start_s, stop_s }).collect();
    flow::active_periods_s(&periods, started_s, finished_s, duration_s)
}

/// Total seconds in these periods; NaN if `started_s` is.
#[pyfunction]
pub fn active_s(periods: Vec<(f64, f64)>, started_s: f64) -> f64 {
    flow::active_s(&periods, started_s)
}

/// Goodput in bit/s.
#[pyfunction]
pub fn goodput_bps(bytes: f64, seconds: f64) -> f64 {
    flow::goodput_bps(bytes, seconds)
}

/// Completion time in seconds.
#[pyfunction]
pub fn completion_s(given_bytes: f64, bytes_received: f64, started_s: f64, finished_s: f64) -> f64 {
    flow::completion_s(given_bytes, bytes_received, started_s, finished_s)
}

/// Quantiles by linear interpolation between order statistics.
#[pyfunction]
pub fn quantiles<'py>(
    py: Python<'py>,
    of: PyReadonlyArray1<'_, f64>,
    shares: Vec<f64>,
) -> Bound<'py, PyArray1<f64>> {
    PyArray1::from_vec(py, quantile::quantiles(values(&of), &shares))
}

/// The values at or below which these shares of the time were spent.
#[pyfunction]
pub fn weighted_quantiles<'py>(
    py: Python<'py>,
    of: PyReadonlyArray1<'_, f64>,
    held: PyReadonlyArray1<'_, f64>,
    shares: Vec<f64>,
) -> Bound<'py, PyArray1<f64>> {
    PyArray1::from_vec(py, quantile::weighted_quantiles(&values(&of), &values(&held), &shares))
}

/// Idd of the E-model.
#[pyfunction]
pub fn delay_impairment(mouth_to_ear_s: f64) -> f64 {
    voice::delay_impairment(mouth_to_ear_s)
}

/// Ie,eff of the E-model.
#[pyfunction]
pub fn loss_impairment(loss: f64, burst_ratio: f64, concealment: bool) -> f64 {
    voice::loss_impairment(loss, burst_ratio, concealment)
}

/// Mean opinion score for a rating R.
#[pyfunction]
pub fn mean_opinion_score(rating: f64) -> f64 {
    voice::mean_opinion_score(rating)
}

/// Burst ratio of losses in order of sending.
#[pyfunction]
pub fn burst_ratio(lost: PyReadonlyArray1<'_, bool>) -> f64 {
    voice::burst_ratio(&lost.as_array().to_vec())
}

/// R of a flow's calls, and `(window, R, late share)` of each call in each window.
///
/// `delay_s` is NaN for a lost packet. Every packet's fate must be known.
#[pyfunction]
pub fn call_rating(
    sent_s: PyReadonlyArray1<'_, f64>,
    delay_s: PyReadonlyArray1<'_, f64>,
    stream: PyReadonlyArray1<'_, u64>,
    window_s: f64,
    concealment: bool,
) -> (f64, Vec<(i64, f64, f64)>) {
    let (delays, streams) = (values(&delay_s), stream.as_array().to_vec());
    let packets: Vec<Spoken> = values(&sent_s)
        .into_iter()
        .zip(delays.into_iter().zip(streams))
        .map(|(sent_s, (delay, stream))| Spoken {
            sent_s,
            delay_s: (!delay.is_nan()).then_some(delay),
            stream,
        })
        .collect();
    let heard = voice::heard(&packets, window_s, concealment);
    let each = heard.iter().map(|one| (one.window, one.rating, one.late)).collect();
    (voice::mean_rating(&heard), each)
}

/// Mean of the smallest 95 % of the values.
#[pyfunction]
pub fn trimmed_mean(of: PyReadonlyArray1<'_, f64>) -> f64 {
    operators::trimmed_mean(&values(&of))
}

/// Whether the values of the last intervals agree.
#[pyfunction]
pub fn is_saturated(of: PyReadonlyArray1<'_, f64>) -> bool {
    operators::is_saturated(&values(&of))
}

/// `bufferbloat_grade`; None for NaN.
#[pyfunction]
pub fn bufferbloat_grade(idle_s: f64, download_s: f64, upload_s: f64) -> Option<&'static str> {
    operators::bufferbloat_grade(idle_s, download_s, upload_s)
}

/// `libreqos_grade`; None for NaN.
#[pyfunction]
pub fn libreqos_grade(idle_s: f64, download_s: f64, upload_s: f64, both_s: f64) -> Option<&'static str> {
    operators::libreqos_grade(idle_s, [download_s, upload_s, both_s])
}

/// `late_share`; a lost update's delay is NaN.
#[pyfunction]
pub fn late_share(delays_s: PyReadonlyArray1<'_, f64>, bound_s: f64) -> f64 {
    people::late_share(&values(&delays_s), bound_s)
}

/// `film`: start-up delay, total stalled seconds, number of stalls, bitrate changes, mean bitrate.
#[pyfunction]
pub fn film(
    asked_s: PyReadonlyArray1<'_, f64>,
    arrived_s: PyReadonlyArray1<'_, f64>,
    bytes: PyReadonlyArray1<'_, f64>,
    segment_s: f64,
    start_after_s: f64,
    end_s: f64,
) -> (f64, f64, u64, u64, f64) {
    let seen = people::film(&segments(&asked_s, &arrived_s, &bytes), segment_s, start_after_s, end_s);
    (seen.startup_s, seen.stalled_s, seen.stalls, seen.switches, seen.bitrate_bps)
}

/// `page_loads`: load time and Speed Index of each.
#[pyfunction]
pub fn page_loads(
    began_s: PyReadonlyArray1<'_, f64>,
    took_s: PyReadonlyArray1<'_, f64>,
    asked_s: PyReadonlyArray1<'_, f64>,
    arrived_s: PyReadonlyArray1<'_, f64>,
    bytes: PyReadonlyArray1<'_, f64>,
) -> Vec<(f64, f64)> {
    let loads: Vec<(f64, f64)> = values(&began_s).into_iter().zip(values(&took_s)).collect();
    let seen = people::page_loads(&loads, &segments(&asked_s, &arrived_s, &bytes));
    seen.iter().map(|load| (load.load_time_s, load.speed_index_s)).collect()
}

fn segments(
    asked_s: &PyReadonlyArray1<'_, f64>,
    arrived_s: &PyReadonlyArray1<'_, f64>,
    bytes: &PyReadonlyArray1<'_, f64>,
) -> Vec<Segment> {
    let columns = values(asked_s).into_iter().zip(values(arrived_s)).zip(values(bytes));
    columns.map(|((asked_s, arrived_s), bytes)| Segment { asked_s, arrived_s, bytes }).collect()
}

fn values(column: &PyReadonlyArray1<'_, f64>) -> Vec<f64> {
    column.as_array().to_vec()
}
