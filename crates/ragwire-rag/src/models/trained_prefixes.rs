//! The prefixes with which well-known embedding models were trained. Without them a model finds
//! less.

/// Parts of the names of models, and their prefixes. The first that fits applies.
const MODELS: [(&str, TrainedPrefixes); 5] = [
    // Instructed models expect a task that only their user knows.
    ("instruct", TrainedPrefixes::new("", "")),
    (
        "nomic-embed",
        TrainedPrefixes::new("search_query: ", "search_document: "),
    ),
    ("e5-", TrainedPrefixes::new("query: ", "passage: ")),
    ("mxbai-embed", TrainedPrefixes::new(BGE_QUERY, "")),
    ("bge-large-en", TrainedPrefixes::new(BGE_QUERY, "")),
];
const BGE_QUERY: &str = "Represent this sentence for searching relevant passages: ";

/// What stands before the texts of a model.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TrainedPrefixes {
    pub(super) query: &'static str,
    pub(super) passage: &'static str,
}

impl TrainedPrefixes {
    const fn new(query: &'static str, passage: &'static str) -> Self {
        Self { query, passage }
    }

    /// Returns the prefixes of the model of that name; none if it is not known.
    pub(super) fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let known = MODELS.into_iter().find(|(part, _)| name.contains(part));
        known.map(|(_, prefixes)| prefixes).unwrap_or_default()
    }
}
