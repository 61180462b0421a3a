//! Errors of models and stores at the start, with the cause and the fix. This module only formats.

use ragwire_rag::IndexError;
use ragwire_rag::ToolError;
#[cfg(feature = "llama")]
use ragwire_rag::models::llama::LoadError;
use ragwire_rag::models::upstream::{DiscoverError, UpstreamError};
use ragwire_rag::search::store::StoreError;

use super::location::StoreLocation;
#[cfg(feature = "llama")]
use crate::models::{HubError, ModelFile};
use crate::settings::Contradiction;

/// A model or a store that does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnginesError {
    /// The settings contradict each other, or name something that this build lacks.
    #[error(transparent)]
    Settings(#[from] Contradiction),
    /// The file of a model was not downloaded.
    #[cfg(feature = "llama")]
    #[error("--{setting}: {source}")]
    Hub {
        /// The setting that names it.
        setting: &'static str,
        /// The cause.
        source: HubError,
    },
    /// A model does not load.
    #[cfg(feature = "llama")]
    #[error("--{setting} {file}: {}", load_message(setting, source))]
    Model {
        /// The setting that names it.
        setting: &'static str,
        /// The file, as the setting names it.
        file: Box<ModelFile>,
        /// The cause.
        source: LoadError,
    },
    /// The server of a language model cannot be used.
    #[error("--llm-url: {}", chain(.0))]
    Upstream(#[from] UpstreamError),
    /// The server of another model cannot be used.
    #[error("--{setting}: {}{}", chain(source), remote_hint(setting, source))]
    Remote {
        /// The setting that names it.
        setting: &'static str,
        /// The cause.
        source: UpstreamError,
    },
    /// No model was found on a server.
    #[error("--{setting}: {}", discover_message(setting, source))]
    Discover {
        /// The setting that names the server.
        setting: &'static str,
        /// The cause.
        source: DiscoverError,
    },
    /// The store cannot be used.
    #[error("{}", store_message(location, source))]
    Store {
        /// The store.
        location: StoreLocation,
        /// The cause.
        source: StoreError,
    },
    /// No document can be added to the store.
    #[error("the documents cannot be indexed: {}", chain(.0))]
    Index(#[from] IndexError),
    /// The store does not match the embedder.
    #[error("the documents cannot be searched: {}", chain(.0))]
    Tools(#[from] ToolError),
}

impl EnginesError {
    /// Returns a stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Settings(_) => "bad_settings",
            #[cfg(feature = "llama")]
            Self::Hub { source, .. } => source.code(),
            #[cfg(feature = "llama")]
            Self::Model { source, .. } => source.code(),
            Self::Upstream(error) | Self::Remote { source: error, .. } => error.code(),
            Self::Discover { source, .. } => source.code(),
            Self::Store { source, .. } => source.code(),
            Self::Index(error) => error.code(),
            Self::Tools(error) => error.code(),
        }
    }
}

/// Returns the message of an error and of its causes.
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

/// Returns what to do about a server that cannot be used.
fn remote_hint(setting: &str, error: &UpstreamError) -> String {
    let name = setting.trim_end_matches("-url");
    match error {
        UpstreamError::Connect(_) | UpstreamError::Timeout { .. } => {
            "; start that server first, or correct the address".to_owned()
        }
        UpstreamError::Refused {
            status: 401 | 403, ..
        } => format!("; set its key as RAGWIRE_{}_KEY", name.to_ascii_uppercase()),
        UpstreamError::Refused {
            status: 404 | 405, ..
        } => format!("; check the address, and the model in --{name}-model"),
        _ => String::new(),
    }
}

/// Returns the message for a server on which no model was found.
fn discover_message(setting: &str, error: &DiscoverError) -> String {
    let name = setting.trim_end_matches("-url");
    let hint = match error {
        DiscoverError::Server(source) => {
            let start = match source {
                UpstreamError::Connect(_) if setting == "llm-url" => ". With --llm-model it may start later",
                _ => "",
            };
            return format!("{}{}{start}", chain(source), remote_hint(setting, source));
        }
        DiscoverError::NoList => format!("; name one with --{name}-model"),
        DiscoverError::Several(_) => format!("; choose one with --{name}-model"),
        DiscoverError::Empty => "; load one, with Ollama for example `ollama pull qwen3:4b`".to_owned(),
        _ => String::new(),
    };
    format!("{error}{hint}")
}

/// Returns the message for a model that does not load.
#[cfg(feature = "llama")]
fn load_message(setting: &str, error: &LoadError) -> String {
    use bytesize::ByteSize;

    let writes = setting == "llm";
    let hint = match error {
        LoadError::Missing(_) => {
            return "the file does not exist; name a GGUF file, or hf:owner/repo/file.gguf on the Hugging Face hub"
                .to_owned();
        }
        LoadError::TooBig { needed, available } => {
            let (needed, available) = (ByteSize(*needed), ByteSize(*available));
            let less = if writes {
                "; choose a smaller model, or lower --llm-context or --llm-slots"
            } else {
                "; choose a smaller model"
            };
            return format!("the model needs {needed} of memory and {available} are available{less}");
        }
        LoadError::NotGguf => "; convert other formats with convert_hf_to_gguf.py of llama.cpp",
        LoadError::Damaged => "; download it again",
        LoadError::Refused { .. } => {
            "; the file is incomplete or newer than this build; RUST_LOG=llama-cpp-2=info logs details"
        }
        LoadError::WrongKind { .. } | LoadError::NotARanker | LoadError::NoPooling => {
            "; --llm needs a chat model, --embedder an embedding model, --reranker a cross-encoder"
        }
        LoadError::Options(_) if writes => "; see --llm-context, --llm-slots and --llm-threads",
        LoadError::Options(_) => "; see --llm-threads",
        LoadError::Template => {
            return "llama.cpp does not support the chat template of the model; set one with --llm-template, such as chatml"
                .to_owned();
        }
        LoadError::Context if writes => {
            "; there may not be enough memory: lower --llm-context or --llm-slots"
        }
        LoadError::Context => "; there may not be enough memory",
        _ => "",
    };
    format!("{}{hint}", chain(error))
}

/// Returns the message for a store that cannot be used.
fn store_message(location: &StoreLocation, error: &StoreError) -> String {
    let hint = match (location, error) {
        (StoreLocation::Folder(_), StoreError::InUse) => {
            "; stop the other server, or choose another folder with --data"
        }
        (StoreLocation::Folder(_), StoreError::Mismatch(_)) => {
            "; use the embedder that it was built with, or delete the folder to rebuild it"
        }
        (StoreLocation::Folder(_), StoreError::Failed(_)) => {
            "; if it is damaged, delete the folder to rebuild it"
        }
        (StoreLocation::Collection(_), StoreError::Mismatch(_)) => {
            "; use the embedder that it was built with, or choose another collection with --qdrant-collection"
        }
        (StoreLocation::Collection(_), StoreError::Unavailable(_)) => {
            "; start Qdrant, or correct --qdrant-url: the default gRPC port is 6334"
        }
        (StoreLocation::Collection(_), StoreError::Failed(_)) => {
            "; see --qdrant-url and RAGWIRE_QDRANT_API_KEY"
        }
        _ => "",
    };
    format!("store {location}: {}{hint}", chain(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "llama")]
    #[test]
    fn the_error_for_a_model_that_is_too_big_names_the_settings() {
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
            "--llm m.gguf: the model needs 5.0 GiB of memory and 1.5 GiB are available; choose a smaller model, or lower \
             --llm-context or --llm-slots"
        );
        assert_eq!(
            model("embedder").to_string(),
            "--embedder m.gguf: the model needs 5.0 GiB of memory and 1.5 GiB are available; choose a smaller model"
        );
    }

    #[test]
    fn the_error_of_a_store_ends_with_the_fix() {
        let folder = StoreLocation::Folder("/data/qdrant-edge".into());
        let collection = StoreLocation::Collection("papers".into());
        let in_use = StoreError::InUse;
        let mismatch = || StoreError::Mismatch("2 and not 3".into());
        let failed = || StoreError::Failed("no space left".into());
        for (location, source, hint) in [
            (
                &folder,
                in_use,
                "; stop the other server, or choose another folder with --data",
            ),
            (
                &folder,
                mismatch(),
                "; use the embedder that it was built with, or delete the folder to rebuild it",
            ),
            (
                &folder,
                failed(),
                "; if it is damaged, delete the folder to rebuild it",
            ),
            (
                &collection,
                mismatch(),
                "; use the embedder that it was built with, or choose another collection with \
                 --qdrant-collection",
            ),
            (
                &collection,
                failed(),
                "; see --qdrant-url and RAGWIRE_QDRANT_API_KEY",
            ),
            (&StoreLocation::Memory, failed(), ""),
        ] {
            let expected = format!("store {location}: {}{hint}", chain(&source));
            assert_eq!(location.error(source).to_string(), expected);
        }
    }
}
