//! An orchestrator in child processes: small shell scripts that speak the protocol.

use std::path::Path;
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt;
use ragwire_server::gateway::{Gateway, GatewayError};
use ragwire_server::settings::Settings;
use ragwire_server::settings::engines::Address;
use ragwire_server::settings::values::Count;
use serde_json::json;
use tempfile::TempDir;

use super::double::until;
use super::{Log, gateway, told};
use crate::support::{JSON, Running, in_lines, no_grace};

/// Reads questions; `$turn` is the turn, `$line` the whole line, and `say` writes a member.
const BEGIN: &str = r#"
say() { printf '{"turn":"%s",%s}\n' "$turn" "$1"; }
while read -r line; do
  turn=$(printf '%s' "$line" | sed 's/.*"turn":"\([0-9a-f]*\)".*/\1/')
  case "$line" in *'"cancel":true'*) echo "$turn" >> "$0.cancelled"; say '"end":"stopped"'; continue;; esac
"#;

/// A script that runs `body` for each question.
fn script(folder: &TempDir, body: &str) -> String {
    let path = folder.path().join("rag.sh");
    std::fs::write(&path, format!("{BEGIN}{body}\ndone\n")).unwrap();
    path.to_str().unwrap().to_owned()
}

fn serve(path: &str, change: impl FnOnce(&mut Settings)) -> Running {
    gateway(&format!("exec:sh '{path}'"), |settings| {
        settings.orchestrator_workers = Count(1);
        change(settings);
    })
}

fn lines_of(path: &str) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn one_process_answers_one_question_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = script(
        &folder,
        r#"
  echo "$line" >> "$0.seen"
  echo "thinking about it" >&2
  say '"event":"search","tool":"bm25"'
  say '"text":"From '$$'."'
  say '"end":"completed"'"#,
    );
    let log = Log::start();
    let server = serve(&path, |settings| {
        settings.orchestrator_header = vec!["x-tenant".into()]
    });
    let (first, failure) = told(&server.frames("Why?").await);
    assert_eq!(failure, None);
    assert!(first.starts_with("From "), "{first}");
    let body = json!({"prompt": "And?"}).to_string();
    let headers = [JSON, ("accept", "application/x-ndjson"), ("x-tenant", "acme")];
    let reply = server.call(Method::POST, "/v1/turns", &headers, body).await;
    assert_eq!(told(&in_lines(&reply.body)), (first, None), "the same process");
    let seen: Vec<serde_json::Value> = lines_of(&format!("{path}.seen"))
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(seen[0]["question"]["prompt"], "Why?");
    assert_eq!(seen[1]["headers"]["x-tenant"], "acme");
    assert!(seen[1]["headers"]["traceparent"].is_string());
    until(|| log.text().contains("thinking about it")).await;
}

#[tokio::test]
async fn every_failure_has_a_code_and_the_next_question_is_answered() {
    for (case, body, text, code, logged) in [
        (
            "death",
            r#"say '"text":"Half"'; echo "out of memory" >&2; exit 3"#,
            "Half",
            "upstream_truncated",
            "exit status: 3",
        ),
        (
            "death at once",
            "exit 4",
            "",
            "upstream_truncated",
            "exit status: 4",
        ),
        (
            "not json",
            r#"say '"text":"Half"'; echo 'DEBUG loading'"#,
            "Half",
            "upstream_unreadable",
            "DEBUG loading",
        ),
        (
            "no turn",
            r#"echo '{"text":"Half"}'"#,
            "",
            "upstream_unreadable",
            "Half",
        ),
        (
            "silence",
            r#"say '"text":"Half"'; read -r cancelled; say '"end":"stopped"'"#,
            "Half",
            "upstream_timeout",
            "did not continue",
        ),
        (
            "silence at once",
            r#"read -r cancelled; say '"end":"stopped"'"#,
            "",
            "upstream_timeout",
            "begin to answer",
        ),
        (
            "100 MB in one line",
            r#"say '"text":"Half"'; head -c 100000000 /dev/zero | tr '\0' x"#,
            "Half",
            "upstream_too_large",
            "more than 1048576 bytes",
        ),
        (
            "its own failure",
            r#"say '"end":"failed","error":{"code":"quota","message":"No."}'"#,
            "",
            "quota",
            "",
        ),
    ] {
        let log = Log::start();
        let folder = tempfile::tempdir().unwrap();
        let once = format!(
            "  if ! [ -e \"$0.once\" ]; then touch \"$0.once\"; {body}; continue; fi\n  say '\"text\":\"Fine.\"'; say '\"end\":\"completed\"'"
        );
        let path = script(&folder, &once);
        let server = serve(&path, |_| ());
        let body = json!({"prompt": "Why?"}).to_string();
        let headers = [JSON, ("accept", "application/x-ndjson")];
        let reply = server.call(Method::POST, "/v1/turns", &headers, body).await;
        if text.is_empty() {
            assert_eq!(reply.code(), code, "{case}");
        } else {
            let (told, failure) = told(&in_lines(&reply.body));
            assert_eq!((&*told, failure.unwrap().code()), (text, code), "{case}");
        }
        assert!(log.text().contains(logged), "{case}: {}", log.text());
        assert_eq!(
            told(&server.frames("Again?").await),
            ("Fine.".into(), None),
            "{case}"
        );
    }
}

