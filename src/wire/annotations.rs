//! Citations as the annotations of OpenAI's protocols, and back.

use serde_json::{Map, Value, json};

use crate::metadata::Citation;

/// The maximum number of citations whose position is remembered. An answer has a few dozen.
const MAX_MARKERS: usize = 1024;
/// What a citation takes in memory besides its strings, rounded up.
const CITATION_BYTES: usize = 128;
/// The source of a cited file and of a cited page, by the names of OpenAI's own tools.
const FILE_SEARCH: &str = "file_search";
const WEB_SEARCH: &str = "web_search";

/// Where an answer first refers to each citation: the characters of `[1]`, `[2]` and so on. It reads
/// the answer piece by piece and does not store it.
#[derive(Debug, Default)]
pub(super) struct Markers {
    /// Number of characters so far.
    chars: usize,
    /// A bracket that is not closed yet: its position, and the number after it.
    open: Option<(usize, usize)>,
    first: Vec<Option<(usize, usize)>>,
}

impl Markers {
    pub(super) fn push(&mut self, text: &str) {
        for char in text.chars() {
            self.open = match (char, self.open) {
                ('[', _) => Some((self.chars, 0)),
                ('0'..='9', Some((from, number))) if number <= MAX_MARKERS => {
                    let digit = char.to_digit(10).unwrap_or_default() as usize;
                    Some((from, number * 10 + digit))
                }
                (']', Some((from, number @ 1..=MAX_MARKERS))) => {
                    if self.first.len() < number {
                        self.first.resize(number, None);
                    }
                    self.first[number - 1].get_or_insert((from, self.chars + 1));
                    None
                }
                _ => None,
            };
            self.chars += 1;
        }
    }

    /// Returns the characters of the first reference to the citation at `index`, or the end of the
    /// answer if it has none.
    fn of(&self, index: usize) -> (usize, usize) {
        let first = self.first.get(index).copied().flatten();
        first.unwrap_or((self.chars, self.chars))
    }
}

/// Returns the annotations of an answer, at most `max_bytes` of them: a `url_citation` if the
/// document is a web page, otherwise a `file_citation`.
pub(super) fn annotations(citations: &[Citation], markers: &Markers, max_bytes: usize) -> Vec<Value> {
    let (mut files, mut bytes) = (Vec::new(), 0);
    let annotations = citations.iter().enumerate().map(|(at, citation)| {
        let document = citation.document_id.as_str();
        let (start, end) = markers.of(at);
        if is_page(document) {
            json!({
                "type": "url_citation",
                "end_index": end,
                "start_index": start,
                "title": citation.heading.as_deref().unwrap_or(document),
                "url": document,
            })
        } else {
            let index = files.iter().position(|file| *file == document);
            let index = index.unwrap_or_else(|| {
                files.push(document);
                files.len() - 1
            });
            json!({"type": "file_citation", "file_id": document, "filename": document, "index": index})
        }
    });
    annotations
        .take_while(|annotation| {
            bytes += annotation.to_string().len() + 1;
            bytes <= max_bytes
        })
        .collect()
}

/// Nests an annotation as in a chat completion: its members in one that is named after its type.
pub(super) fn nested(annotation: Value) -> Value {
    match annotation {
        Value::Object(mut members) => {
            let kind = members.shift_remove("type").unwrap_or_default();
            let name = kind.as_str().unwrap_or_default().to_owned();
            json!({"type": kind, name: members})
        }
        other => other,
    }
}

fn is_page(document: &str) -> bool {
    ["https://", "http://"]
        .iter()
        .any(|scheme| document.starts_with(scheme))
}

/// The citations of a decoded stream, within a limit.
#[derive(Debug)]
pub(super) struct Citations {
    citations: Vec<Citation>,
    bytes: usize,
    max_bytes: usize,
    is_cut: bool,
}

impl Citations {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            citations: Vec::new(),
            bytes: 0,
            max_bytes,
            is_cut: false,
        }
    }

    /// Adds an annotation in either form; ignores one that cites neither a page nor a file.
    pub(super) fn push(&mut self, annotation: &Value) {
        let Some(citation) = read(annotation) else {
            return;
        };
        let strings = [
            &citation.document_id,
            &citation.chunk_id,
            &citation.supporting_quote,
        ];
        self.bytes += CITATION_BYTES + strings.into_iter().map(String::len).sum::<usize>();
        self.bytes += citation.heading.as_ref().map_or(0, String::len);
        if self.bytes > self.max_bytes {
            self.is_cut = true;
        } else {
            self.citations.push(citation);
        }
    }

    pub(super) fn push_all(&mut self, annotations: Option<&Value>) {
        for annotation in annotations.and_then(Value::as_array).into_iter().flatten() {
            self.push(annotation);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.citations.is_empty() && !self.is_cut
    }

    /// Returns the citations, and whether some exceeded the limit.
    pub(super) fn take(&mut self) -> (Vec<Citation>, bool) {
        (std::mem::take(&mut self.citations), self.is_cut)
    }
}

