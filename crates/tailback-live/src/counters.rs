//! A host's IP and TCP counters in the kernel, as `nstat` prints them.

use std::fs;

use crate::error::{Doing, LiveError};
use crate::host::Host;

/// The host's counters by name, such as `TcpExtTCPLossProbes`, in the kernel's order. They count since the host was
/// created, that is, over the run.
pub fn of_host(host: &Host) -> Result<Vec<(String, i64)>, LiveError> {
    // Read the thread's own files: those of the process belong to its first thread, which is in no host.
    let read = || {
        ["snmp", "netstat"]
            .map(|name| fs::read_to_string(format!("/proc/thread-self/net/{name}")))
            .into_iter()
            .collect::<Result<String, _>>()
    };
    let text = host.inside(read).doing(&format!("reading the counters of host {}", host.name))?;
    Ok(parse(&text))
}

/// Parses `/proc/net/snmp` and `/proc/net/netstat`: pairs of lines, names above values, each pair with a prefix.
fn parse(text: &str) -> Vec<(String, i64)> {
    let mut lines = text.lines();
    let mut counters = Vec::new();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (Some((prefix, names)), Some((_, values))) = (names.split_once(':'), values.split_once(':'))
        else {
            break;
        };
        let pairs = names.split_whitespace().zip(values.split_whitespace());
        counters
            .extend(pairs.filter_map(|(name, value)| Some((format!("{prefix}{name}"), value.parse().ok()?))));
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_prefix_and_values_their_sign() {
        let text = "Tcp: MaxConn RetransSegs\nTcp: -1 7\nTcpExt: TCPLossProbes\nTcpExt: 3\n";
        let counters: Vec<(String, i64)> =
            [("TcpMaxConn", -1), ("TcpRetransSegs", 7), ("TcpExtTCPLossProbes", 3)]
                .map(|(name, value)| (name.into(), value))
                .into();
        assert_eq!(parse(text), counters);
    }
}
