//! Which documents a search looks at.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Library;
use super::state::{Held, Shared};
use crate::search::analyzer::Language;
use crate::{Document, DocumentKind};

/// The most values of one list of a filter. Each is compared with each document.
const MAX_VALUES: usize = 100;
/// The members of a filter, as errors list them.
const MEMBERS: &str = "folders, kinds, languages, tags, documents, since and until";

/// A year, a month or a day.
const DAY: &str =
    "^[0-9]{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]))?|-(0[13-9]|1[0-2])-30|-(0[13578]|1[02])-31)?$";

/// A part of the list of documents.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentPage {
    /// The documents, in the order in which they were added.
    pub documents: Vec<Document>,
    /// How many documents the filter selects, on all pages.
    pub total: usize,
    /// Where the next page begins, if there is one.
    pub next: Option<u64>,
}

impl Library {
    /// Returns the documents that `filter` selects and whose names contain `name`, whatever its case:
    /// at most `limit` of them, from `start` on, which is 0 or the [`DocumentPage::next`] of another
    /// page. Documents that are added or removed in between do not shift the pages.
    pub fn page(&self, filter: &DocumentFilter, name: &str, start: u64, limit: usize) -> DocumentPage {
        let name = name.to_lowercase();
        let shared = self.read();
        let mut page = DocumentPage {
            documents: Vec::new(),
            total: 0,
            next: None,
        };
        for (first, held) in &shared.documents {
            if !filter.accepts(held) || !held.document.name.to_lowercase().contains(&name) {
                continue;
            }
            page.total += 1;
            if *first < start {
                continue;
            }
            if page.documents.len() < limit {
                page.documents.push(held.document.clone());
            } else if page.next.is_none() {
                page.next = Some(*first);
            }
        }
        page
    }

    /// Returns whether `filter` selects every document that the library has now.
    pub fn selects_all(&self, filter: &DocumentFilter) -> bool {
        self.read().selects_all(filter)
    }

    /// Returns the number of documents.
    pub fn document_count(&self) -> usize {
        self.read().documents.len()
    }
}

/// Selects documents by their metadata. An empty list does not restrict the selection; of several
/// lists all have to agree.
///
/// ```
/// use ragwire_rag::DocumentFilter;
/// use serde_json::json;
///
/// let filter = DocumentFilter::parse(&json!({"folder": "guide", "tags": ["web", "http"], "since": "2026"}));
/// assert_eq!(filter.unwrap().folders, ["guide"]);
/// let error = DocumentFilter::parse(&json!({"kind": "word"})).unwrap_err();
/// assert!(error.to_string().starts_with("unknown kind `word` in the filter; the kinds are markdown,"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DocumentFilter {
    /// Only documents in these folders and the folders below: `guide` or `guide/install`.
    pub folders: Vec<String>,
    /// Only documents of these kinds.
    pub kinds: Vec<DocumentKind>,
    /// Only documents in these languages, as codes of ISO 639-1: `en`.
    pub languages: Vec<String>,
    /// Only documents with one of these tags, whatever their case.
    pub tags: Vec<String>,
    /// Only documents with these IDs.
    pub documents: Vec<String>,
    /// Only documents of this day and later, as `2026-01-31`, `2026-01` or `2026`. A document
    /// without a date is not selected.
    pub since: Option<String>,
    /// Only documents of this day and earlier.
    pub until: Option<String>,
    /// Who asks. Only documents that this user may find: those without an owner, their own, and those
    /// that their owners share. An anonymous user has an empty name and finds no private documents;
    /// `None` finds all. Never part of the JSON.
    #[serde(skip)]
    pub user: Option<String>,
}

impl Shared {
    /// Returns whether `filter` selects every document.
    pub(super) fn selects_all(&self, filter: &DocumentFilter) -> bool {
        !filter.has_conditions() && !self.hides_from(filter.user.as_deref())
    }
}

impl DocumentFilter {
    /// A filter that selects no document.
    pub fn nothing() -> Self {
        Self {
            // No document has this ID.
            documents: vec![String::new()],
            ..Self::default()
        }
    }

