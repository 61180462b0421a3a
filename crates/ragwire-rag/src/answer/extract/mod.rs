//! The answer without a model: the passages of the context that answer the question, quoted as they
//! are.
//!
//! A quote begins with a sentence, or a line of a table or listing, and takes what follows it: the
//! list after its lead-in, the code after the sentence that introduces it, the next sentences of a
//! paragraph. It is worth the share of the question's weight that it covers, alone and with its
//! heading, more if its first sentence covers it, and more if it holds the kind of answer that is
//! asked for. Quotes of the first hits are preferred. A quote that repeats a chosen one is left out.

mod about;
mod choice;
#[cfg(test)]
mod entry_tests;
mod growth;
mod segments;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use self::about::{about_quotes, part_quote};
use self::choice::{Candidate, entries_alone, without_repetition};
use self::growth::{begin, fragments_share};
use self::segments::{Segment, segments};
use crate::search::about::AboutDocument;
use crate::search::analyzer::Language;
use crate::search::asked::Asked;
use crate::search::beginnings::{Begins, begin_named_parts};
use crate::search::entries::{Part, entries};
use crate::search::identifier::{Identifier, has_identifier};
use crate::search::lexical::indexed_text;
use crate::search::lines::{LineKind, QUESTION_MARKS, names_option};
use crate::search::meaning::{ANSWERS, IS_NEAR, Meaning, SENTENCE_ANSWERS};
use crate::search::numbered::NumberedPart;
use crate::search::quantity::without_number_of;
use crate::search::terms::{Term, coverage, lessen_carried, question_terms, says_all};
use crate::{Hit, LibraryView};

/// Number of quotes of an answer at most, and of closest passages, which do not answer. Of 149
/// questions about eight libraries, answers with one quote held 0.58 of the facts with 0.49 of the
/// citations right, with two of these settings 0.66 and 0.46, and with three 0.70 and 0.45.
pub(super) const MAX_QUOTES: usize = 3;
const MAX_CLOSEST: usize = 2;
/// Number of hits that are quoted from, the best ones. Of 149 questions about eight libraries, the same
/// number of answers held the fact with five, and 0.41 of the citations were right instead of 0.45.
const QUOTED_HITS: usize = 3;
/// The same where the meaning of sentences is compared, or a number, a version or a name is asked for:
/// these find what words put behind.
const COMPARED_HITS: usize = 5;
/// A quote ends before it is longer, in bytes: what a reader takes in at a glance. In the
/// tuning half of `scripts/evaluate`, quotes of 300 bytes held 0.05 fewer facts, and quotes of 600
/// bytes 0.01 more.
const QUOTE_BYTES: usize = 450;

/// If the score of the first hit is so many times that of the second, only the first one is quoted: it
/// is clearly the best.
const CLEAR_LEAD: f32 = 1.15;
/// Weight of the words in a quote, of those in the quote and its headings, and of those in its first
/// or, slightly less, its second sentence.
const OWN_WORTH: f32 = 0.5;
const NEAR_WORTH: f32 = 0.5;
const FIRST_WORTH: f32 = 0.5;
const SECOND_SHARE: f32 = 0.7;
/// Weight of the words in the innermost heading for a quote that begins right below it.
const TOP_WORTH: f32 = 0.3;
/// Weight of the order of the hits, and how fast it falls.
const RANK_WORTH: f32 = 1.5;
const RANK_FALL: f32 = 0.2;
/// What the kind of answer that is asked for is worth.
const KIND_WORTH: f32 = 0.5;
/// What it is worth that the first sentence of a quote has the count that is asked for.
const COUNT_FIRST_WORTH: f32 = 0.15;
/// What the nearness of the first sentence to the question is worth.
const MEANING_WORTH: f32 = 1.0;
/// What a definition of the thing asked about is worth: by its heading or label, and by its sentence.
const DEFINITION_WORTH: f32 = 0.25;
const SAID_WORTH: f32 = 0.4;
/// Cost of a quote that begins with a question, which is a heading or an entry of a table of
/// contents, and of one that begins within a paragraph.
const QUESTION_COST: f32 = 0.5;
const WITHIN_COST: f32 = 0.03;
/// Cost of a quote that begins with a word that refers to the sentence before, such as `Therefore`.
const DEPENDENT_COST: f32 = 0.15;
/// Cost of a quote whose first sentence begins on the page before.
const CUT_COST: f32 = 0.4;
/// Cost of a quote without the short line above it that names what it is about, such as the name of an
/// option.
const UNTITLED_COST: f32 = 0.1;
/// Cost of a quote of lines that are not sentences: a table of contents or an index.
const FRAGMENTS_COST: f32 = 0.4;
/// Cost of a quote of headings, labels and captions alone, and of one that begins with the caption of a
/// figure or table although the question asks for neither.
const LABEL_COST: f32 = 0.5;
const CAPTION_COST: f32 = 0.3;
/// Cost of a quote that begins with a listing, which is found by the words that it happens to contain.
const LISTING_COST: f32 = 0.3;
/// Factor for a bibliography, which names every subject and answers nothing.
const BIBLIOGRAPHY_SHARE: f32 = 0.5;
/// The innermost heading is about the question from this coverage on: the text below it is
/// quoted even without a word of the question.
const HEADING_COVERAGE: f32 = 0.5;

