//! The words of a question in Chinese and Japanese, whose texts are searched by pairs of characters. A text gives
//! all its pairs, a question those within its words: `统升` in `系统升级` is none of them.

use icu_segmenter::{WordSegmenter, WordSegmenterBorrowed};

use super::korean;
use super::split::{is_hangul, is_hiragana};
use crate::search::asking::{is_asked_with_characters, is_particle};

/// A pair of characters that a question asks with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AskedPair<'a> {
    pub(crate) pair: &'a str,
    /// The word that has it.
    pub(crate) word: &'a str,
    /// What it counts of its word: half if the word has two pairs.
    pub(crate) share: f32,
    /// Whether it counts only if the library has it: the dictionary does not know that its characters are one word.
    pub(crate) is_guess: bool,
}

/// Cuts runs of characters into words. The dictionaries of ICU4X are part of the program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cutter(WordSegmenterBorrowed<'static>);

impl Default for Cutter {
    fn default() -> Self {
        Self(WordSegmenter::new_dictionary(Default::default()))
    }
}

/// A word of the dictionary, or a character that is in none.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: usize,
    end: usize,
    letters: usize,
    /// Whether it says what is asked about: no particle, and no word that only asks.
    counts: bool,
}

impl Cutter {
    /// Returns the pairs of a run that say what is asked about, in order. Single characters that follow each other or
    /// a word are one word with it: `服务器` is `服务` and `器` in the dictionary.
    pub(super) fn asked_pairs<'a>(&self, run: &'a str) -> Vec<AskedPair<'a>> {
        let pieces = self.pieces(run);
        let mut pairs = Vec::new();
        let mut at = 0;
        while let Some(first) = pieces.get(at) {
            let singles = pieces[at + 1..].iter();
            let singles = singles.take_while(|next| first.counts && next.counts && next.letters == 1);
            let next = at + 1 + singles.count();
            if first.counts {
                let word = &run[first.start..pieces[next - 1].end];
                let within = first.end - first.start;
                // The end of a verb is grammar.
                let counts = |(_, pair): &(usize, &str)| !is_hiragana(pair) || is_hiragana(word);
                let counted: Vec<(usize, &str)> = neighbours(word).filter(counts).collect();
                let share = 1.0 / counted.len().max(1) as f32;
                // What ends as a particle does may be a noun, so that an answer names a Korean word whole.
                let whole = if is_hangul(run) { run } else { word };
                pairs.extend(counted.into_iter().map(|(end, pair)| AskedPair {
                    pair,
                    word: whole,
                    share,
                    is_guess: end > within || has_hiragana(pair),
                }));
                // A run that is one character gives that character.
                if pieces.len() == 1 && first.letters == 1 {
                    pairs.push(AskedPair {
                        pair: word,
                        word,
                        share: 1.0,
                        is_guess: true,
                    });
                }
            }
            at = next;
        }
        pairs
    }

    fn pieces(&self, run: &str) -> Vec<Piece> {
        // Korean has spaces between words.
        let ends: Vec<usize> = if is_hangul(run) {
            let stem = korean::stem(run).len();
            let particle = (stem < run.len()).then_some(run.len());
            std::iter::once(stem).chain(particle).collect()
        } else {
            self.0.segment_str(run).skip(1).collect()
        };
        let mut start = 0;
        let piece = |end: usize| {
            let text = &run[start..end];
            let letters = text.chars().count();
            let counts = if start > 0 && is_hangul(text) {
                // A particle or ending.
                false
            } else if letters == 1 {
                !is_hiragana(text) && !is_particle(text)
            } else {
                !is_asked_with_characters(text)
            };
            let piece = Piece {
                start,
                end,
                letters,
                counts,
            };
            start = end;
            piece
        };
        ends.into_iter().map(piece).collect()
    }
}

/// Returns the pairs of neighbouring characters of a word, each with the byte at which it ends.
pub(super) fn neighbours(word: &str) -> impl Iterator<Item = (usize, &str)> {
    let starts = word.char_indices().map(|(at, _)| at);
    let ends = word
        .char_indices()
        .skip(1)
        .map(|(at, letter)| at + letter.len_utf8());
    starts.zip(ends).map(|(start, end)| (end, &word[start..end]))
}

fn has_hiragana(pair: &str) -> bool {
    pair.chars()
        .any(|letter| is_hiragana(letter.encode_utf8(&mut [0; 4])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_gives_the_pairs_within_its_words() {
        let cutter = Cutter::default();
        // A guess has a question mark.
        for (run, wanted) in [
            ("系统升级", &["系统", "升级"][..]),
            ("怎么升级系统", &["升级", "系统"]),
            ("请问密码设几位才够安全吗", &["密码", "码设?", "安全"]),
            ("服务器", &["服务", "务器?"]),
            ("什么是守护进程", &["守护?", "进程"]),
            ("环境变量", &["环境", "变量"]),
            (
                "ファイルを開く方法を教えてください",
                &["ファ", "ァイ", "イル", "開く?", "てく?", "さい?"],
            ),
            ("データベース", &["デー", "ータ", "タベ", "ベー", "ース"]),
            ("使い方", &[]),
            ("りんご", &["りん?", "んご?"]),
            ("모델은", &["모델"]),
            ("모델은 어떻게 학습하나요", &["모델", "학습"]),
            ("转", &["转?"]),
            ("的", &[]),
            ("", &[]),
        ] {
            let runs = crate::search::analyzer::runs(run);
            let mut found = Vec::new();
            for run in runs {
                let crate::search::analyzer::Run::Paired(run) = run else {
                    continue;
                };
                found.extend(cutter.asked_pairs(run));
            }
            let shown: Vec<String> = found
                .iter()
                .map(|asked| format!("{}{}", asked.pair, if asked.is_guess { "?" } else { "" }))
                .collect();
            assert_eq!(shown, wanted, "{run}");
        }
    }

    #[test]
    fn the_shares_of_a_word_are_one() {
        let asked = Cutter::default().asked_pairs("服务器");
        assert_eq!(
            asked
                .iter()
                .map(|asked| (asked.word, asked.share))
                .collect::<Vec<_>>(),
            [("服务器", 0.5); 2]
        );
    }
}
