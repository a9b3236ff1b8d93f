//! Functions for JavaScript. Errors are thrown as JSON text: `{"problems": […]}` or `{"fault": "…"}`.

use js_sys::{Array, Float64Array, Object, Reflect, Uint8Array, Uint32Array};
use serde_json::{Value, json};
use tailback_core::probe::schema::Labels;
use tailback_core::probe::{Column, Table};
use tailback_core::scenario::Scenario;
use tailback_measures::columns;
use tailback_scenario::{document, registry, text as texts};
use wasm_bindgen::prelude::*;

use crate::reasons::{self, Asked};
use crate::run::{Ended, Finished, Run};
use crate::text::{Said, Text, listed};
use crate::{captured, summary};

#[wasm_bindgen]
extern "C" {
    /// Passes a panic's message to the worker: after a panic, WebAssembly itself reports only that it stopped.
    #[wasm_bindgen(js_namespace = globalThis, js_name = tailbackPanicked)]
    fn panicked(text: &str);
}

/// Call once before anything else.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|info| panicked(&info.to_string())));
}

fn refused(said: &[Said]) -> JsValue {
    json!({ "problems": listed(said) }).to_string().into()
}

/// Converts TOML text to normal form: JSON text of `{json, toml}`.
#[wasm_bindgen]
pub fn normal(toml: &str) -> Result<String, JsValue> {
    let text = Text::read(toml).map_err(|said| refused(&said))?;
    let (json, toml) = text.written();
    Ok(json!({ "json": json, "toml": toml }).to_string())
}

/// Converts a scenario from JSON text to TOML text.
#[wasm_bindgen(js_name = fromJson)]
pub fn from_json(json: &str) -> Result<String, JsValue> {
    Text::from_json(json).map(|text| text.written().1).map_err(|said| refused(&said))
}

/// Every part with its fields, every preset, and the JSON Schema, as JSON text.
#[wasm_bindgen]
pub fn schema() -> String {
    texts::to_json(&document::everything())
}

/// Everything the engine knows by name, as JSON text.
#[wasm_bindgen]
pub fn catalogue() -> String {
    registry::as_json().to_string()
}

/// A run that JavaScript advances.
#[wasm_bindgen(js_name = Run)]
pub struct JsRun(Run);

#[wasm_bindgen(js_class = Run)]
impl JsRun {
    /// Starts a run.
    #[wasm_bindgen(constructor)]
    pub fn new(toml: &str, seed: Option<f64>, pictures: bool) -> Result<JsRun, JsValue> {
        let seed = seed.map(|seed| seed as u64);
        Run::start(toml, seed, pictures).map(JsRun).map_err(|said| refused(&said))
    }

    /// Processes about this many more events; returns true when the run is over.
    pub fn advance(&mut self, events: f64) -> Result<bool, JsValue> {
        self.0.advance(events as u64).map_err(|ended| match ended {
            Ended::Refused(said) => refused(&said),
            Ended::Fault(fault) => json!({ "fault": fault }).to_string().into(),
        })
    }

    /// The expected size of the run: largest number of full packets, and rows.
    #[wasm_bindgen(getter)]
    pub fn expected(&self) -> Vec<f64> {
        let expected = self.0.expected();
        vec![expected.packets, expected.rows]
    }

    /// Simulated seconds so far.
    #[wasm_bindgen(getter, js_name = nowS)]
    pub fn now_s(&self) -> f64 {
        self.0.now_s()
    }

    /// Total simulated seconds.
    #[wasm_bindgen(getter, js_name = untilS)]
    pub fn until_s(&self) -> f64 {
        self.0.until_s()
    }

    /// The polls so far, as tables.
    pub fn polled(&self) -> Object {
        let names = Names { scenario: self.0.scenario(), internals: &[] };
        tables(self.0.polled(), &names)
    }

    /// Ends the run and returns its results.
    pub fn finish(self) -> Object {
        let internals: Vec<String> = self.0.internals_names().iter().map(ToString::to_string).collect();
        let Finished { tables: found, events, scenario, json, toml } = self.0.finish();
        let summary = json!({
            "hash": columns::hash(&found),
            "events": events,
            "flows": summary::flows(&scenario, &found),
            "links": summary::links(&scenario, &found),
            "scenario": json,
            "toml": toml,
            "warnings": found.warnings,
            "engine": serde_json::to_value(&scenario).expect("a description is JSON"),
        });
        let names = Names { scenario: &scenario, internals: &internals };
        let out = Object::new();
        put(&out, "summary", &summary.to_string().into());
        put(&out, "tables", &tables(found.tables, &names));
        out
    }
}

