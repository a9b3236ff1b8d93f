//! Predefined networks: those of papers, a home line, and network topologies, each with links, queues and competing
//! flows under one name.
//!
//! By default flows run from `left` to `right`: from the server to the user. Values that a paper prints are the
//! paper's; the rest is marked "chosen" and explained in docs/links/.

mod access;
mod caia;
mod home;
mod perth;
mod shapes;
mod wireless;
mod wu;

use crate::node::{Node, Value};
use crate::part::{Kind, Name, read};
use crate::problem::{Fault, Problem, fault, hint};
use crate::quantity::Size;
use crate::schema::{Flow, Link, Scenario};
use crate::table;
use caia::{adsl1, adsl1_vtun, homeplug, vtun, wifi};
use perth::{adsl2, adsl2_wifi, crowd, eduroam, hsdpa, neighbours, university};
use wu::{campus, ocean};

/// Default of an option.
#[derive(Clone, Copy, Debug)]
pub enum Default {
    /// A text, a quantity for example.
    Text(&'static str),
    /// A number.
    Number(f64),
    /// A whole number.
    Whole(u64),
}

impl From<Default> for Node {
    fn from(default: Default) -> Node {
        match default {
            Default::Text(text) => text.into(),
            Default::Number(number) => number.into(),
            Default::Whole(number) => number.into(),
        }
    }
}

/// An option of a preset.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Key in the scenario file.
    pub name: &'static str,
    /// Default.
    pub default: Default,
    /// One line of documentation.
    pub doc: &'static str,
}

const fn text(name: &'static str, default: &'static str, doc: &'static str) -> Choice {
    Choice { name, default: Default::Text(default), doc }
}

const fn number(name: &'static str, default: f64, doc: &'static str) -> Choice {
    Choice { name, default: Default::Number(default), doc }
}

const fn whole(name: &'static str, default: u64, doc: &'static str) -> Choice {
    Choice { name, default: Default::Whole(default), doc }
}

/// A predefined network: its source, the paper's results, and its options.
pub struct Preset {
    /// Name of the preset.
    pub name: &'static str,
    /// Display name.
    pub title: &'static str,
    /// Paper.
    pub paper: &'static str,
    /// Section of the paper.
    pub section: &'static str,
    /// The paper's results.
    pub reported: &'static str,
    choices: &'static [&'static [Choice]],
    links: fn(&Given) -> Result<Vec<Node>, Fault>,
    flows: fn(&Given) -> Result<Vec<Node>, Fault>,
}

impl Preset {
    /// The preset's options.
    pub fn choices(&self) -> impl Iterator<Item = &'static Choice> {
        self.choices.iter().copied().flatten()
    }
}

/// The options of a preset, with defaults filled in.
struct Given(Vec<(&'static str, Node)>);

/// A fault of one option.
fn of(option: &'static str, fault: Fault) -> Fault {
    Fault { problem: format!("{option}\0{}", fault.problem), fix: fault.fix }
}

impl Given {
    fn node(&self, name: &str) -> Node {
        self.0
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, node)| node.clone())
            .expect("an option of the preset")
    }

    fn text(&self, name: &str) -> String {
        let node = self.node(name);
        node.as_text().map_or_else(|| node.value.text(), String::from)
    }

    /// Whether an option is set to something other than zero, null or false.
    fn is_set(&self, name: &str) -> bool {
        match self.node(name).value {
            Value::Whole(number) => number != 0,
            Value::Number(number) => number != 0.0,
            Value::Flag(flag) => flag,
            Value::Text(text) => !text.is_empty(),
            _ => false,
        }
    }

    fn count(&self, name: &'static str, most: u64) -> Result<u64, Fault> {
        self.node(name).as_whole().filter(|count| *count <= most).ok_or_else(|| {
            let problem = format!("must be a whole number from 0 to {most}");
            of(name, fault(problem, "Write for example 3"))
        })
    }

    /// A queue size in multiples of the link's own BDP: rate × twice its delay, as the paper counts.
    fn own_bdp(&self, name: &'static str, rate: u64, rtt_ms: u64) -> Result<Node, Fault> {
        let text = self.text(name);
        if !text.contains("bdp") {
            return Ok(self.node(name));
        }
        let size = Size::read(&text).map_err(|fault| of(name, fault))?;
        let bytes = size.in_bytes(rate, rtt_ms * 1_000_000_000).unwrap_or_default();
        let counted = if size.in_packets { "B packets" } else { "B" };
        Ok(Node { value: format!("{bytes}{counted}").into(), ..self.node(name) })
    }
}

