//! An unchecked description: tables, lists and single values, each with its position in the source text.

use serde_json::value::RawValue;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::problem::{Fault, fault};
use crate::text::number_text;

/// A value in a description.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value; JSON's null.
    Null,
    /// A switch.
    Flag(bool),
    /// An integer.
    Whole(i128),
    /// Any other number.
    Number(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A table, in the order written.
    Table(Vec<(String, Node)>),
    /// A value that no field accepts, such as a date, as text.
    Other(String),
}

impl Value {
    /// Whether it is a single value: not a table, a list or null.
    pub fn is_single(&self) -> bool {
        !matches!(self, Value::Null | Value::List(_) | Value::Table(_))
    }

    /// A single value as users write it.
    pub fn text(&self) -> String {
        match self {
            Value::Flag(flag) => flag.to_string(),
            Value::Whole(number) => number.to_string(),
            Value::Number(number) => number_text(*number),
            Value::Text(text) => format!("\"{text}\""),
            Value::Other(text) => text.clone(),
            Value::Null | Value::List(_) | Value::Table(_) => String::new(),
        }
    }
}

/// A value with its position.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Offset of its first byte in the source text, if it comes from one.
    pub at: Option<usize>,
    /// The preset's option that created it.
    pub option: Option<&'static str>,
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Into<Value>> From<T> for Node {
    fn from(value: T) -> Self {
        Node { value: value.into(), at: None, option: None }
    }
}

macro_rules! from {
    ($($kind:ty => |$it:ident| $value:expr),+ $(,)?) => {
        $(impl From<$kind> for Value {
            fn from($it: $kind) -> Self {
                $value
            }
        })+
    };
}
from! {
    bool => |it| Value::Flag(it),
    u64 => |it| Value::Whole(it.into()),
    i128 => |it| Value::Whole(it),
    f64 => |it| Value::Number(it),
    &str => |it| Value::Text(it.into()),
    String => |it| Value::Text(it),
    Vec<Node> => |it| Value::List(it),
    Vec<(String, Node)> => |it| Value::Table(it),
    &[String] => |it| Value::List(it.iter().map(|text| text.as_str().into()).collect()),
    &[&str] => |it| Value::List(it.iter().map(|text| (*text).into()).collect()),
    Option<u64> => |it| it.map_or(Value::Null, Value::from),
    Option<&str> => |it| it.map_or(Value::Null, Value::from),
    Option<Node> => |it| it.map_or(Value::Null, |node| node.value),
}

/// Parses the value in an engine error, which is written as in a file: `"cubic"`, `8`, `true`. Null for other words,
/// such as `a tcp section`, which stand for something that is not a single value.
pub fn literal(text: &str) -> Node {
    let inside = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match (from_json(text), inside) {
        (Ok(node), _) => Node { at: None, ..node },
        // Rust escapes some characters differently from JSON.
        (Err(_), Some(inside)) => inside.into(),
        (Err(_), None) => Value::Null.into(),
    }
}

/// Builds a table of these keys and values, in this order.
#[macro_export]
macro_rules! table {
    ($($key:expr => $value:expr),* $(,)?) => {
        $crate::node::Node::table(vec![$((String::from($key), ::std::convert::Into::<$crate::node::Node>::into($value))),*])
    };
}

impl Node {
    /// Builds a table of these rows.
    pub fn table(rows: Vec<(String, Node)>) -> Node {
        Value::Table(rows).into()
    }

    /// The rows of a table; empty for any other value.
    pub fn rows(&self) -> &[(String, Node)] {
        match &self.value {
            Value::Table(rows) => rows,
            _ => &[],
        }
    }

