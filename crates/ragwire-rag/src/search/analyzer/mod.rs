//! Splits text into the terms of the lexical index: words by Unicode's rules, without stop words,
//! stemmed by language, with accents folded.
//!
//! An identifier gives the whole and its parts: `worker_threads` gives `worker_thread`, `worker`
//! and `thread`. Chinese and Japanese text gives pairs of adjacent characters, because it has no
//! spaces between words, and so does Korean text, whose words end in particles. A question gives the
//! pairs within its words alone.

use std::collections::HashMap;

use unicode_segmentation::UnicodeSegmentation;

use crate::search::asking::languages_asking_with;

pub(crate) mod accents;
mod irregular;
mod korean;
mod language;
mod paired;
mod split;

pub(crate) use language::Language;
pub(crate) use paired::AskedPair;
pub(crate) use split::{Run, fold, is_hangul, is_hiragana, is_katakana, is_paired, runs};

use paired::Cutter;

/// Incremented whenever the same text gives other terms than before, so that an index on disk can
/// detect that it is out of date.
pub(crate) const VERSION: u32 = 3;
/// Longer words are cut off: they are data, which is not typed into a search.
const MAX_TERM_BYTES: usize = 64;
/// How many words of a text decide its language.
const DETECTION_WORDS: usize = 300;
/// The fewest stop words of a language that a text needs to be taken for that language.
const MIN_STOP_WORDS: u32 = 2;
/// Of so many words of a text one is a stop word of its language. A page in Chinese may have two Catalan words.
const WORDS_PER_STOP_WORD: u32 = 30;
/// A question is in a language of the library if its words count at least this share of what they count in any other
/// language: `jak` and `na` are Polish and Czech.
const KNOWN_LANGUAGE_SHARE: f32 = 0.6;
/// What a word counts by a letter that only its language has, relative to a stop word: it decides between languages that
/// share their stop words.
const LETTER_SHARE: f32 = 0.25;

/// Letters that the English stop words contain because apostrophes cut them off. The Spanish `y` and the
/// Italian `o` are words.
const CUT_OFF_LETTERS: [&str; 6] = ["d", "m", "o", "s", "t", "y"];

/// One term of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The spelling in the index.
    pub(crate) term: String,
    /// The word in lower case.
    pub(crate) form: String,
    /// Whether it is a part of an identifier whose whole is the token before.
    pub(crate) is_part: bool,
}

impl Token {
    fn of_pair(pair: &str) -> Self {
        Self {
            term: pair.to_owned(),
            form: pair.to_owned(),
            is_part: false,
        }
    }
}

/// Splits text into terms. Takes a millisecond to create; used from many threads.
pub(crate) struct Analyzer {
    /// The languages that have a word as a stop word, as bits.
    stop_words: HashMap<&'static str, u32>,
    cutter: Cutter,
}

impl std::fmt::Debug for Analyzer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Analyzer").finish_non_exhaustive()
    }
}

impl Default for Analyzer {
    fn default() -> Self {
        let mut stop_words = HashMap::new();
        for language in Language::ALL {
            for word in stop_words::get(language.code()) {
                *stop_words.entry(*word).or_default() |= language.bit();
            }
        }
        Self {
            stop_words,
            cutter: Cutter::default(),
        }
    }
}

impl Analyzer {
    /// Returns the language of a text by its stop words, or `None` if it has too few of them.
    pub(crate) fn language(&self, text: &str) -> Option<Language> {
        // `k` and `s` are Czech words, and names in listings.
        let bits = |word: &str| if word.len() > 1 { self.stop_bits(word) } else { 0 };
        let leader = leading(&count_words(text, bits), &Language::ALL)?;
        let read = text.unicode_words().take(DETECTION_WORDS).count() as u32;
        let is_certain = leader.words >= MIN_STOP_WORDS && leader.words * WORDS_PER_STOP_WORD >= read;
        is_certain.then_some(leader.language)
    }

