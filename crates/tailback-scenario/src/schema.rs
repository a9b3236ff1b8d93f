//! The scenario, with every field declared once. Expectations for its runs are in `schema/expect.rs`.

mod expect;

use tailback_core::framing::Framing;
use tailback_core::queue;
use tailback_core::scenario::IpVersion;

use crate::choices;
use crate::instead;
use crate::node::{Node, Value};
use crate::part;
use crate::part::{
    Bytes, CodeName, Declared, Form, Ip, Kind, Mtu, Name, Names, Params, Part, Positive, Probability, Rate,
    Reader, Shape, Signed, Span, Text, Trace, Whole,
};
use crate::problem::{Fault, fault, hint};
use crate::quantity::{Counts, Size};

pub use expect::{Condition, Expect};

/// Keeps a part's own keys, and moves all others into its parameters.
fn gathered(node: &Node, own: &[&str]) -> Node {
    let (mut out, mut params) = (Vec::new(), Vec::new());
    let mut bare = Vec::new();
    for (key, item) in node.rows() {
        match &item.value {
            _ if own.contains(&key.as_str()) => out.push((key.clone(), item.clone())),
            Value::Table(rows) if key == "params" => params = rows.clone(),
            _ => bare.push((key.clone(), item.clone())),
        }
    }
    for (key, item) in bare {
        match params.iter_mut().find(|(known, _)| *known == key) {
            Some(row) => row.1 = item,
            None => params.push((key, item)),
        }
    }
    if !params.is_empty() {
        out.push(("params".into(), Node { value: Value::Table(params), ..node.clone() }));
    }
    Node { value: Value::Table(out), ..node.clone() }
}

/// A part that may be a plain name, which sets the first of its `own` keys; a table may also set parameters.
fn by_name(node: &Node, own: &[&str], example: &str) -> Result<Node, Fault> {
    match &node.value {
        Value::Text(_) => {
            Ok(Node { value: Value::Table(vec![(own[0].into(), node.clone())]), ..node.clone() })
        }
        Value::Table(_) => Ok(gathered(node, own)),
        _ => Err(fault(
            "this is neither a name nor a table",
            format!("Write \"{example}\" or {{ {} = \"{example}\", … }}", own[0]),
        )),
    }
}

/// Merges the parameters of a table into its keys.
fn flattened(mut table: Node) -> Node {
    if let Value::Table(rows) = &mut table.value {
        if let Some(at) = rows.iter().position(|(key, _)| key == "params") {
            let (_, params) = rows.remove(at);
            rows.extend(params.rows().iter().cloned());
        }
    }
    table
}

/// The plain name, if there are no other keys.
fn name_alone(table: Node) -> Node {
    match table.rows() {
        [(_, name)] if name.as_text().is_some() => name.clone(),
        _ => flattened(table),
    }
}

