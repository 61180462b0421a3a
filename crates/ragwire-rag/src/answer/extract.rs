//! The answer without a model: the sentences of the context that answer the question, quoted as
//! they are.
//!
//! A sentence is worth the share of the question's weight that it covers. Words of its heading
//! count fully, words elsewhere in its chunk count half. Sentences that repeat a chosen one lose to
//! those that add something. There is no answer if even the best sentence covers too little, or if
//! the library does not contain what the question is about.

use std::collections::HashSet;

use crate::answer::quantity::Quantity;
use crate::documents::sentences;
use crate::search::terms::{Term, coverage, question_terms};
use crate::{Hit, Library};

/// Number of sentences of an answer at most.
pub(super) const MAX_SENTENCES: usize = 3;
/// Least coverage of a sentence that answers. Tuned on "Attention Is All You Need": see the tests.
pub(super) const MIN_COVERAGE: f32 = 0.45;
/// A further sentence must cover at least this share of the question beyond the chosen sentences,
const MIN_GAIN: f32 = 0.1;
/// unless it is worth at least this share of the first one after the deduction for repetition.
const NEARLY_BEST_SHARE: f32 = 0.9;
/// In both cases it must be worth at least this share of the first one.
const MIN_SHARE_OF_BEST: f32 = 0.75;
/// Weight of words in the chunk around a sentence, relative to words in the sentence.
const AROUND_SHARE: f32 = 0.5;
/// Deduction for similarity to a chosen sentence.
const REPETITION_COST: f32 = 0.5;
/// Bonus for a number if the question asks for one.
const NUMBER_WORTH: f32 = 0.2;
/// Bonus for a sentence of the best hit; further hits get less.
const RANK_WORTH: f32 = 0.08;
/// An unknown word is mentioned in the answer from this share of the question's weight on.
const UNKNOWN_SHARE: f32 = 0.2;
/// From this share on, the unknown words together are what the question is about, and no sentence
/// about the rest answers it: one of two significant words, or two of three. Chosen by the first
/// questions of `tests/eval`, not by the held-out ones.
const MISSING_SHARE: f32 = 0.4;
/// Number of passages from which on a word's weight is meaningful. In a smaller library every known
/// word weighs little, so words are counted instead.
const TELLING_PASSAGES: usize = 100;
/// Weight of the words in the sentence itself, in addition to their coverage.
const OWN_WORTH: f32 = 0.25;
/// Number of words beyond which every word costs something: a long sentence covers much by chance.
const USUAL_WORDS: usize = 20;
/// That cost, as a share.
const LENGTH_COST: f32 = 0.01;
/// Fewest words of a sentence: anything shorter is a heading or the cell of a table.
const MIN_WORDS: usize = 4;
/// Factor for sentences of a bibliography, which names every subject and answers nothing.
const BIBLIOGRAPHY_SHARE: f32 = 0.5;

/// A sentence of an answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub(super) struct QuotedSentence {
    /// Index of its hit, counted from 0.
    pub hit: usize,
    /// The sentence as the document has it.
    pub sentence: String,
    /// The share of the question that it covers, 0 to 1.
    pub coverage: f32,
}

/// The result of [`extract`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub(super) struct Extract {
    /// The sentences, best first. Empty if the context does not answer.
    pub quoted: Vec<QuotedSentence>,
    /// Significant words of the question that occur nowhere in the library although there is an
    /// answer.
    pub unknown: Vec<String>,
}

#[derive(Debug)]
struct Candidate<'a> {
    hit: usize,
    sentence: &'a str,
    stems: HashSet<String>,
    /// Share of the question's weight of each term that the sentence contains; 0 for the others.
    holds: Vec<f32>,
    coverage: f32,
    worth: f32,
}

/// Chooses the sentences that answer a question from its hits, best hit first.
pub(super) fn extract(library: &Library, question: &str, hits: &[Hit]) -> Extract {
    let terms = question_terms(library, question);
    if missing(library, &terms) >= MISSING_SHARE {
        return Extract::default();
    }
    let quantity = Quantity::of(library, question);
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for (at, hit) in hits.iter().enumerate() {
        add_candidates(library, &terms, &quantity, at, hit, &mut candidates);
    }
    // The sort is stable: equal worth keeps the order of the hits.
    candidates.sort_by(|a, b| b.worth.total_cmp(&a.worth));
    let Some(best) = candidates
        .iter()
        .find(|candidate| candidate.coverage >= MIN_COVERAGE)
    else {
        return Extract::default();
    };
    let least = best.worth * MIN_SHARE_OF_BEST;
    candidates.retain(|candidate| {
        candidate.coverage >= MIN_COVERAGE * MIN_SHARE_OF_BEST && candidate.worth >= least
    });
    let quoted = without_repetition(candidates);
    let all: f32 = terms.iter().map(|term| term.weight).sum();
    let unknown = terms
        .iter()
        .filter(|term| !term.known && term.weight >= all * UNKNOWN_SHARE);
    let unknown = unknown.map(|term| term.word.clone()).collect();
    Extract { quoted, unknown }
}

