//! The defaults of Rust. The signatures and stubs in Python repeat them for editors, and a test
//! compares both.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ragwire::Timeouts;
use ragwire::session::SessionLimits;
use ragwire::turn::{JournalLimits, QueueLimits, RedisOptions, TurnGroup};
use ragwire_endpoints::{EndpointLimits, Endpoints};

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

/// Returns the defaults by the class and the name of the option.
#[pyfunction]
pub(crate) fn defaults(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let of = |name: &str, all: &Bound<'_, PyDict>| -> PyResult<Bound<'_, PyDict>> {
        let options = PyDict::new(py);
        all.set_item(name, &options)?;
        Ok(options)
    };
    let all = PyDict::new(py);

    let (limits, times) = (EndpointLimits::default(), Timeouts::default());
    let endpoints = of("Endpoints", &all)?;
    endpoints.set_item("name", Endpoints::NAME)?;
    endpoints.set_item("mode", Endpoints::MODE)?;
    endpoints.set_item("disconnect_grace", seconds(Endpoints::DISCONNECT_GRACE))?;
    endpoints.set_item("max_question_bytes", limits.max_question_bytes)?;
    endpoints.set_item("body_timeout", seconds(limits.body_timeout))?;
    endpoints.set_item("min_body_rate", limits.min_body_rate)?;
    endpoints.set_item("max_body_memory", limits.max_body_memory)?;
    endpoints.set_item("client_share", EndpointLimits::CLIENT_SHARE)?;
    endpoints.set_item("max_attachment_bytes", limits.max_attachment_bytes)?;
    endpoints.set_item("max_sockets", limits.max_sockets)?;
    endpoints.set_item("pad_to", limits.pad_to)?;
    let (turn, queue) = (of("Turn", &all)?, QueueLimits::default());
    turn.set_item("max_queue_frames", queue.max_frames)?;
    turn.set_item("max_queue_bytes", queue.max_bytes)?;
    turn.set_item("max_event_bytes", queue.max_event_bytes)?;
    for options in [&endpoints, &turn] {
        options.set_item("keep_alive", times.keep_alive.map(seconds))?;
        options.set_item("idle", times.idle.map(seconds))?;
        options.set_item("total", times.total.map(seconds))?;
        options.set_item("write_stall", times.write_stall.map(seconds))?;
    }

    let (journal, limits) = (of("Journal", &all)?, JournalLimits::default());
    journal.set_item("max_turn_bytes", limits.max_turn_bytes)?;
    journal.set_item("max_turns", limits.max_turns)?;
    journal.set_item("max_bytes", limits.max_bytes)?;
    journal.set_item("keep", seconds(limits.keep))?;

    let (sessions, limits) = (of("Sessions", &all)?, SessionLimits::default());
    sessions.set_item("max_sessions", limits.max_sessions)?;
    sessions.set_item("max_messages", limits.max_messages)?;
    sessions.set_item("max_bytes", limits.max_bytes)?;
    sessions.set_item("max_age", seconds(limits.max_age))?;
    for options in [&journal, &sessions] {
        options.set_item("prefix", RedisOptions::PREFIX)?;
        options.set_item("lease", seconds(RedisOptions::LEASE))?;
        options.set_item("retry", seconds(RedisOptions::RETRY))?;
    }

    let group = of("TurnGroup", &all)?;
    group.set_item("max_active", TurnGroup::MAX_ACTIVE)?;
    group.set_item("queue_timeout", seconds(TurnGroup::QUEUE_TIMEOUT))?;
    Ok(all)
}
