//! The options at the top of a script, and the endpoint that they configure.

use std::sync::Arc;

use tailback_core::cc::registry::build_preferring;
use tailback_core::scenario::{Params, Value};
use tailback_core::tcp::endpoint::{Endpoint, Setup};
use tailback_core::tcp::metrics::Metrics;
use tailback_core::tcp::stack::Stack;
use tailback_core::time::{Duration, Rate};

/// The options at the top of a script.
pub struct Options {
    pub stack: String,
    pub cc: String,
    pub mss: u32,
    pub opened: Option<String>,
    pub rtt: Duration,
    pub window: u64,
    pub peer_scale: u8,
    pub send_buffer: u64,
    pub receive_buffer: u64,
    pub tolerance: Duration,
    pub names_push: bool,
    pub pacing: Option<Rate>,
    pub read_rate: Option<Rate>,
    pub fields: Vec<(String, Value)>,
    pub cc_params: Params,
    pub recalled: Metrics,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            stack: "linux".into(),
            cc: "reno".into(),
            mss: 1000,
            opened: None,
            rtt: Duration::from_ms(100),
            window: 1 << 30,
            peer_scale: 7,
            send_buffer: 1 << 30,
            receive_buffer: 1 << 20,
            tolerance: Duration::from_us(10),
            names_push: false,
            pacing: None,
            read_rate: None,
            fields: Vec::new(),
            cc_params: Params::new(),
            recalled: Metrics::default(),
        }
    }
}

pub fn value(text: &str) -> Value {
    match text {
        "true" => Value::Flag(true),
        "false" => Value::Flag(false),
        _ => text.parse().map_or_else(|_| Value::Name(text.into()), Value::Number),
    }
}

impl Options {
    pub fn set(&mut self, word: &str) -> Result<(), String> {
        let (key, text) = word
            .strip_prefix("--")
            .and_then(|rest| rest.split_once('='))
            .ok_or_else(|| format!("{word}: an option is --name=value"))?;
        let number = || text.parse::<u64>().map_err(|_| format!("{word}: not a whole number"));
        match key {
            "stack" => self.stack = text.into(),
            "cc" => self.cc = text.into(),
            "mss" => self.mss = number()? as u32,
            "opened" => self.opened = Some(text.into()),
            "rtt_ms" => self.rtt = Duration::from_ms(number()?),
            "window" => self.window = number()?,
            "peer_scale" => self.peer_scale = number()? as u8,
            "send_buffer" => {
                // A buffer size set by the application does not grow.
                self.fields.push(("send_buffer_grows".into(), Value::Flag(false)));
                self.send_buffer = number()?;
            }
            "receive_buffer" => self.receive_buffer = number()?,
            "push" => self.names_push = text == "true",
            "tolerance_usecs" => self.tolerance = Duration::from_us(number()?),
            "recall_ssthresh" => self.recalled.ssthresh = number()? * u64::from(self.mss),
            "recall_cwnd" => self.recalled.cwnd = number()? * u64::from(self.mss),
            "recall_srtt_ms" => self.recalled.srtt = Duration::from_ms(number()?),
            "recall_deviation_ms" => self.recalled.deviation = Duration::from_ms(number()?),
            "recall_reordering" => self.recalled.reordering = number()? as u32,
            "read_bps" => self.read_rate = Some(Rate::from_bps(number()?)),
            "pacing_bps" => self.pacing = Some(Rate::from_bps(number()?)),
            _ => match key.strip_prefix("cc.") {
                Some(name) => drop(self.cc_params.insert(name.into(), value(text))),
                None => self.fields.push((key.into(), value(text))),
            },
        }
        Ok(())
    }

    pub fn endpoint(&self) -> Result<Endpoint, String> {
        let mut stack = Stack::named(&self.stack, "--stack").map_err(|error| error.to_string())?;
        for (name, value) in &self.fields {
            stack.set(name, value, format!("--{name}")).map_err(|error| error.to_string())?;
        }
        let system = self.stack.split('-').next().unwrap_or_default();
        let algorithm = build_preferring(&self.cc, &self.cc_params, "--cc", 1, &[&self.stack, system])
            .map_err(|error| error.to_string())?;
        Ok(Endpoint::new(Setup {
            stack: Arc::new(stack),
            algorithm,
            mss: self.mss,
            send_buffer: self.send_buffer,
            receive_buffer: self.receive_buffer,
            read_rate: self.read_rate,
            peer: 1,
        }))
    }
}
