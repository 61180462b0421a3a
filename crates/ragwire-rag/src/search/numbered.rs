//! Questions for a numbered part of a document: `§ 433 BGB`, `what does article 17 of the GDPR say`, `section 4.2`. The
//! number is in many passages that refer to the part, and only its heading says where it is.

use std::collections::{HashMap, HashSet};

use unicode_segmentation::UnicodeSegmentation;

use crate::documents::LibraryView;
use crate::search::retrieve::led_by;
use crate::search::terms::question_terms;
use crate::{Chunk, DocumentFilter, Hit, LibraryError};

/// How many documents a question may name.
const MAX_DOCUMENTS: usize = 3;
/// How many words of a question may name a document.
const MAX_WORDS: usize = 8;
/// How many passages with the number are searched for the one whose heading has it.
const MAX_SEARCHED: usize = 1_000;
/// How many passages of a part lead.
const MAX_LEADING: usize = 3;
/// The scores of the first passage of the part and of those after it, relative to the best hit. They are so far apart that
/// only the first one is quoted.
const FIRST_LEAD: f32 = 2.0;
const LEAD: f32 = 1.5;

/// What a numbered part is called, in lower case.
const KINDS: [(Kind, &[&str]); 6] = [
    (
        Kind::Section,
        &[
            "§",
            "§§",
            "section",
            "sections",
            "sec",
            "abschnitt",
            "paragraph",
            "paragraf",
            "sección",
            "sezione",
            "seção",
        ],
    ),
    (
        Kind::Article,
        &[
            "article",
            "articles",
            "art",
            "artikel",
            "artículo",
            "articolo",
            "artigo",
        ],
    ),
    (
        Kind::Chapter,
        &["chapter", "kapitel", "chapitre", "capítulo", "capitolo"],
    ),
    (
        Kind::Rule,
        &["rule", "regel", "règle", "regla", "regola", "regra"],
    ),
    (
        Kind::Appendix,
        &["appendix", "annex", "anhang", "anlage", "annexe", "anexo"],
    ),
    (Kind::Clause, &["clause", "klausel", "cláusula", "clausola"]),
];

/// What the parts of a part are called, in lower case: `§ 433 Abs. 1`.
const SUBPARTS: [&str; 8] = [
    "abs",
    "absatz",
    "nr",
    "nummer",
    "para",
    "satz",
    "sentence",
    "subsection",
];

/// Those that laws mostly consist of come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Section,
    Article,
    Rule,
    Clause,
    Chapter,
    Appendix,
}

/// A numbered part that a question asks for.
#[derive(Debug)]
pub(crate) struct NumberedPart {
    label: Label,
    /// What the question calls the part.
    word: Option<String>,
    /// The documents that the question names. Empty if it names none.
    documents: Vec<String>,
    /// Whether the question asks for the part as a whole.
    is_all: bool,
}

/// The number of a part, with what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Label {
    kind: Option<Kind>,
    number: String,
}

impl NumberedPart {
    /// Returns the part that a question asks for, in a document that `filter` selects.
    pub(crate) fn of(library: LibraryView<'_>, question: &str, filter: &DocumentFilter) -> Option<Self> {
        let (label, word, rest) = Label::in_question(question)?;
        // Without `section`, only the short name of a document makes a number the number of a part: `bgb 433`.
        if label.kind.is_none() && rest.split_whitespace().count() != 1 {
            return None;
        }
        let terms = question_terms(library, &rest).into_iter();
        let stems: Vec<Vec<String>> = terms
            .filter(|term| !term.is_question_word)
            .map(|term| term.stems)
            .collect();
        let (named, documents) = named_documents(library, &stems, filter);
        let is_all = named == stems.len();
        let has_short_name = || {
            is_all && !documents.is_empty() && documents.iter().all(|id| is_short_name(library, id, &rest))
        };
        let is_sure = documents.len() <= MAX_DOCUMENTS && (label.kind.is_some() || has_short_name());
        is_sure.then_some(Self {
            label,
            word,
            documents,
            is_all,
        })
    }

