//! The cache of metrics of every host, for stacks that keep one.

use super::Network;
use crate::probe::Probe;
use crate::tcp::stack::MetricsCache;

/// Whose metrics about whom: this end's host, the other's, and for connections of a path their own that path's
/// first link, as each path leads to a host of its own.
pub(super) type Pair = (u32, u32, u32);

impl<P: Probe> Network<P> {
    fn pair(&self, seat: usize) -> Option<Pair> {
        let it = self.seats.get(seat)?;
        if it.end.stack().metrics_cache == MetricsCache::Off {
            return None;
        }
        let flow = &self.flows[it.flow as usize];
        let [client, server] = flow.hosts;
        let path = if flow.paths.is_empty() { u32::MAX } else { it.first };
        Some(if it.is_server() { (server, client, path) } else { (client, server, path) })
    }

    /// A connection has closed at this end: keep what it has learnt.
    pub(super) fn remember(&mut self, seat: usize) {
        if let Some(pair) = self.pair(seat) {
            let known = self.host_metrics.entry(pair).or_default();
            self.seats.at(seat).end.sender.leave_metrics(known);
        }
    }

    /// A connection opens, its client's end at this seat: tell both ends what earlier ones have learnt. Real ones
    /// look it up when the handshake ends, a round trip later.
    pub(super) fn remind(&mut self, client: usize) {
        for seat in [client, client + 1] {
            let known = self.pair(seat).and_then(|pair| self.host_metrics.get(&pair));
            if let Some(known) = known {
                let known = *known;
                self.seats.at(seat).end.sender.recall(known);
            }
        }
    }
}
