//! The name of a GGUF file: a path on this machine, or `hf:owner/repo[@revision]/file` on the Hugging Face hub. It looks at nothing.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// What names a file on the hub.
const SCHEME: &str = "hf:";
/// What the hub takes for a name of an owner or a repository.
const MAX_NAME_BYTES: usize = 96;
/// Longest path within a repository, far above those that there are.
const MAX_FILE_BYTES: usize = 512;
/// What is meant where nobody says.
const MAIN: &str = "main";

/// A GGUF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelFile {
    /// On this machine.
    Path(PathBuf),
    /// On the hub.
    Hub(HubFile),
}

/// A GGUF file on the hub. None of its parts can lead out of a folder or into another part of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubFile {
    repo: String,
    revision: String,
    file: String,
}

/// Why a name is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// There is nothing.
    #[error("the name of the model file is empty")]
    Empty,
    /// A part is missing.
    #[error("`{0}` is no file on the hub; write hf:owner/repo/file.gguf or hf:owner/repo@revision/file.gguf")]
    Parts(String),
    /// A part has characters that the hub does not take, or leads elsewhere (`..`).
    #[error("`{part}` in `{name}` is no {what}")]
    Part {
        /// The name.
        name: String,
        /// The part.
        part: String,
        /// What it should be.
        what: &'static str,
    },
    /// Another kind of file.
    #[error("`{0}` is no GGUF file: its name does not end in .gguf")]
    Kind(String),
    /// A part of a model that is not its first.
    #[error("`{name}` is a part of a model; name its first, `{first}`")]
    Split {
        /// The file.
        name: String,
        /// The one to name.
        first: String,
    },
}

impl NameError {
    /// Stable machine word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Empty => "model_name_empty",
            Self::Parts(_) => "model_name_parts",
            Self::Part { .. } => "model_name_part",
            Self::Kind(_) => "model_name_kind",
            Self::Split { .. } => "model_name_split",
        }
    }
}

impl FromStr for ModelFile {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        match text.strip_prefix(SCHEME) {
            Some(name) => HubFile::parse(text, name).map(Self::Hub),
            None => Ok(Self::Path(text.into())),
        }
    }
}

impl HubFile {
    fn parse(whole: &str, name: &str) -> Result<Self, NameError> {
        let parts = || NameError::Parts(whole.to_owned());
        let part = |part: &str, what| NameError::Part {
            name: whole.to_owned(),
            part: part.to_owned(),
            what,
        };
        let (owner, rest) = name.split_once('/').ok_or_else(parts)?;
        let (repo, file) = rest.split_once('/').ok_or_else(parts)?;
        let (repo, revision) = repo.split_once('@').unwrap_or((repo, MAIN));
        for (name, what) in [(owner, "name of an owner"), (repo, "name of a repository")] {
            // The hub has neither `--` nor `..` in names, and the cache of its clients separates names by `--`.
            let plain = is_plain(name) && !name.contains("--") && !name.contains("..");
            if !plain || name.len() > MAX_NAME_BYTES {
                return Err(part(name, what));
            }
        }
        if !is_plain(revision) || revision.contains("..") || revision.len() > MAX_NAME_BYTES {
            return Err(part(revision, "branch, tag or commit"));
        }
        for folder in file.split('/') {
            if !is_plain(folder) || file.len() > MAX_FILE_BYTES {
                return Err(part(folder, "part of a path"));
            }
        }
        if !file.to_ascii_lowercase().ends_with(".gguf") {
            return Err(NameError::Kind(file.to_owned()));
        }
        let file = Self {
            repo: format!("{owner}/{repo}"),
            revision: revision.to_owned(),
            file: file.to_owned(),
        };
        match file.split() {
            Some((stem, at, of)) if at != 1 => Err(NameError::Split {
                name: file.file.clone(),
                first: split_name(stem, 1, of),
            }),
            _ => Ok(file),
        }
    }

    /// Owner and repository.
    pub fn repo(&self) -> &str {
        &self.repo
    }

    /// A branch, a tag, or a commit.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The path within the repository.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// All files that the model has: large ones are published in parts, and llama.cpp finds the others beside the first.
    pub fn files(&self) -> Vec<String> {
        match self.split() {
            Some((stem, _, of)) => (1..=of).map(|at| split_name(stem, at, of)).collect(),
            None => vec![self.file.clone()],
        }
    }

    /// `stem`, number and count of a file named as llama.cpp's `gguf-split` names parts: `stem-00001-of-00003.gguf`.
    fn split(&self) -> Option<(&str, u32, u32)> {
        let name = self.file.strip_suffix(".gguf")?;
        let (rest, of) = name.rsplit_once("-of-")?;
        let (stem, at) = rest.rsplit_once('-')?;
        let number = |digits: &str| {
            let all_digits = digits.len() == 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| all_digits)
        };
        let (at, of) = (number(at)?, number(of)?);
        (1 <= at && at <= of).then_some((stem, at, of))
    }
}

fn split_name(stem: &str, at: u32, of: u32) -> String {
    format!("{stem}-{at:05}-of-{of:05}.gguf")
}

