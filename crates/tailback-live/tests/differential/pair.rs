//! The Rust and the BPF twin of an algorithm with the same input.

use tailback_core::cc::registry::{self, Algorithm};
use tailback_core::cc::{
    Ack, Congestion, CongestionControl, Control, Counting, DeliverySample, Phase, PhaseChange, Resume, Signal,
};
use tailback_core::rng::Stream;
use tailback_core::scenario::Params;
use tailback_core::time::{Duration, Time};

use crate::native::{Event, Given, Native};

pub const MSS: u32 = 1448;
/// The path holds this many segments, and its queue this many more; each queued segment adds 1.2 ms.
pub const PIPE: u64 = 67;
pub const ROOM: u64 = 134;
const BASE: Duration = Duration::from_ms(80);
const SLOT: Duration = Duration::from_us(1200);
/// The seed of the Rust twin.
const SEED: u64 = 1;
/// After an idle time of this length the kernel resets the window to the initial window.
const RESTART_AFTER: Duration = Duration::from_ms(1_000);
const INITIAL: u64 = 10;

/// Conditions during a round trip.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    /// Percentage of ACKs that report a mark.
    pub marked_percent: u64,
    /// Whether the sender is application-limited.
    pub is_starved: bool,
}

/// The kind of random number an algorithm draws.
#[derive(Clone, Copy, Debug)]
enum Draws {
    Real,
    Below(u64),
}

pub struct Pair {
    pub rust: Algorithm,
    pub control: Control,
    pub native: Native,
    now: Time,
    rtt_min: Duration,
    /// Current additional path delay.
    pub extra: Duration,
    snd_una: u64,
    snd_nxt: u64,
    delivered: u64,
    delivered_at: Time,
    /// Bytes marked lost over the connection.
    lost_bytes: u64,
    phase: Phase,
    /// A copy of the Rust twin's random stream, and the kind of number it draws.
    random: Stream,
    draws: Draws,
    /// Segments detected as lost, to be reported with the next ACK.
    lost: u32,
    /// Set while the Rust twin is in a reduction it requested: the reduction ends when this is acknowledged.
    pub reduces_until: Option<u64>,
    pub reductions: u32,
    round: Round,
    acks: u64,
}

impl Pair {
    /// Builds the BPF twin; `None` without clang.
    pub fn new(cc: &str) -> Option<Pair> {
        Native::build(cc).map(|native| Pair::of(cc, native))
    }

    /// Both twins in their initial state.
    pub fn of(cc: &str, native: Native) -> Pair {
        let control = Control {
            cwnd: INITIAL * u64::from(MSS),
            ssthresh: Control::UNLIMITED,
            pacing: None,
            mss: MSS,
            self_limited: false,
        };
        let rust = registry::build(cc, &Params::new(), "test", SEED).expect("built with defaults");
        let mut pair = Pair {
            rust,
            control,
            native,
            now: Time::from_ms(10_000),
            rtt_min: Duration::MAX,
            extra: Duration::ZERO,
            snd_una: 0,
            snd_nxt: 0,
            delivered: 0,
            delivered_at: Time::from_ms(10_000),
            lost_bytes: 0,
            phase: Phase::Open,
            random: Stream::named(SEED, cc),
            draws: if cc == "bbr" { Draws::Below(7) } else { Draws::Real },
            lost: 0,
            reduces_until: None,
            reductions: 0,
            round: Round::default(),
            acks: 0,
        };
        pair.native.begin(pair.now.as_us(), INITIAL as u32, MSS, BASE.as_us() as u32);
        pair.rust.on_established(pair.now, Some(BASE), &mut pair.control);
        pair
    }

    pub fn windows(&self) -> (u64, u64) {
        (self.control.cwnd_segments(), u64::from(self.native.cwnd()))
    }

    pub fn ssthreshes(&self) -> (u64, u64) {
        (self.control.ssthresh_segments(), u64::from(self.native.ssthresh()))
    }

    /// The Rust twin's internal quantities, each with the BPF twin's value.
    pub fn internals(&self) -> Vec<(&'static str, f64, f64)> {
        let mut ours = Vec::new();
        self.rust.internals(&mut ours);
        ours.into_iter().zip(self.native.internals()).map(|((name, one), other)| (name, one, other)).collect()
    }

    /// The current RTT: the base RTT plus the queueing delay that this window causes.
    fn rtt(&self) -> Duration {
        BASE + self.extra + SLOT * self.control.cwnd_segments().saturating_sub(PIPE)
    }

    /// Time between the packets of a window in whole microseconds, the resolution of the kernel's clock.
    fn gap(&self, window: u64) -> Duration {
        Duration::from_us((self.rtt() / window).as_us())
    }

