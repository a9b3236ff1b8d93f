//! The cache of TCP metrics in every host, for stacks that have one.

use super::Network;
use crate::probe::Probe;
use crate::tcp::stack::MetricsCache;

/// Key of an entry: this end's host, the peer's host, and the first link of a connection's own path. Each such path
/// leads to a host of its own.
pub(super) type Pair = (u32, u32, u32);

impl<P: Probe> Network<P> {
    fn pair(&self, index: usize) -> Option<Pair> {
        let it = self.connections.get(index)?;
        if it.end.stack().metrics_cache == MetricsCache::Off {
            return None;
        }
        let flow = &self.flows[it.flow as usize];
        let [client, server] = flow.hosts;
        let path = if flow.paths.is_empty() { u32::MAX } else { it.first };
        Some(if it.is_server() { (server, client, path) } else { (client, server, path) })
    }

    /// A connection closes at this end: stores its metrics.
    pub(super) fn remember(&mut self, index: usize) {
        if let Some(pair) = self.pair(index) {
            let known = self.host_metrics.entry(pair).or_default();
            self.connections.at(index).end.sender.leave_metrics(known);
        }
    }

    /// A connection opens with its client's end at this index: gives both ends the stored metrics. Real stacks look
    /// them up when the handshake ends, a round trip later.
    pub(super) fn remind(&mut self, client: usize) {
        for index in [client, client + 1] {
            let known = self.pair(index).and_then(|pair| self.host_metrics.get(&pair));
            if let Some(known) = known {
                let known = *known;
                self.connections.at(index).end.sender.recall(known);
            }
        }
    }
}
