//! ragwire's own wires, which `/v1/turns` negotiates by `Accept`.

use ragwire::http::AnyWire;
use ragwire::{Framed, Ndjson, Sse};

/// Returns the wires in the server's order of preference: `curl` without a header gets the first.
pub(crate) fn wires() -> [AnyWire; 3] {
    [
        Box::new(Framed::default()),
        Box::new(Sse::default()),
        Box::new(Ndjson::default()),
    ]
}
