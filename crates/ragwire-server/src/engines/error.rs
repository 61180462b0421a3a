//! Why models and stores did not start: what is wrong, and what to do. It tries nothing.

use ragwire_rag::IndexError;
use ragwire_rag::ToolError;
use ragwire_rag::models::ModelError;
#[cfg(feature = "llama")]
use ragwire_rag::models::llama::LoadError;
use ragwire_rag::models::upstream::UpstreamError;
use ragwire_rag::search::store::StoreError;

use super::Place;
#[cfg(feature = "llama")]
use crate::models::{HubError, ModelFile};
use crate::settings::Contradiction;

/// Why the models and the store that the settings name do not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnginesError {
    /// The settings contradict each other, or name what this build does not have.
    #[error(transparent)]
    Settings(#[from] Contradiction),
    /// A model's file was not fetched.
    #[cfg(feature = "llama")]
    #[error("--{setting}: {source}")]
    Hub {
        /// The setting that names it.
        setting: &'static str,
        /// Why.
        source: HubError,
    },
    /// A model was not loaded.
    #[cfg(feature = "llama")]
    #[error("--{setting} {file}: {}", load_words(setting, source))]
    Model {
        /// The setting that names it.
        setting: &'static str,
        /// As it is named there.
        file: Box<ModelFile>,
        /// Why.
        source: LoadError,
    },
    /// The embedder does not give vectors of tokens, though its model has them.
    #[error("--embedder: the passages cannot be ranked by it: {}; name a --reranker", chain(.0))]
    Tokens(#[source] ModelError),
    /// The server of a language model cannot be asked.
    #[error("--llm-url: {}", chain(.0))]
    Upstream(#[from] UpstreamError),
    /// The store cannot be used.
    #[error("{}", store_words(place, source))]
    Store {
        /// Which, and where.
        place: Place,
        /// Why.
        source: StoreError,
    },
    /// The documents cannot be brought into the store, none of them.
    #[error("the documents cannot be indexed: {}", chain(.0))]
    Index(#[from] IndexError),
    /// The store cannot be searched with this embedder.
    #[error("the documents cannot be searched: {}", chain(.0))]
    Tools(#[from] ToolError),
}

impl EnginesError {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Settings(_) => "bad_settings",
            #[cfg(feature = "llama")]
            Self::Hub { source, .. } => source.code(),
            #[cfg(feature = "llama")]
            Self::Model { source, .. } => source.code(),
            Self::Tokens(error) => error.code(),
            Self::Upstream(error) => error.code(),
            Self::Store { source, .. } => source.code(),
            Self::Index(error) => error.code(),
            Self::Tools(error) => error.code(),
        }
    }
}

/// An error with its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(": ");
        words.push_str(&error.to_string());
        cause = error.source();
    }
    words
}

/// What is wrong with a model.
#[cfg(feature = "llama")]
fn load_words(setting: &str, error: &LoadError) -> String {
    use bytesize::ByteSize;

    let writes = setting == "llm";
    let hint = match error {
        LoadError::Missing(_) => {
            return "there is no such file; name a GGUF file, or one of the Hugging Face hub as hf:owner/repo/file.gguf"
                .to_owned();
        }
        LoadError::TooBig { needed, available } => {
            let (needed, available) = (ByteSize(*needed), ByteSize(*available));
            let less = if writes {
                "; choose a smaller one, or lower --llm-context or --llm-slots"
            } else {
                "; choose a smaller one"
            };
            return format!("the model needs {needed} of memory and {available} are there{less}");
        }
        LoadError::NotGguf => "; convert_hf_to_gguf.py of llama.cpp makes one of other formats",
        LoadError::Damaged => "; fetch it again",
        LoadError::Refused { .. } => {
            "; the file is not whole, or newer than this build: RUST_LOG=llama-cpp-2=info says more"
        }
        LoadError::WrongKind { .. } | LoadError::NotARanker | LoadError::NoPooling => {
            "; --llm takes a model for chat, --embedder one for embedding, --reranker a cross-encoder"
        }
        LoadError::Options(_) if writes => "; see --llm-context, --llm-slots and --llm-threads",
        LoadError::Options(_) => "; see --llm-threads",
        LoadError::Template => {
            return "llama.cpp does not know its chat template; name one with --llm-template, such as chatml"
                .to_owned();
        }
        LoadError::Context if writes => {
            "; there may be too little memory: lower --llm-context or --llm-slots"
        }
        LoadError::Context => "; there may be too little memory",
        _ => "",
    };
    format!("{}{hint}", chain(error))
}

