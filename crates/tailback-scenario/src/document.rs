//! The schema for documentation: its parts and fields as a table, and as a JSON Schema for editors.

use tailback_core::params::{Card, Kind, ParamSpec};
use tailback_core::tcp::stack;
use tailback_core::{cc, medium, queue};

use crate::node::{Node, Value};
use crate::part::{Declared, Field, Shape};
use crate::presets::PRESETS;
use crate::resolve::{application_names, as_written};
use crate::schema::declared;
use crate::table;

/// Every part with its fields, every preset with its options, and the JSON Schema.
pub fn everything() -> Node {
    let parts = declared().into_iter().map(|part| (part.name.to_string(), part_row(&part))).collect();
    let presets = PRESETS.iter().map(|preset| {
        let choice = |choice: &crate::presets::Choice| {
            table! { "name" => choice.name, "default" => Node::from(choice.default), "doc" => choice.doc }
        };
        table! {
            "name" => preset.name,
            "title" => preset.title,
            "source" => format!("{}, section {}", preset.paper, preset.section),
            "reported" => preset.reported,
            "options" => preset.choices().map(choice).collect::<Vec<Node>>(),
        }
    });
    table! {
        "parts" => Node::table(parts),
        "presets" => presets.collect::<Vec<Node>>(),
        "json_schema" => json_schema(),
    }
}

fn part_row(part: &Declared) -> Node {
    let field = |field: &Field| {
        let shape = field.shape;
        table! {
            "key" => field.name,
            "name" => if field.alias.is_empty() { field.name } else { field.alias },
            "kind" => shape.kind,
            "part" => shape.part,
            "list" => shape.is_list,
            "optional" => shape.is_optional,
            "required" => field.default.is_none(),
            "default" => field.default.clone(),
            "otherwise" => field.otherwise,
            "doc" => field.doc.trim(),
        }
    };
    table! { "doc" => part.doc.trim(), "fields" => part.fields.iter().map(field).collect::<Vec<Node>>() }
}

/// The JSON Schema of a scenario file.
pub fn json_schema() -> Node {
    let parts: Vec<Declared> = declared();
    let root = parts.iter().find(|part| part.name == "Scenario").expect("the scenario is a part");
    let others = parts.iter().filter(|part| part.name != "Scenario");
    let definitions = others.map(|part| (part.name.to_string(), part_schema(part))).collect();
    table! {
        "$schema" => "https://json-schema.org/draft/2020-12/schema",
        "title" => "tailback scenario",
    }
    .with(table_schema(root))
    .with(table! { "$defs" => Node::table(definitions) })
}

/// Schema of a part. Some parts also accept a plain text, and some accept further keys as parameters.
fn part_schema(part: &Declared) -> Node {
    let table = table_schema(part);
    let names = |kind: &str, names: Vec<&str>| {
        let known = names.as_slice().into();
        let known: Node = known;
        table! { "description" => kind, "anyOf" => vec![table! { "enum" => known }, table! { "type" => "string" }] }
    };
    let short = match part.name {
        "Queue" => Some(names("a size or a discipline", cards(queue::registry::cards().iter()))),
        "Named" | "Preset" | "Condition" => Some(table! { "type" => "string" }),
        "Medium" => Some(names("a medium", cards(medium::registry::cards()))),
        _ => None,
    };
    match short {
        Some(short) => table! { "anyOf" => vec![short, table] },
        None => table,
    }
}

fn cards<'a>(cards: impl Iterator<Item = &'a Card>) -> Vec<&'static str> {
    cards.map(|card| card.name).collect()
}

fn table_schema(part: &Declared) -> Node {
    let takes_more = matches!(part.name, "Queue" | "Named" | "Medium" | "Preset");
    let property = |field: &Field| {
        let mut schema = value_schema(part.name, field);
        schema.put("description", field.doc.trim());
        if let Some(default) = field.default.as_ref().filter(|default| default.value.is_single()) {
            schema.put("default", default.clone());
        }
        (field.name.to_string(), schema)
    };
    let required: Vec<&str> =
        part.fields.iter().filter(|field| field.default.is_none()).map(|field| field.name).collect();
    let parameters = match part.name {
        "Queue" => parameters("discipline", queue::registry::cards().iter()),
        "Named" => parameters("name", cc::registry::cards().iter()),
        "Medium" => parameters("name", medium::registry::cards()),
        _ => Vec::new(),
    };
    let table = table! {
        "type" => "object",
        "description" => part.doc.trim(),
        "properties" => Node::table(part.fields.iter().map(property).collect()),
        "required" => required.as_slice(),
        "additionalProperties" => takes_more,
    };
    if parameters.is_empty() { table } else { table.with(table! { "allOf" => parameters }) }
}

