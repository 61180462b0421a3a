//! Streams as the servers of the seeds' pages write them: Forge, the session chat, Eve's page of
//! events and flue-eve.

use ragwire::event::{InputRequested, RetrievalStart, RoundStart, Thinking, ToolCall, ToolResult};
use ragwire::wire::{Decode, DecodeError, Finish};
use ragwire::{
    End, Eve, Failure, FailureKind, Forge, Frame, Metadata, SessionChat, Status, Timestamp, Timing, Usage,
};
use serde_json::json;

use crate::frames::{event, text};

fn decode(mut decoder: impl Decode, stream: &str) -> (Vec<Frame>, Finish) {
    // Cut where it hurts: within lines and characters.
    for piece in stream.as_bytes().chunks(3) {
        decoder.feed(piece);
    }
    let mut frames: Vec<Frame> = decoder.by_ref().map_while(Result::ok).collect();
    let finish = decoder.finish();
    frames.extend(decoder.map_while(Result::ok));
    (frames, finish)
}

#[test]
fn forge() {
    let stream = "event: retrieval_start\ndata: {\"type\":\"retrieval_start\",\"tool\":\"semantic_search\",\"query\":\"authentication\",\"iteration\":2}\n\n\
        event: token\ndata: {\"content\":\"The auth\"}\n\n\
        event: token\ndata: {\"type\":\"token\",\"content\":\"entication\"}\n\n\
        event: done\ndata: {\"type\":\"done\",\"total_time_ms\":7240,\"tokens_generated\":312,\"iterations\":6,\"tools_used\":[\"semantic_search\"],\"sources_count\":5,\"confidence\":0.9,\"mode\":\"agentic\",\"cached\":false}\n\n";
    let metadata = Metadata::default()
        .mode("agentic")
        .tools_used(["semantic_search"])
        .usage(Usage::new().output_tokens(312u64));
    let expected = vec![
        event(RetrievalStart::new("semantic_search", "authentication", 2u32)),
        text("The auth"),
        text("entication"),
        Frame::End(End::completed(metadata)),
    ];
    assert_eq!(
        decode(Forge::default().decoder(), stream),
        (expected, Finish::Complete)
    );
}

#[test]
fn forge_reports_its_error_with_and_without_done() {
    let error = "event: error\ndata: {\"type\":\"error\",\"message\":\"CUDA out of memory\",\"code\":\"LLM_ERROR\",\"recoverable\":false}\n\n";
    let failure = Failure::new(FailureKind::ChatFailed, "CUDA out of memory").permanent();
    for done in [
        "",
        "event: done\ndata: {\"type\":\"done\",\"tokens_generated\":0}\n\n",
    ] {
        let (frames, finish) = decode(Forge::default().decoder(), &format!("{error}{done}"));
        assert_eq!(frames, [Frame::End(End::failed(failure.clone()))]);
        assert_eq!(finish, Finish::Complete);
    }
    let (_, finish) = decode(
        Forge::default().decoder(),
        "event: token\ndata: {\"content\":\"Half\"}\n\n",
    );
    assert!(matches!(finish, Finish::Truncated { .. }));
}

#[test]
fn session_chat() {
    let stream = "data: {\"type\": \"round_start\", \"round\": 1, \"max_rounds\": 8, \"timestamp\": 1704672000.0}\n\n\
        data: {\"type\": \"thinking\", \"content\": \"Let me search.\", \"round\": 1, \"max_rounds\": 8}\n\n\
        data: {\"type\": \"tool_start\", \"tool_name\": \"search_linear_issues\", \"tool_args\": {\"query\": \"sprint\"}, \"round\": 1, \"max_rounds\": 8}\n\n\
        data: {\"type\": \"tool_end\", \"tool_name\": \"search_linear_issues\", \"tool_result\": \"{\\\"total\\\": 15}\", \"round\": 1, \"max_rounds\": 8}\n\n\
        : ping\n\n\
        data: {\"type\": \"complete\", \"session\": {\"id\": \"s\"}, \"response\": {\"content\": \"Done.\", \"tool_calls\": [], \"rounds_used\": 2, \"finished\": true, \"latency_ms\": 10234.5}, \"queue_stats\": {\"was_queued\": false, \"queue_wait_ms\": 0.0, \"queue_position\": 0}, \"timestamp\": 1704672010.0}\n\n";
    let round = Frame::Event {
        event: RoundStart::new(1u32, 8u32).into(),
        timestamp: Timestamp::parse("2024-01-08T00:00:00Z"),
    };
    let call = ToolCall::new("search_linear_issues", json!({"query": "sprint"}));
    let result = ToolResult::new("search_linear_issues", json!({"total": 15}));
    let end = End {
        timing: Some(Timing {
            timestamp: Timestamp::parse("2024-01-08T00:00:10Z").unwrap(),
            elapsed_ms: 10235,
        }),
        ..End::default()
    };
    let expected = vec![
        round,
        event(Thinking::new("Let me search.").round(1).max_rounds(8)),
        event(call.round(1).max_rounds(8)),
        event(result.round(1).max_rounds(8)),
        text("Done."),
        Frame::End(end),
    ];
    let decoder = SessionChat::default().decoder();
    assert_eq!(decode(decoder, stream), (expected, Finish::Complete));
}

#[test]
fn a_session_chat_fails_in_the_words_of_its_server() {
    let stream = "data: {\"type\": \"error\", \"error\": \"Timed out after 30 minutes.\", \"timestamp\": 1704672000.0}\n\n";
    let (frames, finish) = decode(SessionChat::default().decoder(), stream);
    let failure = Failure::new(FailureKind::ChatFailed, "Timed out after 30 minutes.");
    assert_eq!(frames, [Frame::End(End::failed(failure))]);
    assert_eq!(finish, Finish::Complete);
}

