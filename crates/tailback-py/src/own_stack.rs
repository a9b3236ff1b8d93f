//! The user's own transports: Python classes, and compiled C sources. The counterpart of `tailback_core::foreign`,
//! documented in docs/tutorials/own-stack.md.
//!
//! An exception in a class ends its flow, as a panic of a Rust stack does.

use std::fmt;
use std::panic::resume_unwind;
#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use tailback_core::foreign::{Endpoint, Misuse, Progress, Setup, Stack, State, UDP_HEADERS};
use tailback_core::packet::Ecn;
use tailback_core::time::{Bytes, Duration, Rate, Time};

/// The properties of a new connection. Times are in seconds, amounts in bytes.
#[pyclass(frozen, get_all, module = "tailback._core", name = "StackSetup")]
pub struct PySetup {
    now_s: f64,
    /// The seed; the same for both ends.
    seed: u64,
    cc: String,
    /// Largest datagram, without IP and UDP headers.
    most_payload: u32,
    send_buffer: Option<Bytes>,
    receive_buffer: Option<Bytes>,
}

#[pymethods]
impl PySetup {
    fn __repr__(&self) -> String {
        let PySetup { now_s, seed, cc, most_payload, .. } = self;
        format!("StackSetup(now_s={now_s}, seed={seed}, cc={cc:?}, most_payload={most_payload})")
    }
}

/// Makes names of congestion controls permanent, because the trait requires static ones.
fn for_good(names: Vec<String>) -> Vec<&'static str> {
    names.into_iter().map(|name| &*Box::leak(name.into_boxed_str())).collect()
}

/// A transport written in Python.
pub struct PyStack {
    stack: Py<PyAny>,
    version: String,
    algorithms: Vec<&'static str>,
}

impl fmt::Debug for PyStack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PyStack").field("version", &self.version).finish_non_exhaustive()
    }
}

impl PyStack {
    /// A stack from the result of `factory()`: an object with `connect`, `version` and `algorithms`.
    pub fn new(factory: &Bound<'_, PyAny>) -> PyResult<Self> {
        let stack = factory.call0()?;
        let version = stack.getattr("version")?.str()?.to_string();
        let algorithms: Vec<String> = stack.getattr("algorithms")?.extract()?;
        if algorithms.is_empty() {
            return Err(PyValueError::new_err(
                "algorithms is empty: name its congestion controls, such as (\"reno\",)",
            ));
        }
        Ok(PyStack { stack: stack.unbind(), version, algorithms: for_good(algorithms) })
    }
}

/// Ends the flow with a call's exception. An interrupt is also passed to the code that waits for the run.
fn raised(hook: &str, error: &PyErr) -> ! {
    Python::attach(|py| {
        if !error.is_instance_of::<PyException>(py) {
            // It is raised again when the run next checks for signals.
            let _ = py.import("_thread").and_then(|module| module.call_method0("interrupt_main"));
        }
    });
    resume_unwind(Box::new(Misuse(format!("{hook} raised {error}"))))
}

fn ask<R>(hook: &'static str, work: impl FnOnce(Python<'_>) -> PyResult<R>) -> R {
    Python::attach(work).unwrap_or_else(|error| raised(hook, &error))
}

impl Stack for PyStack {
    fn version(&self) -> &str {
        &self.version
    }

    fn algorithms(&self) -> &[&'static str] {
        &self.algorithms
    }

    fn connect(&self, setup: &Setup<'_>) -> [Box<dyn Endpoint>; 2] {
        let (client, server) = ask("connect", |py| {
            let given = PySetup {
                now_s: setup.now.as_secs_f64(),
                seed: setup.seed,
                cc: setup.cc.into(),
                most_payload: setup.mtu.saturating_sub(UDP_HEADERS),
                send_buffer: setup.send_buffer,
                receive_buffer: setup.receive_buffer,
            };
            let both = self.stack.bind(py).call_method1("connect", (given,))?;
            both.extract::<(Py<PyAny>, Py<PyAny>)>().map_err(|_| {
                PyTypeError::new_err("it returns the client's end and the server's, as two values")
            })
        });
        [client, server].map(|end| Box::new(PyEnd { end, asked_s: 0.0 }) as Box<dyn Endpoint>)
    }
}