fn link(name: &str, from: &str, to: &str, more: Node) -> Node {
    table! { "name" => name, "from" => from, "to" => to }.with(more)
}

/// Two links of a fast wire; `loss` applies from `a` to `b`.
fn two_way(name: &str, a: &str, b: &str, delay: impl Into<Node>, loss: Node) -> [Node; 2] {
    let common = table! { "rate" => "1gbit", "delay" => delay };
    [
        link(name, a, b, common.clone().with(table! { "wire" => table! { "loss" => loss } })),
        link(&format!("{name}-back"), b, a, common),
    ]
}

fn no_flows(_: &Given) -> Result<Vec<Node>, Fault> {
    Ok(Vec::new())
}

const CAIA: &str = "CAIA Technical Report 110729A (2011)";
const FAST: &str = "Wu, Effects of Applying High Speed Congestion Control Algorithms in the Internet (2007)";
const PERTH: &str = "Murray and Ong, Experimental Evaluation of Congestion Avoidance";

const LINE: &[Choice] = &[
    text("down", "1536kbit", "Sync rate to the home."),
    text("up", "256kbit", "Sync rate from it; the paper prints 256KBps."),
    text("encapsulation", "pppoe-llc", "PPPoE, printed; LLC, chosen."),
    text("up_buffer", "32kB", "Queue of the modem, from the home; chosen."),
    number("loss", 0.0, "Share of packets lost between the source and the provider; chosen."),
];
const PROVIDER: &str =
    "One way between source and provider; chosen, with the interleaving, from the idle RTT.";
const STALLS: Choice =
    text("stall_every", "0s", "Mean time between two stalls of 0.3 to 1 s on the way to the user; 0: never.");
const AIR: &[Choice] = &[
    text("standard", "g", "802.11g, or n with aggregation; chosen."),
    number("rate", 54.0, "PHY rate in Mbit/s; chosen."),
    number("frame_error", 0.0, "Probability that a full frame fails; chosen."),
    number("hidden", 0.0, "Probability that a station's try meets one out of its hearing; chosen."),
    text("ap_buffer", "100packets", "Queue of the access point; chosen."),
    text("station_buffer", "100packets", "Queue of each station's interface; chosen."),
    STALLS,
];
const BACKBONE: &[Choice] = &[
    text("queue", "1000packets", "Queues of the backbone; chosen."),
    number("sessions", 600.0, "Web sessions a second that cross the backbone too; chosen."),
];
const ADSL2: &[Choice] = &[
    text("buffer", "100kB", "Queue towards the home; chosen."),
    number("line_loss", 0.0, "Share of packets that the line's noise destroys; chosen."),
];

