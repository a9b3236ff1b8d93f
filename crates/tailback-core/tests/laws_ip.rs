//! Effects of the IP version: 20 bytes per packet (RFC 791 section 3.1, RFC 8200 section 3), and no others.

use crate::common::{MS, bulk, column, dumbbell, flow, run};
use tailback_core::probe::Tables;
use tailback_core::scenario::{FlowSpec, IpVersion, Scenario};

const TCP_AND_TIMESTAMPS: f64 = 20.0 + 12.0;
const SYN_OPTIONS: f64 = 20.0;

fn over(ip: IpVersion, app: FlowSpec, seconds: u64) -> Scenario {
    let mut scenario = dumbbell(10_000_000, 40 * MS, None, seconds, vec![FlowSpec { ip, ..app }]);
    scenario.instruments.captures = vec!["left".into()];
    scenario
}

/// IP length, payload and flags of each packet.
fn sizes(tables: &Tables) -> Vec<(f64, f64, u8)> {
    let [bytes, length, flags] = ["bytes", "length", "flags"].map(|name| column(tables, "headers", name));
    bytes
        .iter()
        .zip(length)
        .zip(flags)
        .map(|((bytes, length), flags)| (*bytes, length, flags as u8))
        .collect()
}

#[test]
fn each_segment_has_the_header_of_its_ip_version() {
    for (ip, header) in [(IpVersion::V4, 20.0), (IpVersion::V6, 40.0)] {
        let all = sizes(&run(&over(ip, bulk("cubic", "linux"), 2)));
        assert!(all.len() > 2000, "{} packets", all.len());
        for (bytes, length, flags) in &all {
            let options = if flags & 2 != 0 { SYN_OPTIONS } else { 12.0 };
            assert_eq!(*bytes, header + 20.0 + options + length);
        }
        let full = all.iter().map(|(bytes, ..)| *bytes).fold(0.0, f64::max);
        assert_eq!(full, 1500.0, "a full segment fills the MTU");
    }
}

#[test]
fn a_full_link_carries_as_much_less_as_its_packets_have_less_room() {
    let goodput = |ip| {
        let got = column(&run(&over(ip, bulk("cubic", "linux"), 20)), "flows", "bytes_received");
        got[0]
    };
    // Both fill the same link with packets of 1500 bytes after slow start.
    let expected = (1500.0 - 40.0 - TCP_AND_TIMESTAMPS) / (1500.0 - 20.0 - TCP_AND_TIMESTAMPS);
    let ratio = goodput(IpVersion::V6) / goodput(IpVersion::V4);
    assert!((ratio / expected - 1.0).abs() < 2e-3, "{ratio:.5}, expected {expected:.5}");
}

#[test]
fn datagrams_carry_the_same_payload_in_longer_packets() {
    let of = |ip| {
        let tables = run(&over(ip, flow("call", "voip", None), 2));
        (sizes(&tables), column(&tables, "flows", "packets_sent")[0])
    };
    let ((four, sent), (six, sent_six)) = (of(IpVersion::V4), of(IpVersion::V6));
    assert!(sent > 50.0 && sent == sent_six && four.len() == six.len());
    for ((bytes, length, _), (bytes_six, length_six, _)) in four.iter().zip(&six) {
        assert_eq!((*bytes_six, length_six), (bytes + 20.0, length));
    }
}

#[test]
fn only_versions_4_and_6_are_known() {
    let five = IpVersion::try_from(5).expect_err("it was another protocol's");
    assert!(five.contains("give 4 or 6"), "{five}");
    assert_eq!(IpVersion::try_from(6).map(u8::from), Ok(6));
}
