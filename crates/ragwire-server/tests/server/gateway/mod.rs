//! A server whose orchestrator is outside of it: behind HTTP, or in child processes.

mod asks;
mod double;
mod http;
mod humans;
mod langgraph;
#[cfg(unix)]
mod process;
mod reuse;
mod slow;
mod tls;
mod wires;

use std::cell::RefCell;
use std::io::Write;
use std::sync::{Arc, Once};
use std::time::Duration;

use ragwire::{Failure, Frame, Status};
use ragwire_rag::Library;
use ragwire_server::gateway::Gateway;
use ragwire_server::settings::Settings;
use ragwire_server::settings::engines::Address;
use ragwire_server::settings::values::{Count, Span};

use crate::support::{Running, start_with};

/// How long a silent orchestrator is awaited in these tests: more than a busy machine takes to answer.
const SHORT: Duration = Duration::from_secs(1);

/// Starts a server in front of an orchestrator: a URL, or `exec:` and a command. Requests are not
/// repeated, and silence is short.
fn gateway(target: &str, change: impl FnOnce(&mut Settings)) -> Running {
    let mut settings = Settings {
        orchestrator: Address(Some(target.to_owned())),
        orchestrator_timeout: Span(SHORT),
        orchestrator_idle_timeout: Span(SHORT),
        orchestrator_attempts: Count(1),
        ..Settings::default()
    };
    settings.listen.0.set_port(0);
    change(&mut settings);
    settings.check().unwrap();
    let gateway = Gateway::start(settings.gateway_options().unwrap().unwrap()).unwrap();
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    start_with(library, Some(Arc::new(gateway)), |served| *served = settings)
}

/// The text and the failure of a turn.
fn told(frames: &[Frame]) -> (String, Option<Failure>) {
    let (mut text, mut failure) = (String::new(), None);
    for frame in frames {
        match frame {
            Frame::Text(piece) => text += piece,
            Frame::End(end) => match &end.status {
                Status::Failed(failed) => failure = Some(failed.clone()),
                Status::Completed => {}
                Status::Stopped => text += " (stopped)",
            },
            Frame::Event { .. } => {}
            Frame::Snapshot(snapshot) => panic!("nothing was dropped: {snapshot:?}"),
        }
    }
    (text, failure)
}

thread_local! {
    /// What was logged on this thread, which is all of a test with one thread.
    static LOGGED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The log of a test.
struct Log;

impl Log {
    /// Forgets what this thread has logged. One subscriber serves all threads, because callsites
    /// cache whether anyone listens.
    fn start() -> Self {
        static SUBSCRIBER: Once = Once::new();
        SUBSCRIBER.call_once(|| {
            let subscriber = tracing_subscriber::fmt().with_writer(|| Logged).with_ansi(false);
            tracing::subscriber::set_global_default(subscriber.finish()).unwrap();
        });
        LOGGED.with_borrow_mut(Vec::clear);
        Self
    }

    fn text(&self) -> String {
        LOGGED.with_borrow(|logged| String::from_utf8_lossy(logged).into_owned())
    }
}

struct Logged;

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOGGED.with_borrow_mut(|logged| logged.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
