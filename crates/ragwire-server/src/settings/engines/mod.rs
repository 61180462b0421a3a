//! Settings of models and stores: the types of their values, and the options of the servers they name.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use ragwire_rag::models::upstream::{ApiKey, Dialect, UpstreamOptions, UpstreamTimeouts};

use super::values::{BadValue, hidden, values};
use super::{Contradiction, LLM_CONTEXT, Settings};
use crate::models::ModelFile;

pub(crate) mod check;

/// An optional GGUF file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model(pub Option<ModelFile>);

/// An optional name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label(pub Option<String>);

/// An optional URL of a server, which is never printed because it may contain a password.
///
/// Parsing accepts any text; [`Settings::check`] validates the URL.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Address(pub Option<String>);

/// An optional API key. It comes from an environment variable or the settings file, never from a
/// flag, because other users of the machine can see flags.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(pub Option<String>);

/// How many layers of a model are offloaded to the GPU: `all`, or a number up to 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers(pub Option<u32>);

/// The request fields that a language model server understands: `plain`, `openai`,
/// `openai-reasoning`, `llama.cpp`, `vllm`, `vllm-guided`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlmDialect(pub Dialect);

/// Where chunks and vectors are stored: `memory`, `qdrant-edge`, `qdrant`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// In this process; rebuilt at each start.
    Memory,
    /// In this process and on disk.
    QdrantEdge,
    /// On a Qdrant server.
    Qdrant,
}

/// What judges: `words`, `model`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgeKind {
    /// The words of questions, passages and answers.
    Words,
    /// The language model.
    Model,
}

/// Upper bound of [`Layers`]: ten times as many as the largest models have.
const MAX_LAYERS: u32 = 1_000;
const DIALECTS: [(&str, Dialect); 6] = [
    ("plain", Dialect::Plain),
    ("openai", Dialect::OpenAi),
    ("openai-reasoning", Dialect::OpenAiReasoning),
    ("llama.cpp", Dialect::LlamaCpp),
    ("vllm", Dialect::Vllm),
    ("vllm-guided", Dialect::Vllm),
];
const JUDGES: [(&str, JudgeKind); 2] = [("words", JudgeKind::Words), ("model", JudgeKind::Model)];
const STORES: [(&str, StoreKind); 3] = [
    ("memory", StoreKind::Memory),
    ("qdrant-edge", StoreKind::QdrantEdge),
    ("qdrant", StoreKind::Qdrant),
];

/// Looks a value up by its name.
fn parse_name<T: Copy>(table: &[(&str, T)], text: &str) -> Result<T, BadValue> {
    let row = table.iter().find(|(name, _)| *name == text.trim());
    row.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
        BadValue::new(format!(
            "unknown value `{text}`: write one of {}",
            names.join(", ")
        ))
    })
}

/// Returns the name of a value.
fn name_of<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    let row = table.iter().find(|(_, other)| other == value);
    row.map_or("", |(name, _)| name)
}

hidden! { Address Secret }

values! {
    Model(Option<ModelFile>)
    Label(Option<String>)
    Address(Option<String>)
    Secret(Option<String>)
    Layers(Option<u32>)
    LlmDialect(Dialect)
}

impl<'de> serde::Deserialize<'de> for StoreKind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(super::values::TextVisitor(std::marker::PhantomData))
    }
}

impl FromStr for Model {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        text.parse()
            .map(|file| Self(Some(file)))
            .map_err(|error: crate::models::NameError| BadValue::new(error.to_string()))
    }
}

impl FromStr for Label {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.trim() {
            "" => Err(BadValue::new("the name is empty".into())),
            name => Ok(Self(Some(name.to_owned()))),
        }
    }
}

impl FromStr for Layers {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let number = || text.trim().parse().ok().filter(|layers| *layers <= MAX_LAYERS);
        match (text.trim(), number()) {
            ("all", _) => Ok(Self(None)),
            (_, Some(layers)) => Ok(Self(Some(layers))),
            _ => Err(BadValue::new(format!(
                "`{text}` is not a number of layers: write all, or a whole number from 0 to {MAX_LAYERS}"
            ))),
        }
    }
}

impl FromStr for LlmDialect {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        parse_name(&DIALECTS, text).map(Self)
    }
}

impl<'de> serde::Deserialize<'de> for JudgeKind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(super::values::TextVisitor(std::marker::PhantomData))
    }
}

impl FromStr for JudgeKind {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        parse_name(&JUDGES, text)
    }
}

impl fmt::Display for JudgeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        name_of(&JUDGES, self).fmt(f)
    }
}

impl FromStr for StoreKind {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        parse_name(&STORES, text)
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(file) => file.fmt(f),
            None => f.write_str("none"),
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_deref().unwrap_or("none").fmt(f)
    }
}

impl fmt::Display for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(layers) => layers.fmt(f),
            None => f.write_str("all"),
        }
    }
}

impl fmt::Display for LlmDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        name_of(&DIALECTS, &self.0).fmt(f)
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        name_of(&STORES, self).fmt(f)
    }
}

