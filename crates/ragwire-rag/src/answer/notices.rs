//! What an answer says in its own words, in the language of the question.

use crate::answer::generate::{NO_ANSWER, NO_DOCUMENTS};
use crate::search::analyzer::{Language, Run, is_hangul, is_hiragana, is_katakana, runs};
use crate::search::lexical::Analyzer;
use crate::search::terms::question_terms;
use crate::{Hit, LibraryView};

/// Where a notice has what it names.
const NAMED: &str = "{}";

/// The sentences of one language.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Notices {
    /// [`NO_ANSWER`].
    pub(crate) no_answer: &'static str,
    /// After it, if no document is in the language of the question.
    other_language: &'static str,
    /// [`NO_DOCUMENTS`].
    pub(crate) no_documents: &'static str,
    /// Before the closest passages of a question that none of them answers.
    pub(crate) not_directly: &'static str,
    /// After it, before the passages.
    pub(crate) closest: &'static str,
    not_mentioned: &'static str,
    not_answered: &'static str,
    title: &'static str,
    /// What is before a name, and after it.
    quotes: [&'static str; 2],
    /// What is between two names.
    comma: &'static str,
}

impl Notices {
    /// Those of every language.
    pub(crate) const ALL: [&Self; 26] = [
        &ARABIC,
        &CATALAN,
        &CZECH,
        &DANISH,
        &DUTCH,
        &ENGLISH,
        &FINNISH,
        &FRENCH,
        &GERMAN,
        &GREEK,
        &HINDI,
        &HUNGARIAN,
        &INDONESIAN,
        &ITALIAN,
        &NORWEGIAN,
        &POLISH,
        &PORTUGUESE,
        &ROMANIAN,
        &RUSSIAN,
        &SPANISH,
        &SWEDISH,
        &TURKISH,
        &UKRAINIAN,
        &CHINESE,
        &JAPANESE,
        &KOREAN,
    ];

    /// Returns the notices for a question of which only these passages are known.
    pub(crate) fn beside(analyzer: &Analyzer, question: &str, passages: &[Hit]) -> &'static Self {
        let known = || {
            let languages = passages.iter().map(|hit| analyzer.language(&hit.chunk.text));
            languages.flatten().collect()
        };
        in_script(question)
            .or_else(|| analyzer.language_of_question(question, known).map(in_language))
            .unwrap_or(&ENGLISH)
    }

    /// Returns the notices for a question.
    pub(crate) fn of(library: LibraryView<'_>, question: &str) -> &'static Self {
        match in_script(question) {
            Some(notices) => notices,
            None => in_language(library.language_of_question(question)),
        }
    }

    /// Says that the documents do not answer a question, and if they know no word of it and none is in its language,
    /// that too.
    pub(crate) fn no_answer_to(&self, library: LibraryView<'_>, question: &str) -> String {
        let is_of_none = |language| !library.has_language(language);
        let may_be_other =
            in_script(question).is_some() || library.said_language(question).is_some_and(is_of_none);
        if may_be_other && question_terms(library, question).iter().all(|term| !term.known) {
            let space = if self.no_answer.ends_with('.') { " " } else { "" };
            format!("{}{space}{}", self.no_answer, self.other_language)
        } else {
            self.no_answer.to_owned()
        }
    }

    /// Says that the documents do not mention these words.
    pub(crate) fn not_mentioned(&self, words: &[String]) -> String {
        self.not_mentioned.replace(NAMED, &self.quoted(words))
    }

    /// Says that the documents do not answer these questions.
    pub(crate) fn not_answered(&self, questions: &[&str]) -> String {
        self.not_answered.replace(NAMED, &self.quoted(questions))
    }

    /// Says what the title is.
    pub(crate) fn title(&self, title: &str) -> String {
        self.title.replace(NAMED, &self.quoted(&[title]))
    }

    fn quoted(&self, names: &[impl AsRef<str>]) -> String {
        let [before, after] = self.quotes;
        let quoted = names
            .iter()
            .map(|name| format!("{before}{}{after}", name.as_ref()));
        quoted.collect::<Vec<_>>().join(self.comma)
    }
}

