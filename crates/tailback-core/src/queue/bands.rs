//! Bands: parallel queues, each for some of the flows. The discipline that contains them decides which sends next.

use super::dscp;
use super::registry::{self, Queue, Registered, Surroundings};
use super::{Backlog, Fate, QueueDiscipline};
use crate::packet::{Acknowledgement, Packet};
use crate::params::{Checked, ParamSpec};
use crate::scenario::{BandSpec, Params, QueueSpec, ScenarioError, Value};
use crate::time::{Bytes, Time};

/// Default limit of a band without a queue of its own.
pub(super) const LIMIT: ParamSpec = ParamSpec::whole(
    "limit_packets",
    "packets",
    1000,
    (1, 1 << 31),
    "Limit of each band that states no queue of its own (Linux: the device's txqueuelen).",
);

/// Limit on the number of bands, to catch mistakes; Linux's prio has at most sixteen.
const MOST: usize = 256;

/// The queues of the bands, and the assignment of flows to them.
#[derive(Clone, Debug)]
pub(super) struct Bands {
    pub queues: Vec<Queue>,
    /// Band index by flow number. Unknown flows join the last band.
    of_flow: Vec<usize>,
}

impl Bands {
    /// `count` drop-tail queues with the given limit; packets of flow i join band `of_flow[i]`.
    pub fn plain(
        count: usize,
        of_flow: Vec<usize>,
        given: &Checked<'_>,
        around: &Surroundings<'_>,
    ) -> Result<Bands, ScenarioError> {
        let spec = plain_queue(given);
        let queues = (0..count).map(|_| registry::build(&spec, "", around)).collect::<Result<_, _>>()?;
        Ok(Bands { queues, of_flow })
    }

    /// Builds the bands that `spec` at `at` (such as `links[0].queue`) describes.
    pub fn build(
        spec: &QueueSpec,
        at: &str,
        given: &Checked<'_>,
        around: &Surroundings<'_>,
    ) -> Result<Bands, ScenarioError> {
        if spec.bands.len() > MOST {
            let problem =
                format!("{} bands are more than the {MOST} that a queue may have", spec.bands.len());
            return Err(refusal(
                format!("{at}.bands"),
                &spec.bands.len().to_string(),
                &problem,
                "Put more flows into one band",
            ));
        }
        let of_flow = members(spec, at, given, around)?;
        let mut queues = Vec::with_capacity(spec.bands.len());
        for (number, band) in spec.bands.iter().enumerate() {
            // Bands with random choices must draw from different streams.
            let seed = around.seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let own = Surroundings { seed, ..*around };
            let path = format!("{at}.bands[{number}].queue");
            queues.push(match &band.queue {
                Some(queue) => registry::build(queue, &path, &own)?,
                None => registry::build(&plain_queue(given), &path, &own)?,
            });
        }
        Ok(Bands { queues, of_flow })
    }

    /// Index of the band that `packet` joins.
    pub fn of(&self, packet: &Packet) -> usize {
        self.of_flow.get(packet.flow.0 as usize).copied().unwrap_or(self.queues.len() - 1)
    }

    /// Total backlog.
    pub fn backlog(&self) -> Backlog {
        let mut all = Backlog::default();
        for queue in &self.queues {
            let held = queue.backlog();
            all.packets += held.packets;
            all.bytes += held.bytes;
        }
        all
    }

    /// Whether any band reads acknowledgements.
    pub fn read_acks(&self) -> bool {
        self.queues.iter().any(QueueDiscipline::reads_acks)
    }

    /// Passes the acknowledgement of `packet` to its band, before the packet itself.
    pub fn show_ack(&mut self, packet: &Packet, ack: Acknowledgement) {
        let band = self.of(packet);
        self.queues[band].show_ack(packet, ack);
    }

    /// Whether `dequeue` leaves every band unchanged while all are empty.
    pub fn rest_when_empty(&self) -> bool {
        self.queues.iter().all(QueueDiscipline::rests_when_empty)
    }
}

fn plain_queue(given: &Checked<'_>) -> QueueSpec {
    let limit = Value::Number(given.whole("limit_packets") as f64);
    QueueSpec { params: Params::from([("limit_packets".to_string(), limit)]), ..QueueSpec::unlimited() }
}

