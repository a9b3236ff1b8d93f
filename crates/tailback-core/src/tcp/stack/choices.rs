//! The values that enumerated fields of a stack can take, each with its name in scenarios.

use crate::params::words;

words! {
    /// How losses are found.
    pub enum Detection {
        /// Three duplicate ACKs; then one hole per partial ACK, or every hole below the highest SACK (FreeBSD).
        DuplicateAcks = "duplicate-acks",
        /// RFC 6675 `IsLost`: three segments' worth SACKed above.
        Rfc6675 = "rfc6675",
        /// Forward acknowledgement: more than three segments below the highest SACK (Linux before 4.15).
        Fack = "fack",
        /// RFC 8985: a segment sent sufficiently later was delivered (Linux since 4.18).
        Rack = "rack",
    }
}

words! {
    /// How the window comes down to ssthresh during recovery.
    pub enum Reduction {
        /// At once: cwnd = ssthresh, in-flight accounting does the rest (RFC 6582, RFC 6675).
        Immediate = "immediate",
        /// To one segment, then up by one per ACK to ssthresh (FreeBSD 7 to 9 with SACK).
        FreeBsd = "freebsd",
        /// One segment less for every second ACK (Linux up to 3.1).
        RateHalving = "rate-halving",
        /// At the end of recovery; until then one segment per ACK is sent (ns-2's Agent/TCP/Linux with `overhead_`,
        /// whose timer restores what rate halving has taken).
        AtEnd = "at-end",
        /// Proportional rate reduction (RFC 6937, Linux since 3.2).
        Prr = "prr",
    }
}

words! {
    /// How much of the window counts as used during recovery.
    pub enum Pipe {
        /// Outstanding − SACKed − lost + retransmitted (RFC 6675, Linux).
        Scoreboard = "scoreboard",
        /// A counter from the start of recovery: minus one per ACK, minus two per partial ACK, plus one per segment
        /// sent. A lost segment stays counted until a partial ACK covers it (Fall & Floyd 1996, ns-2's Sack1).
        Counter = "counter",
    }
}

words! {
    /// How fast PRR may send once less than ssthresh is in flight (RFC 6937 section 3).
    pub enum PrrBound {
        /// Conservative reduction bound: no more than was delivered since and not yet sent.
        Conservative = "conservative",
        /// Slow-start reduction bound: one segment more per ACK.
        SlowStart = "slow-start",
        /// Slow start only while the cumulative acknowledgement advances without new loss (Linux 6, RFC 9937).
        SafeAck = "safe-ack",
    }
}

words! {
    /// Which evidence undoes a reduction.
    pub enum Undo {
        /// No evidence undoes a reduction.
        Never = "never",
        /// An ACK within half a smoothed RTT of a first timeout (BSD's bad-retransmit window).
        BadRetransmit = "bad-retransmit",
        /// Timestamps (RFC 3522) and D-SACK (RFC 3708), in fast recovery and after timeouts (Linux).
        Full = "full",
    }
}

words! {
    /// How a spurious timeout is detected from the ACKs after it (RFC 5682).
    pub enum Frto {
        /// No detection.
        Off = "off",
        /// By the two ACKs after it (section 2).
        Basic = "basic",
        /// By SACK too (section 3).
        Sack = "sack",
        /// By SACK, from the first ACK on (Linux since 3.10).
        AtOnce = "at-once",
    }
}

words! {
    /// Response of F-RTO to a spurious timeout.
    pub enum FrtoResponse {
        /// Restores cwnd and ssthresh (RFC 4015, Linux since 3.10).
        Undo = "undo",
        /// Rate halving down to the new ssthresh (Linux up to 3.9, tcp_frto_response = 0).
        Halve = "halve",
    }
}

words! {
    /// Effect on the window of an idle time longer than the retransmission timeout.
    pub enum IdleRestart {
        /// The window stays as it is.
        Keep = "keep",
        /// Down to the restart window at once (RFC 5681 section 4.1).
        Restart = "restart",
        /// Halved for every timeout of idleness, not below the restart window (Linux, RFC 2861).
        Halve = "halve",
    }
}

words! {
    /// Which segments are acknowledged at once when the reader has emptied the buffer (Linux `tcp_cleanup_rbuf`).
    pub enum AckOnPush {
        /// None: other stacks wait for a second segment or the timer.
        Never = "never",
        /// Segments shorter than the MSS.
        Short = "short",
        /// Segments shorter than the MSS, or full ones with PSH (Linux 6.6, and 6.1 since 6.1.57).
        ShortOrPushed = "short-or-pushed",
    }
}

words! {
    /// When an ACK may raise the window at all.
    pub enum GrowthGate {
        /// On every ACK for new data.
        Always = "always",
        /// Only if the window was full when the ACK arrived (Linux 2.6 without segmentation offload).
        WindowFull = "window-full",
        /// If the window was full in the last round, or, in slow start, if more than half of it was used (Linux 6).
        RecentlyFull = "recently-full",
        /// While the congestion window is no larger than the peer's window (FreeBSD 9).
        BelowSendWindow = "below-send-window",
    }
}

words! {
    /// Kinds of ECN, in ascending order: two ends use the lesser of their modes.
    #[derive(PartialOrd, Ord)]
    pub enum EcnMode {
        /// No ECN.
        Off = "false",
        /// New data is ECT(0) (RFC 3168).
        Classic = "true",
        /// New data is ECT(1), each mark is echoed, and the sender responds to their share (RFC 9331 section 4).
        L4s = "l4s",
    }
}