fn add_candidates<'a>(
    library: &Library,
    terms: &[Term],
    quantity: &Quantity,
    at: usize,
    hit: &'a Hit,
    candidates: &mut Vec<Candidate<'a>>,
) {
    let stems = |text: &str| library.terms(text).into_iter().collect::<HashSet<String>>();
    let heading = hit.chunk.heading.as_deref().unwrap_or_default();
    let above = stems(heading);
    let around = stems(&hit.chunk.text);
    let all: f32 = terms.iter().map(|term| term.weight).sum();
    let rank = RANK_WORTH / (1.0 + at as f32);
    let last_heading = heading.rsplit(" > ").next().unwrap_or_default().to_lowercase();
    let share = if matches!(last_heading.as_str(), "references" | "bibliography") {
        BIBLIOGRAPHY_SHARE
    } else {
        1.0
    };
    for sentence in sentences(&hit.chunk.text) {
        if sentence.split_whitespace().count() < MIN_WORDS
            || candidates.iter().any(|known| known.sentence == sentence)
        {
            continue;
        }
        let stems = stems(sentence);
        let near = coverage(terms, |term| {
            stems.contains(&term.stem) || above.contains(&term.stem)
        });
        let far = coverage(terms, |term| {
            around.contains(&term.stem) || above.contains(&term.stem)
        });
        // The sentence itself must contain something, or every sentence under a matching heading
        // would answer.
        let own_share = |term: &Term| {
            if stems.contains(&term.stem) {
                term.weight / all
            } else {
                0.0
            }
        };
        let holds: Vec<f32> = terms.iter().map(own_share).collect();
        let own: f32 = holds.iter().sum();
        if own == 0.0 {
            continue;
        }
        let coverage = share * (near + AROUND_SHARE * (far - near));
        let number = NUMBER_WORTH * quantity.fit(library, sentence);
        let long = sentence.split_whitespace().count().saturating_sub(USUAL_WORDS) as f32;
        let worth = (coverage + share * (OWN_WORTH * own + number + rank)) / (1.0 + long * LENGTH_COST);
        candidates.push(Candidate {
            hit: at,
            sentence,
            stems,
            holds,
            coverage,
            worth,
        });
    }
}

/// Chooses sentences by maximal marginal relevance from candidates sorted by worth.
fn without_repetition(mut candidates: Vec<Candidate<'_>>) -> Vec<QuotedSentence> {
    let nearly_best = candidates
        .first()
        .map_or(0.0, |best| best.worth * NEARLY_BEST_SHARE);
    let mut chosen: Vec<Candidate<'_>> = Vec::new();
    while chosen.len() < MAX_SENTENCES && !candidates.is_empty() {
        let marginal = |candidate: &Candidate<'_>| {
            let alike = chosen
                .iter()
                .map(|other| likeness(&candidate.stems, &other.stems))
                .fold(0.0, f32::max);
            candidate.worth * (1.0 - REPETITION_COST * alike)
        };
        let worths: Vec<f32> = candidates.iter().map(marginal).collect();
        // The first of the largest; `max_by` would take the last.
        let (best, worth) =
            worths.iter().enumerate().fold(
                (0, f32::MIN),
                |best, (at, worth)| {
                    if *worth > best.1 { (at, *worth) } else { best }
                },
            );
        let candidate = candidates.remove(best);
        let covered = |term: usize| chosen.iter().any(|other| other.holds[term] > 0.0);
        let gain: f32 = candidate
            .holds
            .iter()
            .enumerate()
            .filter(|(term, _)| !covered(*term))
            .map(|(_, share)| share)
            .sum();
        if chosen.is_empty() || worth >= nearly_best || gain >= MIN_GAIN {
            chosen.push(candidate);
        }
    }
    let quoted = |one: Candidate<'_>| QuotedSentence {
        hit: one.hit,
        sentence: one.sentence.to_owned(),
        coverage: one.coverage,
    };
    chosen.into_iter().map(quoted).collect()
}

