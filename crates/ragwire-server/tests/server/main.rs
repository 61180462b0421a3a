//! The server over real sockets, in this process: routes, limits, hostile input, restart, shutdown.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod ag_ui;
mod ai_sdk;
mod answers;
mod chat;
mod connections;
mod documents;
mod engines;
mod eve;
mod eve_sessions;
mod filters;
mod folders;
mod gateway;
mod history;
mod human;
mod keys;
mod metrics;
mod models;
mod openai;
mod openapi;
mod owners;
mod promises;
mod rag;
mod requests;
mod restart;
mod resume;
mod scans;
mod session_chat;
mod slow_clients;
mod starting;
mod support;
mod trace;
mod trustgraph;
