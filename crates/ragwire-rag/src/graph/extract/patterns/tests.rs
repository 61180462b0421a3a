//! Whole lists of triples, and properties that hold for any text.

use proptest::prelude::*;

use super::*;

fn chunk(heading: Option<&str>, text: &str) -> Chunk {
    let mut chunk = Chunk::new("d", "d.md", 0, text);
    chunk.heading = heading.map(str::to_owned);
    chunk
}

fn lines(triples: &[Relation]) -> Vec<String> {
    let line = |one: &Relation| {
        format!(
            "{} | {} | {} ({:.2})",
            one.subject, one.predicate, one.object, one.weight
        )
    };
    triples.iter().map(line).collect()
}

#[test]
fn a_passage_gives_its_triples() {
    type Case<'a> = (Option<&'a str>, &'a str, &'a [&'a str]);
    let cases: &[Case<'_>] = &[
        (None, "", &[]),
        (
            None,
            "A turn uses a bounded queue.",
            &["turn | uses | bounded queue (0.80)"],
        ),
        // `it` refers to the subject of the sentence before; a negated sentence states nothing.
        (
            None,
            "The queue of a turn is a bounded buffer. It holds frames, texts and one end. It does not use locks.",
            &[
                "queue | is_a | bounded buffer (0.90)",
                "queue | contains | frames (0.60)",
                "queue | contains | texts (0.60)",
                "queue | contains | end (0.60)",
                "frames | related_to | texts (0.20)",
                "end | related_to | frames (0.20)",
                "end | related_to | texts (0.20)",
            ],
        ),
        (
            None,
            "BM25 is a ranking function that scores a passage by the words it shares with the question.",
            &["BM25 | is_a | ranking function (0.90)"],
        ),
        // A passive swaps subject and object, and states nothing without its `by`.
        (
            None,
            "The sentinel is replaced by a reserved place. Frames are stored in the journal. Journals can be kept by Redis.",
            &[
                "reserved place | replaces | sentinel (0.80)",
                "Redis | keeps | Journals (0.80)",
            ],
        ),
        (
            Some("Guide > 3.2 The commit rule"),
            "The commit is the moment at which the status of the response is decided. Until the commit nothing has been sent.",
            &[
                "commit | is_a | moment (0.90)",
                "The commit rule | part_of | Guide (0.50)",
                "commit | related_to | The commit rule (0.10)",
                "The commit rule | related_to | moment (0.10)",
            ],
        ),
        (
            None,
            "The Transformer consists of an encoder and a decoder. Multi-Head Attention replaces recurrence, which prevents parallel training.",
            &[
                "Transformer | consists_of | encoder (0.80)",
                "Transformer | consists_of | decoder (0.80)",
                "Multi-Head Attention | replaces | recurrence (0.80)",
                "recurrence | prevents | parallel training (0.80)",
                "decoder | related_to | encoder (0.20)",
                "Multi-Head Attention | related_to | parallel training (0.20)",
            ],
        ),
        // The sentence has no subject, so only co-occurring names are related.
        (
            None,
            "We used the Adam optimizer with Vaswani's schedule. Adam was introduced by Kingma.",
            &[
                "Adam | related_to | Vaswani (0.20)",
                "Adam | related_to | Kingma (0.20)",
            ],
        ),
        (
            None,
            "Call `Turn::start` or useChat; max_turns limits the TurnGroup.",
            &[
                "max_turns | limits | TurnGroup (0.80)",
                "Turn::start | related_to | useChat (0.20)",
                "max_turns | related_to | Turn::start (0.20)",
                "Turn::start | related_to | TurnGroup (0.20)",
                "max_turns | related_to | useChat (0.20)",
                "TurnGroup | related_to | useChat (0.20)",
            ],
        ),
        (
            None,
            "A reader never needs C++ or C#, and Rust has no null.",
            &[
                "C# | related_to | C++ (0.20)",
                "C++ | related_to | Rust (0.20)",
                "C# | related_to | Rust (0.20)",
            ],
        ),
        (
            None,
            "Der Zug fährt nach München. Die Deutsche Bahn betreibt ihn.",
            &["Der Zug | related_to | München (0.20)"],
        ),
        (
            None,
            "Back pressure waits. The back pressure of a slow reader causes waits.",
            &["back pressure | causes | waits (0.80)"],
        ),
        // A verb's objects end where the next verb begins, and `and` continues with the same
        // subject.
        (
            None,
            "The encoder reads events and writes bytes. A turn has an owner, and a journal has frames.",
            &[
                "encoder | reads | events (0.80)",
                "encoder | writes | bytes (0.80)",
                "turn | has | owner (0.80)",
                "journal | has | frames (0.80)",
                "bytes | related_to | events (0.20)",
                "journal | related_to | turn (0.20)",
                "frames | related_to | turn (0.20)",
                "journal | related_to | owner (0.20)",
                "frames | related_to | owner (0.20)",
            ],
        ),
        // A word that means little by itself is replaced by the phrase after `of`.
        (
            None,
            "A chunk is a piece of a document. The index is part of the library.",
            &[
                "chunk | is_a | document (0.90)",
                "index | part_of | library (0.80)",
            ],
        ),
    ];
    let patterns = Patterns::default();
    for (heading, text, wanted) in cases {
        assert_eq!(
            lines(&patterns.triples(&chunk(*heading, text))),
            *wanted,
            "{text}"
        );
    }
}

#[test]
fn the_number_of_triples_of_a_passage_is_bounded() {
    let text: String = (0..40)
        .map(|n| format!("Alpha{n} uses Beta{n} and Gamma{n}. "))
        .collect();
    assert_eq!(
        Patterns::default().triples(&chunk(None, &text)).len(),
        MAX_TRIPLES
    );
}

fn holds(heading: &str, text: &str) {
    let patterns = Patterns::default();
    let chunk = chunk((!heading.is_empty()).then_some(heading), text);
    let triples = patterns.triples(&chunk);
    assert_eq!(
        triples,
        Patterns::default().triples(&chunk),
        "the same text gives the same triples"
    );
    assert!(triples.len() <= MAX_TRIPLES);
    let normal = Normal::default();
    let mut seen = HashSet::new();
    for one in triples {
        let (from, to) = (
            normal.key(&one.subject).unwrap(),
            normal.key(&one.object).unwrap(),
        );
        assert_ne!(from, to);
        assert!(one.weight > 0.0 && one.weight <= 1.0, "{one:?}");
        for name in [&one.subject, &one.object] {
            assert!(
                name.len() <= MAX_NAME_BYTES && !name.contains(char::is_control),
                "{name:?}"
            );
        }
        assert!(seen.insert((from, one.predicate, to)), "each triple occurs once");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_is_read(heading in ".{0,60}", text in ".{0,400}") {
        holds(&heading, &text);
    }

    #[test]
    fn any_words_are_read(words in proptest::collection::vec(
        proptest::sample::select(vec![
            "The", "a", "turn", "queue", "Redis", "uses", "is", "has", "of", "and", ",", ".", "not", "by", "used", "which", "it",
            "max_turns", "Turn::start()", "set", "GPUs", "(", ")", "\u{1d}", "one", "depends", "on", "It", "-", "C++", "\n",
        ]), 0..60))
    {
        holds("A > B", &words.join(" "));
    }
}

#[test]
fn long_and_odd_texts_are_read_quickly() {
    for piece in [
        "a ",
        "A ",
        "A uses B. ",
        "uses ",
        "is a ",
        "of ",
        "(",
        "é",
        "A,",
        "_a",
        "::",
    ] {
        let text = piece.repeat(20_000);
        let start = std::time::Instant::now();
        holds("H", &text);
        assert!(start.elapsed().as_secs() < 30, "{piece:?}");
    }
}
