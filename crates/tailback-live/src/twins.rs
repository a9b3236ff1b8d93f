//! Congestion controls in the kernel: its own, by name, and our BPF twins, registered only for the run.

use std::fs;
use std::os::fd::OwnedFd;

use tailback_core::cc::registry;
use tailback_core::scenario::{Params, Value};

use crate::bpf::{Held, Loaded};
use crate::demands::Kernel;
use crate::error::LiveError;
use crate::internals::{self, Reader};
use crate::recipe::{self, Recipe};
use crate::sys;

/// The longest name of a congestion control that the kernel allows.
const LONGEST_NAME: usize = 15;

/// A congestion control written for BPF.
struct Twin {
    name: &'static str,
    source: &'static str,
    /// Its parameters: the name in the card, the macro, and the macro's unit in units of the parameter.
    params: &'static [(&'static str, &'static str, f64)],
    /// Whether it reduces the window itself, because a BPF program cannot enter the kernel's CWR state.
    reduces_unseen: bool,
    /// Whether the kernel's algorithm of this name echoes each change of the CE mark.
    echoes_marks: bool,
    /// Whether it sets the window in the `cong_control` hook, which has taken four arguments since Linux 6.10.
    owns_window: bool,
}

/// The first kernel whose `cong_control` hook takes four arguments.
const OWNS_WINDOW_SINCE: (u32, u32) = (6, 10);

const PLAIN: Twin = Twin {
    name: "",
    source: "",
    params: &[],
    reduces_unseen: false,
    echoes_marks: false,
    owns_window: false,
};

macro_rules! twins {
    ($($name:literal: [$(($param:literal, $macro:literal, $scale:literal)),*] $({ $($field:ident),+ })?),+ $(,)?) => {
        const TWINS: &[Twin] = &[$(Twin {
            $($($field: true,)+)?
            name: $name,
            source: include_str!(concat!("../../../bpf/cc/", $name, ".bpf.c")),
            params: &[$(($param, $macro, $scale)),*],
            ..PLAIN
        }),+];
    };
}

twins! {
    "reno": [],
    "htcp": [("hz", "HZ", 1.0)],
    "cubic": [
        ("beta", "BETA", 1024.0), ("c", "SCALE", 102.4), ("fast_convergence", "FAST_CONVERGENCE", 1.0),
        ("tcp_friendliness", "FRIENDLINESS", 1.0), ("hz", "HZ", 1.0)
    ],
    "bic": [
        ("beta", "BETA", 1024.0), ("fast_convergence", "FAST_CONVERGENCE", 1.0), ("low_window", "LOW_WINDOW", 1.0),
        ("max_increment", "MAX_INCREMENT", 1.0), ("smooth_part", "SMOOTH_PART", 1.0), ("hz", "HZ", 1.0)
    ],
    "highspeed": [],
    "scalable": [("interval", "INTERVAL", 1.0)],
    "vegas": [("alpha", "ALPHA", 1.0), ("beta", "BETA", 1.0), ("gamma", "GAMMA", 1.0)],
    "veno": [("beta", "BETA", 2.0)],
    "westwood": [("hz", "HZ", 1.0)],
    "hybla": [("rtt0", "RTT0_US", 1000.0)],
    "illinois": [("window_threshold", "WINDOW_THRESHOLD", 1.0), ("theta", "THETA", 1.0)],
    "yeah": [
        ("alpha", "ALPHA", 1.0), ("gamma", "GAMMA", 1.0), ("delta", "DELTA", 1.0), ("epsilon", "EPSILON", 1.0),
        ("phi", "PHI", 1.0), ("rho", "RHO", 1.0)
    ],
    "dctcp": [("shift_g", "SHIFT", 1.0), ("initial_alpha", "INITIAL_ALPHA", 1024.0)] { echoes_marks },
    "ledbat": [("target", "TARGET_US", 1000.0), ("gain", "GAIN", 256.0), ("slow_start", "SLOW_START", 1.0)],
    "compound": [("gamma", "GAMMA", 1.0), ("low_window", "LOW_WINDOW", 1.0)],
    "cdg": [] { reduces_unseen },
    "bbr": [
        ("window_gain", "WINDOW_GAIN", 256.0), ("rtt_window", "RTT_WINDOW_US", 1e6), ("probe_rtt", "PROBE_RTT_US", 1000.0),
        ("policer_detection", "POLICER_DETECTION", 1.0)
    ] { owns_window },
}

/// The names of the twins.
pub fn names() -> impl Iterator<Item = &'static str> {
    TWINS.iter().map(|twin| twin.name)
}

/// The source of a twin, for the differential test.
pub fn source(name: &str) -> Option<&'static str> {
    TWINS.iter().find(|twin| twin.name == name).map(|twin| twin.source)
}

