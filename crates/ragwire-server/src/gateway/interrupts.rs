//! Answers that end at their questions: LangGraph's and AG-UI's interrupts, and the calls of an AI SDK
//! stream that wait for an approval or for a result. The next request contains the answers.

use ragwire::wire::ag_ui::{self, AgUiDecoder};
use ragwire::wire::ai_sdk::{AiSdkDecoder, CallWait, WaitingCall};
use ragwire::wire::langgraph::{self, LangGraphDecoder};
use ragwire::wire::{Decode, WireKind};
use ragwire::{LangGraph, Ndjson};
use serde_json::Value;

/// Reads an answer.
#[derive(Debug)]
pub(super) enum Decoder {
    /// A LangGraph run.
    LangGraph(Box<LangGraphDecoder>),
    /// An AG-UI run.
    AgUi(Box<AgUiDecoder>),
    /// A stream of the AI SDK.
    AiSdk(Box<AiSdkDecoder>),
    /// Anything else, which waits for the answers to its questions.
    Other(Box<dyn Decode>),
}

impl Decoder {
    /// Creates the decoder of a first answer. JSON lines need no index, because a program that writes
    /// them by hand does not number them.
    pub(super) fn new(wire: WireKind) -> Self {
        match wire {
            WireKind::LangGraph => Self::LangGraph(Box::new(LangGraph::new("").decoder())),
            WireKind::AgUi => Self::AgUi(Box::default()),
            WireKind::AiSdk => Self::AiSdk(Box::default()),
            WireKind::Ndjson => {
                let decoder = Ndjson::default().lenient_decoder().merge_texts();
                Self::Other(Box::new(decoder))
            }
            other => Self::Other(other.decoder()),
        }
    }

    /// Creates the decoder of the answer that continues this one, which has sent text or not.
    pub(super) fn next(self, has_text: bool) -> Self {
        match self {
            Self::LangGraph(_) => {
                let wire = LangGraph::new("");
                let wire = if has_text { wire.continues() } else { wire };
                Self::LangGraph(Box::new(wire.decoder()))
            }
            Self::AgUi(decoder) => Self::AgUi(Box::new(decoder.next_run())),
            Self::AiSdk(decoder) => Self::AiSdk(Box::new(decoder.next_stream())),
            Self::Other(decoder) => Self::Other(decoder),
        }
    }

    pub(super) fn inner(&self) -> &dyn Decode {
        match self {
            Self::LangGraph(decoder) => &**decoder,
            Self::AgUi(decoder) => &**decoder,
            Self::AiSdk(decoder) => &**decoder,
            Self::Other(decoder) => &**decoder,
        }
    }

    pub(super) fn inner_mut(&mut self) -> &mut dyn Decode {
        match self {
            Self::LangGraph(decoder) => &mut **decoder,
            Self::AgUi(decoder) => &mut **decoder,
            Self::AiSdk(decoder) => &mut **decoder,
            Self::Other(decoder) => &mut **decoder,
        }
    }

    /// Returns the questions at which the answer ends, as far as they are decoded.
    pub(super) fn interrupts(&self) -> Vec<Interrupt> {
        match self {
            Self::LangGraph(decoder) => {
                let interrupts = decoder.interrupts().iter().cloned();
                interrupts.map(Interrupt::LangGraph).collect()
            }
            Self::AgUi(decoder) => {
                let interrupts = decoder.interrupts().iter().cloned();
                interrupts.map(Interrupt::AgUi).collect()
            }
            Self::AiSdk(decoder) => {
                let calls = decoder.waiting_calls().iter().cloned();
                calls.map(Interrupt::AiSdk).collect()
            }
            Self::Other(_) => Vec::new(),
        }
    }

    /// Returns `true` if the answer has ended at interrupts without an end of the turn.
    pub(super) fn is_interrupted(&self) -> bool {
        match self {
            Self::AgUi(decoder) => !decoder.interrupts().is_empty(),
            Self::LangGraph(_) | Self::AiSdk(_) | Self::Other(_) => false,
        }
    }

    /// Returns `true` if the next request has to repeat what the orchestrator wrote before its
    /// questions.
    pub(super) fn needs_transcript(&self) -> bool {
        match self {
            Self::AgUi(_) | Self::AiSdk(_) => true,
            Self::LangGraph(_) | Self::Other(_) => false,
        }
    }
}

/// A question at which an answer has ended.
#[derive(Clone, Debug)]
pub(super) enum Interrupt {
    /// Of a LangGraph run.
    LangGraph(langgraph::Interrupt),
    /// Of an AG-UI run.
    AgUi(ag_ui::Interrupt),
    /// Of a stream of the AI SDK.
    AiSdk(WaitingCall),
}

impl Interrupt {
    /// The ID of the question in `input_requested`.
    pub(super) fn id(&self) -> &str {
        match self {
            Self::LangGraph(interrupt) => &interrupt.id,
            Self::AgUi(interrupt) => &interrupt.id,
            Self::AiSdk(call) => &call.id,
        }
    }

    /// Returns the ID of the call whose result is the answer, if it is one.
    pub(super) fn result_of(&self) -> Option<&str> {
        match self {
            Self::LangGraph(_) => None,
            Self::AgUi(interrupt) => interrupt.result_of(),
            Self::AiSdk(call) => (call.wait == CallWait::Result).then_some(&*call.call_id),
        }
    }

    /// Returns `true` if the text after the answer continues the text before the question. Otherwise
    /// it is another message, or the decoder separates it itself.
    pub(super) fn continues_text(&self) -> bool {
        match self {
            Self::LangGraph(_) => true,
            Self::AgUi(interrupt) => interrupt.continues_text(),
            Self::AiSdk(_) => false,
        }
    }
}

/// The answers to the questions at which an answer has ended.
pub(super) type Answered = Vec<(Interrupt, Value)>;
