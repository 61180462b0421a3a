//! The search compared with a reference implementation of its rules over a list of triples, and its
//! limits for any graph and any question.

use proptest::prelude::*;

use super::*;
use crate::graph::{GraphRoom, Relation};

/// A triple of single words without stems, so that names, keys and words are the same.
#[derive(Clone, Debug, PartialEq)]
struct Plain {
    subject: String,
    predicate: &'static str,
    object: String,
    weight: f32,
}

const WORDS: [&str; 9] = ["ka1", "kb2", "kc3", "kd4", "ke5", "kf6", "kg7", "kh8", "ki9"];

fn limits(entities: usize, triples: usize, size: usize, length: usize) -> GraphLimits {
    let mut limits = GraphLimits::default();
    (limits.entity_limit, limits.triple_limit) = (entities, triples);
    (limits.max_subgraph_size, limits.max_path_length) = (size, length);
    limits
}

fn graph(triples: &[Plain]) -> Graph {
    let graph = Graph::in_memory(GraphRoom::default()).unwrap();
    let relation = |one: &Plain| Relation::new(&*one.subject, one.predicate, &*one.object, one.weight);
    let passages = (0..)
        .zip(triples)
        .map(|(ordinal, one)| (ordinal, vec![relation(one)]));
    graph.put("d1", "test", passages.collect()).unwrap();
    graph
}

fn words(name: &str) -> Vec<&str> {
    name.split(' ').collect()
}

/// The reference implementation: the rules of the module over a list, without index or graph.
fn by_hand(triples: &[Plain], question: &[&str], limits: &GraphLimits) -> Vec<(String, usize)> {
    let mut names: Vec<String> = triples
        .iter()
        .flat_map(|one| [one.subject.clone(), one.object.clone()])
        .collect();
    names.sort();
    names.dedup();
    let count = |word: &&str| {
        names
            .iter()
            .filter(|name| words(name).contains(word))
            .count()
            .max(1)
    };
    let weigh = |word: &'static str| (word, (1.0 + names.len() as f64 / count(&word) as f64).ln());
    let weights = WORDS.map(weigh);
    let weight_of = |word: &str| weights.iter().find(|(known, _)| *known == word).unwrap().1;
    let mut asked = question.to_vec();
    asked.sort();
    asked.dedup();
    let all: f64 = asked.iter().map(|word| weight_of(word)).sum();
    let mut seeds: Vec<(f64, String)> = Vec::new();
    for name in &names {
        let held: f64 = words(name)
            .iter()
            .filter(|word| asked.contains(word))
            .map(|word| weight_of(word))
            .sum();
        let whole: f64 = words(name).iter().map(|word| weight_of(word)).sum();
        if held > 0.0 {
            seeds.push((held * held / whole, name.clone()));
        }
    }
    let near = |a: f64, b: f64| (a - b).abs() < 1e-5;
    let sort = |list: &mut Vec<(f64, String)>| {
        list.sort_by(|a, b| {
            if near(a.0, b.0) {
                a.1.cmp(&b.1)
            } else {
                b.0.total_cmp(&a.0)
            }
        });
    };
    sort(&mut seeds);
    seeds.truncate(limits.entity_limit);
    // One triple for all passages that state it.
    let mut merged: Vec<Plain> = Vec::new();
    for one in triples {
        match merged.iter_mut().find(|known| {
            (&known.subject, known.predicate, &known.object) == (&one.subject, one.predicate, &one.object)
        }) {
            Some(known) => known.weight = 1.0 - (1.0 - known.weight) * (1.0 - one.weight),
            None => merged.push(one.clone()),
        }
    }
    let spelled = |one: &Plain| format!("{}\u{1}{}\u{1}{}", one.subject, one.predicate, one.object);
    let score = |one: &Plain| {
        let mut here: Vec<&str> = words(&one.subject);
        here.extend(words(&one.object));
        here.sort();
        here.dedup();
        let share: f64 = here
            .iter()
            .filter(|word| asked.contains(word))
            .map(|word| weight_of(word))
            .sum();
        f64::from(one.weight) * (0.1 + (share / all).min(1.0)) / 1.1
    };
    let mut frontier: Vec<String> = seeds.into_iter().map(|(_, name)| name).collect();
    let (mut visited, mut found): (Vec<String>, Vec<(String, usize)>) = (Vec::new(), Vec::new());
    for hop in 1..=limits.max_path_length {
        let mut candidates: Vec<(f64, String)> = Vec::new();
        for entity in &frontier {
            let mut own: Vec<(f64, String)> = merged
                .iter()
                .filter(|one| one.subject == *entity || one.object == *entity)
                .filter(|one| found.iter().all(|(known, _)| *known != spelled(one)))
                .map(|one| (score(one), spelled(one)))
                .collect();
            sort(&mut own);
            own.truncate(limits.triple_limit);
            candidates.extend(own);
        }
        visited.append(&mut frontier);
        candidates.sort_by(|a, b| a.1.cmp(&b.1));
        candidates.dedup_by(|a, b| a.1 == b.1);
        sort(&mut candidates);
        candidates.truncate(limits.max_subgraph_size - found.len());
        for (_, edge) in candidates {
            let ends: Vec<&str> = edge.split('\u{1}').collect();
            for end in [ends[0], ends[2]] {
                if !visited.iter().chain(&frontier).any(|known| known == end) {
                    frontier.push(end.to_owned());
                }
            }
            found.push((edge, hop));
        }
    }
    found
}

