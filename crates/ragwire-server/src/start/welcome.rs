//! What a started server prints: warnings, and the next steps for a new user.

use ragwire_rag::Library;
use ragwire_rag::graph::GraphIndex;

use super::stores::shared_collection;
use crate::engines::Engines;
use crate::open_files;
use crate::output::report_line;
use crate::sample;
use crate::settings::Settings;

pub(super) fn warn_about(settings: &Settings) {
    open_files::provide(settings);
    let address = *settings.listen;
    if !address.ip().is_loopback() && settings.owner_header.is_none() && settings.api_keys.is_none() {
        tracing::warn!(%address, "anyone who can reach this address can read and change the library");
    }
    if settings.test_faults {
        tracing::warn!("test faults are enabled: questions that start with `fault:` fail on purpose");
    }
}

/// A command that asks a first question.
pub(super) fn first_question(url: &str, question: &str) -> String {
    format!(
        "  curl -N {url}/v1/rag/sessions/demo/messages/stream \\\n    \
         -H 'content-type: application/json' -d '{{\"prompt\":\"{question}\"}}'\n"
    )
}

/// Prints the next steps for a new user, to stderr like everything except answers.
pub(super) fn welcome(
    library: &Library,
    graph: Option<&GraphIndex>,
    engines: &Engines,
    sessions: &str,
    settings: &Settings,
    url: &str,
) {
    let location = if library.is_shared() {
        format!("the collection {}", shared_collection(settings))
    } else {
        let data = &settings.data;
        let data = std::path::absolute(data).unwrap_or_else(|_| data.clone());
        data.display().to_string()
    };
    let question = if sample::is_all_of(library) {
        sample::QUESTION
    } else {
        "What is this about?"
    };
    let graph = graph.map_or_else(
        || "none; --graph builds one (experimental)".to_owned(),
        |index| {
            let size = index.graph().size();
            format!("{} entities, {} triples", size.entities, size.triples)
        },
    );
    report_line!(
        "\n  ragwire-server answers at {url}/\n  library: {} documents, {} chunks, in {}\n  \
         graph: {graph}\n  sessions: {sessions}\n  {}\n\n{}",
        library.document_count(),
        library.chunk_count(),
        location,
        engines.summary().join("\n  "),
        first_question(url, question),
    );
}