    /// Delivers one ACK that covers `covered` segments and newly delivers `delivered`.
    fn ack(&mut self, covered: u32, delivered: u32) {
        let rtt = (covered > 0).then(|| self.rtt());
        self.acks += 1;
        let marked = if self.acks * 37 % 100 < self.round.marked_percent { delivered } else { 0 };
        self.snd_una += u64::from(covered) * u64::from(MSS);
        self.delivered += u64::from(delivered) * u64::from(MSS);
        self.delivered_at = self.now;
        if let Some(rtt) = rtt {
            self.rtt_min = self.rtt_min.min(rtt);
        }
        let is_growing = matches!(self.phase, Phase::Open | Phase::Disorder | Phase::Loss);
        let grows = covered > 0 && is_growing;
        let is_reducing_itself = self.reduces_until.is_some();
        let limited = !self.round.is_starved;
        let losses = std::mem::take(&mut self.lost);
        self.lost_bytes += u64::from(losses) * u64::from(MSS);
        let is_delayed = covered == 1 && self.acks % 3 == 0;
        // Data already sent is not withdrawn when the window shrinks.
        self.snd_nxt = self.snd_nxt.max(self.snd_una + self.control.cwnd);
        let snd_nxt = self.snd_nxt;
        // Of a window per round trip, the path delivers at most what it holds.
        let sampled = self.control.cwnd_segments().min(PIPE).min(self.delivered / u64::from(MSS));
        let prior_delivered = self.delivered - sampled * u64::from(MSS);
        let interval = self.rtt();
        let in_flight = snd_nxt - self.snd_una;
        let prior_in_flight = in_flight + u64::from(delivered) * u64::from(MSS);
        // Now and then pacing holds the next segment back.
        let wait_us = (self.delivered / u64::from(MSS) % 7) as u32 * 700;
        let mut ack = Ack {
            now: self.now,
            mss: MSS,
            newly_acked: u64::from(covered) * u64::from(MSS),
            newly_acked_segments: covered,
            delivered_segments: delivered,
            lost_segments: losses,
            marked: u64::from(marked) * u64::from(MSS),
            rtt,
            rtt_read: rtt,
            rtt_min: self.rtt_min,
            srtt: self.rtt(),
            in_flight,
            prior_in_flight,
            departs: self.now + Duration::from_us(wait_us.into()),
            delivery: Some(DeliverySample { bytes: sampled * u64::from(MSS), interval }),
            delivered: self.delivered,
            prior_delivered,
            app_limited: !limited,
            lost: self.lost_bytes,
            is_delayed,
            round_start: false,
            cwnd_limited: limited,
            window_full: limited,
            may_grow: grows && limited,
            phase: self.phase,
            counting: Counting::PerSegment,
            in_slow_start: self.control.cwnd < self.control.ssthresh,
            stack_paces: false,
            snd_una: self.snd_una,
            snd_nxt,
        };
        self.share_draw();
        self.rust.on_sample(&ack, &mut self.control);
        if self.end_reduction() {
            ack.phase = self.phase;
            ack.may_grow = covered > 0 && limited;
        }
        ack.in_slow_start = self.control.is_in_slow_start(false);
        self.rust.on_ack(&ack, &mut self.control);
        self.native.ack(&Given {
            now_us: self.now.as_us(),
            rtt_us: rtt.map_or(-1, |rtt| rtt.as_us() as i32),
            covered,
            delivered,
            marked,
            snd_una: self.snd_una as u32,
            snd_nxt: snd_nxt as u32,
            limited: u32::from(limited),
            // The kernel does not know of a reduction that the twin makes itself.
            grows: u32::from(grows || is_reducing_itself),
            sampled: sampled as u32,
            interval_us: interval.as_us() as u32,
            prior_delivered: (prior_delivered / u64::from(MSS)) as u32,
            losses,
            prior_in_flight: (prior_in_flight / u64::from(MSS)) as u32,
            wait_us,
            is_delayed: is_delayed.into(),
        });
        self.count_draws();
        if self.rust.wants_reduction() && self.phase == Phase::Open {
            self.rust.on_congestion(&self.congestion(Signal::Ecn), &mut self.control);
            self.reduces_until = Some(snd_nxt);
            self.reductions += 1;
            self.change_rust(Phase::Cwr);
        }
    }

    /// Makes both twins draw the same numbers: Rust backs off below a probability p, C above 1 − p. BBR instead draws
    /// one of seven, the highest bits of the product.
    fn share_draw(&self) {
        let mut next = self.random.clone();
        self.native.set_draw(match self.draws {
            Draws::Below(sides) => (((next.below(sides) << 32) + (1 << 31)) / sides) as u32,
            Draws::Real => ((1.0 - next.uniform()) * f64::from(u32::MAX)) as u32,
        });
    }

    /// Advances the stream by the numbers that were drawn since.
    fn count_draws(&mut self) {
        for _ in 0..self.native.taken() {
            match self.draws {
                Draws::Below(sides) => drop(self.random.below(sides)),
                Draws::Real => drop(self.random.uniform()),
            }
        }
    }

    /// Ends the Rust twin's reduction when the data in flight at its start has been acknowledged; the BPF twin ends its
    /// own.
    fn end_reduction(&mut self) -> bool {
        let is_over = self.reduces_until.is_some_and(|until| self.snd_una > until);
        if is_over {
            self.reduces_until = None;
            self.control.cwnd = self.control.ssthresh;
            self.change_rust(Phase::Open);
        }
        is_over
    }

