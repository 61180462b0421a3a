//! Tests of the parsing of responses: whole, in pieces, and cut.

use ragwire_rag::models::GenerationEnd;
use ragwire_rag::models::upstream::UpstreamLimits;
use serde_json::json;

use crate::upstream::double::{Double, EVENTS, Reply, Then};
use crate::upstream::{ask, model, once, outcome, read, within};
use ragwire_rag::models::{LanguageModel, Prompt};

/// A stream in the format of llama.cpp's server and OpenAI, with a comment, reasoning, CRLF, a
/// prompt filter (Azure), and usage.
const SHORT: &str = ": ok\n\n\
data: {\"choices\":[],\"usage\":null,\"prompt_filter_results\":[]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null},\"finish_reason\":null}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\r\n\r\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Gr\u{fc}\"},\"finish_reason\":\"\"}]}\n\n\
:\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\u{1f44b}\\u00e9\"}}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
/// The events after the one with the finish reason.
const NUMBERS: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":5}},\"timings\":{\"prompt_ms\":1.5,\"predicted_ms\":2.25,\"cache_n\":6}}\n\n\
data: [DONE]\n\n";

/// Tokens of the prompt, cached tokens, tokens of the answer; milliseconds of both phases.
type Numbers = ([Option<u32>; 3], [Option<f64>; 2]);

fn numbers(finished: &GenerationEnd) -> Numbers {
    let GenerationEnd {
        prompt_tokens,
        cached_tokens,
        answer_tokens,
        prompt_ms,
        generation_ms,
        ..
    } = *finished;
    (
        [prompt_tokens, cached_tokens, answer_tokens],
        [prompt_ms, generation_ms],
    )
}

const MEASURED: Numbers = ([Some(7), Some(5), Some(3)], [Some(1.5), Some(2.25)]);

async fn assert_whole(reply: Reply, name: &str) {
    let double = Double::new([reply]).await;
    let (pieces, end) = read(ask(&double.base)).await;
    assert_eq!(pieces, ["Gr\u{fc}", "\u{1f44b}\u{e9}"], "{name}");
    assert_eq!(outcome(&end), "stop", "{name}");
    assert_eq!(numbers(&end.unwrap()), MEASURED, "{name}");
    assert_eq!(double.recorded().len(), 1, "{name}");
}

#[tokio::test]
async fn splitting_a_stream_does_not_change_its_result() {
    within(async {
        let script = format!("{SHORT}{NUMBERS}");
        let bytes = script.as_bytes();
        assert_whole(Reply::events(bytes), "whole").await;
        assert_whole(Reply::events("").chunks(bytes.chunks(1)), "byte by byte").await;
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_whole(
                Reply::events("").chunks([first, second]),
                &format!("split at {at}"),
            )
            .await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_cut_stream_is_complete_only_after_its_finish_reason() {
    within(async {
        let script = format!("{SHORT}{NUMBERS}");
        let after = |text: &str| {
            script.find(text).unwrap() + script[script.find(text).unwrap()..].find("\n\n").unwrap() + 2
        };
        let (first, second) = (after("Gr\u{fc}"), after("\u{1f44b}"));
        let (ended, measured) = (SHORT.len(), after("prompt_tokens"));
        for at in 0..=script.len() {
            for then in [Then::Cut, Then::End] {
                let reply = Reply::events(&script.as_bytes()[..at]).then(then);
                let double = Double::new([reply]).await;
                let (pieces, end) = read(ask(&double.base)).await;
                let all = ["Gr\u{fc}", "\u{1f44b}\u{e9}"];
                let expected = usize::from(at >= first) + usize::from(at >= second);
                assert_eq!(pieces, all[..expected], "{then:?} at {at}");
                let reason = match (at >= ended, at >= first) {
                    (true, _) => "stop",
                    (false, true) => "model_failed upstream_broken",
                    (false, false) => "model_unavailable upstream_broken",
                };
                assert_eq!(outcome(&end), reason, "{then:?} at {at}");
                if let Ok(finished) = end {
                    let expected = if at >= measured {
                        MEASURED
                    } else {
                        ([None; 3], [None; 2])
                    };
                    assert_eq!(numbers(&finished), expected, "{then:?} at {at}");
                }
            }
        }
    })
    .await;
}

fn chunk(delta: &str, reason: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{reason}}}]}}\n\n")
}

