//! How a part of a scenario is declared, read, checked and written.
//!
//! `part!` declares each field once: name, kind, default, an example for a required field, what replaces an absent
//! field, and a line of documentation. It generates the struct, a reader that reports every error, a writer, and the
//! rows of the documentation.

mod kinds;

pub use kinds::*;

use tailback_core::traffic::registry;

use crate::node::{Node, Value};
use crate::problem::{Fault, Problem, fault, hint, nearest};

/// Type of a field, for documentation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// The kind of value: `time`, `name`, `part`, …
    pub kind: &'static str,
    /// Name of the part, if it is one.
    pub part: &'static str,
    /// Whether it is a list.
    pub is_list: bool,
    /// Whether it may be absent without a default.
    pub is_optional: bool,
    /// Range of an integer.
    pub range: Option<(i128, i128)>,
}

const fn shape(kind: &'static str) -> Shape {
    Shape { kind, part: "", is_list: false, is_optional: false, range: None }
}

/// One field of a part, for documents.
#[derive(Clone, Debug)]
pub struct Field {
    /// Key in the scenario file.
    pub name: &'static str,
    /// Name in Python, if the key is not a valid name or means something else there.
    pub alias: &'static str,
    /// Type of its value.
    pub shape: Shape,
    /// Default; `None` for a required field.
    pub default: Option<Node>,
    /// What replaces an absent field, for display.
    pub otherwise: &'static str,
    /// One line of documentation.
    pub doc: &'static str,
}

/// A part, for documents.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Name of the type.
    pub name: &'static str,
    /// Description, for display.
    pub doc: &'static str,
    /// Fields in display order.
    pub fields: Vec<Field>,
}

/// Forms of writing a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// As in a file: without defaults, and as a plain name where that suffices.
    Short,
    /// Complete, with every part as a table.
    Full,
}

/// Reads a description and collects all errors.
#[derive(Default)]
pub struct Reader {
    /// Errors found, in the order of the fields.
    pub problems: Vec<Problem>,
    /// Parts in which a wrong or missing value was replaced by its default, so that the rest can be checked.
    guessed: Vec<String>,
    place: String,
}

/// Reads a value, or returns all errors.
pub fn read<T: Kind>(node: &Node, place: impl Into<String>) -> Result<T, Vec<Problem>> {
    let mut reader = Reader { place: place.into(), ..Reader::default() };
    T::read(node, &mut reader).filter(|_| reader.problems.is_empty()).ok_or(reader.problems)
}

/// Value that replaces a wrong one while the rest is checked: large enough to cause no further errors.
fn stand_in<T: Kind>() -> Option<T> {
    let ample = match T::SHAPE.kind {
        "time" => "1000h",
        "rate" => "1tbit",
        _ => return None,
    };
    T::read(&ample.into(), &mut Reader::default())
}

impl Reader {
    /// Whether an error at this path, or about a queue's size, depends on a value that was replaced by its default.
    pub fn is_guessed(&self, place: &str) -> bool {
        let is_size = place.ends_with("queue") && !self.guessed.is_empty();
        is_size || self.guessed.iter().any(|part| place.starts_with(part.as_str()))
    }

    /// Number of parts with a replaced value.
    pub fn guesses(&self) -> usize {
        self.guessed.len()
    }

    /// Marks this part: errors that depend on it cannot be judged.
    pub fn guess(&mut self) {
        if !self.place.is_empty() {
            self.guessed.push(self.place.clone());
        }
    }

    /// Records an error at the current path.
    pub fn refuse(&mut self, found: Option<&Node>, fault: Fault) {
        let option = found.and_then(|node| node.option);
        let field = option.map_or(self.place.clone(), |option| format!("path.{option}"));
        self.problems.push(Problem::new(field, found, fault));
    }

    /// The value; `None` if it has an error, which is recorded.
    pub fn noted<T>(&mut self, found: &Node, read: Result<T, Fault>) -> Option<T> {
        read.map_err(|fault| self.refuse(Some(found), fault)).ok()
    }

