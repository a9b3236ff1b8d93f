//! Processes an ACK in Linux's order: scoreboard, RTT, loss detection, recovery state, then the algorithm, then the
//! reduction step.

use super::{CongestionEvent, Sender};
use crate::cc::{Ack, CongestionControl, Counting, Phase};
use crate::tcp::scoreboard::{Delivery, RateSample};
use crate::tcp::segment::{ACE_MODULUS, ACE_START, Flags, Segment};
use crate::tcp::stack::Detection;
use crate::time::{Bytes, Duration, Time};

/// State of the sender before the ACK.
struct Prior {
    snd_una: u64,
    right_edge: u64,
    in_flight: Bytes,
}

/// What the ACK reports besides deliveries.
pub(super) struct News {
    pub newly_acked: Bytes,
    pub is_duplicate: bool,
    /// A D-SACK reports data that was sent again.
    pub reports_duplicate: bool,
    rtt: Option<Duration>,
    /// The ACK covers the first segment of a round.
    round_start: bool,
    /// The ACK echoes congestion.
    pub is_marked: bool,
    /// Bytes that the congestion echo covers.
    marked: Bytes,
    /// The ACK has a D-SACK block.
    is_dsack: bool,
}

/// Result of loss detection and of the recovery state machine.
struct Verdict {
    /// Segments newly declared lost.
    lost: u32,
    is_undone: bool,
    /// Whether a reduction was in progress before the ACK, and whether one is now.
    was_reducing: bool,
    is_reducing: bool,
}

impl Sender {
    /// Processes an ACK, with its SACK blocks.
    #[inline(always)]
    pub fn on_ack(&mut self, segment: &Segment, now: Time, events: &mut Vec<CongestionEvent>) {
        let right_edge = self.peer.right_edge;
        self.take_window(segment);
        // For a side that only receives, ACKs normally report nothing: fast exit.
        let has_news = segment.ack != self.snd_una || segment.sack_count > 0 || self.probe.end != 0;
        if has_news || !self.board.is_empty() {
            let is_plain = self.expects_plain(segment);
            if !is_plain || !self.on_plain_news(segment, right_edge, now, events) {
                self.on_news(segment, right_edge, now, events);
            }
        } else {
            self.note_answer();
        }
    }

    /// Whether the segment reports nothing to a sender with nothing in flight, except the peer's window.
    #[inline(always)]
    pub fn hears_nothing(&self, segment: &Segment) -> bool {
        segment.ack == self.snd_una && segment.sack_count == 0 && self.probe.end == 0
    }

    /// Whether the ACK can only report progress: no SACK, and nothing lost, retransmitted, marked or undecided.
    #[inline(always)]
    fn expects_plain(&self, segment: &Segment) -> bool {
        self.takes_plain_acks
            && self.phase == Phase::Open
            && segment.ack > self.snd_una
            && segment.sack_count == 0
            && self.probe.end == 0
            && self.departed == 0
            && !self.is_in_frto()
    }

    /// As [`Self::on_news`], for an ACK that satisfies [`Self::expects_plain`]. Returns false, having changed nothing,
    /// if the flight is disturbed.
    #[inline(never)]
    fn on_plain_news(
        &mut self,
        segment: &Segment,
        right_edge: u64,
        now: Time,
        events: &mut Vec<CongestionEvent>,
    ) -> bool {
        let in_flight = self.board.in_flight();
        let Some(delivery) = self.board.take_undisturbed(segment.ack, now) else { return false };
        let prior = Prior { snd_una: self.snd_una, right_edge, in_flight };
        let newly_acked = segment.ack - self.snd_una;
        self.snd_una = segment.ack;
        self.break_burst();
        self.duplicate_acks = 0;
        self.partial_acks = 0;
        if let (Some(estimate), Some(latest)) = (delivery.rtt_first, delivery.rtt_last) {
            self.rtt.on_sample(&self.stack, estimate, latest, self.snd_una, self.snd_nxt);
        }
        let round_start = self.begins_round();
        self.timer.restarts = true;
        self.first_retransmission = Time::NEVER;
        let rtt = delivery.rtt_last;
        let news = News {
            newly_acked,
            is_duplicate: false,
            reports_duplicate: false,
            rtt,
            round_start,
            is_marked: false,
            marked: 0,
            is_dsack: false,
        };
        if self.makes_progress(&news, &delivery) {
            self.usage.used_since = now;
        }
        let mut ack = self.signals(&prior, &delivery, &news, now);
        self.algorithm.on_plain_ack(&mut ack, self.stack.slow_start_at_equality, &mut self.control);
        self.answer_wish(now, events);
        self.conclude(now);
        true
    }

