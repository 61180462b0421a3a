//! Answers and vectors from any server that speaks OpenAI's protocol: vLLM, llama.cpp's server, Ollama, TGI, OpenAI itself.
//!
//! ```no_run
//! # use ragwire_rag::models::{LanguageModel, ModelError, Prompt};
//! use ragwire_rag::models::upstream::{ApiKey, Dialect, Upstream, UpstreamOptions};
//! # async fn ask(key: String) -> Result<(), Box<dyn std::error::Error>> {
//! let options = UpstreamOptions::new("http://127.0.0.1:8000/v1", "qwen3-8b")?
//!     .dialect(Dialect::Vllm)
//!     .key(ApiKey::new(key)?)
//!     .context_tokens(32_768);
//! let model = Upstream::new(options)?;
//! let mut generation = model.generate(Prompt::user("Why is the sky blue?"));
//! while let Some(piece) = generation.next().await {
//!     print!("{}", piece?);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `options` | where the server is, which fields it knows, bounds and times |
//! | `key` | a key that shows nowhere |
//! | `request` | a prompt as a body |
//! | `client` | one request and one response, within bounds |
//! | `answer` | the text out of the bytes of a response |
//! | `retry` | when it is asked again |
//! | `count` | how many tokens a prompt has |
//! | `embedder` | vectors |
//! | `error` | what goes wrong, and what a pipeline is told of it |
//!
//! It knows no pipeline and no store. What a server says of an error goes to logs, never to a reader.

mod answer;
mod client;
mod count;
mod embedder;
mod error;
mod key;
mod options;
mod request;
mod retry;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::header::CONTENT_TYPE;
use http::{Response, Uri};
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use self::answer::{Answer, Step};
use self::client::{Client, Deadline};
use self::error::Asked;
use self::retry::Trouble;
use crate::models::{Boxed, Finished, Generation, LanguageModel, ModelError, Piece, Prompt};

pub use self::embedder::{EmbeddingOptions, UpstreamEmbedder};
pub use self::error::{UpstreamError, Wait};
pub use self::key::ApiKey;
pub use self::options::{Dialect, UpstreamLimits, UpstreamOptions, UpstreamTimeouts};
pub use self::retry::Retry;

/// How long the numbers and `[DONE]` may come after the reason of the end: the text is whole, and there is nothing left to compute.
const AFTER_END: Duration = Duration::from_secs(5);
/// How long the last bytes of a response may take after `[DONE]`; without them its connection cannot serve the next request.
const LAST_BYTES: Duration = Duration::from_secs(1);

/// A language model behind a server. Clones and tasks share its connections.
///
/// - **Retries** happen before the first text only, as [`Retry`] says. An answer that breaks off after it is [`ModelError::Failed`]; an answer is
///   whole only if the server said so (a `finish_reason`, or `[DONE]`).
/// - **Thoughts** of reasoning models (`reasoning_content`, `reasoning`) are no part of the answer. Where a server leaves them in the text
///   (`<think>`), they are text.
/// - **Dropping** a [`Generation`] closes its connection, which is how these servers learn that nobody reads.
/// - **Errors**: [`ModelError::Busy`] after 429, [`Overflow`](ModelError::Overflow) where the server says so, [`Unavailable`](ModelError::Unavailable)
///   for a server that is not there, refuses the key, or knows no such model or route, [`Failed`](ModelError::Failed) for the rest. The source is
///   an [`UpstreamError`].
/// - **Times**: what the server measured (llama.cpp's `timings`), else none.
#[derive(Debug, Clone)]
pub struct Upstream {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    chat: Uri,
}

impl Upstream {
    /// A model of a server. It connects to nothing yet.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::Url`], [`UpstreamError::Key`], [`UpstreamError::Setting`].
    pub fn new(options: UpstreamOptions) -> Result<Self, UpstreamError> {
        let chat = options.base.route("/chat/completions")?;
        let client = Client::new(options)?;
        Ok(Self {
            shared: Arc::new(Shared { client, chat }),
        })
    }
}

impl LanguageModel for Upstream {
    fn name(&self) -> &str {
        &self.shared.client.options.model
    }

    fn context_tokens(&self) -> u32 {
        self.shared.client.options.context_tokens
    }

    /// Exact for [`Dialect::LlamaCpp`] and [`Dialect::Vllm`], as long as the server counts within 5 seconds. Else an estimate: a token for every
    /// [`UpstreamOptions::bytes_per_token`] bytes of each message, and 8 for each message and for the whole, which is what templates put around
    /// them. It is too high for prose. Where a text has more tokens than that, the server says so, and the generation fails with
    /// [`ModelError::Overflow`].
    fn count_tokens<'a>(&'a self, prompt: &'a Prompt) -> Boxed<'a, Result<u32, ModelError>> {
        Box::pin(async { Ok(count::tokens(&self.shared.client, prompt).await) })
    }