part! {
    /// The queue in front of a link's serialiser: a discipline, its limit and its parameters.
    /// A size alone means a drop-tail FIFO of that size, a name alone a discipline with its defaults.
    Queue {
        fn spelt_out(node: &Node) -> Result<Node, Fault> {
            let key = match &node.value {
                Value::Table(_) => return Ok(gathered(node, &["discipline", "limit", "inner", "bands"])),
                Value::Text(text) if text.starts_with(char::is_alphabetic) => {
                    let known: Vec<&str> = queue::registry::cards().iter().map(|card| card.name).collect();
                    let is_kernels = queue::outside::of_kernel(text).is_some();
                    let is_own = CodeName::is_place(text);
                    if !is_kernels && !is_own && !known.contains(&text.as_str()) {
                        let instead = instead::of_queue(text).map_or(hint(text, &known), |instead| format!("{instead}. "));
                        return Err(fault(
                            "this is neither a queue size nor a discipline",
                            format!("{instead}Write a size, for example \"1bdp\", or one of {}", known.join(", ")),
                        ));
                    }
                    "discipline"
                }
                _ => { Size::field(node)?; "limit" }
            };
            Ok(Node { value: Value::Table(vec![(key.into(), node.clone())]), ..node.clone() })
        }
        fn shortened(&self, table: Node) -> Node {
            if &*self.discipline == "fifo" && self.params.0.is_empty() {
                if let Some(limit) = self.limit {
                    return limit.to_string().as_str().into();
                }
            }
            if self.params.0.is_empty() && self.limit.is_none() && self.inner.is_none() && self.bands.is_empty() {
                return (&*self.discipline).into();
            }
            let named = crate::table! { "discipline" => &*self.discipline };
            let rest = table.rows().iter().filter(|(key, _)| key != "discipline").cloned().collect::<Vec<_>>();
            named.with(flattened(rest.into()))
        }
    }
    /// Registry name (`tailback list queues`), a kernel's own, such as `kernel:fq_codel` ([how](vm.md#the-kernels-own-queues)), a class, crate or BPF source of your own, `python:my.py:MyQueue`, `rust:mine` or `bpf:mine.bpf.c` ([how](tutorials/own-queue.md)), or a kernel module, `module:sch_mine.c` ([how](tutorials/kernel-module.md#a-queue-discipline)).
    discipline: CodeName = CodeName("fifo".into());
    /// Limit in bytes, packets, multiples of the BDP, or as time: `"100ms"` are the bytes that the link sends in it, rounded up.
    limit: Option<Size>, or "the discipline's own";
    /// The queue inside it, for a `token_bucket`.
    inner: Option<Box<Queue>>, or "the bucket's own FIFO";
    /// The [bands](queues-of-classes.md#prio) of `prio` or `drr`, in order.
    bands: Vec<Band>;
    /// Any other parameter of the discipline; in a file they stand beside `discipline`.
    params: Params;
}

part! {
    /// A band of `prio` or `drr`: whose packets join it, and its queue. The last takes what no other names.
    Band
    /// Flows whose packets join it, in both directions; a name stands for its numbered flows too.
    flows: Vec<Name>;
    /// DSCPs whose packets join it, such as `"ef"` or `"46"`; the discipline's `dscp` says which flows carry which.
    dscp: Vec<Text>;
    /// Bytes that it gains a round of `drr`.
    quantum: Option<Positive<Bytes>>, or "the discipline's";
    /// Its queue, of any discipline.
    queue: Option<Queue>, or "a FIFO of the discipline's `limit_packets`";
}

part! {
    /// An algorithm or stack by name, with parameters that differ from its defaults. A text is the name alone.
    Named {
        fn spelt_out(node: &Node) -> Result<Node, Fault> {
            by_name(node, &["name"], "cubic")
        }
        fn shortened(&self, table: Node) -> Node {
            name_alone(table)
        }
    }
    /// Registry name.
    name: CodeName, eg "\"first\"";
    /// Parameters given; in a file they stand beside `name`.
    params: Params;
}

choices! {
    /// Which ECN codepoints are cleared.
    Bleach: tailback_core::scenario::Bleach::NAMES, "codepoint that can be bleached"
}

choices! {
    /// How a link carries frames.
    LinkLayer: tailback_core::framing::LinkLayer::NAMES, "link layer"
}

/// Bytes that a link adds to each packet.
pub type Overhead = Signed<{ Framing::OVERHEAD.0 }, { Framing::OVERHEAD.1 }>;
/// Least bytes that a link counts for a packet.
pub type Mpu = Whole<0, { Framing::LARGEST_MPU as u64 }>;

choices! {
    /// How netem's delays are distributed.
    Distribution: tailback_core::scenario::Distribution::NAMES, "distribution of netem's"
}

