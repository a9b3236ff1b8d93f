//! The ocean fibre and the campus of Wu (2007).

use super::{Given, link};
use crate::node::Node;
use crate::problem::Fault;
use crate::table;

fn lossy(name: &str, ends: [&str; 2], rate: &str, delay: &str, queue: &Node, loss: f64) -> Node {
    let wire = table! { "loss" => loss };
    let more = table! { "rate" => rate, "delay" => delay, "queue" => queue.clone(), "wire" => wire };
    link(name, ends[0], ends[1], more)
}

pub(super) fn ocean(given: &Given) -> Result<Vec<Node>, Fault> {
    let queue = given.own_bdp("queue", 1_000_000_000, 100)?;
    Ok(vec![
        lossy("fibre", ["left", "right"], "1gbit", "50ms", &queue, 1e-6),
        lossy("fibre-back", ["right", "left"], "1gbit", "50ms", &queue, 1e-6),
    ])
}

pub(super) fn campus(given: &Given) -> Result<Vec<Node>, Fault> {
    let leased = given.own_bdp("leased_queue", 51_000_000, 100)?;
    let lan = given.own_bdp("queue", 1_000_000_000, 10)?;
    Ok(vec![
        lossy("leased", ["left", "campus"], "51mbit", "50ms", &leased, 1e-6),
        lossy("lan", ["campus", "right"], "1gbit", "5ms", &lan, 1e-7),
        lossy("lan-back", ["right", "campus"], "1gbit", "5ms", &lan, 1e-7),
        lossy("leased-back", ["campus", "left"], "51mbit", "50ms", &leased, 1e-6),
    ])
}
