//! Tests of what is on the disk: segments, restarts, damage, a full disk, and files of other
//! versions.

use super::segments::TAIL_PASSAGES;
use super::tests::Folder;
use super::*;
use crate::{Hit, ParseLimits, parse};

const WORDS: [&str; 12] = [
    "apple", "pear", "plum", "fig", "grape", "melon", "lemon", "peach", "cherry", "quince", "mango", "papaya",
];

fn open(folder: &Folder) -> Result<Library, LibraryError> {
    Library::open(&folder.0, LibraryLimits::default())
}

/// A document of short sections whose words depend on its number.
fn text(number: usize, sections: usize) -> String {
    let section = |at: usize| {
        let word = |step: usize| WORDS[(number * 7 + at * step) % WORDS.len()];
        format!(
            "# Part {at}\n\n{} {} {} item{number}.\n\n",
            word(1),
            word(3),
            word(5)
        )
    };
    (0..sections).map(section).collect()
}

fn add(library: &Library, number: usize, sections: usize) -> Result<Document, LibraryError> {
    let name = format!("{number}.md");
    let parsed = parse(&name, text(number, sections).as_bytes(), &ParseLimits::default()).unwrap();
    library.add(&name, &parsed)
}

/// What a search finds, without IDs, which depend on nothing else.
fn found(library: &Library, query: &str) -> Vec<(String, Option<String>, f32)> {
    let hits = library.search(query, 1_000).unwrap();
    let part = |hit: Hit| (hit.chunk.document_name, hit.chunk.heading, hit.score);
    hits.into_iter().map(part).collect()
}

#[test]
fn a_grown_library_finds_what_a_new_one_finds() {
    let folder = Folder::new("grown");
    let mut library = open(&folder).unwrap();
    let mut kept = Vec::new();
    for number in 0..60 {
        let document = add(&library, number, 5 + number % 9).unwrap();
        // Two of three documents are removed again, some at once and some later.
        match number % 3 {
            0 => kept.push(number),
            1 => assert!(library.remove(&document.id).unwrap()),
            _ => {}
        }
        if number % 10 == 9 {
            for late in library.list() {
                let number: usize = late.name.trim_end_matches(".md").parse().unwrap();
                if number % 3 == 2 {
                    assert!(library.remove(&late.id).unwrap());
                }
            }
        }
        if number % 17 == 16 {
            drop(library);
            library = open(&folder).unwrap();
        }
    }
    let fresh = Library::in_memory(LibraryLimits::default()).unwrap();
    for number in kept {
        add(&fresh, number, 5 + number % 9).unwrap();
    }
    for query in [
        "apple",
        "pear plum fig",
        "item30",
        "item31 quince",
        "part 3",
        "mangoes OR melons",
    ] {
        assert_eq!(found(&library, query), found(&fresh, query), "{query}");
        assert_eq!(
            library.all().weights(&library.all().terms(query)),
            fresh.all().weights(&fresh.all().terms(query))
        );
    }
    assert_eq!(library.chunk_count(), fresh.chunk_count());
    drop(library);
    let library = open(&folder).unwrap();
    assert_eq!(found(&library, "apple pear"), found(&fresh, "apple pear"));
    let segments = library.local().read(|connection| {
        let count = |sql| Ok::<_, LibraryError>(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?);
        Ok((
            count("SELECT count(*) FROM segments")?,
            count("SELECT count(DISTINCT segment) FROM postings")?,
        ))
    });
    let (segments, with_rows) = segments.unwrap();
    assert_eq!(segments, with_rows, "no rows of merged segments are left");
    assert!(segments < 8, "{segments}");
}

#[test]
fn removal_gives_disk_and_memory_back() {
    let folder = Folder::new("give-back");
    let library = open(&folder).unwrap();
    add(&library, 0, 5).unwrap();
    let size = || {
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        let done =
            |connection: &rusqlite::Connection| Ok(connection.query_row(checkpoint, [], |_| Ok(()))?);
        library.local().read(done).unwrap();
        std::fs::metadata(folder.0.join(FILE_NAME)).unwrap().len()
    };
    let small = size();
    for round in 1..4 {
        let text: String = (0..300)
            .map(|at| format!("# Part {at}\n\nword{round}x{at} other{round}y{at}.\n\n"))
            .collect();
        let parsed = parse("big.md", text.as_bytes(), &ParseLimits::default()).unwrap();
        let document = library.add("big.md", &parsed).unwrap();
        assert!(size() > 2 * small);
        assert!(library.remove(&document.id).unwrap());
        assert!(size() < small + 10 * 4_096, "{} {small}", size());
        assert_eq!(
            library.read().lexicon.tail.len() % TAIL_PASSAGES,
            library.read().lexicon.tail.len()
        );
    }
}

