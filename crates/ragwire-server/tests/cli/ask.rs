//! `ask`: the requests it sends, and its output for every way in which an answer ends.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use bytes::BytesMut;
use ragwire::event::Search;
use ragwire::wire::{Encoder, Wire};
use ragwire::{End, Frame, Framed, Metadata, Ndjson, Sse};

use super::{Served, program, run};

#[test]
fn the_exit_status_of_ask_says_how_the_turn_ended() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(folder.path(), &[]);
    for (arguments, code) in [
        (&["What is BM25?"][..], 0),
        (&["--no-streaming", "What is BM25?"], 0),
        (
            &[
                "--review",
                "--effort",
                "high",
                "--session",
                "a.b-c_d",
                "What is BM25?",
            ],
            0,
        ),
        (&["fault:text"], 1),
        (&["fault:reject"], 1),
        (&["--no-streaming", "fault:text"], 1),
        (&["--effort", "huge", "x"], 2),
        (&["--session", "a/b", "x"], 2),
        (&["--wire", "sse", "--effort", "huge", "x"], 2),
        (&["--wire", "sse", "--session", "a/b", "x"], 2),
        (&["--no-streaming", "--session", "a/b", "x"], 2),
        (&[], 2),
    ] {
        let (status, stdout, stderr) = server.ask(arguments);
        assert_eq!(status, code, "{arguments:?}: {stderr}");
        assert_eq!(stdout.is_empty(), stdout.trim().is_empty(), "{stdout:?}");
    }
    let hostile = server.ask(&["fault:hostile"]);
    assert!(!hostile.1.contains(['\u{1d}', '\u{1e}', '\u{1b}']) && !hostile.2.contains('\u{1b}'));
    let address = server.address.clone();
    drop(server);
    let gone = run(&mut program(&["ask", "--server", &address, "x"]));
    assert!(gone.0 == 2 && gone.2.contains("cannot reach"), "{}", gone.2);
}

/// Status, stdout and stderr of a run of the program.
pub(crate) type Said = (i32, String, String);

pub(crate) fn said(code: i32, stdout: impl Into<String>, stderr: impl Into<String>) -> Said {
    (code, stdout.into(), stderr.into())
}

const WIRES: [&str; 3] = ["framed", "sse", "ndjson"];

/// Ignores the time that a search took, which differs each time.
pub(crate) fn without_times(said: Said) -> Said {
    let stderr: Vec<_> = said
        .2
        .split('\n')
        .map(|line| match line.rsplit_once(" in ") {
            Some((start, time)) if time.ends_with(" ms") => format!("{start} in some ms"),
            _ => line.to_owned(),
        })
        .collect();
    (said.0, said.1, stderr.join("\n"))
}

#[test]
fn every_wire_shows_the_same_turn() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(folder.path(), &[]);
    let plain = said(
        0,
        "BM25 is a ranking function that scores a passage by the words it shares with the question. [1]\n",
        "· searching with bm25_search: What is BM25?\n\
         · found 2 passages in some ms\n\
         · 2 of 2 passages fit the question\n\
         · reading 2 passages\n\
         · choosing sentences\n\
         · 1 of 1 claim supported\n\
         [1] sample/retrieval.md, Retrieval without a model > BM25: \"BM25 is a ranking function that scores a passage \
         by the words it shares with the question.\"\n",
    );
    let mut reviewed = plain.clone();
    let rest = reviewed.2.find("· reading").unwrap();
    let review = "· review 1: approved: 2 of 2 passages answer and 0 may, says lexical\n";
    reviewed.2.insert_str(rest, review);
    for wire in WIRES {
        let cases: [(&[&str], &Said); 6] = [
            (&[], &plain),
            (&["--mode", "direct"], &plain),
            (&["--effort", "high", "--session", "a.b-c_d"], &plain),
            (&["--review"], &reviewed),
            // One search is enough, so an agent stops there.
            (&["--mode", "agentic"], &plain),
            (&["--mode", "direct", "--review"], &reviewed),
        ];
        for (flags, expected) in cases {
            let arguments = [flags, &["--wire", wire, "What is BM25?"]].concat();
            assert_eq!(&without_times(server.ask(&arguments)), expected, "{arguments:?}");
        }
    }
}

