//! The list of queue disciplines. Adding one is a file, its `mod` line in `queue/mod.rs`, and a row below.
//!
//! The rows generate the state enum with its dispatch, the lookup by name, the cards that Python lists, and the tests
//! for every row (`tests/laws_queue.rs`).

use super::bands::Banded;
use super::{Backlog, Fate, QueueDiscipline, external, outside};
use crate::packet::{Acknowledgement, Packet};
use crate::params::{Card, Checked, unknown_name};
use crate::scenario::{FlowSpec, QueueSpec, ScenarioError};
use crate::time::{Rate, Time};

/// What a queue may know of its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Rate of the link it feeds, for defaults that scale with it; `None`: unknown.
    pub rate: Option<Rate>,
    /// Seed of the queue's own random choices.
    pub seed: u64,
    /// Name of the link.
    pub link: &'a str,
    /// Information beyond the link.
    pub context: Context<'a>,
}

/// Information for a queue beyond its link.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The scenario's flows, by number, for the hosts of a packet's flow.
    pub flows: &'a [FlowSpec],
    /// External disciplines.
    pub makers: &'a external::Makers,
}

impl Default for Context<'_> {
    fn default() -> Self {
        Context { flows: &[], makers: &external::NO_MAKERS }
    }
}

impl Surroundings<'_> {
    /// Surroundings of which only the seed is known.
    pub fn of_seed(seed: u64) -> Self {
        Surroundings { rate: None, seed, link: "", context: Context::default() }
    }
}

/// Properties of a discipline that other code needs, so that no code compares names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traits {
    /// Whether it may hold packets back while the link is free.
    pub is_shaper: bool,
    /// Unit that has a queue of its own: "flows", "hosts" or none.
    pub isolates: &'static str,
    /// Whether it drops at the head.
    pub drops_at_head: bool,
    /// Names of the kernel's disciplines that take the parameters of its card.
    pub kernels: &'static [&'static str],
}

impl Traits {
    /// A single line that drops arrivals, without a counterpart in a kernel.
    pub const NONE: Self = Traits { is_shaper: false, isolates: "", drops_at_head: false, kernels: &[] };
}

/// Requirements of a row beyond [`QueueDiscipline`]: its card, and a constructor from checked parameters.
pub trait Registered: QueueDiscipline + Sized {
    /// The card; its name is the registry name.
    const CARD: Card;
    /// Properties that other code needs.
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
            /// See [`super::outside`]. Not in the registry, because no simulation has it.
            Outside(super::outside::Outside),
            /// An external queue, see [`super::external`].
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
    fn is_peeked(&self) -> bool {
        each!(self, state => state.is_peeked())
    }
    fn rests_when_empty(&self) -> bool {
        each!(self, state => state.rests_when_empty())
    }
}

impl Queue {
    /// Whether it may hold packets back while the link is free.
    pub fn holds_back(&self) -> bool {
        match self {
            Queue::Hosted(own) => own.holds_back(),
            Queue::Cake(cake) => cake.shapes(),
            Queue::TokenBucket(_) => true,
            _ => self.bands().iter().any(Queue::holds_back),
        }
    }

    /// The queues of its bands; empty if it has no bands.
    pub fn bands(&self) -> &[Queue] {
        match self {
            Queue::Prio(prio) => prio.bands(),
            Queue::Drr(drr) => drr.bands(),
            _ => &[],
        }
    }
}

/// Combined operations for a link, each with a single dispatch on the discipline.
impl Queue {
    /// Enqueues `packet`; returns the backlog.
    #[inline]
    pub(crate) fn enqueue_reporting(&mut self, packet: Packet, now: Time, fate: &mut Fate) -> Backlog {
        each!(self, state => {
            state.enqueue(packet, now, fate);
            state.backlog()
        })
    }

    /// Dequeues a packet; returns it with the backlog.
    pub(crate) fn dequeue_reporting(&mut self, now: Time, fate: &mut Fate) -> (Option<Packet>, Backlog) {
        each!(self, state => {
            let next = state.dequeue(now, fate);
            (next, state.backlog())
        })
    }

    /// As [`Self::dequeue_reporting`], and puts the packet into service.
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

/// Every discipline's card with its traits, in registry order.
pub fn rows() -> impl Iterator<Item = (&'static Card, &'static Traits)> {
    CARDS.iter().zip(TRAITS)
}

/// Builds an empty queue from `spec` at `field_path` (such as `links[0].queue`). Its parameters are at
/// `field_path.params`, the inner queue at `field_path.inner`.
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
