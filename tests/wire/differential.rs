//! One turn, encoded on every wire and read back, gives the same answer, citations and outcome.
//! Wires with a decoder in this crate are read by it; the others as their users read them: parse
//! the JSON of each line, then look up the members that `PROTOCOL.md` names.

use bytes::BytesMut;
use proptest::prelude::*;
use ragwire::wire::openai::{OnFailure, Progress};
use ragwire::wire::{Decode, Finish, Wire};
use ragwire::{
    AgUi, AiSdk, Citation, End, Eve, Failure, Forge, Frame, Framed, LangGraph, Ndjson, Ollama, OpenAi,
    Responses, SessionChat, Sse, Status, Timestamp, TrustGraph,
};
use serde_json::Value;

use crate::generated::turn;

/// What a reader has at the end of a stream.
#[derive(Clone, Debug, PartialEq)]
struct Answer {
    text: String,
    citations: Vec<Citation>,
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    Completed,
    Stopped,
    Failed {
        code: String,
        message: String,
        recoverable: bool,
    },
}

/// A wire, how its stream is read, and where `PROTOCOL.md` says that it differs from the turn.
struct Row {
    wire: Box<dyn Wire>,
    read: fn(&[u8]) -> Answer,
    differences: &'static [fn(&mut Answer)],
}

fn row(wire: impl Wire + 'static, read: fn(&[u8]) -> Answer, differences: &'static [fn(&mut Answer)]) -> Row {
    let wire = Box::new(wire);
    Row {
        wire,
        read,
        differences,
    }
}

/// Every wire. To add one, add a row here and a reader below.
fn rows() -> Vec<Row> {
    let openai = || OpenAi::new("chatcmpl-1", 0, "rag");
    vec![
        row(
            Framed::default().citation_extras(),
            read_framed,
            &[without_evidence, with_sentence, without_separators],
        ),
        row(
            Framed::default(),
            read_framed,
            &[
                without_evidence,
                with_sentence,
                without_separators,
                with_strict_citations,
            ],
        ),
        row(Sse::default(), read_sse, &[]),
        row(Ndjson::default(), read_ndjson, &[]),
        row(
            Forge::default(),
            read_forge,
            &[without_evidence, with_code_of_forge],
        ),
        row(SessionChat::default(), read_session_chat, &[without_evidence]),
        row(AiSdk::default(), read_ai_sdk, &[without_evidence]),
        row(AgUi::new("t", "r"), read_ag_ui, &[without_evidence]),
        row(openai(), read_openai, &[without_evidence]),
        row(
            openai().progress(Progress::Comment),
            read_openai,
            &[without_evidence],
        ),
        row(
            openai().progress(Progress::None).on_failure(OnFailure::Text),
            read_openai,
            &[without_evidence, with_sentence],
        ),
        row(
            openai().progress(Progress::Extension),
            read_openai,
            &[without_evidence],
        ),
        row(
            Responses::new("resp_1", 0, "rag"),
            read_responses,
            &[without_evidence],
        ),
        row(
            Ollama::new("rag", Timestamp::from_micros(0)),
            read_ollama,
            &[without_evidence],
        ),
        row(Eve::new("s"), read_eve, &[without_evidence]),
        row(
            Eve::new("s").documented().turn(3).message("why?"),
            read_eve,
            &[without_evidence],
        ),
        row(
            TrustGraph::graph_rag("1").streaming(true),
            read_trustgraph,
            &[without_evidence],
        ),
        row(
            TrustGraph::document_rag("1"),
            read_trustgraph,
            &[without_evidence, without_partial_answer],
        ),
        row(
            TrustGraph::graph_rag("1").specified().streaming(true),
            read_trustgraph,
            &[without_evidence],
        ),
        row(LangGraph::new("r"), read_langgraph, &[without_evidence]),
    ]
}

// ---- the turn's own answer, and the documented differences ----

/// The answer of the turn itself.
fn answer_of(frames: &[Frame]) -> Answer {
    let (mut text, mut last) = (String::new(), None);
    for frame in frames {
        match frame {
            Frame::Text(piece) => text.push_str(piece),
            Frame::End(end) => last = Some(end),
            Frame::Event { .. } => {}
            Frame::Snapshot(_) => unreachable!("a whole turn has no snapshot"),
        }
    }
    let end: &End = last.unwrap();
    let mut citations = end.metadata.citations.clone();
    for citation in &mut citations {
        // JSON has finite numbers only.
        citation.score = citation.score.filter(|score| score.is_finite());
    }
    let outcome = outcome(&end.status);
    Answer {
        text,
        citations,
        outcome,
    }
}

