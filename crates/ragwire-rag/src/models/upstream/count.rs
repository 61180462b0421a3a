//! The number of tokens of a prompt: counted by the server, or estimated.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::client::Client;
use super::error::UpstreamError;
use super::options::Dialect;
use super::request::messages;
use super::retry::Retry;
use crate::models::Prompt;

/// Tokens that a chat template adds to each message and to the whole: known templates add four or
/// five.
const TEMPLATE_TOKENS: u64 = 8;
/// How long a count may take: the server needs milliseconds, and there is an estimate.
const COUNT: Duration = Duration::from_secs(5);
/// A count is not retried, because there is an estimate.
const ONCE: Retry = Retry {
    attempts: 1,
    pause: Duration::ZERO,
    max_pause: Duration::ZERO,
};

/// Counts exactly if the server can, otherwise estimates.
pub(super) async fn tokens(client: &Client, prompt: &Prompt) -> u32 {
    let counted = tokio::time::timeout(COUNT, async {
        match client.options.dialect {
            Dialect::LlamaCpp => llama(client, prompt).await.map(Some),
            Dialect::Vllm => vllm(client, prompt).await.map(Some),
            Dialect::Plain | Dialect::OpenAi | Dialect::OpenAiReasoning => Ok(None),
        }
    })
    .await;
    match counted {
        Ok(Ok(Some(tokens))) => return tokens,
        Ok(Ok(None)) => {}
        Ok(Err(error)) => tracing::debug!(%error, "the model server did not count the tokens"),
        Err(_) => tracing::debug!("the model server did not count the tokens in time"),
    }
    estimate(prompt, client.options.bytes_per_token)
}

/// Overestimates, as long as no token has fewer than `bytes_per_token` bytes.
pub(super) fn estimate(prompt: &Prompt, bytes_per_token: u32) -> u32 {
    let message = |text: &String| (text.len() as u64).div_ceil(bytes_per_token.into()) + TEMPLATE_TOKENS;
    let tokens: u64 = prompt.messages.iter().map(|one| message(&one.content)).sum();
    u32::try_from(tokens + TEMPLATE_TOKENS).unwrap_or(u32::MAX)
}

async fn llama(client: &Client, prompt: &Prompt) -> Result<u32, UpstreamError> {
    #[derive(Deserialize)]
    struct Template {
        prompt: String,
    }
    #[derive(Deserialize)]
    struct TokenList {
        tokens: Vec<IgnoredAny>,
    }
    let applied: Template = ask(client, "/apply-template", &json!({"messages": messages(prompt)})).await?;
    let text = json!({"content": applied.prompt, "add_special": true, "parse_special": true});
    let tokenized: TokenList = ask(client, "/tokenize", &text).await?;
    Ok(u32::try_from(tokenized.tokens.len()).unwrap_or(u32::MAX))
}

async fn vllm(client: &Client, prompt: &Prompt) -> Result<u32, UpstreamError> {
    #[derive(Deserialize)]
    struct TokenCount {
        count: u32,
    }
    let request = json!({"model": client.options.model, "messages": messages(prompt)});
    let counted: TokenCount = ask(client, "/tokenize", &request).await?;
    Ok(counted.count)
}

async fn ask<T: for<'de> Deserialize<'de>>(
    client: &Client,
    path: &str,
    request: &serde_json::Value,
) -> Result<T, UpstreamError> {
    let uri = client.options.base.beside(path)?;
    let body = Bytes::from(request.to_string());
    let answer = client.exchange(&uri, &body, ONCE).await?;
    serde_json::from_slice(&answer).map_err(|_| UpstreamError::Unreadable("it is not a token count"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{ChatMessage, Role};

    #[test]
    fn an_estimate_counts_every_message() {
        for (texts, bytes_per_token, tokens) in [
            (&[""][..], 2, 16),
            (&["a"], 2, 17),
            (&["ab", "abc"], 2, 27),
            (&["\u{e9}\u{e9}"], 1, 20),
        ] {
            let messages = texts.iter().map(|text| ChatMessage::new(Role::User, *text));
            assert_eq!(
                estimate(&Prompt::new(messages.collect()), bytes_per_token),
                tokens,
                "{texts:?}"
            );
        }
    }
}
