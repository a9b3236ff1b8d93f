//! Nothing of its own: the stack is smoltcp, the bench is `tests/transport.rs`.
