//! The engine's registries and table schemas as JSON.

use serde_json::{Value, json};
use tailback_core::medium::registry::Use;
use tailback_core::params::{Card, DefaultValue, Kind, ParamSpec};
use tailback_core::probe::rows;
use tailback_core::probe::schema::{ColumnSchema, Labels, TableSchema};
use tailback_core::tcp::stack::{self, Profile};
use tailback_core::traffic::registry::App;
use tailback_core::traffic::{self, Application, Datagrams, Rows, Transport};
use tailback_core::{cc, medium, queue};

/// `{"algorithms": [...], "queues": [...], "stacks": [...], "apps": [...], "media": [...]}`, each in registry
/// order.
pub fn as_json() -> Value {
    json!({
        "algorithms": cc::registry::cards().iter().zip(cc::registry::costs()).map(algorithm).collect::<Value>(),
        "queues": queue::registry::rows().map(discipline).collect::<Value>(),
        "kernel_queues": queue::outside::disciplines().map(kernels).collect::<serde_json::Map<_, _>>(),
        "stacks": stack::profiles().iter().map(profile).collect::<Value>(),
        "apps": applications(),
        "media": medium::registry::uses().map(carrier).collect::<Value>(),
    })
}

/// Every table with its columns, as JSON.
pub fn tables() -> Value {
    rows::SCHEMAS.iter().map(table).collect()
}

fn table(schema: &TableSchema) -> Value {
    json!({
        "name": schema.name,
        "doc": schema.doc.trim(),
        "instruments": schema.instruments,
        "stacks": schema.stacks,
        "columns": schema.columns.iter().map(column).collect::<Value>(),
    })
}

fn column(schema: &ColumnSchema) -> Value {
    let (words, names) = match schema.labels {
        Labels::None => (&[][..], None),
        Labels::Words(words) => (words, None),
        Labels::Names(list) => (&[][..], Some(list)),
    };
    json!({
        "name": schema.name,
        "type": schema.kind.name(),
        "unit": schema.unit,
        "doc": schema.doc.trim(),
        "words": words.iter().map(|it| json!([it.word, it.doc.trim()])).collect::<Value>(),
        "names": names,
        "none": schema.none,
    })
}

/// A kernel's discipline by its name, with the model whose parameters it takes.
fn kernels((name, model): (&str, &Card)) -> (String, Value) {
    (name.into(), model.name.into())
}

fn card(card: &Card) -> Value {
    json!({
        "name": card.name,
        "title": card.title,
        "law": card.law,
        "source": card.source,
        "live_twin": card.live_twin,
        "differs": card.differs,
        "params": card.params.iter().map(param).collect::<Value>(),
    })
}

/// The simulator's applications, then those that run only live.
fn applications() -> Value {
    let mut programs = card(&traffic::exec::CARD);
    programs["transport"] = json!("tcp");
    programs["rows"] = Value::Null;
    add_traits(&mut programs, &traffic::exec::CARD);
    traffic::registry::samples().map(application).chain([programs]).collect()
}

fn algorithm((its, cost): (&Card, &&str)) -> Value {
    let mut row = card(its);
    row["cost"] = json!(cost);
    row
}

fn application((its, app): (&Card, App)) -> Value {
    let mut row = card(its);
    row["transport"] = json!(match app.transport() {
        Transport::Tcp => "tcp",
        Transport::Udp => "udp",
    });
    row["rows"] = json!(match app.rows() {
        Rows::None => None,
        Rows::Requests => Some("requests"),
        Rows::Echoes => Some("echoes"),
    });
    add_traits(&mut row, its);
    row
}

fn add_traits(row: &mut Value, its: &Card) {
    let traits = traffic::registry::traits(its.name);
    row["datagrams"] = json!(match traits.datagrams {
        Datagrams::Plain => None,
        Datagrams::Voice => Some("voice"),
        Datagrams::Echo => Some("echo"),
        Datagrams::Updates => Some("updates"),
    });
    row["carries_packets"] = json!(traits.carries_packets);
    row["runs_programs"] = json!(traits.runs_programs);
    row["plays_film"] = json!(traits.plays_film);
    row["loads_pages"] = json!(traits.loads_pages);
    row["only_asks"] = json!(traits.only_asks);
    row["plain"] = json!(traffic::registry::plain(its.name));
}

fn discipline((its, traits): (&Card, &queue::registry::Traits)) -> Value {
    let mut row = card(its);
    row["is_shaper"] = json!(traits.is_shaper);
    row["isolates"] = json!(traits.isolates);
    row["drops_at_head"] = json!(traits.drops_at_head);
    row
}

fn carrier((its, by): (&'static Card, Use)) -> Value {
    let mut row = card(its);
    row["use"] = json!(match by {
        Use::Private => "private",
        Use::Shared => "shared",
        Use::Carried => "carried",
    });
    row
}

fn param(spec: &ParamSpec) -> Value {
    // In the row's unit.
    let number = |value: f64| match spec.kind {
        Kind::Rate | Kind::Size | Kind::Whole => json!(value as u64),
        _ => json!(value / spec.scale()),
    };
    let limit = |value: f64| match spec.kind {
        Kind::Flag | Kind::Choice | Kind::Text => Value::Null,
        _ => number(value),
    };
    // A default that another parameter determines has only a description.
    let (default, depends) = match spec.default {
        DefaultValue::Number(value) => (number(value), None),
        DefaultValue::Flag(flag) => (json!(flag), None),
        DefaultValue::Name(name) => (json!(name), None),
        DefaultValue::Depends(how) => (Value::Null, Some(how)),
    };
    json!({
        "name": spec.name,
        "unit": spec.unit,
        "default": default,
        "depends": depends,
        "min": limit(spec.min),
        "max": limit(spec.max),
        "choices": spec.choices,
        "kind": spec.kind.name(),
        "key": spec.key(),
        "doc": spec.doc,
    })
}

fn profile(profile: &Profile) -> Value {
    let sources = profile.sources.fields().into_iter().map(|(_, source)| source);
    let fields = profile
        .stack
        .fields()
        .into_iter()
        .zip(sources)
        .map(|((name, value), source)| json!({ "name": name, "value": value, "source": source }));
    json!({ "name": profile.name, "title": profile.title, "fields": fields.collect::<Value>() })
}
