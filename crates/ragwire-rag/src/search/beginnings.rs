//! The beginnings of documents and sections that are named after what a question asks for. Each passage of the page
//! `Struct HashMap` has that word, and the first one says what it is.

use std::collections::{HashMap, HashSet};

use unicode_segmentation::UnicodeSegmentation;

use crate::documents::LibraryView;
use crate::search::analyzer::{Language, is_paired};
use crate::search::asked::Asked;
use crate::search::asking::only_asks;
use crate::search::identifier::without_number;
use crate::search::labels::{is_introduction, without_site};
use crate::search::retrieve::with_passages;
use crate::{Chunk, DocumentFilter, Hit, LibraryError};

/// How many documents, and how many sections, get their first passages added. A name that more of them have is too
/// common to help.
const MAX_BEGINNINGS: usize = 3;
/// How many passages of a document are added: the first one may have no more than its syntax.
const FIRST_PASSAGES: usize = 2;
/// How many passages before a hit its section may begin.
const MAX_PASSAGES_BEFORE: usize = 8;

/// How many words a question has at most that is about one word: `cors setup`.
const SHORT_WORDS: usize = 2;

/// What a heading may have, or a question, without saying what it is about.
const FILLERS: [&str; 8] = [
    "benutzen",
    "how",
    "use",
    "used",
    "uses",
    "using",
    "verwenden",
    "wie",
];
/// What is between two words whose order matters.
const DIRECTIONS: [&str; 8] = ["from", "into", "nach", "to", "vers", "von", "zu", "zur"];

/// What a page or section is named after, if it is to be read from its beginning.
#[derive(Debug)]
enum Wanted<'a> {
    /// What the question asks the meaning of.
    Subject(&'a Asked),
    /// What a question is about that asks how something is done, or has keywords: `sending email`.
    Topic(Topic),
}

impl<'a> Wanted<'a> {
    fn of(library: LibraryView<'_>, question: &str, asked: &'a Asked, language: Language) -> Option<Self> {
        if asked.is_definition() {
            return Some(Self::Subject(asked));
        }
        // A number or a reason may be anywhere in a section.
        if asked.is_of_kind() || asked.is_price() || asked.is_of_figure() || asked.is_reason() {
            return None;
        }
        Topic::of(library, &library.well_spelled(question), language).map(Self::Topic)
    }

    fn stems(&self) -> Vec<&str> {
        match self {
            Self::Subject(asked) => asked.subject(),
            Self::Topic(topic) => topic.stems.iter().map(String::as_str).collect(),
        }
    }

    /// Returns whether a heading or title has this name and no other words.
    fn is_named_by(&self, library: LibraryView<'_>, label: &str, language: Language) -> bool {
        match self {
            Self::Subject(asked) => asked.is_named_by(library, label, language),
            Self::Topic(topic) => topic.is_that_of(library, label, language),
        }
    }

    /// Returns whether a passage is of a part of its document that has this name. An introduction has that of the heading
    /// above it, or the title. So does the first passage of a page on which something is explained.
    fn is_part_named(&self, library: LibraryView<'_>, passage: &Chunk, language: Language) -> bool {
        let is_named = |label: &str| self.is_named_by(library, label, language);
        let title = || library.document(&passage.document_id)?.title;
        let headings = passage.heading.as_deref().unwrap_or_default();
        let (above, last) = headings.rsplit_once(" > ").unwrap_or(("", headings));
        if is_named(last) {
            return true;
        }
        let begins_page = matches!(self, Self::Topic(_)) && passage.ordinal == 0;
        if !last.is_empty() && !is_introduction(without_number(last)) && !begins_page {
            return false;
        }
        let above = above.rsplit(" > ").next().unwrap_or_default();
        if above.is_empty() {
            title().is_some_and(|title| is_named(without_site(&title)))
        } else {
            is_named(above)
        }
    }
}

