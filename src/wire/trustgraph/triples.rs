//! The explanations that were sent on one socket, for the service `triples`, with which clients
//! resolve them.
//!
//! A client asks on the socket on which it got an explanation, so each socket has its own store, and
//! nothing is visible to others.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};

use super::explain;

/// The most triples of one store, as JSON: those of several questions to a graph. All sockets of a
/// gateway together may have as many times more.
const MAX_BYTES: usize = 256 * 1024;
/// Number of triples in a response, if the request does not say, and at most.
const LIMIT: usize = 100;
const MAX_LIMIT: usize = 1_000;

/// The triples of one socket. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Triples(Arc<Mutex<Stored>>);

#[derive(Debug, Default)]
struct Stored {
    /// The number of turns so far.
    turns: u64,
    /// The oldest first.
    triples: VecDeque<(usize, Value)>,
    bytes: usize,
}

impl Triples {
    /// Begins a turn and returns its number, counted from 1.
    pub(super) fn begin(&self) -> u64 {
        let mut stored = self.lock();
        stored.turns += 1;
        stored.turns
    }

    /// Adds triples, and drops the oldest ones above the limit.
    pub(super) fn add<'a>(&self, triples: impl IntoIterator<Item = &'a Value>) {
        let mut stored = self.lock();
        for triple in triples {
            let bytes = triple.to_string().len();
            stored.bytes += bytes;
            stored.triples.push_back((bytes, triple.clone()));
        }
        while stored.bytes > MAX_BYTES {
            let Some((bytes, _)) = stored.triples.pop_front() else {
                break;
            };
            stored.bytes -= bytes;
        }
    }

    /// Returns the `response` to a request of the service `triples`: those that match the terms `s`,
    /// `p` and `o`, and the label of an entity or a relation.
    pub(crate) fn query(&self, request: &Map<String, Value>) -> Value {
        let [s, p, o] = ["s", "p", "o"].map(|name| request.get(name).and_then(text));
        let limit = request.get("limit").and_then(Value::as_u64);
        let limit = limit.map_or(LIMIT, |limit| usize::try_from(limit).unwrap_or(MAX_LIMIT));
        let matches = |triple: &Value| {
            [("s", s), ("p", p), ("o", o)]
                .into_iter()
                .all(|(name, wanted)| wanted.is_none() || text(&triple[name]) == wanted)
        };
        let stored = self.lock();
        let found = stored.triples.iter().map(|(_, triple)| triple.clone());
        let label = s.and_then(explain::label);
        let triples: Vec<Value> = found
            .chain(label)
            .filter(matches)
            .take(limit.min(MAX_LIMIT))
            .collect();
        json!({ "response": triples })
    }

    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the IRI or the literal of a term.
fn text(term: &Value) -> Option<&str> {
    let text = term.get("i").or_else(|| term.get("v"));
    text.unwrap_or(term).as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn triple(s: &str, p: &str, o: &str) -> Value {
        json!({ "s": { "t": "i", "i": s }, "p": { "t": "i", "i": p }, "o": { "t": "l", "v": o } })
    }

    fn query(triples: &Triples, request: Value) -> Vec<Value> {
        let Value::Object(request) = request else {
            panic!("{request}")
        };
        triples.query(&request)["response"].as_array().unwrap().clone()
    }

    #[test]
    fn triples_are_found_by_their_terms() {
        let triples = Triples::default();
        let all = [
            triple("a", "p", "1"),
            triple("a", "q", "2"),
            triple("b", "p", "2"),
        ];
        triples.add(&all);
        let term = |iri: &str| json!({ "t": "i", "i": iri });
        assert_eq!(query(&triples, json!({})), all);
        assert_eq!(query(&triples, json!({ "s": term("a") })), all[..2]);
        assert_eq!(query(&triples, json!({ "s": "a", "p": term("q") })), all[1..2]);
        assert_eq!(query(&triples, json!({ "o": { "t": "l", "v": "2" } })), all[1..]);
        assert_eq!(query(&triples, json!({ "limit": 1 })), all[..1]);
        assert_eq!(query(&triples, json!({ "s": term("c") })), [] as [Value; 0]);
    }

    #[test]
    fn an_entity_has_a_label() {
        let found = query(
            &Triples::default(),
            json!({ "s": { "t": "i", "i": "urn:ragwire:entity:commit_rule" } }),
        );
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["o"], json!({ "t": "l", "v": "commit rule" }));
    }

    #[test]
    fn the_oldest_triples_are_dropped() {
        let triples = Triples::default();
        for number in 0..2000 {
            triples.add(&[triple("a", "p", &format!("{number:0200}"))]);
        }
        let stored = triples.lock();
        assert!(stored.bytes <= MAX_BYTES && stored.bytes > MAX_BYTES - 1000);
        assert_eq!(
            stored.bytes,
            stored.triples.iter().map(|(bytes, _)| bytes).sum::<usize>()
        );
        let (_, newest) = stored.triples.back().unwrap();
        assert_eq!(newest["o"]["v"].as_str().unwrap().trim_start_matches('0'), "1999");
    }

    #[test]
    fn triples_of_exactly_the_limit_are_kept() {
        let empty = triple("a", "p", "").to_string().len();
        for (bytes, kept) in [(MAX_BYTES, 1), (MAX_BYTES + 1, 0)] {
            let triples = Triples::default();
            triples.add(&[triple("a", "p", &"x".repeat(bytes - empty))]);
            assert_eq!(triples.lock().triples.len(), kept, "{bytes}");
        }
    }
}
