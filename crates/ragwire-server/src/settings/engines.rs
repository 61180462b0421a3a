//! Settings of models and stores: the types of their values, and which settings go together.
//!
//! If the build lacks a model or a store, the error names the cargo feature that adds it.

use std::fmt;
use std::str::FromStr;

use ragwire_rag::models::upstream::{ApiKey, Dialect, UpstreamOptions, UpstreamTimeouts};

use super::values::{BadValue, hidden, values};
use super::{
    Contradiction, LLM_CONTEXT, LLM_GPU_LAYERS, LLM_SLOTS, LLM_THREADS, LLM_TIMEOUT, QDRANT_COLLECTION,
    Settings,
};
use crate::models::ModelFile;

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
/// Longest collection name, in bytes. Qdrant uses it as a folder name.
const MAX_COLLECTION_BYTES: usize = 100;
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
        let mut options = UpstreamOptions::unnamed(url)
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

/// The error for a setting that this build does not support.
pub(crate) fn not_built(setting: &str, feature: &str) -> Contradiction {
    Contradiction::new(format!(
        "{setting} is not in this build; build with `--features {feature}`"
    ))
}

/// Rejects settings of models and stores that contradict each other or that this build lacks.
pub(super) fn check(settings: &Settings) -> Result<(), Contradiction> {
    check_build(settings)?;
    check_prerequisites(settings)?;
    settings.upstream_options()?;
    settings.embedder_options()?;
    settings.reranker_options()?;
    check_qdrant(settings)
}

fn check_build(settings: &Settings) -> Result<(), Contradiction> {
    let llama = cfg!(feature = "llama");
    let (edge, qdrant) = (cfg!(feature = "qdrant-edge"), cfg!(feature = "qdrant"));
    let is_store = |kind| settings.store == kind;
    for (setting, is_set, is_built, feature) in [
        ("llm", settings.llm.is_some(), llama, "llama"),
        ("embedder", settings.embedder.is_some(), llama, "llama"),
        ("reranker", settings.reranker.is_some(), llama, "llama"),
        (
            "store qdrant-edge",
            is_store(StoreKind::QdrantEdge),
            edge,
            "qdrant-edge",
        ),
        ("store qdrant", is_store(StoreKind::Qdrant), qdrant, "qdrant"),
    ] {
        if is_set && !is_built {
            return Err(not_built(setting, feature));
        }
    }
    Ok(())
}

/// A setting that others depend on.
#[derive(Clone, Copy)]
struct Prerequisite {
    /// Its name in error messages; two names are joined by ` or `.
    name: &'static str,
    is_met: bool,
}

impl Prerequisite {
    fn check(self, setting: &str, is_set: bool) -> Result<(), Contradiction> {
        if self.is_met || !is_set {
            return Ok(());
        }
        let name = self.name;
        let not_set = if name.contains(" or ") {
            "none of which is set"
        } else {
            "which is not set"
        };
        Err(Contradiction::new(format!(
            "{setting} requires {name}, {not_set}"
        )))
    }
}

