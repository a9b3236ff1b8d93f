//! Nothing of its own: the stack is s2n-quic, the bench is `tests/transport`.
