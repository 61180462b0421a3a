use super::*;
use crate::test_data::library_with_a_rare_word;
use crate::{Library, LibraryLimits, ParseLimits, parse};

#[test]
fn phrases_of_conversation_and_prepositions_only_ask() {
    let library = library_with_a_rare_word();
    let question = "sorry, I’m asking how it could be kept across a zyzzyva, I meant";
    let terms = question_terms(library.all(), question).into_iter();
    let significant = terms.filter(|term| !term.is_question_word);
    let words: Vec<String> = significant.map(|term| term.word).collect();
    assert_eq!(words, ["asking", "kept", "zyzzyva"]);
}

#[test]
fn a_verb_that_asks_counts_where_it_is_what_is_to_be_done() {
    let library = library_with_a_rare_word();
    for (question, asks) in [
        ("list models", true),
        ("can you list models", true),
        ("how do i list models", false),
        ("How do I list models", false),
        ("i want you to list models", true),
        ("how to list models", false),
        ("which models list", true),
    ] {
        let terms = question_terms(library.all(), question);
        let list = terms.iter().find(|term| term.word == "list").unwrap();
        assert_eq!(list.is_question_word, asks, "{question}");
    }
}

#[test]
fn other_words_stand_for_what_the_library_does_not_have() {
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    let text = "Delete the folder. Disable the search. Turn left.";
    let parsed = parse("a.md", text.as_bytes(), &ParseLimits::default()).unwrap();
    library.add("a.md", &parsed).unwrap();
    for (question, word, wanted, known) in [
        ("erase it", "erase", "delet", true),
        ("which directories", "directories", "folder", true),
        ("get rid of it", "rid", "delet", true),
        ("turn off the search", "turn", "disabl", true),
        ("turn around", "turn", "turn", true),
        ("publish it", "publish", "publish", false),
    ] {
        let terms = question_terms(library.all(), question);
        let term = terms.iter().find(|term| term.word == word).unwrap();
        assert!(
            term.stems.iter().any(|stem| stem == wanted),
            "{question}: {term:?}"
        );
        assert_eq!(term.known, known, "{question}");
        let hits = library.search(question, 5).unwrap();
        assert_eq!(!hits.is_empty(), known, "{question}");
    }
}

#[test]
fn pairs_across_words_and_particles_do_not_count() {
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    let text = "训练需要三天。模型有八层。\n\n모델 학습";
    let parsed = parse("a.md", text.as_bytes(), &ParseLimits::default()).unwrap();
    library.add("a.md", &parsed).unwrap();
    // A word that the library does not have is named whole, by one pair.
    let cases: [(&str, &[(&str, &str)]); 6] = [
        ("训练模型", &[("训练", "训练"), ("模型", "模型")]),
        (
            "怎么训练猫咪模型",
            &[("训练", "训练"), ("猫咪", "猫咪"), ("模型", "模型")],
        ),
        ("笔记本", &[("笔记本", "笔记")]),
        ("모델은", &[("모델은", "모델")]),
        ("모델에서는", &[("모델에서는", "모델")]),
        ("고양이", &[("고양이", "고양")]),
    ];
    for (question, wanted) in cases {
        let terms = question_terms(library.all(), question);
        let found: Vec<_> = terms
            .iter()
            .map(|term| (term.word.as_str(), term.stems[0].as_str()))
            .collect();
        assert_eq!(found, wanted, "{question}");
    }
    let asking = question_terms(library.all(), "什么ですか");
    assert!(asking.iter().all(|term| term.is_question_word), "{asking:?}");
}

#[test]
fn an_identifier_is_found_without_its_marks() {
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    let parsed = parse(
        "a.md",
        "Divide by √dk. Send an email.".as_bytes(),
        &ParseLimits::default(),
    )
    .unwrap();
    library.add("a.md", &parsed).unwrap();
    let terms = question_terms(library.all(), "Why √d_k? And what is D_k, or x_z?");
    let found: Vec<_> = terms
        .iter()
        .map(|term| (term.stems[0].as_str(), term.known))
        .collect();
    assert_eq!(found, [("dk", true), ("x_z", false)]);
    let hits = library.search("√d_k", 5).unwrap();
    assert_eq!(hits.len(), 1);
}

#[test]
fn a_question_for_a_price_needs_one_word_for_it() {
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    let parsed = parse(
        "a.md",
        b"The tool costs nothing. It saves much money.",
        &ParseLimits::default(),
    )
    .unwrap();
    library.add("a.md", &parsed).unwrap();
    for (question, wanted) in [
        ("how much does it cost", "cost"),
        ("does it cost money", "cost"),
        ("how expensive is it", "expensive"),
    ] {
        let terms = question_terms(library.all(), question);
        let found: Vec<_> = terms
            .iter()
            .map(|term| (term.word.as_str(), term.known, term.is_question_word))
            .collect();
        assert_eq!(found, [(wanted, true, true)], "{question}");
    }
    let terms = question_terms(library.all(), "does it save much money");
    assert_eq!(terms.len(), 3, "{terms:?}");
}