#[test]
fn every_wire_shows_how_a_turn_ended() {
    const MESSAGE: &str = "I hit an internal error while gathering evidence. Please retry.";
    const CUT_SHORT: &str = "· the answer was cut short: the model reached its limit, or repeated itself\n";
    const HOSTILE: &str =
        "<img src=x onerror=\"document.title='owned'\"> \u{241e}{\"citations\":[]} \u{241d} [1] </script>";
    const UNICODE: &str = "h\u{e9} \u{1f600}\u{200d}\u{1f680} a\u{2028}b\u{2029}c\u{fffd}d\u{240b}e\u{240c}f\u{240d}\ng\u{240d}h\ti\u{2400}j\u{2401}k\u{241b}l\u{241d}m\u{241e}n\u{2421}o\u{feff}p\\u2028 data: x\n\nevent: y\n\n";
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let server = Served::start(folders[0].path(), &[]);
    // Empty lines and comments arrive while it waits.
    let impatient = Served::start(
        folders[1].path(),
        &["--idle-timeout", "1s", "--keep-alive", "100ms"],
    );
    let begun = |fault: &str| format!("· searching with fault: {fault}\n");
    let failed = |fault: &str| {
        let begun = begun(fault);
        format!("{begun}\nthe turn failed: {MESSAGE} (chat_failed)\n")
    };
    let one_line = UNICODE.replace('\n', " ");
    let steps: String = (1..=10).map(|step| format!("· Step {step} of 10.\n")).collect();
    let words: String = (1..=40).map(|word| format!("word{word} ")).collect();
    let cases = [
        (&server, "empty", said(0, "", "")),
        (&server, "no-events", said(0, "Yes, it is.\n", "")),
        (
            &server,
            "reject",
            said(
                1,
                "",
                format!("error: {MESSAGE} (500 Internal Server Error, chat_failed)\n"),
            ),
        ),
        (
            &server,
            "retrieval",
            said(1, format!("{MESSAGE}\n"), failed("retrieval")),
        ),
        (
            &server,
            "text",
            said(
                1,
                format!("The first half of an answer that breaks \n\n{MESSAGE}\n"),
                failed("text"),
            ),
        ),
        (&server, "panic", said(1, format!("{MESSAGE}\n"), failed("panic"))),
        (
            &server,
            "stop",
            said(
                3,
                "The first half of an answer \n",
                begun("stop") + "\nthe turn was stopped\n",
            ),
        ),
        (
            &server,
            "length",
            said(0, "The first half of an answer\n", begun("length") + CUT_SHORT),
        ),
        (
            &impatient,
            "silent",
            said(
                1,
                "The answer took too long. Please retry.\n",
                begun("silent") + "\nthe turn failed: The answer took too long. Please retry. (timeout)\n",
            ),
        ),
        (&server, "slow", said(0, words + "\n", begun("slow") + &steps)),
        (
            &server,
            "hostile",
            said(
                0,
                format!("{HOSTILE}\n"),
                begun("hostile") + &format!("· {HOSTILE}\n[1] ../../etc: \"{HOSTILE}\"\n"),
            ),
        ),
        (
            &server,
            "unicode",
            said(
                0,
                format!("{UNICODE}\n"),
                begun("unicode") + &format!("· {one_line}\n[1] doc\u{2028}1: \"{one_line}\"\n"),
            ),
        ),
    ];
    std::thread::scope(|scope| {
        for (server, fault, expected) in &cases {
            for wire in WIRES {
                scope.spawn(move || {
                    // Questions of one session would wait for each other.
                    let session = format!("{fault}-{wire}");
                    let answer =
                        server.ask(&["--session", &session, "--wire", wire, &format!("fault:{fault}")]);
                    assert_eq!(&answer, expected, "{fault} on {wire}");
                });
            }
        }
    });
}

/// Reads a question to its end: closing a socket with unread data discards what was sent on it.
fn read_question(socket: &mut TcpStream) -> String {
    let mut question = Vec::new();
    let mut bytes = [0; 4096];
    while !question.ends_with(b"}") {
        let read = socket.read(&mut bytes).unwrap();
        assert!(read > 0, "the question ends with its JSON");
        question.extend_from_slice(&bytes[..read]);
    }
    String::from_utf8(question).unwrap()
}

/// A server that sends each of `responses` to one question and then closes the connection. It ends
/// after the last one.
pub(crate) fn says(responses: Vec<Vec<u8>>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let questions = std::thread::spawn(move || {
        let answer = |response: Vec<u8>| {
            let (mut socket, _) = listener.accept().unwrap();
            let question = read_question(&mut socket);
            socket.write_all(&response).unwrap();
            question
        };
        responses.into_iter().map(answer).collect()
    });
    (format!("http://{address}"), questions)
}

