//! Vectors from `…/embeddings`: texts in batches, vectors in the order of the texts, each of length 1.

use bytes::Bytes;
use http::Uri;
use serde::{Deserialize, Serialize};

use super::client::Client;
use super::error::{Asked, UpstreamError};
use super::options::UpstreamOptions;
use crate::models::{Boxed, Embed, ModelError, Side, normalize};

/// What is embedded to find out how long a vector is.
const PROBE: &str = "dimensions";
/// Longest vector that is taken: four times that of the largest models.
const MAX_DIMENSIONS: usize = 32_768;

/// What an embedding model wants of its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmbeddingOptions {
    /// Stands before what is searched for; E5 wants `query: `.
    pub query_prefix: String,
    /// Stands before what is found; E5 wants `passage: `.
    pub passage_prefix: String,
    /// Bytes of a text that are sent, its prefix included; the rest is cut. A model never has more tokens for a text than that has bytes, so
    /// with its context here (512 for many small ones) no text is refused, and with twice that hardly any.
    pub max_text_bytes: usize,
    /// Texts of one request.
    pub batch: usize,
}

impl EmbeddingOptions {
    /// 8,000: within the 8,191 tokens that OpenAI's models take, whatever the text.
    pub const MAX_TEXT_BYTES: usize = 8_000;
    /// 32: what TGI's embedding server takes unless told otherwise; larger ones gain little.
    pub const BATCH: usize = 32;
}

impl Default for EmbeddingOptions {
    fn default() -> Self {
        Self {
            query_prefix: String::new(),
            passage_prefix: String::new(),
            max_text_bytes: Self::MAX_TEXT_BYTES,
            batch: Self::BATCH,
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
    /// Embeds one short text, to find out how long vectors are.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`]: the options, or whatever the server fails with. [`UpstreamError::Setting`] where a batch has no texts or a text no bytes.
    pub async fn connect(
        options: UpstreamOptions,
        embedding: EmbeddingOptions,
    ) -> Result<Self, UpstreamError> {
        let prefix = embedding.query_prefix.len().max(embedding.passage_prefix.len());
        // One character has up to 4 bytes.
        if embedding.batch == 0 || embedding.max_text_bytes < prefix + 4 {
            return Err(UpstreamError::Setting("a batch has no room for a text"));
        }
        let mut embedder = Self {
            uri: options.base.route("/embeddings")?,
            client: Client::new(options)?,
            options: embedding,
            dimensions: 0,
        };
        let vectors = embedder.request(&[PROBE.into()]).await?;
        embedder.dimensions = vectors.first().map_or(0, Vec::len);
        Ok(embedder)
    }

    /// The text as it is sent.
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
        let request = Request {
            model: &options.model,
            input: texts,
            encoding_format: "float",
        };
        let body = serde_json::to_vec(&request).map_err(|_| UpstreamError::Setting("a text is no json"))?;
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
        let answer: Answer = serde_json::from_slice(&answer)
            .map_err(|_| UpstreamError::Unreadable("it is no list of vectors"))?;
        self.vectors(answer, texts.len())
    }

    /// The vectors by their index, every one there, usable, and as long as all others.
    fn vectors(&self, answer: Answer, texts: usize) -> Result<Vec<Vec<f32>>, UpstreamError> {
        let mut vectors = vec![Vec::new(); texts];
        for Entry { index, mut embedding } in answer.data {
            let place = vectors
                .get_mut(index)
                .filter(|place| place.is_empty())
                .ok_or(UpstreamError::Unreadable("a vector belongs to no text"))?;
            if embedding.is_empty() || embedding.len() > MAX_DIMENSIONS {
                return Err(UpstreamError::Unreadable("a vector has no usable length"));
            }
            if !embedding.iter().all(|value| value.is_finite()) {
                return Err(UpstreamError::Unreadable("a vector has a number that is none"));
            }
            normalize(&mut embedding);
            *place = embedding;
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

    /// In batches, one after the other: the server computes on one at a time in any case. A vector of zeros stays one.
    fn embed(&self, side: Side, texts: Vec<String>) -> Boxed<'_, Result<Vec<Vec<f32>>, ModelError>> {
        Box::pin(async move {
            let mut vectors = Vec::with_capacity(texts.len());
            for batch in texts.chunks(self.options.batch) {
                let batch: Vec<String> = batch.iter().map(|text| self.cut(side, text)).collect();
                match self.request(&batch).await {
                    Ok(more) => vectors.extend(more),
                    Err(error) => {
                        tracing::warn!(code = error.code(), error = %super::chain(&error), "the embedding server failed");
                        return Err(error.told(false, &self.asked(&batch)));
                    }
                }
            }
            Ok(vectors)
        })
    }

    /// This protocol has one vector for a text.
    fn embed_tokens(&self, _: Side, _: Vec<String>) -> Boxed<'_, Result<Vec<Vec<Vec<f32>>>, ModelError>> {
        Box::pin(async { Err(ModelError::Unsupported("vectors of tokens, over this protocol")) })
    }
}

impl UpstreamEmbedder {
    fn asked(&self, batch: &[String]) -> Asked {
        let options = &self.client.options;
        let longest = batch.iter().map(String::len).max().unwrap_or_default();
        Asked {
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

#[derive(Deserialize)]
struct Answer {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    index: usize,
    embedding: Vec<f32>,
}
