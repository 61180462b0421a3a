//! Questions about a document as a whole, which its text does not repeat: who wrote it, when, and what
//! it is about. They are answered from its beginning.

use std::collections::HashSet;

use unicode_segmentation::UnicodeSegmentation;

use crate::search::holds::{has_name, has_year};
use crate::search::retrieve::led_by;
use crate::{Chunk, DocumentFilter, DocumentKind, Hit, LibraryError, LibraryView};

/// Words of a question about who wrote a document.
const AUTHOR_WORDS: [&str; 11] = [
    "author",
    "authors",
    "writer",
    "writers",
    "coauthor",
    "coauthors",
    "autor",
    "autoren",
    "verfasser",
    "auteur",
    "auteurs",
];
/// Verbs that say that someone wrote a document.
const WROTE_WORDS: [&str; 8] = [
    "wrote",
    "written",
    "write",
    "authored",
    "geschrieben",
    "schrieb",
    "écrit",
    "published",
];
/// Verbs and nouns that say when a document appeared.
const PUBLISHED_WORDS: [&str; 6] = [
    "published",
    "publication",
    "appeared",
    "appear",
    "veröffentlicht",
    "publié",
];
/// Words that ask what a document is about.
const SUMMARY_WORDS: [&str; 15] = [
    "summarise",
    "summarize",
    "summary",
    "summaries",
    "overview",
    "tldr",
    "gist",
    "abstract",
    "contribution",
    "contributions",
    "findings",
    "zusammenfassung",
    "zusammenfassen",
    "fasse",
    "résumé",
];
/// Words that ask what a document concludes.
const CONCLUSION_WORDS: [&str; 7] = [
    "conclusion",
    "conclusions",
    "conclude",
    "concludes",
    "concluded",
    "fazit",
    "schlussfolgerung",
];
/// Words that ask for the title of a document.
const TITLE_WORDS: [&str; 4] = ["title", "titel", "titre", "called"];
/// Words for what has a title.
const TITLED_WORDS: [&str; 10] = [
    "paper", "papers", "article", "document", "book", "report", "thesis", "pdf", "essay", "dokument",
];
/// Words that mean a document without naming it, or that only phrase a question about one.
const DOCUMENT_WORDS: [&str; 46] = [
    "paper",
    "papers",
    "article",
    "document",
    "documents",
    "doc",
    "docs",
    "text",
    "report",
    "book",
    "guide",
    "manual",
    "thesis",
    "file",
    "pdf",
    "page",
    "work",
    "study",
    "essay",
    "about",
    "give",
    "list",
    "name",
    "names",
    "main",
    "key",
    "short",
    "brief",
    "briefly",
    "quick",
    "please",
    "tell",
    "show",
    "idea",
    "point",
    "points",
    "who",
    "whom",
    "when",
    "year",
    "date",
    "contents",
    "content",
    "whole",
    "entire",
    "dokument",
];

/// The passages of a document that are read as its beginning.
const OPENING_PASSAGES: u32 = 4;
/// How many of them join the hits.
const MAX_OPENINGS: usize = 2;
/// The share of a library's text from which on a document is meant if none is named.
const DOMINANT_SHARE: f64 = 0.8;
/// The fewest bytes of text that say what a document is about.
const MIN_SUMMARY_BYTES: usize = 120;
/// The longest line with the date of a document. In a longer one a year is part of what it says.
const MAX_DATE_BYTES: usize = 200;
/// The longest line of the authors of a paper, in bytes, and the share of its words that begin with a capital: names
/// of people and of universities.
const MAX_BYLINE_BYTES: usize = 400;
const BYLINE_SHARE: f32 = 0.7;
/// Innermost headings of a summary, in lower case.
const SUMMARY_HEADINGS: [&str; 10] = [
    "abstract",
    "summary",
    "overview",
    "introduction",
    "about",
    "preface",
    "zusammenfassung",
    "einleitung",
    "résumé",
    "resumen",
];

/// What the innermost heading of a conclusion contains, in lower case.
const CONCLUSION_HEADINGS: [&str; 4] = ["conclusion", "concluding", "fazit", "schlussfolgerung"];

/// What is asked about a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Authors,
    Date,
    Title,
    Summary,
    /// What its section of that name says, or its summary if it has none.
    Conclusion,
}

/// A question about a document as a whole.
#[derive(Debug)]
pub(crate) struct AboutDocument {
    pub(crate) about: About,
    /// The stems of the words that name the document; empty if none does.
    subject: HashSet<String>,
    /// Whether a paper is asked for, which is rarely a Markdown file.
    names_paper: bool,
}

