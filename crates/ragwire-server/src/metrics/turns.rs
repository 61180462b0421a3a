//! What each finished turn adds.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use ragwire::turn::{FinishedTurn, TurnOutcome};
use ragwire::{Failure, FailureKind, Usage};

use super::{Labels, NONE, OTHER};

/// Models with a label of their own: an orchestrator may report any name, and each is a time series.
pub(super) const MAX_MODELS: usize = 16;

/// Seconds, from a hit in the answer cache to the longest turn.
const SECONDS: [f64; 15] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0,
];

#[derive(Debug)]
pub(super) struct Turns {
    finished: Family<Labels<3>, Counter>,
    duration: Histogram,
    first_event: Histogram,
    first_text: Histogram,
    waited: Histogram,
    frames: Counter,
    stalls: Counter,
    tokens: Family<Labels<2>, Counter>,
    models: Mutex<BTreeSet<String>>,
}

impl Turns {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let turns = Self {
            finished: Family::default(),
            duration: Histogram::new(SECONDS),
            first_event: Histogram::new(SECONDS),
            first_text: Histogram::new(SECONDS),
            waited: Histogram::new(SECONDS),
            frames: Counter::default(),
            stalls: Counter::default(),
            tokens: Family::default(),
            models: Mutex::default(),
        };
        registry.register(
            "turns",
            "Finished turns, by the wire of the first reader, outcome and code",
            turns.finished.clone(),
        );
        for (name, help, histogram) in [
            (
                "turn_duration",
                "From the start of a turn to its end",
                &turns.duration,
            ),
            (
                "turn_first_event",
                "From the start of a turn to its first event",
                &turns.first_event,
            ),
            (
                "turn_first_text",
                "From the start of a turn to its first text",
                &turns.first_text,
            ),
            (
                "turn_wait",
                "From the start of a turn to its admission",
                &turns.waited,
            ),
        ] {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        }
        registry.register("turn_frames", "Frames that turns sent", turns.frames.clone());
        registry.register(
            "turn_stalls",
            "Times that a turn waited for its reader, because its queue was full",
            turns.stalls.clone(),
        );
        registry.register(
            "tokens",
            "Tokens that models read and wrote, by model and kind",
            turns.tokens.clone(),
        );
        turns
    }

    pub(super) fn add(&self, turn: &FinishedTurn<'_>) {
        let (outcome, code) = match turn.outcome {
            TurnOutcome::Completed => ("completed", NONE),
            TurnOutcome::Stopped => ("stopped", NONE),
            TurnOutcome::Failed(failure) => ("failed", code(failure)),
            TurnOutcome::Rejected(failure) => ("rejected", code(failure)),
            TurnOutcome::Disconnected => ("disconnected", NONE),
        };
        let labels = [
            ("wire", turn.wire.unwrap_or(NONE).to_owned()),
            ("outcome", outcome.to_owned()),
            ("code", code.to_owned()),
        ];
        self.finished.get_or_create(&labels).inc();
        self.frames.inc_by(turn.frames);
        self.stalls.inc_by(turn.stalls);
        self.duration.observe(turn.duration.as_secs_f64());
        let observe = |histogram: &Histogram, time: Option<Duration>| {
            if let Some(time) = time {
                histogram.observe(time.as_secs_f64());
            }
        };
        observe(&self.first_event, turn.first_event);
        observe(&self.first_text, turn.first_text);
        observe(&self.waited, turn.waited);
        if let Some(usage) = turn.usage {
            self.add_tokens(usage);
        }
    }

    fn add_tokens(&self, usage: &Usage) {
        let kinds = [
            ("input", usage.input_tokens),
            ("cached_input", usage.cached_input_tokens),
            ("output", usage.output_tokens),
        ];
        if kinds.iter().all(|(_, tokens)| tokens.is_none()) {
            return;
        }
        let model = self.model(usage.model.as_deref().unwrap_or(NONE));
        for (kind, tokens) in kinds {
            let labels = [("model", model.clone()), ("kind", kind.to_owned())];
            self.tokens
                .get_or_create(&labels)
                .inc_by(tokens.unwrap_or_default());
        }
    }

    /// Returns the label of a model: its name, unless there are too many.
    fn model(&self, name: &str) -> String {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if !models.contains(name) {
            if models.len() >= MAX_MODELS {
                return OTHER.to_owned();
            }
            models.insert(name.to_owned());
        }
        name.to_owned()
    }
}

/// Returns the label of a failure: its code, unless an orchestrator chose it.
fn code(failure: &Failure) -> &str {
    match &failure.kind {
        FailureKind::Other(_) => OTHER,
        known => known.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use ragwire::{Metadata, Sink, Turn};

    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn labels_are_bounded() {
        let turns = Turns::register(&mut Registry::default());
        let names = (0..MAX_MODELS + 3).map(|number| turns.model(&format!("m{number}")));
        let labels: BTreeSet<_> = names.collect();
        assert_eq!(labels.len(), MAX_MODELS + 1);
        assert!(labels.contains(OTHER));
        assert_eq!(turns.model("m0"), "m0");
        assert_eq!(code(&Failure::new("quota-of-alice", "")), OTHER);
        assert_eq!(code(&Failure::new("busy", "")), "busy");
    }

    #[tokio::test]
    async fn tokens_count_by_model_and_kind() {
        let metrics = std::sync::Arc::new(Metrics::new());
        let usage = Usage::new()
            .input_tokens(100u64)
            .output_tokens(7u64)
            .model("qwen");
        let turn = Turn::builder()
            .observer(metrics.clone())
            .start(|_: Sink| async move { Ok::<_, Failure>(Metadata::default().usage(usage)) });
        turn.commit().await.unwrap().collect().await.unwrap();
        let mut text = String::new();
        encode(&mut text, &metrics.registry).unwrap();
        for line in [
            "ragwire_tokens_total{model=\"qwen\",kind=\"input\"} 100",
            "ragwire_tokens_total{model=\"qwen\",kind=\"output\"} 7",
            "ragwire_turns_total{wire=\"none\",outcome=\"completed\",code=\"none\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
