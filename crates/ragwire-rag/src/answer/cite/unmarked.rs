//! Citations for an answer of a model that cites nothing, as small models do: the passages that hold
//! the words of its sentences.

use std::collections::BTreeSet;

use super::supporting_quote;
use crate::Hit;
use crate::answer::differ::Traits;
use crate::answer::judge::claims;
use crate::search::lexical::Analyzer;

/// Number of passages that are cited at most: those of the first sentences.
const MAX_CITED: usize = 3;
/// Least share of a sentence's words that a passage must have.
const LEAST_SHARE: f64 = 0.75;
/// Fewest words of a sentence: shorter ones occur in many passages by chance.
const LEAST_WORDS: usize = 3;

/// Returns the passages that hold the words of a sentence of the answer, by their places in
/// `sources`, each once and with the sentence of it that is most alike.
pub(crate) fn unmarked(analyzer: &Analyzer, answer: &str, sources: &[Hit]) -> Vec<(usize, String)> {
    let terms = |text: &str| analyzer.terms(text).into_iter().collect::<BTreeSet<String>>();
    let held: Vec<BTreeSet<String>> = sources
        .iter()
        .map(|hit| terms(&hit.chunk.indexed_text()))
        .collect();
    let mut cited: Vec<(usize, String)> = Vec::new();
    for claim in claims(answer) {
        let words = terms(&claim);
        if words.len() < LEAST_WORDS || cited.len() == MAX_CITED {
            continue;
        }
        let shares = held
            .iter()
            .map(|held| words.intersection(held).count() as f64 / words.len() as f64);
        // The first of several equal passages: it is the best hit.
        let (source, share) = shares
            .enumerate()
            .fold((0, 0.0), |best, one| if one.1 > best.1 { one } else { best });
        if share < LEAST_SHARE || cited.iter().any(|(known, _)| *known == source) {
            continue;
        }
        let passage = &sources[source].chunk.text;
        let quote = supporting_quote(analyzer, &claim, passage);
        // “It does not support HTTPS” has the words of the passage that says that it does.
        if Traits::of(&claim).agree_with(&Traits::of(passage), &Traits::of(&quote)) {
            cited.push((source, quote));
        }
    }
    cited
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chunk;

    #[test]
    fn a_sentence_cites_the_passage_that_has_its_words() {
        let sources: Vec<Hit> = [
            "Owls hunt at night. They see well.",
            "The robin sings at dawn. It rests at noon.",
            "A robin builds nests in gardens, hedges and walls.",
        ]
        .into_iter()
        .enumerate()
        .map(|(at, text)| Hit::new(Chunk::new("d", "birds.md", at as u32, text), 1.0))
        .collect();
        let cases: [(&str, &[(usize, &str)]); 7] = [
            ("Robins sing at dawn.", &[(1, "The robin sings at dawn.")]),
            (
                "A robin sings at dawn. Robins build nests in hedges. The robin rests at noon.",
                &[
                    (1, "The robin sings at dawn."),
                    (2, "A robin builds nests in gardens, hedges and walls."),
                ],
            ),
            // Nothing holds it, or only a part, or any passage would.
            ("Canberra is the capital of Australia.", &[]),
            ("Robins sing songs about Canberra.", &[]),
            ("Owls hunt.", &[]),
            // It says the opposite, or has another number.
            ("The robin does not sing at dawn.", &[]),
            ("3 owls hunt at night.", &[]),
        ];
        for (answer, wanted) in cases {
            let cited = unmarked(&Analyzer::default(), answer, &sources);
            let cited: Vec<(usize, &str)> = cited.iter().map(|(source, quote)| (*source, &**quote)).collect();
            assert_eq!(cited, wanted, "{answer}");
        }
    }
}
