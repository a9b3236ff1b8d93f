//! The plain description of an experiment: exact units, no defaults left open.
//!
//! `tailback-scenario` reads files, resolves units and shorthands, finds routes and hands this description over; it is
//! also what is stored beside every result. `engine::build` turns it into a network or says what is wrong and where.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::framing::Framing;
use crate::packet::Ecn;
use crate::rng::Stream;
use crate::time::{Duration, Rate};

/// A parameter of an algorithm, queue, link model or application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A switch.
    Flag(bool),
    /// A number, in the unit the parameter's documentation gives.
    Number(f64),
    /// One of several names.
    Name(String),
}

/// As a scenario file writes it: a name in quotes.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Flag(flag) => flag.fmt(f),
            Value::Number(number) => number.fmt(f),
            Value::Name(name) => write!(f, "{name:?}"),
        }
    }
}

/// Parameters by name, in name order.
pub type Params = BTreeMap<String, Value>;

/// One experiment: network, flows, instruments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Format of this description; now 1.
    pub format: u32,
    /// A name for people.
    #[serde(default)]
    pub name: String,
    /// Seed of every random stream.
    pub seed: u64,
    /// Simulated time.
    pub duration_ps: u64,
    /// Node names.
    pub nodes: Vec<String>,
    /// Links, each in one direction.
    pub links: Vec<LinkSpec>,
    /// Flows.
    pub flows: Vec<FlowSpec>,
    /// Deliberate randomness.
    #[serde(default)]
    pub randomness: Randomness,
    /// What to record.
    #[serde(default)]
    pub instruments: Instruments,
}

/// A link in one direction: queue, serialiser, then propagation delay (dummynet's two pipes).
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Name, unique.
    pub name: String,
    /// Node it leaves.
    pub from: String,
    /// Node it reaches.
    pub to: String,
    /// Rate; `None`: infinitely fast, and then it has no queue.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// Propagation delay.
    #[serde(default)]
    pub delay_ps: u64,
    /// Quantise departures to a timer of this frequency (dummynet under `kern.hz`).
    #[serde(default)]
    pub tick_hz: Option<u32>,
    /// What a packet counts at `rate_bps`; the queue counts IP bytes.
    #[serde(default, skip_serializing_if = "Framing::is_plain")]
    pub framing: Framing,
    /// Queue in front of the serialiser.
    #[serde(default = "QueueSpec::unlimited")]
    pub queue: QueueSpec,
    /// What the wire does to packets beyond delaying them.
    #[serde(default)]
    pub wire: WireSpec,
    /// A policer in front of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policer: Option<PolicerSpec>,
    /// How the link transmits, if not bit by bit at `rate_bps`; then that is left out.
    #[serde(default)]
    pub medium: Option<MediumSpec>,
    /// Rate and delay from later instants on, in order of time.
    #[serde(default)]
    pub schedule: Vec<StepSpec>,
    /// Delivery opportunities instead of a rate: a recorded link.
    #[serde(default)]
    pub trace: Option<TraceSpec>,
}

impl LinkSpec {
    /// What full IP packets get of `rate_bps`.
    pub fn ip_rate_bps(&self) -> Option<u64> {
        let line = Rate::from_bps(self.rate_bps.filter(|bps| *bps > 0)?);
        Some(self.framing.ip_rate(line).as_bps())
    }
}

/// A token bucket that drops what exceeds it, and holds nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicerSpec {
    /// Rate at which the bucket fills.
    pub rate_bps: u64,
    /// Bytes that the bucket holds.
    pub burst_bytes: u64,
}

/// A medium by its registry name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediumSpec {
    /// Registry name.
    pub name: String,
    /// Parameters by name.
    #[serde(default)]
    pub params: Params,
    /// Of a medium that stations contend for: links that name the same channel share it. `None`: the link has it
    /// to itself.
    #[serde(default)]
    pub channel: Option<String>,
    /// Of a tunnel: the flow whose connection carries its packets.
    #[serde(default)]
    pub flow: Option<String>,
}

