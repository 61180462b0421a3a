//! English words that the answers depend on, with the commonest German ones. A word that is in no
//! table has no effect.

/// Words that negate a sentence, besides those that end in `n't`.
pub(crate) const NEGATIONS: [&str; 21] = [
    "not", "no", "never", "none", "nor", "neither", "cannot", "cant", "dont", "without", "nobody", "nothing",
    "nowhere", "except", "nicht", "kein", "keine", "keinen", "nie", "niemals", "ohne",
];

/// Numbers in words, in digits, and whether a sentence with the word gives a quantity.
const NUMBERS: [(&str, &str, bool); 16] = [
    ("zero", "0", false),
    ("one", "1", true),
    ("two", "2", true),
    ("three", "3", true),
    ("four", "4", true),
    ("five", "5", true),
    ("six", "6", true),
    ("seven", "7", true),
    ("eight", "8", true),
    ("nine", "9", true),
    ("ten", "10", true),
    ("eleven", "11", false),
    ("twelve", "12", true),
    ("hundred", "100", true),
    ("thousand", "1000", false),
    ("million", "1000000", false),
];

/// Returns the digits of a number in words.
pub(crate) fn digits_of(word: &str) -> Option<&'static str> {
    let number = NUMBERS.iter().find(|(name, ..)| *name == word);
    number.map(|(_, digits, _)| *digits)
}

/// Returns `true` if a sentence that contains the word gives a quantity.
pub(crate) fn is_quantity(word: &str) -> bool {
    NUMBERS.iter().any(|(name, _, gives)| *name == word && *gives)
}

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

/// Phrases before what a question counts, in lower case.
pub(crate) const COUNT_PHRASES: [&str; 9] = [
    "how many ",
    "number of ",
    "wie viele ",
    "wieviele ",
    "combien de ",
    "combien d'",
    "combien d’",
    "cuántos ",
    "cuántas ",
];

/// Phrases of a question that asks for a time span.
pub(crate) const DURATION_PHRASES: [&str; 4] = ["how long", "wie lange", "combien de temps", "cuánto tiempo"];

/// Phrases of a question that asks what something costs.
pub(crate) const PRICE_PHRASES: [&str; 24] = [
    "how much does",
    "how much do ",
    "how much is",
    " cost?",
    "does it cost",
    "price of",
    "what is the price",
    "was kostet",
    "was kosten ",
    "wie viel kostet",
    "wie viel kosten",
    "wieviel kostet",
    "wie teuer",
    "combien coûte",
    "prix d",
    "quel est le prix",
    "cuánto cuesta",
    "precio de",
    "quanto costa",
    "prezzo d",
    "quanto custa",
    "preço d",
    "hoeveel kost",
    "wat kost",
];

/// Words of such a question that an answer with an amount of money need not repeat.
pub(crate) const PRICE_WORDS: [&str; 21] = [
    "cost", "costs", "price", "kostet", "kosten", "preis", "teuer", "coûte", "coûtent", "prix", "cuesta",
    "cuestan", "precio", "costa", "costano", "prezzo", "custa", "custam", "preço", "kost", "prijs",
];

/// Currencies, in lower case.
pub(crate) const CURRENCIES: [&str; 15] = [
    "euro", "euros", "eur", "cent", "cents", "dollar", "dollars", "usd", "pound", "pounds", "gbp", "franken",
    "francs", "chf", "yen",
];

/// What a sentence contains that says that something costs nothing, in lower case.
pub(crate) const FOR_NOTHING: [&str; 10] = [
    "free of charge",
    "for free",
    "at no cost",
    "kostenlos",
    "kostenfrei",
    "kostet nichts",
    "gratis",
    "gratuit",
    "sin coste",
    "senza costi",
];

/// Phrases of a question that asks for a number.
pub(crate) const QUANTITY_PHRASES: [&str; 24] = [
    "how many",
    "how much",
    "how long",
    "how large",
    "how big",
    "how often",
    "when ",
    "which year",
    "what year",
    "score",
    "rate",
    "percent",
    "number of",
    "size",
    "maximum",
    "minimum",
    "timeout",
    "lifetime",
    "wie viel",
    "wie oft",
    "wie groß",
    "wann ",
    "combien",
    "quand ",
];

/// Words before a number that counts nothing: it numbers a part of the document.
pub(crate) const NUMBERED_PARTS: [&str; 9] = [
    "table", "figure", "fig.", "section", "sec.", "chapter", "page", "row", "rows",
];

/// Beginnings of a question for a definition, in lower case. The longer ones first.
pub(crate) const DEFINITION_STARTS: [&str; 18] = [
    "what does the term ",
    "what is meant by ",
    "what is the meaning of ",
    "what is ",
    "what's ",
    "what’s ",
    "whats ",
    "what are ",
    "define ",
    "definition of ",
    "explain what ",
    "explain ",
    "describe ",
    "was ist ",
    "was sind ",
    "was bedeutet ",
    "qu'est-ce que ",
    "qué es ",
];

