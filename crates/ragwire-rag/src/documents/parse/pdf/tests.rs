//! Tests with PDFs of a few objects, and with a real paper.

use super::*;
use crate::BlockKind;
use crate::test_data;

#[test]
fn garbage_is_an_error() {
    let cases: &[&[u8]] = &[
        b"",
        b"%PDF-",
        b"%PDF-1.7\n%%EOF",
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 1 0 R>>endobj\ntrailer<</Root 1 0 R>>\nstartxref\n9\n%%EOF",
        b"%PDF-1.4\nxref\n0 99999999\ntrailer<</Size 99999999>>\nstartxref\n9\n%%EOF",
        b"%PDF-1.7\n\xff\xfe\xfd<<<<<<<<[[[[[[[[((((((((",
    ];
    for bytes in cases {
        let error = parse(bytes, &ParseLimits::default()).unwrap_err();
        assert_eq!(error.code(), "bad_pdf", "{:?}", String::from_utf8_lossy(bytes));
    }
}

/// A PDF of numbered objects; the first is the catalog.
fn pdf(objects: &[&str], trailer: &str) -> Vec<u8> {
    let mut text = "%PDF-1.4\n".to_owned();
    let mut offsets = Vec::new();
    for (number, object) in (1..).zip(objects) {
        offsets.push(text.len());
        text.push_str(&format!("{number} 0 obj\n{object}\nendobj\n"));
    }
    let table_at = text.len();
    text.push_str(&format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1));
    for offset in offsets {
        text.push_str(&format!("{offset:010} 00000 n \n"));
    }
    let size = objects.len() + 1;
    text.push_str(&format!(
        "trailer\n<</Size {size}/Root 1 0 R{trailer}>>\nstartxref\n{table_at}\n%%EOF\n"
    ));
    text.into_bytes()
}

const PAGE: &str =
    "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 5 0 R/Resources<</Font<</F 6 0 R>>>>>>";
const TEXT: &str = "<</Length 44>>stream\nBT /F 12 Tf 72 700 Td (A robin sings.) Tj ET\nendstream";
pub(super) const FONT: &str = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>";

#[test]
fn a_bad_page_does_not_cost_the_others() {
    let catalog = "<</Type/Catalog/Pages 2 0 R>>";
    let pages = "<</Type/Pages/Count 2/Kids[3 0 R 4 0 R]>>";
    let cases: &[(&str, &[u32])] = &[
        (PAGE, &[]),
        // Each of these makes the PDF reader panic or fail.
        ("<</Type/Page/Parent 2 0 R>>", &[1]),
        ("<</Type/Page/Parent 2 0 R/MediaBox[0 0]/Contents 5 0 R>>", &[1]),
        (
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 5 0 R>>",
            &[1],
        ),
    ];
    for (first, unread) in cases {
        let bytes = pdf(&[catalog, pages, first, PAGE, TEXT, FONT], "");
        let parsed = parse(&bytes, &ParseLimits::default()).unwrap();
        assert_eq!(parsed.unread_pages, *unread, "{first}");
        let last = parsed.blocks.last().unwrap();
        assert_eq!(
            (last.text.as_str(), parsed.pages),
            ("A robin sings.", Some(2)),
            "{first}"
        );
    }
}

/// Returns objects 7 and following: forms of which each draws the next one `times` times, the last one
/// text.
fn nested_forms(count: usize, times: usize) -> Vec<String> {
    let form = |number: usize| {
        let (content, resources) = match number + 1 < count {
            true => (
                "/N Do ".repeat(times),
                format!("/XObject<</N {} 0 R>>", number + 8),
            ),
            false => (
                "BT /F 12 Tf 72 700 Td (A robin sings.) Tj ET".to_owned(),
                "/Font<</F 6 0 R>>".to_owned(),
            ),
        };
        let length = content.len();
        format!(
            "<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<<{resources}>>/Length {length}>>stream\n{content}\nendstream"
        )
    };
    (0..count).map(form).collect()
}

#[test]
fn forms_are_read_unless_they_draw_too_much() {
    let draws = PAGE.replace("<</Font", "<</XObject<</N 7 0 R>>/Font");
    let content = "<</Length 5>>stream\n/N Do\nendstream";
    let parsed = |forms: &[String], content: &str| {
        let mut objects = vec![
            "<</Type/Catalog/Pages 2 0 R>>",
            "<</Type/Pages/Count 1/Kids[3 0 R]>>",
            &draws,
            "null",
            content,
            FONT,
        ];
        objects.extend(forms.iter().map(String::as_str));
        parse(&pdf(&objects, ""), &ParseLimits::default())
    };
    for (forms, times) in [
        (nested_forms(1, 0), 1),
        (nested_forms(4, 1), 1),
        (nested_forms(3, 2), 4),
    ] {
        let read = parsed(&forms, content).unwrap();
        let text: String = read.blocks.iter().map(|block| block.text.as_str()).collect();
        assert_eq!(text.matches("A robin sings.").count(), times, "{forms:?}");
    }
    // Without a limit, these would be drawn for years, or until the stack overflows.
    let endless = vec![nested_forms(2, 1)[0].replace("8 0 R", "7 0 R")];
    for forms in [nested_forms(20, 10), nested_forms(5_000, 1), endless] {
        let error = parsed(&forms, content).unwrap_err();
        assert!(error.to_string().contains("forms draw too much"), "{error}");
    }
    // The commands in an image are not drawn.
    let images = nested_forms(20, 10)
        .into_iter()
        .map(|form| form.replace("/Form", "/Image"));
    assert!(
        parsed(&images.collect::<Vec<_>>(), content)
            .unwrap()
            .blocks
            .is_empty()
    );
}

