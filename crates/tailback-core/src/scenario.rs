//! The exact description of an experiment: explicit units, no defaults left open.
//!
//! `tailback-scenario` reads files, resolves units and shorthands, finds routes and passes this description on. It is
//! also stored with every result. `engine::build` turns it into a network or reports what is wrong and where.

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

/// The value as a scenario file writes it: a name in quotes.
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
    /// Name for display.
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
    /// Framing that counts at `rate_bps`; the queue counts IP bytes.
    #[serde(default, skip_serializing_if = "Framing::is_plain")]
    pub framing: Framing,
    /// Queue in front of the serialiser.
    #[serde(default = "QueueSpec::unlimited")]
    pub queue: QueueSpec,
    /// Impairments of the wire beyond delay.
    #[serde(default)]
    pub wire: WireSpec,
    /// Policer before the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policer: Option<PolicerSpec>,
    /// Medium of a link that does not transmit bit by bit at `rate_bps`, which must then be absent.
    #[serde(default)]
    pub medium: Option<MediumSpec>,
    /// Changes of rate, delay and loss, in order of time.
    #[serde(default)]
    pub schedule: Vec<StepSpec>,
    /// Delivery opportunities instead of a rate: a recorded link.
    #[serde(default)]
    pub trace: Option<TraceSpec>,
}

impl LinkSpec {
    /// Rate that full IP packets get at `rate_bps`.
    pub fn ip_rate_bps(&self) -> Option<u64> {
        let line = Rate::from_bps(self.rate_bps.filter(|bps| *bps > 0)?);
        Some(self.framing.ip_rate(line).as_bps())
    }
}

/// A token bucket that drops packets above its rate and queues nothing.
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
    /// For a medium with contention: links with the same channel share it. `None`: the link has the medium to itself.
    #[serde(default)]
    pub channel: Option<String>,
    /// For a tunnel: the flow whose connection carries its packets.
    #[serde(default)]
    pub flow: Option<String>,
}

/// A change of a link at a point in time; values that are not set stay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    /// Time of the step.
    pub at_ps: u64,
    /// New rate; zero is an outage.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// New propagation delay, for packets that leave from then on.
    #[serde(default)]
    pub delay_ps: Option<u64>,
    /// Fraction of the packets lost from then on, in addition to the wire's own losses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
}

/// Times at which a recorded link could deliver one full packet; after the last, the trace repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceSpec {
    /// Times in milliseconds, as in mahimahi's files; equal times are several opportunities.
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
    /// The inner queue, for a discipline that shapes another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner: Option<Box<QueueSpec>>,
    /// Its bands in order, for a discipline with bands; empty: the discipline's default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bands: Vec<BandSpec>,
}

/// A band: one of several parallel queues, and the packets that join it.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BandSpec {
    /// Names of flows; a name includes its numbered flows and its reverse direction.
    pub flows: Vec<String>,
    /// DSCPs, by name or number.
    pub dscp: Vec<String>,
    /// Bytes gained per round, for a discipline with rounds; `None`: the discipline's quantum.
    pub quantum: Option<u64>,
    /// Its queue; `None`: a FIFO with the discipline's limit.
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
    /// Periodic loss: one packet in N is lost; zero: none.
    pub loss_every: u32,
    /// Probability that a packet is damaged; it continues, and its receiver's checksum drops it.
    #[serde(skip_serializing_if = "is_never")]
    pub corrupt: f64,
    /// Probability that a packet is delivered twice.
    pub duplicate: f64,
    /// Probability that a packet is held back, so that others overtake it.
    pub reorder: f64,
    /// Additional delay of a packet that is held back.
    pub reorder_delay_ps: u64,
    /// Number of packets that must overtake it for it to continue sooner; zero: it waits for the whole delay.
    pub reorder_packets: u32,
    /// Uniform extra delay between zero and this, without reordering.
    pub jitter_ps: u64,
    /// Probability of a bit error; a packet with a bit error is lost.
    pub bit_error: f64,
    /// Gilbert-Elliott channel: probability per packet of a change from the good to the bad state.
    pub burst_start: f64,
    /// Gilbert-Elliott channel: probability per packet of a change from the bad to the good state.
    pub burst_end: f64,
    /// Gilbert-Elliott channel: loss probability in the bad state.
    pub burst_loss: f64,
    /// Gilbert-Elliott channel: loss probability in the good state.
    pub gap_loss: f64,
    /// ECN codepoints that are cleared to Not-ECT; `None`: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bleach: Option<Bleach>,
    /// Whether bleaching happens before the queue rather than after it.
    #[serde(skip_serializing_if = "is_false")]
    pub bleach_before_queue: bool,
    /// Jitter drawn independently per packet, as in netem; replaces `jitter_ps` and `reorder`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netem_jitter: Option<NetemSpec>,
    /// How long ACKs are held so that they leave together.
    #[serde(skip_serializing_if = "is_zero")]
    pub ack_hold_ps: u64,
    /// Only one in N ACKs of a connection continues; `None`: all of them.
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

