//! The entries of a passage: the name of an option, setting or function with its description.
//!
//! An entry is one or more short lines with names and the sentences below them, one line such as
//! `max_size: the size …`, or a row of a table whose first cell is the name.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::identifier::Identifier;
use super::lines::{CELL, LineKind, is_title};
use crate::Chunk;

/// The most names of an entry, such as `-q` and `--quiet`.
const MAX_NAMES: usize = 4;
/// The most lines between the names and the description.
const MAX_PROPERTIES: usize = 8;
/// How a sentence begins that only says where something is described.
const REFERENCES: [&str; 3] = ["See ", "Siehe ", "Voir "];
/// The fewest words of a description in one line: an index has the module or page of each name.
const MIN_DESCRIPTION: usize = 4;
/// What is before a name in a list.
const LIST_MARKS: [&str; 3] = ["- ", "* ", "• "];
/// What is between a name and its description in one line.
const AFTER_NAME: [&str; 5] = [": ", " — ", " – ", " -- ", " - "];

/// A sentence of a passage, or a whole line of a table or listing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) text: &'a str,
    /// The index of its line.
    pub(crate) line: usize,
    pub(crate) kind: LineKind,
    form: Form,
}

/// What a part may be in an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A short line with a name.
    Name,
    /// A line between a name and its description: its syntax, or a property such as `Module: core`.
    Property,
    Sentence,
}

impl<'a> Part<'a> {
    pub(crate) fn new(text: &'a str, line: usize, kind: LineKind) -> Self {
        let before_remark = text.split('(').next().unwrap_or_default();
        let form = match kind {
            LineKind::Prose if !is_title(text) => Form::Sentence,
            LineKind::Prose if !before_remark.contains(": ") => Form::Name,
            LineKind::Prose | LineKind::Row | LineKind::Code => Form::Property,
        };
        Self {
            text,
            line,
            kind,
            form,
        }
    }

    /// Returns whether it says where something is described, and not what it is.
    fn refers(&self) -> bool {
        REFERENCES
            .iter()
            .any(|reference| self.text.starts_with(reference))
    }
}

/// Returns whether an entry begins with a part, after a sentence of what is before.
pub(crate) fn begins_entry(parts: &[Part<'_>], at: usize) -> bool {
    let is_after_sentence = at.checked_sub(1).is_some_and(|before| {
        let before = &parts[before];
        before.form == Form::Sentence && before.text.ends_with('.')
    });
    is_after_sentence && description_of(parts, at).is_some()
}

/// Returns the entries of an identifier. A passage whose innermost heading is the identifier is one as a whole.
pub(crate) fn entries(parts: &[Part<'_>], heading: &str, identifier: &Identifier) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let begins_line = at == 0 || parts[at - 1].line != part.line;
        if !begins_line || found.last().is_some_and(|last: &Range<usize>| last.contains(&at)) {
            continue;
        }
        if let Some(description) = description_of(parts, at) {
            let names = &parts[at..description];
            if names.iter().any(|name| identifier.is_named_by(name.text)) {
                let end = (description..parts.len()).find(|next| begins_entry(parts, *next));
                let end = end.unwrap_or(parts.len());
                if !parts[description..end].iter().all(Part::refers) {
                    found.push(at..end);
                }
            }
        } else if name_in_line(part).is_some_and(|name| identifier.is_named_by(name)) {
            let line = parts[at..].iter().take_while(|next| next.line == part.line);
            found.push(at..at + line.count());
        }
    }
    if identifier.is_named_by(heading) {
        found.insert(0, 0..parts.len());
    }
    found
}

/// Returns whether an entry that begins with part or byte `start` of a chunk continues one from an earlier chunk, which
/// repeats its name. `others` are the chunks that have the entry.
pub(crate) fn is_continued<'a>(
    chunk: &Chunk,
    start: usize,
    mut others: impl Iterator<Item = &'a Chunk>,
) -> bool {
    start == 0 && others.any(|other| other.document_id == chunk.document_id && other.ordinal < chunk.ordinal)
}

