//! `GET /v1/documents/{document_id}/original`: the file as it was added.
//!
//! Documents are untrusted. A browser shows a PDF in its viewer and everything else as plain text,
//! and nothing in it runs: a sandbox without an origin, no other type than the declared one, and no
//! requests to anywhere.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, stream};
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ragwire_endpoints::{Refusal, openapi};
use ragwire_rag::DocumentKind;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use super::documents::{DocumentUser, PathParam, unknown_document};
use crate::app::App;

/// No scripts, no origin and no requests. Chromium opens its PDF viewer within a sandbox too.
const POLICY: &str = "sandbox; default-src 'none'; frame-ancestors 'none'";
/// How much of a file is in memory at a time.
const PIECE_BYTES: usize = 64 << 10;
/// The characters of RFC 8187 that need no encoding.
const ATTRIBUTE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Returns the file that a document was read from.
///
/// Everything that is text is sent as plain text; a browser saves Office documents and books.
#[utoipa::path(
    get,
    path = "/v1/documents/{document_id}/original",
    tag = "documents",
    operation_id = "original",
    params(("document_id" = String, Path, description = "The document")),
    responses(
        (status = 200, description = "The file", content((String = "application/pdf"), (String = "application/octet-stream"), (String = "text/plain"))),
        (status = 404, description = "The document does not exist, or its file was not kept", body = openapi::Refused),
        (status = 500, description = "The file cannot be read", body = openapi::Refused),
    ),
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    DocumentUser(user): DocumentUser,
    id: PathParam,
) -> Result<Response, Refusal> {
    let Path(id) = id.map_err(|_| unknown_document())?;
    let library = app.library()?;
    let document = library
        .document(&id)
        .filter(|_| library.is_found_by(user.as_deref(), &id));
    let document = document.ok_or_else(unknown_document)?;
    let kept = match &app.originals {
        Some(originals) => originals
            .open_file(&id)
            .await
            .map_err(|error| Refusal::internal(&error))?,
        None => None,
    };
    let (file, size) = kept.ok_or_else(unknown_document)?;
    let (media_type, shown) = presentation(document.kind);
    let name = document.name.rsplit('/').next().unwrap_or_default();
    let disposition = format!(
        "{shown}; filename*=UTF-8''{}",
        utf8_percent_encode(name, ATTRIBUTE)
    );
    let headers = [
        (CONTENT_TYPE, media_type.to_owned()),
        (CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (CONTENT_DISPOSITION, disposition),
        (CONTENT_LENGTH, size.to_string()),
        // A document can be removed.
        (CACHE_CONTROL, "private, no-cache".to_owned()),
    ];
    Ok((headers, Body::from_stream(pieces(file))).into_response())
}

/// Returns the media type of a kind, and whether a browser shows it or saves it.
fn presentation(kind: DocumentKind) -> (&'static str, &'static str) {
    match kind {
        DocumentKind::Pdf => ("application/pdf", "inline"),
        DocumentKind::Docx
        | DocumentKind::Pptx
        | DocumentKind::Xlsx
        | DocumentKind::Epub
        | DocumentKind::Odt
        | DocumentKind::Odp
        | DocumentKind::Ods
        | DocumentKind::Rtf
        | DocumentKind::Image => ("application/octet-stream", "attachment"),
        // Every other kind is text.
        _ => ("text/plain; charset=utf-8", "inline"),
    }
}

/// Reads a file piece by piece.
fn pieces(file: File) -> impl Stream<Item = io::Result<Bytes>> {
    stream::try_unfold(file, async |mut file| {
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        let read = file.read_buf(&mut piece).await?;
        Ok((read > 0).then(|| (piece.freeze(), file)))
    })
}
