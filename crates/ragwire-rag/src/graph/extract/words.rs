//! The words of a sentence, and the lists that determine which of them belong to names or
//! relations.
//!
//! The lists are English, as is the index. In other languages names and identifiers are still
//! found, but relations are not.

use std::collections::HashSet;

use super::super::entity::bare;
use super::RELATED_TO;

/// A word and the punctuation around it.
#[derive(Clone, Debug)]
pub(super) struct Word<'a> {
    /// The word without punctuation; never empty.
    pub(super) text: &'a str,
    /// The word in lower case.
    pub(super) lower: String,
    /// Whether an opening mark precedes it, so that it begins a phrase.
    pub(super) opens: bool,
    /// Whether a comma or a stronger mark follows, so that it ends a phrase.
    pub(super) closes: bool,
    /// Whether exactly a comma follows.
    pub(super) comma: bool,
}

/// Splits a sentence into words.
pub(super) fn words(sentence: &str) -> Vec<Word<'_>> {
    let mut words: Vec<Word<'_>> = Vec::new();
    for token in sentence.split_whitespace() {
        let text = bare(token);
        if text.is_empty() || text.contains(char::is_control) {
            // A dash by itself or a bullet separates phrases.
            if let Some(last) = words.last_mut() {
                (last.closes, last.comma) = (true, false);
            }
            continue;
        }
        let at = token.find(text).unwrap_or(0);
        let (before, after) = (&token[..at], &token[at + text.len()..]);
        let breaks = |c: char| !matches!(c, '"' | '\'' | '“' | '”' | '‘' | '’' | '`' | '*' | '%' | '-');
        words.push(Word {
            text,
            lower: text.to_lowercase(),
            opens: before.contains(breaks),
            closes: after.contains(breaks),
            comma: after == ",",
        });
    }
    words
}

/// Words that a name neither begins nor ends with.
const FUNCTION: &str = "a an and any all also always although am among and are as at be because become becomes been before behind being \
    below beside besides between beyond both but by can cannot could did do does doing done down during each either else even ever every \
    few first for from further get gets had has have having he hence her here his how however i if in instead into is it its itself just \
    last least less let like likely many may me merely might mine more most much must my neither never next no none nor not nothing now \
    of off often on once one only onto or other others otherwise our out over own per perhaps please rather same several shall she should \
    since so some someone something sometimes soon still such than that the their them themselves then there thereby therefore these they \
    thing things this those though through throughout thus to together too toward towards two under unless until up upon us usually very via \
    was we well were what whatever when whenever where whereas wherever whether which whichever while who whoever whole whom whose why will \
    with within without would yes yet you your yours after above about across again against along already around away able anybody anything \
    everything everybody nobody nowhere anywhere everywhere new old good better best bad etc e.g i.e cf vs see";

/// Words before a name that are not part of it.
const DETERMINERS: &str = "a an the its their this these that those his her our your my each every any some all both several many most \
    no one two three four other another such only also";

/// Words that may occur between a subject and its verb.
const BETWEEN: &str = "can may must will should might could shall would does do did also always usually often only then still never not \
    cannot therefore thus typically generally currently simply mainly primarily sometimes already now just";

/// Words that negate.
const DENIALS: &str = "not never cannot no neither nor without";

/// Words that attach a phrase to the one before it, which is the subject of the sentence.
const PREPOSITIONS: &str = "of in on for with at from to within between under over after before behind";

/// Words that mean little without the phrase after `of`.
const LIGHT: &str = "set list kind kinds type types number piece pieces part parts group way ways lot pair form sort series collection \
    sequence variety range example instance amount";

/// Words that refer to the subject of the previous sentence.
const PRONOUNS: &str = "it they";

/// Verbs and phrases of relations, by the name of the predicate: `name: phrase | phrase`. Longer
/// phrases with the same beginning are tried first.
const RELATIONS: &str = "
    uses: uses | use | used | employs | utilizes | relies on | rely on | makes use of
    has: has | have | had
    contains: contains | contain | contained | holds | hold | held | includes | include | included
    consists_of: consists of | consist of | consisted of | comprises | comprise | is made of | are made of | is composed of | are composed of | is made up of
    part_of: is part of | are part of | is a part of | belongs to | belong to | belonged to
    replaces: replaces | replace | replaced | supersedes | supersede | superseded
    depends_on: depends on | depend on | depended on | requires | require | required | needs | need | needed
    based_on: is based on | are based on | was based on | builds on | build on
    provides: provides | provide | provided | offers | offer | gives
    produces: produces | produce | produced | creates | create | created | generates | generate | generated | emits | emit | makes
    returns: returns | return | returned
    sends: sends | send | sent
    receives: receives | receive | received
    reads: reads | parses | parse
    writes: writes | wrote | written
    keeps: keeps | kept | stores | stored
    implements: implements | implement | implemented
    extends: extends | extend | extended
    supports: supports | support | supported
    calls: calls | invokes | invoke
    causes: causes | cause | caused | leads to | lead to | triggers | trigger | triggered
    prevents: prevents | prevent | prevented | avoids | avoid
    ends: ends | stops | closes | cancels | cancel
    begins: begins | starts | opens
    names: names | identifies | identify
    means: means | stands for | refers to | refer to | denotes | denote | is called | are called | is known as | are known as
    describes: describes | describe | described | defines | define | defined
    limits: limits | limit | bounds | restricts | restrict
    joins: joins | connects | connect | links | link | points at | points to
    runs_on: runs on | run on | trained on | was trained on | were trained on
    outperforms: outperforms | outperform | outperformed
    contrasts_with: differs from | differ from
