//! The way of an answer into the turn, and of a human's answers back to the orchestrator.
//!
//! [`Sink::relay`] decodes and sends. Around it, [`Filter`] takes the questions to humans out of the
//! frames and [`Chunks`] asks them between two chunks, so that the turn itself asks, every wire shows
//! the question in its own form, and its answer returns through a [`Channel`].
//!
//! Some answers end at their questions (`interrupts.rs`). The humans' answers are collected, and the
//! next request contains them: [`Relayed::answered`].

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use ragwire::event::Event;
use ragwire::wire::{Decode, DecodeError, Finish};
use ragwire::{End, Frame, Metadata, Sink, Status};
use serde_json::Value;
use tokio::time::{Instant, Sleep, sleep_until};

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

/// Questions of one turn whose outcomes are recognized. More than any answer has; beyond it, the
/// orchestrator's own report of an outcome is shown too.
const MAX_ASKED: usize = 1_000;

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

/// What separates two messages in the text of one answer.
const BETWEEN_MESSAGES: &str = "\n\n";

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

/// A decoder that takes the events about questions to humans out of the frames.
#[derive(Debug)]
struct Filter {
    decoder: Decoder,
    shared: SharedState,
    /// The end of a run that ends at interrupts. It is the end of the turn only if no run continues.
    end: Option<End>,
    /// A question was taken, and is asked before the next frame.
    has_taken: bool,
    /// Everything was read, and all interrupts are answered.
    is_read: bool,
    /// The number of answers before this one.
    runs: usize,
    has_text: bool,
    /// The next text is another message than the text before it.
    separates: bool,
    transcript: Transcript,
    text: Option<String>,
}

impl Filter {
    /// Finds the interrupts of questions that were asked before their interrupts were decoded: those of
    /// a server of ours.
    fn find_interrupts(&mut self) {
        if !self.decoder.is_interrupted() {
            return;
        }
        let mut shared = lock(&self.shared);
        shared.has_ended = true;
        for interrupt in self.decoder.interrupts() {
            let is_known = shared
                .interrupts
                .iter()
                .any(|asked| asked.interrupt.id() == interrupt.id());
            if !is_known && shared.asked.iter().any(|asked| asked == interrupt.id()) {
                shared.interrupts.push(Asked {
                    request_id: interrupt.id().to_owned(),
                    interrupt,
                    answer: None,
                });
            }
        }
    }

    /// Returns the interrupt of a question, if it is one, and the ID under which the turn asks it: an
    /// interrupt of a later run may have the ID of an earlier one.
    fn interrupt(&self, request_id: &str) -> Option<(Interrupt, String)> {
        let mut interrupts = self.decoder.interrupts().into_iter();
        let interrupt = interrupts.find(|interrupt| interrupt.id() == request_id)?;
        let unique = match self.runs {
            0 => request_id.to_owned(),
            runs => format!("{request_id}-{}", runs + 1),
        };
        Some((interrupt, unique))
    }

    /// Takes a question out of the frames. Returns `false` for any other event.
    fn take(&mut self, event: &Event) -> bool {
        let Some((request_id, is_question)) = of_question(event) else {
            return false;
        };
        let mut shared = lock(&self.shared);
        if is_question && shared.asked.len() < MAX_ASKED {
            shared.asked.push(request_id.to_owned());
        }
        if !is_question && !shared.asked.iter().any(|asked| asked == request_id) {
            return false;
        }
        let mut event = event.clone();
        if let Event::InputRequested(question) = &mut event
            && let Some((interrupt, request_id)) = self.interrupt(&question.request_id)
        {
            question.request_id.clone_from(&request_id);
            shared.interrupts.push(Asked {
                request_id,
                interrupt,
                answer: None,
            });
        }
        shared.taken.push_back(event);
        self.has_taken = true;
        true
    }

    /// Holds the end of a run back while its interrupts wait for their answers.
    fn ended(&mut self, mut end: End) -> Option<Result<Frame, DecodeError>> {
        let mut shared = lock(&self.shared);
        shared.has_ended = true;
        if !shared.interrupts.is_empty() && !matches!(end.status, Status::Failed(_)) {
            if !self.is_read {
                self.end = Some(end);
                return None;
            }
            end.status = Status::Completed;
        }
        Some(Ok(Frame::End(end)))
    }
}

impl Decode for Filter {
    /// The next chunk is read after the questions of the last one were asked.
    fn feed(&mut self, bytes: &[u8]) {
        self.has_taken = false;
        self.decoder.inner_mut().feed(bytes);
        self.find_interrupts();
    }

