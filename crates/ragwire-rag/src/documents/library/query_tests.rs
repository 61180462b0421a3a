//! Tests of queries: fields, identifiers, languages, mistakes, phrases, prefixes and filters.

use super::*;
use crate::{DocumentKind, ParseLimits, parse};

fn library(files: &[(&str, &str)]) -> Library {
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    for (name, text) in files {
        let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
        library.add(name, &parsed).unwrap();
    }
    library
}

fn names(library: &Library, query: &str) -> Vec<String> {
    let hits = library.search(query, 10).unwrap();
    hits.into_iter().map(|hit| hit.chunk.document_name).collect()
}

#[test]
fn titles_names_and_identifiers_are_searched() {
    let library = library(&[
        (
            "guide/quick-start.md",
            "---\ntitle: First steps\n---\n\nType the command.",
        ),
        (
            "api.md",
            "Set .worker_threads(1) on the builder. Use maxPoolSize too.",
        ),
        ("other.md", "Nothing of the kind."),
    ]);
    for (query, wanted) in [
        ("first steps", "guide/quick-start.md"),
        ("quick start guide", "guide/quick-start.md"),
        ("worker threads", "api.md"),
        ("worker_threads", "api.md"),
        ("max pool size", "api.md"),
        ("maxpoolsize", "api.md"),
    ] {
        assert_eq!(names(&library, query), [wanted], "{query}");
    }
}

#[test]
fn a_word_of_the_text_counts_more_than_one_of_the_name() {
    let library = library(&[("robin.md", "A blackbird sings."), ("birds.md", "A robin sings.")]);
    assert_eq!(names(&library, "robin"), ["birds.md", "robin.md"]);
}

#[test]
fn documents_are_found_in_their_language() {
    let library = library(&[
        (
            "en.md",
            "The houses are old, and they have small windows in the walls.",
        ),
        (
            "de.md",
            "Die Häuser sind alt, und sie haben kleine Fenster in den Wänden.",
        ),
    ]);
    assert_eq!(
        names(&library, "Wie alt ist das Haus und was ist mit der Wand?"),
        ["de.md"]
    );
    assert_eq!(names(&library, "Haus"), ["de.md"]);
    assert_eq!(names(&library, "window"), ["en.md"]);
    let german = DocumentFilter {
        languages: vec!["de".to_owned()],
        ..DocumentFilter::default()
    };
    let hits = library.search_in("old alt", 10, &german).unwrap();
    assert_eq!(hits.len(), 1);
}

#[test]
fn a_short_question_has_the_language_of_its_only_stop_word() {
    let english = "The house is old. It was built by hand.";
    let german = "Das Haus ist alt. Es wurde von Hand gebaut.";
    let files: Vec<(String, &str)> = (0..3)
        .map(|n| (format!("de{n}.md"), german))
        .chain([("en.md".to_owned(), english)])
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let library = library(&files);
    for (question, wanted) in [
        ("what's debian", Language::English),
        ("explain virtual packages", Language::English),
        ("wann debian", Language::German),
        // French is not in the library, and names say nothing.
        ("dans debian", Language::German),
        ("debian", Language::German),
    ] {
        assert_eq!(library.all().language_of_question(question), wanted, "{question}");
    }
}

#[test]
fn a_question_without_stop_words_has_the_language_of_its_words() {
    let library = library(&[
        (
            "de.md",
            "Der Installer ist auf der CD, und das System wird mit ihm installiert. Debian ist frei.",
        ),
        (
            "de2.md",
            "Die Partition ist auf der Platte, und Windows bleibt auf ihr erhalten, wenn man das will.",
        ),
        (
            "it.md",
            "Per installare Debian dentro una macchina virtuale non si deve che scaricare la sua immagine.",
        ),
    ]);
    let language = |question| library.all().language_of_question(question);
    assert_eq!(language("installare debian dentro virtualbox"), Language::Italian);
    assert_eq!(language("partition windows erhalten"), Language::German);
    // The same number of words of both: the language of most passages.
    assert_eq!(language("debian"), Language::German);
    assert_eq!(library.all().said_language("debian"), None);
}

#[test]
fn a_question_is_in_a_language_of_the_library_rather_than_in_one_with_the_same_words() {
    let polish =
        "Aby wstawić numery stron, należy wybrać polecenie z menu. Jest ono na pasku, który można przenieść.";
    let library = library(&[("pl.md", polish)]);
    let language = |question| library.all().language_of_question(question);
    // `jak`, `na`, `a` and `byla` are Czech too.
    assert_eq!(
        language("jak na nowo ustawic, a reszta zeby byla"),
        Language::Polish
    );
    assert_eq!(language("how do I insert a page number"), Language::English);
}