#[test]
fn the_documented_page_of_eve() {
    let stream = r#"{"type":"session.started","data":{},"streamIndex":0}
{"type":"agent.start","streamIndex":1}
{"type":"agent.tool_call","data":{"toolCallId":"call_xyz","tool":{"name":"github_search","description":"Search"},"args":{"query":"flue"}},"streamIndex":2}
{"type":"agent.tool_result","data":{"toolCallId":"call_xyz","tool":{"name":"github_search"},"result":[42],"isError":false},"streamIndex":3}
{"type":"input.requested","data":{"type":"approval","prompt":"Go?","options":["Approve","Reject"]},"streamIndex":4}
{"type":"session.waiting","streamIndex":5}
{"type":"agent.content.delta","data":{"text":"Hello"},"streamIndex":6}
{"type":"message.appended","data":{"id":"m","role":"assistant","content":"Hello!","toolCalls":[]},"streamIndex":7}
{"type":"agent.complete","streamIndex":8}
{"type":"session.waiting","streamIndex":9}
"#;
    let call = ToolCall::new("github_search", json!({"query": "flue"})).call_id("call_xyz");
    let question = InputRequested::new("", "approval", "Go?");
    let expected = vec![
        event(call.description("Search")),
        event(ToolResult::new("github_search", json!([42])).call_id("call_xyz")),
        event(question.options(vec!["Approve".into(), "Reject".into()])),
        text("Hello"),
        text("!"),
        Frame::End(End::default()),
    ];
    assert_eq!(
        decode(Eve::new("").decoder(), stream),
        (expected, Finish::Complete)
    );
}

/// Its `sequence` counts lines, its turn has a random ID, and a thought is a `delta`.
#[test]
fn flue_eve() {
    let stream = r#"{"type":"turn.started","data":{"turnId":"t_a","sequence":0}}
{"type":"message.received","data":{"message":"Hi","turnId":"t_a","sequence":1}}
{"type":"step.started","data":{"turnId":"t_a","sequence":2,"stepIndex":0}}
{"type":"reasoning.appended","data":{"delta":"Hm","reasoningSoFar":"Hm","turnId":"t_a","sequence":3,"stepIndex":0}}
{"type":"actions.requested","data":{"actions":[{"kind":"tool-call","callId":"c","toolName":"t","input":{}}],"turnId":"t_a","sequence":4,"stepIndex":0}}
{"type":"action.result","data":{"status":"failed","error":{"code":"X","message":"no"},"result":{"callId":"c","kind":"tool-result","toolName":"t","output":"no","isError":true},"turnId":"t_a","sequence":5,"stepIndex":0}}
{"type":"message.appended","data":{"messageDelta":"a","messageSoFar":"a","turnId":"t_a","sequence":6,"stepIndex":0}}
{"type":"message.appended","data":{"messageDelta":"b","messageSoFar":"ab","turnId":"t_a","sequence":7,"stepIndex":0}}
{"type":"message.completed","data":{"message":"ab","turnId":"t_a","sequence":8,"stepIndex":0}}
{"type":"step.completed","data":{"turnId":"t_a","sequence":9,"stepIndex":0}}
{"type":"turn.completed","data":{"turnId":"t_a","sequence":10}}
{"type":"session.waiting","data":{"wait":"next-user-message"}}
"#;
    let expected = vec![
        event(Thinking::new("Hm").id("thought-0")),
        event(ToolCall::new("t", json!({})).call_id("c")),
        event(ToolResult::new("t", "no").call_id("c").is_error(true)),
        text("a"),
        text("b"),
        Frame::End(End::default()),
    ];
    assert_eq!(
        decode(Eve::new("").decoder(), stream),
        (expected, Finish::Complete)
    );

    let failed = r#"{"type":"session.failed","data":{"code":"turn_failed","message":"Flue is down.","sessionId":"s"}}"#;
    let (frames, finish) = decode(Eve::new("").decoder(), &format!("{failed}\n"));
    let failure = Failure::new("turn_failed", "Flue is down.");
    assert_eq!(
        (frames, finish),
        (vec![Frame::End(End::failed(failure))], Finish::Complete)
    );
}

#[test]
fn a_failed_turn_of_eve_is_a_failure_even_if_its_session_continues() {
    let failed =
        r#"{"type":"turn.failed","data":{"code":"model","message":"Overloaded.","turnId":"turn_0"}}"#;
    for rest in ["", "{\"type\":\"session.waiting\",\"data\":{}}\n"] {
        let (frames, finish) = decode(Eve::new("").decoder(), &format!("{failed}\n{rest}"));
        let [
            Frame::End(End {
                status: Status::Failed(failure),
                ..
            }),
        ] = &frames[..]
        else {
            panic!("{frames:?}")
        };
        assert_eq!((failure.code(), &*failure.message), ("model", "Overloaded."));
        assert_eq!(finish, Finish::Complete);
    }
    let cut = "{\"type\":\"turn.started\",\"data\":{}}\n{\"type\":\"session.waiting\",\"data\":{}}\n";
    assert!(matches!(
        decode(Eve::new("").decoder(), cut).1,
        Finish::Truncated { .. }
    ));
}

#[test]
fn a_line_without_an_end_is_refused() {
    for mut decoder in [
        Box::new(Forge::default().decoder()) as Box<dyn Decode>,
        Box::new(SessionChat::default().decoder()),
        Box::new(Eve::new("").decoder()),
    ] {
        // 16 MiB is more than any of them holds.
        for _ in 0..256 {
            decoder.feed(&[b'x'; 64 * 1024]);
        }
        assert_eq!(decoder.finish(), Finish::Invalid(DecodeError::LineTooLong));
    }
}
