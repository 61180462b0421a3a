//! The languages of questions and passages.

use std::cmp::Reverse;

use unicode_segmentation::UnicodeSegmentation;

use super::{Language, LibraryView};
use crate::search::asking::only_asks;

/// The most languages whose stems a query is searched with, besides its own.
const MAX_LANGUAGES: usize = 4;

impl LibraryView<'_> {
    /// Returns the language of a text, or that of most passages if it is not certain.
    pub(crate) fn language_of(&self, text: &str) -> Language {
        let language = self.analyzer.language(text);
        language.unwrap_or_else(|| self.main_language())
    }

    /// Returns the language of a question. One stop word is enough if the library has that language, or
    /// a first word with which only English questions begin, because questions are short. A question without
    /// such a word has the language in which most of its words are in the library.
    pub(crate) fn language_of_question(&self, question: &str) -> Language {
        self.said_language(question)
            .unwrap_or_else(|| self.known_language(question))
    }

    /// Returns the language of a question as a word of it says, if one does.
    pub(crate) fn said_language(&self, question: &str) -> Option<Language> {
        // `what's` is the stop word `what`.
        let question = &*question.replace(['\'', '’'], " ");
        let begins = question.unicode_words().next().unwrap_or_default().to_lowercase();
        let known = || self.languages_by_passages();
        self.analyzer
            .language_of_question(question, known)
            .or_else(|| only_asks(&begins, Language::English).then_some(Language::English))
    }

    /// Returns the language in which most words of a text are in the library, of several the one of most
    /// passages.
    fn known_language(&self, text: &str) -> Language {
        let languages = self.languages_by_passages();
        let terms: Vec<Vec<String>> = match &languages[..] {
            [] | [_] => return self.main_language(),
            several => several
                .iter()
                .map(|language| self.terms_in(text, *language))
                .collect(),
        };
        let unseen = self.unseen_weight();
        let mut weights = self.weights(&terms.concat()).into_iter();
        let known = terms.iter().map(|terms| {
            let weights = weights.by_ref().take(terms.len());
            weights.filter(|weight| *weight < unseen).count()
        });
        let known: Vec<usize> = known.collect();
        // The last of equal ones is the greatest.
        let most = languages
            .into_iter()
            .zip(known)
            .rev()
            .max_by_key(|(_, known)| *known);
        most.map(|(language, _)| language).unwrap_or_default()
    }

    /// Returns the languages to search a query in, its own first.
    pub(crate) fn query_languages(&self, query: &str) -> Vec<Language> {
        let mut languages = vec![self.language_of_question(query)];
        for language in self.languages_by_passages().into_iter().take(MAX_LANGUAGES) {
            if !languages.contains(&language) {
                languages.push(language);
            }
        }
        languages
    }

    /// Returns whether a passage that the user finds is in a language.
    pub(crate) fn has_language(&self, language: Language) -> bool {
        self.read()
            .languages_found_by(self.user())
            .contains_key(&language)
    }

    pub(super) fn main_language(&self) -> Language {
        self.languages_by_passages().first().copied().unwrap_or_default()
    }

    /// Returns the languages of the library, that of most passages first.
    fn languages_by_passages(&self) -> Vec<Language> {
        let mut known: Vec<_> = self.read().languages_found_by(self.user()).into_iter().collect();
        known.sort_by_key(|(language, passages)| (Reverse(*passages), language.bit()));
        known.into_iter().map(|(language, _)| language).collect()
    }
}
