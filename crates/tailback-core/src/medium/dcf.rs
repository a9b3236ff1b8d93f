//! Shared by both WiFi media: contention windows, OFDM overhead bits, and how errors are specified.

use crate::params::Checked;
use crate::scenario::ScenarioError;

/// SERVICE and tail bits.
pub const PHY_BITS: f64 = 22.0;
/// Delimiter of a frame in an aggregate.
pub const DELIMITER: u32 = 4;
/// Frame length in bytes to which `frame_error` refers.
pub const FULL: f64 = 1536.0;

/// Contention windows by number of failures, from `cw_min` to `cw_max`.
pub fn windows(given: &Checked<'_>) -> Result<Vec<u32>, ScenarioError> {
    let (least, most) = (given.whole("cw_min"), given.whole("cw_max"));
    if least > most {
        let problem = "the first window is wider than the widest";
        return Err(given.refuse("cw_min", problem, "Give at most cw_max"));
    }
    let windows = std::iter::successors(Some(least), |w| (*w < most).then(|| (2 * w + 1).min(most)));
    Ok(windows.map(|w| w as u32).collect())
}

/// The received power, if errors follow from it rather than from `frame_error`.
pub fn signal(given: &Checked<'_>) -> Result<Option<f64>, ScenarioError> {
    let signal = given.given_number("signal_dbm");
    if signal.is_some() && given.given_number("frame_error").is_some() {
        let problem = "signal_dbm decides already how many frames fail";
        return Err(given.refuse("frame_error", problem, "Give one of the two"));
    }
    Ok(signal)
}
