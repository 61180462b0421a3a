//! An orchestrator on [`async_openai`].

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::types::chat::{ChatCompletionRequestUserMessage, CreateChatCompletionRequestArgs};
use futures_util::StreamExt;
use ragwire::turn::BoxError;
use ragwire::{Failure, FailureKind, Metadata, Question, Sink};

/// Answers with the model's text.
///
/// # Errors
///
/// Returns an error of the client, or `upstream_truncated` if the answer has no `finish_reason`: the
/// client's stream then just ends.
pub async fn answer(
    client: Client<OpenAIConfig>,
    question: Question,
    sink: Sink,
) -> Result<Metadata, BoxError> {
    let message = ChatCompletionRequestUserMessage::from(question.prompt);
    let mut request = CreateChatCompletionRequestArgs::default();
    let request = request.model("gpt-5-mini").messages([message.into()]).build()?;
    let mut chunks = client.chat().create_stream(request).await?;
    let mut is_finished = false;
    while let Some(chunk) = chunks.next().await {
        for choice in chunk?.choices {
            sink.send(choice.delta.content.unwrap_or_default()).await?;
            is_finished |= choice.finish_reason.is_some();
        }
    }
    let truncated = || Failure::new(FailureKind::UpstreamTruncated, "The answer broke off.");
    is_finished
        .then(Metadata::default)
        .ok_or_else(|| truncated().into())
}
