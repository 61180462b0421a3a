//! Adding documents, including hostile ones, and storing them.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use ragwire_rag::Library;
use ragwire_server::app::library_limits;
use ragwire_server::serve::Shutdown;
use ragwire_server::settings::Settings;
use ragwire_server::settings::values::{Count, Size, Span};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{STREAM, WHOLE, start, start_with};

fn multipart(files: &[(&str, &[u8])]) -> (String, Vec<u8>) {
    let mut body = Vec::new();
    for (name, bytes) in files {
        write!(
            body,
            "--XX\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n"
        )
        .unwrap();
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--XX--\r\n");
    ("multipart/form-data; boundary=XX".to_owned(), body)
}

#[tokio::test]
async fn of_two_files_of_one_name_in_an_upload_the_first_is_kept() {
    let server = start(|_| {}).await;
    let (content_type, body) = multipart(&[
        ("a/birds.md", b"The hoopoe has a crown of feathers."),
        ("a/birds.md", b"The zander swims at night."),
        ("b/birds.md", b"The axolotl grows its legs again."),
    ]);
    let headers = [("content-type", content_type.as_str())];
    let reply = server.call(Method::POST, "/v1/documents", &headers, body).await;
    assert_eq!(reply.status, 201, "{:?}", reply.body);
    let uploaded = reply.json();
    let failed: Vec<_> = uploaded["failed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (&file["name"], &file["code"]))
        .collect();
    assert_eq!(failed, [(&"a/birds.md".into(), &"repeated_name".into())]);
    let added = uploaded["documents"].as_array().unwrap();
    let listed = server.get("/v1/documents").await.json();
    assert_eq!(added.len(), 2);
    for document in added {
        assert!(
            listed["documents"].as_array().unwrap().contains(document),
            "{document} in {listed}"
        );
    }
    let found = server
        .get(&format!(
            "/v1/documents/{}/chunks/{0}-0",
            added[0]["id"].as_str().unwrap()
        ))
        .await;
    assert_eq!(found.json()["text"], "The hoopoe has a crown of feathers.");
}

#[tokio::test]
async fn documents_are_added_listed_opened_and_removed() {
    let server = start(|_| {}).await;
    let (content_type, body) = multipart(&[
        ("birds.md", b"# Birds\n\nThe hoopoe has a crown of feathers."),
        ("bad.pdf", b"%PDF-1.7\nnothing"),
        (
            "page.html",
            b"<html><title>Fish</title><p>The zander swims at night.</p>",
        ),
    ]);
    let headers = [("content-type", content_type.as_str())];
    let reply = server.call(Method::POST, "/v1/documents", &headers, body).await;
    assert_eq!(reply.status, 201, "{:?}", reply.body);
    let uploaded = reply.json();
    assert_eq!(uploaded["documents"].as_array().unwrap().len(), 2);
    assert_eq!(uploaded["failed"][0]["name"], "bad.pdf");
    assert_eq!(uploaded["failed"][0]["code"], "bad_pdf");

    let named = [("x-filename", "a%20b.txt"), ("content-type", "text/plain")];
    let text = "The axolotl grows its legs again.";
    let reply = server.call(Method::POST, "/v1/documents", &named, text).await;
    assert_eq!(reply.json()["documents"][0]["name"], "a b.txt");

    let listed = server.get("/v1/documents").await.json();
    let names: Vec<_> = listed["documents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["name"].as_str().unwrap())
        .collect();
    for name in ["birds.md", "page.html", "a b.txt"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let answer = server.ask(WHOLE, "What does the hoopoe have?").await.json();
    let citation = &answer["citations"][0];
    let id = citation["document_id"].as_str().unwrap().to_owned();
    let chunk = format!(
        "/v1/documents/{id}/chunks/{}",
        citation["chunk_id"].as_str().unwrap()
    );
    let passage = server.get(&chunk).await.json();
    assert_eq!(passage["document_name"], "birds.md");
    let section = format!(
        "/v1/documents/{id}/chunks/{}",
        passage["parent"].as_str().unwrap()
    );
    let section = server.get(&section).await.json();
    assert_eq!(
        (section["level"].as_str(), &section["text"]),
        (Some("L1"), &passage["text"])
    );
    let sentence = server.get(&format!("{chunk}.0")).await.json();
    assert_eq!(
        (&sentence["parent"], &sentence["level"]),
        (&passage["id"], &"L3".into())
    );
    let other = format!(
        "/v1/documents/other/chunks/{}",
        citation["chunk_id"].as_str().unwrap()
    );
    assert_eq!(server.get(&other).await.status, 404);

    let path = format!("/v1/documents/{id}");
    assert_eq!(server.call(Method::DELETE, &path, &[], "").await.status, 204);
    assert_eq!(
        server.call(Method::DELETE, &path, &[], "").await.code(),
        "not_found"
    );
    assert_eq!(server.get(&chunk).await.status, 404);
    assert_eq!(
        server
            .call(Method::DELETE, "/v1/documents/%ff", &[], "")
            .await
            .code(),
        "not_found"
    );
}

#[tokio::test]
async fn the_list_has_pages_and_filters() {
    let server = start_with(
        Arc::new(Library::in_memory(Default::default()).unwrap()),
        None,
        |_| {},
    );
    for number in 0..5 {
        let name = format!("{number}.md");
        assert_eq!(
            server.upload(&name, format!("Number {number}.")).await.status,
            201
        );
    }
    assert_eq!(
        server
            .upload("table.csv", "Bird,Food\nrobin,worms\n")
            .await
            .status,
        201
    );
    let names = |page: &serde_json::Value| -> Vec<String> {
        let documents = page["documents"].as_array().unwrap().iter();
        documents
            .map(|document| document["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let (mut path, mut pages) = ("/v1/documents?limit=4".to_owned(), Vec::new());
    loop {
        let page = server.get(&path).await.json();
        assert_eq!(page["total"], 6);
        pages.push(names(&page));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/documents?limit=4&start={next}");
    }
    assert_eq!(
        pages,
        [vec!["0.md", "1.md", "2.md", "3.md"], vec!["4.md", "table.csv"]]
    );
    let all = ["0.md", "1.md", "2.md", "3.md", "4.md", "table.csv"];
    for (query, found) in [
        ("kind=csv", &all[5..]),
        ("kind=csv&kind=markdown&name=T", &all[5..]),
        ("name=.MD&limit=10000", &all[..5]),
        ("folder=docs", &[]),
        ("since=2026", &[]),
    ] {
        assert_eq!(
            names(&server.get(&format!("/v1/documents?{query}")).await.json()),
            found,
            "{query}"
        );
    }
    for query in [
        "limit=0",
        "limit=10001",
        "limit=x",
        "start=-1",
        "kind=tape",
        "order=name",
    ] {
        let reply = server.get(&format!("/v1/documents?{query}")).await;
        assert_eq!(
            (reply.status.as_u16(), &*reply.code()),
            (400, "bad_query"),
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_full_disk_is_reported_until_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    let server = start_with(library, None, |settings| settings.data.clone_from(&data));
    let id = server.upload("owl.md", "An owl hunts.").await.json()["documents"][0]["id"].clone();
    assert_eq!(server.get("/healthz").await.json()["status"], "ok");
    // The folder does not exist, so nothing can be written into it.
    server.app.disk.report_full();
    for _ in 0..2 {
        let health = server.get("/healthz").await;
        assert_eq!(
            (health.status.as_u16(), &health.json()["status"]),
            (200, &"degraded".into())
        );
        assert!(health.json()["message"].as_str().unwrap().contains("disk"));
        let refused = server.upload("wren.md", "A wren hides.").await;
        assert_eq!((refused.status.as_u16(), &*refused.code()), (507, "no_space"));
        assert_eq!(refused.headers["retry-after"], "30");
    }
    assert_eq!(server.ask(STREAM, "What does an owl do?").await.status, 200);
    let path = format!("/v1/documents/{}", id.as_str().unwrap());
    assert_eq!(server.call(Method::DELETE, &path, &[], "").await.status, 204);
    std::fs::create_dir(&data).unwrap();
    let recovers = async {
        while server.get("/healthz").await.json()["status"] != "ok" {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), recovers)
        .await
        .unwrap();
    assert_eq!(server.upload("wren.md", "A wren hides.").await.status, 201);
}

#[tokio::test]
async fn a_question_to_an_empty_library_is_not_a_failure_of_the_server() {
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    let server = start_with(library, None, |_| {});
    for path in [STREAM, WHOLE] {
        let reply = server.ask(path, "What does the hoopoe have?").await;
        assert_eq!((reply.status.as_u16(), &*reply.code()), (404, "no_documents"));
    }
}

#[tokio::test]
async fn uploads_are_limited() {
    let server = start(|settings| {
        settings.max_upload_size = Size(1000);
        settings.max_upload_files = Count(2);
        settings.body_timeout = Span(Duration::from_millis(300));
    })
    .await;
    let before = server.app.library().unwrap().list().len();
    let three: [(&str, &[u8]); 3] = [("a.md", b"a"), ("b.md", b"b"), ("c.md", b"c")];
    let (content_type, body) = multipart(&three);
    let form = [("content-type", content_type.as_str())];
    let no_file = "--XX\r\ncontent-disposition: form-data; name=\"x\"\r\n\r\n1\r\n--XX--\r\n";
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Vec<u8>, u16, &'a str);
    let cases: Vec<Case<'_>> = vec![
        ("?name=a.md", &[], vec![b'a'; 1001], 413, "body_too_large"),
        ("?name=a.md", &[], vec![b'a'; 3_000_000], 413, "body_too_large"),
        ("?name=a.md", &[], vec![], 422, "empty_document"),
        (
            "?name=a.docx",
            &[],
            b"PK\x03\x04\x14\0\x06\0".to_vec(),
            422,
            "damaged",
        ),
        (
            "?name=a.png",
            &[],
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0".to_vec(),
            415,
            "unsupported_type",
        ),
        (
            "?name=a.md",
            &[("content-type", "image/png")],
            b"a".to_vec(),
            415,
            "unsupported_media_type",
        ),
        ("", &[], b"a".to_vec(), 422, "bad_name"),
        ("?name=", &[], b"a".to_vec(), 422, "bad_name"),
        ("", &form, body, 413, "too_many_files"),
        ("", &form, b"--XX\r\nnonsense".to_vec(), 400, "bad_multipart"),
        ("", &form, no_file.into(), 400, "bad_multipart"),
        (
            "",
            &[("content-type", "multipart/form-data")],
            b"a".to_vec(),
            400,
            "bad_multipart",
        ),
    ];
    for (query, headers, body, status, code) in cases {
        let path = format!("/v1/documents{query}");
        let reply = server.call(Method::POST, &path, headers, body).await;
        assert_eq!(reply.status.as_u16(), status, "{code}: {:?}", reply.body);
        assert_eq!(reply.code(), code);
    }
    assert_eq!(
        server.app.library().unwrap().list().len(),
        before,
        "nothing came or went"
    );

    // All places are taken: the upload is refused at once with the time to retry.
    let places = server
        .app
        .uploads
        .try_acquire_many(u32::try_from(server.app.settings.max_uploads.0).unwrap());
    let reply = server.upload("a.md", "text").await;
    assert_eq!((reply.status.as_u16(), &*reply.code()), (503, "busy"));
    assert!(reply.headers.contains_key("retry-after"));
    drop(places);
    assert_eq!(server.upload("a.md", "Some text.").await.status, 201);

    // A body that never arrives.
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    let head = format!(
        "POST /v1/documents?name=a.md HTTP/1.1\r\nhost: {}\r\ncontent-length: 100\r\n\r\nabc",
        server.address()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 12];
    socket.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
}

/// A PDF of one page with `stream` as its content and the objects in `extra`; its cross-reference
/// table is correct.
pub(crate) fn pdf(stream: &[u8], filter: &str, kids: &str, extra: &[String]) -> Vec<u8> {
    let mut objects = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        format!("<< /Type /Pages /Kids [{kids}] /Count 1 >>").into_bytes(),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R >>".to_vec(),
    ];
    let mut content = format!("<< /Length {}{filter} >>\nstream\n", stream.len()).into_bytes();
    content.extend_from_slice(stream);
    content.extend_from_slice(b"\nendstream");
    objects.push(content);
    objects.extend(extra.iter().map(|object| object.clone().into_bytes()));
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        offsets.push(file.len());
        writeln!(file, "{} 0 obj", index + 1).unwrap();
        file.extend_from_slice(object);
        file.extend_from_slice(b"\nendobj\n");
    }
    let xref = file.len();
    write!(file, "xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).unwrap();
    for offset in offsets {
        writeln!(file, "{offset:010} 00000 n ").unwrap();
    }
    let size = objects.len() + 1;
    write!(
        file,
        "trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{xref}\n%%EOF\n"
    )
    .unwrap();
    file
}

/// A Flate stream of 6.5 MB that inflates to 1 GB of zeros: one block with fixed codes, written bit
/// by bit.
pub(crate) fn flate_bomb() -> Vec<u8> {
    // Last block, fixed codes, one literal zero, then matches.
    let mut bits: Vec<bool> = vec![true, true, false];
    bits.extend([false, false, true, true, false, false, false, false]);
    for _ in 0..4_000_000 {
        // Length 258 is code 285 (8 bits, 11000101); distance 1 is code 0 (5 bits).
        bits.extend([true, true, false, false, false, true, false, true]);
        bits.extend([false; 5]);
    }
    bits.extend([false; 7]);
    let mut bytes = vec![0x78, 0x9c];
    for byte in bits.chunks(8) {
        bytes.push(
            byte.iter()
                .enumerate()
                .fold(0, |sum, (at, bit)| sum | (u8::from(*bit) << at)),
        );
    }
    bytes
}

#[tokio::test]
async fn hostile_pdfs_are_refused_and_the_server_continues() {
    let server = start(|settings| {
        settings.extract_timeout = Span(Duration::from_secs(10));
        settings.extract_memory = Size(512 << 20);
    })
    .await;
    let nested = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("garbage", b"%PDF-1.7\n\xff\xfe\x00garbage".to_vec()),
        (
            "cut",
            pdf(b"BT (Hello there) Tj ET", "", "3 0 R", &[])[..200].to_vec(),
        ),
        ("bomb", pdf(&flate_bomb(), " /Filter /FlateDecode", "3 0 R", &[])),
        ("cycle", pdf(b"", "", "2 0 R", &[])),
        ("nested", pdf(b"", "", "5 0 R", &[nested])),
        ("length", pdf(b"BT ET", " /Length 999999999999", "3 0 R", &[])),
    ];
    let before = server.app.library().unwrap().list().len();
    for (name, bytes) in cases {
        let started = Instant::now();
        let reply = server.upload(&format!("{name}.pdf"), bytes).await;
        eprintln!(
            "{name}: {} {} after {:?}",
            reply.status,
            reply.code(),
            started.elapsed()
        );
        assert!(reply.status.is_client_error(), "{name}: {:?}", reply.body);
        assert!(started.elapsed() < Duration::from_secs(15), "{name}");
    }
    assert_eq!(server.app.library().unwrap().list().len(), before);
    assert_eq!(server.ask(STREAM, "commit?").await.status, 200);
}

#[tokio::test]
async fn the_parsing_process_is_limited_in_time_and_memory() {
    let server = start(|settings| settings.extract_timeout = Span(Duration::from_millis(1))).await;
    assert_eq!(
        server.upload("a.md", "Some text.").await.code(),
        "extract_timeout"
    );
    // Less memory than the program itself needs.
    let server = start(|settings| settings.extract_memory = Size(1 << 20)).await;
    let reply = server.upload("a.md", "Some text. ".repeat(100_000)).await;
    assert_eq!(reply.code(), "extract_died");
}

#[tokio::test]
async fn documents_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let open = |folder: &Path| Arc::new(Library::open(folder, library_limits(&Settings::default())).unwrap());
    let server = start_with(open(folder.path()), None, |_| {});
    assert_eq!(
        server
            .upload("owl.md", "The owl turns its head by 270 degrees.")
            .await
            .status,
        201
    );
    assert_eq!(server.stop().await, Shutdown::Drained);
    let server = start_with(open(folder.path()), None, |_| {});
    let answer = server
        .ask(WHOLE, "How far does the owl turn its head?")
        .await
        .json();
    assert!(
        answer["answer"].as_str().unwrap().contains("270 degrees"),
        "{answer}"
    );
}
