//! Vectors from `…/embeddings`, or from TEI's `/embed`: texts in batches, one vector of length 1 for each, in order.

use bytes::Bytes;
use http::Uri;
use serde::{Deserialize, Serialize};

use super::client::{Client, Deadline};
use super::error::{RequestSize, UpstreamError, Wait};
use super::options::UpstreamOptions;
use crate::models::trained_prefixes::TrainedPrefixes;
use crate::models::{Boxed, Embed, ModelError, Side, normalize};

/// The text that is embedded to find out the length of a vector.
const PROBE: &str = "dimensions";
/// Number of dimensions of the longest vector that is accepted: four times that of the largest
/// models.
const MAX_DIMENSIONS: usize = 32_768;

/// What an embedding model expects of its texts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmbeddingOptions {
    /// Prefix of queries; E5 expects `query: `. Default: empty.
    pub query_prefix: String,
    /// Prefix of passages; E5 expects `passage: `. Default: empty.
    pub passage_prefix: String,
    /// Length in bytes to which a text, including its prefix, is truncated. Default: 8,000, within
    /// the 8,191 tokens that OpenAI's models take whatever the text: a text never has more tokens
    /// than bytes. Set it to the model's context (512 for many small models) and no text is
    /// refused; with twice that, hardly any is.
    pub max_text_bytes: usize,
    /// Number of texts in one request. Default: 32, the default limit of TGI's embedding server;
    /// larger batches gain little.
    pub batch: usize,
}

impl EmbeddingOptions {
    /// The options for a model, with the prefixes that it was trained with if its name is known:
    /// E5, nomic-embed, mxbai-embed, bge-large-en.
    pub fn for_model(name: &str) -> Self {
        let TrainedPrefixes { query, passage } = TrainedPrefixes::of(name);
        Self {
            query_prefix: query.to_owned(),
            passage_prefix: passage.to_owned(),
            ..Self::default()
        }
    }
}

impl Default for EmbeddingOptions {
    fn default() -> Self {
        Self {
            query_prefix: String::new(),
            passage_prefix: String::new(),
            max_text_bytes: 8_000,
            batch: 32,
        }
    }
}

/// An embedding model behind a server.
#[derive(Debug)]
pub struct UpstreamEmbedder {
    client: Client,
    uri: Uri,
    options: EmbeddingOptions,
    dimensions: usize,
}

impl UpstreamEmbedder {
    /// Connects to the model, and embeds one short text to find out the length of its vectors.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`] for invalid options and failures of the server. [`UpstreamError::Setting`]
    /// if a batch has no texts or a text no bytes.
    pub async fn connect(
        options: UpstreamOptions,
        embedding: EmbeddingOptions,
    ) -> Result<Self, UpstreamError> {
        let prefix = embedding.query_prefix.len().max(embedding.passage_prefix.len());
        // One character has up to 4 bytes.
        if embedding.batch == 0 || embedding.max_text_bytes < prefix + 4 {
            return Err(UpstreamError::Setting("a batch has no room for a text"));
        }
        let uri = if options.is_tei {
            options.base.beside("/embed")?
        } else {
            options.base.route("/embeddings")?
        };
        let mut embedder = Self {
            uri,
            client: Client::new(options)?,
            options: embedding,
            dimensions: 0,
        };
        let vectors = embedder.request(&[PROBE.into()]).await?;
        embedder.dimensions = vectors.first().map_or(0, Vec::len);
        Ok(embedder)
    }

    /// Prefixes and truncates a text.
    fn cut(&self, side: Side, text: &str) -> String {
        let prefix = match side {
            Side::Query => &self.options.query_prefix,
            Side::Passage => &self.options.passage_prefix,
        };
        let room = self.options.max_text_bytes - prefix.len();
        format!("{prefix}{}", &text[..text.floor_char_boundary(room)])
    }