";

/// A phrase that states a relation.
#[derive(Debug)]
struct Phrase {
    words: Vec<&'static str>,
    name: &'static str,
}

/// The word lists as sets.
#[derive(Debug)]
pub(super) struct Lists {
    function: HashSet<&'static str>,
    determiners: HashSet<&'static str>,
    between: HashSet<&'static str>,
    denials: HashSet<&'static str>,
    prepositions: HashSet<&'static str>,
    light: HashSet<&'static str>,
    pronouns: HashSet<&'static str>,
    /// The phrases, longest first.
    phrases: Vec<Phrase>,
    /// The first words of the phrases.
    beginnings: HashSet<&'static str>,
}

impl Default for Lists {
    fn default() -> Self {
        let list = |words: &'static str| words.split_whitespace().collect::<HashSet<_>>();
        let mut phrases = Vec::new();
        for line in RELATIONS.lines() {
            let Some((name, all)) = line.split_once(':') else {
                continue;
            };
            phrases.extend(all.split('|').map(|phrase| Phrase {
                words: phrase.split_whitespace().collect(),
                name: name.trim(),
            }));
        }
        phrases.sort_by_key(|phrase| std::cmp::Reverse(phrase.words.len()));
        debug_assert!(phrases.iter().all(|phrase| phrase.name != RELATED_TO));
        Self {
            function: list(FUNCTION),
            determiners: list(DETERMINERS),
            between: list(BETWEEN),
            denials: list(DENIALS),
            prepositions: list(PREPOSITIONS),
            light: list(LIGHT),
            pronouns: list(PRONOUNS),
            beginnings: phrases
                .iter()
                .filter_map(|phrase| phrase.words.first().copied())
                .collect(),
            phrases,
        }
    }
}

impl Lists {
    /// Returns `true` if a name neither begins nor ends with the word.
    pub(super) fn is_function(&self, word: &Word<'_>) -> bool {
        self.function.contains(&*word.lower)
    }

    pub(super) fn is_determiner(&self, word: &Word<'_>) -> bool {
        self.determiners.contains(&*word.lower)
    }

    pub(super) fn is_between(&self, word: &Word<'_>) -> bool {
        self.between.contains(&*word.lower)
    }

    pub(super) fn denies(&self, word: &Word<'_>) -> bool {
        self.denials.contains(&*word.lower) || word.lower.ends_with("n't") || word.lower.ends_with("n’t")
    }

    pub(super) fn is_preposition(&self, word: &Word<'_>) -> bool {
        self.prepositions.contains(&*word.lower)
    }

    pub(super) fn is_light(&self, word: &Word<'_>) -> bool {
        self.light.contains(&*word.lower)
    }

    pub(super) fn is_pronoun(&self, word: &Word<'_>) -> bool {
        self.pronouns.contains(&*word.lower)
    }

    /// Returns `true` if a relation may begin with the word, so that a name ends before it.
    pub(super) fn begins_relation(&self, word: &Word<'_>) -> bool {
        self.beginnings.contains(&*word.lower)
    }

    /// Returns the relation that begins at `at`, and its number of words.
    pub(super) fn relation(&self, words: &[Word<'_>], at: usize) -> Option<(&'static str, usize)> {
        if !self.begins_relation(words.get(at)?) {
            return None;
        }
        let fits = |phrase: &&Phrase| {
            let here = words.get(at..at + phrase.words.len());
            here.is_some_and(|here| {
                let last = here.len().saturating_sub(1);
                let equal = here
                    .iter()
                    .zip(&phrase.words)
                    .all(|(word, wanted)| word.lower == *wanted);
                equal
                    && here.iter().take(last).all(|word| !word.closes)
                    && here.iter().skip(1).all(|word| !word.opens)
            })
        };
        let phrase = self.phrases.iter().find(fits)?;
        Some((phrase.name, phrase.words.len()))
    }
}

/// Strips the number of a heading: `3.2 Attention` becomes `Attention`.
pub(super) fn without_numbering(heading: &str) -> &str {
    let heading = heading.trim();
    match heading.split_once(' ') {
        Some((number, rest))
            if number.starts_with(|c: char| c.is_ascii_digit())
                && number.chars().all(|c| c.is_ascii_digit() || ".)".contains(c)) =>
        {
            rest.trim()
        }
        _ => heading,
    }
}

pub(super) fn is_capitalised(word: &str) -> bool {
    word.starts_with(char::is_uppercase)
}

pub(super) fn is_acronym(word: &str) -> bool {
    word.chars().filter(|c| c.is_uppercase()).count() > 1
        || (is_capitalised(word) && word.contains(|c: char| c.is_ascii_digit()))
}

/// Returns `true` for an identifier of code: `max_turns`, `Turn::start`, `start()`, `useChat`,
/// `0x1D`.
pub(super) fn is_identifier(word: &str) -> bool {
    let mut letters = word.chars().zip(word.chars().skip(1));
    let inner = word.trim_matches('_');
    inner.contains('_')
        || word.contains("::")
        || word.ends_with("()")
        || word.starts_with("0x")
        || letters.any(|(a, b)| a.is_lowercase() && b.is_uppercase())
}
