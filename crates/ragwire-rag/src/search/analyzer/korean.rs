//! Korean words without their particles and endings. The end of a word is grammar: `페이지마다` is `페이지`.

/// What a word ends in, longest first where one ends in another. Endings of verbs that are made from nouns with `하다` and
/// `되다` are among them.
const ENDINGS: &[&str] = &[
    // Particles.
    "에서는",
    "에서도",
    "에서의",
    "에서",
    "에게",
    "에는",
    "에도",
    "으로는",
    "으로도",
    "으로",
    "까지로",
    "까지",
    "부터",
    "마다",
    "보다",
    "처럼",
    "이라고",
    "라고",
    "이랑",
    "이나",
    "이란",
    "과는",
    "와는",
    "에",
    "을",
    "를",
    "은",
    "는",
    "이",
    "가",
    "와",
    "과",
    "의",
    "도",
    "만",
    "로",
    "랑",
    // Endings after a noun.
    "하려는데",
    "하려면",
    "하려고",
    "했을때",
    "했는데",
    "하는데",
    "하는지",
    "하는법",
    "합니까",
    "합니다",
    "하나요",
    "하기",
    "하는",
    "하면",
    "하고",
    "하게",
    "하지",
    "하나",
    "해서",
    "해도",
    "해야",
    "해요",
    "했던",
    "한",
    "할",
    "됩니까",
    "됩니다",
    "되는데",
    "되는지",
    "되나요",
    "되는",
    "되면",
    "되어",
    "되게",
    "된",
    "될",
    "시키는",
    "시키면",
    "인가요",
    "인지",
    "입니까",
    // Endings of verbs.
    "수있는",
    "수있나요",
    "었을때",
    "았을때",
    "을때마다",
    "을때",
    "때마다",
    "었는데",
    "았는데",
    "는데",
    "려면",
    "으면",
    "나요",
    "어요",
    "아요",
    "면",
];
/// The syllables of a word that are left: shorter words are as often nouns that end as a particle does.
const LEAST_SYLLABLES: usize = 2;

/// Returns a word without the longest ending that leaves enough of it.
pub(super) fn stem(word: &str) -> &str {
    let stems = ENDINGS.iter().filter_map(|ending| word.strip_suffix(ending));
    let long = stems.filter(|stem| stem.chars().count() >= LEAST_SYLLABLES);
    long.min_by_key(|stem| stem.len()).unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn particles_and_endings_are_taken_off() {
        for (word, wanted) in [
            ("페이지마다", "페이지"),
            ("반복해서", "반복"),
            ("결합하면", "결합"),
            ("추가하려는데", "추가"),
            ("형식에서도", "형식"),
            ("확장자가", "확장자"),
            ("메뉴", "메뉴"),
            // Too little would be left.
            ("표를", "표를"),
            ("회의", "회의"),
            ("", ""),
        ] {
            assert_eq!(stem(word), wanted);
        }
    }
}
