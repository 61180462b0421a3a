//! Answers, vectors and scores from any server with OpenAI's protocol: vLLM, llama.cpp's server, Ollama,
//! TGI, OpenAI itself.
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
//! | file | contents |
//! |---|---|
//! | `options` | address, dialect, limits and timeouts |
//! | `key` | the API key |
//! | `request` | a prompt as a request body |
//! | `http_client` | requests and TLS |
//! | `connection` | connections, and those that are idle |
//! | `client` | one request and one response, within bounds |
//! | `answer` | the text from the bytes of a response |
//! | `retry` | when a request is repeated |
//! | `count` | the tokens of a prompt |
//! | `embedder` | vectors |
//! | `ranker` | scores of a reranker |
//! | `discover` | which model a server has |
//! | `error` | errors of a server, and those that a pipeline sees |
//! | `error_body` | the error messages of servers |
//!
//! This module knows neither a pipeline nor a store. A server's error message goes to logs, never
//! to a reader.

mod answer;
mod client;
mod connection;
mod count;
mod discover;
mod embedder;
mod error;
mod error_body;
mod http_client;
mod key;
mod options;
mod pool;
mod ranker;
mod request;
mod retry;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::header::CONTENT_TYPE;
use http::{Response, Uri};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use self::answer::{Answer, Step};
use self::client::{Client, Deadline};
use self::error::RequestSize;
use self::retry::Trouble;
use crate::models::{Boxed, Generation, GenerationEnd, LanguageModel, ModelError, Piece, Prompt};
use crate::trace::{TraceContext, scope};

pub use self::connection::HttpBody;
pub use self::discover::{DiscoverError, Purpose};
pub use self::embedder::{EmbeddingOptions, UpstreamEmbedder};
pub use self::error::{UpstreamError, Wait};
pub use self::http_client::HttpClient;
pub use self::key::ApiKey;
pub use self::options::{Dialect, UpstreamLimits, UpstreamOptions, UpstreamTimeouts, parse_address};
pub use self::ranker::UpstreamRanker;
pub use self::retry::{Retry, retry_after};

/// How long numbers and `[DONE]` may take after the end of the text: there is nothing left to
/// compute.
const AFTER_END: Duration = Duration::from_secs(5);
/// How long the last bytes of a response may take after `[DONE]`. Without them its connection
/// cannot be reused.
const LAST_BYTES: Duration = Duration::from_secs(1);

/// A language model behind a server. Clones and tasks share its connections.
///
/// - **Retries** happen only before the first text, as [`Retry`] says. An answer that breaks off
///   later is [`ModelError::Failed`]. An answer is complete only if the server says so (with a
///   `finish_reason` or `[DONE]`).
/// - **Reasoning** (`reasoning_content`, `reasoning`) is not part of the answer. If a server leaves
///   it in the text (`<think>`), it is text.
/// - **Dropping** a [`Generation`] closes its connection, which is how these servers learn that the
///   answer is no longer needed.
/// - **Errors**: [`ModelError::Busy`] after 429; [`Overflow`](ModelError::Overflow) if the server
///   says so; [`Unavailable`](ModelError::Unavailable) if the server cannot be reached;
///   [`Rejected`](ModelError::Rejected) if it rejects the key, or does not know the model or route;
///   [`Failed`](ModelError::Failed) for the rest. The source is an [`UpstreamError`].
/// - **Times** are those that the server measured (llama.cpp's `timings`), otherwise absent.
///
/// ```no_run
/// # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
/// use ragwire_rag::models::upstream::{Upstream, UpstreamOptions};
/// use ragwire_rag::models::{LanguageModel, Prompt};
///
/// let model = Upstream::new(UpstreamOptions::new("http://127.0.0.1:11434/v1", "qwen3:8b")?)?;
/// let (text, summary) = model.generate(Prompt::user("Why is the sky blue?")).whole().await?;
/// println!("{text} ({:?} tokens)", summary.answer_tokens);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Upstream {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    chat: Uri,
}

impl Upstream {
    /// A model of a server. Does not connect yet.
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

    /// Counts exactly with [`Dialect::LlamaCpp`] and [`Dialect::Vllm`], if the server answers
    /// within 5 seconds. Otherwise estimates: one token for every
    /// [`UpstreamOptions::bytes_per_token`] bytes of each message, plus 8 for each message and 8
    /// for the whole, which covers the templates. The estimate is too high for prose. If a text has
    /// more tokens, the server says so and the generation fails with [`ModelError::Overflow`].
    fn count_tokens<'a>(&'a self, prompt: &'a Prompt) -> Boxed<'a, Result<u32, ModelError>> {
        Box::pin(async { Ok(count::tokens(&self.shared.client, prompt).await) })
    }