    /// Returns the language of a question by its stop words and those that questions are phrased with, such as
    /// `cuál`. Questions are short, so one such word is enough for a language of `known`.
    pub(crate) fn language_of_question(
        &self,
        question: &str,
        known: impl FnOnce() -> Vec<Language>,
    ) -> Option<Language> {
        let bits = |word: &str| {
            let bits = self.stop_bits(word) | languages_asking_with(word);
            let is_cut_off = CUT_OFF_LETTERS.contains(&word);
            if is_cut_off {
                bits & !Language::English.bit()
            } else {
                bits
            }
        };
        let counts = count_words(question, bits);
        let leader = leading(&counts, &Language::ALL)?;
        let known = leading(&counts, &known())
            .filter(|known| known.words > 0 && known.score >= KNOWN_LANGUAGE_SHARE * leader.score);
        known
            .or_else(|| Some(leader).filter(|leader| leader.words >= MIN_STOP_WORDS))
            .map(|leader| leader.language)
    }

    /// Returns the stems that a word of a question has if its accents were left out, besides the stem of the word as it
    /// was typed. None if the question has accents.
    pub(crate) fn accented_stems(&self, question: &str, word: &str, language: Language) -> Vec<String> {
        if !accents::may_be_left_out(question, language) {
            return Vec::new();
        }
        let word = word.to_lowercase();
        let typed = fold(&language.stemmer().stem(&word));
        let mut stems: Vec<String> = Vec::new();
        for accented in accents::accented(&word, language) {
            let stem = fold(&language.stemmer().stem(&accented));
            if stem != typed && !stems.contains(&stem) {
                stems.push(stem);
            }
        }
        stems
    }

    /// Returns the terms of a text in order.
    pub(crate) fn tokens(&self, text: &str, language: Language) -> Vec<Token> {
        let mut tokens = Vec::new();
        for run in runs(text) {
            match run {
                Run::Word(word) => self.word(word, language, &mut tokens),
                Run::Paired(run) => pairs(run, &mut tokens),
            }
        }
        tokens
    }

    /// Returns the terms of a question in order, each with the share that it is of its word. Those that say what is
    /// asked about, if there are any.
    pub(crate) fn question_tokens(&self, question: &str, language: Language) -> Vec<(Token, f32)> {
        let mut tokens = Vec::new();
        for run in runs(question) {
            match run {
                Run::Word(word) => {
                    let mut of_word = Vec::new();
                    self.word(word, language, &mut of_word);
                    tokens.extend(of_word.into_iter().map(|token| (token, 1.0)));
                }
                Run::Paired(run) => {
                    let pairs = self.asked_pairs(run).into_iter();
                    tokens.extend(pairs.map(|asked| (Token::of_pair(asked.pair), asked.share)));
                }
            }
        }
        if tokens.is_empty() {
            let all = self.tokens(question, language).into_iter();
            return all.map(|token| (token, 1.0)).collect();
        }
        tokens
    }