/// The best quote has to cover this share of the question, with its headings, to be an answer, in a
/// library of up to a thousand passages. With 0.6, of 574 questions that have an answer 0.29 instead of 0.17 were shown the
/// closest passages, of which most answer, and of 155 that have none 0.91 instead of 0.85 were refused (docs/evaluation.md).
const ANSWERING: f32 = 0.5;
/// One of the passages has to cover this share of the question to be near it. Of the tuning half of
/// `scripts/evaluate`, 12 of 22 questions without an answer and none with one are below it.
const NEAR: f32 = 0.34;
/// What is added to [`ANSWERING`] for each tenfold of passages, and at most: the more passages there are, the more
/// of a question's words are together in one of them by chance. With the documents of eight libraries in
/// one, 142 instead of 137 of 149 questions were answered, and 10 instead of 3 of those without an
/// answer; with this 139 and 4.
const PER_TENFOLD: f32 = 0.05;
const MOST_FOR_TENFOLDS: f32 = 0.15;
/// The confidence in quotes that cover the whole question: of the answers of the tuning half that do,
/// so many hold the fact.
pub(super) const MAX_CONFIDENCE: f64 = 0.8;
/// An unknown word is mentioned in the answer from this share of the question's weight on.
const UNKNOWN_SHARE: f32 = 0.2;

/// How well the quotes answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Verdict {
    /// They answer.
    Answer,
    /// They are the closest passages.
    Closest,
    /// There is nothing near.
    #[default]
    Nothing,
}

/// A quote of an answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub(super) struct Quoted {
    /// Index of its hit, counted from 0.
    pub hit: usize,
    /// Its position in the text of the hit.
    pub range: Range<usize>,
    /// The share of the question that it covers with its headings, 0 to 1.
    pub coverage: f32,
}

/// The result of [`extract`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub(super) struct Extract {
    pub verdict: Verdict,
    /// The quotes, best first. Empty if there is nothing near.
    pub quoted: Vec<Quoted>,
    /// Significant words of the question that occur nowhere in the library.
    pub unknown: Vec<String>,
}

impl Extract {
    /// Returns how likely the quotes answer the question, 0 to [`MAX_CONFIDENCE`].
    pub(super) fn confidence(&self) -> f64 {
        let best = self.quoted.iter().map(|quote| quote.coverage).fold(0.0, f32::max);
        MAX_CONFIDENCE * f64::from(best)
    }
}

/// How near sentences are to the question by their meaning, by the text that was compared. Empty without
/// an embedder.
pub(super) type Nearness = HashMap<String, f32>;

/// Compares the sentences that may be quoted with the question. The first ones are compared if there are
/// too many.
pub(super) async fn compared(hits: &[Hit], meaning: &Meaning) -> Nearness {
    let mut texts: Vec<String> = Vec::new();
    for hit in hits.iter().take(COMPARED_HITS) {
        let segments = segments(&hit.chunk).into_iter();
        let sentences = segments.filter(|segment| segment.kind == LineKind::Prose);
        texts.extend(sentences.map(|segment| compared_text(hit, &segment)));
    }
    let near = meaning.nearness(texts.clone()).await;
    let known = texts.into_iter().zip(near);
    known.filter_map(|(text, near)| Some((text, near?))).collect()
}

/// Returns the text of a sentence as an indexer embeds it, so that a stored vector is used.
fn compared_text(hit: &Hit, segment: &Segment<'_>) -> String {
    indexed_text(hit.chunk.heading.as_deref(), segment.text).into_owned()
}

/// Returns whether a word of a question is a name or a number: it has a capital that is not that of the
/// first word, or a digit.
fn is_name(word: &str, question: &str) -> bool {
    let is_first = question.trim_start().starts_with(word);
    word.contains(|letter: char| letter.is_ascii_digit())
        || (!is_first && word.starts_with(char::is_uppercase))
}