/// The words that say what a question is about.
#[derive(Debug)]
struct Topic {
    /// The stems of the words that do not only ask, in order.
    stems: Vec<String>,
    /// The stems of all but the words that a heading does without: a heading may have `getting started` too.
    all: Vec<String>,
    /// Whether it says from what to what, so that the order matters.
    is_directed: bool,
}

impl Topic {
    /// Returns `None` for a question that is about no single thing, and in Chinese, Japanese and Korean, whose words are not
    /// apart.
    fn of(library: LibraryView<'_>, question: &str, language: Language) -> Option<Self> {
        if question.chars().any(is_paired) {
            return None;
        }
        let stems = stems_of(library, question, language, |word| only_asks(word, language));
        // Of a long question, one word is not what it is about.
        let is_clear =
            stems.len() > 1 || (stems.len() == 1 && question.unicode_words().count() <= SHORT_WORDS);
        is_clear.then(|| Self {
            stems,
            all: stems_of(library, question, language, is_filler),
            is_directed: is_directed(question),
        })
    }

    /// Returns whether a heading or title has these words and no others.
    fn is_that_of(&self, library: LibraryView<'_>, label: &str, language: Language) -> bool {
        let label = without_number(label);
        let stems = stems_of(library, label, language, is_filler);
        let has_order = self.is_directed || is_directed(label);
        let is_same = |own: &[String]| {
            let has_all = own.len() == stems.len() && own.iter().all(|stem| stems.contains(stem));
            has_all && (!has_order || *own == stems)
        };
        !label.chars().any(is_paired) && (is_same(&self.stems) || is_same(&self.all))
    }
}

/// Returns the stems of the words of a text that are not left out, each once, in order.
fn stems_of(
    library: LibraryView<'_>,
    text: &str,
    language: Language,
    is_left_out: impl Fn(&str) -> bool,
) -> Vec<String> {
    let words = text
        .unicode_words()
        .filter(|word| !is_left_out(&word.to_lowercase()));
    let mut seen = HashSet::new();
    let stems = words.flat_map(|word| library.terms_in(word, language));
    stems.filter(|stem| seen.insert(stem.clone())).collect()
}

fn is_filler(word: &str) -> bool {
    FILLERS.contains(&word)
}

/// Returns whether a text says from what to what: `converting HTML to PDF`. `How to` does not.
fn is_directed(text: &str) -> bool {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.unicode_words().collect();
    words
        .windows(2)
        .any(|pair| pair[0] != "how" && DIRECTIONS.contains(&pair[1]))
}

/// Adds the first passages of what has the name of what is asked about: of the documents that `filter` selects by their
/// titles, and of the documents and sections among the hits.
pub(crate) fn with_beginnings(
    library: LibraryView<'_>,
    query: &str,
    filter: &DocumentFilter,
    hits: Vec<Hit>,
) -> Result<Vec<Hit>, LibraryError> {
    let language = library.language_of_question(&library.well_spelled(query));
    let asked = Asked::of(library, query, language);
    let Some(wanted) = Wanted::of(library, query, &asked, language).filter(|_| !hits.is_empty()) else {
        return Ok(hits);
    };
    let mut first = of_documents(library, &wanted, language, filter, &hits)?;
    first.extend(of_sections(library, &wanted, language, &hits)?);
    Ok(with_passages(hits, first))
}

/// Returns the first passages of the documents whose title or outermost heading is the name.
fn of_documents(
    library: LibraryView<'_>,
    wanted: &Wanted<'_>,
    language: Language,
    filter: &DocumentFilter,
    hits: &[Hit],
) -> Result<Vec<Chunk>, LibraryError> {
    let is_named = |label: &str| wanted.is_named_by(library, label, language);
    let titled = library.titled(&wanted.stems(), filter).into_iter();
    let titled = titled.filter(|(_, title)| is_named(without_site(title)));
    let headed = hits.iter().filter(|hit| {
        let headings = hit.chunk.heading.as_deref().unwrap_or_default();
        is_named(headings.split(" > ").next().unwrap_or_default())
    });
    let mut seen = HashSet::new();
    let ids = titled
        .map(|(id, _)| id)
        .chain(headed.map(|hit| hit.chunk.document_id.clone()));
    let mut found = Vec::new();
    for id in ids.filter(|id| seen.insert(id.clone())).take(MAX_BEGINNINGS) {
        for ordinal in 0..FIRST_PASSAGES {
            found.extend(library.chunk(&format!("{id}-{ordinal}"))?);
        }
    }
    Ok(found)
}