    fn change(&mut self, to: Phase) {
        self.share_draw();
        let (from, now_us) = (self.phase, self.now.as_us());
        self.change_rust(to);
        // The kernel finishes CWR before leaving it, but leaves Recovery first.
        if from == Phase::Cwr && to == Phase::Open {
            self.native.event(now_us, Event::Complete);
        }
        self.native.state(now_us, to as u32);
        if from == Phase::Recovery && to == Phase::Open {
            self.native.event(now_us, Event::Complete);
        }
        self.count_draws();
    }

    fn change_rust(&mut self, to: Phase) {
        let change = PhaseChange {
            now: self.now,
            from: self.phase,
            to,
            completes: matches!(self.phase, Phase::Cwr | Phase::Recovery) && to < Phase::Cwr,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            srtt: self.rtt(),
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            lost: self.lost_bytes,
        };
        self.phase = to;
        self.rust.on_phase(&change, &mut self.control);
    }

    fn congestion(&self, signal: Signal) -> Congestion {
        Congestion {
            now: self.now,
            signal,
            mss: MSS,
            in_flight: self.control.cwnd,
            send_window: u64::MAX / 8,
            srtt: self.rtt(),
            rtt_min: self.rtt_min,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        }
    }

    fn set_window(&mut self, segments: u64) {
        self.control.cwnd = segments * u64::from(MSS);
        self.native.set_cwnd(segments as u32);
    }

    /// Sets both windows to the target, as the stack does for algorithms that do not do so themselves.
    fn land(&mut self) {
        if self.rust.owns_window() {
            return;
        }
        self.control.cwnd = self.control.ssthresh;
        self.native.set_cwnd(self.native.ssthresh());
    }

    /// A loss, followed by a one-RTT recovery that ends with the window at ssthresh.
    pub fn lose(&mut self) {
        let window = self.control.cwnd_segments();
        let gap = self.gap(window);
        self.rust.on_congestion(&self.congestion(Signal::Loss), &mut self.control);
        self.native.congestion(self.now.as_us());
        self.lost = 1 + (self.acks % 20) as u32;
        self.change(Phase::Recovery);
        for _ in 1..window {
            self.now += gap;
            self.ack(0, 1);
        }
        self.now += gap;
        self.ack(window as u32, 1);
        self.land();
        self.change(Phase::Open);
    }

    /// An ECN echo, followed by a one-RTT reduction.
    pub fn hear_of_mark(&mut self) {
        let window = self.control.cwnd_segments();
        let gap = self.gap(window);
        self.rust.on_congestion(&self.congestion(Signal::Ecn), &mut self.control);
        self.native.congestion(self.now.as_us());
        self.change(Phase::Cwr);
        for _ in 0..window {
            self.now += gap;
            self.ack(1, 1);
        }
        self.land();
        self.change(Phase::Open);
    }

    /// A timeout: everything is retransmitted, starting with a window of one segment.
    pub fn time_out(&mut self) {
        let lost = self.control.cwnd_segments();
        self.now += Duration::from_ms(300);
        self.rust.on_congestion(&self.congestion(Signal::Timeout { first: true }), &mut self.control);
        self.native.congestion(self.now.as_us());
        self.native.event(self.now.as_us(), Event::Loss);
        self.set_window(1);
        self.lost_bytes += lost * u64::from(MSS);
        self.native.lost(lost as u32);
        self.change(Phase::Loss);
        let gap = self.gap(lost);
        for _ in 0..lost {
            self.now += gap;
            self.ack(1, 1);
        }
        self.change(Phase::Open);
    }

    /// Sends nothing for `idle`.
    pub fn rest(&mut self, idle: Duration) {
        self.now += idle;
        let now_us = self.now.as_us();
        self.native.idle(now_us, idle.as_us());
        if idle > RESTART_AFTER && !self.rust.owns_window() {
            self.rust.on_idle_restart(self.now, idle, &mut self.control);
            self.native.event(now_us, Event::Restart);
            self.set_window(self.control.cwnd_segments().min(INITIAL));
        }
        self.share_draw();
        self.rust.on_resume(
            &Resume { now: self.now, idle, app_limited: true, snd_nxt: self.snd_nxt },
            &mut self.control,
        );
        self.native.event(now_us, Event::Resume);
        self.count_draws();
    }

    /// Delivers the ACKs of one window.
    pub fn round(&mut self, round: Round, mut compare: impl FnMut(&Pair)) {
        self.round = round;
        let window = self.control.cwnd_segments();
        let gap = self.gap(window);
        for number in 0..(window / 2).max(1) {
            self.now += gap * 2;
            // Delayed ACKs; every seventh covers a single segment.
            let covered = if number % 7 == 0 { 1 } else { 2 };
            self.ack(covered, covered);
            // During its own reduction a BPF twin lowers the window as the stack does for the Rust twin.
            if self.reduces_until.is_none() {
                compare(self);
            }
        }
        self.round = Round::default();
    }
}
