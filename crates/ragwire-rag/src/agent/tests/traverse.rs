//! Whole turns of an agent that has a graph: which judge chooses the graph and when, which events
//! report it, and what evidence it adds.

use serde_json::{Value, json};

use super::*;
use crate::graph::{Graph, GraphIndex, GraphLimits, GraphRoom, Patterns};

const TURNS: &str = "# Turns\n\nA turn uses a bounded queue.\n\n# Queues\n\nThe bounded queue holds frames.\n\n# Frames\n\n\
    Frames replace sentinels.\n\n# Birds\n\nRobins sing at dawn.";
const RELATING: &str = "How does a turn relate to sentinels?";
const NAME: &str = "graph_traverse";
const TRAVERSE: [&str; 7] = [
    "tool_call",
    "search",
    "retrieval_start",
    "graph_explanation",
    "retrieval_result",
    "graph_explanation",
    "tool_result",
];

async fn made(text: &str) -> (Arc<Library>, GraphTraverse) {
    // Words of a name are searched too, and this one has none of the text.
    let library = library("page.md", text);
    let graph = Arc::new(Graph::in_memory(GraphRoom::default()).unwrap());
    let patterns = Arc::new(Patterns::default());
    let index = GraphIndex::new(Arc::clone(&library), Arc::clone(&graph), patterns);
    index.sync().await.unwrap();
    (Arc::clone(&library), GraphTraverse::new(graph, library))
}

/// An agent that searches by words.
fn words(library: &Arc<Library>) -> AgentBuilder {
    let store = Arc::new(MemoryStore::new(Vectors::NONE));
    let tools = SearchTools::new(Arc::clone(library), store, None).unwrap();
    Agent::builder(Arc::clone(library), tools)
}

/// Returns the events that report the graph, as JSON, without elapsed times, which vary, and with
/// scores rounded to three digits.
fn bodies(collected: &Collected) -> Vec<Value> {
    let is_of_graph = |event: &Event| match event {
        Event::GraphExplanation(_) => true,
        Event::ToolCall(event) => event.tool == NAME,
        Event::ToolResult(event) => event.tool == NAME,
        Event::Search(event) => event.tool == NAME,
        Event::RetrievalStart(event) => event.tool == NAME,
        Event::RetrievalResult(event) => event.tool == NAME,
        _ => false,
    };
    let selected = collected.events.iter().filter(|(event, _)| is_of_graph(event));
    selected
        .map(|(event, _)| {
            let mut body = serde_json::to_value(event).unwrap();
            let took = body.as_object_mut().unwrap().remove("duration_ms");
            assert!(took.is_none_or(|took| took.is_u64()));
            if let Some(score) = body.get_mut("top_score") {
                *score = json!((score.as_f64().unwrap() * 1e3).round() / 1e3);
            }
            body
        })
        .collect()
}

/// Returns the tool of each iteration.
fn searches(collected: &Collected) -> Vec<(u32, String)> {
    pick_events(collected, |event| match event {
        Event::RetrievalStart(event) => Some((event.iteration, event.tool.clone())),
        _ => None,
    })
}

fn evidence(collected: &Collected) -> Vec<String> {
    let texts = pick_events(collected, |event| match event {
        Event::Sources(event) => Some(event.sources.iter().map(|source| source.text.clone()).collect()),
        _ => None,
    });
    texts.into_iter().flat_map(|texts: Vec<String>| texts).collect()
}

