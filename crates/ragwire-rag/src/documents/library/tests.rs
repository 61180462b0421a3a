//! Tests of the guarantees of a library through its public functions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::*;
use crate::search::lexical::indexed_text;
use crate::{Chunk, ParseLimits, parse, test_data};

fn library() -> Library {
    Library::in_memory(LibraryLimits::default()).unwrap()
}

fn add(library: &Library, name: &str, text: &str) -> Document {
    library
        .add(
            name,
            &parse(name, text.as_bytes(), &ParseLimits::default()).unwrap(),
        )
        .unwrap()
}

fn names_for(library: &Library, query: &str) -> Vec<String> {
    library
        .search(query, 10)
        .unwrap()
        .into_iter()
        .map(|hit| hit.chunk.document_name)
        .collect()
}

/// A folder that is deleted with its content when it is dropped.
pub(super) struct Folder(pub(super) std::path::PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ragwire-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_same_content_changes_nothing_and_other_content_replaces() {
    let library = library();
    let first = add(&library, "a.md", "# A\n\nApples are red.");
    assert_eq!(add(&library, "a.md", "# A\n\nApples are red."), first);
    assert_ne!(
        add(&library, "b.md", "# A\n\nApples are red.").id,
        first.id,
        "the name is part of the id"
    );
    let second = add(&library, "a.md", "# A\n\nPears are green.");
    assert_ne!(second.id, first.id);
    assert_eq!(
        library
            .list()
            .iter()
            .map(|one| one.name.as_str())
            .collect::<Vec<_>>(),
        ["b.md", "a.md"]
    );
    assert_eq!(names_for(&library, "apples"), ["b.md"]);
    assert_eq!(names_for(&library, "pears"), ["a.md"]);
    assert!(
        library.chunk(&Chunk::id_of(&first.id, 0)).unwrap().is_none(),
        "the old id is gone with its text"
    );
    assert!(library.document(&first.id).is_none());
}

#[test]
fn documents_survive_a_restart() {
    let folder = Folder::new("restart");
    let open = || Library::open(&folder.0, LibraryLimits::default()).unwrap();
    let texts = [
        ("a.md", "# A\n\nApples are red."),
        ("b.txt", "Pears are green."),
        ("c.txt", "Plums are blue."),
    ];
    let before = open();
    let added: Vec<_> = texts
        .iter()
        .map(|(name, text)| add(&before, name, text))
        .collect();
    assert!(before.remove(&added[1].id).unwrap());
    let found = before.search("apples plums green", 10).unwrap();
    assert_eq!(
        Library::open(&folder.0, LibraryLimits::default())
            .unwrap_err()
            .code(),
        "library_in_use"
    );
    drop(before);

    let after = open();
    assert_eq!(after.list(), [added[0].clone(), added[2].clone()]);
    assert_eq!(
        after.search("apples plums green", 10).unwrap(),
        found,
        "the same chunks with the same scores"
    );
    let late = add(&after, "d.txt", "Figs are brown.");
    assert_eq!(
        after.search("figs", 10).unwrap()[0].chunk.id,
        Chunk::id_of(&late.id, 0)
    );
}

#[test]
fn removal_removes_everything() {
    let library = library();
    let document = add(&library, "a.md", "# A\n\nApples are red.");
    let chunk = library.search("apples", 1).unwrap()[0].chunk.clone();
    assert_eq!(library.chunk(&chunk.id).unwrap(), Some(chunk.clone()));
    assert_eq!(chunk.heading.as_deref(), Some("A"));
    assert!(library.remove(&document.id).unwrap());
    assert!(!library.remove(&document.id).unwrap());
    assert_eq!((library.list().len(), library.chunk_count()), (0, 0));
    assert!(library.search("apples", 10).unwrap().is_empty());
    assert!(library.chunk(&chunk.id).unwrap().is_none());
}

#[test]
fn changes_list_their_documents() {
    let library = library();
    let listener = library.changes();
    let seen = |library: &Library, revision| {
        let changes = library.changes_since(revision).unwrap();
        let plain = changes
            .into_iter()
            .map(|change| (change.revision, change.kind, change.document_id));
        plain.collect::<Vec<_>>()
    };
    let first = add(&library, "a.md", "Apples are red.");
    add(&library, "a.md", "Apples are red.");
    assert_eq!(
        seen(&library, 0),
        [(1, ChangeKind::Added, first.id.clone())],
        "the same again is no change"
    );
    let second = add(&library, "a.md", "Pears are green.");
    assert!(library.remove(&second.id).unwrap());
    assert!(!library.remove(&second.id).unwrap());
    assert_eq!(
        seen(&library, 1),
        [
            (2, ChangeKind::Removed, first.id.clone()),
            (3, ChangeKind::Added, second.id.clone()),
            (4, ChangeKind::Removed, second.id.clone()),
        ]
    );
    assert_eq!((library.revision(), *listener.borrow()), (4, 4));
    assert!(!library.is_live(&second.id) && library.document_ids().is_empty());
    assert_eq!(library.passages(&second.id).unwrap(), None);
    let third = add(
        &library,
        "b.md",
        "# One\n\nApples are red.\n\n# Two\n\nPears are green.",
    );
    assert!(library.is_live(&third.id));
    assert_eq!(library.document_ids(), BTreeSet::from([third.id.clone()]));
    let chunks: Vec<_> = (0..2)
        .map(|n| library.chunk(&Chunk::id_of(&third.id, n)).unwrap().unwrap())
        .collect();
    assert_eq!(library.passages(&third.id).unwrap(), Some(chunks));
}

#[test]
fn errors_change_nothing() {
    let limits = LibraryLimits {
        max_documents: 2,
        max_chunks: 3,
    };
    let library = Library::in_memory(limits).unwrap();
    add(&library, "a.txt", "Apples are red.");
    let parsed = |text: &str| parse("x.md", text.as_bytes(), &ParseLimits::default()).unwrap();
    let sections: String = (0..3).map(|n| format!("# Section {n}\n\nBananas.\n\n")).collect();
    let long_name = "n".repeat(MAX_NAME_BYTES + 1);
    let cases: &[(&str, &str, &str)] = &[
        ("", "Bananas.", "bad_name"),
        ("a\nb", "Bananas.", "bad_name"),
        ("a\u{1d}b", "Bananas.", "bad_name"),
        (&long_name, "Bananas.", "bad_name"),
        ("b.txt", &sections, "library_full"),
    ];
    let before = library.list();
    for (name, text, code) in cases {
        let error = library.add(name, &parsed(text)).unwrap_err();
        assert_eq!(error.code(), *code, "{name:?}");
        assert_eq!(library.list(), before, "{name:?}");
    }
    // A document that is replaced makes room for its replacement.
    library.add("a.txt", &parsed(&sections)).unwrap();
    library.remove(&library.list()[0].id).unwrap();
    add(&library, "b.txt", "Bananas.");
    add(&library, "c.txt", "Cherries.");
    assert_eq!(
        library.add("d.txt", &parsed("Dates.")).unwrap_err().code(),
        "library_full"
    );
}

#[test]
fn adding_reports_progress_and_can_be_cancelled() {
    let library = library();
    let text: String = (0..200)
        .map(|n| format!("# Section {n}\n\nBananas are long.\n\n"))
        .collect();
    let parsed = parse("a.md", text.as_bytes(), &ParseLimits::default()).unwrap();
    let stopped = library.add_with("a.md", &parsed, |progress| {
        if progress.done_chunks > 100 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert_eq!(stopped.unwrap_err().code(), "cancelled");
    assert!(library.list().is_empty() && library.search("bananas", 1).unwrap().is_empty());

    let mut seen = Vec::new();
    library
        .add_with("a.md", &parsed, |progress| {
            seen.push(progress.done_chunks);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((seen.first(), seen.last()), (Some(&0), Some(&200)));
    assert!(seen.is_sorted());
}

#[test]
fn readers_see_whole_documents_or_nothing() {
    let library = library();
    let text: String = (0..2_000)
        .map(|n| format!("# Section {n}\n\nBananas are long.\n\n"))
        .collect();
    let parsed = parse("a.md", text.as_bytes(), &ParseLimits::default()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut slowest, mut reads) = (std::time::Duration::ZERO, 0);
            while !done.load(Ordering::Relaxed) {
                let start = Instant::now();
                let found = library.search("bananas", usize::MAX).unwrap().len();
                slowest = slowest.max(start.elapsed());
                reads += 1;
                assert!(found == 0 || found == 2_000, "{found}");
            }
            (slowest, reads)
        });
        let start = Instant::now();
        library.add("a.md", &parsed).unwrap();
        done.store(true, Ordering::Relaxed);
        let (slowest, reads) = reader.join().unwrap();
        println!(
            "added 2,000 chunks in {:?}; {reads} reads beside it, the slowest took {slowest:?}",
            start.elapsed()
        );
    });
}

#[test]
fn a_file_that_is_not_a_library_is_an_error() {
    let folder = Folder::new("damaged");
    std::fs::create_dir_all(&folder.0).unwrap();
    std::fs::write(folder.0.join(FILE_NAME), b"not a database".repeat(1_000)).unwrap();
    let error = Library::open(&folder.0, LibraryLimits::default()).unwrap_err();
    assert_eq!(error.code(), "library_damaged");
}

#[test]
fn searches_find_passages_of_a_real_paper() {
    let Some(bytes) = test_data::attention_paper() else {
        return;
    };
    let parsed = parse("attention.pdf", &bytes, &ParseLimits::default()).unwrap();
    let library = library();
    let start = Instant::now();
    let document = library.add("attention.pdf", &parsed).unwrap();
    let terms: usize = chunks(&parsed)
        .iter()
        .map(|piece| {
            library
                .all()
                .terms(&indexed_text(piece.heading.as_deref(), &piece.text))
                .len()
        })
        .sum::<usize>()
        / document.chunks as usize;
    println!(
        "{} chunks of {terms} terms added in {:?}",
        document.chunks,
        start.elapsed()
    );
    let start = Instant::now();
    let cases = [
        ("What optimizer was used?", "5.3 Optimizer", 7),
        (
            "how many parallel attention heads",
            "3.2.2 Multi-Head Attention",
            5,
        ),
        ("label smoothing", "5.4 Regularization", 8),
    ];
    for (query, heading, page) in cases {
        let hits = library.search(query, 5).unwrap();
        let found = hits.iter().any(|hit| {
            hit.chunk
                .heading
                .as_deref()
                .is_some_and(|path| path.ends_with(heading))
                && hit.chunk.page == Some(page)
        });
        assert!(found, "{query}: {hits:#?}");
    }
    println!("a query took {:?}", start.elapsed() / cases.len() as u32);
}
