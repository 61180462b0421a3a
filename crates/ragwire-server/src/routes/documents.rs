//! Documents: adding and removing them, and opening the passage of a citation.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use ragwire::Failure;
use ragwire_rag::{DocumentOwner, Library, LibraryError};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use utoipa::ToSchema;

use ragwire_endpoints::{Refusal, body, openapi};

use super::list::ListedDocument;
use super::schemas;
use crate::app::App;
use crate::ingest::{AddError, AddErrorKind, add};

/// The `retry-after` while all permits for uploads are taken, or the shared library cannot be reached.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// The longest name that `Library::add` accepts, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// One parameter of a path.
pub(super) type PathParam = Result<Path<String>, PathRejection>;

/// The query of an upload: `?name=` for one file, `?shared=` for all.
#[derive(Debug, Default, Deserialize)]
pub(super) struct UploadQuery {
    name: Option<String>,
    shared: Option<bool>,
}

impl UploadQuery {
    /// Returns whose documents the uploaded files become.
    fn owner(&self, user: Option<String>) -> Result<Option<DocumentOwner>, Refusal> {
        match (user, self.shared) {
            (Some(user), shared) => Ok(Some(DocumentOwner::new(user).shares(shared.unwrap_or_default()))),
            (None, None | Some(true)) => Ok(None),
            (None, Some(false)) => Err(bad_query(
                "This server does not know its users, so everyone finds every document. Start it with \
                 --owner-header or --api-keys.",
            )),
        }
    }
}

/// The outcome of an upload.
#[derive(Debug, Serialize, ToSchema)]
struct Uploaded {
    #[schema(value_type = Vec<schemas::Document>)]
    documents: Vec<ListedDocument>,
    /// Files that could not be added. The others were added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    failed: Vec<FailedFile>,
}

/// A file that could not be added.
#[derive(Debug, Serialize, ToSchema)]
struct FailedFile {
    name: String,
    code: String,
    message: String,
}

/// Removes a document.
#[utoipa::path(
    delete,
    path = "/v1/documents/{document_id}",
    tag = "documents",
    operation_id = "removeDocument",
    params(("document_id" = String, Path, description = "The document")),
    responses(
        (status = 204, description = "The document was removed"),
        (status = 403, description = "The document is everyone's, or shared by another user (`--owner-header`)", body = openapi::Refused),
        (status = 404, description = "The document does not exist, or is private to another user", body = openapi::Refused),
        (status = 500, description = "The library cannot be written", body = openapi::Refused),
        (status = 503, description = "The shared library cannot be reached; `retry-after` says when to retry", body = openapi::Refused),
        (status = 507, description = "The disk is full, and removing needs more room than is kept for it; `retry-after` says when to retry", body = openapi::Refused),
    ),
)]
pub(super) async fn remove(
    State(app): State<Arc<App>>,
    DocumentUser(owner): DocumentUser,
    id: PathParam,
) -> Result<StatusCode, Refusal> {
    let Path(document_id) = id.map_err(|_| unknown_document())?;
    let removed = with_library(&app, move |library| match owner {
        Some(owner) => library.remove_for(&owner, &document_id),
        None => library.remove(&document_id),
    });
    let removed = removed.await?.map_err(|error| match error {
        LibraryError::NotOwner => not_owner(&error),
        LibraryError::NoSpace => no_space(&app),
        error => failed(&error),
    });
    match removed? {
        true => {
            app.followers.reconcile().await;
            Ok(StatusCode::NO_CONTENT)
        }
        false => Err(unknown_document()),
    }
}

/// Opens the passage behind a citation.
#[utoipa::path(
    get,
    path = "/v1/documents/{document_id}/chunks/{chunk_id}",
    tag = "documents",
    operation_id = "chunk",
    params(
        ("document_id" = String, Path, description = "The document"),
        ("chunk_id" = String, Path, description = "The passage, section or sentence"),
    ),
    responses(
        (status = 200, description = "The passage", body = schemas::Chunk),
        (status = 404, description = "The document or the passage does not exist", body = openapi::Refused),
        (status = 500, description = "The library cannot be read", body = openapi::Refused),
        (status = 503, description = "The shared library cannot be reached; `retry-after` says when to retry", body = openapi::Refused),
    ),
)]
pub(super) async fn chunk(
    State(app): State<Arc<App>>,
    DocumentUser(user): DocumentUser,
    ids: Result<Path<(String, String)>, PathRejection>,
) -> Result<Response, Refusal> {
    let Path((document_id, chunk_id)) = ids.map_err(|_| unknown_document())?;
    if !app.library()?.is_found_by(user.as_deref(), &document_id) {
        return Err(unknown_document());
    }
    let chunk = with_library(&app, move |library| library.chunk(&chunk_id)).await?;
    match chunk.map_err(|error| failed(&error))? {
        Some(chunk) if chunk.document_id == document_id => Ok(Json(chunk).into_response()),
        _ => Err(unknown_document()),
    }
}

