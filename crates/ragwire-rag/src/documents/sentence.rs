//! Finds where sentences end.
//!
//! The sentence bounds of `unicode-segmentation` are not used: they break after `Fig.` and `et
//! al.`, and their look-ahead over non-letters is quadratic on a text such as `. . . .`, which
//! anyone may upload. This is a single pass that is right for most prose. It never loses a
//! character other than white space at an end.

/// The longest sentence in bytes. A longer one is cut at a space, or anywhere if it has no space.
pub(crate) const MAX_SENTENCE_BYTES: usize = 1_200;
/// The longest quotation whose sentences are not cut apart. A longer one is not part of a sentence.
const MAX_QUOTATION_BYTES: usize = 240;

/// Abbreviations that never end a sentence, in lower case and without the last full stop.
const ABBREVIATIONS: [&str; 22] = [
    "e.g", "i.e", "cf", "vs", "al", "dr", "mr", "mrs", "ms", "prof", "st", "jr", "sr", "approx", "resp",
    "viz", "z.b", "d.h", "bzw", "ca", "vgl", "mt",
];
/// Abbreviations that do not end a sentence if a number follows.
const ABBREVIATIONS_BEFORE_NUMBER: [&str; 21] = [
    "fig", "figs", "eq", "eqs", "sec", "secs", "tab", "ch", "chap", "no", "nos", "nr", "vol", "p", "pp",
    "ref", "refs", "art", "app", "abb", "s",
];

/// Returns the sentences of a text, trimmed and not empty. A line feed always ends a sentence.
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in text.split('\n') {
        let mut rest = line.trim();
        while !rest.is_empty() {
            let (sentence, after) = rest.split_at(cut(rest));
            if !sentence.trim_end().is_empty() {
                found.push(sentence.trim_end());
            }
            rest = after.trim_start();
        }
    }
    found
}

/// Returns what closes a quotation that `c` opens, if it shows its direction.
fn closing(c: char) -> Option<char> {
    match c {
        '“' => Some('”'),
        '„' => Some('“'),
        '«' => Some('»'),
        '「' => Some('」'),
        _ => None,
    }
}

/// Returns where the quotation ends that begins `text`, if it is short: its sentences belong to the
/// one that quotes them.
fn quotation_end(text: &str) -> Option<usize> {
    let window = &text[..text.floor_char_boundary(MAX_QUOTATION_BYTES)];
    let open = window.chars().next()?;
    let close = window[open.len_utf8()..].find(closing(open)?)?;
    Some(open.len_utf8() + close)
}

/// Returns the length of the first sentence in bytes. More than 0 unless the text is empty.
fn cut(text: &str) -> usize {
    let window = &text[..text.floor_char_boundary(MAX_SENTENCE_BYTES)];
    let mut chars = window.char_indices().peekable();
    let mut quoted_until = 0;
    while let Some((at, c)) = chars.next() {
        if let Some(length) = quotation_end(&text[at..]).filter(|_| at >= quoted_until) {
            quoted_until = at + length;
        }
        if at < quoted_until && text[at..quoted_until].chars().nth(1).is_some() {
            continue;
        }
        let wide = matches!(c, '。' | '！' | '？' | '｡');
        if !wide && !matches!(c, '.' | '!' | '?' | '…') {
            continue;
        }
        // Include further stops and closing punctuation.
        let mut end = at + c.len_utf8();
        while let Some((at, c)) = chars.next_if(|(_, c)| {
            matches!(
                c,
                '.' | '!' | '?' | '…' | '"' | '”' | '“' | '’' | '\'' | ')' | ']' | '»' | '」'
            )
        }) {
            end = at + c.len_utf8();
        }
        if wide || ends_sentence(&text[..at], c, &text[end..]) {
            return end;
        }
    }
    if window.len() == text.len() {
        return text.len();
    }
    // Too long: prefer to cut at a semicolon, then at a space, then anywhere.
    let last = |separator: &str| {
        window
            .rfind(separator)
            .filter(|at| *at > window.len() / 2)
            .map(|at| at + separator.len())
    };
    last("; ").or_else(|| last(" ")).unwrap_or(window.len())
}

