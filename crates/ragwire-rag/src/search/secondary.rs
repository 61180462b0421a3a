//! Documents that name what others explain: lists of changes, tests, and pages with source code. Their passages come after others, unless they are
//! asked for.

use unicode_segmentation::UnicodeSegmentation;

use crate::Hit;

/// What the headings and names of lists of changes contain. They name every feature and explain none.
const CHANGE_LISTS: [&str; 7] = [
    "changelog",
    "change log",
    "changes",
    "release notes",
    "release-notes",
    "what's new",
    "history",
];
/// What the words of a question about changes begin with.
const ABOUT_CHANGES: [&str; 15] = [
    "chang", "version", "releas", "new", "added", "remov", "fix", "histor", "since", "introduc", "deprecat",
    "dropped", "gone", "renamed", "breaking",
];
/// Folders of tests and what they read.
const TEST_FOLDERS: [&str; 5] = ["test", "tests", "__tests__", "testdata", "fixtures"];
/// What the name of a file of tests begins or ends with, without its extension.
const TEST_STARTS: [&str; 1] = ["test_"];
const TEST_ENDS: [&str; 5] = ["_test", ".test", "-test", ".spec", "_spec"];
/// The folder in which Sphinx writes source code as pages.
const SOURCE_FOLDER: &str = "_modules";
/// What the words of a question about source code begin with.
const ABOUT_SOURCES: [&str; 4] = ["source", "code", "implement", "module"];
/// What the words of a question about tests begin with.
const ABOUT_TESTS: [&str; 3] = ["test", "fixture", "assert"];

/// What a passage is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Secondary {
    /// A list of changes.
    Changes,
    /// Tests.
    Tests,
    /// A page with source code, beside the pages that explain it.
    Sources,
}

impl Secondary {
    /// Returns what a hit is from, or `None` if it may explain something.
    pub(crate) fn of(hit: &Hit) -> Option<Self> {
        let heading = hit.chunk.heading.as_deref().unwrap_or_default().to_lowercase();
        let name = hit.chunk.document_name.to_lowercase();
        let lists_changes = CHANGE_LISTS
            .iter()
            .any(|words| heading.contains(words) || name.contains(words));
        if lists_changes {
            Some(Self::Changes)
        } else if name.split('/').any(|folder| folder == SOURCE_FOLDER) {
            Some(Self::Sources)
        } else {
            holds_tests(&name).then_some(Self::Tests)
        }
    }

    /// Returns whether a question in lower case is about such documents.
    pub(crate) fn is_asked_for(self, question: &str) -> bool {
        let words: &[&str] = match self {
            Self::Changes => &ABOUT_CHANGES,
            Self::Tests => &ABOUT_TESTS,
            Self::Sources => &ABOUT_SOURCES,
        };
        question
            .unicode_words()
            .any(|asked| words.iter().any(|start| asked.starts_with(start)))
    }
}

/// Returns whether a file in lower case has tests, or what they read.
fn holds_tests(name: &str) -> bool {
    let (folders, file) = name.rsplit_once('/').unwrap_or(("", name));
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    folders.split('/').any(|folder| TEST_FOLDERS.contains(&folder))
        || TEST_STARTS.iter().any(|start| stem.starts_with(start))
        || TEST_ENDS.iter().any(|end| stem.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chunk;

    #[test]
    fn a_question_is_about_tests_or_changes_by_the_beginnings_of_its_words() {
        for (secondary, question, wanted) in [
            (Secondary::Tests, "how do i run the tests", true),
            (Secondary::Tests, "how do i specify the latest one", false),
            (Secondary::Changes, "since which release is it fixed", true),
            (Secondary::Changes, "which prefix is unchanged", false),
            (Secondary::Sources, "show the implementation of a queryset", true),
            (Secondary::Sources, "what is a queryset", false),
        ] {
            assert_eq!(secondary.is_asked_for(question), wanted, "{question}");
        }
    }

    #[test]
    fn pages_with_source_code_come_after_those_that_explain_it() {
        let of = |name: &str| Secondary::of(&Hit::new(Chunk::new("d", name, 0, "x"), 1.0));
        assert_eq!(of("docs/_modules/garden/birds.html"), Some(Secondary::Sources));
        assert_eq!(of("docs/modules/birds.html"), None);
    }

    #[test]
    fn tests_are_known_by_their_names() {
        for (name, wanted) in [
            ("test/reply.test.js", true),
            ("src/tests/data/novel.txt", true),
            ("test_auth.py", true),
            ("pkg/walk_test.go", true),
            ("docs/testing.md", false),
            ("docs/test.md", false),
            ("src/latest.rs", false),
            ("contest/rules.md", false),
        ] {
            assert_eq!(holds_tests(name), wanted, "{name}");
        }
    }
}
