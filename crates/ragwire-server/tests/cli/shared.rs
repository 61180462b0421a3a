//! Servers that share a library in Qdrant: separate processes, which are killed.

use std::path::Path;
use std::time::Duration;

use ragwire_test_support::qdrant::{Double, Reply};

use crate::request::request;
use crate::served::Served;

/// Starts a server whose library is on the double.
fn host(data: &Path, double: &Double, more: &[&str]) -> Served {
    let mut arguments = vec!["--store", "qdrant", "--qdrant-url", &double.url];
    arguments.extend(more);
    Served::start(data, &arguments)
}

/// Returns the names of the documents that a server lists.
fn names(server: &Served) -> Vec<String> {
    let listed = get(server, "/v1/documents");
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let names = listed["documents"].as_array().unwrap().iter();
    let mut names: Vec<_> = names
        .map(|document| document["name"].as_str().unwrap().to_owned())
        .collect();
    names.retain(|name| !name.starts_with("sample/"));
    names.sort();
    names
}

fn id_of(server: &Served, name: &str) -> Option<String> {
    let listed: serde_json::Value = serde_json::from_str(&get(server, "/v1/documents")).unwrap();
    let documents = listed["documents"].as_array().unwrap();
    let found = documents.iter().find(|document| document["name"] == name)?;
    Some(found["id"].as_str().unwrap().to_owned())
}

fn get(server: &Served, path: &str) -> String {
    curl(server, "GET", path, None).1
}

fn curl(server: &Served, method: &str, path: &str, body: Option<&str>) -> (u16, String) {
    request(&server.address, method, path, body.unwrap_or_default())
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1_200 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what}: not within a minute");
}

const PUMPS: &str = "# Pumps\n\nThe valve of the blue pump opens at 7 bar.\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_share_their_documents_and_survive_each_other() {
    let double = Double::searching().await;
    let (one_data, other_data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let originals = tempfile::tempdir().unwrap();
    let more = ["--originals", originals.path().to_str().unwrap()];
    let one = host(one_data.path(), &double, &more);
    let other = host(other_data.path(), &double, &more);
    let place = "in the collection ragwire-library";
    until("the library is named", || {
        other.log().iter().any(|line| line.contains(place))
    })
    .await;

    // An upload to one is answered by the other.
    let (status, body) = curl(&one, "POST", "/v1/documents?name=pumps.md", Some(PUMPS));
    assert_eq!(status, 201, "{body}");
    until("the upload is listed", || names(&other) == ["pumps.md"]).await;
    let (code, answer, said) = other.ask(&["At how many bar does the valve of the blue pump open?"]);
    assert_eq!(code, 0, "{said}");
    assert!(answer.contains("7 bar"), "{answer} {said}");
    let original =
        |server: &Served, id: &str| curl(server, "GET", &format!("/v1/documents/{id}/original"), None);
    let pumps = id_of(&other, "pumps.md").unwrap();
    assert_eq!(original(&other, &pumps), (200, PUMPS.to_owned()));

    // A server that is killed in the middle of an upload leaves nothing half visible.
    let long: String = (0..400)
        .map(|n| format!("## Part {n}\n\nThe crane lifts container number{n}.\n\n"))
        .collect();
    // Words and passages are written, not all of them, and not the head.
    let text = long.clone();
    double.next("Points/Upsert", std::iter::repeat_n(Reply::Usual, 3));
    double.always("Points/Upsert", Reply::Hang);
    let before = double.points()["ragwire-library"];
    std::thread::scope(|scope| {
        let one = &one;
        scope.spawn(move || curl(one, "POST", "/v1/documents?name=cranes.md", Some(&text)));
        for _ in 0..1_200 {
            if double.points()["ragwire-library"] > before + 100 {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(
            double.points()["ragwire-library"] > before + 100,
            "the upload began"
        );
        one.signal("KILL");
    });
    drop(one);
    double.never("Points/Upsert");
    let (_, answer, _) = other.ask(&["What does the crane lift?"]);
    assert!(!answer.contains("container"), "{answer}");
    assert_eq!(names(&other), ["pumps.md"]);

    // The other one continues: it takes uploads and removals, and a new host sees all of them.
    let (status, body) = curl(&other, "POST", "/v1/documents?name=cranes.md", Some(&long));
    assert_eq!(status, 201, "{body}");
    assert_eq!(
        curl(&other, "DELETE", &format!("/v1/documents/{pumps}"), None).0,
        204
    );
    // Its file is deleted, though the server that wrote it is dead.
    let file = originals.path().join("ragwire").join(&pumps);
    assert!(!file.exists(), "the file of a removed document stays");
    let again = host(one_data.path(), &double, &more);
    assert_eq!(names(&again), ["cranes.md"]);
    let (_, answer, said) = again.ask(&["What does the crane lift?"]);
    assert!(answer.contains("container"), "{answer} {said}");

    // Without the server of the library, uploads are refused, and the list is still there.
    for method in [
        "Points/Upsert",
        "Points/Scroll",
        "Points/QueryBatch",
        "Points/Get",
    ] {
        double.always(method, Reply::Status(14));
    }
    let (status, body) = curl(&again, "POST", "/v1/documents?name=a.md", Some("# A\n\nText.\n"));
    assert_eq!(
        (status, body.contains("library_unavailable")),
        (503, true),
        "{body}"
    );
    assert_eq!(names(&again), ["cranes.md"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_is_read_once_by_two_servers_that_start_together() {
    let double = Double::searching().await;
    let docs = tempfile::tempdir().unwrap();
    for n in 0..12 {
        let text = format!("# Note {n}\n\nThe boiler number{n} is green.\n");
        std::fs::write(docs.path().join(format!("note{n}.md")), text).unwrap();
    }
    let data = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let folder = docs.path().to_str().unwrap();
    let hosts: Vec<Served> = std::thread::scope(|scope| {
        let start = |data: &Path| {
            let (double, data) = (&double, data.to_owned());
            scope.spawn(move || host(&data, double, &["--docs", folder]))
        };
        let starting = [start(data[0].path()), start(data[1].path())];
        starting.map(|starting| starting.join().unwrap()).into()
    });
    for host in &hosts {
        assert_eq!(names(host).len(), 12);
    }
    // Each says what it did: one has read all files, the other found them done.
    let done: Vec<String> = hosts
        .iter()
        .flat_map(|host| host.log())
        .filter(|line| line.contains("indexed") && line.contains("unchanged"))
        .collect();
    let count = |words: &str| done.iter().filter(|line| line.contains(words)).count();
    assert_eq!((count("12 indexed"), count("12 unchanged")), (1, 1), "{done:?}");
}