part! {
    /// [Jitter as netem has it](links/wires.md#jitter-that-reorders): each packet's delay is drawn by itself, so packets overtake. A time alone is the jitter.
    NetemJitter {
        fn spelt_out(node: &Node) -> Result<Node, Fault> {
            match &node.value {
                Value::Table(_) => Ok(node.clone()),
                Value::Text(_) => Ok(Node { value: Value::Table(vec![("jitter".into(), node.clone())]), ..node.clone() }),
                _ => Err(fault(
                    "this is neither a time nor a table",
                    "Write \"10ms\" or { jitter = \"10ms\", distribution = \"normal\" }",
                )),
            }
        }
        fn shortened(&self, table: Node) -> Node {
            match table.rows() {
                [(_, jitter)] if jitter.as_text().is_some() => jitter.clone(),
                _ => table,
            }
        }
    }
    /// How far delays deviate from the link's: at most this if uniform, this as standard deviation if normal.
    jitter: Positive<Span>, eg "\"10ms\"";
    /// `"uniform"`, `"normal"` or `"pareto"`.
    distribution: Distribution = Distribution("uniform".into());
    /// netem's correlation, which reaches the delays only where the jitter is near 2 s.
    correlation: Probability = Probability(0.0);
}

part! {
    /// What a link does to packets beyond delaying them. Everything is off by default.
    Wire
    /// Probability that a packet is lost.
    loss: Probability = Probability(0.0);
    /// One packet in N is lost, always as far apart; which is the first, the seed says.
    loss_every: Whole<0, { u32::MAX as u64 }> = Whole(0);
    /// Probability that a packet is damaged: it goes on, and the checksum of its receiver drops it ([table](columns.md#receiver_drops) `receiver_drops`).
    corrupt: Probability = Probability(0.0);
    /// Probability that a packet is delivered twice.
    duplicate: Probability = Probability(0.0);
    /// Probability that a packet is held back by `reorder_delay` and so overtaken.
    reorder: Probability = Probability(0.0);
    /// How long a held-back packet waits in addition.
    reorder_delay: Span = Span(0);
    /// It goes on sooner, once this many have overtaken it; 0: it waits that long.
    reorder_packets: Whole<0, { u32::MAX as u64 }> = Whole(0);
    /// Uniform extra delay from zero to this, order kept.
    jitter: Span = Span(0);
    /// Probability that a bit is wrong; a packet with a wrong bit is lost.
    bit_error: Probability = Probability(0.0);
    /// Losses in [bursts](links/wires.md) (Gilbert, Elliott): probability a packet that a burst starts,
    burst_start: Probability = Probability(0.0);
    /// that it ends,
    burst_end: Probability = Probability(0.0);
    /// that a packet in it is lost,
    burst_loss: Probability = Probability(0.0);
    /// and that one outside is.
    gap_loss: Probability = Probability(0.0);
    /// [ECN codepoints](links/wires.md#ecn-bleaching) that become Not-ECT: `"ce"`, `"ect1"` or `"all"`,
    bleach: Option<Bleach>, or "none";
    /// before the queue, which then drops where it would mark; else behind it.
    bleach_before_queue: bool = false;
    /// In place of `jitter` and `reorder`: delays drawn packet by packet, as netem does, so that packets overtake.
    netem_jitter: Option<NetemJitter>, or "none";
    /// TCP acknowledgements are [held up to this](links/wires.md#acknowledgements) after the first and leave together.
    ack_hold: Span = Span(0);
    /// Of this many acknowledgements of a connection only the last goes on, at once; fewer wait `ack_hold`.
    ack_every: Option<Whole<2, 10_000>>, or "all of them";
}

part! {
    /// A [policer](links/policer.md): a token bucket in front of the queue that drops what exceeds it and holds nothing.
    Policer {
        fn spelt_out(node: &Node) -> Result<Node, Fault> {
            match &node.value {
                Value::Table(_) => Ok(node.clone()),
                _ => Err(fault("a policer has a rate and a burst", "Write { rate = \"8mbit\", burst = \"100kB\" }")),
            }
        }
    }
    /// Rate at which the bucket fills, per second.
    rate: Positive<Rate>, eg "\"8mbit\"";
    /// Bytes it holds, at least the largest packet: what may pass at once after a pause.
    burst: Positive<Bytes>, eg "\"100kB\"";
}

