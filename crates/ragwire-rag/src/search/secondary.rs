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
/// The folders in which Sphinx and javadoc write source code as pages, and the one of Haddock, whose pages have no headings.
const SOURCE_FOLDERS: [&str; 2] = ["_modules", "src-html"];
const HADDOCK_FOLDER: &str = "src";
/// What the names of Doxygen's pages of source code contain and end with: `Owl_8h_source`.
const DOXYGEN_POINT: &str = "_8";
const SOURCE_END: &str = "_source";
/// Folders and names of the pages of javadoc, Doxygen, Qt, Haddock, Sphinx and Texinfo that only list names: indexes, uses and
/// members.
const NAME_FOLDERS: [&str; 2] = ["class-use", "index-files"];
const NAME_LISTS: [&str; 14] = [
    "allclasses-index",
    "allpackages-index",
    "command-index",
    "concept-index",
    "function-index",
    "general-index",
    "genindex",
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
/// What the name of a page with the members of a class ends with, and its headings in Doxygen and Qt.
const MEMBERS_END: &str = "-members";
const MEMBERS_HEADINGS: [&str; 2] = ["member list", "list of all members"];
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
        } else if is_source(&name, &heading) {
            Some(Self::Sources)
        } else if lists_names(&name, &heading) {
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

/// Returns the folders and the name of a page in HTML.
fn page(name: &str) -> Option<(&str, &str)> {
    name.strip_suffix(".html")
        .map(|name| name.rsplit_once('/').unwrap_or(("", name)))
}

/// Returns whether a page, in lower case with its headings, is source code, beside the pages that explain it.
fn is_source(name: &str, heading: &str) -> bool {
    let Some((folders, stem)) = page(name) else {
        return false;
    };
    let mut folders = folders.split('/');
    let is_of_haddock = heading.is_empty() && folders.clone().next_back() == Some(HADDOCK_FOLDER);
    let is_of_doxygen = stem.ends_with(SOURCE_END) && stem.contains(DOXYGEN_POINT);
    is_of_haddock || is_of_doxygen || folders.any(|folder| SOURCE_FOLDERS.contains(&folder))
}

/// Returns whether a page, in lower case with its headings, only lists names.
fn lists_names(name: &str, heading: &str) -> bool {
    let Some((folders, stem)) = page(name) else {
        return false;
    };
    folders.split('/').any(|folder| NAME_FOLDERS.contains(&folder))
        || NAME_LISTS.contains(&stem)
        || NAME_LIST_STARTS.iter().any(|start| stem.starts_with(start))
        || stem.ends_with(MEMBERS_END) && MEMBERS_HEADINGS.iter().any(|words| heading.contains(words))
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

    fn of(name: &str, heading: &str) -> Option<Secondary> {
        let mut chunk = Chunk::new("d", name, 0, "x");
        chunk.heading = Some(heading.to_owned()).filter(|heading| !heading.is_empty());
        Secondary::of(&Hit::new(chunk, 1.0))
    }

    #[test]
    fn pages_with_source_code_come_after_those_that_explain_it() {
        for (page, heading) in [
            ("docs/_modules/garden/birds.html", "Source code of birds"),
            ("base/src/Data.Owl.html", ""),
            ("Owl_8h_source.html", "Owl.h"),
        ] {
            assert_eq!(of(page, heading), Some(Secondary::Sources), "{page}");
        }
        for (page, heading) in [
            ("docs/modules/birds.html", ""),
            ("src/owls.html", "Owls"),
            ("src/guide/owls.html", ""),
            ("src/owls.md", ""),
            ("open_source.html", "Open source"),
        ] {
            assert_eq!(of(page, heading), None, "{page}");
        }
    }

    #[test]
    fn pages_that_only_list_names_come_after_those_that_explain_them() {
        for (page, heading) in [
            ("api/java/util/class-use/Owl.html", "Uses of Owl"),
            ("api/classOwl-members.html", "Owl Member List"),
            ("qowl-members.html", "List of All Members for QOwl"),
            ("html/functions_func_b.html", ""),
            ("base/doc-index-75.html", "Index"),
            ("octave/Concept-Index.html", "Concept Index"),
        ] {
            assert_eq!(of(page, heading), Some(Secondary::Names), "{page}");
        }
        for (page, heading) in [
            ("docs/create-index.html", "Create an index"),
            ("team-members.html", "The team"),
            ("docs/functions_and_operators.html", ""),
            ("docs/genindex.md", ""),
        ] {
            assert_eq!(of(page, heading), None, "{page}");
        }
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
