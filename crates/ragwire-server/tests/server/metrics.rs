//! `GET /metrics`: what it counts, and that its documentation and its dashboard are true.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::Method;
use ragwire::orchestrator::Answering;
use ragwire::{Metadata, Orchestrator, Question, Sink, Usage};
use ragwire_rag::Library;
use serde_json::{Value, json};

use crate::support::{JSON, Running, WHOLE, start, start_with};

/// A metric: its type and its labels.
type Metrics = BTreeMap<String, (String, BTreeSet<String>)>;

/// Returns the figures as text.
async fn figures(server: &Running) -> String {
    let reply = server.get("/metrics").await;
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.headers["content-type"],
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    String::from_utf8(reply.body.to_vec()).unwrap()
}

/// Returns the value of one line, or 0 if it does not exist.
fn value(figures: &str, series: &str) -> f64 {
    let line = figures.lines().find_map(|line| line.strip_prefix(series));
    line.map_or(0.0, |rest| rest.trim().parse().unwrap())
}

/// Returns the name under which samples of a metric appear in queries.
fn name_in_queries(name: &str, kind: &str) -> String {
    match kind {
        "counter" => format!("{name}_total"),
        "info" => format!("{name}_info"),
        _ => name.to_owned(),
    }
}

/// Returns all metrics in the text, with the labels of their samples.
fn reported(figures: &str) -> Metrics {
    let mut metrics = Metrics::new();
    for line in figures.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').unwrap();
            metrics.insert(name_in_queries(name, kind), (kind.to_owned(), BTreeSet::new()));
        } else if let Some((name, rest)) = line.split_once('{') {
            let base = name.strip_suffix("_bucket").unwrap_or(name);
            let (labels, _) = rest.rsplit_once('}').unwrap();
            let labels = labels
                .split("\",")
                .map(|label| label.split('=').next().unwrap().to_owned());
            let (_, known) = metrics.get_mut(base).unwrap();
            known.extend(labels.filter(|label| label != "le"));
        }
    }
    metrics
}

/// Returns the rows of the tables of `docs/metrics.md`, and the documented labels.
fn documented() -> (Metrics, BTreeSet<String>) {
    let text = include_str!("../../../../docs/metrics.md");
    let in_ticks =
        |cell: &str| -> BTreeSet<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let (mut metrics, mut labels) = (Metrics::new(), BTreeSet::new());
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let name = in_ticks(cells[0]).pop_first().unwrap();
        if let [_, kind, unit, of_metric, _] = cells[..] {
            let has_unit = |suffix| name.trim_end_matches("_total").ends_with(suffix);
            assert_eq!(unit == "seconds", has_unit("_seconds"), "{name}");
            assert_eq!(unit == "bytes", has_unit("_bytes"), "{name}");
            metrics.insert(name, (kind.to_owned(), in_ticks(of_metric)));
        } else {
            assert_eq!(cells.len(), 2, "{line}");
            labels.insert(name);
        }
    }
    (metrics, labels)
}

/// Answers without a word, with the usage of a model.
#[derive(Debug)]
struct WithModel;

impl Orchestrator for WithModel {
    fn answer(&self, _: Question, _: Sink) -> Answering {
        let usage = Usage::new().input_tokens(3u64).model("m");
        Box::pin(async { Ok(Metadata::default().usage(usage)) })
    }
}

