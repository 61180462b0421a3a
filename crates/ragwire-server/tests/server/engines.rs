//! The parts of a build without models: the lexical index in memory, and a language model behind a
//! server.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use ragwire::{Event, Frame, Status};
use ragwire_rag::graph::{Graph, GraphTraverse};
use ragwire_rag::models::Prompt;
use ragwire_rag::search::store::{Filter, Search};
use ragwire_rag::{Level, Library, parse};
use ragwire_server::engines::Engines;
use ragwire_server::graph;
use ragwire_server::orchestrator::Reference;
use ragwire_server::settings::Settings;
use ragwire_server::settings::engines::{Label, LlmDialect, Secret};
use ragwire_server::settings::values::CountOrZero;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::support::{JSON, in_lines, start, start_on, start_with};

const LLAMA: bool = cfg!(feature = "llama");

/// How to get a part in this build.
fn with_llama(has: &str, has_not: &str) -> String {
    (if LLAMA { has } else { has_not }).to_owned()
}

/// The description of the parts that are missing.
fn told_of_none() -> [String; 4] {
    let llm = with_llama(
        "--llm FILE.gguf or --llm-url URL",
        "--llm-url URL, or --llm in builds with --features llama",
    );
    let embedder = with_llama(
        "--embedder FILE.gguf or --embedder-url URL",
        "--embedder-url URL, or --embedder in builds with --features llama",
    );
    let reranker = with_llama(
        "--reranker FILE.gguf or --reranker-url URL",
        "--reranker-url URL, or --reranker in builds with --features llama",
    );
    let store = if cfg!(feature = "qdrant-edge") {
        "--store qdrant-edge is persistent"
    } else if cfg!(feature = "qdrant") {
        "--store qdrant is persistent"
    } else {
        "--store qdrant-edge is persistent, in builds with --features qdrant-edge"
    };
    [
        format!("llm: none, answers quote sentences ({llm})"),
        format!("embedder: none, search is lexical ({embedder})"),
        format!("reranker: none, passages keep the order of the search ({reranker})"),
        format!("store: memory, rebuilt at each start ({store})"),
    ]
}

#[tokio::test]
async fn the_default_is_a_lexical_index_of_all_levels_in_memory() {
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    ragwire_server::sample::add(&library).unwrap();
    let engines = Engines::start(&Settings::default(), &library).await.unwrap();
    assert_eq!(engines.summary(), told_of_none());
    assert!(engines.llm.is_none() && engines.embedder.is_none() && engines.ranker.is_none());
    engines.reconcile().await.unwrap();
    assert!(engines.indexer.behind().await.is_empty());
    for level in [Level::Section, Level::Passage, Level::Sentence] {
        let search = Search::text(ragwire_server::sample::QUESTION, 3).filter(Filter::level(level));
        let hits = engines.store.search(search).await.unwrap();
        let levels: Vec<Level> = hits.iter().map(|hit| hit.chunk.level).collect();
        assert_eq!(levels, [level; 3]);
    }
    engines.shutdown().await;
}

#[tokio::test]
async fn an_upload_is_in_the_store_when_the_response_says_so() {
    let running = start(|_| {}).await;
    let engines = Arc::clone(&running.engines);
    let search = || Search::text("marmalade", 1).filter(Filter::level(Level::Sentence));
    assert!(engines.store.search(search()).await.unwrap().is_empty());
    let reply = running
        .upload("jam.md", "# Jam\n\nThe marmalade is orange. It is sweet.")
        .await;
    assert_eq!(reply.status, 201);
    let hits = engines.store.search(search()).await.unwrap();
    assert_eq!(hits[0].chunk.text, "The marmalade is orange. It is sweet.");
    // A removed document leaves the library at once, and the store when its follower runs.
    let id = reply.json()["documents"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        running
            .call(http::Method::DELETE, &format!("/v1/documents/{id}"), &[], "")
            .await
            .status,
        204
    );
    let gone = async {
        while !engines.store.search(search()).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        never = ragwire_rag::follow(engines.as_ref(), |_| {}) => match never {},
        gone = tokio::time::timeout(Duration::from_secs(60), gone) => gone.unwrap(),
    }
}

#[tokio::test]
async fn an_existing_library_is_in_the_store() {
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    ragwire_server::sample::add(&library).unwrap();
    let running = start_on(Arc::clone(&library), |_| {}).await;
    let engines = &running.engines;
    let mut documents = engines.store.documents().await.unwrap();
    documents.retain(|id| !id.starts_with("index-"));
    assert_eq!(documents, library.document_ids());
}

