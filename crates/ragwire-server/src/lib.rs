//! The reference server of ragwire: questions about your own documents, answered live.
//!
//! ```text
//!  cli/ ──► start.rs ──► serve.rs ──► guard.rs ──► routes/ ──► orchestrator.rs ──► ragwire_rag::Agent
//!  flags    library,     sockets,     Host and     HTTP to     the seam: a         or faults.rs around it
//!           documents    shutdown     Origin       Turn        question, a sink
//! ```
//!
//! | to change | look at |
//! |---|---|
//! | a flag or a default | `cli/settings.rs`, one row each |
//! | what answers | `orchestrator.rs` |
//! | a route | `routes/` |
//! | what is remembered of a session | `ragwire::session`; whose it is, `routes/turn.rs` |
//! | what a session of Eve is besides | `eve/` |
//! | where turns are kept | `journal.rs` |
//! | how files are found and read | `ingest/`, `extract.rs` |
//! | what is kept beside the library for `graph-rag` | `graph.rs` |
//! | where files of models are found | `models/` |
//! | which models and stores run, and what keeps them in step | `engines/` |
//! | how connections are held and cut | `serve.rs` |
//! | what `ask` sends, reads and prints | `ask/` |

pub mod app;
pub mod ask;
pub mod cli;
pub mod engines;
pub mod eve;
pub mod extract;
pub mod faults;
pub mod graph;
pub mod guard;
pub mod ingest;
pub mod journal;
pub mod models;
pub mod orchestrator;
pub mod routes;
pub mod sample;
pub mod serve;
pub mod settings;
pub mod start;
