//! The kinds of values of fields, each with its shape for documentation, its reader and its writer.

use std::ops::Deref;

use tailback_core::scenario::IpVersion;

use super::{Form, Kind, Reader, Shape, shape};
use crate::node::{Node, Value};
use crate::problem::{Fault, fault};
use crate::quantity::{Quantity, Size};

impl<T: Kind> Kind for Option<T> {
    const SHAPE: Shape = Shape { is_optional: true, ..T::SHAPE };
    fn read(node: &Node, reader: &mut Reader) -> Option<Self> {
        if node.value == Value::Null { Some(None) } else { T::read(node, reader).map(Some) }
    }
    fn write(&self, form: Form) -> Node {
        self.as_ref().map_or(Value::Null.into(), |value| value.write(form))
    }
    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: Kind> Kind for Box<T> {
    const SHAPE: Shape = T::SHAPE;
    fn read(node: &Node, reader: &mut Reader) -> Option<Self> {
        T::read(node, reader).map(Box::new)
    }
    fn write(&self, form: Form) -> Node {
        T::write(self, form)
    }
}

impl<T: Kind> Kind for Vec<T> {
    const SHAPE: Shape = Shape { is_list: true, ..T::SHAPE };
    fn read(node: &Node, reader: &mut Reader) -> Option<Self> {
        let Value::List(items) = &node.value else {
            let fix = if T::SHAPE.kind == "part" {
                "Write a list of tables, or [[…]]"
            } else {
                "Write [\"first\", \"second\"]"
            };
            reader.refuse(Some(node), fault("this is not a list", fix));
            return None;
        };
        let read = |(number, item): (usize, &Node)| {
            reader.within(&format!("[{number}]"), |reader| T::read(item, reader))
        };
        let read: Vec<Option<T>> = items.iter().enumerate().map(read).collect();
        read.into_iter().collect()
    }
    fn write(&self, form: Form) -> Node {
        self.iter().map(|item| item.write(form)).collect::<Vec<Node>>().into()
    }
    fn absent() -> Option<Self> {
        Some(Vec::new())
    }
}

/// Defines a kind whose values are single, or a list that counts as one value.
macro_rules! kind {
    ($Type:ty, $shape:expr, read: $read:expr, write: $write:expr) => {
        impl Kind for $Type {
            const SHAPE: Shape = $shape;
            fn read(node: &Node, reader: &mut Reader) -> Option<Self> {
                let read: fn(&Node) -> Result<Self, Fault> = $read;
                reader.noted(node, read(node))
            }
            fn write(&self, _: Form) -> Node {
                let write: fn(&Self) -> Value = $write;
                write(self).into()
            }
        }
    };
}

kind!(bool, shape("flag"), read: |node| match node.value {
    Value::Flag(flag) => Ok(flag),
    _ => Err(fault("this is neither true nor false", "Write true or false")),
}, write: |flag| (*flag).into());

/// Defines quantities with units.
macro_rules! quantities {
    ($($(#[$doc:meta])* $Name:ident: $quantity:expr),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $Name(pub u64);
        kind!($Name, shape($quantity.name()), read: |node| $quantity.field(node).map($Name),
            write: |it| it.to_string().into());
        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&$quantity.text(self.0))
            }
        }
    )+};
}
quantities! {
    /// A time in picoseconds.
    Span: Quantity::Time,
    /// A rate in bits per second.
    Rate: Quantity::Rate,
    /// A number of bytes.
    Bytes: Quantity::Bytes,
}

/// A non-zero quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Positive<T>(pub T);

impl<T> Deref for Positive<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Kind + Default> Kind for Positive<T> {
    const SHAPE: Shape = T::SHAPE;
    fn read(node: &Node, reader: &mut Reader) -> Option<Self> {
        let value = T::read(node, reader)?;
        let quantity = Quantity::named(T::SHAPE.kind).expect("a quantity has units");
        let fix = format!("Give {} above zero, for example \"{}\"", quantity.what(), quantity.example());
        let read =
            if value == T::default() { Err(fault("must be above zero", fix)) } else { Ok(Positive(value)) };
        reader.noted(node, read)
    }
    fn write(&self, form: Form) -> Node {
        self.0.write(form)
    }
}

/// Size of the largest IP packet in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mtu(pub u32);

kind!(Mtu, shape("bytes"), read: |node| match Quantity::Bytes.field(node)? {
    // IPv4 and TCP headers with timestamps are 52 bytes; the length field of IP has 16 bits.
    bytes @ 100..=65_535 => Ok(Mtu(bytes as u32)),
    _ => Err(fault("an IP packet is 100 to 65535 bytes here", "Write for example \"1500B\"")),
}, write: |it| Quantity::Bytes.text(it.0.into()).into());