    /// Returns whether the question asks for a part as a whole, and a passage begins with it.
    pub(crate) fn is(&self, chunk: &Chunk) -> bool {
        self.is_all && self.is_of_part(chunk)
    }

    /// Returns whether hits begin with the part.
    pub(crate) fn leads(&self, hits: &[Hit]) -> bool {
        hits.first().is_some_and(|hit| self.is_of_part(&hit.chunk))
    }

    fn is_of_part(&self, chunk: &Chunk) -> bool {
        let is_named = self.documents.is_empty() || self.documents.contains(&chunk.document_id);
        is_named && self.heading_of(chunk).is_some()
    }

    /// Returns the label of a passage's heading if it is that of the part.
    fn heading_of(&self, chunk: &Chunk) -> Option<Label> {
        let headings = chunk.heading.as_deref().unwrap_or_default();
        let last = headings.rsplit(" > ").next().unwrap_or_default();
        Label::of_heading(last).filter(|label| {
            let is_same_kind =
                label.kind.is_none() || self.label.kind.is_none() || label.kind == self.label.kind;
            is_same_kind && label.number == self.label.number
        })
    }

    /// Puts the passages of the part before `hits`.
    pub(crate) fn lead(
        &self,
        library: LibraryView<'_>,
        filter: &DocumentFilter,
        hits: Vec<Hit>,
    ) -> Result<Vec<Hit>, LibraryError> {
        let mut of_documents = filter.clone();
        if !self.documents.is_empty() {
            of_documents.documents.clone_from(&self.documents);
        }
        // A letter may be a stop word.
        let query = match &self.word {
            Some(word) if self.label.number.len() == 1 => format!("{word} {}", self.label.number),
            Some(_) | None => self.label.number.clone(),
        };
        let mut found = library.search_in(&query, MAX_SEARCHED, &of_documents)?;
        found.retain(|hit| self.heading_of(&hit.chunk).is_some());
        // Without a name, the document of the best hit is meant, otherwise that of the best passage with the number.
        let meant = hits.iter().chain(&found).map(|hit| &hit.chunk.document_id);
        let has = |id: &&String| found.iter().any(|hit| hit.chunk.document_id == **id);
        let Some(meant) = meant.into_iter().find(has).cloned() else {
            return Ok(hits);
        };
        found.retain(|hit| hit.chunk.document_id == meant);
        // `bgb 17` is § 17, even if there is a chapter 17, and section 3 is not step 3.
        let kind_of = |hit: &Hit| self.heading_of(&hit.chunk).and_then(|label| label.kind);
        let order = |hit: &Hit| kind_of(hit).map_or((true, None), |kind| (false, Some(kind)));
        let best_kind = found.iter().map(order).min();
        found.retain(|hit| Some(order(hit)) == best_kind);
        found.sort_by_key(|hit| hit.chunk.ordinal);
        found.truncate(MAX_LEADING);
        let best = hits.first().map_or(1.0, |hit| hit.score);
        for (at, hit) in found.iter_mut().enumerate() {
            hit.score = best * if at == 0 { FIRST_LEAD } else { LEAD };
        }
        Ok(led_by(found, hits))
    }
}

/// Returns whether a text is the name of a file or folder of a document, or an abbreviation in its title.
fn is_short_name(library: LibraryView<'_>, document_id: &str, text: &str) -> bool {
    let Some(document) = library.document(document_id) else {
        return false;
    };
    let title = document.title.unwrap_or_default();
    let is_abbreviation =
        |word: &str| word.len() > 1 && word.eq_ignore_ascii_case(text) && word.to_uppercase() == word;
    let stem = |part: &str| part.split_once('.').map_or(part.len(), |(stem, _)| stem.len());
    let is_part = |part: &str| part[..stem(part)].eq_ignore_ascii_case(text);
    !text.is_empty() && (document.name.split('/').any(is_part) || title.unicode_words().any(is_abbreviation))
}