    /// Reads a filter from JSON: an object, or its JSON as text for protocols that pass only texts.
    /// `null` selects every document. A list may be one text, and its member may be in the singular.
    ///
    /// # Errors
    ///
    /// [`FilterError`], which names the value.
    pub fn parse(json: &Value) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        match json {
            Value::Null => {}
            Value::Object(members) => filter.read(members)?,
            Value::String(text) => match serde_json::from_str::<Value>(text) {
                Ok(Value::Object(members)) => filter.read(&members)?,
                Ok(_) | Err(_) => return Err(FilterError::NoObject(text.clone())),
            },
            other => return Err(FilterError::NoObject(other.to_string())),
        }
        Ok(filter)
    }

    fn read(&mut self, members: &Map<String, Value>) -> Result<(), FilterError> {
        for (member, value) in members {
            let values = match value {
                Value::Null => continue,
                Value::Array(values) => values.as_slice(),
                one => std::slice::from_ref(one),
            };
            if values.len() > MAX_VALUES {
                return Err(FilterError::TooMany(member.clone()));
            }
            for value in values {
                let Value::String(text) = value else {
                    return Err(FilterError::NoText {
                        member: member.clone(),
                        value: value.to_string(),
                    });
                };
                self.add(member, text)?;
            }
        }
        Ok(())
    }

    /// Adds a value to a member: `guide` to `folders` or `folder`.
    ///
    /// # Errors
    ///
    /// [`FilterError`], which names the value.
    pub fn add(&mut self, member: &str, value: &str) -> Result<(), FilterError> {
        match member {
            "folders" | "folder" => push(&mut self.folders, "folders", value.to_owned())?,
            "kinds" | "kind" => push(&mut self.kinds, "kinds", kind(value)?)?,
            "languages" | "language" => push(&mut self.languages, "languages", language(value)?)?,
            "tags" | "tag" => push(&mut self.tags, "tags", value.to_owned())?,
            "documents" | "document" => push(&mut self.documents, "documents", value.to_owned())?,
            "since" => self.since = Some(day(value)?),
            "until" => self.until = Some(day(value)?),
            unknown => return Err(FilterError::UnknownMember(unknown.to_owned())),
        }
        Ok(())
    }

    /// Returns the schema of the JSON that [`parse`](Self::parse) reads, in JSON Schema 2020-12. It does
    /// not know leap years: it allows 29 February in each.
    pub fn json_schema() -> Value {
        let kinds = DocumentKind::ALL.map(DocumentKind::as_str);
        let languages = Language::ALL.map(Language::code);
        let text = json!({"type": "string"});
        let day = json!({"type": "string", "pattern": DAY});
        let members = [
            (
                ["folders", "folder"],
                "In one of these folders or below",
                text.clone(),
            ),
            (["kinds", "kind"], "Of one of these kinds", json!({"enum": kinds})),
            (
                ["languages", "language"],
                "In one of these languages, codes of ISO 639-1",
                json!({"enum": languages}),
            ),
            (["tags", "tag"], "With one of these tags", text.clone()),
            (["documents", "document"], "With one of these IDs", text),
            (["since", "since"], "Of this day and later", day.clone()),
            (["until", "until"], "Of this day and earlier", day),
        ];
        let mut properties = Map::new();
        for (names, about, value) in members {
            let list = json!({"type": "array", "items": value, "maxItems": MAX_VALUES});
            let schema = json!({"description": about, "anyOf": [{"type": "null"}, value, list]});
            properties.extend(names.map(|name| (name.to_owned(), schema.clone())));
        }
        json!({
            "type": "object",
            "description": "Which documents to search. All members have to agree, and left out means all documents.",
            "properties": properties,
            "additionalProperties": false,
        })
    }

    /// Sets [`user`](Self::user).
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Returns whether the filter selects documents by more than who may find them.
    pub fn has_conditions(&self) -> bool {
        let anyone = Self {
            user: None,
            ..self.clone()
        };
        anyone != Self::default()
    }

    pub(super) fn accepts(&self, held: &Held) -> bool {
        self.user.as_deref().is_none_or(|user| held.is_found_by(user)) && self.meets(held)
    }

    /// Returns whether a document has the metadata that the filter selects.
    fn meets(&self, held: &Held) -> bool {
        let document = &held.document;
        let in_folder = |folder: &String| {
            let folder = folder.trim_matches('/');
            folder.is_empty()
                || document
                    .name
                    .strip_prefix(folder)
                    .is_some_and(|rest| rest.starts_with('/'))
        };
        let has_tag = |tag: &String| {
            held.tags
                .iter()
                .any(|own| own.to_lowercase() == tag.to_lowercase())
        };
        let date = held.date.as_deref();
        // A shorter date is a prefix of the days that it contains.
        let late = |since: &String| date.is_some_and(|date| date >= since.as_str());
        let early = |until: &String| {
            date.is_some_and(|date| date <= until.as_str() || date.starts_with(until.as_str()))
        };
        (self.folders.is_empty() || self.folders.iter().any(in_folder))
            && (self.kinds.is_empty() || self.kinds.contains(&document.kind))
            && (self.languages.is_empty() || self.languages.iter().any(|code| code == held.language.code()))
            && (self.tags.is_empty() || self.tags.iter().any(has_tag))
            && (self.documents.is_empty() || self.documents.contains(&document.id))
            && self.since.as_ref().is_none_or(late)
            && self.until.as_ref().is_none_or(early)
    }
}

