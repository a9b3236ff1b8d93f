//! The schedule of wakes: an indexed 4-ary min-heap with at most one armed wake per element.
//!
//! An element (a link, a sender, an application) that waits for several events arms the earliest; later ones stay in
//! the element's own FIFO until their turn. So the size of the heap follows the size of the network, not the number of
//! packets in flight. Of wakes at equal times, the one armed first comes first.
//!
//! A few links are kept outside the heap, in a row: they wake for every packet, and scanning the row is faster than
//! sifting. All other elements are timers, which are many and mostly wait. The next wake is the earlier of the row's
//! minimum and the heap's top.
//!
//! The heap (Williams 1964; d-ary: Johnson 1975) keeps 16-byte records: time, then arming number and element in
//! one word, compared as one 128-bit number. Four children share a cache line.

use crate::time::Time;

/// Bits of the low word that hold the element: 4 million elements, and 4·10¹² armings.
const ELEMENT_BITS: u32 = 22;
const ELEMENT_MASK: u64 = (1 << ELEMENT_BITS) - 1;
/// Heap position of an element that is not armed.
const UNARMED: u32 = u32::MAX;
const ARITY: usize = 4;
/// With more links than this, all links go into the heap.
const LONGEST_ROW: usize = 8;

/// An armed wake: (time, arming number, element) in one comparable number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Wake {
    time: u64,
    order: u64,
}

impl Wake {
    /// No wake: later than all others.
    const NEVER: Wake = Wake { time: u64::MAX, order: u64::MAX };

    #[inline]
    fn new(time: Time, number: u64, element: u32) -> Self {
        Wake { time: time.as_ps(), order: (number << ELEMENT_BITS) | u64::from(element) }
    }
    #[inline]
    fn element(self) -> u32 {
        (self.order & ELEMENT_MASK) as u32
    }
    #[inline]
    fn key(self) -> u128 {
        (u128::from(self.time) << 64) | u128::from(self.order)
    }
}

/// The pending wakes of a network.
///
/// Intended loop: `peek`, let the element work, then `arm` it at its next wake or `disarm` it. That replaces the top of
/// the heap in place; popping first would sift twice.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    row: Row,
    heap: Heap,
    /// Number of armings so far.
    armed: u64,
}

impl Schedule {
    /// An empty schedule for elements 0..n, of which the first `links` wake often. Arming an element beyond n makes the
    /// schedule grow.
    pub fn new(links: usize, elements: usize) -> Self {
        let links = if links <= LONGEST_ROW { links } else { 0 };
        Schedule { row: Row::new(links), heap: Heap::new(links as u32, elements - links), armed: 0 }
    }

    /// Whether links are kept in the row, so that [`Self::next_timer`] never concerns a link.
    pub fn has_row(&self) -> bool {
        !self.row.wakes.is_empty()
    }

    /// Number of armed elements.
    pub fn len(&self) -> usize {
        self.row.wakes.iter().filter(|wake| **wake != Wake::NEVER).count() + self.heap.wakes.len()
    }

    /// Whether no element is armed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The earliest wake and its element.
    #[inline]
    pub fn peek(&self) -> Option<(Time, u32)> {
        let timer = self.heap.wakes.first().copied().unwrap_or(Wake::NEVER);
        let link = self.row.least();
        let top = if link.key() < timer.key() { link } else { timer };
        (top.time != u64::MAX).then(|| (Time::from_ps(top.time), top.element()))
    }

    /// The earliest wake in the heap.
    #[inline(always)]
    pub fn next_timer(&self) -> Time {
        self.heap.wakes.first().map_or(Time::NEVER, |wake| Time::from_ps(wake.time))
    }

    /// The earliest wake in the row, except that of `link`.
    #[inline(always)]
    pub fn next_link_but(&self, link: u32) -> Time {
        let others = self.row.wakes.iter().enumerate().filter(|(other, _)| *other != link as usize);
        Time::from_ps(others.map(|(_, wake)| wake.time).min().unwrap_or(u64::MAX))
    }

    /// Reserves an arming number, after all wakes armed now: see [`Self::arm_in`].
    #[inline(always)]
    pub fn take_place(&mut self) -> u64 {
        self.armed += 1;
        self.armed
    }

    /// Arms an element of the row as if it had been armed when `place` was reserved.
    pub fn arm_in(&mut self, place: u64, element: u32, time: Time) {
        assert!(place >> (64 - ELEMENT_BITS) == 0, "the schedule has run out of arming numbers");
        self.row.put(element as usize, Wake::new(time, place, element));
    }

    /// When `element` wakes, if it is armed.
    #[cfg(test)]
    fn armed_at(&self, element: u32) -> Option<Time> {
        if let Some(wake) = self.row.wakes.get(element as usize) {
            return (*wake != Wake::NEVER).then(|| Time::from_ps(wake.time));
        }
        self.heap.armed_at(element)
    }

