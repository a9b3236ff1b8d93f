//! The fields of a stack, one row each: meaning, type, form in scenarios, and the fast paths ("lanes") that a value
//! rules out.
//!
//! The table generates the struct, the struct of sources, the texts for display, and the parser of `stack_params`.

use std::fmt::Display;

use super::choices::{
    AckOnPush, Detection, EcnMode, Frto, FrtoResponse, GrowthGate, IdleRestart, Pipe, PrrBound, Reduction,
    Undo,
};
use super::forms::{Credit, Ecn, Form, OneOf, OneOfOrFalse, Or, OrOff, SPAN, Span, Switch, TIMEOUT, Whole};
use super::lanes::{Lanes, free};
use crate::cc::Counting;
use crate::scenario::{ScenarioError, Value};
use crate::tcp::metrics::MetricsCache;
use crate::tcp::rtt::RtoRule;
use crate::time::{Bytes, Duration};

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $Type:ty, $form:expr, $lanes:expr;)+) => {
        /// An operating system's TCP.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Stack {
            $($(#[$doc])* pub $name: $Type,)+
            /// Phase of the host's ticks relative to simulated time. Not a field: each host draws its own.
            pub tick_phase: Duration,
            /// Bytes of the IP header of its segments. Not a field: it depends on the flow.
            pub ip_header: u32,
        }

        /// Where the value of each field comes from.
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "the fields of `Stack`")]
        pub struct Sources {
            $(pub $name: &'static str,)+
        }

        impl Stack {
            /// Every field with its value as text, in the order of the struct.
            pub fn fields(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($name), $form.text(&self.$name)),)+]
            }

            /// Unit of a field's plain number in a scenario; empty for switches, for names and for unknown fields.
            pub fn unit(name: &str) -> &'static str {
                match name {
                    $(stringify!($name) => Form::<$Type>::unit(&$form),)+
                    _ => "",
                }
            }

            /// The lanes that no field rules out. An end calls this once, when it is created.
            pub fn lanes(&self) -> Lanes {
                let mut lanes = Lanes::ALL;
                $({
                    let of: fn(&$Type) -> Lanes = $lanes;
                    lanes = lanes.and(of(&self.$name));
                })+
                lanes
            }

            /// Set one field from a scenario; a number is in the field's unit.
            pub fn set(&mut self, name: &str, value: &Value, field: impl Display) -> Result<(), ScenarioError> {
                let done = match name {
                    $(stringify!($name) => $form.read(value).map(|it| self.$name = it),)+
                    _ => {
                        let names = [$(stringify!($name)),+].join(", ");
                        Err(("a stack has no such field", format!("The fields are: {names}.")))
                    }
                };
                done.map_err(|(problem, fix)| ScenarioError {
                    field: field.to_string(),
                    value: value.to_string(),
                    problem: problem.into(),
                    fix,
                })
            }
        }

        impl Sources {
            /// Every field with its source, in the order of the struct.
            pub fn fields(&self) -> Vec<(&'static str, &'static str)> {
                vec![$((stringify!($name), self.$name),)+]
            }
        }
    };
}

