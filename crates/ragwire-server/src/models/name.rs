//! The name of a GGUF file: a path on this machine, or `hf:owner/repo[@revision]/file` on the
//! Hugging Face hub. This module does not access files or the network.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

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
    /// The owner and the repository: `owner/repo`.
    pub(super) repo: String,
    /// The branch, tag or commit.
    pub(super) revision: String,
    /// The path within the repository.
    pub(super) file: String,
}

/// A name that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a GGUF file; write hf:owner/repo/file.gguf or hf:owner/repo@revision/file.gguf")]
pub struct NameError(String);

impl FromStr for ModelFile {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let text = text.trim();
        let invalid = || NameError(text.to_owned());
        match text.strip_prefix("hf:") {
            Some(name) => HubFile::parse(name).map(Self::Hub).ok_or_else(invalid),
            None if text.is_empty() => Err(invalid()),
            None => Ok(Self::Path(text.into())),
        }
    }
}

impl HubFile {
    fn parse(name: &str) -> Option<Self> {
        let (owner, rest) = name.split_once('/')?;
        let (repo, file) = rest.split_once('/')?;
        let (repo, revision) = repo.split_once('@').unwrap_or((repo, MAIN));
        let mut parts = [owner, repo, revision].into_iter().chain(file.split('/'));
        let is_valid = parts.all(is_plain) && file.to_ascii_lowercase().ends_with(".gguf");
        let (repo, revision, file) = (format!("{owner}/{repo}"), revision.to_owned(), file.to_owned());
        is_valid.then_some(Self { repo, revision, file })
    }

    /// Returns the paths of the other parts of a model that `gguf-split` of llama.cpp divided
    /// (`stem-00001-of-00003.gguf`). llama.cpp finds them in the folder of the first.
    pub fn other_parts(&self) -> Vec<String> {
        let split = || {
            let (part, count) = self.file.strip_suffix(".gguf")?.rsplit_once("-of-")?;
            let (stem, number) = part.rsplit_once('-')?;
            let is_split = number.len() == 5 && count.len() == 5;
            Some((stem, count.parse().ok().filter(|_| is_split)?))
        };
        let (stem, count) = split().unwrap_or(("", 0));
        let parts = (1..=count).map(|number: u32| format!("{stem}-{number:05}-of-{count:05}.gguf"));
        parts.filter(|part| *part != self.file).collect()
    }
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
        let Self { repo, revision, file } = self;
        match revision.as_str() {
            MAIN => write!(f, "hf:{repo}/{file}"),
            _ => write!(f, "hf:{repo}@{revision}/{file}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_parsed_and_displayed() {
        for (text, parts) in [
            ("hf:a/b/x.gguf", ["a/b", "main", "x.gguf"]),
            ("hf:a-1/b_2@v1.0/q4/x.GGUF", ["a-1/b_2", "v1.0", "q4/x.GGUF"]),
        ] {
            let name = HubFile::parse(&text[3..]).unwrap();
            assert_eq!([&*name.repo, &name.revision, &name.file], parts);
            assert_eq!(name.to_string(), text);
            assert_eq!(text.parse(), Ok(ModelFile::Hub(name)));
        }
        assert_eq!("../m.gguf".parse(), Ok(ModelFile::Path("../m.gguf".into())));
    }

    #[test]
    fn an_invalid_name_is_rejected() {
        let names = ",a,a/b,a@v/b,/b/c.gguf,a//c.gguf,a/b@/c.gguf,a/b@../c.gguf,../b/c.gguf,a/../c.gguf,\
                     a/b/../c.gguf,a/b/./c.gguf,a/b//c.gguf,a/b/c d.gguf,a/b/c?.gguf,a/b/c#.gguf,a/b/%2e.gguf,\
                     a/b/c\\d.gguf,a/b/c\n.gguf,a/b/\u{e9}.gguf,a:b/c/d.gguf,a/b/m.safetensors";
        for name in names.split(',') {
            assert!(HubFile::parse(name).is_none(), "{name}");
        }
    }

    #[test]
    fn a_part_of_a_model_names_the_others() {
        let others = |file: &str| HubFile::parse(&format!("a/b/{file}")).unwrap().other_parts();
        assert_eq!(others("q/m-00001-of-00002.gguf"), ["q/m-00002-of-00002.gguf"]);
        for whole in ["m.gguf", "m-1-of-3.gguf", "m-of-00003.gguf"] {
            assert_eq!(others(whole), Vec::<String>::new());
        }
    }
}