#[tokio::test]
async fn the_documentation_lists_every_metric() {
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    let server = start_with(library, Some(Arc::new(WithModel)), |_| {});
    // A metric with labels is reported once it has a value.
    let question = json!({ "prompt": "What is a vector?" });
    assert_eq!(server.post("/v1/turns", &question).await.status, 200);
    server.until_idle().await;
    let figures = figures(&server).await;
    assert_eq!(
        value(&figures, r#"ragwire_tokens_total{model="m",kind="input"}"#),
        3.0
    );
    let reported = reported(&figures);
    let (documented, labels) = documented();
    assert_eq!(reported, documented);
    let used: BTreeSet<_> = reported.into_values().flat_map(|(_, labels)| labels).collect();
    assert_eq!(used, labels);
}

#[tokio::test]
async fn the_dashboard_shows_every_metric_and_no_other() {
    let dashboard: Value = serde_json::from_str(include_str!("../../../../docs/grafana.json")).unwrap();
    let (documented, labels) = documented();
    let mut shown = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let words = query.split(|c| !is_name(c));
            let named = words.filter(|word| word.starts_with("ragwire_") || word.starts_with("process_"));
            for name in named {
                let base = name.strip_suffix("_bucket").unwrap_or(name);
                let (kind, of_metric) = documented
                    .get(base)
                    .unwrap_or_else(|| panic!("{query}: there is no metric {base}"));
                assert_eq!(kind == "histogram", name.ends_with("_bucket"), "{query}");
                assert_eq!(
                    kind == "counter" || kind == "histogram",
                    query.contains("rate("),
                    "{query}"
                );
                let grouped = query
                    .split_once("by (")
                    .map(|(_, rest)| rest.split(')').next().unwrap());
                for label in grouped.into_iter().flat_map(|labels| labels.split(", ")) {
                    assert!(label == "le" || of_metric.contains(label), "{query}: {label}");
                }
                shown.insert(base.to_owned());
            }
            let legend = target["legendFormat"].as_str().unwrap();
            for label in legend
                .split("{{")
                .skip(1)
                .map(|rest| rest.split("}}").next().unwrap())
            {
                assert!(label == "instance" || labels.contains(label), "{legend}");
            }
        }
    }
    assert_eq!(shown, documented.into_keys().collect::<BTreeSet<_>>());
}

#[tokio::test]
async fn turns_count_by_wire_outcome_and_code() {
    let server = start(|_| {}).await;
    let ask = async |accept: &'static str, prompt: &str| {
        let headers = [JSON, ("accept", accept)];
        let body = json!({ "prompt": prompt }).to_string();
        server.call(Method::POST, "/v1/turns", &headers, body).await
    };
    ask("application/x-ndjson", "fault:no-events").await;
    ask("application/x-ndjson", "fault:no-events").await;
    ask("text/event-stream", "fault:text").await;
    ask("text/event-stream", "fault:stop").await;
    assert_eq!(server.ask(WHOLE, "fault:reject").await.status, 500);
    server.ask(WHOLE, "fault:no-events").await;
    server.until_idle().await;

    let text = figures(&server).await;
    let mut turns: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("ragwire_turns_total"))
        .collect();
    turns.sort_unstable();
    assert_eq!(
        turns,
        [
            r#"{wire="ndjson",outcome="completed",code="none"} 2"#,
            r#"{wire="none",outcome="completed",code="none"} 1"#,
            r#"{wire="none",outcome="rejected",code="chat_failed"} 1"#,
            r#"{wire="sse",outcome="failed",code="chat_failed"} 1"#,
            r#"{wire="sse",outcome="stopped",code="none"} 1"#,
        ]
    );
    assert_eq!(value(&text, "ragwire_turn_duration_seconds_count"), 6.0);
    assert_eq!(value(&text, "ragwire_turns_active "), 0.0);
    assert_eq!(value(&text, "ragwire_turns_active_limit "), 64.0);
    let documents = server.app.library().unwrap().document_count();
    assert_eq!(value(&text, "ragwire_documents "), documents as f64);
    assert_eq!(value(&text, "ragwire_ready "), 1.0);
    assert!(value(&text, "ragwire_connections ") >= 1.0);
    assert!(text.ends_with("# EOF\n"));
    let posted = |status| format!(r#"ragwire_http_requests_total{{method="POST",status="{status}"}}"#);
    assert_eq!(value(&text, &posted(200)), 5.0);
    assert_eq!(value(&text, &posted(500)), 1.0);
}

#[tokio::test]
async fn a_running_turn_and_its_readers_are_counted() {
    let server = start(|_| {}).await;
    let body = server.open_turn("fault:silent").await;
    let text = figures(&server).await;
    assert_eq!(value(&text, "ragwire_turns_active "), 1.0);
    assert_eq!(value(&text, "ragwire_journal_turns "), 1.0);
    assert_eq!(value(&text, "ragwire_journal_readers "), 1.0);
    assert!(value(&text, "ragwire_journal_bytes ") > 0.0);
    assert_eq!(value(&text, "ragwire_journal_resumes_total "), 0.0);
    drop(body);
}