fields! {
    /// Initial window in segments.
    initial_window: u32, Whole(1, 1000, "segments"), free;
    /// Selective acknowledgements.
    sack: bool, Switch, |sack| Lanes::plain_acks(*sack);
    /// Report duplicates by SACK (RFC 2883).
    dsack: bool, Switch, free;
    /// Timestamps option (RFC 7323).
    timestamps: bool, Switch, free;
    /// Window scaling (RFC 7323).
    window_scaling: bool, Switch, free;
    /// How ACKs count for window growth.
    counting: Counting, Credit, free;
    /// Slow start while cwnd ≤ ssthresh (else while cwnd < ssthresh).
    slow_start_at_equality: bool, Switch, free;
    /// Where reordering is known to be high (more than `duplicate_threshold`), what SACKs deliver raises the window as
    /// well (Linux `tcp_may_raise_cwnd`).
    grow_on_sacks: bool, Switch, free;
    /// How losses are found.
    detection: Detection, OneOf, |it| Lanes::plain_acks(*it == Detection::Rack);
    /// Retransmit what is not yet lost when nothing else may be sent (RFC 6675 NextSeg rules 3 and 4).
    rescue: bool, Switch, free;
    /// How the window falls.
    reduction: Reduction, OneOf, free;
    /// How much recovery counts as in flight.
    pipe: Pipe, OneOf, free;
    /// How fast PRR may send below ssthresh.
    prr_bound: PrrBound, OneOf, free;
    /// Duplicate ACKs, or segments of reordering, that indicate a loss.
    duplicate_threshold: u32, Whole(1, 300, "segments"), free;
    /// How far reordering may raise that number (Linux adaptive reordering degree); `None`: it stays.
    reordering_limit: Option<u32>, Or("none", Whole(1, 1000, "segments")), free;
    /// A new segment for each of the first two duplicate ACKs (RFC 3042).
    limited_transmit: bool, Switch, free;
    /// In recovery only the first partial ACK restarts the retransmission timer (RFC 6582 section 4).
    impatient: bool, Switch, free;
    /// Tail loss probe (RFC 8985 section 7).
    tail_loss_probe: bool, Switch, free;
    /// Which evidence undoes a reduction.
    undo: Undo, OneOfOrFalse, free;
    /// F-RTO: how a spurious timeout is recognised.
    frto: Frto, OneOfOrFalse, free;
    /// Response of F-RTO to a spurious timeout.
    frto_response: FrtoResponse, OneOf, free;
    /// The last segment, with the FIN, ignores the congestion window (Linux `tcp_cwnd_test` until 6.x).
    fin_ignores_window: bool, Switch, free;
    /// When the window may grow.
    growth_gate: GrowthGate, OneOf, free;
    /// Reduces the window halfway to the used part after an RTO without an ACK that lets it grow (RFC 2861). It never
    /// acts while ACKs for data arrive; `idle_restart` covers longer silence.
    window_validation: bool, Switch, free;
    /// After a disturbance: cwnd at most in flight + this many segments.
    max_burst: Option<u32>, Or("none", Whole(1, 1_000_000, "segments")), free;
    /// Algorithms that do not pace themselves are paced at 200 % of cwnd/srtt in slow start, 120 % after (Linux with
    /// the fq queue or SO_MAX_PACING_RATE).
    pacing: bool, Switch, free;
    /// Segments per burst of new data; a burst may leave earlier if a third of the window is free (Linux TSO deferral).
    burst_segments: u32, Whole(1, 64, "segments"), free;
    /// Limits bursts to a millisecond at the pacing rate, but at least two segments (Linux TSO autosizing);
    /// `burst_segments` is then the maximum.
    burst_autosize: bool, Switch, free;
    /// Bytes of this sender in the queue of the first link on its route at which it pauses (Linux TCP small queues). A
    /// millisecond of its pacing rate counts instead if that is less. `None`: no limit.
    small_queue: Option<Bytes>, Or("none", Whole(1, 1_000_000_000_000, "B")), free;
    /// Effect of an idle time longer than the retransmission timeout.
    idle_restart: IdleRestart, OneOfOrFalse, free;
    /// Window after such an idle time, in segments.
    restart_window: u32, Whole(1, 1000, "segments"), free;
    /// Algorithm that turns RTT samples into a timeout.
    rto_rule: RtoRule, OneOf, free;
    /// Timeout before the first sample.
    rto_initial: Duration, TIMEOUT, free;
    /// Lower bound; which quantity it bounds depends on `rto_rule`.
    rto_minimum: Duration, SPAN, free;
    /// Upper bound on the timeout.
    rto_maximum: Duration, TIMEOUT, free;
    /// Minimum wait before a window probe.
    persist_minimum: Duration, SPAN, free;
    /// Maximum wait between window probes.
    persist_maximum: Duration, TIMEOUT, free;
    /// Granularity of RTT samples; zero: exact.
    clock_tick: Duration, SPAN, |tick| Lanes::plain_acks(tick.is_zero());
    /// Granularity of the timestamps option's clock (RFC 7323 section 4.1); zero: exact.
    timestamp_tick: Duration, SPAN, free;
    /// PAWS: how many ticks a segment's timestamp may be older than the one to echo. An older segment is refused,
    /// because its sequence number may have wrapped (RFC 7323 section 5).
    paws: Option<u32>, Or("off", Whole(0, 1000, "ticks")), free;
    /// Timers expire on multiples of this (Linux jiffies); zero: when they are due.
    timer_tick: Duration, Span(0.0, 1000.0), free;
    /// Delayed-ACK timer; `None`: every segment is acknowledged at once.
    delayed_ack: Option<Duration>, OrOff(SPAN), |timer| Lanes::trains(timer.is_some());
    /// The delayed-ACK timer runs on a grid instead of from the segment's arrival.
    delayed_ack_tick: bool, Switch, |is_on_grid| Lanes::trains(!is_on_grid);
    /// Maximum delay of a delayed ACK that adapts to the gaps between segments (Linux `ato`); `delayed_ack` is then the
    /// minimum. In this mode each ACK sent uses up a quick ACK, none leaves at once in pingpong mode, and a gap longer
    /// than the retransmission timeout adds more. Off: the delay is constant.
    delayed_ack_limit: Option<Duration>, OrOff(SPAN), free;
    /// Upper bound on that adaptive delay; `None`: the retransmission timeout.
    delayed_ack_bound: Option<Duration>, Or("the RTO", SPAN), free;
    /// The window closes when less than 1/N of the receive buffer is free; otherwise every free byte counts (Linux
    /// `__tcp_select_window`). 0: the right edge moves by at least a segment or half the buffer.
    window_parts: u32, Whole(0, 1000, "parts"), free;
    /// Pure ACKs from before the window, such as window probes, are answered at most once in this time; off: every one
    /// is answered.
    probe_answers: Option<Duration>, OrOff(SPAN), free;
    /// Segments that the receiving host merges into one before its TCP decides about an ACK (GRO); 1: none. A short or
    /// pushed segment ends an aggregate.
    gro_segments: u32, Whole(1, 1000, "segments"), |segments| Lanes::trains(*segments <= 1);
    /// How long an ACK that is due waits for the rest of such an aggregate.
    gro_wait: Duration, SPAN, free;
    /// Number of full segments that forces an ACK.
    ack_every: u32, Whole(1, 1000, "segments"), free;
    /// ACK division by a misbehaving receiver: the number of ACKs for each full segment (Savage et al. 1999); 1:
    /// normal.
    ack_division: u32, Whole(1, 100, "ACKs"), |acks| Lanes::honest(*acks == 1);
    /// Optimistic ACKs by a misbehaving receiver: segments beyond the received data that an extra ACK claims (Savage et
    /// al. 1999). Missing data before that counts as received; 0: normal.
    acks_ahead: u32, Whole(0, 1_000_000, "segments"), |segments| Lanes::honest(*segments == 0);
    /// Which segments are acknowledged at once when the reader has emptied the buffer.
    ack_on_push: AckOnPush, OneOfOrFalse, free;
    /// Delays the ACK of a FIN like that of data, so that it can travel with this end's own FIN.
    fin_ack_delayed: bool, Switch, free;
    /// Segments acknowledged at once at the start (quick-ACK mode).
    quick_acks: u32, Whole(0, 1_000_000, "segments"), free;
    /// Quick-ACK mode again after every out-of-order segment.
    quick_acks_after_gap: bool, Switch, free;
    /// Initial offered window, which grows by two segments for each one received and acknowledged at once; `None`: the
    /// whole buffer from the start.
    initial_receive_window: Option<Bytes>, Or("all", Whole(1, 1_000_000_000_000, "B")), free;
    /// Out-of-order data also lets the offered window grow, if SACK distinguishes such ACKs from others.
    window_grows_over_gaps: bool, Switch, free;
    /// Initial receive buffer, which grows as data is read; `None`: `receive_buffer` from the start.
    initial_receive_buffer: Option<Bytes>, Or("all", Whole(1, 1_000_000_000_000, "B")), free;
    /// A growing buffer stays ahead of the reader: by sixteen segments, plus twice the relative increase of the amount
    /// read per round trip.
    buffer_grows_ahead: bool, Switch, free;
    /// Segments that wait to be read become one piece (Linux `tcp_try_coalesce`), so that what a filled gap releases
    /// counts at once towards the growth of the buffer. Off: only the first of them counts, and the others in the next
    /// round trip, as where packets come from a TUN device, whose memory cannot be joined.
    segments_join: bool, Switch, free;
    /// RTT below which such a buffer grows in proportion to the RTT, by the rule of Linux since 6.18; off: the older
    /// rule.
    buffer_low_rtt: Option<Duration>, OrOff(SPAN), free;
    /// Maximum time to hold back duplicate ACKs after the third; `sack_compression_share` limits it as well. `None`:
    /// never.
    sack_compression: Option<Duration>, OrOff(SPAN), free;
    /// Share of the RTT for which duplicate ACKs may be held back.
    sack_compression_share: u32, Whole(0, 100, "%"), free;
    /// Timer slack of SACK compression: how late its timer may fire.
    sack_compression_slack: Duration, SPAN, free;
    /// Kind of ECN.
    ecn: EcnMode, Ecn, |it| Lanes::plain_acks(*it == EcnMode::Off).and(Lanes::trains(*it == EcnMode::Off));
    /// Echo each change of the CE mark instead of latching it until CWR (RFC 8257 section 3.2).
    accurate_echo: bool, Switch, free;
    /// Echo no mark at all (RFC 3540 section 1).
    conceals_marks: bool, Switch, free;
    /// Accurate ECN feedback: each ACK counts the packets that arrived marked, modulo eight (RFC 9768).
    accecn: bool, Switch, free;
    /// AccECN sends an ACK at once at each change between marked and unmarked packets, and otherwise follows the
    /// delayed-ACK rules. Off: at once at the first and at every second mark (RFC 9768 section 3.2.2.5.1).
    accecn_on_change: bool, Switch, free;
    /// Metrics that a connection leaves for the next one to the same host.
    metrics_cache: MetricsCache, OneOfOrFalse, free;
    /// Maximum segments in the reassembly queue.
    reassembly_limit: Option<u32>, Or("none", Whole(1, 1_000_000_000, "segments")), free;
    /// Bookkeeping bytes in the send buffer for each burst in flight and each unsent unit, beside the payload; 0: only
    /// payload counts.
    send_bookkeeping: Bytes, Whole(0, 1_000_000, "B"), free;
    /// The send buffer starts at the size of twenty segments and grows with the congestion window up to `send_buffer`
    /// (Linux `tcp_sndbuf_expand`). A size that the flow sets does not grow.
    send_buffer_grows: bool, Switch, free;
    /// Room for headers before each segment, which determines the size of a growing send buffer and of a unit (Linux
    /// `MAX_TCP_HEADER`).
    header_room: Bytes, Whole(0, 4_096, "B"), free;
    /// The unit at the head of the send queue takes what a burst still lacks from the next one (Linux `tcp_grow_skb`, since
    /// 6.10), so that only what is written limits a burst. Off: a burst ends with its unit.
    units_refill: bool, Switch, free;
    /// Send buffer unless the scenario sets one.
    send_buffer: Bytes, Whole(1, 1_000_000_000_000, "B"), free;
    /// Receive buffer unless the scenario sets one.
    receive_buffer: Bytes, Whole(1, 1_000_000_000_000, "B"), free;
    /// Percentage of the receive buffer that is offered as window.
    window_share: u32, Whole(1, 100, "%"), free;
}
