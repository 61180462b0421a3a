//! What a turn did, as the entities that TrustGraph's clients print with `--explainable`: triples in
//! the vocabularies `https://trustgraph.ai/ns/` and PROV.
//!
//! The entities are inline, so that a client asks for nothing. It asks the service `triples` for an
//! entity without triples, for the edges of a `Focus`, and for the labels of IRIs. Where that service
//! answers ([`Triples`]), the edges that an answer is written from are a `Focus`; otherwise every
//! explanation of edges is an `Exploration`. Entities are named by literals.

use serde_json::{Value, json};

use super::triples::Triples;
use crate::event::{Event, GraphExplanation, Triple};
use crate::time::Timestamp;

const RDF_TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";
const DERIVED_FROM: &str = "http://www.w3.org/ns/prov#wasDerivedFrom";
const LABEL: &str = "http://www.w3.org/2000/01/rdf-schema#label";
const STARTED_AT: &str = "http://www.w3.org/ns/prov#startedAtTime";

/// The names of TrustGraph's vocabulary.
macro_rules! tg {
    ($name:literal) => {
        concat!("https://trustgraph.ai/ns/", $name)
    };
}

/// TrustGraph's graph of what a retrieval did.
const GRAPH: &str = "urn:graph:retrieval";

/// The ID of the question; a stream has one.
const QUESTION: &str = "urn:ragwire:question:1";

/// The ID of the answer.
const SYNTHESIS: &str = "urn:ragwire:synthesis:1";

/// The beginning of the IDs of retrievals.
const RETRIEVAL: &str = "urn:ragwire:retrieval:";

/// The beginning of the IDs of the edges that an answer is written from.
const FOCUS: &str = "urn:ragwire:focus:";

/// The beginnings of the IRIs of entities and relations.
const NAMED: [&str; 2] = ["urn:ragwire:entity:", "urn:ragwire:relation:"];

/// The maximum number of entities that an explanation names. The clients print a line for each.
const MAX_ENTITIES: usize = 20;

/// An entity, as a message contains it.
#[derive(Debug)]
pub(super) struct Explained {
    pub(super) id: String,
    pub(super) graph: String,
    pub(super) triples: Vec<Value>,
}

/// The entities of one turn so far.
#[derive(Debug)]
pub(super) struct Explanations {
    is_graph: bool,
    /// What the service `triples` returns, if there is one, and the number of this turn there.
    triples: Option<(Triples, u64)>,
    has_question: bool,
    retrievals: u32,
}

impl Explanations {
    pub(super) fn new(is_graph: bool, triples: Option<Triples>) -> Self {
        Self {
            is_graph,
            triples: triples.map(|triples| {
                let turn = triples.begin();
                (triples, turn)
            }),
            has_question: false,
            retrievals: 0,
        }
    }

    /// Returns the entity that an event describes besides itself.
    pub(super) fn of(&mut self, event: &Event, timestamp: Option<Timestamp>) -> Option<Explained> {
        match event {
            Event::QueryAnalysis(analysis) => self.question(&analysis.query, timestamp),
            Event::RetrievalStart(start) => self.question(&start.query, timestamp),
            Event::Search(search) => self.question(search.query.as_ref()?, timestamp),
            // A graph's own explanations have more detail.
            Event::RetrievalResult(result) if !self.is_graph => {
                self.retrievals += 1;
                let id = self.unique(&format!("{RETRIEVAL}{}", self.retrievals));
                let count = result.chunks_found.to_string();
                Some(self.entity(
                    &id,
                    tg!("Exploration"),
                    vec![literal(&id, tg!("chunkCount"), &count)],
                ))
            }
            Event::Reasoning(_)
            | Event::Review(_)
            | Event::CacheHit(_)
            | Event::CacheMiss(_)
            | Event::RetrievalResult(_)
            | Event::ToolCall(_)
            | Event::ToolResult(_)
            | Event::CragEvaluation(_)
            | Event::RerankResult(_)
            | Event::GenerationStart(_)
            | Event::RoundStart(_)
            | Event::Generating(_)
            | Event::Thinking(_)
            | Event::Retract(_)
            | Event::Verification(_)
            | Event::Sources(_)
            | Event::Queued(_)
            | Event::InputRequested(_)
            | Event::InputResolved(_)
            | Event::AuthorizationRequired(_)
            | Event::AuthorizationCompleted(_)
            | Event::StructuredResult(_)
            | Event::GraphExplanation(_)
            | Event::Custom(_) => None,
        }
    }

