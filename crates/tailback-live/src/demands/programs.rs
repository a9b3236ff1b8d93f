//! What a flow of programs needs: installed programs, placeholders with a value, and the routes and buffers of their
//! hosts.

use tailback_core::engine::switches;
use tailback_core::params::Checked;
use tailback_core::scenario::{FlowSpec, Scenario, TcpSpec};
use tailback_core::traffic::exec;

use super::{Manner, Plan, Work, ends, stack, turns};
use crate::applications::TcpPlan;
use crate::error::LiveError;
use crate::programs::{self, ProgramPlan, words};

/// Default of `{port}`: this plus the flow's number.
const OWN_PORTS: u16 = 5001;

/// Plans a flow of programs; returns its largest packet.
pub fn plan(
    plan: &mut Plan,
    scenario: &Scenario,
    number: usize,
    flow: &FlowSpec,
    manner: &Manner<'_>,
) -> Result<u32, LiveError> {
    let path = format!("flows[{number}]");
    let params_path = format!("{path}.app.params");
    let given = exec::checked(&flow.app.params, &params_path)?;
    let spec = flow.tcp.as_ref().expect("a stand-in over TCP was checked");
    let port = port(&given, number)?;
    let times = switches(flow, scenario, &path)?;
    let seconds = |name: &str| std::time::Duration::from_secs_f64(given.number(name));
    let [client, server] = ["client", "server"].map(|which| words::cut(given.text(which)).ok_or(which));
    let open = |which: &str| {
        LiveError::from(given.refuse(
            which,
            "a quotation mark is open at the end",
            "Close it, or put \\ before it",
        ))
    };
    let ends = ends(plan, number, flow);
    let stack = stack::wanted(spec, &path, manner.is_here())?;
    refuse_pacing(stack.pacing, &path)?;
    let buffers = [spec.send_buffer, spec.receive_buffer]
        .map(|own| own.map_or(stack::Buffer::Stack, stack::Buffer::Host));
    stack::settle(plan, (number, flow.ip), ends, &stack, buffers, &path)?;
    let controls = turns(plan, spec, &path, manner)?;
    let programs = ProgramPlan {
        number: number as u32,
        name: flow.name.clone(),
        client: client.map_err(open)?,
        server: server.map_err(open)?,
        start: times[0],
        stop: times.get(1).copied().unwrap_or(plan.end).min(plan.end),
        tcp: TcpPlan {
            turns: vec![spec.cc.clone()],
            send_buffer: spec.send_buffer,
            receive_buffer: spec.receive_buffer,
            mtu: spec.mtu,
            ip: flow.ip,
            segment: None,
            window: None,
            pairs: 0,
            paces: false,
            stops: false,
        },
        port,
        seed: scenario.seed,
        here: manner.here.to_owned(),
        ready: seconds("ready"),
        ready_by: exec::readiness(&given)?,
        after: exec::after(scenario, number)?,
        grace: seconds("grace"),
        accepted: [exec::statuses(&given, exec::STATUS[0])?, exec::statuses(&given, exec::STATUS[1])?],
        collect: given.text("collect").split_whitespace().map(str::to_owned).collect(),
        is_alone: plan.is_alone,
        is_in_front: false,
    };
    known(&given, &programs)?;
    let typed = manner.in_front.filter(|(flow, _)| *flow == number).map(|(_, words)| words.to_vec());
    let programs =
        ProgramPlan { is_in_front: typed.is_some(), client: typed.unwrap_or(programs.client), ..programs };
    // A guest has programs of its own; the code that starts the guest checks for them.
    if manner.is_here() {
        installed(&given, &programs)?;
    }
    set_routes(plan, number, ends, spec);
    plan.controls_of.push(controls);
    plan.crowds.push(false);
    plan.flows.push(Work::Programs(programs));
    Ok(spec.mtu)
}

fn refuse_pacing(is_wanted: bool, path: &str) -> Result<(), LiveError> {
    if !is_wanted {
        return Ok(());
    }
    Err(LiveError::refuse(
        format!("{path}.tcp.stack_params.pacing"),
        true,
        "programs open their own sockets, and pacing is a socket's",
        "Leave it out, use an application of tailback's, or let the program pace itself (iperf3 --fq-rate).",
    ))
}

/// The value of `{port}`.
fn port(given: &Checked<'_>, number: usize) -> Result<u16, LiveError> {
    let own = OWN_PORTS.checked_add(number as u16).filter(|_| number < usize::from(u16::MAX - OWN_PORTS));
    Some(given.whole("port") as u16).filter(|port| *port > 0).or(own).ok_or_else(|| {
        let problem = "there are more flows than ports";
        LiveError::from(given.refuse("port", problem, "Give the flow a port"))
    })
}

/// Programs open their own sockets, so routes set their MTU and congestion control.
fn set_routes(plan: &mut Plan, number: usize, ends: [usize; 2], spec: &TcpSpec) {
    for end in ends {
        let routes = plan.hosts[end].1.routes.iter_mut();
        for route in routes.filter(|route| route.flow == number as u32) {
            route.mtu = Some(spec.mtu);
            route.congestion = Some(spec.cc.clone());
        }
    }
}

/// Refuses unknown placeholders.
fn known(given: &Checked<'_>, plan: &ProgramPlan) -> Result<(), LiveError> {
    let values = programs::values(plan, "");
    let known: Vec<String> = values.iter().map(|(name, _)| format!("{{{name}}}")).collect();
    for (which, line) in [("client", &plan.client), ("server", &plan.server)] {
        for word in line {
            words::fill(word, &values).map_err(|name| {
                let problem = format!("there is no placeholder {{{name}}}");
                let fix = format!(
                    "There are {}. Braces that are none are written {{{{{name}}}}}",
                    known.join(", ")
                );
                given.refuse(which, &problem, &fix)
            })?;
        }
    }
    Ok(())
}

/// Refuses programs that are not installed.
fn installed(given: &Checked<'_>, plan: &ProgramPlan) -> Result<(), LiveError> {
    let values = programs::values(plan, "");
    for (which, line) in [("client", &plan.client), ("server", &plan.server)] {
        let is_typed = plan.is_in_front && which == "client";
        let fill = |word: &String| words::fill(word, &values).expect("placeholders were checked");
        let program = line.first().map(|word| if is_typed { word.clone() } else { fill(word) });
        if let Some(program) = program.filter(|program| words::find(program).is_none()) {
            return Err(absent(given, which, &program));
        }
    }
    for program in given.text("needs").split_whitespace() {
        if words::find(program).is_none() {
            return Err(absent(given, "needs", program));
        }
    }
    Ok(())
}

fn absent(given: &Checked<'_>, which: &str, program: &str) -> LiveError {
    let fix = format!("Install {program}, or give the path of another program");
    given.refuse(which, &format!("the program {program} is not installed here"), &fix).into()
}
