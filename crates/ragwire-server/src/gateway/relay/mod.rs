//! The way of an answer into the turn, and of a human's answers back to the orchestrator.
//!
//! [`Sink::relay`] decodes and sends. Around it, [`Filter`] takes the questions to humans out of the
//! frames and [`Chunks`] asks them between two chunks, so that the turn itself asks, every wire shows
//! the question in its own form, and its answer returns through a [`Channel`].
//!
//! Some answers end at their questions (`interrupts.rs`). The humans' answers are collected, and the
//! next request contains them: [`Relayed::answered`].

mod chunks;
mod filter;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use ragwire::event::Event;
use ragwire::{Metadata, Sink};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use self::chunks::Chunks;
use self::filter::Filter;

use super::error::GatewayError;
use super::humans::{Channel, Delivery, HumanAnswer, Humans};
use super::interrupts::{Answered, Decoder, Interrupt};
use super::transcript::Transcript;

/// Where the bytes or the objects of an answer come from.
pub(super) trait Source: Send {
    /// Returns the next chunk for the decoder.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, GatewayError>>>;

    /// Returns what arrived last, for the log.
    fn last(&self) -> &Bytes;

    /// The error for an orchestrator that is silent for too long.
    fn silent(&self, after: Duration) -> GatewayError;

    /// Returns `true` if nothing is read after the end of the answer.
    fn ends_with_answer(&self) -> bool;
}

/// What the two sides of a relay share.
#[derive(Debug, Default)]
struct Shared {
    /// Events about questions to humans that were taken out of the frames.
    taken: VecDeque<Event>,
    /// The questions that this turn asks or has asked.
    asked: Vec<String>,
    /// The interrupts of this run, under the IDs of their questions, and their answers.
    interrupts: Vec<Asked>,
    /// The end of the answer was decoded.
    has_ended: bool,
}

/// An interrupt, as the turn asks it.
#[derive(Debug)]
struct Asked {
    request_id: String,
    interrupt: Interrupt,
    answer: Option<Value>,
}

type SharedState = Arc<Mutex<Shared>>;

fn lock(shared: &SharedState) -> MutexGuard<'_, Shared> {
    // Nothing panics in the middle of a change.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was relayed of an answer.
pub(super) struct Relayed {
    /// The metadata of a completed answer or run.
    pub(super) metadata: Metadata,
    /// The questions at which the answer ended, with their answers.
    pub(super) answered: Answered,
    /// What the answer to the next request needs to know of this one.
    pub(super) before: Before,
    /// The text, if it was collected and the answer reports no structured result itself.
    pub(super) text: Option<String>,
}

/// What was read before the request whose answer is relayed.
pub(super) struct Before {
    /// The decoder of the answer.
    pub(super) decoder: Decoder,
    /// The number of answers before this one.
    pub(super) runs: usize,
    /// Whether there was text.
    pub(super) has_text: bool,
    /// The questions that were asked.
    asked: Vec<String>,
    /// Text is another message than the text before it.
    separates: bool,
    pub(super) transcript: Transcript,
}

impl Before {
    /// Nothing was read.
    pub(super) fn new(decoder: Decoder) -> Self {
        Self {
            decoder,
            runs: 0,
            has_text: false,
            asked: Vec::new(),
            separates: false,
            transcript: Transcript::default(),
        }
    }
}

/// An answer that did not complete.
pub(super) struct Unfinished {
    pub(super) error: GatewayError,
    /// The last chunk, for the log.
    pub(super) last: Bytes,
    /// The answer has its end: the orchestrator itself reports a failure or a stop.
    pub(super) has_ended: bool,
}

/// Relays an answer into the turn, and collects its text on request.
pub(super) async fn relay(
    sink: Sink,
    before: Before,
    source: impl Source + Unpin,
    channel: impl Channel + Unpin,
    idle: Duration,
    collects_text: bool,
) -> Result<Relayed, Unfinished> {
    let shared = Arc::new(Mutex::new(Shared {
        asked: before.asked,
        ..Shared::default()
    }));
    let mut filter = Filter {
        decoder: before.decoder,
        shared: Arc::clone(&shared),
        end: None,
        has_taken: false,
        is_read: false,
        runs: before.runs,
        has_text: before.has_text,
        separates: before.separates,
        transcript: before.transcript,
        text: collects_text.then(String::new),
    };
    let channel = Answers {
        channel,
        shared: Arc::clone(&shared),
    };
    let mut chunks = Chunks {
        source,
        is_read: false,
        error: None,
        humans: Humans::new(sink.clone(), channel),
        shared: Arc::clone(&shared),
        idle,
        heard: None,
        timer: Box::pin(sleep_until(Instant::now() + idle)),
    };
    let relayed = sink.relay(&mut filter, &mut chunks).await;
    let mut shared = lock(&shared);
    match relayed {
        Ok(metadata) => {
            let answered = std::mem::take(&mut shared.interrupts).into_iter();
            let answered: Answered = answered
                .filter_map(|asked| Some((asked.interrupt, asked.answer?)))
                .collect();
            let continues = |(interrupt, _): &(Interrupt, Value)| interrupt.continues_text();
            let before = Before {
                decoder: filter.decoder.next(filter.has_text),
                runs: filter.runs + 1,
                has_text: filter.has_text,
                asked: std::mem::take(&mut shared.asked),
                separates: filter.has_text && !answered.iter().any(continues),
                transcript: filter.transcript,
            };
            Ok(Relayed {
                metadata,
                answered,
                before,
                text: filter.text,
            })
        }
        Err(error) => Err(Unfinished {
            error: chunks.error.take().unwrap_or(GatewayError::Relay(error)),
            last: chunks.source.last().clone(),
            has_ended: shared.has_ended,
        }),
    }
}

/// Takes the answers to interrupts, and passes the others on.
struct Answers<C> {
    channel: C,
    shared: SharedState,
}

impl<C: Channel> Channel for Answers<C> {
    fn deliver(&self, answer: HumanAnswer) -> Delivery {
        let mut shared = lock(&self.shared);
        let mut interrupts = shared.interrupts.iter_mut();
        let Some(asked) = interrupts.find(|asked| asked.request_id == answer.request_id) else {
            drop(shared);
            return self.channel.deliver(answer);
        };
        let taken = match answer.error {
            // A run cannot continue without an answer, and has no way to hear why.
            Some(code) => Err(GatewayError::NotAnswered(code)),
            None => {
                asked.answer = Some(answer.response);
                Ok(())
            }
        };
        Box::pin(std::future::ready(taken))
    }
}

#[cfg(test)]
mod tests;
