//! Questions that are compared by vectors, and stores that decide what an added document affects.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::models::{Boxed, ModelError, Side};
use crate::search::store::{Point, Search, Store, StoreError, Vectors};

/// Vectors from a table: the angle of each question, in degrees.
#[derive(Debug, Default)]
struct Angles {
    degrees: HashMap<&'static str, f32>,
}

impl Angles {
    fn vector(degrees: f32) -> Vec<f32> {
        let radians = degrees.to_radians();
        vec![radians.cos(), radians.sin()]
    }
}

impl Embed for Angles {
    fn name(&self) -> &str {
        "angles"
    }

    fn dimensions(&self) -> usize {
        2
    }

    fn embed(&self, side: Side, texts: Vec<String>) -> Boxed<'_, Result<Vec<Vec<f32>>, ModelError>> {
        assert_eq!(side, Side::Query);
        Box::pin(async move {
            let text = texts[0].as_str();
            match self.degrees.get(text) {
                Some(degrees) => Ok(vec![Self::vector(*degrees)]),
                None if text.starts_with("hangs") => std::future::pending().await,
                None if text.starts_with("odd") => Ok(vec![vec![f32::NAN, 1.0]]),
                None => Err(ModelError::Busy),
            }
        })
    }

    fn embed_tokens(&self, _: Side, _: Vec<String>) -> Boxed<'_, Result<Vec<Vec<Vec<f32>>>, ModelError>> {
        Box::pin(std::future::ready(Err(ModelError::Unsupported("tokens"))))
    }
}

fn dense(library: &Arc<Library>, degrees: &[(&'static str, f32)]) -> SemanticCache {
    let embedder = Arc::new(Angles {
        degrees: degrees.iter().copied().collect(),
    });
    let corpus = Arc::new(LibraryCorpus::new(Arc::clone(library)));
    SemanticCache::dense(embedder, corpus, CacheLimits::default())
}

#[tokio::test]
async fn vectors_find_paraphrases_but_not_different_questions() {
    let library = library();
    let birds = library.list()[0].id.clone();
    let stored = "When does the robin sing in 2019?";
    let cases = [
        (
            "At what time of the day is robin song heard in 2019?",
            20.0,
            Some(0.94),
        ),
        ("At what time of the day is robin song heard in 2020?", 1.0, None),
        ("At what time is no robin song heard in 2019?", 1.0, None),
        ("Where does the robin sing in 2019?", 1.0, None),
        ("What does the carp eat in 2019?", 30.0, None),
    ];
    let mut angles = vec![(stored, 0.0)];
    angles.extend(cases.iter().map(|(question, degrees, _)| (*question, *degrees)));
    for (question, _, similarity) in cases {
        let cache = dense(&library, &angles);
        ask(&cache, "s", stored, "At dawn. [1]", &birds).await;
        assert_eq!(found(&cache, "s", question).await, similarity, "{question}");
    }
    // The most similar of several questions.
    let cache = dense(
        &library,
        &[(stored, 0.0), ("far 2019", 30.0), ("near 2019", 20.0)],
    );
    for question in [stored, "far 2019"] {
        assert_eq!(ask(&cache, "s", question, question, &birds).await, None);
    }
    assert_eq!(
        ask(&cache, "s", "near 2019", "", "").await.as_deref(),
        Some("far 2019")
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_vector_only_equal_words_match() {
    let library = library();
    let birds = library.list()[0].id.clone();
    let cache = dense(&library, &[]);
    for question in ["fails on robins", "hangs on robins", "odd vectors of robins"] {
        let started = Instant::now();
        assert_eq!(ask(&cache, "s", question, question, &birds).await, None);
        assert_eq!(
            ask(&cache, "s", question, "", "").await.as_deref(),
            Some(question)
        );
        assert!(started.elapsed() <= Duration::from_secs(10));
    }
    assert_eq!(found(&cache, "s", "fails on the robins").await, None);
}

/// A store with the passages of one document: words match by containment, vectors by their dot
/// product.
#[derive(Debug)]
struct OneDocument {
    document_id: String,
    text: &'static str,
    degrees: f32,
    broken: bool,
}

impl Store for OneDocument {
    fn name(&self) -> &str {
        "one document"
    }

    fn vectors(&self) -> Vectors {
        Vectors::dense(2)
    }

    fn upsert(&self, _: Vec<Point>) -> Boxed<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn search(&self, search: Search) -> Boxed<'_, Result<Vec<Hit>, StoreError>> {
        let failed = || StoreError::Failed("broken".into());
        let chunk = Chunk::new(&self.document_id, "d.md", 0, self.text);
        let words = |text: String| {
            text.split_whitespace()
                .any(|word| self.text.contains(word))
                .then_some(1.0)
        };
        let near = |vector: Vec<f32>| crate::models::dot(&vector, &Angles::vector(self.degrees));
        let score = match (search.text, search.dense) {
            (Some(text), None) => words(text),
            (None, Some(vector)) => Some(near(vector)),
            other => panic!("{other:?}"),
        };
        let hits = score
            .filter(|_| search.filter.accepts(&chunk))
            .map(|score| Hit::new(chunk, score));
        let found = if self.broken {
            Err(failed())
        } else {
            Ok(hits.into_iter().collect())
        };
        Box::pin(std::future::ready(found))
    }

    fn remove_document<'a>(&'a self, _: &'a str) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn documents(&self) -> Boxed<'_, Result<BTreeSet<String>, StoreError>> {
        Box::pin(std::future::ready(Ok(BTreeSet::new())))
    }

    fn count(&self, _: crate::search::store::Filter) -> Boxed<'_, Result<u64, StoreError>> {
        Box::pin(std::future::ready(Ok(1)))
    }
}

#[tokio::test]
async fn a_store_decides_whether_an_added_document_matters() {
    let question = "robins";
    for (text, degrees, broken, holds) in [
        ("trains", 90.0, false, true),
        ("of robins", 90.0, false, false),
        ("trains", 80.0, false, true),
        ("redbreasts", 60.0, false, false),
        ("trains", 90.0, true, false),
    ] {
        let library = library();
        let birds = library.list()[0].id.clone();
        let in_step = Arc::new(AtomicU64::new(library.revision()));
        let new = "# New\n\nSomething new.";
        // The ID of the document is known in advance: it depends only on name and content.
        let document_id = add(
            &Library::in_memory(LibraryLimits::default()).unwrap(),
            "new.md",
            new,
        );
        let store = OneDocument {
            document_id: document_id.clone(),
            text,
            degrees,
            broken,
        };
        let revision = Arc::clone(&in_step);
        let corpus = Arc::new(StoreCorpus::new(
            Arc::clone(&library),
            Arc::new(store),
            move || revision.load(Ordering::SeqCst),
        ));
        let embedder = Arc::new(Angles {
            degrees: HashMap::from([(question, 0.0)]),
        });
        let cache = SemanticCache::dense(embedder, corpus, CacheLimits::default());
        assert_eq!(ask(&cache, "s", question, "At dawn. [1]", &birds).await, None);
        assert_eq!(add(&library, "new.md", new), document_id);
        // No search finds the document yet.
        assert_eq!(found(&cache, "s", question).await, Some(1.0));
        in_step.store(library.revision(), Ordering::SeqCst);
        assert_eq!(
            found(&cache, "s", question).await.is_some(),
            holds,
            "{text} {degrees}"
        );
    }
}