/// Whether this twin reduces the window itself, because a BPF program cannot enter the kernel's CWR state.
pub fn reduces_unseen(name: &str) -> bool {
    TWINS.iter().any(|twin| twin.name == name && twin.reduces_unseen)
}

/// Whether the kernel's own congestion control of this name echoes each change of the CE mark.
pub fn echoes_marks(name: &str) -> bool {
    TWINS.iter().any(|twin| twin.name == name && twin.echoes_marks)
}

/// Whether the kernel negotiates accurate ECN (RFC 9768) for this congestion control.
pub fn negotiates_accecn(name: &str) -> bool {
    name == "prague"
}

/// Congestion controls that the kernel currently has, by their names in scenarios.
pub fn in_kernel() -> Vec<String> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let version = fs::read_to_string("/sys/module/tcp_bbr/version").unwrap_or_default();
    text.split_whitespace().map(|name| scenarios_name(name, &version).to_owned()).collect()
}

/// The name in scenarios: Google's BBRv3 registers under the name of version 1, which states no version.
fn scenarios_name<'a>(name: &'a str, version: &str) -> &'a str {
    if name == "bbr" && version.trim() == "3" { "bbr3" } else { name }
}

/// The kernel's name of its congestion control that scenarios call `cc`.
pub fn name_in_kernel(cc: &str) -> &str {
    if cc == "bbr3" { "bbr" } else { cc }
}

/// A sentence about which kernel has a congestion control that kernel.org's kernels lack; empty for others.
fn kernel_with(cc: &str) -> &'static str {
    match cc {
        "bbr3" => {
            "A kernel with Google's BBRv3 patch has it (docs/validation-bbr3.md): \
             tailback vm patch bbr3.patch --on linux-source-6.12. "
        }
        "prague" => "Linux 7.3 with its module has it (docs/validation-prague.md). ",
        _ => "",
    }
}

/// The implementation of a scenario's congestion control in a live run.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The kernel's own.
    Kernel,
    /// Our twin, compiled with these macros.
    Twin(Vec<(&'static str, String)>),
    /// The user's own in BPF.
    Candidate(Box<tailback_bpf::Source>),
    /// The user's own in a loaded module, which registered it under this name.
    Module(String),
}

impl Source {
    /// Who wrote it: "kernel", tailback's "twin", or the user's "own".
    pub fn name(&self) -> &'static str {
        match self {
            Source::Kernel => "kernel",
            Source::Twin(_) => "twin",
            Source::Candidate(_) | Source::Module(_) => "own",
        }
    }
}

/// The implementation of `cc` on this kernel, or why there is none. Where the kernel has the algorithm itself, its twin
/// is used if parameters require it or if it is `preferred`.
pub fn choose(
    cc: &str,
    params: &Params,
    field: &str,
    preferred: bool,
    kernel: &Kernel,
) -> Result<Source, LiveError> {
    let known = &kernel.controls;
    // A live run always uses Linux's variant, so asking for it needs nothing.
    let asked: Vec<(&String, &Value)> = params
        .iter()
        .filter(|(name, value)| *name != "variant" || **value != Value::Name("linux".into()))
        .collect();
    let twin = TWINS.iter().find(|twin| twin.name == cc);
    let twin_is_wanted = !asked.is_empty() || preferred && twin.is_some();
    if !twin_is_wanted && known.iter().any(|name| name == cc) {
        return Ok(Source::Kernel);
    }
    let Some(twin) = twin else {
        if known.iter().any(|name| name == cc) {
            let (name, _) = asked[0];
            return Err(LiveError::refuse(
                format!("{field}.cc_params.{name}"),
                &params[name],
                format!("the kernel's own {cc} takes no parameters"),
                "Leave its parameters out, or run it with --engine sim.",
            ));
        }
        let mut have: Vec<String> = names().map(str::to_owned).chain(known.iter().cloned()).collect();
        have.sort_unstable();
        have.dedup();
        return Err(LiveError::refuse(
            format!("{field}.cc"),
            format!("{cc:?}"),
            "neither this kernel nor tailback's BPF programs have this congestion control",
            format!("{}There are: {}. With --engine sim it runs.", kernel_with(cc), have.join(", ")),
        ));
    };
    let mut macros = Vec::new();
    let card = registry::cards().iter().find(|card| card.name == cc);
    for (key, value) in asked {
        let row = card.and_then(|card| card.spelled(key));
        let name = row.map_or(key.as_str(), |(row, _)| row.name);
        let place = twin.params.iter().find(|(known, ..)| *known == name);
        let number = match value {
            Value::Number(number) => {
                Some(row.map_or(*number, |(row, spelling)| row.in_unit(spelling, *number)))
            }
            Value::Flag(on) => Some(f64::from(u8::from(*on))),
            Value::Name(_) => None,
        };
        let (Some((_, macro_name, scale)), Some(number)) = (place, number) else {
            let takes: Vec<&str> = twin.params.iter().map(|(name, ..)| *name).collect();
            let takes = if takes.is_empty() { "none".into() } else { takes.join(", ") };
            return Err(LiveError::refuse(
                format!("{field}.cc_params.{name}"),
                value,
                format!("the BPF twin of {cc} is Linux' variant and does not take this"),
                format!("It takes: {takes}. With --engine sim everything works."),
            ));
        };
        macros.push((*macro_name, format!("{}", (number * scale).round() as u64)));
    }
    if twin.owns_window && kernel.release < OWNS_WINDOW_SINCE {
        let (place, value) = match params.iter().find(|(name, _)| *name != "variant") {
            Some((name, value)) => (format!("{field}.cc_params.{name}"), value.to_string()),
            None => (format!("{field}.cc"), format!("{cc:?}")),
        };
        let ((major, minor), (from, since)) = (kernel.release, OWNS_WINDOW_SINCE);
        let own = match known.iter().any(|name| name == cc) {
            true => format!("Leave its parameters out, and the kernel's own {cc} runs; or take"),
            false => "Take".into(),
        };
        return Err(LiveError::refuse(
            place,
            value,
            format!("the BPF twin of {cc} needs Linux {from}.{since}, and this kernel is {major}.{minor}"),
            format!("{own} a later kernel. With --engine sim it runs."),
        ));
    }
    Ok(Source::Twin(macros))
}

