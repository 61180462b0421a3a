//! Words by which two statements differ, in English and the commonest in German. A word that is in no
//! table has no effect.

/// Words that negate a sentence, besides those that end in `n't`.
pub(crate) const NEGATIONS: [&str; 21] = [
    "not", "no", "never", "none", "nor", "neither", "cannot", "cant", "dont", "without", "nobody", "nothing",
    "nowhere", "except", "nicht", "kein", "keine", "keinen", "nie", "niemals", "ohne",
];

/// Pairs of opposites.
pub(crate) const OPPOSITES: [(&str, &str); 32] = [
    ("before", "after"),
    ("first", "last"),
    ("oldest", "newest"),
    ("earliest", "latest"),
    ("minimum", "maximum"),
    ("min", "max"),
    ("most", "least"),
    ("more", "less"),
    ("more", "fewer"),
    ("largest", "smallest"),
    ("larger", "smaller"),
    ("longest", "shortest"),
    ("highest", "lowest"),
    ("higher", "lower"),
    ("fastest", "slowest"),
    ("faster", "slower"),
    ("best", "worst"),
    ("better", "worse"),
    ("above", "below"),
    ("over", "under"),
    ("increase", "decrease"),
    ("enable", "disable"),
    ("allow", "forbid"),
    ("start", "stop"),
    ("start", "end"),
    ("open", "close"),
    ("add", "remove"),
    ("install", "uninstall"),
    ("encoder", "decoder"),
    ("upload", "download"),
    ("advantages", "disadvantages"),
    ("true", "false"),
];

/// Question words, each with whether its answer can never be the answer to another of them.
pub(crate) const QUESTION_WORDS: [(&str, bool); 17] = [
    ("who", true),
    ("whom", true),
    ("whose", true),
    ("when", true),
    ("where", true),
    ("why", true),
    ("what", false),
    ("which", false),
    ("how", false),
    ("wer", true),
    ("wann", true),
    ("wo", true),
    ("warum", true),
    ("wieso", true),
    ("was", false),
    ("welche", false),
    ("wie", false),
];

/// Words that decide, after `how`, what is asked for.
pub(crate) const AFTER_HOW: [&str; 14] = [
    "many", "much", "long", "often", "large", "big", "far", "old", "fast", "high", "tall", "deep", "viele",
    "lange",
];

/// Words at the start of a sentence that refer to the one before.
pub(crate) const REFERS_BACK: [&str; 24] = [
    "it",
    "they",
    "this",
    "these",
    "that",
    "those",
    "therefore",
    "thus",
    "hence",
    "however",
    "instead",
    "otherwise",
    "then",
    "also",
    "second",
    "further",
    "furthermore",
    "moreover",
    "but",
    "so",
    "dies",
    "dieser",
    "daher",
    "jedoch",
];
