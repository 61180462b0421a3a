//! The disconnect matrix: the kind of disconnect × the policy for the turn × the transport × the
//! progress of the turn.
//!
//! Uses real sockets on loopback: hyper for HTTP/1 and HTTP/2, the gateway for WebSocket. Each cell
//! has its own runtime, server, group and journal, so that every leak is detected: tasks, members
//! of the group, connections, logs. Open files are counted over a whole table, so this is a
//! separate test binary.
//!
//! `cell.rs` has the expectations, `client.rs` the disconnects, `server.rs` and `stage.rs` the
//! other side.
#![cfg(all(feature = "http", feature = "ws"))]
#![allow(clippy::disallowed_methods, reason = "servers and clients here are tasks")]
#![allow(clippy::unwrap_used, reason = "a helper that cannot continue fails its test")]

mod cell;
mod client;
mod server;
mod shutdown;
mod stage;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cell::Cell;
use crate::client::Fault;
use crate::server::{Policy, Transport};
use crate::stage::State;

/// A time-out that is longer than a cell takes on a busy machine. No test that passes waits for it.
const PATIENCE: Duration = Duration::from_secs(60);
/// The number of cells that run at the same time. They mostly wait.
const THREADS: usize = 48;

/// Held by the test that counts the open files of the process.
static ALONE: Mutex<()> = Mutex::new(());

/// Waits until `is_so`.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(waited.await.is_ok(), "never: {what}");
}

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Runs `play` on its own runtime, whose clock can be advanced.
fn on_a_runtime<F: Future<Output = ()>>(play: impl FnOnce() -> F) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    catch_unwind(AssertUnwindSafe(|| runtime.block_on(play()))).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "panicked".into())
    })
}

/// Runs all cells of one transport.
fn table(transport: Transport) {
    let _alone = alone();
    let mut cells = Vec::new();
    for fault in Fault::ALL {
        for policy in Policy::ALL {
            for state in State::ALL {
                cells.push(Cell {
                    transport,
                    fault,
                    policy,
                    state,
                });
            }
        }
    }
    // Files that tokio opens once per process do not belong to a cell.
    on_a_runtime(|| async {}).unwrap();
    let files = open_files();
    let next = AtomicUsize::new(0);
    let rows = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = cells.get(at) else { return };
                    let begun = Instant::now();
                    let outcome = on_a_runtime(|| cell.play());
                    let row = (at, cell, outcome, begun.elapsed());
                    rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap();
    rows.sort_by_key(|(at, ..)| *at);
    let failed = rows.iter().filter(|(_, _, outcome, _)| outcome.is_err()).count();
    // Printed if a cell fails, and with `--nocapture`.
    for (_, cell, outcome, took) in &rows {
        let result = outcome.as_ref().err().map_or("ok", |why| why);
        println!("{cell}  {:5} ms  {result}", took.as_millis());
    }
    assert_eq!(failed, 0, "failed, of {} cells", rows.len());
    assert_eq!(open_files(), files, "open files");
}

#[test]
fn http1() {
    table(Transport::Http1);
}

#[test]
fn http2() {
    table(Transport::Http2);
}

#[test]
fn websocket() {
    table(Transport::WebSocket);
}
