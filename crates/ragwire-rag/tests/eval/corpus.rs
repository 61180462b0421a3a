//! The questions and the documents they are about: the paper, if it is available, and copies of the
//! project's own pages.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ragwire_rag::{Chunk, Level, Library, LibraryLimits, ParseLimits, parse};
use serde::Deserialize;

/// "Attention Is All You Need", arXiv:1706.03762v7. It is not in the repository.
const PAPER: &str = "attention.pdf";
/// Frozen copies of the project's pages, so that rewriting a page does not change a figure.
const PAGES: [(&str, &str); 4] = [
    ("README.md", include_str!("corpus/ragwire.md")),
    ("PROTOCOL.md", include_str!("corpus/protocol.md")),
    ("ARCHITECTURE.md", include_str!("corpus/architecture.md")),
    ("server.md", include_str!("corpus/server.md")),
];

/// Questions that are counted together.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Questions {
    pub(crate) answerable: Vec<Answerable>,
    pub(crate) unanswerable: Vec<Unanswerable>,
}

/// The content of `questions.json`.
#[derive(Debug, Deserialize)]
struct All {
    #[serde(flatten)]
    usual: Questions,
    held_out: Questions,
}

/// A question and the phrases that answer it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Answerable {
    pub(crate) question: String,
    /// The document's name.
    pub(crate) document: String,
    /// A passage that contains one of these phrases, ignoring white space, answers the question. So
    /// the questions do not depend on how a document is cut.
    pub(crate) holds: Vec<String>,
}

impl Answerable {
    pub(crate) fn is_answered_by(&self, chunk: &Chunk) -> bool {
        let text = plain(&chunk.text);
        chunk.document_name == self.document && self.holds.iter().any(|phrase| text.contains(&plain(phrase)))
    }
}

/// A question that no document answers.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Unanswerable {
    pub(crate) question: String,
}

fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The documents and the questions about them.
#[derive(Clone, Debug)]
pub(crate) struct Corpus {
    pub(crate) library: Arc<Library>,
    pub(crate) questions: Questions,
    /// Questions that were never used for tuning.
    pub(crate) held_out: Questions,
    /// Whether the paper is available.
    pub(crate) has_paper: bool,
}

impl Corpus {
    /// Reads everything. Without the paper its questions are left out, and a message is printed.
    pub(crate) fn read() -> Self {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let add = |name: &str, bytes: &[u8]| {
            let parsed = parse(name, bytes, &ParseLimits::default()).unwrap();
            library.add(name, &parsed).unwrap();
        };
        for (name, text) in PAGES {
            add(name, text.as_bytes());
        }
        let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
        let data = std::env::var_os("RAGWIRE_TEST_DATA").map_or_else(beside, PathBuf::from);
        let paper = std::fs::read(data.join("attention-1706.03762v7.pdf"));
        let mut all: All = serde_json::from_str(include_str!("questions.json")).unwrap();
        match &paper {
            Ok(bytes) => add(PAPER, bytes),
            Err(error) => {
                println!("skipped: the paper is not in {}: {error}", data.display());
                for questions in [&mut all.usual, &mut all.held_out] {
                    questions.answerable.retain(|question| question.document != PAPER);
                }
            }
        }
        Self {
            library: Arc::new(library),
            questions: all.usual,
            held_out: all.held_out,
            has_paper: paper.is_ok(),
        }
    }

    /// Returns every passage by the name of its document.
    pub(crate) fn passages(&self) -> BTreeMap<String, Vec<Chunk>> {
        let documents = self.library.list().into_iter();
        documents
            .map(|document| (document.name, self.passages_of(&document.id)))
            .collect()
    }

    /// Returns the passages that a citation refers to: those of a cited section that contain the
    /// quoted sentence.
    pub(crate) fn cited(&self, chunk_id: &str, quote: &str) -> Vec<Chunk> {
        let chunk = self
            .library
            .chunk(chunk_id)
            .unwrap()
            .expect("what is cited opens");
        if chunk.level == Level::Passage {
            return vec![chunk];
        }
        let mut passages = self.passages_of(&chunk.document_id);
        passages.retain(|passage| {
            let parent = self.library.parent(passage).unwrap();
            parent.is_some_and(|parent| parent.id == chunk.id) && plain(&passage.text).contains(&plain(quote))
        });
        passages
    }

    fn passages_of(&self, document_id: &str) -> Vec<Chunk> {
        self.library.passages(document_id).unwrap().unwrap()
    }
}