fn ends_sentence(before: &str, stop: char, after: &str) -> bool {
    let Some(next) = after.chars().next() else {
        return true;
    };
    if !next.is_whitespace() {
        return false;
    }
    let opening = |c: char| matches!(c, '"' | '“' | '‘' | '\'' | '(' | '[' | '«' | '„');
    let Some(next) = after.trim_start().chars().find(|c| !opening(*c)) else {
        return true;
    };
    if next.is_lowercase() {
        return false;
    }
    if stop != '.' {
        return true;
    }
    let word = before
        .rsplit(|c: char| c.is_whitespace() || opening(c))
        .next()
        .unwrap_or(before);
    let lower = word.to_lowercase();
    let initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase);
    // `I.` ends more sentences than it begins names; `1.` at the very start numbers a list.
    let numbering =
        before.len() == word.len() && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    !(ABBREVIATIONS.contains(&lower.as_str())
        || (next.is_numeric() && ABBREVIATIONS_BEFORE_NUMBER.contains(&lower.as_str()))
        || (initial && word != "I")
        || numbering)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn sentences_end_where_a_human_reader_expects() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            (" \n ", &[]),
            ("One.", &["One."]),
            ("One. Two! Three? Four", &["One.", "Two!", "Three?", "Four"]),
            (
                "See Fig. 3 and Sec. 4. Then go on.",
                &["See Fig. 3 and Sec. 4.", "Then go on."],
            ),
            (
                "Vaswani et al. [12] did. They won.",
                &["Vaswani et al. [12] did.", "They won."],
            ),
            (
                "Use tools, e.g. Rust. Or i.e. C.",
                &["Use tools, e.g. Rust.", "Or i.e. C."],
            ),
            (
                "It reached 28.4 BLEU. Version 1.2.3 too.",
                &["It reached 28.4 BLEU.", "Version 1.2.3 too."],
            ),
            (
                "He said \"Stop.\" Then he left.",
                &["He said \"Stop.\"", "Then he left."],
            ),
            (
                "It says “It took too long. Please retry.” Before, it said nothing. “No.” was all.",
                &[
                    "It says “It took too long. Please retry.”",
                    "Before, it said nothing.",
                    "“No.” was all.",
                ],
            ),
            (
                "It says “Stop. Go on” to all. Never “closed. At all.",
                &["It says “Stop. Go on” to all.", "Never “closed.", "At all."],
            ),
            (
                "Er rief: „Halt. Wer da?“ Dann ging er.",
                &["Er rief: „Halt. Wer da?“", "Dann ging er."],
            ),
            (
                "J. R. R. Tolkien wrote. So did I. You too.",
                &["J. R. R. Tolkien wrote.", "So did I.", "You too."],
            ),
            ("Wait... what? Really?!", &["Wait... what?", "Really?!"]),
            ("1. First item. Second.", &["1. First item.", "Second."]),
            (
                "Visit example.com today. Ok.",
                &["Visit example.com today.", "Ok."],
            ),
            ("一つ。二つ。", &["一つ。", "二つ。"]),
            ("a line\nanother line", &["a line", "another line"]),
            (
                "Is it no. 5? No. It is six.",
                &["Is it no. 5?", "No.", "It is six."],
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(sentences(text), *wanted, "{text:?}");
        }
    }

    #[test]
    fn long_and_odd_texts_are_cut_in_linear_time() {
        for piece in [
            ". ", ".", "a", "a ", "A. ", "é", ".)", "e.g. ", "。", "\n", "“", "“. ”",
        ] {
            let text = piece.repeat(1_000_000);
            let start = Instant::now();
            let found = sentences(&text);
            assert!(
                found
                    .iter()
                    .all(|sentence| sentence.len() <= MAX_SENTENCE_BYTES && !sentence.is_empty())
            );
            let kept: usize = found
                .iter()
                .map(|sentence| sentence.chars().filter(|c| *c != ' ').count())
                .sum();
            assert_eq!(
                kept,
                text.chars().filter(|c| !c.is_whitespace()).count(),
                "{piece:?}"
            );
            let took = start.elapsed();
            assert!(took.as_secs() < 20, "{piece:?} took {took:?}");
        }
    }
}