/// Returns how many of the words the names of documents have at most, and the documents that have so many.
fn named_documents(
    library: LibraryView<'_>,
    words: &[Vec<String>],
    filter: &DocumentFilter,
) -> (usize, Vec<String>) {
    let mut named: HashMap<String, usize> = HashMap::new();
    for stems in words.iter().take(MAX_WORDS) {
        let mut with_word: HashSet<String> = HashSet::new();
        for stem in stems {
            for (id, name) in library.named(stem, filter) {
                if library.terms_in(&name, library.language_of(&name)).contains(stem) {
                    with_word.insert(id);
                }
            }
        }
        for id in with_word {
            *named.entry(id).or_default() += 1;
        }
    }
    let most = named.values().copied().max().unwrap_or_default();
    let mut documents: Vec<(String, usize)> = named.into_iter().filter(|(_, count)| *count == most).collect();
    documents.sort_by(|one, other| one.0.cmp(&other.0));
    (most, documents.into_iter().map(|(id, _)| id).collect())
}

impl Label {
    /// Returns the only number of a question that may be that of a part, what it is called, and the question without both.
    fn in_question(question: &str) -> Option<(Self, Option<String>, String)> {
        let spaced = question.replace('§', " § ");
        let words: Vec<&str> = spaced
            .split_whitespace()
            .map(bare)
            .filter(|word| !word.is_empty())
            .collect();
        // `the state of the art 2024` has no article.
        let is_art = |at: usize| words[at].eq_ignore_ascii_case("art") && at > 0 && words[at - 1] == "the";
        let kind_before = |at: usize| {
            let before = at.checked_sub(1).filter(|before| !is_art(*before))?;
            kind(words[before])
        };
        let is_number = |at: &usize| number(words[*at], kind_before(*at)).is_some();
        let numbers: Vec<usize> = (0..words.len()).filter(is_number).collect();
        let with_kind = numbers.iter().copied().find(|at| kind_before(*at).is_some());
        let at = match (with_kind, &numbers[..]) {
            (Some(at), _) => at,
            (None, [only]) => *only,
            (None, _) => return None,
        };
        let kind = kind_before(at);
        let number = number(words[at], kind)?;
        let is_subpart = |index: usize| SUBPARTS.contains(&words[index].to_lowercase().as_str());
        let left_out = |index: usize| {
            let is_of_subpart = is_subpart(index) || (index > 0 && is_subpart(index - 1));
            index == at || (kind.is_some() && (index + 1 == at || is_of_subpart))
        };
        let word = at
            .checked_sub(1)
            .filter(|_| kind.is_some())
            .map(|before| words[before].to_owned());
        let rest = words.iter().enumerate().filter(|(index, _)| !left_out(*index));
        let rest: Vec<&str> = rest.map(|(_, word)| *word).collect();
        Some((Self { kind, number }, word, rest.join(" ")))
    }

    /// Returns the label that a heading begins with: `§ 433 Sale`, `Article 17`, `4.2. Birds`.
    fn of_heading(heading: &str) -> Option<Self> {
        let spaced = heading.replace('§', " § ");
        let mut words = spaced.split_whitespace().map(bare);
        let first = words.next()?;
        let kind = kind(first);
        let candidate = if kind.is_some() { words.next()? } else { first };
        let number = number(candidate, kind)?;
        Some(Self { kind, number })
    }
}

/// Returns a word without the marks around it. `(5)` is a paragraph of a part.
fn bare(word: &str) -> &str {
    word.trim_end_matches([',', '.', ':', ';', '?', '!', '"', '”', '\''])
        .trim_start_matches(['"', '“', '\''])
}

fn kind(word: &str) -> Option<Kind> {
    let lower = word.to_lowercase();
    let of_word = KINDS.iter().find(|(_, words)| words.contains(&lower.as_str()));
    of_word.map(|(kind, _)| *kind)
}

