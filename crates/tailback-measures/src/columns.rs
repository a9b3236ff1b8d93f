//! Access to columns by name, and the fingerprint of a result.

use tailback_core::probe::rows::SCHEMAS;
use tailback_core::probe::schema::{ColumnSchema, TableSchema};
use tailback_core::probe::{Column, Table, Tables};

/// A table of the run; `None` if it was not recorded.
pub fn table<'a>(tables: &'a Tables, name: &str) -> Option<&'a Table> {
    tables.tables.iter().find(|table| table.name == name).filter(|table| rows(table) > 0)
}

/// Number of rows of a table.
pub fn rows(table: &Table) -> usize {
    table.columns.first().map_or(0, |(_, column)| length(column))
}

fn length(column: &Column) -> usize {
    match column {
        Column::F64(values) => values.len(),
        Column::U64(values) => values.len(),
        Column::U32(values) => values.len(),
        Column::U16(values) => values.len(),
        Column::U8(values) => values.len(),
        Column::Bool(values) => values.len(),
    }
}

/// A column as numbers; panics if the table has no such column.
pub fn numbers(table: &Table, name: &str) -> Vec<f64> {
    let found = table.columns.iter().find(|(column, _)| *column == name);
    let (_, column) = found.unwrap_or_else(|| panic!("table {} has no column {name}", table.name));
    as_numbers(column)
}

/// A column's values as numbers; switches become 0 and 1.
pub fn as_numbers(column: &Column) -> Vec<f64> {
    match column {
        Column::F64(values) => values.clone(),
        Column::U64(values) => values.iter().map(|value| *value as f64).collect(),
        Column::U32(values) => values.iter().map(|value| f64::from(*value)).collect(),
        Column::U16(values) => values.iter().map(|value| f64::from(*value)).collect(),
        Column::U8(values) => values.iter().map(|value| f64::from(*value)).collect(),
        Column::Bool(values) => values.iter().map(|value| f64::from(u8::from(*value))).collect(),
    }
}

/// The schema of a table.
pub fn schema(name: &str) -> &'static TableSchema {
    SCHEMAS.iter().find(|schema| schema.name == name).expect("every table is stated")
}

/// The schema of a column.
pub fn column_schema(table: &str, name: &str) -> &'static ColumnSchema {
    schema(table).columns.iter().find(|column| column.name == name).expect("every column is stated")
}

/// The code of a word in a column.
pub fn code(table: &str, column: &str, word: &str) -> f64 {
    let tailback_core::probe::schema::Labels::Words(words) = column_schema(table, column).labels else {
        panic!("column {column} of table {table} has no words");
    };
    words.iter().position(|it| it.word == word).expect("the word is stated") as f64
}

/// The fingerprint of a result: the number of bytes of all columns, and their CRC-32. Tables and columns are in
/// alphabetical order, numbers little-endian.
pub fn hash(tables: &Tables) -> String {
    let mut sorted: Vec<&Table> = tables.tables.iter().collect();
    sorted.sort_by_key(|table| table.name);
    let (mut crc, mut bytes) = (crc32fast::Hasher::new(), 0u64);
    let mut buffer = Vec::new();
    let mut add = |piece: &[u8]| {
        crc.update(piece);
        bytes += piece.len() as u64;
    };
    macro_rules! all {
        ($values:expr) => {
            for chunk in $values.chunks(4096) {
                buffer.clear();
                chunk.iter().for_each(|value| buffer.extend_from_slice(&value.to_le_bytes()));
                add(&buffer);
            }
        };
    }
    for table in sorted {
        for (_, column) in &table.columns {
            match column {
                Column::F64(values) => all!(values),
                Column::U64(values) => all!(values),
                Column::U32(values) => all!(values),
                Column::U16(values) => all!(values),
                Column::U8(values) => add(values),
                Column::Bool(values) => {
                    add(&values.iter().map(|value| u8::from(*value)).collect::<Vec<u8>>());
                }
            }
        }
    }
    format!("{bytes}-{:08x}", crc.finalize())
}
