//! Compounds of a question that the library does not have: their parts, as far as it has them.

use super::{Language, LibraryView};
use crate::search::compounds::{MAX_COMPOUNDS, MAX_PARTS, cuts, links, without_link};
use crate::search::lexical::QueryTerm;

/// A part of a compound that the library has as a word.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CompoundPart {
    /// In lower case, as the compound spells it.
    pub(crate) word: String,
    /// The spelling in the index.
    pub(crate) stem: String,
    /// How significant it is: see [`LibraryView::weights`].
    pub(crate) weight: f32,
}

impl LibraryView<'_> {
    /// Returns the parts of a word that the library does not have, if it has each of them: `miet` and
    /// `kosten` for `Mietkosten`. Of several ways to cut it, the one with the most frequent words. Empty
    /// for a language without compounds.
    pub(crate) fn parts_of(&self, word: &str, language: Language) -> Vec<CompoundPart> {
        let Some(links) = links(language) else {
            return Vec::new();
        };
        let mut rest = word.to_lowercase();
        let mut parts = Vec::new();
        // From the end: the last part says what it is.
        while parts.len() + 1 < MAX_PARTS {
            let cuts = cuts(&rest);
            let lasts = self.known(cuts.iter().map(|(_, last)| *last), language);
            let mut ways = Vec::new();
            for ((before, _), last) in cuts.iter().zip(&lasts) {
                if let Some(last) = last {
                    let firsts = self.known(without_link(before, links).into_iter(), language);
                    let first = firsts
                        .into_iter()
                        .flatten()
                        .min_by(|a, b| a.weight.total_cmp(&b.weight));
                    ways.extend(first.map(|first| (first, last.clone())));
                }
            }
            let cost = |(first, last): &(CompoundPart, CompoundPart)| first.weight + last.weight;
            if let Some((first, last)) = ways.into_iter().min_by(|a, b| cost(a).total_cmp(&cost(b))) {
                parts.extend([last, first]);
                parts.reverse();
                return parts;
            }
            // Three parts and more: the longest last one, then the rest.
            let longest = cuts
                .iter()
                .zip(lasts)
                .find_map(|((before, _), last)| Some((*before, last?)));
            let Some((before, last)) = longest else { break };
            parts.push(last);
            rest = before.to_owned();
        }
        Vec::new()
    }

    /// Searches for the parts of compounds that the library does not have.
    pub(super) fn split_compounds(&self, terms: &mut [QueryTerm], language: Language) {
        if links(language).is_none() {
            return;
        }
        let unseen = self.unseen_weight();
        let is_unknown = |term: &&mut QueryTerm| {
            self.weights(&term.spellings)
                .iter()
                .all(|weight| *weight >= unseen)
        };
        for term in terms.iter_mut().filter(is_unknown).take(MAX_COMPOUNDS) {
            let parts = self.parts_of(&term.form, language);
            if !parts.is_empty() {
                term.spellings = parts.into_iter().map(|part| part.stem).collect();
            }
        }
    }

    /// Returns each word that the library has.
    fn known<'a>(
        &self,
        words: impl Iterator<Item = &'a str>,
        language: Language,
    ) -> Vec<Option<CompoundPart>> {
        let unseen = self.unseen_weight();
        let words: Vec<(&str, String)> = words
            .map(|word| {
                (
                    word,
                    self.terms_in(word, language)
                        .into_iter()
                        .next()
                        .unwrap_or_default(),
                )
            })
            .collect();
        let stems: Vec<String> = words.iter().map(|(_, stem)| stem.clone()).collect();
        let weights = self.weights(&stems).into_iter();
        let part = |((word, stem), weight): ((&str, String), f32)| {
            (weight < unseen).then(|| CompoundPart {
                word: word.to_owned(),
                stem,
                weight,
            })
        };
        words.into_iter().zip(weights).map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::terms::question_terms;
    use crate::{Library, LibraryLimits, ParseLimits, parse};

    fn library(text: &str) -> Library {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let parsed = parse("a.md", text.as_bytes(), &ParseLimits::default()).unwrap();
        library.add("a.md", &parsed).unwrap();
        library
    }

    const TEXT: &str = "Die Kosten der Miete trägt das Amt, und wer eine Wohnung sucht, bekommt dort Hilfe. \
        In der Not hilft die Beratung für Kinder. Der Nachtbus fährt nicht.";

    #[test]
    fn a_compound_is_cut_into_words_that_the_library_has() {
        let library = library(TEXT);
        let cases: [(&str, &[&str]); 8] = [
            ("Mietkosten", &["miet", "kosten"]),
            ("Wohnungshilfe", &["wohnungs", "hilfe"]),
            ("Kinderberatung", &["kinder", "beratung"]),
            // From the last part on.
            ("Kinderwohnungshilfe", &["kinder", "wohnungs", "hilfe"]),
            ("Wohnungsgeld", &[]),
            ("Hilfen", &[]),
            ("Xmiete", &[]),
            ("", &[]),
        ];
        for (word, wanted) in cases {
            let parts = library.all().parts_of(word, Language::German);
            let words: Vec<_> = parts.iter().map(|part| part.word.as_str()).collect();
            assert_eq!(words, wanted, "{word}");
        }
        assert_eq!(library.all().parts_of("Mietkosten", Language::English), []);
    }

    #[test]
    fn a_question_with_a_compound_finds_its_parts() {
        let library = library(TEXT);
        let question = "Wer trägt die Mietkosten und wann fährt der Nachtbus?";
        let terms = question_terms(library.all(), question);
        let known: Vec<_> = terms
            .iter()
            .filter(|term| term.known)
            .map(|term| term.word.as_str())
            .collect();
        // The library has the second compound itself.
        assert_eq!(known, ["Wer", "trägt", "miet", "kosten", "fährt", "Nachtbus"]);
        assert_eq!(library.search("Was sind Mietkosten?", 5).unwrap().len(), 1);
        assert_eq!(library.search("Was ist Wohnungsgeld?", 5).unwrap().len(), 0);
        // As many as are cut, and one more.
        let words = [
            "Mietkosten",
            "Mietberatung",
            "Mietgeld",
            "Wohnungshilfe",
            "Kinderhilfe",
        ];
        let terms = question_terms(library.all(), &format!("Was ist {}?", words.join(" ")));
        let words: Vec<_> = terms.iter().map(|term| term.word.as_str()).collect();
        let cut = [
            "miet",
            "kosten",
            "beratung",
            "Mietgeld",
            "wohnungs",
            "hilfe",
            "Kinderhilfe",
        ];
        assert_eq!(words, cut);
    }
}
