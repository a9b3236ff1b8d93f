//! The list of queue disciplines. Adding one is a file, its `mod` line in `queue/mod.rs`, and a row below.
//!
//! From the rows come the state enum with its dispatch, the lookup by name, the cards Python lists, and the
//! tests every row inherits (`tests/laws_queue.rs`).

use super::bands::Banded;
use super::{Backlog, Fate, QueueDiscipline, external, outside};
use crate::packet::{Acknowledgement, Packet};
use crate::params::{Card, Checked, unknown_name};
use crate::scenario::{FlowSpec, QueueSpec, ScenarioError};
use crate::time::{Rate, Time};

/// Where a queue stands: what it may know of its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Rate of the link it feeds, for defaults that scale with it; `None`: unknown.
    pub rate: Option<Rate>,
    /// Seed of the queue's own random choices.
    pub seed: u64,
    /// Name of the link.
    pub link: &'a str,
    /// What is beyond the link.
    pub context: Context<'a>,
}

/// What a queue may know beyond its link.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The scenario's flows, by number: whose hosts a packet's flow joins.
    pub flows: &'a [FlowSpec],
    /// Disciplines of the caller's own.
    pub makers: &'a external::Makers,
}

impl Default for Context<'_> {
    fn default() -> Self {
        Context { flows: &[], makers: &external::NO_MAKERS }
    }
}

impl Surroundings<'_> {
    /// Only the seed is known.
    pub fn of_seed(seed: u64) -> Self {
        Surroundings { rate: None, seed, link: "", context: Context::default() }
    }
}

/// What others must know of a discipline, so that no code compares names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traits {
    /// Does it hold packets back although the link is free?
    pub is_shaper: bool,
    /// What has a queue of its own in it: "flows", "hosts" or nothing.
    pub isolates: &'static str,
    /// Does its law drop the packet that has waited longest?
    pub drops_at_head: bool,
    /// The kernel's disciplines that take the parameters of its card.
    pub kernels: &'static [&'static str],
}

impl Traits {
    /// One line of packets that drops arrivals; no kernel's takes its parameters.
    pub const NONE: Self = Traits { is_shaper: false, isolates: "", drops_at_head: false, kernels: &[] };
}

/// What a row needs beyond [`QueueDiscipline`]: its card, and how to make one from checked parameters.
pub trait Registered: QueueDiscipline + Sized {
    /// The card; its name is the registry name.
    const CARD: Card;
    /// What others must know of it.
    const TRAITS: Traits = Traits::NONE;
    /// An empty queue.
    fn new(given: &Checked<'_>, around: &Surroundings<'_>) -> Result<Self, ScenarioError>;
}

macro_rules! disciplines {
    ($($module:ident :: $Name:ident),+ $(,)?) => {
        /// Any registered queue discipline; calls dispatch by `match`.
        #[derive(Clone, Debug)]
        pub enum Queue {
            $(
                #[doc = concat!("See [`super::", stringify!($module), "`].")]
                $Name(super::$module::$Name),
            )+
            /// See [`super::outside`]: no row, for no simulation has it.
            Outside(super::outside::Outside),
            /// See [`super::external`]: the caller's own.
            Hosted(Box<external::Hosted>),
        }

        static CARDS: &[Card] = &[$(<super::$module::$Name as Registered>::CARD),+];
        static TRAITS: &[Traits] = &[$(<super::$module::$Name as Registered>::TRAITS),+];

        fn construct(row: usize, given: &Checked<'_>, around: &Surroundings<'_>) -> Result<Queue, ScenarioError> {
            type New = fn(&Checked<'_>, &Surroundings<'_>) -> Result<Queue, ScenarioError>;
            const NEW: &[New] = &[$(
                |given, around| <super::$module::$Name as Registered>::new(given, around).map(Queue::$Name)
            ),+];
            NEW[row](given, around)
        }

        macro_rules! each {
            ($queue:expr, $state:ident => $call:expr) => {
                match $queue {
                    $(Queue::$Name($state) => $call,)+
                    Queue::Outside($state) => $call,
                    Queue::Hosted($state) => $call,
                }
            };
        }
    };
}

disciplines! {
    fifo::Fifo,
    codel::Codel,
    fq_codel::FqCodel,
    pie::Pie,
    red::Red,
    dualpi2::DualPi2,
    sfq::Sfq,
    token_bucket::TokenBucket,
    cake::Cake,
    pfifo_fast::PfifoFast,
    fq_pie::FqPie,
    fq::Fq,
    prio::Prio,
    drr::Drr,
    choke::Choke,
}

impl QueueDiscipline for Queue {
    #[inline]
    fn enqueue(&mut self, packet: Packet, now: Time, fate: &mut Fate) {
        each!(self, state => state.enqueue(packet, now, fate))
    }
    #[inline]
    fn dequeue(&mut self, now: Time, fate: &mut Fate) -> Option<Packet> {
        each!(self, state => state.dequeue(now, fate))
    }
    #[inline]
    fn backlog(&self) -> Backlog {
        each!(self, state => state.backlog())
    }
    #[inline]
    fn ready_at(&self, now: Time) -> Option<Time> {
        each!(self, state => state.ready_at(now))
    }
    #[inline]
    fn head(&self) -> Option<&Packet> {
        each!(self, state => state.head())
    }
    #[inline]
    fn on_service(&mut self, bytes: u32) {
        each!(self, state => state.on_service(bytes))
    }
    #[inline]
    fn lets_pass(&self, packet: &Packet) -> bool {
        each!(self, state => state.lets_pass(packet))
    }
    fn reads_acks(&self) -> bool {
        each!(self, state => state.reads_acks())
    }
    fn show_ack(&mut self, packet: &Packet, ack: Acknowledgement) {
        each!(self, state => state.show_ack(packet, ack))
    }
    fn rests_when_empty(&self) -> bool {
        each!(self, state => state.rests_when_empty())
    }
}

