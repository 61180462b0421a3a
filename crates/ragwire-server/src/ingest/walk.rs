//! Finds the files to index: the regular files below the paths that the user named.

use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ragwire_rag::EXTENSIONS;
use walkdir::{DirEntry, WalkDir};

use crate::extract::ocr;

/// Folders that hold what programs made or downloaded.
const SKIPPED_FOLDERS: [&str; 2] = ["node_modules", "__pycache__"];
/// A folder with this file can be made again; Cargo, ccache and others write it into theirs.
const CACHE_MARK: &str = "CACHEDIR.TAG";
/// Ends of the names of files that programs write for themselves.
const GENERATED: [&str; 6] = [
    ".min.js",
    ".min.css",
    ".map.json",
    "-lock.json",
    "-lock.yaml",
    ".lock.json",
];
/// What MkDocs and mdBook search on their pages.
const SEARCHED: [&str; 2] = ["searchindex.json", "search_index.json"];
/// A folder is a site that Sphinx, mdBook, Doxygen, javadoc or Haddock wrote if it has one of these files beside its first page.
/// Scripts and styles in it only make its pages move: Doxygen writes one for most pages.
const FIRST_PAGE: &str = "index.html";
const SITE_MARKS: [&str; 6] = [
    "objects.inv",
    "searchindex.js",
    "doxygen.css",
    "element-list",
    "package-list",
    "haddock-bundle.min.js",
];
const SITE_SCRIPTS: [&str; 2] = ["js", "css"];
/// Maximum depth below a named folder.
const MAX_DEPTH: usize = 64;

/// A file to index.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    /// The name of the document: the file name, prefixed with the folders from the named one down.
    pub(super) name: String,
    /// Where it was found: an index into [`Walk::roots`].
    pub(super) root: usize,
    pub(super) bytes: u64,
    /// When it was changed. `None` if the file system does not know.
    pub(super) modified: Option<SystemTime>,
}

/// A file that is skipped.
#[derive(Debug)]
pub(super) struct SkippedFile {
    pub(super) path: PathBuf,
    pub(super) reason: &'static str,
}

/// A path that the user named, and that exists.
#[derive(Debug)]
pub(super) struct Root {
    /// The absolute path.
    pub(super) path: String,
    /// What distinguishes the folder from another one at the same path.
    pub(super) identity: String,
    /// The names of documents whose files could not be looked at begin with one of these. An empty
    /// one stands for all of them.
    pub(super) unread: Vec<String>,
}

/// Returns all files below `paths`, in the order of their names; also images if these are read.
pub(super) fn walk(paths: &[PathBuf], reads_images: bool) -> Walk {
    let mut walk = Walk {
        reads_images,
        ..Walk::default()
    };
    for path in paths {
        walk.root(path);
    }
    walk
}

/// What was found below the paths that the user named.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) roots: Vec<Root>,
    pub(super) files: Vec<SourceFile>,
    pub(super) skipped: Vec<SkippedFile>,
    reads_images: bool,
    names: HashSet<String>,
    /// The folders with scripts, and whether each is in a site that a program wrote.
    sites: HashMap<PathBuf, bool>,
}

