//! Profiles of operating systems, one row per field: its value, then the value's source.
//!
//! A profile sets all fields, or names another profile and the differences; a field without a value or a value without
//! a source does not compile. Sources: the FreeBSD releases 7.3 and 9.3 and the simulators ns-2 and ns-3 by file, Linux
//! by functions and sysctls, and Windows Vista by its documentation.

use super::choices::{
    AckOnPush, Detection, EcnMode, Frto, FrtoResponse, GrowthGate, IdleRestart, Pipe, PrrBound, Reduction,
    Undo,
};
use super::fields::{Sources, Stack};
use crate::cc::Counting;
use crate::scenario::IpVersion;
use crate::tcp::metrics::MetricsCache;
use crate::tcp::rtt::RtoRule;
use crate::time::Duration;

/// A named stack with the source of each field.
pub struct Profile {
    /// Name in scenarios.
    pub name: &'static str,
    /// The system that the profile models.
    pub title: &'static str,
    /// The profile.
    pub stack: Stack,
    /// Source of every field.
    pub sources: Sources,
}

const fn ms(ms: u64) -> Duration {
    Duration::from_ms(ms)
}

macro_rules! profiles {
    ($(
        $(#[$doc:meta])*
        $NAME:ident: $name:literal, $title:literal $(, like $BASE:ident)? {
            $($field:ident: $value:expr, $source:literal;)+
        }
    )+) => {
        $(
            $(#[$doc])*
            const $NAME: Profile = Profile {
                name: $name,
                title: $title,
                stack: Stack { tick_phase: Duration::ZERO, ip_header: IpVersion::V4.header(), $($field: $value,)+ $(..$BASE.stack)? },
                sources: Sources { $($field: $source,)+ $(..$BASE.sources)? },
            };
        )+

        /// Every stack a scenario may name.
        pub static PROFILES: &[Profile] = &[$($NAME),+];
    };
}

profiles! {
    /// Values of the release. The VoIP latency study turns `delayed_ack` off.
    FREEBSD_7: "freebsd-7", "FreeBSD 7 (7.3-RELEASE stands in for 7.0)" {
        initial_window: 3, "tcp_input.c 7.3: rfc3390 = 1, min(4 mss, max(2 mss, 4380 B))";
        sack: true, "net.inet.tcp.sack.enable = 1";
        dsack: false, "not implemented in 7.x";
        timestamps: true, "net.inet.tcp.rfc1323 = 1";
        window_scaling: true, "net.inet.tcp.rfc1323 = 1";
        counting: Counting::PerAckBytes,
            "tcp_input.c 7.3: cwnd += max(mss*mss/cwnd, 1) per ACK; no byte counting in 7.x";
        slow_start_at_equality: true, "tcp_input.c 7.3: the per-ACK increment is mss while cwnd <= ssthresh";
        grow_on_sacks: false, "not implemented";
        detection: Detection::DuplicateAcks,
            "tcp_input.c 7.3: tcprexmtthresh = 3 duplicate ACKs, then every SACK hole";
        rescue: false, "tcp_sack.c 7.3: holes only";
        reduction: Reduction::FreeBsd,
            "tcp_input.c 7.3, SACK branch: cwnd = 1 mss, + 1 mss per duplicate ACK up to ssthresh";
        pipe: Pipe::Scoreboard, "unused: the one-segment ramp counts what it has sent";
        prr_bound: PrrBound::Conservative, "no PRR";
        duplicate_threshold: 3, "tcp_input.c 7.3: tcprexmtthresh";
        reordering_limit: None, "tcprexmtthresh is fixed";
        limited_transmit: true, "net.inet.tcp.rfc3042 = 1";
        impatient: false, "tcp_newreno_partial_ack 7.3 restarts the timer on each partial ACK";
        tail_loss_probe: false, "not implemented";
        undo: Undo::BadRetransmit, "tcp_timer.c 7.3: t_badrxtwin = srtt/2 after the first timeout";
        frto: Frto::Off, "not implemented; the bad-retransmit window instead";
        frto_response: FrtoResponse::Undo, "unused";
        fin_ignores_window: false, "tcp_output.c 7.3: the window bounds data; a lone FIN is free (flags, not length)";
        growth_gate: GrowthGate::Always, "tcp_input.c 7.3: growth on every ACK, flight not examined";
        window_validation: false, "not implemented";
        max_burst: None, "none; cwnd = flight + mss on leaving recovery if flight < ssthresh";
        pacing: false, "none";
        burst_segments: 1, "TSO off, as every study sets it";
        burst_autosize: false, "none";
        small_queue: None, "none";
        idle_restart: IdleRestart::Restart, "tcp_output.c 7.3: idle >= RTO restarts slow start";
        restart_window: 1, "net.inet.tcp.slowstart_flightsize = 1 (4 on the local net)";
        rto_rule: RtoRule::FreeBsd, "tcp_timer.h 7.3: rexmit_slop added after TCP_REXMTVAL";
        rto_initial: ms(3000), "tcp_timer.h 7.3: TCPTV_RTOBASE 3 s";
        rto_minimum: ms(200), "tcp_timer.h 7.3: TCPTV_CPU_VAR 200 ms slop over a 30 ms floor";
        rto_maximum: ms(64_000), "tcp_timer.h 7.3: TCPTV_REXMTMAX 64 s";
        persist_minimum: ms(5_000), "tcp_timer.h 7.3: TCPTV_PERSMIN 5 s";
        persist_maximum: ms(60_000), "tcp_timer.h 7.3: TCPTV_PERSMAX 60 s";
        clock_tick: ms(1), "kern.hz = 1000";
        timestamp_tick: ms(1), "tcp_output.c 7.3: ticks at kern.hz = 1000";
        paws: Some(0), "tcp_input.c 7.3: TSTMP_LT";
        timer_tick: Duration::ZERO, "callouts on ticks of 1 ms; exact here";
        delayed_ack: Some(ms(100)), "net.inet.tcp.delacktime = 100 ms (the VoIP latency study turns it off)";
        delayed_ack_tick: false, "tcp_timer.c 7.3: a callout of the connection, started at the segment";
        ack_every: 2, "RFC 1122 section 4.2.3.2";
        delayed_ack_limit: None, "constant here";
        delayed_ack_bound: None, "unused";
        window_parts: 0, "RFC 9293 section 3.8.6.2.2: a segment or half the buffer";
        probe_answers: None, "each is answered here";
        gro_segments: 1, "off: every segment by itself, as the truth was measured";
        gro_wait: Duration::from_us(50), "unused";
        ack_division: 1, "its receiver is honest";
        acks_ahead: 0, "its receiver is honest";
        ack_on_push: AckOnPush::Never, "DELAY_ACK in tcp_input.c looks at the timer and the length only";
        fin_ack_delayed: false, "tcp_input.c: TF_ACKNOW for a FIN";
        quick_acks: 0, "none";
        quick_acks_after_gap: false, "none";
        initial_receive_window: None, "the whole buffer";
        window_grows_over_gaps: false, "none: the window does not grow";
        initial_receive_buffer: None,
            "taken as if grown at once (tcp_input.c 7.3: recvbuf_auto, from 64 KiB by 16 KiB)";
        buffer_grows_ahead: false, "tcp_input.c 7.3: by 16 KiB";
        segments_join: false, "its buffer does not grow";
        buffer_low_rtt: None, "not in it";
        sack_compression: None, "none";
        sack_compression_share: 0, "unused";
        sack_compression_slack: Duration::ZERO, "unused";
        ecn: EcnMode::Off, "not implemented in 7.x";
        accurate_echo: false, "not implemented in 7.x";
        conceals_marks: false, "its receiver is honest";
        accecn: false, "not implemented in 7.x";
        accecn_on_change: false, "unused";
        metrics_cache: MetricsCache::Off,
            "hostcache expires at once, as the VoIP latency study sets it (the default keeps an hour; choose freebsd-7)";
        reassembly_limit: None, "reass.maxqlen is 48 by default; unlimited here, as every study raises it";
        send_bookkeeping: 0, "sbspace 7.3: sb_cc counts payload";
        send_buffer_grows: false, "net.inet.tcp.sendbuf_auto; taken as if grown at once";
        header_room: 0, "its buffer does not grow";
        units_refill: false, "it has no units";
        send_buffer: 262_144, "sendbuf_max 256 KiB";
        receive_buffer: 262_144, "recvbuf_max 256 KiB";
        window_share: 100, "sbspace: the whole buffer is offered";
    }

    /// Byte counting, and the initial window of 9.2 and later.
    FREEBSD_9: "freebsd-9", "FreeBSD 9 (9.3-RELEASE)", like FREEBSD_7 {
        initial_window: 10,
            "tcp_input.c 9.3: experimental.initcwnd10 = 1 (since 9.2; 3 before, as in the snapshot of May 2011)";
        dsack: false, "not implemented in 9.x";
        counting: Counting::Bytes { limit: 2 }, "net.inet.tcp.rfc3465 = 1, abc_l_var = 2";
        slow_start_at_equality: true, "cc_newreno.c 9.3: congestion avoidance if cwnd > ssthresh";
        detection: Detection::DuplicateAcks,
            "tcp_input.c 9.3: tcprexmtthresh = 3 duplicate ACKs, then every SACK hole";
        rescue: false, "tcp_sack.c 9.3: holes only";
        reduction: Reduction::FreeBsd,
            "tcp_input.c 9.3, SACK branch: cwnd = 1 mss, + 1 mss per duplicate ACK up to ssthresh";
        duplicate_threshold: 3, "tcp_input.c 9.3: tcprexmtthresh";
        impatient: false, "tcp_newreno_partial_ack 9.3 restarts the timer on each partial ACK";
        undo: Undo::BadRetransmit, "tcp_timer.c 9.3: t_badrxtwin = srtt/2 after the first timeout";
        growth_gate: GrowthGate::BelowSendWindow,
            "tcp_input.c 9.3 cc_ack_received: limited if cwnd <= snd_wnd; flight not examined";
        idle_restart: IdleRestart::Restart, "cc_newreno.c 9.3 after_idle";
        restart_window: 10, "cc_newreno.c 9.3 after_idle: the initial window of RFC 3390, and of initcwnd10 when set";
        rto_rule: RtoRule::FreeBsd, "tcp_timer.h 9.3: rexmit_slop added after TCP_REXMTVAL";
        rto_initial: ms(3000), "tcp_timer.h 9.3: TCPTV_RTOBASE 3 s";
        rto_minimum: ms(200), "tcp_timer.h 9.3: TCPTV_CPU_VAR 200 ms slop over a 30 ms floor";
        rto_maximum: ms(64_000), "tcp_timer.h 9.3: TCPTV_REXMTMAX 64 s";
        persist_minimum: ms(5_000), "tcp_timer.h 9.3: TCPTV_PERSMIN 5 s";
        persist_maximum: ms(60_000), "tcp_timer.h 9.3: TCPTV_PERSMAX 60 s";
        clock_tick: ms(1), "kern.hz = 1000 (100 in a virtual machine)";
        timestamp_tick: ms(1), "tcp_ts_getticks 9.3: milliseconds";
        delayed_ack_tick: false, "tcp_timer.c 9.3: a callout of the connection, started at the segment";
        initial_receive_buffer: None,
            "taken as if grown at once (tcp_input.c 9.3: recvbuf_auto, from 64 KiB by 16 KiB)";
        ecn: EcnMode::Off, "net.inet.tcp.ecn.enable = 0";
        accurate_echo: false, "classic echo only";
        accecn: false, "classic echo only";
        metrics_cache: MetricsCache::Off, "off, as for FreeBSD 7 (the default keeps an hour; choose freebsd)";
        reassembly_limit: None, "reass.maxsegments sized from memory; unlimited here";
        send_buffer: 2_097_152, "sendbuf_max 2 MiB";
        receive_buffer: 2_097_152, "recvbuf_max 2 MiB";
    }

    /// Rate halving, FACK, one credit per ACK.
    LINUX_2_6_25: "linux-2.6.25", "Linux 2.6.25 (2008)" {
        initial_window: 3, "tcp_init_cwnd 2.6.25: 3 segments for 1095 < mss <= 1460";
        sack: true, "tcp_sack = 1";
        dsack: true, "tcp_dsack = 1";
        timestamps: true, "tcp_timestamps = 1";
        window_scaling: true, "tcp_window_scaling = 1";
        counting: Counting::PerAck, "tcp_cong.c 2.6.25: per-ACK counter, tcp_abc = 0 (off by default)";
        slow_start_at_equality: true, "tcp_reno_cong_avoid 2.6.25: slow start while cwnd <= ssthresh";
        grow_on_sacks: false, "since 3.12";
        detection: Detection::Fack, "tcp_fack = 1: fackets_out > reordering; off once reordering was seen";
        rescue: false, "tcp_xmit_retransmit_queue 2.6.25: its forward retransmissions are left out";
        reduction: Reduction::RateHalving, "tcp_cwnd_down 2.6.25: rate halving";
        pipe: Pipe::Scoreboard, "tcp_packets_in_flight 2.6.25";
        prr_bound: PrrBound::Conservative, "no PRR";
        duplicate_threshold: 3, "tcp_reordering = 3";
        reordering_limit: Some(127), "tcp_update_reordering 2.6.25: TCP_MAX_REORDERING 127";
        limited_transmit: true, "implied by in-flight accounting (RFC 3042)";
        impatient: false, "tcp_rearm_rto on every ACK that advances";
        tail_loss_probe: false, "since 3.10";
        undo: Undo::Full, "tcp_try_undo_recovery 2.6.25 (timestamps, D-SACK)";
        frto: Frto::Sack, "tcp_frto = 2: SACK-enhanced (tcp_process_frto 2.6.25)";
        frto_response: FrtoResponse::Halve, "tcp_frto_response = 0: tcp_ratehalving_spur_to_response";
        fin_ignores_window: true, "tcp_cwnd_test 2.6.25: a lone segment with the FIN asks no window";
        growth_gate: GrowthGate::WindowFull, "tcp_is_cwnd_limited 2.6.25: in flight >= cwnd without GSO";
        window_validation: true, "tcp_cwnd_application_limited 2.6.25";
        max_burst: Some(3), "tcp_moderate_cwnd 2.6.25: in flight + 3";
        pacing: false, "since 3.12";
        burst_segments: 1, "TSO off, as every study sets it";
        burst_autosize: false, "since 3.12";
        small_queue: None, "since 3.6";
        idle_restart: IdleRestart::Halve, "tcp_slow_start_after_idle = 1; tcp_cwnd_restart";
        restart_window: 3, "tcp_cwnd_restart: the initial window";
        rto_rule: RtoRule::Linux, "tcp_rtt_estimator, tcp_set_rto 2.6.25";
        rto_initial: ms(3000), "TCP_TIMEOUT_INIT 3 s until 3.1";
        rto_minimum: ms(200), "TCP_RTO_MIN 200 ms, as a floor of 4 rttvar";
        rto_maximum: ms(120_000), "TCP_RTO_MAX 120 s";
        persist_minimum: ms(200), "tcp_probe0_base: the timeout, at least TCP_RTO_MIN 200 ms";
        persist_maximum: ms(120_000), "TCP_RTO_MAX 120 s";
        clock_tick: ms(4), "jiffies at HZ = 250";
        timestamp_tick: ms(4), "tcp_time_stamp: jiffies at HZ = 250";
        paws: Some(1), "tcp_paws_discard: TCP_PAWS_WINDOW 1";
        timer_tick: Duration::ZERO, "jiffies; exact here";
        delayed_ack: Some(ms(40)), "TCP_DELACK_MIN 40 ms; the adaptive timeout stays there for a steady stream";
        delayed_ack_tick: false, "timer started at the segment";
        ack_every: 2, "__tcp_ack_snd_check: more than one full segment";
        delayed_ack_limit: None, "constant here";
        delayed_ack_bound: None, "unused";
        window_parts: 0, "RFC 9293 section 3.8.6.2.2: a segment or half the buffer";
        probe_answers: None, "each is answered here";
        gro_segments: 1, "off: every segment by itself, as the truth was measured";
        gro_wait: Duration::from_us(50), "unused";
        ack_division: 1, "its receiver is honest";
        acks_ahead: 0, "its receiver is honest";
        ack_on_push: AckOnPush::Short,
            "tcp_cleanup_rbuf, tcp_measure_rcv_mss: a segment shorter than the largest seen";
        fin_ack_delayed: true, "tcp_fin: pingpong mode, no acknowledgement at once";
        quick_acks: 16, "tcp_incr_quickack: min(rcv_wnd/(2 rcv_mss), 16)";
        quick_acks_after_gap: true, "tcp_data_queue 2.6.25: tcp_enter_quickack_mode for every out-of-order segment";
        initial_receive_window: Some(5_840),
            "tcp_select_initial_window: 4 segments; tcp_grow_window then adds 2 a segment";
        window_grows_over_gaps: false, "tcp_data_queue 2.6.25 has no tcp_grow_window for out-of-order segments";
        initial_receive_buffer: None,
            "tcp_rmem[1] = 87380, grown by tcp_rcv_space_adjust; taken as if grown at once (choose 87380)";
        buffer_grows_ahead: false, "tcp_rcv_space_adjust 2.6.25: twice what was read";
        segments_join: false, "its buffer does not grow";
        buffer_low_rtt: None, "not in it";
        sack_compression: None, "since 4.18";
        sack_compression_share: 0, "unused";
        sack_compression_slack: Duration::ZERO, "unused";
        ecn: EcnMode::Off, "tcp_ecn = 0";
        accurate_echo: false, "DCTCP came with 3.18";
        conceals_marks: false, "its receiver is honest";
        accecn: false, "AccECN came with 6.18";
        accecn_on_change: false, "unused";
        metrics_cache: MetricsCache::Off,
            "tcp_no_metrics_save = 1, as every study sets it (the default is 0; choose linux-2.6)";
        reassembly_limit: None, "bounded by the receive buffer only";
        send_bookkeeping: 0, "the buffer is taken as of payload";
        send_buffer_grows: false, "autotuned; taken as if grown at once";
        header_room: 0, "its buffer does not grow";
        units_refill: false, "it has no units";
        send_buffer: 4_194_304, "autotuning maximum min(4 MiB, tcp_mem/128); taken as if grown at once";
        receive_buffer: 4_194_304, "autotuning maximum for 1 GiB of memory: 4 MiB; taken as if grown at once";
        window_share: 75, "tcp_adv_win_scale = 2: three quarters";
    }

    /// The first release with PRR, still FACK and one credit per ACK.
    LINUX_3_2: "linux-3.2", "Linux 3.2 (2012)", like LINUX_2_6_25 {
        initial_window: 10, "TCP_INIT_CWND 10 since 2.6.39 (RFC 6928)";
        counting: Counting::PerAck, "tcp_cong.c 3.2: per-ACK counter, tcp_abc = 0 (off by default)";
        slow_start_at_equality: true, "tcp_reno_cong_avoid 3.2: slow start while cwnd <= ssthresh";
        rescue: false, "tcp_xmit_retransmit_queue 3.2: its forward retransmissions are left out";
        reduction: Reduction::Prr, "tcp_update_cwnd_in_recovery 3.2: PRR (RFC 6937)";
        pipe: Pipe::Scoreboard, "tcp_packets_in_flight 3.2";
        prr_bound: PrrBound::SlowStart,
            "tcp_update_cwnd_in_recovery 3.2: max(prr_delivered - prr_out, newly acked) + 1";
        reordering_limit: Some(127), "tcp_update_reordering 3.2: TCP_MAX_REORDERING 127";
        undo: Undo::Full, "tcp_try_undo_recovery 3.2 (timestamps, D-SACK)";
        frto: Frto::Sack, "tcp_frto = 2: SACK-enhanced (tcp_process_frto 3.2)";
        growth_gate: GrowthGate::WindowFull, "tcp_is_cwnd_limited 3.2: in flight >= cwnd without GSO";
        window_validation: true, "tcp_cwnd_application_limited 3.2";
        max_burst: Some(3), "tcp_moderate_cwnd 3.2: in flight + 3";
        restart_window: 10, "tcp_cwnd_restart: the initial window";
        rto_rule: RtoRule::Linux, "tcp_rtt_estimator, tcp_set_rto 3.2";
        rto_initial: ms(1000), "TCP_TIMEOUT_INIT 1 s since 3.1";
        quick_acks_after_gap: true, "tcp_data_queue 3.2: tcp_enter_quickack_mode for every out-of-order segment";
        initial_receive_window: Some(14_600),
            "tcp_select_initial_window 3.2: 10 segments; tcp_grow_window then adds 2 a segment";
        window_grows_over_gaps: false, "tcp_data_queue 3.2 has no tcp_grow_window for out-of-order segments";
        ecn: EcnMode::Off, "tcp_ecn = 2: not asked for by the sender";
        receive_buffer: 6_291_456, "tcp_rmem[2] = 6 MiB since 3.0; taken as if grown at once";
        window_share: 50, "tcp_adv_win_scale = 1 since 3.1: one half";
    }

    /// RACK, tail loss probe, PRR, packet counting.
    LINUX: "linux", "Linux 6.x", like LINUX_3_2 {
        initial_window: 10, "TCP_INIT_CWND 10 (RFC 6928)";
        counting: Counting::PerSegment, "tcp_cong_avoid_ai: segments acknowledged, since 3.18";
        slow_start_at_equality: false, "tcp_in_slow_start: cwnd < ssthresh";
        grow_on_sacks: true, "tcp_may_raise_cwnd";
        detection: Detection::Rack, "tcp_recovery = 1: RACK (RFC 8985)";
        rescue: false, "tcp_xmit_retransmit_queue 6.x: what is marked lost only; the tail loss probe does the rest";
        reduction: Reduction::Prr, "tcp_cwnd_reduction: PRR (RFC 6937)";
        pipe: Pipe::Scoreboard, "tcp_packets_in_flight";
        prr_bound: PrrBound::SafeAck, "tcp_cwnd_reduction 6.x: one more if una advances without new loss";
        reordering_limit: Some(300), "tcp_max_reordering = 300; with RACK it counts until reordering was seen";
        tail_loss_probe: true, "tcp_early_retrans = 3";
        undo: Undo::Full, "tcp_try_undo_recovery (timestamps, D-SACK)";
        frto: Frto::AtOnce, "tcp_frto = 2 (tcp_process_loss)";
        frto_response: FrtoResponse::Undo, "tcp_try_undo_loss";
        growth_gate: GrowthGate::RecentlyFull,
            "tcp_is_cwnd_limited 6.1: is_cwnd_limited, or in slow start cwnd < 2 max_packets_out";
        window_validation: true, "tcp_cwnd_application_limited";
        max_burst: None, "tcp_moderate_cwnd is gone";
        pacing: false, "off without fq; on, 200 and 120 % (tcp_pacing_ss_ratio, tcp_pacing_ca_ratio)";
        burst_segments: 64, "bounded by bytes only, 64 KiB (GSO_LEGACY_MAX_SIZE)";
        burst_autosize: true,
            "tcp_tso_autosize, tcp_min_tso_segs = 2; since 4.17 also where the device's offload is off";
        small_queue: None,
            "off: the first link is rarely the host's own; where it is, 1048576 (tcp_limit_output_bytes; 131072 until 4.19)";
        rto_rule: RtoRule::Linux, "tcp_rtt_estimator, tcp_set_rto";
        clock_tick: Duration::ZERO, "microseconds; exact here";
        timestamp_tick: ms(1), "TCP_TS_HZ 1000 since 4.13";
        paws: Some(1), "tcp_paws_check: TCP_PAWS_WINDOW 1";
        timer_tick: ms(4), "jiffies at HZ = 250, and the wheel of 4.8 (calc_wheel_index)";
        delayed_ack: Some(ms(40)), "TCP_DELACK_MIN, TCP_ATO_MIN 40 ms";
        delayed_ack_limit: Some(ms(200)),
            "tcp_event_data_recv, tcp_send_delayed_ack 6.1: ato, at most icsk_delack_max = TCP_DELACK_MAX 200 ms";
        delayed_ack_bound: None, "tcp_delack_timer_handler 6.1: at most icsk_rto";
        window_parts: 16, "__tcp_select_window 6.1: 0 below 1/16 of the buffer or a segment";
        probe_answers: Some(ms(500)), "tcp_oow_rate_limited: tcp_invalid_ratelimit = HZ/2";
        gro_segments: 1, "off, as the truth was measured (ethtool -K gro off); on, up to 44 (GRO_LEGACY_MAX_SIZE 64 KiB)";
        gro_wait: Duration::from_us(50), "unused; where GRO is on, the device's interrupt moderation (ethtool rx-usecs)";
        ack_on_push: AckOnPush::ShortOrPushed, "tcp_cleanup_rbuf, tcp_measure_rcv_mss 6.6, as in 6.1 since 6.1.57";
        quick_acks: 16, "TCP_MAX_QUICKACKS 16";
        quick_acks_after_gap: false, "no longer forced by out-of-order segments since 4.18";
        initial_receive_window: Some(65_535),
            "tcp_select_initial_window: 65535 B; tcp_grow_window then adds 2 segments a segment";
        window_grows_over_gaps: true, "tcp_data_queue_ofo: tcp_grow_window if there is SACK, since 3.13";
        initial_receive_buffer: Some(131_072), "tcp_rmem[1] = 128 KiB";
        buffer_grows_ahead: true, "tcp_rcv_space_adjust, since 3.13";
        segments_join: true, "tcp_ofo_queue: from a network card; false from TUN, as in a guest";
        buffer_low_rtt: None, "tcp_rcvbuf_low_rtt came with 6.18";
        sack_compression: Some(ms(1)), "tcp_comp_sack_delay_ns 1 ms, tcp_comp_sack_nr 44";
        sack_compression_share: 5, "__tcp_ack_snd_check 6.1: 5 % of the smaller of rcv_rtt_est and srtt";
        sack_compression_slack: Duration::from_us(100), "tcp_comp_sack_slack_ns 100 us: an idle processor's timer fires at its end";
        accurate_echo: false, "tcp_dctcp.c: only with DCTCP; set it together with ecn";
        accecn: false, "6.x up to 6.17 has none; later tcp_ecn = 3 asks for it";
        metrics_cache: MetricsCache::Off,
            "tcp_no_metrics_save = 1, as the truth was measured (the default is 0; choose linux)";
        send_bookkeeping: 1_280,
            "tcp_stream_alloc_skb: SKB_TRUESIZE of 1,024 B less skb_shared_info, for MAX_TCP_HEADER on 64-bit machines";
        send_buffer_grows: true, "tcp_init_buffer_space, tcp_new_space: tcp_sndbuf_expand";
        header_room: 320, "MAX_TCP_HEADER with Wi-Fi (CONFIG_WLAN); 256 without, as in Debian's cloud kernels";
        units_refill: false, "tcp_write_xmit 6.1: no tcp_grow_skb";
        send_buffer: 4_194_304, "tcp_wmem[2] = 4 MiB";
        receive_buffer: 6_291_456, "tcp_rmem[2] = 6 MiB";
        window_share: 50, "tcp_adv_win_scale = 1: one half";
    }

    /// Differences of 7.3 from 6.1.
    LINUX_7: "linux-7", "Linux 7 (7.3)", like LINUX {
        fin_ignores_window: false, "tcp_cwnd_test 7.3: no exception for the FIN";
        small_queue: None, "off, as for linux; where the first link is the host's own, 4194304 (tcp_limit_output_bytes 7.3)";
        delayed_ack_limit: Some(ms(200)),
            "tcp_send_delayed_ack 7.3: tcp_delack_max, icsk_delack_max = TCP_DELACK_MAX 200 ms";
        delayed_ack_bound: Some(ms(200)),
            "tcp_event_data_recv, tcp_delack_timer_handler 7.3: at most TCP_DELACK_MAX 200 ms";
        buffer_low_rtt: Some(ms(1)), "tcp_rcvbuf_grow 7.3: tcp_rcvbuf_low_rtt = 1 ms";
        sack_compression: Some(ms(1)), "tcp_comp_sack_delay_ns 1 ms, tcp_comp_sack_nr 44 (tcp_ipv4.c 7.3)";
        sack_compression_share: 33, "tcp_comp_sack_rtt_percent = 33 (tcp_ipv4.c 7.3)";
        sack_compression_slack: Duration::from_us(10), "tcp_comp_sack_slack_ns = 10 us (tcp_ipv4.c 7.3)";
        accecn: false, "tcp_ecn = 5 (TCP_ECN_IN_ECN_OUT_NOECN): asked for by the peer only (tcp_ipv4.c 7.3)";
        accecn_on_change: true, "tcp_ecn_received_counters 7.3: ICSK_ACK_NOW at each change of the codepoint";
        units_refill: true, "tcp_write_xmit 7.3: tcp_grow_skb";
        send_bookkeeping: 896,
            "skb_small_head_cache since 6.3: 640 B and sk_buff; sk_wmem_queued of Debian's 7.3 in a guest grows by it";
        receive_buffer: 33_554_432, "tcp_rmem[2] = 32 MiB (tcp_init 7.3)";
        window_share: 50, "TCP_DEFAULT_SCALING_RATIO: 128 of 256, until tcp_measure_rcv_mss knows a segment's share: 160 with 1448 B";
    }

    /// ns-2's agents are one-way and have no handshake; tailback's connection has one.
    NS2_SACK: "ns2-sack", "ns-2.35 Agent/TCP/Sack1 with TCPSink/Sack1" {
        initial_window: 2, "ns-default.tcl 2.35: windowInit_ 2";
        sack: true, "Agent/TCP/Sack1";
        dsack: false, "TCPSink/Sack1: generateDSacks_ false";
        timestamps: false, "packetSize_ counts no options; RTT from send times, as the one-way agents' echo gives";
        window_scaling: true, "windows count packets; the limit is window_, here the receive buffer";
        counting: Counting::PerAckBytes, "tcp.cc 2.35 opencwnd: 1/cwnd per ACK, a real number; bytes here";
        slow_start_at_equality: false, "tcp.cc 2.35 opencwnd: cwnd < ssthresh";
        grow_on_sacks: false, "not implemented";
        detection: Detection::DuplicateAcks, "tcp-sack1.cc 2.35: NUMDUPACKS 3, then the scoreboard's holes";
        rescue: false, "tcp-sack1.cc 2.35: holes, then new data";
        reduction: Reduction::Immediate, "tcp-sack1.cc 2.35: cwnd halves at once and pipe_ governs";
        pipe: Pipe::Counter, "tcp-sack1.cc 2.35: pipe_";
        prr_bound: PrrBound::Conservative, "no PRR";
        duplicate_threshold: 3, "ns-default.tcl 2.35: numdupacks_ 3";
        reordering_limit: None, "numdupacks_ is fixed";
        limited_transmit: true, "ns-default.tcl 2.35: singledup_ 1";
        impatient: false, "tcp-sack1.cc 2.35: SACK; newreno of ns-2 restarts on each";
        tail_loss_probe: false, "not implemented";
        undo: Undo::Never, "not implemented";
        frto: Frto::Off, "ns-default.tcl 2.35: frto_enabled_ 0, sfrto_enabled_ 0";
        frto_response: FrtoResponse::Undo, "unused";
        fin_ignores_window: false, "tcp.cc 2.35: no FIN";
        growth_gate: GrowthGate::Always, "tcp.cc 2.35: no test of the flight";
        window_validation: false, "ns-default.tcl 2.35: QOption_ 0";
        max_burst: None, "ns-default.tcl 2.35: maxburst_ 0";
        pacing: false, "overhead_ 0";
        burst_segments: 1, "no segmentation offload";
        burst_autosize: false, "none";
        small_queue: None, "none";
        idle_restart: IdleRestart::Keep, "ns-default.tcl 2.35: slow_start_restart_ acts with QOption_ only";
        restart_window: 2, "unused";
        rto_rule: RtoRule::Rfc6298, "tcp.cc 2.35 rtt_update";
        rto_initial: ms(3000), "ns-default.tcl 2.35: rtxcur_init_ 3 (general knowledge)";
        rto_minimum: ms(200), "ns-default.tcl 2.35: minrto_ 0.2";
        rto_maximum: ms(60_000), "ns-default.tcl 2.35: maxrto_ 60 (general knowledge)";
        persist_minimum: ms(200), "no flow control";
        persist_maximum: ms(60_000), "no flow control";
        clock_tick: ms(10), "ns-default.tcl 2.35: tcpTick_ 0.01";
        timestamp_tick: Duration::ZERO, "tcp.cc 2.35: a real number";
        paws: None, "not implemented";
        timer_tick: Duration::ZERO, "events, exact; rounding by tcpTick_ is in clock_tick";
        delayed_ack: None, "TCPSink acknowledges every packet; TCPSink/DelAck would wait 100 ms";
        delayed_ack_tick: false, "unused";
        ack_every: 1, "TCPSink";
        delayed_ack_limit: None, "constant here";
        delayed_ack_bound: None, "unused";
        window_parts: 0, "RFC 9293 section 3.8.6.2.2: a segment or half the buffer";
        probe_answers: None, "each is answered here";
        gro_segments: 1, "off: every segment by itself, as the truth was measured";
        gro_wait: Duration::from_us(50), "unused";
        ack_division: 1, "its receiver is honest";
        acks_ahead: 0, "its receiver is honest";
        ack_on_push: AckOnPush::Never, "none";
        fin_ack_delayed: false, "no FIN of its own: at once";
        quick_acks: 0, "unused";
        quick_acks_after_gap: false, "unused";
        initial_receive_window: None, "no flow control at the sink";
        window_grows_over_gaps: false, "none: the window does not grow";
        initial_receive_buffer: None, "as large from the start";
        buffer_grows_ahead: false, "it does not grow";
        segments_join: false, "its buffer does not grow";
        buffer_low_rtt: None, "not in it";
        sack_compression: None, "none";
        sack_compression_share: 0, "unused";
        sack_compression_slack: Duration::ZERO, "unused";
        ecn: EcnMode::Off, "ns-default.tcl 2.35: ecn_ 0";
        accurate_echo: false, "classic echo only";
        conceals_marks: false, "its receiver is honest";
        accecn: false, "classic echo only";
        accecn_on_change: false, "unused";
        metrics_cache: MetricsCache::Off, "not implemented";
        reassembly_limit: None, "unlimited";
        send_bookkeeping: 0, "it counts payload";
        send_buffer_grows: false, "no send buffer";
        header_room: 0, "its buffer does not grow";
        units_refill: false, "it has no units";
        send_buffer: 67_108_864, "no send buffer; large here";
        receive_buffer: 67_108_864, "window_ 20 packets by default, which every study raises; large here";
        window_share: 100, "no sharing";
    }

    /// Its segment size of 536 B is the scenario's MTU.
    NS3: "ns3", "ns-3.27 TcpSocketBase with TcpNewReno" {
        initial_window: 1, "tcp-socket.cc 3.27: InitialCwnd 1";
        sack: true, "tcp-socket-base.cc 3.27: Sack true, the first release with it";
        dsack: false, "not implemented";
        timestamps: true, "tcp-socket-base.cc 3.27: Timestamp true";
        window_scaling: true, "tcp-socket-base.cc 3.27: WindowScaling true";
        counting: Counting::PerAckBytes,
            "tcp-congestion-ops.cc 3.27: segment*segment/cwnd per ACK, a real number; whole bytes here";
        slow_start_at_equality: false, "tcp-congestion-ops.cc 3.27: cwnd < ssthresh";
        grow_on_sacks: false, "not implemented";
        detection: Detection::Rfc6675, "tcp-tx-buffer.cc 3.27: RFC 6675 IsLost, ReTxThreshold 3";
        rescue: true, "tcp-tx-buffer.cc 3.27: NextSeg rules 3 and 4 (general knowledge)";
        reduction: Reduction::Immediate, "tcp-socket-base.cc 3.27: cwnd = ssthresh at once";
        pipe: Pipe::Scoreboard, "tcp-tx-buffer.cc 3.27: BytesInFlight of RFC 6675";
        prr_bound: PrrBound::Conservative, "no PRR";
        duplicate_threshold: 3, "tcp-socket-base.cc 3.27: ReTxThreshold 3";
        reordering_limit: None, "ReTxThreshold is fixed";
        limited_transmit: true, "tcp-socket-base.cc 3.27: LimitedTransmit true";
        impatient: true, "tcp-socket-base.cc 3.27: only the first partial ACK restarts it";
        tail_loss_probe: false, "not implemented";
        undo: Undo::Never, "not implemented";
        frto: Frto::Off, "not implemented";
        frto_response: FrtoResponse::Undo, "unused";
        fin_ignores_window: false, "tcp-socket-base.cc 3.27: SendPendingData asks the window for all data";
        growth_gate: GrowthGate::Always, "tcp-socket-base.cc 3.27: no test of the flight (general knowledge)";
        window_validation: false, "not implemented";
        max_burst: None, "none";
        pacing: false, "not in 3.27";
        burst_segments: 1, "no segmentation offload";
        burst_autosize: false, "none";
        small_queue: None, "none";
        idle_restart: IdleRestart::Keep, "not implemented";
        restart_window: 1, "unused";
        rto_rule: RtoRule::Rfc6298, "rtt-estimator.cc 3.27";
        rto_initial: ms(3000), "tcp-socket.cc 3.27: ConnTimeout 3 s";
        rto_minimum: ms(1000), "tcp-socket-base.cc 3.27: MinRto 1 s";
        rto_maximum: ms(60_000), "tcp-socket-base.cc 3.27: doubling; bounded here at RFC 6298's least maximum";
        persist_minimum: ms(6_000),
            "tcp-socket.cc 3.27: PersistTimeout 6 s, doubled at once; here once the timeout exceeds it";
        persist_maximum: ms(60_000), "tcp-socket-base.cc 3.27: at most 60 s";
        clock_tick: ms(1), "tcp-socket-base.cc 3.27: ClockGranularity 1 ms";
        timestamp_tick: ms(1), "tcp-option-ts.cc 3.27 NowToTsValue: milliseconds";
        paws: None, "not implemented";
        timer_tick: Duration::ZERO, "events, exact";
        delayed_ack: Some(ms(200)), "tcp-socket.cc 3.27: DelAckTimeout 200 ms";
        delayed_ack_tick: false, "timer started at the segment";
        ack_every: 2, "tcp-socket.cc 3.27: DelAckCount 2";
        delayed_ack_limit: None, "constant here";
        delayed_ack_bound: None, "unused";
        window_parts: 0, "RFC 9293 section 3.8.6.2.2: a segment or half the buffer";
        probe_answers: None, "each is answered here";
        gro_segments: 1, "off: every segment by itself, as the truth was measured";
        gro_wait: Duration::from_us(50), "unused";
        ack_division: 1, "its receiver is honest";
        acks_ahead: 0, "its receiver is honest";
        ack_on_push: AckOnPush::Never, "none";
        fin_ack_delayed: false, "tcp-socket-base.cc 3.27 PeerClose: at once";
        quick_acks: 0, "none";
        quick_acks_after_gap: false, "none";
        initial_receive_window: None, "the whole buffer";
        window_grows_over_gaps: false, "none: the window does not grow";
        initial_receive_buffer: None, "as large from the start";
        buffer_grows_ahead: false, "it does not grow";
        segments_join: false, "its buffer does not grow";
        buffer_low_rtt: None, "not in it";
        sack_compression: None, "none";
        sack_compression_share: 0, "unused";
        sack_compression_slack: Duration::ZERO, "unused";
        ecn: EcnMode::Off, "since 3.28 (general knowledge)";
        accurate_echo: false, "not in 3.27";
        conceals_marks: false, "its receiver is honest";
        accecn: false, "not in 3.27";
        accecn_on_change: false, "unused";
        metrics_cache: MetricsCache::Off, "not implemented";
        reassembly_limit: None, "bounded by the receive buffer only";
        send_bookkeeping: 0, "it counts payload";
        send_buffer_grows: false, "tcp-socket.cc 3.27: SndBufSize is fixed";
        header_room: 0, "its buffer does not grow";
        units_refill: false, "it has no units";
        send_buffer: 131_072, "tcp-socket.cc 3.27: SndBufSize 131072";
        receive_buffer: 131_072, "tcp-socket.cc 3.27: RcvBufSize 131072";
        window_share: 100, "the whole buffer is offered";
    }

    /// Its segment size of 536 B is the scenario's MTU. LinuxReno came with 3.32, and with it PRR and ten segments at
    /// first; CUBIC came with 3.33, and the test of whether the window is used with 3.42.
    NS3_44: "ns3-3.44", "ns-3.44 TcpSocketBase with TcpLinuxReno or TcpCubic", like NS3 {
        initial_window: 10, "tcp-socket.cc 3.44: InitialCwnd 10 (since 3.32)";
        sack: true, "tcp-socket-base.cc 3.44: Sack true";
        timestamps: true, "tcp-socket-base.cc 3.44: Timestamp true";
        window_scaling: true, "tcp-socket-base.cc 3.44: WindowScaling true";
        counting: Counting::PerSegment,
            "tcp-linux-reno.cc 3.44, tcp-cubic.cc 3.44: segments of currentDelivered; Reno drops what slow start leaves over";
        slow_start_at_equality: false, "tcp-linux-reno.cc 3.44 IncreaseWindow: cwnd < ssthresh";
        detection: Detection::Rfc6675,
            "tcp-tx-buffer.cc 3.44 IsLostRFC: RFC 6675, ReTxThreshold 3; no Fack before 3.48";
        rescue: true, "tcp-tx-buffer.cc 3.44 NextSeg: rule 3, not rule 4, which comes with it here";
        reduction: Reduction::Prr,
            "tcp-l4-protocol.cc 3.44: RecoveryType TcpPrrRecovery (since 3.32); it divides by the pipe at entry, cwnd here";
        pipe: Pipe::Scoreboard, "tcp-tx-buffer.cc 3.44: BytesInFlight, sent - SACKed - lost + retransmitted";
        prr_bound: PrrBound::SafeAck,
            "tcp-prr-recovery.cc 3.44: safeACK if a retransmission was acknowledged; a duplicate ACK counts a segment more there";
        duplicate_threshold: 3, "tcp-socket-base.cc 3.44: ReTxThreshold 3";
        limited_transmit: true, "tcp-socket-base.cc 3.44: LimitedTransmit true; with SACK by pipe";
        impatient: true, "tcp-socket-base.cc 3.44: m_isFirstPartialAck";
        growth_gate: GrowthGate::WindowFull,
            "tcp-socket-base.cc 3.44: m_isCwndLimited, cwnd < flight + a segment (since 3.42); LinuxReno asks in avoidance only";
        pacing: false, "tcp-socket-state.cc 3.44: EnablePacing false";
        rto_rule: RtoRule::Rfc6298, "rtt-estimator.cc 3.44";
        rto_initial: ms(3000), "tcp-socket.cc 3.44: ConnTimeout 3 s";
        rto_minimum: ms(1000), "tcp-socket-base.cc 3.44: MinRto 1 s";
        rto_maximum: ms(60_000), "tcp-socket-base.cc 3.44 ReTxTimeout: doubled, at most 60 s";
        persist_minimum: ms(6_000),
            "tcp-socket.cc 3.44: PersistTimeout 6 s, doubled at once; here once the timeout exceeds it";
        persist_maximum: ms(60_000), "tcp-socket-base.cc 3.44: at most 60 s";
        clock_tick: ms(1), "tcp-socket-base.cc 3.44: ClockGranularity 1 ms";
        timestamp_tick: ms(1), "tcp-option-ts.cc 3.44 NowToTsValue: milliseconds";
        delayed_ack: Some(ms(200)), "tcp-socket.cc 3.44: DelAckTimeout 200 ms";
        ack_every: 2, "tcp-socket.cc 3.44: DelAckCount 2";
        fin_ack_delayed: false, "tcp-socket-base.cc 3.44 PeerClose: at once";
        quick_acks: 0, "none (tcp-cubic.cc 3.44 says so)";
        ecn: EcnMode::Off, "tcp-socket-base.cc 3.44: UseEcn Off";
        accurate_echo: false, "tcp-dctcp.cc 3.44 alone, off with any other";
        accecn: false, "not in 3.44";
        send_buffer: 131_072, "tcp-socket.cc 3.44: SndBufSize 131072";
        receive_buffer: 131_072, "tcp-socket.cc 3.44: RcvBufSize 131072";
    }

    /// No source code is public: what is not documented follows the RFCs it claims.
    WINDOWS_VISTA: "windows-vista", "Windows Vista (from RFCs and documentation)" {
        initial_window: 2, "RFC 2581: two segments (RFC style; not read in a source)";
        sack: true, "Vista: SACK on (RFC 2018)";
        dsack: true, "Vista: RFC 2883 (vendor's list of RFCs)";
        timestamps: false, "Vista: off unless the peer asks (vendor's documentation)";
        window_scaling: true, "Vista: on with receive autotuning";
        counting: Counting::Bytes { limit: 2 }, "Vista: RFC 3465 (vendor's list of RFCs); the limit is RFC 3465's";
        slow_start_at_equality: false, "RFC 5681: cwnd < ssthresh (RFC style; not read in a source)";
        grow_on_sacks: false, "unknown";
        detection: Detection::Rfc6675, "Vista: RFC 3517 (vendor's list of RFCs)";
        rescue: true, "RFC 3517 NextSeg rule 3; its rule 4 is RFC 6675's and later";
        reduction: Reduction::Immediate, "RFC 3517: no gradual descent (RFC style; not read in a source)";
        pipe: Pipe::Scoreboard, "RFC 3517 SetPipe (RFC style; not read in a source)";
        prr_bound: PrrBound::Conservative, "no PRR";
        duplicate_threshold: 3, "RFC 3517 DupThresh (RFC style; not read in a source)";
        reordering_limit: None, "unknown; fixed";
        limited_transmit: true, "Vista: RFC 3042 (vendor's list of RFCs)";
        impatient: false, "unknown; on each";
        tail_loss_probe: false, "not implemented";
        undo: Undo::Never, "unknown; F-RTO only";
        frto: Frto::Basic, "Vista: RFC 4138 (vendor's list of RFCs), the basic algorithm of RFC 5682";
        frto_response: FrtoResponse::Undo, "unknown; RFC 4015";
        fin_ignores_window: false, "unknown; off";
        growth_gate: GrowthGate::Always, "unknown; no test of the flight";
        window_validation: false, "unknown; off";
        max_burst: None, "unknown; none";
        pacing: false, "none known";
        burst_segments: 1, "offload off, as every study sets it";
        burst_autosize: false, "unknown; off";
        small_queue: None, "none known";
        idle_restart: IdleRestart::Restart, "RFC 5681 section 4.1 (RFC style; not read in a source)";
        restart_window: 2, "RFC 5681 section 4.1: the initial window (RFC style; not read in a source)";
        rto_rule: RtoRule::Rfc6298, "RFC 2988 (RFC style; not read in a source)";
        rto_initial: ms(3000), "TcpInitialRtt 3 s (vendor's documentation)";
        rto_minimum: ms(300), "300 ms (general knowledge)";
        rto_maximum: ms(120_000), "general knowledge";
        persist_minimum: ms(300), "unknown; the timeout";
        persist_maximum: ms(120_000), "unknown; as the timeout";
        clock_tick: ms(10), "timer granularity of 10 ms (general knowledge)";
        timestamp_tick: ms(10), "unused: timestamps are off (general knowledge)";
        paws: None, "unused: timestamps are off";
        timer_tick: Duration::ZERO, "unknown; exact";
        delayed_ack: Some(ms(200)), "TcpDelAckTicks 2 of 100 ms (vendor's documentation)";
        delayed_ack_tick: false, "unknown; from the segment";
        ack_every: 2, "TcpAckFrequency 2 (vendor's documentation)";
        delayed_ack_limit: None, "constant here";
        delayed_ack_bound: None, "unused";
        window_parts: 0, "RFC 9293 section 3.8.6.2.2: a segment or half the buffer";
        probe_answers: None, "each is answered here";
        gro_segments: 1, "off: every segment by itself, as the truth was measured";
        gro_wait: Duration::from_us(50), "unused";
        ack_division: 1, "its receiver is honest";
        acks_ahead: 0, "its receiver is honest";
        ack_on_push: AckOnPush::Never, "none";
        fin_ack_delayed: false, "unknown; at once";
        quick_acks: 0, "none known";
        quick_acks_after_gap: false, "none known";
        initial_receive_window: None, "autotuning from 64 KiB; taken as if grown at once";
        window_grows_over_gaps: false, "none: the window does not grow";
        initial_receive_buffer: None, "as large from the start";
        buffer_grows_ahead: false, "it does not grow";
        segments_join: false, "its buffer does not grow";
        buffer_low_rtt: None, "not in it";
        sack_compression: None, "none";
        sack_compression_share: 0, "unused";
        sack_compression_slack: Duration::ZERO, "unused";
        ecn: EcnMode::Off, "off by default (vendor's documentation)";
        accurate_echo: false, "DCTCP came with Windows Server 2012";
        conceals_marks: false, "its receiver is honest";
        accecn: false, "not implemented in Vista";
        accecn_on_change: false, "unused";
        metrics_cache: MetricsCache::Off, "unknown; off";
        reassembly_limit: None, "unknown; unlimited";
        send_bookkeeping: 0, "unknown";
        send_buffer_grows: false, "unknown; off";
        header_room: 0, "its buffer does not grow";
        units_refill: false, "it has no units";
        send_buffer: 1_048_576, "the application's; 1 MiB here";
        receive_buffer: 16_777_216, "autotuning maximum 16 MiB; taken as if grown at once";
        window_share: 100, "the whole buffer is offered";
    }
}
