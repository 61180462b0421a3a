//! Words by which a question refers to the conversation, by language: `how do I turn it off`.

use unicode_segmentation::UnicodeSegmentation;

use crate::search::analyzer::Language;
use crate::search::asking::only_asks;

/// Whether a question refers to what was said before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reference {
    /// Nothing in it does: `how do I choose an optimizer`.
    Nothing,
    /// It only begins as if it continued, or has `they`, which often means the authors of a document: `and how do I
    /// delete a file`, `what optimizer did they use`.
    Continues,
    /// A subject does, which many questions have that are about something else: `why does it say access denied`.
    Possible,
    /// What is asked about is named by a pronoun, or left out: `how do I turn it off`, `and for files`.
    Certain,
}

/// The words of a language, separated by spaces.
struct Words {
    /// Pronouns that replace what is asked about.
    certain: &'static str,
    /// Pronouns that are often the subject of a question about something else.
    possible: &'static str,
    /// Words that refer to the conversation alone, or before a noun that is not known.
    pointing: &'static str,
    /// Phrases, separated by commas, whose pronouns refer to nothing.
    impersonal: &'static str,
    /// Conjunctions that begin a question which continues the one before.
    continuing: &'static str,
    /// Phrases, separated by commas, that begin a question without its verb.
    shortened: &'static str,
    /// Words before a question that say nothing.
    fillers: &'static str,
    /// Verbs that come before the subject of a question.
    verbs: &'static str,
    /// Further words with which a question begins.
    asking: &'static str,
    /// Prepositions with which a question begins that lacks its verb: `since which version`.
    prepositions: &'static str,
    /// Phrases, separated by commas, that end a question for all things of a kind: `which formats are there`.
    listing: &'static str,
}

impl Words {
    /// Returns whether a complete question begins with a word.
    fn begin_with(&self, word: &str, language: Language) -> bool {
        // The English words that only ask are mostly no beginnings: `just`, `many`.
        let asks = language != Language::English && only_asks(word, language);
        has(self.verbs, word) || has(self.asking, word) || asks
    }
}

const ENGLISH: Words = Words {
    certain: "its them their him his her ones",
    possible: "it he she",
    pointing: "this that these those",
    impersonal: "it possible,it safe,it ok,it okay,it allowed,it necessary,it recommended,it better,it worth,it true,\
        it legal,it required,it normal,it bad,it good,it fine,it enough,it advisable,it sensible,it a good idea,\
        it mean when,it mean if,it mean that,it mean to,it take to,it take for,it matter if,it matter whether,\
        it make sense to,it make a difference,so that,sure that,true that,say that,says that,fact that,means that,\
        now that",
    continuing: "and but or",
    shortened: "what about,how about,what if,why not",
    fillers: "ok okay so now then also thanks great cool right well next yes no hm hmm",
    verbs: "is are was were am be do does did can could will would shall should may might must has have had isn isnt \
        aren arent doesn doesnt don dont didn didnt cant couldn couldnt won wont wouldn wouldnt",
    asking: "where when why how what which who whom whose",
    prepositions: "since from until till for in on with without by at to under before after like about",
    listing: "are there,exist,are available,are supported",
};

const GERMAN: Words = Words {
    certain: "ihn ihm ihnen dessen davon dafür darauf dazu daran darin dadurch dagegen",
    possible: "es sie er",
    pointing: "das dies diese dieser dieses diesen diesem",
    impersonal: "es möglich,es erlaubt,es sicher,es nötig,es sinnvoll,es besser,es einen,es eine,es ein,es auch,gibt es,\
        gab es,geht es,es gibt,es geht",
    continuing: "und aber oder",
    shortened: "was ist mit,wie ist es mit,wie steht es mit",
    fillers: "ok okay also jetzt nun dann danke gut prima ja nein",
    verbs: "ist sind war waren kann können könnte darf dürfen muss müssen soll sollen sollte wird werden wurde hat haben \
        hatte",
    asking: "was welche welcher welches welchen welchem wie wo wann wer",
    prepositions: "seit ab bis für in im auf mit ohne von bei zu unter vor nach über",
    listing: "gibt es,es gibt,existieren",
};

const FRENCH: Words = Words {
    certain: "ça cela ceci celui celle ceux celles",
    possible: "il elle ils elles",
    pointing: "ce cet cette ces",
    impersonal: "il y,y a t il,il possible,il faut,faut il,il nécessaire,il sûr,il mieux,il permis,est ce que,est ce,\
        ce que,ce qui,ce qu,c est",
    continuing: "et mais ou",
    shortened: "qu en est il,et si",
    fillers: "ok alors donc merci bon bien maintenant puis oui non",
    verbs: "est sont était a ont peut peuvent doit doivent faut va vont sera",
    asking: "que qu qui où",
    prepositions: "depuis dès jusqu pour en dans sur avec sans par à sous avant après de chez",
    listing: "y a t il,il y a,existent",
};