    /// The first query is the question; later ones are the searches for its answer.
    fn question(&mut self, query: &str, timestamp: Option<Timestamp>) -> Option<Explained> {
        if std::mem::replace(&mut self.has_question, true) {
            return None;
        }
        let kind = if self.is_graph {
            tg!("GraphRagQuestion")
        } else {
            tg!("DocRagQuestion")
        };
        let id = self.unique(QUESTION);
        let mut triples = vec![
            iri(&id, RDF_TYPE, kind),
            iri(&id, RDF_TYPE, tg!("Question")),
            literal(&id, tg!("query"), query),
        ];
        triples.extend(timestamp.map(|at| literal(&id, STARTED_AT, &at.to_string())));
        Some(self.stored(Explained {
            id,
            graph: GRAPH.to_owned(),
            triples,
        }))
    }

    /// Returns the ID of an entity of this turn, which differs from those of the other turns that
    /// the service `triples` knows.
    fn unique(&self, id: &str) -> String {
        match self.triples {
            None | Some((_, 1)) => id.to_owned(),
            Some((_, turn)) => format!("{id}/{turn}"),
        }
    }

    /// Stores an entity for the service `triples`.
    fn stored(&self, explained: Explained) -> Explained {
        if let Some((triples, _)) = &self.triples {
            triples.add(&explained.triples);
        }
        explained
    }

    /// Returns the answer, if the question was explained.
    pub(super) fn synthesis(&self) -> Option<Explained> {
        self.has_question
            .then(|| self.entity(&self.unique(SYNTHESIS), tg!("Synthesis"), Vec::new()))
    }

    /// Returns an explanation of a graph search. Unless its triples describe it already, they are
    /// the edges that were followed, and the description comes before them.
    pub(super) fn graph(&self, explanation: &GraphExplanation) -> Explained {
        let id = &self.unique(&explanation.explain_id);
        let edges: Vec<Value> = explanation.triples.iter().map(triple).collect();
        let is_described = explanation
            .triples
            .iter()
            .any(|triple| plain(&triple.s) == explanation.explain_id && plain(&triple.p) == RDF_TYPE);
        if is_described {
            return self.stored(Explained {
                // Its triples name it.
                id: explanation.explain_id.clone(),
                graph: explanation.graph.clone(),
                triples: edges,
            });
        }
        if let Some((triples, _)) = &self.triples
            && explanation.explain_id.starts_with(FOCUS)
        {
            return self.focus(triples, id, explanation, edges);
        }
        let mut names: Vec<String> = Vec::new();
        for triple in &explanation.triples {
            let name = name_of(&triple.s);
            if names.len() < MAX_ENTITIES && !names.contains(&name) {
                names.push(name);
            }
        }
        let mut members = vec![literal(id, tg!("edgeCount"), &edges.len().to_string())];
        members.extend(names.iter().map(|name| literal(id, tg!("entity"), name)));
        let mut explained = self.entity(id, tg!("Exploration"), members);
        explained.graph.clone_from(&explanation.graph);
        explained.triples.extend(edges);
        explained
    }

    /// Returns the edges that an answer is written from. Each is an entity of its own, which clients
    /// ask for.
    fn focus(
        &self,
        triples: &Triples,
        id: &str,
        explanation: &GraphExplanation,
        edges: Vec<Value>,
    ) -> Explained {
        let selection = |number: usize| format!("{id}#{number}");
        let members = (0..edges.len()).map(|number| iri(id, tg!("selectedEdge"), &selection(number)));
        let mut explained = self.entity(id, tg!("Focus"), members.collect());
        explained.graph.clone_from(&explanation.graph);
        for (number, edge) in edges.iter().enumerate() {
            let mut selected = iri(&selection(number), tg!("edge"), "");
            selected["o"] = json!({ "t": "t", "tr": edge });
            triples.add([&selected]);
        }
        explained.triples.extend(edges);
        explained
    }

