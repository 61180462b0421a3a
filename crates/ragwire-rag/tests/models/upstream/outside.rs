//! Tests of servers that do not speak HTTP, or exceed its limits.

use crate::upstream::double::raw;
use crate::upstream::{ask, outcome, read, within};

#[tokio::test]
async fn malformed_heads_are_errors() {
    within(async {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
        let body = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n";
        let error = "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-type: text/html\r\n\r\n";
        for (name, bytes, text, end) in [
            ("until the end", format!("{head}\r\n{body}"), "Hi", "stop"),
            (
                "fewer bytes than declared",
                format!("{head}content-length: 9999\r\n\r\n{body}"),
                "Hi",
                "stop",
            ),
            (
                "bad chunk",
                format!("{head}transfer-encoding: chunked\r\n\r\nxyz\r\n{body}"),
                "",
                "model_unavailable upstream_broken",
            ),
            (
                "continue first",
                format!("HTTP/1.1 100 Continue\r\n\r\n{head}\r\n{body}"),
                "Hi",
                "stop",
            ),
            ("http/1.0", format!("HTTP/1.0 200 OK\r\n\r\n{body}"), "Hi", "stop"),
            ("nothing", String::new(), "", "model_unavailable upstream_broken"),
            (
                "half a head",
                head.into(),
                "",
                "model_unavailable upstream_broken",
            ),
            (
                "another protocol",
                "SSH-2.0-OpenSSH_9.2\r\n".into(),
                "",
                "model_failed upstream_unreadable",
            ),
            (
                "no status",
                "HTTP/1.1 XYZ\r\n\r\n".into(),
                "",
                "model_failed upstream_unreadable",
            ),
            (
                "head without end",
                format!("{head}x: {}", "y".repeat(200_000)),
                "",
                "model_failed upstream_unreadable",
            ),
            (
                "too many headers",
                format!("{head}{}\r\n{body}", "x: y\r\n".repeat(200)),
                "",
                "model_failed upstream_unreadable",
            ),
            (
                "error without end",
                format!("{error}{}", "x".repeat(1_000_000)),
                "",
                "model_rejected upstream_refused",
            ),
        ] {
            let base = raw(bytes.into_bytes()).await;
            let read = read(ask(&base)).await;
            assert_eq!(
                (read.0.concat(), outcome(&read.1)),
                (text.into(), end.into()),
                "{name}"
            );
        }
    })
    .await;
}
