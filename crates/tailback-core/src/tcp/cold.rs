//! State needed only during loss recovery and the like, kept apart from what every segment touches.
//!
//! An end that was never disturbed does not allocate this state, and an end that has recovered does not touch it. With
//! ten thousand ends the memory that they touch limits the speed.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// State with a default value that applies while nothing is wrong.
pub trait AtRest: Clone + PartialEq + fmt::Debug + 'static {
    /// The default value, shared by all instances.
    fn at_rest() -> &'static Self;
}

/// A `T` that is allocated at the first write. At rest, reads return the shared default.
#[derive(Clone)]
pub struct ColdState<T> {
    held: Option<Box<T>>,
    /// Allocation kept for reuse; its content is the default.
    spare: Option<Box<T>>,
}

impl<T> Default for ColdState<T> {
    fn default() -> Self {
        ColdState { held: None, spare: None }
    }
}

impl<T: AtRest> ColdState<T> {
    /// Whether the state equals [`AtRest::at_rest`].
    #[inline(always)]
    pub fn is_at_rest(&self) -> bool {
        self.held.is_none()
    }

    /// Returns to rest and keeps the allocation. The content must already equal the default.
    pub fn rest(&mut self) {
        debug_assert!(**self == *T::at_rest(), "not at rest: {self:?}");
        self.spare = self.held.take();
    }
}

impl<T: AtRest> Deref for ColdState<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        self.held.as_deref().unwrap_or_else(|| T::at_rest())
    }
}

impl<T: AtRest> DerefMut for ColdState<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        self.held.get_or_insert_with(|| woken(&mut self.spare))
    }
}

#[cold]
fn woken<T: AtRest>(spare: &mut Option<Box<T>>) -> Box<T> {
    spare.take().unwrap_or_else(|| Box::new(T::at_rest().clone()))
}

impl<T: AtRest> fmt::Debug for ColdState<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, Debug)]
    struct Count(u32);

    impl AtRest for Count {
        fn at_rest() -> &'static Self {
            static AT_REST: Count = Count(7);
            &AT_REST
        }
    }

    #[test]
    fn is_made_by_the_first_write_and_shared_until_then() {
        let mut count = ColdState::<Count>::default();
        assert!(count.0 == 7 && count.held.is_none());
        count.0 += 1;
        assert!(count.0 == 8 && !count.is_at_rest());
        count.0 = 7;
        count.rest();
        assert!(count.is_at_rest() && count.spare.is_some() && format!("{count:?}") == "Count(7)");
        count.0 += 2;
        assert!(count.0 == 9 && count.spare.is_none());
    }
}
