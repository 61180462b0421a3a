//! API keys in the OpenAPI document of a server with `--api-keys`: how a request has its key, which
//! routes need one, and how they refuse.

use http::Method;
use ragwire_endpoints::openapi::add_refusal;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{ComponentsBuilder, OpenApi, RefOr};

use crate::keys::{API_KEY, Access, access};

/// The names of the schemes.
const SCHEMES: [&str; 3] = ["apiKey", "basic", "bearer"];

/// Adds the three ways in which a request has its key.
pub(super) fn add_schemes(document: &mut OpenApi) {
    let http = |scheme, why: &str| {
        SecurityScheme::Http(HttpBuilder::new().scheme(scheme).description(Some(why)).build())
    };
    let in_header = ApiKeyValue::with_description(API_KEY.as_str(), "A key of `--api-keys`.");
    let schemes = [
        SecurityScheme::ApiKey(ApiKey::Header(in_header)),
        http(
            HttpAuthScheme::Basic,
            "A key of `--api-keys` as the password of any user, as browsers send it.",
        ),
        http(HttpAuthScheme::Bearer, "A key of `--api-keys`."),
    ];
    let components = document
        .components
        .get_or_insert_with(|| ComponentsBuilder::new().build());
    for (name, scheme) in SCHEMES.into_iter().zip(schemes) {
        components
            .security_schemes
            .insert(name.to_owned(), RefOr::T(scheme));
    }
}

/// Adds what the check of the key refuses at a route, and why.
pub(super) fn add_refusals(method: &Method, path: &str, operation: &mut Operation) {
    let access = access(method, path);
    if access == Access::Public {
        return;
    }
    let no_scopes = [""; 0];
    let requirements = SCHEMES.map(|name| SecurityRequirement::new(name, no_scopes));
    operation.security = Some(requirements.into());
    // A request with a key has an owner.
    operation.responses.responses.remove("401");
    add_refusal(operation, "401", "The request needs one valid API key.");
    add_refusal(
        operation,
        "429",
        "This API key has sent its requests of this minute.",
    );
    if let Access::OneOf(scopes) = access {
        let names: Vec<_> = scopes.iter().map(|scope| scope.name()).collect();
        add_refusal(
            operation,
            "403",
            &format!("The API key does not have the scope: {}.", names.join(" or ")),
        );
    }
}
