//! Which model a server has: `GET …/models` of OpenAI's protocol, as Ollama, llama.cpp and vLLM
//! answer it, and `/info` of TEI.

use std::time::Duration;

use http::Uri;
use serde::Deserialize;

use super::client::Client;
use super::error::UpstreamError;
use super::options::{Base, UpstreamOptions, UpstreamTimeouts};

/// How long a list of models may take: the server computes nothing for it.
const LIST: Duration = Duration::from_secs(5);
/// The pause before a server that is loading its model is asked again.
const LOADING_PAUSE: Duration = Duration::from_secs(1);
/// How often a server that is loading its model is asked: a large one takes a minute from a disk.
const LOADING_ATTEMPTS: u32 = 180;
/// The context of a model on Ollama whose user has not set `OLLAMA_CONTEXT_LENGTH`. A longer prompt
/// is cut there without an error.
const OLLAMA_CONTEXT: u32 = 4_096;
/// Number of names in an error message: a gateway lists hundreds.
const MAX_NAMES: usize = 8;

/// What a model is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Writing answers.
    Chat,
    /// Vectors.
    Embedding,
    /// Scores of passages.
    Reranking,
}

/// Why no model was chosen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoverError {
    /// The server cannot be used.
    #[error(transparent)]
    Server(#[from] UpstreamError),
    /// The server does not list its models.
    #[error("the server does not list its models")]
    NoList,
    /// The server has no model.
    #[error("the server has no model")]
    Empty,
    /// The server has several models, of which none is the obvious one.
    #[error("the server has {} models: {}", .0.len(), names(.0))]
    Several(Vec<String>),
    /// The server does not list the model with this name.
    #[error("the server has no model `{wanted}`, but {}", names(.listed))]
    Unlisted {
        /// The name in the options.
        wanted: String,
        /// The models of the server.
        listed: Vec<String>,
    },
}

impl DiscoverError {
    /// Returns a stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Server(error) => error.code(),
            Self::NoList => "upstream_no_list",
            Self::Empty => "upstream_no_model",
            Self::Several(_) => "upstream_several_models",
            Self::Unlisted { .. } => "upstream_unknown_model",
        }
    }
}