fn read(annotation: &Value) -> Option<Citation> {
    let kind = annotation.get("type")?.as_str()?;
    let members: &Map<String, Value> = annotation
        .get(kind)
        .and_then(Value::as_object)
        .or_else(|| annotation.as_object())?;
    let word = |name: &str| members.get(name).and_then(Value::as_str);
    let (document, title, tool) = match kind {
        "url_citation" => (word("url")?, word("title"), WEB_SEARCH),
        "file_citation" => (word("file_id")?, word("filename"), FILE_SEARCH),
        _ => return None,
    };
    // Some servers add the cited words.
    let quote = word("content").or_else(|| word("quote")).unwrap_or_default();
    let citation = Citation::new(document, document, quote, tool);
    Some(match title.filter(|title| *title != document) {
        Some(title) => citation.heading(title),
        None => citation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_point_at_the_first_reference() {
        let mut markers = Markers::default();
        for piece in [
            "\u{1f600} yes [",
            "2",
            "]. [x] [1][2] [0] [99999999999999999999999]",
        ] {
            markers.push(piece);
        }
        let citation = |document: &str| Citation::new(document, "c", "q", "bm25");
        let citations = [
            citation("a.pdf"),
            citation("https://example.org/a").heading("A"),
            citation("a.pdf"),
            citation("b.pdf"),
            citation("http://example.org/b"),
        ];
        let all = annotations(&citations, &markers, usize::MAX);
        assert_eq!(
            Value::from(all),
            json!([
                {"type": "file_citation", "file_id": "a.pdf", "filename": "a.pdf", "index": 0},
                {"type": "url_citation", "end_index": 9, "start_index": 6, "title": "A", "url": "https://example.org/a"},
                {"type": "file_citation", "file_id": "a.pdf", "filename": "a.pdf", "index": 0},
                {"type": "file_citation", "file_id": "b.pdf", "filename": "b.pdf", "index": 1},
                {"type": "url_citation", "end_index": 51, "start_index": 51, "title": "http://example.org/b", "url": "http://example.org/b"},
            ])
        );
        let bytes = all_bytes(&citations[..1]);
        for (max_bytes, count) in [(bytes, 1), (bytes - 1, 0)] {
            assert_eq!(annotations(&citations, &markers, max_bytes).len(), count);
        }
        assert_eq!(annotations(&citations, &markers, 10), Vec::<Value>::new());
    }

    #[test]
    fn references_may_have_several_digits() {
        let mut markers = Markers::default();
        markers.push("[12] [2] [1024] [1025]");
        assert_eq!(
            [11, 1, 1023].map(|index| markers.of(index)),
            [(0, 4), (5, 8), (9, 15)]
        );
        // It is as good as none.
        assert_eq!(markers.of(1024), (22, 22));
    }

    fn all_bytes(citations: &[Citation]) -> usize {
        let all = annotations(citations, &Markers::default(), usize::MAX);
        all.iter()
            .map(|annotation| annotation.to_string().len() + 1)
            .sum()
    }

    #[test]
    fn both_forms_are_read_and_the_memory_is_bounded() {
        let flat = json!({"type": "url_citation", "url": "u", "title": "T", "content": "words"});
        let page = Citation::new("u", "u", "words", "web_search").heading("T");
        let mut citations = Citations::new(500);
        citations.push(&flat);
        citations.push(&nested(flat));
        citations.push(&json!({"type": "file_path", "file_id": "f"}));
        citations.push(&json!({"type": "url_citation", "url": 1}));
        citations.push(&json!("x"));
        citations.push(&json!({"type": "file_citation", "file_id": "f", "filename": "f"}));
        let file = Citation::new("f", "f", "", "file_search");
        assert_eq!(citations.take(), (vec![page.clone(), page, file.clone()], false));
        citations.push(&json!({"type": "file_citation", "file_id": "f".repeat(400)}));
        assert_eq!(citations.take(), (Vec::new(), true));
    }

    #[test]
    fn citations_of_exactly_the_limit_are_kept() {
        // The URL counts twice, as the document and as its part.
        let bytes = CITATION_BYTES + 2 * "url".len() + "words".len() + "Title".len();
        let annotation = json!({"type": "url_citation", "url": "url", "title": "Title", "content": "words"});
        for (max_bytes, kept) in [(bytes, (1, false)), (bytes - 1, (0, true))] {
            let mut citations = Citations::new(max_bytes);
            citations.push(&annotation);
            let (taken, is_cut) = citations.take();
            assert_eq!((taken.len(), is_cut), kept, "{max_bytes}");
        }
    }
}