#[test]
fn accents_that_are_not_typed_do_not_matter() {
    let library = library(&[
        (
            "es.md",
            "La configuración se guarda en un archivo, y no hay que cambiarla después de la instalación.",
        ),
        (
            "pl.md",
            "Aby wstawić numery stron, należy wybrać stronę w menu. Jest ono na pasku.",
        ),
        (
            "pt.md",
            "A instalação do programa não é difícil, mas a versão antiga tem de ser removida antes.",
        ),
    ]);
    for (question, wanted) in [
        ("donde se guarda la configuracion", "es.md"),
        ("jak wstawic numer na strone", "pl.md"),
        ("como e a instalacao da versao antiga", "pt.md"),
        // Nothing else of these is in a document.
        ("como es la configuracion", "es.md"),
        ("jak wstawic", "pl.md"),
        ("qual e a versao", "pt.md"),
    ] {
        assert_eq!(
            names(&library, question).first().map(String::as_str),
            Some(wanted),
            "{question}"
        );
        let terms = crate::search::terms::question_terms(library.all(), question);
        let unknown: Vec<_> = terms
            .iter()
            .filter(|term| !term.known && !term.is_question_word)
            .collect();
        assert!(unknown.is_empty(), "{question}: {unknown:?}");
    }
}

#[test]
fn other_spellings_and_abbreviations_are_the_same_word() {
    let library = library(&[
        ("a.md", "A photo is saved as jpeg."),
        ("b.md", "The config lists jpg among others."),
        ("c.md", "The configuration names the maximum."),
        ("d.md", "The max is large."),
    ]);
    let found = |query| {
        let mut names = names(&library, query);
        names.sort_unstable();
        names
    };
    assert_eq!(found("jpg"), ["a.md", "b.md"]);
    assert_eq!(found("config"), ["b.md", "c.md"]);
    assert_eq!(found("configuration"), ["c.md"]);
    assert_eq!(found("maximum"), ["c.md", "d.md"]);
}

#[test]
fn typing_mistakes_are_corrected() {
    let library = library(&[
        ("a.md", "The optimizer has a schedule of rates."),
        ("b.md", "Regularization uses dropout."),
        (
            "c.md",
            "They did well at parsing: the parser parses documents by commands.",
        ),
    ]);
    for (query, wanted) in [
        ("optmizer", vec!["a.md"]),
        ("optimzier shedule", vec!["a.md"]),
        ("regularisaton", vec!["b.md"]),
        ("kubernetes", vec![]),
        ("rat", vec![]),
        ("comand", vec!["c.md"]),
        ("documnet", vec!["c.md"]),
        ("paresr", vec!["c.md"]),
        // One letter more than the stem of `parsing`, which nobody writes.
        ("paris", vec![]),
    ] {
        assert_eq!(names(&library, query), wanted, "{query}");
    }
    assert_eq!(library.all().correction("kubernetes").unwrap(), None);
    assert_eq!(library.all().correction("paris").unwrap(), None);
    // A letter more that is not a doubled one makes another word.
    assert_eq!(library.all().correction("raptes").unwrap(), None);
    // Two mistakes in a long word, with the letters of the other.
    assert_eq!(
        library.all().correction("regullarizaton").unwrap().as_deref(),
        Some("regular")
    );
    assert_eq!(library.all().correction("regulerizatiom").unwrap(), None);
    assert_eq!(
        library.all().correction("ratess").unwrap().as_deref(),
        Some("rate")
    );
    assert_eq!(
        library.all().correction("optmizer").unwrap().as_deref(),
        Some("optim")
    );
}

#[test]
fn phrases_come_first_and_prefixes_match_many_words() {
    let library = library(&[
        (
            "a.md",
            "The rule of the commit is a rule. Commit, then rule, rule, rule.",
        ),
        (
            "b.md",
            "There is one commit rule for each turn, and it is written down somewhere else.",
        ),
        ("c.md", "Optimal things."),
    ]);
    assert_eq!(names(&library, "rule commit"), ["a.md", "b.md"]);
    assert_eq!(names(&library, "\"commit rule\""), ["b.md", "a.md"]);
    assert_eq!(names(&library, "optim*"), ["c.md"]);
}

#[test]
fn filters_select_documents() {
    let library = library(&[
        (
            "guide/a.md",
            "---\ntags: [Web]\ndate: 2026-01-31\n---\n\nRobins sing.",
        ),
        ("guide/b.txt", "Robins sing."),
        ("guides/c.md", "---\ndate: 2025-06-01\n---\n\nRobins sing."),
    ]);
    let all = DocumentFilter::default;
    let cases: [(DocumentFilter, &[&str]); 7] = [
        (all(), &["guide/a.md", "guide/b.txt", "guides/c.md"]),
        (
            DocumentFilter {
                folders: vec!["guide".into()],
                ..all()
            },
            &["guide/a.md", "guide/b.txt"],
        ),
        (
            DocumentFilter {
                kinds: vec![DocumentKind::Text],
                ..all()
            },
            &["guide/b.txt"],
        ),
        (
            DocumentFilter {
                tags: vec!["web".into(), "x".into()],
                ..all()
            },
            &["guide/a.md"],
        ),
        (
            DocumentFilter {
                since: Some("2026".into()),
                ..all()
            },
            &["guide/a.md"],
        ),
        (
            DocumentFilter {
                until: Some("2025".into()),
                ..all()
            },
            &["guides/c.md"],
        ),
        (
            DocumentFilter {
                folders: vec!["guide/".into()],
                until: Some("2026-01".into()),
                ..all()
            },
            &["guide/a.md"],
        ),
    ];
    for (filter, wanted) in cases {
        let hits = library.search_in("robins", 10, &filter).unwrap();
        let mut names: Vec<_> = hits.into_iter().map(|hit| hit.chunk.document_name).collect();
        names.sort();
        assert_eq!(names, wanted, "{filter:?}");
    }
}
