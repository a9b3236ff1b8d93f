//! Both twins, fed the same.

use tailback_core::cc::registry::{self, Algorithm};
use tailback_core::cc::{
    Ack, Congestion, CongestionControl, Control, Counting, DeliverySample, Phase, PhaseChange, Resume, Signal,
};
use tailback_core::rng::Stream;
use tailback_core::scenario::Params;
use tailback_core::time::{Duration, Time};

use crate::native::{Event, Given, Native};

pub const MSS: u32 = 1448;
/// The path: this many segments fill it, this many more its queue; a segment of queue is 1.2 ms.
pub const PIPE: u64 = 67;
pub const ROOM: u64 = 134;
const BASE: Duration = Duration::from_ms(80);
const SLOT: Duration = Duration::from_us(1200);
/// The seed of the Rust twin.
const SEED: u64 = 1;
/// After this the kernel takes the window back to what connections begin with.
const RESTART_AFTER: Duration = Duration::from_ms(1_000);
const INITIAL: u64 = 10;

/// What a round trip is like.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    /// Of a hundred ACKs, this many report a mark.
    pub marked_percent: u64,
    /// The application sends less than the window.
    pub is_starved: bool,
}

/// What a random algorithm wants of a throw.
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
    /// What the path takes longer now.
    pub extra: Duration,
    snd_una: u64,
    snd_nxt: u64,
    delivered: u64,
    delivered_at: Time,
    /// Bytes marked lost over the connection.
    lost_bytes: u64,
    phase: Phase,
    /// The Rust twin's random stream, a copy, and what it does with them.
    random: Stream,
    draws: Draws,
    /// Segments found lost, to be reported with the next ACK.
    lost: u32,
    /// The Rust twin is in a reduction it asked for, until this is acknowledged.
    pub reduces_until: Option<u64>,
    pub reductions: u32,
    round: Round,
    acks: u64,
}

impl Pair {
    /// `None` without clang.
    pub fn new(cc: &str) -> Option<Pair> {
        Native::build(cc).map(|native| Pair::of(cc, native))
    }

    /// Both from the beginning.
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

    /// Each of the Rust twin's own quantities beside the other's.
    pub fn internals(&self) -> Vec<(&'static str, f64, f64)> {
        let mut ours = Vec::new();
        self.rust.internals(&mut ours);
        ours.into_iter().zip(self.native.internals()).map(|((name, one), other)| (name, one, other)).collect()
    }

    /// What the path answers with now: its empty round trip and the queue this window leaves.
    fn rtt(&self) -> Duration {
        BASE + self.extra + SLOT * self.control.cwnd_segments().saturating_sub(PIPE)
    }

    /// Between a window's packets, in whole microseconds: finer the kernel's clock does not count.
    fn gap(&self, window: u64) -> Duration {
        Duration::from_us((self.rtt() / window).as_us())
    }

    /// One ACK that covers `covered` segments and newly delivers `delivered`.
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
        // What has been sent is not taken back when the window shrinks.
        self.snd_nxt = self.snd_nxt.max(self.snd_una + self.control.cwnd);
        let snd_nxt = self.snd_nxt;
        // Of a window's worth a round trip, the path lets through what fills it.
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
            // The kernel does not know of a reduction the twin makes by itself.
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

    /// Both twins draw the same numbers: where Rust backs off below a probability, C does from one minus it up.
    /// BBR draws one of seven instead, the highest bits of the product.
    fn share_draw(&self) {
        let mut next = self.random.clone();
        self.native.set_draw(match self.draws {
            Draws::Below(sides) => (((next.below(sides) << 32) + (1 << 31)) / sides) as u32,
            Draws::Real => ((1.0 - next.uniform()) * f64::from(u32::MAX)) as u32,
        });
    }

    /// The numbers that were drawn since are used up.
    fn count_draws(&mut self) {
        for _ in 0..self.native.taken() {
            match self.draws {
                Draws::Below(sides) => drop(self.random.below(sides)),
                Draws::Real => drop(self.random.uniform()),
            }
        }
    }

    /// The Rust twin's reduction is over when what was under way has been acknowledged; the other's is by itself.
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
        // The kernel completes CWR and then leaves it, but leaves Recovery first.
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

    /// The stack has brought both windows to where their algorithms wanted them, unless they do so themselves.
    fn land(&mut self) {
        if self.rust.owns_window() {
            return;
        }
        self.control.cwnd = self.control.ssthresh;
        self.native.set_cwnd(self.native.ssthresh());
    }

    /// A loss, and a recovery of one round trip that ends with the window at ssthresh.
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

    /// An ECN echo, and a reduction over one round trip.
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

    /// A timeout: everything is sent again, from a window of one segment.
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

    /// Nothing is sent for so long.
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

    /// A window's worth of ACKs.
    pub fn round(&mut self, round: Round, mut compare: impl FnMut(&Pair)) {
        self.round = round;
        let window = self.control.cwnd_segments();
        let gap = self.gap(window);
        for number in 0..(window / 2).max(1) {
            self.now += gap * 2;
            // Delayed ACKs, with one of a single segment among them.
            let covered = if number % 7 == 0 { 1 } else { 2 };
            self.ack(covered, covered);
            // During its own reduction a twin in BPF brings the window down as the stack does for the other.
            if self.reduces_until.is_none() {
                compare(self);
            }
        }
        self.round = Round::default();
    }
}
