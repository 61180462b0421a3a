//! One library for several hosts: each `Library` here is a host. On the double of a Qdrant server, and
//! on a real one if `QDRANT_URL` names it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::hashed::HashedWords;
use ragwire_rag::models::{Boxed, Embed, ModelError, Side};
use ragwire_rag::search::store::{Filter, MemoryStore, Store, Vectors};
use ragwire_rag::{
    Document, DocumentFilter, DocumentOwner, Indexer, Library, LibraryError, LibraryLimits,
    SharedLibraryOptions, Source, SourceOutcome, SourceRoot, Work, parse,
};
use ragwire_test_support::qdrant::{Double, Reply};

const COLLECTION: &str = "papers-library";
const UNAVAILABLE: i32 = 14;
const REFUSED: i32 = 3;

pub(crate) fn options(url: &str) -> SharedLibraryOptions {
    SharedLibraryOptions::new(url, COLLECTION)
        .poll(Duration::from_millis(20))
        // Longer than a busy machine may stall.
        .lease(Duration::from_secs(60))
        .sweep_after(Duration::from_secs(60))
}

fn host(url: &str) -> Arc<Library> {
    Library::shared(options(url), LibraryLimits::default()).unwrap()
}

pub(crate) fn add(library: &Library, name: &str, text: &str) -> Document {
    try_add(library, name, text).unwrap()
}

fn try_add(library: &Library, name: &str, text: &str) -> Result<Document, LibraryError> {
    library.add(name, &parse(name, text.as_bytes(), &Default::default()).unwrap())
}

fn names(library: &Library) -> Vec<String> {
    let mut names: Vec<String> = library.list().into_iter().map(|document| document.name).collect();
    names.sort();
    names
}

/// Waits until a host sees what another one did.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: not within a minute");
}

/// The IDs and scores of the hits.
pub(crate) fn found(library: &Library, query: &str, filter: &DocumentFilter) -> Vec<(String, f32)> {
    let hits = library.search_in(query, 10, filter).unwrap();
    hits.into_iter().map(|hit| (hit.chunk.id, hit.score)).collect()
}

const BIRDS: &str = "# Birds\n\nA robin sings at dawn. The robin has a red breast.\n\n## Nests\n\nRobins nest in hedges \
                     and optimize their nests.\n";
const FISH: &str =
    "---\ntags: [water]\n---\n# Fish\n\nA salmon swims upstream to spawn. Salmon are optimal swimmers.\n";
const GERMAN: &str =
    "# Vögel\n\nDas Rotkehlchen singt am Morgen, und die Amseln singen am Abend in den Gärten der Stadt.\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hosts_have_one_library() {
    let double = Double::searching().await;
    behaves_as_one(&double.url).await;
    assert_eq!(double.points().len(), 1);
}

/// The same on a real server, whose collection is deleted afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hosts_have_one_library_on_a_real_server() {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let Ok(url) = std::env::var("QDRANT_URL") else {
        return;
    };
    COUNT.fetch_add(1, Ordering::Relaxed);
    let client = || {
        qdrant_client::Qdrant::from_url(&url)
            .api_key(std::env::var("QDRANT_API_KEY").ok())
            .skip_compatibility_check()
            .build()
            .unwrap()
    };
    let _ = client().delete_collection(COLLECTION).await;
    behaves_as_one(&url).await;
    client().delete_collection(COLLECTION).await.unwrap();
}