/// The keys and the bodies of requests.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// A model server that always gives the same answer and records its requests.
async fn double(says: &str) -> (String, Asked, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let told = json!({"choices": [{"index": 0, "delta": {"content": says}}]});
    let events = format!(
        "data: {told}\n\ndata: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\ndata: [DONE]\n\n"
    );
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            let (seen, events) = (Arc::clone(&seen), events.clone());
            let service = service_fn(move |request: http::Request<Incoming>| {
                let (seen, events) = (Arc::clone(&seen), events.clone());
                async move {
                    let (head, body) = request.into_parts();
                    if head.method == http::Method::GET {
                        // A gateway that does not list its models.
                        let response = http::Response::builder().status(404);
                        return Ok(response.body(Full::default()).unwrap());
                    }
                    let key = head.headers["authorization"].to_str().unwrap().to_owned();
                    let body = body.collect().await.unwrap().to_bytes();
                    seen.lock()
                        .unwrap()
                        .push((key, serde_json::from_slice(&body).unwrap()));
                    let response = http::Response::builder()
                        .header("content-type", "text/event-stream")
                        .body(Full::new(Bytes::from(events)));
                    Ok::<_, Infallible>(response.unwrap())
                }
            });
            let http = hyper::server::conn::http1::Builder::new();
            connections.spawn(http.serve_connection(TokioIo::new(socket), service));
        }
    });
    (url, asked, tasks)
}

/// Settings that name the model server.
fn asking(url: &str) -> Settings {
    Settings {
        llm_url: url.parse().unwrap(),
        llm_model: Label(Some("qwen3:8b".into())),
        llm_key: Secret(Some("s3cret".into())),
        llm_dialect: "llama.cpp".parse::<LlmDialect>().unwrap(),
        ..Settings::default()
    }
}

#[tokio::test]
async fn a_language_model_behind_a_server_is_described_and_asked() {
    let (url, asked, _serving) = double("Forty-two.").await;
    let settings = Settings {
        llm_context: CountOrZero(32_768),
        ..asking(&url)
    };
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    let engines = Engines::start(&settings, &library).await.unwrap();
    let [_, embedder, reranker, store] = told_of_none();
    let llm = "llm: qwen3:8b, on the server of --llm-url, 32768 tokens of context".to_owned();
    assert_eq!(engines.summary(), [llm, embedder, reranker, store]);
    let llm = engines.llm.as_ref().unwrap();
    assert_eq!((llm.name(), llm.context_tokens()), ("qwen3:8b", 32_768));
    let written = tokio::time::timeout(
        Duration::from_secs(60),
        llm.generate(Prompt::user("Why?")).whole(),
    );
    assert_eq!(written.await.unwrap().unwrap().0, "Forty-two.");
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].0, "Bearer s3cret");
    assert_eq!(asked[0].1["model"], "qwen3:8b");
    assert_eq!(
        asked[0].1["messages"],
        json!([{"role": "user", "content": "Why?"}])
    );
    engines.shutdown().await;

    // Without a context in the settings, the default for servers of this protocol applies.
    let settings = Settings {
        llm_context: CountOrZero(0),
        ..settings
    };
    let engines = Engines::start(&settings, &library).await.unwrap();
    assert_eq!(engines.llm.as_ref().unwrap().context_tokens(), 8_192);
}

const OWL: &str = "The owl hunts at night.";

fn owl() -> Arc<Library> {
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    let parsed = parse("owl.md", OWL.as_bytes(), &Default::default()).unwrap();
    library.add("owl.md", &parsed).unwrap();
    library
}

#[tokio::test]
async fn a_complete_answer_of_the_model_is_repeated_to_the_same_owner() {
    let (url, asked, _serving) = double("The owl hunts at night [1].").await;
    let library = owl();
    let engines = Engines::start(&asking(&url), &library).await.unwrap();
    let reference = Arc::new(Reference::new(&library, None, &engines));
    let running = start_with(library, Some(reference), |settings| {
        settings.owner_header = "x-owner".parse().unwrap();
    });
    let ask = async |owner: &str| {
        let body = json!({"prompt": "When does the owl hunt?"}).to_string();
        let headers = [JSON, ("accept", "application/x-ndjson"), ("x-owner", owner)];
        let reply = running
            .call(http::Method::POST, "/v1/turns", &headers, body)
            .await;
        assert_eq!(reply.status, 200);
        let (mut names, mut text) = (Vec::new(), String::new());
        for frame in in_lines(&reply.body) {
            match frame {
                Frame::Event { event, .. } => names.push(event.name().to_owned()),
                Frame::Text(piece) => text.push_str(&piece),
                Frame::End(end) => assert_eq!(end.status, Status::Completed),
                Frame::Snapshot(_) => panic!("nothing was dropped"),
            }
        }
        (names, text)
    };
    let first = [
        "query_analysis",
        "cache_miss",
        "search",
        "retrieval_start",
        "retrieval_result",
        "search",
        "retrieval_start",
        "retrieval_result",
        "crag_evaluation",
        "rerank_result",
        "sources",
        "generation_start",
        "verification",
    ];
    let again = ["query_analysis", "cache_hit", "sources"];
    for (owner, told) in [("alice", &first[..]), ("alice", &again), ("bob", &first)] {
        let (names, text) = ask(owner).await;
        assert_eq!(names, told, "{owner}");
        assert_eq!(text, "The owl hunts at night [1].");
    }
    assert!(
        asked
            .lock()
            .unwrap()
            .iter()
            .all(|(key, _)| key == "Bearer s3cret")
    );
    engines.shutdown().await;
}

