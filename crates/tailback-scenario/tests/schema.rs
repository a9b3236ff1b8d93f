//! What the schema promises: text in, the engine's form out and back, and every complaint at its place.

use tailback_scenario::document;
use tailback_scenario::node::{self, Node};
use tailback_scenario::part::{Form, Kind};
use tailback_scenario::presets::PRESETS;
use tailback_scenario::problem::Problem;
use tailback_scenario::quantity::{Quantity, Size, to_unit};
use tailback_scenario::resolve::{self, Nothing, Resolved, resolve};
use tailback_scenario::schema::{Scenario, declared};
use tailback_scenario::text::{number_text, to_json, to_toml};
use tailback_scenario::unresolve::unresolve;

const HELLO: &str = r#"
duration = "60s"
[dumbbell]
rate = "10mbit"
rtt = "80ms"
[[flow]]
cc = "cubic"
[[flow]]
app = "voip"
"#;

fn read(node: &Node) -> Result<Scenario, Vec<Problem>> {
    resolve::read(node, &Nothing)
}

fn resolved(text: &str) -> Resolved {
    let scenario = read(&node::from_toml(text).unwrap()).unwrap();
    resolve(&scenario, &Nothing).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn complaint(text: &str) -> String {
    let read = read(&node::from_toml(text).unwrap());
    let problems = read.and_then(|scenario| resolve(&scenario, &Nothing).map(drop)).unwrap_err();
    problems.iter().map(|problem| problem.to_string()).collect::<Vec<_>>().join("\n")
}

fn route(resolved: &Resolved, flow: usize, key: &str) -> Vec<String> {
    let flow = &resolved.description.get("flows").unwrap().items()[flow];
    flow.get(key).unwrap().items().iter().map(|name| name.as_text().unwrap().to_string()).collect()
}

#[test]
fn a_dumbbell_becomes_two_links_in_exact_units() {
    let hello = resolved(HELLO);
    let link = &hello.description.get("links").unwrap().items()[0];
    assert_eq!(link.get("rate_bps").unwrap().as_whole(), Some(10_000_000));
    assert_eq!(link.get("delay_ps").unwrap().as_whole(), Some(40_000_000_000));
    assert_eq!(
        to_json(link.get("queue").unwrap()),
        r#"{"discipline":"fifo","params":{"limit_bytes":100000}}"#
    );
    assert_eq!(route(&hello, 0, "route"), ["bottleneck"]);
    assert_eq!(route(&hello, 0, "back_route"), ["return"]);
}

#[test]
fn a_dumbbells_media_set_the_pace_and_its_rates_the_size_of_queues() {
    let media = "back_rate = \"1mbit\"\nqueue = \"100ms\"\nmedium = \"adsl\"\nback_medium = \"docsis\"\nrtt";
    let home = resolved(&HELLO.replace("rtt", media)).description;
    let links = home.get("links").unwrap().items();
    let row = |link: usize| ["queue", "medium"].map(|key| to_json(links[link].get(key).unwrap()));
    let queue = |bytes: u64| format!(r#"{{"discipline":"fifo","params":{{"limit_bytes":{bytes}}}}}"#);
    let medium = |name: &str| format!(r#"{{"name":"{name}","params":{{}}}}"#);
    assert!(links.iter().all(|link| link.get("rate_bps").is_none()));
    assert_eq!([row(0), row(1)], [[queue(125_000), medium("adsl")], [queue(12_500), medium("docsis")]]);
    // Stations share one channel both ways.
    let air = resolved(&HELLO.replace("rtt", "medium = \"wifi\"\nback_medium = \"wifi\"\nrtt")).description;
    let channel = |link: &Node| link.get("medium").unwrap().get("channel").cloned();
    let [there, back] = air.get("links").unwrap().items() else { panic!("two links") };
    assert!(channel(there).is_some() && channel(there) == channel(back));
    // A mistake is reported of the way that has it.
    let wrong = complaint(&HELLO.replace("rtt", "back_medium = { name = \"docsis\", maps = \"1ms\" }\nrtt"));
    assert!(wrong.starts_with("dumbbell.back_medium.maps"), "{wrong}");
}

#[test]
fn the_transport_tcp_is_the_default_spelt_out() {
    let spelt = HELLO.replace("cc = \"cubic\"", "cc = \"cubic\"\ntransport = \"tcp\"");
    assert_eq!(resolved(&spelt).description, resolved(HELLO).description);
}

#[test]
fn toml_and_json_say_the_same() {
    let toml = node::from_toml(HELLO).unwrap();
    let json = to_json(&toml);
    assert_eq!(node::from_json(&json).unwrap(), toml);
}

#[test]
fn what_is_resolved_stands_for_itself() {
    for text in PRESETS.iter().map(|preset| {
        format!("duration = \"1s\"\npath = \"{}\"\n[[flow]]\nname = \"b\"\nstart = \"2ms\"\n", preset.name)
    }) {
        let first = resolved(&text).description;
        let again = to_toml(&unresolve(&first));
        assert_eq!(resolved(&again).description, first, "{again}");
    }
}

#[test]
fn written_in_full_or_in_short_it_reads_back() {
    let scenario = read(&node::from_toml(HELLO).unwrap()).unwrap();
    for form in [Form::Full, Form::Short] {
        assert_eq!(read(&scenario.write(form)).unwrap(), scenario);
    }
    assert_eq!(to_toml(&scenario.write(Form::Short)), to_toml(&node::from_toml(
        "seed = 1\nduration = \"60s\"\n[dumbbell]\nrate = \"10mbit\"\nrtt = \"80ms\"\n[[flow]]\ncc = \"cubic\"\n[[flow]]\napp = \"voip\"",
    ).unwrap()));
}

#[test]
fn the_shortest_way_wins_the_first_listed_on_ties_and_a_tunnel_stays_out_of_itself() {
    let link = |name: &str, from: &str, to: &str, more: &str| {
        format!("[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nduplex = true\n{more}\n")
    };
    let tunnel = "medium = { name = \"tunnel\", flow = \"outer\" }";
    let line = "rate = \"1mbit\"\ndelay = \"1ms\"";
    let text = format!(
        "duration = \"1s\"\n{}{}{}{}[[flow]]\napp = \"tunnel\"\nname = \"outer\"\nfrom = \"a\"\nto = \"b\"\n\
         [[flow]]\nfrom = \"a\"\nto = \"c\"\n",
        link("inside", "a", "b", tunnel),
        link("line", "a", "b", line),
        link("other", "a", "b", line),
        link("far", "b", "c", line),
    );
    let found = resolved(&text);
    assert_eq!(route(&found, 0, "route"), ["line"]);
    assert_eq!(route(&found, 1, "route"), ["inside", "far"]);
    assert_eq!(route(&found, 1, "back_route"), ["far.back", "inside.back"]);
}

#[test]
fn a_complaint_has_place_value_problem_and_fix() {
    let said = complaint(&HELLO.replace("cubic", "qubic"));
    assert!(
        said.starts_with("flow[0].cc = \"qubic\": there is no congestion control called qubic."),
        "{said}"
    );
    assert!(said.contains("Did you mean \"cubic\"?"), "{said}");
    let said = complaint(&HELLO.replace("10mbit", "10").replace("60s", "soon"));
    assert_eq!(said.lines().count(), 2, "{said}");
    let wrong = complaint("duration = \"1s\"\npath = { preset = \"wifi\", buffer = \"3mbit\" }\n[[flow]]\n");
    assert!(
        wrong.starts_with("path.buffer = \"3mbit\": \"mbit\" looks like bits, a size is in bytes"),
        "{wrong}"
    );
}

#[test]
fn places_are_known_in_both_formats() {
    let place = |node: &Node, text: &str, path: &str| {
        node.places(text).into_iter().find(|(known, _)| known == path).map(|(_, at)| at)
    };
    let toml = node::from_toml(HELLO).unwrap();
    assert_eq!(place(&toml, HELLO, "flow[0].cc"), Some((7, 6)));
    assert_eq!(place(&toml, HELLO, "dumbbell"), Some((3, 1)));
    let text = "{\n  \"flow\": [\n    {\"cc\": \"cubic\"}\n  ]\n}";
    assert_eq!(place(&node::from_json(text).unwrap(), text, "flow[0].cc"), Some((3, 12)));
    let broken = node::from_toml("a = 1\nb = ").unwrap_err();
    assert_eq!(broken.at.map(|(line, _)| line), Some(2));
    assert_eq!(node::from_json("{\"a\": }").unwrap_err().at.map(|(line, _)| line), Some(1));
}

#[test]
fn the_engines_complaints_are_said_of_the_scenario() {
    let problem =
        resolved(HELLO).translate("links[0].queue.params.limit_bytes", "100000", "too small", "Give more.");
    assert_eq!(problem.to_string(), "dumbbell.queue.limit_bytes = 100000: too small. Give more.");
    let problem = resolved(&HELLO.replace("rtt", "queue = \"1bdp\"\nrtt"));
    let problem = problem.translate("links[0].queue.params.limit_bytes", "100000", "too small", "Give more.");
    assert_eq!(problem.field, "dumbbell.queue.limit_bytes");
    // A text has one pair of quotes; what is no single value is left out.
    for (found, shown) in [
        ("\"x\"", " = \"x\""),
        ("true", " = true"),
        ("\"\\u{1}\"", " = \"\\u{1}\""),
        ("a tcp section", ""),
        ("[1]", ""),
    ] {
        let problem = resolved(HELLO).translate("flows[0].nowhere", found, "wrong", "Remove it.");
        assert_eq!(problem.to_string(), format!("flow[0].nowhere{shown}: wrong. Remove it."));
    }
    assert_eq!(resolved(HELLO).translate("duration_ps", "1", "too long", "Less.").field, "duration");
}

#[test]
fn a_bdp_is_exact_and_rounded_down() {
    let bytes = |text: &str, rate, rtt| Size::read(text).unwrap().in_bytes(rate, rtt);
    assert_eq!(bytes("1bdp", 10_000_000, 80_000_000_000), Some(100_000));
    assert_eq!(bytes("0.333bdp", 10_000_000, 80_000_000_000), Some(33_300));
    assert_eq!(bytes("1bdp", 3, 1_000_000_000_000), Some(0));
    // 1 Tbit/s over a day: 128 bits before the division.
    assert_eq!(
        bytes("3.000000001bdp", 1_000_000_000_000, 86_400_000_000_000_000),
        Some(32_400_000_010_800_000)
    );
    assert_eq!(bytes("5packets", 1, 1), None);
}

#[test]
fn a_size_counted_in_packets_is_as_many_of_the_largest_as_it_holds() {
    let limits = |queue: &str| {
        let text = HELLO.replace("rtt", &format!("queue = \"{queue}\"\nback_queue = \"1packets\"\nrtt"));
        let links = to_json(&resolved(&text).description);
        let params = links.split("\"params\":").nth(1).unwrap();
        params[..=params.find('}').unwrap()].to_string()
    };
    // 100,000 B hold 66 packets of 1500 B and a remainder of 1000 B, which only a byte count gives away.
    assert_eq!(limits("1bdp"), r#"{"limit_bytes":100000}"#);
    assert_eq!(limits("1bdp packets"), r#"{"limit_packets":66}"#);
    assert_eq!(limits("80ms packets"), r#"{"limit_packets":66}"#);
    assert_eq!(limits("15kB  packets"), r#"{"limit_packets":10}"#);
    assert_eq!(limits("0.001bdp packets"), r#"{"limit_packets":1}"#);
    assert_eq!(limits("7 packets"), r#"{"limit_packets":7}"#);
    for (text, written) in
        [("0.5bdp packets", "0.5bdp packets"), ("1 bdp packet", "1bdp packets"), ("3 packets", "3packets")]
    {
        assert_eq!(Size::read(text).unwrap().to_string(), written);
        assert_eq!(Size::read(written), Size::read(text));
    }
    let twice = Size::read("3packets packets").unwrap_err();
    assert_eq!(twice.problem, "packets are counted twice");
}

#[test]
fn the_largest_packet_of_datagrams_is_the_applications() {
    let limit = |flow: &str| {
        let path =
            "duration = \"60s\"\n[dumbbell]\nrate = \"10mbit\"\nrtt = \"80ms\"\nqueue = \"60kB packets\"\n";
        let links = to_json(&resolved(&format!("{path}[[flow]]\n{flow}\n")).description);
        links.split("\"limit_packets\":").nth(1).unwrap().split('}').next().unwrap().to_string()
    };
    assert_eq!(limit("app = \"voip\""), "300");
    assert_eq!(limit("app = \"media\""), "50");
    assert_eq!(limit("app = \"media\"\nparams = { packet_bytes = 600 }"), "100");
    assert_eq!(limit("app = \"media\"\nparams = { packet_bytes = \"600B\" }"), "100");
}

#[test]
fn everything_wrong_is_reported_beside_an_unknown_key() {
    let fields = |text: &str| {
        complaint(text)
            .lines()
            .map(|line| line[..line.find([':', ' ']).unwrap()].to_string())
            .collect::<Vec<_>>()
    };
    let text = HELLO.replace("cubic", "qubic").replace("[[flow]]\ncc", "[[flow]]\nsped = 3\ncc");
    assert_eq!(fields(&text), ["flow[0].sped", "flow[0].cc"]);
    let text = HELLO.replace("rtt = \"80ms\"", "sched = 1");
    assert_eq!(fields(&text), ["dumbbell.sched", "dumbbell"]);
    // A misspelt key is read as what it was meant to be: nothing else is missing.
    let text = HELLO.replace("rtt", "rrt").replace("[dumbbell]", "[dumbell]").replace("voip", "viop");
    assert_eq!(fields(&text), ["dumbell.rrt", "dumbell", "flow[1].app"]);
    // What rests on a wrong value is not judged, the rest is.
    let text = HELLO.replace("10mbit", "10").replace("60s", "0s").replace("cubic", "qubic");
    assert_eq!(fields(&text), ["duration", "dumbbell.rate", "flow[0].cc"]);
    let text =
        "duration = \"1s\"\npath = { preset = \"wifi\", bufer = 3, sped = 1 }\n[[flow]]\ncc = \"qubic\"\n";
    assert_eq!(fields(text), ["path.bufer", "path.sped", "flow[0].cc"]);
}

#[test]
fn what_must_be_above_zero_is_not_left_out() {
    let said = complaint(&HELLO.replace("60s", "0s"));
    assert_eq!(said, "duration = \"0s\": must be above zero. Give a time above zero, for example \"80ms\".");
}

#[test]
fn a_route_crosses_a_link_once() {
    let link = |name: &str, from: &str, to: &str| {
        format!("[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"1mbit\"\n")
    };
    let text = format!(
        "duration = \"1s\"\n{}{}[[flow]]\nfrom = \"a\"\nto = \"b\"\nroute = [\"up\", \"down\", \"up\"]\n",
        link("up", "a", "b"),
        link("down", "b", "a"),
    );
    let said = complaint(&text);
    assert_eq!(said, "flow[0].route[2] = \"up\": the route passes link up twice. Name each link once.");
}

#[test]
fn a_queue_of_time_holds_what_the_link_sends_in_it() {
    let limit = |text: &str| {
        let links = resolved(text).description;
        to_json(links.get("links").unwrap().items()[0].get("queue").unwrap().get("params").unwrap())
    };
    let with = |queue: &str| HELLO.replace("rtt", &format!("queue = {queue}\nrtt"));
    assert_eq!(limit(&with("\"100ms\"")), r#"{"limit_bytes":125000}"#);
    assert_eq!(limit(&with("\"100.0000001ms\"")), r#"{"limit_bytes":125001}"#);
    let bucket =
        r#"{ discipline = "token_bucket", rate = "1mbit", burst = "10kB", inner = { limit = "100ms" } }"#;
    let links = resolved(&with(bucket)).description;
    let inner = links.get("links").unwrap().items()[0].get("queue").unwrap().get("inner").unwrap();
    assert_eq!(to_json(inner.get("params").unwrap()), r#"{"limit_bytes":12500}"#);
    let wireless = "duration = \"1s\"\n[[link]]\nname = \"air\"\nfrom = \"a\"\nto = \"b\"\nduplex = true\n\
                    medium = \"wifi\"\nqueue = \"100ms\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n";
    let said = complaint(wireless);
    assert!(said.starts_with("link[0].queue = \"100ms\": the rate of this link varies"), "{said}");
    assert!(said.ends_with("Give its queue in bytes or packets."), "{said}");
}

#[test]
fn a_limit_of_another_kind_is_refused_at_its_place_with_what_to_write() {
    let with = |queue: &str| complaint(&HELLO.replace("rtt", &format!("queue = {queue}\nrtt")));
    let said = with(r#"{ discipline = "fq_codel", limit = "2bdp" }"#);
    assert!(said.starts_with("dumbbell.queue.limit = \"2bdp\": fq_codel has no limit in bytes."), "{said}");
    assert!(said.contains("Write \"2bdp packets\""), "{said}");
    resolved(&HELLO.replace("rtt", "queue = { discipline = \"fq_codel\", limit = \"2bdp packets\" }\nrtt"));
    let said = with(r#"{ discipline = "token_bucket", rate = "1mbit", limit = "9packets" }"#);
    assert!(said.contains("has no limit in packets. Write for example \"1bdp\""), "{said}");
    let said = with(r#"{ limit = "100B", drop = "head" }"#);
    assert!(said.starts_with("dumbbell.queue.limit = \"100B\": the queue holds 100 bytes"), "{said}");
}

#[test]
fn parameters_are_listed_as_people_write_them() {
    let said = complaint(&HELLO.replace("rtt", "queue = { discipline = \"codel\", wrong = 1 }\nrtt"));
    assert!(said.contains("target, interval,"), "{said}");
    assert!(!said.contains("_ms"), "{said}");
}

#[test]
fn a_count_of_flows_is_as_if_each_were_listed() {
    let flow = |text: &str| format!("{}\n{text}", HELLO.split("[[flow]]").next().unwrap());
    let counted = resolved(&flow("[[flow]]\nname = \"x\"\ncount = 3\nstart = \"1s\"\n[[flow]]\n"));
    let listed: String =
        (1..=3).map(|n| format!("[[flow]]\nname = \"x-{n}\"\nstart = \"1s\"\n")).collect::<String>()
            + "[[flow]]\n";
    assert_eq!(counted.description, resolved(&flow(&listed)).description);
    let said =
        complaint(&flow("[[flow]]\nname = \"x\"\ncount = 2\n[[flow]]\nname = \"x-2\"\ncc = \"qubic\"\n"));
    assert!(said.starts_with("flow[1].name = \"x-2\": two flows are called x-2."), "{said}");
    assert!(said.contains("\nflow[1].cc = \"qubic\""), "{said}");
}

#[test]
fn a_two_way_flow_is_one_each_way() {
    let call = resolved(&HELLO.replace("\"voip\"", "\"voip\"\ntwo_way = true\naccess_delay = \"1ms\""));
    let name = |flow: &Node| flow.get("name").unwrap().as_text().unwrap().to_string();
    let flows: Vec<String> = call.description.get("flows").unwrap().items().iter().map(name).collect();
    assert_eq!(flows, ["bulk", "voip", "voip.back"]);
    assert_eq!(route(&call, 1, "route"), ["voip.access", "bottleneck"]);
    assert_eq!(route(&call, 2, "route"), ["voip.back.access", "return"]);
    let wrong = HELLO.replace("\"voip\"", "\"voip\"\ntwo_way = true\nroute = [\"x\"]");
    let said = complaint(&wrong);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("flow[1].route[0] = \"x\": there is no link x"), "{said}");
}

#[test]
fn parameters_are_rounded_once() {
    // 2^53 + 1 picoseconds are a tie that a float of picoseconds cannot hold.
    assert_eq!(to_unit("9007199254740993ps", "ms").unwrap(), 9_007_199.254_740_993);
    assert_eq!(to_unit("0.3ms", "us").unwrap(), 300.0);
    assert_eq!(to_unit("2%", "").unwrap(), 0.02);
    assert_eq!(Quantity::Time.read("1.000000000001s").unwrap(), 1_000_000_000_001);
}

#[test]
fn numbers_are_written_as_python_writes_them() {
    for (number, text) in [
        (1e-6, "1e-06"),
        (0.0001, "0.0001"),
        (1e16, "1e+16"),
        (3.0, "3.0"),
        (1.5e-10, "1.5e-10"),
        (0.1, "0.1"),
    ] {
        assert_eq!(number_text(number), text);
    }
}

#[test]
fn a_stack_field_is_read_in_its_own_unit() {
    let with = |field: &str| {
        let stack = format!("cc = \"cubic\"\nstack = {{ name = \"linux\", {field} }}");
        HELLO.replace("cc = \"cubic\"", &stack)
    };
    for (field, written) in [
        ("rto_minimum = \"0.3s\"", "\"rto_minimum\":300"),
        ("send_buffer = \"64kB\"", "\"send_buffer\":64000"),
        ("initial_window = \"3 segments\"", "\"initial_window\":3"),
    ] {
        let description = to_json(&resolved(&with(field)).description);
        assert!(description.contains(written), "{field}: {description}");
    }
    for wrong in ["rto_minimum = \"64kB\"", "send_buffer = \"200ms\"", "initial_window = \"3ms\""] {
        let field = &wrong[..wrong.find(' ').unwrap()];
        assert!(complaint(&with(wrong)).starts_with(&format!("flow[0].stack.{field} = ")), "{wrong}");
    }
}

#[test]
fn a_flow_that_count_makes_and_a_medium_that_is_none_name_their_fix() {
    let counted = HELLO.replace("[[flow]]\ncc", "[[flow]]\nname = \"up\"\ncount = 2\ncc");
    let said = complaint(&format!("{counted}[instruments]\npackets = [\"up\"]\n"));
    assert!(said.contains("count makes several of up: name each. There are: up-1, up-2"), "{said}");
    let said = complaint(&HELLO.replace("[dumbbell]", "[dumbbell]\nmedium = \"none\""));
    assert!(said.contains("Remove medium for a link that transmits at its rate"), "{said}");
}

#[test]
fn a_table_by_both_of_its_names_is_refused() {
    let both = HELLO.replace("[[flow]]", "[[flow]]\ncc = \"reno\"\n[[flows]]");
    let said = complaint(&both);
    assert!(said.starts_with("flows: flow is here too"), "{said}");
    resolved(&HELLO.replace("[[flow]]", "[[flows]]"));
}

#[test]
fn every_field_is_documented_and_in_the_json_schema() {
    let schema = document::json_schema();
    for part in declared() {
        assert!(!part.doc.trim().is_empty(), "{}", part.name);
        let table = match part.name {
            "Scenario" => schema.clone(),
            name => schema.get("$defs").unwrap().get(name).unwrap().clone(),
        };
        let text = to_json(&table);
        for field in part.fields {
            assert!(!field.doc.trim().is_empty(), "{}.{}", part.name, field.name);
            assert!(text.contains(&format!("\"{}\":{{", field.name)), "{}.{}", part.name, field.name);
        }
    }
}