/// The share of words that two sentences have in common, 0 to 1.
fn likeness(a: &HashSet<String>, b: &HashSet<String>) -> f32 {
    let shared = a.intersection(b).count();
    let all = a.len() + b.len() - shared;
    if all == 0 { 0.0 } else { shared as f32 / all as f32 }
}

/// The share of the question that occurs nowhere in the library.
fn missing(library: &Library, terms: &[Term]) -> f32 {
    if library.chunk_count() >= TELLING_PASSAGES {
        return coverage(terms, |term| !term.known);
    }
    let unknown = terms.iter().filter(|term| !term.known).count();
    unknown as f32 / terms.len().max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LibraryLimits, ParseLimits, parse, test_data};

    fn library(name: &str, bytes: &[u8]) -> Library {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        library
            .add(name, &parse(name, bytes, &ParseLimits::default()).unwrap())
            .unwrap();
        library
    }

    fn answer(library: &Library, question: &str) -> String {
        let hits = library.search(question, 8).unwrap();
        let extract = extract(library, question, &hits);
        let text: Vec<_> = extract
            .quoted
            .iter()
            .map(|one| format!("({:.2}) {}", one.coverage, one.sentence))
            .collect();
        text.join("\n")
    }

    #[test]
    fn a_real_paper_answers_its_own_questions_and_no_others() {
        let Some(bytes) = test_data::attention_paper() else {
            return;
        };
        let library = library("attention.pdf", &bytes);
        let answered = [
            (
                "How many attention heads does the base model use?",
                "h = 8 parallel attention layers, or heads",
            ),
            ("What optimizer was used?", "We used the Adam optimizer"),
            (
                "What BLEU score does the big model reach on English-to-German?",
                "28.4",
            ),
            ("What hardware were the models trained on?", "8 NVIDIA P100 GPUs"),
            ("How many layers does the encoder have?", "N = 6 identical layers"),
            ("What is label smoothing used for?", "label smoothing"),
            ("Why is the dot product scaled?", "we scale the dot products"),
            (
                "How large was the training dataset?",
                "4.5 million sentence pairs",
            ),
            ("What dropout rate is used for the base model?", "Pdrop = 0.1"),
            (
                "What does the Transformer dispense with?",
                "dispensing with recurrence",
            ),
        ];
        let refused = [
            "What is the capital of France?",
            "Who won the 2018 world cup?",
            "How do I bake sourdough bread?",
            "What is the boiling point of water?",
            "Who is the president of the United States?",
            "How tall is Mount Everest?",
        ];
        let mut wrong = Vec::new();
        for (question, wanted) in answered {
            let text = answer(&library, question);
            println!("{question}\n{text}\n");
            if !text.contains(wanted) {
                wrong.push(question);
            }
        }
        for question in refused {
            let text = answer(&library, question);
            println!("{question}\n{text}\n");
            if !text.is_empty() {
                wrong.push(question);
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn a_small_library_answers_too() {
        let library = library("birds.md", b"# Birds\n\nA robin sings at dawn. An owl hunts at night.\n\n# Fish\n\nA carp eats plants all day.");
        for (question, wanted) in [
            ("When do robins sing?", "A robin sings at dawn."),
            ("What does the owl do at night?", "An owl hunts at night."),
            ("What do carps eat?", "A carp eats plants all day."),
        ] {
            let text = answer(&library, question);
            assert!(text.contains(wanted), "{question}: {text}");
        }
        for question in [
            "What is the capital of France?",
            "When do penguins sing?",
            "",
            "the of and",
            "\u{1d}\u{1e}",
        ] {
            assert_eq!(answer(&library, question), "", "{question}");
        }
        // One unknown word of three or four leaves an answer, even if it is the weightiest.
        let owls = Library::in_memory(LibraryLimits::default()).unwrap();
        let parsed = parse(
            "owl.md",
            b"The owl turns its head by 270 degrees.",
            &ParseLimits::default(),
        )
        .unwrap();
        owls.add("owl.md", &parsed).unwrap();
        let text = answer(&owls, "How far does the owl turn its head?");
        assert!(text.contains("270 degrees"), "{text}");
        let text = answer(&library, "Does a carp eat plants, Unicorn?");
        assert!(text.contains("A carp eats plants all day."), "{text}");
    }

    #[test]
    fn no_sentence_is_quoted_twice() {
        let text = "# A\n\nThe red fox jumps high.\n\n# B\n\nThe red fox jumps high.\n\n# C\n\nThe red fox jumps very high.";
        let library = library("foxes.md", text.as_bytes());
        let text = answer(&library, "How high does the red fox jump?");
        assert_eq!(text.matches("jumps high.").count(), 1, "{text}");
    }
}
