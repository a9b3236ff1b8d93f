//! Congestion controls written in Python: the counterpart of `tailback_core::cc::external`.
//!
//! The engine runs without the interpreter lock; each hook call acquires and releases it. An exception in a hook ends
//! the run at once: it unwinds through the engine as a [`Fault`], and the engine's state is not used again.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyException, PySystemExit, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat};
use tailback_core::cc::external::{External, Maker, Makers};
use tailback_core::cc::{self, CongestionControl, Phase, PhaseChange, Resume, Signal};
use tailback_core::foreign::Stacks;
use tailback_core::queue::external;
use tailback_core::scenario::{Params, Value};
use tailback_core::time::{Bytes, Duration, Rate, Time};

use crate::faults::AlgorithmError;
use crate::hooks::Caller;
use crate::own_queue::PyQueueMaker;
use crate::own_stack::{Described, PyStack};

/// The largest window allowed: no path in the literature holds a tebibyte, so a larger value must be a mistake.
const MOST_WINDOW: Bytes = 1 << 40;

/// An exception raised by a hook, as it unwinds through the engine.
pub struct Fault {
    /// Name of the algorithm in the scenario.
    pub algorithm: String,
    /// The hook.
    pub hook: &'static str,
    /// The exception.
    pub error: PyErr,
    /// For a queue: the simulated time in seconds, and what is wrong with which packet.
    pub of_queue: Option<(f64, String)>,
}

#[cfg(target_os = "linux")]
impl From<tailback_bpf::Fault> for Fault {
    fn from(fault: tailback_bpf::Fault) -> Self {
        let error = PyValueError::new_err(fault.what);
        Fault { algorithm: fault.algorithm, hook: fault.hook, error, of_queue: None }
    }
}

#[cfg(feature = "quic")]
impl From<tailback_quic::ControllerFault> for Fault {
    fn from(fault: tailback_quic::ControllerFault) -> Self {
        let error = PyValueError::new_err(format!("it panicked: {}", fault.what));
        Fault { algorithm: fault.algorithm, hook: fault.hook, error, of_queue: None }
    }
}

impl Fault {
    /// `KeyboardInterrupt` and similar exceptions unchanged; otherwise an `AlgorithmError` with the cause.
    pub fn into_exception(self, at_s: f64) -> PyErr {
        Python::attach(|py| {
            // An algorithm must not be able to end the program.
            let is_exit = self.error.is_instance_of::<PySystemExit>(py);
            if !is_exit && !self.error.is_instance_of::<PyException>(py) {
                return self.error;
            }
            let (at_s, text) = self.of_queue.unwrap_or_else(|| (at_s, self.error.to_string()));
            let error = AlgorithmError::new_err((self.algorithm, self.hook, at_s, text));
            error.set_cause(py, Some(self.error));
            error
        })
    }
}

fn fail(algorithm: &str, hook: &'static str, error: PyErr) -> ! {
    resume_unwind(Box::new(Fault { algorithm: algorithm.into(), hook, error, of_queue: None }))
}

/// What an ACK reports to an algorithm. Times are in seconds, amounts in bytes.
#[pyclass(frozen, module = "tailback._core", name = "Ack")]
pub struct PyAck(cc::Ack);