    /// Processes an ACK that reports something. `right_edge`: end of the peer's window before the ACK.
    fn on_news(&mut self, segment: &Segment, right_edge: u64, now: Time, events: &mut Vec<CongestionEvent>) {
        let in_flight = self.in_flight();
        let prior = Prior { snd_una: self.snd_una, right_edge, in_flight };
        let mut blocks = segment.sack;
        let blocks = &mut blocks[..usize::from(segment.sack_count)][usize::from(segment.is_dsack)..];
        // Newest data last, as in `tcp_sacktag_write_queue`: RACK and the algorithm take their RTT from the last block.
        blocks.sort_unstable_by_key(|block| block.start);
        let echoed = if self.stack.timestamps { segment.ts_ecr } else { Time::NEVER };
        let head_sent = self.board.head_sent();
        let mut delivery = self.board.on_ack(segment.ack, blocks, echoed, now, self.rtt.min());
        let news = self.take_news(segment, &prior, &mut delivery, now);
        self.timer.restarts = match news.newly_acked {
            // Linux `tcp_clean_rtx_queue`: a SACK of data sent before the head's latest transmission is also progress.
            0 => self.stack.tail_loss_probe && delivery.rtt_sack > head_sent.map(|sent| now.since(sent)),
            _ => !self.is_impatient(),
        };
        let mut ack = self.signals(&prior, &delivery, &news, now);
        self.algorithm.on_sample(&ack, &mut self.control);
        if self.probe.end != 0 {
            self.settle_probe(segment, news.newly_acked, delivery.sacked_segments, now, events);
        }
        let verdict = self.judge(segment, &delivery, &news, now, events);
        ack.cwnd_limited = self.is_cwnd_limited(prior.in_flight);
        ack.may_grow = self.may_grow(&delivery, &news);
        self.apply(&verdict, &mut ack);
        self.pass_on(&ack, now, events);
        if verdict.is_reducing && !verdict.is_undone && !self.algorithm.owns_window() {
            self.reduce(&delivery, news.newly_acked, verdict.lost, news.is_duplicate, !verdict.was_reducing);
        }
        self.conclude(now);
    }

    /// Passes the ACK to the algorithm, and carries out what it requests.
    #[inline(always)]
    fn pass_on(&mut self, ack: &Ack, now: Time, events: &mut Vec<CongestionEvent>) {
        if self.is_followed {
            self.report_fates(now, Some(ack));
        }
        self.algorithm.on_ack(ack, &mut self.control);
        self.answer_wish(now, events);
    }

    /// Carries out the algorithm's requests: marks its samples as application-limited, or begins a reduction.
    #[inline(always)]
    fn answer_wish(&mut self, now: Time, events: &mut Vec<CongestionEvent>) {
        if std::mem::take(&mut self.control.self_limited) {
            self.board.on_app_limited();
        }
        if self.algorithm.wants_reduction() {
            match self.phase < Phase::Cwr {
                true => self.enter_reduction(now, events),
                // Linux `tcp_enter_cwr`: a reduction in force is none the less justified.
                false => self.trouble.undo.gives_back = false,
            }
        }
    }

    /// Finishes an ACK: enforces the window's floor and restarts the timer.
    #[inline(always)]
    fn conclude(&mut self, now: Time) {
        self.keep_floor();
        self.output.is_unsettled = true;
        if self.timer.restarts {
            self.set_timer(now);
        }
    }

    /// Whether the current ACK covers the first segment of a round.
    #[inline(always)]
    fn begins_round(&mut self) -> bool {
        let begins = self.snd_una > self.round_end;
        if begins {
            self.round_end = self.snd_nxt;
        }
        begins
    }