    /// Returns the pairs of a run that a question asks with, in order.
    pub(crate) fn asked_pairs<'a>(&self, run: &'a str) -> Vec<AskedPair<'a>> {
        self.cutter.asked_pairs(run)
    }

    /// Returns the stop words of a language, in no order.
    pub(crate) fn stop_words(&self, language: Language) -> impl Iterator<Item = &'static str> {
        let in_language = move |(_, bits): &(&&'static str, &u32)| **bits & language.bit() != 0;
        self.stop_words.iter().filter(in_language).map(|(word, _)| *word)
    }

    /// Returns the terms of a text in the language that its stop words suggest, otherwise English.
    pub(crate) fn terms(&self, text: &str) -> Vec<String> {
        self.terms_in(text, self.language(text).unwrap_or_default())
    }

    /// Returns the terms of a text, as [`tokens`](Self::tokens) spells them.
    pub(crate) fn terms_in(&self, text: &str, language: Language) -> Vec<String> {
        let tokens = self.tokens(text, language);
        tokens.into_iter().map(|token| token.term).collect()
    }

    /// Returns the terms of an English text without the parts of identifiers.
    pub(crate) fn whole_terms(&self, text: &str) -> Vec<String> {
        let tokens = self.tokens(text, Language::English);
        tokens
            .into_iter()
            .filter(|token| !token.is_part)
            .map(|token| token.term)
            .collect()
    }

    fn word(&self, word: &str, language: Language, tokens: &mut Vec<Token>) {
        let word = &word[..word.floor_char_boundary(MAX_TERM_BYTES)];
        let parts = split::parts(word);
        if parts.len() < 2 {
            tokens.extend(self.plain(word, language, false));
            return;
        }
        let lower = word.to_lowercase();
        tokens.push(Token {
            // Stemmed, because the same identifier is often typed without its capitals.
            term: fold(&language.stemmer().stem(&lower)),
            form: fold(&lower),
            is_part: false,
        });
        let parts = parts.into_iter().filter(|part| part.len() > 1);
        tokens.extend(parts.filter_map(|part| self.plain(part, language, true)));
    }

    fn plain(&self, word: &str, language: Language, is_part: bool) -> Option<Token> {
        let lower = word.to_lowercase().replace('\u{2019}', "'");
        if self.stop_bits(&lower) & language.bit() != 0 {
            return None;
        }
        let lower = lower
            .split('\'')
            .next()
            .filter(|first| first.len() > 1)
            .unwrap_or(&lower);
        if self.stop_bits(lower) & language.bit() != 0 {
            return None;
        }
        let base = match language {
            Language::English => irregular::base(lower),
            _ => lower,
        };
        let stem = language.stemmer().stem(base);
        let term = fold(&stem);
        (!term.is_empty()).then(|| Token {
            term,
            form: fold(lower),
            is_part,
        })
    }

    fn stop_bits(&self, lower: &str) -> u32 {
        self.stop_words.get(lower).copied().unwrap_or(0)
    }
}

/// How many words of a text are of a language.
#[derive(Clone, Copy, Debug)]
struct LanguageCount {
    language: Language,
    /// A word of several languages counts in each as its share: `de` and `la` are words of many languages, `dans` of one.
    score: f32,
    words: u32,
}

/// Counts the words of a text by language. `bits` returns the languages of a word in lower case.
fn count_words(text: &str, bits: impl Fn(&str) -> u32) -> [LanguageCount; Language::ALL.len()] {
    let mut counts = Language::ALL.map(|language| LanguageCount {
        language,
        score: 0.0,
        words: 0,
    });
    for word in text.unicode_words().take(DETECTION_WORDS) {
        let word = word.to_lowercase();
        let bits = bits(&word);
        let share = 1.0 / bits.count_ones().max(1) as f32;
        if let Some(language) = Language::of_letters(&word) {
            counts[language as usize].score += LETTER_SHARE;
        }
        for count in counts.iter_mut().filter(|count| bits & count.language.bit() != 0) {
            count.score += share;
            count.words += 1;
        }
    }
    counts
}

/// Returns the one of `languages` that most words are of, of equal ones the first. Of all languages that is English:
/// listings and names contain words such as `in`, `die` and `de`. Of those of a library it is that of most passages:
/// `was` and `in` are English and German.
fn leading(counts: &[LanguageCount], languages: &[Language]) -> Option<LanguageCount> {
    let counted = languages
        .iter()
        .rev()
        .filter_map(|language| counts.iter().find(|count| count.language == *language));
    counted.max_by(|a, b| a.score.total_cmp(&b.score)).copied()
}

