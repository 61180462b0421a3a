//! Tests of the metrics that a recorder receives.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use ragwire_rag::models::llama::{EmbedderOptions, LlamaRanker, RankerOptions};
use ragwire_rag::models::{Embed, Rank, Side};
use ragwire_test_support::tiny_bert::TinyBert;

use crate::embed::cosine::{TempModel, soon, tiny};

/// Stores counters, and how often each histogram recorded a value. Other tests of this binary use
/// the same recorder, with other model names.
#[derive(Clone, Default)]
struct Counters(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

struct Recordings(Arc<AtomicU64>);

impl HistogramFn for Recordings {
    fn record(&self, _: f64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counters {
    fn number(&self, key: &Key) -> Arc<AtomicU64> {
        let labels = key
            .labels()
            .map(|label| format!(" {}={}", label.key(), label.value()))
            .collect::<String>();
        let mut counters = self.0.lock().unwrap();
        Arc::clone(counters.entry(format!("{}{labels}", key.name())).or_default())
    }

    fn of(&self, model: &str) -> Vec<(String, u64)> {
        let counters = self.0.lock().unwrap();
        let of_model = counters
            .iter()
            .filter(|(name, _)| name.contains(&format!("model={model} ")));
        of_model
            .map(|(name, number)| (name.clone(), number.load(Ordering::Relaxed)))
            .collect()
    }
}

impl Recorder for Counters {
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
        Histogram::from_arc(Arc::new(Recordings(self.number(key))))
    }
}

fn recorder() -> &'static Counters {
    static COUNTERS: OnceLock<Counters> = OnceLock::new();
    COUNTERS.get_or_init(|| {
        let counters = Counters::default();
        metrics::set_global_recorder(counters.clone()).unwrap();
        counters
    })
}

#[tokio::test]
async fn texts_tokens_and_batches_are_counted() {
    let counters = recorder();
    let (embedder, ..) = tiny(EmbedderOptions::default().name("counted")).await;
    let texts = vec!["pump".to_owned(), "water ".repeat(500)];
    soon(embedder.embed(Side::Passage, texts)).await.unwrap();
    let made = TempModel::new(&TinyBert::ranker());
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
    // [CLS] pump [SEP], and 64 tokens of the long text.
    assert_eq!(
        counters.of("counted"),
        counts("counted", "embed", [1, 1, 67, 1, 2])
    );
    assert_eq!(counters.of("scored"), counts("scored", "rank", [1, 1, 5, 0, 1]));
}
