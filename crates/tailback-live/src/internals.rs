//! Internal quantities of congestion controls, read from the kernel's sockets by BPF (`bpf/internals.h`): of our twins,
//! and of the kernel's own algorithms whose state is described by its type information (BTF).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as Wait;

use tailback_core::cc::CongestionControl;
use tailback_core::cc::registry;
use tailback_core::packet::FlowId;
use tailback_core::probe::rows::{InternalRow, Internals};
use tailback_core::probe::schema::QuantityId;
use tailback_core::scenario::Params;
use tailback_core::time::{Duration, Time};

use crate::bpf::{Loaded, RingReader};
use crate::clock::Clock;
use crate::error::LiveError;
use crate::headers::addresses;
use crate::recipe::Recipe;

/// The most quantities that any algorithm shows.
const QUANTITIES: usize = 5;
/// Interval between reads of the rings: each holds 2 MB, a tenth of a second at the highest rate.
const BETWEEN_LOOKS: Wait = Wait::from_millis(20);

macro_rules! own {
    ($($name:literal),+ $(,)?) => {
        /// Readers for those of the kernel's own algorithms that can be read.
        const OWN: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../../bpf/own/", $name, ".bpf.c")))),+];
    };
}

own!("cubic", "bbr");

/// The ratio of two integers; see [`Shown::value`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Quantity {
    value: i64,
    per: i64,
}

/// An algorithm's state when a segment arrived, before the algorithm processed it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown {
    ns: u64,
    local: Ipv4Addr,
    /// The client's port, which identifies the connection.
    port: u16,
    quantities: [Quantity; QUANTITIES],
}

impl Shown {
    /// Parses the layout of bpf/internals.h.
    fn read(bytes: &[u8]) -> Option<Shown> {
        const HEAD: usize = 16;
        if bytes.len() < HEAD + 16 * QUANTITIES {
            return None;
        }
        let long = |at: usize| i64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Some(Shown {
            ns: long(0) as u64,
            local: Ipv4Addr::from(word(8).to_ne_bytes()),
            port: word(12) as u16,
            quantities: std::array::from_fn(|number| {
                let at = HEAD + 16 * number;
                Quantity { value: long(at), per: long(at + 8) }
            }),
        })
    }

    /// A quantity in its unit. A zero divisor means that it is missing, a negative one that it is an instant of the
    /// machine's clock.
    fn value(&self, number: usize, clock: Clock) -> f64 {
        let Quantity { value, per } = self.quantities[number];
        if per == 0 {
            return f64::NAN;
        }
        let value = value as f64 / per.unsigned_abs() as f64;
        if per > 0 { value } else { value - clock.ns(Time::ZERO) as f64 * 1e-9 }
    }
}

/// Names of an algorithm's quantities, in order; they are the simulator's.
fn names(cc: &str) -> Vec<&'static str> {
    let mut quantities = Vec::new();
    if let Ok(algorithm) = registry::build(cc, &Params::new(), "tcp", 0) {
        algorithm.internals(&mut quantities);
    }
    quantities.into_iter().map(|(name, _)| name).collect()
}

/// Whether the algorithm shows any quantity.
pub fn has_any(cc: &str) -> bool {
    !names(cc).is_empty()
}

/// The program that reads the kernel's own `cc` on this many hosts, if its layout is known.
pub fn recipe_of_kernel(cc: &str, hosts: usize) -> Option<Recipe> {
    let (_, source) = OWN.iter().find(|(name, _)| *name == cc)?;
    let defines =
        vec![("NAME", format!("\"{cc}\"")), ("HOSTS", hosts.to_string()), ("INTERNALS_WANTED", "1".into())];
    Some(Recipe::new(cc, source, defines))
}

/// Reads the quantities of one congestion control.
pub struct Reader {
    names: Vec<&'static str>,
    ring: RingReader,
    /// The reading program, unless it is part of a twin.
    _loaded: Option<Loaded>,
}

impl Reader {
    /// For a twin, whose object contains the program.
    pub fn of_twin(cc: &str, loaded: &mut Loaded) -> Result<Reader, LiveError> {
        let ring = loaded.ring("shown")?;
        loaded.attach("on_internals")?;
        Ok(Reader { names: names(cc), ring, _loaded: None })
    }

    /// For the kernel's own `cc`, on the hosts with these namespace numbers.
    pub fn of_kernel(cc: &str, hosts: &[u64]) -> Result<Reader, LiveError> {
        let Some(recipe) = recipe_of_kernel(cc, hosts.len()) else {
            return Err(LiveError::Failed(format!(
                "the kernel's own {cc} keeps its state in a layout we do not know"
            )));
        };
        let mut loaded = Loaded::load_for(cc, &recipe.object()?, hosts, None)?;
        let ring = loaded.ring("shown")?;
        loaded.attach("on_internals")?;
        Ok(Reader { names: names(cc), ring, _loaded: Some(loaded) })
    }
}

