//! The extension module `tailback._core`: a thin layer over `tailback-core`, `tailback-measures` and, on Linux,
//! `tailback-live`.
//!
//! Scenarios are passed in as JSON; tables are returned as NumPy arrays that take over the recorders' memory.
//! Everything that needs a clock, a thread or a signal is in this crate; the core has none of these.

mod captures;
mod captures_in;
mod conditions;
mod faults;
mod hooks;
#[cfg(target_os = "linux")]
mod live;
mod measures;
#[cfg(target_os = "linux")]
mod native;
mod own;
mod own_queue;
mod own_stack;
mod run;
mod scenario;
mod tables;
#[cfg(target_os = "linux")]
mod vm;

use pyo3::prelude::*;

/// The compiled core of tailback.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::captures::{capture_write, capture_write_real, flow_addresses};
    #[pymodule_export]
    use crate::captures_in::{CaptureError, capture_pair, capture_read};
    #[pymodule_export]
    use crate::conditions::{ReadCondition, condition_judge, condition_read, side_of_zero};
    #[pymodule_export]
    use crate::faults::{AlgorithmError, Cancelled, EngineError, ScenarioError};
    #[pymodule_export]
    use crate::hooks::hooks_that_stay;
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::live::{LiveError, live_check, live_clean, live_doctor, live_run};
    #[pymodule_export]
    use crate::measures::{
        active_periods_s, active_s, bufferbloat_grade, burst_ratio, call_rating, completion_s,
        delay_impairment, drop_share_at_link, film, goodput_bps, is_saturated, late_share, libreqos_grade,
        loss_impairment, loss_of_fates, loss_of_totals, mean_opinion_score, measure, measures, page_loads,
        quantiles, run_measures, trimmed_mean, weighted_quantiles,
    };
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::native::{
        NativeAlgorithm, bpf_guard, bpf_is_queue, bpf_library, bpf_queue_object, native_queue_about,
    };
    #[pymodule_export]
    use crate::own::{PyAck, PyCongestion, PyControl, PyPhaseChange};
    #[pymodule_export]
    use crate::own_queue::PyPacket;
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::own_stack::PyNativeStack;
    #[pymodule_export]
    use crate::own_stack::PySetup;
    #[pymodule_export]
    use crate::run::{Cancel, check, run};
    #[pymodule_export]
    use crate::scenario::{
        engine_problem, fewest_hops, framed_bytes, nearest, quantity_read, quantity_text, scenario_expand,
        scenario_names, scenario_part, scenario_resolve, scenario_toml, scenario_translate,
        scenario_unresolve, schema, size_in_bytes, size_read, to_unit, toml_read,
    };
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::vm::vm_programs;

    use super::*;

    /// Version of the compiled core.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// Number of rows of a table that `run` passes to its sink at a time.
    #[pymodule_export]
    const ROWS_A_GROUP: usize = tailback_core::engine::ROWS_A_GROUP;

    /// Everything the engine knows by name, plus the transports and controllers of other stacks in this build, as JSON.
    #[pyfunction]
    fn registry() -> String {
        let mut all = tailback_scenario::registry::as_json();
        let stacks = crate::run::stacks();
        let row = |(name, stack): (&String, &std::sync::Arc<dyn tailback_core::foreign::Stack>)| serde_json::json!({ "name": name, "version": stack.version(), "algorithms": stack.algorithms() });
        all["transports"] = stacks.iter().map(row).collect();
        all["controllers"] = crate::run::controllers()
            .keys()
            .map(|name| serde_json::json!({ "name": name, "version": CONTROLLERS }))
            .collect();
        all.to_string()
    }

    #[cfg(feature = "quic")]
    const CONTROLLERS: &str = tailback_quic::CONTROLLERS;
    #[cfg(not(feature = "quic"))]
    const CONTROLLERS: &str = "";

    /// Every table with its columns, as JSON.
    #[pyfunction]
    fn tables() -> String {
        tailback_scenario::registry::tables().to_string()
    }

    #[pymodule_init]
    fn init() {
        crate::faults::install_hook();
    }
}
