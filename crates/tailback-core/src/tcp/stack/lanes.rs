//! The lanes of TCP: shorter ways through the same law, which a stack's fields leave open or forbid.
//!
//! A field's row in `fields.rs` says what its value forbids, `free` where it forbids nothing. The ends ask once, when they
//! are made. What else a lane demands of the moment, its plain twin and the test that compares them: "Lanes" in
//! `ARCHITECTURE.md`.

/// What is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lanes {
    /// An ACK that can only bring progress is taken without asking what else it may say (`Sender::on_plain_news`).
    pub plain_acks: bool,
    /// Full segments in order change nothing but the window and when the next ACK leaves (`Receiver::take_steadily`).
    pub trains: bool,
    /// The receiver acknowledges what has arrived, once: segments that leave together say the same of it
    /// (`Endpoint::take_alike`).
    pub honest: bool,
}

/// Of a field that forbids no lane.
#[inline(always)]
pub fn free<T>(_: &T) -> Lanes {
    Lanes::ALL
}

impl Lanes {
    /// Everything is open.
    pub const ALL: Lanes = Lanes { plain_acks: true, trains: true, honest: true };

    /// Of a field that only decides about plain ACKs.
    pub fn plain_acks(is_open: bool) -> Lanes {
        Lanes { plain_acks: is_open, ..Lanes::ALL }
    }

    /// Of a field that only decides about trains.
    pub fn trains(is_open: bool) -> Lanes {
        Lanes { trains: is_open, ..Lanes::ALL }
    }

    /// Of a field by which a receiver may lie. A train is acknowledged honestly too.
    pub fn honest(is_open: bool) -> Lanes {
        Lanes { honest: is_open, trains: is_open, ..Lanes::ALL }
    }

    /// What both leave open.
    #[inline(always)]
    pub fn and(self, other: Lanes) -> Lanes {
        Lanes {
            plain_acks: self.plain_acks && other.plain_acks,
            trains: self.trains && other.trains,
            honest: self.honest && other.honest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Value;
    use crate::tcp::stack::Stack;

    fn with(name: &str, value: Value) -> Lanes {
        let mut stack = Stack::named("linux", "x").unwrap();
        stack.set(name, &value, "x").unwrap();
        stack.lanes()
    }

    #[test]
    fn todays_linux_takes_every_lane_and_one_field_closes_what_it_forbids() {
        let open = Stack::named("linux", "x").unwrap().lanes();
        assert_eq!(open, Lanes::ALL);
        assert_eq!(with("sack", Value::Flag(false)), Lanes { plain_acks: false, ..open });
        assert_eq!(with("gro_segments", Value::Number(17.0)), Lanes { trains: false, ..open });
        assert_eq!(with("ecn", Value::Flag(true)), Lanes { plain_acks: false, trains: false, ..open });
        assert_eq!(with("acks_ahead", Value::Number(2.0)), Lanes { trains: false, honest: false, ..open });
        assert_eq!(with("initial_window", Value::Number(3.0)), open);
    }
}