/// Version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip(pub IpVersion);

kind!(Ip, Shape { range: Some((4, 6)), ..shape("whole") }, read: |node| {
    let version = node.as_whole().and_then(|number| IpVersion::try_from(u8::try_from(number).ok()?).ok());
    version.map(Ip).ok_or_else(|| fault("IP has the versions 4 and 6 here", "Write ip = 6, or leave it out for 4"))
}, write: |it| u64::from(u8::from(it.0)).into());

kind!(Size, shape("size"), read: Size::field, write: |it| it.to_string().into());

/// An integer from `LEAST` to `MOST`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Whole<const LEAST: u64, const MOST: u64>(pub u64);

impl<const LEAST: u64, const MOST: u64> Kind for Whole<LEAST, MOST> {
    const SHAPE: Shape = Shape { range: Some((LEAST as i128, MOST as i128)), ..shape("whole") };
    fn read(node: &Node, reader: &mut Reader) -> Option<Self> {
        let refuse = |problem| Err(fault(problem, format!("Give a whole number from {LEAST} to {MOST}")));
        let read = match node.value {
            Value::Whole(_) => match node.as_whole() {
                Some(number) if (LEAST..=MOST).contains(&number) => Ok(Whole(number)),
                _ => refuse("out of range"),
            },
            _ => refuse("this is not a whole number"),
        };
        reader.noted(node, read)
    }
    fn write(&self, _: Form) -> Node {
        self.0.into()
    }
}

/// A signed integer from `LEAST` to `MOST`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signed<const LEAST: i32, const MOST: i32>(pub i32);

impl<const LEAST: i32, const MOST: i32> Kind for Signed<LEAST, MOST> {
    const SHAPE: Shape = Shape { range: Some((LEAST as i128, MOST as i128)), ..shape("whole") };
    fn read(node: &Node, reader: &mut Reader) -> Option<Self> {
        let refuse = |problem| Err(fault(problem, format!("Give a whole number from {LEAST} to {MOST}")));
        let read = match node.value {
            Value::Whole(number) => match i32::try_from(number) {
                Ok(number) if (LEAST..=MOST).contains(&number) => Ok(Signed(number)),
                _ => refuse("out of range"),
            },
            _ => refuse("this is not a whole number"),
        };
        reader.noted(node, read)
    }
    fn write(&self, _: Form) -> Node {
        i128::from(self.0).into()
    }
}

/// A probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probability(pub f64);

kind!(Probability, shape("probability"), read: |node| match node.value {
    Value::Whole(number @ 0..=1) => Ok(Probability(number as f64)),
    Value::Number(number) if (0.0..=1.0).contains(&number) => Ok(Probability(number)),
    _ => Err(fault("a probability lies between 0 and 1", "Write for example 0.01 for one in a hundred")),
}, write: |it| it.0.into());

/// A name: letters, digits and a few signs.
#[derive(Clone, Debug, PartialEq)]
pub struct Name(pub String);

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Name {
    fn of(node: &Node) -> Result<Self, Fault> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let text = node.as_text().unwrap_or_default();
        let is_name = text.starts_with(is_word) && text.chars().all(|c| is_word(c) || ".:+-".contains(c));
        if is_name && text != "all" {
            return Ok(Name(text.into()));
        }
        let fix = "Use letters, digits and any of \"_.:+-\", such as \"bulk-1\"; \"all\" is reserved";
        Err(fault("this is not a name", fix))
    }
}

kind!(Name, shape("name"), read: Name::of, write: |it| it.0.as_str().into());

