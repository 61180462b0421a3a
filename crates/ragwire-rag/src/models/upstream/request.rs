//! A prompt as the body of a request, with the fields of a dialect. A prompt that the dialect
//! cannot express is refused before anything is sent.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::options::{Dialect, UpstreamOptions};
use crate::models::{ModelError, Prompt, Sampling, Shape};

/// Number of stop texts that OpenAI accepts at most.
const OPENAI_STOPS: usize = 4;
/// The required name of a schema; it has no effect.
const SCHEMA_NAME: &str = "answer";
/// Number of tokens that the repeat penalty considers, as in [`Sampling`].
const PENALTY_TOKENS: u32 = 64;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_p: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat_penalty: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat_last_n: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repetition_penalty: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u32>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
}

/// A message as the protocol spells it, also in requests for token counts.
#[derive(Serialize)]
pub(super) struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    r#type: &'static str,
    json_schema: JsonSchema<'a>,
}

#[derive(Serialize)]
struct JsonSchema<'a> {
    name: &'static str,
    strict: bool,
    schema: &'a Value,
}

pub(super) fn messages(prompt: &Prompt) -> Vec<Message<'_>> {
    prompt
        .messages
        .iter()
        .map(|message| Message {
            role: message.role.as_str(),
            content: &message.content,
        })
        .collect()
}

/// Builds the body of `POST …/chat/completions`.
pub(super) fn body(options: &UpstreamOptions, prompt: &Prompt) -> Result<Bytes, ModelError> {
    check(options, prompt)?;
    let (dialect, sampling) = (options.dialect, &prompt.sampling);
    let openai = matches!(dialect, Dialect::OpenAi | Dialect::OpenAiReasoning);
    let vllm = dialect == Dialect::Vllm;
    let llama = dialect == Dialect::LlamaCpp;
    let has_sampling = dialect != Dialect::OpenAiReasoning;
    let body = Body {
        model: &options.model,
        messages: messages(prompt),
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        max_tokens: (!openai).then_some(prompt.max_tokens),
        max_completion_tokens: openai.then_some(prompt.max_tokens),
        temperature: has_sampling.then_some(sampling.temperature),
        top_p: has_sampling.then_some(sampling.top_p),
        // Sent even if disabled, because the servers have their own defaults.
        top_k: (llama || vllm).then_some(sampling.top_k),
        min_p: (llama || vllm).then_some(sampling.min_p),
        repeat_penalty: llama.then_some(sampling.repeat_penalty),
        repeat_last_n: llama.then_some(PENALTY_TOKENS),
        repetition_penalty: vllm.then_some(sampling.repeat_penalty),
        seed: sampling.seed,
        stop: &prompt.stop,
        response_format: match &prompt.shape {
            Shape::Json(schema) => Some(ResponseFormat {
                r#type: "json_schema",
                json_schema: JsonSchema {
                    name: SCHEMA_NAME,
                    strict: true,
                    schema,
                },
            }),
            Shape::Text => None,
        },
    };
    // The body consists of strings, checked numbers, and the caller's own JSON.
    let body = serde_json::to_vec(&body)
        .map_err(|_| ModelError::BadPrompt("it cannot be written as json".into()))?;
    if body.len() > options.limits.request {
        let limit = options.limits.request;
        return Err(ModelError::BadPrompt(format!("it has more than {limit} bytes")));
    }
    Ok(body.into())
}

fn check(options: &UpstreamOptions, prompt: &Prompt) -> Result<(), ModelError> {
    let bad = |words: &str| Err(ModelError::BadPrompt(words.into()));
    let is_blank = |text: &String| text.trim().is_empty();
    if prompt.messages.iter().all(|message| is_blank(&message.content)) {
        return bad("it is empty");
    }
    if prompt.max_tokens == 0 {
        return bad("it asks for no tokens");
    }
    if prompt.stop.iter().any(String::is_empty) {
        return bad("a stop text is empty");
    }
    let Sampling {
        temperature,
        top_p,
        min_p,
        repeat_penalty,
        ..
    } = prompt.sampling;
    if !(0.0..=f32::MAX).contains(&temperature) {
        return bad("the temperature is not 0 or more");
    }
    if !(top_p > 0.0 && top_p <= 1.0) {
        return bad("top_p is not above 0 and at most 1");
    }
    if !(0.0..=1.0).contains(&min_p) {
        return bad("min_p is not from 0 to 1");
    }
    if !(repeat_penalty > 0.0 && repeat_penalty.is_finite()) {
        return bad("the repeat penalty is not above 0");
    }
    match &prompt.shape {
        Shape::Json(schema) if !schema.is_object() => {
            return Err(ModelError::BadShape("a json schema must be an object".into()));
        }
        Shape::Json(_) | Shape::Text => {}
    }
    supported(options.dialect, prompt)
}

fn supported(dialect: Dialect, prompt: &Prompt) -> Result<(), ModelError> {
    let sampling = &prompt.sampling;
    let openai = matches!(dialect, Dialect::OpenAi | Dialect::OpenAiReasoning);
    if openai || dialect == Dialect::Plain {
        let more = sampling.top_k != 0 || sampling.min_p != 0.0 || sampling.repeat_penalty != 1.0;
        if more && dialect != Dialect::OpenAiReasoning {
            return Err(ModelError::Unsupported(
                "top_k, min_p or a repeat penalty, with this dialect of the server",
            ));
        }
    }
    if openai && prompt.stop.len() > OPENAI_STOPS {
        return Err(ModelError::Unsupported("more than 4 stop texts"));
    }
    Ok(())
}
