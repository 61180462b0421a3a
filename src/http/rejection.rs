//! Conversion of a rejected turn into the `Err` of an axum handler.

use axum_core::body::Body;
use axum_core::response::{IntoResponse, Response};

use crate::turn::Rejected;

impl IntoResponse for Rejected {
    fn into_response(self) -> Response {
        self.respond().map(Body::new)
    }
}
