//! Converts a page in a HAR file (HTTP Archive 1.2) for the application `page`.
//!
//! An entry depends on the one that its `_initiator` names, by URL or by its innermost stack frame. Without an
//! initiator it depends on the entry that ended last before it began, because a cause ends before its effect begins.
//! Timings alone show no more (Li et al., WebProphet, NSDI 2010, delay objects to find dependencies). If no entry had
//! ended, it depends on the first entry. Its delay is the time from there to its own begin.
//!
//! A server's processing time is `timings.wait` less the host's round trip: its shortest TCP handshake, or else its
//! shortest wait.

use std::collections::{BTreeMap, BTreeSet};

use crate::node::{self, Node, Value};
use crate::problem::{Fault, fault};

/// The smallest valid file.
pub const SMALLEST: &str = r#"{"log": {"entries": [{"startedDateTime": "2024-01-01T00:00:00Z", "time": 1,
"request": {"url": "http://a/"}, "response": {"bodySize": 1}}]}}"#;
const SAVE: &str = "Save it in the browser's network panel, as HAR with content or without";
/// Size of a request if the file does not state it, as with HTTP/2: the headers of a typical request.
const REQUEST: u64 = 400;
/// Limit on the number of entries.
const MOST: usize = 10_000;

/// The fields used of an entry.
struct Entry {
    /// Name for messages: its number in the file, its line, its URL.
    name: String,
    url: String,
    host: String,
    begins: f64,
    ends: f64,
    bytes: u64,
    request: u64,
    wait: f64,
    handshake: Option<f64>,
    initiator: Option<String>,
}

/// Converts the page to text, one object per fetched entry; an error names entry and line.
pub fn page(text: &str) -> Result<String, Fault> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('<') {
        return Err(fault("this is a web page, not a HAR file", SAVE));
    }
    let root = node::from_json(text).map_err(|error| error.fault("JSON"))?;
    let entries = root.get("log").and_then(|log| log.get("entries"));
    let Some(Node { value: Value::List(entries), .. }) = entries else {
        return Err(fault("there is no list log.entries: this is not a HAR file", SAVE));
    };
    if entries.len() > MOST {
        return Err(fault(
            format!("{} entries are more than {MOST}", entries.len()),
            "Save one page's entries alone",
        ));
    }
    let mut kept = Vec::new();
    for (number, node) in entries.iter().enumerate() {
        kept.extend(entry(node, number, text)?);
    }
    if kept.is_empty() {
        return Err(fault("no entry was fetched over the network", "Save it again with an empty cache"));
    }
    kept.sort_by(|one, other| one.begins.total_cmp(&other.begins));
    let causes = causes(&kept);
    let order = order(&kept, &causes)?;
    Ok(written(&kept, &causes, &order))
}

fn number(node: Option<&Node>) -> Option<f64> {
    match node?.value {
        Value::Whole(number) => Some(number as f64),
        Value::Number(number) => Some(number),
        _ => None,
    }
}

/// Parses an entry; `None` if nothing was fetched, because it was cached, inline or aborted.
fn entry(node: &Node, number: usize, text: &str) -> Result<Option<Entry>, Fault> {
    let line = 1 + node.at.map_or(0, |at| text[..at].matches('\n').count());
    let url = node.get("request").and_then(|request| request.get("url")).and_then(Node::as_text);
    let name = format!("entry {number} (line {line}, {})", url.unwrap_or("no URL"));
    let wrong = |problem: &str, fix: &str| fault(format!("{name}: {problem}"), fix);
    let url = url.ok_or_else(|| wrong("request.url is missing", SAVE))?;
    let response = node.get("response").ok_or_else(|| wrong("response is missing", SAVE))?;
    let is_cached = node.get("_fromCache").is_some_and(|from| from.value != Value::Null);
    let status = number_of(response, "status");
    if is_cached || status == Some(0.0) || !url.starts_with("http") {
        return Ok(None);
    }
    let begins = node.get("startedDateTime").and_then(Node::as_text);
    let begins = begins.and_then(milliseconds).ok_or_else(|| {
        let given = begins.map_or_else(|| "missing".into(), |text| format!("\"{text}\""));
        wrong(&format!("startedDateTime is {given}"), "Write it as 2024-05-01T12:00:00.000Z")
    })?;
    let time = number_of(node, "time").filter(|time| *time >= 0.0);
    let time =
        time.ok_or_else(|| wrong("time is missing or negative", "Give the milliseconds that it took"))?;
    let timing = |key: &str| node.get("timings").and_then(|it| number_of(it, key)).filter(|ms| *ms >= 0.0);
    let initiator = node.get("_initiator").and_then(|it| {
        let frames = it.get("stack").and_then(|stack| stack.get("callFrames"));
        let frame = frames.and_then(|frames| frames.items().first()).and_then(|frame| frame.get("url"));
        it.get("url").or(frame).and_then(Node::as_text).filter(|url| !url.is_empty())
    });
    Ok(Some(Entry {
        url: plain(url).into(),
        host: host(url).into(),
        begins,
        ends: begins + time,
        bytes: size(response).ok_or_else(|| {
            let problem = "response has no size: _transferSize, headersSize with bodySize, and content.size are missing";
            wrong(problem, "Give response.bodySize in bytes, or remove the entry")
        })?,
        request: node.get("request").and_then(|it| wire_size(it, true)).unwrap_or(REQUEST),
        wait: timing("wait").unwrap_or(0.0),
        handshake: timing("connect").filter(|ms| *ms > 0.0).map(|ms| (ms - timing("ssl").unwrap_or(0.0)).max(0.0)),
        initiator: initiator.map(|url| plain(url).into()),
        name,
    }))
}