/// A change of a link at an instant; what is not given stays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    /// Time of the step.
    pub at_ps: u64,
    /// Rate from then on; zero is an outage.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// Propagation delay of what leaves from then on.
    #[serde(default)]
    pub delay_ps: Option<u64>,
    /// Share of the packets that leave from then on that is lost, beside the wire's own losses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
}

/// Instants at which a recorded link could deliver one full packet; after the last it begins again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceSpec {
    /// The instants in milliseconds, as in mahimahi's files; equal ones are several opportunities.
    pub deliveries_ms: Vec<u64>,
}

/// A queue discipline by its registry name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Registry name.
    pub discipline: String,
    /// Parameters of the discipline.
    #[serde(default)]
    pub params: Params,
    /// The queue inside it, for a discipline that shapes another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner: Option<Box<QueueSpec>>,
    /// Its bands in order, for a discipline that has some; none: the discipline's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bands: Vec<BandSpec>,
}

/// A band: a queue beside others, and whose packets join it.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BandSpec {
    /// Names of flows; a name stands for its numbered flows and its other direction too.
    pub flows: Vec<String>,
    /// DSCPs, by name or number.
    pub dscp: Vec<String>,
    /// Bytes it gains a round, for a discipline that takes turns; `None`: the discipline's.
    pub quantum: Option<u64>,
    /// Its queue; `None`: a FIFO of the discipline's limit.
    pub queue: Option<QueueSpec>,
}

impl QueueSpec {
    /// A FIFO without limit.
    pub fn unlimited() -> Self {
        QueueSpec { discipline: "fifo".into(), params: Params::new(), inner: None, bands: Vec::new() }
    }
}

impl Default for QueueSpec {
    fn default() -> Self {
        QueueSpec::unlimited()
    }
}

/// Random impairments of a wire; all off by default.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WireSpec {
    /// Probability that a packet is lost.
    pub loss: f64,
    /// One packet in N is lost, always as far apart; zero: none.
    pub loss_every: u32,
    /// Probability that a packet is damaged; it goes on, and the checksum of its receiver drops it.
    #[serde(skip_serializing_if = "is_never")]
    pub corrupt: f64,
    /// Probability that a packet is delivered twice.
    pub duplicate: f64,
    /// Probability that a packet is held back and so overtaken.
    pub reorder: f64,
    /// How long a held-back packet is delayed in addition.
    pub reorder_delay_ps: u64,
    /// It goes on sooner, once this many have overtaken it; zero: it waits that long.
    pub reorder_packets: u32,
    /// Uniform extra delay between zero and this, without reordering.
    pub jitter_ps: u64,
    /// Probability that a bit is wrong; a packet with a wrong bit is lost.
    pub bit_error: f64,
    /// Gilbert and Elliott's channel: probability a packet that a good state turns bad,
    pub burst_start: f64,
    /// that a bad state turns good,
    pub burst_end: f64,
    /// that a packet is lost in the bad state,
    pub burst_loss: f64,
    /// and in the good one.
    pub gap_loss: f64,
    /// ECN codepoints that become Not-ECT; `None`: they stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bleach: Option<Bleach>,
    /// Before the queue; else behind it.
    #[serde(skip_serializing_if = "is_false")]
    pub bleach_before_queue: bool,
    /// Delays drawn packet by packet, as netem does; in place of `jitter_ps` and `reorder`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netem_jitter: Option<NetemSpec>,
    /// How long acknowledgements are held to leave together.
    #[serde(skip_serializing_if = "is_zero")]
    pub ack_hold_ps: u64,
    /// Of this many acknowledgements of a connection only the last goes on; `None`: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_every: Option<u32>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_never(probability: &f64) -> bool {
    *probability == 0.0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Jitter as netem has it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetemSpec {
    /// How far delays deviate from the link's, in the unit of the distribution.
    pub jitter_ps: u64,
    /// How they deviate.
    pub distribution: Distribution,
    /// Share of the last random number in the next.
    pub correlation: f64,
}

/// A distribution of netem's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Every deviation up to the jitter alike.
    Uniform,
    /// The normal distribution, whose standard deviation is the jitter, cut at four.
    Normal,
    /// Pareto's with exponent 3, cut at four.
    Pareto,
}

