//! The contract of a graph, tested through its public interface.

use super::*;
use crate::graph::GraphLimits;

fn graph() -> Graph {
    Graph::in_memory(GraphRoom::default()).unwrap()
}

fn triple(subject: &str, predicate: &str, object: &str, weight: f32) -> Relation {
    Relation::new(subject, predicate, object, weight)
}

/// Everything that a caller can observe of a graph.
fn seen(graph: &Graph) -> String {
    let mut limits = GraphLimits::default();
    (limits.entity_limit, limits.max_path_length) = (1_000, 10);
    (limits.triple_limit, limits.max_subgraph_size) = (1_000, 5_000);
    let names = graph.names();
    let question: Vec<&str> = names.values().map(String::as_str).collect();
    let found = graph.search(&question.join(" "), &limits).unwrap();
    let spellings: Vec<_> = names.keys().map(|name| graph.spellings(name)).collect();
    format!(
        "{:#?}\n{:?}\n{names:#?}\n{spellings:#?}\n{found:#?}",
        graph.size(),
        graph.documents()
    )
}

/// A folder that is removed with its content.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ragwire-graph-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Self(folder)
    }

    fn open(&self) -> Graph {
        Graph::open(&self.0, GraphRoom::default()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn fill(graph: &Graph) {
    let first = vec![
        (
            0,
            vec![
                triple("Turns", "uses", "bounded queue", 0.8),
                triple("turn", "uses", "Bounded Queues", 0.9),
            ],
        ),
        (
            2,
            vec![
                triple("the turn", "uses", "bounded queue", 0.5),
                triple("turn", "has", "owner", 0.8),
            ],
        ),
    ];
    graph.put("d1", "p", first).unwrap();
    graph
        .put(
            "d2",
            "p",
            vec![(1, vec![triple("turn", "has", "owner", 0.5)]), (3, vec![])],
        )
        .unwrap();
    graph.put("d3", "q", Vec::new()).unwrap();
}

#[test]
fn one_thing_is_one_entity_with_its_spellings() {
    let graph = graph();
    fill(&graph);
    let size = graph.size();
    assert_eq!(
        (size.documents, size.entities, size.triples, size.mentions),
        (3, 3, 2, 4)
    );
    assert_eq!(
        graph.names().values().collect::<Vec<_>>(),
        ["bounded queue", "owner", "turn"]
    );
    let spellings: Vec<_> = graph.spellings("TURN").into_iter().collect();
    assert_eq!(
        spellings,
        [("Turns".into(), 1), ("the turn".into(), 1), ("turn".into(), 2)]
    );
    let found = graph.search("owner", &GraphLimits::default()).unwrap();
    let has = &found.edges[0];
    assert_eq!(
        (&*has.subject, &*has.predicate, &*has.object),
        ("turn", "has", "owner")
    );
    assert!((has.weight - 0.9).abs() < 1e-6, "doubts multiply: {}", has.weight);
    let mentions: Vec<_> = has
        .mentions
        .iter()
        .map(|mention| (&*mention.chunk_id, mention.weight))
        .collect();
    assert_eq!(mentions, [("d1-2", 0.8), ("d2-1", 0.5)]);
}

#[test]
fn invalid_triples_are_skipped() {
    let graph = graph();
    let long = "x".repeat(100);
    let bad = vec![
        triple("", "uses", "b", 1.0),
        triple("a", "uses", "", 1.0),
        triple("A turn", "uses", "turns", 1.0),
        triple("alpha", "", "beta", 1.0),
        triple("alpha", &long, "beta", 1.0),
        triple("alpha", "u\n", "beta", 1.0),
        triple(&long, "uses", "beta", 1.0),
        triple("al\u{1d}pha", "uses", "beta", 1.0),
    ];
    graph.put("d1", "p", vec![(0, bad)]).unwrap();
    assert_eq!(graph.size().entities, 0);
    let many = (0..100)
        .map(|n| triple(&format!("s{n}"), "uses", "queue", f32::NAN))
        .collect();
    graph.put("d1", "p", vec![(0, many)]).unwrap();
    assert_eq!(graph.size().mentions, MAX_TRIPLES);
}

#[test]
fn a_replaced_or_removed_document_leaves_no_trace() {
    let (graph, other) = (graph(), graph());
    fill(&graph);
    let before = seen(&graph);
    graph
        .put(
            "d4",
            "p",
            vec![(
                0,
                vec![
                    triple("TURNS", "has", "frames", 0.3),
                    triple("x1", "uses", "turn", 1.0),
                ],
            )],
        )
        .unwrap();
    assert_ne!(seen(&graph), before);
    assert!(graph.remove("d4").unwrap());
    assert!(!graph.remove("d4").unwrap());
    assert_eq!(seen(&graph), before);
    // Replaced repeatedly, finally by the same triples.
    graph
        .put("d1", "p", vec![(7, vec![triple("wren", "is_a", "bird", 1.0)])])
        .unwrap();
    graph.put("d1", "p", Vec::new()).unwrap();
    for id in ["d1", "d2", "d3"] {
        graph.remove(id).unwrap();
    }
    assert_eq!(graph.size(), GraphSize::default());
    assert_eq!(seen(&graph), seen(&other));
    fill(&graph);
    assert_eq!(seen(&graph), before);
}

#[test]
fn stored_triples_survive_a_restart_unchanged() {
    let folder = Folder::new("reopen");
    let memory = graph();
    let mut wanted = Vec::new();
    let steps: [fn(&Graph); 4] = [
        fill,
        |graph| {
            graph
                .put("d4", "q", vec![(0, vec![triple("Robins", "eats", "worm", 0.7)])])
                .unwrap()
        },
        |graph| assert!(graph.remove("d2").unwrap()),
        |graph| {
            graph
                .put("d1", "q", vec![(1, vec![triple("robin", "eats", "Worms", 0.2)])])
                .unwrap()
        },
    ];
    for step in steps {
        step(&memory);
        let graph = folder.open();
        step(&graph);
        let grown = seen(&graph);
        drop(graph);
        let opened = seen(&folder.open());
        assert_eq!(opened, grown, "the reopened graph equals the one that grew");
        assert_eq!(
            opened,
            seen(&memory),
            "the graph on disk equals the one in memory"
        );
        wanted.push(opened);
    }
    wanted.dedup();
    assert_eq!(wanted.len(), 4, "each step changes the graph");
}

#[test]
fn a_file_of_another_process_or_version_is_rejected() {
    let folder = Folder::new("version");
    let graph = folder.open();
    assert_eq!(
        Graph::open(&folder.0, GraphRoom::default()).unwrap_err().code(),
        "graph_in_use"
    );
    drop(graph);
    let database = rusqlite::Connection::open(folder.0.join(Graph::FILE_NAME)).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    let error = Graph::open(&folder.0, GraphRoom::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the graph has format 99, but this program supports format 2"
    );
    std::fs::write(folder.0.join(Graph::FILE_NAME), b"not a database").unwrap();
    assert_eq!(
        Graph::open(&folder.0, GraphRoom::default()).unwrap_err().code(),
        "graph_damaged"
    );
}

#[test]
fn a_full_graph_rejects_a_change_and_stays_unchanged() {
    let graph = Graph::in_memory(GraphRoom::new(3, 4)).unwrap();
    fill(&graph);
    let before = seen(&graph);
    let put = |id: &str, triples| graph.put(id, "p", vec![(0, triples)]);
    let error = put("d5", vec![triple("turn", "has", "owner", 1.0)]).unwrap_err();
    assert_eq!(error.to_string(), "the graph is full: at most 4 triples");
    let error = put("d2", vec![triple("turn", "has", "frame", 1.0)]).unwrap_err();
    assert_eq!(
        (error.code(), error.to_string()),
        ("graph_full", "the graph is full: at most 3 entities".into())
    );
    assert_eq!(seen(&graph), before);
    // Removing triples makes room for those that replace them.
    put(
        "d1",
        vec![
            triple("turn", "has", "frame", 1.0),
            triple("turn", "uses", "frame", 1.0),
        ],
    )
    .unwrap();
    assert_eq!(graph.size().entities, 3);
    assert_eq!(graph.size().mentions, 3);
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let folder = Folder::new("damage");
    let graph = folder.open();
    fill(&graph);
    let before = seen(&graph);
    drop(graph);
    let file = folder.0.join(Graph::FILE_NAME);
    let whole = std::fs::read(&file).unwrap();
    let (mut reported, mut harmless) = (0, 0);
    for step in 0..80 {
        let at = step * whole.len() / 80;
        let mut damaged = whole.clone();
        match step % 3 {
            0 => damaged[at] ^= 0x55,
            1 => damaged[at..(at + 600).min(whole.len())].fill(0xa5),
            _ => damaged.truncate(at.max(1)),
        }
        std::fs::write(&file, damaged).unwrap();
        match Graph::open(&folder.0, GraphRoom::default()) {
            Ok(graph) => {
                assert_eq!(seen(&graph), before, "step {step}");
                harmless += 1;
            }
            Err(error) => {
                let known = ["graph_damaged", "graph_storage", "graph_version"];
                assert!(known.contains(&error.code()), "{error:?}");
                reported += 1;
            }
        }
    }
    assert!(reported > 20 && harmless > 0, "{reported} {harmless}");
}
