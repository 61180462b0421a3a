//! Recognizes that a model's text is a refusal.

use crate::answer::notices::Notices;

/// How models begin a refusal in words of their own, in lower case. An answer may begin so as well
/// ("Unfortunately not: …"), so only a text that no passage supports is one.
const BEGINNINGS: &[&str] = &[
    "sorry",
    "i'm sorry",
    "i am sorry",
    "i apologize",
    "unfortunately",
    "i cannot",
    "i can't",
    "i'm unable",
    "i am unable",
    "i could not find",
    "i couldn't find",
    "i do not know",
    "i don't know",
    "i do not have",
    "i don't have",
    "there is no information",
    "there is no mention",
    "no information",
    "the documents do not",
    "the documents don't",
    "the sources do not",
    "the sources don't",
    "the provided sources do not",
    "the provided documents do not",
    "none of the sources",
    "none of the documents",
    "es tut mir leid",
    "leider",
    "ich weiß nicht",
    "ich kann dazu",
    "ich kann diese frage",
    "ich kann leider",
    "dazu steht nichts",
    "dazu enthalten die",
    "in den dokumenten steht nichts",
    "die dokumente enthalten kein",
    "die quellen enthalten kein",
    "die quellen beantworten",
    "keine der quellen",
    "désolé",
    "je suis désolé",
    "malheureusement",
    "je ne sais pas",
    "je ne peux pas",
    "les sources ne",
    "les documents ne",
    "lo siento",
    "lamentablemente",
    "desafortunadamente",
    "no lo sé",
    "no puedo",
    "las fuentes no",
    "los documentos no",
    "mi dispiace",
    "purtroppo",
    "non lo so",
    "non posso",
    "le fonti non",
    "i documenti non",
    "desculpe",
    "sinto muito",
    "infelizmente",
    "não sei",
    "não posso",
    "as fontes não",
    "os documentos não",
    "het spijt me",
    "helaas",
    "ik weet het niet",
    "ik kan deze vraag",
    "ik kan niet",
    "de bronnen beantwoorden",
    "de bronnen bevatten geen",
];

/// Returns whether a text begins with the sentence that the instructions prescribe for a refusal, in one of the
/// languages of the notices, whatever its case and punctuation.
pub(crate) fn is_prescribed(text: &str) -> bool {
    let text = letters(text);
    Notices::ALL
        .iter()
        .any(|notices| text.starts_with(&letters(notices.no_answer)))
}

/// Returns whether a text begins like a refusal in a model's own words.
pub(crate) fn begins_like_one(text: &str) -> bool {
    let text = letters(text);
    BEGINNINGS
        .iter()
        .any(|beginning| text.starts_with(&letters(beginning)))
}

fn letters(text: &str) -> String {
    text.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prescribed_sentence_is_known_in_each_language() {
        for text in [
            "The documents do not answer this question.",
            " **die dokumente beantworten diese Frage nicht** ",
            "Les documents ne répondent pas à cette question. Je n’en sais rien.",
            "문서에 이 질문에 대한 답이 없습니다.",
        ] {
            assert!(is_prescribed(text), "{text}");
        }
        for text in ["", "The documents", "Die Dokumente beantworten viele Fragen."] {
            assert!(!is_prescribed(text), "{text}");
        }
    }

    #[test]
    fn a_refusal_in_other_words_is_known_by_its_beginning() {
        for text in [
            "I'm sorry, but I can't help with that request.",
            "I’m sorry.",
            "Leider steht dazu nichts in den Quellen.",
            "Malheureusement, les sources ne le disent pas.",
        ] {
            assert!(begins_like_one(text), "{text}");
        }
        for text in ["", "At dawn.", "Robins are sorry birds.", "Die Quellen des Nils."] {
            assert!(!begins_like_one(text), "{text}");
        }
    }
}