/// One end of a connection.
struct PyEnd {
    end: Py<PyAny>,
    /// The last answer of `next_timeout` in seconds; the conversion to picoseconds may round it down.
    asked_s: f64,
}

impl PyEnd {
    /// The current time in seconds, corrected so that rounding never puts it before the requested time.
    fn seconds(&self, now: Time) -> f64 {
        let now_s = now.as_secs_f64();
        if self.asked_s - now_s < 2e-12 { now_s.max(self.asked_s) } else { now_s }
    }

    fn call<R>(&self, hook: &'static str, work: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<R>) -> R {
        ask(hook, |py| work(self.end.bind(py)))
    }
}

fn ecn_of(number: u8) -> PyResult<Ecn> {
    match number {
        0 => Ok(Ecn::NotEct),
        1 => Ok(Ecn::Ect1),
        2 => Ok(Ecn::Ect0),
        3 => Ok(Ecn::Ce),
        _ => Err(PyValueError::new_err(format!("ecn is {number}: it is 0 to 3, as in an IP header"))),
    }
}

impl Endpoint for PyEnd {
    fn on_datagram(&mut self, now: Time, datagram: &[u8], ecn: Ecn) {
        let now_s = self.seconds(now);
        self.call("on_datagram", |end| {
            let datagram = PyBytes::new(end.py(), datagram);
            end.call_method1("on_datagram", (now_s, datagram, ecn as u8)).map(drop)
        });
    }

    fn poll_transmit(&mut self, now: Time, datagram: &mut Vec<u8>) -> Option<Ecn> {
        let now_s = self.seconds(now);
        self.call("poll_transmit", |end| {
            let given = end.call_method1("poll_transmit", (now_s,))?;
            if given.is_none() {
                return Ok(None);
            }
            let (bytes, ecn) = match given.cast::<PyTuple>() {
                Ok(pair) => (pair.get_item(0)?, ecn_of(pair.get_item(1)?.extract()?)?),
                Err(_) => (given, Ecn::NotEct),
            };
            let bytes = bytes.cast::<PyBytes>().map_err(|_| {
                PyTypeError::new_err(
                    "it returns bytes, bytes with an ECN field, or None if there is nothing to send",
                )
            })?;
            datagram.extend_from_slice(bytes.as_bytes());
            Ok(Some(ecn))
        })
    }

    fn next_timeout(&mut self) -> Time {
        let asked: Option<f64> = self.call("next_timeout", |end| end.call_method0("next_timeout")?.extract());
        match asked {
            None => Time::NEVER,
            Some(at_s) if at_s.is_nan() => {
                resume_unwind(Box::new(Misuse("next_timeout returns NaN: return seconds, or None".into())))
            }
            Some(at_s) => {
                self.asked_s = at_s;
                // Clamp to a million seconds (eleven days), later than any event.
                Time::ZERO + Duration::from_secs_f64(at_s.clamp(0.0, 1e6))
            }
        }
    }

    fn on_timeout(&mut self, now: Time) {
        let now_s = self.seconds(now);
        self.call("on_timeout", |end| end.call_method1("on_timeout", (now_s,)).map(drop));
    }

    fn write(&mut self, most: Bytes) -> Bytes {
        let taken: Bytes = self.call("write", |end| end.call_method1("write", (most,))?.extract());
        if taken > most {
            resume_unwind(Box::new(Misuse(format!("write takes {taken} bytes of {most}"))));
        }
        taken
    }

    fn finish(&mut self) {
        self.call("finish", |end| end.call_method0("finish").map(drop));
    }

    fn read(&mut self, now: Time) -> Bytes {
        let now_s = self.seconds(now);
        self.call("read", |end| end.call_method1("read", (now_s,))?.extract())
    }

    fn close(&mut self, now: Time) {
        let now_s = self.seconds(now);
        self.call("close", |end| end.call_method1("close", (now_s,)).map(drop));
    }