/// Table of all presets.
pub static PRESETS: &[Preset] = &[
    Preset {
        name: "adsl1",
        title: "ADSL1 home line, university to home, without the paper's tunnel",
        paper: CAIA,
        section: "III-D",
        reported: "idle RTT 50 ms; loaded medians 492 (NewReno), 613 ms (CUBIC); 1.2 to 1.25 Mbit/s",
        choices: &[
            LINE,
            &[
                text("internet_delay", "10ms", PROVIDER),
                text("buffer", "104kB", "Queue towards the home; chosen from the loaded RTT."),
            ],
        ],
        links: adsl1,
        flows: no_flows,
    },
    Preset {
        name: "adsl1-vtun",
        title: "ADSL1 home line, through a tunnel of IP over TCP",
        paper: CAIA,
        section: "III-D",
        reported: "idle RTT 50 ms; loaded medians 492 (NewReno), 613 ms (CUBIC); 1.2 to 1.25 Mbit/s",
        choices: &[
            LINE,
            &[
                text("internet_delay", "9ms", PROVIDER),
                text("buffer", "104kB", "Queue towards the home; chosen. The send buffer does not fill it."),
                text("tun_queue", "50packets", "Queue of the tunnel's interface: FreeBSD's ifq_maxlen."),
                text(
                    "send_buffer",
                    "32KiB",
                    "Of the outer connection: FreeBSD's sendspace; chosen from the loaded RTT.",
                ),
                text("cc", "reno", "Congestion control of the outer connection: NewReno, printed."),
                text("stack", "freebsd-9", "Its stack; chosen."),
            ],
        ],
        links: adsl1_vtun,
        flows: vtun,
    },
    Preset {
        name: "homeplug",
        title: "HomePlug AV between two rooms",
        paper: CAIA,
        section: "III-E",
        reported: "idle RTT 4 ms; about 31 to 36 Mbit/s of TCP",
        choices: &[&[
            number("phy", 107.0, "PHY rate from source to destination, Mbit/s."),
            number("back_phy", 143.0, "PHY rate back."),
            text("payload", "1200us", "Longest payload of an exchange; chosen from the throughput."),
            number("block_error", 0.05, "Share of bad blocks; chosen."),
            text("buffer", "30packets", "Queue of each adapter; chosen."),
            whole(
                "pause_queue",
                0,
                "Packets in a host that its full adapter pauses; 0: the adapter drops. Chosen.",
            ),
            text("bridge_delay", "1.7ms", "Adapter and host, one way; chosen from the idle RTT."),
        ]],
        links: homeplug,
        flows: no_flows,
    },
    Preset {
        name: "wifi",
        title: "802.11g, a laptop sending through its access point",
        paper: CAIA,
        section: "III-F",
        reported: "idle RTT 1.5 ms; loaded medians 53 (NewReno), 55 ms (CUBIC); about 18 Mbit/s of TCP",
        choices: &[&[
            number("rate", 54.0, "PHY rate in Mbit/s; not recorded in the paper, chosen."),
            text("slot", "long", "20 us slots, as where 802.11b must be able to join; chosen."),
            number("frame_error", 0.0, "Probability that a full frame fails; chosen."),
            text("buffer", "100packets", "Queue of the sending interface; chosen from the loaded RTT."),
            text("host_delay", "680us", "Driver and virtual machine, one way; chosen from the idle RTT."),
        ]],
        links: wifi,
        flows: no_flows,
    },
    Preset {
        name: "ocean",
        title: "Trans-ocean fibre",
        paper: FAST,
        section: "3.1",
        reported: "1 Gbit/s, 50 ms one way, packet error rate 1e-6",
        choices: &[&[text(
            "queue",
            "0.1bdp",
            "Queue at both ends; the paper uses 0.02 to 1 BDP of the link (12.5 MB).",
        )]],
        links: ocean,
        flows: no_flows,
    },
    Preset {
        name: "campus",
        title: "Campus network behind a leased OC-1 line",
        paper: FAST,
        section: "3.2",
        reported: "1 Gbit/s, 5 ms and 51 Mbit/s, 50 ms in series; error rates 1e-7 and 1e-6",
        choices: &[&[
            text("queue", "0.1bdp", "Queue of the campus link; the paper uses 0.1 to 1 BDP (1.25 MB)."),
            text("leased_queue", "1bdp", "Queue of the leased line (637.5 kB)."),
        ]],
        links: campus,
        flows: no_flows,
    },
    Preset {
        name: "university",
        title: "Singapore to a university in Perth, wired",
        paper: PERTH,
        section: "III-A",
        reported: "RTT 54 ms; little deviation; many competing flows on 1 Gbit/s, rarely full",
        choices: &[
            BACKBONE,
            &[
                text(
                    "port",
                    "",
                    "Rate of the receiver's own port, \"100mbit\" say; empty: as fast as the backbone.",
                ),
                text("port_queue", "100packets", "Queue of that port; chosen."),
            ],
        ],
        links: university,
        flows: crowd,
    },
    Preset {
        name: "eduroam",
        title: "Singapore to a university in Perth, by WiFi",
        paper: PERTH,
        section: "III-B",
        reported: "RTT 54 ms on the wire; lower throughput and much larger deviations than wired",
        choices: &[
            BACKBONE,
            &[
                whole("stations", 3, "Other stations at the access point; chosen."),
                number("station_sessions", 5.0, "Web sessions a second of each of them; chosen."),
            ],
            AIR,
        ],
        links: eduroam,
        flows: neighbours,
    },
    Preset {
        name: "adsl2",
        title: "Singapore to a home in Perth, ADSL2+",
        paper: PERTH,
        section: "III-C",
        reported: "13 Mbit/s, RTT 54 ms, no competing traffic",
        choices: &[ADSL2],
        links: adsl2,
        flows: no_flows,
    },
    Preset {
        name: "adsl2-wifi",
        title: "Singapore to a home in Perth, ADSL2+ and WiFi",
        paper: PERTH,
        section: "III-D",
        reported: "13 Mbit/s, RTT 54 ms and the access point's",
        choices: &[ADSL2, AIR],
        links: adsl2_wifi,
        flows: no_flows,
    },
    Preset {
        name: "3g",
        title: "Singapore to Perth by 3G",
        paper: PERTH,
        section: "III-E",
        reported: "RTT 130 ms idle, 500 to 700 ms loaded, in transfers of 1 MB",
        choices: &[&[
            whole("cqi", 18, "Mean channel quality indicator; chosen."),
            whole("cqi_spread", 6, "How far it strays; chosen."),
            number("share", 0.8, "Share of the intervals that other users leave; chosen."),
            text("buffer", "128kB", "The user's queue in the network; chosen."),
            text("up", "128kbit", "Bearer of the uplink; chosen."),
            STALLS,
        ]],
        links: hsdpa,
        flows: no_flows,
    },
    home::HOME,
    access::CABLE,
    access::LOW_ORBIT,
    wireless::AIRTIME,
    wireless::LTE,
    shapes::PARKING_LOT,
    shapes::TREE,
];