/// Returns the notices of a language that its characters show.
fn in_script(question: &str) -> Option<&'static Notices> {
    let paired: String = runs(question)
        .into_iter()
        .filter_map(|run| match run {
            Run::Paired(letters) => Some(letters),
            Run::Word(_) => None,
        })
        .collect();
    let has = |is: fn(&str) -> bool| paired.chars().any(|letter| is(letter.encode_utf8(&mut [0; 4])));
    if paired.is_empty() {
        None
    } else if has(is_hangul) {
        Some(&KOREAN)
    } else if has(is_hiragana) || has(is_katakana) {
        Some(&JAPANESE)
    } else {
        Some(&CHINESE)
    }
}

/// Returns the notices of a language.
fn in_language(language: Language) -> &'static Notices {
    match language {
        Language::Arabic => &ARABIC,
        Language::Catalan => &CATALAN,
        Language::Czech => &CZECH,
        Language::Danish => &DANISH,
        Language::Dutch => &DUTCH,
        Language::English => &ENGLISH,
        Language::Finnish => &FINNISH,
        Language::French => &FRENCH,
        Language::German => &GERMAN,
        Language::Greek => &GREEK,
        Language::Hindi => &HINDI,
        Language::Hungarian => &HUNGARIAN,
        Language::Indonesian => &INDONESIAN,
        Language::Italian => &ITALIAN,
        Language::Norwegian => &NORWEGIAN,
        Language::Polish => &POLISH,
        Language::Portuguese => &PORTUGUESE,
        Language::Romanian => &ROMANIAN,
        Language::Russian => &RUSSIAN,
        Language::Spanish => &SPANISH,
        Language::Swedish => &SWEDISH,
        Language::Turkish => &TURKISH,
        Language::Ukrainian => &UKRAINIAN,
    }
}

const ENGLISH: Notices = Notices {
    no_answer: NO_ANSWER,
    other_language: "None of them is in English.",
    no_documents: NO_DOCUMENTS,
    not_directly: "The documents do not answer this directly.",
    closest: "Closest passages:",
    not_mentioned: "The documents do not mention {}.",
    not_answered: "The documents do not answer {}.",
    title: "The title is {}.",
    quotes: ["“", "”"],
    comma: ", ",
};

const DANISH: Notices = Notices {
    no_answer: "Dokumenterne besvarer ikke dette spørgsmål.",
    other_language: "Ingen af dem er på dansk.",
    no_documents: "Der er endnu ingen dokumenter at svare ud fra.",
    not_directly: "Dokumenterne besvarer ikke dette direkte.",
    closest: "De nærmeste afsnit:",
    not_mentioned: "Dokumenterne nævner ikke {}.",
    not_answered: "Dokumenterne besvarer ikke {}.",
    title: "Titlen er {}.",
    quotes: ["»", "«"],
    comma: ", ",
};

const DUTCH: Notices = Notices {
    no_answer: "De documenten beantwoorden deze vraag niet.",
    other_language: "Geen ervan is in het Nederlands.",
    no_documents: "Er zijn nog geen documenten om uit te antwoorden.",
    not_directly: "De documenten beantwoorden dit niet rechtstreeks.",
    closest: "Meest verwante passages:",
    not_mentioned: "De documenten noemen {} niet.",
    not_answered: "De documenten beantwoorden {} niet.",
    title: "De titel is {}.",
    quotes: ["“", "”"],
    comma: ", ",
};

const FRENCH: Notices = Notices {
    no_answer: "Les documents ne répondent pas à cette question.",
    other_language: "Aucun n’est en français.",
    no_documents: "Il n’y a pas encore de documents à partir desquels répondre.",
    not_directly: "Les documents n’y répondent pas directement.",
    closest: "Passages les plus proches :",
    not_mentioned: "Les documents ne mentionnent pas {}.",
    not_answered: "Les documents ne répondent pas à {}.",
    title: "Le titre est {}.",
    quotes: ["« ", " »"],
    comma: ", ",
};