#[test]
fn a_full_disk_refuses_additions_and_allows_removals() {
    let folder = Folder::new("full");
    let library = open(&folder).unwrap();
    let first = add(&library, 1, 20).unwrap();
    let limit = |pages: &str| {
        let sql = format!("PRAGMA max_page_count = {pages}");
        let set = |connection: &rusqlite::Transaction<'_>| Ok(connection.query_row(&sql, [], |_| Ok(()))?);
        library.local().write(set).unwrap();
    };
    limit("1");
    let mut refused = None;
    for number in 2..40 {
        if let Err(error) = add(&library, number, 40) {
            refused = Some(error.code());
            break;
        }
    }
    assert_eq!(refused, Some("library_no_space"));
    let listed = library.list().len();
    assert_eq!(found(&library, "item1").len(), 20, "searches go on");
    assert!(library.remove(&first.id).unwrap(), "removals make room");
    limit("1000000");
    add(&library, 99, 40).unwrap();
    assert_eq!(library.list().len(), listed);
    drop(library);
    assert_eq!(open(&folder).unwrap().list().len(), listed);
}

#[test]
fn damage_is_an_error_and_never_an_empty_library() {
    let folder = Folder::new("damage");
    let library = open(&folder).unwrap();
    for number in 0..12 {
        add(&library, number, 12).unwrap();
    }
    let whole = found(&library, "apple pear");
    drop(library);
    let file = folder.0.join(FILE_NAME);
    let bytes = std::fs::read(&file).unwrap();
    let damages: Vec<Vec<u8>> = (0..40)
        .map(|n| {
            let mut damaged = bytes.clone();
            let at = n * bytes.len() / 40;
            match n % 4 {
                0 => damaged[at] ^= 0xff,
                1 => damaged[at..(at + 2_000).min(bytes.len())].fill(0),
                2 => damaged.truncate(at),
                _ => damaged[at..(at + 64).min(bytes.len())].fill(0xa5),
            }
            damaged
        })
        .chain([Vec::new(), b"text".to_vec()])
        .collect();
    let (mut reported, mut harmless) = (0, 0);
    for damaged in damages {
        std::fs::write(&file, damaged).unwrap();
        let looked = open(&folder).and_then(|library| {
            let hits = library.search("apple pear", 1_000)?;
            for document in library.list() {
                library.passages(&document.id)?;
            }
            Ok((hits, library.check()))
        });
        match looked {
            // A term that is damaged is not found any more.
            Ok((hits, Err(found))) if hits.len() < whole.len() => {
                assert_eq!(found.code(), "library_damaged");
                reported += 1;
            }
            Ok((hits, _)) => {
                assert_eq!(hits.len(), whole.len(), "either whole or an error");
                harmless += 1;
            }
            Err(error) => {
                let known = ["library_damaged", "library_storage", "library_version"];
                assert!(known.contains(&error.code()), "{error:?}");
                reported += 1;
            }
        }
    }
    println!("{reported} damages were reported, {harmless} had no effect");
    assert!(reported > 20, "{reported}");
}

#[test]
fn a_check_finds_a_damaged_term() {
    let folder = Folder::new("term");
    let library = open(&folder).unwrap();
    for number in 0..10 {
        add(&library, number, 12).unwrap();
    }
    library.check().unwrap();
    let change = |connection: &rusqlite::Transaction<'_>| {
        let renamed = "UPDATE postings SET term = 'appld' WHERE term = 'appl'";
        assert!(connection.execute(renamed, [])? > 0);
        Ok(())
    };
    library.local().write(change).unwrap();
    let error = library.check().unwrap_err();
    assert_eq!(error.code(), "library_damaged");
    assert!(error.to_string().contains("appld"), "{error}");
}

#[test]
fn an_index_of_another_analyzer_is_built_again() {
    let folder = Folder::new("analyzer");
    let library = open(&folder).unwrap();
    for number in 0..10 {
        add(&library, number, 12).unwrap();
    }
    let before = found(&library, "apple pear");
    let change = |connection: &rusqlite::Transaction<'_>| {
        connection.execute_batch("UPDATE postings SET term = term || 'x'")?;
        database::set_meta(connection, "analyzer", 0)
    };
    library.local().write(change).unwrap();
    drop(library);
    assert_eq!(found(&open(&folder).unwrap(), "apple pear"), before);
}

#[test]
fn a_folder_with_an_older_library_is_not_an_empty_one() {
    let folder = Folder::new("older");
    std::fs::create_dir_all(&folder.0).unwrap();
    let old = folder.0.join(OLD_FILE_NAME);
    std::fs::write(&old, "of another format").unwrap();
    let error = open(&folder).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the library has format 1, but this program reads format 2"
    );
    std::fs::rename(&old, folder.0.join("elsewhere")).unwrap();
    assert!(open(&folder).unwrap().list().is_empty());
}