/// Letters, digits and `-_.+`, and neither `.` nor `..`: what means nothing in a path or an address.
fn is_plain(part: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
    !part.is_empty() && part != "." && part != ".." && part.bytes().all(letter)
}

impl fmt::Display for ModelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Hub(file) => file.fmt(f),
        }
    }
}

impl fmt::Display for HubFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.revision.as_str() {
            MAIN => write!(f, "{SCHEME}{}/{}", self.repo, self.file),
            revision => write!(f, "{SCHEME}{}@{revision}/{}", self.repo, self.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(text: &str) -> HubFile {
        match text.parse().unwrap() {
            ModelFile::Hub(file) => file,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_are_read_and_shown_alike() {
        for (text, repo, revision, file) in [
            (
                "hf:Qwen/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf",
                "Qwen/Qwen3-8B-GGUF",
                "main",
                "Qwen3-8B-Q4_K_M.gguf",
            ),
            ("hf:a/b@v1.0/x.GGUF", "a/b", "v1.0", "x.GGUF"),
            (
                "hf:a/b@0123456789abcdef0123456789abcdef01234567/q4/x.gguf",
                "a/b",
                "0123456789abcdef0123456789abcdef01234567",
                "q4/x.gguf",
            ),
        ] {
            let name = hub(text);
            assert_eq!(
                (name.repo(), name.revision(), name.file()),
                (repo, revision, file)
            );
            assert_eq!(name.to_string(), text);
            assert_eq!(name.files(), [file]);
        }
        assert_eq!(hub("hf:a/b@main/x.gguf").to_string(), "hf:a/b/x.gguf");
        for text in [
            "model.gguf",
            "/models/m.gguf",
            "../m.gguf",
            "C:\\m.gguf",
            "models/hf:x",
            "HF:a/b/c.gguf",
        ] {
            assert_eq!(text.parse::<ModelFile>().unwrap(), ModelFile::Path(text.into()));
        }
    }

    #[test]
    fn names_that_are_none() {
        for (text, code) in [
            ("", "model_name_empty"),
            (" ", "model_name_empty"),
            ("hf:", "model_name_parts"),
            ("hf:a", "model_name_parts"),
            ("hf:a/b", "model_name_parts"),
            ("hf:a@v/b", "model_name_parts"),
            ("hf://a/b/c.gguf", "model_name_part"),
            ("hf:a/b/", "model_name_part"),
            ("hf:/b/c.gguf", "model_name_part"),
            ("hf:a//c.gguf", "model_name_part"),
            ("hf:a/b@/c.gguf", "model_name_part"),
            ("hf:a/b@../c.gguf", "model_name_part"),
            ("hf:a/b@x@y/c.gguf", "model_name_part"),
            ("hf:../b/c.gguf", "model_name_part"),
            ("hf:a/../c.gguf", "model_name_part"),
            ("hf:a/b/../c.gguf", "model_name_part"),
            ("hf:a/b/./c.gguf", "model_name_part"),
            ("hf:a/b//c.gguf", "model_name_part"),
            ("hf:a/b/c d.gguf", "model_name_part"),
            ("hf:a/b/c?x.gguf", "model_name_part"),
            ("hf:a/b/c#x.gguf", "model_name_part"),
            ("hf:a/b/%2e%2e.gguf", "model_name_part"),
            ("hf:a/b/c\\d.gguf", "model_name_part"),
            ("hf:a/b/c\n.gguf", "model_name_part"),
            ("hf:a/b/\u{e9}.gguf", "model_name_part"),
            ("hf:a--b/c/d.gguf", "model_name_part"),
            ("hf:a:b@c/d/e.gguf", "model_name_part"),
            ("hf:a/b/model.safetensors", "model_name_kind"),
            ("hf:a/b/gguf", "model_name_kind"),
        ] {
            assert_eq!(text.parse::<ModelFile>().unwrap_err().code(), code, "{text}");
        }
        for long in [
            format!("hf:{}/b/c.gguf", "a".repeat(97)),
            format!("hf:a/b/{}.gguf", "c".repeat(600)),
        ] {
            assert_eq!(long.parse::<ModelFile>().unwrap_err().code(), "model_name_part");
        }
    }

    #[test]
    fn a_model_in_parts_is_named_by_its_first() {
        let files = hub("hf:a/b/q8/m-00001-of-00003.gguf").files();
        assert_eq!(
            files,
            [
                "q8/m-00001-of-00003.gguf",
                "q8/m-00002-of-00003.gguf",
                "q8/m-00003-of-00003.gguf"
            ]
        );
        let error = "hf:a/b/m-00002-of-00003.gguf".parse::<ModelFile>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`m-00002-of-00003.gguf` is a part of a model; name its first, `m-00001-of-00003.gguf`"
        );
        for whole in [
            "m-1-of-3.gguf",
            "m-00004-of-00003.gguf",
            "m-00000-of-00003.gguf",
            "m-of-00003.gguf",
            "m-00001-of-00001.gguf",
        ] {
            assert_eq!(hub(&format!("hf:a/b/{whole}")).files(), [whole]);
        }
    }
}
