//! What the core logs, in Python's `logging`, under the name `ragwire`.
//!
//! A record may be made while a lock of the core is held, where taking the GIL could wait for
//! another thread that waits for that lock. So records go to a thread of their own.

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The maximum number of records that wait. Beyond it they are dropped: a log must not stop turns.
const MAX_WAITING: usize = 1024;

/// The level of Python's logger.
static LEVEL: AtomicU32 = AtomicU32::new(30);

/// Starts to log. Fails silently if the process has another subscriber.
pub(crate) fn install() {
    let (sender, receiver) = sync_channel(MAX_WAITING);
    if tracing::subscriber::set_global_default(ToPython(sender)).is_ok() {
        let name = "ragwire-log".to_owned();
        // Without the thread nothing is logged, and everything else works.
        let _ = std::thread::Builder::new()
            .name(name)
            .spawn(move || pass_on(&receiver));
    }
}

/// Reads the level of Python's logger.
pub(crate) fn read_level(py: Python<'_>) -> PyResult<()> {
    let level = logger(py)?.call_method0("getEffectiveLevel")?.extract()?;
    LEVEL.store(level, Ordering::Relaxed);
    Ok(())
}

fn logger(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("logging")?.getattr("getLogger")?.call1(("ragwire",))
}

fn pass_on(records: &Receiver<(u32, String)>) {
    for (level, message) in records {
        // Fails only while the interpreter shuts down.
        let _ = Python::try_attach(|py| {
            if let Err(error) =
                logger(py).and_then(|logger| logger.call_method1("log", (level, "%s", message)))
            {
                error.write_unraisable(py, None);
            }
        });
    }
}

/// The number of a level in Python.
fn number(level: Level) -> u32 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}

/// Events become records; spans are not recorded.
struct ToPython(SyncSender<(u32, String)>);

impl Subscriber for ToPython {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && metadata.target().starts_with("ragwire")
            && number(*metadata.level()) >= LEVEL.load(Ordering::Relaxed)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let Text { message, fields } = text;
        let _ = self
            .0
            .try_send((number(*event.metadata().level()), message + &fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The message, and the fields behind it.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
