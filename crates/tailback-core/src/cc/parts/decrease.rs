//! Where a window lands after congestion: the rules several algorithms share.

use crate::cc::{Congestion, Control, Signal};
use crate::time::Bytes;

/// The smallest ssthresh, in segments (RFC 5681 section 3.1).
pub const FLOOR: u64 = 2;

impl Congestion {
    /// A repeated timeout of the same data: Linux and RFC 5681 section 3.1 then leave ssthresh alone.
    pub fn is_repeated_timeout(&self) -> bool {
        matches!(self.signal, Signal::Timeout { first: false })
    }
    /// RFC 5681's FlightSize: sent and not yet cumulatively acknowledged, SACKed or not.
    pub fn flight(&self) -> Bytes {
        self.snd_nxt.saturating_sub(self.snd_una)
    }
    /// Any retransmission timeout.
    pub fn is_timeout(&self) -> bool {
        matches!(self.signal, Signal::Timeout { .. })
    }
}

/// `segments`, but at least [`FLOOR`], in bytes.
pub fn landing(segments: u64, mss: u32) -> Bytes {
    segments.max(FLOOR) * u64::from(mss)
}

/// Linux `reno`: half of cwnd in whole segments.
pub fn half(control: &Control) -> Bytes {
    landing(control.cwnd_segments() / 2, control.mss)
}

/// FreeBSD: half of what may be in flight, ⌊min(snd_wnd, cwnd)/2/mss⌋ segments.
pub fn freebsd_half(congestion: &Congestion, control: &Control) -> Bytes {
    let window = control.cwnd.min(congestion.send_window);
    landing(window / 2 / u64::from(control.mss), control.mss)
}

/// FreeBSD's share of what may be in flight, in 1/256, whole segments.
pub fn freebsd_share(congestion: &Congestion, control: &Control, kept_256: u64) -> Bytes {
    let window = control.cwnd.min(congestion.send_window);
    landing(window * kept_256 / 256 / u64::from(control.mss), control.mss)
}
