//! Real programs on the flow's two hosts. They need a kernel and a clock, so the simulator refuses them.

use std::collections::BTreeMap;

use super::Traits;
use crate::params::{Card, Checked, ParamSpec};
use crate::queue::outside;
use crate::scenario::{AppSpec, FlowSpec, Params, Scenario, ScenarioError, Value};

/// The card. It is not in the simulator's lists.
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
            "How long the server may take to be ready; 0: not waited for.",
        ),
        ParamSpec::text(
            "ready_by",
            "What says that the server is ready: port (it listens on {port}; the default), file:NAME (a file in {dir}) \
             or line:TEXT (a line of its output with this in it).",
        ),
        ParamSpec::text(
            "after",
            "Flows of programs, with spaces between: the server starts once those of these flows are ready; with NAME.client \
             the client starts once that flow's client has ended.",
        ),
        ParamSpec::number(
            "grace",
            "s",
            1.0,
            (0.0, 60.0),
            "From the request to end, at stop, to being killed.",
        ),
        ParamSpec::text(
            STATUS[0],
            "With which statuses the client may end by itself, such as 3 or \"0 3\"; 128 and a signal's number for a signal. \
             Default: 0.",
        ),
        ParamSpec::text(STATUS[1], "The same for the server."),
    ],
};

/// Parameters with the accepted exit statuses of the client and of the server.
pub const STATUS: [&str; 2] = ["status", "server_status"];

/// Sign that a server is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The server listens on its port.
    Port,
    /// The server has written this file in its folder.
    File(String),
    /// A line of the server's output contains this text.
    Line(String),
}

/// A dependency on another flow, by its number, for the start of a flow's own programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The flow's server starts once that flow's server is ready.
    Server(usize),
    /// The flow's client starts once that flow's client has ended.
    Client(usize),
}

/// Name for display.
pub const PLAIN: &str = "Program (live and vm)";
/// Traits of the application.
pub const TRAITS: Traits = Traits::PROGRAMS;

/// Checks the flow's programs.
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
    readiness(&given)?;
    for name in STATUS {
        statuses(&given, name)?;
    }
    Ok(given)
}

/// The exit statuses with which a program succeeds, by the name of its parameter ([`STATUS`]).
pub fn statuses(given: &Checked<'_>, name: &str) -> Result<Vec<u8>, ScenarioError> {
    let words: Vec<&str> = given.text(name).split_whitespace().collect();
    let read = |word: &&str| {
        word.parse().map_err(|_| {
            let problem = format!("{word} is no exit status");
            given.refuse(name, &problem, "Give whole numbers from 0 to 255, with spaces between: \"0 3\"")
        })
    };
    if words.is_empty() { Ok(vec![0]) } else { words.iter().map(read).collect() }
}

/// The sign that the flow's server is ready.
pub fn readiness(given: &Checked<'_>) -> Result<Readiness, ScenarioError> {
    match given.text("ready_by").split_once(':') {
        Some(("file", name)) if !name.is_empty() && !name.contains("..") => Ok(Readiness::File(name.into())),
        Some(("line", text)) if !text.is_empty() => Ok(Readiness::Line(text.into())),
        None if ["", "port"].contains(&given.text("ready_by")) => Ok(Readiness::Port),
        _ => Err(given.refuse(
            "ready_by",
            "it is none of the signs of a server",
            "Give port, file:NAME of a file below {dir}, or line:TEXT",
        )),
    }
}

/// The flows for which the programs of flow `number` wait.
pub fn after(scenario: &Scenario, number: usize) -> Result<Vec<After>, ScenarioError> {
    let path = format!("flows[{number}].app.params");
    let given = Checked::new(&CARD, &scenario.flows[number].app.params, &path)?;
    let flow = |name: &str| scenario.flows.iter().position(|flow| flow.name == name);
    let one = |name: &str| {
        let client = || name.strip_suffix(".client").and_then(flow).map(After::Client);
        let found = flow(name).map(After::Server).or_else(client);
        let of = found.map(|(After::Server(flow) | After::Client(flow))| &scenario.flows[flow].app);
        let has_server =
            |app: &AppSpec| matches!(app.params.get("server"), Some(Value::Name(line)) if !line.is_empty());
        let problem = match (found, of) {
            (None, _) | (_, None) => format!("there is no flow {name}"),
            (_, Some(app)) if app.kind != CARD.name => format!("flow {name} runs no programs"),
            (Some(After::Server(_)), Some(app)) if !has_server(app) => format!("flow {name} has no server"),
            (Some(found), _) => return Ok(found),
        };
        let known =
            scenario.flows.iter().filter(|flow| flow.app.kind == CARD.name).map(|flow| flow.name.as_str());
        let known: Vec<&str> = known.collect();
        let fix = format!("Give a flow of programs ({}), or one of them with .client", known.join(", "));
        Err(given.refuse("after", &problem, &fix))
    };
    given.text("after").split_whitespace().map(one).collect()
}

