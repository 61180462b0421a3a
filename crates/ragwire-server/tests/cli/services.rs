//! `ask --service`: TrustGraph's two services, over the socket and over HTTP.

use std::net::TcpListener;
use std::path::Path;
use std::thread::JoinHandle;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, accept};

use super::ask::{Said, response, said, says, without_times};
use super::{Served, program, run};

const QUESTION: &str = "What does a turn use?";
const NO_QUESTION: &str = "error: no question; write it after `ask`, or pipe it to stdin\n";

/// A server with one document.
fn served(folder: &Path) -> Served {
    let docs = folder.join("docs");
    std::fs::create_dir_all(&docs).unwrap();
    let text = "# Turns\n\nA turn uses a bounded queue.\n\n# Queues\n\nThe bounded queue holds frames.";
    std::fs::write(docs.join("turns.md"), text).unwrap();
    Served::start(&folder.join("data"), &["--docs", docs.to_str().unwrap()])
}

#[test]
fn each_service_prints_the_same_streaming_and_in_one_response() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path());
    let citation = "[1] docs/turns.md, Turns: \"A turn uses a bounded queue.\"\n";
    let graph = |hops: &str| {
        format!(
            "· searching with graph_traverse: {QUESTION}\n{hops}· reading 1 passage\n· choosing sentences\n{citation}"
        )
    };
    let one = "    turn | uses | bounded queue\n";
    let near = graph(&format!(
        "· followed 1 statement\n{one}· found 1 passage in some ms\n· followed 1 statement\n{one}"
    ));
    let documents = format!(
        "· searching with bm25_search: {QUESTION}\n· found 2 passages in some ms\n· searching with bm25_search: turn\n\
         · found 2 passages in some ms\n· kept the best 1 of 4\n· reading 1 passage\n· choosing sentences\n{citation}"
    );
    for (service, limits, steps) in [
        ("graph-rag", &["--limit", "max-path-length=1"][..], near),
        (
            "document-rag",
            &["--limit", "doc-limit=1", "fetch-limit=5"],
            documents,
        ),
    ] {
        for streaming in [
            &["--streaming"][..],
            &["--streaming=false"],
            &["--no-streaming"],
            &[],
        ] {
            let arguments = [&["--service", service], streaming, limits, &["-q", QUESTION]].concat();
            let answer = without_times(server.ask(&arguments));
            assert_eq!(
                answer,
                said(0, "A turn uses a bounded queue. [1]\n", &*steps),
                "{arguments:?}"
            );
        }
    }
    // A path with a second step.
    let (code, stdout, stderr) = server.ask(&["--service", "graph-rag", "--streaming", "-q", QUESTION]);
    assert_eq!((code, &*stdout), (0, "A turn uses a bounded queue. [1]\n"));
    assert!(
        stderr.contains("    bounded queue | contains | frames\n"),
        "{stderr}"
    );
}

#[test]
fn the_exit_status_says_how_a_service_ended() {
    const SORRY: &str = "I hit an internal error while gathering evidence. Please retry.";
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path());
    let failed = || format!("\nthe turn failed: {SORRY} (chat_failed)\n");
    let search = |fault: &str| format!("· searching with fault: {fault}\n");
    let cases: [(&str, &[&str], Said, Said); 7] = [
        (
            "fault:no-events",
            &[],
            said(0, "Yes, it is.\n", ""),
            said(0, "Yes, it is.\n", ""),
        ),
        ("fault:empty", &[], said(0, "", ""), said(0, "", "")),
        (
            "fault:reject",
            &[],
            said(1, format!("{SORRY}\n"), failed()),
            said(1, format!("{SORRY}\n"), failed()),
        ),
        (
            "fault:text",
            &[],
            said(
                1,
                format!("The first half of an answer that breaks \n\n{SORRY}\n"),
                search("text") + &failed(),
            ),
            // The text sent before the failure is not part of the single response.
            said(1, format!("{SORRY}\n"), search("text") + &failed()),
        ),
        (
            "fault:stop",
            &[],
            said(
                3,
                "The first half of an answer \n",
                search("stop") + "\nthe turn was stopped\n",
            ),
            said(
                3,
                "The first half of an answer \n",
                search("stop") + "\nthe turn was stopped\n",
            ),
        ),
        (
            "x",
            &["--limit", "entity-limit=0"],
            said(
                2,
                "",
                "error: `entity-limit` must be a whole number from 1 to 1000. (error)\n",
            ),
            said(
                2,
                "",
                "error: `entity-limit` must be a whole number from 1 to 1000. (request-error)\n",
            ),
        ),
        (" ", &[], said(2, "", NO_QUESTION), said(2, "", NO_QUESTION)),
    ];
    for (question, more, streamed, whole) in cases {
        for (streaming, expected) in [("--streaming", streamed), ("--streaming=false", whole)] {
            let arguments = [&["--service", "graph-rag", streaming], more, &["-q", question]].concat();
            assert_eq!(server.ask(&arguments), expected, "{arguments:?}");
        }
    }
    let address = server.address.clone();
    drop(server);
    for streaming in ["--streaming", "--streaming=false"] {
        let gone = run(&mut program(&[
            "ask",
            "--server",
            &address,
            "--service",
            "graph-rag",
            streaming,
            "x",
        ]));
        assert!(gone.0 == 2 && gone.2.contains("cannot reach"), "{}", gone.2);
    }
}

