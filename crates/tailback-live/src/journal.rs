//! A list that grows during a run and never moves its elements.
//!
//! A vector that is full doubles its memory and copies itself. At millions of packets that takes milliseconds, during
//! which no packet moves.

use std::ops::{Index, IndexMut};

/// Elements per block: small enough to allocate quickly.
const PIECE: usize = 1 << 11;

/// The list.
#[derive(Clone, Debug)]
pub struct Journal<T> {
    pieces: Vec<Vec<T>>,
    length: usize,
}

impl<T> Default for Journal<T> {
    fn default() -> Self {
        Journal { pieces: Vec::new(), length: 0 }
    }
}

impl<T> Journal<T> {
    /// Appends a value.
    pub fn push(&mut self, value: T) {
        if self.length % PIECE == 0 {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        self.pieces.last_mut().expect("just made if there was none").push(value);
        self.length += 1;
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The value at index `number`, if there is one.
    pub fn get(&self, number: usize) -> Option<&T> {
        self.pieces.get(number / PIECE)?.get(number % PIECE)
    }

    /// All values in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten()
    }
}

impl<T: Copy> Journal<T> {
    /// Appends copies of `value` until the list has `length` values.
    pub fn fill(&mut self, length: usize, value: T) {
        while self.length < length {
            self.push(value);
        }
    }
}

impl<T> Index<usize> for Journal<T> {
    type Output = T;

    fn index(&self, number: usize) -> &T {
        &self.pieces[number / PIECE][number % PIECE]
    }
}

impl<T> IndexMut<usize> for Journal<T> {
    fn index_mut(&mut self, number: usize) -> &mut T {
        &mut self.pieces[number / PIECE][number % PIECE]
    }
}

impl<T> IntoIterator for Journal<T> {
    type Item = T;
    type IntoIter = std::iter::Flatten<std::vec::IntoIter<Vec<T>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.pieces.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_a_vector_would_hold_and_never_moves_it() {
        let mut journal = Journal::default();
        assert!(journal.is_empty() && journal.get(0).is_none());
        journal.push(0);
        let first: *const usize = &journal[0];
        (1..3 * PIECE).for_each(|number| journal.push(number));
        journal.fill(3 * PIECE + 2, 7);
        journal[PIECE] = 5;
        let mut expected: Vec<usize> = (0..3 * PIECE).collect();
        expected.extend([7, 7]);
        expected[PIECE] = 5;
        assert_eq!(journal.len(), expected.len());
        assert!(journal.iter().eq(&expected));
        assert_eq!(journal.get(3 * PIECE + 2), None);
        assert!(std::ptr::eq(first, &journal[0]));
        assert!(journal.into_iter().eq(expected));
    }
}