const SPANISH: Words = Words {
    certain: "eso esto ello aquello",
    possible: "él ella ellos ellas",
    pointing: "este esta estos estas ese esa esos esas",
    impersonal: "",
    continuing: "y e pero o",
    shortened: "y si,qué tal",
    fillers: "ok vale entonces gracias bien ahora luego sí no",
    verbs: "es son está están era hay puede pueden debe deben tiene tienen será",
    asking: "que quien donde",
    prepositions: "desde hasta para en con sin por a bajo antes después de",
    listing: "hay,existen",
};

const ITALIAN: Words = Words {
    certain: "ciò",
    possible: "esso essa essi esse lui lei loro",
    pointing: "questo questa questi queste quello quella quelli quelle",
    impersonal: "",
    continuing: "e ed ma o",
    shortened: "e se",
    fillers: "ok allora grazie bene adesso ora poi sì no",
    verbs: "è sono era erano può possono deve devono ha hanno",
    asking: "che",
    prepositions: "da fino per in su con senza a sotto prima dopo di",
    listing: "ci sono,esistono",
};

const PORTUGUESE: Words = Words {
    certain: "isso isto aquilo",
    possible: "ele ela eles elas",
    pointing: "este esta estes estas esse essa esses essas",
    impersonal: "",
    continuing: "e mas ou",
    shortened: "e se,que tal",
    fillers: "ok então obrigado obrigada bem agora depois sim não",
    verbs: "é são está estão era pode podem deve devem tem têm será",
    asking: "que",
    prepositions: "desde até para em com sem por a sob antes depois de",
    listing: "há,existem",
};

const DUTCH: Words = Words {
    certain: "ervan daarvan ermee daarmee erop daarop ervoor daarvoor",
    possible: "hij zij ze",
    pointing: "dit dat deze die",
    impersonal: "dat het",
    continuing: "en maar of",
    shortened: "hoe zit het met,wat met",
    fillers: "ok oké dus nu dan bedankt goed ja nee",
    verbs: "is zijn was waren kan kunnen mag moet moeten zal zullen wordt worden heeft hebben",
    asking: "",
    prepositions: "sinds vanaf tot voor in op met zonder van bij naar onder na over",
    listing: "zijn er,er zijn,bestaan er",
};

/// English subjects after which `do` and `have` are verbs of their own: `can I do it`.
const SPEAKERS: &str = "i you we to";
/// Words after which the English `one` refers to the conversation. Elsewhere it is a number: `readers of one turn`.
const BEFORE_ONE: [&str; 8] = [
    "which", "this", "that", "the", "another", "first", "second", "last",
];
/// Words beside the English `there` that make it refer to nothing: `is there a limit`.
const BESIDE_THERE: [&str; 4] = ["is", "are", "was", "were"];

/// How English questions begin that ask what a kind of thing is.
const KIND_STARTS: [&str; 8] = [
    "what is a ",
    "what is an ",
    "what's a ",
    "what's an ",
    "whats a ",
    "whats an ",
    "what are ",
    "define ",
];
/// English words after which a thing is one that the conversation knows: `what are the limits`.
const SPECIFIC: &str = "the its their these those they my your other others some any";

/// English nouns that mostly belong to asking: `what type`, `which documents`. As objects they are what a question is
/// about.
const OBJECTS: &str = "document documents text texts type types name names list lists";

/// English verbs before the name of a tool or function.
const USING: &str = "use using install run call start configure";

/// A question that lacks its verb has at most so many words: `for how long`.
const SHORT_QUESTION: usize = 5;
/// A pronoun after as many significant words may refer to one of these.
const OWN_WORDS_BEFORE: usize = 2;
/// A question without a verb that has as many significant words is complete: `and default path of the log file`.
const LONG_QUESTION: usize = 3;