/// A WebSocket server that sends each of `plays` to one request and then disconnects. It ends after
/// the last one.
fn plays(plays: Vec<Vec<Value>>) -> (String, JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let requests = std::thread::spawn(move || {
        let play = |messages: Vec<Value>| {
            let mut socket = accept(listener.accept().unwrap().0).unwrap();
            let request = socket.read().unwrap();
            for message in messages {
                socket.send(Message::text(message.to_string())).unwrap();
            }
            serde_json::from_str(request.to_text().unwrap()).unwrap()
        };
        plays.into_iter().map(play).collect()
    });
    (format!("http://{address}/"), requests)
}

#[test]
fn a_broken_socket_or_invalid_messages_are_reported() {
    const BROKEN: &str = "\nerror: the connection closed early: the answer is incomplete\n";
    let text = |text: &str| json!({"id": "ask", "response": {"message_type": "chunk", "response": text}, "complete": false});
    let end = json!({"id": "ask", "response": {"message_type": "end"}, "complete": true});
    let other = json!({"id": "ask", "response": {"message_type": "new-one", "x": 1}, "complete": false});
    let literal = json!({"s": {"t": "i", "i": "urn:x"}, "p": {"t": "i", "i": "urn:ragwire:relation:is%5Fa"}, "o": {"t": "l", "v": "a\n\u{1b}b"}});
    let explain = json!({"id": "ask", "response": {"message_type": "explain", "explain_id": "e1", "explain_triples": [literal]}, "complete": false});
    let unreadable =
        json!({"error": {"message": "The message is not a JSON object.", "type": "error"}, "complete": true});
    let cases = [
        (vec![], said(4, "", BROKEN.trim_start())),
        (vec![text("Hi")], said(4, "Hi", BROKEN)),
        (
            vec![text("Hi"), text(" you"), end.clone()],
            said(0, "Hi you\n", ""),
        ),
        (vec![other, text("Hi"), end.clone()], said(0, "Hi\n", "")),
        (
            vec![explain, end],
            said(0, "", "· followed 1 statement\n    urn:x | is_a | a ␛b\n"),
        ),
        (
            vec![unreadable],
            said(2, "", "error: The message is not a JSON object. (error)\n"),
        ),
    ];
    for (messages, expected) in cases {
        let shown = format!("{messages:?}");
        let (server, requests) = plays(vec![messages]);
        let mut command = program(&[
            "ask",
            "--server",
            &server,
            "--service",
            "document-rag",
            "--streaming",
        ]);
        let answer = run(command.args(["--limit", "doc-limit=3", "-q", "x y"]));
        assert_eq!(answer, expected, "{shown}");
        let request = json!({"query": "x y", "collection": "default", "streaming": true, "doc-limit": 3});
        assert_eq!(
            requests.join().unwrap(),
            [json!({"id": "ask", "service": "document-rag", "flow": "default", "request": request})]
        );
    }
    // No WebSocket there.
    let refusal = b"HTTP/1.1 503 Down\r\ncontent-length: 48\r\n\r\n{\"error\":{\"code\":\"busy\",\"message\":\"Come later.\"}}".to_vec();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let mut socket = listener.accept().unwrap().0;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        socket.write_all(&refusal).unwrap();
    });
    let answer = run(&mut program(&[
        "ask",
        "--server",
        &address,
        "--service",
        "graph-rag",
        "--streaming",
        "x",
    ]));
    answering.join().unwrap();
    assert_eq!((answer.0, answer.1.as_str()), (1, ""), "{}", answer.2);
    assert!(answer.2.contains("503 Service Unavailable"), "{}", answer.2);
}

