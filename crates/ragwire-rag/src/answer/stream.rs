//! Streams a model's answer into a sink and checks its citations on the way.

use ragwire::Sink;

use crate::answer::cite::CitationFilter;
use crate::answer::generate::GenerateError;
use crate::answer::rambling::{Rambling, RamblingWatch};
use crate::answer::thoughts::Thoughts;
use crate::models::{FinishReason, GenerationEnd, LanguageModel, ModelError, Prompt};

/// Length in bytes at which an answer is stopped. Its tokens allow far less; this bounds servers
/// that do not count tokens.
pub(crate) const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// A prompt and the number of sources that its answer may cite; `None` if the answer is JSON.
pub(crate) type CitingPrompt = (Prompt, Option<usize>);

/// The outcome of [`stream_answer`].
#[derive(Debug)]
pub(crate) enum Streamed {
    /// The answer was sent.
    Answer(StreamedAnswer),
    /// Even the shortest prompt overflowed the model's context. Nothing was sent.
    Overflow(ModelError),
    /// The model failed after some text.
    Broken(StreamedAnswer, ModelError),
}

/// A model's answer that was sent.
#[derive(Debug)]
pub(crate) struct StreamedAnswer {
    /// The text that was sent, and its citations.
    pub(crate) filter: CitationFilter,
    /// What the generation measured, if the model finished it.
    pub(crate) finished: Option<GenerationEnd>,
    /// Whether the answer was stopped at a limit of tokens or bytes, or because it repeats itself.
    pub(crate) is_cut_short: bool,
}

/// Streams the answer to a prompt into `sink`.
///
/// If the model reports an overflow before it writes anything, its tokens were counted too low:
/// `shorter` then returns the next shorter prompt, or `None` if nothing more can be left out.
///
/// # Cancel safety
///
/// Dropping the future stops the model after the last piece that was sent.
///
/// # Errors
///
/// The model failed, or the turn has ended.
pub(crate) async fn stream_answer(
    model: &dyn LanguageModel,
    prompt: CitingPrompt,
    mut shorter: impl FnMut() -> Option<CitingPrompt>,
    sink: &Sink,
) -> Result<Streamed, GenerateError> {
    let (prompt, mut sources) = prompt;
    let mut generation = model.generate(prompt);
    let mut next = generation.next().await;
    while let Some(Err(overflow @ ModelError::Overflow { .. })) = next {
        let Some((prompt, fewer)) = shorter() else {
            return Ok(Streamed::Overflow(overflow));
        };
        sources = fewer;
        generation = model.generate(prompt);
        next = generation.next().await;
    }
    let mut filter = CitationFilter::new(sources);
    let mut is_cut_short = false;
    let mut thoughts = Thoughts::default();
    // JSON has its own end.
    let mut watch = sources.is_some().then(RamblingWatch::default);
    let mut broken = None;
    while let Some(piece) = next {
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) if filter.text().trim().is_empty() => return Err(GenerateError::Model(error)),
            Err(error) => {
                broken = Some(error);
                break;
            }
        };
        let mut text = thoughts.push(&piece);
        if let Some(watch) = &mut watch {
            text = watch.push(&text);
        }
        send(filter.push(&text), sink).await?;
        if let Some(rambling) = watch.as_ref().and_then(RamblingWatch::rambling) {
            tracing::info!(?rambling, "the model's answer was stopped");
            is_cut_short = rambling == Rambling::Repetition;
            break;
        }
        if filter.text().len() >= MAX_ANSWER_BYTES {
            is_cut_short = true;
            break;
        }
        next = generation.next().await;
    }
    match thoughts.finish() {
        Some(rest) => {
            let rest = match &mut watch {
                Some(watch) => watch.push(&rest) + &watch.finish(),
                None => rest,
            };
            send(filter.push(&rest), sink).await?;
        }
        None if broken.is_none() => {
            let error = "the model has only thought".into();
            return Err(GenerateError::Model(ModelError::Failed(error)));
        }
        None => {}
    }
    send(filter.finish(), sink).await?;
    let finished = generation.finished();
    is_cut_short |= finished.is_some_and(|finished| finished.reason == FinishReason::Length);
    let answer = StreamedAnswer {
        filter,
        finished,
        is_cut_short,
    };
    Ok(match broken {
        Some(error) => Streamed::Broken(answer, error),
        None => Streamed::Answer(answer),
    })
}

async fn send(text: String, sink: &Sink) -> Result<(), GenerateError> {
    if !text.is_empty() {
        sink.send(text.as_str()).await?;
    }
    Ok(())
}