    fn entity(&self, id: &str, kind: &str, members: Vec<Value>) -> Explained {
        let mut triples = vec![iri(id, RDF_TYPE, kind)];
        if self.has_question {
            triples.push(iri(id, DERIVED_FROM, &self.unique(QUESTION)));
        }
        triples.extend(members);
        self.stored(Explained {
            id: id.to_owned(),
            graph: GRAPH.to_owned(),
            triples,
        })
    }
}

/// Returns `true` for an entity that [`Explanations::of`] and [`Explanations::synthesis`] add to
/// the events of a turn.
pub(super) fn is_added(id: &str) -> bool {
    let id = id.split('/').next().unwrap_or_default();
    id == QUESTION || id == SYNTHESIS || id.starts_with(RETRIEVAL)
}

/// Returns the label of an entity or a relation: its name is its IRI.
pub(super) fn label(term: &str) -> Option<Value> {
    let is_named = NAMED.iter().any(|prefix| term.starts_with(prefix));
    is_named.then(|| literal(term, LABEL, &name_of(term)))
}

/// Removes the description that [`Explanations::graph`] and [`Explanations::focus`] add.
pub(super) fn without_description(id: &str, triples: &mut Vec<Triple>) {
    if id.starts_with(FOCUS) {
        triples.retain(|triple| triple.s != id);
        return;
    }
    let describes = |triple: &Triple| {
        triple.s == id
            && (triple.p == DERIVED_FROM || triple.p == tg!("edgeCount") || triple.p == tg!("entity"))
    };
    let is_ours = matches!(&triples[..], [first, rest @ ..] if first.s == id && first.p == RDF_TYPE
    && first.o == tg!("Exploration")
    && rest.iter().take_while(|triple| describes(triple)).any(|triple| {
        let edges = rest.iter().skip_while(|triple| describes(triple)).count();
        triple.p == tg!("edgeCount") && triple.o == edges.to_string()
    }));
    if is_ours {
        let edges = triples.iter().skip(1).position(|triple| !describes(triple));
        triples.drain(..edges.map_or(triples.len(), |edges| edges + 1));
    }
}

/// Returns an entity's name for people. It is not an IRI, because the clients ask for the labels of
/// those.
fn name_of(term: &str) -> String {
    let name = plain(term).rsplit([':', '/', '#']).next().unwrap_or_default();
    name.replace('_', " ")
}

fn iri(s: &str, p: &str, o: &str) -> Value {
    json!({ "s": { "t": "i", "i": s }, "p": { "t": "i", "i": p }, "o": { "t": "i", "i": o } })
}

fn literal(s: &str, p: &str, o: &str) -> Value {
    json!({ "s": { "t": "i", "i": s }, "p": { "t": "i", "i": p }, "o": { "t": "l", "v": o } })
}

fn is_quoted(term: &str) -> bool {
    term.starts_with('<') && term.ends_with('>') && !term.starts_with("<<")
}

/// Returns an IRI without its brackets.
fn plain(term: &str) -> &str {
    if is_quoted(term) {
        &term[1..term.len() - 1]
    } else {
        term
    }
}

/// Returns `true` if an object is an IRI by the rules of TrustGraph's clients.
pub(super) fn is_iri(term: &str) -> bool {
    is_quoted(term)
        || ["http://", "https://", "urn:"]
            .iter()
            .any(|scheme| term.starts_with(scheme))
}

/// A triple as terms of TrustGraph. Subject and predicate are always IRIs; the type of the object
/// follows from its spelling.
fn triple(triple: &Triple) -> Value {
    if is_iri(&triple.o) {
        iri(plain(&triple.s), plain(&triple.p), plain(&triple.o))
    } else {
        literal(plain(&triple.s), plain(&triple.p), &triple.o)
    }
}
