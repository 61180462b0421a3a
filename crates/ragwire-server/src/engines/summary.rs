//! One line per part for the user who starts the server: what runs, or what replaces it. The lines
//! contain neither addresses nor keys.

use ragwire_rag::models::{Embed, LanguageModel};

use super::location::StoreLocation;

/// How to add a language model in this build.
const LLM: &str = if cfg!(feature = "llama") {
    "--llm FILE.gguf or --llm-url URL"
} else {
    "--llm-url URL, or --llm in builds with --features llama"
};
const EMBEDDER: &str = if cfg!(feature = "llama") {
    "--embedder FILE.gguf or --embedder-url URL"
} else {
    "--embedder-url URL, or --embedder in builds with --features llama"
};
const RERANKER: &str = if cfg!(feature = "llama") {
    "--reranker FILE.gguf or --reranker-url URL"
} else {
    "--reranker-url URL, or --reranker in builds with --features llama"
};
const PERSISTENT_STORE: &str = if cfg!(feature = "qdrant-edge") {
    "--store qdrant-edge is persistent"
} else if cfg!(feature = "qdrant") {
    "--store qdrant is persistent"
} else {
    "--store qdrant-edge is persistent, in builds with --features qdrant-edge"
};

/// The lines, one for each part.
#[derive(Debug)]
pub(super) struct Summary {
    llm: String,
    embedder: String,
    reranker: String,
    store: String,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            llm: format!("llm: none, answers quote sentences ({LLM})"),
            embedder: format!("embedder: none, search is lexical ({EMBEDDER})"),
            reranker: format!("reranker: none, passages keep the order of the search ({RERANKER})"),
            store: String::new(),
        }
    }
}

impl Summary {
    pub(super) fn lines(&self) -> [&str; 4] {
        [&self.llm, &self.embedder, &self.reranker, &self.store]
    }

    pub(super) fn set_upstream(&mut self, model: &dyn LanguageModel) {
        let (name, tokens) = (model.name(), model.context_tokens());
        self.llm = format!("llm: {name}, on the server of --llm-url, {tokens} tokens of context");
    }

    pub(super) fn set_remote_embedder(&mut self, model: &dyn Embed) {
        let (name, dimensions) = (model.name(), model.dimensions());
        self.embedder = format!("embedder: {name}, on the server of --embedder-url, {dimensions} dimensions");
    }

    pub(super) fn set_remote_ranker(&mut self, name: &str) {
        let name = if name.is_empty() { "" } else { &format!("{name}, ") };
        self.reranker = format!("reranker: {name}on the server of --reranker-url");
    }

    #[cfg(feature = "llama")]
    pub(super) fn set_writer(&mut self, model: &dyn LanguageModel, slots: u32) {
        let (name, tokens) = (model.name(), model.context_tokens());
        let answers = if slots == 1 {
            "1 answer"
        } else {
            &format!("{slots} answers")
        };
        self.llm = format!("llm: {name}, {answers} at a time, {tokens} tokens of context each");
    }

    #[cfg(feature = "llama")]
    pub(super) fn set_embedder(&mut self, model: &dyn Embed) {
        self.embedder = format!("embedder: {}, {} dimensions", model.name(), model.dimensions());
    }

    #[cfg(feature = "llama")]
    pub(super) fn set_ranker(&mut self, name: &str) {
        self.reranker = format!("reranker: {name}");
    }

    pub(super) fn set_store(&mut self, location: &StoreLocation) {
        self.store = match location {
            StoreLocation::Memory => format!("store: memory, rebuilt at each start ({PERSISTENT_STORE})"),
            location => format!("store: {location}"),
        };
    }
}
