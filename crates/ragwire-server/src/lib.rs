//! The reference server of ragwire: questions about your own documents, answered live.
//!
//! ```text
//!  cli/ ──► start/ ───► serve.rs ──► guard.rs ──► routes/ ──► orchestrator.rs ──► ragwire_rag::Agent
//!  flags    library,     sockets,     Host and     HTTP to     a question and      or faults.rs around it
//!           documents    shutdown     Origin       Turn        a sink
//! ```
//!
//! | to change | see |
//! |---|---|
//! | a flag or a default | `settings/mod.rs`, one row each |
//! | what answers a question | `orchestrator.rs` |
//! | a route of a protocol | the package `ragwire-endpoints` |
//! | a route of the documents, the page or the state | `routes/` |
//! | how an orchestrator outside of this process is asked | `gateway/` |
//! | where turns are stored | `journal.rs` |
//! | how files are located, read and followed | `ingest/`, `extract/` |
//! | the graph for `graph-rag` | `graph.rs` |
//! | how model files are named and downloaded | `models/` |
//! | which models and stores run | `engines/` |
//! | what follows the library | `followers.rs` |
//! | which other servers `/readyz` checks | `dependencies.rs` |
//! | what a starting server reports | `readiness.rs`, `routes/probes.rs` |
//! | how connections are accepted, limited and closed | `serve.rs`, `connections.rs` |
//! | what `ask` sends, reads and prints | `ask/` |
//! | how `eval` measures answers | `eval/` |
//! | what `health` and `documents` send and print | `manage.rs`; the HTTP client of all three: `client.rs` |
//! | how files in `--data` are checked, repaired and copied | `maintain.rs` |
//! | what every response has: request ID, timing, metrics | `respond.rs`, `metrics/` |
//! | API keys, and which route needs which scope | `keys/` |
//! | the certificate of the port | `tls.rs` |
//! | what SIGHUP reads again | `reload.rs` |
//! | trace contexts, and a span per turn | `trace/` |
//! | groups of flags in `--help`, settings files, completions | `cli/` |

// They panic when nothing reads the output: `print_line!` and `report_line!` do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod app;
pub mod ask;
pub mod cli;
pub mod client;
mod connections;
pub mod dependencies;
pub mod disk;
pub mod engines;
pub mod eval;
pub mod extract;
pub mod faults;
pub mod followers;
pub mod gateway;
pub mod graph;
pub mod guard;
pub mod ingest;
pub mod journal;
pub mod keys;
pub mod maintain;
pub mod manage;
pub mod metrics;
pub mod models;
mod open_files;
pub mod orchestrator;
pub mod originals;
mod output;
pub mod readiness;
mod reload;
mod respond;
pub mod routes;
pub mod sample;
pub mod serve;
pub mod settings;
mod signals;
pub mod start;
pub mod tls;
pub mod trace;
mod version;