#[pymethods]
impl PyAck {
    #[getter]
    fn now_s(&self) -> f64 {
        self.0.now.as_secs_f64()
    }
    #[getter]
    fn mss(&self) -> u32 {
        self.0.mss
    }
    #[getter]
    fn newly_acked(&self) -> Bytes {
        self.0.newly_acked
    }
    #[getter]
    fn newly_acked_segments(&self) -> u32 {
        self.0.newly_acked_segments
    }
    #[getter]
    fn delivered_segments(&self) -> u32 {
        self.0.delivered_segments
    }
    #[getter]
    fn lost_segments(&self) -> u32 {
        self.0.lost_segments
    }
    #[getter]
    fn marked(&self) -> Bytes {
        self.0.marked
    }
    #[getter]
    fn rtt_s(&self) -> Option<f64> {
        self.0.rtt.map(Duration::as_secs_f64)
    }
    #[getter]
    fn rtt_min_s(&self) -> f64 {
        seconds(self.0.rtt_min)
    }
    #[getter]
    fn srtt_s(&self) -> f64 {
        self.0.srtt.as_secs_f64()
    }
    #[getter]
    fn in_flight(&self) -> Bytes {
        self.0.in_flight
    }
    #[getter]
    fn prior_in_flight(&self) -> Bytes {
        self.0.prior_in_flight
    }
    #[getter]
    fn delivery_rate_bps(&self) -> Option<u64> {
        self.0.delivery_rate().map(Rate::as_bps)
    }
    #[getter]
    fn delivered(&self) -> Bytes {
        self.0.delivered
    }
    #[getter]
    fn prior_delivered(&self) -> Bytes {
        self.0.prior_delivered
    }
    #[getter]
    fn app_limited(&self) -> bool {
        self.0.app_limited
    }
    #[getter]
    fn round_start(&self) -> bool {
        self.0.round_start
    }
    #[getter]
    fn cwnd_limited(&self) -> bool {
        self.0.cwnd_limited
    }
    #[getter]
    fn may_grow(&self) -> bool {
        self.0.may_grow
    }
    #[getter]
    fn phase(&self) -> &'static str {
        named(self.0.phase)
    }
    #[getter]
    fn counting(&self) -> &'static str {
        self.0.counting.word()
    }
    #[getter]
    fn in_slow_start(&self) -> bool {
        self.0.in_slow_start
    }
    #[getter]
    fn departs(&self) -> f64 {
        self.0.departs.as_secs_f64()
    }
    #[getter]
    fn snd_una(&self) -> u64 {
        self.0.snd_una
    }
    #[getter]
    fn snd_nxt(&self) -> u64 {
        self.0.snd_nxt
    }
    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// The start of a congestion episode. Times are in seconds, amounts in bytes.
#[pyclass(frozen, module = "tailback._core", name = "Congestion")]
pub struct PyCongestion(cc::Congestion);

#[pymethods]
impl PyCongestion {
    #[getter]
    fn now_s(&self) -> f64 {
        self.0.now.as_secs_f64()
    }
    #[getter]
    fn signal(&self) -> &'static str {
        match self.0.signal {
            Signal::Loss => "loss",
            Signal::Ecn => "ecn",
            Signal::Timeout { .. } => "timeout",
        }
    }
    #[getter]
    fn is_repeated_timeout(&self) -> bool {
        self.0.is_repeated_timeout()
    }
    #[getter]
    fn mss(&self) -> u32 {
        self.0.mss
    }
    #[getter]
    fn in_flight(&self) -> Bytes {
        self.0.in_flight
    }
    #[getter]
    fn send_window(&self) -> Bytes {
        self.0.send_window
    }
    #[getter]
    fn srtt_s(&self) -> f64 {
        self.0.srtt.as_secs_f64()
    }
    #[getter]
    fn rtt_min_s(&self) -> f64 {
        seconds(self.0.rtt_min)
    }
    #[getter]
    fn snd_una(&self) -> u64 {
        self.0.snd_una
    }
    #[getter]
    fn snd_nxt(&self) -> u64 {
        self.0.snd_nxt
    }
    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A change of the congestion state.
#[pyclass(frozen, module = "tailback._core", name = "PhaseChange")]
pub struct PyPhaseChange(PhaseChange);

#[pymethods]
impl PyPhaseChange {
    #[getter]
    fn now_s(&self) -> f64 {
        self.0.now.as_secs_f64()
    }
    #[getter]
    fn before(&self) -> &'static str {
        named(self.0.from)
    }
    #[getter]
    fn after(&self) -> &'static str {
        named(self.0.to)
    }
    #[getter]
    fn snd_una(&self) -> u64 {
        self.0.snd_una
    }
    #[getter]
    fn snd_nxt(&self) -> u64 {
        self.0.snd_nxt
    }
    #[getter]
    fn srtt_s(&self) -> f64 {
        self.0.srtt.as_secs_f64()
    }
    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// What an algorithm controls; setting a value that no sender could use raises an error.
#[pyclass(module = "tailback._core", name = "Control")]
pub struct PyControl {
    control: cc::Control,
    wants_reduction: bool,
}

#[pymethods]
impl PyControl {
    /// Initial `ssthresh`.
    #[classattr]
    const UNLIMITED: Bytes = cc::Control::UNLIMITED;

