//! Finds the files to index: the regular files below the paths that the user named.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

/// The extensions of documents, so that images and programs are not opened. The content decides the
/// type of a file. A file that the user names directly is always tried.
const EXTENSIONS: [&str; 12] = [
    "md", "markdown", "mdown", "mkd", "txt", "text", "rst", "adoc", "html", "htm", "xhtml", "pdf",
];
/// Maximum depth below a named folder.
const MAX_DEPTH: usize = 64;

/// A file to index.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    /// The name of the document: the file name, prefixed with the folders from the named one down.
    pub(super) name: String,
}

/// A file that is skipped.
#[derive(Debug)]
pub(super) struct SkippedFile {
    pub(super) path: PathBuf,
    pub(super) reason: &'static str,
}

/// Returns all files below `paths`, in the order of their names.
pub(super) fn walk(paths: &[PathBuf]) -> (Vec<SourceFile>, Vec<SkippedFile>) {
    let mut walk = Walk::default();
    for path in paths {
        walk.root(path);
    }
    (walk.files, walk.skipped)
}

#[derive(Debug, Default)]
struct Walk {
    files: Vec<SourceFile>,
    skipped: Vec<SkippedFile>,
    names: HashSet<String>,
}

impl Walk {
    fn root(&mut self, root: &Path) {
        // The path itself may be a link; links below it must not leave the folder.
        let Ok(metadata) = std::fs::metadata(root) else {
            return self.skip(root, "not found, or not readable");
        };
        if metadata.is_file() {
            let name = root
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            return self.take(root, &name);
        }
        if !metadata.is_dir() {
            return self.skip(root, "neither a file nor a folder");
        }
        let Ok(canonical) = root.canonicalize() else {
            return self.skip(root, "not readable");
        };
        let prefix = canonical
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let entries = WalkDir::new(&canonical)
            .max_depth(MAX_DEPTH)
            .sort_by_file_name()
            .into_iter()
            .filter_entry(|entry| entry.depth() == 0 || !is_hidden(entry));
        for entry in entries {
            match entry {
                Ok(entry) => self.entry(&canonical, &prefix, &entry),
                Err(error) => self.skip(error.path().unwrap_or(root), "not readable"),
            }
        }
    }

    fn entry(&mut self, root: &Path, prefix: &str, entry: &DirEntry) {
        let (path, kind) = (entry.path(), entry.file_type());
        if kind.is_dir() {
            return;
        }
        if kind.is_symlink() {
            // Kubernetes mounts files as links within the folder; a link out of it could expose
            // other files.
            let target = path.canonicalize();
            if !target.is_ok_and(|target| target.starts_with(root) && target.is_file()) {
                return self.skip(path, "a link out of its folder");
            }
        } else if !kind.is_file() {
            return self.skip(path, "not a regular file");
        }
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        if !EXTENSIONS.contains(&extension.to_ascii_lowercase().as_str()) {
            return self.skip(path, "not a supported file extension");
        }
        let below = path.strip_prefix(root).unwrap_or(path);
        let parts: Vec<_> = std::iter::once(prefix.into())
            .chain(below.iter().map(|part| part.to_string_lossy()))
            .collect();
        self.take(path, &parts.join("/"));
    }

    fn take(&mut self, path: &Path, name: &str) {
        let name = name.replace(|letter: char| letter.is_control(), "\u{fffd}");
        if !self.names.insert(name.clone()) {
            return self.skip(path, "another file has the same name");
        }
        self.files.push(SourceFile {
            path: path.to_owned(),
            name,
        });
    }

    fn skip(&mut self, path: &Path, reason: &'static str) {
        self.skipped.push(SkippedFile {
            path: path.to_owned(),
            reason,
        });
    }
}

fn is_hidden(entry: &DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn only_regular_files_below_the_folder_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("docs");
        std::fs::create_dir_all(root.join("sub/.git")).unwrap();
        let outside = folder.path().join("secret.md");
        for path in [
            &outside,
            &root.join("b.md"),
            &root.join("a.TXT"),
            &root.join("sub/c.pdf"),
            &root.join("sub/.git/d.md"),
            &root.join("new\nline.md"),
            &root.join("picture.png"),
        ] {
            std::fs::write(path, "text").unwrap();
        }
        std::os::unix::fs::symlink(&outside, root.join("out.md")).unwrap();
        std::os::unix::fs::symlink(root.join("b.md"), root.join("in.md")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(root.join("socket.md")).unwrap();

        let missing = folder.path().join("missing");
        let (files, skipped) = walk(&[root.clone(), root.join("picture.png"), missing]);
        let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "docs/a.TXT",
                "docs/b.md",
                "docs/in.md",
                "docs/new\u{fffd}line.md",
                "docs/sub/c.pdf",
                "picture.png"
            ]
        );
        let mut reasons: Vec<_> = skipped.iter().map(|skipped| skipped.reason).collect();
        reasons.sort_unstable();
        assert_eq!(
            reasons,
            [
                "a link out of its folder",
                "not a regular file",
                "not a supported file extension",
                "not found, or not readable"
            ]
        );
    }
}