/// A page with lines in `F` (Helvetica) or `C` (Courier), at an x, a y and a text each.
pub(super) fn lines(lines: &[(char, u32, u32, &str)]) -> Vec<u8> {
    lines_in(FONT, lines)
}

/// The same, with another font for `F`.
pub(super) fn lines_in(font: &str, lines: &[(char, u32, u32, &str)]) -> Vec<u8> {
    let show = |(font, x, y, text): &(char, u32, u32, &str)| {
        let text = text.replace('(', "\\(").replace(')', "\\)");
        format!("BT /{font} 10 Tf {x} {y} Td ({text}) Tj ET\n")
    };
    page_of(font, &lines.iter().map(show).collect::<String>())
}

/// A page with this content, with the fonts `F` and `C` (Courier).
pub(super) fn page_of(font: &str, content: &str) -> Vec<u8> {
    let stream = format!("<</Length {}>>stream\n{content}endstream", content.len());
    let page = PAGE.replace("/F 6 0 R", "/F 6 0 R/C 7 0 R");
    let courier = FONT.replace("Helvetica", "Courier");
    let (catalog, pages) = (
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Count 1/Kids[3 0 R]>>",
    );
    pdf(&[catalog, pages, &page, "null", &stream, font, &courier], "")
}

#[test]
fn lines_of_one_width_are_listings() {
    let bytes = lines(&[
        ('F', 72, 700, "A robin is counted as follows, with a loop over"),
        // A name that fills a line of a paragraph.
        ('C', 72, 688, "all_robins_of_the_garden"),
        ('F', 72, 676, "and a sum that is printed."),
        ('C', 84, 652, "for robin in garden {"),
        ('C', 108, 640, "count(robin)"),
        // Two strings of a line that are four columns apart.
        ('C', 108, 628, "total"),
        ('C', 162, 628, "= 8"),
        ('C', 84, 616, "}"),
        ('C', 84, 592, "print(total)"),
        ('F', 72, 568, "It prints the number of robins."),
    ]);
    let parsed = parse(&bytes, &ParseLimits::default()).unwrap();
    let blocks: Vec<_> = parsed
        .blocks
        .iter()
        .map(|block| (block.kind, block.text.as_str()))
        .collect();
    assert_eq!(
        blocks,
        [
            (
                BlockKind::Prose,
                "A robin is counted as follows, with a loop over all_robins_of_the_garden and a sum that is printed."
            ),
            (
                BlockKind::Listing,
                "for robin in garden {\n    count(robin)\n    total    = 8\n}\n\nprint(total)"
            ),
            (BlockKind::Prose, "It prints the number of robins."),
        ]
    );
}

#[test]
fn text_after_the_operators_of_ghostscript_is_read() {
    // Without them, two of three lines are lost.
    let content =
        "BT /F 10 Tf 12 TL 72 700 Td (A robin sings) Tj (at dawn, and it)' 0 0 (stops at noon.)\" ET";
    let stream = format!("<</Length {}>>stream\n{content}\nendstream", content.len());
    let (catalog, pages) = (
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Count 1/Kids[3 0 R]>>",
    );
    let bytes = pdf(&[catalog, pages, PAGE, "null", &stream, FONT], "");
    let parsed = parse(&bytes, &ParseLimits::default()).unwrap();
    let texts: Vec<_> = parsed.blocks.iter().map(|block| block.text.as_str()).collect();
    assert_eq!(texts, ["A robin sings at dawn, and it stops at noon."]);
}

#[test]
fn rows_of_a_table_have_cells() {
    let bytes = lines(&[
        ('F', 72, 700, "Table 1: The birds of the garden."),
        ('F', 72, 676, "Bird"),
        ('F', 172, 676, "Colour"),
        ('F', 272, 676, "Song"),
        ('F', 72, 664, "Robin"),
        ('F', 172, 664, "red"),
        ('F', 272, 664, "at 5"),
        ('F', 72, 640, "No other birds were seen."),
    ]);
    let parsed = parse(&bytes, &ParseLimits::default()).unwrap();
    let blocks: Vec<_> = parsed
        .blocks
        .iter()
        .map(|block| (block.columns.as_deref(), block.text.as_str()))
        .collect();
    assert_eq!(
        blocks,
        [
            (None, "Table 1: The birds of the garden."),
            (None, "Bird | Colour | Song"),
            (Some("Bird | Colour | Song"), "Robin | red | at 5"),
            (None, "No other birds were seen."),
        ]
    );
}

