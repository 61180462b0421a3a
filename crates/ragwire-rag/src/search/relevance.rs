//! Orders the hits of a search once more, by what the scores of their words do not see: whether headings,
//! title and name say that the passage is about the question, whether the question's words are
//! together, in one sentence and in the question's language, and whether the passage is from a list of
//! changes or a test, a table of contents or a few words. With an embedder, also how near it is by its meaning.

use std::collections::{HashMap, HashSet};

use crate::documents::chunk::TARGET_BYTES;
use crate::documents::{phrases, sentences};
use crate::search::analyzer::{Language, is_paired};
use crate::search::asked::Asked;
use crate::search::beginnings::{Begins, begin_named_parts};
use crate::search::bounds::{asks_for_bound, names_bound};
use crate::search::entries::{Part, entries, is_continued};
use crate::search::lines::{LineKind, QUESTION_MARKS, guess_line_kinds, is_title, names_option};
use crate::search::secondary::Secondary;
use crate::search::terms::{Term, coverage, question_terms, says_all};
use crate::{Hit, LibraryView};

/// How much each property counts, as a share of the best hit's score. The weights are those of a
/// ranking by logistic regression, rounded, over 148 questions about eight libraries. For each library
/// the weights of the other seven put as many passages first as these do, within one question; without
/// any one of them the first hits are 0 to 6 fewer, and doubling or halving one changes them by 6 at
/// most. Five of the libraries are the tuning half of `scripts/evaluate`.
const HEADING_SHARE: f32 = 0.25;
const HEADINGS_SHARE: f32 = 0.35;
const NAME_SHARE: f32 = 0.45;
const SENTENCE_SHARE: f32 = 0.35;
const PAIRS_SHARE: f32 = 0.45;
/// A sentence that defines what the question asks about, and one with the kind of answer that it asks
/// for.
const DEFINITION_SHARE: f32 = 0.5;
const KIND_SHARE: f32 = 0.2;
/// The same for a question how many there are: the words of such a question are few and everywhere.
const COUNT_SHARE: f32 = 0.6;
/// The longest run of the question's words, in its order.
const RUN_SHARE: f32 = 0.15;
/// A passage of the size at which it is full: BM25 prefers the shortest, which rarely answer.
const LENGTH_SHARE: f32 = 0.3;
/// How near a passage is by its meaning, from 0 to 1, relative to the farthest that is known. Weights from
/// 1.5 to 2.5 gave almost the same answers; the fusion of ranks in place of it gave worse ones
/// (docs/decisions/search.md).
const MEANING_SHARE: f32 = 2.0;
/// A passage of the document that answers the question before, for a question that depends on it. Of 27 such
/// questions, two more have an answering passage first; twice the share changes one citation.
const SAME_DOCUMENT_SHARE: f32 = 0.3;
/// The words of the conversation. Of 284 questions that people asked in conversations, an answering passage is first for
/// 0.73 instead of 0.68 (`scripts/evaluate-annotated`). Larger shares gain no more than 0.01, and a question about something
/// else loses by them.
const TOPIC_SHARE: f32 = 0.45;
/// The beginning of a page or section whose heading has the words of the question and no others. With 0.5, as for a definition,
/// two of 210 answers began with an introduction instead of the steps behind it.
const NAMED_SHARE: f32 = 0.25;
/// A passage about limits, if a question asks for one.
const BOUND_SHARE: f32 = 0.3;
const OTHER_LANGUAGE_COST: f32 = 0.5;
const FRAGMENTS_COST: f32 = 0.15;
/// A passage of a list of changes or of tests.
const SECONDARY_COST: f32 = 0.5;
const QUESTIONS_COST: f32 = 0.2;
/// How far apart two neighbouring words of a question may be in a passage.
const PAIR_DISTANCE: usize = 2;
/// What is known of passages besides their words.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// How near passages are to the question by their meaning, relative to the farthest that is known. Empty
    /// without an embedder.
    near: HashMap<String, f32>,
    /// The document that answers the question before, for one that depends on it.
    document: Option<String>,
    /// The words of the conversation.
    topic: Vec<Term>,
}

