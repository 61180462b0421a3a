//! The kinds of values that choose models and stores, and which of them go together. What a build does not have is named with the feature that it
//! would take.

use std::fmt;
use std::str::FromStr;

use ragwire_rag::models::upstream::{ApiKey, Dialect, UpstreamOptions};

use super::settings::{
    Contradiction, LLM_CONTEXT, LLM_GPU_LAYERS, LLM_SLOTS, LLM_THREADS, QDRANT_COLLECTION, Settings,
};
use super::values::{BadValue, deserialize, hidden};
use crate::models::ModelFile;

/// A GGUF file, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model(pub Option<ModelFile>);

/// A name, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label(pub Option<String>);

/// The address of a server, or none. As with Redis, it is kept out of everything that is printed, and whether it is one is looked at with the other settings.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Address(pub Option<String>);

/// A key, or none. It comes from a variable or a file only: other users of the machine see flags.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(pub Option<String>);

/// How many layers of a model go to the GPU: `all`, or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers(pub Option<u32>);

/// What the fields of a server of a language model are: `plain`, `openai`, `openai-reasoning`, `llama.cpp`, `vllm`, `vllm-guided`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speaks(pub Dialect);

/// Where chunks and vectors are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// In this process, made anew at each start.
    Memory,
    /// In this process and on the disk.
    QdrantEdge,
    /// On a Qdrant server.
    Qdrant,
}

/// Most layers: ten times what the largest models have.
const MAX_LAYERS: u32 = 1_000;
/// Longest name of a collection, which is one of a folder on the server.
const MAX_COLLECTION_BYTES: usize = 100;
const DIALECTS: [(&str, Dialect); 6] = [
    ("plain", Dialect::Plain),
    ("openai", Dialect::OpenAi),
    ("openai-reasoning", Dialect::OpenAiReasoning),
    ("llama.cpp", Dialect::LlamaCpp),
    ("vllm", Dialect::Vllm),
    ("vllm-guided", Dialect::VllmGuided),
];
const STORES: [(&str, StoreKind); 3] = [
    ("memory", StoreKind::Memory),
    ("qdrant-edge", StoreKind::QdrantEdge),
    ("qdrant", StoreKind::Qdrant),
];

/// The value that goes by a name.
fn named<T: Copy>(table: &[(&str, T)], text: &str) -> Result<T, BadValue> {
    let found = table.iter().find(|(name, _)| *name == text.trim());
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
        BadValue::new(format!("`{text}` is none of {}", names.join(", ")))
    })
}

/// The name of a value.
fn name_of<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    let found = table.iter().find(|(_, other)| other == value);
    found.map_or("", |(name, _)| name)
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
            "" => Err(BadValue::new("a name is empty".into())),
            name => Ok(Self(Some(name.to_owned()))),
        }
    }
}

hidden! { Address Secret }

deserialize! { Model Label Address Secret Layers Speaks StoreKind }

impl FromStr for Layers {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let number = || text.trim().parse().ok().filter(|layers| *layers <= MAX_LAYERS);
        match (text.trim(), number()) {
            ("all", _) => Ok(Self(None)),
            (_, Some(layers)) => Ok(Self(Some(layers))),
            _ => Err(BadValue::new(format!(
                "`{text}` is no number of layers: all, or a whole number from 0 to {MAX_LAYERS}"
            ))),
        }
    }
}

impl FromStr for Speaks {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        named(&DIALECTS, text).map(Self)
    }
}

impl FromStr for StoreKind {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        named(&STORES, text)
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
        self.0.as_deref().unwrap_or("none").fmt(f)
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

impl fmt::Display for Speaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        name_of(&DIALECTS, &self.0).fmt(f)
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        name_of(&STORES, self).fmt(f)
    }
}

/// What the server of a language model is asked with, where one is named.
///
/// # Errors
///
/// A [`Contradiction`] that names the setting and repeats neither address nor key.
pub fn upstream_options(settings: &Settings) -> Result<Option<UpstreamOptions>, Contradiction> {
    let Some(url) = &settings.llm_url.0 else {
        return Ok(None);
    };
    let Some(model) = &settings.llm_model.0 else {
        return Err(Contradiction::new(
            "llm-url needs llm-model, the name that its server has for the model",
        ));
    };
    let options = UpstreamOptions::new(url, model)
        .map_err(|error| Contradiction::new(format!("llm-url: {error}")))?
        .dialect(settings.llm_dialect.0);
    let options = match settings.llm_context {
        LLM_CONTEXT => options,
        tokens => options.context_tokens(u32::try_from(tokens.0).unwrap_or(u32::MAX)),
    };
    match &settings.llm_key.0 {
        Some(key) => {
            let key = ApiKey::new(key).map_err(|error| Contradiction::new(format!("llm-key: {error}")))?;
            Ok(Some(options.key(key)))
        }
        None => Ok(Some(options)),
    }
}