/// What is wrong with a store.
fn store_words(place: &Place, error: &StoreError) -> String {
    let hint = match (place, error) {
        (Place::Folder(_), StoreError::InUse) => {
            "; stop the other server, or choose another folder with --data"
        }
        (Place::Folder(_), StoreError::Mismatch(_)) => {
            "; name the embedder that it was made with, or delete the folder, and it is made anew"
        }
        (Place::Folder(_), StoreError::Failed(_)) => {
            "; if it is damaged, delete the folder, and it is made anew"
        }
        (Place::Collection(_), StoreError::Mismatch(_)) => {
            "; name the embedder that it was made with, or another collection with --qdrant-collection"
        }
        (Place::Collection(_), StoreError::Unavailable(_)) => {
            "; start Qdrant, or correct --qdrant-url: its gRPC port is 6334 unless it is told otherwise"
        }
        (Place::Collection(_), StoreError::Failed(_)) => "; see --qdrant-url and RAGWIRE_QDRANT_API_KEY",
        _ => "",
    };
    format!("store {place}: {}{hint}", chain(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "llama")]
    #[test]
    fn a_model_that_is_too_big_says_how_to_need_less() {
        let model = |setting| EnginesError::Model {
            setting,
            file: Box::new("m.gguf".parse().unwrap()),
            source: LoadError::TooBig {
                needed: 5 << 30,
                available: 3 << 29,
            },
        };
        assert_eq!(
            model("llm").to_string(),
            "--llm m.gguf: the model needs 5.0 GiB of memory and 1.5 GiB are there; choose a smaller one, or lower --llm-context \
             or --llm-slots"
        );
        assert_eq!(
            model("embedder").to_string(),
            "--embedder m.gguf: the model needs 5.0 GiB of memory and 1.5 GiB are there; choose a smaller one"
        );
    }

    #[test]
    fn a_store_says_what_to_do() {
        let told = |place: Place, source: StoreError| place.failed(source).to_string();
        let folder = || Place::Folder("/data/qdrant-edge".into());
        let collection = || Place::Collection("papers".into());
        for (said, words) in [
            (
                told(folder(), StoreError::InUse),
                "store qdrant-edge in /data/qdrant-edge: the store is in use by another process; stop the other server, or choose \
                 another folder with --data",
            ),
            (
                told(folder(), StoreError::Mismatch("2 and not 3".into())),
                "store qdrant-edge in /data/qdrant-edge: the store was made for other vectors: 2 and not 3; name the embedder \
                 that it was made with, or delete the folder, and it is made anew",
            ),
            (
                told(folder(), StoreError::Failed("no space left".into())),
                "store qdrant-edge in /data/qdrant-edge: the store failed: no space left; if it is damaged, delete the folder, and it \
                 is made anew",
            ),
            (
                told(collection(), StoreError::Mismatch("2 and not 3".into())),
                "store qdrant, collection papers: the store was made for other vectors: 2 and not 3; name the embedder that it \
                 was made with, or another collection with --qdrant-collection",
            ),
            (
                told(collection(), StoreError::Failed("Unauthenticated: no key".into())),
                "store qdrant, collection papers: the store failed: Unauthenticated: no key; see --qdrant-url and \
                 RAGWIRE_QDRANT_API_KEY",
            ),
            (
                told(Place::Memory, StoreError::Failed("lost".into())),
                "store memory: the store failed: lost",
            ),
        ] {
            assert_eq!(said, words);
        }
    }
}