    fn progress(&mut self) -> Progress {
        self.call("progress", |end| {
            let mut progress = Progress::default();
            for word in end.call_method0("progress")?.try_iter()? {
                let word: String = word?.extract()?;
                let flag = match word.as_str() {
                    "established" => &mut progress.is_established,
                    "peer_finished" => &mut progress.peer_finished,
                    "acknowledged" => &mut progress.is_acknowledged,
                    "closed" => &mut progress.is_closed,
                    "failed" => &mut progress.has_failed,
                    _ => {
                        return Err(PyValueError::new_err(format!(
                            "{word:?} is no progress: there are established, peer_finished, acknowledged, closed and \
                             failed"
                        )));
                    }
                };
                *flag = true;
            }
            Ok(progress)
        })
    }

    fn state(&mut self) -> State {
        self.call("state", |end| {
            let Some(hook) = end.getattr_opt("state")? else { return Ok(State::default()) };
            let said = hook.call0()?;
            let said = said.cast::<PyDict>().map_err(|_| PyTypeError::new_err("it returns a dict"))?;
            let mut state = State::default();
            for (key, value) in said {
                let key: String = key.extract()?;
                let span = || value.extract().map(|s: f64| Duration::from_secs_f64(s.clamp(0.0, 1e6)));
                match key.as_str() {
                    "cwnd" => state.cwnd = value.extract()?,
                    "ssthresh" => state.ssthresh = value.extract()?,
                    "in_flight" => state.in_flight = value.extract()?,
                    "srtt_s" => state.srtt = span()?,
                    "rtt_s" => state.rtt = span()?,
                    "rtt_min_s" => state.rtt_min = span()?,
                    "pacing_bps" => state.pacing_rate = Some(Rate::from_bps(value.extract()?)),
                    "packets_sent" => state.packets_sent = value.extract()?,
                    "packets_lost" => state.packets_lost = value.extract()?,
                    "congestion_events" => state.congestion_events = value.extract()?,
                    "bytes_acked" => state.bytes_acked = value.extract()?,
                    _ => {
                        return Err(PyValueError::new_err(format!(
                            "{key:?} is not part of a sender's state"
                        )));
                    }
                }
            }
            Ok(state)
        })
    }
}

/// Stands for a transport implemented elsewhere, for checks: has its version and congestion controls, but makes no
/// connections.
#[derive(Debug)]
pub struct Described {
    version: String,
    algorithms: Vec<&'static str>,
}

impl Described {
    /// From the result of a factory's `as_stack()`.
    pub fn new(said: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (version, algorithms): (String, Vec<String>) = said.extract()?;
        Ok(Described { version, algorithms: for_good(algorithms) })
    }
}

impl Stack for Described {
    fn version(&self) -> &str {
        &self.version
    }

    fn algorithms(&self) -> &[&'static str] {
        &self.algorithms
    }

    fn connect(&self, _: &Setup<'_>) -> [Box<dyn Endpoint>; 2] {
        unreachable!("it stands in a check, which runs nothing")
    }
}

/// A compiled C transport, as one of `run`'s algorithms.
#[cfg(target_os = "linux")]
#[pyclass(frozen, module = "tailback._core", name = "NativeStack")]
pub struct PyNativeStack {
    name: String,
    library: PathBuf,
}

#[cfg(target_os = "linux")]
impl PyNativeStack {
    /// Opens the library for one run, with fresh global variables.
    pub fn open(&self) -> PyResult<Arc<dyn Stack>> {
        let opened = tailback_bpf::NativeStack::open(&self.name, &self.library);
        opened.map(|stack| Arc::new(stack) as Arc<dyn Stack>).map_err(PyValueError::new_err)
    }
}

#[cfg(target_os = "linux")]
#[pymethods]
impl PyNativeStack {
    #[new]
    fn new(name: String, library: PathBuf) -> Self {
        PyNativeStack { name, library }
    }
    /// Its version and congestion controls; a `ValueError` describes what is wrong with it. Runs its code.
    fn about(&self) -> PyResult<(String, Vec<String>)> {
        let stack = self.open()?;
        Ok((stack.version().into(), stack.algorithms().iter().map(|&name| name.into()).collect()))
    }
}