/// Verbs of a sentence that says what something is.
pub(crate) const COPULAS: [&str; 16] = [
    "is",
    "are",
    "was",
    "means",
    "refers",
    "describes",
    "denotes",
    "consists",
    "contains",
    "provides",
    "specifies",
    "maintains",
    "ist",
    "sind",
    "est",
    "sont",
];

/// Question words for a person.
pub(crate) const ASKS_FOR_PERSON: [&str; 8] =
    ["who", "whom", "whose", "author", "authors", "wer", "qui", "quién"];

/// Pairs of characters, and single ones, that Chinese, Japanese and Korean questions are asked with.
pub(crate) const QUESTION_PAIRS: [&str; 37] = [
    "什么", "什麼", "怎么", "怎麼", "如何", "为什", "為什", "哪里", "哪裡", "哪个", "哪個", "多少", "是谁",
    "是誰", "谁", "誰", "几个", "幾個", "请问", "何", "何で", "何が", "何を", "誰が", "무엇", "엇인", "언제",
    "어디", "누가", "어떻", "떻게", "왜", "인가", "니까", "나요", "은가", "까요",
];

/// What a caption begins with, in lower case, and what a question about a figure contains.
pub(crate) const CAPTION_LABELS: [&str; 9] = [
    "figure",
    "fig.",
    "table",
    "listing",
    "abbildung",
    "abb.",
    "tabelle",
    "tableau",
    "figura",
];

/// Question words for a reason.
pub(crate) const ASKS_FOR_REASON: [&str; 5] = ["why", "warum", "wieso", "pourquoi", "reason"];

/// What a sentence that gives a reason contains, in lower case.
pub(crate) const REASON_PHRASES: [&str; 9] = [
    "because",
    "so that",
    "in order to",
    "due to",
    "to avoid",
    "to prevent",
    "to counteract",
    "weil ",
    "parce que",
];

/// Units of time, in lower case.
pub(crate) const TIME_UNITS: [&str; 38] = [
    "nanoseconds",
    "microseconds",
    "milliseconds",
    "ms",
    "second",
    "seconds",
    "sec",
    "secs",
    "s",
    "minute",
    "minutes",
    "min",
    "mins",
    "hour",
    "hours",
    "h",
    "day",
    "days",
    "week",
    "weeks",
    "month",
    "months",
    "year",
    "years",
    "sekunden",
    "minuten",
    "stunden",
    "tage",
    "wochen",
    "monate",
    "jahre",
    "secondes",
    "heures",
    "jours",
    "semaines",
    "mois",
    "ans",
    "segundos",
];

/// Words of a question about who wrote a document.
pub(crate) const AUTHOR_WORDS: [&str; 11] = [
    "author",
    "authors",
    "writer",
    "writers",
    "coauthor",
    "coauthors",
    "autor",
    "autoren",
    "verfasser",
    "auteur",
    "auteurs",
];
/// Verbs that say that someone wrote a document.
pub(crate) const WROTE_WORDS: [&str; 8] = [
    "wrote",
    "written",
    "write",
    "authored",
    "geschrieben",
    "schrieb",
    "écrit",
    "published",
];
/// Verbs and nouns that say when a document appeared.
pub(crate) const PUBLISHED_WORDS: [&str; 6] = [
    "published",
    "publication",
    "appeared",
    "appear",
    "veröffentlicht",
    "publié",
];
/// Words that ask what a document is about.
pub(crate) const SUMMARY_WORDS: [&str; 15] = [
    "summarise",
    "summarize",
    "summary",
    "summaries",
    "overview",
    "tldr",
    "gist",
    "abstract",
    "contribution",
    "contributions",
    "findings",
    "zusammenfassung",
    "zusammenfassen",
    "fasse",
    "résumé",
];
/// Words that ask what a document concludes.
pub(crate) const CONCLUSION_WORDS: [&str; 7] = [
    "conclusion",
    "conclusions",
    "conclude",
    "concludes",
    "concluded",
    "fazit",
    "schlussfolgerung",
];
/// Words that ask for the title of a document.
pub(crate) const TITLE_WORDS: [&str; 4] = ["title", "titel", "titre", "called"];
/// Words for what has a title.
pub(crate) const TITLED_WORDS: [&str; 10] = [
    "paper", "papers", "article", "document", "book", "report", "thesis", "pdf", "essay", "dokument",
];
/// Words that mean a document without naming it, or that only phrase a question about one.
pub(crate) const DOCUMENT_WORDS: [&str; 46] = [
    "paper",
    "papers",
    "article",
    "document",
    "documents",
    "doc",
    "docs",
    "text",
    "report",
    "book",
    "guide",
    "manual",
    "thesis",
    "file",
    "pdf",
    "page",
    "work",
    "study",
    "essay",
    "about",
    "give",
    "list",
    "name",
    "names",
    "main",
    "key",
    "short",
    "brief",
    "briefly",
    "quick",
    "please",
    "tell",
    "show",
    "idea",
    "point",
    "points",
    "who",
    "whom",
    "when",
    "year",
    "date",
    "contents",
    "content",
    "whole",
    "entire",
    "dokument",
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