impl AboutDocument {
    /// Returns what `question` asks about a document, or `None` if it asks about something else.
    pub(crate) fn of(library: LibraryView<'_>, question: &str) -> Option<Self> {
        let question = library.well_spelled(question);
        let lower = question.to_lowercase();
        let words: Vec<&str> = lower.unicode_words().collect();
        let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
        let asks_who = has(&["who", "whom", "by", "wer", "qui", "quién"]);
        let asks_when = has(&["when", "year", "date", "wann", "quand"]);
        let about = if has(&AUTHOR_WORDS) || (asks_who && has(&WROTE_WORDS)) {
            About::Authors
        } else if asks_when && (has(&PUBLISHED_WORDS) || has(&WROTE_WORDS)) {
            About::Date
        } else if has(&TITLE_WORDS) && (has(&TITLED_WORDS) || library.documents_found() == 1) {
            About::Title
        } else if has(&CONCLUSION_WORDS) {
            About::Conclusion
        } else if has(&SUMMARY_WORDS) || (words.first() == Some(&"what") && words.last() == Some(&"about")) {
            About::Summary
        } else {
            return None;
        };
        let lists: [&[&str]; 7] = [
            &TITLE_WORDS,
            &CONCLUSION_WORDS,
            &AUTHOR_WORDS,
            &WROTE_WORDS,
            &PUBLISHED_WORDS,
            &SUMMARY_WORDS,
            &DOCUMENT_WORDS,
        ];
        let language = library.language_of_question(&question);
        let named = words
            .iter()
            .filter(|word| !lists.iter().any(|list| list.contains(*word)));
        Some(Self {
            about,
            subject: named.flat_map(|word| library.terms_in(word, language)).collect(),
            names_paper: has(&["paper", "papers", "pdf", "article", "thesis"]),
        })
    }

    /// Returns whether a passage is at the beginning of a document that the question may mean, and has
    /// what it asks for.
    pub(crate) fn is_answered_by(&self, library: LibraryView<'_>, chunk: &Chunk) -> bool {
        (chunk.ordinal < OPENING_PASSAGES || (self.about == About::Conclusion && concludes(chunk)))
            && self.names(library, &chunk.document_id, &chunk.document_name)
            && match self.about {
                About::Authors | About::Date => chunk.text.lines().any(|line| self.is_told_by(chunk, line)),
                About::Title => chunk.ordinal == 0,
                About::Summary => summarises(chunk) || (chunk.ordinal == 0 && has_prose(chunk)),
                About::Conclusion => concludes(chunk) || summarises(chunk),
            }
    }

    /// Returns whether a line of a passage has what the question asks for.
    pub(crate) fn is_told_by(&self, chunk: &Chunk, line: &str) -> bool {
        match self.about {
            About::Authors => {
                let lower = line.to_lowercase();
                let says_so = lower.unicode_words().any(|word| AUTHOR_WORDS.contains(&word))
                    || lower.starts_with("by ")
                    || lower.contains("written by");
                has_name(line) && (says_so || lower.contains('@') || is_byline(chunk, line))
            }
            About::Date => has_year(line) && line.len() <= MAX_DATE_BYTES,
            About::Title | About::Summary | About::Conclusion => !line.trim().is_empty(),
        }
    }

    fn names(&self, library: LibraryView<'_>, document_id: &str, name: &str) -> bool {
        if self.subject.is_empty() {
            return true;
        }
        let name = library.name_text(document_id, name);
        let stems: HashSet<String> = library
            .terms_in(&name, library.language_of(&name))
            .into_iter()
            .collect();
        self.subject.is_subset(&stems)
    }

    /// Returns how far the name of a document is from the words that name it: 0 for a file of this name, 1 if the title
    /// has the words, 2 if only a folder has.
    fn distance(&self, library: LibraryView<'_>, chunk: &Chunk) -> u8 {
        let stems = |text: &str| -> HashSet<String> {
            let terms = library.terms_in(text, library.language_of(text));
            terms.into_iter().collect()
        };
        let file = chunk.document_name.rsplit('/').next().unwrap_or_default();
        let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
        let document = library.document(&chunk.document_id);
        let title = document.and_then(|document| document.title).unwrap_or_default();
        if stems(stem) == self.subject {
            0
        } else if self.subject.is_subset(&stems(&title)) {
            1
        } else {
            2
        }
    }