/// Jitter as in netem.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetemSpec {
    /// Magnitude of the deviations from the link's delay, in the unit of the distribution.
    pub jitter_ps: u64,
    /// Distribution of the deviations.
    pub distribution: Distribution,
    /// Correlation: share of the last random number in the next.
    pub correlation: f64,
}

/// A distribution of netem's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Uniform between minus and plus the jitter.
    Uniform,
    /// Normal with the jitter as standard deviation, cut at four.
    Normal,
    /// Pareto with exponent 3, cut at four.
    Pareto,
}

impl Distribution {
    /// Names in scenarios, in the order of the variants.
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
    /// Names in scenarios, in the order of the variants.
    pub const NAMES: [&str; 3] = ["ce", "ect1", "all"];

    /// The codepoint of a packet after bleaching.
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
    /// Further periods in which it is active, in order and after the first.
    #[serde(default)]
    pub again: Vec<Period>,
    /// The application that drives the flow.
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

    /// Bytes by which the header is longer than IPv4's. Applications state packet sizes with an IPv4 header.
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

/// A period in which a flow is active.
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

/// Settings of a connection, over TCP or another transport.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpSpec {
    /// Another transport than TCP ([`crate::foreign::Stacks`]). `cc` is then one of its own, and there is no stack
    /// profile.
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
    /// Further algorithms: the flow's connections use `cc` and these in rotation.
    #[serde(default)]
    pub cc_turns: Vec<CcSpec>,
    /// Fields of the stack profile that this flow overrides, for sender and receiver.
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
    /// Drawn extra delay of this flow's path (`randomness.access_spread`).
    pub fn drawn_access_delay(&self, flow: &str) -> Duration {
        let most = Duration::from_ps(self.randomness.access_spread_ps);
        Stream::named_by(self.seed, ["flow/", flow, "/access"]).duration_up_to(most)
    }

    /// Whether a hidden link at the host delays this flow's packets.
    pub fn holds_at_hosts(&self) -> bool {
        self.randomness.processing_jitter_ps > 0 || self.randomness.access_spread_ps > 0
    }
}

/// What to record. Everything is off by default, and then costs nothing.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Instruments {
    /// Flows whose TCP state is logged at every segment, as SIFTR does.
    pub segments: Vec<String>,
    /// Flows whose TCP state is polled, as Web100 does.
    pub polls: Vec<String>,
    /// Whether each poll also records the algorithm's internal quantities.
    pub internals: bool,
    /// Links whose backlog is sampled at each poll.
    pub queue_polls: Vec<String>,
    /// Polling interval.
    pub poll_interval_ps: u64,
    /// Links whose every enqueue, dequeue, drop and mark is logged.
    pub queues: Vec<String>,
    /// Links whose drops and marks are logged.
    pub drops: Vec<String>,
    /// Flows whose packets are logged, each with its one-way delay.
    pub packets: Vec<String>,
    /// Flows whose exchanges (session, fetch, transfer, request) are timed.
    pub requests: Vec<String>,
    /// Flows whose echo requests are timed.
    pub echoes: Vec<String>,
    /// Limit on the rows of all tables together; `None`: [`crate::engine::MOST_ROWS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_rows: Option<u64>,
    /// Limit on the memory of packets and connections in bytes; `None`: [`crate::engine::MOST_MEMORY`].
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

/// An error in a description: where it is, what is wrong, and how to fix it.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioError {
    /// Path of the field: `links[0].queue.params.limit_bytes`.
    pub field: String,
    /// The value as a scenario file writes it: a text in quotes, a number or a switch without. Words such as `nothing`
    /// or `a tcp section` stand for something that is not a single value.
    pub value: String,
    /// What is wrong.
    pub problem: String,
    /// The fix.
    pub fix: String,
}

impl ScenarioError {
    /// The same error for a field below `path`.
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