/// Returns the words of a language, if it has any here.
fn words_of(language: Language) -> Option<&'static Words> {
    match language {
        Language::English => Some(&ENGLISH),
        Language::German => Some(&GERMAN),
        Language::French => Some(&FRENCH),
        Language::Spanish => Some(&SPANISH),
        Language::Italian => Some(&ITALIAN),
        Language::Portuguese => Some(&PORTUGUESE),
        Language::Dutch => Some(&DUTCH),
        Language::Arabic
        | Language::Catalan
        | Language::Czech
        | Language::Danish
        | Language::Finnish
        | Language::Greek
        | Language::Hindi
        | Language::Hungarian
        | Language::Indonesian
        | Language::Norwegian
        | Language::Polish
        | Language::Romanian
        | Language::Russian
        | Language::Swedish
        | Language::Turkish
        | Language::Ukrainian => None,
    }
}

/// Returns whether a question asks what a kind of thing is: `what is an intent`. It names what it is about, unlike
/// `what is the default`.
pub(crate) fn asks_for_a_kind(question: &str) -> bool {
    let question = question.trim().to_lowercase();
    let kind = KIND_STARTS.iter().find_map(|start| question.strip_prefix(start));
    let first = kind.and_then(|kind| kind.unicode_words().next());
    first.is_some_and(|first| !has(SPECIFIC, first))
}

/// Returns whether a question asks for all things of a kind: `which formats are there`. That may be those of what the
/// conversation is about: `which options are there`.
pub(crate) fn lists_a_kind(question: &str, language: Language) -> bool {
    let question = question.to_lowercase().replace(['\'', '’'], " ");
    let words: Vec<&str> = question.unicode_words().collect();
    let Some((known, first)) = words_of(language).zip(words.first()) else {
        return false;
    };
    let ends = |phrase: &str| {
        let phrase: Vec<&str> = phrase.split_whitespace().collect();
        words.len() > phrase.len() + 1 && words.ends_with(&phrase)
    };
    // `does a format exist` asks for one.
    !has(known.verbs, first) && known.listing.split(',').any(ends)
}

/// Returns whether a question ends with an object that no article refers to the conversation: `how do i upload documents`,
/// `how do i delete a document`.
pub(crate) fn ends_with_object(question: &str, language: Language, named: impl Fn(&str) -> Named) -> bool {
    let question = question.to_lowercase();
    let words: Vec<&str> = question.unicode_words().collect();
    let ([.., before, "a" | "an", object] | [.., before, object]) = words[..] else {
        return false;
    };
    language == Language::English && has(OBJECTS, object) && named(before) != Named::No
}

/// Returns whether a question asks for the use of something that it names without an article: `how do i use lmer`.
pub(crate) fn names_what_it_uses(question: &str, language: Language, named: impl Fn(&str) -> Named) -> bool {
    let question = question.to_lowercase();
    let words: Vec<&str> = question.unicode_words().collect();
    let [.., verb, object] = words[..] else {
        return false;
    };
    language == Language::English && has(USING, verb) && named(object) != Named::No
}

fn has(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|one| one == word)
}

/// Whether a word of a question names something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// Not significant: a stop word.
    No,
    /// Significant, and known neither from the conversation nor by its rarity: `this option`.
    Vaguely,
    /// It names what is asked about: `this certificate`, after a question about certificates.
    Yes,
}

/// Returns how a question refers to the conversation. `named` says of each of its words, in lower case,
/// whether it names something.
pub(crate) fn reference(question: &str, language: Language, named: impl Fn(&str) -> Named) -> Reference {
    let Some(known) = words_of(language) else {
        return Reference::Nothing;
    };
    let question = question.to_lowercase().replace(['\'', '’'], " ");
    let mut words: Vec<&str> = question.unicode_words().collect();
    words.drain(..words.iter().take_while(|word| has(known.fillers, word)).count());
    let mut found = beginning(known, &words, language, &named);
    without_phrases(&mut words, known.impersonal);
    let is_long = words.iter().filter(|word| named(word) != Named::No).count() >= LONG_QUESTION;
    for (at, word) in words.iter().enumerate() {
        let previous = at.checked_sub(1).map(|previous| words[previous]);
        let next = words.get(at + 1).copied();
        let is_after_subject = language == Language::English && at >= 2 && has(SPEAKERS, words[at - 2]);
        let is_subject =
            !is_after_subject && previous.is_none_or(|previous| known.begin_with(previous, language));
        let this = if has(known.certain, word) {
            Reference::Certain
        } else if has(known.possible, word) {
            // `it` is the only one of them that is also an object.
            let is_object = language == Language::English && *word == "it" && !is_subject;
            if is_object {
                Reference::Certain
            } else {
                Reference::Possible
            }
        } else if has(known.pointing, word) {
            points(previous, next, is_subject, is_long, known, &named)
        } else if language == Language::English {
            english(word, previous, next)
        } else {
            Reference::Nothing
        };
        // `give it a name, so that it can be found`: what the question has named itself.
        let own = words[..at].iter().filter(|word| named(word) != Named::No).count();
        let this = if own >= OWN_WORDS_BEFORE {
            this.min(Reference::Possible)
        } else {
            this
        };
        found = found.max(this);
    }
    found
}