    fn within<T>(&mut self, step: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.place.len();
        if !(self.place.is_empty() || step.starts_with('[')) {
            self.place.push('.');
        }
        self.place += step;
        let out = work(self);
        self.place.truncate(length);
        out
    }

    /// Reads a field of a table.
    pub fn field<T: Kind>(
        &mut self,
        table: &Node,
        names: (&'static str, &'static str),
        known: &[(&'static str, &'static str)],
        default: impl FnOnce() -> Option<T>,
        example: &str,
    ) -> Option<T> {
        let found = table.rows().iter().find(|(key, _)| key == names.0 || (key == names.1));
        if let Some((_, node)) = found {
            let read = self.within(names.0, |reader| T::read(node, reader));
            return read.or_else(|| self.instead(default));
        }
        if let Some(read) = self.misspelt(table, names.0, known) {
            return Some(read);
        }
        default().or_else(|| {
            let fix = format!("Add for example {} = {example}", names.0);
            self.within(names.0, |reader| reader.refuse(None, fault("is missing", fix)));
            self.instead(|| None)
        })
    }

    /// Replacement of a wrong value, if the rest can be checked without it.
    fn instead<T: Kind>(&mut self, default: impl FnOnce() -> Option<T>) -> Option<T> {
        // The set of links and flows depends on these parts.
        let parts = ["Preset", "Dumbbell", "Link", "Flow"];
        if ["name", "flag", "whole"].contains(&T::SHAPE.kind) || parts.contains(&T::SHAPE.part) {
            return None;
        }
        let taken = default().or_else(stand_in);
        self.guess();
        taken
    }

    /// The value of an unknown key that was probably a misspelling of `name`; another check reports the key itself.
    fn misspelt<T: Kind>(
        &mut self,
        table: &Node,
        name: &'static str,
        known: &[(&'static str, &'static str)],
    ) -> Option<T> {
        let is_known = |key: &str| known.iter().any(|(name, alias)| key == *name || key == *alias);
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let mut rows = table.rows().iter();
        let (key, node) = rows.find(|(key, _)| !is_known(key) && nearest(key, &names) == Some(name))?;
        let before = self.problems.len();
        let read = self.within(key, |reader| T::read(node, reader));
        if node.value.is_single() && self.problems.len() > before {
            // It may have been meant for another field.
            self.problems.truncate(before);
            return None;
        }
        read
    }

    /// Reports keys that a table must not have: unknown ones, and second names of what is there by its first.
    pub fn others(&mut self, table: &Node, known: &[(&'static str, &'static str)]) {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        for (key, node) in table.rows() {
            if let Some((name, _)) = known
                .iter()
                .find(|(name, alias)| !alias.is_empty() && key == alias && table.get(name).is_some())
            {
                let fix = format!("Write {name} for both");
                self.within(key, |reader| {
                    reader.refuse(Some(node), fault(format!("{name} is here too"), fix))
                });
            }
            if !known.iter().any(|(name, alias)| key == name || key == alias) {
                let meant = of_application(table, key, &names).unwrap_or_else(|| hint(key, &names));
                let fix = format!("{meant}Known here: {}", names.join(", "));
                self.within(key, |reader| reader.refuse(Some(node), fault("there is no such key", fix)));
            }
        }
    }
}

/// The sentence for a flow's key that is a parameter of the application that the flow names.
fn of_application(table: &Node, key: &str, known: &[&str]) -> Option<String> {
    let app = known.contains(&"params").then(|| table.get("app")?.as_text())??;
    let card = registry::cards().iter().find(|card| card.name == app)?;
    card.spelled(key)?;
    Some(format!("It is a parameter of {app}: write params = {{ {key} = … }}. "))
}

/// The kind of a field's value.
pub trait Kind: Sized + Clone + PartialEq {
    /// Shape of the value, for the documentation.
    const SHAPE: Shape;
    /// Reads the value; `None` if it has an error, which is recorded.
    fn read(node: &Node, reader: &mut Reader) -> Option<Self>;
    /// Writes the value as a description holds it.
    fn write(&self, form: Form) -> Node;
    /// Default of an absent field, if the kind has one.
    fn absent() -> Option<Self> {
        None
    }
}