    fn finish(&mut self) -> Finish {
        self.is_read = true;
        if self.decoder.is_interrupted() && !lock(&self.shared).interrupts.is_empty() {
            // The run has no end of the turn: another run continues it.
            self.end = Some(End::completed(Metadata::default()));
            return Finish::Complete;
        }
        self.decoder.inner_mut().finish()
    }

    fn shows_failures(&self) -> bool {
        self.decoder.inner().shows_failures()
    }
}

impl Iterator for Filter {
    type Item = Result<Frame, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        // The question is asked first, so that it precedes what follows it.
        if self.has_taken {
            return None;
        }
        if let Some(end) = self.end.take() {
            return self.ended(end);
        }
        let mut frame = self.decoder.inner_mut().next()?;
        if let (Ok(Frame::Text(text)), true) = (&mut frame, self.separates) {
            *text = format!("{BETWEEN_MESSAGES}{text}");
            self.separates = false;
        }
        let keeps = self.decoder.needs_transcript();
        match &frame {
            Ok(Frame::Event { event, .. }) => {
                if self.take(event) {
                    return None;
                }
                if let Event::StructuredResult(_) = event {
                    self.text = None;
                }
                if keeps {
                    self.transcript.add_event(event);
                }
            }
            Ok(Frame::Text(text)) => {
                if keeps {
                    self.transcript.add_text(text);
                }
                self.has_text = true;
                if let Some(collected) = &mut self.text {
                    collected.push_str(text);
                }
            }
            Ok(Frame::End(_)) | Ok(Frame::Snapshot(_)) | Err(_) => {}
        }
        match frame {
            Ok(Frame::End(end)) => self.ended(end),
            frame => Some(frame),
        }
    }
}

/// Returns the ID of the question that an event is about, and whether the event asks it.
fn of_question(event: &Event) -> Option<(&str, bool)> {
    if let Event::InputRequested(question) = event {
        Some((&question.request_id, true))
    } else if let Event::AuthorizationRequired(required) = event {
        Some((required.request_id.as_ref()?, true))
    } else if let Event::InputResolved(resolved) = event {
        Some((&resolved.request_id, false))
    } else if let Event::AuthorizationCompleted(completed) = event {
        Some((completed.request_id.as_ref()?, false))
    } else {
        None
    }
}