impl Queue {
    /// Does it hold packets back although the link is free?
    pub fn holds_back(&self) -> bool {
        match self {
            Queue::Hosted(own) => own.holds_back(),
            Queue::Cake(cake) => cake.shapes(),
            Queue::TokenBucket(_) => true,
            _ => self.bands().iter().any(Queue::holds_back),
        }
    }

    /// The queues of its bands; none if it has no bands.
    pub fn bands(&self) -> &[Queue] {
        match self {
            Queue::Prio(prio) => prio.bands(),
            Queue::Drr(drr) => drr.bands(),
            _ => &[],
        }
    }
}

/// What a link asks for together is found out with one look at which discipline it is.
impl Queue {
    /// Enqueue; what is held then.
    #[inline]
    pub(crate) fn enqueue_reporting(&mut self, packet: Packet, now: Time, fate: &mut Fate) -> Backlog {
        each!(self, state => {
            state.enqueue(packet, now, fate);
            state.backlog()
        })
    }

    /// Dequeue; what is held then.
    pub(crate) fn dequeue_reporting(&mut self, now: Time, fate: &mut Fate) -> (Option<Packet>, Backlog) {
        each!(self, state => {
            let next = state.dequeue(now, fate);
            (next, state.backlog())
        })
    }

    /// As [`Self::dequeue_reporting`], and what it gives is in service from now on.
    #[inline(always)]
    pub(crate) fn dequeue_to_send(&mut self, now: Time, fate: &mut Fate) -> (Option<Packet>, Backlog) {
        each!(self, state => {
            let next = state.dequeue(now, fate);
            state.on_service(next.map_or(0, |packet| packet.bytes));
            (next, state.backlog())
        })
    }
}

/// Every discipline's card, in registry order.
pub fn cards() -> &'static [Card] {
    CARDS
}

/// Every discipline's card with what others must know of it, in registry order.
pub fn rows() -> impl Iterator<Item = (&'static Card, &'static Traits)> {
    CARDS.iter().zip(TRAITS)
}

/// An empty queue as `spec` at `field_path` (such as `links[0].queue`) describes it; its parameters are at
/// `field_path.params`, the queue inside it at `field_path.inner`.
pub fn build(spec: &QueueSpec, field_path: &str, around: &Surroundings<'_>) -> Result<Queue, ScenarioError> {
    let Some(row) = CARDS.iter().position(|card| card.name == spec.discipline) else {
        if let Some(own) = external::build(spec, field_path, around)? {
            return Ok(own);
        }
        if outside::of_kernel(&spec.discipline).is_some() {
            return Err(outside::refusal(&spec.discipline, &format!("{field_path}.discipline")));
        }
        let known: Vec<&str> = CARDS.iter().map(|card| card.name).collect();
        let at = format!("{field_path}.discipline");
        return Err(unknown_name("queue discipline", &spec.discipline, &at, &known));
    };
    let params_path = format!("{field_path}.params");
    let given = Checked::new(&CARDS[row], &spec.params, &params_path)?;
    let mut queue = construct(row, &given, around)?;
    if !spec.bands.is_empty() {
        match &mut queue {
            Queue::Prio(prio) => prio.fill(spec, field_path, &given, around)?,
            Queue::Drr(drr) => drr.fill(spec, field_path, &given, around)?,
            _ => {
                return Err(ScenarioError {
                    field: format!("{field_path}.bands"),
                    value: spec.bands.len().to_string(),
                    problem: format!("{} has no bands", spec.discipline),
                    fix: "Leave bands out, or make it the queue of a band of prio or drr".into(),
                });
            }
        }
    }
    if let Some(inner) = &spec.inner {
        let at = format!("{field_path}.inner");
        let refusal = |problem: &str, fix: &str| ScenarioError {
            field: at.clone(),
            value: format!("{:?}", inner.discipline),
            problem: problem.into(),
            fix: fix.into(),
        };
        let Queue::TokenBucket(bucket) = &mut queue else {
            let problem = format!("{} has no queue inside it", spec.discipline);
            return Err(refusal(
                &problem,
                "Leave inner out, or make this one the inner queue of a token_bucket",
            ));
        };
        if spec.params.contains_key("limit_bytes") {
            let problem = "the queue inside has a limit of its own, and so the bucket has none";
            return Err(given.refuse("limit_bytes", problem, "Give the limit to the inner queue"));
        }
        let inside = build(inner, &at, &Surroundings { rate: Some(bucket.rate()), ..*around })?;
        if matches!(inside, Queue::TokenBucket(_)) {
            let problem = "a token bucket inside another is not modelled";
            return Err(refusal(problem, "Give the slower one alone, or put them on two links"));
        }
        bucket.put_inside(inside);
    }
    Ok(queue)
}
