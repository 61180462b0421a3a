//! Authentication by the client's first message.

use std::fmt;

use ::http::Extensions;
use futures_core::future::BoxFuture;

use super::guarded::Guarded;

/// The token with which a client authenticates. `Debug` does not print it.
pub struct Token(String);

impl Token {
    pub(super) fn new(token: String) -> Self {
        Self(token)
    }

    /// Returns the token itself. This library never puts it into a call, a log line or an error; do
    /// not either.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The identity of a client, made by the application's hook.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    pub(super) default_workspace: Option<String>,
    extensions: Extensions,
}

impl Identity {
    /// Sets the default workspace, which is reported to the client.
    #[must_use]
    pub fn default_workspace(mut self, workspace: impl Into<String>) -> Self {
        self.default_workspace = Some(workspace.into());
        self
    }

    /// Adds an application value. There is at most one of each type.
    #[must_use]
    pub fn with<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// Returns the value of this type, if the hook added one.
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
            let identity = hook(token);
            Box::pin(async move { identity.await.ok() })
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
