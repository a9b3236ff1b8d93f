//! How fast and how punctual the emulator is on this machine: two CUBIC transfers over 20 ms at rising rates.
//!
//! The figure is how much longer each packet took between its hosts than the path prescribes, from the kernel's stamp
//! on sending to its stamp on receiving. A capture card at each host would see the same. The lateness of the machine's
//! own timers stands beside it.
//!
//! `cargo bench -p tailback-live` (as root); rates in Mbit/s may follow `--`.

use std::time::Duration;

use serde_json::{Value, json};
use tailback_core::probe::Column;
use tailback_core::scenario::Scenario;
use tailback_live::{LiveError, doctor, run};

const RATES_MBPS: [u64; 6] = [10, 100, 200, 500, 800, 1000];
const SECONDS: u64 = 5;
/// A link that carried less than this share of its rate did not hold the rate.
const HELD: f64 = 0.9;

fn scenario(mbps: u64) -> Scenario {
    let rate = mbps * 1_000_000;
    let link = |name: &str, from: &str, to: &str| {
        json!({
            "name": name, "from": from, "to": to, "rate_bps": rate, "delay_ps": 10_000_000_000u64,
            // One bandwidth-delay product.
            "queue": { "discipline": "fifo", "params": { "limit_bytes": rate / 400 } },
        })
    };
    let flow = |number: usize| {
        json!({
            "name": format!("bulk-{number}"), "from": "left", "to": "right",
            "route": ["there"], "back_route": ["back"], "app": { "kind": "bulk" },
            "tcp": { "stack": "linux", "cc": "cubic", "mtu": 1500, "send_buffer": 1 << 24, "receive_buffer": 1 << 24 },
        })
    };
    let flows: Vec<Value> = (0..2).map(flow).collect();
    let described = json!({
        "format": 1, "seed": 1, "duration_ps": SECONDS * 1_000_000_000_000,
        "nodes": ["left", "right"],
        "links": [link("there", "left", "right"), link("back", "right", "left")],
        "flows": flows,
    });
    serde_json::from_value(described).expect("a scenario")
}

fn value(outcome: &run::Outcome, table: &str, column: &str) -> f64 {
    let table = outcome.tables.iter().find(|known| known.name == table).expect(table);
    match &table.columns.iter().find(|(name, _)| *name == column).expect(column).1 {
        Column::F64(values) => values[0],
        Column::U64(values) => values[0] as f64,
        _ => unreachable!("only numbers are asked for"),
    }
}

/// Measures one rate; prints a line and returns whether the rate was held.
fn measure(mbps: u64) -> bool {
    let outcome = match run::run::<LiveError>(&scenario(mbps), |_| Ok(())) {
        Ok(outcome) => outcome,
        Err(error) => {
            println!("{mbps:>6}  {error}");
            return false;
        }
    };
    let carried = value(&outcome, "links", "delivered_bytes") * 8e-6 / SECONDS as f64;
    let us = |column: &str| value(&outcome, "emulator", column) * 1e6;
    println!(
        "{mbps:>6} {carried:>8.1} {:>9.0} {:>7.1} {:>7.1} {:>8.0} {:>7.1} {:>7.1} {:>6.0}  {}",
        value(&outcome, "emulator", "packets") / SECONDS as f64,
        us("late_median_s"),
        us("late_p99_s"),
        us("late_max_s"),
        us("late_in_median_s"),
        us("late_in_p99_s"),
        us("late_limit_s"),
        if outcome.is_fit { "fit" } else { "unfit" },
    );
    for note in &outcome.notes {
        println!("        {note}");
    }
    outcome.is_fit && carried > HELD * mbps as f64
}

fn main() {
    let lacks: Vec<String> =
        doctor::basics().into_iter().filter(|check| !check.ok).map(|check| check.found).collect();
    if !lacks.is_empty() {
        println!("skipped: {}", lacks.join("; "));
        return;
    }
    let asked: Vec<u64> = std::env::args().skip(1).filter_map(|rate| rate.parse().ok()).collect();
    let rates = if asked.is_empty() { RATES_MBPS.to_vec() } else { asked };
    println!("  link  carried   packets   late    late     late    of it on entering    limit");
    println!("Mbit/s   Mbit/s       a s  median    99 %    worst  median    99 %     µs");
    let held = rates.into_iter().filter(|&mbps| measure(mbps)).max();
    match held {
        Some(mbps) => println!("highest rate held: {mbps} Mbit/s"),
        None => println!("no rate was held"),
    }
    for check in doctor::timers_only(Duration::from_secs(2)) {
        println!("{}: {}", check.name, check.found);
    }
}
