//! Characters, words and parts of words.

use unicode_segmentation::UnicodeSegmentation;

/// A piece of a text without spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run<'a> {
    /// A word.
    Word(&'a str),
    /// Characters of one [`Script`], of which pairs are searched.
    Paired(&'a str),
}

/// A script in which a space does not separate a word from the next one or from its particles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    /// Han and Hiragana, which a sentence mixes.
    Ideographs,
    Katakana,
    Hangul,
}

impl Script {
    fn of(letter: char) -> Option<Self> {
        match letter {
            '\u{3041}'..='\u{309f}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3134f}' => Some(Self::Ideographs),
            '\u{30a1}'..='\u{30fa}' | '\u{30fc}'..='\u{30ff}' => Some(Self::Katakana),
            '\u{1100}'..='\u{11ff}' | '\u{3131}'..='\u{318e}' | '\u{ac00}'..='\u{d7a3}' => Some(Self::Hangul),
            _ => None,
        }
    }
}

/// Returns the words of a text, and the runs of characters that are searched as pairs, in order.
pub(crate) fn runs(text: &str) -> Vec<Run<'_>> {
    let mut runs = Vec::new();
    // The bounds of the run that is still open, and its script.
    let mut open: Option<(usize, usize, Script)> = None;
    for (at, word) in text.unicode_word_indices() {
        let mut rest = (at, word);
        while let Some(first) = rest.1.chars().next() {
            let script = Script::of(first);
            let length = rest.1.find(|letter| Script::of(letter) != script);
            let (piece, after) = rest.1.split_at(length.unwrap_or(rest.1.len()));
            let (start, end) = (rest.0, rest.0 + piece.len());
            match (&mut open, script) {
                (Some((_, last, running)), Some(script)) if *last == start && *running == script => {
                    *last = end
                }
                (_, script) => {
                    runs.extend(open.take().map(|(start, end, _)| Run::Paired(&text[start..end])));
                    match script {
                        Some(script) => open = Some((start, end, script)),
                        None => runs.push(Run::Word(piece)),
                    }
                }
            }
            rest = (end, after);
        }
    }
    runs.extend(open.map(|(start, end, _)| Run::Paired(&text[start..end])));
    runs
}

/// Returns whether a character belongs to a script whose pairs are searched.
pub(crate) fn is_paired(letter: char) -> bool {
    Script::of(letter).is_some()
}

/// Returns whether a pair is of Hiragana alone, which Japanese writes its grammar with.
pub(crate) fn is_hiragana(pair: &str) -> bool {
    pair.chars()
        .all(|letter| matches!(letter, '\u{3041}'..='\u{309f}'))
}

/// Returns whether a pair is of Katakana, which Japanese writes foreign names with.
pub(crate) fn is_katakana(pair: &str) -> bool {
    pair.chars()
        .all(|letter| Script::of(letter) == Some(Script::Katakana))
}

/// Returns whether a pair is Korean, whose words begin with what they mean and end in particles.
pub(crate) fn is_hangul(pair: &str) -> bool {
    pair.chars()
        .all(|letter| Script::of(letter) == Some(Script::Hangul))
}

/// Removes the accents of Latin letters.
pub(crate) fn fold(word: &str) -> String {
    if word.is_ascii() {
        return word.to_owned();
    }
    let mut folded = String::with_capacity(word.len());
    for letter in word.chars() {
        let latin = matches!(letter, '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}');
        match deunicode::deunicode_char(letter).filter(|_| latin) {
            Some(plain) => folded.extend(plain.chars().map(|letter| letter.to_ascii_lowercase())),
            None => folded.push(letter),
        }
    }
    folded
}

/// Returns the parts of an identifier: `worker_threads`, `maxPoolSize`, `tokio.toml`. Returns one
/// part for a plain word, and for a number.
pub(super) fn parts(word: &str) -> Vec<&str> {
    if !word.contains(char::is_alphabetic) {
        return vec![word];
    }
    let mut parts = Vec::new();
    for piece in
        word.split(|letter: char| !letter.is_alphanumeric() && letter != '\'' && letter != '\u{2019}')
    {
        let mut start = 0;
        let letters: Vec<(usize, char)> = piece.char_indices().collect();
        for (index, window) in letters.windows(2).enumerate() {
            let (before, (at, after)) = (window[0].1, window[1]);
            let next_is_lower = |ahead: usize| {
                letters
                    .get(index + ahead)
                    .is_some_and(|(_, letter)| letter.is_lowercase())
            };
            // `maxPool`, and `HTTPServer` before the last capital of a run. Two lower case letters
            // have to follow there, so that `PDFs` is one word.
            let rises = before.is_lowercase() && after.is_uppercase();
            let run_ends =
                before.is_uppercase() && after.is_uppercase() && next_is_lower(2) && next_is_lower(3);
            if (rises || run_ends) && at > start {
                parts.extend(piece.get(start..at));
                start = at;
            }
        }
        parts.extend(piece.get(start..).filter(|part| !part.is_empty()));
    }
    parts
}
