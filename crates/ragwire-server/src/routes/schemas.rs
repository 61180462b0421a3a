//! Schemas for the OpenAPI document of the values of `ragwire-rag`, which does not know OpenAPI.
//! They are inferred from samples that it serializes; `tests/clients/openapi.test.js` checks the
//! answers of a running server against the document.

use std::collections::BTreeSet;

use ragwire_endpoints::openapi::samples::{component, note};
use ragwire_rag::{EXTENSIONS, Level};
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, Type};

/// Files, which are strings in OpenAPI.
fn files() -> Schema {
    let file = ObjectBuilder::new()
        .schema_type(Type::String)
        .content_media_type("application/octet-stream");
    ArrayBuilder::new().items(file).into()
}

/// A form: every part that has a file name is a file.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct UploadForm {
    #[schema(schema_with = files)]
    file: Vec<Value>,
}

/// A file as the body: it has text.
#[derive(ToSchema)]
#[schema(pattern = r"[^\s\u0085]")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct UploadText(String);

ragwire_endpoints::sampled_schemas! {
    Document, documents, &[
        note("", "A document of the library."),
        note("/id", "Derived from the name and the content."),
        note("/name", "The file's name, unique in the library."),
        note("/title", "Its own title, if it has one."),
        note("/pages", "How many pages it has, if its format has pages."),
        component("/kind", "DocumentKind", "The format that a document was read as."),
        note("/chunks", "How many passages it was cut into."),
        note("/added_ms", "Milliseconds since 1970."),
        note("/sample", "Whether it came with the program, as a placeholder; absent for all others."),
        note("/shared", "Whether everyone finds it; absent if the server does not know its users (`--owner-header`)."),
        note("/removable", "Whether the user of the request may replace or remove it (`--owner-header`)."),
    ];
    Chunk, chunks, &[
        note("", "A passage of a document, a section or a sentence."),
        note("/heading", "The headings above it, outermost first."),
        note("/page", "The page it begins on, counted from 1."),
        note("/last_page", "The page it ends on, if that is a different page."),
        note("/level", "`L1` for a section, `L3` for a sentence; absent for a passage."),
        note("/parent", "The chunk one level up that contains it."),
        note("/ordinal", "Counted from 0, on its level."),
        note("/listings", "The lines of listings in a passage, counted from 0; `end` is the line after the last one. Absent if \
            the format does not say what a listing is."),
        note("/items", "The lines of a passage that are in lists: `depth` is how many lists a line is in, `number` that of an item \
            of an ordered list. A line with `continued` is a further paragraph of the item before it. Absent if the format does \
            not say what a list is."),
    ];
}

/// A sample of a 64-bit number.
const WIDE: u64 = 1 << 40;

fn documents() -> Vec<Value> {
    let document = |kind| {
        let required =
            json!({"id": "d", "name": "n", "kind": kind, "chunks": 1, "text_bytes": WIDE, "added_ms": WIDE});
        serde_json::from_value::<ragwire_rag::Document>(required).ok()
    };
    let listed = |document: ragwire_rag::Document| {
        let mut listed = json!(document);
        listed["removable"] = true.into();
        listed
    };
    let minimal = document("markdown").map(listed);
    let kinds = EXTENSIONS
        .iter()
        .map(|(_, kind)| kind.as_str())
        .collect::<BTreeSet<_>>();
    let full = kinds.into_iter().filter_map(document).map(|mut document| {
        (document.title, document.pages) = (Some("Title".into()), Some(1));
        let mut listed = listed(document);
        listed["sample"] = true.into();
        listed["shared"] = true.into();
        listed
    });
    minimal.into_iter().chain(full).collect()
}

fn chunks() -> Vec<Value> {
    let passage = ragwire_rag::Chunk::new("d", "n", 0, "Text.");
    let mut section = passage.clone();
    (section.page, section.last_page, section.level) = (Some(1), Some(2), Level::Section);
    (section.heading, section.parent) = (Some("Heading".into()), Some("d-s0".into()));
    let mut with_listing = passage.clone();
    with_listing.listings = Some(std::iter::once(0..1).collect());
    let mut in_list = json!(passage);
    in_list["items"] =
        json!([{"line": 0, "depth": 1, "number": WIDE}, {"line": 1, "depth": 1, "continued": true}]);
    let in_list = serde_json::from_value::<ragwire_rag::Chunk>(in_list).ok();
    let samples = [json!(passage), json!(section), json!(with_listing)];
    samples
        .into_iter()
        .chain(in_list.map(|chunk| json!(chunk)))
        .collect()
}

#[cfg(test)]
mod tests {
    use ragwire_endpoints::openapi::samples::has;

    use super::*;

    #[test]
    fn samples_have_every_documented_member() {
        for (name, samples, notes) in sampled() {
            for note in notes {
                let path = note.path;
                assert!(samples.iter().any(|sample| has(sample, path)), "{name}{path}");
            }
        }
    }
}