#[tokio::test]
async fn a_model_chooses_the_graph_and_each_step_is_reported() {
    let (library, graph) = made(TURNS).await;
    let tools = tools(&library).await;
    let judge = judge(
        &library,
        &[
            r#"{"complexity":"complex","mode":"agentic","sub_queries":[]}"#,
            r#"{"tool":"graph_traverse","query":"turn frames"}"#,
            r#"{"tool":"graph_traverse","query":"sentinels"}"#,
            r#"{"tool":"stop","query":""}"#,
        ],
    );
    let writer = Arc::new(Scripted::new([Reply::says("A queue stands between them [3].")]));
    let agent = Agent::builder(Arc::clone(&library), tools)
        .judge(judge)
        .generator(Arc::new(Writer::new(writer)))
        .graph(graph)
        .build();
    let collected = ask(&agent, AgentQuestion::new(RELATING).verify(false)).await;
    let mut wanted = vec!["query_analysis"];
    wanted.extend(TRAVERSE.iter().chain(&TRAVERSE));
    wanted.extend(["rerank_result", "sources", "generation_start"]);
    assert_eq!(names(&collected), wanted);
    let (entity, relation) = ("urn:ragwire:entity:", "urn:ragwire:relation:");
    let (turn, queue, frames, replaced) = ("turn", "bounded queue", "frames", "sentinels");
    let spelled = |name: &str| name.replace(' ', "_").replace("_to", "%5Fto");
    let triple = |(s, p, o): &(&str, &str, &str)| {
        json!({
            "s": format!("{entity}{}", spelled(s)),
            "p": format!("{relation}{}", spelled(p)),
            "o": format!("{entity}{}", spelled(o)),
        })
    };
    let named = |(s, p, o): &(&str, &str, &str)| json!({ "subject": s, "predicate": p, "object": o });
    type Step<'a> = (
        &'a str,
        &'a [&'a str],
        usize,
        f64,
        &'a [(&'a str, &'a str, &'a str)],
    );
    let steps: [Step<'_>; 2] = [
        (
            "turn frames",
            &[frames, turn],
            3,
            0.355,
            &[
                (queue, "contains", frames),
                (frames, "replaces", replaced),
                (turn, "uses", queue),
                (frames, "related_to", "Queues"),
                (queue, "related_to", "Queues"),
            ],
        ),
        (
            "sentinels",
            &[replaced],
            2,
            0.64,
            &[
                (frames, "replaces", replaced),
                (queue, "contains", frames),
                (frames, "related_to", "Queues"),
            ],
        ),
    ];
    let mut wanted = Vec::new();
    for (iteration, (query, entities, chunks, score, triples)) in (1..).zip(steps) {
        let iris: Vec<Value> = triples.iter().map(triple).collect();
        let explained = |what: &str| {
            let id = format!("urn:ragwire:{what}:{iteration}");
            json!({ "event": "graph_explanation", "explain_id": id, "graph": "urn:graph:retrieval", "triples": iris })
        };
        wanted.extend([
            json!({ "event": "tool_call", "tool": NAME, "input": { "query": query }, "iteration": iteration }),
            json!({ "event": "search", "tool": NAME, "query": query, "page": 1 }),
            json!({ "event": "retrieval_start", "tool": NAME, "query": query, "iteration": iteration }),
            explained("exploration"),
            json!({
                "event": "retrieval_result",
                "tool": NAME,
                "chunks_found": chunks,
                "top_score": score,
                "levels": { "L1": 0, "L2": chunks, "L3": 0 },
            }),
            explained("focus"),
            json!({
                "event": "tool_result",
                "tool": NAME,
                "result": {
                    "entities": entities,
                    "triples": triples.iter().map(named).collect::<Vec<_>>(),
                    "triples_followed": triples.len(),
                    "chunks_found": chunks,
                },
            }),
        ]);
    }
    assert_eq!(bodies(&collected), wanted);
    assert_eq!(
        evidence(&collected),
        [
            "The bounded queue holds frames.",
            "Frames replace sentinels.",
            "A turn uses a bounded queue."
        ]
    );
    assert_eq!(collected.text, "A queue stands between them [1].");
    let metadata = &collected.end.metadata;
    assert_eq!(
        (metadata.mode.as_deref(), metadata.tools_used.as_slice()),
        (Some("agentic"), [NAME.to_owned()].as_slice())
    );
    assert_eq!(metadata.citations[0].source_tool, NAME);
}

