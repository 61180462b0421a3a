//! Reads the text of every PDF page with its positions through `pdf-extract`, then lays it out with
//! `pdf_layout`.
//!
//! Parsing is a pure function of the bytes. Panics of the PDF reader are caught page by page, so
//! that one bad page does not cost the others. `pdf_forms` bounds what forms cost that draw each other.
//! Time and memory cannot be bounded in full here: a Flate bomb is inflated. A program that accepts
//! PDFs from strangers parses them in a separate process.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{ColorSpace, MediaBox, OutputDev, OutputError, Path, Transform, output_doc_page};

use super::pdf_forms::{Forms, drop_images};
use super::pdf_layout::{Line, Page, lay_out};
use super::{ParseError, ParseLimits, Parsed};

/// The most ancestors of a page. A balanced tree of a million pages has a handful.
pub(super) const MAX_PARENTS: usize = 64;

/// Reads a PDF.
///
/// # Errors
///
/// `encrypted`, `bad_pdf`, `too_many_pages`, `too_much_text`, `too_many_blocks`.
pub(crate) fn parse(bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let document = guard(|| open(bytes))??;
    let count = guard(|| document.page_iter().take(limits.max_pages as usize + 1).count())?;
    if count > limits.max_pages as usize {
        return Err(ParseError::TooManyPages {
            pages: count,
            limit: limits.max_pages,
        });
    }
    if !guard(|| {
        document
            .page_iter()
            .take(count)
            .all(|page| parents_end(&document, page))
    })? {
        return Err(ParseError::BadPdf {
            reason: "the page tree is cyclic or too deep".to_owned(),
        });
    }
    let mut pages = Vec::new();
    let mut unread_pages = Vec::new();
    let mut left_bytes = limits.max_text_bytes;
    let mut last_reason = "it has no pages".to_owned();
    let mut forms = Forms::of(&document);
    let ids: Vec<_> = guard(|| document.page_iter().take(count).collect())?;
    for (number, id) in (1..).zip(ids) {
        if !guard(|| forms.allow(id))? {
            last_reason = "its forms draw too much, too deep or themselves".to_owned();
            unread_pages.push(number);
            continue;
        }
        let mut collector = Collector::new(left_bytes);
        let outcome = guard(|| output_doc_page(&document, &mut collector, number));
        if collector.left_bytes == 0 {
            return Err(ParseError::TooMuchText {
                limit: limits.max_text_bytes,
            });
        }
        match outcome {
            Ok(Ok(())) => {
                left_bytes = collector.left_bytes;
                pages.push(Page {
                    number,
                    lines: collector.finish(),
                });
            }
            Ok(Err(error)) => {
                last_reason = error.to_string();
                unread_pages.push(number);
            }
            Err(ParseError::BadPdf { reason }) => {
                last_reason = reason;
                unread_pages.push(number);
            }
            Err(other) => return Err(other),
        }
    }
    if pages.is_empty() {
        return Err(ParseError::BadPdf { reason: last_reason });
    }
    let mut parsed = lay_out(&pages, limits)?;
    parsed.pages = Some(count as u32);
    parsed.unread_pages = unread_pages;
    Ok(parsed)
}

fn open(bytes: &[u8]) -> Result<pdf_extract::Document, ParseError> {
    let mut document = pdf_extract::Document::load_mem(bytes).map_err(|error| bad_or_encrypted(&error))?;
    // Many PDFs are encrypted with an empty password, which every viewer tries first.
    // `is_encrypted` overlooks a dictionary in the trailer itself.
    if document.trailer.get(b"Encrypt").is_ok() {
        document.decrypt("").map_err(|_| ParseError::Encrypted)?;
    }
    drop_images(&mut document);
    Ok(document)
}

fn bad_or_encrypted(error: &pdf_extract::Error) -> ParseError {
    match error {
        pdf_extract::Error::Decryption(_)
        | pdf_extract::Error::InvalidPassword
        | pdf_extract::Error::UnsupportedSecurityHandler(_) => ParseError::Encrypted,
        other => ParseError::BadPdf {
            reason: other.to_string(),
        },
    }
}