/// Returns how the beginning of a question continues the one before.
fn beginning(known: &Words, words: &[&str], language: Language, named: &impl Fn(&str) -> Named) -> Reference {
    let starts = |phrase: &str| {
        let mut phrase = phrase.split_whitespace();
        let mut at = words.iter();
        phrase.all(|word| at.next().is_some_and(|found| *found == word))
    };
    if known
        .shortened
        .split(',')
        .any(|phrase| !phrase.is_empty() && starts(phrase))
    {
        return Reference::Certain;
    }
    let [first, rest @ ..] = words else {
        return Reference::Nothing;
    };
    if has(known.prepositions, first)
        && words.len() <= SHORT_QUESTION
        && !rest.iter().any(|word| has(known.verbs, word))
    {
        return Reference::Certain;
    }
    if !has(known.continuing, first) {
        return Reference::Nothing;
    }
    let skipped = rest.iter().take_while(|word| has(known.fillers, word)).count();
    let significant = rest.iter().filter(|word| named(word) != Named::No).count();
    if rest
        .get(skipped)
        .is_some_and(|word| known.begin_with(word, language))
        || significant >= LONG_QUESTION
    {
        Reference::Continues
    } else {
        Reference::Certain
    }
}

/// Returns what `this` or `that` refers to, between two words.
fn points(
    previous: Option<&str>,
    next: Option<&str>,
    is_subject: bool,
    is_long: bool,
    known: &Words,
    named: &impl Fn(&str) -> Named,
) -> Reference {
    let follows_noun = previous.is_some_and(|previous| named(previous) != Named::No);
    match next.map_or(Named::No, named) {
        Named::Yes => Reference::Possible,
        // `does that compile`, `a command that lists files`, `what is that folder with regressions for`.
        Named::Vaguely if is_subject || follows_noun || is_long => Reference::Possible,
        Named::Vaguely => Reference::Certain,
        Named::No if follows_noun && next.is_some_and(|next| has(known.verbs, next)) => Reference::Nothing,
        Named::No if is_subject => Reference::Possible,
        Named::No => Reference::Certain,
    }
}

/// Returns what `they`, `others`, `one` and `there` refer to.
fn english(word: &str, previous: Option<&str>, next: Option<&str>) -> Reference {
    let refers = match word {
        "they" => return Reference::Continues,
        "others" => next.is_none(),
        "one" => next.is_none() || previous.is_some_and(|previous| BEFORE_ONE.contains(&previous)),
        "there" => [previous, next]
            .into_iter()
            .flatten()
            .all(|word| !BESIDE_THERE.contains(&word)),
        _ => false,
    };
    if refers {
        Reference::Certain
    } else {
        Reference::Nothing
    }
}

