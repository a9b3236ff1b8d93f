//! Assigns each tunnel link to the connection that carries its packets, checked before time zero.

use std::collections::BTreeMap;

use super::network::flow::Flow;
use super::parts::refuse;
use crate::medium::registry::is_carried;
use crate::params::unknown_name;
use crate::scenario::{FlowSpec, LinkSpec, Scenario, ScenarioError};
use crate::traffic::registry as apps;

/// Whether this link is a direction of a tunnel. Reads its medium's card, so it works before routes are known.
pub fn is_tunnel(spec: &LinkSpec) -> bool {
    spec.medium.as_ref().is_some_and(|medium| is_carried(&medium.name))
}

/// Whether this flow's connection carries the packets of links.
pub fn carries_packets(flow: &FlowSpec) -> bool {
    apps::traits(&flow.app.kind).carries_packets
}

/// Assigns each tunnel's links to its connection.
pub fn join(scenario: &Scenario, flows: &mut [Flow]) -> Result<(), ScenarioError> {
    let names: Vec<&str> = scenario.flows.iter().map(|flow| flow.name.as_str()).collect();
    let mut carriers = BTreeMap::new();
    for (link, spec) in scenario.links.iter().enumerate().filter(|(_, spec)| is_tunnel(spec)) {
        let field = format!("links[{link}].medium.flow");
        let name = spec.medium.as_ref().and_then(|medium| medium.flow.as_deref()).unwrap_or_default();
        let Some(flow) = names.iter().position(|known| *known == name) else {
            return Err(unknown_name("flow", name, &field, &names));
        };
        let outer = &scenario.flows[flow];
        let wrong = |problem: String, fix: &str| Err(refuse(&field, format!("{name:?}"), problem, fix));
        if !carries_packets(outer) {
            return wrong(
                format!("application {} carries no packets", outer.app.kind),
                "Give that flow the application tunnel.",
            );
        }
        let side = match (&spec.from, &spec.to) {
            (from, to) if (from, to) == (&outer.from, &outer.to) => 0,
            (from, to) if (from, to) == (&outer.to, &outer.from) => 1,
            _ => {
                return wrong(
                    format!(
                        "the link does not join the ends of its connection, {} and {}",
                        outer.from, outer.to
                    ),
                    "Let the link begin and end where the flow does.",
                );
            }
        };
        if flows[flow].carried[side].replace(link as u32).is_some() {
            return wrong(
                "another link uses this direction of the connection already".into(),
                "Give each tunnel a connection of its own.",
            );
        }
        carriers.insert(link as u32, flow);
    }
    for (number, spec) in scenario.flows.iter().enumerate().filter(|(_, flow)| carries_packets(flow)) {
        if flows[number].carried == [None; 2] {
            return Err(refuse(
                format!("flows[{number}].app.kind"),
                format!("{:?}", spec.app.kind),
                "no link's packets travel in this connection",
                format!("Add a link of medium tunnel with flow = {:?}.", spec.name),
            ));
        }
        if is_inside(number, number, flows, &carriers, 0) {
            return Err(refuse(
                format!("flows[{number}].route"),
                format!("{:?}", spec.route),
                "the tunnel would carry its own connection",
                "Route the connection over links outside the tunnel.",
            ));
        }
    }
    Ok(())
}

/// Whether flow `number` travels in the connection of flow `goal`, directly or through further tunnels.
fn is_inside(
    number: usize,
    goal: usize,
    flows: &[Flow],
    carriers: &BTreeMap<u32, usize>,
    depth: usize,
) -> bool {
    let flow = &flows[number];
    let mut outer = flow.route.iter().chain(&flow.back).filter_map(|link| carriers.get(link));
    outer.any(|&carrier| {
        carrier == goal || depth < flows.len() && is_inside(carrier, goal, flows, carriers, depth + 1)
    })
}