    #[getter]
    fn cwnd(&self) -> Bytes {
        self.control.cwnd
    }
    #[setter]
    fn set_cwnd(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let mss = Bytes::from(self.control.mss);
        let advice = || format!("a window has one segment ({mss} B) or more, and at most 1 TiB");
        let bytes = whole("cwnd", value, advice)?;
        if bytes < mss || bytes > MOST_WINDOW {
            return Err(refusal("cwnd", value, advice));
        }
        self.control.cwnd = bytes;
        Ok(())
    }
    #[getter]
    fn ssthresh(&self) -> Bytes {
        self.control.ssthresh
    }
    #[setter]
    fn set_ssthresh(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        // RFC 5681 equation 4: with a window of one segment, each round would wait for a delayed ACK.
        let floor = 2 * Bytes::from(self.control.mss);
        let advice = || format!("ssthresh has two segments ({floor} B) or more; infinity is no limit");
        if value.extract::<f64>().is_ok_and(|number| number == f64::INFINITY) {
            self.control.ssthresh = cc::Control::UNLIMITED;
            return Ok(());
        }
        let bytes = whole("ssthresh", value, advice)?;
        if bytes < floor {
            return Err(refusal("ssthresh", value, advice));
        }
        self.control.ssthresh = bytes.min(cc::Control::UNLIMITED);
        Ok(())
    }
    #[getter]
    fn pacing_bps(&self) -> Option<u64> {
        self.control.pacing.map(Rate::as_bps)
    }
    #[setter]
    fn set_pacing_bps(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let advice = || "pacing is a rate of 1 bit/s or more, or None for none".to_string();
        self.control.pacing = match value.is_none() {
            true => None,
            false => match whole("pacing_bps", value, advice)? {
                0 => return Err(refusal("pacing_bps", value, advice)),
                bps => Some(Rate::from_bps(bps)),
            },
        };
        Ok(())
    }
    #[getter]
    fn mss(&self) -> u32 {
        self.control.mss
    }
    #[getter]
    fn wants_reduction(&self) -> bool {
        self.wants_reduction
    }
    #[setter]
    fn set_wants_reduction(&mut self, value: bool) {
        self.wants_reduction = value;
    }
    fn __repr__(&self) -> String {
        format!("{:?}", self.control)
    }
}

/// `value` as an integer. Fractions of a byte are dropped, because computed floats nearly always have one.
fn whole(field: &str, value: &Bound<'_, PyAny>, advice: impl Fn() -> String) -> PyResult<u64> {
    if let Ok(number) = value.extract::<u64>() {
        return Ok(number);
    }
    let number: f64 = value.extract().map_err(|_| {
        PyTypeError::new_err(format!("{field} was set to {}, which is no number: {}", shown(value), advice()))
    })?;
    // Also false for NaN.
    if !(0.0..9.0e18).contains(&number) {
        return Err(refusal(field, value, advice));
    }
    Ok(number as u64)
}

fn refusal(field: &str, value: &Bound<'_, PyAny>, advice: impl Fn() -> String) -> PyErr {
    PyValueError::new_err(format!("{field} was set to {}: {}", shown(value), advice()))
}

pub fn shown(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "something without a repr".into(), |text| text.to_string())
}

fn named(phase: Phase) -> &'static str {
    phase.word()
}

/// Infinity stands for "no value yet".
fn seconds(duration: Duration) -> f64 {
    if duration == Duration::MAX { f64::INFINITY } else { duration.as_secs_f64() }
}

/// A Python class with its name in scenarios.
#[derive(Debug)]
struct PyMaker {
    name: Arc<str>,
    /// `factory(params, seed)` returns an instance.
    factory: Py<PyAny>,
}

impl PyMaker {
    fn instance(&self, py: Python<'_>, params: &Params, seed: u64) -> PyResult<Own> {
        let instance = self.factory.call1(py, (given(py, params)?, seed))?.into_bound(py);
        let needed = |hook: &str| -> PyResult<Py<PyAny>> { Ok(instance.getattr(hook)?.unbind()) };
        let optional = |hook: &str| -> PyResult<Option<Py<PyAny>>> {
            Ok(instance.getattr_opt(hook)?.filter(|hook| !hook.is_none()).map(Bound::unbind))
        };
        let control = cc::Control { cwnd: 0, ssthresh: 0, pacing: None, mss: 1, self_limited: false };
        Ok(Own {
            name: self.name.clone(),
            caller: Caller::default(),
            control: Py::new(py, PyControl { control, wants_reduction: false })?,
            wants_reduction: false,
            owns_window: match instance.getattr_opt("owns_window")? {
                Some(flag) => flag.extract()?,
                None => false,
            },
            on_ack: needed("on_ack")?,
            on_congestion: needed("on_congestion")?,
            on_established: optional("on_established")?,
            on_phase: optional("on_phase")?,
            on_undo: optional("on_undo")?,
            on_resume: optional("on_resume")?,
            on_idle_restart: optional("on_idle_restart")?,
            internals: optional("internals")?,
        })
    }
}