/// Chooses the quotes that answer a question from its hits, best hit first. `own` is the question as it was asked, if
/// it takes words from the one before.
pub(super) fn extract(
    library: LibraryView<'_>,
    question: &str,
    own: Option<&str>,
    hits: &[Hit],
    near: &Nearness,
) -> Extract {
    let mut terms = question_terms(library, &without_number_of(question));
    if let Some(own) = own {
        lessen_carried(library, &mut terms, own);
    }
    let language = library.language_of_question(question);
    let asked = Asked::of(library, question, language);
    let reader = Reader {
        library,
        terms: &terms,
        question: question.trim().trim_end_matches(QUESTION_MARKS).to_lowercase(),
        near,
        begins: begin_named_parts(library, question, &asked, language, hits),
        asked,
        language,
        answering: ANSWERING + for_size(library.passages_found()),
    };
    let all: f32 = terms.iter().map(|term| term.weight).sum();
    // A word that the library does not have may be another word for what it has; a name is not.
    let best = near.values().copied().fold(0.0, f32::max);
    let counts = |term: &Term| {
        if best >= ANSWERS {
            is_name(&term.word, question)
        } else {
            term.weight >= all * UNKNOWN_SHARE
        }
    };
    let unknown = terms
        .iter()
        .filter(|term| !term.known && !term.is_question_word && counts(term));
    let unknown: Vec<String> = unknown.map(|term| term.word.clone()).collect();
    let part = NumberedPart::of(library, question, &library.visible());
    if let Some(quote) = part.and_then(|part| part_quote(&part, hits)) {
        return Extract {
            verdict: Verdict::Answer,
            quoted: vec![quote],
            unknown: Vec::new(),
        };
    }
    if let Some(about) = AboutDocument::of(library, question) {
        let quoted = about_quotes(library, &about, hits);
        if !quoted.is_empty() {
            return Extract {
                verdict: Verdict::Answer,
                quoted,
                unknown: Vec::new(),
            };
        }
    }
    if best < IS_NEAR && !has_near(library, question, &terms, hits) {
        return Extract {
            unknown,
            ..Extract::default()
        };
    }
    let mut candidates: Vec<Candidate> = Vec::new();
    let leads = |first: &Hit, second: &Hit| {
        first.score >= CLEAR_LEAD * second.score && (!reader.asked.is_of_kind() || reader.holds_kind(first))
    };
    let quoted_hits = match hits {
        [first, second, ..] if leads(first, second) => 1,
        _ if near.is_empty() && !reader.asked.is_of_kind() => QUOTED_HITS,
        _ => COMPARED_HITS,
    };
    for (at, hit) in hits.iter().take(quoted_hits).enumerate() {
        reader.read(at, hit, &mut candidates);
    }
    // A definition may be in a passage that mentions its subject once.
    if reader.asked.is_definition() {
        for (at, hit) in hits.iter().enumerate().take(COMPARED_HITS).skip(quoted_hits) {
            let mut read = Vec::new();
            reader.read(at, hit, &mut read);
            candidates.extend(read.into_iter().filter(|candidate| candidate.says_what));
        }
    }
    // What counts other things, or nothing, does not answer how many there are. Without an amount of money, it does not
    // answer what something costs.
    let has_count = candidates.iter().any(|candidate| candidate.counts);
    if has_count {
        candidates.retain(|candidate| candidate.counts);
    }
    let mut candidates = entries_alone(candidates, hits);
    // The sort is stable: equal worth keeps the order of the hits.
    candidates.sort_by(|a, b| b.worth.total_cmp(&a.worth));
    let mut quoted = without_repetition(candidates, hits);
    let covered = quoted.iter().map(|quote| quote.coverage).fold(0.0, f32::max);
    let lacks_price = reader.asked.is_price() && !has_count;
    let verdict = if quoted.is_empty() {
        Verdict::Nothing
    } else if covered >= reader.answering && unknown.is_empty() && !lacks_price {
        Verdict::Answer
    } else {
        quoted.truncate(MAX_CLOSEST);
        Verdict::Closest
    };
    Extract {
        verdict,
        quoted,
        unknown,
    }
}

/// Returns what is added to a share of a question that has to be covered, in a library of so many passages.
fn for_size(passages: usize) -> f32 {
    let tenfolds = (passages as f32 / 1_000.0).max(1.0).log10();
    (PER_TENFOLD * tenfolds).min(MOST_FOR_TENFOLDS)
}

/// Returns what a quote is worth by the place of its hit.
fn rank_worth(at: usize) -> f32 {
    RANK_WORTH / (1.0 + RANK_FALL * at as f32)
}

