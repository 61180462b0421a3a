//! The sources of an answer as the client lists them: one part for each citation, in their order,
//! so that the n-th source is the one that the answer calls `[n]`.

use std::collections::HashMap;

use bytes::BytesMut;
use serde::Serialize;

use super::part::Numbered;
use crate::event::Sources;
use crate::json;
use crate::metadata::Citation;
use crate::wire::Limits;

/// The maximum number of documents that are remembered. Each may become a part that the client
/// shows and keeps; readers do not look at more.
pub(super) const MAX_DOCUMENTS: usize = 1024;
/// The maximum size of their IDs and titles together: 256 bytes for each, enough for a path or a
/// hash with a name.
pub(super) const MAX_DOCUMENT_BYTES: usize = MAX_DOCUMENTS * 256;

/// The documents that `sources` events named. A citation has only the document's ID; its title is
/// here. The memory is bounded, whatever a turn does.
#[derive(Debug, Default)]
pub(super) struct Documents {
    known: HashMap<String, Document>,
    bytes: usize,
}

#[derive(Debug)]
struct Document {
    /// The number of documents before this one.
    order: usize,
    /// Empty if the document has none.
    title: String,
}

impl Documents {
    /// Remembers the documents of passages, within the limits. The first title of a document is
    /// kept.
    pub(super) fn add(&mut self, sources: &Sources) {
        for source in &sources.sources {
            let (id, title) = (&source.document_id, source.title.as_deref().unwrap_or_default());
            let bytes = id.len() + title.len();
            let fits = self.known.len() < MAX_DOCUMENTS && self.bytes + bytes <= MAX_DOCUMENT_BYTES;
            if fits && !self.known.contains_key(id) {
                self.bytes += bytes;
                let document = Document {
                    order: self.known.len(),
                    title: title.to_owned(),
                };
                self.known.insert(id.clone(), document);
            }
        }
    }

    /// Returns the name to show for a document: its title, or its ID if it has none.
    fn name<'a>(&'a self, id: &'a str) -> &'a str {
        self.known
            .get(id)
            .map(|document| document.title.as_str())
            .filter(|title| !title.is_empty())
            .unwrap_or(id)
    }

    /// Returns the IDs in the order in which the turn named them.
    fn in_order(&self) -> Vec<&str> {
        let mut documents: Vec<_> = self.known.iter().collect();
        documents.sort_unstable_by_key(|(_, document)| document.order);
        documents.into_iter().map(|(id, _)| id.as_str()).collect()
    }

    /// Writes a part for each citation; without citations, a part for each document. Parts beyond
    /// the limits of a line and of the metadata are left out: the metadata has the citations too.
    pub(super) fn write(&self, citations: &[Citation], limits: Limits, out: &mut BytesMut) {
        let from = out.len();
        let mut write = |part: &Part<'_>| {
            let at = out.len();
            out.extend_from_slice(b"data: ");
            let written = json::write(out, part).is_ok();
            let bytes = out.len() - at - b"data: ".len();
            if written && bytes <= limits.max_line_bytes && out.len() - from <= limits.max_trailer_bytes {
                out.extend_from_slice(b"\n\n");
            } else {
                out.truncate(at);
            }
        };
        for (citation, number) in citations.iter().zip(1..) {
            let name = self.name(&citation.document_id);
            let ragwire = Details::Citation(citation);
            write(&part(
                Numbered("citation", number),
                &citation.document_id,
                name,
                title(name, citation),
                ragwire,
            ));
        }
        if !citations.is_empty() {
            return;
        }
        for (document_id, number) in self.in_order().into_iter().zip(1..) {
            let name = self.name(document_id);
            let ragwire = Details::Document { document_id };
            write(&part(
                Numbered("document", number),
                document_id,
                name,
                name.to_owned(),
                ragwire,
            ));
        }
    }
}

/// A source: a page of the web, or any other document.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
enum Part<'a> {
    SourceUrl {
        source_id: Numbered,
        url: &'a str,
        title: String,
        provider_metadata: ProviderMetadata<'a>,
    },
    SourceDocument {
        source_id: Numbered,
        media_type: &'static str,
        title: String,
        filename: &'a str,
        provider_metadata: ProviderMetadata<'a>,
    },
}

#[derive(Serialize)]
struct ProviderMetadata<'a> {
    ragwire: Details<'a>,
}

/// What a source has no member for, among it the quote.
#[derive(Serialize)]
#[serde(untagged)]
enum Details<'a> {
    Citation(&'a Citation),
    Document { document_id: &'a str },
}

fn part<'a>(
    source_id: Numbered,
    document_id: &'a str,
    name: &'a str,
    title: String,
    ragwire: Details<'a>,
) -> Part<'a> {
    let provider_metadata = ProviderMetadata { ragwire };
    match [document_id, name].into_iter().find(|word| is_url(word)) {
        Some(url) => Part::SourceUrl {
            source_id,
            url,
            title,
            provider_metadata,
        },
        None => Part::SourceDocument {
            source_id,
            media_type: media_type(name),
            title,
            filename: name,
            provider_metadata,
        },
    }
}

/// Returns `true` for a link that a client may open.
fn is_url(word: &str) -> bool {
    word.starts_with("https://") || word.starts_with("http://")
}

/// The title that clients show, which distinguishes the citations of one document by page or heading.
fn title(name: &str, citation: &Citation) -> String {
    match (citation.page_number, citation.heading.as_deref()) {
        (Some(page), _) => format!("{name}, page {page}"),
        (None, Some(heading)) if !heading.is_empty() => format!("{name}: {heading}"),
        (None, _) => name.to_owned(),
    }
}

/// The media type of a document, which is required and unknown: guessed from the extension of its
/// name, else plain text, which is what is quoted.
fn media_type(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    [
        ("pdf", "application/pdf"),
        ("html", "text/html"),
        ("htm", "text/html"),
        ("md", "text/markdown"),
    ]
    .iter()
    .find(|(known, _)| ending.eq_ignore_ascii_case(known))
    .map_or("text/plain", |(_, media_type)| media_type)
}