/// A scenario's parameters as keyword arguments.
pub fn given<'py>(py: Python<'py>, params: &Params) -> PyResult<Bound<'py, PyDict>> {
    let given = PyDict::new(py);
    for (name, value) in params {
        match value {
            // A number written without a fraction is passed as an int.
            Value::Number(number) if *number == number.trunc() && number.abs() < 9.0e15 => {
                given.set_item(name, *number as i64)?;
            }
            Value::Number(number) => given.set_item(name, PyFloat::new(py, *number))?,
            Value::Flag(flag) => given.set_item(name, *flag)?,
            Value::Name(text) => given.set_item(name, text)?,
        }
    }
    Ok(given)
}

impl Maker for PyMaker {
    fn check(&self, params: &Params) -> Result<(), String> {
        Python::attach(|py| self.instance(py, params, 0).map(drop).map_err(|error| error.to_string()))
    }
    fn make(&self, params: &Params, seed: u64) -> Box<dyn External> {
        match Python::attach(|py| self.instance(py, params, seed)) {
            Ok(own) => Box::new(own),
            Err(error) => fail(&self.name, "its constructor", error),
        }
    }
}

/// An instance with its hooks, which are looked up once.
#[derive(Debug)]
struct Own {
    name: Arc<str>,
    caller: Caller,
    control: Py<PyControl>,
    wants_reduction: bool,
    owns_window: bool,
    on_ack: Py<PyAny>,
    on_congestion: Py<PyAny>,
    on_established: Option<Py<PyAny>>,
    on_phase: Option<Py<PyAny>>,
    on_undo: Option<Py<PyAny>>,
    on_resume: Option<Py<PyAny>>,
    on_idle_restart: Option<Py<PyAny>>,
    internals: Option<Py<PyAny>>,
}

impl Own {
    /// Lends `control` to `call` and applies what it sets. Returns true if it requests a reduction.
    fn lend(
        &self,
        control: &mut cc::Control,
        call: impl FnOnce(Python<'_>, &Bound<'_, PyControl>) -> PyResult<Py<PyAny>>,
    ) -> PyResult<bool> {
        Python::attach(|py| {
            let borrowed = self.control.bind(py);
            *borrowed.try_borrow_mut()? = PyControl { control: *control, wants_reduction: false };
            self.caller.within(py, || call(py, borrowed))?;
            let set = borrowed.try_borrow()?;
            *control = set.control;
            Ok(set.wants_reduction)
        })
    }

    fn demand<T>(&self, hook: &'static str, outcome: PyResult<T>) -> T {
        outcome.unwrap_or_else(|error| fail(&self.name, hook, error))
    }
}

impl CongestionControl for Own {
    fn on_ack(&mut self, ack: &cc::Ack, control: &mut cc::Control) {
        let outcome = self.lend(control, |py, control| self.on_ack.call1(py, (PyAck(*ack), control)));
        self.wants_reduction = self.demand("on_ack", outcome);
    }

    fn on_congestion(&mut self, congestion: &cc::Congestion, control: &mut cc::Control) {
        let event = PyCongestion(*congestion);
        let outcome = self.lend(control, |py, control| self.on_congestion.call1(py, (event, control)));
        // With an unlimited ssthresh the window would become unlimited at the end of the recovery.
        let outcome = outcome.and_then(|_| match self.owns_window || control.ssthresh <= MOST_WINDOW {
            true => Ok(()),
            false => Err(PyValueError::new_err(
                "control.ssthresh is unlimited after on_congestion: set it to where the window should land",
            )),
        });
        self.demand("on_congestion", outcome);
        self.wants_reduction = false;
    }

    fn on_established(&mut self, now: Time, srtt: Option<Duration>, control: &mut cc::Control) {
        let Some(hook) = &self.on_established else { return };
        let (now, srtt) = (now.as_secs_f64(), srtt.map(Duration::as_secs_f64));
        let outcome = self.lend(control, |py, control| hook.call1(py, (now, srtt, control)));
        self.demand("on_established", outcome);
    }

    fn on_phase(&mut self, change: &PhaseChange, control: &mut cc::Control) {
        let Some(hook) = &self.on_phase else { return };
        let outcome = self.lend(control, |py, control| hook.call1(py, (PyPhaseChange(*change), control)));
        self.demand("on_phase", outcome);
    }

    fn on_undo(&mut self, now: Time, control: &mut cc::Control) {
        let Some(hook) = &self.on_undo else { return };
        let outcome = self.lend(control, |py, control| hook.call1(py, (now.as_secs_f64(), control)));
        self.demand("on_undo", outcome);
    }