/// A response that ends with its connection, so that only the wire shows whether it is complete.
pub(crate) fn response(content_type: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\n{content_type}connection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

const PLAIN: &str = "content-type: text/plain\r\n";
const SSE: &str = "content-type: text/event-stream\r\n";
const NDJSON: &str = "content-type: application/x-ndjson\r\n";

#[test]
fn an_answer_truncated_anywhere_is_detected_on_every_wire() {
    fn check(wire: &str, content_type: &str, encoder: &mut Encoder) {
        let frames = [
            Frame::Event {
                event: Search::new("bm25").query("why?").into(),
                timestamp: None,
            },
            Frame::Text("Y\u{e9}\u{1f600}".into()),
            Frame::Text(" no.".into()),
            Frame::End(End::completed(Metadata::default())),
        ];
        let (mut body, mut ends) = (BytesMut::new(), Vec::new());
        for frame in &frames {
            encoder.encode(frame, &mut body).unwrap();
            ends.push(body.len());
        }
        let texts_before = |cut: usize| match wire {
            // Text is shown as its bytes arrive, and half a character as a replacement character.
            "framed" => {
                let end = body.iter().position(|byte| *byte == 0x1e).unwrap();
                let text = body.get(ends[0] + 1..cut.min(end)).unwrap_or_default();
                String::from_utf8_lossy(text).into_owned()
            }
            _ => {
                let texts = [(ends[1], "Y\u{e9}\u{1f600}"), (ends[2], " no.")];
                let whole = texts.into_iter().filter(|(end, _)| *end <= cut);
                whole.map(|(_, text)| text).collect()
            }
        };
        let responses = (0..=body.len()).map(|cut| response(content_type, &body[..cut]));
        let (server, questions) = says(responses.collect());
        for cut in 0..=body.len() {
            let step = if cut < ends[0] {
                ""
            } else {
                "· searching with bm25: why?\n"
            };
            let expected = if cut < body.len() {
                let error = "error: the connection closed early: the answer is incomplete\n";
                let text = texts_before(cut);
                let line_feed = if step.is_empty() && text.is_empty() {
                    ""
                } else {
                    "\n"
                };
                said(4, text, format!("{step}{line_feed}{error}"))
            } else {
                said(0, "Y\u{e9}\u{1f600} no.\n", step)
            };
            let answer = run(&mut program(&["ask", "--server", &server, "--wire", wire, "x"]));
            assert_eq!(answer, expected, "{wire}, cut at {cut} of {}", body.len());
        }
        assert_eq!(questions.join().unwrap().len(), body.len() + 1);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| check("framed", PLAIN, &mut Framed::default().encoder()));
        scope.spawn(|| check("sse", SSE, &mut Sse::default().encoder()));
        scope.spawn(|| check("ndjson", NDJSON, &mut Ndjson::default().encoder()));
    });
}