const GERMAN: Notices = Notices {
    no_answer: "Die Dokumente beantworten diese Frage nicht.",
    other_language: "Keines davon ist auf Deutsch.",
    no_documents: "Es gibt noch keine Dokumente, aus denen geantwortet werden kann.",
    not_directly: "Die Dokumente beantworten das nicht direkt.",
    closest: "Am nächsten kommen diese Stellen:",
    not_mentioned: "Die Dokumente erwähnen {} nicht.",
    not_answered: "Die Dokumente beantworten {} nicht.",
    title: "Der Titel ist {}.",
    quotes: ["„", "“"],
    comma: ", ",
};

const ITALIAN: Notices = Notices {
    no_answer: "I documenti non rispondono a questa domanda.",
    other_language: "Nessuno è in italiano.",
    no_documents: "Non ci sono ancora documenti da cui rispondere.",
    not_directly: "I documenti non rispondono direttamente.",
    closest: "Passaggi più vicini:",
    not_mentioned: "I documenti non menzionano {}.",
    not_answered: "I documenti non rispondono a {}.",
    title: "Il titolo è {}.",
    quotes: ["«", "»"],
    comma: ", ",
};

const NORWEGIAN: Notices = Notices {
    no_answer: "Dokumentene besvarer ikke dette spørsmålet.",
    other_language: "Ingen av dem er på norsk.",
    no_documents: "Det finnes ennå ingen dokumenter å svare ut fra.",
    not_directly: "Dokumentene besvarer ikke dette direkte.",
    closest: "De nærmeste avsnittene:",
    not_mentioned: "Dokumentene nevner ikke {}.",
    not_answered: "Dokumentene besvarer ikke {}.",
    title: "Tittelen er {}.",
    quotes: ["«", "»"],
    comma: ", ",
};

const PORTUGUESE: Notices = Notices {
    no_answer: "Os documentos não respondem a esta pergunta.",
    other_language: "Nenhum está em português.",
    no_documents: "Ainda não há documentos a partir dos quais responder.",
    not_directly: "Os documentos não respondem a isto diretamente.",
    closest: "Passagens mais próximas:",
    not_mentioned: "Os documentos não mencionam {}.",
    not_answered: "Os documentos não respondem a {}.",
    title: "O título é {}.",
    quotes: ["“", "”"],
    comma: ", ",
};

const RUSSIAN: Notices = Notices {
    no_answer: "В документах нет ответа на этот вопрос.",
    other_language: "Среди них нет ни одного на русском.",
    no_documents: "Документов, по которым можно ответить, пока нет.",
    not_directly: "В документах нет прямого ответа.",
    closest: "Самые близкие фрагменты:",
    not_mentioned: "В документах не упоминается {}.",
    not_answered: "В документах нет ответа на {}.",
    title: "Название: {}.",
    quotes: ["«", "»"],
    comma: ", ",
};

const SPANISH: Notices = Notices {
    no_answer: "Los documentos no responden a esta pregunta.",
    other_language: "Ninguno está en español.",
    no_documents: "Todavía no hay documentos con los que responder.",
    not_directly: "Los documentos no responden a esto directamente.",
    closest: "Pasajes más cercanos:",
    not_mentioned: "Los documentos no mencionan {}.",
    not_answered: "Los documentos no responden a {}.",
    title: "El título es {}.",
    quotes: ["«", "»"],
    comma: ", ",
};

const SWEDISH: Notices = Notices {
    no_answer: "Dokumenten besvarar inte den här frågan.",
    other_language: "Inget av dem är på svenska.",
    no_documents: "Det finns ännu inga dokument att svara utifrån.",
    not_directly: "Dokumenten besvarar inte detta direkt.",
    closest: "Närmaste avsnitt:",
    not_mentioned: "Dokumenten nämner inte {}.",
    not_answered: "Dokumenten besvarar inte {}.",
    title: "Titeln är {}.",
    quotes: ["”", "”"],
    comma: ", ",
};