impl Walk {
    /// Returns whether a file gives the document of that name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    fn root(&mut self, root: &Path) {
        // The path itself may be a link; links below it must not leave the folder.
        let (Ok(metadata), Ok(canonical)) = (std::fs::metadata(root), root.canonicalize()) else {
            return self.skip(root, "not found, or not readable");
        };
        if !metadata.is_file() && !metadata.is_dir() {
            return self.skip(root, "neither a file nor a folder");
        }
        self.roots.push(Root {
            path: canonical.to_string_lossy().into_owned(),
            identity: identity(&metadata),
            unread: Vec::new(),
        });
        if metadata.is_file() {
            // Under the name that the user gave, not that of the file that a link points to.
            let name = root.file_name().unwrap_or_default().to_string_lossy();
            return self.take(root, &name, &metadata);
        }
        let prefix = canonical.file_name().unwrap_or_default().to_string_lossy();
        // Each folder that the user names decides for what is below it.
        self.sites.clear();
        let entries = WalkDir::new(&canonical)
            .max_depth(MAX_DEPTH)
            .sort_by_file_name()
            .into_iter()
            .filter_entry(|entry| entry.depth() == 0 || !is_hidden(entry) && !is_cache(entry));
        for entry in entries {
            match entry {
                Ok(entry) => self.entry(&canonical, &prefix, &entry),
                Err(error) => {
                    let path = error.path().unwrap_or(root);
                    let name = name_of(&canonical, &prefix, path);
                    if let Some(root) = self.roots.last_mut() {
                        // Of the folder itself nothing was read.
                        root.unread
                            .push(if error.depth() == 0 { String::new() } else { name });
                    }
                    self.skip(path, "not readable");
                }
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
        let extension = extension.to_ascii_lowercase();
        // So that images and programs are not opened; the content decides what a file is read as. A
        // file that the user names directly is always tried.
        let is_document = EXTENSIONS.iter().any(|(known, _)| *known == extension);
        let is_image = self.reads_images && ocr::EXTENSIONS.contains(&&*extension);
        if !(is_document || is_image) {
            return self.skip(path, "not a supported file extension");
        }
        let file_name = entry.file_name().to_string_lossy();
        let is_script = SITE_SCRIPTS.contains(&&*extension);
        let is_generated =
            GENERATED.iter().any(|end| file_name.ends_with(end)) || SEARCHED.contains(&&*file_name);
        if is_generated || is_script && self.is_in_site(root, path) {
            return self.skip(path, "written by a program");
        }
        let name = name_of(root, prefix, path);
        match std::fs::metadata(path) {
            Ok(metadata) => self.take(path, &name, &metadata),
            Err(error) => {
                if let Some(root) = self.roots.last_mut()
                    && error.kind() != std::io::ErrorKind::NotFound
                {
                    root.unread.push(name);
                }
                self.skip(path, "not readable");
            }
        }
    }

    /// Returns whether a file below `root` is in a site that a program wrote.
    fn is_in_site(&mut self, root: &Path, path: &Path) -> bool {
        let below = path
            .ancestors()
            .skip(1)
            .take_while(|folder| folder.starts_with(root));
        let mut is_in_site = false;
        let mut folders = Vec::new();
        for folder in below {
            folders.push(folder);
            let known = self.sites.get(folder).copied();
            if let Some(known) = known.or_else(|| has_site_mark(folder).then_some(true)) {
                is_in_site = known;
                break;
            }
        }
        for folder in folders {
            self.sites.insert(folder.to_owned(), is_in_site);
        }
        is_in_site
    }

    fn take(&mut self, path: &Path, name: &str, metadata: &Metadata) {
        let name = name.replace(|letter: char| letter.is_control(), "\u{fffd}");
        if !self.names.insert(name.clone()) {
            return self.skip(path, "another file has the same name");
        }
        self.files.push(SourceFile {
            path: path.to_owned(),
            name,
            root: self.roots.len() - 1,
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
        });
    }

    fn skip(&mut self, path: &Path, reason: &'static str) {
        self.skipped.push(SkippedFile {
            path: path.to_owned(),
            reason,
        });
    }
}

/// Returns the name of the document of a file below a folder.
fn name_of(root: &Path, prefix: &str, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = std::iter::once(prefix.into())
        .chain(below.iter().map(|part| part.to_string_lossy()))
        .collect();
    parts.join("/")
}

/// The numbers of the file system and of the folder in it.
#[cfg(unix)]
fn identity(metadata: &Metadata) -> String {
    use std::os::unix::fs::MetadataExt;
    format!("{}:{}", metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity(_metadata: &Metadata) -> String {
    String::new()
}

fn is_cache(entry: &DirEntry) -> bool {
    entry.file_type().is_dir()
        && (SKIPPED_FOLDERS.iter().any(|name| entry.file_name() == *name)
            || entry.path().join(CACHE_MARK).exists())
}

fn has_site_mark(folder: &Path) -> bool {
    folder.join(FIRST_PAGE).is_file() && SITE_MARKS.iter().any(|mark| folder.join(mark).is_file())
}

fn is_hidden(entry: &DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_write_for_themselves_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("docs");
        std::fs::create_dir_all(root.join("api/search")).unwrap();
        for folder in ["app/node_modules/owl", "app/element-list", "site", "theme"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        for path in [
            "api/doxygen.css",
            "api/index.html",
            "api/robin.html",
            "api/robin.js",
            "api/search/all_1.js",
            "api/search/all_1.html",
            "app/robin.js",
            "app/robin.min.js",
            "app/style.css",
            "app/package-lock.json",
            "app/element-list/index.js",
            "app/index.html",
            "site/search_index.json",
            "site/research_index.json",
            "theme/doxygen.css",
            "app/node_modules/owl/index.js",
        ] {
            std::fs::write(root.join(path), "text").unwrap();
        }
        let names = |paths: &[PathBuf]| {
            let files = walk(paths, false).files;
            files.into_iter().map(|file| file.name).collect::<Vec<_>>()
        };
        assert_eq!(
            names(std::slice::from_ref(&root)),
            [
                "docs/api/index.html",
                "docs/api/robin.html",
                "docs/api/search/all_1.html",
                "docs/app/element-list/index.js",
                "docs/app/index.html",
                "docs/app/robin.js",
                "docs/app/style.css",
                "docs/site/research_index.json",
                "docs/theme/doxygen.css"
            ]
        );
        // The folder that the user names decides, and a file that the user names is read.
        let named = [
            root.join("api"),
            root.join("api/search"),
            root.join("api/robin.js"),
        ];
        assert_eq!(
            names(&named),
            [
                "api/index.html",
                "api/robin.html",
                "api/search/all_1.html",
                "search/all_1.html",
                "search/all_1.js",
                "robin.js"
            ]
        );
    }

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
        let Walk { files, skipped, .. } = walk(&[root.clone(), root.join("picture.png"), missing], false);
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
