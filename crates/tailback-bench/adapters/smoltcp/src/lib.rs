//! This crate is empty: the stack is smoltcp, and the bench is `tests/transport.rs`.
