//! Building blocks of tables: columns with units, and codes with the words that they stand for.
//!
//! [`tables!`](crate::tables) in `rows.rs` states each table once. It generates the row struct, the columns that take
//! rows, and the schema that Python, stored files and `docs/columns.md` read.

use super::Column;
use crate::cc::Control;
use crate::packet::FlowId;
use crate::time::Bytes;

/// Number type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Double-precision numbers; NaN is missing.
    F64,
    /// 64 bits.
    U64,
    /// 32 bits.
    U32,
    /// 16 bits.
    U16,
    /// 8 bits.
    U8,
    /// True or false.
    Bool,
}

impl Kind {
    /// NumPy's name of the type.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::F64 => "float64",
            Kind::U64 => "uint64",
            Kind::U32 => "uint32",
            Kind::U16 => "uint16",
            Kind::U8 => "uint8",
            Kind::Bool => "bool",
        }
    }
}

/// A word for a code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// The word.
    pub word: &'static str,
    /// What the word means.
    pub doc: &'static str,
}

/// Meaning of the numbers in a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Labels {
    /// The values themselves, without labels.
    None,
    /// Words, in the order of their codes.
    Words(&'static [Word]),
    /// Names that the scenario or the run gives, in its order: "flows", "links", "captures", "internals", "figures".
    Names(&'static str),
}

/// Declaration of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnSchema {
    /// Name of the column.
    pub name: &'static str,
    /// Number type.
    pub kind: Kind,
    /// Unit; empty for counts, codes, numbers and switches.
    pub unit: &'static str,
    /// Description.
    pub doc: &'static str,
    /// Meaning of its numbers.
    pub labels: Labels,
    /// The number that means "missing", in an integer column that has one.
    pub none: Option<u64>,
}

/// Declaration of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableSchema {
    /// Name of the table.
    pub name: &'static str,
    /// Description of a row.
    pub doc: &'static str,
    /// Instruments that fill it, any one of them; empty: it is always filled.
    pub instruments: &'static [&'static str],
    /// Stacks whose flows it covers: "own" or "foreign"; empty: all.
    pub stacks: &'static str,
    /// Its columns in order.
    pub columns: &'static [ColumnSchema],
}

/// A vector that can be stored as a column.
pub trait Stored: Sized {
    /// Its number type.
    const KIND: Kind;
    /// The vector as a column.
    fn column(values: Vec<Self>) -> Column;
}

/// A field of a row.
pub trait Cell {
    /// Type in which a column stores it.
    type Stored: Stored;
    /// Meaning of the stored number.
    const LABELS: Labels = Labels::None;
    /// The stored number that means "missing".
    const NONE: Option<u64> = None;
    /// The stored number.
    fn stored(self) -> Self::Stored;
    /// The value for "unknown": missing, or zero if the type has no missing value.
    fn missing() -> Self;
}

macro_rules! plain {
    ($($type:ty: $kind:ident = $missing:expr),+) => {$(
        impl Stored for $type {
            const KIND: Kind = Kind::$kind;
            fn column(values: Vec<Self>) -> Column {
                Column::$kind(values)
            }
        }
        impl Cell for $type {
            type Stored = Self;
            #[inline]
            fn stored(self) -> Self {
                self
            }
            fn missing() -> Self {
                $missing
            }
        }
    )+};
}

plain!(f64: F64 = f64::NAN, u64: U64 = 0, u32: U32 = 0, u16: U16 = 0, u8: U8 = 0, bool: Bool = false);