/// A registered twin. Dropping it removes it from the kernel.
pub struct Registered {
    /// Its name in the kernel.
    pub name: String,
    /// Reads the twin's internal quantities, if requested; taken by the code that records them.
    pub shows: Option<Reader>,
    // Declared before the object: a congestion control must be removed before its programs.
    _link: Option<OwnedFd>,
    _loaded: Loaded,
}

/// The kernel name of this run's twin of `cc`: the run's mark and `cc`, cut to the allowed length.
pub fn kernel_name(mark: &str, number: usize, cc: &str) -> String {
    let mut name = format!("{mark}{number}{cc}");
    name.truncate(LONGEST_NAME);
    name
}

/// The program for the twin of `cc` under the kernel name `name`, for a kernel with timer frequency `hz`. With `shows`
/// it also exports the twin's internal quantities, if it has any.
pub fn recipe(cc: &str, macros: &[(&'static str, String)], name: &str, hz: u64, shows: bool) -> Recipe {
    let source = source(cc).expect("chosen from the list");
    let mut defines = vec![("NAME", format!("\"{name}\"")), ("KERNEL_HZ", hz.to_string())];
    defines.extend(macros.iter().cloned());
    if shows && internals::has_any(cc) {
        defines.push(("INTERNALS_WANTED", "1".into()));
    }
    Recipe::new(cc, source, defines)
}

fn held_by_process(cc: &str, object: &[u8]) -> Result<(Loaded, Option<OwnedFd>), LiveError> {
    let mut loaded = Loaded::load(cc, object)?;
    let link = loaded.register()?;
    Ok((loaded, Some(link)))
}

fn held_by_kernel(cc: &str, object: &[u8]) -> Result<(Loaded, Option<OwnedFd>), LiveError> {
    let mut loaded = Loaded::load_held(cc, object, Held::ByKernel)?;
    loaded.register_for_good()?;
    Ok((loaded, None))
}

fn held(cc: &str, object: &[u8], ends_with_us: bool) -> Result<(Loaded, Option<OwnedFd>), LiveError> {
    held_by_process(cc, object).or_else(|error| match ends_with_us {
        // Before Linux 6.4 only the kernel could keep it registered, and the verifier's reason is that of this attempt.
        true => held_by_kernel(cc, object),
        false => Err(error),
    })
}

/// Checks a candidate. Its parameters are macros with integer values.
pub fn candidate(cc: &str, text: &str, params: &Params, field: &str) -> Result<Source, LiveError> {
    let mut defines = Vec::new();
    for (name, value) in params {
        match value {
            Value::Number(number) if number.fract() == 0.0 => {
                defines.push((name.clone(), format!("{number}")))
            }
            Value::Flag(on) => defines.push((name.clone(), u8::from(*on).to_string())),
            _ => {
                return Err(LiveError::refuse(
                    format!("{field}.cc_params.{name}"),
                    value,
                    "the parameters of a BPF source are whole numbers",
                    "Write for example 8.",
                ));
            }
        }
    }
    let name = cc.trim_start_matches("bpf:").into();
    Ok(Source::Candidate(Box::new(tailback_bpf::Source { name, text: text.into(), defines })))
}

/// Name of the object of the plan's control `number`, if it is a candidate.
pub fn candidate_key(number: usize) -> String {
    format!("own{number}.o")
}

/// Compiles a candidate that the kernel will know by `name`.
pub fn compile_candidate(source: &tailback_bpf::Source, name: &str) -> Result<Vec<u8>, LiveError> {
    source.object(name, tailback_bpf::Kind::Control).map_err(LiveError::Failed)
}

/// Compiles, loads and registers the candidate that is the plan's control `number`; `ends_with_us` as for [`register`].
pub fn register_candidate(
    source: &tailback_bpf::Source,
    number: usize,
    name: &str,
    ends_with_us: bool,
) -> Result<Registered, LiveError> {
    let object = recipe::compiled(&candidate_key(number), &source.name)
        .unwrap_or_else(|| compile_candidate(source, name))?;
    let (loaded, link) = held(&source.name, &object, ends_with_us)?;
    Ok(Registered { name: name.into(), shows: None, _link: link, _loaded: loaded })
}

/// Compiles, loads and registers a twin, and reads its internal quantities if requested and available. With
/// `ends_with_us` the machine ends with this process, so that nothing needs to be removed.
pub fn register(
    cc: &str,
    macros: &[(&'static str, String)],
    name: &str,
    shows: bool,
    ends_with_us: bool,
) -> Result<Registered, LiveError> {
    let shows = shows && internals::has_any(cc);
    let object = recipe(cc, macros, name, sys::ticks_a_second(), shows).object()?;
    let (mut loaded, link) = held(cc, &object, ends_with_us)?;
    let shows = if shows { Some(Reader::of_twin(cc, &mut loaded)?) } else { None };
    Ok(Registered { name: name.into(), shows, _link: link, _loaded: loaded })
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
            choose("vegas", &params, "flows[0].tcp", false, &Kernel::here()).unwrap(),
            Source::Twin(vec![("ALPHA", "3".into())])
        );
        let params = Params::from([("variant".into(), Value::Name("freebsd".into()))]);
        let Err(LiveError::Refused(error)) = choose("htcp", &params, "flows[0].tcp", false, &Kernel::here())
        else {
            panic!("accepted")
        };
        assert_eq!(error.field, "flows[0].tcp.cc_params.variant");
    }

    #[test]
    fn the_kernels_own_comes_first_unless_the_twin_is_preferred() {
        let Some(known) = in_kernel().into_iter().find(|known| names().any(|name| name == known)) else {
            return;
        };
        let of =
            |preferred| choose(&known, &Params::new(), "flows[0].tcp", preferred, &Kernel::here()).unwrap();
        assert_eq!(of(false), Source::Kernel);
        assert_eq!(of(true), Source::Twin(vec![]));
    }

    #[test]
    fn a_twin_that_the_kernel_is_too_old_for_is_refused_by_its_parameter() {
        let params = Params::from([
            ("variant".into(), Value::Name("linux".into())),
            ("window_gain".into(), Value::Number(2.5)),
        ]);
        let on = |release| {
            let kernel = Kernel { controls: vec!["bbr".into()], hz: 250, release };
            choose("bbr", &params, "flows[0].tcp", false, &kernel)
        };
        assert_eq!(on(Kernel::release("6.12.117+deb12-cloud")).unwrap().name(), "twin");
        let Err(LiveError::Refused(error)) = on(Kernel::release("6.1.0-56-cloud")) else {
            panic!("accepted")
        };
        assert_eq!(error.field, "flows[0].tcp.cc_params.window_gain");
        assert!(error.problem.contains("needs Linux 6.10, and this kernel is 6.1"), "{}", error.problem);
    }

    #[test]
    fn bbr_of_version_3_is_called_bbr3_and_chosen_by_the_kernels_name() {
        assert_eq!(scenarios_name("bbr", "3\n"), "bbr3");
        assert_eq!(scenarios_name("bbr", ""), "bbr");
        assert_eq!(scenarios_name("cubic", "3\n"), "cubic");
        assert_eq!(["bbr3", "bbr", "cubic"].map(name_in_kernel), ["bbr", "bbr", "cubic"]);
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let Err(LiveError::Refused(error)) =
            choose("bbr3", &Params::new(), "flows[0].tcp", false, &Kernel::here())
        else {
            panic!("accepted")
        };
        assert!(error.fix.contains("htcp"), "{}", error.fix);
        assert!(error.fix.starts_with("A kernel with Google's BBRv3 patch has it"), "{}", error.fix);
        assert!(!error.fix.contains("Live"), "{}", error.fix);
        assert_eq!(error.value, "\"bbr3\"");
    }
}
