//! Tests of what is repeated from the cache and what is not: questions, added and removed
//! documents, scopes, limits, clocks.

use std::convert::Infallible;

use super::*;
use crate::{Chunk, Hit, LibraryLimits, ParseLimits, parse};
use ragwire::{Event, Turn};

mod vectors;

const BIRDS: &str =
    "# Birds\n\nA robin sings at dawn. An owl hunts at night.\n\n# Fish\n\nA carp eats plants all day.";

fn library() -> Arc<Library> {
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    add(&library, "birds.md", BIRDS);
    Arc::new(library)
}

fn add(library: &Library, name: &str, text: &str) -> String {
    let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
    library.add(name, &parsed).unwrap().id
}

fn lexical(library: &Arc<Library>, limits: CacheLimits) -> SemanticCache {
    let corpus = Arc::new(LibraryCorpus::new(Arc::clone(library)));
    SemanticCache::lexical(Arc::clone(library), corpus, limits)
}

fn answer(text: &str, document_id: &str) -> (GeneratedAnswer, Vec<Source>) {
    let chunk = Chunk::id_of(document_id, 0);
    let citation =
        Citation::new(document_id, &chunk, "A robin sings at dawn.", "bm25_search").heading("Birds");
    let source = Source::new(&chunk, document_id, "A robin sings at dawn.", vec![1]).title("birds.md");
    (GeneratedAnswer::answered(vec![citation]).text(text), vec![source])
}

/// Asks, and stores `text` if there is no stored answer.
async fn ask(
    cache: &SemanticCache,
    scope: &str,
    question: &str,
    text: &str,
    document_id: &str,
) -> Option<String> {
    match cache.lookup(scope, question).await {
        Lookup::Hit(hit) => Some(hit.answer.text.clone()),
        Lookup::Miss(ticket) => {
            let (generated, sources) = answer(text, document_id);
            assert!(cache.store(ticket, &generated, sources, "lexical"));
            None
        }
    }
}

async fn found(cache: &SemanticCache, scope: &str, question: &str) -> Option<f64> {
    match cache.lookup(scope, question).await {
        Lookup::Hit(hit) => Some((hit.similarity * 100.0).round() / 100.0),
        Lookup::Miss(_) => None,
    }
}

#[tokio::test]
async fn an_answer_is_repeated_with_its_sources() {
    let library = library();
    let document = library.list()[0].id.clone();
    let cache = Arc::new(lexical(&library, CacheLimits::default()));
    let before = SystemTime::now();
    assert_eq!(
        ask(
            &cache,
            "s",
            "When does the robin sing?",
            "At dawn. [1]",
            &document
        )
        .await,
        None
    );
    let Lookup::Hit(hit) = cache.lookup("s", "when do Robins  sing").await else {
        panic!("a miss")
    };
    let shared = hit.clone();
    let turn = Turn::start(async move |sink: Sink| Ok::<_, Infallible>(shared.replay(&sink).await.unwrap()));
    let collected = turn.commit().await.unwrap().collect().await.unwrap();
    let (generated, sources) = answer("At dawn. [1]", &document);
    let cached_at = hit.cached_at.to_string();
    let events: Vec<Event> = collected.events.into_iter().map(|(event, _)| event).collect();
    let cache_hit = CacheHit::new("When does the robin sing?", &cached_at).similarity(1.0);
    let wanted: Vec<Event> = vec![cache_hit.into(), Sources::new(sources).into()];
    assert_eq!(events, wanted);
    assert_eq!(collected.text, "At dawn. [1]");
    let metadata = Metadata::default()
        .citations(generated.citations)
        .mode("lexical")
        .with("answered", true);
    assert_eq!(collected.end.metadata, metadata);
    let parsed = Timestamp::parse(&cached_at).unwrap();
    assert!(
        parsed >= before.into() && parsed <= SystemTime::now().into(),
        "{cached_at}"
    );
}