/// Returns whether one of the hits covers enough of the terms to be near the question, or has the option or
/// function that is asked about.
fn has_near(library: LibraryView<'_>, question: &str, terms: &[Term], hits: &[Hit]) -> bool {
    let identifier = Identifier::of(question);
    hits.iter().any(|hit| {
        if identifier
            .as_ref()
            .is_some_and(|identifier| identifier.is_in(&hit.chunk.text))
        {
            return true;
        }
        let language = library.language_of(&hit.chunk.text);
        let mut stems: HashSet<String> = library.terms_in(&hit.chunk.text, language).into_iter().collect();
        let heading = hit.chunk.heading.as_deref().unwrap_or_default();
        stems.extend(library.terms_in(heading, language));
        coverage(terms, |term| term.is_in(&stems)) >= NEAR
    })
}

/// Returns whether nothing in the hits is near the question by its words, as [`extract`] decides before
/// it looks at meanings.
pub(super) fn is_far(library: LibraryView<'_>, question: &str, hits: &[Hit]) -> bool {
    let terms = question_terms(library, &without_number_of(question));
    AboutDocument::of(library, question).is_none() && !has_near(library, question, &terms, hits)
}

/// Returns whether a segment is in the line of a caption: numbers there count what the figure shows.
fn is_of_caption(segments: &[Segment<'_>], segment: &Segment<'_>) -> bool {
    let first = segments.iter().find(|one| one.line == segment.line);
    first.is_some_and(Segment::is_caption)
}

/// Reads the quotes of hits.
#[derive(Debug)]
struct Reader<'a> {
    library: LibraryView<'a>,
    terms: &'a [Term],
    /// The question in lower case, without a question mark.
    question: String,
    asked: Asked,
    /// What the hits begin.
    begins: Vec<Begins>,
    /// The language of the question.
    language: Language,
    near: &'a Nearness,
    /// The share of the question that an answer has to cover.
    answering: f32,
}