fn outcome(status: &Status) -> Outcome {
    match status {
        Status::Completed => Outcome::Completed,
        Status::Stopped => Outcome::Stopped,
        Status::Failed(Failure {
            kind,
            message,
            recoverable,
            ..
        }) => Outcome::Failed {
            code: kind.to_string(),
            message: message.to_string(),
            recoverable: *recoverable,
        },
    }
}

/// [F-08]: a failed answer has no citations. The two lossless wires keep them (N-05).
fn without_evidence(answer: &mut Answer) {
    if let Outcome::Failed { .. } = answer.outcome {
        answer.citations.clear();
    }
}

/// [F-08]: the failure's message is appended to the answer.
fn with_sentence(answer: &mut Answer) {
    if let Outcome::Failed { message, .. } = &answer.outcome
        && !message.is_empty()
    {
        if !answer.text.is_empty() {
            answer.text.push_str("\n\n");
        }
        answer.text.push_str(message);
    }
}

/// [F-06]: citations have the members of ADR 0007.
fn with_strict_citations(answer: &mut Answer) {
    for citation in &mut answer.citations {
        citation.heading = None;
    }
}

/// [F-05]: separators in the answer are replaced.
fn without_separators(answer: &mut Answer) {
    answer.text = answer
        .text
        .replace('\u{1d}', "\u{241d}")
        .replace('\u{1e}', "\u{241e}");
}

/// Forge's codes are upper case, and it has its own code for the default failure.
fn with_code_of_forge(answer: &mut Answer) {
    if let Outcome::Failed { code, .. } = &mut answer.outcome {
        *code = match code.as_str() {
            "chat_failed" => "LLM_ERROR".into(),
            code => code.to_ascii_uppercase(),
        };
    }
}

/// A TrustGraph request that does not stream is answered with the error alone (T-06).
fn without_partial_answer(answer: &mut Answer) {
    if let Outcome::Failed { .. } = answer.outcome {
        answer.text.clear();
    }
}

// ---- readers: the decoders of this crate ----

fn decode(mut decoder: impl Decode, bytes: &[u8]) -> Answer {
    decoder.feed(bytes);
    let mut frames: Vec<Frame> = decoder.by_ref().map(Result::unwrap).collect();
    assert_eq!(decoder.finish(), Finish::Complete);
    frames.extend(decoder.map(Result::unwrap));
    answer_of(&frames)
}

fn read_framed(bytes: &[u8]) -> Answer {
    decode(Framed::default().decoder(), bytes)
}

fn read_sse(bytes: &[u8]) -> Answer {
    decode(Sse::default().decoder(), bytes)
}

fn read_ndjson(bytes: &[u8]) -> Answer {
    decode(Ndjson::default().decoder(), bytes)
}

fn read_langgraph(bytes: &[u8]) -> Answer {
    decode(LangGraph::new("").decoder(), bytes)
}

// ---- readers: as a user of the wire would ----

/// The objects on the `data:` lines, without a final `[DONE]`.
fn objects(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
    lines
        .filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

fn only<'a>(objects: &'a [Value], kind: &str) -> Option<&'a Value> {
    let mut found = objects.iter().filter(|object| object["type"] == kind);
    let first = found.next();
    assert_eq!(found.next(), None, "{kind} comes once");
    first
}

/// The strings in `member` of all objects of type `kind`, concatenated.
fn pieces(objects: &[Value], kind: &str, member: &str) -> String {
    let of_kind = objects.iter().filter(|object| object["type"] == kind);
    of_kind.map(|object| object[member].as_str().unwrap()).collect()
}

fn citations(list: &Value) -> Vec<Citation> {
    match list {
        Value::Null => Vec::new(),
        list => serde_json::from_value(list.clone()).unwrap(),
    }
}

fn failed(error: &Value) -> Outcome {
    let word = |name: &str| error[name].as_str().unwrap().to_owned();
    Outcome::Failed {
        code: word("code"),
        message: word("message"),
        recoverable: error["recoverable"].as_bool().unwrap(),
    }
}