#[test]
fn an_answer_that_breaks_the_rules_is_an_error() {
    const BROKEN_OFF: &str = "\nerror: the connection closed early: the answer is incomplete\n";
    const GAP: &str = "\nerror: the stream cannot be read: a frame is missing or repeated\n";
    const NO_EVENT: &str = "error: the stream cannot be read: line is not an event\n";
    let wire = |wire: &'static str, content_type: &str, body: &str, expected: Said| {
        (wire, response(content_type, body.as_bytes()), expected)
    };
    let chunked = |name: &'static str, content_type: &str, body: &str| {
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\n{content_type}transfer-encoding: chunked\r\n\r\n");
        let bytes = format!("{head}{length:x}\r\n{body}\r\n");
        (name, bytes.into_bytes(), said(4, "Hi", BROKEN_OFF))
    };
    let other = |name: &'static str, content_type: &str, error: &str| {
        let error = format!("error: the server answered with {error}\n");
        wire(name, content_type, "\x1dHi\x1e{}", said(4, "", error))
    };
    let hi = "id: 0\nevent: text\ndata: {\"text\":\"Hi\"}\n\n";
    let line = "{\"index\":0,\"text\":\"Hi\"}\n";
    let cases = [
        wire("framed", PLAIN, "\x1dHi\x1e{}", said(0, "Hi\n", "")),
        wire(
            "framed",
            PLAIN,
            "\x1dHi\x1e{\"status\":\"stopped\"}",
            said(3, "Hi\n", "\nthe turn was stopped\n"),
        ),
        wire("framed", PLAIN, "<html>\n", said(4, "", NO_EVENT)),
        chunked("framed", PLAIN, "\x1dHi"),
        wire(
            "sse",
            "content-type: Text/Event-Stream; charset=utf-8\r\n",
            &format!(
                ": keep-alive\n\n{hi}: keep-alive\n\n\nid: 1\nevent: end\ndata: {{\"end\":\"completed\"}}\n\n"
            ),
            said(0, "Hi\n", ""),
        ),
        wire(
            "sse",
            SSE,
            &format!("{hi}id: 1\nevent: end\ndata: {{\"end\":\"stopped\"}}\n\n"),
            said(3, "Hi\n", "\nthe turn was stopped\n"),
        ),
        wire(
            "sse",
            SSE,
            &format!("{hi}id: 2\nevent: end\ndata: {{\"end\":\"completed\"}}\n\n"),
            said(4, "Hi", GAP),
        ),
        wire("sse", SSE, &format!("{hi}{hi}"), said(4, "Hi", GAP)),
        wire("sse", SSE, "data: <html>\n\n", said(4, "", NO_EVENT)),
        chunked("sse", SSE, hi),
        wire(
            "ndjson",
            NDJSON,
            &format!("\n{line}\n{{\"index\":1,\"end\":\"stopped\"}}\n"),
            said(3, "Hi\n", "\nthe turn was stopped\n"),
        ),
        wire(
            "ndjson",
            NDJSON,
            &format!("{line}{{\"index\":2,\"end\":\"completed\"}}\n"),
            said(4, "Hi", GAP),
        ),
        wire("ndjson", NDJSON, "<html>\n", said(4, "", NO_EVENT)),
        chunked("ndjson", NDJSON, line),
        other("framed", "", "no content type, not with text/plain"),
        other(
            "framed",
            "content-type: text/html\r\n",
            "text/html, not with text/plain",
        ),
        other("sse", PLAIN, "text/plain, not with text/event-stream"),
        other("ndjson", SSE, "text/event-stream, not with application/x-ndjson"),
    ];
    for (wire, bytes, expected) in cases {
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let (server, questions) = says(vec![bytes]);
        let answer = run(&mut program(&["ask", "--server", &server, "--wire", wire, "x"]));
        assert_eq!(answer, expected, "{wire}: {shown:?}");
        questions.join().unwrap();
    }
}

