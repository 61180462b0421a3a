//! Streams of AG-UI and of the AI SDK that end at their questions: a human is asked, and the next
//! request contains the answer.

use ragwire_server::settings::Settings;
use ragwire_server::settings::engines::Label;
use serde_json::{Value, json};

use super::double::{Double, Step, chunk, head, last};
use super::langgraph::{answer, ask, frames, questions};
use super::{gateway, told};
use crate::support::Running;

/// A stream of these objects.
fn stream(objects: &[Value]) -> Vec<Step> {
    let mut steps = vec![head("text/event-stream")];
    steps.extend(objects.iter().map(|object| chunk(&format!("data: {object}\n\n"))));
    steps.extend([last(), Step::Keep]);
    steps
}

fn server(double: &Double, wire: &str) -> Running {
    gateway(&double.url, |settings: &mut Settings| {
        settings.orchestrator_wire = Label(Some(wire.to_owned()));
    })
}

fn said(text: &str) -> Value {
    json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": text, "delta": text})
}

fn run_finished(outcome: &Value) -> Value {
    json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome})
}

fn interrupted(interrupts: &Value) -> Value {
    run_finished(&json!({"type": "interrupt", "interrupts": interrupts}))
}

#[tokio::test]
async fn interrupts_of_ag_ui_are_answered_by_the_next_run() {
    let schema = json!({"type": "object", "properties": {"approved": {"type": "boolean"}}});
    let first = stream(&[
        said("Three files are old."),
        json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "delete"}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{\"files\":3}"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c"}),
        interrupted(&json!([
            {"id": "i", "reason": "tool_call", "toolCallId": "c", "responseSchema": schema},
            {"id": "j", "reason": "input_required", "message": "Which year?"},
        ])),
    ]);
    // The same question again, under the same ID.
    let second = stream(&[
        json!({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "3 deleted"}),
        interrupted(&json!([{"id": "j", "reason": "input_required", "message": "Which month?"}])),
    ]);
    let third = stream(&[said("Deleted."), run_finished(&Value::Null)]);
    let double = Double::start(vec![first, second, third]).await;
    let server = server(&double, "ag_ui");
    let (turn, asked) = ask(&server).await;
    answer(&server, &turn, "j", "2024").await;
    answer(&server, &turn, "i", "Deny").await;
    answer(&server, &turn, "j-2", "May").await;
    let frames = frames(asked).await;
    assert_eq!(told(&frames), ("Three files are old.\n\nDeleted.".into(), None));
    let questions = questions(&frames);
    assert_eq!(questions[0]["prompt"], "Run delete?");
    assert_eq!(questions[0]["options"], json!(["Approve", "Deny"]));
    assert_eq!(questions[1]["prompt"], "Which year?");

    let seen = double.seen();
    assert_eq!(seen.len(), 3);
    let resolved =
        |id: &str, payload: Value| json!({"interruptId": id, "status": "resolved", "payload": payload});
    let entries = [
        resolved("i", json!({"approved": false})),
        resolved("j", "2024".into()),
    ];
    assert_eq!(seen[1].body["resume"], json!(entries));
    assert_eq!(seen[2].body["resume"], json!([resolved("j", "May".into())]));
    for run in &seen {
        assert_eq!(run.body["threadId"], seen[0].body["threadId"]);
        assert_eq!(run.path(), seen[0].path());
    }
    assert_eq!(seen[1].header("idempotency-key"), None);
    assert_ne!(seen[1].body["runId"], seen[0].body["runId"]);
    let call =
        json!({"id": "c", "type": "function", "function": {"name": "delete", "arguments": "{\"files\":3}"}});
    let mut messages = seen[2].body["messages"].clone();
    for message in messages.as_array_mut().unwrap() {
        message.as_object_mut().unwrap().remove("id").unwrap();
    }
    let expected = json!([
        {"role": "user", "content": "Tidy up."},
        {"role": "assistant", "content": "Three files are old."},
        {"role": "assistant", "toolCalls": [call]},
        {"role": "tool", "toolCallId": "c", "content": "3 deleted"},
    ]);
    assert_eq!(messages, expected);
}

#[tokio::test]
async fn a_tool_of_the_client_of_ag_ui_is_a_question() {
    let first = stream(&[
        json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "pick"}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{\"question\":\"Red or blue?\"}"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c"}),
        run_finished(&json!({"type": "success", "pendingToolCallIds": ["c"]})),
    ]);
    let second = stream(&[said("Blue it is."), run_finished(&json!({"type": "success"}))]);
    let double = Double::start(vec![first, second]).await;
    let server = server(&double, "ag_ui");
    let (turn, asked) = ask(&server).await;
    answer(&server, &turn, "c", "Blue").await;
    let frames = frames(asked).await;
    assert_eq!(told(&frames), ("Blue it is.".into(), None));
    assert_eq!(questions(&frames)[0]["prompt"], "Red or blue?");
    let seen = double.seen();
    let last = seen[1].body["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(
        [&last["role"], &last["toolCallId"], &last["content"]],
        ["tool", "c", "Blue"]
    );
    assert_eq!(seen[1].body["resume"], Value::Null);
}

fn call(id: &str, tool: &str, input: &Value) -> Value {
    json!({"type": "tool-input-available", "toolCallId": id, "toolName": tool, "input": input})
}

