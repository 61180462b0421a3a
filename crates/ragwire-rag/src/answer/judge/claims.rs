//! The claims of an answer: its sentences, without citations, questions, headings and code.

use unicode_segmentation::UnicodeSegmentation;

use crate::answer::cite::without_marks;
use crate::documents::sentences;
use crate::search::lines::{COLONS, QUESTION_MARKS};

/// Number of claims of an answer that are checked at most, the first ones.
const MAX_CLAIMS: usize = 24;
/// Fewest words of a claim: anything shorter is a heading or a number in a list.
const MIN_WORDS: usize = 3;
/// How this crate's own remarks about the documents begin; they make no claim that a document could
/// support.
const REMARK: &str = "The documents do not ";

/// Returns the first 24 claims of an answer in their order, each once. Empty for an answer that
/// only refuses.
pub fn claims(answer: &str) -> Vec<String> {
    let mut claims: Vec<String> = Vec::new();
    let text = without_marks(answer);
    let mut code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
            continue;
        }
        if code || line.trim_start().starts_with('#') {
            continue;
        }
        for sentence in sentences(bare(line)) {
            let claims_something = sentence.unicode_words().count() >= MIN_WORDS
                && !sentence.ends_with(QUESTION_MARKS)
                && !sentence.ends_with(COLONS)
                && !sentence.starts_with(REMARK);
            if claims_something && claims.len() < MAX_CLAIMS && claims.iter().all(|known| known != sentence) {
                claims.push(sentence.to_owned());
            }
        }
    }
    claims
}

/// Strips the marker of a list item or quotation from a line.
fn bare(line: &str) -> &str {
    let line = line.trim_start();
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = match numbered.strip_prefix(['.', ')']) {
        Some(rest) if numbered.len() < line.len() => rest,
        _ => line.trim_start_matches(['-', '*', '>', '•']),
    };
    if rest.starts_with(' ') {
        rest.trim_start()
    } else {
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_the_sentences_that_claim() {
        let cases: &[(&str, &[&str])] = &[
            ("A robin sings at dawn. [1]", &["A robin sings at dawn."]),
            (
                "# Birds\nRobins sing [1], owls hunt [2][?]. Why is that?\n\nThis is why:\n- Robins wake early [1].\n2. Owls wake late.\nYes.",
                &["Robins sing, owls hunt.", "Robins wake early.", "Owls wake late."],
            ),
            (
                "Use it so:\n```rust\nlet a = f(x) + 1;\n```\nIt adds one number.",
                &["It adds one number."],
            ),
            ("The documents do not answer this question.", &[]),
            (
                "Robins sing loudly. Robins sing loudly. [2]",
                &["Robins sing loudly."],
            ),
            (
                "**Bold** robins sing. -5 degrees are cold.",
                &["**Bold** robins sing.", "-5 degrees are cold."],
            ),
            ("3.5 million pairs were used.", &["3.5 million pairs were used."]),
            ("知更鸟在黎明歌唱。为什么？原因如下：", &["知更鸟在黎明歌唱。"]),
            ("", &[]),
        ];
        for (answer, wanted) in cases {
            assert_eq!(claims(answer), *wanted, "{answer:?}");
        }
        let many: String = (0..100).map(|n| format!("Robin {n} sings. ")).collect();
        assert_eq!(claims(&many).len(), MAX_CLAIMS);
    }
}
