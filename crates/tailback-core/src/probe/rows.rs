//! Every table with its columns, units, meanings and instruments: the only place that states them. The simulator, live
//! runs and captures fill the same tables.

use super::QueueEvent;
use super::schema::{CounterId, FigureId, HostId, LinkId, PointId, QuantityId, Threshold};
use crate::cc::Phase;
use crate::labels;
use crate::link::Link;
use crate::packet::{Ecn, FlowId};
use crate::queue::DropReason;
use crate::tables;
use crate::tcp::sender::CongestionEventKind;
use crate::traffic::Exchange;

labels! {
    /// What happened to a packet.
    pub enum PacketFate {
        /// It reached its receiver.
        Received = 0 => "received",
        /// It was lost.
        Dropped = 1 => "dropped",
        /// It was under way when the run ended.
        InTransit = 2 => "in-transit",
    }
}

labels! {
    /// How an exchange ended.
    pub enum ExchangeFate {
        /// Its answer came.
        Answered = 0 => "answered",
        /// Its connection ended before.
        Abandoned = 1 => "abandoned",
        /// It waited when the run ended.
        Waiting = 2 => "waiting",
    }
}

labels! {
    /// What a foreign stack did that none may.
    pub enum StackFaultKind {
        /// Its code panicked.
        Panicked = 0 => "panicked",
        /// It sent a datagram that no path carries.
        BadDatagram = 1 => "bad-datagram",
        /// It sent beyond its window.
        BeyondWindow = 2 => "beyond-window",
        /// It sent or woke without letting time pass.
        Haste = 3 => "haste",
        /// It waited for what nothing would bring about.
        Stuck = 4 => "stuck",
    }
}

labels! {
    /// Why a receiver dropped a packet that had arrived.
    pub enum ReceiverDropReason {
        /// Its checksum failed: a wire had damaged it.
        Corrupt = 0 => "corrupt",
    }
}

labels! {
    /// Which program of a flow.
    pub enum Role {
        /// At the flow's `to`.
        Server = 0 => "server",
        /// At its `from`.
        Client = 1 => "client",
    }
}

labels! {
    /// How a program ended.
    pub enum ProgramFate {
        /// The program ended by itself.
        Exited = 0 => "exited",
        /// When asked, at its stop.
        Stopped = 1 => "stopped",
        /// By force, because it did not when asked.
        Killed = 2 => "killed",
    }
}

