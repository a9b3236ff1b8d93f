//! Descriptions as text: TOML that parses to the same description, and JSON.

use crate::node::{Node, Value};

/// Tables with a header of their own at the top level of a file; all other values come before them.
const SECTIONS: [&str; 7] = ["path", "dumbbell", "link", "flow", "randomness", "instruments", "expect"];

/// The shortest text that parses to the same number, with a point or an exponent.
pub fn number_text(number: f64) -> String {
    if !number.is_finite() {
        return number.to_string().to_lowercase();
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').expect("an exponent");
    let exponent: i32 = exponent.parse().expect("a whole exponent");
    if (-4..16).contains(&exponent) {
        let plain = number.to_string();
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// A scenario as TOML text.
pub fn to_toml(scenario: &Node) -> String {
    let rows = scenario.rows();
    let mut out: String =
        rows.iter().filter(|(key, _)| !SECTIONS.contains(&key.as_str())).map(|row| line(row, "\n")).collect();
    for name in SECTIONS {
        match scenario.get(name).map(|node| &node.value) {
            Some(Value::Table(rows)) => out += &section(&format!("[{name}]"), rows),
            Some(Value::List(items)) => {
                items.iter().for_each(|item| out += &section(&format!("[[{name}]]"), item.rows()));
            }
            _ => {}
        }
    }
    out.trim_start_matches('\n').into()
}

fn section(header: &str, rows: &[(String, Node)]) -> String {
    format!("\n{header}\n{}", rows.iter().map(|row| line(row, "\n")).collect::<String>())
}

fn line((name, node): &(String, Node), end: &str) -> String {
    format!("{} = {}{end}", key(name), inline(&node.value))
}

fn key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if is_bare { name.into() } else { quoted(name) }
}

fn quoted(text: &str) -> String {
    // JSON's escapes are valid in TOML, except that TOML also requires DEL to be escaped.
    serde_json::to_string(text).expect("a text").replace('\x7f', "\\u007f")
}

fn inline(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::List(items) => {
            format!("[{}]", items.iter().map(|item| inline(&item.value)).collect::<Vec<_>>().join(", "))
        }
        Value::Table(rows) if rows.is_empty() => "{}".into(),
        Value::Table(rows) => {
            format!("{{ {} }}", rows.iter().map(|row| line(row, "")).collect::<Vec<_>>().join(", "))
        }
        Value::Null => quoted(""),
        single => single.text(),
    }
}

/// A description as JSON text.
pub fn to_json(node: &Node) -> String {
    let join = |parts: Vec<String>| parts.join(",");
    match &node.value {
        Value::Null => "null".into(),
        Value::Text(text) | Value::Other(text) => serde_json::to_string(text).expect("a text"),
        Value::List(items) => format!("[{}]", join(items.iter().map(to_json).collect())),
        Value::Table(rows) => {
            let row = |(key, node): &(String, Node)| {
                format!("{}:{}", serde_json::to_string(key).expect("a text"), to_json(node))
            };
            format!("{{{}}}", join(rows.iter().map(row).collect()))
        }
        single => single.text(),
    }
}