    /// The items of a list; empty for any other value.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The value at `key` of a table, unless it is null.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let row = self.rows().iter().find(|(name, _)| name == key)?;
        (row.1.value != Value::Null).then_some(&row.1)
    }

    /// The text, if it is a text.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The integer, if it is one and fits.
    pub fn as_whole(&self) -> Option<u64> {
        match &self.value {
            Value::Whole(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// Appends a row to a table.
    pub fn put(&mut self, key: &str, node: impl Into<Node>) {
        let Value::Table(rows) = &mut self.value else { panic!("{key} put into what is no table") };
        rows.push((key.into(), node.into()));
    }

    /// Appends the rows of another table.
    pub fn with(mut self, more: Node) -> Node {
        let Value::Table(rows) = more.value else { panic!("a table can only be joined with another") };
        rows.into_iter().for_each(|(key, node)| self.put(&key, node));
        self
    }

    /// The single value at a path such as `flow[0].cc`.
    pub fn look_up(&self, place: &str) -> Option<&Node> {
        let mut here = self;
        for step in place.split(['.', '[', ']']).filter(|step| !step.is_empty()) {
            here = match &here.value {
                Value::List(items) => items.get(step.parse::<usize>().ok()?)?,
                _ => here.get(step)?,
            };
        }
        here.value.is_single().then_some(here)
    }

    /// Line and column, from one, of every path.
    pub fn places(&self, text: &str) -> Vec<(String, (usize, usize))> {
        let starts: Vec<usize> =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let mut out = Vec::new();
        self.visit("", &mut |place, at| out.push((place.to_string(), position(text, &starts, at))));
        out
    }

    fn visit(&self, place: &str, visitor: &mut impl FnMut(&str, usize)) {
        if let (Some(at), false) = (self.at, place.is_empty()) {
            visitor(place, at);
        }
        for (key, node) in self.rows() {
            let dot = if place.is_empty() { "" } else { "." };
            node.visit(&format!("{place}{dot}{key}"), visitor);
        }
        for (number, node) in self.items().iter().enumerate() {
            node.visit(&format!("{place}[{number}]"), visitor);
        }
    }
}

fn position(text: &str, starts: &[usize], at: usize) -> (usize, usize) {
    let line = starts.partition_point(|start| *start <= at);
    let before = &text.as_bytes()[starts[line - 1]..at];
    (line, String::from_utf8_lossy(before).chars().count() + 1)
}

/// A syntax error with its position.
#[derive(Clone, Debug, PartialEq)]
pub struct SyntaxError {
    /// The parser's message.
    pub message: String,
    /// Line and column, from one.
    pub at: Option<(usize, usize)>,
}

impl SyntaxError {
    /// As a fault of the whole text; `format` is `TOML` or `JSON`.
    pub fn fault(&self, format: &str) -> Fault {
        fault(format!("is not {format}: {}", self.message), "See docs/scenario.md for the format")
    }
}

/// Parses TOML text.
pub fn from_toml(text: &str) -> Result<Node, SyntaxError> {
    let table = DeTable::parse(text).map_err(|error| SyntaxError {
        message: match error.message() {
            deep if deep.contains("recur") => "keys or brackets are nested too deeply".into(),
            other => other.into(),
        },
        at: error.span().map(|span| {
            let starts: Vec<usize> =
                std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
            position(text, &starts, span.start.min(text.len()))
        }),
    })?;
    let at = table.span().start;
    Ok(toml_table(table.into_inner(), at))
}

fn toml_table(table: DeTable<'_>, at: usize) -> Node {
    let mut rows: Vec<(usize, String, Node)> = table
        .into_iter()
        .map(|(key, value)| (key.span().start, key.into_inner().into_owned(), toml_value(value)))
        .collect();
    rows.sort_by_key(|(at, _, _)| *at);
    let value = Value::Table(rows.into_iter().map(|(_, key, node)| (key, node)).collect());
    Node { value, at: Some(at), option: None }
}

fn toml_value(found: Spanned<DeValue<'_>>) -> Node {
    let at = found.span().start;
    let value = match found.into_inner() {
        DeValue::Table(table) => return toml_table(table, at),
        DeValue::Array(items) => Value::List(items.into_iter().map(toml_value).collect()),
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Boolean(flag) => Value::Flag(flag),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(whole) => Value::Whole(whole),
            Err(_) => number.as_str().parse().map_or(Value::Other(number.to_string()), Value::Number),
        },
        DeValue::Float(number) => number.as_str().parse().map_or(Value::Other(String::new()), Value::Number),
        DeValue::Datetime(date) => Value::Other(date.to_string()),
    };
    Node { value, at: Some(at), option: None }
}

/// Parses JSON text.
pub fn from_json(text: &str) -> Result<Node, SyntaxError> {
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| SyntaxError {
        message: error.to_string(),
        at: Some((error.line(), error.column().max(1))),
    })?;
    Ok(json_value(raw, text))
}

fn json_value(raw: &RawValue, whole: &str) -> Node {
    // A raw value is a slice of the text, so its address gives its position.
    let at = raw.get().as_ptr() as usize - whole.as_ptr() as usize;
    let text = raw.get();
    let value = match text.as_bytes()[0] {
        b'{' => Value::Table(json_rows(text, whole)),
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            Value::List(items.into_iter().map(|item| json_value(item, whole)).collect())
        }
        b'"' => Value::Text(serde_json::from_str(text).unwrap_or_default()),
        b't' => Value::Flag(true),
        b'f' => Value::Flag(false),
        b'n' => Value::Null,
        _ => {
            text.parse().map(Value::Whole).unwrap_or_else(|_| text.parse().map_or(Value::Null, Value::Number))
        }
    };
    Node { value, at: Some(at), option: None }
}

fn json_rows(text: &str, whole: &str) -> Vec<(String, Node)> {
    let rows: std::collections::BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
    let mut rows: Vec<(String, Node)> =
        rows.into_iter().map(|(key, raw)| (key, json_value(raw, whole))).collect();
    rows.sort_by_key(|(_, node)| node.at);
    rows
}