    /// Arms `element` for `time`, replacing its armed wake. [`Time::NEVER`] disarms it. Rearmed for the same time, it
    /// keeps its order among equal times; for another time, it comes last among equals.
    #[inline(always)]
    pub fn arm(&mut self, element: u32, time: Time) {
        match self.row.wakes.get(element as usize) {
            // A link rarely moves its wake when a packet joins it.
            Some(wake) if wake.time == time.as_ps() => (),
            Some(_) if time == Time::NEVER => self.row.put(element as usize, Wake::NEVER),
            Some(_) => {
                let wake = self.number(time, element);
                self.row.put(element as usize, wake);
            }
            None => self.arm_timer(element, time),
        }
    }

    fn arm_timer(&mut self, element: u32, time: Time) {
        if time == Time::NEVER {
            return self.heap.disarm(element);
        }
        if self.heap.armed_at(element) != Some(time) {
            let wake = self.number(time, element);
            self.heap.arm(wake);
        }
    }

    /// A wake that comes after all wakes armed earlier for the same time.
    #[inline]
    fn number(&mut self, time: Time, element: u32) -> Wake {
        self.armed += 1;
        assert!(self.armed >> (64 - ELEMENT_BITS) == 0, "the schedule has run out of arming numbers");
        Wake::new(time, self.armed, element)
    }

    /// Disarms `element`.
    pub fn disarm(&mut self, element: u32) {
        match (element as usize) < self.row.wakes.len() {
            true => self.row.put(element as usize, Wake::NEVER),
            false => self.heap.disarm(element),
        }
    }

    /// Removes and returns the earliest wake.
    pub fn pop(&mut self) -> Option<(Time, u32)> {
        let (time, element) = self.peek()?;
        self.disarm(element);
        Some((time, element))
    }
}

/// Wakes of a few elements, indexed by element.
#[derive(Clone, Debug, Default)]
struct Row {
    wakes: Vec<Wake>,
}

impl Row {
    fn new(elements: usize) -> Self {
        Row { wakes: vec![Wake::NEVER; elements] }
    }

    /// Computed on demand: most armings move the wake that was the minimum.
    #[inline(always)]
    fn least(&self) -> Wake {
        let Some((first, others)) = self.wakes.split_first() else { return Wake::NEVER };
        let mut least = *first;
        for wake in others {
            if wake.key() < least.key() {
                least = *wake;
            }
        }
        least
    }

    #[inline(always)]
    fn put(&mut self, place: usize, wake: Wake) {
        self.wakes[place] = wake;
    }
}

/// The wakes of all elements outside the row.
#[derive(Clone, Debug, Default)]
struct Heap {
    wakes: Vec<Wake>,
    /// The lowest element that the heap may hold.
    first: u32,
    /// Index into `wakes` for each element from `first` on.
    position: Vec<u32>,
}

impl Heap {
    fn new(first: u32, elements: usize) -> Self {
        Heap { wakes: Vec::with_capacity(elements), first, position: vec![UNARMED; elements] }
    }

    #[inline]
    fn armed_at(&self, element: u32) -> Option<Time> {
        match self.position.get((element - self.first) as usize) {
            None | Some(&UNARMED) => None,
            Some(&at) => Some(Time::from_ps(self.wakes[at as usize].time)),
        }
    }

    /// Replaces the wake of an element, or adds one.
    #[inline]
    fn arm(&mut self, wake: Wake) {
        let place = (wake.element() - self.first) as usize;
        let at = match self.position.get(place) {
            Some(&at) => at,
            None => self.grow(place),
        };
        if at == UNARMED {
            self.wakes.push(wake);
            self.sift_up(self.wakes.len() - 1, wake);
            return;
        }
        let at = at as usize;
        if wake.time > self.wakes[at].time {
            self.sift_down(at, wake);
        } else {
            self.sift_up(at, wake);
        }
    }

    fn disarm(&mut self, element: u32) {
        let place = (element - self.first) as usize;
        let Some(&at) = self.position.get(place) else { return };
        if at != UNARMED {
            self.position[place] = UNARMED;
            self.remove_at(at as usize);
        }
    }

    #[cold]
    fn grow(&mut self, place: usize) -> u32 {
        let element = u64::from(self.first) + place as u64;
        assert!(element <= ELEMENT_MASK, "element {element} is beyond the schedule's 4 million");
        self.position.resize(place + 1, UNARMED);
        UNARMED
    }

    /// Fill the hole at `at` with the heap's last wake.
    fn remove_at(&mut self, at: usize) {
        let last = self.wakes.pop().expect("an armed element has a wake in the heap");
        if at == self.wakes.len() {
            return;
        }
        if at > 0 && last < self.wakes[(at - 1) / ARITY] {
            self.sift_up(at, last);
        } else {
            self.sift_down(at, last);
        }
    }

