//! Documents that other programs wrote (tests/documents/make.py), and hostile files.

use std::io::Write;
use std::time::Instant;

use zip::write::SimpleFileOptions;

use super::*;
use crate::test_data::check_blocks;
use crate::{Chunk, parse};

pub(super) fn document(name: &str) -> Parsed {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/documents/");
    let bytes = std::fs::read(format!("{folder}{name}")).unwrap();
    // The content decides.
    assert_eq!(
        parse("a.bin", &bytes, &ParseLimits::default())
            .unwrap()
            .kind
            .as_str(),
        name.split_once('.').unwrap().1
    );
    parse(name, &bytes, &ParseLimits::default()).unwrap()
}

#[test]
fn a_word_document_keeps_its_structure() {
    let parsed = document("birds.docx");
    assert_eq!(parsed.title.as_deref(), Some("The bird guide"));
    check_blocks(
        &parsed,
        &[
            ("Feeding", "A robin eats worms. In winter it eats seeds."),
            ("Feeding", "sunflower seeds"),
            ("Feeding", "Bird | Food"),
            ("Feeding", "robin | worms"),
            ("Feeding", "owl | mice & voles"),
            ("Feeding > Counting", "for bird in garden:\n    count(bird)"),
            ("Feeding > Counting", "Count at dawn."),
        ],
    );
}

#[test]
fn a_presentation_has_its_slides_as_pages() {
    let parsed = document("birds.pptx");
    assert_eq!(
        (parsed.title.as_deref(), parsed.pages),
        (Some("Birds in slides"), Some(2))
    );
    check_blocks(
        &parsed,
        &[
            ("Feeding", "A robin eats worms."),
            ("Feeding", "An owl eats mice."),
            ("Feeding", "Mention the winter."),
            ("Prices", "Food | Price"),
            ("Prices", "seeds | 2 euros"),
        ],
    );
    let pages: Vec<_> = parsed.blocks.iter().filter_map(|block| block.page).collect();
    assert_eq!(pages, [1, 1, 1, 2, 2]);
}

#[test]
fn a_spreadsheet_shows_what_its_user_sees() {
    check_blocks(
        &document("birds.xlsx"),
        &[
            ("Sightings", "Bird | Day | Share | Seen"),
            (
                "Sightings",
                "Bird: robin | Day: 2026-01-31 | Share: 25% | Seen: TRUE",
            ),
            ("Sightings", "Bird: owl | Day: 2026-02-01 22:30:00 | Share: 12.5%"),
            ("Notes", "| Count at dawn."),
        ],
    );
}

#[test]
fn a_book_is_its_chapters_in_order() {
    let parsed = document("birds.epub");
    assert_eq!(parsed.title.as_deref(), Some("The book of birds"));
    check_blocks(
        &parsed,
        &[
            ("Robins", "A robin sings at dawn."),
            ("Robins", "count(0)"),
            ("Owls", "An owl hunts at night."),
            ("Owls", "count(1)"),
        ],
    );
}

#[test]
fn open_documents_keep_their_structure() {
    let parsed = document("birds.odt");
    assert_eq!(parsed.title.as_deref(), Some("The open guide"));
    check_blocks(
        &parsed,
        &[
            ("", "A title"),
            ("Feeding", "A robin eats worms."),
            ("Feeding", "In winter it eats seeds."),
            ("Feeding", "sunflower seeds"),
            ("Feeding", "hemp"),
            ("Feeding", "Bird | Food"),
            ("Feeding", "robin | worms"),
            ("Feeding", "owl | mice & voles"),
            ("Feeding > Counting", "for bird in garden:\n    count(bird)"),
            ("Feeding > Counting", "Count at dawn."),
        ],
    );
    let slides = document("birds.odp");
    assert_eq!(slides.pages, Some(2));
    check_blocks(
        &slides,
        &[
            ("Feeding", "A robin eats worms."),
            ("Feeding", "An owl eats mice."),
            ("Feeding", "Mention the winter."),
            ("Feeding", "Food | Price"),
            ("Feeding", "seeds | 2 euros"),
            ("Slide 2", "Nothing else."),
        ],
    );
    let pages: Vec<_> = slides.blocks.iter().filter_map(|block| block.page).collect();
    assert_eq!(pages, [1, 1, 1, 1, 1, 2]);
    check_blocks(
        &document("birds.ods"),
        &[
            ("Sightings", "Bird | Day | Share"),
            ("Sightings", "Bird: robin | Day: 2026-01-31 | Share: 25%"),
            ("Sightings", "Bird: owl | Day: 2026-02-01"),
        ],
    );
}