    fn on_resume(&mut self, resume: &Resume, control: &mut cc::Control) {
        let Some(hook) = &self.on_resume else { return };
        let (now, idle) = (resume.now.as_secs_f64(), resume.idle.as_secs_f64());
        let outcome =
            self.lend(control, |py, control| hook.call1(py, (now, idle, resume.app_limited, control)));
        self.demand("on_resume", outcome);
    }

    fn on_idle_restart(&mut self, now: Time, idle: Duration, control: &mut cc::Control) {
        let Some(hook) = &self.on_idle_restart else { return };
        let (now, idle) = (now.as_secs_f64(), idle.as_secs_f64());
        let outcome = self.lend(control, |py, control| hook.call1(py, (now, idle, control)));
        self.demand("on_idle_restart", outcome);
    }

    fn owns_window(&self) -> bool {
        self.owns_window
    }

    fn wants_reduction(&self) -> bool {
        self.wants_reduction
    }

    fn internals(&self, out: &mut Vec<(&'static str, f64)>) {
        let Some(hook) = &self.internals else { return };
        let values = Python::attach(|py| -> PyResult<Vec<(String, f64)>> {
            let values = hook.call0(py)?.into_bound(py);
            values
                .cast::<PyDict>()?
                .iter()
                .map(|(name, value)| {
                    let number = value.extract().map_err(|_| {
                        let said = format!("{name:?} is {value:?}, which is no number. Give numbers alone");
                        PyTypeError::new_err(said)
                    })?;
                    Ok((name.extract()?, number))
                })
                .collect()
        });
        out.extend(self.demand("internals", values).into_iter().map(|(name, value)| (kept(name), value)));
    }
}

/// Makes a name permanent: tables refer to quantities by static names, and there are few.
fn kept(name: String) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name.as_str()) {
        return known;
    }
    let name: &'static str = name.leak();
    names.insert(name);
    name
}

/// Algorithms beyond the registry, from the user and from this build.
pub struct Beyond {
    /// Congestion controls.
    pub makers: Makers,
    /// Queue disciplines.
    pub queues: external::Makers,
    /// Transports.
    pub stacks: Stacks,
}

/// Makers for the user's `algorithms` and for those of this build. Each value is, by its attributes:
///
/// - without any: `factory(params, seed)` of a congestion control,
/// - `is_queue`: `factory(params, seed, rate_bps)` of a queue discipline,
/// - `as_queue`: such a factory, for links that name the algorithm,
/// - `is_stack`: a factory of a transport,
/// - `as_stack`: a function that describes a compiled transport.
pub fn makers(algorithms: Option<&Bound<'_, PyDict>>) -> PyResult<Beyond> {
    let mut all = Beyond {
        makers: crate::run::controllers(),
        queues: external::Makers::new(),
        stacks: crate::run::stacks(),
    };
    for (name, factory) in algorithms.into_iter().flatten() {
        let name: String = name.extract()?;
        #[cfg(target_os = "linux")]
        if let Ok(native) = factory.cast::<crate::own_stack::PyNativeStack>() {
            all.stacks.insert(name, native.get().open()?);
            continue;
        }
        if factory.hasattr("is_stack")? {
            all.stacks.insert(name.clone(), Arc::new(PyStack::new(&factory)?));
        }
        if let Some(as_stack) = factory.getattr_opt("as_stack")? {
            all.stacks.insert(name.clone(), Arc::new(Described::new(&as_stack.call0()?)?));
        }
        #[cfg(target_os = "linux")]
        if let Ok(native) = factory.cast::<crate::native::NativeAlgorithm>() {
            if let Some(maker) = native.get().queue_maker() {
                all.queues.insert(name.clone(), Arc::new(maker));
            }
            if let Some(maker) = native.get().maker(&name) {
                all.makers.insert(name, Arc::new(maker));
            }
            continue;
        }
        if factory.hasattr("is_queue")? {
            all.queues.insert(name, Arc::new(PyQueueMaker::new(factory.unbind())));
            continue;
        }
        // A compiled library says what its crate contains.
        if let Some(as_queue) = factory.getattr_opt("as_queue")? {
            all.queues.insert(name.clone(), Arc::new(PyQueueMaker::new(as_queue.unbind())));
        }
        let maker = PyMaker { name: name.as_str().into(), factory: factory.unbind() };
        all.makers.insert(name, Arc::new(maker));
    }
    Ok(all)
}
