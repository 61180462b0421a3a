//! The languages whose words are stemmed.

use frostem::{Algorithm, Stemmer};

/// A language with a stemmer and a list of stop words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Language {
    #[default]
    English,
    Arabic,
    Catalan,
    Czech,
    Danish,
    Dutch,
    Finnish,
    French,
    German,
    Greek,
    Hindi,
    Hungarian,
    Indonesian,
    Italian,
    Norwegian,
    Polish,
    Portuguese,
    Romanian,
    Russian,
    Spanish,
    Swedish,
    Turkish,
    Ukrainian,
}

impl Language {
    /// All languages, in the order of their discriminants.
    pub(crate) const ALL: [Self; 23] = [
        Self::English,
        Self::Arabic,
        Self::Catalan,
        Self::Czech,
        Self::Danish,
        Self::Dutch,
        Self::Finnish,
        Self::French,
        Self::German,
        Self::Greek,
        Self::Hindi,
        Self::Hungarian,
        Self::Indonesian,
        Self::Italian,
        Self::Norwegian,
        Self::Polish,
        Self::Portuguese,
        Self::Romanian,
        Self::Russian,
        Self::Spanish,
        Self::Swedish,
        Self::Turkish,
        Self::Ukrainian,
    ];

    /// Returns the code of ISO 639-1.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Arabic => "ar",
            Self::Catalan => "ca",
            Self::Czech => "cs",
            Self::Danish => "da",
            Self::Dutch => "nl",
            Self::Finnish => "fi",
            Self::French => "fr",
            Self::German => "de",
            Self::Greek => "el",
            Self::Hindi => "hi",
            Self::Hungarian => "hu",
            Self::Indonesian => "id",
            Self::Italian => "it",
            Self::Norwegian => "no",
            Self::Polish => "pl",
            Self::Portuguese => "pt",
            Self::Romanian => "ro",
            Self::Russian => "ru",
            Self::Spanish => "es",
            Self::Swedish => "sv",
            Self::Turkish => "tr",
            Self::Ukrainian => "uk",
        }
    }

    /// Returns the language of a code, or `None` if it has no stemmer here.
    pub(crate) fn of_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.code() == code)
    }

    /// Returns the language of a word with a letter that none of those with the same stop words has: Polish and Czech,
    /// Russian and Ukrainian.
    pub(super) fn of_letters(word: &str) -> Option<Self> {
        word.chars().find_map(|letter| match letter {
            'ą' | 'ę' | 'ł' | 'ń' | 'ś' | 'ź' | 'ż' => Some(Self::Polish),
            'ě' | 'ř' | 'ů' | 'ť' | 'ď' => Some(Self::Czech),
            'ы' | 'э' | 'ъ' | 'ё' => Some(Self::Russian),
            'і' | 'ї' | 'є' | 'ґ' => Some(Self::Ukrainian),
            _ => None,
        })
    }

    /// Returns its bit in a set of languages.
    pub(crate) fn bit(self) -> u32 {
        1 << self as u32
    }

    pub(super) fn stemmer(self) -> Stemmer {
        Stemmer::new(match self {
            Self::English => Algorithm::English,
            Self::Arabic => Algorithm::Arabic,
            Self::Catalan => Algorithm::Catalan,
            Self::Czech => Algorithm::Czech,
            Self::Danish => Algorithm::Danish,
            Self::Dutch => Algorithm::Dutch,
            Self::Finnish => Algorithm::Finnish,
            Self::French => Algorithm::French,
            Self::German => Algorithm::German,
            Self::Greek => Algorithm::Greek,
            Self::Hindi => Algorithm::Hindi,
            Self::Hungarian => Algorithm::Hungarian,
            Self::Indonesian => Algorithm::Indonesian,
            Self::Italian => Algorithm::Italian,
            Self::Norwegian => Algorithm::Norwegian,
            Self::Polish => Algorithm::Polish,
            Self::Portuguese => Algorithm::Portuguese,
            Self::Romanian => Algorithm::Romanian,
            Self::Russian => Algorithm::Russian,
            Self::Spanish => Algorithm::Spanish,
            Self::Swedish => Algorithm::Swedish,
            Self::Turkish => Algorithm::Turkish,
            Self::Ukrainian => Algorithm::Ukrainian,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_a_code_and_stems_any_word() {
        let letters: Vec<char> = "aeiouyszcnrtlgkbdmpąćęłńóśźżáéíýúůěščřžťďàèòüöäßğışøåâîșțñç'’-0\u{301}\u{200d}أبتثجوالهيقنкрлавєїіґщюьыъθήςώαकखगािीोंं्"
            .chars()
            .collect();
        // Any sequence does: a generator with constants of Knuth.
        let mut seed = 1u64;
        let mut next = |below: usize| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let words: Vec<String> = (0..3_000)
            .map(|_| (0..next(14)).map(|_| letters[next(letters.len())]).collect())
            .collect();
        for language in Language::ALL {
            assert_eq!(Language::of_code(language.code()), Some(language));
            assert_eq!(Language::ALL[language as usize], language);
            for word in &words {
                let stem = language.stemmer().stem(word).into_owned();
                assert!(
                    stem.len() <= 2 * word.len() + 4,
                    "{language:?}: {word:?} gives {stem:?}"
                );
            }
        }
    }
}