impl Distribution {
    /// Each by the name a scenario has for it.
    pub const NAMES: [&str; 3] = ["uniform", "normal", "pareto"];
}

/// Which ECN codepoints a path clears to Not-ECT.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bleach {
    /// CE: the marks of queues.
    Ce,
    /// ECT(1): L4S's own.
    Ect1,
    /// All of them.
    All,
}

impl Bleach {
    /// Each by the name a scenario has for it.
    pub const NAMES: [&str; 3] = ["ce", "ect1", "all"];

    /// What becomes of a packet's codepoint.
    pub fn apply(self, ecn: Ecn) -> Ecn {
        let is_cleared = match self {
            Bleach::Ce => ecn == Ecn::Ce,
            Bleach::Ect1 => ecn == Ecn::Ect1,
            Bleach::All => true,
        };
        if is_cleared { Ecn::NotEct } else { ecn }
    }
}

/// A flow: an application at `from` talking to `to`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Name, unique.
    pub name: String,
    /// Sending node.
    pub from: String,
    /// Receiving node.
    pub to: String,
    /// Links from `from` to `to`.
    pub route: Vec<String>,
    /// Links back.
    pub back_route: Vec<String>,
    /// When it starts.
    #[serde(default)]
    pub start_ps: u64,
    /// When it stops; `None`: at the end of the run.
    #[serde(default)]
    pub stop_ps: Option<u64>,
    /// Further times during which it is on, after the first and in order.
    #[serde(default)]
    pub again: Vec<Period>,
    /// What it does.
    pub app: AppSpec,
    /// TCP settings; absent for applications over UDP.
    #[serde(default)]
    pub tcp: Option<TcpSpec>,
    /// IP version of its packets.
    #[serde(default, skip_serializing_if = "IpVersion::is_default")]
    pub ip: IpVersion,
}

/// Version of IP, by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum IpVersion {
    /// RFC 791.
    #[default]
    V4,
    /// RFC 8200.
    V6,
}

impl IpVersion {
    /// Bytes of the header without options.
    pub const fn header(self) -> u32 {
        match self {
            IpVersion::V4 => 20,
            IpVersion::V6 => 40,
        }
    }

    /// By how many bytes the header is longer than IPv4's, for which applications state the sizes of their packets.
    pub const fn beyond_v4(self) -> u32 {
        self.header() - IpVersion::V4.header()
    }

    fn is_default(&self) -> bool {
        *self == IpVersion::default()
    }
}

impl TryFrom<u8> for IpVersion {
    type Error = String;
    fn try_from(number: u8) -> Result<Self, String> {
        match number {
            4 => Ok(IpVersion::V4),
            6 => Ok(IpVersion::V6),
            _ => Err(format!("there is no IP version {number} here: give 4 or 6")),
        }
    }
}

impl From<IpVersion> for u8 {
    fn from(version: IpVersion) -> u8 {
        match version {
            IpVersion::V4 => 4,
            IpVersion::V6 => 6,
        }
    }
}

/// A time during which a flow is on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Period {
    /// Start of the period.
    pub start_ps: u64,
    /// End of the period; `None`: the end of the run.
    #[serde(default)]
    pub stop_ps: Option<u64>,
}

/// An application by its registry name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppSpec {
    /// Registry name: `bulk`, `voip`, …
    pub kind: String,
    /// Parameters of the application.
    #[serde(default)]
    pub params: Params,
}

/// A connection's settings: of a TCP connection, or of another stack's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpSpec {
    /// Not TCP but this transport ([`crate::foreign::Stacks`]); then `cc` is one of its own, and it has no stack profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// Stack profile of the sender, and of the receiver unless `receiver_stack` says otherwise.
    pub stack: String,
    /// Stack profile of the receiver.
    #[serde(default)]
    pub receiver_stack: Option<String>,
    /// Congestion control by registry name.
    pub cc: String,
    /// Parameters of the congestion control.
    #[serde(default)]
    pub cc_params: Params,
    /// Further algorithms: the flow's connections use `cc` and these in turn.
    #[serde(default)]
    pub cc_turns: Vec<CcSpec>,
    /// Fields of the stack profile set differently for this flow (sender and receiver).
    #[serde(default)]
    pub stack_params: Params,
    /// Send buffer in bytes; `None`: the stack's.
    #[serde(default)]
    pub send_buffer: Option<u64>,
    /// Receive buffer in bytes; `None`: the stack's.
    #[serde(default)]
    pub receive_buffer: Option<u64>,
    /// Largest IP packet in bytes.
    pub mtu: u32,
}

