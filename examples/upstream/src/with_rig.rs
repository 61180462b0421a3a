//! An orchestrator on [Rig](rig_core).

use futures_util::StreamExt;
use ragwire::event::Thinking;
use ragwire::turn::BoxError;
use ragwire::{Failure, FailureKind, Metadata, Question, Sink};
use rig_core::completion::CompletionModel;
use rig_core::streaming::StreamedAssistantContent;

/// Answers with the text and the thoughts of any of Rig's models.
///
/// # Errors
///
/// Returns an error of the model, or `upstream_truncated` if the answer has no last part: the model's
/// stream then just ends.
pub async fn answer(
    model: impl CompletionModel + Clone,
    question: Question,
    sink: Sink,
) -> Result<Metadata, BoxError> {
    let mut parts = model.completion_request(question.prompt).stream().await?;
    let mut is_finished = false;
    while let Some(part) = parts.next().await {
        match part? {
            StreamedAssistantContent::Text(text) => sink.send(text.text).await?,
            StreamedAssistantContent::ReasoningDelta { id, reasoning, .. } => {
                sink.send(Thinking::new(reasoning).id(id)).await?;
            }
            StreamedAssistantContent::Final(_) => is_finished = true,
            _ => {}
        }
    }
    let truncated = || Failure::new(FailureKind::UpstreamTruncated, "The answer broke off.");
    is_finished
        .then(Metadata::default)
        .ok_or_else(|| truncated().into())
}
