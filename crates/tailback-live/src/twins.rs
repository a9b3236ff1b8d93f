//! Congestion controls in the kernel: its own by name, and ours in BPF, registered for the run only.

use std::fs;
use std::os::fd::OwnedFd;

use tailback_core::scenario::{Params, Value};

use crate::bpf::{Loaded, compile};
use crate::error::LiveError;

/// The longest name a congestion control may have in the kernel.
const LONGEST_NAME: usize = 15;

/// A congestion control written for BPF.
struct Twin {
    name: &'static str,
    source: &'static str,
    /// Parameters it takes: scenario's name, the macro, and how much of the scenario's unit one of the macro's is.
    params: &'static [(&'static str, &'static str, f64)],
}

macro_rules! twins {
    ($($name:literal: [$(($param:literal, $macro:literal, $scale:literal)),*]),+ $(,)?) => {
        const TWINS: &[Twin] = &[$(Twin {
            name: $name,
            source: include_str!(concat!("../../../bpf/cc/", $name, ".bpf.c")),
            params: &[$(($param, $macro, $scale)),*],
        }),+];
    };
}

twins! {
    "reno": [],
    "htcp": [("hz", "HZ", 1.0)],
    "vegas": [("alpha", "ALPHA", 1.0), ("beta", "BETA", 1.0), ("gamma", "GAMMA", 1.0)],
    "westwood": [("hz", "HZ", 1.0)],
    "hybla": [("rtt0", "RTT0_US", 1000.0)],
    "veno": [("beta", "BETA", 2.0)],
    "highspeed": [],
    "cdg": [],
    "compound": [("gamma", "GAMMA", 1.0), ("low_window", "LOW_WINDOW", 1.0)],
}

/// The names of the twins.
pub fn names() -> impl Iterator<Item = &'static str> {
    TWINS.iter().map(|twin| twin.name)
}

/// The source of a twin, for the differential test.
pub fn source(name: &str) -> Option<&'static str> {
    TWINS.iter().find(|twin| twin.name == name).map(|twin| twin.source)
}

/// Does this twin bring the window down on its own, because a BPF program cannot enter the kernel's CWR state?
pub fn reduces_unseen(name: &str) -> bool {
    name == "cdg"
}

/// What the kernel has now.
pub fn in_kernel() -> Vec<String> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// How a scenario's congestion control is had live.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The kernel's own.
    Kernel,
    /// Ours, with these macros.
    Twin(Vec<(&'static str, String)>),
}

/// Where `cc` comes from, or why it cannot be had.
pub fn choose(cc: &str, params: &Params, field: &str) -> Result<Source, LiveError> {
    // Being Linux' variant is what live means.
    let asked: Vec<(&String, &Value)> = params
        .iter()
        .filter(|(name, value)| *name != "variant" || **value != Value::Name("linux".into()))
        .collect();
    let twin = TWINS.iter().find(|twin| twin.name == cc);
    let known = in_kernel();
    if asked.is_empty() && known.iter().any(|name| name == cc) {
        return Ok(Source::Kernel);
    }
    let Some(twin) = twin else {
        if known.iter().any(|name| name == cc) {
            let (name, _) = asked[0];
            return Err(LiveError::refuse(
                format!("{field}.cc_params.{name}"),
                format!("{:?}", params[name]),
                format!("the kernel's own {cc} takes no parameters"),
                "Leave its parameters out, or run it with --engine sim.",
            ));
        }
        let mut have: Vec<String> = names().map(str::to_owned).chain(known).collect();
        have.sort_unstable();
        have.dedup();
        return Err(LiveError::refuse(
            format!("{field}.cc"),
            format!("{cc:?}"),
            "neither this kernel nor tailback's BPF programs have this congestion control",
            format!("Live there are: {}. With --engine sim it runs.", have.join(", ")),
        ));
    };
    let mut macros = Vec::new();
    for (name, value) in asked {
        let place = twin.params.iter().find(|(known, ..)| known == name);
        let (Some((_, macro_name, scale)), Value::Number(number)) = (place, value) else {
            let takes: Vec<&str> = twin.params.iter().map(|(name, ..)| *name).collect();
            let takes = if takes.is_empty() { "none".into() } else { takes.join(", ") };
            return Err(LiveError::refuse(
                format!("{field}.cc_params.{name}"),
                format!("{value:?}"),
                format!("the BPF twin of {cc} is Linux' variant and does not take this"),
                format!("It takes: {takes}. With --engine sim everything works."),
            ));
        };
        macros.push((*macro_name, format!("{}", (number * scale) as u64)));
    }
    Ok(Source::Twin(macros))
}

/// A registered twin. Dropping it takes it out of the kernel.
pub struct Registered {
    /// Its name in the kernel.
    pub name: String,
    // Before the object: a congestion control goes before its programs.
    _link: OwnedFd,
    _loaded: Loaded,
}

/// A name in the kernel for this run's twin of `cc`: the run's mark in front, cut to what fits.
pub fn kernel_name(mark: &str, number: usize, cc: &str) -> String {
    let mut name = format!("{mark}{number}{cc}");
    name.truncate(LONGEST_NAME);
    name
}

/// Compile, load and register a twin.
pub fn register(cc: &str, macros: &[(&str, String)], name: &str) -> Result<Registered, LiveError> {
    let source = source(cc).expect("chosen from the list");
    let mut defines = vec![("NAME", format!("\"{name}\""))];
    defines.extend(macros.iter().map(|(name, value)| (*name, value.clone())));
    let object = compile(cc, source, &defines)?;
    let mut loaded = Loaded::load(cc, &object)?;
    let link = loaded.register()?;
    Ok(Registered { name: name.into(), _link: link, _loaded: loaded })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_kernel_fit_and_differ() {
        let names: Vec<String> =
            names().enumerate().map(|(number, cc)| kernel_name("tb12ab", number, cc)).collect();
        assert!(names.iter().all(|name| name.len() <= LONGEST_NAME), "{names:?}");
        let mut unique = names.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), names.len());
    }

    #[test]
    fn a_twin_takes_its_own_parameters_and_no_others() {
        let params = Params::from([
            ("alpha".into(), Value::Number(3.0)),
            ("variant".into(), Value::Name("linux".into())),
        ]);
        assert_eq!(
            choose("vegas", &params, "flows[0].tcp").unwrap(),
            Source::Twin(vec![("ALPHA", "3".into())])
        );
        let params = Params::from([("variant".into(), Value::Name("freebsd".into()))]);
        let Err(LiveError::Refused(error)) = choose("htcp", &params, "flows[0].tcp") else {
            panic!("accepted")
        };
        assert_eq!(error.field, "flows[0].tcp.cc_params.variant");
    }

    #[test]
    fn what_nobody_has_is_refused_with_what_there_is() {
        let Err(LiveError::Refused(error)) = choose("bic", &Params::new(), "flows[0].tcp") else {
            panic!("accepted")
        };
        assert!(error.fix.contains("htcp"), "{}", error.fix);
    }
}