/// A congestion control by its registry name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CcSpec {
    /// Registry name.
    pub cc: String,
    /// Parameters of the congestion control.
    #[serde(default)]
    pub cc_params: Params,
}

/// Randomness that breaks phase locking and gives seeds their meaning.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Randomness {
    /// Each flow starts later by a uniform time between zero and this.
    pub start_spread_ps: u64,
    /// Each packet a host sends is held for a uniform time between zero and this (ns-2's `overhead_`),
    /// never reordered.
    pub processing_jitter_ps: u64,
    /// Each flow's path is longer by a uniform time between zero and this, drawn once for a run.
    #[serde(skip_serializing_if = "is_zero")]
    pub access_spread_ps: u64,
}

impl Scenario {
    /// What the path of this flow is longer than written (`randomness.access_spread`).
    pub fn drawn_access_delay(&self, flow: &str) -> Duration {
        let most = Duration::from_ps(self.randomness.access_spread_ps);
        Stream::named_by(self.seed, ["flow/", flow, "/access"]).duration_up_to(most)
    }

    /// Does a host's own link hold this flow's packets?
    pub fn holds_at_hosts(&self) -> bool {
        self.randomness.processing_jitter_ps > 0 || self.randomness.access_spread_ps > 0
    }
}

/// What to record. Everything is off by default and costs nothing then.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Instruments {
    /// Flows whose TCP state is logged at every segment, SIFTR's way.
    pub segments: Vec<String>,
    /// Flows whose TCP state is polled, Web100's way.
    pub polls: Vec<String>,
    /// Also record the algorithm's own quantities at every poll.
    pub internals: bool,
    /// Links whose backlog is sampled at the same instants.
    pub queue_polls: Vec<String>,
    /// Polling interval.
    pub poll_interval_ps: u64,
    /// Links of which every enqueue, dequeue, drop and mark is logged.
    pub queues: Vec<String>,
    /// Links of which drops and marks only are logged.
    pub drops: Vec<String>,
    /// Flows of which every packet's one-way delay is logged.
    pub packets: Vec<String>,
    /// Flows of which every exchange (session, fetch, transfer, request) is timed.
    pub requests: Vec<String>,
    /// Flows of which every echo request is timed.
    pub echoes: Vec<String>,
    /// Rows the run may record at most, all tables together; `None`: [`crate::engine::MOST_ROWS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_rows: Option<u64>,
    /// Bytes of memory that packets and connections may take; `None`: [`crate::engine::MOST_MEMORY`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_memory: Option<u64>,
    /// Points at which every packet's headers are captured: a node, or a link's name with `.in` (before its queue) or
    /// `.out` (at its far end).
    pub captures: Vec<String>,
    /// Start of the recording.
    pub from_ps: u64,
    /// End of the recording; `None`: the end of the run.
    pub until_ps: Option<u64>,
}

/// What is wrong with a description, where, and how to fix it.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioError {
    /// Path of the field: `links[0].queue.params.limit_bytes`.
    pub field: String,
    /// The value found, as a scenario file writes it: a text in quotes, a number and a switch without. Other words
    /// (`nothing`, `a tcp section`) stand for what is no single value.
    pub value: String,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub fix: String,
}

impl ScenarioError {
    /// The same of a field below `path`.
    pub(crate) fn within(self, path: impl fmt::Display) -> Self {
        ScenarioError { field: format!("{path}.{}", self.field), ..self }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (found {}). {}", self.field, self.problem, self.value, self.fix)
    }
}

impl std::error::Error for ScenarioError {}