/// Returns whether the ancestors of a page come to an end. The PDF reader follows them recursively.
fn parents_end(document: &pdf_extract::Document, page: pdf_extract::ObjectId) -> bool {
    let mut at = Some(page);
    for _ in 0..MAX_PARENTS {
        let Some(id) = at else { return true };
        let parent = document
            .get_dictionary(id)
            .and_then(|dictionary| dictionary.get(b"Parent"));
        at = parent.and_then(pdf_extract::Object::as_reference).ok();
    }
    false
}

/// Runs code that may panic. The reader keeps no state between two calls, so no inconsistent state
/// is seen afterwards.
fn guard<T>(read: impl FnOnce() -> T) -> Result<T, ParseError> {
    catch_unwind(AssertUnwindSafe(read)).map_err(|panic| {
        let reason = panic.downcast_ref::<String>().cloned();
        let reason = reason.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        ParseError::BadPdf {
            reason: reason.unwrap_or_else(|| "the reader panicked".to_owned()),
        }
    })
}

/// Collects characters with their positions into lines.
#[derive(Debug)]
struct Collector {
    lines: Vec<Line>,
    /// How many more bytes of text are allowed; 0 once the limit is exceeded.
    left_bytes: usize,
    /// Where the last character ended, in the writing direction.
    last_end: f64,
    /// Whether a new string began. Only then does a gap mean a space: widths inside a string are
    /// unreliable.
    string_begins: bool,
    direction: (f64, f64),
}

impl Collector {
    fn new(left_bytes: usize) -> Self {
        Self {
            lines: Vec::new(),
            left_bytes,
            last_end: 0.0,
            string_begins: true,
            direction: (1.0, 0.0),
        }
    }

    fn finish(self) -> Vec<Line> {
        self.lines
            .into_iter()
            .filter(|line| !line.text.trim().is_empty())
            .collect()
    }
}

impl OutputDev for Collector {
    fn begin_page(
        &mut self,
        _: u32,
        _: &MediaBox,
        _: Option<(f64, f64, f64, f64)>,
    ) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_page(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn output_character(
        &mut self,
        at: &Transform,
        width: f64,
        _spacing: f64,
        font_size: f64,
        text: &str,
    ) -> Result<(), OutputError> {
        self.left_bytes = self.left_bytes.saturating_sub(text.len() + 1);
        if self.left_bytes == 0 {
            return Err(OutputError::FormatError(std::fmt::Error));
        }
        // Rotate the page so that the text runs to the right. Landscape pages are written upwards.
        let along = at.m11.hypot(at.m12);
        let direction = if along > 0.0 {
            (at.m11 / along, at.m12 / along)
        } else {
            (1.0, 0.0)
        };
        let size = (font_size * at.m21.hypot(at.m22)).abs();
        let x = at.m31 * direction.0 + at.m32 * direction.1;
        let y = at.m32 * direction.0 - at.m31 * direction.1;
        let turned = (direction.0 - self.direction.0).abs() + (direction.1 - self.direction.1).abs() > 0.1;
        let last_end = self.last_end;
        self.last_end = x + width * font_size.abs() * along;
        let string_begins = std::mem::take(&mut self.string_begins);
        match self.lines.last_mut() {
            Some(line) if !turned => {
                let (tall, fall) = (size.max(line.size), (y - line.y).abs());
                let new_line = fall > tall * 0.8 || (fall > tall * 0.5 && x < last_end);
                if !new_line || !string_begins {
                    let apart = x > last_end + size * 0.1 || x < last_end - size;
                    if string_begins && apart && !line.text.ends_with(' ') {
                        line.text.push(' ');
                    }
                    line.text.push_str(text);
                    line.size = tall;
                    return Ok(());
                }
            }
            _ => {}
        }
        self.direction = direction;
        self.lines.push(Line {
            text: text.to_owned(),
            size,
            x,
            y,
            turned: direction.0 < 0.9,
        });
        Ok(())
    }

    fn begin_word(&mut self) -> Result<(), OutputError> {
        self.string_begins = true;
        Ok(())
    }

    fn end_word(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn stroke(&mut self, _: &Transform, _: &ColorSpace, _: &[f64], _: &Path) -> Result<(), OutputError> {
        Ok(())
    }

    fn fill(&mut self, _: &Transform, _: &ColorSpace, _: &[f64], _: &Path) -> Result<(), OutputError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    const FONT: &str = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>";

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
}
