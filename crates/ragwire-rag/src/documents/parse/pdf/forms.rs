//! Bounds what the forms of a PDF cost: drawings that a page draws by name, and that draw others. Twenty
//! forms that draw the next one twice are a million drawings in a file of a few kilobytes.

use std::collections::HashMap;

use pdf_extract::content::Content;
use pdf_extract::{Dictionary, Document, Object, ObjectId, Stream};

/// The most bytes that all pages draw through forms, each form as often as it is drawn. A letterhead of
/// 50 KB on 2,000 pages is 100 MB.
const MAX_DRAWN_BYTES: u64 = 128 << 20;
/// How deep forms draw each other. Each level takes stack; figures in figures are three or four.
const MAX_DEPTH: usize = 24;
/// What drawing an empty form costs, in bytes.
const MIN_FORM_BYTES: u64 = 64;

/// Empties the images of a document. They have no text, but the reader would read their pixels as
/// drawing commands.
pub(super) fn drop_images(document: &mut Document) {
    for object in document.objects.values_mut() {
        if let Object::Stream(stream) = object
            && stream
                .dict
                .get(b"Subtype")
                .and_then(Object::as_name)
                .is_ok_and(|name| name == b"Image")
        {
            stream.dict.remove(b"Filter");
            stream.set_content(Vec::new());
        }
    }
}

/// What the pages read so far have drawn through forms.
pub(super) struct Forms<'a> {
    document: &'a Document,
    left_bytes: u64,
    /// What drawing a form costs with the resources of the page or form that draws it; `None` while it
    /// is being determined.
    costs: HashMap<(*const Stream, *const Dictionary), Option<u64>>,
}

impl<'a> Forms<'a> {
    pub(super) fn of(document: &'a Document) -> Self {
        Self {
            document,
            left_bytes: MAX_DRAWN_BYTES,
            costs: HashMap::new(),
        }
    }

    /// Returns whether the forms of a page are within the limits, and counts them.
    pub(super) fn allow(&mut self, page: ObjectId) -> bool {
        let cost = self.page_cost(page);
        cost.is_some_and(|cost| match self.left_bytes.checked_sub(cost) {
            Some(left) => {
                self.left_bytes = left;
                true
            }
            None => false,
        })
    }

    fn page_cost(&mut self, page: ObjectId) -> Option<u64> {
        let document = self.document;
        // As the reader does: the first resources among the page and its ancestors.
        let mut at = document.get_dictionary(page).ok();
        let mut resources = None;
        for _ in 0..super::MAX_PARENTS {
            let Some(dictionary) = at else { break };
            resources = self.dictionary(dictionary, b"Resources");
            if resources.is_some() {
                break;
            }
            at = self.dictionary(dictionary, b"Parent");
        }
        let Some(resources) = resources.filter(|found| self.dictionary(found, b"XObject").is_some()) else {
            return Some(0);
        };
        let content = document.get_page_content(page).ok()?;
        self.drawn(&content, resources, 0)
    }

    /// Returns what the forms cost that `content` draws; `None` if it is too much.
    fn drawn(&mut self, content: &[u8], resources: &'a Dictionary, depth: usize) -> Option<u64> {
        // Content that cannot be decoded is an error of the reader.
        let Ok(content) = Content::decode(content) else {
            return Some(0);
        };
        let mut cost = 0_u64;
        for operation in content
            .operations
            .iter()
            .filter(|operation| operation.operator == "Do")
        {
            let name = operation.operands.first().and_then(|name| name.as_name().ok());
            let form = name.and_then(|name| self.form(resources, name));
            if let Some(form) = form {
                cost = cost.checked_add(self.cost(form, resources, depth)?)?;
            }
            if cost > self.left_bytes {
                return None;
            }
        }
        Some(cost)
    }

    fn cost(&mut self, form: &'a Stream, outer: &'a Dictionary, depth: usize) -> Option<u64> {
        let resources = self.dictionary(&form.dict, b"Resources").unwrap_or(outer);
        let key = (std::ptr::from_ref(form), std::ptr::from_ref(resources));
        if let Some(known) = self.costs.get(&key) {
            return *known;
        }
        if depth >= MAX_DEPTH {
            return None;
        }
        self.costs.insert(key, None);
        let content = form.get_plain_content().unwrap_or_else(|_| form.content.clone());
        let cost = self
            .drawn(&content, resources, depth + 1)?
            .checked_add(MIN_FORM_BYTES + content.len() as u64);
        self.costs.insert(key, cost);
        cost
    }

    fn form(&self, resources: &'a Dictionary, name: &[u8]) -> Option<&'a Stream> {
        let form = self.dictionary(resources, b"XObject")?.get(name).ok()?;
        self.document.dereference(form).ok()?.1.as_stream().ok()
    }

    fn dictionary(&self, of: &'a Dictionary, key: &[u8]) -> Option<&'a Dictionary> {
        self.document
            .dereference(of.get(key).ok()?)
            .ok()?
            .1
            .as_dict()
            .ok()
    }
}