const ARABIC: Notices = Notices {
    no_answer: "الوثائق لا تجيب عن هذا السؤال.",
    other_language: "لا توجد وثيقة منها بالعربية.",
    no_documents: "لا توجد بعد وثائق يمكن الإجابة منها.",
    not_directly: "الوثائق لا تجيب عن ذلك مباشرة.",
    closest: "أقرب المقاطع:",
    not_mentioned: "لا تذكر الوثائق {}.",
    not_answered: "لا تجيب الوثائق عن {}.",
    title: "العنوان هو {}.",
    quotes: ["«", "»"],
    comma: "، ",
};

const FINNISH: Notices = Notices {
    no_answer: "Asiakirjat eivät vastaa tähän kysymykseen.",
    other_language: "Yksikään niistä ei ole suomeksi.",
    no_documents: "Vielä ei ole asiakirjoja, joiden perusteella vastata.",
    not_directly: "Asiakirjat eivät vastaa tähän suoraan.",
    closest: "Lähimmät kohdat:",
    not_mentioned: "Asiakirjoissa ei mainita: {}.",
    not_answered: "Asiakirjat eivät vastaa kysymykseen {}.",
    title: "Otsikko on {}.",
    quotes: ["”", "”"],
    comma: ", ",
};

const GREEK: Notices = Notices {
    no_answer: "Τα έγγραφα δεν απαντούν σε αυτή την ερώτηση.",
    other_language: "Κανένα δεν είναι στα ελληνικά.",
    no_documents: "Δεν υπάρχουν ακόμη έγγραφα από τα οποία να δοθεί απάντηση.",
    not_directly: "Τα έγγραφα δεν απαντούν άμεσα σε αυτό.",
    closest: "Πλησιέστερα αποσπάσματα:",
    not_mentioned: "Τα έγγραφα δεν αναφέρουν {}.",
    not_answered: "Τα έγγραφα δεν απαντούν στο {}.",
    title: "Ο τίτλος είναι {}.",
    quotes: ["«", "»"],
    comma: ", ",
};

const HUNGARIAN: Notices = Notices {
    no_answer: "A dokumentumok nem válaszolnak erre a kérdésre.",
    other_language: "Egyik sem magyar nyelvű.",
    no_documents: "Még nincsenek dokumentumok, amelyek alapján válaszolni lehetne.",
    not_directly: "A dokumentumok erre nem válaszolnak közvetlenül.",
    closest: "A legközelebbi részek:",
    not_mentioned: "A dokumentumok nem említik: {}.",
    not_answered: "A dokumentumok nem válaszolnak erre: {}.",
    title: "A cím: {}.",
    quotes: ["„", "”"],
    comma: ", ",
};

const ROMANIAN: Notices = Notices {
    no_answer: "Documentele nu răspund la această întrebare.",
    other_language: "Niciunul nu este în română.",
    no_documents: "Nu există încă documente din care să se răspundă.",
    not_directly: "Documentele nu răspund direct la aceasta.",
    closest: "Cele mai apropiate pasaje:",
    not_mentioned: "Documentele nu menționează {}.",
    not_answered: "Documentele nu răspund la {}.",
    title: "Titlul este {}.",
    quotes: ["„", "”"],
    comma: ", ",
};

const TURKISH: Notices = Notices {
    no_answer: "Belgeler bu soruyu yanıtlamıyor.",
    other_language: "Hiçbiri Türkçe değil.",
    no_documents: "Henüz yanıt verilebilecek belge yok.",
    not_directly: "Belgeler bunu doğrudan yanıtlamıyor.",
    closest: "En yakın bölümler:",
    not_mentioned: "Belgelerde şunlar geçmiyor: {}.",
    not_answered: "Belgeler şunu yanıtlamıyor: {}.",
    title: "Başlık: {}.",
    quotes: ["“", "”"],
    comma: ", ",
};

