//! `GET /v1/documents`: the list of documents, in pages.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use ragwire_endpoints::Refusal;
use ragwire_endpoints::openapi::{self, schema_of};
use ragwire_rag::{Document, DocumentFilter, Library};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};

use super::documents::DocumentUser;
use super::schemas;
use crate::app::App;
use crate::sample;

/// Documents on a page if the client does not say how many: 200 kB.
const DEFAULT_LIMIT: usize = 1_000;
/// The most documents on a page: 2 MB.
const MAX_LIMIT: usize = 10_000;

/// A page of the documents.
#[derive(Debug, Serialize, ToSchema)]
struct Documents {
    #[schema(value_type = Vec<schemas::Document>)]
    documents: Vec<ListedDocument>,
    /// How many documents there are on all pages.
    total: usize,
    /// The `start` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    next: Option<String>,
    /// Whether only the user who adds a document finds it, unless it is shared.
    private_uploads: bool,
}

/// A document, and what its reader may do with it.
#[derive(Debug, Serialize)]
pub(super) struct ListedDocument {
    #[serde(flatten)]
    pub(super) document: Document,
    /// Whether the user of the request may replace or remove it.
    pub(super) removable: bool,
    /// Whether everyone finds it; absent if the server does not know its users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shared: Option<bool>,
    /// Whether it came with the program, as a placeholder for the user's own documents.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) sample: bool,
}

impl ListedDocument {
    /// Lists a document for `user`; without one, the server does not know its users.
    pub(super) fn of(library: &Library, user: Option<&str>, document: Document) -> Self {
        Self {
            removable: library.may_be_removed_by(user, &document.id),
            shared: user.map(|_| library.is_found_by(Some(""), &document.id)),
            sample: sample::is_in(library, &document),
            document,
        }
    }
}

/// What the query asks for.
#[derive(Debug)]
struct Wanted {
    filter: DocumentFilter,
    name: String,
    start: u64,
    limit: usize,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            filter: DocumentFilter::default(),
            name: String::new(),
            start: 0,
            limit: DEFAULT_LIMIT,
        }
    }
}

/// Lists the documents, in the order in which they were added.
///
/// Parameters that restrict the list may be repeated: `tag=a&tag=b` selects documents with either tag.
#[utoipa::path(
    get,
    path = "/v1/documents",
    tag = "documents",
    operation_id = "documents",
    params(Wanted),
    responses(
        (status = 200, description = "A page of the documents", body = Documents),
        (status = 400, description = "A parameter is unknown or not valid", body = openapi::Refused),
        (status = 404, description = "The server has no documents, because an orchestrator outside of it answers", body = openapi::Refused),
    ),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    DocumentUser(user): DocumentUser,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Response, Refusal> {
    let library = app.library()?;
    let Query(parameters) =
        query.map_err(|_| bad("The query is not `name=value` pairs in UTF-8.".to_owned()))?;
    let Wanted {
        filter,
        name,
        start,
        limit,
    } = Wanted::parse(parameters)?;
    let filter = match &user {
        Some(user) => filter.user(user),
        None => filter,
    };
    let page = library.page(&filter, &name, start, limit);
    let documents = page.documents.into_iter();
    let listed = documents.map(|document| ListedDocument::of(library, user.as_deref(), document));
    let documents = Documents {
        documents: listed.collect(),
        total: page.total,
        next: page.next.map(|next| next.to_string()),
        private_uploads: user.is_some(),
    };
    Ok(Json(documents).into_response())
}

impl utoipa::IntoParams for Wanted {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let filter = DocumentFilter::json_schema();
        let one = |name: &str| {
            let forms = filter["properties"][name]["anyOf"].as_array();
            let one = forms.and_then(|forms| {
                forms
                    .iter()
                    .find(|form| form["type"] == "string" || form["enum"].is_array())
            });
            one.cloned().unwrap_or_default()
        };
        let text = json!({"type": "string"});
        let start = json!({"type": "string", "pattern": "^[0-9]{1,19}$"});
        let limit = json!({"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT});
        let parameters = [
            ("limit", "The most documents on a page", limit),
            ("start", "`next` of the page before", start),
            (
                "name",
                "Only documents whose names contain this, whatever its case",
                text,
            ),
            (
                "folder",
                "Only documents in this folder and those below it",
                one("folder"),
            ),
            ("kind", "Only documents of this kind", one("kind")),
            (
                "language",
                "Only documents in this language, a code of ISO 639-1",
                one("language"),
            ),
            ("tag", "Only documents with this tag", one("tag")),
            ("since", "Only documents of this day and later", one("since")),
            ("until", "Only documents of this day and earlier", one("until")),
        ];
        let parameter = |(name, about, schema): (&str, &str, Value)| {
            ParameterBuilder::new()
                .name(name)
                .parameter_in(ParameterIn::Query)
                .description(Some(about))
                .schema(Some(schema_of(&schema)))
                .build()
        };
        parameters.map(parameter).into()
    }
}

impl Wanted {
    fn parse(parameters: Vec<(String, String)>) -> Result<Self, Refusal> {
        let mut wanted = Self::default();
        for (parameter, value) in parameters {
            let filter = &mut wanted.filter;
            match parameter.as_str() {
                "name" => wanted.name = value,
                "folder" | "kind" | "language" | "tag" | "since" | "until" => {
                    let added = filter.add(&parameter, &value);
                    added.map_err(|error| bad(format!("Cannot select documents: {error}.")))?;
                }
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
                    wanted.limit =
                        limit.ok_or_else(|| bad(format!("limit must be a number from 1 to {MAX_LIMIT}.")))?;
                }
                "start" => {
                    let start = value.parse();
                    wanted.start =
                        start.map_err(|_| bad("start must be `next` of another page.".to_owned()))?;
                }
                unknown => {
                    return Err(bad(format!(
                        "Unknown parameter `{unknown}`; known are limit, start, name, folder, kind, language, tag, \
                         since and until."
                    )));
                }
            }
        }
        Ok(wanted)
    }
}

fn bad(message: String) -> Refusal {
    Refusal::permanent(StatusCode::BAD_REQUEST, "bad_query", message)
}