/// Index types into a list of names; the largest value means "none".
macro_rules! names {
    ($($(#[$meta:meta])* $Name:ident($type:ty) in $list:literal;)+) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $Name(pub $type);
        named!($Name($type) in $list);
    )+};
}

macro_rules! named {
    ($Name:ident($type:ty) in $list:literal) => {
        impl Cell for $Name {
            type Stored = $type;
            const LABELS: Labels = Labels::Names($list);
            #[inline]
            fn stored(self) -> $type {
                self.0
            }
            fn missing() -> Self {
                $Name(0)
            }
        }
        impl Cell for Option<$Name> {
            type Stored = $type;
            const LABELS: Labels = Labels::Names($list);
            const NONE: Option<u64> = Some(<$type>::MAX as u64);
            #[inline]
            fn stored(self) -> $type {
                self.map_or(<$type>::MAX, |it| it.0)
            }
            fn missing() -> Self {
                None
            }
        }
    };
}

named!(FlowId(u32) in "flows");
names! {
    /// Number of a link in the scenario, in the order the scenario lists them.
    LinkId(u32) in "links";
    /// Number of a point in `instruments.captures`.
    PointId(u16) in "captures";
    /// Number of a quantity that an algorithm shows.
    QuantityId(u16) in "internals";
    /// Number of a figure that a program measured.
    FigureId(u16) in "figures";
    /// Number of a host whose kernel counts.
    HostId(u16) in "hosts";
    /// Number of a counter of a kernel.
    CounterId(u16) in "counters";
}

/// A slow-start threshold in bytes; missing before the first congestion event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Threshold(pub Bytes);

impl Cell for Threshold {
    type Stored = f64;
    #[inline]
    fn stored(self) -> f64 {
        if self.0 >= Control::UNLIMITED { f64::NAN } else { self.0 as f64 }
    }
    fn missing() -> Self {
        Threshold(Control::UNLIMITED)
    }
}

/// An optional time or amount: the largest number means "none".
impl Cell for Option<u64> {
    type Stored = u64;
    const NONE: Option<u64> = Some(u64::MAX);
    #[inline]
    fn stored(self) -> u64 {
        self.unwrap_or(u64::MAX)
    }
    fn missing() -> Self {
        None
    }
}

/// Declares an enum whose codes appear in tables, with its words. `default` after a variant marks it for
/// `derive(Default)`.
#[macro_export]
macro_rules! labels {
    (
        $(#[$meta:meta])*
        pub enum $Name:ident {
            $($(#[doc = $doc:literal])+ $Variant:ident = $code:literal => $word:literal $($default:ident)?),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum $Name { $($(#[doc = $doc])+ $(#[$default])? $Variant = $code),+ }

        impl $Name {
            /// The words for its codes.
            pub const WORDS: &'static [$crate::probe::schema::Word] =
                &[$($crate::probe::schema::Word { word: $word, doc: concat!($($doc),+) }),+];

            /// The word of a value.
            pub fn word(self) -> &'static str {
                Self::WORDS[self as usize].word
            }

            /// The value with this code.
            pub fn from_code(code: u8) -> Option<Self> {
                [$($Name::$Variant),+].get(usize::from(code)).copied()
            }
        }

        // Codes count from zero without gaps, because they index the list of words.
        const _: () = {
            let all = [$($Name::$Variant),+];
            let mut code = 0;
            while code < all.len() {
                assert!(all[code] as usize == code);
                code += 1;
            }
        };

        impl $crate::probe::schema::Cell for $Name {
            type Stored = u8;
            const LABELS: $crate::probe::schema::Labels = $crate::probe::schema::Labels::Words(Self::WORDS);
            #[inline]
            fn stored(self) -> u8 {
                self as u8
            }
            fn missing() -> Self {
                [$($Name::$Variant),+][0]
            }
        }
        impl $crate::probe::schema::Cell for Option<$Name> {
            type Stored = u8;
            const LABELS: $crate::probe::schema::Labels = $crate::probe::schema::Labels::Words($Name::WORDS);
            const NONE: Option<u64> = Some(u8::MAX as u64);
            #[inline]
            fn stored(self) -> u8 {
                self.map_or(u8::MAX, |it| it as u8)
            }
            fn missing() -> Self {
                None
            }
        }
    };
}

/// Declares tables: for each a row struct, and columns that take rows; and the list of all tables.
///
/// `field: type ["unit"]`; a type of `schema.rs` or of [`labels!`](crate::labels) brings the words for its codes.
#[macro_export]
macro_rules! tables {
    ($(
        $(#[doc = $about:literal])+
        $Table:ident of $Row:ident as $name:literal $(by $($instrument:literal)or+)? $(of $stacks:literal)? {
            $($(#[doc = $doc:literal])+ $field:ident: $type:ty $([$unit:literal])?),+ $(,)?
        }
    )+) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Debug)]
            pub struct $Row { $($(#[doc = $doc])+ pub $field: $type),+ }

            impl $Row {
                /// A row with every field unknown, to be filled in.
                pub fn missing() -> Self {
                    $Row { $($field: $crate::probe::schema::Cell::missing()),+ }
                }
            }

            $(#[doc = $about])+
            #[derive(Clone, Debug, Default)]
            pub struct $Table {
                $($(#[doc = $doc])+ pub $field: Vec<<$type as $crate::probe::schema::Cell>::Stored>),+
            }

            impl $Table {
                /// Declaration of the table.
                pub const SCHEMA: $crate::probe::schema::TableSchema = $crate::probe::schema::TableSchema {
                    name: $name,
                    doc: concat!($($about),+),
                    instruments: &[$($($instrument),+)?],
                    stacks: concat!($($stacks)?),
                    columns: &[$($crate::probe::schema::ColumnSchema {
                        name: stringify!($field),
                        kind: <<$type as $crate::probe::schema::Cell>::Stored as $crate::probe::schema::Stored>::KIND,
                        unit: concat!($($unit)?),
                        doc: concat!($($doc),+),
                        labels: <$type as $crate::probe::schema::Cell>::LABELS,
                        none: <$type as $crate::probe::schema::Cell>::NONE,
                    }),+],
                };

                /// Appends a row.
                #[inline]
                pub fn push(&mut self, row: $Row) {
                    $(self.$field.push($crate::probe::schema::Cell::stored(row.$field));)+
                }

                /// Number of rows.
                #[inline]
                pub fn len(&self) -> usize {
                    [$(self.$field.len()),+][0]
                }

                /// Whether there are no rows.
                pub fn is_empty(&self) -> bool {
                    self.len() == 0
                }

                /// Removes and returns the first rows.
                pub fn take(&mut self, rows: usize) -> Self {
                    $(let $field = {
                        let rest = self.$field.split_off(rows);
                        std::mem::replace(&mut self.$field, rest)
                    };)+
                    $Table { $($field),+ }
                }

                /// Converts the columns into a table.
                pub fn into_table(self) -> $crate::probe::Table {
                    $crate::probe::Table {
                        name: $name,
                        columns: vec![$((
                            stringify!($field),
                            $crate::probe::schema::Stored::column(self.$field),
                        )),+],
                    }
                }
            }

            impl FromIterator<$Row> for $Table {
                fn from_iter<I: IntoIterator<Item = $Row>>(rows: I) -> Self {
                    let mut table = $Table::default();
                    rows.into_iter().for_each(|row| table.push(row));
                    table
                }
            }
        )+

        /// All tables, in the order of the documentation.
        pub const SCHEMAS: &[$crate::probe::schema::TableSchema] = &[$($Table::SCHEMA),+];
    };
}
