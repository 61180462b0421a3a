//! Reads the text of every PDF page with its positions through `pdf-extract`, then lays it out with
//! `layout`.
//!
//! Parsing is a pure function of the bytes. Panics of the PDF reader are caught page by page, so
//! that one bad page does not cost the others. `forms` bounds what forms cost that draw each other.
//! Time and memory cannot be bounded in full here: a Flate bomb is inflated. A program that accepts
//! PDFs from strangers parses them in a separate process.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::output_doc_page;

use super::{ParseError, ParseLimits, Parsed};
use collector::Collector;
use forms::{Forms, drop_images};
use layout::{Page, lay_out};
use operators::spell_out;

mod around;
mod collector;
mod contents;
mod forms;
mod glyphs;
mod headings;
mod layout;
#[cfg(test)]
mod layout_tests;
mod listing;
mod lists;
mod operators;
mod style;
mod table;
#[cfg(test)]
mod tests;
mod writer;

/// The most ancestors of a page. A balanced tree of a million pages has a handful.
const MAX_PARENTS: usize = 64;

/// Reads a PDF.
///
/// # Errors
///
/// `encrypted`, `bad_pdf`, `too_many_pages`, `too_much_text`, `too_many_blocks`.
pub(super) fn parse(bytes: &[u8], limits: &ParseLimits) -> Result<Parsed, ParseError> {
    let mut document = guard(|| open(bytes))??;
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
    let ids: Vec<_> = guard(|| document.page_iter().take(count).collect())?;
    guard(AssertUnwindSafe(|| spell_out(&mut document, &ids)))?;
    let mut pages = Vec::new();
    let mut unread_pages = Vec::new();
    let mut left_bytes = limits.max_text_bytes;
    let mut last_reason = "it has no pages".to_owned();
    let mut forms = Forms::of(&document);
    for (number, id) in (1..).zip(ids) {
        if !guard(|| forms.allow(id))? {
            last_reason = "its forms draw too much, too deep or themselves".to_owned();
            unread_pages.push(number);
            continue;
        }
        let mut collector = Collector::new(left_bytes);
        let outcome = guard(|| output_doc_page(&document, &mut collector, number));
        if collector.is_full() {
            return Err(ParseError::TooMuchText {
                limit: limits.max_text_bytes,
            });
        }
        match outcome {
            Ok(Ok(())) => {
                left_bytes = collector.left_bytes();
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