async fn behaves_as_one(url: &str) {
    let (one, other) = (host(url), host(url));
    assert!(one.is_shared() && one.list().is_empty());
    let alone = Library::in_memory(LibraryLimits::default()).unwrap();
    for (name, text) in [("birds.md", BIRDS), ("fish.md", FISH), ("voegel.md", GERMAN)] {
        add(&one, name, text);
        add(&alone, name, text);
    }
    until("the other host sees all", || names(&other) == names(&alone)).await;
    // A host that starts later.
    let third = host(url);
    for library in [&one, &other, &third] {
        let filters = [
            DocumentFilter::default(),
            DocumentFilter::parse(&serde_json::json!({"tags": ["water"]})).unwrap(),
            DocumentFilter::nothing(),
        ];
        for filter in &filters {
            for query in [
                "When does the robin sing?",
                "salmon",
                "nothing of this occurs",
                "\"red breast\" robin",
                "optim*",
                "samlon",
                "Wann singen die Amseln?",
                "",
            ] {
                let (wanted, got) = (found(&alone, query, filter), found(library, query, filter));
                let ids = |hits: &[(String, f32)]| hits.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
                assert_eq!(ids(&got), ids(&wanted), "{query} {filter:?}");
                for ((_, got), (_, wanted)) in got.iter().zip(&wanted) {
                    assert!((got - wanted).abs() < 1e-3, "{query}: {got} for {wanted}");
                }
            }
        }
        let terms = ["robin", "salmon", "whale"].map(str::to_owned);
        for (got, wanted) in library.weights(&terms).into_iter().zip(alone.weights(&terms)) {
            assert!((got - wanted).abs() < 1e-3, "{got} for {wanted}");
        }
        assert_eq!(
            library.correction("optmizer").unwrap(),
            alone.correction("optmizer").unwrap()
        );
        assert_eq!(
            library.correction("breats").unwrap(),
            alone.correction("breats").unwrap()
        );
        for document in alone.list() {
            assert_eq!(
                library.passages(&document.id).unwrap(),
                alone.passages(&document.id).unwrap()
            );
            assert_eq!(library.levels(&document.id), alone.levels(&document.id));
        }
    }

    // Other content replaces the document everywhere, the same content nothing.
    let before = one.revision();
    let birds = add(&other, "birds.md", BIRDS);
    assert_eq!(
        (other.document(&birds.id).unwrap().id, one.revision()),
        (birds.id.clone(), before)
    );
    let new = add(&other, "birds.md", "# Birds\n\nAn owl hoots at night.\n");
    until("the first host has the new content", || one.is_live(&new.id)).await;
    assert!(!one.is_live(&birds.id));
    assert_eq!(found(&one, "robin", &DocumentFilter::default()), []);
    assert_eq!(
        found(&one, "owl", &DocumentFilter::default())[0].0,
        format!("{}-0", new.id)
    );
    assert_eq!(one.passages(&birds.id).unwrap(), None);

    // A removal too, and the host that removed it adds it again.
    assert!(one.remove(&new.id).unwrap());
    assert!(
        !other.remove(&new.id).unwrap(),
        "it was removed by the other host"
    );
    until("all see the removal", || {
        names(&third) == ["fish.md", "voegel.md"]
    })
    .await;
    let again = add(&third, "birds.md", BIRDS);
    assert_eq!(again.id, birds.id);
    until("all see it again", || {
        one.is_live(&birds.id) && other.is_live(&birds.id)
    })
    .await;
    assert_eq!(found(&one, "robin", &DocumentFilter::default()).len(), 2);

    // Owners are known everywhere.
    let parsed = parse("mine.md", b"Of Ada.", &Default::default()).unwrap();
    let go_on = |_| std::ops::ControlFlow::Continue(());
    let ada = DocumentOwner::new("ada").shares(true);
    let mine = one.add_for(&ada, "mine.md", &parsed, go_on).unwrap();
    assert_eq!(other.remove_for("eve", &mine.id).unwrap_err().code(), "not_owner");
    assert!(other.may_be_removed_by(Some("ada"), &mine.id));
    assert!(other.remove_for("ada", &mine.id).unwrap());

    // And who finds what they keep for themselves.
    let parsed = parse("diary.md", b"My robin sang at noon.", &Default::default()).unwrap();
    let diary = one
        .add_for(&DocumentOwner::new("ada"), "diary.md", &parsed, go_on)
        .unwrap();
    until("the other host has it", || other.is_live(&diary.id)).await;
    for library in [&one, &other] {
        for (user, finds) in [("ada", true), ("eve", false), ("", false)] {
            let hits = found(library, "robin noon", &DocumentFilter::default().user(user));
            assert_eq!(
                hits.iter().any(|(id, _)| id.starts_with(&diary.id)),
                finds,
                "{user}"
            );
        }
        assert!(!library.remove_for("eve", &diary.id).unwrap());
    }
    // A mistake means a word that its user finds: `upstream` of fish.md, or Ada's, which is more frequent.
    let plans = "# Upstrean\n\nOf upstrean.\n\n# Again\n\nOf upstrean once more.";
    let plans = parse("plans.md", plans.as_bytes(), &Default::default()).unwrap();
    let plans = one
        .add_for(&DocumentOwner::new("ada"), "plans.md", &plans, go_on)
        .unwrap();
    until("the other host has it", || other.is_live(&plans.id)).await;
    let fish = one.list().into_iter().find(|document| document.name == "fish.md");
    let fish = fish.unwrap().id;
    for library in [&one, &other] {
        for (user, wanted) in [("ada", &plans.id), ("eve", &fish), ("", &fish)] {
            let hits = found(library, "upstrear", &DocumentFilter::default().user(user));
            assert!(!hits.is_empty(), "{user}");
            assert!(
                hits.iter().all(|(id, _)| id.starts_with(wanted)),
                "{user}: {hits:?}"
            );
        }
    }
    assert!(one.remove_for("ada", &plans.id).unwrap());
    until("the other host has removed it", || !other.is_live(&plans.id)).await;

    // The same content again shares it, everywhere.
    let shared = DocumentOwner::new("ada").shares(true);
    assert_eq!(
        one.add_for(&shared, "diary.md", &parsed, go_on).unwrap().id,
        diary.id
    );
    until("the other host lets everyone find it", || {
        other.is_found_by(Some("eve"), &diary.id)
    })
    .await;
    assert!(one.remove_for("ada", &diary.id).unwrap());

    // What folders were read is known to all.
    let source = Source {
        name: "fish.md".to_owned(),
        root: "/docs".to_owned(),
        bytes: 7,
        modified_ns: 1_700_000_000_000_000_001,
        digest: "ab".to_owned(),
        reader: "1".to_owned(),
        outcome: SourceOutcome::Document("1".to_owned()),
    };
    let gone = Source {
        name: "gone.md".to_owned(),
        ..source.clone()
    };
    one.record_sources(&[source.clone(), gone], &[]).unwrap();
    one.record_sources(&[], &["gone.md".to_owned()]).unwrap();
    assert_eq!(other.sources().unwrap(), [source]);
    let root = SourceRoot {
        path: "/docs".to_owned(),
        identity: "1:2".to_owned(),
    };
    one.record_source_root(&root).unwrap();
    assert_eq!(third.source_roots().unwrap(), [root]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_ends_anywhere_leaves_nothing_half_visible() {
    let long: String = (0..300)
        .map(|n| format!("## Part {n}\n\nThe whale number{n} sings in the deep sea.\n\n"))
        .collect();
    let double = Double::searching().await;
    let other = host(&double.url);
    add(&other, "whales.md", "# Whales\n\nThe old whale sings.\n");
    let clean = double.points()[COLLECTION];
    let mut writes = 0;
    loop {
        let one = host(&double.url);
        let replies = (0..writes).map(|_| Reply::Usual).chain([Reply::Status(REFUSED)]);
        double.next("Points/Upsert", replies);
        let added = try_add(&one, "whales.md", &long);
        drop(one);
        double.never("Points/Upsert");
        if added.is_ok() {
            break;
        }
        assert_eq!(added.unwrap_err().code(), "library_storage");
        // Neither a host that was there, nor one that starts now, sees a part of it.
        for library in [&other, &host(&double.url)] {
            library.refresh().unwrap();
            assert_eq!(names(library), ["whales.md"]);
            let hits = library.search("whale", 10).unwrap();
            assert_eq!(hits.len(), 1, "after {writes} writes");
            assert_eq!(hits[0].chunk.text, "The old whale sings.");
        }
        writes += 1;
    }
    assert!(
        writes > 4,
        "numbers, words, several batches of passages, and the head: {writes}"
    );
    other.refresh().unwrap();
    assert_eq!(other.search("whale", 1_000).unwrap().len(), 300);

    // What the failed ones left is swept, but not at once: they might still be running.
    assert!(double.points()[COLLECTION] > clean + 300);
    assert_eq!(other.sweep().unwrap(), 0);
    let sweeper = Library::shared(
        options(&double.url).sweep_after(Duration::ZERO),
        LibraryLimits::default(),
    );
    assert!(sweeper.unwrap().sweep().unwrap() > 0);
    let passages: usize = other.list().iter().map(|document| document.chunks as usize).sum();
    assert_eq!(
        passages_of(&other, "whale"),
        passages,
        "the sweep removed nothing that is visible"
    );
    assert!(other.remove(&other.list()[0].id).unwrap());
    assert_eq!(other.search("whale", 10).unwrap(), []);
}

fn passages_of(library: &Library, query: &str) -> usize {
    library.search(query, 1_000).unwrap().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_that_change_one_document_at_the_same_time_agree() {
    let double = Double::searching().await;
    let hosts: Vec<_> = (0..4).map(|_| host(&double.url)).collect();
    let threads: Vec<_> = hosts
        .iter()
        .enumerate()
        .map(|(at, library)| {
            let library = Arc::clone(library);
            std::thread::spawn(move || {
                for round in 0..8 {
                    // A conflict again and again is an error, and leaves what the others wrote.
                    match try_add(&library, "one.md", &format!("Host {at} wrote round {round}.")) {
                        Ok(_) => {}
                        Err(error) => assert_eq!(error.code(), "library_conflict"),
                    }
                    add(
                        &library,
                        &format!("own-{at}-{round}.md"),
                        "The same text everywhere.",
                    );
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let mut contents = BTreeMap::new();
    for library in &hosts {
        library.refresh().unwrap();
        let ids: Vec<String> = library.document_ids().into_iter().collect();
        assert_eq!(ids.len(), 33);
        assert_eq!(library.search("wrote", 10).unwrap().len(), 1);
        assert_eq!(library.search("text everywhere", 100).unwrap().len(), 32);
        *contents.entry(ids).or_insert(0) += 1;
    }
    assert_eq!(contents.into_values().collect::<Vec<_>>(), [4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_claimed_by_one_host_until_it_ends_or_dies() {
    let double = Double::searching().await;
    let (one, other) = (host(&double.url), host(&double.url));
    let claim = one.claim(&Work::Folders).unwrap().unwrap();
    assert!(one.claim(&Work::Folders).unwrap().is_none());
    assert!(other.claim(&Work::Folders).unwrap().is_none());
    // Other work is free.
    drop(other.claim(&Work::Document("d".to_owned())).unwrap().unwrap());
    drop(claim);
    let mut claimed = None;
    until("a claim that was given up", || {
        claimed = other.claim(&Work::Folders).unwrap();
        claimed.is_some()
    })
    .await;
    drop(claimed);
    // It is renewed while its host lives.
    let short = || {
        let options = options(&double.url)
            .poll(Duration::from_secs(3_600))
            .lease(Duration::from_millis(300));
        Library::shared(options, LibraryLimits::default()).unwrap()
    };
    let (dying, heir) = (short(), short());
    let sweep = dying.claim(&Work::Sweep).unwrap().unwrap();
    double.take_requests();
    let mut renewals = 0;
    until("renewals", || {
        let requests = double.take_requests();
        let written = requests
            .iter()
            .filter(|request| request.method == "Points/Upsert");
        renewals += written.count();
        renewals >= 3
    })
    .await;
    // The host dies: its claim is not given up, and not renewed.
    std::mem::forget(sweep);
    drop(dying);
    until("the claim of a dead host", || {
        heir.claim(&Work::Sweep).unwrap().is_some()
    })
    .await;
    let alone = Library::in_memory(LibraryLimits::default()).unwrap();
    assert!(alone.claim(&Work::Sweep).unwrap().is_some() && !alone.is_shared());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_an_error_and_nothing_is_lost() {
    let double = Double::searching().await;
    let (one, other) = (host(&double.url), host(&double.url));
    let birds = add(&one, "birds.md", BIRDS);
    until("both have it", || other.is_live(&birds.id)).await;
    let methods = [
        "Points/Scroll",
        "Points/Get",
        "Points/QueryBatch",
        "Points/Upsert",
    ];
    for method in methods {
        double.always(method, Reply::Status(UNAVAILABLE));
    }
    // The list is in memory; everything else says what is wrong.
    assert_eq!(names(&other), ["birds.md"]);
    assert_eq!(
        other.search("robin", 5).unwrap_err().code(),
        "library_unavailable"
    );
    assert_eq!(
        other.passages(&birds.id).unwrap_err().code(),
        "library_unavailable"
    );
    assert_eq!(
        try_add(&other, "a.md", "A.").unwrap_err().code(),
        "library_unavailable"
    );
    assert_eq!(other.remove(&birds.id).unwrap_err().code(), "library_unavailable");
    assert!(Library::shared(options(&double.url), LibraryLimits::default()).is_err());
    for method in methods {
        double.never(method);
    }
    assert_eq!(other.search("robin", 5).unwrap().len(), 2);
    let fish = add(&one, "fish.md", FISH);
    until("changes are seen again", || other.is_live(&fish.id)).await;
    // An address without a server.
    let nowhere = Library::shared(options("http://127.0.0.1:1"), LibraryLimits::default());
    assert_eq!(nowhere.unwrap_err().code(), "library_unavailable");
}

/// An embedder that counts the texts that it embeds.
#[derive(Debug, Default)]
struct Counted(AtomicU32);

impl Embed for Counted {
    fn name(&self) -> &str {
        HashedWords.name()
    }

    fn dimensions(&self) -> usize {
        HashedWords.dimensions()
    }

    fn embed(&self, side: Side, texts: Vec<String>) -> Boxed<'_, Result<Vec<Vec<f32>>, ModelError>> {
        self.0.fetch_add(texts.len() as u32, Ordering::Relaxed);
        Box::pin(async move {
            // The other host looks at the same document in the meantime.
            tokio::time::sleep(Duration::from_millis(20)).await;
            HashedWords.embed(side, texts).await
        })
    }

    fn embed_tokens(
        &self,
        side: Side,
        texts: Vec<String>,
    ) -> Boxed<'_, Result<Vec<Vec<Vec<f32>>>, ModelError>> {
        HashedWords.embed_tokens(side, texts)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_host_embeds_a_document_for_all() {
    let double = Double::searching().await;
    let embedder = Arc::new(Counted::default());
    let vectors = Vectors::dense(HashedWords.dimensions());
    // In place of the collection of vectors that both use.
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(vectors));
    let hosts: Vec<(Arc<Library>, Indexer)> = (0..2)
        .map(|_| {
            let library = host(&double.url);
            let embedder = Arc::clone(&embedder) as Arc<dyn Embed>;
            let indexer = Indexer::new(Arc::clone(&library), Arc::clone(&store), Some(embedder)).unwrap();
            (library, indexer)
        })
        .collect();
    for n in 0..6 {
        add(
            &hosts[0].0,
            &format!("{n}.md"),
            &format!("# Part {n}\n\n{BIRDS}{FISH}"),
        );
    }
    hosts[1].0.refresh().unwrap();
    let chunks = |library: &Library| {
        let counts = library
            .document_ids()
            .into_iter()
            .filter_map(|id| library.levels(&id));
        counts
            .map(|levels| levels.l1 + levels.l2 + levels.l3)
            .sum::<u32>()
    };
    let go_on = |_| std::ops::ControlFlow::Continue(());
    // Until both find nothing to do.
    for _ in 0..1_000 {
        let (one, other) = tokio::join!(hosts[0].1.reconcile(go_on), hosts[1].1.reconcile(go_on));
        if one.unwrap().elsewhere + other.unwrap().elsewhere == 0 {
            break;
        }
    }
    let wanted = chunks(&hosts[0].0);
    assert_eq!(embedder.0.load(Ordering::Relaxed), wanted, "each chunk once");
    assert_eq!(
        store.count(Filter::default()).await.unwrap(),
        u64::from(wanted) + 1
    );

    // A document that is removed and added again, while both follow.
    let text = format!("# Part 0\n\n{BIRDS}{FISH}");
    let first = hosts[0].0.list()[0].id.clone();
    assert!(hosts[0].0.remove(&first).unwrap());
    hosts[1].0.refresh().unwrap();
    add(&hosts[1].0, "0.md", &text);
    hosts[0].0.refresh().unwrap();
    for _ in 0..1_000 {
        let (one, other) = tokio::join!(hosts[0].1.reconcile(go_on), hosts[1].1.reconcile(go_on));
        if one.unwrap().elsewhere + other.unwrap().elsewhere == 0 {
            break;
        }
    }
    assert_eq!(
        store.count(Filter::default()).await.unwrap(),
        u64::from(wanted) + 1
    );
    assert_eq!(chunks(&hosts[1].0), wanted);
}