#[test]
fn the_request_to_a_service_follows_from_flags_and_environment() {
    let graph = "/api/v1/flow/default/service/graph-rag";
    let plain = r#"{"query":"x y","collection":"default","streaming":false}"#;
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str, &'a str);
    let cases: &[Case<'_>] = &[
        (&["--service", "graph-rag"], &[], graph, plain),
        (&[], &[("RAGWIRE_SERVICE", "graph-rag")], graph, plain),
        (
            &["--limit", "triple-limit=7"],
            &[("RAGWIRE_SERVICE", "graph-rag"), ("RAGWIRE_STREAMING", "no")],
            graph,
            r#"{"query":"x y","collection":"default","streaming":false,"triple-limit":7}"#,
        ),
        // A flag wins over a variable that contradicts it.
        (
            &["--service", "graph-rag"],
            &[
                ("RAGWIRE_WIRE", "sse"),
                ("RAGWIRE_SESSION", "s"),
                ("RAGWIRE_EFFORT", "low"),
            ],
            graph,
            plain,
        ),
        (
            &["--no-streaming"],
            &[("RAGWIRE_STREAMING", "yes"), ("RAGWIRE_SERVICE", "graph-rag")],
            graph,
            plain,
        ),
        (
            &["--wire", "sse"],
            &[
                ("RAGWIRE_SERVICE", "graph-rag"),
                ("RAGWIRE_LIMIT", "edge-limit=1"),
            ],
            "/v1/turns",
            r#"{"prompt":"x y","review_enabled":false,"session_id":"cli"}"#,
        ),
    ];
    for (flags, environment, path, body) in cases {
        let (server, questions) = says(vec![response("content-type: application/json\r\n", b"nothing")]);
        let mut command = program(&["ask", "--server", &server]);
        let answer = run(command
            .args(*flags)
            .args(["-q", "x y"])
            .envs((*path == "/v1/turns").then_some(("RAGWIRE_SESSION", "cli")))
            .envs(environment.iter().copied()));
        assert_eq!(answer.0, 4, "{flags:?} {environment:?}: {}", answer.2);
        let asked = questions.join().unwrap().remove(0);
        assert!(asked.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{asked}");
        assert_eq!(
            asked.split_once("\r\n\r\n").unwrap().1,
            *body,
            "{flags:?} {environment:?}"
        );
    }
}

#[test]
fn contradictory_flags_of_a_service_are_refused_with_a_reason() {
    let of_ours = |name: &str| {
        format!(
            "error: service and {name} contradict each other: TrustGraph's services do not support {name}\n"
        )
    };
    let cases: &[(&[&str], String)] = &[
        (&["--service", "graph-rag", "--wire", "sse"], of_ours("wire")),
        (&["--service", "graph-rag", "--review"], of_ours("review")),
        (
            &["--service", "document-rag", "--session", "a"],
            of_ours("session"),
        ),
        (
            &["--limit", "doc-limit=1"],
            "error: limit requires service\n".into(),
        ),
        (
            &["--streaming", "--no-streaming"],
            "error: no-streaming and streaming contradict each other\n".into(),
        ),
    ];
    for (flags, error) in cases {
        let answer = run(program(&["ask"]).args(*flags).args(["-q", "x"]));
        assert_eq!(answer, said(2, "", error.as_str()), "{flags:?}");
    }
    for (flags, error) in [
        (
            &["--service", "rag", "x"][..],
            "unknown service `rag`: write one of graph-rag, document-rag",
        ),
        (
            &["--service", "graph-rag", "--limit", "doc-limit", "-q", "x"],
            "`doc-limit` is not a limit; write entity-limit=10",
        ),
        (&["-q", "x", "y"], "cannot be used with"),
    ] {
        let answer = run(program(&["ask"]).args(flags));
        assert!(
            answer.0 == 2 && answer.2.contains(error),
            "{flags:?}: {}",
            answer.2
        );
    }
}
