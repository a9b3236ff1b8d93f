//! Memory use of connections, measured at the allocator: during their lifetime and afterwards.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use common::{MS, SECOND, dumbbell, flow, tcp};
use tailback_core::engine::Simulation;
use tailback_core::probe::Column;
use tailback_core::scenario::{Scenario, Value};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed to the system's allocator unchanged; only the sizes are summed.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's guarantees about `layout` are those that the system's allocator requires.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `memory` came from `alloc` above, so from the system's allocator, with this `layout`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn web(rate: f64, rtt_ps: u64, seconds: u64) -> Scenario {
    let mut web = flow("web", "web", Some(tcp("cubic", "linux")));
    web.app.params.insert("rate".into(), Value::Number(rate));
    web.app.params.insert("largest".into(), Value::Number(100_000.0));
    dumbbell(1_000_000_000, rtt_ps, None, seconds, vec![web])
}

/// Bytes held at each of these seconds, counted from before the run was built; and connections open at the end.
fn held(scenario: &Scenario, at_s: &[u64]) -> (Vec<usize>, u64) {
    let before = HELD.load(Relaxed);
    let mut simulation = Simulation::build(scenario).expect("a valid scenario");
    let mut held = Vec::new();
    for at in at_s {
        while simulation.now().as_ps() < at * SECOND && !simulation.run_events(50).expect("a sound engine") {}
        held.push(HELD.load(Relaxed) - before);
    }
    let tables = simulation.finish();
    let flows = tables.tables.iter().find(|table| table.name == "flows").expect("flows");
    let open = flows.columns.iter().find(|(name, _)| *name == "connections_open").map(|(_, column)| column);
    let Some(Column::U64(open)) = open else { panic!("counts") };
    (held, open[0])
}

// A single test, so that no other allocates at the same time.
#[test]
fn connections_cost_little_while_they_live_and_nothing_after() {
    // Ten thousand and more alive: sessions of some three round trips of two seconds.
    let (held_then, open) = held(&web(2500.0, 2000 * MS, 10), &[10]);
    assert!(open >= 10_000, "{open}");
    let each = held_then[0] as f64 / open as f64;
    println!("{open} connections in {} MB, {each:.0} B each", held_then[0] / 1_000_000);
    assert!(each * 10_000.0 < 64e6, "{each}");

    // Constant over time, and released when the last connection is over.
    let mut scenario = web(1000.0, 20 * MS, 42);
    scenario.flows[0].stop_ps = Some(40 * SECOND);
    let (held_then, open) = held(&scenario, &[5, 20, 39, 42]);
    println!("{held_then:?} B after 5, 20, 39 and 42 s");
    assert_eq!(open, 0);
    // What lives at an instant varies by itself; an eightfold time would show eightfold if anything stayed.
    assert!(held_then[2] < 2 * held_then[0] && held_then[1] < 2 * held_then[0], "{held_then:?}");
    // The rest is the packet store, the connection store and the schedule's tables, none of which belongs to a
    // connection.
    assert!(held_then[3] < 300_000 && held_then[3] < held_then[2], "{held_then:?}");
}