/// Reads the object of [F-06], which several wires carry.
fn trailer(text: String, trailer: &Value) -> Answer {
    let outcome = match trailer["status"].as_str() {
        None => Outcome::Completed,
        Some("stopped") => Outcome::Stopped,
        Some("failed") => failed(&trailer["error"]),
        Some(status) => panic!("{status}"),
    };
    Answer {
        text,
        citations: citations(&trailer["citations"]),
        outcome,
    }
}

fn read_forge(bytes: &[u8]) -> Answer {
    let objects = objects(bytes);
    let done = only(&objects, "done").unwrap();
    assert_eq!(objects.last(), Some(done));
    let outcome = match (only(&objects, "error"), done["status"].as_str()) {
        (Some(error), None) => failed(error),
        (None, Some("stopped")) => Outcome::Stopped,
        (None, None) => Outcome::Completed,
        other => panic!("{other:?}"),
    };
    Answer {
        text: pieces(&objects, "token", "content"),
        citations: citations(&done["citations"]),
        outcome,
    }
}

fn read_session_chat(bytes: &[u8]) -> Answer {
    let objects = objects(bytes);
    let last = objects.last().unwrap();
    let text = last["response"]["content"].as_str().unwrap().to_owned();
    let mut answer = trailer(text, &last["metadata"]);
    if last["type"] == "complete" {
        assert_eq!(answer.outcome, Outcome::Completed);
        if !last["response"]["finished"].as_bool().unwrap() {
            answer.outcome = Outcome::Stopped;
        }
    } else {
        assert_eq!(last["type"], "error");
        let Outcome::Failed { message, .. } = &answer.outcome else {
            panic!("{last}")
        };
        assert_eq!(last["error"], **message);
    }
    answer
}

fn read_ai_sdk(bytes: &[u8]) -> Answer {
    assert!(bytes.ends_with(b"data: [DONE]\n\n"));
    let objects = objects(bytes);
    let text = pieces(&objects, "text-delta", "delta");
    let finish = only(&objects, "finish").unwrap();
    let metadata = only(&objects, "message-metadata").unwrap_or(finish);
    let answer = trailer(text, &metadata["messageMetadata"]);
    let (reason, error) = match &answer.outcome {
        Outcome::Completed => ("stop", None),
        Outcome::Stopped => ("other", None),
        Outcome::Failed { message, .. } => ("error", Some(message.as_str())),
    };
    assert_eq!(finish["finishReason"], reason);
    let reported = only(&objects, "error").map(|error| error["errorText"].as_str().unwrap());
    assert_eq!(reported, error);
    answer
}

fn read_ag_ui(bytes: &[u8]) -> Answer {
    let objects = objects(bytes);
    let text = pieces(&objects, "TEXT_MESSAGE_CONTENT", "delta");
    let last = objects.last().unwrap();
    if last["type"] == "RUN_FINISHED" {
        let answer = trailer(text, &last["result"]);
        assert_eq!(
            last["outcome"]["type"] == "cancelled",
            answer.outcome == Outcome::Stopped
        );
        return answer;
    }
    assert_eq!(last["type"], "RUN_ERROR");
    let answer = trailer(text, &last["metadata"]);
    let Outcome::Failed { code, message, .. } = &answer.outcome else {
        panic!("{last}")
    };
    assert_eq!(
        (&last["code"], &last["message"]),
        (&code.as_str().into(), &message.as_str().into())
    );
    answer
}

fn read_openai(bytes: &[u8]) -> Answer {
    assert!(bytes.ends_with(b"data: [DONE]\n\n"));
    let objects = objects(bytes);
    let deltas = objects
        .iter()
        .map(|chunk| &chunk["choices"][0]["delta"]["content"]);
    let text = deltas.filter_map(Value::as_str).collect();
    let last = objects.last().unwrap();
    let answer = trailer(text, &last["ragwire"]);
    if let (Some(error), Outcome::Failed { code, message, .. }) = (last.get("error"), &answer.outcome) {
        assert_eq!(
            (&error["code"], &error["message"]),
            (&code.as_str().into(), &message.as_str().into())
        );
    } else {
        assert_eq!(last["choices"][0]["finish_reason"], "stop");
    }
    answer
}