impl Known {
    /// Takes the passages nearest to a question, whose scores are their nearness.
    pub(crate) fn of(nearest: &[Hit]) -> Self {
        let farthest = nearest.iter().map(|hit| hit.score).fold(1.0, f32::min);
        let relative = |hit: &Hit| (hit.chunk.id.clone(), hit.score - farthest);
        Self {
            near: nearest.iter().map(relative).collect(),
            document: None,
            topic: Vec::new(),
        }
    }

    /// Sets the document that answers the question before.
    pub(crate) fn after(mut self, document: Option<String>) -> Self {
        self.document = document;
        self
    }

    /// Sets the words of the conversation.
    pub(crate) fn amid(mut self, topic: Vec<Term>) -> Self {
        self.topic = topic;
        self
    }

    /// Returns what it adds to the relevance of a hit.
    fn worth(&self, hit: &Hit) -> f32 {
        let near = self.near.get(&hit.chunk.id).copied().unwrap_or_default();
        let is_same = self.document.as_ref() == Some(&hit.chunk.document_id);
        MEANING_SHARE * near + SAME_DOCUMENT_SHARE * f32::from(u8::from(is_same))
    }
}

/// Returns the hits of `query`, the most relevant first, with scores in that order. Equally relevant
/// hits keep their order.
pub(crate) fn by_relevance(library: LibraryView<'_>, query: &str, hits: Vec<Hit>, known: &Known) -> Vec<Hit> {
    let terms = question_terms(library, query);
    let best = hits.iter().map(|hit| hit.score).fold(0.0, f32::max);
    // Passages with a phrase in quotation marks stay first.
    let has_phrase = !phrases(query).is_empty();
    if terms.is_empty() || hits.len() < 2 || best <= 0.0 || has_phrase {
        return hits;
    }
    let lower = query.to_lowercase();
    let language = library.language_of_question(&library.well_spelled(query));
    let asked = Asked::of(library, query, language);
    let is_bound = asks_for_bound(query, language);
    let asked_in_characters = query.chars().any(is_paired);
    let passages: Vec<Passage> = hits.iter().map(|hit| Passage::read(library, hit)).collect();
    let headings: HashSet<&String> = passages
        .iter()
        .flat_map(|passage| &passage.last_heading)
        .collect();
    let names: Vec<String> = headings.into_iter().cloned().collect();
    let weights = library.weights(&names).into_iter();
    let weights: HashMap<String, f32> = names.into_iter().zip(weights).collect();
    let entries = first_entries(&hits, &passages, &terms, &asked);
    let mut relevant: Vec<f32> = Vec::with_capacity(hits.len());
    let named = begin_named_parts(library, query, &asked, language, &hits);
    let defined = entries
        .into_iter()
        .zip(named)
        .map(|(has_entry, begins)| (has_entry || begins == Begins::Definition, begins == Begins::Topic));
    for ((hit, passage), (is_defined, is_topic)) in hits.iter().zip(&passages).zip(defined) {
        let text = &hit.chunk.text;
        let mut relevance = hit.score / best
            + known.worth(hit)
            + TOPIC_SHARE * coverage(&known.topic, |term| passage.has(term))
            + HEADING_SHARE * passage.heading_match(&terms, &weights)
            + HEADINGS_SHARE * coverage(&terms, |term| term.is_in(&passage.headings))
            + NAME_SHARE * coverage(&terms, |term| term.is_in(&passage.name))
            + passage.best_sentence(library, &terms, &asked, is_defined)
            + NAMED_SHARE * f32::from(u8::from(is_topic))
            + PAIRS_SHARE * passage.pairs(&terms)
            + LENGTH_SHARE * (text.len() as f32 / TARGET_BYTES as f32).min(1.0)
            + RUN_SHARE * passage.run(&terms)
            - QUESTIONS_COST * questions_share(text)
            - FRAGMENTS_COST * fragments(text);
        if is_bound {
            relevance += BOUND_SHARE * passage.bound();
        }
        if passage.language != language || in_characters(text) != asked_in_characters {
            relevance -= OTHER_LANGUAGE_COST;
        }
        if Secondary::of(hit).is_some_and(|secondary| !secondary.is_asked_for(&lower)) {
            relevance -= SECONDARY_COST;
        }
        relevant.push(relevance);
    }
    drop(passages);
    let mut ordered: Vec<(f32, Hit)> = relevant.into_iter().zip(hits).collect();
    ordered.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let scored = |(relevance, mut hit): (f32, Hit)| {
        hit.score = best * relevance.max(f32::EPSILON);
        hit
    };
    ordered.into_iter().map(scored).collect()
}

