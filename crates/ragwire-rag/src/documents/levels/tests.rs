//! Tests of whole chunk lists, and properties that hold for any document.

use proptest::prelude::*;

use super::*;
use crate::documents::chunk::chunks;
use crate::{Block, BlockKind, DocumentKind, Library, LibraryLimits, ParseLimits, Parsed, parse};

fn parsed(name: &str, text: &str) -> Parsed {
    parse(name, text.as_bytes(), &ParseLimits::default()).unwrap()
}

fn trees(parsed: &Parsed) -> Vec<SectionTree> {
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    let mut document = library.add("a.md", parsed).unwrap();
    document.id = "d".to_owned();
    sections(&document, &chunks(parsed))
}

/// ID, parent, pages and text of each chunk, level by level.
fn plain(chunks: impl IntoIterator<Item = Chunk>) -> Vec<(String, String, Vec<u32>, String)> {
    let plain = |chunk: Chunk| {
        let parent = chunk.parent.clone().unwrap_or_default();
        (chunk.id.clone(), parent, chunk.pages().collect(), chunk.text)
    };
    chunks.into_iter().map(plain).collect()
}

fn rows(rows: &[(&str, &str, &[u32], &str)]) -> Vec<(String, String, Vec<u32>, String)> {
    rows.iter()
        .map(|(id, parent, pages, text)| {
            (
                (*id).to_owned(),
                (*parent).to_owned(),
                pages.to_vec(),
                (*text).to_owned(),
            )
        })
        .collect()
}

fn block(heading: Option<&str>, page: Option<u32>, kind: BlockKind, text: &str) -> Block {
    Block {
        heading: heading.map(str::to_owned),
        page,
        term: None,
        columns: None,
        item: None,
        kind,
        text: text.to_owned(),
    }
}

fn document_of(blocks: Vec<Block>) -> Parsed {
    Parsed {
        kind: DocumentKind::Pdf,
        title: None,
        pages: None,
        unread_pages: Vec::new(),
        front_matter: Default::default(),
        blocks,
    }
}

#[test]
fn a_small_document_on_three_levels() {
    use BlockKind::{Listing, Prose};
    let blocks = vec![
        block(None, Some(1), Prose, "Text before the first heading."),
        block(
            Some("Birds"),
            Some(1),
            Prose,
            "A robin sings at dawn every day. An owl hunts at night, unseen. Yes.",
        ),
        block(
            Some("Birds"),
            Some(2),
            Prose,
            "No. A hawk hunts by day and sees all.",
        ),
        block(
            Some("Birds"),
            Some(3),
            Listing,
            "fn hunt() {\n\n    let night = true;\n}",
        ),
        block(
            Some("Fish"),
            Some(3),
            Prose,
            "kind of fish | eats e.g. Plants. All day long",
        ),
        block(Some("Fish"), Some(3), Prose, "Carp."),
        block(Some("Birds"), Some(4), Prose, "Ok."),
    ];
    let trees = trees(&document_of(blocks));
    let listing = "fn hunt() {\n\n    let night = true;\n}";
    assert_eq!(
        plain(trees.iter().map(|tree| tree.section.clone())),
        rows(&[
            ("d-s0", "", &[1], "Text before the first heading."),
            (
                "d-s1",
                "",
                &[1, 2, 3],
                &format!(
                    "A robin sings at dawn every day. An owl hunts at night, unseen. Yes.\nNo. A hawk hunts by day and sees all.\n{listing}"
                )
            ),
            (
                "d-s2",
                "",
                &[3],
                "kind of fish | eats e.g. Plants. All day long\nCarp."
            ),
            ("d-s3", "", &[4], "Ok."),
        ])
    );
    assert_eq!(
        plain(trees.iter().flat_map(|tree| tree.passages.clone())),
        rows(&[
            ("d-0", "d-s0", &[1], "Text before the first heading."),
            (
                "d-1",
                "d-s1",
                &[1],
                "A robin sings at dawn every day. An owl hunts at night, unseen. Yes."
            ),
            ("d-2", "d-s1", &[2], "No. A hawk hunts by day and sees all."),
            ("d-3", "d-s1", &[3], listing),
            (
                "d-4",
                "d-s2",
                &[3],
                "kind of fish | eats e.g. Plants. All day long\nCarp."
            ),
            ("d-5", "d-s3", &[4], "Ok."),
        ])
    );
    assert_eq!(
        plain(trees.iter().flat_map(|tree| tree.sentences.clone())),
        rows(&[
            ("d-0.0", "d-0", &[1], "Text before the first heading."),
            ("d-1.0", "d-1", &[1], "A robin sings at dawn every day."),
            ("d-1.1", "d-1", &[1], "An owl hunts at night, unseen. Yes."),
            ("d-2.0", "d-2", &[2], "No. A hawk hunts by day and sees all."),
            ("d-3.0", "d-3", &[3], "fn hunt() {\n\n    let night = true;\n}"),
            (
                "d-4.0",
                "d-4",
                &[3],
                "kind of fish | eats e.g. Plants. All day long\nCarp."
            ),
            ("d-5.0", "d-5", &[4], "Ok."),
        ])
    );
    let sentences = trees.iter().flat_map(|tree| &tree.sentences);
    let ordinals: Vec<_> = sentences
        .map(|chunk| (chunk.ordinal, chunk.heading.as_deref()))
        .collect();
    let birds = Some("Birds");
    assert_eq!(
        ordinals,
        [
            (0, None),
            (1, birds),
            (2, birds),
            (3, birds),
            (4, birds),
            (5, Some("Fish")),
            (6, birds)
        ]
    );
}

