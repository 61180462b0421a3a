//! Compounds such as `Mietkosten`, which documents also write as `Kosten der Miete`.

use crate::search::analyzer::Language;

/// The fewest letters of the first part of a compound and of the last one. Shorter ones are endings.
const MIN_FIRST_LETTERS: usize = 3;
const MIN_LAST_LETTERS: usize = 4;
/// The most parts of a compound.
pub(crate) const MAX_PARTS: usize = 4;
/// The most words of a question that are cut: one word looks up to a few hundred words of the library.
pub(crate) const MAX_COMPOUNDS: usize = 4;

/// Returns what is between the parts of the compounds of a language, or `None` for one that writes
/// them as separate words.
pub(crate) fn links(language: Language) -> Option<&'static [&'static str]> {
    match language {
        Language::German => Some(&["s", "es", "n", "en", "er", "e", "ens"]),
        Language::Dutch => Some(&["s", "e", "en", "er"]),
        Language::Danish | Language::Norwegian | Language::Swedish => Some(&["s", "e"]),
        Language::English
        | Language::Arabic
        | Language::Catalan
        | Language::Czech
        | Language::Finnish
        | Language::French
        | Language::Greek
        | Language::Hindi
        | Language::Hungarian
        | Language::Indonesian
        | Language::Italian
        | Language::Polish
        | Language::Portuguese
        | Language::Romanian
        | Language::Russian
        | Language::Spanish
        | Language::Turkish
        | Language::Ukrainian => None,
    }
}

/// Returns the places where a word in lower case may be cut in two: what is before, with its link, and the
/// last part.
pub(crate) fn cuts(word: &str) -> Vec<(&str, &str)> {
    let letters = word.chars().count();
    let places = word.char_indices().enumerate();
    let places = places.filter(|(before, _)| (MIN_FIRST_LETTERS..=letters).contains(before));
    let places = places.filter(|(before, _)| letters - before >= MIN_LAST_LETTERS);
    places.map(|(_, (at, _))| word.split_at(at)).collect()
}

/// Returns the first part of a compound as it may be spelled alone: as it is, and without each link.
pub(crate) fn without_link<'a>(first: &'a str, links: &[&str]) -> Vec<&'a str> {
    let bare = links.iter().filter_map(|link| first.strip_suffix(link));
    let bare = bare.filter(|bare| bare.chars().count() >= MIN_FIRST_LETTERS);
    [first].into_iter().chain(bare).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_where_both_parts_are_long_enough() {
        assert_eq!(
            cuts("mietkosten"),
            [
                ("mie", "tkosten"),
                ("miet", "kosten"),
                ("mietk", "osten"),
                ("mietko", "sten")
            ]
        );
        assert_eq!(cuts("überfluss").first(), Some(&("übe", "rfluss")));
        assert_eq!(cuts("kosten"), [] as [(&str, &str); 0]);
    }

    #[test]
    fn a_first_part_is_tried_without_its_link() {
        let links = links(Language::German).unwrap();
        assert_eq!(without_link("wohnungs", links), ["wohnungs", "wohnung"]);
        assert_eq!(without_link("kinder", links), ["kinder", "kind"]);
        assert_eq!(without_link("eis", links), ["eis"]);
    }
}