part! {
    /// How a link transmits, by the name of a medium (`tailback list links`), with its parameters. A text is the name.
    Medium {
        fn spelt_out(node: &Node) -> Result<Node, Fault> {
            by_name(node, &["name", "channel", "flow"], "wifi")
        }
        fn shortened(&self, table: Node) -> Node {
            name_alone(table)
        }
    }
    /// Registry name.
    name: Name, eg "\"first\"";
    /// Of a medium that stations contend for: links of one channel share it.
    channel: Option<Name>, or "the link and its way back";
    /// Of a tunnel: the flow, of application "tunnel", whose connection carries its packets.
    flow: Option<Name>;
    /// Parameters given; in a file they stand beside `name`.
    params: Params;
}

part! {
    /// A change of a link at an instant; what is not given stays.
    Step
    /// Time of the change.
    at: Span, eg "\"10s\"";
    /// Rate from then on; zero is an outage.
    rate: Option<Rate>, or "as before";
    /// Propagation delay of what leaves from then on.
    delay: Option<Span>, or "as before";
    /// Share of what leaves from then on that is lost.
    loss: Option<Probability>, or "as before";
}

/// A link's changes over time: the name of a CSV file, or the steps.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// A file.
    File(String),
    /// The steps.
    Steps(Vec<Step>),
}

impl Kind for Schedule {
    const SHAPE: Shape =
        Shape { kind: "schedule", part: "Step", is_list: false, is_optional: false, range: None };
    fn read(node: &Node, reader: &mut Reader) -> Option<Self> {
        match &node.value {
            Value::Text(_) => Text::read(node, reader).map(|text| Schedule::File(text.0)),
            Value::List(_) => Vec::read(node, reader).map(Schedule::Steps),
            _ => {
                let fix =
                    "Write a list of steps, [{ at = \"10s\", rate = \"2mbit\" }], or the name of a CSV file";
                reader.refuse(Some(node), fault("this is not a schedule", fix));
                None
            }
        }
    }
    fn write(&self, form: Form) -> Node {
        match self {
            Schedule::File(name) => name.as_str().into(),
            Schedule::Steps(steps) => steps.write(form),
        }
    }
    fn absent() -> Option<Self> {
        Some(Schedule::Steps(Vec::new()))
    }
}

part! {
    /// A network of the papers by name, with options. See `tailback.presets`.
    Preset {
        fn spelt_out(node: &Node) -> Result<Node, Fault> {
            by_name(node, &["preset"], "adsl1")
        }
        fn shortened(&self, table: Node) -> Node {
            flattened(table)
        }
    }
    /// Name of the preset.
    preset: Name, eg "\"adsl1\"";
    /// Options given; in a file they stand beside `preset`.
    params: Params;
}