/// Schemas of the parameters of each card, selected by `key`.
fn parameters(key: &str, cards: impl Iterator<Item = &'static Card>) -> Vec<Node> {
    let of_card = |card: &Card| {
        let properties = card.params.iter().map(|spec| (as_written(spec).to_string(), parameter(spec)));
        let named = table! { "properties" => table! { key => table! { "const" => card.name } }, "required" => [key].as_slice() };
        table! { "if" => named, "then" => table! { "properties" => Node::table(properties.collect()) } }
    };
    cards.map(of_card).collect()
}

/// Schema of a parameter; numbers may be texts with units.
fn parameter(spec: &ParamSpec) -> Node {
    let schema = match spec.kind {
        Kind::Flag => table! { "type" => "boolean" },
        Kind::Choice => table! { "enum" => spec.choices },
        Kind::Text => table! { "type" => ["string", "integer"].as_slice() },
        _ => table! { "type" => ["number", "string"].as_slice() },
    };
    schema.with(table! { "description" => format!("{} Must be {}.", spec.doc, spec.range_text()) })
}

fn value_schema(part: &str, field: &Field) -> Node {
    let one = single(part, field);
    if field.shape.is_list {
        table! { "type" => "array", "items" => one }
    } else {
        one
    }
}

fn single(part: &str, field: &Field) -> Node {
    let text = || table! { "type" => "string" };
    let known = |names: Vec<&str>| {
        table! { "anyOf" => vec![table! { "enum" => names.as_slice() }, text()] }
    };
    let pattern = |units: &str| table! { "type" => "string", "pattern" => format!("^\\s*[+-]?[0-9.][0-9_.eE+-]*\\s*({units})\\s*$") };
    let Shape { kind, part: inner, range, .. } = field.shape;
    match (part, field.name, kind) {
        ("Flow", "app", _) => known(application_names()),
        ("Flow", "cc" | "cc_turns", _) => {
            let names: Node = cards(cc::registry::cards().iter()).as_slice().into();
            table! { "anyOf" => vec![table! { "enum" => names }, reference(inner)] }
        }
        ("Flow", "stack", _) => table! { "anyOf" => vec![table! { "enum" => stacks() }, reference(inner)] },
        ("Flow", "receiver_stack", _) => table! { "enum" => stacks() },
        ("Queue", "discipline", _) => known(cards(queue::registry::cards().iter())),
        ("Medium", "name", _) => known(cards(medium::registry::cards())),
        ("Preset", "preset", _) => known(PRESETS.iter().map(|preset| preset.name).collect()),
        (_, _, "part") => reference(inner),
        (_, _, "flag") => table! { "type" => "boolean" },
        (_, _, "whole") => {
            let (least, most) = range.unwrap_or((0, u64::MAX.into()));
            table! { "type" => "integer", "minimum" => least, "maximum" => most }
        }
        (_, _, "probability") => table! { "type" => "number", "minimum" => 0u64, "maximum" => 1u64 },
        (_, _, "time" | "size") => pattern("[A-Za-zµμ]+"),
        (_, _, "rate") => pattern("[A-Za-z/]+"),
        (_, _, "bytes") => pattern("[A-Za-z]+"),
        (_, _, "names") => {
            let list = table! { "type" => "array", "items" => text() };
            table! { "anyOf" => vec![table! { "const" => "all" }, text(), list] }
        }
        (_, _, "trace") => {
            let instants = table! { "type" => "array", "items" => table! { "type" => "integer" } };
            table! { "anyOf" => vec![text(), instants] }
        }
        (_, _, "schedule") => {
            let steps = table! { "type" => "array", "items" => reference(inner) };
            table! { "anyOf" => vec![text(), steps] }
        }
        (_, _, "params") => table! { "type" => "object" },
        _ => text(),
    }
}

fn stacks() -> Node {
    stack::profiles().iter().map(|profile| Node::from(profile.name)).collect::<Vec<Node>>().into()
}

fn reference(part: &str) -> Node {
    Value::Table(vec![("$ref".into(), format!("#/$defs/{part}").into())]).into()
}
