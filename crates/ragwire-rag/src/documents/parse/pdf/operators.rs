//! Spells out two operators of text that the PDF reader ignores, with the text that they show. Ghostscript ends most
//! lines of a paragraph with one of them.

use std::collections::HashMap;

use pdf_extract::content::{Content, Operation};
use pdf_extract::{Dictionary, Document, Object, ObjectId, Stream};

/// Replaces in all pages and forms what the reader does not know. Content that cannot be decoded stays as it is.
pub(super) fn spell_out(document: &mut Document, pages: &[ObjectId]) {
    // Pages may share their content.
    let mut known: HashMap<Vec<ObjectId>, Option<ObjectId>> = HashMap::new();
    for page in pages {
        let streams = document.get_page_contents(*page);
        let spelled = match known.get(&streams) {
            Some(spelled) => *spelled,
            None => {
                let content = document.get_page_content(*page).unwrap_or_default();
                let spelled = spelled_out(&content).map(|spelled| {
                    let mut stream = Stream::new(Dictionary::new(), spelled);
                    // All pages are kept until the last one is read.
                    let _ = stream.compress();
                    document.add_object(stream)
                });
                known.insert(streams, spelled);
                spelled
            }
        };
        let Some(content) = spelled else { continue };
        if let Ok(page) = document.get_object_mut(*page).and_then(Object::as_dict_mut) {
            page.set("Contents", Object::Reference(content));
        }
    }
    for object in document.objects.values_mut() {
        let Object::Stream(stream) = object else { continue };
        let is_form = |name: &[u8]| name == b"Form";
        if stream
            .dict
            .get(b"Subtype")
            .and_then(Object::as_name)
            .is_ok_and(is_form)
        {
            let content = stream.get_plain_content().unwrap_or_default();
            if let Some(spelled) = spelled_out(&content) {
                stream.set_plain_content(spelled);
                let _ = stream.compress();
            }
        }
    }
}

/// Returns the content with `'` and `"` as the operators that they abbreviate (ISO 32000-1, table 109), or `None` if it
/// has neither.
fn spelled_out(content: &[u8]) -> Option<Vec<u8>> {
    let may_have = content
        .iter()
        .zip(content.iter().skip(1))
        .any(|(before, operator)| matches!(operator, b'\'' | b'"') && !before.is_ascii_alphanumeric());
    if !may_have {
        return None;
    }
    let content = Content::decode(content).ok()?;
    let is_short = |operation: &Operation| matches!(operation.operator.as_str(), "'" | "\"");
    if !content.operations.iter().any(is_short) {
        return None;
    }
    let operations: Vec<Operation> = content.operations.into_iter().flat_map(spelled).collect();
    Content { operations }.encode().ok()
}

/// Returns the operations that one abbreviates.
fn spelled(mut operation: Operation) -> Vec<Operation> {
    let distances = match operation.operator.as_str() {
        "'" => Vec::new(),
        "\"" if operation.operands.len() == 3 => {
            let char_spacing = operation.operands.remove(1);
            let word_spacing = operation.operands.remove(0);
            vec![
                Operation::new("Tw", vec![word_spacing]),
                Operation::new("Tc", vec![char_spacing]),
            ]
        }
        // An image within the content has no text.
        "BI" => return Vec::new(),
        _ => return vec![operation],
    };
    let mut spelled = distances;
    spelled.push(Operation::new("T*", Vec::new()));
    if let [Object::String(..)] = operation.operands[..] {
        spelled.push(Operation::new("Tj", operation.operands));
    }
    spelled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled_text(content: &str) -> Option<String> {
        spelled_out(content.as_bytes()).map(|spelled| String::from_utf8(spelled).unwrap())
    }

    #[test]
    fn the_two_operators_are_spelled_out() {
        assert_eq!(
            spelled_text("12 TL (one)Tj (two)' 1 2 (three)\" [(four)]TJ").unwrap(),
            "12 TL\n(one) Tj\nT*\n(two) Tj\n1 Tw\n2 Tc\nT*\n(three) Tj\n[(four)] TJ"
        );
        // Without a text there is nothing to show.
        assert_eq!(spelled_text("' (a)'").unwrap(), "T*\nT*\n(a) Tj");
    }

    #[test]
    fn other_content_stays_as_it_is() {
        for content in ["(it's \"quoted\")Tj", "(a)Tj", "", "(open", "<</A 1"] {
            assert_eq!(spelled_text(content), None, "{content}");
        }
    }
}
