//! Which route needs which scope. A route that is not listed needs `admin`, so that a new one is
//! closed until somebody decides.

use http::Method;

use super::Scope;

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    Public,
    /// Any valid key.
    AnyKey,
    /// A key with one of these scopes.
    OneOf(&'static [Scope]),
}

/// The files of the page, the state of the server, and what a client asks for before it has its key.
/// None of them has anything of a user.
const PUBLIC: [(Method, &str); 18] = [
    (Method::GET, "/api/ps"),
    (Method::GET, "/api/tags"),
    (Method::GET, "/api/version"),
    (Method::GET, "/assistants/{assistant_id}"),
    (Method::GET, "/eve/v1/health"),
    (Method::GET, "/eve/v1/info"),
    (Method::GET, "/healthz"),
    (Method::GET, "/icon.svg"),
    (Method::GET, "/info"),
    (Method::GET, "/livez"),
    (Method::GET, "/openapi.json"),
    (Method::GET, "/page.css"),
    (Method::GET, "/page.js"),
    (Method::GET, "/readyz"),
    (Method::GET, "/v1/models"),
    (Method::GET, "/v1/models/{model}"),
    (Method::POST, "/api/show"),
    (Method::POST, "/assistants/search"),
];
/// The modules of the page.
const PUBLIC_FOLDERS: [&str; 2] = ["/page/", "/client/"];
/// Routes of LangGraph that read with a body.
const READING_POSTS: [&str; 3] = [
    "/threads/search",
    "/threads/count",
    "/threads/{thread_id}/history",
];
/// The beginnings of all routes with conversations.
const CONVERSATIONS: [&str; 17] = [
    "/ag-ui",
    "/api/chat",
    "/api/generate",
    "/api/query/",
    "/api/v1/flow/",
    "/eve/v1/session",
    "/mcp",
    "/runs/",
    "/threads",
    "/v1/chat/",
    "/v1/feedback",
    "/v1/generation/",
    "/v1/rag/",
    "/v1/responses",
    "/v1/sessions",
    "/v1/turns",
    "/api/v1/socket",
];

const READ: &[Scope] = &[Scope::Read, Scope::Ask];
const READ_DOCUMENTS: &[Scope] = &[Scope::Read, Scope::Ask, Scope::Documents];

/// Returns what a route needs, by its template in the OpenAPI document.
pub fn access(method: &Method, path: &str) -> Access {
    // A HEAD request runs the handler of GET.
    let is_get = method == Method::GET || method == Method::HEAD;
    let method = if is_get { &Method::GET } else { method };
    let is_public = PUBLIC.iter().any(|(public, of)| public == method && *of == path)
        || (is_get && PUBLIC_FOLDERS.iter().any(|folder| path.starts_with(folder)));
    if is_public {
        return Access::Public;
    }
    if is_get && path == "/" {
        return Access::AnyKey;
    }
    Access::OneOf(if path.starts_with("/v1/documents") {
        if is_get {
            READ_DOCUMENTS
        } else {
            &[Scope::Documents]
        }
    } else if !CONVERSATIONS.iter().any(|beginning| path.starts_with(beginning)) {
        &[Scope::Admin]
    } else if path == "/api/v1/socket" {
        // A WebSocket, on which questions are asked.
        &[Scope::Ask]
    } else if is_get || (*method == Method::POST && READING_POSTS.contains(&path)) {
        READ
    } else {
        &[Scope::Ask]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_route_is_closed() {
        for (method, path) in [
            (Method::GET, "/v2/new"),
            (Method::POST, "/healthz"),
            (Method::DELETE, "/metrics"),
            (Method::POST, "/page/"),
            (Method::GET, "/metrics"),
        ] {
            assert_eq!(
                access(&method, path),
                Access::OneOf(&[Scope::Admin]),
                "{method} {path}"
            );
        }
        assert_eq!(access(&Method::HEAD, "/healthz"), Access::Public);
    }
}
