//! Queue disciplines written in Python: the counterpart of `tailback_core::queue::external`.
//!
//! As for congestion controls, each hook call acquires and releases the interpreter lock, and an exception in a hook
//! ends the run. A class sees packets as objects with their queue and number; the engine keeps the packets themselves.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use tailback_core::packet::Packet;
use tailback_core::queue::external::{Declared, Deed, External, Failure, Maker, Next, Offer, QueueFault};
use tailback_core::queue::{Backlog, DropReason};
use tailback_core::scenario::Params;
use tailback_core::time::Time;

use crate::hooks::Caller;
use crate::own::{Fault, given, shown};

thread_local! {
    /// The queue whose hook this thread is in; 0 for none.
    static CALLED: Cell<u32> = const { Cell::new(0) };
    /// Bytes that the queue holds without the offered packet, minus those that the hook has dropped.
    static WAITING: Cell<u64> = const { Cell::new(0) };
    /// The hook's actions on packets.
    static DEEDS: RefCell<Vec<Deed>> = const { RefCell::new(Vec::new()) };
}

/// A packet as a queue of the user's own sees it.
#[pyclass(frozen, freelist = 1024, module = "tailback._core", name = "Packet")]
pub struct PyPacket {
    queue: u32,
    number: u64,
    packet: Packet,
}

impl PyPacket {
    fn record(&self, deed: Deed) -> PyResult<()> {
        if CALLED.get() != self.queue {
            return Err(PyRuntimeError::new_err(
                "a packet is dropped or marked only within enqueue or dequeue of the queue that holds it",
            ));
        }
        DEEDS.with_borrow_mut(|deeds| deeds.push(deed));
        Ok(())
    }
}

#[pymethods]
impl PyPacket {
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }
    #[getter]
    fn flow(&self) -> u32 {
        self.packet.flow.0
    }
    #[getter]
    fn is_reverse(&self) -> bool {
        self.packet.is_reverse
    }
    #[getter]
    fn conversation(&self) -> u8 {
        self.packet.conversation
    }
    #[getter]
    fn bytes(&self) -> u32 {
        self.packet.bytes
    }
    #[getter]
    fn ecn(&self) -> &'static str {
        self.packet.ecn.word()
    }
    #[getter]
    fn is_ecn_capable(&self) -> bool {
        self.packet.ecn.is_capable()
    }
    #[getter]
    fn enqueued_s(&self) -> f64 {
        self.packet.enqueued.as_secs_f64()
    }
    #[getter]
    fn waiting_bytes(&self) -> u64 {
        WAITING.get()
    }
    /// Drops the packet: the queue no longer holds it.
    fn drop(&self) -> PyResult<()> {
        self.record(Deed::Drop(self.number, DropReason::Aqm))?;
        WAITING.set(WAITING.get().saturating_sub(self.packet.bytes.into()));
        Ok(())
    }
    /// Marks the packet CE.
    fn mark(&self) -> PyResult<()> {
        self.record(Deed::Mark(self.number))
    }
    fn __repr__(&self) -> String {
        format!("<packet {}: flow {}, {} bytes>", self.number, self.packet.flow.0, self.packet.bytes)
    }
}

/// A Python class with its name in scenarios.
#[derive(Debug)]
pub struct PyQueueMaker {
    /// `factory(params, seed, rate_bps)` returns an instance.
    factory: Py<PyAny>,
}

impl PyQueueMaker {
    pub fn new(factory: Py<PyAny>) -> Self {
        PyQueueMaker { factory }
    }

    fn instance<'py>(
        &self,
        py: Python<'py>,
        params: &Params,
        seed: u64,
        rate_bps: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.factory.call1(py, (given(py, params)?, seed, rate_bps))?.into_bound(py))
    }
}

fn failure(error: PyErr) -> Failure {
    Failure { what: error.to_string(), cause: Some(Box::new(error)) }
}

impl Maker for PyQueueMaker {
    fn check(&self, params: &Params, rate_bps: Option<u64>) -> Result<Declared, String> {
        Python::attach(|py| {
            let instance = self.instance(py, params, 0, rate_bps)?;
            let flag = |name: &str| match instance.getattr_opt(name)? {
                Some(flag) => flag.extract::<bool>(),
                None => Ok(false),
            };
            Ok(Declared { reorders: flag("reorders")?, holds_back: flag("holds_back")? })
        })
        .map_err(|error: PyErr| error.to_string())
    }