/// Defines a kind whose values are a few names.
#[macro_export]
macro_rules! choices {
    ($(#[$doc:meta])* $Name:ident: $known:expr, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $Name(pub String);
        impl Kind for $Name {
            const SHAPE: Shape =
                Shape { kind: "name", part: "", is_list: false, is_optional: false, range: None };
            fn read(node: &Node, reader: &mut Reader) -> Option<Self> {
                let text = node.as_text().unwrap_or_default();
                let read = match $known.contains(&text) {
                    true => Ok($Name(text.into())),
                    false => Err(fault(concat!("this is no ", $what), $crate::problem::choices(text, &$known))),
                };
                reader.noted(node, read)
            }
            fn write(&self, _: Form) -> Node {
                self.0.as_str().into()
            }
        }
    };
}

/// Name of an algorithm, queue or stack, or the location of code for one: "python:file.py:Class",
/// "bpf:folder/mine.bpf.c", "rust:path/to/crate", "module:tcp_mine.c", "program:mine.toml".
#[derive(Clone, Debug, PartialEq)]
pub struct CodeName(pub String);

impl Deref for CodeName {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl CodeName {
    /// Whether it is the location of code.
    pub fn is_place(text: &str) -> bool {
        let place = ["python:", "bpf:", "rust:", "module:", "program:", "c:"]
            .iter()
            .find_map(|kind| text.strip_prefix(kind));
        place.is_some_and(|place| !place.is_empty() && !place.chars().any(char::is_control))
    }

    fn of(node: &Node) -> Result<Self, Fault> {
        let text = node.as_text().unwrap_or_default();
        match CodeName::is_place(text) {
            true => Ok(CodeName(text.into())),
            false => Name::of(node).map(|name| CodeName(name.0)),
        }
    }
}

kind!(CodeName, shape("name"), read: CodeName::of, write: |it| it.0.as_str().into());

/// One line of text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Text(pub String);

impl Text {
    fn of(node: &Node) -> Result<Self, Fault> {
        // Control characters, which affect a terminal or the direction of text, are not allowed in names.
        let steers = |c: char| {
            c.is_control()
                || (c.is_whitespace() && c != ' ')
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        };
        match node.as_text() {
            Some(text) if !text.contains(steers) => Ok(Text(text.into())),
            _ => Err(fault("this is not one line of text", "Write for example \"two flows, one queue\"")),
        }
    }
}

kind!(Text, shape("text"), read: Text::of, write: |it| it.0.as_str().into());

/// Some names, or all.
#[derive(Clone, Debug, PartialEq)]
pub enum Names {
    /// All names there are.
    All,
    /// The named ones.
    Of(Vec<String>),
}

kind!(Names, shape("names"), read: |node| match &node.value {
    Value::Text(text) if text == "all" => Ok(Names::All),
    Value::Text(_) => Name::of(node).map(|name| Names::Of(vec![name.0])),
    Value::List(items) => {
        let names: Result<Vec<String>, Fault> = items.iter().map(|item| Name::of(item).map(|name| name.0)).collect();
        names.map(Names::Of)
    }
    _ => Err(fault("this is not a list of names", "Write [\"first\", \"second\"] or \"all\"")),
}, write: |it| match it {
    Names::All => "all".into(),
    Names::Of(names) => names.as_slice().into(),
});

/// Parameters by name, in the order written: switches, numbers and texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params(pub Vec<(String, Node)>);

impl Params {
    /// The parameter of this name.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, node)| node)
    }
}

impl Kind for Params {
    const SHAPE: Shape = shape("params");
    fn read(node: &Node, reader: &mut Reader) -> Option<Self> {
        let check = |key: &str, item: &Node| match &item.value {
            Value::Number(number) if !number.is_finite() => {
                Err(fault(format!("parameter {key} must be a finite number"), "Write a finite number"))
            }
            Value::Text(_) => Text::of(item).map(drop),
            value if value.is_single() && !matches!(value, Value::Other(_)) => Ok(()),
            _ => {
                let problem = format!("parameter {key} must be true or false, a number or a text");
                Err(fault(problem, "Write one of these"))
            }
        };
        let read = match &node.value {
            Value::Table(rows) => {
                rows.iter().try_for_each(|(key, item)| check(key, item)).map(|()| Params(rows.clone()))
            }
            _ => Err(fault("parameters are a table", "Write for example { beta = 0.8 }")),
        };
        reader.noted(node, read)
    }
    fn write(&self, _: Form) -> Node {
        self.0.clone().into()
    }
    fn absent() -> Option<Self> {
        Some(Params::default())
    }
}

/// A recorded link: the name of a file, or its instants in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Trace {
    /// A file.
    File(String),
    /// The instants.
    Instants(Vec<i128>),
}

kind!(Trace, shape("trace"), read: |node| match &node.value {
    Value::Text(_) => Text::of(node).map(|text| Trace::File(text.0)),
    Value::List(items) if items.iter().all(|item| matches!(item.value, Value::Whole(_))) => {
        let instant = |item: &Node| if let Value::Whole(ms) = item.value { ms } else { 0 };
        Ok(Trace::Instants(items.iter().map(instant).collect()))
    }
    _ => Err(fault("this is not a trace", "Write the name of a file, \"lte.trace\", or a list of whole milliseconds")),
}, write: |it| match it {
    Trace::File(name) => name.as_str().into(),
    Trace::Instants(all) => all.iter().map(|ms| Node::from(*ms)).collect::<Vec<Node>>().into(),
});