/// The preset of this name; otherwise an error that suggests the nearest name.
pub fn preset(name: &str) -> Result<&'static Preset, Problem> {
    PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| {
        let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        let fix = format!("{}There are: {}", hint(name, &names), names.join(", "));
        Problem::new(
            "path.preset",
            Some(&name.into()),
            fault(format!("there is no preset called {name}"), fix),
        )
    })
}

/// Replaces the preset of a scenario by its links and flows.
pub fn expand(scenario: &Scenario) -> Result<Scenario, Vec<Problem>> {
    let mut out = scenario.clone();
    let Some(path) = out.path.take() else { return Ok(out) };
    if scenario.dumbbell.is_some() || !scenario.link.is_empty() {
        let other = if scenario.dumbbell.is_some() { "dumbbell" } else { "link" };
        let found = fault("a preset already describes the path", format!("Remove [path] or {other}"));
        return Err(vec![Problem::new(other, None, found)]);
    }
    let preset = preset(&path.preset).map_err(|problem| vec![problem])?;
    let given = given(preset, &path.params.0).map_err(|problem| vec![problem])?;
    for flow in &mut out.flow {
        let [from, to] = ends(flow);
        (flow.from, flow.to) = (Some(Name(from)), Some(Name(to)));
    }
    let rows = |made: Result<Vec<Node>, Fault>| {
        made.map_err(|found| {
            let (option, problem) = found.problem.split_once('\0').unwrap_or(("", &found.problem));
            let field = format!("path.{option}");
            let value = path.params.get(option);
            vec![Problem::new(field, value, fault(problem, found.fix))]
        })
    };
    out.link = read_rows::<Link>("link", rows((preset.links)(&given))?)?;
    out.flow.extend(read_rows::<Flow>("flow", rows((preset.flows)(&given))?)?);
    Ok(out)
}

fn given(preset: &Preset, params: &[(String, Node)]) -> Result<Given, Problem> {
    let names: Vec<&str> = preset.choices().map(|choice| choice.name).collect();
    if let Some((key, node)) = params.iter().find(|(key, _)| !names.contains(&key.as_str())) {
        let fix = format!("{}It has {}", hint(key, &names), names.join(", "));
        let found = fault(format!("{} has no option {key}", preset.name), fix);
        return Err(Problem::new(format!("path.{key}"), Some(node), found));
    }
    let chosen = |choice: &'static Choice| {
        let given = params.iter().find(|(key, _)| key == choice.name).map(|(_, node)| node.clone());
        let node = given.unwrap_or_else(|| choice.default.into());
        (choice.name, Node { option: Some(choice.name), ..node })
    };
    Ok(Given(preset.choices().map(chosen).collect()))
}

fn read_rows<T: Kind>(list: &str, rows: Vec<Node>) -> Result<Vec<T>, Vec<Problem>> {
    let mut out = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        out.push(read(row, format!("{list}[{number}]"))?);
    }
    Ok(out)
}

/// The nodes between which a flow crosses a dumbbell or preset: by default from left to right.
pub fn ends(flow: &Flow) -> [String; 2] {
    let other = |node: Option<&Name>| match node.map(|name| &**name) {
        Some("left") => Some("right"),
        Some("right") => Some("left"),
        _ => None,
    };
    let from =
        flow.from.as_ref().map_or(other(flow.to.as_ref()).unwrap_or("left").into(), |name| name.0.clone());
    let to = flow
        .to
        .as_ref()
        .map_or(other(Some(&Name(from.clone()))).unwrap_or("right").into(), |name| name.0.clone());
    [from, to]
}
