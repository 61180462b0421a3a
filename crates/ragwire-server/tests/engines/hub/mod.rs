//! Downloads of model files, from a hub of our own on a real socket.

#![expect(clippy::disallowed_methods, reason = "the hub here is a task")]

mod double;

use std::fs;
use std::path::Path;
use std::time::Duration;

use double::{COMMIT, Double};
use ragwire_server::models::{Hub, HubError, HubFile, ModelFile};
use ragwire_server::settings::engines::Secret;
use tempfile::TempDir;

/// `abc` and its SHA-256, of FIPS 180.
const CONTENT: &[u8] = b"abc";
const SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn file(name: &str) -> HubFile {
    match name.parse().unwrap() {
        ModelFile::Hub(file) => file,
        other => panic!("{other:?}"),
    }
}

fn hub(endpoint: &str, cache: &Path) -> Hub {
    Hub {
        endpoint: endpoint.to_owned(),
        cache: cache.to_owned(),
        token: Secret::default(),
        offline: false,
        patience: Duration::from_secs(60),
    }
}

fn offline(hub: &Hub) -> Hub {
    Hub {
        offline: true,
        ..hub.clone()
    }
}

/// A hub, an empty cache and the file that is requested.
async fn begin() -> (Double, TempDir, Hub, HubFile) {
    let double = Double::new(CONTENT, SHA256).await;
    let folder = tempfile::tempdir().unwrap();
    let hub = hub(&double.endpoint, &folder.path().join("hub"));
    (double, folder, hub, file("hf:owner/repo/q4/m.gguf"))
}

/// All files below a folder, by their path in it.
fn files(folder: &Path) -> Vec<String> {
    let mut found: Vec<String> = walkdir::WalkDir::new(folder)
        .into_iter()
        .map(Result::unwrap)
        .filter(|entry| !entry.file_type().is_dir())
        .map(|entry| entry.path().strip_prefix(folder).unwrap().display().to_string())
        .collect();
    found.sort();
    found
}

async fn within<T>(test: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(120);
    tokio::time::timeout(limit, test).await.expect("it hangs")
}

fn code<T>(result: Result<T, HubError>) -> &'static str {
    result.err().expect("an error").code()
}

#[tokio::test]
async fn a_file_is_fetched_and_checked_once() {
    within(async {
        let (double, folder, hub, file) = begin().await;
        let path = hub.fetch(&file).await.unwrap();
        assert_eq!(fs::read(&path).unwrap(), CONTENT);
        let repo = folder.path().join("hub/models--owner--repo");
        assert_eq!(path, repo.join(format!("snapshots/{COMMIT}/q4/m.gguf")));
        assert_eq!(
            files(&repo),
            [
                format!("blobs/{SHA256}"),
                format!("blobs/{SHA256}.lock"),
                format!("blobs/{SHA256}.verified"),
                "refs/main".into(),
                format!("snapshots/{COMMIT}/q4/m.gguf"),
            ]
        );
        let seen = double.seen();
        assert_eq!(seen.last().unwrap(), &format!("/cdn/{SHA256} bytes=0-"));
        assert!(
            seen.iter()
                .any(|line| line == "/owner/repo/resolve/main/q4/m.gguf bytes=0-0"),
            "{seen:?}"
        );
        // From now on no request is sent.
        assert_eq!(hub.fetch(&file).await.unwrap(), path);
        assert_eq!(offline(&hub).fetch(&file).await.unwrap(), path);
        let unreachable = self::hub("http://127.0.0.1:1", &hub.cache);
        assert_eq!(unreachable.fetch(&file).await.unwrap(), path);
        assert_eq!(double.seen(), Vec::<String>::new());
        // Another name of the same commit is the same file.
        let tagged = self::file("hf:owner/repo@v1/q4/m.gguf");
        assert_eq!(hub.fetch(&tagged).await.unwrap(), path);
        assert!(double.seen().iter().all(|line| line.ends_with("bytes=0-0")));
    })
    .await;
}