part! {
    /// The usual shorthand: every flow crosses one bottleneck, from `left` to `right`.
    /// Becomes two links, `bottleneck` (left to right) and `return` (right to left).
    Dumbbell {
        fn check(&self) -> Result<(), Fault> {
            if self.rtt.is_none() == self.delay.is_none() {
                let problem = if self.rtt.is_none() { "rtt is missing" } else { "rtt and delay exclude each other" };
                return Err(fault(problem, "Give either rtt = \"80ms\" or delay = \"40ms\" (one way)"));
            }
            if self.rtt.is_some() && self.back_delay.is_some() {
                return Err(fault("rtt and back_delay exclude each other", "Give delay and back_delay instead of rtt"));
            }
            let [there, back] = self.delays();
            if there + back == 0 {
                return Err(fault("the round trip must take some time", "Give for example rtt = \"80ms\""));
            }
            Ok(())
        }
    }
    /// Rate of the bottleneck, per second.
    rate: Positive<Rate>, eg "\"10mbit\"";
    /// Round-trip propagation delay, half of it in each direction.
    rtt: Option<Positive<Span>>, or "this or `delay`";
    /// Instead of `rtt`: propagation delay left to right,
    delay: Option<Span>;
    /// and right to left.
    back_delay: Option<Span>, or "as `delay`";
    /// Queue in front of the bottleneck, see [Queues](#queues); 1 BDP is `rate` × RTT.
    queue: Queue = Queue {
        discipline: CodeName("fifo".into()),
        limit: Some(Size { amount: 1, digits: 0, counts: Counts::Bdp, in_packets: false }),
        inner: None,
        bands: Vec::new(),
        params: Params::default(),
    };
    /// Rate right to left.
    back_rate: Option<Positive<Rate>>, or "as `rate`";
    /// Queue right to left; multiples of the BDP count for `back_rate`.
    back_queue: Option<Queue>, or "as `queue`";
    /// How the bottleneck transmits, see [media](links/index.md); `rate` then only says what queue sizes count.
    medium: Option<Medium>, or "bit by bit at `rate`";
    /// The same right to left. A medium that stations share is one for both ways, unless each names a `channel`.
    back_medium: Option<Medium>, or "bit by bit at `back_rate`";
    /// Departures happen on a timer of this frequency (dummynet under `kern.hz`).
    tick_hz: Option<Whole<1, { u32::MAX as u64 }>>, or "exactly when due";
    /// [Framing](#framing), both ways: bytes added to each packet while it is sent, may be negative,
    overhead: Overhead = Signed(0);
    /// the least that a packet counts with them,
    mpu: Mpu = Whole(0);
    /// and how frames are carried: `"ethernet"` as they are, `"atm"` in cells, `"ptm"` 65 bytes for each 64.
    linklayer: LinkLayer = LinkLayer("ethernet".into());
    /// A policer in front of the queue left to right, see [Policers](#policers).
    policer: Option<Policer>, or "none";
    /// Random impairments left to right, see [Wires](#wires),
    wire: Wire = Wire::perfect();
    /// and right to left.
    back_wire: Wire = Wire::perfect();
    /// Later [changes](links/changing.md) of rate and delay, left to right, or a [CSV file](links/changing.md#a-csv-file) of them.
    schedule: Schedule;
}

part! {
    /// A link in one direction: queue, serialiser, propagation delay.
    Link {
        fn check(&self) -> Result<(), Fault> {
            if self.from == self.to {
                return Err(fault("the link leads back to where it starts", "Give two different nodes"));
            }
            let is_from_file = matches!(self.schedule, Schedule::File(_));
            let is_fast = self.rate.is_none() && self.medium.is_none() && self.trace.is_none() && !is_from_file;
            if is_fast && (self.queue.is_some() || self.tick_hz.is_some()) {
                return Err(fault("a link without rate never queues", "Give it a rate, or remove queue and tick_hz"));
            }
            Ok(())
        }
    }
    /// Unique name.
    name: Name, eg "\"first\"";
    /// Node it leaves,
    from as "from_": Name, eg "\"a\"";
    /// and node it reaches.
    to: Name, eg "\"b\"";
    /// Rate per second; without one the link has no queue.
    rate: Option<Positive<Rate>>, or "infinitely fast";
    /// Propagation delay.
    delay: Span = Span(0);
    /// Queue, see [Queues](#queues); 1 BDP is `rate` × the longest base RTT of the flows that cross it.
    queue: Option<Queue>, or "a FIFO without limit";
    /// As in the dumbbell.
    tick_hz: Option<Whole<1, { u32::MAX as u64 }>>, or "exactly when due";
    /// [Framing](#framing): bytes added to each packet while it is sent, may be negative,
    overhead: Overhead = Signed(0);
    /// the least that a packet counts with them,
    mpu: Mpu = Whole(0);
    /// and how frames are carried: `"ethernet"`, `"atm"` or `"ptm"`.
    linklayer: LinkLayer = LinkLayer("ethernet".into());
    /// A policer in front of the queue, see [Policers](#policers); the link needs no rate for it.
    policer: Option<Policer>, or "none";
    /// Random impairments, see [Wires](#wires).
    wire: Wire = Wire::perfect();
    /// Instead of a rate: how the link transmits, see [media](links/index.md).
    medium: Option<Medium>, or "bit by bit at `rate`";
    /// Later [changes](links/changing.md) of rate and delay, in order of time, or a [CSV file](links/changing.md#a-csv-file) of them, which may also give the rate.
    schedule: Schedule;
    /// Instead of a rate: a [mahimahi trace](links/changing.md#a-trace), its file (in the scenario's folder or below, at most 16 MiB) or its instants in milliseconds.
    trace: Option<Trace>;
    /// Also make the same link in the other direction, called `<name>.back`.
    duplex: bool = false;
}