fn text(text: &str) -> String {
    chunk(&format!("{{\"content\":\"{text}\"}}"), "null")
}

#[tokio::test]
async fn streams_have_the_expected_text_and_end() {
    let hi = text("Hi");
    let stop = chunk("{}", "\"stop\"");
    let event = |json: &str| format!("data: {json}\n\n");
    let done = "data: [DONE]\n\n";
    let cases: Vec<(&str, String, &[&str], &str)> = vec![
        ("only done", format!("{hi}{done}"), &["Hi"], "stop"),
        (
            "done with spaces",
            format!("{hi}data:  [DONE] \n\n"),
            &["Hi"],
            "stop",
        ),
        ("done twice", format!("{hi}{done}{done}"), &["Hi"], "stop"),
        (
            "after done",
            format!("{hi}{done}{hi}data: junk\n\n"),
            &["Hi"],
            "stop",
        ),
        ("only a reason", format!("{hi}{stop}"), &["Hi"], "stop"),
        (
            "reason and text in one",
            chunk("{\"content\":\"Hi\"}", "\"stop\""),
            &["Hi"],
            "stop",
        ),
        ("no text at all", format!("{stop}{done}"), &[], "stop"),
        ("done alone", done.into(), &[], "stop"),
        (
            "empty texts",
            format!("{}{hi}{}{stop}", text(""), text("")),
            &["Hi"],
            "stop",
        ),
        (
            "cr alone",
            format!("{hi}{stop}").replace('\n', "\r"),
            &["Hi"],
            "stop",
        ),
        ("byte order mark", format!("\u{feff}{hi}{stop}"), &["Hi"], "stop"),
        (
            "data over two lines",
            "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n"
                .into(),
            &["Hi"],
            "stop",
        ),
        (
            "other fields",
            format!("id: 7\nevent: x\nretry: 1\n{hi}{stop}"),
            &["Hi"],
            "stop",
        ),
        (
            "another choice",
            format!(
                "{}{hi}{stop}",
                event(
                    "{\"choices\":[{\"index\":1,\"delta\":{\"content\":\"No\"},\"finish_reason\":\"length\"}]}"
                )
            ),
            &["Hi"],
            "stop",
        ),
        (
            "thoughts",
            format!(
                "{}{}{hi}{stop}",
                chunk("{\"reasoning\":\"hm\"}", "null"),
                chunk("{\"reasoning_content\":\"hm\",\"content\":null}", "null")
            ),
            &["Hi"],
            "stop",
        ),
        (
            "length",
            format!("{hi}{}{done}", chunk("{}", "\"length\"")),
            &["Hi"],
            "length",
        ),
        (
            "tgi",
            format!("{hi}{}", chunk("{}", "\"eos_token\"")),
            &["Hi"],
            "stop",
        ),
        (
            "invalid numbers",
            format!(
                "{hi}{stop}{}{done}",
                event("{\"choices\":null,\"usage\":{\"prompt_tokens\":-1,\"completion_tokens\":\"3\"}}")
            ),
            &["Hi"],
            "stop",
        ),
        (
            "junk after the reason",
            format!("{hi}{stop}data: junk\n\n"),
            &["Hi"],
            "model_failed upstream_unreadable",
        ),
        (
            "text after the reason",
            format!("{hi}{stop}{hi}"),
            &["Hi"],
            "model_failed upstream_unreadable",
        ),
        (
            "content filter",
            format!("{hi}{}{done}", chunk("{}", "\"content_filter\"")),
            &["Hi"],
            "model_failed upstream_ended",
        ),
        (
            "content filter at once",
            chunk("{}", "\"content_filter\""),
            &[],
            "model_failed upstream_ended",
        ),
        (
            "tool calls",
            chunk("{\"tool_calls\":[{\"index\":0}]}", "\"tool_calls\""),
            &[],
            "model_failed upstream_ended",
        ),
        (
            "function call",
            chunk("{}", "\"function_call\""),
            &[],
            "model_failed upstream_ended",
        ),
        (
            "refusal",
            chunk("{\"refusal\":\"I will not.\"}", "null"),
            &[],
            "model_failed upstream_ended",
        ),
        (
            "unknown reason",
            format!("{hi}{}{done}", chunk("{}", "\"abort\"")),
            &["Hi"],
            "model_failed upstream_ended",
        ),
        (
            "error before text",
            event("{\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"param\":null,\"code\":null}}"),
            &[],
            "model_failed upstream_error",
        ),
        (
            "error after text",
            format!("{hi}{}{done}", event("{\"error\":\"m\"}")),
            &["Hi"],
            "model_failed upstream_error",
        ),
        (
            "error by name",
            format!("{hi}event: error\n{}", event("{\"message\":\"m\"}")),
            &["Hi"],
            "model_failed upstream_error",
        ),
        (
            "no error",
            format!(
                "{}{stop}",
                event("{\"error\":null,\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}")
            ),
            &["Hi"],
            "stop",
        ),
        (
            "overflow",
            event(
                "{\"error\":{\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":9000,\"n_ctx\":4096}}",
            ),
            &[],
            "context_overflow",
        ),
        (
            "no json",
            format!("{hi}data: Hi\n\n"),
            &["Hi"],
            "model_failed upstream_unreadable",
        ),
        (
            "no object",
            format!("{hi}data: 7\n\n"),
            &["Hi"],
            "model_failed upstream_unreadable",
        ),
        (
            "lone surrogate",
            text("\\ud83d"),
            &[],
            "model_failed upstream_unreadable",
        ),
        (
            "content of another kind",
            chunk("{\"content\":[1]}", "null"),
            &[],
            "model_failed upstream_unreadable",
        ),
        (
            "deep",
            format!("data: {}\n\n", "[".repeat(10_000)),
            &[],
            "model_failed upstream_unreadable",
        ),
        ("empty", String::new(), &[], "model_unavailable upstream_broken"),
        (
            "comments alone",
            ": a\n\n: b\n\n".into(),
            &[],
            "model_unavailable upstream_broken",
        ),
        (
            "no blank line after the end",
            format!("{hi}data: [DONE]\n"),
            &["Hi"],
            "model_failed upstream_broken",
        ),
    ];
    within(async {
        for (name, script, pieces, end) in cases {
            let double = Double::new([Reply::events(&script)]).await;
            let read = read(ask(&double.base)).await;
            assert_eq!(
                (read.0, outcome(&read.1)),
                (pieces.iter().map(|piece| (*piece).into()).collect(), end.into()),
                "{name}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn responses_other_than_streams_are_handled() {
    let completion = json!({
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    });
    let html = "<html><body>502</body></html>";
    let stream = format!("{}{}", text("Hi"), chunk("{}", "\"stop\""));
    let cases = [
        ("whole", Reply::json(200, &completion), "Hi", "length"),
        (
            "charset",
            Reply::new(200, "Application/JSON; charset=utf-8", completion.to_string()),
            "Hi",
            "length",
        ),
        (
            "error in a success",
            Reply::json(200, &json!({"error": {"message": "m"}})),
            "",
            "model_failed upstream_error",
        ),
        (
            "no choice",
            Reply::json(200, &json!({})),
            "",
            "model_failed upstream_unreadable",
        ),
        (
            "no choices",
            Reply::json(200, &json!({"choices": []})),
            "",
            "model_failed upstream_unreadable",
        ),
        (
            "no json",
            Reply::new(200, "application/json", "Hi"),
            "",
            "model_failed upstream_unreadable",
        ),
        (
            "cut json",
            Reply::new(200, "application/json", "{\"choices\"").then(Then::Cut),
            "",
            "model_unavailable upstream_broken",
        ),
        (
            "page",
            Reply::new(200, "text/html", html),
            "",
            "model_failed upstream_unreadable",
        ),
        (
            "no type",
            Reply::events(&stream).no_header("content-type"),
            "Hi",
            "stop",
        ),
        (
            "type with charset",
            Reply::new(200, "text/event-stream; charset=utf-8", &stream),
            "Hi",
            "stop",
        ),
        (
            "compressed",
            Reply::events(&stream).header("content-encoding", "gzip"),
            "",
            "model_failed upstream_unreadable",
        ),
        (
            "identity",
            Reply::events(&stream).header("content-encoding", "identity"),
            "Hi",
            "stop",
        ),
        (
            "redirect",
            Reply::new(307, EVENTS, "").header("location", "/v1/else"),
            "",
            "model_unavailable upstream_refused",
        ),
        (
            "no content",
            Reply::new(204, EVENTS, ""),
            "",
            "model_unavailable upstream_broken",
        ),
    ];
    within(async {
        for (name, reply, text, end) in cases {
            let double = Double::new([reply]).await;
            let read = read(ask(&double.base)).await;
            assert_eq!(
                (read.0.concat(), outcome(&read.1)),
                (text.into(), end.into()),
                "{name}"
            );
            assert_eq!(double.recorded().len(), 1, "{name}");
            // The client does not request compression.
            assert!(!double.recorded()[0].headers.contains_key("accept-encoding"));
        }
    })
    .await;
}

#[tokio::test]
async fn everything_is_bounded() {
    let mut limits = UpstreamLimits::default();
    (limits.event, limits.text, limits.body, limits.request) = (200, 10, 300, 400);
    let five = text("12345");
    let stop = chunk("{}", "\"stop\"");
    let whole = |text: String| json!({"choices": [{"message": {"content": text}}]});
    let cases = [
        (
            "text that fits",
            Reply::events(format!("{five}{five}{stop}")),
            "1234512345",
            "stop",
        ),
        (
            "text",
            Reply::events(format!("{five}{five}{}{stop}", text("1"))),
            "1234512345",
            "model_failed upstream_too_large",
        ),
        (
            "event",
            Reply::events(format!("{five}{}", text(&"\\u0031".repeat(40)))),
            "12345",
            "model_failed upstream_too_large",
        ),
        (
            "line without end",
            Reply::events(vec![b'x'; 1_000_000]).then(Then::Hang),
            "",
            "model_failed upstream_too_large",
        ),
        (
            "comment without end",
            Reply::events(format!("{five}:{}", "x".repeat(1_000_000))).then(Then::Hang),
            "12345",
            "model_failed upstream_too_large",
        ),
        (
            "text in one piece",
            Reply::json(200, &whole("12345678901".into())),
            "",
            "model_failed upstream_too_large",
        ),
        (
            "body in one piece",
            Reply::json(200, &whole("1".repeat(400))),
            "",
            "model_failed upstream_too_large",
        ),
    ];
    within(async {
        for (name, reply, text, end) in cases {
            let double = Double::new([reply]).await;
            let read = read(model(once(&double.base).limits(limits)).generate(Prompt::user("Why?"))).await;
            assert_eq!(
                (read.0.concat(), outcome(&read.1)),
                (text.into(), end.into()),
                "{name}"
            );
        }
        let double = Double::new([]).await;
        let long = Prompt::user("x".repeat(400));
        let read = read(model(once(&double.base).limits(limits)).generate(long)).await;
        assert_eq!((outcome(&read.1).as_str(), double.opened()), ("bad_prompt", 0));
    })
    .await;
}