#[tokio::test]
async fn a_file_of_another_client_is_checked_once() {
    within(async {
        let (double, folder, hub, file) = begin().await;
        // The layout that the hub's own client leaves.
        let repo = folder.path().join("hub/models--owner--repo");
        let snapshot = repo.join(format!("snapshots/{COMMIT}/q4"));
        for folder in [&repo.join("blobs"), &repo.join("refs"), &snapshot] {
            fs::create_dir_all(folder).unwrap();
        }
        let blob = repo.join(format!("blobs/{SHA256}"));
        fs::write(&blob, CONTENT).unwrap();
        fs::write(repo.join("refs/main"), COMMIT).unwrap();
        std::os::unix::fs::symlink(format!("../../../blobs/{SHA256}"), snapshot.join("m.gguf")).unwrap();
        hub.fetch(&file).await.unwrap();
        assert!(repo.join(format!("blobs/{SHA256}.verified")).exists());
        // Content that was not verified yet.
        fs::remove_file(repo.join(format!("blobs/{SHA256}.verified"))).unwrap();
        fs::write(&blob, "abd").unwrap();
        let error = hub.fetch(&file).await.unwrap_err();
        assert_eq!(error.code(), "hub_checksum");
        assert!(error.to_string().contains(SHA256), "{error}");
        assert_eq!(files(&repo), ["refs/main"]);
        assert_eq!(double.seen(), Vec::<String>::new());
        // The next start downloads it again.
        let path = hub.fetch(&file).await.unwrap();
        assert_eq!(fs::read(path).unwrap(), CONTENT);
        // A file without a checksum as its name cannot be checked.
        fs::rename(&blob, repo.join("blobs/abc")).unwrap();
        fs::remove_file(snapshot.join("m.gguf")).unwrap();
        std::os::unix::fs::symlink("../../../blobs/abc", snapshot.join("m.gguf")).unwrap();
        assert_eq!(code(hub.fetch(&file).await), "hub_no_checksum");
    })
    .await;
}

#[tokio::test]
async fn content_without_the_published_checksum_is_deleted() {
    within(async {
        let (double, folder, hub, file) = begin().await;
        double.change(|hub| hub.content = b"abd".to_vec());
        assert_eq!(code(hub.fetch(&file).await), "hub_checksum");
        let left = files(&folder.path().join("hub/models--owner--repo"));
        assert!(
            left.iter()
                .all(|name| name.ends_with(".lock") || name == "refs/main"),
            "{left:?}"
        );
        double.change(|hub| hub.content = CONTENT.to_vec());
        assert_eq!(fs::read(hub.fetch(&file).await.unwrap()).unwrap(), CONTENT);
        // Values that would become part of a path are checked first.
        for etag in ["", "abc", "../../../../evil", &SHA256.to_uppercase(), "W/abc"] {
            let (double, folder, hub, file) = begin().await;
            double.change(|hub| hub.etag = etag.to_owned());
            assert_eq!(code(hub.fetch(&file).await), "hub_no_checksum", "{etag}");
            assert_eq!(files(folder.path()), Vec::<String>::new());
        }
        for commit in ["main", "../../evil", ""] {
            let (double, folder, hub, file) = begin().await;
            double.change(|hub| hub.commit = commit.to_owned());
            assert_eq!(code(hub.fetch(&file).await), "hub_no_checksum", "{commit}");
            assert_eq!(files(folder.path()), Vec::<String>::new());
        }
    })
    .await;
}

