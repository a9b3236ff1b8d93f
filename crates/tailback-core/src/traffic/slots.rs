//! Values with dense numbers, for the state that an application keeps per connection.

/// Values by number; the most recently released number is assigned next.
#[derive(Clone, Debug)]
pub struct Slots<T> {
    held: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { held: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Stores a value; returns its number.
    pub fn keep(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.held[number as usize] = Some(value);
                number
            }
            None => {
                self.held.push(Some(value));
                (self.held.len() - 1) as u32
            }
        }
    }
    /// The value of a number, if there is one.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.held.get_mut(number as usize)?.as_mut()
    }
    /// Releases a number.
    pub fn release(&mut self, number: u32) -> Option<T> {
        let value = self.held.get_mut(number as usize)?.take();
        if value.is_some() {
            self.free.push(number);
        }
        value
    }
    /// Number of stored values.
    pub fn len(&self) -> usize {
        self.held.len() - self.free.len()
    }
    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_dense() {
        let mut slots = Slots::default();
        assert_eq!([slots.keep('a'), slots.keep('b'), slots.keep('c')], [0, 1, 2]);
        assert_eq!(slots.release(1), Some('b'));
        assert_eq!(slots.release(1), None);
        assert_eq!((slots.len(), slots.get_mut(1)), (2, None));
        assert_eq!(slots.get_mut(9), None);
        assert_eq!(slots.keep('d'), 1);
    }
}
