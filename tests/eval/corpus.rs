//! What is asked, and of which documents: the paper, where it is at hand, and the project's own pages.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ragwire::rag::{Chunk, Library, LibraryLimits, ParseLimits, parse};
use serde::Deserialize;

/// "Attention Is All You Need", arXiv:1706.03762v7. It is not in the repository.
const PAPER: &str = "attention.pdf";
/// The project's pages: the name in the library, the file in the repository.
const PAGES: [(&str, &str); 4] = [
    ("README.md", "README.md"),
    ("PROTOCOL.md", "PROTOCOL.md"),
    ("ARCHITECTURE.md", "ARCHITECTURE.md"),
    ("server.md", "examples/server/README.md"),
];

/// `questions.json`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Questions {
    pub(crate) answerable: Vec<Answerable>,
    pub(crate) unanswerable: Vec<Unanswerable>,
}

/// A question and what answers it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Answerable {
    pub(crate) question: String,
    /// The document's name.
    pub(crate) document: String,
    /// A passage that answers holds one of these, white space aside. So a document may be cut in another way.
    pub(crate) holds: Vec<String>,
}

impl Answerable {
    pub(crate) fn is_answered_by(&self, chunk: &Chunk) -> bool {
        let text = plain(&chunk.text);
        chunk.document_name == self.document && self.holds.iter().any(|phrase| text.contains(&plain(phrase)))
    }
}

/// A question that none of the documents answers.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Unanswerable {
    pub(crate) question: String,
}

fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The documents, and the questions about them.
#[derive(Debug, Clone)]
pub(crate) struct Corpus {
    pub(crate) library: Arc<Library>,
    pub(crate) questions: Questions,
    /// Whether the paper is among them.
    pub(crate) has_paper: bool,
}

impl Corpus {
    /// Reads everything. Without the paper its questions are left out, and that is said.
    pub(crate) fn read() -> Self {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let add = |name: &str, bytes: &[u8]| {
            let parsed = parse(name, bytes, &ParseLimits::default()).unwrap();
            library.add(name, &parsed).unwrap();
        };
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        for (name, file) in PAGES {
            add(name, &std::fs::read(root.join(file)).unwrap());
        }
        let data =
            std::env::var_os("RAGWIRE_TEST_DATA").map_or_else(|| root.join("../shared/data"), PathBuf::from);
        let paper = std::fs::read(data.join("attention-1706.03762v7.pdf"));
        let mut questions: Questions = serde_json::from_str(include_str!("questions.json")).unwrap();
        match &paper {
            Ok(bytes) => add(PAPER, bytes),
            Err(error) => {
                println!("skipped: the paper is not in {}: {error}", data.display());
                questions.answerable.retain(|question| question.document != PAPER);
            }
        }
        Self {
            library: Arc::new(library),
            questions,
            has_paper: paper.is_ok(),
        }
    }

    /// Every passage, by the name of its document.
    pub(crate) fn passages(&self) -> BTreeMap<String, Vec<Chunk>> {
        let documents = self.library.list().into_iter();
        let passages = |id: &str| self.library.passages(id).unwrap().unwrap();
        documents
            .map(|document| (document.name, passages(&document.id)))
            .collect()
    }
}