/// Explains a row: takes JSON text of `{engine, table, row, poll}` and returns JSON text.
#[wasm_bindgen]
pub fn why(asked: &str) -> Result<String, JsValue> {
    let fault = |text: String| -> JsValue { json!({ "fault": text }).to_string().into() };
    let asked: Value = serde_json::from_str(asked).map_err(|error| fault(error.to_string()))?;
    let scenario: Scenario =
        serde_json::from_value(asked["engine"].clone()).map_err(|error| fault(error.to_string()))?;
    let table = asked["table"].as_str().unwrap_or("");
    let poll = Some(&asked["poll"]).filter(|poll| poll.is_object());
    let answer = reasons::why(&scenario, &Asked { table, row: &asked["row"], poll });
    answer
        .map(|answer| answer.to_string())
        .ok_or_else(|| fault(format!("nothing is known of this row of {table}")))
}

/// A packet capture in the form of a run: `{summary, tables}`, with `polls` as the only table.
#[wasm_bindgen]
pub fn capture(bytes: &[u8], name: &str) -> Result<Object, JsValue> {
    let found = captured::read(bytes, name)
        .map_err(|error| JsValue::from(json!({ "fault": format!("{name} {error}") }).to_string()))?;
    let (columns, labels, polls) = (Object::new(), Object::new(), Object::new());
    let rows = found.polls;
    put(&polls, "rows", &(rows.t_s.len() as f64).into());
    for (name, column) in [
        ("t_s", &rows.t_s),
        ("cwnd", &rows.cwnd),
        ("srtt_s", &rows.srtt_s),
        ("bytes_arrived", &rows.bytes_arrived),
    ] {
        put(&columns, name, &Float64Array::from(column.as_slice()).into());
    }
    put(&columns, "flow", &Uint32Array::from(rows.flow.as_slice()).into());
    put(&labels, "flow", &found.names.into_iter().map(JsValue::from).collect::<Array>());
    put(&polls, "columns", &columns);
    put(&polls, "labels", &labels);
    put(&polls, "units", &Object::new());
    let (tables, out) = (Object::new(), Object::new());
    put(&tables, "polls", &polls);
    put(&out, "summary", &found.summary.to_string().into());
    put(&out, "tables", &tables);
    Ok(out)
}

/// Names of flows, links and quantities by index.
struct Names<'a> {
    scenario: &'a Scenario,
    internals: &'a [String],
}

impl Names<'_> {
    fn of(&self, list: &str) -> Vec<&str> {
        match list {
            "flows" => self.scenario.flows.iter().map(|flow| flow.name.as_str()).collect(),
            "links" => self.scenario.links.iter().map(|link| link.name.as_str()).collect(),
            "captures" => self.scenario.instruments.captures.iter().map(String::as_str).collect(),
            "internals" => self.internals.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }
}

fn put(object: &Object, key: &str, value: &JsValue) {
    Reflect::set(object, &key.into(), value).expect("a plain object takes any key");
}

fn tables(all: Vec<Table>, names: &Names<'_>) -> Object {
    let out = Object::new();
    for table in all {
        put(&out, table.name, &table_object(table, names));
    }
    out
}

/// A table as `{columns, units, labels, rows}`; its memory is freed column by column.
fn table_object(table: Table, names: &Names<'_>) -> Object {
    let (columns, units, labels) = (Object::new(), Object::new(), Object::new());
    let count = columns::rows(&table);
    for (name, column) in table.columns {
        let stated = columns::column_schema(table.name, name);
        if !stated.unit.is_empty() {
            put(&units, name, &stated.unit.into());
        }
        let words: Vec<&str> = match stated.labels {
            Labels::None => Vec::new(),
            Labels::Words(words) => words.iter().map(|it| it.word).collect(),
            Labels::Names(list) => names.of(list),
        };
        if stated.labels != Labels::None {
            put(&labels, name, &words.into_iter().map(JsValue::from).collect::<Array>());
        }
        put(&columns, name, &array(column, stated.none));
    }
    let out = Object::new();
    put(&out, "columns", &columns);
    put(&out, "units", &units);
    put(&out, "labels", &labels);
    put(&out, "rows", &(count as f64).into());
    out
}

/// A column as a typed array. 64-bit numbers become doubles: all are counts and offsets below 2⁵³.
fn array(column: Column, none: Option<u64>) -> JsValue {
    match column {
        Column::F64(values) => Float64Array::from(values.as_slice()).into(),
        Column::U64(values) => {
            let double = |value: &u64| if Some(*value) == none { f64::NAN } else { *value as f64 };
            Float64Array::from(values.iter().map(double).collect::<Vec<f64>>().as_slice()).into()
        }
        Column::U32(values) => Uint32Array::from(values.as_slice()).into(),
        Column::U16(values) => {
            Uint32Array::from(values.into_iter().map(u32::from).collect::<Vec<u32>>().as_slice()).into()
        }
        Column::U8(values) => Uint8Array::from(values.as_slice()).into(),
        Column::Bool(values) => {
            Uint8Array::from(values.into_iter().map(u8::from).collect::<Vec<u8>>().as_slice()).into()
        }
    }
}