/// Removes phrases, separated by commas.
fn without_phrases(words: &mut Vec<&str>, phrases: &str) {
    for phrase in phrases.split(',') {
        let phrase: Vec<&str> = phrase.split_whitespace().collect();
        if phrase.is_empty() {
            continue;
        }
        while let Some(at) = words.windows(phrase.len()).position(|found| found == phrase) {
            words.drain(at..at + phrase.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Reference::{Certain, Continues, Nothing, Possible};

    /// Takes words in capitals as names, and the words of `STOP` as words that name nothing.
    fn refers(question: &str, language: Language) -> Reference {
        const STOP: &str = "how do i it is the a an in on for to of and but what which who when where why did does \
            that this those these be can with one ones they its there are so ok not my wie ich und das es ist den wo \
            sie kann man wieder work de la le et il en y puis comment je cómo come como si hoe kom ik";
        let names: Vec<String> = question
            .split_whitespace()
            .filter(|word| word.chars().all(char::is_uppercase))
            .map(str::to_lowercase)
            .collect();
        let named = |word: &str| {
            if names.iter().any(|name| name == word) {
                Named::Yes
            } else if has(STOP, word) {
                Named::No
            } else {
                Named::Vaguely
            }
        };
        reference(question, language, named)
    }

    #[test]
    fn questions_refer_to_the_conversation_by_pronouns_and_by_what_they_lack() {
        for (question, wanted) in [
            // Nothing.
            ("how do readers follow", Nothing),
            ("how many readers can follow one turn", Nothing),
            ("is there a limit on readers", Nothing),
            ("how many limits are there", Nothing),
            ("is it possible to use another port", Nothing),
            ("what does it mean when a message is deferred", Nothing),
            ("which option is for a command that lists files", Possible),
            ("which setting names the file that is open", Nothing),
            ("in which file are the settings", Nothing),
            // What most questions of this form are about is named in them.
            ("and how do i delete a file", Continues),
            ("ok, and how do i rename a branch", Continues),
            ("and default path of the log file", Continues),
            ("why did it refuse the question", Possible),
            ("where are they stored", Continues),
            ("does that work with proxies", Possible),
            ("how do i delete those STASHES", Possible),
            ("how do i give a name to the file so it is found", Possible),
            // The conversation names it.
            ("how do i turn it off", Certain),
            ("how do i undo that", Certain),
            ("and can i do it without a password", Certain),
            ("what is its default", Certain),
            ("how do i change that setting", Possible),
            ("what is the default of that setting", Certain),
            ("which one is faster", Certain),
            ("how do i choose one?", Certain),
            ("how do i get there", Certain),
            ("and the unreachable ones?", Certain),
            ("and for files", Certain),
            ("what about files", Certain),
            ("since which version", Certain),
            ("for how long", Certain),
        ] {
            assert_eq!(refers(question, Language::English), wanted, "{question}");
        }
    }

    #[test]
    fn a_question_for_a_kind_names_what_it_is_about() {
        for (question, asks) in [
            ("What is an Intent?", true),
            ("what are etfs", true),
            ("define probate", true),
            ("what is the default", false),
            ("what are the limits", false),
            ("what are they", false),
            ("what is it", false),
        ] {
            assert_eq!(asks_for_a_kind(question), asks, "{question}");
        }
    }

    #[test]
    fn an_object_without_the_is_named() {
        let named = |word: &str| match word {
            "upload" | "delete" => Named::Vaguely,
            _ => Named::No,
        };
        for (question, ends) in [
            ("how do I upload documents?", true),
            ("how do I delete a document", true),
            ("how do I delete the document", false),
            ("which documents", false),
            ("upload documents where", false),
            ("documents", false),
        ] {
            assert_eq!(
                ends_with_object(question, Language::English, named),
                ends,
                "{question}"
            );
            assert!(!ends_with_object(question, Language::German, named), "{question}");
        }
    }

    #[test]
    fn a_question_for_all_things_of_a_kind_ends_with_there_are() {
        for (question, language, lists) in [
            ("which wires are there?", Language::English, true),
            ("what formats exist", Language::English, true),
            ("are there", Language::English, false),
            ("are there limits", Language::English, false),
            ("how are there", Language::English, false),
            ("does this format exist", Language::English, false),
            ("Welche Formate gibt es?", Language::German, true),
            ("gibt es Formate", Language::German, false),
            ("quels formats y a-t-il ?", Language::French, true),
            ("qué formatos hay", Language::Spanish, true),
            ("quali formati ci sono", Language::Italian, true),
            ("que formatos há", Language::Portuguese, true),
            ("welke formaten zijn er", Language::Dutch, true),
            ("hangi biçimler var", Language::Turkish, false),
        ] {
            assert_eq!(lists_a_kind(question, language), lists, "{question}");
        }
    }

    #[test]
    fn each_language_has_words_of_its_own() {
        for (question, language, wanted) in [
            ("wo kommt der name her", Language::German, Nothing),
            ("gibt es einen rabatt", Language::German, Nothing),
            ("und wo melde ich einen fehler", Language::German, Continues),
            ("wie lange dauert es", Language::German, Possible),
            ("kann man sie löschen", Language::German, Possible),
            ("wie mache ich das wieder rückgängig", Language::German, Certain),
            ("seit welcher version", Language::German, Certain),
            ("und für dateien?", Language::German, Certain),
            ("y a t il une limite", Language::French, Nothing),
            ("est-ce que je peux changer le port", Language::French, Nothing),
            ("et comment supprimer un fichier", Language::French, Continues),
            ("comment désactiver cela", Language::French, Certain),
            ("en quelle année ?", Language::French, Certain),
            ("¿y cómo borro un archivo?", Language::Spanish, Continues),
            ("cómo desactivo eso", Language::Spanish, Certain),
            ("come si disattiva questo", Language::Italian, Certain),
            ("como desativo isso", Language::Portuguese, Certain),
            ("hoe kom ik ervan af", Language::Dutch, Certain),
            ("bunu nasıl kapatırım", Language::Turkish, Nothing),
        ] {
            assert_eq!(refers(question, language), wanted, "{question}");
        }
    }
}