#[tokio::test]
async fn a_schema_gives_json_from_a_model_on_every_protocol_that_has_one() {
    const SAID: &str = r#"{"hunts": "at night", "seen": [1]}"#;
    let schema = json!({"type": "object", "required": ["hunts"]});
    let (url, asked, _serving) = double(SAID).await;
    let library = owl();
    let engines = Engines::start(&asking(&url), &library).await.unwrap();
    let reference = Arc::new(Reference::new(&library, None, &engines));
    let running = start_with(library, Some(reference), |_| {});
    let call = async |path: &str, accept: &'static str, body: Value| {
        let headers = [JSON, ("accept", accept)];
        running
            .call(http::Method::POST, path, &headers, body.to_string())
            .await
    };
    let prompt = "When does the owl hunt?";

    let body = json!({"prompt": prompt, "options": {"output_schema": schema}});
    let reply = call("/v1/turns", "application/x-ndjson", body).await;
    let (mut text, mut results) = (String::new(), Vec::new());
    for frame in in_lines(&reply.body) {
        match frame {
            Frame::Text(piece) => text.push_str(&piece),
            Frame::Event { event, .. } => {
                if let Event::StructuredResult(one) = event {
                    results.push(one.result);
                }
            }
            Frame::End(end) => assert_eq!(end.status, Status::Completed),
            Frame::Snapshot(_) => panic!("nothing was dropped"),
        }
    }
    let said: Value = serde_json::from_str(SAID).unwrap();
    assert_eq!((text.as_str(), results), (SAID, vec![said.clone()]));
    let answered = asked.lock().unwrap().iter().any(|(_, body)| {
        body["response_format"]["json_schema"]["schema"] == schema
            && body["messages"].to_string().contains("The owl hunts at night.")
    });
    assert!(answered, "the model was given neither the schema nor the source");

    let format = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}});
    let messages = json!([{"role": "user", "content": prompt}]);
    let body = json!({"model": "ragwire", "messages": messages, "response_format": format});
    let reply = call("/v1/chat/completions", "application/json", body).await;
    assert_eq!(reply.json()["choices"][0]["message"]["content"], SAID);

    let body = json!({"message": prompt, "outputSchema": schema});
    let reply = call("/eve/v1/session", "application/json", body).await;
    let id = reply.json()["sessionId"].as_str().unwrap().to_owned();
    let reply = running
        .get(&format!("/eve/v1/session/{id}/stream?startIndex=0"))
        .await;
    let lines = String::from_utf8(reply.body.to_vec()).unwrap();
    let completed = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|line| line["type"] == "result.completed");
    assert_eq!(completed.unwrap()["data"]["result"], said);
    engines.shutdown().await;
}

#[tokio::test]
async fn the_model_extracts_the_graph_if_configured() {
    let triple = json!({"subject": "owl", "predicate": "sleeps_before", "object": "night"});
    let (url, _asked, _serving) = double(&json!({ "triples": [triple] }).to_string()).await;
    for (graph_model, wanted) in [(true, true), (false, false)] {
        let (library, settings) = (
            owl(),
            Settings {
                graph_model,
                ..asking(&url)
            },
        );
        let engines = Engines::start(&settings, &library).await.unwrap();
        let graph = Arc::new(Graph::in_memory(Default::default()).unwrap());
        let index = graph::index(&settings, &library, Arc::clone(&graph), &engines);
        index.sync().await.unwrap();
        let found = GraphTraverse::new(graph, library)
            .explore("owl", Default::default())
            .await
            .unwrap();
        let said = found.edges.iter().any(|edge| edge.predicate == "sleeps_before");
        assert_eq!(said, wanted, "{:?}", found.edges);
    }
}
