//! The extension module of the Python package `ragwire`.
//!
//! ```text
//!  ASGI server ──► Service ──► router of ragwire-endpoints ──► Turn ──► Orchestrator ──► asyncio task
//!  _asgi.py        service.rs                                            orchestrator.rs     │
//!       ▲                                                                                    ▼
//!       └── Exchange ◄── body ◄── queue ◄──────────────────────────────────────────────────  Sink
//!           exchange.rs                                                                   sink.rs
//! ```
//!
//! All of it runs on the thread of the event loop that serves the request: `event_loop.rs` is the
//! executor, `waiter.rs` and `promise.rs` let coroutines wait for Rust. The one thread of
//! `runtime.rs` only has timers and sockets.

/// Returns the documentation of a class or a method in Python, which `build.rs` takes from the stub.
macro_rules! stub {
    ($name:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/", $name))
    };
}

mod decode;
mod defaults;
mod errors;
mod event;
mod event_loop;
mod exchange;
mod feed;
mod json;
mod log;
mod metadata;
mod misuse;
mod observer;
mod options;
mod orchestrator;
mod promise;
mod question;
mod runtime;
mod service;
mod sink;
mod socket;
mod stores;
mod turn;
mod waiter;
mod wire;

use pyo3::prelude::*;

#[pymodule]
mod _ragwire {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::decode::Decoder;
    #[pymodule_export]
    use crate::defaults::defaults;
    #[pymodule_export]
    use crate::event::Event;
    #[pymodule_export]
    use crate::exchange::Exchange;
    #[pymodule_export]
    use crate::metadata::Metadata;
    #[pymodule_export]
    use crate::promise::Promise;
    #[pymodule_export]
    use crate::question::Question;
    #[pymodule_export]
    use crate::service::{Service, max_state_bytes, protocol_names, record_limits};
    #[pymodule_export]
    use crate::sink::Sink;
    #[pymodule_export]
    use crate::socket::WebSocket;
    #[pymodule_export]
    use crate::stores::{Journal, Sessions, TurnGroup};
    #[pymodule_export]
    use crate::turn::Turn;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("DECODED_WIRES", crate::decode::names())?;
        module.add("WIRES", crate::wire::NAMES)
    }
}