/// Returns the first passages of the sections whose heading is the name.
fn of_sections(
    library: LibraryView<'_>,
    wanted: &Wanted<'_>,
    language: Language,
    hits: &[Hit],
) -> Result<Vec<Chunk>, LibraryError> {
    let mut seen = HashSet::new();
    let named = hits.iter().map(|hit| &hit.chunk).filter(|chunk| {
        let headings = chunk.heading.as_deref().unwrap_or_default();
        let innermost = headings.rsplit(" > ").next().unwrap_or_default();
        seen.insert((chunk.document_id.as_str(), headings))
            && wanted.is_named_by(library, innermost, language)
    });
    let mut found = Vec::new();
    for chunk in named.take(MAX_BEGINNINGS) {
        let mut first = None;
        let before = (0..chunk.ordinal).rev().take(MAX_PASSAGES_BEFORE);
        for ordinal in before {
            let Some(passage) = library.chunk(&format!("{}-{ordinal}", chunk.document_id))? else {
                break;
            };
            if passage.heading != chunk.heading {
                break;
            }
            first = Some(passage);
        }
        found.extend(first);
    }
    Ok(found)
}

/// What a passage begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    /// The part of a document that is named after what the question asks the meaning of: its section, or its introduction.
    Definition,
    /// A part that is named as the question is.
    Topic,
    /// Neither.
    Nothing,
}