part! {
    /// A further time during which a flow is on.
    Period
    /// Start of the period.
    start: Span;
    /// End of the period.
    stop: Option<Span>, or "the end of the run";
}

part! {
    /// One application talking from one node to another.
    Flow {
        fn check(&self) -> Result<(), Fault> {
            match self.stop {
                Some(stop) if stop <= self.start => Err(fault(
                    format!("it stops at {stop}, before it starts at {}", self.start),
                    "Let stop come after start",
                )),
                _ => Ok(()),
            }
        }
    }
    /// Unique name.
    name: Option<Name>, or "the application's, numbered if several share it";
    /// This many flows alike, `NAME-1`, `NAME-2` and so on, as if each were listed here.
    count: Option<Whole<1, 10_000>>, or "one, called `NAME`";
    /// A second flow alike runs the other way, called `NAME.back`: both directions of a call.
    two_way: bool = false;
    /// What it does (`tailback list apps`).
    app: Name = Name("bulk".into());
    /// Sending node; `from = "right"` alone makes the flow run against the others,
    from as "from_": Option<Name>, or "dumbbell: `left`";
    /// receiving node.
    to: Option<Name>, or "dumbbell: the other side";
    /// Links there, in order.
    route: Option<Vec<Name>>, or "fewest hops, the link listed first on ties";
    /// Links back.
    back_route: Option<Vec<Name>>, or "likewise";
    /// Extra delay of this flow alone, in each direction, between its sender and the network: adds twice this to its RTT.
    access_delay: Span = Span(0);
    /// Later changes of `access_delay`, as if this flow's route changed: `[{ at = "10s", delay = "30ms" }]`. A step may also give
    /// a rate, zero for an outage, or a share of its packets that is lost.
    access_schedule: Vec<Step>;
    /// When it starts.
    start: Span = Span(0);
    /// When it stops.
    stop: Option<Span>, or "the end of the run";
    /// Further times during which it is on, in order: `[{ start = "10s", stop = "20s" }]`.
    again: Vec<Period>;
    /// Instead of TCP: another project's stack, `tailback list transports`, [QUIC stacks](quic.md), or
    /// [one of yours](tutorials/own-stack.md#in-c-or-python), `"c:stack.c"` or `"python:mine.py:Mine"`; `cc` is then one of its own.
    transport: Option<CodeName>, or "`\"tcp\"`";
    /// Over TCP: congestion control (`tailback algorithms`).
    cc: Option<Named>, or "`\"cubic\"`";
    /// Over TCP: further algorithms; the flow's connections use `cc` and these in turn.
    cc_turns: Vec<Named>;
    /// Over TCP: operating system whose TCP sends (and receives), `tailback list stacks`, [stacks](stacks.md).
    stack: Option<Named>, or "`\"linux\"`";
    /// Over TCP: operating system that receives.
    receiver_stack: Option<Name>, or "as `stack`";
    /// Over TCP: send buffer.
    send_buffer: Option<Positive<Bytes>>, or "the stack's";
    /// Over TCP: receive buffer.
    receive_buffer: Option<Positive<Bytes>>, or "the stack's";
    /// Over TCP: largest IP packet.
    mtu: Option<Mtu>, or "`\"1500B\"`";
    /// Version of IP that its two ends speak, 4 or 6; flows of both may share a path. With 6 the headers of each packet are 20
    /// bytes longer than with 4: a segment of the same `mtu` carries less, and a datagram is longer than `packet_size`.
    ip: Ip = Ip(IpVersion::V4);
    /// How much a bulk transfer carries.
    bytes: Option<Positive<Bytes>>, or "without end";
    /// Time between packets of an application that sends at intervals.
    interval: Option<Positive<Span>>, or "the application's";
    /// IP size of its packets.
    packet_size: Option<Positive<Bytes>>, or "the application's";
    /// Of `exec`, [live and in guests](live.md#real-programs): the command line run at `from`,
    client: Option<Text>;
    /// the one run at `to` before it,
    server: Option<Text>;
    /// and what the client's output is read as: "iperf3", "curl" or "regex".
    parse: Option<Text>;
    /// Any other parameter of the application.
    params: Params;
}