#[test]
fn repeated_sentences_count_once() {
    let sentences: Vec<String> = (0..100)
        .map(|n| format!("Sentence number {n} stands right here."))
        .collect();
    let prose = parsed("a.md", &sentences.join(" "));
    // A listing of equal lines, after a sentence that is repeated before its second half.
    let lines = ["}"; 1_000].join("\n") + &"\n    let x = 1;".repeat(100);
    let listing = parsed(
        "a.md",
        &format!("It begins with this sentence here.\n\n```\n{lines}\n```\n"),
    );
    for (parsed, whole) in [
        (prose, sentences.join(" ")),
        (listing, format!("It begins with this sentence here.\n{lines}")),
    ] {
        let pieces = chunks(&parsed);
        assert!(pieces.iter().any(|piece| piece.repeated > Some(0)));
        let trees = trees(&parsed);
        assert_eq!(trees.len(), 1);
        assert_eq!(trees[0].section.text, whole);
        let found: Vec<&str> = trees[0]
            .sentences
            .iter()
            .map(|chunk| chunk.text.as_str())
            .collect();
        if whole.starts_with("Sentence") {
            assert_eq!(found, sentences);
            // Files written before the repetition was recorded: prose does not need the record.
            let before: Vec<Piece> = pieces
                .into_iter()
                .map(|piece| Piece {
                    repeated: None,
                    ..piece
                })
                .collect();
            let library = Library::in_memory(LibraryLimits::default()).unwrap();
            let mut document = library.add("a.md", &parsed).unwrap();
            document.id = "d".to_owned();
            assert_eq!(sections(&document, &before), trees);
        } else {
            assert_eq!(marks(&found.concat()), marks(&whole));
        }
    }
}

#[test]
fn a_long_section_becomes_several() {
    let sentence = "A sentence of this length is repeated often, with a number, to fill the page:";
    let text: String = (0..500).map(|n| format!("{sentence} {n}. ")).collect();
    let parsed = parsed("a.md", &format!("# Long\n\n{text}"));
    let trees = trees(&parsed);
    assert!(trees.len() > 5, "{}", trees.len());
    for (at, tree) in trees.iter().enumerate() {
        assert!(tree.section.text.len() <= MAX_SECTION_BYTES);
        assert!(at + 1 == trees.len() || tree.section.text.len() > MAX_SECTION_BYTES * 3 / 4);
        assert_eq!(tree.section.heading.as_deref(), Some("Long"));
    }
    let all: Vec<&str> = trees.iter().map(|tree| tree.section.text.as_str()).collect();
    assert_eq!(all.join(" "), text.trim_end());
}

/// Documents made of few different sentences, so that equal sentences often meet.
fn documents() -> impl Strategy<Value = Parsed> {
    let sentence = prop_oneof![
        Just("Yes.".to_owned()),
        Just("One short sentence here.".to_owned()),
        Just("É".repeat(30) + "."),
        Just("A | table | row. With a stop".to_owned()),
        Just("Words and words and ".repeat(15) + "a stop."),
        Just("x".repeat(1_500)),
    ];
    let prose = prop::collection::vec(sentence, 1..30).prop_map(|parts| (BlockKind::Prose, parts.join(" ")));
    let line = prop_oneof![
        Just("}"),
        Just(""),
        Just("    indented line"),
        Just("call(); // Why. Because.")
    ];
    let listing =
        prop::collection::vec(line, 1..300).prop_map(|lines| (BlockKind::Listing, lines.join("\n")));
    let place = (0..3u8, 0..2u8);
    let block = (prop_oneof![3 => prose, 1 => listing], place).prop_map(|((kind, text), (heading, turn))| {
        let heading = ["", "One", "One > Two"][usize::from(heading)];
        (kind, text, (!heading.is_empty()).then_some(heading), turn)
    });
    prop::collection::vec(block, 1..20).prop_map(|blocks| {
        let mut page = 1;
        let mut term: Option<String> = None;
        let place = |(kind, text, heading, turn): (BlockKind, String, Option<&str>, u8)| {
            page += u32::from(turn);
            let mut block = block_of(kind, &text, heading, page);
            // A short paragraph is the term of what follows it, up to the next page.
            if kind == BlockKind::Prose && block.text.len() < 50 {
                term = Some(block.text.clone());
            }
            block.term = term
                .take_if(|_| turn == 0)
                .inspect(|kept| term = Some(kept.clone()));
            block
        };
        document_of(blocks.into_iter().map(place).collect())
    })
}