#[test]
fn the_request_follows_from_flags_and_environment() {
    let turns = |accept: &str, body: &str| ("/v1/turns".to_owned(), accept.to_owned(), body.to_owned());
    let whole = |session: &str, body: &str| {
        let path = format!("/v1/rag/sessions/{session}/messages");
        (path, "application/json".to_owned(), body.to_owned())
    };
    let plain = r#"{"prompt":"x y","review_enabled":false,"session_id":"cli"}"#;
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], (String, String, String));
    let cases: &[Case<'_>] = &[
        (&[], &[], turns("text/plain", plain)),
        (&["--wire", "framed"], &[], turns("text/plain", plain)),
        (&["--wire", "sse"], &[], turns("text/event-stream", plain)),
        (&["--wire", "ndjson"], &[], turns("application/x-ndjson", plain)),
        (&[], &[("RAGWIRE_WIRE", "sse")], turns("text/event-stream", plain)),
        (
            &["--wire", "ndjson"],
            &[("RAGWIRE_WIRE", "sse")],
            turns("application/x-ndjson", plain),
        ),
        (
            &[
                "--wire",
                "sse",
                "--session",
                "a b",
                "--effort",
                "low",
                "--review",
                "--mode",
                "direct",
            ],
            &[("RAGWIRE_MODE", "agentic")],
            turns(
                "text/event-stream",
                r#"{"prompt":"x y","review_enabled":true,"reasoning_effort":"low","mode":"direct","session_id":"a b"}"#,
            ),
        ),
        (
            &["--no-streaming", "--session", "a/b-c", "--effort", "low"],
            &[],
            whole(
                "a%2Fb-c",
                r#"{"prompt":"x y","review_enabled":false,"reasoning_effort":"low"}"#,
            ),
        ),
        (
            &[
                "--folder", "guide", "--folder", "api", "--type", "pdf", "--since", "2026",
            ],
            &[("RAGWIRE_TAG", "web"), ("RAGWIRE_FOLDER", "other")],
            turns(
                "text/plain",
                r#"{"prompt":"x y","review_enabled":false,"filter":{"folders":["guide","api"],"kinds":["pdf"],"tags":["web"],"since":"2026"},"session_id":"cli"}"#,
            ),
        ),
        (
            &["--no-streaming", "--language", "en", "--until", "2026-01"],
            &[],
            whole(
                "cli",
                r#"{"prompt":"x y","review_enabled":false,"filter":{"languages":["en"],"until":"2026-01"}}"#,
            ),
        ),
        // A flag wins over the environment, even if they contradict each other.
        (
            &["--no-streaming"],
            &[("RAGWIRE_WIRE", "sse"), ("RAGWIRE_MODE", "agentic")],
            whole("cli", r#"{"prompt":"x y","review_enabled":false}"#),
        ),
        (
            &["--wire", "sse"],
            &[("RAGWIRE_NO_STREAMING", "yes")],
            turns("text/event-stream", plain),
        ),
        (
            &["--mode", "agentic"],
            &[("RAGWIRE_NO_STREAMING", "yes")],
            turns(
                "text/plain",
                r#"{"prompt":"x y","review_enabled":false,"mode":"agentic","session_id":"cli"}"#,
            ),
        ),
        (
            &["--no-streaming=false", "--wire", "sse"],
            &[],
            turns("text/event-stream", plain),
        ),
    ];
    for (flags, environment, (path, accept, body)) in cases {
        let (server, questions) = says(vec![b"HTTP/1.1 503 Down\r\ncontent-length: 0\r\n\r\n".to_vec()]);
        let mut command = program(&["ask", "--server", &server]);
        let answer = run(command
            .args(*flags)
            .args(["x", "y"])
            .env("RAGWIRE_SESSION", "cli")
            .envs(environment.iter().copied()));
        // Checked before waiting for the server: it would not end without a question.
        let refused = "error: the server refused the request (503 Service Unavailable, unknown)\n";
        assert_eq!(answer, said(1, "", refused), "{flags:?} {environment:?}");
        let (host, length) = (server.trim_start_matches("http://"), body.len());
        assert_eq!(
            questions.join().unwrap(),
            [format!(
                "POST {path} HTTP/1.1\r\ncontent-type: application/json\r\naccept: {accept}\r\nhost: {host}\r\n\
                 content-length: {length}\r\n\r\n{body}"
            )],
            "{flags:?} {environment:?}"
        );
    }
}

#[test]
fn contradictory_flags_are_refused_with_a_reason() {
    let no_wire = "unknown wire `tcp`: write one of framed, sse, ndjson";
    let no_mode = "unknown mode `fast`: write one of agentic, direct";
    let help = "\n\nFor more information, try '--help'.\n";
    let contradiction = |name: &str| {
        format!(
            "error: no-streaming and {name} contradict each other: an answer in one piece does not support {name}\n"
        )
    };
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], String);
    let cases: &[Case<'_>] = &[
        (
            &["--wire", "tcp"],
            &[],
            format!("error: invalid value 'tcp' for '--wire <NAME>': {no_wire}{help}"),
        ),
        (
            &["--mode", "fast"],
            &[],
            format!("error: invalid value 'fast' for '--mode <MODE>': {no_mode}{help}"),
        ),
        (
            &[],
            &[("RAGWIRE_WIRE", "tcp")],
            format!(
                "error: environment variable RAGWIRE_WIRE: invalid value 'tcp' for '--wire <NAME>': {no_wire}\n"
            ),
        ),
        (
            &["--no-streaming", "--wire", "framed"],
            &[],
            contradiction("wire"),
        ),
        (
            &["--no-streaming", "--mode", "direct"],
            &[],
            contradiction("mode"),
        ),
        (
            &[],
            &[("RAGWIRE_NO_STREAMING", "1"), ("RAGWIRE_WIRE", "sse")],
            contradiction("wire"),
        ),
    ];
    for (flags, environment, error) in cases {
        let mut command = program(&["ask"]);
        let answer = run(command.args(*flags).arg("x").envs(environment.iter().copied()));
        assert_eq!(answer, said(2, "", error), "{flags:?} {environment:?}");
    }
}
