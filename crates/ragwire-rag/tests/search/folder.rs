//! Tests of an `EdgeStore` and its folder: reopened, locked, opened with other options, damaged.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ragwire_rag::search::store::{EdgeOptions, EdgeStore, Filter, Point, Search, Store, StoreError, Vectors};

use crate::points::{Numbers, by_cosine, find, find_ids, ids, point};

fn options() -> EdgeOptions {
    EdgeOptions::new(Vectors::dense(8).with_tokens()).embedder("mini")
}

async fn open(folder: &Path) -> Result<EdgeStore, StoreError> {
    EdgeStore::open(folder, options()).await
}

fn some(count: u32) -> Vec<Point> {
    let mut numbers = Numbers::new(7);
    (0..count)
        .map(|n| {
            let text = format!("A wren, number{n}, of group{}.", n % 7);
            let tokens = vec![numbers.vector(8), numbers.vector(8)];
            point(&format!("d{}", n / 10), n % 10, &text)
                .dense(numbers.vector(8))
                .tokens(tokens)
        })
        .collect()
}

#[tokio::test]
async fn a_reopened_folder_has_its_contents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("not/yet/there");
    let mut points = some(100);
    let query = Numbers::new(8).vector(8);
    let search = || Search::hybrid("wren group3", query.clone(), 20);
    let store = open(&path).await.unwrap();
    store.upsert(points.clone()).await.unwrap();
    store.remove_document("d3").await.unwrap();
    let (before, documents) = (find(&store, search()).await, store.documents().await.unwrap());
    store.close().await.unwrap();
    points.retain(|point| point.chunk.document_id != "d3");

    for round in 0..3 {
        let store = open(&path).await.unwrap();
        assert_eq!(store.documents().await.unwrap(), documents);
        assert_eq!(store.count(Filter::default()).await.unwrap(), 90);
        assert_eq!(find(&store, search()).await, before);
        let near = find(&store, Search::dense(query.clone(), 90)).await;
        assert_eq!(ids(&near), ids(&by_cosine(&points, &query)));
        // A point that is replaced after a restart is replaced.
        let text = format!("Changed in round{round}.");
        let changed = point("d0", 0, &text).dense(points[0].dense.clone().unwrap());
        store
            .upsert(vec![changed.tokens(points[0].tokens.clone())])
            .await
            .unwrap();
        assert_eq!(
            find_ids(&store, Search::text(format!("round{round}"), 5)).await,
            ["d0-0"]
        );
        store.upsert(vec![points[0].clone()]).await.unwrap();
        // Dropped without closing, as when a process ends.
        drop(store);
    }
}

#[tokio::test]
async fn a_folder_is_open_only_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await.unwrap();
    for _ in 0..2 {
        assert_eq!(open(folder.path()).await.unwrap_err().code(), "store_in_use");
    }
    store.upsert(some(3)).await.unwrap();
    // A call in progress keeps it open.
    let store = Arc::new(store);
    let late = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.upsert(some(500)).await }
    });
    tokio::task::yield_now().await;
    late.await.unwrap().unwrap();
    Arc::into_inner(store).unwrap().close().await.unwrap();
    let store = open(folder.path()).await.unwrap();
    assert_eq!(store.count(Filter::default()).await.unwrap(), 500);
}

#[tokio::test]
async fn vectors_of_another_model_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).await.unwrap().upsert(some(3)).await.unwrap();
    let made = "format 1, 8 dimensions, with tokens, embedder mini";
    for (other, wanted) in [
        (
            EdgeOptions::new(Vectors::dense(16).with_tokens()).embedder("mini"),
            "format 1, 16 dimensions, with tokens, embedder mini",
        ),
        (
            EdgeOptions::new(Vectors::dense(8)).embedder("mini"),
            "format 1, 8 dimensions, without tokens, embedder mini",
        ),
        (
            EdgeOptions::new(Vectors::dense(8).with_tokens()).embedder("maxi"),
            "format 1, 8 dimensions, with tokens, embedder maxi",
        ),
        (
            EdgeOptions::new(Vectors::NONE),
            "format 1, 0 dimensions, without tokens, embedder none",
        ),
    ] {
        let refused = EdgeStore::open(folder.path(), other).await.unwrap_err();
        assert_eq!(refused.code(), "store_mismatch");
        assert_eq!(
            refused.to_string(),
            format!("the store was made for other vectors: {made}, expected {wanted}")
        );
    }
    let store = open(folder.path()).await.unwrap();
    assert_eq!(store.count(Filter::default()).await.unwrap(), 3);
}

