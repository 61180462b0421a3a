//! Words typed without their accents. A stemmer takes `ación` off, and leaves `acion`.

use super::Language;

/// The letters at the end of a word in which a stemmer looks for an ending with accents: `acao` for `ação`.
const LETTERS_OF_AN_ENDING: usize = 4;
/// The most letters of an ending that have an accent.
const MAX_ACCENTS: usize = 2;

/// A letter, and the letters that are typed as it.
type Accents = &'static [(char, &'static str)];

/// Returns the accents that people leave out when they type a language, none if they rarely do.
fn left_out_in(language: Language) -> Accents {
    match language {
        Language::Catalan => &[
            ('a', "à"),
            ('c', "ç"),
            ('e', "éè"),
            ('i', "íï"),
            ('o', "óò"),
            ('u', "úü"),
        ],
        Language::Czech => &[
            ('a', "á"),
            ('c', "č"),
            ('d', "ď"),
            ('e', "éě"),
            ('i', "í"),
            ('n', "ň"),
            ('o', "ó"),
            ('r', "ř"),
            ('s', "š"),
            ('t', "ť"),
            ('u', "úů"),
            ('y', "ý"),
            ('z', "ž"),
        ],
        Language::French => &[('a', "à"), ('e', "éè"), ('i', "î"), ('o', "ô"), ('u', "û")],
        Language::Hungarian => &[('a', "á"), ('e', "é"), ('i', "í"), ('o', "óöő"), ('u', "úüű")],
        Language::Italian => &[('a', "à"), ('e', "éè"), ('i', "ì"), ('o', "ò"), ('u', "ù")],
        Language::Polish => &[
            ('a', "ą"),
            ('c', "ć"),
            ('e', "ę"),
            ('l', "ł"),
            ('n', "ń"),
            ('o', "ó"),
            ('s', "ś"),
            ('z', "żź"),
        ],
        Language::Portuguese => &[
            ('a', "ãáâ"),
            ('c', "ç"),
            ('e', "éê"),
            ('i', "í"),
            ('o', "õóô"),
            ('u', "ú"),
        ],
        Language::Romanian => &[('a', "ăâ"), ('i', "î"), ('s', "ș"), ('t', "ț")],
        Language::Spanish => &[
            ('a', "á"),
            ('e', "é"),
            ('i', "í"),
            ('n', "ñ"),
            ('o', "ó"),
            ('u', "ú"),
        ],
        Language::English
        | Language::Arabic
        | Language::Danish
        | Language::Dutch
        | Language::Finnish
        | Language::German
        | Language::Greek
        | Language::Hindi
        | Language::Indonesian
        | Language::Norwegian
        | Language::Russian
        | Language::Swedish
        | Language::Turkish
        | Language::Ukrainian => &[],
    }
}

/// Returns whether accents are often left out in a language.
pub(crate) fn are_left_out_in(language: Language) -> bool {
    !left_out_in(language).is_empty()
}

/// Returns whether a question may have been typed without accents.
pub(crate) fn may_be_left_out(question: &str, language: Language) -> bool {
    are_left_out_in(language)
        && question
            .chars()
            .all(|letter| letter.is_ascii() || !letter.is_alphabetic())
}

/// Returns what a word in lower case that was typed without accents may be, without the word.
pub(super) fn accented(word: &str, language: Language) -> Vec<String> {
    let accents = left_out_in(language);
    let mut found: Vec<String> = Vec::new();
    let ending = word.char_indices().rev().take(LETTERS_OF_AN_ENDING);
    for (at, letter) in ending {
        let others = accents.iter().find(|(plain, _)| *plain == letter);
        let others = others.map_or("", |(_, others)| *others);
        // With the accents found so far, which are nearer to the end.
        let mut with = Vec::new();
        for other in others.chars() {
            for known in found.iter().map(String::as_str).chain([word]) {
                if accents_in(known) < MAX_ACCENTS {
                    let (before, after) = (&known[..at], &known[at + letter.len_utf8()..]);
                    with.push(format!("{before}{other}{after}"));
                }
            }
        }
        found.extend(with);
    }
    found
}

fn accents_in(word: &str) -> usize {
    word.chars().filter(|letter| !letter.is_ascii()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::analyzer::fold;

    #[test]
    fn endings_get_up_to_two_accents() {
        let sorted = |word: &str, language| {
            let mut found = accented(word, language);
            found.sort();
            found
        };
        assert_eq!(
            sorted("accion", Language::Spanish),
            ["accioñ", "acción", "accióñ", "accíon", "accíoñ", "accíón"]
        );
        assert_eq!(sorted("ir", Language::Spanish), ["ír"]);
        assert!(accented("acao", Language::Portuguese).contains(&"ação".to_owned()));
        assert!(accented("strone", Language::Polish).contains(&"stronę".to_owned()));
        assert!(accented("strone", Language::English).is_empty());
        assert!(accented("", Language::Czech).is_empty());
        for word in accented("prezentacja", Language::Polish) {
            assert_eq!(fold(&word), "prezentacja");
        }
    }

    #[test]
    fn a_question_with_one_accent_has_all_of_them() {
        assert!(may_be_left_out("jak wstawic numery stron?", Language::Polish));
        assert!(!may_be_left_out("jak wstawić numery stron", Language::Polish));
        assert!(!may_be_left_out(
            "how do i insert page numbers",
            Language::English
        ));
    }
}