#[tokio::test]
async fn questions_with_different_meanings_do_not_match() {
    let library = library();
    let document = library.list()[0].id.clone();
    for (stored, asked, similarity) in [
        (
            "When does the robin sing?",
            "When does the robin sing?",
            Some(1.0),
        ),
        (
            "When does the robin sing?",
            "  when DOES the\nrobin sing?",
            Some(1.0),
        ),
        ("When does the robin sing?", "When do robins sing", Some(1.0)),
        ("When does the robin sing?", "Where does the robin sing?", None),
        ("When does the robin sing?", "When does the owl sing?", None),
        ("When does the robin sing?", "When does the robin not sing?", None),
        ("When does the robin sing?", "When doesn't the robin sing?", None),
        ("How many robins sing?", "How long do robins sing?", None),
        ("Did robins sing in 2019?", "Did robins sing in 2020?", None),
        ("Did robins sing in 2019?", "Did robins sing?", None),
        (
            "Does the owl hunt the robin?",
            "Does the robin hunt the owl?",
            None,
        ),
        ("Do robins sing before dawn?", "Do robins sing after dawn?", None),
        (
            "Does the robin eat plants all day?",
            "Does the robin eat plants?",
            None,
        ),
        ("Who are you?", "Who are you?", Some(1.0)),
        ("Who are you?", "Who am I?", None),
        ("???", "???", Some(1.0)),
        ("???", "!!!", None),
        ("", "", Some(1.0)),
    ] {
        let cache = lexical(&library, CacheLimits::default());
        assert_eq!(ask(&cache, "s", stored, "x [1]", &document).await, None);
        assert_eq!(found(&cache, "s", asked).await, similarity, "{stored} {asked}");
    }
}

#[tokio::test]
async fn answers_of_another_scope_are_not_found() {
    let library = library();
    let document = library.list()[0].id.clone();
    let cache = lexical(&library, CacheLimits::default());
    let question = "When does the robin sing?";
    assert_eq!(ask(&cache, "ann", question, "for Ann [1]", &document).await, None);
    for scope in ["bob", "", "ann ", "Ann", "annbob"] {
        assert_eq!(found(&cache, scope, question).await, None, "{scope:?}");
    }
    assert_eq!(ask(&cache, "bob", question, "for Bob [1]", &document).await, None);
    assert_eq!(
        ask(&cache, "ann", question, "", "").await.as_deref(),
        Some("for Ann [1]")
    );
    assert_eq!(
        ask(&cache, "bob", question, "", "").await.as_deref(),
        Some("for Bob [1]")
    );
    cache.forget("ann");
    assert_eq!((found(&cache, "ann", question).await, cache.len()), (None, 1));
}

#[tokio::test]
async fn only_complete_answers_are_stored() {
    let library = library();
    let document = library.list()[0].id.clone();
    let cache = lexical(&library, CacheLimits::default());
    let (good, sources) = answer("At dawn. [1]", &document);
    let mut cut = good.clone();
    cut.cut_short = true;
    let mut unanswered = good.clone();
    unanswered.answered = false;
    let empty = good.clone().text(" \n");
    // A refusal in the model's own words cites nothing.
    let mut uncited = good.clone().text("Dazu steht nichts in den Dokumenten.");
    uncited.citations.clear();
    let mut invented = good.clone().text("At dawn. [1] [?]");
    invented.unknown_citations = 1;
    let mut quoted = good.clone();
    quoted.fallback = Some("model_unavailable");
    let large = good
        .clone()
        .text("x".repeat(CacheLimits::default().max_bytes / 8));
    for generated in [
        cut,
        unanswered,
        empty,
        uncited,
        invented,
        quoted,
        large,
        GeneratedAnswer::not_answered().text("No."),
    ] {
        let Lookup::Miss(ticket) = cache.lookup("s", "When does the robin sing?").await else {
            panic!("{generated:?}")
        };
        assert!(!cache.store(ticket, &generated, sources.clone(), "lexical"));
        assert!(cache.is_empty());
    }
    let none = CacheLimits {
        max_entries: 0,
        ..CacheLimits::default()
    };
    let cache = lexical(&library, none);
    let Lookup::Miss(ticket) = cache.lookup("s", "q").await else {
        panic!()
    };
    assert!(!cache.store(ticket, &good, sources, "lexical"));
}

