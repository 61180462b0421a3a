//! The figures that are read when they are asked for.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::gauge;
use crate::app::App;
use crate::connections::OpenConnections;

#[derive(Debug)]
pub(super) struct State {
    active: Gauge,
    waiting: Gauge,
    max_active: Gauge,
    max_waiting: Gauge,
    queue_frames: Gauge,
    queue_bytes: Gauge,
    journal_turns: Gauge,
    journal_bytes: Gauge,
    readers: Gauge,
    resumes: Counter<u64, AtomicU64>,
    evictions: Counter<u64, AtomicU64>,
    /// Set by the sweep of expired sessions, because counting may read the whole store.
    pub(super) sessions: Gauge,
    documents: Gauge,
    passages: Gauge,
    connections: Gauge,
    is_ready: Gauge,
    is_disk_full: Gauge,
}

impl State {
    pub(super) fn register(registry: &mut Registry) -> Self {
        registry.register(
            "build",
            "The version of the program",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        let mut of = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, Gauge::clone(&gauge));
            gauge
        };
        let state = Self {
            active: of("turns_active", "Running turns"),
            waiting: of("turns_waiting", "Turns on the waiting list"),
            max_active: of("turns_active_limit", "The limit of running turns, --max-turns"),
            max_waiting: of(
                "turns_waiting_limit",
                "The limit of the waiting list, --max-queued",
            ),
            queue_frames: of(
                "queue_frames",
                "Frames of running turns that wait for their readers",
            ),
            journal_turns: of("journal_turns", "Turns in the journal, running and finished"),
            readers: of("journal_readers", "Readers that follow a turn in the journal"),
            sessions: of("sessions", "Stored sessions, counted once a minute"),
            documents: of("documents", "Documents in the library"),
            passages: of("passages", "Passages of all documents"),
            connections: of("connections", "Open connections"),
            is_ready: of("ready", "1 once all documents are read and indexed"),
            is_disk_full: of("disk_full", "1 while the disk of --data is full"),
            queue_bytes: Gauge::default(),
            journal_bytes: Gauge::default(),
            resumes: Counter::default(),
            evictions: Counter::default(),
        };
        for (name, help, gauge) in [
            (
                "queue",
                "Size of what running turns sent and no reader has taken",
                &state.queue_bytes,
            ),
            ("journal", "Size of the journal", &state.journal_bytes),
        ] {
            registry.register_with_unit(name, help, Unit::Bytes, gauge.clone());
        }
        for (name, help, counter) in [
            (
                "journal_resumes",
                "Turns that a further or returning reader resumed",
                &state.resumes,
            ),
            (
                "journal_evictions",
                "Finished turns that were dropped early, for lack of room",
                &state.evictions,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        state
    }

    pub(super) fn read(&self, app: &App, is_disk_full: bool) {
        let (backlog, journal) = (app.turns.backlog(), app.journal.stats());
        let library = app.library.as_ref();
        for (metric, value) in [
            (&self.active, app.turns.active()),
            (&self.waiting, app.turns.queued()),
            (&self.max_active, *app.settings.max_turns),
            (&self.max_waiting, *app.settings.max_queued),
            (&self.queue_frames, backlog.frames),
            (&self.queue_bytes, backlog.bytes),
            (&self.journal_turns, journal.turns),
            (&self.journal_bytes, journal.bytes),
            (&self.readers, journal.readers),
            (
                &self.documents,
                library.map_or(0, |library| library.document_count()),
            ),
            (&self.passages, library.map_or(0, |library| library.chunk_count())),
            (
                &self.connections,
                app.connections.get().map_or(0, OpenConnections::count),
            ),
            (&self.is_ready, usize::from(app.readiness.is_ready())),
            (&self.is_disk_full, usize::from(is_disk_full)),
        ] {
            metric.set(gauge(value));
        }
        self.resumes.inner().store(journal.resumes, Ordering::Relaxed);
        self.evictions.inner().store(journal.evictions, Ordering::Relaxed);
    }
}