#[tokio::test]
async fn an_interrupted_download_is_resumed() {
    within(async {
        let (double, folder, hub, file) = begin().await;
        double.change(|hub| hub.cut = Some(1));
        // One byte per attempt.
        assert_eq!(fs::read(hub.fetch(&file).await.unwrap()).unwrap(), CONTENT);
        let seen = double.seen();
        let ranges: Vec<&str> = seen
            .iter()
            .filter(|line| line.starts_with("/cdn/"))
            .map(|line| line.split_once(' ').unwrap().1)
            .collect();
        assert_eq!(ranges[ranges.len() - 3..], ["bytes=0-", "bytes=1-", "bytes=2-"]);
        drop(folder);
        // No byte arrives.
        let (double, _folder, hub, file) = begin().await;
        double.change(|hub| hub.cut = Some(0));
        let failed = hub.fetch(&file).await;
        assert!(["hub_broken", "hub_unreachable"].contains(&code(failed)));
        double.change(|hub| hub.cut = None);
        assert_eq!(fs::read(hub.fetch(&file).await.unwrap()).unwrap(), CONTENT);
    })
    .await;
}

#[tokio::test]
async fn a_stalled_download_fails() {
    within(async {
        let (double, _folder, hub, file) = begin().await;
        double.change(|hub| (hub.cut, hub.hangs) = (Some(1), true));
        let patience = Duration::from_millis(300);
        let hub = Hub { patience, ..hub };
        assert_eq!(code(hub.fetch(&file).await), "hub_stalled");
    })
    .await;
}

#[tokio::test]
async fn each_refusal_names_a_remedy() {
    within(async {
        for (status, code, words) in [
            (401, "hub_login", "set HF_TOKEN"),
            (403, "hub_denied", "/owner/repo"),
            (404, "hub_missing", "/owner/repo (request error"),
            (429, "hub_refused", "status: 429"),
            (500, "hub_refused", "status: 500"),
        ] {
            let (double, folder, hub, file) = begin().await;
            double.change(|hub| hub.status = Some(status));
            let token = Secret(Some("hf_s3cret".into()));
            let hub = Hub { token, ..hub };
            assert!(!format!("{hub:?}").contains("s3cret"));
            let error = hub.fetch(&file).await.unwrap_err();
            assert_eq!(error.code(), code);
            assert!(error.to_string().contains(words), "{error}");
            assert!(
                double
                    .seen()
                    .iter()
                    .all(|line| line.ends_with("Bearer hf_s3cret"))
            );
            assert!(!format!("{error} {error:?}").contains("s3cret"));
            assert_eq!(files(folder.path()), Vec::<String>::new());
        }
    })
    .await;
}

#[tokio::test]
async fn without_a_network_the_error_names_a_remedy() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let file = file("hf:owner/repo/q4/m.gguf");
        let unreachable = hub("http://127.0.0.1:1", folder.path());
        let error = unreachable.fetch(&file).await.unwrap_err();
        assert_eq!(error.code(), "hub_unreachable");
        let words = error.to_string();
        let expected = "hf:owner/repo/q4/m.gguf cannot be downloaded from http://127.0.0.1:1/owner/repo (";
        assert!(words.starts_with(expected), "{words}");
        assert!(
            words.ends_with("; download it elsewhere and name its path"),
            "{words}"
        );
        let error = offline(&unreachable).fetch(&file).await.unwrap_err();
        assert_eq!(error.code(), "hub_offline");
        // A path that is not a folder.
        let (_double, folder, hub, file) = begin().await;
        let blocked = folder.path().join("file");
        fs::write(&blocked, "").unwrap();
        let hub = Hub {
            cache: blocked,
            ..hub
        };
        assert_eq!(code(hub.fetch(&file).await), "hub_cache");
    })
    .await;
}

#[tokio::test]
async fn all_parts_of_a_model_are_fetched() {
    within(async {
        let (double, _folder, hub, _) = begin().await;
        let first = hub
            .fetch(&file("hf:owner/repo/m-00001-of-00002.gguf"))
            .await
            .unwrap();
        assert!(first.ends_with("m-00001-of-00002.gguf"));
        assert_eq!(
            fs::read(first.with_file_name("m-00002-of-00002.gguf")).unwrap(),
            CONTENT
        );
        let seen = double.seen();
        for part in ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"] {
            let line = format!("/owner/repo/resolve/main/{part} bytes=0-0");
            assert!(seen.contains(&line), "{seen:?}");
        }
    })
    .await;
}
