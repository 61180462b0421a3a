//! What whoever records metrics sees.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use ragwire_rag::models::llama::{EmbedderOptions, LlamaRanker, RankerOptions};
use ragwire_rag::models::{Embed, Rank, Side};
use ragwire_test_support::tiny_bert::TinyBert;

use crate::embed::cosine::{Made, soon, tiny};

/// Keeps counters, and how often a histogram was told something. The tests beside this one count into it too, under other names.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

struct Times(Arc<AtomicU64>);

impl HistogramFn for Times {
    fn record(&self, _: f64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Kept {
    fn number(&self, key: &Key) -> Arc<AtomicU64> {
        let labels = key
            .labels()
            .map(|label| format!(" {}={}", label.key(), label.value()))
            .collect::<String>();
        let mut kept = self.0.lock().unwrap();
        Arc::clone(kept.entry(format!("{}{labels}", key.name())).or_default())
    }

    fn of(&self, model: &str) -> Vec<(String, u64)> {
        let kept = self.0.lock().unwrap();
        let of_model = kept
            .iter()
            .filter(|(name, _)| name.contains(&format!("model={model} ")));
        of_model
            .map(|(name, number)| (name.clone(), number.load(Ordering::Relaxed)))
            .collect()
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.number(key))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Times(self.number(key))))
    }
}

fn recorder() -> &'static Kept {
    static KEPT: OnceLock<Kept> = OnceLock::new();
    KEPT.get_or_init(|| {
        let kept = Kept::default();
        metrics::set_global_recorder(kept.clone()).unwrap();
        kept
    })
}

#[tokio::test]
async fn texts_tokens_and_batches_are_counted() {
    let kept = recorder();
    let (embedder, ..) = tiny(EmbedderOptions::default().name("counted")).await;
    let texts = vec!["pump".to_owned(), "water ".repeat(500)];
    soon(embedder.embed(Side::Passage, texts)).await.unwrap();
    let made = Made::new(&TinyBert::ranker());
    let ranker = LlamaRanker::load(made.file(), RankerOptions::default().name("scored"))
        .await
        .unwrap();
    soon(ranker.rank("pump", vec!["pump".to_owned()])).await.unwrap();
    let counts = |model: &str, work: &str, numbers: [u64; 5]| {
        let names = [
            "batch_seconds",
            "batches_total",
            "text_tokens_total",
            "texts_cut_total",
            "texts_total",
        ];
        let name = |name: &str| format!("ragwire_llama_{name} model={model} work={work}");
        names
            .iter()
            .map(|short| name(short))
            .zip(numbers)
            .collect::<Vec<_>>()
    };
    // [CLS] pump [SEP], and 64 of the long one.
    assert_eq!(kept.of("counted"), counts("counted", "embed", [1, 1, 67, 1, 2]));
    assert_eq!(kept.of("scored"), counts("scored", "rank", [1, 1, 5, 0, 1]));
}