/// Recorded states, with the names of their quantities.
pub type Followed = Vec<(Vec<&'static str>, Vec<Shown>)>;

/// Reads until `stop`.
pub fn follow(mut readers: Vec<Reader>, stop: &AtomicBool) -> Followed {
    let mut rows: Vec<Vec<Shown>> = readers.iter().map(|_| Vec::new()).collect();
    loop {
        let is_last = stop.load(Ordering::Relaxed);
        for (reader, rows) in readers.iter_mut().zip(&mut rows) {
            rows.extend(reader.ring.take().iter().filter_map(|bytes| Shown::read(bytes)));
        }
        if is_last {
            break;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    readers.into_iter().map(|reader| reader.names).zip(rows).collect()
}

/// The simulator's table at the simulator's instants, and the words that its column `name` indexes. A row holds, for
/// each `polled` flow, the state of the connection that reported last, while it is active.
pub fn table(
    followed: &Followed,
    polled: &[bool],
    (from, until, interval): (Time, Time, Duration),
    clock: Clock,
) -> (Internals, Vec<&'static str>) {
    let mut words: Vec<&'static str> = Vec::new();
    let mut rows = Vec::new();
    for flow in (0..polled.len()).filter(|flow| polled[*flow] && !interval.is_zero()) {
        let [near, _] = addresses(flow as u32);
        let mut shown: Vec<(&[&'static str], &Shown)> = followed
            .iter()
            .flat_map(|(names, rows)| rows.iter().map(move |row| (names.as_slice(), row)))
            .filter(|(_, row)| row.local == near)
            .collect();
        shown.sort_by_key(|(_, row)| row.ns);
        let spoken: BTreeMap<u16, u64> = shown.iter().map(|(_, row)| (row.port, row.ns)).collect();
        let mut next = shown.into_iter().peekable();
        let mut latest = None;
        let mut at = from;
        while at < until {
            while let Some(row) = next.next_if(|(_, row)| clock.at(row.ns) <= at) {
                latest = Some(row);
            }
            if let Some((names, row)) = latest.filter(|(_, row)| clock.at(spoken[&row.port]) >= at) {
                for (number, name) in names.iter().enumerate().take(QUANTITIES) {
                    let code = words.iter().position(|known| known == name).unwrap_or_else(|| {
                        words.push(name);
                        words.len() - 1
                    });
                    rows.push((at, flow as u32, code as u16, row.value(number, clock)));
                }
            }
            at += interval;
        }
    }
    rows.sort_by_key(|(at, flow, ..)| (*at, *flow));
    let row = |(at, flow, code, value): (Time, u32, u16, f64)| InternalRow {
        t_s: at.as_secs_f64(),
        flow: FlowId(flow),
        name: QuantityId(code),
        value,
    };
    (rows.into_iter().map(row).collect(), words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twins;

    fn clock() -> Clock {
        Clock::starting_in(Duration::ZERO)
    }

    fn shown(ns: u64, port: u16, value: i64) -> Shown {
        let mut quantities = [Quantity::default(); QUANTITIES];
        quantities[0] = Quantity { value, per: 2 };
        Shown { ns, local: addresses(0)[0], port, quantities }
    }

    #[test]
    fn no_algorithm_has_more_quantities_than_a_row_has_room_for() {
        for cc in twins::names().chain(OWN.iter().map(|(cc, _)| *cc)) {
            assert!(names(cc).len() <= QUANTITIES, "{cc}: {:?}", names(cc));
        }
    }

    #[test]
    fn the_grid_has_what_was_shown_last_while_it_is_shown() {
        let clock = clock();
        let zero = clock.ns(Time::ZERO);
        let ms = |ms: u64| zero + ms * 1_000_000;
        let rows = vec![shown(ms(5), 1, 10), shown(ms(15), 1, 20), shown(ms(35), 1, 30)];
        let other = Shown { local: addresses(1)[0], ..shown(ms(1), 1, 99) };
        let followed = vec![(vec!["one"], rows), (vec!["two"], vec![other])];
        let grid = (Time::ZERO, Time::from_ms(100), Duration::from_ms(10));
        let (table, words) = table(&followed, &[true, false], grid, clock);
        assert_eq!(words, ["one"]);
        assert_eq!(table.t_s, [0.01, 0.02, 0.03]);
        assert_eq!(table.value, [5.0, 10.0, 10.0]);
    }

    #[test]
    fn instants_are_of_the_run_and_what_is_not_there_is_missing() {
        let clock = clock();
        let mut row = shown(clock.ns(Time::ZERO) + 5_000_000_000, 1, 0);
        row.quantities[0] =
            Quantity { value: (clock.ns(Time::ZERO) / 1_000_000) as i64 + 3_000, per: -1_000 };
        assert!((row.value(0, clock) - 3.0).abs() < 2e-3, "{}", row.value(0, clock));
        assert!(row.value(1, clock).is_nan());
    }
}