const CATALAN: Notices = Notices {
    no_answer: "Els documents no responen aquesta pregunta.",
    other_language: "Cap no és en català.",
    no_documents: "Encara no hi ha documents a partir dels quals respondre.",
    not_directly: "Els documents no ho responen directament.",
    closest: "Passatges més propers:",
    not_mentioned: "Els documents no esmenten {}.",
    not_answered: "Els documents no responen {}.",
    title: "El títol és {}.",
    quotes: ["«", "»"],
    comma: ", ",
};

const CZECH: Notices = Notices {
    no_answer: "Dokumenty na tuto otázku neodpovídají.",
    other_language: "Žádný z nich není v češtině.",
    no_documents: "Zatím nejsou žádné dokumenty, ze kterých by se dalo odpovědět.",
    not_directly: "Dokumenty na to neodpovídají přímo.",
    closest: "Nejbližší pasáže:",
    not_mentioned: "Dokumenty nezmiňují {}.",
    not_answered: "Dokumenty neodpovídají na {}.",
    title: "Název je {}.",
    quotes: ["„", "“"],
    comma: ", ",
};

const HINDI: Notices = Notices {
    no_answer: "दस्तावेज़ों में इस प्रश्न का उत्तर नहीं है।",
    other_language: "इनमें से कोई हिन्दी में नहीं है।",
    no_documents: "अभी कोई दस्तावेज़ नहीं है जिससे उत्तर दिया जा सके।",
    not_directly: "दस्तावेज़ों में इसका सीधा उत्तर नहीं है।",
    closest: "सबसे निकट के अंश:",
    not_mentioned: "दस्तावेज़ों में {} का उल्लेख नहीं है।",
    not_answered: "दस्तावेज़ों में {} का उत्तर नहीं है।",
    title: "शीर्षक {} है।",
    quotes: ["“", "”"],
    comma: ", ",
};

const INDONESIAN: Notices = Notices {
    no_answer: "Dokumen-dokumen ini tidak menjawab pertanyaan tersebut.",
    other_language: "Tidak ada yang berbahasa Indonesia.",
    no_documents: "Belum ada dokumen yang dapat dipakai untuk menjawab.",
    not_directly: "Dokumen-dokumen ini tidak menjawabnya secara langsung.",
    closest: "Bagian yang paling mendekati:",
    not_mentioned: "Dokumen-dokumen ini tidak menyebut {}.",
    not_answered: "Dokumen-dokumen ini tidak menjawab {}.",
    title: "Judulnya {}.",
    quotes: ["“", "”"],
    comma: ", ",
};

const POLISH: Notices = Notices {
    no_answer: "Dokumenty nie odpowiadają na to pytanie.",
    other_language: "Żaden z nich nie jest po polsku.",
    no_documents: "Nie ma jeszcze dokumentów, z których można odpowiedzieć.",
    not_directly: "Dokumenty nie odpowiadają na to wprost.",
    closest: "Najbliższe fragmenty:",
    not_mentioned: "Dokumenty nie wspominają o {}.",
    not_answered: "Dokumenty nie odpowiadają na {}.",
    title: "Tytuł to {}.",
    quotes: ["„", "”"],
    comma: ", ",
};

const UKRAINIAN: Notices = Notices {
    no_answer: "Документи не відповідають на це запитання.",
    other_language: "Серед них немає жодного українською.",
    no_documents: "Документів, за якими можна відповісти, ще немає.",
    not_directly: "Документи не дають на це прямої відповіді.",
    closest: "Найближчі фрагменти:",
    not_mentioned: "У документах не згадується {}.",
    not_answered: "Документи не відповідають на {}.",
    title: "Назва: {}.",
    quotes: ["«", "»"],
    comma: ", ",
};

