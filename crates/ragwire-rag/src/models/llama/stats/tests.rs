//! Checks what a recorder receives, and that the table of metrics lists all of it.

use std::collections::BTreeMap;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit, with_local_recorder,
};

use super::*;

/// The last value of each metric and label; for counters, the sum.
#[derive(Debug, Default)]
struct MetricValues(Arc<Mutex<BTreeMap<String, f64>>>);

#[derive(Debug)]
struct One {
    all: Arc<Mutex<BTreeMap<String, f64>>>,
    name: String,
}

impl One {
    fn set(&self, value: impl FnOnce(f64) -> f64) {
        let mut all = self.all.lock().unwrap();
        let before = all.get(&self.name).copied().unwrap_or(0.0);
        all.insert(self.name.clone(), value(before));
    }
}

impl CounterFn for One {
    fn increment(&self, more: u64) {
        self.set(|before| before + more as f64);
    }
    fn absolute(&self, value: u64) {
        self.set(|_| value as f64);
    }
}

impl GaugeFn for One {
    fn increment(&self, more: f64) {
        self.set(|before| before + more);
    }
    fn decrement(&self, less: f64) {
        self.set(|before| before - less);
    }
    fn set(&self, value: f64) {
        Self::set(self, |_| value);
    }
}

impl HistogramFn for One {
    fn record(&self, value: f64) {
        self.set(|_| value);
    }
}

impl MetricValues {
    fn one(&self, key: &Key) -> Arc<One> {
        let labels: Vec<String> = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        Arc::new(One {
            all: Arc::clone(&self.0),
            name: format!("{} {}", key.name(), labels.join(",")),
        })
    }
}

impl Recorder for MetricValues {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.one(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.one(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.one(key))
    }
}

#[test]
fn each_figure_goes_to_metrics_under_a_name_of_the_table() {
    let recorded = MetricValues::default();
    with_local_recorder(&recorded, || {
        let before = LlamaStats {
            steps: 2,
            answer_tokens: 5,
            ..LlamaStats::default()
        };
        let after = LlamaStats {
            steps: 3,
            slots: 8,
            running: 2,
            paused: 1,
            waiting: 4,
            cells: 4096,
            cells_reserved: 300,
            cells_cached: 20,
            prompt_tokens: 7,
            cached_tokens: 6,
            answer_tokens: 9,
            ..LlamaStats::default()
        };
        changed("m", &before, &after);
        changed("m", &after, &after);
        let mut end = GenerationEnd::new(FinishReason::Length);
        (end.answer_tokens, end.prompt_ms, end.generation_ms) = (Some(5), Some(250.0), Some(2000.0));
        finished("m", &end);
        outcome("m", "cancelled");
    });
    let recorded = recorded.0.lock().unwrap();
    let wanted = [
        ("answer_tokens_total model=m", 4.0),
        ("cached_tokens_total model=m", 6.0),
        ("cells_cached model=m", 20.0),
        ("cells_reserved model=m", 300.0),
        ("generation_seconds model=m", 2.0),
        ("generations_total model=m,outcome=cancelled", 1.0),
        ("generations_total model=m,outcome=length", 1.0),
        ("paused model=m", 1.0),
        ("prompt_seconds model=m", 0.25),
        ("prompt_tokens_total model=m", 7.0),
        ("running model=m", 2.0),
        ("slots model=m", 8.0),
        ("steps_total model=m", 1.0),
        ("tokens_per_second model=m", 2.0),
        ("waiting model=m", 4.0),
    ];
    let wanted: BTreeMap<String, f64> = wanted
        .map(|(name, value)| (format!("ragwire_llama_{name}"), value))
        .into();
    assert_eq!(*recorded, wanted);
    let table: String = include_str!("../mod.rs").replace("`, `_", "` `ragwire_llama_");
    for name in recorded.keys() {
        let name = name.split(' ').next().unwrap();
        assert!(
            table.contains(&format!("`{name}`")),
            "the table does not list {name}"
        );
    }
}

#[test]
fn a_single_token_has_no_rate() {
    let rate = |tokens: Option<u32>, ms: Option<f64>| {
        let mut end = GenerationEnd::new(FinishReason::Stop);
        (end.answer_tokens, end.generation_ms) = (tokens, ms);
        end.tokens_per_second()
    };
    assert_eq!(rate(Some(5), Some(2000.0)), Some(2.0));
    for (tokens, ms) in [
        (Some(0), Some(0.0)),
        (Some(1), Some(0.0)),
        (Some(1), Some(5.0)),
        (Some(9), Some(0.0)),
        (Some(9), Some(f64::NAN)),
        (None, Some(5.0)),
        (Some(9), None),
    ] {
        assert_eq!(rate(tokens, ms), None, "{tokens:?} {ms:?}");
    }
}
