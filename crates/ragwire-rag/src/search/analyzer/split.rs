//! Characters and parts of words.

/// Returns whether a character is written without spaces around its word: Han and Hiragana.
pub(crate) fn is_ideograph(letter: char) -> bool {
    matches!(letter, '\u{3041}'..='\u{309f}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3134f}')
}

/// Removes the accents of Latin letters.
pub(super) fn fold(word: &str) -> String {
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