impl Flow {
    /// Whether its sender has a host of its own, at a distance from the network.
    pub fn has_access(&self) -> bool {
        self.access_delay.0 > 0 || !self.access_schedule.is_empty()
    }
}

part! {
    /// Deliberate randomness: it breaks phase locking between flows and gives seeds their meaning.
    Randomness
    /// Each flow starts later by a uniform time between zero and this.
    start_spread: Span = Span(0);
    /// Each packet a host sends is held for a uniform time between zero and this, order kept.
    processing_jitter: Span = Span(0);
    /// Each flow's path is longer by a uniform time between zero and this, drawn once. It averages over the phases in which
    /// flows clocked by ACKs meet at a full queue.
    access_spread: Span = Span(0);
}

part! {
    /// What to record besides the totals. Off costs nothing. Names, or "all".
    Instruments {
        fn check(&self) -> Result<(), Fault> {
            match self.until {
                Some(until) if until <= self.from => {
                    Err(fault("until must come after from", "Leave it out to record to the end"))
                }
                _ => Ok(()),
            }
        }
    }
    /// Table `segments`: TCP state of these flows at every segment, as siftr(4) does.
    segments: Names = Names::Of(Vec::new());
    /// Table `polls`: TCP state of these flows every `poll_interval`, as Web100 was used.
    polls: Names = Names::Of(Vec::new());
    /// Table `internals`: the algorithm's own quantities at every poll.
    internals: bool = false;
    /// Table `queue_polls`: backlog of these links at the same instants.
    queue_polls: Names = Names::Of(Vec::new());
    /// Time between polls.
    poll_interval: Positive<Span> = Positive(Span(1_000_000_000));
    /// Table `queue`: every enqueue, dequeue, drop and mark at these links.
    queues: Names = Names::Of(Vec::new());
    /// Table `queue`: drops and marks only.
    drops: Names = Names::Of(Vec::new());
    /// Table `packets`: when each packet of these flows was sent and received.
    packets: Names = Names::Of(Vec::new());
    /// Table `requests`: every web session, fetch, transfer or request of these flows, its size and response time.
    requests: Names = Names::Of(Vec::new());
    /// Table `echoes`: every echo request of these flows (`ping`) and its round trip.
    echoes: Names = Names::Of(Vec::new());
    /// Rows the run may record at most, all tables together. Numbers of rows have 32 bits in the engine. A kernel's run is
    /// held to it by what is expected of it beforehand.
    most_rows: Option<Whole<1, { u32::MAX as u64 - 1 }>>, or "20 million";
    /// Memory that packets in queues and on links, and connections, may take, about; beyond it the run is an error. Rows
    /// have `most_rows`.
    most_memory: Option<Positive<Bytes>>, or "`\"8GB\"`";
    /// Tables `wire`, `headers`, `header_sacks`, `connections`: the headers of every packet at these [points](captures.md): nodes, links (both sides), or one side of a link, `NAME.in` or `NAME.out`.
    captures: Names = Names::Of(Vec::new());
    /// Start of the recording.
    from as "from_": Span = Span(0);
    /// End of the recording.
    until: Option<Span>, or "the end of the run";
}

