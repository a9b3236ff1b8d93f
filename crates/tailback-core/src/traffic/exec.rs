//! Real programs on the flow's two hosts. They need a kernel and a clock, so the simulator refuses them.

use super::Traits;
use crate::params::{Card, Checked, ParamSpec};
use crate::queue::outside;
use crate::scenario::{FlowSpec, Params, Scenario, ScenarioError};

/// The card. It stands in no list of the simulator's.
pub const CARD: Card = Card {
    name: "exec",
    title: "Programs",
    law: "runs the command line client at `from`, and server at `to`; only on a kernel (live, vm)",
    source: "the programs themselves",
    differs: &[],
    live_twin: None,
    params: &[
        ParamSpec::text("client", "Command line run at `from`, from start to stop."),
        ParamSpec::text("server", "Command line run at `to` before; empty: none."),
        ParamSpec::choice(
            "parse",
            &["none", "iperf3", "curl", "regex"],
            "What the client's output is read as, for figures.",
        ),
        ParamSpec::text("pattern", "For regex: named groups are figures."),
        ParamSpec::text("needs", "Further programs that must be installed, for scripts that call them."),
        ParamSpec::text(
            "files",
            "For guests: further files or folders that the programs read, relative to the scenario's.",
        ),
        ParamSpec::text(
            "collect",
            "Which files written to {dir} are kept, such as *.qlog; several with spaces between.",
        ),
        ParamSpec::whole("port", "", 0, (0, 65_535), "What {port} stands for; 0: one of the flow's own."),
        ParamSpec::number(
            "ready",
            "s",
            5.0,
            (0.0, 600.0),
            "How long the server may take to listen; 0: not waited for.",
        ),
        ParamSpec::number(
            "grace",
            "s",
            1.0,
            (0.0, 60.0),
            "From the request to end, at stop, to being killed.",
        ),
    ],
};

/// What users call it.
pub const PLAIN: &str = "Program (live and vm)";
/// What others must know of it.
pub const TRAITS: Traits = Traits::PROGRAMS;

/// The flow's programs, checked.
pub fn checked<'a>(params: &'a Params, field_path: &'a str) -> Result<Checked<'a>, ScenarioError> {
    let given = Checked::new(&CARD, params, field_path)?;
    if given.text("client").trim().is_empty() {
        return Err(given.refuse(
            "client",
            "there is no command line",
            "Give client = \"iperf3 -c {server_addr} …\"",
        ));
    }
    let has_pattern = !given.text("pattern").is_empty();
    if has_pattern != (given.choice("parse") == "regex") {
        let fix = "Give both parse = \"regex\" and a pattern, or neither";
        return Err(given.refuse("pattern", "a pattern and parse = \"regex\" go together", fix));
    }
    Ok(given)
}

/// Why the simulator does not run it.
pub fn refusal(field_path: &str) -> ScenarioError {
    ScenarioError {
        field: format!("{field_path}.kind"),
        value: format!("{:?}", CARD.name),
        problem: "real programs run only on a kernel, live or in a guest".into(),
        fix: "Run it with --engine live or vm. Nearest in the simulator: bulk for iperf3, web-probe for curl, ping for ping"
            .into(),
    }
}

/// The scenario with transfers in the place of programs, and models in that of kernels' queues: what of it can be checked
/// without running it.
pub fn stand_in(scenario: &Scenario) -> Result<Scenario, ScenarioError> {
    let mut scenario = scenario.clone();
    outside::stand_in(&mut scenario)?;
    for (number, flow) in scenario.flows.iter_mut().enumerate() {
        if flow.app.kind == CARD.name {
            let path = format!("flows[{number}]");
            runs_once(flow, &path)?;
            checked(&flow.app.params, &format!("{path}.app.params"))?;
            flow.app.kind = "bulk".into();
            flow.app.params.clear();
        }
    }
    Ok(scenario)
}

fn runs_once(flow: &FlowSpec, path: &str) -> Result<(), ScenarioError> {
    let turns = flow.tcp.as_ref().map_or(0, |tcp| tcp.cc_turns.len());
    let (field, count, problem) = if !flow.again.is_empty() {
        ("again", flow.again.len(), "programs run once")
    } else if turns > 0 {
        ("tcp.cc_turns", turns, "programs open their connections themselves, all with the flow's cc")
    } else {
        return Ok(());
    };
    Err(ScenarioError {
        field: format!("{path}.{field}"),
        value: format!("{count} more"),
        problem: problem.into(),
        fix: "Describe several flows.".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Value;

    fn params(pairs: &[(&str, &str)]) -> Params {
        pairs.iter().map(|(name, value)| (name.to_string(), Value::Name(value.to_string()))).collect()
    }

    #[test]
    fn a_client_is_needed_and_a_pattern_goes_with_regex() {
        let wrong = |pairs: &[(&str, &str)]| match checked(&params(pairs), "at") {
            Err(error) => error.field,
            Ok(_) => panic!("accepted"),
        };
        assert_eq!(wrong(&[]), "at.client");
        assert_eq!(wrong(&[("client", "x"), ("parse", "regex")]), "at.pattern");
        assert_eq!(wrong(&[("client", "x"), ("pattern", "(?P<a>1)")]), "at.pattern");
        assert_eq!(wrong(&[("client", "x"), ("parse", "jperf")]), "at.parse");
        assert_eq!(wrong(&[("client", "x"), ("sever", "y")]), "at.sever");
        assert!(checked(&params(&[("client", "x"), ("parse", "iperf3")]), "at").is_ok());
    }
}