/// An error if programs wait for each other in a cycle.
fn have_an_order(scenario: &Scenario) -> Result<(), ScenarioError> {
    let programs = |number: &usize| scenario.flows[*number].app.kind == CARD.name;
    let mut waits = BTreeMap::new();
    for number in (0..scenario.flows.len()).filter(programs) {
        waits.insert(number, after(scenario, number)?);
    }
    // Servers wait for servers and clients for clients, so there are two orders.
    type Choose = fn(&After) -> Option<usize>;
    let orders: [Choose; 2] = [
        |it| if let After::Server(flow) = it { Some(*flow) } else { None },
        |it| if let After::Client(flow) = it { Some(*flow) } else { None },
    ];
    for choose in orders {
        let mut left: BTreeMap<usize, Vec<usize>> =
            waits.iter().map(|(flow, all)| (*flow, all.iter().filter_map(choose).collect())).collect();
        while let Some(free) = left.iter().find(|(_, of)| !of.iter().any(|it| left.contains_key(it))) {
            let free = *free.0;
            left.remove(&free);
        }
        if let Some(number) = left.keys().next() {
            let names: Vec<&str> = left.keys().map(|flow| scenario.flows[*flow].name.as_str()).collect();
            let path = format!("flows[{number}].app.params");
            let given = Checked::new(&CARD, &scenario.flows[*number].app.params, &path)?;
            let problem = format!("{} wait for one another", names.join(", "));
            return Err(given.refuse("after", &problem, "Leave one of them without"));
        }
    }
    Ok(())
}

/// The error for a simulation of real programs.
pub fn refusal(field_path: &str) -> ScenarioError {
    ScenarioError {
        field: format!("{field_path}.kind"),
        value: format!("{:?}", CARD.name),
        problem: "real programs run only on a kernel, live or in a guest".into(),
        fix: "Run it with --engine live or vm. Nearest in the simulator: bulk for iperf3, web-probe for curl, ping for ping"
            .into(),
    }
}

/// Replaces programs by transfers and kernels' queues by their models, to check as much of the scenario as possible
/// without running it.
pub fn stand_in(scenario: &Scenario) -> Result<Scenario, ScenarioError> {
    let mut scenario = scenario.clone();
    outside::stand_in(&mut scenario)?;
    have_an_order(&scenario)?;
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
    use crate::scenario::{Instruments, IpVersion, Randomness};

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

    fn scenario(flows: &[(&str, &[(&str, &str)])]) -> Scenario {
        let flow = |(name, given): &(&str, &[(&str, &str)])| FlowSpec {
            name: (*name).into(),
            from: "a".into(),
            to: "b".into(),
            route: Vec::new(),
            back_route: Vec::new(),
            start_ps: 0,
            stop_ps: None,
            again: Vec::new(),
            app: AppSpec { kind: CARD.name.into(), params: params(given) },
            tcp: None,
            ip: IpVersion::V4,
        };
        Scenario {
            format: 1,
            name: "test".into(),
            seed: 1,
            duration_ps: 1,
            nodes: Vec::new(),
            links: Vec::new(),
            flows: flows.iter().map(flow).collect(),
            randomness: Randomness::default(),
            instruments: Instruments::default(),
        }
    }

    #[test]
    fn a_server_is_ready_by_one_of_three_signs() {
        let by = |text: &str| {
            let params = params(&[("client", "x"), ("ready_by", text)]);
            checked(&params, "at").and_then(|given| readiness(&given))
        };
        assert_eq!(by("port").unwrap(), Readiness::Port);
        assert_eq!(by("file:a/up").unwrap(), Readiness::File("a/up".into()));
        assert_eq!(by("line:on: 5").unwrap(), Readiness::Line("on: 5".into()));
        for wrong in ["file:", "file:../x", "line:", "sleep", "prot"] {
            assert_eq!(by(wrong).unwrap_err().field, "at.ready_by", "{wrong}");
        }
    }

    #[test]
    fn exit_statuses_are_bytes_with_spaces_between() {
        let of = |text: &str| {
            let params = params(&[("client", "x"), ("server_status", text)]);
            checked(&params, "at").and_then(|given| statuses(&given, "server_status"))
        };
        assert_eq!(of("").unwrap(), [0]);
        assert_eq!(of("0 3  255").unwrap(), [0, 3, 255]);
        for wrong in ["256", "-1", "0,3", "3.0", "any"] {
            let error = of(wrong).unwrap_err();
            assert_eq!(
                (error.field.as_str(), error.value.contains(wrong)),
                ("at.server_status", true),
                "{wrong}"
            );
        }
    }

    #[test]
    fn programs_wait_for_others_and_never_for_one_another() {
        let served: &[(&str, &str)] = &[("client", "x"), ("server", "y")];
        let behind: &[(&str, &str)] = &[("client", "x"), ("server", "y"), ("after", "one one.client")];
        let found = scenario(&[("one", served), ("two", behind)]);
        assert_eq!(after(&found, 1).unwrap(), [After::Server(0), After::Client(0)]);
        assert!(have_an_order(&found).is_ok());
        let problem =
            |flows: &[(&str, &[(&str, &str)])]| have_an_order(&scenario(flows)).unwrap_err().problem;
        assert!(problem(&[("two", behind)]).contains("no flow one"));
        assert!(problem(&[("one", &[("client", "x")]), ("two", behind)]).contains("has no server"));
        let crossed: &[(&str, &str)] = &[("client", "x"), ("server", "y"), ("after", "two")];
        assert!(problem(&[("one", crossed), ("two", behind)]).contains("one, two wait for one another"));
        // A server may wait for a flow whose client waits for this one's.
        let turned: &[(&str, &str)] = &[("client", "x"), ("server", "y"), ("after", "two.client")];
        let other: &[(&str, &str)] = &[("client", "x"), ("server", "y"), ("after", "one")];
        assert!(have_an_order(&scenario(&[("one", turned), ("two", other)])).is_ok());
    }
}
