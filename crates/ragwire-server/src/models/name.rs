//! The name of a GGUF file: a path on this machine, or `hf:owner/repo[@revision]/file` on the
//! Hugging Face hub. This module does not access files or the network.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

const SCHEME: &str = "hf:";
/// The hub's limit for the name of an owner or a repository.
const MAX_NAME_BYTES: usize = 96;
/// Longest path within a repository: far longer than the published ones.
const MAX_FILE_BYTES: usize = 512;
/// The revision of a name without one.
const MAIN: &str = "main";

/// A GGUF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelFile {
    /// A file on this machine.
    Path(PathBuf),
    /// A file on the hub.
    Hub(HubFile),
}

/// A GGUF file on the hub. No part of its name can leave a folder or change another part of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubFile {
    repo: String,
    revision: String,
    file: String,
}

/// A name that is not valid, with a message that says what is expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameError(String);

impl FromStr for ModelFile {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let text = text.trim();
        match text.strip_prefix(SCHEME) {
            Some(name) => HubFile::parse(text, name).map(Self::Hub).map_err(NameError),
            None if text.is_empty() => Err(NameError("the name of the model file is empty".into())),
            None => Ok(Self::Path(text.into())),
        }
    }
}

impl HubFile {
    fn parse(whole: &str, name: &str) -> Result<Self, String> {
        let (owner, rest) = name.split_once('/').unwrap_or((name, ""));
        let Some((repo, file)) = rest.split_once('/') else {
            return Err(format!(
                "`{whole}` does not name a file on the hub; write hf:owner/repo/file.gguf or \
                 hf:owner/repo@revision/file.gguf"
            ));
        };
        let invalid = |part, what| Err(format!("`{part}` in `{whole}` is not a valid {what}"));
        let (repo, revision) = repo.split_once('@').unwrap_or((repo, MAIN));
        for (name, what) in [(owner, "owner"), (repo, "repository")] {
            // The hub allows neither `--` nor `..` in names, and its clients separate names by `--`
            // in the cache.
            let is_allowed = is_plain(name) && !name.contains("--") && !name.contains("..");
            if !is_allowed || name.len() > MAX_NAME_BYTES {
                return invalid(name, what);
            }
        }
        if !is_plain(revision) || revision.contains("..") || revision.len() > MAX_NAME_BYTES {
            return invalid(revision, "branch, tag or commit");
        }
        if let Some(part) = file
            .split('/')
            .find(|part| !is_plain(part) || file.len() > MAX_FILE_BYTES)
        {
            return invalid(part, "part of a path");
        }
        if !file.to_ascii_lowercase().ends_with(".gguf") {
            return Err(format!(
                "`{file}` is not a GGUF file: its name does not end in .gguf"
            ));
        }
        if let Some((stem, number, count)) = split(file)
            && number != 1
        {
            let first = part_name(stem, 1, count);
            return Err(format!(
                "`{file}` is one part of a model; name the first part, `{first}`"
            ));
        }
        let (repo, revision, file) = (format!("{owner}/{repo}"), revision.to_owned(), file.to_owned());
        Ok(Self { repo, revision, file })
    }

    /// Returns `owner/repository`.
    pub fn repo(&self) -> &str {
        &self.repo
    }

    /// Returns the branch, tag or commit.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Returns the path within the repository.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the paths of all parts of the model, this one first. Large models are published in
    /// parts, which llama.cpp finds in the folder of the first.
    pub fn files(&self) -> Vec<String> {
        match split(&self.file) {
            Some((stem, _, count)) => (1..=count).map(|number| part_name(stem, number, count)).collect(),
            None => vec![self.file.clone()],
        }
    }
}

/// Returns stem, number and count of a part that is named as `gguf-split` of llama.cpp names it:
/// `stem-00001-of-00003.gguf`.
fn split(file: &str) -> Option<(&str, u32, u32)> {
    let (rest, count) = file.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let parse = |text: &str| {
        let is_number = text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number)
    };
    let (number, count) = (parse(number)?, parse(count)?);
    (1 <= number && number <= count).then_some((stem, number, count))
}

fn part_name(stem: &str, number: u32, count: u32) -> String {
    format!("{stem}-{number:05}-of-{count:05}.gguf")
}

/// Whether a part consists of letters, digits and `-_.+`, and is neither `.` nor `..`: nothing that
/// has a meaning in a path or a URL.
fn is_plain(part: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
    !matches!(part, "" | "." | "..") && part.bytes().all(is_allowed)
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
    fn a_name_is_parsed_and_displayed() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        for (text, repo, revision, file) in [
            (
                "hf:Qwen/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf".into(),
                "Qwen/Qwen3-8B-GGUF",
                "main",
                "Qwen3-8B-Q4_K_M.gguf",
            ),
            ("hf:a/b@v1.0/x.GGUF".to_owned(), "a/b", "v1.0", "x.GGUF"),
            (format!("hf:a/b@{commit}/q4/x.gguf"), "a/b", commit, "q4/x.gguf"),
        ] {
            let name = hub(&text);
            assert_eq!(
                (name.repo(), name.revision(), name.file()),
                (repo, revision, file)
            );
            assert_eq!((name.to_string(), name.files()), (text, vec![file.to_owned()]));
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
    fn an_invalid_name_is_rejected() {
        let owner = format!("{}/b/c.gguf", "a".repeat(97));
        let path = format!("a/b/{}.gguf", "c".repeat(600));
        let parts = "//a/b/c.gguf,a/b/,/b/c.gguf,a//c.gguf,a/b@/c.gguf,a/b@../c.gguf,a/b@x@y/c.gguf,../b/c.gguf,\
                     a/../c.gguf,a/b/../c.gguf,a/b/./c.gguf,a/b//c.gguf,a/b/c d.gguf,a/b/c?x.gguf,a/b/c#x.gguf,\
                     a/b/%2e%2e.gguf,a/b/c\\d.gguf,a/b/c\n.gguf,a/b/\u{e9}.gguf,a--b/c/d.gguf,a:b@c/d/e.gguf";
        for (names, message) in [
            (",a,a/b,a@v/b", "does not name a file on the hub"),
            (parts, "is not a valid "),
            (&owner, "is not a valid owner"),
            (&path, "is not a valid part of a path"),
            ("a/b/model.safetensors,a/b/gguf", "is not a GGUF file"),
            (
                "a/b/m-00002-of-00003.gguf",
                "name the first part, `m-00001-of-00003.gguf`",
            ),
        ] {
            for name in names.split(',') {
                let error = format!("hf:{name}").parse::<ModelFile>().unwrap_err();
                assert!(error.to_string().contains(message), "{name}: {error}");
            }
        }
        assert!(
            " ".parse::<ModelFile>()
                .unwrap_err()
                .to_string()
                .ends_with("is empty")
        );
    }

    #[test]
    fn a_model_in_parts_has_the_name_of_its_first_part() {
        let part = |number| format!("q8/m-0000{number}-of-00003.gguf");
        assert_eq!(
            hub("hf:a/b/q8/m-00001-of-00003.gguf").files(),
            [part(1), part(2), part(3)]
        );
        for whole in [
            "m-1-of-3.gguf",
            "m-00004-of-00003.gguf",
            "m-00000-of-00003.gguf",
            "m-of-00003.gguf",
        ] {
            assert_eq!(hub(&format!("hf:a/b/{whole}")).files(), [whole]);
        }
    }
}
