//! Documents that name what others explain: lists of changes, tests, indexes, and pages with source code. Their passages come
//! after others, unless they are asked for.

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
/// The folders in which Sphinx, Haddock and javadoc write source code as pages, and what the names of Doxygen's pages of
/// source code end with.
const SOURCE_FOLDERS: [&str; 3] = ["_modules", "src", "src-html"];
const SOURCE_END: &str = "_source";
/// Folders and names of the pages of javadoc, Doxygen, Qt, Haddock, Sphinx and Texinfo that only list names: indexes, uses and
/// members.
const NAME_FOLDERS: [&str; 2] = ["class-use", "index-files"];
const NAME_LISTS: [&str; 15] = [
    "allclasses-index",
    "allpackages-index",
    "command-index",
    "concept-index",
    "function-index",
    "general-index",
    "genindex",
    "hierarchy",
    "index-all",
    "modindex",
    "overview-tree",
    "package-tree",
    "package-use",
    "py-modindex",
    "variable-index",
];
const NAME_LIST_STARTS: [&str; 5] = [
    "doc-index",
    "functions_func",
    "functions_vars",
    "globals_func",
    "namespacemembers",
];
const NAME_LIST_ENDS: [&str; 1] = ["-members"];
/// What the words of a question about lists of names begin with.
const ABOUT_NAMES: [&str; 5] = ["index", "member", "hierarch", "inherit", "subclass"];
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
    /// A page that only lists names: an index, or the members of a class.
    Names,
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
        } else if is_source(&name) {
            Some(Self::Sources)
        } else if lists_names(&name) {
            Some(Self::Names)
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
            Self::Names => &ABOUT_NAMES,
        };
        question
            .unicode_words()
            .any(|asked| words.iter().any(|start| asked.starts_with(start)))
    }
}

/// Returns whether a page in lower case is source code, beside the pages that explain it.
fn is_source(name: &str) -> bool {
    let (folders, file) = name.rsplit_once('/').unwrap_or(("", name));
    file.strip_suffix(".html").is_some_and(|stem| {
        stem.ends_with(SOURCE_END) || folders.split('/').any(|folder| SOURCE_FOLDERS.contains(&folder))
    })
}

/// Returns whether a page in lower case only lists names.
fn lists_names(name: &str) -> bool {
    let (folders, file) = name.rsplit_once('/').unwrap_or(("", name));
    let Some(stem) = file.strip_suffix(".html") else {
        return false;
    };
    folders.split('/').any(|folder| NAME_FOLDERS.contains(&folder))
        || NAME_LISTS.contains(&stem)
        || NAME_LIST_STARTS.iter().any(|start| stem.starts_with(start))
        || NAME_LIST_ENDS.iter().any(|end| stem.ends_with(end))
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
        for page in [
            "docs/_modules/garden/birds.html",
            "base/src/Data.Owl.html",
            "Owl_8h_source.html",
        ] {
            assert_eq!(of(page), Some(Secondary::Sources), "{page}");
        }
        for page in [
            "docs/modules/birds.html",
            "src/guide/owls.md",
            "open_source.md",
            "source/owls.html",
        ] {
            assert_eq!(of(page), None, "{page}");
        }
    }

    #[test]
    fn pages_that_only_list_names_come_after_those_that_explain_them() {
        for (name, wanted) in [
            ("api/java/util/class-use/Owl.html", true),
            ("api/Owl-Members.html", true),
            ("html/functions_func_b.html", true),
            ("base/doc-index-75.html", true),
            ("octave/Concept-Index.html", true),
            ("docs/create-index.html", false),
            ("docs/members.html", false),
            ("docs/functions_and_operators.html", false),
            ("docs/genindex.md", false),
        ] {
            assert_eq!(lists_names(&name.to_lowercase()), wanted, "{name}");
        }
        let hit = Hit::new(Chunk::new("d", "api/Owl-members.html", 0, "x"), 1.0);
        assert_eq!(Secondary::of(&hit), Some(Secondary::Names));
        assert!(Secondary::Names.is_asked_for("list of all members of owl"));
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
