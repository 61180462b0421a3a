//! The first-frame authentication: what the client shows, and what the application makes of it.

use std::fmt;

use ::http::Extensions;
use futures_core::future::BoxFuture;

use super::guarded::Guarded;

/// What a client showed to authenticate itself. `Debug` does not print it.
pub struct Token(String);

impl Token {
    pub(super) fn new(token: String) -> Self {
        Self(token)
    }

    /// The token itself. It stands in no call, log or error of this library; keep it so.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Who a client is: whatever the application's hook put into it.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    pub(super) default_workspace: Option<String>,
    extensions: Extensions,
}

impl Identity {
    /// Names the workspace that the client is told is its own.
    #[must_use]
    pub fn default_workspace(mut self, workspace: impl Into<String>) -> Self {
        self.default_workspace = Some(workspace.into());
        self
    }

    /// Adds a value of the application's own; one of each type.
    #[must_use]
    pub fn with<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// The value of that type, if the hook put one in.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.extensions.get()
    }
}

/// The application's hook.
pub(super) struct Hook(Box<dyn Fn(Token) -> BoxFuture<'static, Option<Identity>> + Send + Sync>);

impl Hook {
    pub(super) fn new<H, F, E>(hook: H) -> Self
    where
        H: Fn(Token) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Identity, E>> + Send + 'static,
    {
        Self(Box::new(move |token| {
            let asked = hook(token);
            Box::pin(async move { asked.await.ok() })
        }))
    }

    pub(super) fn call(&self, token: Token) -> Guarded<Option<Identity>> {
        Guarded::new(|| (self.0)(token))
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}