/// What this build does not have.
pub(crate) fn not_built(name: &str, feature: &str) -> Contradiction {
    Contradiction::new(format!(
        "{name} is not in this build; build with `--features {feature}`"
    ))
}

/// Looks for choices that contradict each other, or that this build does not have.
pub(super) fn check(settings: &Settings) -> Result<(), Contradiction> {
    for (name, said, has, feature) in [
        ("llm", settings.llm.0.is_some(), cfg!(feature = "llama"), "llama"),
        (
            "embedder",
            settings.embedder.0.is_some(),
            cfg!(feature = "llama"),
            "llama",
        ),
        (
            "reranker",
            settings.reranker.0.is_some(),
            cfg!(feature = "llama"),
            "llama",
        ),
        (
            "store qdrant-edge",
            settings.store == StoreKind::QdrantEdge,
            cfg!(feature = "qdrant-edge"),
            "qdrant-edge",
        ),
        (
            "store qdrant",
            settings.store == StoreKind::Qdrant,
            cfg!(feature = "qdrant"),
            "qdrant",
        ),
    ] {
        if said && !has {
            return Err(not_built(name, feature));
        }
    }
    if settings.llm.0.is_some() && settings.llm_url.0.is_some() {
        return Err(Contradiction::new(
            "llm and llm-url name two language models; one writes",
        ));
    }
    let (llm, llm_url) = (settings.llm.0.is_some(), settings.llm_url.0.is_some());
    let here = llm || settings.embedder.0.is_some() || settings.reranker.0.is_some();
    let qdrant = settings.store == StoreKind::Qdrant;
    let collection = settings.qdrant_collection.0.as_str();
    for (name, said, needs, there) in [
        (
            "graph-model",
            settings.graph_model,
            "llm or llm-url",
            llm || llm_url,
        ),
        ("llm-model", settings.llm_model.0.is_some(), "llm-url", llm_url),
        ("llm-key", settings.llm_key.0.is_some(), "llm-url", llm_url),
        (
            "llm-dialect",
            settings.llm_dialect.0 != Dialect::default(),
            "llm-url",
            llm_url,
        ),
        (
            "llm-context",
            settings.llm_context != LLM_CONTEXT,
            "llm or llm-url",
            llm || llm_url,
        ),
        ("llm-slots", settings.llm_slots != LLM_SLOTS, "llm", llm),
        ("llm-template", settings.llm_template.0.is_some(), "llm", llm),
        (
            "llm-gpu-layers",
            settings.llm_gpu_layers != LLM_GPU_LAYERS,
            "llm, embedder or reranker",
            here,
        ),
        (
            "llm-threads",
            settings.llm_threads != LLM_THREADS,
            "llm, embedder or reranker",
            here,
        ),
        (
            "qdrant-url",
            settings.qdrant_url.0.is_some(),
            "store qdrant",
            qdrant,
        ),
        (
            "qdrant-collection",
            collection != QDRANT_COLLECTION,
            "store qdrant",
            qdrant,
        ),
        (
            "qdrant-api-key",
            settings.qdrant_api_key.0.is_some(),
            "store qdrant",
            qdrant,
        ),
    ] {
        if said && !there {
            let not_set = if needs.contains(" or ") {
                "none of which is set"
            } else {
                "which is not set"
            };
            return Err(Contradiction::new(format!("{name} is for {needs}, {not_set}")));
        }
    }
    if qdrant && settings.qdrant_url.0.is_none() {
        return Err(Contradiction::new(
            "store qdrant needs qdrant-url, the gRPC address of the server: http://127.0.0.1:6334",
        ));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !(1..=MAX_COLLECTION_BYTES).contains(&collection.len()) || !collection.bytes().all(plain) {
        return Err(Contradiction::new(format!(
            "qdrant-collection `{collection}` is no name: 1 to {MAX_COLLECTION_BYTES} letters, digits and `-_.`"
        )));
    }
    upstream_options(settings)?;
    if let Some(url) = &settings.qdrant_url.0 {
        let uri: Option<http::Uri> = url.parse().ok();
        let plain = uri.is_some_and(|uri| {
            let scheme = matches!(uri.scheme_str(), Some("http" | "https"));
            let authority = uri.authority().map_or("", |authority| authority.as_str());
            scheme && uri.query().is_none() && !authority.is_empty() && !authority.contains('@')
        });
        if !plain {
            return Err(Contradiction::new(
                "qdrant-url is no address; write http://host:6334, and the key as RAGWIRE_QDRANT_API_KEY",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::values::{Name, Room};

    #[test]
    fn values_are_read_and_shown_alike() {
        for text in [
            "plain",
            "openai",
            "openai-reasoning",
            "llama.cpp",
            "vllm",
            "vllm-guided",
        ] {
            assert_eq!(text.parse::<Speaks>().unwrap().to_string(), text);
        }
        for text in ["memory", "qdrant-edge", "qdrant"] {
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
    fn values_that_are_none() {
        for text in ["", "All", "-1", "1001", "1.5"] {
            assert!(text.parse::<Layers>().is_err(), "{text}");
        }
        for text in ["", "OpenAI", "ollama"] {
            assert!(
                text.parse::<Speaks>().is_err() && text.parse::<StoreKind>().is_err(),
                "{text}"
            );
        }
        assert!(
            " ".parse::<Label>().is_err()
                && "".parse::<Model>().is_err()
                && "hf:a/b".parse::<Model>().is_err()
        );
    }

    #[test]
    fn contradictions_are_named() {
        fn url(settings: &mut Settings) {
            settings.llm_url = Address(Some("http://127.0.0.1:8000/v1".into()));
            settings.llm_model = Label(Some("m".into()));
        }
        type Change = fn(&mut Settings);
        let cases: &[(Change, &str)] = &[
            (
                |s| s.llm_model = Label(Some("m".into())),
                "llm-model is for llm-url",
            ),
            (
                |s| s.llm_key = Secret(Some("s3cret".into())),
                "llm-key is for llm-url",
            ),
            (
                |s| s.llm_dialect = Speaks(Dialect::Vllm),
                "llm-dialect is for llm-url",
            ),
            (
                |s| s.llm_url = Address(Some("http://a/v1".into())),
                "llm-url needs llm-model",
            ),
            (
                |s| (url(s), s.llm_url = Address(Some("http://u:s3cret@a".into()))).1,
                "llm-url: the url of the server is not valid",
            ),
            (
                |s| (url(s), s.llm_key = Secret(Some("s3cret key".into()))).1,
                "llm-key: the api key is not valid",
            ),
            (
                |s| s.llm_gpu_layers = Layers(Some(7)),
                "llm-gpu-layers is for llm, embedder or reranker, none of which is set",
            ),
            (
                |s| s.llm_threads = Room(7),
                "llm-threads is for llm, embedder or reranker, none of which is set",
            ),
            (
                |s| s.llm_context = Room(7),
                "llm-context is for llm or llm-url, none of which is set",
            ),
            (
                |s| (url(s), s.llm_template = Label(Some("chatml".into()))).1,
                "llm-template is for llm, which is not set",
            ),
            (
                |s| s.qdrant_collection = Name("mine".into()),
                "qdrant-collection is for store qdrant, which is not set",
            ),
            (
                |s| s.qdrant_url = Address(Some("http://a".into())),
                "qdrant-url is for store qdrant",
            ),
            (
                |s| s.qdrant_api_key = Secret(Some("s3cret".into())),
                "qdrant-api-key is for store qdrant",
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
                "llm and llm-url name two language models",
            ),
            #[cfg(feature = "qdrant")]
            (|s| s.store = StoreKind::Qdrant, "store qdrant needs qdrant-url"),
            #[cfg(feature = "qdrant")]
            (
                |s| {
                    (s.store, s.qdrant_url) = (StoreKind::Qdrant, Address(Some("http://a".into())));
                    s.qdrant_collection = Name("a/b".into());
                },
                "qdrant-collection `a/b` is no name",
            ),
            #[cfg(feature = "qdrant")]
            (
                |s| (s.store, s.qdrant_url) = (StoreKind::Qdrant, Address(Some("u:s3cret@a".into()))),
                "qdrant-url is no address",
            ),
        ];
        for (change, named) in cases {
            let mut settings = Settings::default();
            change(&mut settings);
            let error = settings.check().unwrap_err().to_string();
            assert!(error.starts_with(named), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
        let mut settings = Settings::default();
        url(&mut settings);
        settings.llm_key = Secret(Some("s3cret".into()));
        assert_eq!(settings.check(), Ok(()));
        assert!(!format!("{settings:?}").contains("s3cret"));
    }
}