    /// Evaluates what the ACK reports: progress, duplicates, reordering and the RTT.
    #[inline]
    fn take_news(&mut self, segment: &Segment, prior: &Prior, delivery: &mut Delivery, now: Time) -> News {
        let newly_acked = segment.ack.saturating_sub(prior.snd_una);
        self.snd_una = self.snd_una.max(segment.ack);
        self.break_burst();
        let reports_duplicate = segment.is_dsack && self.take_duplicate(segment, delivery, now);
        let is_duplicate = newly_acked == 0
            && segment.ack == prior.snd_una
            && segment.len == 0
            && !segment.flags.has(Flags::FIN)
            && !self.board.is_empty()
            && (prior.right_edge == self.peer.right_edge || segment.sack_count > 0);
        if is_duplicate {
            self.duplicate_acks += 1;
            self.count.duplicate_acks += 1;
        } else if newly_acked > 0 {
            self.duplicate_acks = 0;
        }
        if !self.stack.sack {
            delivery.delivered_segments = self.count_departures(is_duplicate, delivery.acked_segments);
            let whole = u64::from(delivery.delivered_segments) * u64::from(self.control.mss);
            delivery.delivered_bytes = match is_duplicate {
                true => whole,
                false => whole.min(delivery.delivered_bytes),
            };
        }
        if delivery.late_by > 0 {
            self.reordering.on_late(delivery.late_by, self.stack.reordering_limit);
        }
        let rtt = self.sample_rtt(segment, newly_acked, delivery, now);
        let round_start = self.begins_round();
        // Marks are counted in packets, of which each counts as a full segment (Linux `delivered_ce`).
        let mss = u64::from(self.control.mss);
        let delivered = u64::from(delivery.delivered_segments) * mss;
        let (is_marked, marked) = match self.stack.counts_marks() {
            true => {
                let packets = self.count_marks(segment, delivery.delivered_segments);
                (packets > 0, (packets * mss).min(delivered))
            }
            false => self.hear_echo(segment, newly_acked, delivered),
        };
        let is_dsack = segment.is_dsack;
        News { newly_acked, is_duplicate, reports_duplicate, rtt, round_start, is_marked, marked, is_dsack }
    }

    /// Whether a classic or DCTCP echo reports a mark, and for how many bytes.
    #[inline]
    fn hear_echo(&self, segment: &Segment, newly_acked: Bytes, delivered: Bytes) -> (bool, Bytes) {
        let is_marked = self.stack.speaks_ecn() && segment.flags.has(Flags::ECE);
        let marked = match is_marked {
            true if self.stack.accurate_echo => delivered,
            true => newly_acked.min(u64::from(self.control.mss)),
            false => 0,
        };
        (is_marked, marked)
    }

    /// AccECN: number of packets newly marked according to the ACE field (RFC 9768 section 3.2.2.5.2). If more than
    /// seven packets were delivered the counter may have wrapped. Then the largest count consistent with them is used:
    /// the RFC's safest case, and Linux's without byte counters (`__tcp_accecn_process`). An ACK that delivers nothing
    /// is skipped: it is outdated, or the next ACK repeats its count.
    fn count_marks(&mut self, segment: &Segment, delivered: u32) -> u64 {
        const MODULUS: u64 = ACE_MODULUS as u64;
        if delivered == 0 {
            return 0;
        }
        let delivered = u64::from(delivered);
        let known = ACE_START + self.trouble.marked_packets;
        let least = u64::from(segment.flags.ace()).wrapping_sub(known) % MODULUS;
        let packets = match delivered < MODULUS {
            true => least,
            false => delivered - (delivered - least) % MODULUS,
        };
        self.trouble.marked_packets += packets;
        packets
    }