fn block_of(kind: BlockKind, text: &str, heading: Option<&str>, page: u32) -> Block {
    // Like the parsers' output: not empty, and without empty lines around a listing.
    let text = match kind {
        BlockKind::Listing if text.trim().is_empty() => "}",
        _ => text.trim_matches('\n'),
    };
    block(heading, Some(page), kind, text)
}

fn marks(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Where texts end, counted in visible characters.
fn ends<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<usize> {
    let mut at = 0;
    let end = |text: &str| {
        at += marks(text).len();
        at
    };
    texts.into_iter().map(end).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn cutting_neither_loses_nor_repeats_text(parsed in documents()) {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let document = library.add("a.pdf", &parsed).unwrap();
        let trees = sections(&document, &chunks(&parsed));
        let counts = library.levels(&document.id).unwrap();
        let whole: String = parsed.blocks.iter().map(|block| marks(&block.text)).collect();

        // Sections and sentences contain the text of the document in order, once.
        let section_texts: String = trees.iter().map(|tree| marks(&tree.section.text)).collect();
        prop_assert_eq!(&section_texts, &whole);
        let sentences: Vec<&Chunk> = trees.iter().flat_map(|tree| &tree.sentences).collect();
        let sentence_texts: String = sentences.iter().map(|chunk| marks(&chunk.text)).collect();
        prop_assert_eq!(&sentence_texts, &whole);

        // No sentence is split.
        let wanted = ends(parsed.blocks.iter().flat_map(|block| super::sentences(&block.text)));
        for end in ends(sentences.iter().map(|chunk| chunk.text.as_str())) {
            prop_assert!(wanted.binary_search(&end).is_ok());
        }

        // Each level is numbered consecutively, and each chunk lies within its parent.
        let mut passages = 0;
        for (ordinal, tree) in trees.iter().enumerate() {
            let SectionTree { section, passages: held, sentences } = tree;
            prop_assert_eq!((section.ordinal, section.level), (ordinal as u32, Level::Section));
            prop_assert!(section.text.len() <= MAX_SECTION_BYTES);
            for passage in held {
                prop_assert_eq!((passage.ordinal, passage.parent.as_ref()), (passages, Some(&section.id)));
                prop_assert_eq!(&passage.heading, &section.heading);
                prop_assert!(section.pages().any(|page| Some(page) == passage.page));
                passages += 1;
            }
            for sentence in sentences {
                let parent = held.iter().find(|passage| Some(&passage.id) == sentence.parent.as_ref()).unwrap();
                prop_assert!(parent.text.contains(&sentence.text) && section.text.contains(&sentence.text));
                prop_assert_eq!((&parent.heading, parent.page), (&sentence.heading, sentence.page));
            }
        }
        let ordinals: Vec<u32> = sentences.iter().map(|chunk| chunk.ordinal).collect();
        prop_assert_eq!(&ordinals, &(0..counts.l3).collect::<Vec<_>>());
        prop_assert_eq!((counts.l1, counts.l2), (trees.len() as u32, passages));
        let held: Vec<Chunk> = trees.iter().flat_map(|tree| tree.passages.clone()).collect();
        prop_assert_eq!(library.passages(&document.id).unwrap(), Some(held));

        // The library returns each chunk by its ID, with its parent, and nothing else.
        for (ordinal, tree) in (0u32..).zip(&trees) {
            let again = library.section(&document.id, ordinal).unwrap();
            prop_assert_eq!(again.as_ref(), Some(tree));
            for chunk in tree.clone().into_chunks() {
                let found = library.chunk(&chunk.id).unwrap();
                prop_assert_eq!(found.as_ref(), Some(&chunk));
                let id = ChunkId::parse(&chunk.id).unwrap();
                prop_assert_eq!((id.level(), id.document_id()), (chunk.level, document.id.as_str()));
                let parent = library.parent(&chunk).unwrap();
                prop_assert_eq!(parent.as_ref().map(|parent| &parent.id), chunk.parent.as_ref());
                let by_hand = library.parent(&Chunk { parent: None, ..chunk.clone() }).unwrap();
                prop_assert_eq!(by_hand, parent);
            }
        }
        let id = &document.id;
        for id in [format!("{id}-s{}", counts.l1), format!("{id}-{}", counts.l2), format!("{id}-0.9999"), format!("{id}-{}.0", counts.l2)] {
            prop_assert_eq!(library.chunk(&id).unwrap(), None);
        }
        prop_assert_eq!(library.section(id, counts.l1).unwrap(), None);
    }
}

#[test]
fn levels_survive_a_restart_and_are_removed_with_their_document() {
    let folder = std::env::temp_dir().join(format!("ragwire-levels-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let text =
        "# A\n\nApples are red when they are ripe. ".repeat(40) + "\n\n# B\n\nPears are green, mostly.";
    let first = parsed("a.md", &text);
    let open = || Library::open(&folder, LibraryLimits::default()).unwrap();
    let all = |library: &Library, id: &str| {
        let sections = (0..).map_while(|ordinal| library.section(id, ordinal).unwrap());
        sections.flat_map(SectionTree::into_chunks).collect::<Vec<_>>()
    };
    let library = open();
    let other = library
        .add("b.md", &parsed("b.md", "Another one stands before."))
        .unwrap();
    let document = library.add("a.md", &first).unwrap();
    let before = all(&library, &document.id);
    assert_eq!(before.len() as u32, {
        let counts = library.levels(&document.id).unwrap();
        counts.l1 + counts.l2 + counts.l3
    });
    drop(library);
    let library = open();
    assert_eq!(all(&library, &document.id), before);
    assert_eq!(all(&library, &other.id).len(), 3);
    library.remove(&document.id).unwrap();
    for chunk in &before {
        assert_eq!(library.chunk(&chunk.id).unwrap(), None);
        assert_eq!(library.parent(chunk).unwrap(), None);
    }
    assert_eq!(
        (
            library.levels(&document.id),
            library.section(&document.id, 0).unwrap()
        ),
        (None, None)
    );
    drop(library);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_section_knows_the_listings_and_lists_of_its_passages() {
    let listing = "let night = true;\n".repeat(130);
    let steps: String = (1..40)
        .map(|step| format!("{step}. Look for owls in tree {step} of the wood.\n"))
        .collect();
    let text = format!("# Owls\n\nThey hunt.\n\n```\n{listing}```\n\nThen:\n\n{steps}\nGo home.\n");
    let of_markdown = trees(&parsed("a.md", &text));
    let [tree] = &of_markdown[..] else {
        panic!("{of_markdown:?}")
    };
    assert!(tree.passages.len() > 2, "{}", tree.passages.len());
    let section = &tree.section;
    assert_eq!(section.listings, Some(std::iter::once(1..131).collect()));
    let lines: Vec<&str> = section.text.split('\n').collect();
    let items = section.items.as_ref().unwrap();
    let numbers: Vec<_> = items
        .iter()
        .map(|line| (lines[line.line as usize], line.item.number))
        .collect();
    let steps: Vec<String> = steps
        .lines()
        .map(|line| line.split_once(". ").unwrap().1.to_owned())
        .collect();
    let expected: Vec<_> = (1..)
        .zip(&steps)
        .map(|(step, text)| (text.as_str(), Some(step)))
        .collect();
    assert_eq!(numbers, expected);
    // Text without marks has none that are known.
    let plain = trees(&parsed("a.txt", "One.\n\nTwo.")).remove(0);
    assert_eq!((plain.section.listings, plain.section.items), (None, None));
}

#[test]
fn a_line_that_two_passages_share_has_one_place() {
    let text = format!(
        "# Owls\n\n1. {}\n2. Last.\n",
        "They hunt at night in the wood. ".repeat(110)
    );
    let of_markdown = trees(&parsed("a.md", &text));
    let section = &of_markdown[0].section;
    assert!(
        of_markdown[0].passages.len() > 1,
        "{}",
        of_markdown[0].passages.len()
    );
    let items = section.items.as_ref().unwrap();
    let places: Vec<_> = items
        .iter()
        .map(|line| (line.line, line.item.number, line.item.continued))
        .collect();
    assert_eq!(
        places,
        [(0, Some(1), false), (1, Some(2), false)],
        "{}",
        section.text.matches('\n').count()
    );
}
