//! What is searched for: the question itself, its most telling words alone, and each question within it.

use unicode_segmentation::UnicodeSegmentation;

use ragwire::event::Complexity;

/// Most queries of a first round: each is a search of its own.
pub(crate) const MAX_QUERIES: usize = 6;
/// Fewest words of a part that is searched for on its own.
const MIN_PART_WORDS: usize = 2;
/// Most telling words that are searched for alone: the longest, which as a rule are the rarest.
const FOCUS_WORDS: usize = 3;
/// Words left out of the keywords; the index has a longer list of its own.
const FUNCTION_WORDS: [&str; 46] = [
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "did", "do", "does", "for", "from", "had", "has",
    "have", "how", "i", "in", "is", "it", "its", "me", "of", "on", "or", "please", "that", "the", "there",
    "this", "to", "was", "we", "were", "what", "when", "where", "which", "who", "whom", "why", "will",
    "with", "you",
];

/// How a question is going to be searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct Plan {
    /// The queries, the question itself first, no two alike. At least 1, at most [`MAX_QUERIES`].
    pub queries: Vec<String>,
    /// The questions found in the question; itself where it is one. Never empty.
    pub parts: Vec<String>,
}

impl Plan {
    /// Plans a question.
    pub(crate) fn of(question: &str) -> Self {
        let mut parts: Vec<String> = parts(question).into_iter().map(str::to_owned).collect();
        let mut queries = vec![question.trim().to_owned()];
        let mut add = |query: String| {
            // The index leaves function words out, so queries with the same telling words are the same search.
            let alike = |known: &String| telling(known).eq(telling(&query));
            if queries.len() < MAX_QUERIES && telling(&query).next().is_some() && !queries.iter().any(alike) {
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

/// The questions within a question: cut at `?`, `;`, line feeds and the word `and`.
fn parts(question: &str) -> Vec<&str> {
    let sentences = question.split(['?', ';', '\n']);
    let clauses = sentences.flat_map(|sentence| sentence.split(" and "));
    let long = |part: &&str| words(part).filter(|word| !is_function_word(word)).count() >= MIN_PART_WORDS;
    clauses
        .map(|part| part.trim().trim_matches(',').trim())
        .filter(long)
        .collect()
}

/// The longest telling words, at least one fewer than there are, in the order of the question: a wider search, for passages
/// that miss a word of the question.
fn focus(question: &str) -> String {
    let telling = || {
        question
            .unicode_words()
            .filter(|word| !is_function_word(&word.to_lowercase()))
    };
    let mut longest: Vec<&str> = telling().collect();
    // Of words of one length the first: sorting is stable.
    longest.sort_by_key(|word| std::cmp::Reverse(word.chars().count()));
    longest.truncate(FOCUS_WORDS.min(longest.len().saturating_sub(1)));
    let focus: Vec<&str> = telling().filter(|word| longest.contains(word)).collect();
    focus.join(" ")
}

fn telling(text: &str) -> impl Iterator<Item = String> {
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
    fn a_hostile_question_has_few_queries() {
        let plan = Plan::of(&"big cats and small dogs? ".repeat(1_000));
        assert!(plan.queries.len() <= MAX_QUERIES);
    }
}
