//! The answer without a model: the sentences of the context that answer, as they stand there.
//!
//! A sentence is worth the share of the question's weight that it covers, words of its heading included, words of its chunk
//! at half. Sentences that repeat what is already said lose to those that add something. Where even the best sentence covers
//! too little, or the library knows nothing of what the question is about, there is no answer, and that is said.

use std::collections::HashSet;

use crate::answer::quantity::Asked;
use crate::documents::sentences;
use crate::search::terms::{Term, coverage, question_terms};
use crate::{Hit, Library};

/// Most sentences of an answer.
pub(super) const MAX_SENTENCES: usize = 3;
/// Least coverage of a sentence that answers. Tuned on "Attention Is All You Need": see the tests.
pub(super) const MIN_COVERAGE: f32 = 0.45;
/// A further sentence has to say this share of the question that no sentence before it said,
const MIN_GAIN: f32 = 0.1;
/// or to be worth this share of the first one, repetition counted.
const NEARLY_BEST_SHARE: f32 = 0.9;
/// Either way it has to be worth this share of the first one.
const MIN_SHARE_OF_BEST: f32 = 0.75;
/// Words of the chunk around a sentence count this much of words in it.
const AROUND_SHARE: f32 = 0.5;
/// What likeness to a chosen sentence costs.
const REPETITION_COST: f32 = 0.5;
/// Worth of a number, where the question asks for one.
const NUMBER_WORTH: f32 = 0.2;
/// Worth of standing in the best hit; further ones get less.
const RANK_WORTH: f32 = 0.08;
/// From this share of the question's weight on, a word that stands nowhere is worth a remark.
const UNKNOWN_SHARE: f32 = 0.2;
/// From this share on, all of them together are what the question is about, and no sentence about the rest answers it: of two telling words it is one, of three
/// it takes two. Chosen by the first questions of `tests/eval`, and not by those held out.
const MISSING_SHARE: f32 = 0.4;
/// Passages from which on a word's weight says how much it tells. In fewer every word that stands there weighs little, so words are counted.
const TELLING_PASSAGES: usize = 100;
/// Worth of the words in the sentence itself, besides their coverage.
const OWN_WORTH: f32 = 0.25;
/// What every word costs from here on: a long sentence covers much by chance.
const USUAL_WORDS: usize = 20;
/// That cost, as a share.
const LENGTH_COST: f32 = 0.01;
/// Fewest words of a sentence: less is a heading or a table's cell.
const MIN_WORDS: usize = 4;
/// A bibliography names every subject and answers nothing.
const BIBLIOGRAPHY_SHARE: f32 = 0.5;

/// One sentence of an answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub(super) struct Quoted {
    /// Which hit it stands in, counted from 0.
    pub hit: usize,
    /// As it stands there.
    pub sentence: String,
    /// How much of the question it covers, 0 to 1.
    pub coverage: f32,
}

/// What was found to say.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub(super) struct Extract {
    /// The sentences, best first. Empty: the context does not answer.
    pub quoted: Vec<Quoted>,
    /// Telling words of the question that stand nowhere in the library, where there is an answer all the same.
    pub unknown: Vec<String>,
}

#[derive(Debug)]
struct Candidate<'a> {
    hit: usize,
    sentence: &'a str,
    stems: HashSet<String>,
    /// Weight of each term of the question that stands in the sentence, as a share; 0 for the others.
    holds: Vec<f32>,
    coverage: f32,
    worth: f32,
}

/// Chooses the sentences that answer a question out of its hits, best hit first.
pub(super) fn extract(library: &Library, question: &str, hits: &[Hit]) -> Extract {
    let terms = question_terms(library, question);
    if missing(library, &terms) >= MISSING_SHARE {
        return Extract::default();
    }
    let asked = Asked::of(library, question);
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for (at, hit) in hits.iter().enumerate() {
        add_candidates(library, &terms, &asked, at, hit, &mut candidates);
    }
    // Equal worth keeps the order of the hits: sorting is stable.
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
    asked: &Asked,
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
        // What the sentence itself holds has to be something, or every sentence under a fitting heading would answer.
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
        let number = NUMBER_WORTH * asked.fit(library, sentence);
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

/// Maximal marginal relevance over candidates sorted by worth.
fn without_repetition(mut candidates: Vec<Candidate<'_>>) -> Vec<Quoted> {
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
        // The first of the largest: `max_by` would take the last.
        let (best, worth) =
            worths.iter().enumerate().fold(
                (0, f32::MIN),
                |best, (at, worth)| {
                    if *worth > best.1 { (at, *worth) } else { best }
                },
            );
        let candidate = candidates.remove(best);
        let said = |term: usize| chosen.iter().any(|other| other.holds[term] > 0.0);
        let gain: f32 = candidate
            .holds
            .iter()
            .enumerate()
            .filter(|(term, _)| !said(*term))
            .map(|(_, share)| share)
            .sum();
        if chosen.is_empty() || worth >= nearly_best || gain >= MIN_GAIN {
            chosen.push(candidate);
        }
    }
    let quoted = |one: Candidate<'_>| Quoted {
        hit: one.hit,
        sentence: one.sentence.to_owned(),
        coverage: one.coverage,
    };
    chosen.into_iter().map(quoted).collect()
}

/// Shared words of all words, 0 to 1.
fn likeness(a: &HashSet<String>, b: &HashSet<String>) -> f32 {
    let shared = a.intersection(b).count();
    let all = a.len() + b.len() - shared;
    if all == 0 { 0.0 } else { shared as f32 / all as f32 }
}

/// The share of the question that stands nowhere in the library.
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
        let said: Vec<_> = extract
            .quoted
            .iter()
            .map(|one| format!("({:.2}) {}", one.coverage, one.sentence))
            .collect();
        said.join("\n")
    }

    #[test]
    fn a_real_paper_answers_what_it_holds_and_nothing_else() {
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
            let said = answer(&library, question);
            println!("{question}\n{said}\n");
            if !said.contains(wanted) {
                wrong.push(question);
            }
        }
        for question in refused {
            let said = answer(&library, question);
            println!("{question}\n{said}\n");
            if !said.is_empty() {
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
            let said = answer(&library, question);
            assert!(said.contains(wanted), "{question}: {said}");
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
        // One word of three or four that stands nowhere leaves an answer, also where it weighs most.
        let owls = Library::in_memory(LibraryLimits::default()).unwrap();
        let parsed = parse(
            "owl.md",
            b"The owl turns its head by 270 degrees.",
            &ParseLimits::default(),
        )
        .unwrap();
        owls.add("owl.md", &parsed).unwrap();
        let said = answer(&owls, "How far does the owl turn its head?");
        assert!(said.contains("270 degrees"), "{said}");
        let said = answer(&library, "Does a carp eat plants, Unicorn?");
        assert!(said.contains("A carp eats plants all day."), "{said}");
    }

    #[test]
    fn nothing_is_said_twice() {
        let text = "# A\n\nThe red fox jumps high.\n\n# B\n\nThe red fox jumps high.\n\n# C\n\nThe red fox jumps very high.";
        let library = library("foxes.md", text.as_bytes());
        let said = answer(&library, "How high does the red fox jump?");
        assert_eq!(said.matches("jumps high.").count(), 1, "{said}");
    }
}
