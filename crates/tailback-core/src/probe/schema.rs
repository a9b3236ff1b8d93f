//! What tables are made of: columns with units, and codes with the words they stand for.
//!
//! A table is stated once, by [`tables!`](crate::tables) in `rows.rs`: from it come the row as a struct, the columns that
//! take rows, and the schema that Python, stored files and `docs/columns.md` read.

use super::Column;
use crate::cc::Control;
use crate::packet::FlowId;
use crate::time::Bytes;

/// What a column's numbers are.
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
    /// NumPy's name for it.
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

/// A word that a code stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// The word.
    pub word: &'static str,
    /// What it means.
    pub doc: &'static str,
}

/// What the numbers of a column stand for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Labels {
    /// The values themselves, without labels.
    None,
    /// Words, in the order of their codes.
    Words(&'static [Word]),
    /// Names that the scenario or the run gives, in its order: "flows", "links", "captures", "internals", "figures".
    Names(&'static str),
}

/// A column as stated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnSchema {
    /// Name of the column.
    pub name: &'static str,
    /// What its numbers are.
    pub kind: Kind,
    /// Their unit; empty for counts, codes, numbers and switches.
    pub unit: &'static str,
    /// What it says.
    pub doc: &'static str,
    /// What its numbers stand for.
    pub labels: Labels,
    /// The number that means missing, in a column of whole numbers that has one.
    pub none: Option<u64>,
}

/// A table as stated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableSchema {
    /// Name of the table.
    pub name: &'static str,
    /// What a row is.
    pub doc: &'static str,
    /// The instruments that fill it, any of them; none: it is filled without.
    pub instruments: &'static [&'static str],
    /// The stacks whose flows it is of: "own" or "foreign"; empty: all.
    pub stacks: &'static str,
    /// Its columns in order.
    pub columns: &'static [ColumnSchema],
}

/// A vector that is a column.
pub trait Stored: Sized {
    /// What it holds.
    const KIND: Kind;
    /// The vector as a column.
    fn column(values: Vec<Self>) -> Column;
}

/// A row's field.
pub trait Cell {
    /// How a column stores it.
    type Stored: Stored;
    /// What the stored number stands for.
    const LABELS: Labels = Labels::None;
    /// The stored number that means missing.
    const NONE: Option<u64> = None;
    /// The number to store.
    fn stored(self) -> Self::Stored;
    /// What stands where nothing is known: what is missing, or zero where nothing can be.
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

/// Numbers that count in a list of names; the largest of them is none.
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

/// A slow-start threshold in bytes; before the first congestion there is none.
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

/// An instant or amount that may be missing: the largest number is none.
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

/// An enum whose codes stand in tables: its words are said here and nowhere else. A variant followed by `default` is
/// what `derive(Default)` gives.
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
            /// What its codes stand for.
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

        // Codes count from zero without gaps: they are places in the list of words.
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

/// Tables, each as a row with named fields and as columns that take rows, and the list of them all.
///
/// `field: type ["unit"]`; a type of `schema.rs` or of [`labels!`](crate::labels) brings the words of its codes along.
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
                /// A row of which nothing is known: who fills it names what it knows.
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
                /// The table as stated.
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

                /// Add a row.
                #[inline]
                pub fn push(&mut self, row: $Row) {
                    $(self.$field.push($crate::probe::schema::Cell::stored(row.$field));)+
                }

                /// How many rows there are.
                #[inline]
                pub fn len(&self) -> usize {
                    [$(self.$field.len()),+][0]
                }

                /// Are there none?
                pub fn is_empty(&self) -> bool {
                    self.len() == 0
                }

                /// Take the first rows away.
                pub fn take(&mut self, rows: usize) -> Self {
                    $(let $field = {
                        let rest = self.$field.split_off(rows);
                        std::mem::replace(&mut self.$field, rest)
                    };)+
                    $Table { $($field),+ }
                }

                /// As a table.
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

        /// Every table there is, in the order of the documentation.
        pub const SCHEMAS: &[$crate::probe::schema::TableSchema] = &[$($Table::SCHEMA),+];
    };
}