fn check_prerequisites(settings: &Settings) -> Result<(), Contradiction> {
    let has_llm = settings.llm.is_some();
    let has_url = settings.llm_url.is_some();
    let (embedder_url, reranker_url) = (settings.embedder_url.is_some(), settings.reranker_url.is_some());
    for (name, what, is_twice) in [
        ("llm", "a language model", has_llm && has_url),
        (
            "embedder",
            "an embedding model",
            settings.embedder.is_some() && embedder_url,
        ),
        (
            "reranker",
            "a reranker",
            settings.reranker.is_some() && reranker_url,
        ),
    ] {
        if is_twice {
            return Err(Contradiction::new(format!(
                "{name} and {name}-url each name {what}; set only one of them"
            )));
        }
    }
    if has_url && settings.llm_timeout >= settings.idle_timeout {
        return Err(Contradiction::new(format!(
            "llm-timeout ({}) must be less than idle-timeout ({}), so that quotes can replace the answer",
            settings.llm_timeout, settings.idle_timeout
        )));
    }
    let llm = Prerequisite {
        name: "llm",
        is_met: has_llm,
    };
    let llm_url = Prerequisite {
        name: "llm-url",
        is_met: has_url,
    };
    let any_llm = Prerequisite {
        name: "llm or llm-url",
        is_met: has_llm || has_url,
    };
    let local_model = Prerequisite {
        name: "llm, embedder or reranker",
        is_met: has_llm || settings.embedder.is_some() || settings.reranker.is_some(),
    };
    let qdrant = Prerequisite {
        name: "store qdrant",
        is_met: settings.store == StoreKind::Qdrant,
    };
    let collection = settings.qdrant_collection.as_str();

    for (name, url, model, key) in [
        (
            "embedder-url",
            embedder_url,
            &settings.embedder_model,
            &settings.embedder_key,
        ),
        (
            "reranker-url",
            reranker_url,
            &settings.reranker_model,
            &settings.reranker_key,
        ),
    ] {
        let server = Prerequisite { name, is_met: url };
        server.check(&name.replace("-url", "-model"), model.is_some())?;
        server.check(&name.replace("-url", "-key"), key.is_some())?;
    }
    any_llm.check("graph-model", settings.graph_model)?;
    any_llm.check("judge", settings.judge != JudgeKind::Words)?;
    llm_url.check("llm-timeout", settings.llm_timeout != LLM_TIMEOUT)?;
    llm_url.check("llm-model", settings.llm_model.is_some())?;
    llm_url.check("llm-key", settings.llm_key.is_some())?;
    llm_url.check("llm-dialect", *settings.llm_dialect != Dialect::default())?;
    any_llm.check("llm-context", settings.llm_context != LLM_CONTEXT)?;
    llm.check("llm-slots", settings.llm_slots != LLM_SLOTS)?;
    llm.check("llm-template", settings.llm_template.is_some())?;
    local_model.check("llm-gpu-layers", settings.llm_gpu_layers != LLM_GPU_LAYERS)?;
    local_model.check("llm-threads", settings.llm_threads != LLM_THREADS)?;
    qdrant.check("qdrant-url", settings.qdrant_url.is_some())?;
    qdrant.check("qdrant-collection", collection != QDRANT_COLLECTION)?;
    qdrant.check("qdrant-api-key", settings.qdrant_api_key.is_some())
}

fn check_qdrant(settings: &Settings) -> Result<(), Contradiction> {
    if settings.store == StoreKind::Qdrant && settings.qdrant_url.is_none() {
        return Err(Contradiction::new(
            "store qdrant needs qdrant-url, the gRPC address of the server: http://127.0.0.1:6334",
        ));
    }
    let collection = settings.qdrant_collection.as_str();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !(1..=MAX_COLLECTION_BYTES).contains(&collection.len()) || !collection.bytes().all(is_plain) {
        return Err(Contradiction::new(format!(
            "qdrant-collection `{collection}` is not a valid name: use 1 to {MAX_COLLECTION_BYTES} letters, \
             digits and `-_.`"
        )));
    }
    match settings.qdrant_url.as_deref() {
        Some(url) if !is_plain_url(url) => Err(Contradiction::new(
            "qdrant-url is not a valid address; write http://host:6334, and the key as RAGWIRE_QDRANT_API_KEY",
        )),
        Some(_) | None => Ok(()),
    }
}