    /// Returns the document that is meant: the one that is named, otherwise the one that the library
    /// mostly consists of, the only paper, or that of the best hit.
    fn document(&self, library: LibraryView<'_>, filter: &DocumentFilter, hits: &[Hit]) -> Option<String> {
        let of_hit = |hit: &Hit| hit.chunk.document_id.clone();
        if !self.subject.is_empty() {
            let named = |hit: &&Hit| self.names(library, &hit.chunk.document_id, &hit.chunk.document_name);
            let closest = |hit: &&Hit| self.distance(library, &hit.chunk);
            return hits.iter().filter(named).min_by_key(closest).map(of_hit);
        }
        let selected = library.matching(filter);
        let documents: Vec<_> = selected.iter().filter_map(|id| library.document(id)).collect();
        let bytes: u64 = documents.iter().map(|document| document.text_bytes).sum();
        let dominates = |bytes: u64, all: u64| bytes as f64 >= DOMINANT_SHARE * all as f64;
        if let Some(document) = documents
            .iter()
            .find(|document| dominates(document.text_bytes, bytes))
        {
            return Some(document.id.clone());
        }
        let mut papers = documents
            .iter()
            .filter(|document| document.kind == DocumentKind::Pdf);
        match (self.names_paper, papers.next(), papers.next()) {
            (true, Some(only), None) => Some(only.id.clone()),
            // Each of several documents has a beginning: the hits say which one is meant.
            (true | false, _, _) => hits.first().map(of_hit),
        }
    }

    /// Puts the passages at the beginning of the document that is meant before `hits`, if they have what
    /// is asked for.
    pub(crate) fn lead(
        &self,
        library: LibraryView<'_>,
        filter: &DocumentFilter,
        hits: Vec<Hit>,
    ) -> Result<Vec<Hit>, LibraryError> {
        let Some(document_id) = self.document(library, filter, &hits) else {
            return Ok(hits);
        };
        let of_document = |hit: &&Hit| hit.chunk.document_id == document_id;
        let concluding = hits
            .iter()
            .filter(of_document)
            .filter(|hit| concludes(&hit.chunk));
        let mut openings: Vec<Chunk> = match self.about {
            About::Conclusion => concluding.map(|hit| hit.chunk.clone()).collect(),
            About::Authors | About::Date | About::Title | About::Summary => Vec::new(),
        };
        for ordinal in 0..OPENING_PASSAGES {
            let passage = library.chunk(&format!("{document_id}-{ordinal}"))?;
            openings.extend(passage.filter(|chunk| self.is_answered_by(library, chunk)));
        }
        // An abstract is before the preface that it follows.
        openings.sort_by_key(|chunk| self.about == About::Summary && !summarises(chunk));
        openings.truncate(MAX_OPENINGS);
        let best = hits.first().map_or(1.0, |hit| hit.score);
        let openings = openings.into_iter().map(|chunk| Hit::new(chunk, best)).collect();
        Ok(led_by(openings, hits))
    }
}

/// Returns whether a line is that of the authors below the title of a paper: before the first heading of its first page,
/// and mostly of names.
fn is_byline(chunk: &Chunk, line: &str) -> bool {
    let is_first = chunk.ordinal == 0 && chunk.heading.is_none() && chunk.page == Some(1);
    let words = || line.unicode_words();
    let names = words()
        .filter(|word| word.starts_with(char::is_uppercase))
        .count();
    is_first
        && line.len() <= MAX_BYLINE_BYTES
        && names >= 2
        && names as f32 >= BYLINE_SHARE * words().count() as f32
}

/// Returns whether the heading of a passage is that of a conclusion.
fn concludes(chunk: &Chunk) -> bool {
    let heading = chunk.heading.as_deref().unwrap_or_default();
    let last = heading.rsplit(" > ").next().unwrap_or_default().to_lowercase();
    CONCLUSION_HEADINGS.iter().any(|word| last.contains(word)) && has_prose(chunk)
}

/// Returns whether the heading of a passage is that of a summary.
fn summarises(chunk: &Chunk) -> bool {
    let heading = chunk.heading.as_deref().unwrap_or_default();
    let last = heading.rsplit(" > ").next().unwrap_or_default().to_lowercase();
    let plain = last.trim_start_matches(|letter: char| !letter.is_alphabetic());
    SUMMARY_HEADINGS.contains(&plain) && has_prose(chunk)
}