fn number_of(node: &Node, key: &str) -> Option<f64> {
    number(node.get(key))
}

/// Size of headers and body, if both are known; for a response the body suffices.
fn wire_size(node: &Node, needs_headers: bool) -> Option<u64> {
    let known = |key: &str| number_of(node, key).filter(|bytes| *bytes >= 0.0);
    match (known("headersSize"), known("bodySize")) {
        (Some(headers), body) if headers > 0.0 => Some((headers + body.unwrap_or(0.0)) as u64),
        (_, Some(body)) if body > 0.0 && !needs_headers => Some(body as u64),
        _ => None,
    }
}

fn size(response: &Node) -> Option<u64> {
    let positive = |bytes: Option<f64>| bytes.filter(|bytes| *bytes > 0.0).map(|bytes| bytes as u64);
    positive(number_of(response, "_transferSize"))
        .or_else(|| wire_size(response, false))
        .or_else(|| positive(response.get("content").and_then(|content| number_of(content, "size"))))
}

/// The URL without its fragment.
fn plain(url: &str) -> &str {
    url.split('#').next().unwrap_or(url)
}

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}

/// Parses `2024-05-01T12:00:00.000+02:00` to milliseconds since a fixed epoch.
fn milliseconds(text: &str) -> Option<f64> {
    let (date, clock) = text.trim().split_once(['T', ' '])?;
    let mut parts = date.split('-').map(str::parse::<i64>);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let at = clock.find(['Z', '+', '-']).unwrap_or(clock.len());
    let (clock, zone) = clock.split_at(at);
    let mut parts = clock.split(':');
    let (hour, minute) = (parts.next()?.parse::<i64>().ok()?, parts.next()?.parse::<i64>().ok()?);
    let second = parts.next()?.parse::<f64>().ok()?;
    let offset = match zone.trim_start_matches(['Z', '+', '-']) {
        "" => 0,
        zone => {
            let (hours, minutes) = zone.split_once(':').or_else(|| zone.split_at_checked(2))?;
            let whole = 60 * hours.parse::<i64>().ok()? + minutes.parse::<i64>().ok()?;
            if text.contains('+') { whole } else { -whole }
        }
    };
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days of the civil calendar, with the year starting in March.
    let year = if month <= 2 { year - 1 } else { year };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = days + (153 * ((month + 9) % 12) + 2) / 5 + day;
    Some(6e4 * ((days * 24 + hour) * 60 + minute - offset) as f64 + 1e3 * second)
}

/// The entry on which each entry depends.
fn causes(entries: &[Entry]) -> Vec<Option<usize>> {
    let mut by_url: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, entry) in entries.iter().enumerate() {
        by_url.entry(&entry.url).or_default().push(number);
    }
    let cause = |(number, entry): (usize, &Entry)| {
        let named = entry.initiator.as_deref().and_then(|url| by_url.get(url)).and_then(|found| {
            let earlier = found.iter().rev().find(|other| **other < number);
            earlier.or_else(|| found.first()).copied()
        });
        named.or_else(|| {
            let ended = (0..number).filter(|other| entries[*other].ends <= entry.begins);
            let last = ended.max_by(|one, other| entries[*one].ends.total_cmp(&entries[*other].ends));
            last.or((number > 0).then_some(0))
        })
    };
    entries.iter().enumerate().map(cause).collect()
}

