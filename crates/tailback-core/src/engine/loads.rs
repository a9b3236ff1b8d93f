//! Warns about links that are allowed but probably unintended: unresponsive applications offer more load than the link
//! carries.
//!
//! Only payload counts, so a link that headers alone overload is not reported. Traffic in a tunnel also loads the links
//! below it; links of one channel share its airtime.

use std::collections::BTreeMap;

use super::network::flow::Flow;
use crate::link::{Link, Server};
use crate::scenario::{LinkSpec, Scenario};

/// A warning for each link, or channel, that cannot carry the `loads` (bit/s) of the named links.
pub fn warnings(scenario: &Scenario, links: &[Link], flows: &[Flow], mut loads: Vec<f64>) -> Vec<String> {
    for (link, load) in loads.clone().into_iter().enumerate() {
        spread(link as u32, load, flows, &mut loads);
    }
    let mut shared: BTreeMap<u32, (Vec<&str>, f64, f64)> = BTreeMap::new();
    let mut said = Vec::new();
    for (number, spec) in scenario.links.iter().enumerate() {
        let (link, load) = (&links[number], loads[number]);
        let Some(capacity) = capacity(spec, link, scenario.duration_ps) else { continue };
        if let Server::Channel(channel) = link.server() {
            let (names, share, sum) = shared.entry(channel).or_default();
            names.extend((load > 0.0).then_some(spec.name.as_str()));
            *share += load / capacity;
            *sum += load;
        } else if load > capacity {
            said.push(format!(
                "link {}: applications that do not adapt offer {:.3} Mbit/s of payload on average, more than {} {:.3}",
                spec.name,
                load / 1e6,
                match (spec.rate_bps, spec.schedule.is_empty()) {
                    (Some(_), true) if !spec.framing.is_plain() => "what full packets get of it,",
                    (Some(_), true) => "its",
                    _ => "its average of",
                },
                capacity / 1e6
            ));
        }
    }
    for (names, share, sum) in shared.into_values().filter(|(_, share, _)| *share > 1.0) {
        said.push(format!(
            "channel of {}: applications that do not adapt offer {:.3} Mbit/s of payload on average, {:.0} % of what \
             full packets could get of its air without contention",
            names.join(", "),
            sum / 1e6,
            100.0 * share
        ));
    }
    said
}

/// Adds the load of a tunnel's link to the links on the route of its connection.
fn spread(link: u32, load: f64, flows: &[Flow], loads: &mut [f64]) {
    for flow in flows {
        for (carried, route) in flow.carried.iter().zip([&flow.route, &flow.back]) {
            if *carried == Some(link) {
                // Hidden links, which the scenario does not name, have no rate.
                for &below in route {
                    if let Some(sum) = loads.get_mut(below as usize) {
                        *sum += load;
                        spread(below, load, flows, loads);
                    }
                }
            }
        }
    }
}

/// Average capacity in bit/s of IP; `None`: unlimited, or determined by the links below.
fn capacity(spec: &LinkSpec, link: &Link, duration_ps: u64) -> Option<f64> {
    let Some(first) = spec.rate_bps else { return link.nominal().map(|rate| rate.as_bps() as f64) };
    let (mut bits, mut rate, mut since) = (0.0, first, 0);
    for step in spec.schedule.iter().filter(|step| step.at_ps < duration_ps) {
        bits += rate as f64 * (step.at_ps - since) as f64;
        (rate, since) = (step.rate_bps.unwrap_or(rate), step.at_ps);
    }
    let line = (bits + rate as f64 * (duration_ps - since) as f64) / duration_ps as f64;
    // The fraction that the framing leaves of any rate.
    Some(spec.ip_rate_bps().map_or(line, |rate| line * (rate as f64 / first as f64)))
}