/// Returns `true` for an HTTP URL with a host and without credentials or a query.
fn is_plain_url(url: &str) -> bool {
    let uri: Option<http::Uri> = url.parse().ok();
    uri.is_some_and(|uri| {
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        is_http && uri.query().is_none() && !authority.is_empty() && !authority.contains('@')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::values::{CountOrZero, Name};

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

    fn url(settings: &mut Settings) {
        settings.llm_url = Address(Some("http://127.0.0.1:8000/v1".into()));
        settings.llm_model = Label(Some("m".into()));
    }

    #[test]
    fn contradictions_name_the_setting() {
        type Change = fn(&mut Settings);
        let cases: &[(Change, &str)] = &[
            (
                |s| s.llm_model = Label(Some("m".into())),
                "llm-model requires llm-url, which is not set",
            ),
            (
                |s| s.llm_key = Secret(Some("s3cret".into())),
                "llm-key requires llm-url",
            ),
            (
                |s| s.llm_dialect = LlmDialect(Dialect::Vllm),
                "llm-dialect requires llm-url",
            ),
            (
                |s| s.judge = JudgeKind::Model,
                "judge requires llm or llm-url, none of which is set",
            ),
            (
                |s| (url(s), s.llm_timeout = s.idle_timeout).1,
                "llm-timeout (2m) must be less than idle-timeout (2m)",
            ),
            (
                |s| s.embedder_model = Label(Some("m".into())),
                "embedder-model requires embedder-url, which is not set",
            ),
            (
                |s| s.reranker_key = Secret(Some("s3cret".into())),
                "reranker-key requires reranker-url, which is not set",
            ),
            (
                |s| s.embedder_url = Address(Some("http://u:s3cret@a".into())),
                "embedder-url: ",
            ),
            #[cfg(feature = "llama")]
            (
                |s| {
                    s.reranker_url = Address(Some("http://a".into()));
                    s.reranker = "m.gguf".parse().unwrap();
                },
                "reranker and reranker-url each name a reranker",
            ),
            (
                |s| (url(s), s.llm_url = Address(Some("http://u:s3cret@a".into()))).1,
                "llm-url: ",
            ),
            (
                |s| (url(s), s.llm_key = Secret(Some("s3cret key".into()))).1,
                "llm-key: ",
            ),
            (
                |s| s.llm_gpu_layers = Layers(Some(7)),
                "llm-gpu-layers requires llm, embedder or reranker, none of which is set",
            ),
            (
                |s| s.llm_threads = CountOrZero(7),
                "llm-threads requires llm, embedder or reranker, none of which is set",
            ),
            (
                |s| s.llm_context = CountOrZero(7),
                "llm-context requires llm or llm-url, none of which is set",
            ),
            (
                |s| (url(s), s.llm_template = Label(Some("chatml".into()))).1,
                "llm-template requires llm, which is not set",
            ),
            (
                |s| s.qdrant_collection = Name("mine".into()),
                "qdrant-collection requires store qdrant, which is not set",
            ),
            (
                |s| s.qdrant_url = Address(Some("http://a".into())),
                "qdrant-url requires store qdrant",
            ),
            (
                |s| s.qdrant_api_key = Secret(Some("s3cret".into())),
                "qdrant-api-key requires store qdrant",
            ),
            #[cfg(not(feature = "qdrant"))]
            (
                |s| s.store = StoreKind::Qdrant,
                "store qdrant is not in this build; build with `--features qdrant`",
            ),
            #[cfg(not(feature = "qdrant-edge"))]
            (
                |s| s.store = StoreKind::QdrantEdge,
                "store qdrant-edge is not in this build; build with `--features qdrant-edge`",
            ),
            #[cfg(not(feature = "llama"))]
            (
                |s| s.llm = "m.gguf".parse().unwrap(),
                "llm is not in this build; build with `--features llama`",
            ),
            #[cfg(not(feature = "llama"))]
            (
                |s| s.embedder = "m.gguf".parse().unwrap(),
                "embedder is not in this build",
            ),
            #[cfg(not(feature = "llama"))]
            (
                |s| s.reranker = "m.gguf".parse().unwrap(),
                "reranker is not in this build",
            ),
            #[cfg(feature = "llama")]
            (
                |s| (url(s), s.llm = "m.gguf".parse().unwrap()).1,
                "llm and llm-url each name a language model",
            ),
            #[cfg(feature = "qdrant")]
            (|s| s.store = StoreKind::Qdrant, "store qdrant needs qdrant-url"),
            #[cfg(feature = "qdrant")]
            (
                |s| {
                    (s.store, s.qdrant_url) = (StoreKind::Qdrant, Address(Some("http://a".into())));
                    s.qdrant_collection = Name("a/b".into());
                },
                "qdrant-collection `a/b` is not a valid name",
            ),
            #[cfg(feature = "qdrant")]
            (
                |s| (s.store, s.qdrant_url) = (StoreKind::Qdrant, Address(Some("u:s3cret@a".into()))),
                "qdrant-url is not a valid address",
            ),
        ];
        for (change, message) in cases {
            let mut settings = Settings::default();
            change(&mut settings);
            let error = settings.check().unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn keys_are_not_printed() {
        let mut settings = Settings::default();
        url(&mut settings);
        settings.llm_key = Secret(Some("s3cret".into()));
        assert_eq!(settings.check(), Ok(()));
        assert!(!format!("{settings:?}").contains("s3cret"));
    }
}