/// Adds a run of characters as pairs of neighbours. A single character is one token.
fn pairs(run: &str, tokens: &mut Vec<Token>) {
    if run.chars().nth(1).is_none() {
        tokens.push(Token::of_pair(run));
    }
    tokens.extend(paired::neighbours(run).map(|(_, pair)| Token::of_pair(pair)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str, language: Language) -> Vec<String> {
        Analyzer::default().terms_in(text, language)
    }

    #[test]
    fn words_are_stemmed_and_stop_words_removed_by_language() {
        let cases: &[(Language, &str, &[&str])] = &[
            (
                Language::English,
                "The cafés' Heads are running",
                &["cafe", "head", "run"],
            ),
            (
                Language::English,
                "Don't re-run it; that’s Anna's.",
                &["run", "anna"],
            ),
            (Language::German, "Die Häuser und das Haus", &["haus", "haus"]),
            (Language::French, "Les modèles de la langue", &["model", "langu"]),
            (Language::English, "the of and", &[]),
            (Language::English, "\0\u{1d} ?!", &[]),
        ];
        for (language, text, wanted) in cases {
            assert_eq!(terms(text, *language), *wanted, "{text:?}");
        }
    }

    #[test]
    fn identifiers_are_whole_and_split() {
        let cases: &[(&str, &[&str])] = &[
            ("worker_threads", &["worker_thread", "worker", "thread"]),
            ("maxPoolSize", &["maxpools", "max", "pool", "size"]),
            ("HTTPServer", &["httpserver", "http", "server"]),
            ("tokio.toml", &["tokio.toml", "tokio", "toml"]),
            ("--max-upload", &["max", "upload"]),
            ("version 1.2.3 of utf8", &["version", "1.2.3", "utf8"]),
            ("PDFs", &["pdfs"]),
            ("it ends.Then", &["ends.then", "end"]),
        ];
        for (text, wanted) in cases {
            assert_eq!(terms(text, Language::English), *wanted, "{text:?}");
        }
    }

    #[test]
    fn chinese_japanese_and_korean_give_pairs() {
        let cases: &[(&str, &[&str])] = &[
            ("模型训练 用 rust", &["模型", "型训", "训练", "用", "rust"]),
            // A name in Katakana is a separate run, and part of a longer one.
            ("東京タワー", &["東京", "タワ", "ワー"]),
            ("データベース", &["デー", "ータ", "タベ", "ベー", "ース"]),
            // The particle of a noun makes another word, but not another first pair.
            ("모델은 Rust로", &["모델", "델은", "rust", "로"]),
            ("모델을", &["모델", "델을"]),
        ];
        for (text, wanted) in cases {
            assert_eq!(terms(text, Language::English), *wanted, "{text}");
        }
    }

    #[test]
    fn irregular_forms_are_the_same_word() {
        assert_eq!(
            terms("wrote written Writing took take matrices", Language::English),
            ["write", "write", "write", "take", "take", "matrix"]
        );
        assert_eq!(terms("wrote", Language::German), ["wrot"]);
    }

    #[test]
    fn of_equal_languages_a_question_is_in_that_of_most_passages() {
        let analyzer = Analyzer::default();
        for known in [
            [Language::German, Language::English],
            [Language::English, Language::German],
        ] {
            let found = analyzer.language_of_question("was in artikel 5", || known.to_vec());
            assert_eq!(found, Some(known[0]));
        }
    }

    #[test]
    fn the_language_follows_from_stop_words() {
        let analyzer = Analyzer::default();
        let cases = [
            ("How many heads does the model have?", Some(Language::English)),
            (
                "Wie viele Köpfe hat das Modell und warum?",
                Some(Language::German),
            ),
            (
                "Combien de têtes le modèle a-t-il dans la couche ?",
                Some(Language::French),
            ),
            (
                "¿Cuántas cabezas tiene el modelo y por qué?",
                Some(Language::Spanish),
            ),
            (
                "Як вставити номери сторінок і що потрібно для цього?",
                Some(Language::Ukrainian),
            ),
            (
                "Chcete-li vložit čísla stránek, zvolte je v nabídce a pak klepněte na tlačítko.",
                Some(Language::Czech),
            ),
            (
                "Aby wstawić numery stron, należy wybrać je z menu, a następnie kliknąć przycisk.",
                Some(Language::Polish),
            ),
            (
                "Untuk menyisipkan nomor halaman, pilih menu itu dan klik tombol yang ada di sana.",
                Some(Language::Indonesian),
            ),
            (
                "Per inserir els números de pàgina, cal triar-los en el menú i després fer clic.",
                Some(Language::Catalan),
            ),
            (
                "पृष्ठ संख्या डालने के लिए मेनू में इसे चुनें और फिर क्लिक करें।",
                Some(Language::Hindi),
            ),
            ("v=DKIM1; h=sha256; k=rsa; s=email; p=[...]", None),
            ("fn main() {}", None),
            ("", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(analyzer.language(text), wanted, "{text}");
        }
    }
}