/// Adds documents. A document replaces an earlier one with the same name.
///
/// If the server knows its users, only the user of the request finds them, unless `shared` is `true`.
#[utoipa::path(
    post,
    path = "/v1/documents",
    tag = "documents",
    operation_id = "addDocuments",
    params(
        ("name" = Option<String>, Query, description = "The name of the one file that is the body", min_length = 1, max_length = 255),
        ("shared" = Option<bool>, Query, description = "Whether everyone finds them; `false` by default if the server knows its users (`--owner-header`, `--api-keys`)"),
        ("x-filename" = Option<String>, Header, description = "The name, percent-encoded", min_length = 1),
    ),
    request_body(description = "A form of files, or one file", content(
        (schemas::UploadForm = "multipart/form-data"),
        (schemas::UploadText = "text/markdown"),
        (schemas::UploadText = "text/plain"),
        (schemas::UploadText = "text/html"),
        (schemas::UploadText = "application/xhtml+xml"),
        (schemas::UploadText = "application/pdf"),
        (String = "application/json"),
        (schemas::UploadText = "application/octet-stream"),
    )),
    responses(
        (status = 201, description = "The added documents, and the files that failed", body = Uploaded),
        (status = 400, description = "The body is incomplete, the form is malformed, or `shared` cannot be honoured", body = openapi::Refused),
        (status = 408, description = "The body did not arrive in time", body = openapi::Refused),
        (status = 413, description = "The body or a file in it is too large", body = openapi::Refused),
        (status = 415, description = "The file type is not supported", body = openapi::Refused),
        (status = 422, description = "The file cannot be read, or has no name", body = openapi::Refused),
        (status = 500, description = "The library cannot be written, or the reading process failed", body = openapi::Refused),
        (status = 503, description = "Too many concurrent uploads, or the shared library cannot be reached; `retry-after` says when to retry", body = openapi::Refused),
        (status = 507, description = "The library or the disk is full; for the disk `retry-after` says when to retry", body = openapi::Refused),
    ),
)]
pub(super) async fn upload(
    State(app): State<Arc<App>>,
    DocumentUser(user): DocumentUser,
    query: Result<Query<UploadQuery>, QueryRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let query = query.map_err(|_| bad_query("name must be a text in UTF-8, and shared true or false."));
    let read = query.and_then(|Query(query)| Ok((query.owner(user.clone())?, query.name)));
    let (owner, name) = match read {
        Ok(read) => read,
        Err(refusal) => {
            body::linger(&head.headers, body).await;
            return Err(refusal);
        }
    };
    let library = match app.library() {
        Ok(library) => library,
        Err(refusal) => {
            body::linger(&head.headers, body).await;
            return Err(refusal);
        }
    };
    if app.uploads.available_permits() == 0 {
        body::linger(&head.headers, body).await;
        return Err(too_many_uploads());
    }
    if app.is_disk_full().await {
        body::linger(&head.headers, body).await;
        return Err(Refusal::no_space());
    }
    let media_type = body::media_type(&head.headers);
    let multipart = media_type.as_deref() == Some("multipart/form-data");
    if !multipart && !is_document(media_type.as_deref()) {
        body::linger(&head.headers, body).await;
        return Err(Refusal::permanent(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "Send multipart/form-data, or one file as text/*, application/pdf, application/json or \
             application/octet-stream.",
        ));
    }
    let max_bytes = if multipart {
        app.settings.max_upload_body()
    } else {
        *app.settings.max_upload_size
    };
    let received = app.endpoints.bodies().read(&head, body, max_bytes).await?;
    // Only now, because a client may send its body slowly. The body counts against the memory for
    // bodies while it waits and until it was added.
    let waiting = timeout(*app.settings.extract_timeout, app.uploads.acquire());
    let Ok(Ok(_permit)) = waiting.await else {
        return Err(too_many_uploads());
    };
    let bytes = received.bytes();
    let files = if multipart {
        parts(&head.headers, bytes, *app.settings.max_upload_files).await?
    } else {
        vec![(name_of(name, &head.headers)?, bytes)]
    };
    let (mut documents, mut failed): (Vec<ListedDocument>, _) = (Vec::new(), Vec::new());
    let mut repeated = Vec::new();
    for (name, bytes) in files {
        // It would replace the other one, whose document the client then looks for in vain.
        if documents.iter().any(|added| added.document.name == name) {
            repeated.push(FailedFile {
                name,
                code: "repeated_name".to_owned(),
                message: "another file of this upload has the same name; rename one of them".to_owned(),
            });
            continue;
        }
        match add(library, &app.extractor, owner.as_ref(), &name, bytes.clone()).await {
            Ok(added) => {
                if let Some(originals) = &app.originals {
                    originals.keep(&added.document.id, &bytes).await;
                }
                documents.push(ListedDocument::of(library, user.as_deref(), added.document));
            }
            Err(error) => failed.push((name, error)),
        }
    }
    if !documents.is_empty() {
        app.followers.reconcile().await;
    }
    // The upload succeeds if at least one document was added.
    if documents.is_empty()
        && let Some((name, error)) = failed.first()
    {
        if error.kind() == AddErrorKind::NoSpace {
            return Err(no_space(&app));
        }
        return Err(refusal_of(name, error));
    }
    let failed = failed.into_iter().map(|(name, error)| FailedFile {
        name,
        code: error.code().to_owned(),
        message: error.to_string(),
    });
    let failed = failed.chain(repeated).collect();
    Ok((StatusCode::CREATED, Json(Uploaded { documents, failed })).into_response())
}

