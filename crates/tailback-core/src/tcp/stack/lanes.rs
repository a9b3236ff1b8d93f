//! Lanes: fast paths through TCP with the same results. Values of a stack's fields may rule them out.
//!
//! The row of a field in `fields.rs` states what its value rules out; `free` rules out nothing. Each end checks once,
//! when it is created. "Lanes" in `ARCHITECTURE.md` lists the further conditions of each lane, its reference
//! implementation and the test that compares them.

/// The lanes that may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lanes {
    /// ACKs that can only report progress take a short path (`Sender::on_plain_news`).
    pub plain_acks: bool,
    /// Full segments in order change only the window and the time of the next ACK (`Receiver::take_steadily`).
    pub trains: bool,
    /// The receiver acknowledges what has arrived, once, so segments that leave together carry the same acknowledgement
    /// (`Endpoint::take_alike`).
    pub honest: bool,
}

/// For a field that rules out no lane.
#[inline(always)]
pub fn free<T>(_: &T) -> Lanes {
    Lanes::ALL
}

impl Lanes {
    /// Every lane may be used.
    pub const ALL: Lanes = Lanes { plain_acks: true, trains: true, honest: true };

    /// For a field that may rule out only the lane for plain ACKs.
    pub fn plain_acks(is_open: bool) -> Lanes {
        Lanes { plain_acks: is_open, ..Lanes::ALL }
    }

    /// For a field that may rule out only trains.
    pub fn trains(is_open: bool) -> Lanes {
        Lanes { trains: is_open, ..Lanes::ALL }
    }

    /// For a field that can make a receiver misbehave. Such a receiver cannot use trains either.
    pub fn honest(is_open: bool) -> Lanes {
        Lanes { honest: is_open, trains: is_open, ..Lanes::ALL }
    }

    /// The lanes that both leave open.
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