    /// Begins to write, in a task of its own on the runtime that it is called on; without one it fails at once.
    fn generate(&self, prompt: Prompt) -> Generation {
        let body = match request::body(&self.shared.client.options, &prompt) {
            Ok(body) => body,
            Err(error) => return Generation::failed(error),
        };
        let Ok(runtime) = Handle::try_current() else {
            return Generation::failed(ModelError::Unavailable(Some("there is no tokio runtime".into())));
        };
        let asked = Asked {
            prompt_tokens: count::estimate(&prompt, self.shared.client.options.bytes_per_token),
            max_tokens: prompt.max_tokens,
            context_tokens: self.context_tokens(),
        };
        let (sender, generation) = Generation::channel();
        let shared = Arc::clone(&self.shared);
        // It ends with its generation: by itself, or when that is dropped.
        runtime.spawn(async move {
            let mut writing = Writing {
                client: &shared.client,
                sender: &sender,
                begun: false,
            };
            let written = match select(pin!(sender.closed()), pin!(writing.write(&shared.chat, &body))).await
            {
                // Nobody reads any more. What was under way is dropped, and its connection with it.
                Either::Left(_) => return,
                Either::Right((written, _)) => written,
            };
            match written {
                Ok((finished, rest)) => {
                    let _ = sender.send(Piece::Finished(finished)).await;
                    drop(sender);
                    give_back(&shared.client, rest).await;
                }
                Err(error) => {
                    tracing::warn!(code = error.code(), error = %chain(&error), "the model server failed");
                    let failed = error.told(writing.begun, &asked);
                    let _ = sender.send(Piece::Failed(failed)).await;
                }
            }
        });
        generation
    }
}

/// One generation.
struct Writing<'a> {
    client: &'a Client,
    sender: &'a mpsc::Sender<Piece>,
    /// Whether there was text: from then on nothing is tried again.
    begun: bool,
}

impl Writing<'_> {
    /// All attempts. The body that comes with the end has nothing more to say.
    async fn write(&mut self, uri: &Uri, body: &Bytes) -> Result<(Finished, Incoming), UpstreamError> {
        let options = &self.client.options;
        let total = Deadline::new(options.timeouts.total, Wait::Total);
        let mut attempt = 0;
        loop {
            let trouble = match self.attempt(uri.clone(), body.clone(), total).await {
                Ok(written) => return Ok(written),
                Err(trouble) => trouble,
            };
            let pause = options.retry.pause(attempt, &trouble).filter(|_| !self.begun);
            let Some(pause) = pause else {
                return Err(trouble.error);
            };
            tracing::debug!(error = %chain(&trouble.error), ?pause, "the model server is asked again");
            total.wait(tokio::time::sleep(pause)).await?;
            attempt += 1;
        }
    }

    async fn attempt(
        &mut self,
        uri: Uri,
        body: Bytes,
        total: Deadline,
    ) -> Result<(Finished, Incoming), Trouble> {
        let options = &self.client.options;
        let first = Deadline::new(options.timeouts.first, Wait::First).min(total);
        let accept = "text/event-stream, application/json";
        let response = self.client.post(uri, accept, body, first).await?;
        let is_stream = is_stream(&response)?;
        let mut body = response.into_body();
        let mut answer = Answer::new(options.limits.event, options.limits.text, options.key.clone());
        if is_stream {
            self.stream(&mut body, &mut answer, first, total).await?;
        } else {
            let whole = self.client.whole(&mut body, total).await?;
            self.send(answer.take_whole(&whole)?, total).await?;
        }
        let finished = answer.finish().ok_or(UpstreamError::Broken(None))?;
        Ok((finished, body))
    }

    /// Reads events up to the end of the answer.
    async fn stream(
        &mut self,
        body: &mut Incoming,
        answer: &mut Answer,
        first: Deadline,
        total: Deadline,
    ) -> Result<(), UpstreamError> {
        let mut deadline = first;
        let mut ended = false;
        loop {
            while let Some(step) = answer.next() {
                self.send(step?, total).await?;
                if !ended {
                    deadline = self.client.idle().min(total);
                }
                if answer.has_ended() && !ended {
                    ended = true;
                    deadline = Deadline::new(AFTER_END, Wait::Idle).min(total);
                }
            }
            if answer.is_done() {
                return Ok(());
            }
            match self.client.data(body, deadline).await {
                Ok(Some(bytes)) => answer.feed(&bytes),
                // Only numbers are missing.
                Ok(None) | Err(_) if ended => return Ok(()),
                Ok(None) => return Err(UpstreamError::Broken(None)),
                Err(error) => return Err(error),
            }
        }
    }

    async fn send(&mut self, step: Step, total: Deadline) -> Result<(), UpstreamError> {
        if let Step::Text(text) = step {
            self.begun = true;
            // Nobody reads any more: the task is about to be told so.
            let _ = total.wait(self.sender.send(Piece::Text(text))).await?;
        }
        Ok(())
    }
}

/// Whether the response is a stream of events or one JSON object; anything else (a page of a proxy) is neither. Without a type it is what was
/// asked for.
fn is_stream(response: &Response<Incoming>) -> Result<bool, UpstreamError> {
    let Some(kind) = response.headers().get(CONTENT_TYPE) else {
        return Ok(true);
    };
    let kind = kind.to_str().unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("text/event-stream") {
        Ok(true)
    } else if essence.eq_ignore_ascii_case("application/json") {
        Ok(false)
    } else {
        Err(UpstreamError::Unreadable("it is neither events nor json"))
    }
}

/// Reads what is left after the end, so that the connection can serve the next request.
async fn give_back(client: &Client, mut body: Incoming) {
    let deadline = Deadline::new(LAST_BYTES, Wait::Idle);
    while let Ok(Some(_)) = client.data(&mut body, deadline).await {}
}

/// An error with what is behind it, for logs.
fn chain(error: &dyn std::error::Error) -> String {
    let mut whole = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        whole.push_str(": ");
        whole.push_str(&error.to_string());
        next = error.source();
    }
    whole
}