    /// Detects losses and advances the recovery state; returns the result.
    #[inline]
    fn judge(
        &mut self,
        segment: &Segment,
        delivery: &Delivery,
        news: &News,
        now: Time,
        events: &mut Vec<CongestionEvent>,
    ) -> Verdict {
        let newly_acked = news.newly_acked;
        if self.stack.detection == Detection::Rack {
            let was_reducing = matches!(self.phase, Phase::Recovery | Phase::Cwr);
            let lost = self.step_by_rack(segment, delivery, news, now, events);
            let is_reducing = matches!(self.phase, Phase::Recovery | Phase::Cwr);
            return Verdict { lost, is_undone: false, was_reducing, is_reducing };
        }
        if self.phase == Phase::Recovery {
            // Fall & Floyd 1996: a partial ACK covers the original and its retransmission.
            self.trouble.pipe -= if newly_acked > 0 { 2 } else { 1 };
        }
        if self.is_in_frto() {
            self.judge_timeout(delivery, newly_acked, news.is_duplicate, now, events);
        }
        let was_reducing = matches!(self.phase, Phase::Recovery | Phase::Cwr);
        let lost = self.detect(now, newly_acked > 0);
        let is_undone = self.step_state(segment, newly_acked, lost, now, events);
        // After the state machine: an echo in the ACK that ends a reduction begins the next one (Linux
        // `tcp_try_to_open`).
        if news.is_marked && !is_undone {
            self.on_echo(now, events);
        }
        self.forget_retransmissions();
        let is_reducing = matches!(self.phase, Phase::Recovery | Phase::Cwr);
        Verdict { lost, is_undone, was_reducing, is_reducing }
    }

    /// The signals of this ACK for the algorithm, before loss detection and the recovery state.
    #[inline(always)]
    fn signals(&mut self, prior: &Prior, delivery: &Delivery, news: &News, now: Time) -> Ack {
        let rate = self.board.rate_sample(delivery, now, self.rtt.min());
        let is_cwnd_limited = self.is_cwnd_limited(prior.in_flight);
        Ack {
            now,
            mss: self.control.mss,
            newly_acked: news.newly_acked,
            newly_acked_segments: delivery.acked_segments,
            delivered_segments: delivery.delivered_segments,
            lost_segments: 0,
            marked: news.marked,
            rtt: news.rtt,
            rtt_read: self.read_rtt(news.rtt, delivery, now),
            rtt_min: self.rtt.min(),
            srtt: self.rtt.srtt(),
            in_flight: self.in_flight(),
            prior_in_flight: prior.in_flight,
            departs: self.pacing.next_at,
            delivery: rate.map(|sample| sample.delivery),
            delivered: self.board.delivered(),
            prior_delivered: rate.map_or(0, |sample| sample.prior_delivered),
            app_limited: rate.is_some_and(|sample| sample.app_limited),
            lost: self.board.lost(),
            is_delayed: self.may_be_delayed(news, delivery, rate.as_ref()),
            round_start: news.round_start,
            cwnd_limited: is_cwnd_limited,
            window_full: self.usage.is_full,
            may_grow: is_cwnd_limited && self.may_grow(delivery, news),
            phase: self.phase,
            counting: self.stack.counting,
            in_slow_start: self.is_in_slow_start(),
            stack_paces: self.stack.pacing,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        }
    }

    /// Linux `tcp_may_raise_cwnd`: whether the delivery allows growth, regardless of window and recovery state.
    #[inline(always)]
    fn may_grow(&self, delivery: &Delivery, news: &News) -> bool {
        self.makes_progress(news, delivery) || self.grows_on_sacks(delivery)
    }

    /// Updates `ack` with the result of loss detection.
    #[inline(always)]
    fn apply(&mut self, verdict: &Verdict, ack: &mut Ack) {
        // Linux up to 3.17 runs growth before the recovery state, so the ACK that ends recovery adds nothing.
        let grows_first = self.stack.counting == Counting::PerAck;
        ack.lost_segments = verdict.lost;
        ack.lost = self.board.lost();
        ack.in_flight = self.in_flight();
        ack.may_grow &= !(verdict.is_reducing || verdict.was_reducing && grows_first);
        // Linux `tcp_cong_avoid`: renews the window's time stamp whenever the growth rule runs, whether or not the
        // window is full.
        if ack.may_grow {
            self.usage.used_since = ack.now;
        }
        ack.may_grow &= ack.cwnd_limited;
        ack.phase = self.phase;
        ack.in_slow_start = self.is_in_slow_start();
    }