/// Returns whether a passage has a line long enough to say what a document is about.
fn has_prose(chunk: &Chunk) -> bool {
    chunk
        .text
        .lines()
        .any(|line| line.len() >= MIN_SUMMARY_BYTES && line.contains(". "))
        || chunk
            .text
            .lines()
            .any(|line| line.trim_end().ends_with('.') && line.len() >= MIN_SUMMARY_BYTES / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Library, LibraryLimits, ParseLimits, parse};

    const PAPER: &str = "# On Birds\n\nAnn Lee ann@birds.org Ben Poe ben@birds.org\n\nConference of Birds, May 2019\n\n# Abstract\n\nWe show that a robin sings at dawn, and measure how long it sings in each of the seasons of a year.\n\n# Results\n\nThe paper of Max Moe was wrong.\n\n# 5. Conclusion\n\nIn the end all birds sing, but the robin sings first in each of the seasons of a year.";
    const OTHER: &str = "# On Fish\n\nA carp eats plants all day long, and a pike eats other fish whenever it can get one of them.";

    fn library(files: &[(&str, &str)]) -> Library {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        for (name, text) in files {
            library
                .add(
                    name,
                    &parse(name, text.as_bytes(), &ParseLimits::default()).unwrap(),
                )
                .unwrap();
        }
        library
    }

    fn first(library: LibraryView<'_>, question: &str) -> Option<String> {
        let about = AboutDocument::of(library, question)?;
        let hits = library.search(question, 10).unwrap();
        let hits = about.lead(library, &DocumentFilter::default(), hits).unwrap();
        let hit = hits.into_iter().next()?;
        about
            .is_answered_by(library, &hit.chunk)
            .then_some(hit.chunk.text)
    }

    #[test]
    fn questions_about_a_document_lead_to_its_beginning() {
        let library = library(&[("birds.md", PAPER), ("fish.md", OTHER)]);
        let cases = [
            ("Who wrote the paper on birds?", Some("Ann Lee")),
            ("Who are the authors of On Birds?", Some("Ann Lee")),
            (
                "When was the paper on birds published?",
                Some("Conference of Birds, May 2019"),
            ),
            ("Summarise the paper on birds", Some("We show that")),
            ("What is the birds paper about?", Some("We show that")),
            ("What is the title of the birds paper?", Some("Ann Lee")),
            ("What is the conclusion of the birds paper?", Some("In the end")),
            ("What is fish about?", Some("A carp eats")),
            // Neither names a document.
            ("Who wrote Hamlet?", None),
            ("Summarise the seasons", None),
            ("When does a robin sing?", None),
        ];
        for (question, wanted) in cases {
            let found = first(library.all(), question);
            assert_eq!(
                found
                    .as_deref()
                    .map(|text| wanted.is_some_and(|wanted| text.contains(wanted))),
                wanted.map(|_| true),
                "{question}: {found:?}"
            );
        }
    }

    #[test]
    fn the_authors_of_a_paper_are_below_its_title() {
        let library = library(&[(
            "birds.md",
            "Ann Lee University of Birds Ben B. Poe Nest Inc.\n\nWe thank Ann and Ben Lee.",
        )]);
        let id = library.list().remove(0).id;
        let mut chunk = library.chunk(&format!("{id}-0")).unwrap().unwrap();
        let about = AboutDocument::of(library.all(), "who wrote it").unwrap();
        let has_authors = |chunk: &Chunk| {
            let lines = chunk.text.lines();
            lines
                .map(|line| about.is_told_by(chunk, line))
                .collect::<Vec<_>>()
        };
        // Without pages nothing says where the title was.
        assert_eq!(has_authors(&chunk), [false, false]);
        chunk.page = Some(1);
        assert_eq!(has_authors(&chunk), [true, false]);
        chunk.heading = Some("Thanks".to_owned());
        assert_eq!(has_authors(&chunk), [false, false]);
    }

    #[test]
    fn a_document_is_named_by_its_file_its_title_or_its_folder() {
        let files = ["birds/notes.md", "birds/song.md", "birds/birds.md"];
        let text = |title: &str| format!("# {title}\n\nBy Ann Lee.\n\nThe birds sing.");
        let library = library(&[
            (files[0], &text("Notes")),
            (files[1], &text("How birds sing")),
            (files[2], &text("An introduction")),
        ]);
        let about = AboutDocument::of(library.all(), "who wrote the birds paper").unwrap();
        let hits = library.search("birds", 10).unwrap();
        let mut distances: Vec<(u8, String)> = hits
            .iter()
            .map(|hit| {
                (
                    about.distance(library.all(), &hit.chunk),
                    hit.chunk.document_name.clone(),
                )
            })
            .collect();
        distances.sort();
        distances.dedup();
        let wanted = [(0, files[2]), (1, files[1]), (2, files[0])];
        assert_eq!(
            distances,
            wanted.map(|(distance, file)| (distance, file.to_owned()))
        );
    }

    #[test]
    fn a_library_of_one_document_needs_no_name() {
        let library = library(&[("birds.md", PAPER)]);
        for (question, wanted) in [
            ("Who wrote it?", "Ann Lee"),
            ("authors", "Ann Lee"),
            ("Summarise this document", "We show that"),
            ("When was it published?", "May 2019"),
        ] {
            assert!(
                first(library.all(), question).unwrap().contains(wanted),
                "{question}"
            );
        }
    }
}
