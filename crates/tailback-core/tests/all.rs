//! All tests of entire runs and of combined parts, in one program, so that it is linked only once.

mod bounds;
mod common;
#[path = "conversations/main.rs"]
mod conversations;
mod determinism;
mod external;
mod foreign;
mod golden;
mod laws_access;
mod laws_bands;
mod laws_cell;
mod laws_damage;
mod laws_ip;
mod laws_link;
mod laws_medium;
mod laws_pace;
mod laws_policer;
mod laws_queue;
mod laws_signals;
mod laws_stack;
mod laws_tcp;
mod laws_wifi;
mod media;
mod page;
mod registry;
mod tcp_liveness;
mod traffic;
mod tunnel;