/// A part of a scenario.
pub trait Part: Kind {
    /// Fields of the part, for the documentation.
    fn declared() -> Declared;
    /// Checks that involve several fields.
    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }
    /// Expands a shorthand to a table.
    fn spelt_out(node: &Node) -> Result<Node, Fault> {
        match &node.value {
            Value::Table(_) => Ok(node.clone()),
            _ => Err(fault("this is not a table", "Write the keys below it, or { key = value }")),
        }
    }
    /// The shortest form, given the fields that differ from the defaults.
    fn shortened(&self, table: Node) -> Node {
        table
    }
}

/// Declares a part; see the module.
#[macro_export]
macro_rules! part {
    (
        $(#[doc = $about:literal])+
        $Part:ident $({ $($method:tt)+ })?
        $(
            $(#[doc = $doc:literal])+
            $field:ident $(as $alias:literal)?: $Type:ty $(= $default:expr)? $(, or $or:literal)? $(, eg $eg:literal)?;
        )+
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $Part {
            $($(#[doc = $doc])+ pub $field: $Type,)+
        }

        impl $Part {
            const NAMES: &[(&'static str, &'static str)] = &[$((stringify!($field), concat!($($alias)?))),+];

            fn default_of(name: &str) -> Option<Node> {
                $(if name == stringify!($field) {
                    let default: Option<$Type> = $crate::part!(@default $Type $(, $default)?);
                    return default.map(|value| value.write(Form::Full));
                })+
                unreachable!("{name} is no field")
            }

            /// The complete table, or only the fields that differ from the defaults.
            fn table(&self, form: Form) -> Node {
                let mut out = $crate::table! {};
                $({
                    let default: Option<$Type> = $crate::part!(@default $Type $(, $default)?);
                    if form == Form::Full || default.as_ref() != Some(&self.$field) {
                        out.put(stringify!($field), self.$field.write(form));
                    }
                })+
                out
            }
        }

        impl $crate::part::Part for $Part {
            fn declared() -> Declared {
                let fields = vec![$($crate::part::Field {
                    name: stringify!($field),
                    alias: concat!($($alias)?),
                    shape: <$Type as Kind>::SHAPE,
                    default: $Part::default_of(stringify!($field)),
                    otherwise: concat!($($or)?),
                    doc: concat!($($doc),+),
                }),+];
                Declared { name: stringify!($Part), doc: concat!($($about),+), fields }
            }
            $($($method)+)?
        }

        impl Kind for $Part {
            const SHAPE: Shape =
                Shape { kind: "part", part: stringify!($Part), is_list: false, is_optional: false, range: None };
            fn read(node: &Node, reader: &mut Reader) -> Option<Self> {
                let table = reader.noted(node, <$Part as $crate::part::Part>::spelt_out(node))?;
                let before = reader.guesses();
                $(let $field: Option<$Type> = reader.field(
                    &table,
                    (stringify!($field), concat!($($alias)?)),
                    $Part::NAMES,
                    || $crate::part!(@default $Type $(, $default)?),
                    $crate::part!(@example $($eg)?),
                );)+
                reader.others(&table, $Part::NAMES);
                let read = $Part { $($field: $field?),+ };
                if reader.guesses() == before {
                    let checked = <$Part as $crate::part::Part>::check(&read);
                    if reader.noted(node, checked).is_none() {
                        reader.guess();
                    }
                }
                Some(read)
            }
            fn write(&self, form: Form) -> Node {
                let table = self.table(form);
                if form == Form::Full { table } else { <$Part as $crate::part::Part>::shortened(self, table) }
            }
        }
    };
    (@default $Type:ty) => { <$Type as Kind>::absent() };
    (@default $Type:ty, $default:expr) => { Some($default) };
    (@example) => { "…" };
    (@example $eg:literal) => { $eg };
}
