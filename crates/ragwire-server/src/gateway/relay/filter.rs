//! Takes the questions to humans out of the frames, and finds the end of a run.

use ragwire::event::Event;
use ragwire::wire::{Decode, DecodeError, Finish};
use ragwire::{End, Frame, Metadata, Status};

use super::super::interrupts::{Decoder, Interrupt};
use super::super::transcript::Transcript;
use super::{Asked, SharedState, lock};

/// Questions of one turn whose outcomes are recognized. More than any answer has; beyond it, the
/// orchestrator's own report of an outcome is shown too.
const MAX_ASKED: usize = 1_000;

/// What separates two messages in the text of one answer.
const BETWEEN_MESSAGES: &str = "\n\n";

/// A decoder that takes the events about questions to humans out of the frames.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) decoder: Decoder,
    pub(super) shared: SharedState,
    /// The end of a run that ends at interrupts. It is the end of the turn only if no run continues.
    pub(super) end: Option<End>,
    /// A question was taken, and is asked before the next frame.
    pub(super) has_taken: bool,
    /// Everything was read, and all interrupts are answered.
    pub(super) is_read: bool,
    /// The number of answers before this one.
    pub(super) runs: usize,
    pub(super) has_text: bool,
    /// The next text is another message than the text before it.
    pub(super) separates: bool,
    pub(super) transcript: Transcript,
    pub(super) text: Option<String>,
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