    async fn request(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, UpstreamError> {
        let options = &self.client.options;
        let body = if options.is_tei {
            serde_json::to_vec(&TeiRequest {
                inputs: texts,
                truncate: true,
            })
        } else {
            serde_json::to_vec(&Request {
                model: &options.model,
                input: texts,
                encoding_format: "float",
            })
        };
        let body = body.map_err(|_| UpstreamError::Setting("a text cannot be written as json"))?;
        if body.len() > options.limits.request {
            return Err(UpstreamError::TooLarge {
                what: "the body of the request",
                limit: options.limits.request,
            });
        }
        let answer = self
            .client
            .exchange(&self.uri, &Bytes::from(body), options.retry)
            .await?;
        let answer = if options.is_tei {
            serde_json::from_slice(&answer).map(Answer::in_order)
        } else {
            serde_json::from_slice(&answer)
        };
        let answer = answer.map_err(|_| UpstreamError::Unreadable("it is not a list of vectors"))?;
        self.vectors(answer, texts.len())
    }

    /// Sorts the vectors by their index, and checks that all are present, usable and of the same
    /// length.
    fn vectors(&self, answer: Answer, texts: usize) -> Result<Vec<Vec<f32>>, UpstreamError> {
        let mut vectors = vec![Vec::new(); texts];
        for Entry { index, mut embedding } in answer.data {
            let vector = vectors
                .get_mut(index)
                .filter(|vector| vector.is_empty())
                .ok_or(UpstreamError::Unreadable("a vector belongs to no text"))?;
            if embedding.is_empty() || embedding.len() > MAX_DIMENSIONS {
                return Err(UpstreamError::Unreadable("a vector has no usable length"));
            }
            if !embedding.iter().all(|value| value.is_finite()) {
                return Err(UpstreamError::Unreadable(
                    "a vector has a value that is not a number",
                ));
            }
            normalize(&mut embedding);
            *vector = embedding;
        }
        let length = match self.dimensions {
            0 => vectors.first().map_or(0, Vec::len),
            length => length,
        };
        if vectors.iter().any(Vec::is_empty) {
            return Err(UpstreamError::Unreadable("a text has no vector"));
        }
        if vectors.iter().any(|vector| vector.len() != length) {
            return Err(UpstreamError::Unreadable("vectors have different lengths"));
        }
        Ok(vectors)
    }
}

impl Embed for UpstreamEmbedder {
    fn name(&self) -> &str {
        &self.client.options.model
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Without the address: a model may move to another server. The server decides how it pools, so a
    /// server with another pooling needs another name for the model.
    fn identity(&self) -> String {
        let EmbeddingOptions {
            passage_prefix,
            max_text_bytes,
            ..
        } = &self.options;
        format!(
            "{}\nprefix {passage_prefix:?}\nbytes {max_text_bytes}",
            self.name()
        )
    }

    /// Sends batches one after the other, since the server computes one at a time anyway. A zero
    /// vector is unchanged.
    fn embed(&self, side: Side, texts: Vec<String>) -> Boxed<'_, Result<Vec<Vec<f32>>, ModelError>> {
        Box::pin(async move {
            let mut vectors = Vec::with_capacity(texts.len());
            let times = &self.client.options.timeouts;
            let deadline = match side {
                Side::Query => times.search,
                Side::Passage => times.total,
            };
            for batch in texts.chunks(self.options.batch) {
                let batch: Vec<String> = batch.iter().map(|text| self.cut(side, text)).collect();
                let deadline = Deadline::new(deadline, Wait::Total);
                match deadline.wait(self.request(&batch)).await.flatten() {
                    Ok(more) => vectors.extend(more),
                    Err(error) => {
                        tracing::warn!(code = error.code(), error = %super::chain(&error), "the embedding server failed");
                        return Err(error.into_model_error(false, &self.request_size(&batch)));
                    }
                }
            }
            Ok(vectors)
        })
    }

    /// Not supported: this protocol has one vector for each text.
    fn embed_tokens(&self, _: Side, _: Vec<String>) -> Boxed<'_, Result<Vec<Vec<Vec<f32>>>, ModelError>> {
        Box::pin(async { Err(ModelError::Unsupported("vectors of tokens, over this protocol")) })
    }
}

impl UpstreamEmbedder {
    fn request_size(&self, batch: &[String]) -> RequestSize {
        let options = &self.client.options;
        let longest = batch.iter().map(String::len).max().unwrap_or_default();
        RequestSize {
            prompt_tokens: u32::try_from(longest).unwrap_or(u32::MAX),
            max_tokens: 0,
            context_tokens: options.context_tokens,
        }
    }
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
}

/// A request to TEI's own route, which truncates a text that is too long; its other route refuses
/// the whole batch.
#[derive(Serialize)]
struct TeiRequest<'a> {
    inputs: &'a [String],
    truncate: bool,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Entry>,
}

impl Answer {
    fn in_order(vectors: Vec<Vec<f32>>) -> Self {
        let entries = vectors.into_iter().enumerate();
        Self {
            data: entries
                .map(|(index, embedding)| Entry { index, embedding })
                .collect(),
        }
    }
}

#[derive(Deserialize)]
struct Entry {
    index: usize,
    embedding: Vec<f32>,
}