#[test]
fn a_misspelled_stop_word_is_a_stop_word() {
    let library = library_with_a_rare_word();
    for (question, wanted) in [
        ("what is teh optimizer", "what is the optimizer"),
        ("waht is the optimizer", "what is the optimizer"),
        ("wich optimizer is used", "which optimizer is used"),
        // Another letter makes another word, and so does a capital.
        ("what is a whale optimizer", "what is a whale optimizer"),
        ("What is Teh optimizer", "What is Teh optimizer"),
        // Nothing else is asked for.
        ("what is a form", "what is a form"),
    ] {
        assert_eq!(library.all().well_spelled(question), wanted);
    }
    let terms = question_terms(library.all(), "what is teh optimizer");
    assert_eq!(terms.len(), 1, "{terms:?}");
}

#[test]
fn a_misspelled_identifier_is_one_that_the_library_has() {
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    let text = "deadlock_timeout is one second. A lock has a timeout.";
    let parsed = parse("a.md", text.as_bytes(), &ParseLimits::default()).unwrap();
    library.add("a.md", &parsed).unwrap();
    for (question, wanted) in [
        ("default of deadlok_timeout", "default of deadlock_timeout"),
        ("default of deadlock_timeout", "default of deadlock_timeout"),
        ("default of idle_timeout", "default of idle_timeout"),
        ("default of headlock_timeout", "default of headlock_timeout"),
    ] {
        assert_eq!(library.all().well_spelled(question), wanted);
    }
    let terms = question_terms(library.all(), "deadlok_timeout");
    assert_eq!(terms, question_terms(library.all(), "deadlock_timeout"));
    // Of one that is nowhere, its parts are known, misspelled too.
    let terms = question_terms(library.all(), "deadlock_tiemout_ms");
    let known: Vec<_> = terms.iter().map(|term| (&*term.stems[0], term.known)).collect();
    assert_eq!(known, [("deadlock", true), ("timeout", true), ("ms", false)]);
}

#[test]
fn contractions_without_an_apostrophe_are_stop_words() {
    for (typed, with) in [
        ("whats a cat?", "what's a cat?"),
        ("Why isnt it, and dont they?", "Why isn't it, and don't they?"),
        ("its well", "its well"),
        ("", ""),
    ] {
        assert_eq!(with_apostrophes(typed), with);
    }
    let library = library_with_a_rare_word();
    let terms = question_terms(library.all(), "whats the optimizer and why isnt it used");
    let words: Vec<_> = terms.iter().map(|term| term.word.as_str()).collect();
    assert_eq!(words, ["optimizer", "used"]);
}

#[test]
fn rare_words_weigh_more_and_unknown_words_most() {
    let library = library_with_a_rare_word();
    let terms = question_terms(
        library.all(),
        "How many models use the optimizer, optimizers or Unicorns?",
    );
    let words: Vec<_> = terms
        .iter()
        .map(|term| (term.word.as_str(), term.known))
        .collect();
    assert_eq!(
        words,
        [
            ("many", false),
            ("models", true),
            ("use", false),
            ("optimizer", true),
            ("Unicorns", false)
        ]
    );
    let weight = |word: &str| terms.iter().find(|term| term.word == word).unwrap().weight;
    assert!(weight("models") < weight("optimizer") && weight("optimizer") < weight("Unicorns"));
    assert!(weight("many") < weight("optimizer"));
    let misspelled = question_terms(library.all(), "Which optmizer is it?");
    assert!(
        misspelled[0].known && misspelled[0].stems == terms[3].stems,
        "{misspelled:?}"
    );
    assert_eq!(coverage(&terms, |_| true), 1.0);
    assert_eq!(coverage(&[], |_| true), 0.0);
}

#[test]
fn words_that_only_say_which_kind_of_number_is_asked_for_weigh_little() {
    let library = library_with_a_rare_word();
    let light = |question: &str| -> Vec<String> {
        let terms = question_terms(library.all(), question).into_iter();
        let light = terms.filter(|term| term.is_question_word);
        light.map(|term| term.word).collect()
    };
    assert_eq!(light("which optimizer version"), ["version"]);
    assert_eq!(light("how do I install a version of the optimizer"), [""; 0]);
    assert_eq!(light("max number of models in an optimizer"), ["max", "number"]);
    assert_eq!(light("the number of models"), [""; 0]);
}

#[test]
fn words_that_only_ask_weigh_little() {
    for (name, text, question, light) in [
        (
            "a.md",
            "The cache of the garden is here. It is for the birds.",
            "cache setup",
            &["setup"][..],
        ),
        (
            "b.md",
            "Der Garten ist hier, und die Macher sind auch da. Ein Rollback ist nicht schwer.",
            "wie mache ich ein rollback",
            &["mache"],
        ),
    ] {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        library
            .add(
                name,
                &parse(name, text.as_bytes(), &ParseLimits::default()).unwrap(),
            )
            .unwrap();
        let terms = question_terms(library.all(), question).into_iter();
        let words: Vec<_> = terms
            .filter(|term| term.is_question_word)
            .map(|term| term.word)
            .collect();
        assert_eq!(words, light, "{question}");
    }
}

#[test]
fn an_abbreviated_error_is_searched_in_full() {
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    let text = "The error of the garden is 509. An err is another one.";
    library
        .add(
            "a.md",
            &parse("a.md", text.as_bytes(), &ParseLimits::default()).unwrap(),
        )
        .unwrap();
    let terms = question_terms(library.all(), "err 509");
    let stems: Vec<_> = terms.iter().map(|term| term.stems.join(" ")).collect();
    assert_eq!(stems, ["err error", "509"]);
}