    fn make(
        &self,
        _: &str,
        params: &Params,
        seed: u64,
        rate_bps: Option<u64>,
    ) -> Result<Box<dyn External>, Failure> {
        static MADE: AtomicU32 = AtomicU32::new(1);
        Python::attach(|py| {
            let instance = self.instance(py, params, seed, rate_bps)?;
            let hook = |name: &str| -> PyResult<Py<PyAny>> { Ok(instance.getattr(name)?.unbind()) };
            let id = MADE.fetch_add(1, Ordering::Relaxed);
            let (caller, enqueue, dequeue) = (Caller::default(), hook("enqueue")?, hook("dequeue")?);
            let own = OwnQueue { id, caller, enqueue, dequeue };
            Ok(Box::new(own) as Box<dyn External>)
        })
        .map_err(failure)
    }
}

/// An instance with its hooks, which are looked up once.
#[derive(Debug)]
struct OwnQueue {
    id: u32,
    caller: Caller,
    enqueue: Py<PyAny>,
    dequeue: Py<PyAny>,
}

impl OwnQueue {
    fn call<T>(
        &self,
        deeds: &mut Vec<Deed>,
        call: impl FnOnce(Python<'_>) -> PyResult<T>,
    ) -> Result<T, Failure> {
        CALLED.set(self.id);
        let outcome = Python::attach(|py| self.caller.within(py, || call(py)));
        CALLED.set(0);
        DEEDS.with_borrow_mut(|done| deeds.append(done));
        outcome.map_err(failure)
    }
}

impl External for OwnQueue {
    fn enqueue(
        &mut self,
        number: u64,
        packet: &Packet,
        waiting: Backlog,
        now: Time,
        deeds: &mut Vec<Deed>,
    ) -> Result<Offer, Failure> {
        WAITING.set(waiting.bytes);
        let packet = PyPacket { queue: self.id, number, packet: *packet };
        self.call(deeds, |py| {
            let answer = self.enqueue.bind(py).call1((packet, now.as_secs_f64()))?;
            if answer.is_none() {
                return Ok(Offer::Keep);
            }
            match answer.extract::<String>().as_deref() {
                Ok("keep") => Ok(Offer::Keep),
                Ok("drop") => Ok(Offer::Drop),
                Ok("mark") => Ok(Offer::Mark),
                _ => Err(PyTypeError::new_err(format!(
                    "enqueue returned {}: return None or \"keep\", \"drop\" or \"mark\"",
                    shown(&answer)
                ))),
            }
        })
    }

    fn dequeue(&mut self, _: Backlog, now: Time, deeds: &mut Vec<Deed>) -> Result<Next, Failure> {
        self.call(deeds, |py| {
            let answer = self.dequeue.bind(py).call1((now.as_secs_f64(),))?;
            if let Ok(packet) = answer.cast::<PyPacket>() {
                let packet = packet.get();
                if packet.queue != self.id {
                    let text = "dequeue returned a packet that was offered to another queue";
                    return Err(PyValueError::new_err(text));
                }
                return Ok(Next::Packet(packet.number));
            }
            if answer.is_none() {
                return Ok(Next::Nothing);
            }
            match answer.extract::<f64>() {
                Ok(until) => Ok(Next::WaitUntil(until)),
                Err(_) => Err(PyTypeError::new_err(format!(
                    "dequeue returned {}: return a packet that enqueue was given, None, or the time in seconds to \
                     wait until",
                    shown(&answer)
                ))),
            }
        })
    }
}

/// Converts to a fault of an algorithm.
impl From<QueueFault> for Fault {
    fn from(fault: QueueFault) -> Self {
        let raised = fault.cause.and_then(|cause| cause.downcast::<PyErr>().ok());
        let error = raised.map_or_else(|| PyValueError::new_err(fault.what.clone()), |error| *error);
        Fault {
            algorithm: fault.queue,
            hook: fault.hook,
            error,
            of_queue: Some((fault.at.as_secs_f64(), fault.what)),
        }
    }
}
