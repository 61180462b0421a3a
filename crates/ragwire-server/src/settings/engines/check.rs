//! Which settings of models and stores go together.
//!
//! If the build lacks a model or a store, the error names the cargo feature that adds it.

use ragwire_rag::models::upstream::Dialect;

use super::{JudgeKind, StoreKind};
use crate::settings::{
    Contradiction, LLM_CONTEXT, LLM_GPU_LAYERS, LLM_SLOTS, LLM_THREADS, LLM_TIMEOUT, QDRANT_COLLECTION,
    Settings,
};

/// Longest collection name, in bytes. Qdrant uses it as a folder name.
const MAX_COLLECTION_BYTES: usize = 100;

/// The error for a setting that this build does not support.
pub(crate) fn not_built(setting: &str, feature: &str) -> Contradiction {
    let instead = match setting {
        "llm" | "embedder" | "reranker" => format!(", or name the server of a model with --{setting}-url"),
        _ => String::new(),
    };
    Contradiction::new(format!(
        "{setting} is not in this build; build with `--features {feature}`{instead}"
    ))
}

/// Rejects settings of models and stores that contradict each other or that this build lacks.
pub(in crate::settings) fn check(settings: &Settings) -> Result<(), Contradiction> {
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
    qdrant.check("originals", settings.originals.is_some())?;
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
    use super::super::{Address, Label, Layers, LlmDialect, Secret};
    use super::*;
    use crate::settings::values::{CountOrZero, Folder, Name};

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
                |s| s.originals = Folder(Some("shared".into())),
                "originals requires store qdrant",
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
