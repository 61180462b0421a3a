//! Words that questions are phrased with, by language, in addition to the index's stop words. They
//! express that something is asked, but not what, or have no subject, such as `anywhere`.

use crate::search::analyzer::Language;

const ENGLISH: &str = "many much use used uses using tell explain describe give show please know mean means \
    could would find list name get got say says said us reach happen happens kind type long often documents \
    document text define definition summarise summarize summary overview meaning take takes took work works \
    working per via anywhere somewhere everywhere anyone anybody someone somebody anything something everything \
    everyone else ever actually already still yet just really properly correctly currently instead without \
    within upon handle";

const FRENCH: &str = "comment quand pourquoi combien quel quelle quels quelles où quoi puis peut peux peuvent \
    dois doit doivent faut utiliser utilise utilisé expliquer explique expliquez décrire décris décrivez donner \
    donne donnez montrer montre montrez plaît signifie signifient signification veut dire entend entendre \
    trouver trouve liste nom appelle obtenir obtient obtiens recevoir faire fait fais existe existent type \
    types sorte sortes genre document documents texte définition définir résumé résumer aperçu longtemps \
    souvent passe informations information consiste fonctionne";

const GERMAN: &str = "wer wen wem wessen wann warum wieso weshalb wofür womit wodurch woher wohin worauf worin \
    welch viele vielen gibt geben geht gehen macht tun darf dürfen möchte möchten soll sollen bitte erkläre \
    erklären erklärt beschreibe beschreiben nenne nennen zeige zeigen sag sage sagt bedeutet bedeuten \
    bedeutung heißt versteht verstehen meint nutze nutzen benutze benutzen verwende verwenden verwendet finde \
    finden findet bekomme bekommen bekommt erhalte erhalten erhält bietet bieten gilt gelten beinhaltet \
    beinhalten umfasst läuft funktioniert passiert liste name art arten thema informationen information \
    definition überblick zusammenfassung zusammenfassen dokument dokumente dokumenten text lange oft pro je \
    irgendwo irgendwie irgendwas überhaupt eigentlich jemand jemandem jemanden schon bereits richtig genau";

const SPANISH: &str = "cómo cuándo cuánto cuánta cuántos cuántas qué cuál cuáles dónde quién quiénes puedo \
    puede pueden debo debe hay usar usa utilizar utiliza explicar explica explique describir describe dar da \
    mostrar muestra favor significa significan significado quiere decir encontrar encuentro lista nombre llama \
    obtener obtengo recibir hacer hace hago existe existen tipo tipos clase clases documento documentos texto \
    definición definir resumen resumir menudo pasa información consiste funciona";

const ITALIAN: &str = "come quando perché quanto quanta quanti quante quale quali dove chi cosa posso può \
    possono devo deve bisogna usare usa utilizzare utilizza spiegare spiega descrivere descrivi dare dai \
    mostrare mostra favore significa significano significato vuol dire trovare trovo elenco nome chiama \
    ottenere ottengo ricevere fare fa faccio esiste esistono tipo tipi genere documento documenti testo \
    definizione riassunto riassumere spesso succede informazioni consiste funziona";

const PORTUGUESE: &str = "como quando porque quanto quanta quantos quantas qual quais onde quem posso pode podem \
    devo deve há existe existem usar usa utilizar utiliza explicar explica explique descrever dar dê mostrar \
    mostre favor significa significam significado quer dizer encontrar encontro lista nome chama obter obtenho \
    receber fazer faz faço tipo tipos documento documentos texto definição resumo resumir acontece informações \
    consiste funciona";

const DUTCH: &str = "hoe wanneer waarom hoeveel welke welk waar wie wat kan kun kunnen moet mag gebruik gebruiken \
    gebruikt uitleg uitleggen beschrijf geef geven toon tonen alstublieft betekent betekenen betekenis vind \
    vinden lijst naam heet krijg krijgen krijgt doen doe bestaan bestaat soort soorten type document documenten \
    tekst definitie samenvatting vaak lang gebeurt informatie werkt";

/// Returns the words of a language, separated by spaces; empty without a list.
fn words(language: Language) -> &'static str {
    match language {
        Language::English => ENGLISH,
        Language::French => FRENCH,
        Language::German => GERMAN,
        Language::Spanish => SPANISH,
        Language::Italian => ITALIAN,
        Language::Portuguese => PORTUGUESE,
        Language::Dutch => DUTCH,
        Language::Arabic
        | Language::Danish
        | Language::Finnish
        | Language::Greek
        | Language::Hungarian
        | Language::Norwegian
        | Language::Romanian
        | Language::Russian
        | Language::Swedish
        | Language::Turkish => "",
    }
}

/// Returns whether a word in lower case only says that something is asked. In a language without a list,
/// English ones do.
pub(crate) fn only_asks(word: &str, language: Language) -> bool {
    let has_list = !words(language).is_empty();
    is_asked_with(word, if has_list { language } else { Language::English })
}

/// Returns whether questions in this language are phrased with a word in lower case.
pub(crate) fn is_asked_with(word: &str, language: Language) -> bool {
    words(language).split_whitespace().any(|one| one == word)
}