#[tokio::test]
async fn removing_a_document_evicts_its_answers() {
    let library = library();
    let birds = library.list()[0].id.clone();
    let fish = add(&library, "fish.md", "# Sharks\n\nA shark swims.");
    let cache = lexical(&library, CacheLimits::default());
    let (robin, shark) = ("When does the robin sing?", "Where does the shark swim?");
    // A document in the context counts even if the answer does not cite it.
    let Lookup::Miss(ticket) = cache.lookup("s", robin).await else {
        panic!()
    };
    let ((generated, _), (_, sources)) = (answer("At dawn. [1]", &fish), answer("", &birds));
    assert!(cache.store(ticket, &generated, sources, "lexical"));
    assert_eq!(ask(&cache, "s", shark, "In the sea. [1]", &fish).await, None);
    assert_eq!(cache.len(), 2);
    assert!(library.remove(&birds).unwrap());
    assert_eq!(found(&cache, "s", shark).await, Some(1.0));
    assert_eq!(
        cache.len(),
        1,
        "an answer whose context had the document is evicted"
    );
    assert_eq!(found(&cache, "s", robin).await, None);
    // Replaced: another content under the same name.
    let newer = add(&library, "fish.md", "# Sharks\n\nA whale dives.");
    assert_ne!(newer, fish);
    assert_eq!((found(&cache, "s", shark).await, cache.len()), (None, 0));
}

#[tokio::test]
async fn adding_a_document_evicts_the_answers_that_it_affects() {
    let library = library();
    let birds = library.list()[0].id.clone();
    let cache = lexical(&library, CacheLimits::default());
    let (robin, carp) = ("When does the robin sing?", "What does the carp eat?");
    ask(&cache, "s", robin, "At dawn. [1]", &birds).await;
    ask(&cache, "s", carp, "Plants. [1]", &birds).await;
    add(&library, "trains.md", "# Trains\n\nA train runs on rails.");
    assert_eq!(found(&cache, "s", robin).await, Some(1.0));
    assert_eq!(found(&cache, "s", carp).await, Some(1.0));
    add(&library, "songs.md", "# Songs\n\nThe robin was heard at noon.");
    assert_eq!((found(&cache, "s", robin).await, cache.len()), (None, 1));
    assert_eq!(found(&cache, "s", carp).await, Some(1.0));
    // Removed before the next question: it has no effect.
    let eaters = add(&library, "eaters.md", "# Eaters\n\nThe carp eats worms.");
    assert!(library.remove(&eaters).unwrap());
    assert_eq!(found(&cache, "s", carp).await, Some(1.0));
    // More added documents than are checked.
    for n in 0..=MAX_ADDED_DOCUMENTS {
        add(
            &library,
            &format!("{n}.md"),
            &format!("# Train\n\nTrain number {n} runs."),
        );
    }
    assert_eq!((found(&cache, "s", carp).await, cache.len()), (None, 0));
}

#[tokio::test]
async fn a_change_during_an_answer_is_noticed() {
    let library = library();
    let birds = library.list()[0].id.clone();
    let cache = lexical(&library, CacheLimits::default());
    let question = "When does the robin sing?";
    let (generated, sources) = answer("At dawn. [1]", &birds);
    // The document is added while the answer is written.
    let Lookup::Miss(ticket) = cache.lookup("s", question).await else {
        panic!()
    };
    add(&library, "songs.md", "# Songs\n\nThe robin was heard at noon.");
    assert!(cache.store(ticket, &generated, sources.clone(), "lexical"));
    assert_eq!((found(&cache, "s", question).await, cache.len()), (None, 0));
    // The document is removed while the answer is written.
    let Lookup::Miss(ticket) = cache.lookup("s", question).await else {
        panic!()
    };
    assert!(library.remove(&birds).unwrap());
    assert!(!cache.store(ticket, &generated, sources, "lexical"));
    assert!(cache.is_empty());
}