const CHINESE: Notices = Notices {
    no_answer: "文档没有回答这个问题。",
    other_language: "其中没有中文文档。",
    no_documents: "目前还没有可供回答的文档。",
    not_directly: "文档没有直接回答这个问题。",
    closest: "最接近的段落：",
    not_mentioned: "文档没有提到{}。",
    not_answered: "文档没有回答{}。",
    title: "标题是{}。",
    quotes: ["“", "”"],
    comma: "、",
};

const JAPANESE: Notices = Notices {
    no_answer: "文書にはこの質問への答えがありません。",
    other_language: "日本語の文書はありません。",
    no_documents: "回答のもとになる文書がまだありません。",
    not_directly: "文書には直接の答えがありません。",
    closest: "最も近い箇所：",
    not_mentioned: "文書には{}の記述がありません。",
    not_answered: "文書には{}への答えがありません。",
    title: "題名は{}です。",
    quotes: ["「", "」"],
    comma: "、",
};

const KOREAN: Notices = Notices {
    no_answer: "문서에 이 질문에 대한 답이 없습니다.",
    other_language: "한국어 문서는 없습니다.",
    no_documents: "답변에 사용할 문서가 아직 없습니다.",
    not_directly: "문서에 직접적인 답이 없습니다.",
    closest: "가장 가까운 부분:",
    not_mentioned: "문서에 {}에 대한 언급이 없습니다.",
    not_answered: "문서에 {}에 대한 답이 없습니다.",
    title: "제목은 {}입니다.",
    quotes: ["“", "”"],
    comma: ", ",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Library, LibraryLimits, ParseLimits, parse};

    #[test]
    fn notices_are_in_the_language_of_the_question() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        for (question, wanted) in [
            ("What is the capital of France?", NO_ANSWER),
            ("Was ist die Hauptstadt von Frankreich?", GERMAN.no_answer),
            ("Quelle est la capitale de la France ?", FRENCH.no_answer),
            ("¿Cuál es la capital de Francia?", SPANISH.no_answer),
            ("法国的首都是哪里？", CHINESE.no_answer),
            ("フランスの首都はどこですか", JAPANESE.no_answer),
            ("프랑스의 수도는 어디입니까?", KOREAN.no_answer),
            ("Mikä on Ranskan pääkaupunki ja missä se on?", FINNISH.no_answer),
            ("", NO_ANSWER),
        ] {
            assert_eq!(
                Notices::of(library.all(), question).no_answer,
                wanted,
                "{question}"
            );
        }
    }

    #[test]
    fn documents_in_another_language_are_mentioned() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let text = "The robin sings at dusk, and it is the first of the birds. 知更鸟。";
        let parsed = parse("a.md", text.as_bytes(), &ParseLimits::default()).unwrap();
        library.add("a.md", &parsed).unwrap();
        let said =
            |question: &str| Notices::of(library.all(), question).no_answer_to(library.all(), question);
        assert_eq!(said("What is the capital of France?"), NO_ANSWER);
        assert_eq!(
            said("Was ist die Hauptstadt von Frankreich?"),
            "Die Dokumente beantworten diese Frage nicht. Keines davon ist auf Deutsch."
        );
        assert_eq!(
            said("フランスの首都はどこですか"),
            "文書にはこの質問への答えがありません。日本語の文書はありません。"
        );
        assert_eq!(said("知更鸟住在哪里？"), CHINESE.no_answer);
        assert_eq!(said("Wo ist der Robin und wann schläft er?"), GERMAN.no_answer);
    }

    #[test]
    fn names_are_quoted_as_the_language_does() {
        let words = ["Atlantis".to_owned(), "Mu".to_owned()];
        assert_eq!(
            ENGLISH.not_mentioned(&words),
            "The documents do not mention “Atlantis”, “Mu”."
        );
        assert_eq!(
            GERMAN.not_mentioned(&words),
            "Die Dokumente erwähnen „Atlantis“, „Mu“ nicht."
        );
        assert_eq!(
            FRENCH.not_answered(&["où est Mu"]),
            "Les documents ne répondent pas à « où est Mu »."
        );
        assert_eq!(JAPANESE.title("海"), "題名は「海」です。");
    }
}
