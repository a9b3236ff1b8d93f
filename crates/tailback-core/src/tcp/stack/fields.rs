//! The fields of a stack, each once: what it says, its type, how a scenario writes it, and which lanes a value forbids.
//!
//! From the table come the struct, the struct of sources, the texts that people read, and the parser of `stack_params`.

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
            /// How far the host's ticks began before the run: no field, but each host's own.
            pub tick_phase: Duration,
            /// Bytes of the IP header in front of its segments: no field, but each flow's own.
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

            /// The unit of a field's plain number in a scenario; empty for switches, names and what is no field.
            pub fn unit(name: &str) -> &'static str {
                match name {
                    $(stringify!($name) => Form::<$Type>::unit(&$form),)+
                    _ => "",
                }
            }

            /// The lanes that all fields leave open. An end asks once, when it is made, and keeps the answer.
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
    /// What recovery takes for in flight.
    pipe: Pipe, OneOf, free;
    /// How fast PRR may send below ssthresh.
    prr_bound: PrrBound, OneOf, free;
    /// Duplicate ACKs, or segments of reordering, tolerated.
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
    /// What F-RTO does then.
    frto_response: FrtoResponse, OneOf, free;
    /// The last segment, with the FIN, leaves whatever the congestion window says (Linux `tcp_cwnd_test` until 6.x).
    fin_ignores_window: bool, Switch, free;
    /// When the window may grow.
    growth_gate: GrowthGate, OneOf, free;
    /// Bring the window halfway to what is used after a timeout without an ACK that lets it grow (RFC 2861).
    /// While data is acknowledged it never acts; what is silent for longer is `idle_restart`.
    window_validation: bool, Switch, free;
    /// After a disturbance: cwnd at most in flight + this many segments.
    max_burst: Option<u32>, Or("none", Whole(1, 1_000_000, "segments")), free;
    /// Algorithms that do not pace themselves are paced at 200 % of cwnd/srtt in slow start, 120 % after (Linux with
    /// the fq queue or SO_MAX_PACING_RATE).
    pacing: bool, Switch, free;
    /// New data leaves in bursts of this many segments, or as a third of the window is free (Linux TSO deferral).
    burst_segments: u32, Whole(1, 64, "segments"), free;
    /// Bursts are no longer than a millisecond of the pacing rate, but two segments (Linux TSO autosizing);
    /// `burst_segments` then is the most.
    burst_autosize: bool, Switch, free;
    /// The sender stops while this much waits in the queue of the first link on its route (Linux TCP small queues). A
    /// millisecond of its pacing rate counts instead if that is less. `None`: no limit.
    small_queue: Option<Bytes>, Or("none", Whole(1, 1_000_000_000_000, "B")), free;
    /// What an idle time longer than the retransmission timeout does.
    idle_restart: IdleRestart, OneOfOrFalse, free;
    /// Window after such an idle time, in segments.
    restart_window: u32, Whole(1, 1000, "segments"), free;
    /// Algorithm that turns RTT samples into a timeout.
    rto_rule: RtoRule, OneOf, free;
    /// Timeout before the first sample.
    rto_initial: Duration, TIMEOUT, free;
    /// Lower bound (what it bounds depends on the rule).
    rto_minimum: Duration, SPAN, free;
    /// Upper bound.
    rto_maximum: Duration, TIMEOUT, free;
    /// Least wait before a closed window is probed.
    persist_minimum: Duration, SPAN, free;
    /// Longest wait between probes of a closed window.
    persist_maximum: Duration, TIMEOUT, free;
    /// Granularity of RTT samples; zero: exact.
    clock_tick: Duration, SPAN, |tick| Lanes::plain_acks(tick.is_zero());
    /// Granularity of the timestamps option's clock (RFC 7323 section 4.1); zero: exact.
    timestamp_tick: Duration, SPAN, free;
    /// Ticks that a segment's timestamp may lie before the one to echo. With an older one the segment is refused: it may be
    /// of an earlier round of sequence numbers (PAWS, RFC 7323 section 5).
    paws: Option<u32>, Or("off", Whole(0, 1000, "ticks")), free;
    /// Timers expire on multiples of this (Linux jiffies); zero: when they are due.
    timer_tick: Duration, Span(0.0, 1000.0), free;
    /// Delayed-ACK timer; `None`: every segment is acknowledged at once.
    delayed_ack: Option<Duration>, OrOff(SPAN), |timer| Lanes::trains(timer.is_some());
    /// The delayed-ACK timer runs on a grid instead of from the segment's arrival.
    delayed_ack_tick: bool, Switch, |is_on_grid| Lanes::trains(!is_on_grid);
    /// Most that a delayed ACK waits where its time follows the gaps between segments (Linux `ato`), `delayed_ack` being the
    /// least. Then each ACK sent uses up a quick one, none leaves at once while this end answers, and a gap longer than the
    /// retransmission timeout brings more. Off: the time is constant.
    delayed_ack_limit: Option<Duration>, OrOff(SPAN), free;
    /// Most that this adaptive time itself becomes; `None`: the retransmission timeout.
    delayed_ack_bound: Option<Duration>, Or("the RTO", SPAN), free;
    /// With less than one part in N of the receive buffer free the window is closed. Once it is open every part counts
    /// (Linux `__tcp_select_window`). 0: its edge moves by a segment or half the buffer, or not at all.
    window_parts: u32, Whole(0, 1000, "parts"), free;
    /// Pure ACKs from before the window, such as window probes, are answered once in this time; off: each of them.
    probe_answers: Option<Duration>, OrOff(SPAN), free;
    /// Segments that the receiving host joins into one before its TCP decides about an ACK (GRO); 1: none. Short and pushed
    /// ones end an aggregate.
    gro_segments: u32, Whole(1, 1000, "segments"), |segments| Lanes::trains(*segments <= 1);
    /// How long an ACK that is due waits for the rest of such an aggregate.
    gro_wait: Duration, SPAN, free;
    /// Full segments that force an acknowledgement.
    ack_every: u32, Whole(1, 1000, "segments"), free;
    /// Acknowledgements into which a receiver that lies divides each full segment's (Savage et al. 1999); 1: it does not.
    ack_division: u32, Whole(1, 100, "ACKs"), |acks| Lanes::honest(*acks == 1);
    /// Segments that a second acknowledgement claims beyond what has arrived; what is missing before that counts as
    /// arrived (optimistic ACKs, Savage et al. 1999); 0: the receiver is honest.
    acks_ahead: u32, Whole(0, 1_000_000, "segments"), |segments| Lanes::honest(*segments == 0);
    /// What makes the reader, who has emptied the buffer, acknowledge at once.
    ack_on_push: AckOnPush, OneOfOrFalse, free;
    /// A FIN is acknowledged as late as data, so that the acknowledgement may ride on this end's own FIN.
    fin_ack_delayed: bool, Switch, free;
    /// Segments acknowledged at once at the start (quick-ACK mode).
    quick_acks: u32, Whole(0, 1_000_000, "segments"), free;
    /// Quick-ACK mode again after every out-of-order segment.
    quick_acks_after_gap: bool, Switch, free;
    /// Window offered at first, growing by two segments for each one received and acknowledged at once while
    /// it grows; `None`: the whole buffer from the start.
    initial_receive_window: Option<Bytes>, Or("all", Whole(1, 1_000_000_000_000, "B")), free;
    /// Out-of-order data makes it grow too, if SACK distinguishes such ACKs from others.
    window_grows_over_gaps: bool, Switch, free;
    /// Receive buffer a connection begins with, grown as data is read; `None`: `receive_buffer` from the start.
    initial_receive_buffer: Option<Bytes>, Or("all", Whole(1, 1_000_000_000_000, "B")), free;
    /// A buffer that grows does so ahead of what is read: by sixteen segments, and by twice the share that more was read
    /// than a round trip before.
    buffer_grows_ahead: bool, Switch, free;
    /// RTT below which a buffer that grows ahead does so in proportion to the RTT, by the rule of Linux since 6.18; off: by
    /// the older rule.
    buffer_low_rtt: Option<Duration>, OrOff(SPAN), free;
    /// Hold back duplicate ACKs after the third for up to this, and a share of the RTT; `None`: never.
    sack_compression: Option<Duration>, OrOff(SPAN), free;
    /// Share of the RTT in `sack_compression`.
    sack_compression_share: u32, Whole(0, 100, "%"), free;
    /// What the timer that ends it may be late.
    sack_compression_slack: Duration, SPAN, free;
    /// Which ECN to speak.
    ecn: EcnMode, Ecn, |it| Lanes::plain_acks(*it == EcnMode::Off).and(Lanes::trains(*it == EcnMode::Off));
    /// Echo each change of the CE mark instead of latching it until CWR (RFC 8257 section 3.2).
    accurate_echo: bool, Switch, free;
    /// Echo no mark at all (RFC 3540 section 1).
    conceals_marks: bool, Switch, free;
    /// Accurate ECN feedback: each ACK counts the packets that arrived marked, modulo eight (RFC 9768).
    accecn: bool, Switch, free;
    /// An ACK leaves at once at each change between marked and unmarked packets, and by the delayed-ACK rules otherwise;
    /// else at the first and at each second mark (RFC 9768 section 3.2.2.5.1).
    accecn_on_change: bool, Switch, free;
    /// What a connection leaves for the next one to the same host.
    metrics_cache: MetricsCache, OneOfOrFalse, free;
    /// Segments the reassembly queue holds at most.
    reassembly_limit: Option<u32>, Or("none", Whole(1, 1_000_000_000, "segments")), free;
    /// What each burst that has left, and each unit that has not, takes of the send buffer beside its payload; 0: the
    /// buffer counts payload.
    send_bookkeeping: Bytes, Whole(0, 1_000_000, "B"), free;
    /// The send buffer begins with what ten segments take twice over, and grows with the congestion window up to its
    /// size (Linux `tcp_sndbuf_expand`); one that a flow names stays as it is.
    send_buffer_grows: bool, Switch, free;
    /// Room for headers before each segment, of which the size of a growing send buffer and of a unit follows (Linux
    /// `MAX_TCP_HEADER`).
    header_room: Bytes, Whole(0, 4_096, "B"), free;
    /// Send buffer when the scenario names none.
    send_buffer: Bytes, Whole(1, 1_000_000_000_000, "B"), free;
    /// Receive buffer when the scenario names none.
    receive_buffer: Bytes, Whole(1, 1_000_000_000_000, "B"), free;
    /// Per cent of the receive buffer that is offered as window.
    window_share: u32, Whole(1, 100, "%"), free;
}