#[tokio::test]
async fn entries_and_bytes_are_bounded_and_the_least_recently_used_is_evicted() {
    let library = library();
    let birds = library.list()[0].id.clone();
    let three = CacheLimits {
        max_entries: 3,
        ..CacheLimits::default()
    };
    let cache = lexical(&library, three);
    let question = |name: &str| format!("Who is {name}?");
    for name in ["ann", "bob", "cid"] {
        ask(&cache, "s", &question(name), name, &birds).await;
    }
    assert_eq!(found(&cache, "s", &question("ann")).await, Some(1.0));
    ask(&cache, "s", &question("dan"), "dan", &birds).await;
    let mut held = Vec::new();
    for name in ["ann", "bob", "cid", "dan"] {
        held.push(found(&cache, "s", &question(name)).await.is_some());
    }
    assert_eq!((held, cache.len()), (vec![true, false, true, true], 3));
    // Two concurrent lookups: the later answer replaces the earlier one.
    let (Lookup::Miss(one), Lookup::Miss(two)) = (
        cache.lookup("s", "Who is eve?").await,
        cache.lookup("s", "Who is eve?").await,
    ) else {
        panic!()
    };
    for (ticket, text) in [(one, "first"), (two, "second")] {
        let (generated, sources) = answer(text, &birds);
        assert!(cache.store(ticket, &generated, sources, "lexical"));
    }
    assert_eq!(
        ask(&cache, "s", "Who is eve?", "", "").await.as_deref(),
        Some("second")
    );
    assert_eq!(cache.len(), 3);

    let small = CacheLimits {
        max_bytes: 64 * 1024,
        ..CacheLimits::default()
    };
    let cache = lexical(&library, small);
    for n in 0..100 {
        ask(
            &cache,
            "s",
            &format!("Who is number{n}?"),
            &"x".repeat(4_000),
            &birds,
        )
        .await;
        let state = cache.state();
        assert!(state.bytes <= small.max_bytes);
        assert_eq!(
            state.bytes,
            state.entries.iter().map(|entry| entry.bytes).sum::<usize>()
        );
    }
    assert!((8..16).contains(&cache.len()), "{}", cache.len());
}

#[tokio::test(start_paused = true)]
async fn old_answers_expire() {
    let library = library();
    let birds = library.list()[0].id.clone();
    let cache = lexical(&library, CacheLimits::default());
    let question = "When does the robin sing?";
    ask(&cache, "s", question, "At dawn. [1]", &birds).await;
    tokio::time::advance(CacheLimits::default().max_age - Duration::from_secs(1)).await;
    assert_eq!(found(&cache, "s", question).await, Some(1.0));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!((found(&cache, "s", question).await, cache.len()), (None, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_lookups_work() {
    let library = library();
    let birds = library.list()[0].id.clone();
    let limits = CacheLimits {
        max_entries: 8,
        ..CacheLimits::default()
    };
    let cache = Arc::new(lexical(&library, limits));
    let asked = (0..16).map(|n| {
        let (cache, birds) = (Arc::clone(&cache), birds.clone());
        async move {
            for round in 0..20 {
                let question = format!("Who is number{}?", (n * 7 + round) % 12);
                if let Some(text) = ask(&cache, "s", &question, &question, &birds).await {
                    assert_eq!(text, question);
                }
            }
        }
    });
    futures_util::future::join_all(asked).await;
    assert!(cache.len() <= 8);
}