/// Returns the first part of the description below the names that begin with a part.
fn description_of(parts: &[Part<'_>], at: usize) -> Option<usize> {
    let count = |from: usize, form: Form, most: usize| {
        let parts = parts[from..].iter().take(most + 1);
        parts.take_while(|part| part.form == form).count()
    };
    let names = count(at, Form::Name, MAX_NAMES);
    let properties = count(at + names, Form::Property, MAX_PROPERTIES);
    let description = parts.get(at + names + properties);
    let is_entry = (1..=MAX_NAMES).contains(&names)
        && properties <= MAX_PROPERTIES
        && description.is_some_and(|part| part.form == Form::Sentence);
    is_entry.then_some(at + names)
}

/// Returns the name in a line that also says what it is.
fn name_in_line<'a>(part: &Part<'a>) -> Option<&'a str> {
    let (name, rest) = match part.kind {
        LineKind::Prose => {
            let text = LIST_MARKS.iter().find_map(|mark| part.text.strip_prefix(mark));
            let text = text.unwrap_or(part.text);
            AFTER_NAME.iter().find_map(|after| text.split_once(after))?
        }
        // With the head of its column: `Name: max_size`.
        LineKind::Row => {
            let (cell, rest) = part.text.split_once(CELL)?;
            (cell.rsplit_once(": ").map_or(cell, |(_, cell)| cell), rest)
        }
        LineKind::Code => return None,
    };
    (rest.unicode_words().count() >= MIN_DESCRIPTION).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::sentences;
    use crate::search::lines::guess_line_kinds;

    fn parts(text: &str) -> Vec<Part<'_>> {
        let lines = text.split('\n').zip(guess_line_kinds(text)).enumerate();
        let part = |(line, (text, kind))| {
            sentences(text)
                .into_iter()
                .map(move |text| Part::new(text, line, kind))
        };
        lines.flat_map(part).collect()
    }

    #[test]
    fn an_entry_is_from_its_names_to_the_next_names() {
        let size = "max_size (integer)\nIt is large.\nThe default is 5.";
        let all = "-a\n--all[=<when>]\nAll of them.\nEach.";
        let cases = [
            (
                "default max_size",
                "Before it.\nmax_size (integer)\nIt is large. The default is 5.\nmax_owls\nMany.",
                Some(size),
            ),
            ("default max_size", "min_size\nIt is smaller than max_size.", None),
            (
                "git --all",
                "Before.\n-a\n--all[=<when>]\nAll of them.\nEach.\n--none\nNone.",
                Some(all),
            ),
            (
                "git --no-all",
                "--[no-]all\nAll of them.",
                Some("--[no-]all\nAll of them."),
            ),
            // The syntax and other properties are between the name and the description.
            (
                "set max-size",
                "max-size\nGrammar: max-size <integer>;\nBlocks: view\nIt is large.\nmax-owls\nGrammar: max-owls;\nMany.",
                Some("max-size\nGrammar: max-size <integer>;\nBlocks: view\nIt is large."),
            ),
            (
                "set max_size",
                "max_size: how large it may be. Then more.\nElse.",
                Some("max_size: how large it may be.\nThen more."),
            ),
            (
                "what does --all do",
                "These are the options:\n- --size: how large it may be\n- --all: take all of the birds",
                Some("- --all: take all of the birds"),
            ),
            (
                "set max_size",
                "min_size | how small it may be\nmax_size | how large it may be",
                Some("max_size | how large it may be"),
            ),
            (
                "set max_size",
                "Name: max_size | Meaning: how large it may be",
                Some("Name: max_size | Meaning: how large it may be"),
            ),
            // An index, and what only points elsewhere.
            ("set max_size", "max_size | core\nmin_size | core", None),
            (
                "set max_size",
                "max_size\nSee the description of max_size in Limits.",
                None,
            ),
            (
                "set max_size",
                "max_size\nmin_size\nmax_owls\nmin_owls\nmax_wings\nAn index.",
                None,
            ),
            ("what is large", "max_size (integer)\nIt is large.", None),
        ];
        for (question, text, wanted) in cases {
            let identifier = Identifier::of(question);
            let parts = parts(text);
            let texts = |entry: Range<usize>| parts[entry].iter().map(|part| part.text).collect::<Vec<_>>();
            let found: Vec<_> = identifier
                .iter()
                .flat_map(|identifier| entries(&parts, "", identifier))
                .map(texts)
                .collect();
            let wanted: Vec<_> = wanted
                .iter()
                .map(|wanted| wanted.split('\n').collect::<Vec<_>>())
                .collect();
            assert_eq!(found, wanted, "{question}: {text}");
        }
    }
}