/// Reads the deltas and the last event, whose output must have the same text.
fn read_responses(bytes: &[u8]) -> Answer {
    let objects = objects(bytes);
    for (at, object) in objects.iter().enumerate() {
        assert_eq!(object["sequence_number"], at);
    }
    let text = pieces(&objects, "response.output_text.delta", "delta");
    let last = objects.last().unwrap();
    let response = &last["response"];
    let items = response["output"].as_array().unwrap();
    let added = objects
        .iter()
        .filter(|object| object["type"] == "response.output_item.added");
    assert_eq!(items.len(), added.count());
    let contents = items
        .iter()
        .filter_map(|item| item["content"][0]["text"].as_str());
    assert_eq!(contents.collect::<String>(), text);
    let answer = trailer(text, &response["ragwire"]);
    let (kind, status) = match &answer.outcome {
        Outcome::Completed => ("response.completed", "completed"),
        Outcome::Stopped => ("response.incomplete", "cancelled"),
        Outcome::Failed { message, .. } => {
            assert_eq!(response["error"]["message"], message.as_str());
            ("response.failed", "failed")
        }
    };
    assert_eq!(
        (&last["type"], &response["status"]),
        (&kind.into(), &status.into())
    );
    answer
}

fn read_ollama(bytes: &[u8]) -> Answer {
    let lines = json_lines(bytes);
    let contents = lines
        .iter()
        .filter_map(|line| line["message"]["content"].as_str());
    let text = contents.collect();
    let last = lines.last().unwrap();
    let answer = trailer(text, &last["ragwire"]);
    match &answer.outcome {
        Outcome::Failed { message, .. } => assert_eq!(last["error"], message.as_str()),
        Outcome::Completed | Outcome::Stopped => {
            assert_eq!(
                (&last["done"], &last["done_reason"]),
                (&true.into(), &"stop".into())
            );
        }
    }
    answer
}

/// Reads both vocabularies: the pieces of the answer, then the trailer in the last line.
fn read_eve(bytes: &[u8]) -> Answer {
    let lines: Vec<Value> = json_lines(bytes);
    let data = |kind: &'static str| {
        let of_kind = lines.iter().filter(move |line| line["type"] == kind);
        of_kind.map(|line| &line["data"])
    };
    let shipped = data("message.appended").filter_map(|data| data["messageDelta"].as_str());
    let documented = data("agent.content.delta").filter_map(|data| data["text"].as_str());
    let text = shipped.chain(documented).collect();
    let last = lines.last().unwrap();
    let answer = trailer(text, &last["data"]["metadata"]);
    if last["type"] == "session.waiting" {
        return answer;
    }
    assert_eq!(last["type"], "session.failed");
    let Outcome::Failed { code, message, .. } = &answer.outcome else {
        panic!("{last}")
    };
    let reported = last["data"]
        .get("error")
        .unwrap_or_else(|| &last["data"]["message"]);
    assert_eq!(
        (&last["data"]["code"], reported),
        (&code.as_str().into(), &message.as_str().into())
    );
    answer
}

/// Reads the pieces of a streamed answer or the whole of another; the trailer is in the last
/// message.
fn read_trustgraph(bytes: &[u8]) -> Answer {
    let messages: Vec<Value> = json_lines(bytes);
    let (last, before) = messages.split_last().unwrap();
    assert_eq!(last["complete"], true);
    assert!(before.iter().all(|message| message["complete"] == false));
    let text = |message: &Value| {
        let response = &message["response"];
        let piece = response.get("chunk").unwrap_or_else(|| &response["response"]);
        piece.as_str().unwrap_or_default().to_owned()
    };
    let pieces: String = before.iter().map(text).collect();
    let text = if pieces.is_empty() { text(last) } else { pieces };
    trailer(text, &last["response"]["metadata"])
}

fn json_lines(bytes: &[u8]) -> Vec<Value> {
    let lines = std::str::from_utf8(bytes).unwrap().lines();
    lines
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

// ---- the property ----

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_wire_carries_the_same_answer(frames in turn()) {
        for Row { wire, read, differences } in rows() {
            let (mut encoder, mut bytes) = (wire.encoder(), BytesMut::new());
            for frame in &frames {
                encoder.encode(frame, &mut bytes).unwrap();
            }
            let mut expected = answer_of(&frames);
            differences.iter().for_each(|change| change(&mut expected));
            prop_assert_eq!(read(&bytes), expected, "{}", wire.name());
        }
    }
}