    /// Move the hole at `at` towards the top until `wake` fits in.
    #[inline]
    fn sift_up(&mut self, mut at: usize, wake: Wake) {
        let key = wake.key();
        while at > 0 {
            let parent = (at - 1) / ARITY;
            let above = self.wakes[parent];
            if above.key() < key {
                break;
            }
            self.put(at, above);
            at = parent;
        }
        self.put(at, wake);
    }

    /// Move the hole at `at` towards the bottom until `wake` fits in.
    #[inline]
    fn sift_down(&mut self, mut at: usize, wake: Wake) {
        let key = wake.key();
        loop {
            let first = at * ARITY + 1;
            let Some(children) = self.wakes.get(first..) else { break };
            let (mut least, mut least_key) = (0, u128::MAX);
            for (i, child) in children.iter().take(ARITY).enumerate() {
                if child.key() < least_key {
                    (least, least_key) = (i, child.key());
                }
            }
            if least_key > key {
                break;
            }
            let child = children[least];
            self.put(at, child);
            at = first + least;
        }
        self.put(at, wake);
    }

    #[inline]
    fn put(&mut self, at: usize, wake: Wake) {
        self.wakes[at] = wake;
        self.position[(wake.element() - self.first) as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Reference model: an ordered set of (time, arming number, element).
    #[derive(Default)]
    struct Plain {
        wakes: BTreeSet<(Time, u64, u32)>,
        of: BTreeMap<u32, (Time, u64)>,
        armed: u64,
    }

    impl Plain {
        fn arm(&mut self, element: u32, time: Time) {
            match self.of.get(&element) {
                Some(&(old, _)) if old == time => return,
                _ => self.disarm(element),
            }
            self.armed += 1;
            self.wakes.insert((time, self.armed, element));
            self.of.insert(element, (time, self.armed));
        }
        fn disarm(&mut self, element: u32) {
            if let Some((time, number)) = self.of.remove(&element) {
                self.wakes.remove(&(time, number, element));
            }
        }
        fn pop(&mut self) -> Option<(Time, u32)> {
            let (time, _, element) = self.wakes.pop_first()?;
            self.of.remove(&element);
            Some((time, element))
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arm(u32, u64),
        Disarm(u32),
        Pop,
        ReplaceTop(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            // Few distinct times: ties must be common.
            4 => (0u32..40, 0u64..30).prop_map(|(e, t)| Step::Arm(e, t)),
            1 => (0u32..45).prop_map(Step::Disarm),
            1 => Just(Step::Pop),
            3 => (0u64..5).prop_map(Step::ReplaceTop),
        ]
    }

    proptest! {
        #[test]
        fn does_what_an_ordered_set_does(links in 0usize..12, steps in prop::collection::vec(step(), 0..400)) {
            // Some elements stand in the row, some in the heap, most of them beyond what was announced.
            let mut schedule = Schedule::new(links, 8.max(links));
            let mut plain = Plain::default();
            for step in steps {
                match step {
                    Step::Arm(e, t) => {
                        schedule.arm(e, Time::from_ps(t));
                        plain.arm(e, Time::from_ps(t));
                    }
                    Step::Disarm(e) => {
                        schedule.disarm(e);
                        plain.disarm(e);
                    }
                    Step::Pop => prop_assert_eq!(schedule.pop(), plain.pop()),
                    Step::ReplaceTop(later) => {
                        if let Some((time, e)) = schedule.peek() {
                            let next = Time::from_ps(time.as_ps() + later);
                            schedule.arm(e, next);
                            plain.arm(e, next);
                        }
                    }
                }
                prop_assert_eq!(schedule.len(), plain.wakes.len());
                prop_assert_eq!(schedule.peek(), plain.wakes.first().map(|&(t, _, e)| (t, e)));
                for e in 0..45 {
                    prop_assert_eq!(schedule.armed_at(e), plain.of.get(&e).map(|&(t, _)| t));
                }
            }
            while let Some(wake) = plain.pop() {
                prop_assert_eq!(schedule.pop(), Some(wake));
            }
            prop_assert!(schedule.is_empty());
        }
    }

    #[test]
    fn ties_go_to_the_first_armed() {
        let mut schedule = Schedule::new(1, 3);
        let t = Time::from_us(5);
        schedule.arm(2, t);
        schedule.arm(0, t);
        schedule.arm(1, t);
        schedule.arm(2, t); // Same time: keeps its turn.
        schedule.arm(0, Time::from_us(4));
        schedule.arm(0, t); // Moved away and back: goes last.
        let order: Vec<u32> = std::iter::from_fn(|| schedule.pop()).map(|(_, e)| e).collect();
        assert_eq!(order, [2, 1, 0]);
    }

    #[test]
    fn never_is_not_armed() {
        let mut schedule = Schedule::new(0, 1);
        schedule.arm(0, Time::from_us(1));
        schedule.arm(0, Time::NEVER);
        schedule.arm(9, Time::NEVER);
        assert!(schedule.is_empty());
    }
}