/// The chunks of an answer. While they are awaited, humans are asked and their answers delivered.
struct Chunks<S, C> {
    source: S,
    /// The source is read to its end.
    is_read: bool,
    /// Why the source failed.
    error: Option<GatewayError>,
    humans: Humans<C>,
    shared: SharedState,
    idle: Duration,
    /// When the orchestrator was heard last; `None` if something has arrived since the clock was read.
    heard: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl<S: Source, C: Channel> Chunks<S, C> {
    fn fail(&mut self, error: GatewayError) -> Poll<Option<Result<Bytes, SourceFailed>>> {
        self.error = Some(error);
        Poll::Ready(Some(Err(SourceFailed)))
    }

    /// Waits until the interrupts at which the run has ended are answered. Meanwhile what follows the
    /// end is read, so that the connection can be used again.
    fn poll_answers(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, SourceFailed>>> {
        self.is_read = self.is_read || self.source.poll_chunk(cx).is_ready();
        if self.humans.is_idle() {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    }

    /// Waits until the orchestrator was silent for too long. Time does not count while a human is
    /// asked.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.heard.get_or_insert_with(Instant::now);
        while self.timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if self.humans.is_waiting() {
                self.heard = Some(now);
            }
            let late = self.heard.unwrap_or(now) + self.idle;
            if late <= now {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(late);
        }
        Poll::Pending
    }
}

/// The source failed; `Chunks::error` says why.
#[derive(Debug, thiserror::Error)]
#[error("the orchestrator failed")]
struct SourceFailed;

impl<S: Source + Unpin, C: Channel + Unpin> Stream for Chunks<S, C> {
    type Item = Result<Bytes, SourceFailed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let (taken, has_ended, is_interrupted) = {
            let mut shared = lock(&this.shared);
            let taken = std::mem::take(&mut shared.taken);
            (taken, shared.has_ended, !shared.interrupts.is_empty())
        };
        let resumes = !taken.is_empty();
        for event in taken {
            this.humans.take(event, cx);
        }
        if this.humans.is_waiting() {
            // Its human may have answered since the last look at the clock.
            this.heard = None;
        }
        if let Poll::Ready(error) = this.humans.poll_failed(cx) {
            return this.fail(error);
        }
        if resumes {
            // Nothing for the decoder, which has frames that wait behind the question.
            return Poll::Ready(Some(Ok(Bytes::new())));
        }
        if has_ended && this.source.ends_with_answer() {
            return Poll::Ready(None);
        }
        if is_interrupted && (has_ended || this.is_read) {
            return this.poll_answers(cx);
        }
        match this.source.poll_chunk(cx) {
            Poll::Ready(Some(Ok(chunk))) => {
                this.heard = None;
                return Poll::Ready(Some(Ok(chunk)));
            }
            Poll::Ready(Some(Err(error))) => return this.fail(error),
            Poll::Ready(None) => {
                this.is_read = true;
                return if is_interrupted {
                    this.poll_answers(cx)
                } else {
                    Poll::Ready(None)
                };
            }
            Poll::Pending => {}
        }
        match this.poll_silence(cx) {
            Poll::Ready(()) => this.fail(this.source.silent(this.idle)),
            Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use ragwire::turn::Turn;
    use ragwire::wire::WireKind;

    use super::*;

    const IDLE: Duration = Duration::from_secs(10);

    /// An orchestrator that asks, and continues some time after it has got its answer.
    struct Asking {
        chunks: VecDeque<&'static str>,
        pause: Pin<Box<Sleep>>,
        answered: Arc<Mutex<Option<Instant>>>,
        continues_after: Duration,
        last: Bytes,
    }

    impl Source for Asking {
        fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, GatewayError>>> {
            if self.chunks.len() == 1 {
                let Some(answered) = *self.answered.lock().unwrap() else {
                    return Poll::Pending;
                };
                let at = answered + self.continues_after;
                if self.pause.deadline() != at {
                    self.pause.as_mut().reset(at);
                }
                std::task::ready!(self.pause.as_mut().poll(cx));
            }
            Poll::Ready(self.chunks.pop_front().map(|chunk| Ok(chunk.into())))
        }

        fn last(&self) -> &Bytes {
            &self.last
        }

        fn silent(&self, after: Duration) -> GatewayError {
            let what = "continue";
            GatewayError::Silent { what, after }
        }

        fn ends_with_answer(&self) -> bool {
            false
        }
    }

    /// Keeps the time of the answer.
    struct Clocked(Arc<Mutex<Option<Instant>>>);

    impl Channel for Clocked {
        fn deliver(&self, _: HumanAnswer) -> Delivery {
            *self.0.lock().unwrap() = Some(Instant::now());
            Box::pin(std::future::ready(Ok(())))
        }
    }

    /// Returns whether an orchestrator that continues `pause` after its answer is heard to its end, if
    /// the human takes `thinks` to answer.
    async fn completes(thinks: Duration, pause: Duration) -> bool {
        let turn = Turn::start(move |sink: Sink| async move {
            let answered = Arc::new(Mutex::new(None));
            let source = Asking {
                chunks: VecDeque::from([
                    "{\"event\":\"input_requested\",\"request_id\":\"a\",\"kind\":\"approval\",\"prompt\":\"Go?\"}\n",
                    "{\"text\":\"Gone.\"}\n{\"end\":\"completed\"}\n",
                ]),
                pause: Box::pin(sleep_until(Instant::now())),
                answered: Arc::clone(&answered),
                continues_after: pause,
                last: Bytes::new(),
            };
            let before = Before::new(Decoder::new(WireKind::Ndjson));
            let relayed = relay(sink, before, source, Clocked(answered), IDLE, false).await;
            relayed
                .map(|relayed| relayed.metadata)
                .map_err(|unfinished| unfinished.error)
        });
        let turn = turn.commit().await.unwrap();
        let handle = turn.handle();
        let answers = async {
            tokio::time::sleep(thinks).await;
            handle.answer("a", "yes").unwrap();
        };
        let collected = tokio::join!(turn.collect(), answers).0.unwrap();
        collected.end.status == Status::Completed
    }

    #[tokio::test(start_paused = true)]
    async fn silence_counts_from_the_answer_of_the_human() {
        for thinks in [1, 9, 10, 11, 19, 20, 21, 29, 95] {
            let thinks = Duration::from_secs(thinks);
            assert!(
                completes(thinks, IDLE - Duration::from_secs(1)).await,
                "{thinks:?}"
            );
            assert!(
                !completes(thinks, IDLE + Duration::from_secs(1)).await,
                "{thinks:?}"
            );
        }
    }
}