impl Settings {
    /// Returns the options of the language model server, or `None` without `llm-url`.
    ///
    /// # Errors
    ///
    /// A [`Contradiction`] that names the setting and repeats neither URL nor key.
    pub fn upstream_options(&self) -> Result<Option<UpstreamOptions>, Contradiction> {
        let server = self.remote("llm", &self.llm_url, &self.llm_model, &self.llm_key)?;
        let Some(mut options) = server else {
            return Ok(None);
        };
        let mut timeouts = UpstreamTimeouts::default();
        timeouts.first = *self.llm_timeout;
        options = options.dialect(*self.llm_dialect).timeouts(timeouts);
        if self.llm_context != LLM_CONTEXT {
            options = options.context_tokens(u32::try_from(*self.llm_context).unwrap_or(u32::MAX));
        }
        Ok(Some(options))
    }

    /// Returns these settings with `/v1` behind the addresses of servers that have no path. Most servers
    /// with OpenAI's protocol have its routes there.
    pub fn with_version(&self) -> Self {
        let versioned = |Address(url): &Address| {
            let url = url.as_deref().map(|url| with_scheme(url).into_owned())?;
            let uri: http::Uri = url.parse().ok()?;
            let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
            is_bare.then(|| Address(Some(format!("{}/v1", url.trim_end_matches('/')))))
        };
        let mut settings = self.clone();
        for url in [&mut settings.llm_url, &mut settings.embedder_url] {
            if let Some(versioned) = versioned(url) {
                *url = versioned;
            }
        }
        settings
    }

    /// Returns the options of the embedder's server, or `None` without `embedder-url`.
    ///
    /// # Errors
    ///
    /// As [`upstream_options`](Self::upstream_options).
    pub fn embedder_options(&self) -> Result<Option<UpstreamOptions>, Contradiction> {
        let (url, model, key) = (&self.embedder_url, &self.embedder_model, &self.embedder_key);
        self.remote("embedder", url, model, key)
    }

    /// Returns the options of the reranker's server, or `None` without `reranker-url`.
    ///
    /// # Errors
    ///
    /// As [`upstream_options`](Self::upstream_options).
    pub fn reranker_options(&self) -> Result<Option<UpstreamOptions>, Contradiction> {
        let (url, model, key) = (&self.reranker_url, &self.reranker_model, &self.reranker_key);
        self.remote("reranker", url, model, key)
    }

    /// Returns the options of the server of a model; `name` is the prefix of its settings.
    fn remote(
        &self,
        name: &str,
        url: &Address,
        model: &Label,
        key: &Secret,
    ) -> Result<Option<UpstreamOptions>, Contradiction> {
        let Some(url) = url.as_deref() else {
            return Ok(None);
        };
        let mut options = UpstreamOptions::unnamed(&with_scheme(url))
            .map_err(|error| Contradiction::new(format!("{name}-url: {error}")))?
            .error_messages(self.log_upstream_errors);
        if let Some(model) = model.as_deref() {
            options = options.named(model);
        }
        if let Some(key) = key.as_deref() {
            let key = ApiKey::new(key).map_err(|error| Contradiction::new(format!("{name}-key: {error}")))?;
            options = options.key(key);
        }
        Ok(Some(options))
    }
}

/// Returns an address with its scheme: `127.0.0.1:11434` is HTTP, as for `ask --server`.
fn with_scheme(url: &str) -> Cow<'_, str> {
    let authority = url.split('/').next().unwrap_or(url);
    let port = authority.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(_)) if !url.contains("://") => Cow::Owned(format!("http://{url}")),
        _ => Cow::Borrowed(url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_print_as_they_parse() {
        for (text, _) in DIALECTS {
            // An alias prints as the dialect's own name.
            let name = if text == "vllm-guided" { "vllm" } else { text };
            assert_eq!(text.parse::<LlmDialect>().unwrap().to_string(), name);
        }
        for (text, _) in STORES {
            assert_eq!(text.parse::<StoreKind>().unwrap().to_string(), text);
        }
        for text in ["all", "0", "33"] {
            assert_eq!(text.parse::<Layers>().unwrap().to_string(), text);
        }
        for text in ["m.gguf", "hf:a/b/m.gguf"] {
            assert_eq!(text.parse::<Model>().unwrap().to_string(), text);
        }
        assert_eq!("qwen3:8b".parse::<Label>().unwrap().to_string(), "qwen3:8b");
        let (url, key): (Address, Secret) = ("http://s3cret@a".parse().unwrap(), "s3cret".parse().unwrap());
        assert_eq!(
            format!("{url} {url:?} {key} {key:?}"),
            "(not shown) (not shown) (not shown) (not shown)"
        );
        assert_eq!(
            format!("{} {}", Address::default(), Secret::default()),
            "none none"
        );
    }

    #[test]
    fn invalid_values_do_not_parse() {
        for text in ["", "All", "-1", "1001", "1.5"] {
            assert!(text.parse::<Layers>().is_err(), "{text}");
        }
        for text in ["", "OpenAI", "ollama"] {
            assert!(text.parse::<LlmDialect>().is_err(), "{text}");
            assert!(text.parse::<StoreKind>().is_err(), "{text}");
        }
        assert!(" ".parse::<Label>().is_err());
        for text in ["", "hf:a/b"] {
            assert!(text.parse::<Model>().is_err(), "{text}");
        }
    }
}