/// Returns which hits have the beginning of the entry that is asked about.
fn first_entries(hits: &[Hit], passages: &[Passage<'_>], terms: &[Term], asked: &Asked) -> Vec<bool> {
    let starts: Vec<Option<usize>> = passages
        .iter()
        .map(|passage| passage.entry_start(terms, asked))
        .collect();
    let with_entry = || {
        let known = hits.iter().zip(&starts).filter(|(_, start)| start.is_some());
        known.map(|(hit, _)| &hit.chunk)
    };
    let begins = |(hit, start): (&Hit, &Option<usize>)| {
        start.is_some_and(|start| !is_continued(&hit.chunk, start, with_entry()))
    };
    hits.iter().zip(&starts).map(begins).collect()
}

/// The words of a hit.
#[derive(Debug)]
struct Passage<'a> {
    language: Language,
    /// The stems of all headings.
    headings: HashSet<String>,
    /// The stems of the innermost heading.
    last_heading: HashSet<String>,
    /// The stems of the title and the name of the document.
    name: HashSet<String>,
    /// The sentences with their stems.
    sentences: Vec<(Part<'a>, HashSet<String>)>,
    /// The words of the headings and of the text, in order, without the parts of identifiers.
    order: [Vec<String>; 2],
    /// The innermost heading as it is written.
    heading: &'a str,
}

impl<'a> Passage<'a> {
    fn read(library: LibraryView<'_>, hit: &'a Hit) -> Self {
        let chunk = &hit.chunk;
        let language = library.language_of(&chunk.text);
        let headings = chunk.heading.as_deref().unwrap_or_default();
        let (mut all, mut last, mut order) = (HashSet::new(), HashSet::new(), [Vec::new(), Vec::new()]);
        for heading in headings.split(" > ") {
            last.clear();
            for token in library.tokens_in(heading, language) {
                last.insert(token.term.clone());
                if !token.is_part {
                    order[0].push(token.term);
                }
            }
            all.extend(last.iter().cloned());
        }
        let mut read = Vec::new();
        // A listing is not a sentence: it repeats a question, as a transcript does, and does not answer it. Listings are
        // guessed even where they are known, which orders hits slightly better (docs/decisions/documents.md).
        let lines = chunk
            .text
            .split('\n')
            .zip(guess_line_kinds(&chunk.text))
            .enumerate();
        let prose = lines.filter(|(_, (_, kind))| *kind != LineKind::Code);
        let part = |(line, (text, kind))| {
            sentences(text)
                .into_iter()
                .map(move |text| Part::new(text, line, kind))
        };
        for part in prose.flat_map(part) {
            let sentence = part.text;
            let mut stems = HashSet::new();
            for token in library.tokens_in(sentence, language) {
                if !token.is_part {
                    order[1].push(token.term.clone());
                }
                stems.insert(token.term);
            }
            read.push((part, stems));
        }
        let name = library.name_text(&chunk.document_id, &chunk.document_name);
        Self {
            language,
            headings: all,
            last_heading: last,
            name: library.terms_in(&name, language).into_iter().collect(),
            sentences: read,
            order,
            heading: headings.rsplit(" > ").next().unwrap_or_default(),
        }
    }

    /// Returns 1 if a heading or the name says that it is about limits, and half of it if only the text does.
    fn bound(&self) -> f32 {
        if names_bound(self.headings.iter().chain(&self.name)) {
            1.0
        } else if self.sentences.iter().any(|(_, stems)| names_bound(stems.iter())) {
            0.5
        } else {
            0.0
        }
    }

    /// Returns whether the text, a heading or the name has a word.
    fn has(&self, term: &Term) -> bool {
        term.is_in(&self.headings)
            || term.is_in(&self.name)
            || self.sentences.iter().any(|(_, stems)| term.is_in(stems))
    }

    /// Returns how much the innermost heading and the question are the same, from 0 to 1.
    fn heading_match(&self, terms: &[Term], weights: &HashMap<String, f32>) -> f32 {
        let asked = |stem: &&String| terms.iter().any(|term| term.stems.contains(stem));
        let weight = |stem: &String| weights.get(stem).copied().unwrap_or_default();
        let all: f32 = self.last_heading.iter().map(weight).sum();
        let shared: f32 = self.last_heading.iter().filter(asked).map(weight).sum();
        let covered = coverage(terms, |term| term.is_in(&self.last_heading));
        let asked = if all > 0.0 { shared / all } else { 0.0 };
        if covered + asked > 0.0 {
            2.0 * covered * asked / (covered + asked)
        } else {
            0.0
        }
    }

    /// Returns what the sentences are worth: the words that the best one covers, half of them with the
    /// headings, a definition, and the kind of answer that is asked for. `is_defined` says that the passage begins what is
    /// asked about.
    fn best_sentence(
        &self,
        library: LibraryView<'_>,
        terms: &[Term],
        asked: &Asked,
        is_defined: bool,
    ) -> f32 {
        let (mut covers, mut fits) = (0.0_f32, 0.0_f32);
        let mut defines = is_defined;
        for (at, (part, stems)) in self.sentences.iter().enumerate() {
            let sentence = part.text;
            let own = coverage(terms, |term| term.is_in(stems));
            if own == 0.0 || sentence.ends_with(QUESTION_MARKS) {
                continue;
            }
            let near = coverage(terms, |term| term.is_in(stems) || term.is_in(&self.headings));
            covers = covers.max((own + near) / 2.0);
            fits = fits.max(own * asked.fit(library, sentence));
            defines = defines
                || asked.is_defined_by(library, sentence, self.language)
                || (at + 1 < self.sentences.len()
                    && is_title(sentence)
                    && asked.is_named_by(library, sentence, self.language));
        }
        let defines = f32::from(u8::from(defines));
        let kind_share = if asked.is_count() { COUNT_SHARE } else { KIND_SHARE };
        SENTENCE_SHARE * covers + kind_share * fits + DEFINITION_SHARE * defines
    }

    /// Returns where an entry of the identifier that is asked about begins, if it has all words of the question, with the
    /// headings and names above it.
    fn entry_start(&self, terms: &[Term], asked: &Asked) -> Option<usize> {
        let parts: Vec<Part<'_>> = self.sentences.iter().map(|(part, _)| *part).collect();
        let identifier = asked.identifier()?;
        let found = entries(&parts, self.heading, identifier)
            .into_iter()
            .find(|entry| {
                let within = &self.sentences[entry.clone()];
                says_all(terms, |term| {
                    let is_above = term.is_in(&self.headings) || term.is_in(&self.name);
                    is_above || within.iter().any(|(_, stems)| term.is_in(stems))
                })
            });
        found.map(|entry| entry.start)
    }

    /// Returns the share of the question that the longest run of its words has, beyond a single word.
    fn run(&self, terms: &[Term]) -> f32 {
        let longest = self.order.iter().map(|words| longest_run(words, terms)).max();
        let longest = longest.unwrap_or_default().saturating_sub(1);
        longest as f32 / terms.len().saturating_sub(1).max(1) as f32
    }

    /// Returns the share of the neighbouring words of a question that are neighbours here too.
    fn pairs(&self, terms: &[Term]) -> f32 {
        let wanted = terms.windows(2).count();
        let share = |words: &Vec<String>| {
            let together = terms.windows(2).filter(|pair| {
                let [one, other] = pair else { return false };
                words.iter().enumerate().any(|(at, word)| {
                    let near = at.saturating_sub(1)..=at + PAIR_DISTANCE;
                    one.stems.contains(word)
                        && near
                            .filter_map(|at| words.get(at))
                            .any(|word| other.stems.contains(word))
                })
            });
            together.count() as f32 / wanted.max(1) as f32
        };
        self.order.iter().map(share).fold(0.0, f32::max)
    }
}

/// Returns how many words of the question follow each other as in the question.
fn longest_run(words: &[String], terms: &[Term]) -> usize {
    let (mut longest, mut run, mut last) = (0, 0, None);
    for word in words {
        let at = terms.iter().position(|term| term.stems.contains(word));
        run = match (last, at) {
            (Some(last), Some(at)) if at == last + 1 => run + 1,
            (_, Some(_)) => 1,
            (_, None) => 0,
        };
        longest = longest.max(run);
        last = at;
    }
    longest
}

/// Returns how much more than half of the lines are not sentences, from 0 to 1: high for an index or a
/// table of contents.
fn fragments(text: &str) -> f32 {
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let titles = lines()
        .filter(|line| is_title(line) && !names_option(line))
        .count();
    (2.0 * titles as f32 / lines().count().max(1) as f32 - 1.0).max(0.0)
}

/// Returns the share of the lines that are questions, as in a table of contents.
fn questions_share(text: &str) -> f32 {
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let questions = lines().filter(|line| line.trim_end().ends_with(QUESTION_MARKS));
    questions.count() as f32 / lines().count().max(1) as f32
}

/// Returns whether a text is in Chinese, Japanese or Korean. A translation keeps names and listings as they are.
fn in_characters(text: &str) -> bool {
    let characters = text.chars().filter(|letter| is_paired(*letter)).count();
    characters * 10 >= text.chars().filter(|letter| letter.is_alphabetic()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Library, LibraryLimits, ParseLimits, parse};

    fn ordered(files: &[(&str, &str)], query: &str) -> Vec<Hit> {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        for (name, text) in files {
            let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
            library.add(name, &parsed).unwrap();
        }
        let hits = library.search(query, 10).unwrap();
        by_relevance(library.all(), query, hits, &Known::default())
    }

    fn first(files: &[(&str, &str)], query: &str) -> String {
        let hits = ordered(files, query);
        assert!(hits.is_sorted_by(|a, b| a.score >= b.score) && hits.iter().all(|hit| hit.score > 0.0));
        hits[0].chunk.document_name.clone()
    }

    #[test]
    fn a_passage_about_limits_leads_if_a_question_asks_for_one() {
        let files = [
            ("a.md", "# Birds\n\nA nest of owls has 12 eggs or fewer.\n"),
            (
                "b.md",
                "# Limits\n\nA nest of owls has 12 eggs or fewer, it says.\n",
            ),
        ];
        let first = |question: &str| ordered(&files, question)[0].chunk.document_name.clone();
        assert_eq!(first("how many eggs can a nest have"), "b.md");
        assert_eq!(first("how many eggs does a nest have"), "a.md");
    }

    #[test]
    fn the_section_that_asks_the_question_is_before_those_that_mention_its_words() {
        let asked = (
            "faq.md",
            "# How do I hold a package?\n\nRun the tool with the option and then wait until it is done, which may take some time.",
        );
        let mentions = (
            "list.md",
            "# Other\n\nA package. To hold a package, hold the package hold.",
        );
        assert_eq!(first(&[mentions, asked], "how do i hold a package"), "faq.md");
        // A phrase in quotation marks comes first, a word does not.
        assert_eq!(first(&[mentions, asked], "how do i hold a \"package\""), "faq.md");
        assert_eq!(
            first(&[mentions, asked], "how do i \"hold a package\""),
            "list.md"
        );
    }

    #[test]
    fn nearness_decides_between_equal_words_and_does_not_outweigh_all_of_them() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        for (name, text) in [
            ("a.md", "The robin sings in the garden at dawn."),
            ("b.md", "The robin sings in the garden at dusk."),
            ("c.md", "Another bird is quiet."),
        ] {
            let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
            library.add(name, &parsed).unwrap();
        }
        let query = "when does the robin sing in the garden";
        let mut hits = library.search(query, 10).unwrap();
        let other = library.search("quiet bird", 1).unwrap().remove(0);
        hits.push(Hit::new(other.chunk, 0.0));
        let near = |name: &str, score: f32| {
            let hit = hits.iter().find(|hit| hit.chunk.document_name == name).unwrap();
            Hit::new(hit.chunk.clone(), score)
        };
        for (nearer, farther) in [("a.md", "b.md"), ("b.md", "a.md")] {
            let near = Known::of(&[near("c.md", 0.6), near(nearer, 0.5), near(farther, 0.2)]);
            let names: Vec<String> = by_relevance(library.all(), query, hits.clone(), &near)
                .into_iter()
                .map(|hit| hit.chunk.document_name)
                .collect();
            assert_eq!(names, [nearer, farther, "c.md"]);
        }
    }

    #[test]
    fn the_document_for_the_question_before_decides_between_equal_words() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        for name in ["a.md", "b.md"] {
            let text = format!("The robin in {name} weighs 20 grams.");
            let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
            library.add(name, &parsed).unwrap();
        }
        let query = "what does the robin weigh";
        let hits = library.search(query, 10).unwrap();
        for (first, second) in [("a.md", "b.md"), ("b.md", "a.md")] {
            let document = hits.iter().find(|hit| hit.chunk.document_name == first);
            let known = Known::default().after(document.map(|hit| hit.chunk.document_id.clone()));
            let names: Vec<String> = by_relevance(library.all(), query, hits.clone(), &known)
                .into_iter()
                .map(|hit| hit.chunk.document_name)
                .collect();
            assert_eq!(names, [first, second]);
        }
    }

    #[test]
    fn the_words_of_the_conversation_decide_between_equal_words() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        for (name, court) in [("a.md", "family"), ("b.md", "traffic")] {
            let text = format!("The fees of a {court} court are paid at the counter.");
            let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
            library.add(name, &parsed).unwrap();
        }
        let query = "where are the fees paid";
        let hits = library.search(query, 10).unwrap();
        for (before, first) in [
            ("is there a family court", "a.md"),
            ("is there a traffic court", "b.md"),
        ] {
            let known = Known::default().amid(question_terms(library.all(), before));
            let ordered = by_relevance(library.all(), query, hits.clone(), &known);
            assert_eq!(ordered[0].chunk.document_name, first);
        }
    }

    #[test]
    fn the_entry_of_an_identifier_is_before_what_mentions_it() {
        let entry = (
            "options.html",
            "<dl><dt>max_feathers (integer)<dd>Sets how many a bird may have. The default is 100.</dl>",
        );
        let mentions = (
            "owls.html",
            "<p>The default of an owl is less than max_feathers, and max_feathers is less than all.",
        );
        assert_eq!(first(&[mentions, entry], "default max_feathers"), "options.html");
    }

    #[test]
    fn the_longest_run_of_words_in_the_order_of_the_question_counts() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let terms = question_terms(library.all(), "flush the mail queue now");
        for (text, wanted) in [
            ("flush mail queue", 3),
            ("queue mail flush", 1),
            ("mail queue, then flush mail", 2),
            ("owl", 0),
            ("", 0),
        ] {
            let words = library.all().terms(text);
            assert_eq!(longest_run(&words, &terms), wanted, "{text}");
        }
    }

    #[test]
    fn tests_come_after_what_they_test_unless_they_are_asked_for() {
        let code = "/// Reads the feathers of a robin from a file.\nfn read() {}\n";
        let test = "/// Reads the feathers of a robin from a file.\nfn robin_feathers() {}\n";
        let files = [("tests/robin.rs", test), ("src/robin.rs", code)];
        assert_eq!(first(&files, "how are robin feathers read"), "src/robin.rs");
        assert_eq!(first(&files, "which test reads robin feathers"), "tests/robin.rs");
    }

    #[test]
    fn lists_of_changes_and_of_questions_come_last_unless_they_are_asked_for() {
        let text = "# Cache\n\nThe robin cache keeps each feather that was seen before in a file.";
        let changes = "# Changelog\n\nRobin cache: fixed a feather.";
        let contents = "# Contents\n\nWhat is the robin cache?\n\nWhat is a robin feather cache?";
        let files = [("contents.md", contents), ("log.md", changes), ("guide.md", text)];
        assert_eq!(first(&files, "robin cache feather"), "guide.md");
        assert_eq!(
            first(&files[1..], "which feather was fixed in the robin changelog"),
            "log.md"
        );
    }

    #[test]
    fn a_page_named_as_the_question_comes_before_its_sections() {
        let page = "# Sending letters\n\nOwls carry letters, and robins carry them too. Each bird has a name and a place.\n\n\
            ## Sending many letters\n\nSending one by one is slow. A letter is sent alone, and many letters are sent together.\n";
        let begins = |query: &str| ordered(&[("page.md", page)], query)[0].chunk.text[..7].to_owned();
        assert_eq!(begins("how to send letters"), "Owls ca");
        // What else is asked for is in the section.
        assert_eq!(begins("how to send letters one by one"), "Sending");
    }
}
