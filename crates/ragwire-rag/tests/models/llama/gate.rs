//! Watches the steps of an engine, and holds it between two of them.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ragwire_rag::models::llama::{LlamaOptions, Step};

/// Longest duration of a step before the test fails as hanging.
const HANG: Duration = Duration::from_secs(120);

#[derive(Debug, Default)]
struct State {
    steps: Vec<Step>,
    /// The engine is held after this many steps.
    most: Option<usize>,
}

/// Clones watch the same engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<(Mutex<State>, Condvar)>);

impl Gate {
    /// Creates a gate that holds the engine after `steps` steps.
    pub(crate) fn after(steps: usize) -> Self {
        let gate = Self::default();
        gate.hold(steps);
        gate
    }

    pub(crate) fn watch(&self, options: LlamaOptions) -> LlamaOptions {
        let gate = self.clone();
        options.observer(move |step| gate.step(*step))
    }

    fn step(&self, step: Step) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state.steps.push(step);
        changed.notify_all();
        let _held = changed
            .wait_while(state, |state| {
                state.most.is_some_and(|most| state.steps.len() >= most)
            })
            .unwrap();
    }

    /// Holds the engine after `steps` steps, counted from its start.
    pub(crate) fn hold(&self, steps: usize) {
        self.set(Some(steps));
    }

    /// Lets the engine continue.
    pub(crate) fn open(&self) {
        self.set(None);
    }

    fn set(&self, most: Option<usize>) {
        let (state, changed) = &*self.0;
        state.lock().unwrap().most = most;
        changed.notify_all();
    }

    /// Waits until the engine has run this many steps. Blocks, because the engine has its own
    /// thread.
    pub(crate) fn reached(&self, steps: usize) {
        let (state, changed) = &*self.0;
        let state = state.lock().unwrap();
        let (_state, waited) = changed
            .wait_timeout_while(state, HANG, |state| state.steps.len() < steps)
            .unwrap();
        assert!(!waited.timed_out(), "the engine hangs");
    }

    pub(crate) fn steps(&self) -> Vec<Step> {
        self.0.0.lock().unwrap().steps.clone()
    }
}