/// The user of a request to the documents: the owner if the server knows owners.
pub(super) struct DocumentUser(pub(super) Option<String>);

impl FromRequestParts<Arc<App>> for DocumentUser {
    type Rejection = Refusal;

    async fn from_request_parts(head: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        app.endpoints.identify(head).map(Self)
    }
}

fn bad_query(message: &str) -> Refusal {
    Refusal::permanent(StatusCode::BAD_REQUEST, "bad_query", message)
}

fn no_space(app: &App) -> Refusal {
    app.disk.report_full();
    Refusal::no_space()
}

fn not_owner(error: &LibraryError) -> Refusal {
    Refusal::permanent(StatusCode::FORBIDDEN, "not_owner", format!("Refused: {error}."))
}

/// Refuses a request because of an error that does not concern it. The error itself is only logged.
fn failed(error: &LibraryError) -> Refusal {
    match error {
        LibraryError::Shared(_) | LibraryError::Conflict => {
            tracing::error!(
                error = error as &dyn std::error::Error,
                "the shared library failed"
            );
            Refusal::temporary(
                StatusCode::SERVICE_UNAVAILABLE,
                error.code(),
                "The library cannot be reached at the moment. Please retry.",
            )
            .retry_after(RETRY_AFTER)
        }
        error => Refusal::internal(error),
    }
}