fn plain() -> impl Strategy<Value = Plain> {
    let name =
        proptest::collection::vec(proptest::sample::select(WORDS.to_vec()), 1..3).prop_map(|mut words| {
            words.dedup();
            words.join(" ")
        });
    // Weights so far apart that the order in which floats are summed does not matter.
    let weight = (1_u32..8).prop_map(|eighths| eighths as f32 / 8.0);
    let predicate = proptest::sample::select(vec!["zuses", "zhas"]);
    (name.clone(), predicate, name, weight)
        .prop_map(|(subject, predicate, object, weight)| Plain {
            subject,
            predicate,
            object,
            weight,
        })
        .prop_filter("two ends", |one| one.subject != one.object)
}

#[test]
fn edges_of_the_same_score_are_ordered_by_spelling() {
    let triple = |subject: &str, object: &str, weight| Plain {
        subject: subject.to_owned(),
        predicate: "zuses",
        object: object.to_owned(),
        weight,
    };
    // Both score 0.4375, which sums of floats miss by different amounts.
    let triples = [
        triple("ki9", "ka1", 0.125),
        triple("kd4", "ka1 ki9", 0.125),
        triple("kc3 kh8", "kg7", 0.875),
        triple("kd4", "ki9 kf6", 0.625),
        triple("kc3 kh8", "ki9 ka1", 0.125),
    ];
    let found = graph(&triples)
        .search("kg7 kf6 ki9", &limits(2, 1, 1, 1))
        .unwrap();
    let subjects: Vec<&str> = found.edges.iter().map(|edge| &*edge.subject).collect();
    assert_eq!(subjects, ["kc3 kh8"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn the_search_follows_its_rules(
        triples in proptest::collection::vec(plain(), 0..30),
        question in proptest::collection::vec(proptest::sample::select(WORDS.to_vec()), 0..4),
        (entities, per_entity, size, length) in (1_usize..5, 1_usize..5, 1_usize..12, 1_usize..4),
    ) {
        let limits = limits(entities, per_entity, size, length);
        let found = graph(&triples).search(&question.join(" "), &limits).unwrap();
        let followed = found.edges.iter().map(|edge| (format!("{}\u{1}{}\u{1}{}", edge.subject, edge.predicate, edge.object), edge.hop));
        prop_assert_eq!(followed.collect::<Vec<_>>(), by_hand(&triples, &question, &limits));
    }

    #[test]
    fn limits_hold_for_any_question(
        triples in proptest::collection::vec(plain(), 0..40),
        question in ".{0,80}",
        named in proptest::collection::vec(proptest::sample::select(WORDS.to_vec()), 0..6),
        (entities, per_entity, size, length) in (1_usize..6, 1_usize..6, 1_usize..20, 1_usize..5),
    ) {
        let limits = limits(entities, per_entity, size, length);
        let graph = graph(&triples);
        let question = format!("{question} {}", named.join(" "));
        let found = graph.search(&question, &limits).unwrap();
        prop_assert_eq!(&found, &graph.search(&question, &limits).unwrap());
        prop_assert!(found.entities.len() <= entities && found.edges.len() <= size);
        prop_assert!(found.edges.iter().all(|edge| (1..=length).contains(&edge.hop)));
        // Every triple is connected to an entity of the question by triples of earlier steps.
        let mut reached: Vec<Vec<&str>> = vec![found.entities.iter().map(String::as_str).collect()];
        for hop in 1..=length {
            let here: Vec<_> = found.edges.iter().filter(|edge| edge.hop == hop).collect();
            let before = reached.concat();
            prop_assert!(here.iter().all(|edge| before.contains(&&*edge.subject) || before.contains(&&*edge.object)));
            prop_assert!(here.windows(2).all(|pair| pair[0].score >= pair[1].score));
            reached.push(here.iter().flat_map(|edge| [&*edge.subject, &*edge.object]).collect());
        }
    }
}

#[test]
fn limits_out_of_bounds_are_refused() {
    let graph = graph(&[]);
    for (change, name) in [
        (
            (|limits: &mut GraphLimits| limits.entity_limit = 0) as fn(&mut GraphLimits),
            "entity-limit",
        ),
        (|limits| limits.max_path_length = 1_000, "max-path-length"),
        (
            |limits| limits.max_subgraph_size = usize::MAX,
            "max-subgraph-size",
        ),
    ] {
        let mut limits = GraphLimits::default();
        change(&mut limits);
        assert_eq!(graph.search("x", &limits).unwrap_err().name, name);
    }
}

#[test]
fn a_search_also_begins_at_the_given_entities() {
    let one = |subject: &str, object: &str| Plain {
        subject: subject.into(),
        predicate: "zuses",
        object: object.into(),
        weight: 0.5,
    };
    let graph = graph(&[one("ka1", "kb2"), one("kc3", "kd4")]);
    let found = graph
        .search_near("ka1", &["kc3".into(), "gone".into()], &GraphLimits::default())
        .unwrap();
    assert_eq!(found.entities, ["ka1", "kc3"]);
    assert_eq!(found.edges.len(), 2);
    assert_eq!(
        graph.search("ka1", &GraphLimits::default()).unwrap().edges.len(),
        1
    );
}

#[test]
fn a_verb_of_the_question_counts() {
    let one = |predicate, object: &str| Plain {
        subject: "ka1".into(),
        predicate,
        object: object.into(),
        weight: 0.5,
    };
    let graph = graph(&[one("contains", "kb2"), one("consists_of", "kc3")]);
    let found = graph
        .search("What does ka1 consist of?", &GraphLimits::default())
        .unwrap();
    assert_eq!(found.edges[0].object, "kc3");
    assert_eq!(found.best(1)[0].sentence(), "ka1 consists of kc3");
}
