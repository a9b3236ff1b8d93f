//! This crate is empty: the stack is s2n-quic, and the bench is `tests/transport`.