/// Band index of each flow, by number: the first band that names the flow or its DSCP, otherwise the last.
fn members(
    spec: &QueueSpec,
    at: &str,
    given: &Checked<'_>,
    around: &Surroundings<'_>,
) -> Result<Vec<usize>, ScenarioError> {
    let flows = around.context.flows;
    let marks = dscp::of_flows(given, flows)?;
    let last = spec.bands.len() - 1;
    let mut named: Vec<(String, usize)> = Vec::new();
    let mut classes: Vec<(u8, usize)> = Vec::new();
    for (number, band) in spec.bands.iter().enumerate() {
        let place = |field: &str| format!("{at}.bands[{number}].{field}");
        if number < last && band.flows.is_empty() && band.dscp.is_empty() {
            let problem = "no packet joins this band: it names neither flows nor DSCPs";
            let fix = "Name some, for example flows = [\"call\"]; the last band takes what no other names";
            return Err(refusal(format!("{at}.bands[{number}]"), "nothing", problem, fix));
        }
        for flow in &band.flows {
            if let Some((_, other)) = named.iter().find(|(name, _)| name == flow) {
                let problem = format!("bands[{other}] names this flow already");
                return Err(refusal(
                    place("flows"),
                    &format!("{flow:?}"),
                    &problem,
                    "Name each flow in one band",
                ));
            }
            if !flows.is_empty() && !flows.iter().any(|known| dscp::is_called(&known.name, flow)) {
                let problem = format!("there is no flow called {flow}");
                return Err(refusal(
                    place("flows"),
                    &format!("{flow:?}"),
                    &problem,
                    "Name flows of the scenario",
                ));
            }
            named.push((flow.clone(), number));
        }
        for word in &band.dscp {
            let Some(class) = dscp::named(word) else {
                let fix = "Write a number below 64 or a name such as \"ef\", \"af41\" or \"cs1\"";
                return Err(refusal(place("dscp"), &format!("{word:?}"), "this is no DSCP", fix));
            };
            if let Some((_, other)) = classes.iter().find(|(known, _)| *known == class) {
                let problem = format!("bands[{other}] takes this DSCP already");
                return Err(refusal(
                    place("dscp"),
                    &format!("{word:?}"),
                    &problem,
                    "Name each DSCP in one band",
                ));
            }
            classes.push((class, number));
        }
    }
    let band = |number: usize| {
        let by_name = named.iter().find(|(name, _)| dscp::is_called(&flows[number].name, name));
        let by_mark = || classes.iter().find(|(class, _)| *class == marks[number]).map(|(_, band)| *band);
        by_name.map(|(_, band)| *band).or_else(by_mark).unwrap_or(last)
    };
    Ok((0..flows.len()).map(band).collect())
}

fn refusal(field: String, value: &str, problem: &str, fix: &str) -> ScenarioError {
    ScenarioError { field, value: value.into(), problem: problem.into(), fix: fix.into() }
}

/// A discipline that has bands.
pub(super) trait Banded: Registered {
    /// Whether a band may hold packets back while the link is free.
    const TAKES_SHAPERS: bool;
    /// Replaces its bands; the new ones are empty.
    fn put_bands(&mut self, bands: Bands, spec: &[BandSpec]);
    /// The queues of its bands.
    fn bands(&self) -> &[Queue];

    /// Builds and installs the bands that `spec` at `at` describes.
    fn fill(
        &mut self,
        spec: &QueueSpec,
        at: &str,
        given: &Checked<'_>,
        around: &Surroundings<'_>,
    ) -> Result<(), ScenarioError> {
        let bands = Bands::build(spec, at, given, around)?;
        let shaper = bands.queues.iter().position(Queue::holds_back).filter(|_| !Self::TAKES_SHAPERS);
        if let Some(number) = shaper {
            let field = format!("{at}.bands[{number}].queue");
            let name = spec.bands[number].queue.as_ref().map_or("", |queue| &queue.discipline);
            let problem = format!("a band of {} must send when its turn comes", Self::CARD.name);
            return Err(refusal(
                field,
                &format!("{name:?}"),
                &problem,
                "Put the shaper around all bands, or use prio",
            ));
        }
        self.put_bands(bands, &spec.bands);
        Ok(())
    }
}

/// Enqueues `packet`; returns whether that made an empty queue non-empty.
pub(super) fn enqueue_noting_first(queue: &mut Queue, packet: Packet, now: Time, fate: &mut Fate) -> bool {
    let was_empty = queue.backlog().packets == 0;
    queue.enqueue(packet, now, fate);
    was_empty && queue.backlog().packets > 0
}

/// Length of a packet in the unit of quanta.
pub(super) fn length(packet: &Packet) -> Bytes {
    Bytes::from(packet.bytes)
}