#[test]
fn hostile_open_documents_have_typed_errors() {
    const TEXT: &str = "application/vnd.oasis.opendocument.text";
    let content = |body: &str| format!("<d><body><text>{body}</text></body></d>");
    let sheet = "application/vnd.oasis.opendocument.spreadsheet";
    let wide = "<table name=\"a\"><table-row><table-cell number-columns-repeated=\"99999999999\"><p>x</p></table-cell></table-row></table>";
    let nested = "<table><table-row><table-cell number-columns-repeated=\"256\">";
    let end = "</table-cell></table-row></table>";
    let limits = ParseLimits {
        max_inflated_bytes: 1_000_000,
        max_pages: 3,
        ..ParseLimits::default()
    };
    type Case<'a> = (&'a str, &'a str, Option<String>, &'a str, Result<(), &'a str>);
    let cases: Vec<Case<'_>> = vec![
        ("plain", TEXT, Some(content("<p>x</p>")), "", Ok(())),
        (
            "template",
            "application/vnd.oasis.opendocument.text-template",
            Some(content("<p>x</p>")),
            "",
            Ok(()),
        ),
        ("wide", sheet, Some(content(wide)), "", Ok(())),
        (
            "spaces",
            TEXT,
            Some(content("<p>x<s c=\"99999999999999999999\"/>y</p>")),
            "",
            Ok(()),
        ),
        (
            "nested",
            TEXT,
            Some(content(&format!("{}<p>x</p>{}", nested.repeat(6), end.repeat(6)))),
            "",
            Ok(()),
        ),
        (
            "encrypted",
            TEXT,
            Some("\u{1}".to_owned()),
            "<m><encryption-data/></m>",
            Err("encrypted"),
        ),
        ("no content", TEXT, None, "", Err("damaged")),
        (
            "a drawing",
            "application/vnd.oasis.opendocument.graphics",
            Some(content("")),
            "",
            Err("unsupported_type"),
        ),
        (
            "slides",
            "application/vnd.oasis.opendocument.presentation",
            Some(content(&"<page><p>x</p></page>".repeat(4))),
            "",
            Err("too_many_pages"),
        ),
        (
            "ends",
            TEXT,
            Some(content("<p>").replace("</text>", "")),
            "",
            Err("damaged"),
        ),
        (
            "too large",
            TEXT,
            Some(" ".repeat(1_100_000)),
            "",
            Err("too_much_inside"),
        ),
    ];
    for (case, mime, content, manifest, wanted) in cases {
        let mut parts = vec![
            ("mimetype", mime.to_owned()),
            ("META-INF/manifest.xml", manifest.to_owned()),
        ];
        parts.extend(content.map(|content| ("content.xml", content)));
        let outcome = parse("a.odt", &package(&parts), &limits);
        let outcome = outcome.as_ref().map(|_| ()).map_err(ParseError::code);
        assert_eq!(outcome, wanted, "{case}");
    }
}