#[tokio::test]
async fn an_approval_and_a_tool_of_the_client_are_answered_in_the_message() {
    let first = stream(&[
        json!({"type": "start"}),
        json!({"type": "text-delta", "id": "1", "delta": "Three files are old."}),
        call("c", "delete", &json!({"files": 3})),
        json!({"type": "tool-approval-request", "approvalId": "a", "toolCallId": "c"}),
        call("d", "year", &json!({"message": "Which year?"})),
        json!({"type": "finish", "finishReason": "tool-calls"}),
    ]);
    let second = stream(&[
        json!({"type": "start"}),
        json!({"type": "tool-output-available", "toolCallId": "c", "output": {"deleted": 3}}),
        json!({"type": "text-delta", "id": "1", "delta": "Deleted."}),
        json!({"type": "finish", "finishReason": "stop"}),
    ]);
    let double = Double::start(vec![first, second]).await;
    let server = server(&double, "ai_sdk");
    let (turn, asked) = ask(&server).await;
    answer(&server, &turn, "a", "Approve").await;
    answer(&server, &turn, "d", "2024").await;
    let frames = frames(asked).await;
    assert_eq!(told(&frames), ("Three files are old.\n\nDeleted.".into(), None));
    assert_eq!(questions(&frames)[1]["prompt"], "Which year?");
    let result = frames.iter().find_map(|frame| match frame {
        ragwire::Frame::Event {
            event: ragwire::event::Event::ToolResult(result),
            ..
        } => Some(result.tool.clone()),
        _ => None,
    });
    assert_eq!(result.as_deref(), Some("delete"), "the call of the first stream");
    let seen = double.seen();
    assert_eq!(seen.len(), 2);
    let message = seen[1].body["messages"].as_array().unwrap().last().unwrap();
    let expected = json!([
        {"type": "text", "text": "Three files are old.", "state": "done"},
        {
            "type": "tool-delete", "toolCallId": "c", "input": {"files": 3},
            "state": "approval-responded", "approval": {"id": "a", "approved": true},
        },
        {
            "type": "tool-year", "toolCallId": "d", "input": {"message": "Which year?"},
            "state": "output-available", "output": "2024",
        },
    ]);
    assert_eq!(message["parts"], expected);
    assert_eq!(message["role"], "assistant");
    assert_eq!(seen[1].body["messageId"], message["id"]);
}

/// A call that the server answers itself, and one at a limit of steps, are not questions.
#[tokio::test]
async fn a_finished_stream_asks_nothing() {
    let double = Double::start(vec![stream(&[
        call("c", "search", &json!({})),
        json!({"type": "tool-output-available", "toolCallId": "c", "output": {}}),
        call("d", "look", &json!({})),
        json!({"type": "text-delta", "id": "1", "delta": "Done."}),
        json!({"type": "finish", "finishReason": "stop"}),
    ])])
    .await;
    let server = server(&double, "ai_sdk");
    let (_, asked) = ask(&server).await;
    let frames = frames(asked).await;
    assert_eq!(told(&frames), ("Done.".into(), None));
    assert_eq!(questions(&frames), Vec::<Value>::new());
}

/// A run of a server of ours continues its text after the answer.
#[tokio::test]
async fn a_question_of_a_server_behind_a_server_over_ag_ui() {
    let behind = crate::support::start(|_| ()).await;
    let server = gateway(&format!("{}/ag-ui", behind.base), |settings| {
        settings.test_faults = false;
        settings.orchestrator_wire = Label(Some("ag_ui".to_owned()));
    });
    let headers = [crate::support::JSON, ("accept", "application/x-ndjson")];
    let body = json!({"prompt": "fault:ask"}).to_string();
    let asked = server.send(http::Method::POST, "/v1/turns", &headers, body).await;
    let turn = asked.headers()["x-ragwire-turn"].to_str().unwrap().to_owned();
    answer(&server, &turn, "delete", "Approve").await;
    let frames = frames(asked).await;
    assert_eq!(told(&frames), ("They are deleted.".into(), None));
    assert_eq!(questions(&frames).len(), 1);
}

#[tokio::test]
async fn a_file_without_a_place_is_refused() {
    let double = Double::start(vec![vec![]]).await;
    let server = gateway(&double.url, |settings: &mut Settings| {
        settings.orchestrator_wire = Label(Some("ollama".to_owned()));
    });
    let file =
        json!({"type": "file", "mediaType": "application/pdf", "url": "data:application/pdf;base64,AA=="});
    let parts = json!([file, {"type": "text", "text": "What is this?"}]);
    let body = json!({"messages": [{"role": "user", "parts": parts}]});
    let reply = server.post("/api/chat", &body).await;
    assert!(double.seen().is_empty(), "the question was sent without its file");
    // A response without a stream has the status.
    let part = json!({"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}});
    let content = json!([part, {"type": "text", "text": "What is this?"}]);
    let body =
        json!({"model": "ragwire", "stream": false, "messages": [{"role": "user", "content": content}]});
    let whole = server.post("/v1/chat/completions", &body).await;
    assert_eq!(whole.status, 415, "{}", String::from_utf8_lossy(&whole.body));
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert!(
        text.contains("accepts no file of the type `application/pdf`"),
        "{text}"
    );
}