#[test]
fn a_typewritten_document_has_no_listings() {
    let bytes = lines(&[
        ('C', 72, 700, "A robin sings at dawn, and it does not stop"),
        ('C', 72, 688, "before the sun is up."),
    ]);
    let parsed = parse(&bytes, &ParseLimits::default()).unwrap();
    let text = "A robin sings at dawn, and it does not stop before the sun is up.";
    assert_eq!(parsed.blocks[0].text, text);
    assert_eq!(parsed.blocks[0].kind, BlockKind::Prose);
}

#[test]
fn an_encrypted_pdf_has_its_own_error() {
    let objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Count 1/Kids[3 0 R]>>",
        PAGE,
        "null",
        TEXT,
        FONT,
    ];
    let locks = [
        "/Encrypt<</Filter/Strange/V 9>>",
        "/Encrypt<</Filter/Standard/V 1/R 2/O(x)/U(y)/P -4>>/ID[(a)(b)]",
    ];
    for lock in locks {
        let error = parse(&pdf(&objects, lock), &ParseLimits::default()).unwrap_err();
        assert_eq!(error.code(), "encrypted", "{lock}: {error}");
    }
}

#[test]
fn a_cyclic_page_tree_is_an_error() {
    let catalog = "<</Type/Catalog/Pages 2 0 R>>";
    let downwards = [
        catalog,
        "<</Type/Pages/Count 9/Kids[2 0 R 3 0 R 2 0 R]>>",
        PAGE,
        "null",
        TEXT,
        FONT,
    ];
    // The PDF reader would look for resources in one parent after another until the stack
    // overflows.
    let bare = "<</Type/Page/Parent 2 0 R/Contents 5 0 R>>";
    let upwards = [
        catalog,
        "<</Type/Pages/Count 1/Kids[3 0 R]/Parent 2 0 R>>",
        bare,
        "null",
        TEXT,
        FONT,
    ];
    for objects in [downwards, upwards] {
        let error = parse(&pdf(&objects, ""), &ParseLimits::default()).unwrap_err();
        assert_eq!(error.code(), "bad_pdf", "{objects:?}");
    }
}

#[test]
fn a_real_paper_keeps_headings_and_pages() {
    let Some(bytes) = test_data::attention_paper() else {
        return;
    };
    let start = std::time::Instant::now();
    let parsed = parse(&bytes, &ParseLimits::default()).unwrap();
    println!("parsed {} blocks in {:?}", parsed.blocks.len(), start.elapsed());
    if std::env::var_os("RAGWIRE_PRINT").is_some() {
        for block in &parsed.blocks {
            println!(
                "{:?} [{}] {}",
                block.page,
                block.heading.as_deref().unwrap_or("-"),
                block.text
            );
        }
    }
    assert_eq!(parsed.pages, Some(15));
    assert_eq!(parsed.unread_pages, [] as [u32; 0]);
    assert_eq!(parsed.title.as_deref(), Some("Attention Is All You Need"));
    // The expected pages were read from the paper itself, not from this program.
    let cases = [
        (
            "We propose a new simple network architecture, the Transformer",
            1,
            "Abstract",
        ),
        (
            "we employ h = 8 parallel attention layers, or heads",
            5,
            "3.2.2 Multi-Head Attention",
        ),
        ("We used the Adam optimizer", 7, "5.3 Optimizer"),
        ("with 8 NVIDIA P100 GPUs", 7, "5.2 Hardware and Schedule"),
    ];
    for (text, page, heading) in cases {
        let found = parsed.blocks.iter().find(|block| block.text.contains(text));
        let found = found.unwrap_or_else(|| panic!("{text:?} was not read"));
        assert_eq!(found.page, Some(page), "{text}");
        assert!(
            found.heading.as_deref().unwrap().ends_with(heading),
            "{text}: {:?}",
            found.heading
        );
    }
}

#[test]
fn every_truncation_returns() {
    let Some(bytes) = test_data::attention_paper() else {
        return;
    };
    for tenths in 1..10 {
        let cut = &bytes[..bytes.len() * tenths / 10];
        // Finding pages in half a file is fine.
        if let Err(error) = parse(cut, &ParseLimits::default()) {
            assert_eq!(error.code(), "bad_pdf", "{tenths}/10: {error}");
        }
    }
}

#[test]
fn limits_hold_while_reading() {
    let Some(bytes) = test_data::attention_paper() else {
        return;
    };
    let pages = ParseLimits {
        max_pages: 14,
        ..ParseLimits::default()
    };
    assert_eq!(parse(&bytes, &pages).unwrap_err().code(), "too_many_pages");
    let text = ParseLimits {
        max_text_bytes: 10_000,
        ..ParseLimits::default()
    };
    assert_eq!(parse(&bytes, &text).unwrap_err().code(), "too_much_text");
}