    fn sample_rtt(
        &mut self,
        segment: &Segment,
        newly_acked: Bytes,
        delivery: &Delivery,
        now: Time,
    ) -> Option<Duration> {
        let has_echo = self.stack.timestamps && newly_acked > 0 && segment.ts_ecr != Time::NEVER;
        if self.stack.clock_tick.is_zero() {
            // Linux `FLAG_ACKED`: an ACK that ends within a segment gives no RTT sample.
            let is_whole = delivery.acked_segments > 0;
            return self.sample_rtt_exactly((has_echo && is_whole).then_some(segment.ts_ecr), delivery, now);
        }
        // The older stacks prefer the echoed timestamp (RFC 7323).
        let estimate = has_echo.then(|| now.since(segment.ts_ecr)).or(delivery.rtt_first)?;
        let estimate = self.stack.quantise(estimate);
        self.rtt.on_sample(&self.stack, estimate, estimate, self.snd_una, self.snd_nxt);
        Some(estimate)
    }

    /// Linux since 4.x `tcp_ack_update_rtt`: prefers its own send times. If a retransmission is acknowledged, only the
    /// echoed timestamp is valid, in whole ticks; the algorithm receives it too.
    fn sample_rtt_exactly(&mut self, echo: Option<Time>, delivery: &Delivery, now: Time) -> Option<Duration> {
        let (first, last) = match delivery.acked_retransmission {
            true => (None, None),
            false => (delivery.rtt_first, delivery.rtt_last),
        };
        let (estimate, latest) = match (first.or(delivery.rtt_sack), echo) {
            (Some(estimate), _) => (estimate, delivery.rtt_sack_last.or(last)?),
            (None, Some(sent)) => {
                let sample = ticks_between(sent, now, self.stack.timestamp_tick);
                (sample, sample)
            }
            (None, None) => return None,
        };
        self.rtt.on_sample(&self.stack, estimate, latest, self.snd_una, self.snd_nxt);
        Some(latest)
    }

    /// Whether this ACK counts for growth. On Linux (`FLAG_DATA_ACKED`) it must acknowledge the end of a segment.
    #[inline]
    fn makes_progress(&self, news: &News, delivery: &Delivery) -> bool {
        match self.stack.counting {
            Counting::PerAck | Counting::PerSegment => delivery.acked_segments > 0,
            Counting::PerAckBytes | Counting::Bytes { .. } => news.newly_acked > 0,
        }
    }

    /// Linux `tcp_clean_rtx_queue`, `FLAG_ACK_MAYBE_DELAYED`: the ACK covers one segment shorter than the MSS, nothing
    /// else was delivered since that was sent, and neither SACK nor a mark made the receiver answer at once.
    #[inline]
    fn may_be_delayed(&self, news: &News, delivery: &Delivery, rate: Option<&RateSample>) -> bool {
        news.newly_acked < u64::from(self.control.mss)
            && delivery.acked_segments == 1
            && delivery.delivered_segments == 1
            && delivery.sacked_segments == 0
            && self.board.sacked_segments() == 0
            && !news.is_marked
            && !news.is_dsack
            && rate.is_some_and(|sample| self.board.delivered() - sample.prior_delivered == news.newly_acked)
    }

    /// Linux `tcp_may_raise_cwnd`.
    fn grows_on_sacks(&self, delivery: &Delivery) -> bool {
        delivery.sacked_segments > 0
            && self.stack.grow_on_sacks
            && self.reordering.degree > self.stack.duplicate_threshold
    }

    /// The RTT by the host's clock: with a tick, the number of ticks that began between sending and now.
    fn read_rtt(&self, sample: Option<Duration>, delivery: &Delivery, now: Time) -> Option<Duration> {
        let tick = self.stack.clock_tick;
        if tick.is_zero() {
            return sample;
        }
        let span = delivery.rtt_last.or(delivery.rtt_sack)?;
        let reading = |at: u64| at / tick.as_ps();
        let ticks = reading(now.as_ps()) - reading(now.as_ps().saturating_sub(span.as_ps()));
        Some(tick * ticks)
    }
}

/// Time between two instants by a clock with granularity `tick`: at least one tick.
fn ticks_between(from: Time, to: Time, tick: Duration) -> Duration {
    if tick.is_zero() {
        return to.since(from);
    }
    let reading = |at: Time| at.as_ps() / tick.as_ps();
    tick * (reading(to) - reading(from)).max(1)
}

#[cfg(test)]
mod tests;
