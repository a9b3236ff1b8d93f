//! Laws of packets damaged by a link: they load every later link on their route, and the receiver drops them.

use crate::common::{MS, bulk, column, dumbbell, flow, link, run};
use tailback_core::probe::Tables;
use tailback_core::scenario::{FlowSpec, LinkSpec, Scenario, WireSpec};

const SHARE: f64 = 0.01;

fn whole(tables: &Tables, table: &str, name: &str) -> Vec<u64> {
    column(tables, table, name).into_iter().map(|number| number as u64).collect()
}

/// Packets dropped by receivers, over all flows and directions.
fn damaged(tables: &Tables) -> u64 {
    whole(tables, "receiver_drops", "packets").iter().sum()
}

/// `flows` over a damaging link without a rate, then over a bottleneck.
fn behind(flows: Vec<FlowSpec>) -> Scenario {
    let mut scenario = dumbbell(10_000_000, 40 * MS, Some(100_000), 20, flows);
    let endless = |name, from, to| LinkSpec { rate_bps: None, ..link(name, from, to, 1, 0, None) };
    let wire = WireSpec { corrupt: SHARE, ..WireSpec::default() };
    let there = LinkSpec { wire, ..endless("there", "before", "left") };
    scenario.links.extend([there, endless("home", "left", "before")]);
    scenario.nodes.push("before".into());
    for flow in &mut scenario.flows {
        flow.from = "before".into();
        flow.route.insert(0, "there".into());
        flow.back_route.push("home".into());
    }
    scenario
}

#[test]
fn a_damaged_packet_crosses_every_link_and_counts_as_dropped_at_its_receiver() {
    let tables = run(&behind(vec![flow("call", "udp-cbr", None)]));
    let of = |name| whole(&tables, "flows", name)[0];
    let (sent, received, dropped) = (of("packets_sent"), of("packets_received"), of("packets_dropped"));
    assert_eq!(dropped, damaged(&tables));
    // The rest was in flight at the end.
    assert!(sent - received - dropped <= 60, "{sent} {received} {dropped}");
    let deviation = (sent as f64 * SHARE * (1.0 - SHARE)).sqrt();
    assert!((dropped as f64 - sent as f64 * SHARE).abs() < 4.0 * deviation, "{dropped} of {sent}");
    // No link dropped a packet, and the bottleneck delivered the damaged ones too.
    assert_eq!(whole(&tables, "links", "dropped").iter().sum::<u64>(), 0);
    assert_eq!(whole(&tables, "links", "delivered")[0], received + dropped);
}

#[test]
fn a_transfer_repeats_what_was_damaged_and_what_follows_it_in_a_burst_is_whole() {
    let tables = run(&behind(vec![bulk("cubic", "linux")]));
    let of = |name| whole(&tables, "flows", name)[0];
    let damaged = damaged(&tables);
    // Segments of one burst have the same content: damage must not spread from one to the next.
    let share = damaged as f64 / of("packets_sent") as f64;
    let deviation = (SHARE * (1.0 - SHARE) / of("packets_sent") as f64).sqrt();
    assert!((share - SHARE).abs() < 4.0 * deviation, "{share}");
    assert!(of("segments_retransmitted") >= damaged && of("bytes_received") > 0);
    assert_eq!(of("packets_dropped"), damaged + whole(&tables, "links", "dropped").iter().sum::<u64>());
}

#[test]
fn the_table_is_there_only_if_a_wire_damages_and_others_keep_their_draws() {
    let mut scenario = dumbbell(10_000_000, 40 * MS, Some(100_000), 5, vec![flow("call", "udp-cbr", None)]);
    scenario.links[0].wire.loss = 0.05;
    let without = run(&scenario);
    assert!(without.tables.iter().all(|table| table.name != "receiver_drops"));
    scenario.links[0].wire.corrupt = 0.5;
    let with = run(&scenario);
    let lost = |tables: &Tables| whole(tables, "links", "dropped");
    assert_eq!(lost(&without), lost(&with));
    assert!(damaged(&with) > 0);
}