#[test]
fn shapes_and_wide_rows_of_a_sheet_keep_their_text() {
    let sheet = "application/vnd.oasis.opendocument.spreadsheet";
    let cells: String = (0..300)
        .map(|n| format!("<table-cell><p>c{n}</p></table-cell>"))
        .collect();
    let content = format!(
        "<d><body><table name=\"s\"><shapes><custom-shape><p>Draft<frame><title>alt</title></frame></p></custom-shape></shapes>\
         <table-row>{cells}</table-row></table></body></d>"
    );
    let parts = [("mimetype", sheet.to_owned()), ("content.xml", content)];
    let blocks = parse("a.ods", &package(&parts), &ParseLimits::default())
        .unwrap()
        .blocks;
    assert_eq!(blocks[0].text, "Draft");
    assert!(
        blocks[1].text.starts_with("c0 | c1 |") && blocks[1].text.ends_with("| c299"),
        "{}",
        blocks[1].text
    );
}

pub(super) fn package(parts: &[(&str, String)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    // Stored: tests have no compressor, and what is inside is what matters.
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, content) in parts {
        zip.start_file(*name, options).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

const ROOT: &str = r#"<Relationships><Relationship Id="r1" Type="x/officeDocument" Target="word/document.xml"/></Relationships>"#;

pub(super) fn word(body: &str) -> Vec<(&'static str, String)> {
    vec![
        (ROOT_RELATIONS, ROOT.to_owned()),
        (
            "word/document.xml",
            format!("<w:document xmlns:w=\"w\"><w:body>{body}</w:body></w:document>"),
        ),
    ]
}

#[test]
fn hostile_packages_have_typed_errors() {
    let limits = ParseLimits {
        max_inflated_bytes: 1_000_000,
        max_xml_nodes: 10_000,
        ..ParseLimits::default()
    };
    let paragraph = "<w:p><w:r><w:t>x</w:t></w:r></w:p>";
    let styles = |count: usize| -> String {
        let style = |n: usize| {
            let base = (n + 1) % count;
            format!("<style styleId=\"s{n}\"><name val=\"n\"/><basedOn val=\"s{base}\"/></style>")
        };
        (0..count).map(style).collect()
    };
    let cyclic = {
        let mut parts = word("<w:p><w:pPr><w:pStyle w:val=\"s0\"/></w:pPr><w:r><w:t>Text.</w:t></w:r></w:p>");
        parts.push((
            "word/_rels/document.xml.rels",
            r#"<Relationships><Relationship Id="r1" Type="x/styles" Target="../word/./styles.xml"/></Relationships>"#.to_owned(),
        ));
        parts.push(("word/styles.xml", format!("<styles>{}</styles>", styles(3))));
        parts
    };
    let doctype = "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;\">]>";
    type Case<'a> = (&'a str, Vec<(&'a str, String)>, Result<(), &'a str>);
    let cases: Vec<Case<'_>> = vec![
        ("plain", word(paragraph), Ok(())),
        ("cyclic styles", cyclic, Ok(())),
        ("entities", vec![
            (ROOT_RELATIONS, ROOT.to_owned()),
            ("word/document.xml", format!("{doctype}<d><p><r><t>Text &b;</t></r></p></d>")),
        ], Ok(())),
        ("too large", word(&" ".repeat(1_100_000)), Err("too_much_inside")),
        ("too many", word(&paragraph.repeat(5_000)), Err("too_many_nodes")),
        ("too deep", word(&"<w:tbl>".repeat(2_000)), Err("too_deep")),
        ("cut", word("<w:p><w:r>"), Err("damaged")),
        ("no main part", vec![(ROOT_RELATIONS, ROOT.to_owned()), ("word/other.xml", String::new())], Err("damaged")),
        ("another zip", vec![("a.txt", "x".to_owned())], Err("unsupported_type")),
        ("outside", vec![
            (ROOT_RELATIONS, ROOT.replace("word/document.xml", "../../../etc/passwd")),
            ("word/x.xml", String::new()),
        ], Err("damaged")),
        ("itself", vec![
            ("META-INF/container.xml", "<c><rootfile full-path=\"p.opf\"/></c>".to_owned()),
            ("p.opf", "<p><item id=\"a\" href=\"p.opf\" media-type=\"html\"/><itemref idref=\"a\"/><itemref idref=\"a\"/></p>".to_owned()),
        ], Err("empty_document")),
    ];
    for (case, parts, wanted) in cases {
        let start = Instant::now();
        let outcome = parse("a.docx", &package(&parts), &limits);
        println!("{case}: {:?}", start.elapsed());
        let outcome = outcome.as_ref().map(|_| ()).map_err(ParseError::code);
        assert_eq!(outcome, wanted, "{case}");
    }
}

#[test]
fn every_damage_of_a_document_returns() {
    for name in [
        "birds.docx",
        "birds.pptx",
        "birds.xlsx",
        "birds.epub",
        "birds.odt",
        "birds.odp",
        "birds.ods",
    ] {
        let path = format!("{}/tests/documents/{name}", env!("CARGO_MANIFEST_DIR"));
        let whole = std::fs::read(path).unwrap();
        for step in 0..200 {
            let at = step * whole.len() / 200;
            let mut flipped = whole.clone();
            flipped[at] ^= 0x55;
            for bytes in [&flipped[..], &whole[..at]] {
                // Any result, but soon, and no panic.
                drop(parse(name, bytes, &ParseLimits::default()));
            }
        }
    }
}

#[test]
fn passages_of_a_spreadsheet_name_their_columns() {
    let library = crate::Library::in_memory(Default::default()).unwrap();
    let document = library.add("birds.xlsx", &document("birds.xlsx")).unwrap();
    let passages: Vec<Chunk> = library.passages(&document.id).unwrap().unwrap();
    assert!(
        passages[0].text.contains("Bird: owl | Day: 2026-02-01"),
        "{passages:?}"
    );
}

#[test]
fn rows_of_word_tables_and_slides_have_the_names_of_their_columns() {
    let columns = |name: &str| -> Vec<(Option<String>, String)> {
        let blocks = document(name).blocks.into_iter();
        let rows = blocks.filter(|block| block.text.contains(" | "));
        rows.map(|block| (block.columns, block.text)).collect()
    };
    let row = |columns: Option<&str>, text: &str| (columns.map(str::to_owned), text.to_owned());
    assert_eq!(
        columns("birds.docx"),
        [
            row(None, "Bird | Food"),
            row(Some("Bird | Food"), "robin | worms"),
            row(Some("Bird | Food"), "owl | mice & voles"),
        ]
    );
    assert_eq!(
        columns("birds.pptx"),
        [
            row(None, "Food | Price"),
            row(Some("Food | Price"), "seeds | 2 euros")
        ]
    );
}

/// A Word document with a table, and text after it.
fn with_table(table: &str) -> Parsed {
    let cell = |text: &str| format!("<w:tc><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>");
    let rows = format!(
        "<w:tr>{}{}</w:tr><w:tr>{}{}</w:tr>",
        cell("a"),
        cell("b"),
        cell("1"),
        cell("2")
    );
    let table = table.replace("ROWS", &rows);
    let body = format!("<w:tbl>{table}</w:tbl><w:p><w:r><w:t>after</w:t></w:r></w:p>");
    parse("a.docx", &package(&word(&body)), &ParseLimits::default()).unwrap()
}

#[test]
fn a_word_table_has_names_of_columns_if_its_look_or_row_says_so() {
    for (table, wanted) in [
        (
            r#"<w:tblPr><w:tblLook w:firstRow="1"/></w:tblPr>ROWS"#,
            Some("a | b"),
        ),
        (
            r#"<w:tblPr><w:tblLook w:val="04A0"/></w:tblPr>ROWS"#,
            Some("a | b"),
        ),
        (
            r#"<w:tblPr><w:tblLook w:firstRow="0" w:val="04A0"/></w:tblPr>ROWS"#,
            None,
        ),
        (r#"<w:tblPr><w:tblLook w:val="0480"/></w:tblPr>ROWS"#, None),
        ("ROWS", None),
    ] {
        let blocks = with_table(table).blocks;
        let columns: Vec<_> = blocks.iter().map(|block| block.columns.as_deref()).collect();
        assert_eq!(columns, [None, wanted, None], "{table}");
    }
}