/// Orders the entries so that each follows the one it depends on; an error if there is a cycle.
fn order(entries: &[Entry], causes: &[Option<usize>]) -> Result<Vec<usize>, Fault> {
    let mut order = Vec::new();
    let mut waiting: BTreeSet<usize> = (0..entries.len()).collect();
    while !waiting.is_empty() {
        let free: Vec<usize> = waiting
            .iter()
            .copied()
            .filter(|number| causes[*number].is_none_or(|on| !waiting.contains(&on)))
            .collect();
        if free.is_empty() {
            let first = *waiting.first().expect("some wait");
            // From any entry left, following the causes leads into the cycle.
            let within = waiting.iter().fold(first, |at, _| causes[at].unwrap_or(at));
            let next = causes[within].unwrap_or(within);
            let problem =
                format!("{} and {} depend on one another", entries[within].name, entries[next].name);
            return Err(fault(problem, "Remove _initiator from one of them"));
        }
        for number in free {
            waiting.remove(&number);
            order.push(number);
        }
    }
    Ok(order)
}

fn written(entries: &[Entry], causes: &[Option<usize>], order: &[usize]) -> String {
    let mut trips: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for entry in entries {
        let (handshake, wait) = trips.entry(&entry.host).or_insert((f64::INFINITY, f64::INFINITY));
        *handshake = handshake.min(entry.handshake.unwrap_or(f64::INFINITY));
        *wait = wait.min(entry.wait);
    }
    let place: BTreeMap<usize, usize> =
        order.iter().enumerate().map(|(place, number)| (*number, place)).collect();
    let mut hosts: Vec<&str> = Vec::new();
    let object = |number: &usize| {
        let entry = &entries[*number];
        let host = hosts.iter().position(|host| *host == entry.host).unwrap_or_else(|| {
            hosts.push(&entry.host);
            hosts.len() - 1
        });
        let (handshake, wait) = trips[&*entry.host];
        let trip = if handshake.is_finite() { handshake } else { wait };
        let server = (entry.wait - trip).max(0.0);
        let (delay, after) = match causes[*number] {
            Some(on) => ((entry.begins - entries[on].ends).max(0.0), place[&on].to_string()),
            None => (0.0, "-".into()),
        };
        let round = |ms: f64| (1e3 * ms).round() / 1e3;
        format!("{host} {} {} {} {} {after}", entry.bytes, entry.request, round(server), round(delay))
    };
    order.iter().map(object).collect::<Vec<String>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at_ms: u32, time: u32, url: &str, more: &str) -> String {
        format!(
            r#"{{"startedDateTime": "2024-05-01T12:00:{:02}.{:03}Z", "time": {time}, "request": {{"url": "{url}"}},
            "response": {{"bodySize": 1000}}{more}}}"#,
            at_ms / 1000,
            at_ms % 1000
        )
    }

    fn har(entries: &[String]) -> String {
        format!("{{\"log\": {{\"entries\": [\n{}\n]}}}}", entries.join(",\n"))
    }

    fn problem(text: &str) -> String {
        let found = page(text).expect_err("it is refused");
        format!("{}. {}", found.problem, found.fix)
    }

    #[test]
    fn initiators_make_the_graph_and_times_where_there_are_none() {
        let parser = r#", "_initiator": {"type": "parser", "url": "https://a/"}"#;
        let script =
            r#", "_initiator": {"type": "script", "stack": {"callFrames": [{"url": "https://a/x.js#1"}]}}"#;
        let text = har(&[
            entry(0, 100, "https://a/", ""),
            entry(110, 40, "https://a/x.js", parser),
            entry(105, 200, "https://b/y.png", parser),
            entry(160, 10, "https://b/z.json", script),
            // No initiator: x.js, at 150, ended last before it.
            entry(155, 10, "https://b/late.gif", ""),
            entry(0, 1, "data:image/png;base64,AA", ""),
            entry(20, 1, "https://a/cached.css", r#", "_fromCache": "memory""#),
        ]);
        let expected =
            "0 1000 400 0 0 -; 1 1000 400 0 5 0; 0 1000 400 0 10 0; 1 1000 400 0 5 2; 1 1000 400 0 10 2";
        assert_eq!(page(&text).expect("it reads"), expected);
    }

    #[test]
    fn the_server_takes_its_wait_less_the_hosts_round_trip() {
        let timings = |connect: i32, ssl: i32, wait: u32| {
            format!(r#", "timings": {{"connect": {connect}, "ssl": {ssl}, "wait": {wait}}}"#)
        };
        let text = har(&[
            entry(0, 100, "https://a/", &timings(50, 30, 70)),
            entry(200, 100, "https://a/x", &timings(-1, -1, 25)),
            entry(400, 100, "http://b/", &timings(-1, -1, 40)),
            entry(600, 100, "http://b/x", &timings(-1, -1, 55)),
        ]);
        // A's handshake took 20 ms; b has none, and its shortest wait is 40 ms.
        let server: Vec<String> = page(&text)
            .expect("it reads")
            .split("; ")
            .map(|object| object.split(' ').nth(3).expect("a time").to_string())
            .collect();
        assert_eq!(server, ["50", "5", "0", "15"]);
    }

    #[test]
    fn sizes_are_those_on_the_wire() {
        let sized = |response: &str| {
            let entry = entry(0, 1, "http://a/", "").replace(r#"{"bodySize": 1000}"#, response);
            page(&har(&[entry])).map(|page| page.split(' ').nth(1).expect("bytes").to_string())
        };
        assert_eq!(sized(r#"{"_transferSize": 700, "bodySize": 1000}"#), Ok("700".into()));
        assert_eq!(sized(r#"{"headersSize": 200, "bodySize": 1000}"#), Ok("1200".into()));
        assert_eq!(sized(r#"{"headersSize": -1, "bodySize": 1000}"#), Ok("1000".into()));
        assert_eq!(
            sized(r#"{"headersSize": -1, "bodySize": -1, "content": {"size": 900}}"#),
            Ok("900".into())
        );
        let missing = sized(r#"{"headersSize": -1, "bodySize": -1}"#).expect_err("no size");
        assert!(
            missing.problem.starts_with("entry 0 (line 2, http://a/): response has no size"),
            "{missing:?}"
        );
    }

    #[test]
    fn times_have_zones() {
        let at = |text: &str| milliseconds(text).expect("a time");
        assert_eq!(at("2024-03-01T00:00:00Z") - at("2024-02-28T23:59:59.500Z"), 86_400_500.0);
        assert_eq!(at("2024-05-01T12:00:00.000+02:00"), at("2024-05-01T10:00:00Z"));
        assert_eq!(at("2024-05-01T12:00:00-0130"), at("2024-05-01T13:30:00Z"));
        for text in ["", "yesterday", "2024-13-01T00:00:00Z", "2024-05-01"] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }

    #[test]
    fn a_fault_names_the_entry_its_line_and_what_to_do() {
        let by = |url: &str| format!(r#", "_initiator": {{"url": "{url}"}}"#);
        let circle = har(&[
            entry(0, 9, "http://a/", ""),
            entry(10, 9, "http://a/x", &by("http://a/y")),
            entry(20, 9, "http://a/y", &by("http://a/x")),
        ]);
        let found = problem(&circle);
        assert!(found.contains("entry 1 (line 4") && found.contains("entry 2 (line 6"), "{found}");
        assert!(found.ends_with("depend on one another. Remove _initiator from one of them"), "{found}");
        let own = problem(&har(&[entry(0, 9, "http://a/", &by("http://a/"))]));
        assert!(own.contains("depend on one another"), "{own}");
        for (text, expected) in [
            ("<!DOCTYPE html>".to_string(), "this is a web page, not a HAR file"),
            ("{\"log\": {}}".into(), "there is no list log.entries: this is not a HAR file. Save it"),
            ("[1, 2]".into(), "there is no list log.entries"),
            (har(&[]), "no entry was fetched over the network"),
            (har(&["{}".into()]), "entry 0 (line 2, no URL): request.url is missing"),
            (
                har(&[entry(0, 1, "http://a/", "").replace("2024-05-01T", "")]),
                "entry 0 (line 2, http://a/): startedDateTime is",
            ),
            (
                har(&[entry(0, 1, "http://a/", "").replace("\"time\": 1", "\"time\": -1")]),
                "entry 0 (line 2, http://a/): time is",
            ),
        ] {
            let found = problem(&text);
            assert!(found.starts_with(expected), "{found}\n{expected}");
        }
        assert!(!problem("{\"log\": ").is_empty());
        assert_eq!(page(SMALLEST), Ok("0 1 400 0 0 -".into()));
    }
}