impl Reader<'_> {
    fn stems(&self, text: &str, language: Language) -> HashSet<String> {
        self.library.terms_in(text, language).into_iter().collect()
    }

    fn covered(&self, stems: &HashSet<String>) -> f32 {
        coverage(self.terms, |term| term.is_in(stems))
    }

    /// Returns whether a hit has the number, version or name that is asked for.
    fn holds_kind(&self, hit: &Hit) -> bool {
        let segments = segments(&hit.chunk);
        let mut read = segments
            .iter()
            .filter(|segment| !is_of_caption(&segments, segment));
        read.any(|segment| self.asked.fit(self.library, segment.text) >= 1.0)
    }

    /// Adds the quotes of a hit, one from each of its segments on.
    fn read(&self, at: usize, hit: &Hit, candidates: &mut Vec<Candidate>) {
        let text = &hit.chunk.text;
        let language = self.library.language_of(text);
        let headings = hit.chunk.heading.as_deref().unwrap_or_default();
        let last = headings.rsplit(" > ").next().unwrap_or_default();
        let above = self.stems(headings, language);
        let below = self.covered(&self.stems(last, language));
        let share = if matches!(last.to_lowercase().as_str(), "references" | "bibliography") {
            BIBLIOGRAPHY_SHARE
        } else {
            1.0
        };
        let rank = rank_worth(at);
        let segments = segments(&hit.chunk);
        let holds = |segment: &Segment<'_>| {
            // A transcript repeats the question and does not answer it there.
            if segment.kind == LineKind::Code && segment.text.to_lowercase().contains(&self.question) {
                HashSet::new()
            } else {
                self.stems(segment.text, language)
            }
        };
        let stems: Vec<HashSet<String>> = segments.iter().map(holds).collect();
        let covered: Vec<f32> = stems.iter().map(|stems| self.covered(stems)).collect();
        let kinds: Vec<f32> = segments
            .iter()
            .zip(&covered)
            .map(|(segment, covered)| {
                if *covered > 0.0 && (self.asked.is_of_figure() || !is_of_caption(&segments, segment)) {
                    KIND_WORTH * self.asked.fit(self.library, segment.text)
                } else {
                    0.0
                }
            })
            .collect();
        let nears: Vec<f32> = segments
            .iter()
            .map(|segment| {
                self.near
                    .get(&compared_text(hit, segment))
                    .copied()
                    .unwrap_or_default()
            })
            .collect();
        let parts: Vec<Part<'_>> = segments.iter().map(Segment::part).collect();
        let identifier = self.asked.identifier();
        let known = identifier.map_or_else(Vec::new, |identifier| entries(&parts, last, identifier));
        let name = self
            .library
            .name_text(&hit.chunk.document_id, &hit.chunk.document_name);
        let around: HashSet<String> = above.union(&self.stems(&name, language)).cloned().collect();
        let all = 0..parts.len();
        for (from, segment) in segments.iter().enumerate() {
            let entry = known.iter().find(|entry| entry.start == from);
            let is_name = |label: &str| self.asked.is_named_by(self.library, label, language);
            // All of a passage describes the function in its heading.
            let described = Some(&all).filter(|_| from == 0 && has_identifier(last) && is_name(last));
            let (to, held) = self.grown(&segments, &parts, &stems, &nears, from, entry.or(described));
            // What is below the heading of a glossary is about that heading without repeating it.
            let lacks_beginning = from == 0 && hit.chunk.page.is_some() && segment.lacks_beginning();
            let is_entry = from == 0 && !lacks_beginning && self.begins[at] == Begins::Definition;
            let own = self.covered(&held).max(if is_entry { below } else { 0.0 });
            let next = nears
                .get(from + 1)
                .filter(|_| from < to)
                .copied()
                .unwrap_or_default();
            let meaning = nears[from].max(SECOND_SHARE * next);
            if own == 0.0 && below < HEADING_COVERAGE && meaning < IS_NEAR {
                continue;
            }
            let as_covered = (meaning * self.answering / SENTENCE_ANSWERS).min(1.0);
            let near = coverage(self.terms, |term| term.is_in(&held) || term.is_in(&above));
            let second = covered.get(from + 1).filter(|_| from < to);
            let second_share = if segment.is_title() { 1.0 } else { SECOND_SHARE };
            let first = covered[from]
                .max(second_share * second.copied().unwrap_or_default())
                .max(if is_entry { below } else { 0.0 });
            let kind = kinds[from..=to].iter().copied().fold(0.0, f32::max);
            let mut worth = OWN_WORTH * own
                + NEAR_WORTH * near
                + FIRST_WORTH * first
                + TOP_WORTH * below / (1 + from) as f32
                + rank
                + kind
                + MEANING_WORTH * meaning;
            let is_defined = self.asked.is_defined_by(self.library, segment.text, language);
            let counts = (self.asked.is_count() || self.asked.is_price()) && kind >= KIND_WORTH;
            if counts && kinds[from] >= KIND_WORTH {
                worth += COUNT_FIRST_WORTH;
            }
            let says_what =
                language == self.language && self.asked.says_what_it_is(self.library, segment.text, language);
            if says_what {
                // The order of the hits does not know where the definition is.
                worth += rank_worth(0) - rank;
            }
            let answers_entry =
                entry.is_some() && says_all(self.terms, |term| term.is_in(&held) || term.is_in(&around));
            let defines = is_defined
                || (from < to && segment.is_title() && is_name(segment.text))
                || is_entry
                || answers_entry;
            if says_what {
                worth += SAID_WORTH;
            } else if defines {
                worth += DEFINITION_WORTH;
            }
            if segment.is_question() || segment.text == last {
                worth -= QUESTION_COST;
            }
            if from > 0 && segments[from - 1].line == segment.line {
                worth -= WITHIN_COST;
            }
            if from > 0 && segment.depends() {
                worth -= DEPENDENT_COST;
            }
            if from > 0 && segments[from - 1].is_title() && !segment.is_title() {
                worth -= UNTITLED_COST;
            }
            if lacks_beginning {
                worth -= CUT_COST;
            }
            if segment.kind == LineKind::Code {
                worth -= LISTING_COST;
            }
            worth -= FRAGMENTS_COST * fragments_share(&segments[from..=to]);
            let names_caption = segment.is_title() && segments.get(from + 1).is_some_and(Segment::is_caption);
            if segments[from..=to].iter().all(Segment::is_label) {
                worth -= LABEL_COST;
            } else if (segments[from..=to]
                .iter()
                .find(|one| one.kind == LineKind::Prose)
                .is_some_and(Segment::is_caption)
                || names_caption)
                && !self.asked.is_of_figure()
            {
                worth -= CAPTION_COST;
            }
            // The name of an option belongs to its description.
            let label = from.checked_sub(1).map(|before| &segments[before]);
            let label = label.filter(|label| !segment.is_label() && names_option(label.text));
            candidates.push(Candidate {
                hit: at,
                range: label.map_or_else(|| begin(&segments, from, to), |label| label.start)
                    ..segments[to].end,
                stems: held,
                coverage: near.max(as_covered),
                defines,
                says_what,
                counts,
                answers_entry,
                worth: worth * share,
            });
        }
    }
}