#[tokio::test]
async fn a_question_goes_to_another_process_only_before_its_answer_begins() {
    let folder = tempfile::tempdir().unwrap();
    let path = script(
        &folder,
        r#"
  echo x >> "$0.asked"
  if [ $(wc -l < "$0.asked") -lt 3 ]; then exit 1; fi
  say '"text":"Fine."'; say '"end":"completed"'"#,
    );
    let server = serve(&path, |settings| {
        settings.orchestrator_attempts = Count(3);
        settings.orchestrator_timeout.0 = Duration::from_secs(10);
    });
    assert_eq!(told(&server.frames("Why?").await), ("Fine.".into(), None));
    assert_eq!(lines_of(&format!("{path}.asked")).len(), 3);
}

#[tokio::test]
async fn a_stop_is_a_line_on_stdin() {
    let folder = tempfile::tempdir().unwrap();
    let path = script(&folder, r#"say '"text":"From '$$'."'"#);
    let server = serve(&path, |settings| {
        settings.orchestrator_idle_timeout.0 = Duration::from_secs(60);
        no_grace(settings);
    });
    let body = json!({"prompt": "Why?"}).to_string();
    let response = server.send(Method::POST, "/v1/turns", &[JSON], body).await;
    let turn = response.headers()["x-ragwire-turn"].to_str().unwrap().to_owned();
    let stop = format!("/v1/turns/{turn}/stop");
    assert!(
        server
            .call(Method::POST, &stop, &[], "")
            .await
            .status
            .is_success()
    );
    drop(response);
    let cancelled = format!("{path}.cancelled");
    until(|| lines_of(&cancelled) == [turn.clone()]).await;
    // A disconnect as well; the process is the same.
    drop(server.open_turn("Why?").await);
    until(|| lines_of(&cancelled).len() == 2).await;
}

#[tokio::test]
async fn a_human_answer_is_a_line_on_stdin() {
    let folder = tempfile::tempdir().unwrap();
    let path = script(
        &folder,
        r#"
  say '"event":"input_requested","request_id":"delete","kind":"approval","prompt":"Delete?","options":["Approve","Reject"]'
  read -r answer
  echo "$answer" >> "$0.answer"
  say '"text":"Deleted."'; say '"end":"completed"'"#,
    );
    let server = serve(&path, |_| ());
    let headers = [JSON, ("accept", "application/x-ndjson")];
    let body = json!({"prompt": "Tidy up."}).to_string();
    let asked = server.send(Method::POST, "/v1/turns", &headers, body).await;
    let turn = asked.headers()["x-ragwire-turn"].to_str().unwrap().to_owned();
    let answer = json!({"request_id": "delete", "response": "Approve"});
    let reply = server.post(&format!("/v1/turns/{turn}/answer"), &answer).await;
    assert_eq!(reply.status, 200, "{:?}", reply.body);
    let frames = in_lines(&asked.into_body().collect().await.unwrap().to_bytes());
    assert_eq!(told(&frames), ("Deleted.".into(), None));
    let line: serde_json::Value = serde_json::from_str(&lines_of(&format!("{path}.answer"))[0]).unwrap();
    assert_eq!(line, json!({"turn": turn, "answer": answer}));
}

/// A process that reports a failure has ended its turn: it is not cancelled, and is used again.
#[tokio::test]
async fn a_process_that_reports_a_failure_is_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = script(
        &folder,
        r#"
  echo $$ >> "$0.pids"
  say '"end":"failed","error":{"code":"quota","message":"No."}'"#,
    );
    let server = serve(&path, |_| ());
    for _ in 0..2 {
        let reply = server.post("/v1/turns", &json!({"prompt": "Why?"})).await;
        assert_eq!(reply.code(), "quota");
    }
    let pids = lines_of(&format!("{path}.pids"));
    assert_eq!((pids.len(), &pids[0]), (2, &pids[1]));
    assert_eq!(lines_of(&format!("{path}.cancelled")).len(), 0);
}

/// Whether a process with this ID runs; a dead one that was not waited for does not count.
fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    status.is_ok_and(|status| !status.contains(") Z "))
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_does_not_end_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let path = script(
        &folder,
        r#"
  sleep 1000 & echo $$ $! > "$0.pids"
  say '"text":"Half"'
  trap '' TERM INT PIPE
  wait"#,
    );
    let server = serve(&path, no_grace);
    let (_, failure) = told(&server.frames("Why?").await);
    assert_eq!(failure.unwrap().code(), "upstream_timeout");
    let pids = lines_of(&format!("{path}.pids")).remove(0);
    let pids: Vec<&str> = pids.split(' ').collect();
    assert!(pids.iter().all(|pid| is_alive(pid)));
    for _ in 0..200 {
        if !pids.iter().any(|pid| is_alive(pid)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("a process is still alive");
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_reported_at_start() {
    let settings = Settings {
        orchestrator: Address(Some("exec:/no/such/program".into())),
        ..Settings::default()
    };
    let options = settings.gateway_options().unwrap().unwrap();
    assert!(matches!(Gateway::start(options), Err(GatewayError::Start(_))));
}
