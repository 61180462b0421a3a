//! Explanations: which triples a traversal followed, reported as events.

use ragwire::event::{GraphExplanation, Triple};
use ragwire::{SendError, Sink};

use super::entity::{entity_iri, relation_iri};
use super::search::FollowedTriple;

/// The name of the graph in explanations: TrustGraph's name for the graph that records a retrieval.
pub(super) const GRAPH: &str = "urn:graph:retrieval";
/// Number of triples in one explanation: about 20 KiB, far below the largest event of any wire.
pub(super) const TRIPLES_PER_EVENT: usize = 100;

/// Reports which triples were followed, under IDs that count up from `number`. Returns the next
/// number.
pub(crate) async fn explain<'a>(
    what: &str,
    mut number: usize,
    edges: impl Iterator<Item = &'a FollowedTriple>,
    sink: &Sink,
) -> Result<usize, SendError> {
    let triple = |edge: &FollowedTriple| {
        let (subject, object) = (entity_iri(&edge.subject), entity_iri(&edge.object));
        Triple::new(subject, relation_iri(&edge.predicate), object)
    };
    let triples: Vec<Triple> = edges.map(triple).collect();
    for part in triples.chunks(TRIPLES_PER_EVENT) {
        let id = format!("urn:ragwire:{what}:{number}");
        sink.send(GraphExplanation::new(id, GRAPH, part.to_vec())).await?;
        number += 1;
    }
    Ok(number)
}