/// A filter that cannot be read. Each message names the value and what is possible instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The filter is not an object.
    #[error("the filter is {0} instead of an object, such as {{\"folders\":[\"guide\"]}}")]
    NoObject(String),
    /// A member does not exist.
    #[error("unknown member `{0}` of the filter; the members are {MEMBERS}")]
    UnknownMember(String),
    /// A value is not a text.
    #[error("`{member}` of the filter has {value} instead of a text or a list of texts")]
    NoText {
        /// The member.
        member: String,
        /// The value.
        value: String,
    },
    /// A kind of documents does not exist.
    #[error("unknown kind `{value}` in the filter; the kinds are {known}")]
    UnknownKind {
        /// The value.
        value: String,
        /// All kinds.
        known: String,
    },
    /// A language is not recognised in documents.
    #[error("unknown language `{value}` in the filter; the languages are {known}")]
    UnknownLanguage {
        /// The value.
        value: String,
        /// The codes of all languages.
        known: String,
    },
    /// A day is not written as a day.
    #[error("`{0}` in the filter is not a day; write 2026-01-31, 2026-01 or 2026")]
    NoDay(String),
    /// A list has too many values.
    #[error("`{0}` of the filter has more than {MAX_VALUES} values")]
    TooMany(String),
}

impl FilterError {
    /// Returns a stable code for programs: `bad_filter`.
    pub fn code(&self) -> &'static str {
        "bad_filter"
    }
}

fn push<T>(list: &mut Vec<T>, member: &str, value: T) -> Result<(), FilterError> {
    if list.len() >= MAX_VALUES {
        return Err(FilterError::TooMany(member.to_owned()));
    }
    list.push(value);
    Ok(())
}

fn kind(value: &str) -> Result<DocumentKind, FilterError> {
    let found = DocumentKind::ALL.into_iter().find(|kind| kind.as_str() == value);
    found.ok_or_else(|| FilterError::UnknownKind {
        value: value.to_owned(),
        known: DocumentKind::ALL.map(DocumentKind::as_str).join(", "),
    })
}

fn language(value: &str) -> Result<String, FilterError> {
    match Language::of_code(value) {
        Some(language) => Ok(language.code().to_owned()),
        None => Err(FilterError::UnknownLanguage {
            value: value.to_owned(),
            known: Language::ALL.map(Language::code).join(", "),
        }),
    }
}