tables! {
    /// Totals of each flow. Packets are those of the flow's own direction, from its sender to its receiver.
    Flows of FlowRow as "flows" {
        /// The flow.
        flow: FlowId,
        /// Packets that its sender sent.
        packets_sent: u64,
        /// Packets that reached its receiver.
        packets_received: u64,
        /// Packets that were dropped, from a queue, on a wire, or damaged by its receiver.
        packets_dropped: u64,
        /// What its sender sent, headers included.
        bytes_sent: u64 ["B"],
        /// Payload that was acknowledged; 0 over UDP.
        bytes_acked: u64 ["B"],
        /// Payload that its receiver got in order; over UDP the IP bytes received, at either end.
        bytes_received: u64 ["B"],
        /// TCP segments with payload or FIN that the end at its `from` sent, repetitions included; 0 over UDP.
        segments_sent: u64,
        /// Repetitions among them.
        segments_retransmitted: u64,
        /// Fast recoveries that this end entered.
        recoveries: u64,
        /// Its retransmission timeouts.
        timeouts: u64,
        /// Its reductions that were undone.
        undos: u64,
        /// When it started.
        started_s: f64 ["s"],
        /// When its first connection was established.
        established_s: f64 ["s"],
        /// When its last connection was over; missing if it was not, and over UDP.
        finished_s: f64 ["s"],
        /// Smallest RTT sample of this end, of all its connections.
        rtt_min_s: f64 ["s"],
        /// Its smoothed RTT at the end, of the connection that ended last or is open.
        srtt_s: f64 ["s"],
        /// Connections it opened.
        connections: u64,
        /// Connections that were given up or turned away.
        connections_failed: u64,
        /// Connections open at the end.
        connections_open: u64,
        /// Payload that came back in order to the end that opened the connection.
        bytes_returned: u64 ["B"],
        /// TCP segments with payload or FIN that the end at its `to` sent, repetitions included.
        back_segments_sent: u64,
        /// Repetitions among them.
        back_segments_retransmitted: u64,
    }

    /// Totals of each link.
    Links of LinkRow as "links" {
        /// The link.
        link: LinkId,
        /// Packets that reached its queue.
        arrived: u64,
        /// Packets that it delivered.
        delivered: u64,
        /// Packets that it dropped, from the queue or on the wire.
        dropped: u64,
        /// Packets that its queue marked CE.
        marked: u64,
        /// Copies that its wire made.
        duplicated: u64,
        /// Packets in its queue, being sent or on the wire at the end.
        resident: u64,
        /// What reached its queue.
        arrived_bytes: u64 ["B"],
        /// What it delivered.
        delivered_bytes: u64 ["B"],
        /// What it dropped.
        dropped_bytes: u64 ["B"],
        /// For how long it was sending.
        busy_s: f64 ["s"],
        /// Mean of the bytes waiting in its queue, over time.
        backlog_bytes_mean: f64 ["B"],
        /// Most bytes that waited in its queue.
        backlog_bytes_max: u64 ["B"],
    }

    /// What happened to senders' windows.
    Congestion of CongestionRow as "congestion" {
        /// Time of the event.
        t_s: f64 ["s"],
        /// The flow.
        flow: FlowId,
        /// Kind of the event.
        kind: CongestionEventKind,
        /// Congestion window before.
        cwnd_before: u64 ["B"],
        /// Congestion window after.
        cwnd_after: u64 ["B"],
        /// Slow-start threshold after; missing before the first congestion.
        ssthresh: Threshold ["B"],
        /// Bytes in flight.
        in_flight: u64 ["B"],
    }

    /// What foreign stacks did that none may. Each ended its flow; the table is there only if one did.
    StackFaults of StackFaultRow as "stack_faults" {
        /// Time of the fault.
        t_s: f64 ["s"],
        /// The flow.
        flow: FlowId,
        /// What it did.
        kind: StackFaultKind,
        /// Connections of the flow that ended by it.
        connections: u64,
    }

    /// What receivers dropped on arrival; links count it as delivered. The table is there only if a wire has `corrupt`.
    ReceiverDrops of ReceiverDropRow as "receiver_drops" {
        /// The flow.
        flow: FlowId,
        /// They went from the flow's receiver to its sender.
        reverse: bool,
        /// Reason for the drop.
        reason: ReceiverDropReason,
        /// Packets dropped.
        packets: u64,
        /// Their IP bytes.
        bytes: u64 ["B"],
    }

    /// What the simulator did, in one row.
    Engine of EngineRow as "engine" {
        /// Events.
        events: u64,
        /// Packets that ever were.
        packets: u64,
    }

    /// How punctual a live run's emulator was, in one row. A packet's lateness is by how much longer it was between its
    /// hosts than the path says.
    Emulator of EmulatorRow as "emulator" {
        /// Packets handed over.
        packets: u64,
        /// Median of their lateness.
        late_median_s: f64 ["s"],
        /// 99th percentile of their lateness.
        late_p99_s: f64 ["s"],
        /// Largest lateness.
        late_max_s: f64 ["s"],
        /// The 99th percentile above which the run would be unfit.
        late_limit_s: f64 ["s"],
        /// Median of the part of the lateness before a packet entered the path.
        late_in_median_s: f64 ["s"],
        /// 99th percentile of that part.
        late_in_p99_s: f64 ["s"],
        /// Largest value of that part.
        late_in_max_s: f64 ["s"],
        /// 99th percentile of how much later than they wished applications got to act.
        app_late_p99_s: f64 ["s"],
        /// Largest such lateness.
        app_late_max_s: f64 ["s"],
        /// 99th percentile of how long the applications' threads waited for a processor, of all looks at them.
        app_waited_p99_s: f64 ["s"],
        /// Longest such wait.
        app_waited_max_s: f64 ["s"],
        /// How long they waited in all.
        app_waited_s: f64 ["s"],
        /// The 99th percentile of either above which the run would be unfit.
        app_limit_s: f64 ["s"],
        /// Does the result mean what it says?
        fit: bool,
        /// Did the scheduler grant real-time priority?
        realtime: bool,
        /// For how long the emulator slept.
        asleep_s: f64 ["s"],
        /// What hosts sent, large segments that the emulator cut counted as one.
        frames: u64,
        /// The largest of them.
        largest_frame_bytes: u64 ["B"],
        /// Packets of no flow, such as the kernel's own.
        foreign_packets: u64,
        /// Packets without a stamp of when they were sent.
        unstamped_packets: u64,
        /// Packets lost in the hosts' own devices, and in the sockets of QUIC stacks.
        device_drops: u64,
        /// Rows of the kernel's log that were lost.
        log_rows_lost: u64,
    }

    /// TCP's state at each segment that an end sends or receives, in SIFTR's fields: before an arriving segment is
    /// processed, after a departing one. Of a capture: what can be inferred.
    Segments of SegmentRow as "segments" by "segments" of "own" {
        /// Time at which the segment left or arrived.
        t_s: f64 ["s"],
        /// The flow.
        flow: FlowId,
        /// True: the segment leaves this end; false: it arrives.
        outgoing: bool,
        /// This end is the flow's receiver.
        at_receiver: bool,
        /// Offset of its first byte of payload.
        seq: u64 ["B"],
        /// Length of the payload.
        length: u32 ["B"],
        /// Offset up to which it acknowledges.
        ack: u64 ["B"],
        /// Congestion window.
        cwnd: u64 ["B"],
        /// Slow-start threshold; missing before the first congestion.
        ssthresh: Threshold ["B"],
        /// Window that the peer offers.
        snd_wnd: u64 ["B"],
        /// Window offered to the peer.
        rcv_wnd: u64 ["B"],
        /// Shift of the window that the peer offers.
        snd_scale: u8,
        /// Shift of the window offered to the peer.
        rcv_scale: u8,
        /// State of the connection, in BSD's numbers. Opening: 0 closed, 1 listen, 2 SYN sent, 3 SYN received, 4
        /// established. Closing: 5 close wait, 6 FIN wait 1, 7 closing, 8 last ACK, 9 FIN wait 2, 10 time wait.
        state: u8,
        /// Payload of a full segment.
        mss: u32 ["B"],
        /// Smoothed RTT.
        srtt_s: f64 ["s"],
        /// May SACK be used?
        sack_enabled: bool,
        /// The segment's TCP flags, as in its header.
        flags: u32,
        /// Retransmission timeout.
        rto_s: f64 ["s"],
        /// Send buffer.
        snd_buf: u64 ["B"],
        /// What is in it.
        snd_buf_used: u64 ["B"],
        /// Receive buffer.
        rcv_buf: u64 ["B"],
        /// What is in it; not recorded, always 0.
        rcv_buf_used: u64 ["B"],
        /// Bytes in flight.
        in_flight: u64 ["B"],
        /// Segments that wait for a gap to be filled.
        reassembly: u32,
        /// Recovery state of the sender.
        phase: Phase,
    }

    /// What another stack than tailback's TCP says of itself, at each end of each connection, whenever its window, its
    /// threshold, its RTT or its count of losses changes.
    StackStates of StackStateRow as "stack_states" by "segments" of "foreign" {
        /// Time of the change.
        t_s: f64 ["s"],
        /// The flow.
        flow: FlowId,
        /// Number of the connection in the flow, from 0.
        connection: u32,
        /// This end is the flow's receiver.
        at_receiver: bool,
        /// Congestion window.
        cwnd: u64 ["B"],
        /// Slow-start threshold; missing before the first congestion, or if the stack does not say.
        ssthresh: Threshold ["B"],
        /// Bytes in flight, as the stack counts them.
        in_flight: u64 ["B"],
        /// Smoothed RTT.
        srtt_s: f64 ["s"],
        /// Latest RTT sample, if the stack says.
        rtt_s: f64 ["s"],
        /// Smallest RTT sample.
        rtt_min_s: f64 ["s"],
        /// Rate at which it paces, if the stack says.
        pacing_bps: f64 ["bit/s"],
        /// Packets sent so far.
        packets_sent: u64,
        /// Packets declared lost so far.
        packets_lost: u64,
        /// Losses and marks treated as congestion so far.
        congestion_events: u64,
    }

    /// State of each flow's sender at equal intervals, as Web100 polls it: of the connection opened last, while it lasts.
    Polls of PollRow as "polls" by "polls" {
        /// Time of the poll.
        t_s: f64 ["s"],
        /// The flow.
        flow: FlowId,
        /// Congestion window.
        cwnd: u64 ["B"],
        /// Slow-start threshold; missing before the first congestion.
        ssthresh: Threshold ["B"],
        /// Smoothed RTT.
        srtt_s: f64 ["s"],
        /// Latest RTT sample.
        rtt_s: f64 ["s"],
        /// Smallest RTT sample.
        rtt_min_s: f64 ["s"],
        /// Retransmission timeout.
        rto_s: f64 ["s"],
        /// Bytes in flight.
        in_flight: u64 ["B"],
        /// Recovery state of the sender.
        phase: Phase,
        /// Payload of all the flow's connections that was acknowledged so far.
        bytes_acked: u64 ["B"],
        /// Payload of all the flow's connections that its receiver got in order so far.
        bytes_received: u64 ["B"],
        /// Payload of all the flow's connections that reached its receiver so far, in order or not, each byte counted
        /// once. Of a live run it comes from the log of segments. Without BPF, and of real programs, it is the same as
        /// `bytes_received`.
        bytes_arrived: u64 ["B"],
        /// Segments of this connection retransmitted so far.
        segments_retransmitted: u64,
        /// Duplicate acknowledgements that this connection received so far.
        dup_acks_in: u64,
        /// Window that the peer offers.
        snd_wnd: u64 ["B"],
    }

    /// The congestion control's own quantities at the polls.
    Internals of InternalRow as "internals" by "internals" {
        /// Time of the poll.
        t_s: f64 ["s"],
        /// The flow.
        flow: FlowId,
        /// The quantity, in the words of its algorithm; times are in seconds, rates in bit/s, amounts in bytes.
        name: QuantityId,
        /// Value of the quantity.
        value: f64,
    }

    /// Each event of the chosen queues.
    Queue of QueueEventRow as "queue" by "queues" or "drops" {
        /// Time of the event.
        t_s: f64 ["s"],
        /// The link.
        link: LinkId,
        /// Kind of the event.
        event: QueueEvent,
        /// The packet's flow.
        flow: FlowId,
        /// The packet's number in the run.
        packet: u64,
        /// Its IP length.
        bytes: u32 ["B"],
        /// What waits in the queue afterwards.
        backlog_bytes: u64 ["B"],
        /// Packets that wait in the queue afterwards.
        backlog_packets: u32,
        /// Why it was dropped.
        reason: Option<DropReason>,
    }

    /// Backlogs at equal intervals: what waits or is being sent.
    QueuePolls of QueuePollRow as "queue_polls" by "queue_polls" {
        /// Time of the poll.
        t_s: f64 ["s"],
        /// The link.
        link: LinkId,
        /// Bytes in the queue.
        backlog_bytes: u64 ["B"],
        /// Packets in the queue.
        backlog_packets: u32,
    }

    /// Packets from sender to receiver, with the delay of each.
    Packets of PacketRow as "packets" by "packets" {
        /// The flow.
        flow: FlowId,
        /// How many packets its sender had sent before.
        index: u64,
        /// IP length.
        bytes: u32 ["B"],
        /// When it was sent.
        sent_s: f64 ["s"],
        /// When it reached its receiver.
        received_s: f64 ["s"],
        /// What happened to it.
        fate: PacketFate,
        /// Which of the flow's streams it belongs to: of `voip` and `voip-onoff`, the call; over QUIC, the connection.
        stream: u16,
    }

    /// Exchanges: what an application's user waits for.
    Requests of RequestRow as "requests" by "requests" {
        /// When it began: the first SYN; of `request-response` the request.
        t_s: f64 ["s"],
        /// The flow.
        flow: FlowId,
        /// The flow's connection that carries it, in order of opening.
        connection: u64,
        /// What kind of exchange it is.
        kind: Exchange,
        /// Which of the flow's congestion controls: 0 is `cc`, 1 the first of `cc_turns`.
        turn: u16,
        /// Size of the object.
        bytes: u64 ["B"],
        /// Until its last byte arrived; missing if it never did.
        response_time_s: f64 ["s"],
        /// How it ended.
        fate: ExchangeFate,
    }

    /// Echo requests, with the round trip of each.
    Echoes of EchoRow as "echoes" by "echoes" {
        /// When it was sent.
        t_s: f64 ["s"],
        /// The flow.
        flow: FlowId,
        /// Its number in the flow.
        number: u64,
        /// Until its reply was back; missing if none came.
        rtt_s: f64 ["s"],
    }

    /// What passed the points of `instruments.captures`, in order of time.
    Wire of WireRow as "wire" by "captures" {
        /// Time at which the packet passed.
        t_ps: u64 ["ps"],
        /// The point.
        point: PointId,
        /// The packet's headers: a row of `headers`, of a live run of `frames`.
        header: u32,
        /// The ECN codepoint it had there.
        ecn: Ecn,
    }

    /// The headers of captured packets, each once. Times and offsets are the engine's: a capture's writer folds them into
    /// the widths of headers.
    Headers of HeaderRow as "headers" by "captures" {
        /// The packet's number in the run.
        packet: u64,
        /// The packet's flow.
        flow: FlowId,
        /// It goes from the flow's receiver to its sender.
        reverse: bool,
        /// Which of the flow's connections it belongs to.
        connection: u32,
        /// Offset of its first byte of payload; of a datagram, its number in the flow.
        seq: u64 ["B"],
        /// Offset up to which it acknowledges.
        ack: u64 ["B"],
        /// Window it offers.
        window: u64 ["B"],
        /// TCP timestamp of the segment.
        ts_val_ps: u64 ["ps"],
        /// The timestamp it echoes.
        ts_ecr_ps: Option<u64> ["ps"],
        /// Payload.
        length: u32 ["B"],
        /// TCP flags, as in the header; 0: it is a datagram.
        flags: u8,
        /// It is a retransmission.
        repeated: bool,
        /// IP length.
        bytes: u32 ["B"],
        /// IP identification.
        ip_id: u16,
        /// Which of the flow's streams it belongs to.
        stream: u16,
        /// Of a datagram, its number in its stream.
        number: u64,
        /// How many rows of `header_sacks` belong to it.
        blocks: u8,
        /// Shift of the window, in a segment with SYN.
        scale: u8,
    }

    /// SACK blocks of captured packets.
    HeaderSacks of HeaderSackRow as "header_sacks" by "captures" {
        /// Whose: a row of `headers`.
        header: u32,
        /// Offset of the first byte.
        start: u64 ["B"],
        /// Offset behind the last byte.
        end: u64 ["B"],
    }

    /// What the two ends of each captured connection agreed on.
    Connections of ConnectionRow as "connections" by "captures" {
        /// The flow.
        flow: FlowId,
        /// Which of the flow's connections.
        connection: u32,
        /// When it was opened.
        t_ps: u64 ["ps"],
        /// Payload of the client's full segment.
        mss: u32 ["B"],
        /// Payload of the server's.
        back_mss: u32 ["B"],
        /// Timestamps are used.
        timestamps: bool,
        /// SACK is used.
        sack: bool,
        /// Windows are scaled.
        scaling: bool,
        /// ECN is used.
        ecn: bool,
        /// Shift of the client's window.
        scale: u8,
        /// Shift of the server's window.
        back_scale: u8,
    }

    /// Captured packets of a live run, each once, as the kernel sent it.
    Frames of FrameRow as "frames" by "captures" {
        /// The packet's number in the run.
        packet: u64,
        /// The packet's flow.
        flow: FlowId,
        /// It goes from the flow's receiver to its sender.
        reverse: bool,
        /// IP length.
        bytes: u32 ["B"],
        /// How many rows of `frame_bytes` belong to it.
        kept: u8 ["B"],
    }

    /// The first bytes of each of `frames`, one after the other: its headers, of a datagram twelve bytes more.
    FrameBytes of FrameByteRow as "frame_bytes" by "captures" {
        /// The byte.
        byte: u8,
    }

    /// Each packet of a live run at both ends of the path, as a capture card at each would have seen it.
    Captures of CaptureRow as "captures" {
        /// Its number in the run.
        packet: u64,
        /// The packet's flow.
        flow: FlowId,
        /// It goes from the flow's receiver to its sender.
        reverse: bool,
        /// IP length.
        bytes: u32 ["B"],
        /// ECN codepoint on entering.
        ecn: Ecn,
        /// When it entered the path.
        arrived_s: f64 ["s"],
        /// When it should have left it.
        due_s: f64 ["s"],
        /// When it was handed over.
        written_s: f64 ["s"],
        /// What happened to it.
        fate: PacketFate,
        /// The link that dropped it.
        link: Option<LinkId>,
        /// It was marked CE on the way.
        marked: bool,
        /// A wire made it, no host sent it.
        copy: bool,
        /// Which of its application's own pairs of hosts it belongs to; 0 if there are none.
        pair: u32,
        /// Its connection, of the client's port as much as eight bits hold.
        conversation: u8,
    }

    /// How the programs of a live run ended.
    Programs of ProgramRow as "programs" {
        /// The flow.
        flow: FlowId,
        /// Which of its programs.
        role: Role,
        /// When it began.
        started_s: f64 ["s"],
        /// When it ended.
        ended_s: f64 ["s"],
        /// How it ended.
        fate: ProgramFate,
        /// The status it returned; missing if a signal ended it.
        status: f64,
        /// The signal that ended it, or 0.
        signal: u8,
    }

    /// What programs measured themselves.
    ProgramMetrics of ProgramMetricRow as "program_metrics" {
        /// The flow.
        flow: FlowId,
        /// The figure; its unit ends its name.
        name: FigureId,
        /// Value of the figure.
        value: f64,
    }

    /// The counters of IP and TCP that moved in a guest's kernel during the run, as `nstat` names them.
    Counters of CounterRow as "counters" {
        /// The host.
        host: HostId,
        /// The counter.
        name: CounterId,
        /// What it counted.
        count: u64,
    }
}

/// Totals of links.
pub fn links(all: &[Link]) -> Links {
    let row = |(number, link): (usize, &Link)| LinkRow {
        link: LinkId(number as u32),
        arrived: link.count().arrived,
        delivered: link.count().delivered,
        dropped: link.count().dropped,
        marked: link.count().marked,
        duplicated: link.count().duplicated,
        resident: u64::from(link.resident().packets),
        arrived_bytes: link.count().arrived_bytes,
        delivered_bytes: link.count().delivered_bytes,
        dropped_bytes: link.count().dropped_bytes,
        busy_s: link.busy().as_secs_f64(),
        backlog_bytes_mean: link.backlog_mean(),
        backlog_bytes_max: link.backlog_max(),
    };
    all.iter().enumerate().map(row).collect()
}
