//! Turns of Eve's and flue-eve's own servers.

use ragwire::Eve;
use serde_json::{Value, json};

use super::{end, event, lines, read, text};

fn decode(objects: &[Value]) -> (Vec<Value>, String) {
    read(&mut Eve::new("s").decoder(), &lines(objects))
}

fn line(kind: &str, data: &Value) -> Value {
    json!({"type": kind, "data": data})
}

fn began() -> Value {
    line("turn.started", &json!({}))
}

#[test]
fn an_answer_so_far_that_is_shorter_takes_text_back() {
    let piece = |step: u32, delta: &str, so_far: &str| {
        line(
            "message.appended",
            &json!({"stepIndex": step, "messageDelta": delta, "messageSoFar": so_far}),
        )
    };
    let kept = |kept: u32| event("retract", json!({"kept": kept}));
    for (why, objects, expected) in [
        (
            "in the first step",
            vec![
                began(),
                piece(0, "Yes, ", "Yes, "),
                piece(0, "it", "Yes, it"),
                piece(0, "no", "Yno"),
            ],
            vec![text("Yes, "), text("it"), kept(1), text("no")],
        ),
        (
            "in the third step, after the text of the others",
            vec![
                began(),
                piece(0, "Yes, ", "Yes, "),
                piece(1, "it ", "it "),
                piece(2, "is", "is"),
                piece(2, "was", "was"),
            ],
            vec![text("Yes, "), text("it "), text("is"), kept(8), text("was")],
        ),
        (
            "pieces that were lost are not withdrawn",
            vec![began(), piece(0, "it", "Yes, it"), piece(0, " is", "Yes, it is")],
            vec![text("it"), text(" is")],
        ),
        (
            "nothing is withdrawn from a turn whose beginning is missing",
            vec![piece(0, "it", "Yes, it"), piece(0, "is", "is")],
            vec![text("it"), text("is")],
        ),
    ] {
        assert_eq!(decode(&objects).0, expected, "{why}");
    }
}

#[test]
fn a_whole_answer_adds_what_its_pieces_did_not_have() {
    let delta = |delta: &str| line("message.appended", &json!({"messageDelta": delta}));
    let whole = |message: &str| line("message.completed", &json!({"message": message}));
    for (why, objects, expected) in [
        (
            "after its pieces",
            vec![began(), delta("Yes,"), whole("Yes, it is.")],
            vec![text("Yes,"), text(" it is.")],
        ),
        ("alone", vec![whole("Yes.")], vec![text("Yes.")]),
        (
            "after some of its pieces",
            vec![delta("it"), whole("Yes, it is.")],
            vec![text("it")],
        ),
    ] {
        assert_eq!(decode(&objects).0, expected, "{why}");
    }
}

#[test]
fn the_result_of_an_action_is_an_answer_or_that_of_a_tool() {
    let result = |tool: &str, status: Value, is_error: Value, output: Value| {
        let result = json!({"toolName": tool, "callId": "c", "output": output, "isError": is_error});
        line("action.result", &json!({"result": result, "status": status}))
    };
    let paid = |is_error: bool| {
        let mut members = json!({"tool": "pay", "result": "Paid.", "call_id": "c"});
        if is_error {
            members["is_error"] = true.into();
        }
        event("tool_result", members)
    };
    for (object, expected) in [
        (
            result("pay", "completed".into(), false.into(), "Paid.".into()),
            paid(false),
        ),
        (
            result("pay", Value::Null, Value::Null, "Paid.".into()),
            paid(false),
        ),
        (
            result("pay", "failed".into(), Value::Null, "Paid.".into()),
            paid(true),
        ),
        (
            result("pay", Value::Null, true.into(), "Paid.".into()),
            paid(true),
        ),
        (
            result("ask_question", Value::Null, Value::Null, "2024".into()),
            event("input_resolved", json!({"request_id": "c", "response": "2024"})),
        ),
        (
            result("ask_question", Value::Null, Value::Null, Value::Null),
            event("input_resolved", json!({"request_id": "c"})),
        ),
    ] {
        assert_eq!(decode(&[object]).0, [expected]);
    }
}

#[test]
fn an_authorization_is_read_by_its_documented_and_by_its_own_names() {
    let required = |url: &str| {
        event(
            "authorization_required",
            json!({"connection": "mail", "description": "Read mail.", "auth_url": url}),
        )
    };
    let completed = |outcome: &str| {
        event(
            "authorization_completed",
            json!({"connection": "mail", "outcome": outcome}),
        )
    };
    for (kind, data, expected) in [
        (
            "authorization.required",
            json!({"name": "mail", "description": "Read mail.", "authorization": {"url": "u"}, "turnId": "t", "sequence": 1}),
            required("u"),
        ),
        (
            "authorization.required",
            json!({"connection": "mail", "description": "Read mail.", "authUrl": "v", "webhookUrl": "w"}),
            required("v"),
        ),
        (
            "authorization.granted",
            json!({"name": "mail", "stepIndex": 1}),
            completed("authorized"),
        ),
        (
            "authorization.completed",
            json!({"name": "mail", "outcome": "declined"}),
            completed("declined"),
        ),
    ] {
        assert_eq!(decode(&[line(kind, &data)]).0, [expected], "{kind}");
    }
}

#[test]
fn a_turn_ends_as_its_own_last_line_says() {
    let waits = || line("session.waiting", &json!({}));
    let failed = json!({"code": "busy", "message": "Full."});
    let mut failure = end("failed");
    failure["end"]["error"] = json!({"code": "busy", "message": "Full.", "recoverable": true});
    for (objects, expected) in [
        (
            vec![line("turn.completed", &json!({})), waits()],
            vec![end("completed")],
        ),
        (
            vec![line("turn.cancelled", &json!({})), waits()],
            vec![end("stopped")],
        ),
        (vec![line("turn.failed", &failed), waits()], vec![failure.clone()]),
        (vec![line("session.failed", &failed)], vec![failure]),
        // The turn waits for a human.
        (vec![waits()], vec![]),
    ] {
        assert_eq!(decode(&objects).0, expected, "{objects:?}");
    }
}