/// Checks a day, a month or a year as ISO 8601 writes it.
fn day(value: &str) -> Result<String, FilterError> {
    let parts: Vec<&str> = value.split('-').collect();
    let is_number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    // The missing month and day of a shorter value do not matter.
    let whole = format!("{value}{}", &"2000-01-01"[value.len().min(10)..]);
    let is_day = parts.iter().all(is_number)
        && [4, 2, 2].starts_with(&lengths)
        && whole.parse::<jiff::civil::Date>().is_ok();
    is_day
        .then(|| value.to_owned())
        .ok_or_else(|| FilterError::NoDay(value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LibraryLimits, parse};

    #[test]
    fn a_filter_is_an_object_or_its_text() {
        let tags = DocumentFilter::parse(&json!({"tags": ["web"], "since": "2026-01"})).unwrap();
        assert_eq!(
            (&*tags.tags, tags.since.as_deref()),
            (&["web".to_owned()][..], Some("2026-01"))
        );
        for same in [
            json!({"tag": "web", "since": ["2026-01"]}),
            json!({"tag": ["web"], "since": "2026-01", "kinds": [], "until": null}),
            json!(r#"{"tags":["web"],"since":"2026-01"}"#),
        ] {
            assert_eq!(DocumentFilter::parse(&same).as_ref(), Ok(&tags), "{same}");
        }
        for all in [Value::Null, json!({})] {
            assert_eq!(DocumentFilter::parse(&all), Ok(DocumentFilter::default()));
        }
        assert!(tags.has_conditions() && !DocumentFilter::default().user("ada").has_conditions());
    }

    #[test]
    fn errors_name_the_value_and_what_is_possible() {
        let many = vec!["a"; MAX_VALUES + 1];
        let alias = json!({"tag": many[0], "tags": many[1..]});
        for (bad, named) in [
            (json!(7), "the filter is 7 instead of an object"),
            (json!("x"), "the filter is x instead"),
            (
                json!({"tagz": "web"}),
                "unknown member `tagz` of the filter; the members are folders,",
            ),
            (json!({"tags": 7}), "`tags` of the filter has 7 instead of a text"),
            (
                json!({"tags": [["a"]]}),
                r#"`tags` of the filter has ["a"] instead"#,
            ),
            (
                json!({"kind": "word"}),
                "unknown kind `word` in the filter; the kinds are markdown,",
            ),
            (
                json!({"language": "xx"}),
                "unknown language `xx` in the filter; the languages are en,",
            ),
            (
                json!({"since": "May 2026"}),
                "`May 2026` in the filter is not a day; write 2026-01-31",
            ),
            (
                json!({"since": "2026-02-30"}),
                "`2026-02-30` in the filter is not a day",
            ),
            (
                json!({"since": "2026-13"}),
                "`2026-13` in the filter is not a day",
            ),
            (
                json!({"since": "20260131"}),
                "`20260131` in the filter is not a day",
            ),
            (json!({"since": "-2026"}), "`-2026` in the filter is not a day"),
            (json!({"since": "é"}), "`é` in the filter is not a day"),
            (json!({"until": ""}), "`` in the filter is not a day"),
            (
                json!({"tags": many}),
                "`tags` of the filter has more than 100 values",
            ),
            (alias, "`tags` of the filter has more than 100 values"),
            (
                json!({"since": vec!["2026"; MAX_VALUES + 1]}),
                "`since` of the filter has more than 100 values",
            ),
        ] {
            let error = DocumentFilter::parse(&bad).unwrap_err();
            assert!(error.to_string().starts_with(named), "{bad}: {error}");
            assert_eq!(error.code(), "bad_filter");
        }
    }

    #[test]
    fn each_list_of_a_filter_may_be_as_long_as_its_schema_says() {
        let many = vec!["a"; MAX_VALUES];
        let filter = json!({"tags": many, "folders": many, "documents": many});
        assert!(DocumentFilter::parse(&filter).is_ok());
        let schema = DocumentFilter::json_schema();
        assert_eq!(schema["properties"]["tags"]["anyOf"][2]["maxItems"], 100);
    }

    #[test]
    fn pages_hold_every_document_once_while_others_are_removed() {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        let add = |name: &str, text: &str| {
            let parsed = parse(name, text.as_bytes(), &Default::default()).unwrap();
            library.add(name, &parsed).unwrap()
        };
        let all: Vec<Document> = (0..7)
            .map(|n| add(&format!("docs/{n}.md"), &format!("Apple {n}.")))
            .collect();
        add("Other.TXT", "Pears.");
        let mut filter = DocumentFilter::default();
        let page = library.page(&filter, "OTHER", 0, 5);
        assert_eq!((page.documents.len(), page.total, page.next), (1, 1, None));
        filter.kinds = vec![DocumentKind::Markdown];
        let (mut seen, mut start) = (Vec::new(), 0);
        loop {
            let page = library.page(&filter, "", start, 3);
            seen.extend(page.documents);
            let Some(next) = page.next else { break };
            start = next;
            // The first document of the next page is gone, and one before it.
            if seen.len() == 3 {
                assert!(library.remove(&all[0].id).unwrap() && library.remove(&all[3].id).unwrap());
            }
        }
        let rest = [&all[..3], &all[4..]].concat();
        assert_eq!(seen, rest);
        assert_eq!(library.page(&filter, "", 0, 0).total, 5);
        assert_eq!(library.document_count(), 6);
    }
}