part! {
    /// One experiment. Either a `dumbbell` or `links` describes the path; `flows` say who uses it.
    Scenario {
        fn shortened(&self, table: Node) -> Node {
            // Always written, so that a stored run shows it.
            let seed = crate::table! { "seed" => self.seed.0 };
            let (name, rest): (Vec<_>, Vec<_>) = table.rows().iter().cloned().partition(|(key, _)| key == "name");
            let rest: Vec<_> = rest.into_iter().filter(|(key, _)| key != "seed").collect();
            Node::from(name).with(seed).with(rest.into())
        }
    }
    /// A name for people, one line.
    name: Text = Text::default();
    /// Seed of every random stream.
    seed: Whole<0, { u64::MAX }> = Whole(1);
    /// Simulated time.
    duration: Positive<Span>, eg "\"60s\"";
    /// A network of the papers, ready made, see [presets](links/index.md#the-papers-networks); or
    path: Option<Preset>;
    /// the shorthand for one bottleneck; or
    dumbbell: Option<Dumbbell>;
    /// Node names, if a misspelt node in a link should be an error.
    nodes: Vec<Name>, or "from the links";
    /// the links of a general network.
    link as "links": Vec<Link>;
    /// Who uses the path: at least one.
    flow as "flows": Vec<Flow>;
    /// Deliberate randomness.
    randomness: Randomness = Randomness { start_spread: Span(0), processing_jitter: Span(0), access_spread: Span(0) };
    /// What is recorded besides the totals.
    instruments: Instruments = Instruments::off();
    /// What must hold when `tailback test` runs it.
    expect: Option<Expect>, or "nothing";
}

impl Wire {
    /// A wire that only delays.
    pub fn perfect() -> Self {
        read_empty()
    }
}

impl Instruments {
    /// Instruments that record only totals.
    pub fn off() -> Self {
        read_empty()
    }
}

/// A part with nothing set.
fn read_empty<T: Part>() -> T {
    T::read(&crate::table! {}, &mut Reader::default()).expect("every field has a default")
}

impl Dumbbell {
    /// Propagation delay in picoseconds, forward and reverse.
    pub fn delays(&self) -> [u64; 2] {
        if let Some(rtt) = self.rtt {
            // An odd picosecond goes to the reverse direction.
            return [rtt.0.0 / 2, rtt.0.0 - rtt.0.0 / 2];
        }
        let there = self.delay.unwrap_or_default().0;
        [there, self.back_delay.map_or(there, |delay| delay.0)]
    }
}

/// Applies a macro to the part of a name.
macro_rules! parts {
    ($($Part:ident),+ $(,)?) => {
        /// Every part, in the order of the documentation.
        pub fn declared() -> Vec<Declared> {
            vec![$($Part::declared()),+]
        }

        /// Reads the part of this name and writes it in full or short form, or returns all errors.
        pub fn read_part(name: &str, node: &Node, form: Form) -> Result<Node, Vec<crate::problem::Problem>> {
            match name {
                $(stringify!($Part) => part::read::<$Part>(node, "").map(|part| part.write(form)),)+
                _ => panic!("there is no part called {name}"),
            }
        }
    };
}
parts! { Scenario, Dumbbell, Link, Queue, Band, Policer, Wire, NetemJitter, Medium, Step, Preset, Flow, Named, Period, Randomness, Instruments, Expect, Condition }