#[tokio::test]
async fn the_lexical_judge_chooses_the_graph_for_relations() {
    let (library, graph) = made(TURNS).await;
    let agent = words(&library).graph(graph.clone()).build();
    let collected = ask(&agent, AgentQuestion::new(RELATING)).await;
    let search = ["search", "retrieval_start", "retrieval_result"];
    let mut wanted = vec!["query_analysis"];
    wanted.extend(search);
    wanted.push("crag_evaluation");
    wanted.extend(TRAVERSE);
    // The passages of the graph are not graded, and the searches after it find nothing new.
    wanted.extend(search.iter().chain(&search));
    wanted.extend(["rerank_result", "sources", "generation_start"]);
    assert_eq!(names(&collected), wanted);
    let used = |tools: &[&str]| -> Vec<(u32, String)> {
        (1..).zip(tools.iter().map(|tool| (*tool).to_owned())).collect()
    };
    assert_eq!(
        searches(&collected),
        used(&["bm25_search", NAME, "bm25_search", "proposition_search"])
    );
    // The passage between the two things shares no word with the question.
    assert_eq!(
        evidence(&collected),
        [
            "Frames replace sentinels.",
            "A turn uses a bounded queue.",
            "The bounded queue holds frames."
        ]
    );
    let metadata = &collected.end.metadata;
    assert_eq!(metadata.mode.as_deref(), Some("agentic"));
    assert_eq!(metadata.tools_used, ["bm25_search", NAME, "proposition_search"]);

    // The graph is not used if the mode excludes it, if the question does not relate things, if the
    // graph is empty, if the budget allows one search only, or if the agent has no graph.
    let other = AgentQuestion::new("When do robins sing?");
    let (_, nothing) = made("Yes.").await;
    assert!(nothing.is_empty() && !graph.is_empty());
    let cases = [
        (
            words(&library).graph(graph.clone()),
            AgentQuestion::new(RELATING).mode(Mode::Direct),
        ),
        (words(&library).graph(graph.clone()), other.clone()),
        (words(&library).graph(nothing), AgentQuestion::new(RELATING)),
        (
            words(&library).graph(graph),
            AgentQuestion::new(RELATING).searches(1),
        ),
        (words(&library), AgentQuestion::new(RELATING)),
    ];
    for (number, (agent, question)) in cases.into_iter().enumerate() {
        let agent = agent.build();
        let collected = ask(&agent, question.clone()).await;
        assert_eq!(collected.end.metadata.mode.as_deref(), Some("direct"), "{number}");
        assert_eq!(bodies(&collected), Vec::<Value>::new(), "{number}");
        let collected = ask(&agent, question.mode(Mode::Agentic)).await;
        let is_graph = |(_, tool): &(u32, String)| tool == NAME;
        assert_eq!(searches(&collected).iter().any(is_graph), number == 0, "{number}");
    }
}

#[tokio::test]
async fn a_stored_answer_reports_the_mode_that_found_it() {
    let (library, graph) =
        made("A turn uses a bounded queue. The relation between a turn and a queue is use.").await;
    let corpus = Arc::new(LibraryCorpus::new(Arc::clone(&library)));
    let cache = SemanticCache::lexical(Arc::clone(&library), corpus, CacheLimits::default());
    let agent = words(&library).graph(graph).cache(Arc::new(cache)).build();
    let question = || AgentQuestion::new("What is the relation between a turn and a queue?");
    let analysis = |collected: &Collected| serde_json::to_value(&collected.events[0].0).unwrap();
    let (first, second) = (ask(&agent, question()).await, ask(&agent, question()).await);
    assert_eq!(names(&second)[..2], ["query_analysis", "cache_hit"]);
    assert_eq!(analysis(&second), analysis(&first));
    assert_eq!(analysis(&second)["estimated_mode"], "agentic");
}

#[tokio::test]
async fn a_failed_search_of_the_graph_has_its_code() {
    let (library, graph) = made(TURNS).await;
    let mut limits = GraphLimits::default();
    limits.max_path_length = 0;
    let agent = words(&library).graph(graph.limits(limits)).build();
    assert_eq!(failed(&agent, RELATING).await, "vector_db_error");
}