/// With graphs instead of exact search, and with points that move from one segment to another.
#[tokio::test]
async fn optimizing_does_not_change_results() {
    let folder = tempfile::tempdir().unwrap();
    let store = EdgeStore::open(folder.path(), options().index_from_kib(16))
        .await
        .unwrap();
    let mut points = some(1_500);
    store.upsert(points.clone()).await.unwrap();
    store.optimize().await.unwrap();
    let query = Numbers::new(9).vector(8);
    let recall = async |store: &EdgeStore, points: &[Point]| {
        let found = find_ids(store, Search::dense(query.clone(), 20)).await;
        let wanted = by_cosine(points, &query);
        ids(&wanted)[..20]
            .iter()
            .filter(|id| found.iter().any(|found| found == *id))
            .count()
    };
    assert!(recall(&store, &points).await >= 18);

    // Replaced without a vector: the old vector does not remain.
    let bare = Point::new(points[0].chunk.clone());
    let lonely = points[0].dense.clone().unwrap();
    store.upsert(vec![bare]).await.unwrap();
    assert!(
        !find_ids(&store, Search::dense(lonely, 1_500))
            .await
            .contains(&"d0-0".to_owned())
    );
    store.upsert(vec![points[0].clone()]).await.unwrap();
    points[1].chunk.text = "Moved.".to_owned();
    store.upsert(points[1..2].to_vec()).await.unwrap();
    assert_eq!(find_ids(&store, Search::text("number1", 5)).await.len(), 0);
    assert_eq!(find_ids(&store, Search::text("moved", 5)).await, ["d0-1"]);

    for n in 1..120 {
        store.remove_document(&format!("d{n}")).await.unwrap();
    }
    points.retain(|point| {
        point.chunk.document_id[1..].parse::<u32>().unwrap() % 120 == 0
            || point.chunk.document_id[1..].parse::<u32>().unwrap() >= 120
    });
    for _ in 0..2 {
        assert_eq!(store.count(Filter::default()).await.unwrap(), points.len() as u64);
        assert_eq!(store.documents().await.unwrap().len(), points.len() / 10);
        assert!(recall(&store, &points).await >= 18);
        assert_eq!(
            find_ids(&store, Search::text("wren", 500)).await.len(),
            points.len() - 1
        );
        store.optimize().await.unwrap();
    }
}

#[tokio::test]
async fn the_log_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await.unwrap();
    let logs = || fs::read_dir(folder.path().join("shard/wal")).unwrap().count();
    let mut numbers = Numbers::new(10);
    // Each takes about 20 KiB in the log.
    let mut heavy = |n| point("d", n, "A stone.").tokens((0..500).map(|_| numbers.vector(8)).collect());
    for batch in 0..40u32 {
        let points = (0..64).map(|n| heavy(batch % 2 * 64 + n));
        store.upsert(points.collect()).await.unwrap();
    }
    let before = logs();
    assert!(before > 5, "{before}");
    store.optimize().await.unwrap();
    assert!(logs() <= 3, "{} of {before}", logs());
    // Operation numbers continue: no operation is ignored.
    for round in 0..3 {
        store
            .upsert(vec![point("d", 0, &format!("In round{round}."))])
            .await
            .unwrap();
        assert_eq!(
            find_ids(&store, Search::text(format!("round{round}"), 5)).await,
            ["d-0"]
        );
    }
    assert_eq!(store.count(Filter::default()).await.unwrap(), 128);
    drop(store);
    let store = open(folder.path()).await.unwrap();
    assert_eq!(store.count(Filter::default()).await.unwrap(), 128);
    store.remove_document("d").await.unwrap();
    assert_eq!(store.count(Filter::default()).await.unwrap(), 0);
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path)
            } else {
                found.push(path)
            }
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let copy = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(file, copy).unwrap();
    }
}

/// A name, and the damage done to a file.
type Damage = (&'static str, fn(&Path));

/// Opens a folder and uses it. Any damage is an error with a code.
async fn use_it(folder: &Path) -> Result<(), StoreError> {
    let store = open(folder).await?;
    let query = Numbers::new(8).vector(8);
    store
        .search(Search::hybrid("wren", query.clone(), 20).tokens(vec![query]))
        .await?;
    store.documents().await?;
    store.upsert(some(12)).await?;
    store.remove_document("d0").await?;
    store.count(Filter::default()).await?;
    store.optimize().await?;
    store.close().await
}

/// Damages each file in two ways, or with `TEST_DAMAGE` in all five, which takes a minute.
#[tokio::test]
async fn a_damaged_folder_is_an_error_and_not_a_panic() {
    let whole = tempfile::tempdir().unwrap();
    let store = open(whole.path()).await.unwrap();
    store.upsert(some(200)).await.unwrap();
    store.remove_document("d3").await.unwrap();
    store.close().await.unwrap();
    let damage: [Damage; 5] = [
        ("gone", |path| fs::remove_file(path).unwrap()),
        ("empty", |path| fs::write(path, []).unwrap()),
        ("cut", |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("noise", |path| {
            let bytes: Vec<u8> = fs::read(path).unwrap().iter().map(|byte| byte ^ 0xa5).collect();
            fs::write(path, bytes).unwrap();
        }),
        ("a folder", |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
    ];
    let (mut failed, all) = (0, std::env::var_os("TEST_DAMAGE").is_some());
    for (n, file) in files(whole.path()).iter().enumerate() {
        let name = file.strip_prefix(whole.path()).unwrap();
        for (kind, damage) in (0..)
            .zip(damage)
            .filter(|(kind, _)| all || [n % 5, (n + 2) % 5].contains(kind))
            .map(|(_, damage)| damage)
        {
            let folder = tempfile::tempdir().unwrap();
            copy(whole.path(), folder.path());
            damage(&folder.path().join(name));
            println!("{} {kind}", name.display());
            if let Err(error) = use_it(folder.path()).await {
                println!("    {error:?}");
                assert!(
                    ["store_failed", "store_mismatch"].contains(&error.code()),
                    "{error:?}"
                );
                failed += 1;
            }
        }
    }
    assert!(failed > 10, "{failed}");
}