fn names(names: &[String]) -> String {
    let shown = names[..names.len().min(MAX_NAMES)].join(", ");
    match names.len().checked_sub(MAX_NAMES) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

impl UpstreamOptions {
    /// Asks the server for its models, chooses the only one that fits the purpose, and takes over
    /// what the server says about it: its context, if none is set, and the address with `/v1`, if
    /// that was left out. A server that is loading its model is asked again for up to 3 minutes.
    ///
    /// A model that is already named is only looked up.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    ///
    /// # Errors
    ///
    /// [`DiscoverError`].
    pub async fn discover(mut self, purpose: Purpose) -> Result<Self, DiscoverError> {
        let listing = self.clone().timeouts(UpstreamTimeouts {
            connect: LIST,
            first: LIST,
            idle: LIST,
            total: LIST,
            search: LIST,
        });
        // The request has no text that a message could quote.
        let listing = listing.error_messages(true);
        let client = Client::new(listing)?;
        let mut attempt = 1;
        let (base, listed) = loop {
            match list(&client).await {
                Err(DiscoverError::Server(UpstreamError::Refused { status: 503, .. }))
                    if attempt < LOADING_ATTEMPTS && self.model.is_empty() =>
                {
                    attempt += 1;
                    tokio::time::sleep(LOADING_PAUSE).await;
                }
                other => break other?,
            }
        };
        self.base = base;
        let chosen = choose(&self.model, listed, purpose)?;
        if self.context_tokens == Self::CONTEXT_TOKENS
            && let Some(tokens) = chosen.context(&client, &self.base).await
        {
            self.context_tokens = tokens.min(Self::CONTEXT_TOKENS);
        }
        if self.model.is_empty() {
            self.model = chosen.id;
        }
        self.is_tei = chosen.is_tei;
        Ok(self)
    }
}

/// A model in a list.
#[derive(Debug, Deserialize)]
struct Listed {
    id: String,
    /// `library` on Ollama, `llamacpp`, `vllm`.
    #[serde(default)]
    owned_by: Option<String>,
    /// The base model of an adapter on vLLM.
    #[serde(default)]
    parent: Option<String>,
    /// The context of a model on vLLM.
    #[serde(default)]
    max_model_len: Option<u32>,
    #[serde(skip)]
    is_tei: bool,
}

#[derive(Deserialize)]
struct List {
    /// Ollama without a model sends `null`.
    data: Option<Vec<Listed>>,
}

#[derive(Deserialize)]
struct Info {
    model_id: String,
}

/// Returns the models of the server, and its address with `/v1`.
async fn list(client: &Client) -> Result<(Base, Vec<Listed>), DiscoverError> {
    let given = &client.options.base;
    for base in given.candidates() {
        if let Some(body) = optional(client, base.route("/models")?).await?
            && let Ok(list) = serde_json::from_slice::<List>(&body)
        {
            return Ok((base, list.data.unwrap_or_default()));
        }
    }
    if let Some(body) = optional(client, given.beside("/info")?).await?
        && let Ok(info) = serde_json::from_slice::<Info>(&body)
    {
        let only = Listed {
            id: info.model_id,
            owned_by: None,
            parent: None,
            max_model_len: None,
            is_tei: true,
        };
        return Ok((given.clone(), vec![only]));
    }
    Err(DiscoverError::NoList)
}

/// Gets a body; `None` if the server does not have that route.
async fn optional(client: &Client, uri: Uri) -> Result<Option<bytes::Bytes>, UpstreamError> {
    match client.get(uri).await {
        Ok(body) => Ok(Some(body)),
        Err(UpstreamError::Refused {
            status: 404 | 405 | 501,
            ..
        }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn choose(wanted: &str, listed: Vec<Listed>, purpose: Purpose) -> Result<Listed, DiscoverError> {
    let ids = |listed: &[Listed]| listed.iter().map(|model| model.id.clone()).collect();
    if !wanted.is_empty() {
        let names = ids(&listed);
        // Ollama adds a tag to a name without one.
        let latest = format!("{wanted}:latest");
        let found = listed
            .into_iter()
            .find(|model| model.id == wanted || model.id == latest);
        return found.ok_or_else(|| DiscoverError::Unlisted {
            wanted: wanted.to_owned(),
            listed: names,
        });
    }
    let mut listed: Vec<Listed> = listed
        .into_iter()
        .filter(|model| model.parent.is_none())
        .collect();
    if listed.len() > 1 {
        let (fit, other): (Vec<_>, Vec<_>) = listed.into_iter().partition(|model| model.fits(purpose));
        listed = if fit.is_empty() { other } else { fit };
    }
    match listed.len() {
        0 => Err(DiscoverError::Empty),
        1 => Ok(listed.remove(0)),
        _ => Err(DiscoverError::Several(ids(&listed))),
    }
}

impl Listed {
    /// Returns whether the name suggests that the model fits the purpose: no server says so.
    fn fits(&self, purpose: Purpose) -> bool {
        let name = self.id.to_ascii_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        let ranks = has(&["rerank"]);
        let embeds = !ranks && has(&["embed", "minilm", "bge-", "/e5-", "gte-"]);
        match purpose {
            Purpose::Chat => !embeds && !ranks,
            Purpose::Embedding => embeds,
            Purpose::Reranking => ranks,
        }
    }

    /// Returns the tokens that prompt and answer may have together, if the server says so.
    async fn context(&self, client: &Client, base: &Base) -> Option<u32> {
        #[derive(Deserialize)]
        struct Properties {
            default_generation_settings: Generation,
        }
        #[derive(Deserialize)]
        struct Generation {
            n_ctx: u32,
        }
        match self.owned_by.as_deref() {
            Some("library") => Some(OLLAMA_CONTEXT),
            Some("llamacpp") => {
                let body = client.get(base.beside("/props").ok()?).await.ok()?;
                let properties: Properties = serde_json::from_slice(&body).ok()?;
                Some(properties.default_generation_settings.n_ctx)
            }
            _ => self.max_model_len,
        }
        .filter(|tokens| *tokens > 0)
    }
}
