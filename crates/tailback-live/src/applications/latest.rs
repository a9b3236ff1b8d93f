//! A flow's latest connection, as the polls see it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tailback_core::time::Bytes;

use super::connections::Pair;
use super::flow_record::Tally;
use crate::sys::{self, TcpInfo};

/// What a running flow's thread publishes: its latest connection.
#[derive(Debug, Default)]
pub struct FlowState {
    latest: Mutex<Latest>,
}

#[derive(Debug, Default)]
struct Latest {
    sockets: Option<[Option<Arc<OwnedFd>>; 2]>,
    serial: u64,
    past_acked: Bytes,
    past_received: Bytes,
}

impl FlowState {
    /// Publishes a connection.
    pub fn show(&self, pair: &Pair) {
        let mut latest = self.lock();
        if pair.serial >= latest.serial {
            latest.serial = pair.serial;
            latest.sockets = Some([0, 1].map(|end: usize| pair.ends[end].socket.clone()));
        }
    }

    /// Withdraws a connection that is over and already counted in `tally`.
    pub fn forget(&self, pair: &Pair, tally: &Tally) {
        let mut latest = self.lock();
        (latest.past_acked, latest.past_received) = (tally.bytes_acked, tally.bytes_received);
        if latest.serial == pair.serial {
            latest.sockets = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel's TCP_INFO of the latest connection's client, with `bytes_acked` summed over all the flow's
    /// connections, and the payload received at the servers; `None` without a connection.
    pub fn tcp_info(&self) -> Option<(TcpInfo, Bytes)> {
        let latest = self.lock();
        let [client, server] = latest.sockets.as_ref()?;
        let mut info = sys::tcp_info(client.as_ref()?.as_fd()).ok()?;
        info.bytes_acked += latest.past_acked;
        let server = server.as_ref().and_then(|socket| sys::tcp_info(socket.as_fd()).ok());
        Some((info, latest.past_received + server.map_or(0, |server| server.bytes_received)))
    }
}