    /// Starts to write in a task on the current tokio runtime. Without a runtime the generation
    /// fails at once.
    fn generate(&self, prompt: Prompt) -> Generation {
        let body = match request::body(&self.shared.client.options, &prompt) {
            Ok(body) => body,
            Err(error) => return Generation::failed(error),
        };
        let Ok(runtime) = Handle::try_current() else {
            return Generation::failed(ModelError::Unavailable(Some("there is no tokio runtime".into())));
        };
        let request = RequestSize {
            prompt_tokens: count::estimate(&prompt, self.shared.client.options.bytes_per_token),
            max_tokens: prompt.max_tokens,
            context_tokens: self.context_tokens(),
        };
        let (sender, generation) = Generation::channel();
        let shared = Arc::clone(&self.shared);
        let trace = TraceContext::current();
        // The task ends with its generation: by itself, or when the generation is dropped.
        runtime.spawn(scope(trace, async move {
            let mut writing = ActiveGeneration {
                client: &shared.client,
                sender: &sender,
                begun: false,
            };
            let written = match select(pin!(sender.closed()), pin!(writing.write(&shared.chat, &body))).await
            {
                // The reader has disconnected. Dropping the work closes its connection.
                Either::Left(_) => return,
                Either::Right((written, _)) => written,
            };
            match written {
                Ok((finished, rest)) => {
                    let _ = sender.send(Piece::End(finished)).await;
                    drop(sender);
                    drain(&shared.client, rest).await;
                }
                Err(error) => {
                    tracing::warn!(code = error.code(), error = %chain(&error), "the model server failed");
                    let failed = error.into_model_error(writing.begun, &request);
                    let _ = sender.send(Piece::Failed(failed)).await;
                }
            }
        }));
        generation
    }
}

/// A generation in progress.
struct ActiveGeneration<'a> {
    client: &'a Client,
    sender: &'a mpsc::Sender<Piece>,
    /// Whether text was sent: from then on nothing is retried.
    begun: bool,
}

impl ActiveGeneration<'_> {
    /// Makes all attempts. Returns the rest of the body, which contains nothing of interest.
    async fn write(&mut self, uri: &Uri, body: &Bytes) -> Result<(GenerationEnd, HttpBody), UpstreamError> {
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
            tracing::debug!(error = %chain(&trouble.error), ?pause, "retrying the model server");
            total.wait(tokio::time::sleep(pause)).await?;
            attempt += 1;
        }
    }

    async fn attempt(
        &mut self,
        uri: Uri,
        body: Bytes,
        total: Deadline,
    ) -> Result<(GenerationEnd, HttpBody), Trouble> {
        let options = &self.client.options;
        let first = Deadline::new(options.timeouts.first, Wait::First).min(total);
        let accept = "text/event-stream, application/json";
        let response = self.client.post(uri, accept, body, first).await?;
        let is_stream = is_stream(&response)?;
        let mut body = response.into_body();
        let mut answer = Answer::new(options.limits.event, options.limits.text, options.key.clone())
            .error_messages(options.error_messages);
        if is_stream {
            self.stream(&mut body, &mut answer, first, total).await?;
        } else {
            let whole = self.client.whole(&mut body, total).await?;
            self.send(answer.take_whole(&whole)?, total).await?;
        }
        let finished = answer.finish().ok_or(UpstreamError::Broken(None))?;
        Ok((finished, body))
    }

    /// Reads events until the end of the answer.
    async fn stream(
        &mut self,
        body: &mut HttpBody,
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
                // Only the numbers are missing.
                Ok(None) | Err(_) if ended => return Ok(()),
                Ok(None) => return Err(UpstreamError::Broken(None)),
                Err(error) => return Err(error),
            }
        }
    }

    async fn send(&mut self, step: Step, total: Deadline) -> Result<(), UpstreamError> {
        if let Step::Text(text) = step {
            self.begun = true;
            // If the reader has disconnected, the task is about to end.
            let _ = total.wait(self.sender.send(Piece::Text(text))).await?;
        }
        Ok(())
    }
}

/// Returns `true` for a stream of events, `false` for a JSON object, and an error for anything
/// else, such as a proxy's page. Without a content type the response is what was requested.
fn is_stream(response: &Response<HttpBody>) -> Result<bool, UpstreamError> {
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

/// Reads the rest of a body, so that the connection can be reused.
async fn drain(client: &Client, mut body: HttpBody) {
    let deadline = Deadline::new(LAST_BYTES, Wait::Idle);
    while let Ok(Some(_)) = client.data(&mut body, deadline).await {}
}

/// An error with its sources, for logs.
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
