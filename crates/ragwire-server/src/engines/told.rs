//! What runs and what stands in for the rest: a line for each part, for whoever started the server. It names no address and no key.

#[cfg(feature = "llama")]
use ragwire_rag::models::Embed;
use ragwire_rag::models::LanguageModel;

use super::Place;

/// How a language model is had in this build.
const LLM: &str = if cfg!(feature = "llama") {
    "--llm FILE.gguf or --llm-url URL"
} else {
    "--llm-url URL, or --llm in builds with --features llama"
};
const EMBEDDER: &str = if cfg!(feature = "llama") {
    "--embedder FILE.gguf"
} else {
    "--embedder in builds with --features llama"
};
const RERANKER: &str = if cfg!(feature = "llama") {
    "--reranker FILE.gguf"
} else {
    "--reranker in builds with --features llama"
};
const KEEPS: &str = if cfg!(feature = "qdrant-edge") {
    "--store qdrant-edge keeps it"
} else if cfg!(feature = "qdrant") {
    "--store qdrant keeps it"
} else {
    "--store qdrant-edge keeps it, in builds with --features qdrant-edge"
};

/// The lines.
#[derive(Debug)]
pub(super) struct Told {
    llm: String,
    embedder: String,
    reranker: String,
    store: String,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            llm: format!("llm: none, answers are quoted sentences ({LLM})"),
            embedder: format!("embedder: none, documents are found by their words ({EMBEDDER})"),
            reranker: format!("reranker: none, passages stay as they were found ({RERANKER})"),
            store: String::new(),
        }
    }
}

impl Told {
    pub(super) fn lines(&self) -> [&str; 4] {
        [&self.llm, &self.embedder, &self.reranker, &self.store]
    }

    pub(super) fn upstream(&mut self, model: &dyn LanguageModel) {
        let (name, tokens) = (model.name(), model.context_tokens());
        self.llm = format!("llm: {name}, on the server of --llm-url, {tokens} tokens of context");
    }

    #[cfg(feature = "llama")]
    pub(super) fn writer(&mut self, model: &dyn LanguageModel, slots: u32) {
        let (name, tokens) = (model.name(), model.context_tokens());
        let answers = if slots == 1 {
            "1 answer"
        } else {
            &format!("{slots} answers")
        };
        self.llm = format!("llm: {name}, {answers} at a time, {tokens} tokens of context each");
    }

    #[cfg(feature = "llama")]
    pub(super) fn embedder(&mut self, model: &dyn Embed) {
        self.embedder = format!(
            "embedder: {}, vectors of {} numbers",
            model.name(),
            model.dimensions()
        );
    }

    #[cfg(feature = "llama")]
    pub(super) fn late_interaction(&mut self) {
        self.reranker = format!("reranker: none, passages are ranked by the embedder's tokens ({RERANKER})");
    }

    #[cfg(feature = "llama")]
    pub(super) fn ranker(&mut self, name: &str) {
        self.reranker = format!("reranker: {name}");
    }

    pub(super) fn store(&mut self, place: &Place) {
        self.store = match place {
            Place::Memory => format!("store: memory, made anew at each start ({KEEPS})"),
            place => format!("store: {place}"),
        };
    }
}