/// Returns what hits begin.
pub(crate) fn begin_named_parts(
    library: LibraryView<'_>,
    question: &str,
    asked: &Asked,
    language: Language,
    hits: &[Hit],
) -> Vec<Begins> {
    let Some(wanted) = Wanted::of(library, question, asked, language) else {
        return vec![Begins::Nothing; hits.len()];
    };
    let named = match wanted {
        Wanted::Subject(_) => Begins::Definition,
        Wanted::Topic(_) => Begins::Topic,
    };
    let section = |hit: &Hit| (hit.chunk.document_id.clone(), hit.chunk.heading.clone());
    let mut first: HashMap<_, u32> = HashMap::new();
    for hit in hits {
        let least = first.entry(section(hit)).or_insert(hit.chunk.ordinal);
        *least = hit.chunk.ordinal.min(*least);
    }
    let begins = |hit: &Hit| {
        let is_named = first.get(&section(hit)) == Some(&hit.chunk.ordinal)
            && wanted.is_part_named(library, &hit.chunk, library.language_of(&hit.chunk.text));
        if is_named { named } else { Begins::Nothing }
    };
    hits.iter().map(begins).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Library, LibraryLimits, ParseLimits, parse};

    #[test]
    fn the_page_of_what_is_asked_about_begins_with_its_definition() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let page = "# Struct Garden\n\nA place with birds.\n\n## count\n\nCounts the garden.\n";
        for (name, text) in [
            ("garden.md", page),
            ("other.md", "# Robins\n\nThey like a garden.\n"),
        ] {
            library
                .add(
                    name,
                    &parse(name, text.as_bytes(), &ParseLimits::default()).unwrap(),
                )
                .unwrap();
        }
        let found = |query: &str| -> Vec<String> {
            let hits = library.search("counts like", 8).unwrap();
            assert_eq!(hits.len(), 2, "{hits:?}");
            let hits = with_beginnings(library.all(), query, &library.all().visible(), hits).unwrap();
            hits.into_iter().map(|hit| hit.chunk.text).collect()
        };
        let hits = ["Counts the garden.", "They like a garden."];
        assert_eq!(
            found("what is a garden"),
            [&hits[..], &["A place with birds."]].concat()
        );
        assert_eq!(found("how do I count a garden"), hits);
        assert_eq!(found("what is a robin"), hits);
    }

    #[test]
    fn a_section_and_a_page_begin_with_their_definition() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let calls = "A robin has many calls. ".repeat(80);
        let section = format!("# Birds\n\n## Robin\n\nIt sings before dawn.\n\n{calls}\n");
        let page = "---\ntitle: Owl — The garden\n---\n\n# 1. Syntax\n\nowl;\n\n# 2. Description\n\nHunts by night.\n\n\
            # 3. More\n\nAn owl is quiet.\n";
        for (name, text) in [("birds.md", section.as_str()), ("b.md", page)] {
            library
                .add(
                    name,
                    &parse(name, text.as_bytes(), &ParseLimits::default()).unwrap(),
                )
                .unwrap();
        }
        let added = |query: &str, words: &str| -> Vec<String> {
            let last = library.search(words, 8).unwrap().pop().unwrap();
            let all = with_beginnings(library.all(), query, &library.all().visible(), vec![last]).unwrap();
            all.into_iter().skip(1).map(|hit| hit.chunk.text).collect()
        };
        let robin = added("what is a robin", "calls");
        assert_eq!(robin.len(), 1);
        assert!(robin[0].starts_with("It sings before dawn."), "{robin:?}");
        // A page is found by its title, even if no hit is of it.
        assert_eq!(added("what does owl do", "calls"), ["owl;", "Hunts by night."]);
        assert!(added("how does an owl hunt", "quiet").is_empty());
    }

    #[test]
    fn a_page_or_section_named_as_the_question_is_read_from_its_beginning() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let more = "Feeders hang in gardens. ".repeat(80);
        let page = format!("# Using feeders in gardens\n\n## Start\n\nHang it up.\n\n## Cats\n\n{more}\n");
        let section = format!(
            "# Owls\n\n## Sending owls\n\nOpen the door.\n\n{more}\n\n## Sending sick owls\n\nMany.\n"
        );
        let turning = "# Turning owls into robins\n\nOwls become.\n";
        let rid = "# Getting rid of owls\n\nClose the door.\n";
        let files = [
            ("feeders.md", page.as_str()),
            ("owls.md", section.as_str()),
            ("t.md", turning),
            ("r.md", rid),
        ];
        for (name, text) in files {
            library
                .add(
                    name,
                    &parse(name, text.as_bytes(), &ParseLimits::default()).unwrap(),
                )
                .unwrap();
        }
        let all = library.all();
        let begin = |question: &str| -> Vec<String> {
            let hits = library.search("feeders gardens many", 8).unwrap();
            let hits = with_beginnings(all, question, &all.visible(), hits).unwrap();
            let language = all.language_of_question(question);
            let asked = Asked::of(all, question, language);
            let begin = begin_named_parts(all, question, &asked, language, &hits).into_iter();
            let begun = begin.zip(&hits).filter(|(begins, _)| *begins == Begins::Topic);
            begun
                .map(|(_, hit)| hit.chunk.text.chars().take(11).collect())
                .collect()
        };
        for (question, wanted) in [
            ("how do I use feeders in gardens?", &["Hang it up."][..]),
            ("feeders garden", &["Hang it up."]),
            ("how to send owls", &["Open the do"]),
            ("sending owls", &["Open the do"]),
            // A number may be anywhere in the section, and so may a reason.
            ("how many feeders in gardens", &[]),
            ("why use feeders in gardens", &[]),
            // Words that the heading does not have.
            ("how do I send small owls", &[]),
            ("how to turn owls into robins", &["Owls become"]),
            ("how to turn robins into owls", &[]),
            ("owls setup", &["Open the do"]),
            // One word of a question is not what it is about.
            ("how do I get rid of owls there", &[]),
        ] {
            assert_eq!(begin(question), wanted, "{question}");
        }
    }
}
