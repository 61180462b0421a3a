//! Plans the queries for a question: the question itself, its most significant words, and each
//! question within it.

use unicode_segmentation::UnicodeSegmentation;

use ragwire::event::Complexity;

/// The most queries of a first round; each is a separate search.
pub(crate) const MAX_QUERIES: usize = 6;
/// The fewest words of a part that is searched separately.
const MIN_PART_WORDS: usize = 2;
/// How many significant words form a separate query: the longest ones, which are usually the
/// rarest.
const FOCUS_WORDS: usize = 3;
/// Words left out of the keywords. The index has a longer list of stop words.
const FUNCTION_WORDS: [&str; 46] = [
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "did", "do", "does", "for", "from", "had", "has",
    "have", "how", "i", "in", "is", "it", "its", "me", "of", "on", "or", "please", "that", "the", "there",
    "this", "to", "was", "we", "were", "what", "when", "where", "which", "who", "whom", "why", "will",
    "with", "you",
];

/// How much the order of a search for a part of the question counts, relative to the question in its
/// own words, which finds the most.
const PART_WEIGHT: f32 = 0.5;
/// The same for the search for the longest words: it only adds hits behind those of the question.
/// Fused with equal weight it took 6 of 60 first hits from their place.
const FOCUS_WEIGHT: f32 = 0.01;

/// Returns how much the order of a query's hits counts in the fusion of all hits for `question`.
pub(crate) fn weight(query: &str, question: &str) -> f32 {
    if query.trim() == question.trim() {
        1.0
    } else if query == focus(question) {
        FOCUS_WEIGHT
    } else {
        PART_WEIGHT
    }
}

/// The queries planned for a question.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct Plan {
    /// The queries, the question itself first, no two equivalent. At least 1 and at most
    /// [`MAX_QUERIES`].
    pub queries: Vec<String>,
    /// The questions within the question, or the question itself if it is only one. Never empty.
    pub parts: Vec<String>,
}

impl Plan {
    /// Plans the queries for a question.
    pub(crate) fn of(question: &str) -> Self {
        let mut parts: Vec<String> = parts(question).into_iter().map(str::to_owned).collect();
        let mut queries = vec![question.trim().to_owned()];
        let mut add = |query: String| {
            // The index ignores function words, so queries with the same significant words are the
            // same search.
            let alike = |known: &String| significant_words(known).eq(significant_words(&query));
            if queries.len() < MAX_QUERIES
                && significant_words(&query).next().is_some()
                && !queries.iter().any(alike)
            {
                queries.push(query);
            }
        };
        add(focus(question));
        if parts.len() > 1 {
            parts.iter().for_each(|part| add(part.clone()));
        }
        if parts.len() < 2 {
            parts = vec![question.trim().to_owned()];
        }
        parts.truncate(MAX_QUERIES);
        Self { queries, parts }
    }

    /// One question is simple, two are moderate, more are complex.
    pub(crate) fn complexity(&self) -> Complexity {
        match self.parts.len() {
            0 | 1 => Complexity::Simple,
            2 => Complexity::Moderate,
            _ => Complexity::Complex,
        }
    }
}

/// Splits a question into its questions at `?`, `;`, line feeds and the word `and`.
fn parts(question: &str) -> Vec<&str> {
    let sentences = question.split(['?', ';', '\n', '？', '；']);
    let clauses = sentences.flat_map(clauses);
    let long = |part: &&str| words(part).filter(|word| !is_function_word(word)).count() >= MIN_PART_WORDS;
    clauses
        .map(|part| part.trim().trim_matches(',').trim())
        .filter(long)
        .collect()
}

/// Splits a sentence at the word `and`, except between two equal words: `over and over`.
fn clauses(sentence: &str) -> Vec<&str> {
    let mut clauses = Vec::new();
    let mut start = 0;
    for (at, and) in sentence.match_indices(" and ") {
        let before = sentence[start..at].split_whitespace().next_back();
        let after = sentence[at + and.len()..].split_whitespace().next();
        if before != after {
            clauses.push(&sentence[start..at]);
            start = at + and.len();
        }
    }
    clauses.push(&sentence[start..]);
    clauses
}

/// Returns the longest significant words in the order of the question, at least one fewer than it
/// has. This widens the search to passages that lack a word of the question.
fn focus(question: &str) -> String {
    let significant = || {
        question
            .unicode_words()
            .filter(|word| !is_function_word(&word.to_lowercase()))
    };
    let mut longest: Vec<&str> = significant().collect();
    // Of words with the same length the first is kept: sorting is stable.
    longest.sort_by_key(|word| std::cmp::Reverse(word.chars().count()));
    longest.truncate(FOCUS_WORDS.min(longest.len().saturating_sub(1)));
    let focus: Vec<&str> = significant().filter(|word| longest.contains(word)).collect();
    focus.join(" ")
}

fn significant_words(text: &str) -> impl Iterator<Item = String> {
    words(text).filter(|word| !is_function_word(word))
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.unicode_words().map(str::to_lowercase)
}

fn is_function_word(lower: &str) -> bool {
    FUNCTION_WORDS.contains(&lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_planned() {
        let cases: &[(&str, &[&str], Complexity)] = &[
            (
                "attention heads",
                &["attention heads", "attention"],
                Complexity::Simple,
            ),
            ("What is attention?", &["What is attention?"], Complexity::Simple),
            (
                "What optimizer was used and how long did training take?",
                &[
                    "What optimizer was used and how long did training take?",
                    "optimizer used training",
                    "What optimizer was used",
                    "how long did training take",
                ],
                Complexity::Moderate,
            ),
            (
                "salt and pepper",
                &["salt and pepper", "pepper"],
                Complexity::Simple,
            ),
            (
                "How many heads does the base model have?",
                &["How many heads does the base model have?", "many heads model"],
                Complexity::Simple,
            ),
            (
                "How do I play an animation over and over again?",
                &[
                    "How do I play an animation over and over again?",
                    "play animation again",
                ],
                Complexity::Simple,
            ),
            ("???", &["???"], Complexity::Simple),
            ("", &[""], Complexity::Simple),
        ];
        for (question, queries, complexity) in cases {
            let plan = Plan::of(question);
            assert_eq!(plan.queries, *queries, "{question:?}");
            assert_eq!(plan.complexity(), *complexity, "{question:?}");
        }
    }

    #[test]
    fn the_question_in_its_own_words_counts_most() {
        let question = "What optimizer was used and how long did training take?";
        let weights: Vec<f32> = Plan::of(question)
            .queries
            .iter()
            .map(|query| weight(query, question))
            .collect();
        assert_eq!(weights, [1.0, FOCUS_WEIGHT, PART_WEIGHT, PART_WEIGHT]);
    }

    #[test]
    fn a_hostile_question_has_few_queries() {
        let plan = Plan::of(&"big cats and small dogs? ".repeat(1_000));
        assert!(plan.queries.len() <= MAX_QUERIES);
    }
}