fn refusal_of(name: &str, error: &AddError) -> Refusal {
    let status = match error.kind() {
        AddErrorKind::Unsupported => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        AddErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        AddErrorKind::LibraryFull | AddErrorKind::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
        AddErrorKind::Unreadable | AddErrorKind::Exhausted => StatusCode::UNPROCESSABLE_ENTITY,
        AddErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        AddErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut failure = Failure::new(error.code().to_owned(), format!("{name}: {error}."));
    match error.kind() {
        AddErrorKind::Unavailable => Refusal::new(status, failure).retry_after(RETRY_AFTER),
        kind => {
            failure.recoverable = kind == AddErrorKind::Internal;
            Refusal::new(status, failure)
        }
    }
}

/// Types of documents besides those of text. Browsers and curl guess the type from the name, and the
/// content decides later.
const MEDIA_TYPES: [&str; 11] = [
    "application/epub+zip",
    "application/json",
    "application/octet-stream",
    "application/pdf",
    "application/rtf",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/x-ipynb+json",
    "application/x-ndjson",
    "application/xhtml+xml",
];

fn is_document(media_type: Option<&str>) -> bool {
    media_type.is_none_or(|declared| declared.starts_with("text/") || MEDIA_TYPES.contains(&declared))
}

async fn parts(headers: &HeaderMap, bytes: Bytes, max_files: usize) -> Result<Vec<(String, Bytes)>, Refusal> {
    let bad = |message: &str| Refusal::permanent(StatusCode::BAD_REQUEST, "bad_multipart", message);
    let content_type = headers
        .get(http::header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let boundary =
        multer::parse_boundary(content_type).map_err(|_| bad("The multipart boundary is missing."))?;
    let whole = stream::iter([Ok::<_, std::convert::Infallible>(bytes)]);
    let mut multipart = multer::Multipart::new(whole, boundary);
    let mut files = Vec::new();
    let broken = |_| bad("The multipart body is malformed.");
    while let Some(field) = multipart.next_field().await.map_err(broken)? {
        // Only parts with a file name are files; a form may have other fields.
        let Some(name) = field.file_name().map(str::to_owned) else {
            continue;
        };
        if files.len() == max_files {
            return Err(Refusal::permanent(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too_many_files",
                format!("An upload may have at most {max_files} files."),
            ));
        }
        files.push((clean_name(&name)?, field.bytes().await.map_err(broken)?));
    }
    if files.is_empty() {
        return Err(bad("The upload contains no file."));
    }
    Ok(files)
}

fn name_of(query: Option<String>, headers: &HeaderMap) -> Result<String, Refusal> {
    if headers.get("x-filename").is_some_and(HeaderValue::is_empty) {
        return Err(bad_name());
    }
    let header = || {
        let value = headers.get("x-filename")?.to_str().ok()?;
        Some(
            percent_encoding::percent_decode_str(value)
                .decode_utf8_lossy()
                .into_owned(),
        )
    };
    clean_name(&query.or_else(header).unwrap_or_default())
}

/// Returns the name without control characters, which could break a line of a log or a list.
///
/// A relative path keeps its folders, so that files of the same name in a dropped folder are two
/// documents. Of a path that begins at a root or leads upwards only the last part is kept: some
/// clients send the whole path of their machine.
fn clean_name(name: &str) -> Result<String, Refusal> {
    let name: String = name.chars().filter(|letter| !letter.is_control()).collect();
    let parts: Vec<&str> = name.split(['/', '\\']).filter(|part| *part != ".").collect();
    let is_local = parts
        .iter()
        .any(|part| part.is_empty() || *part == ".." || part.ends_with(':'));
    let name = match parts.as_slice() {
        [.., last] if is_local => (*last).to_owned(),
        parts => parts.join("/"),
    };
    if name.trim().is_empty() || name == ".." || name.len() > MAX_NAME_BYTES {
        return Err(bad_name());
    }
    Ok(name)
}

fn bad_name() -> Refusal {
    Refusal::permanent(
        StatusCode::UNPROCESSABLE_ENTITY,
        "bad_name",
        "The file needs a name of 1 to 255 bytes: in ?name=, in the header x-filename, or in its part.",
    )
}

fn too_many_uploads() -> Refusal {
    Refusal::temporary(
        StatusCode::SERVICE_UNAVAILABLE,
        "busy",
        "Too many concurrent uploads. Please retry in a moment.",
    )
    .retry_after(RETRY_AFTER)
}

pub(super) fn unknown_document() -> Refusal {
    Refusal::permanent(
        StatusCode::NOT_FOUND,
        "not_found",
        "There is no such document or passage; it may have been removed.",
    )
}

/// Runs blocking work on the library outside the threads that serve requests.
async fn with_library<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Library) -> T + Send + 'static,
) -> Result<T, Refusal> {
    let library = Arc::clone(app.library()?);
    tokio::task::spawn_blocking(move || work(&library))
        .await
        .map_err(|error| Refusal::internal(&error))
}

#[cfg(test)]
mod tests {
    use super::clean_name;

    #[test]
    fn names_keep_their_folders_unless_these_are_of_a_machine() {
        for (name, clean) in [
            ("a.md", "a.md"),
            ("notes/deep/a.md", "notes/deep/a.md"),
            ("./notes\\a.md", "notes/a.md"),
            ("/home/ada/a.md", "a.md"),
            ("notes/../a.md", "a.md"),
            ("../../etc/passwd", "passwd"),
            ("C:\\docs\\a b.pdf", "a b.pdf"),
            ("a\r\nb\0.md", "ab.md"),
            ("é.md", "é.md"),
        ] {
            assert_eq!(clean_name(name).unwrap(), clean);
        }
        for name in ["", " ", ".", "..", "a/", "a/..", "\n", &"x".repeat(256)] {
            assert!(clean_name(name).is_err(), "{name:?}");
        }
    }
}