/// Returns a word in lower case if it is the number of a part: `433`, `573c`, `4.2`, and of an appendix one letter.
fn number(word: &str, kind: Option<Kind>) -> Option<String> {
    let lower = word.to_lowercase();
    let mut letters = lower.chars();
    let is_letter = kind == Some(Kind::Appendix)
        && letters.next().is_some_and(|c| c.is_ascii_lowercase())
        && letters.next().is_none();
    let digits = lower
        .strip_suffix(|c: char| c.is_ascii_lowercase())
        .unwrap_or(&lower);
    let is_number = !digits.is_empty()
        && digits
            .split('.')
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    (is_letter || is_number).then_some(lower)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Library, LibraryLimits, ParseLimits, parse};

    #[test]
    fn a_question_has_the_number_of_a_part() {
        let label = |kind, number: &str| Label {
            kind,
            number: number.to_owned(),
        };
        for (question, wanted) in [
            ("§433 BGB", Some((label(Some(Kind::Section), "433"), "BGB"))),
            ("bgb 573c", Some((label(None, "573c"), "bgb"))),
            (
                "what does Article 17 of the GDPR say?",
                Some((label(Some(Kind::Article), "17"), "what does of the GDPR say")),
            ),
            ("section 4.2.", Some((label(Some(Kind::Section), "4.2"), ""))),
            ("appendix B", Some((label(Some(Kind::Appendix), "b"), ""))),
            (
                "§ 433 Abs. 1 BGB",
                Some((label(Some(Kind::Section), "433"), "BGB")),
            ),
            ("what is the article I uploaded about", None),
            ("the state of the art in 2024 and 2025", None),
            ("2 of 3 birds", None),
            ("which birds", None),
        ] {
            let found = Label::in_question(question).map(|(label, _, rest)| (label, rest));
            let wanted = wanted.map(|(label, rest)| (label, rest.to_owned()));
            assert_eq!(found, wanted, "{question}");
        }
    }

    #[test]
    fn the_part_with_the_number_leads() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let refers = "The 17 birds of Article 17 and § 17 count. ".repeat(3);
        let law = format!(
            "# Bird Law (BIL)\n\n## § 1 Scope\n\n{refers}\n\n## Chapter 17\n\nOwls.\n\n## § 17 Nests\n\nNests are kept.\n\n\
             ## § 17a Eggs\n\n{refers}\n\n## 17 ways to sing\n\nSing.\n\n## Appendix A\n\nA list.\n"
        );
        let other = "# Fish Law (FIL)\n\n## § 17 Nets\n\nNets have holes. Fish pass 17.\n";
        for (name, text) in [("a.md", law.as_str()), ("b.md", other)] {
            let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
            library.add(name, &parsed).unwrap();
        }
        let all = DocumentFilter::default();
        let first = |question: &str| -> Option<String> {
            let hits = library.search(question, 8).unwrap();
            let part = NumberedPart::of(library.all(), question, &all)?;
            let hits = part.lead(library.all(), &all, hits).unwrap();
            assert!(hits[0].score > hits[1].score, "{hits:?}");
            Some(hits[0].chunk.text.clone())
        };
        assert_eq!(first("§ 17 BIL").as_deref(), Some("Nests are kept."));
        assert_eq!(first("bil 17").as_deref(), Some("Nests are kept."));
        assert_eq!(
            first("what does section 17 of FIL say").as_deref(),
            Some("Nets have holes. Fish pass 17.")
        );
        assert_eq!(first("chapter 17 in the bird law").as_deref(), Some("Owls."));
        assert_eq!(first("appendix a of the bird law").as_deref(), Some("A list."));
        assert_eq!(first("§ 17 Abs. 1 BIL").as_deref(), Some("Nests are kept."));
        assert_eq!(first("17 birds"), None);
        // What the document that is named does not have is not that of another one.
        let part = NumberedPart::of(library.all(), "chapter 17 of FIL", &all).unwrap();
        let hits = library.search("chapter 17 owls", 8).unwrap();
        assert_eq!(hits[0].chunk.text, "Owls.");
        assert!(!part.is(&hits[0].chunk) && !part.leads(&hits));
        assert_eq!(first("b 17").as_deref(), Some("Nets have holes. Fish pass 17."));
    }
}
