//! Scores from a reranker: `/v1/rerank` of llama.cpp, vLLM, Jina and Cohere, and `/rerank` of TEI.

use bytes::Bytes;
use http::Uri;
use serde::{Deserialize, Serialize};

use super::client::{Client, Deadline};
use super::error::{RequestSize, UpstreamError, Wait};
use super::options::UpstreamOptions;
use crate::models::{Boxed, ModelError, Rank};

/// Number of passages in one request: the default limit of TEI.
const BATCH: usize = 32;
/// Length in bytes to which a passage is truncated, so that it and the query fit the 512 tokens of
/// most rerankers; not all servers truncate.
const MAX_PASSAGE_BYTES: usize = 1_500;
/// Length in bytes to which a query is truncated.
const MAX_QUERY_BYTES: usize = 400;
/// The passages that find out which request the server understands.
const PROBE: [&str; 2] = ["a robin sings", "a queue is bounded"];

/// The request that a server understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// `query` and `documents`: llama.cpp, vLLM, Jina, Cohere.
    Documents,
    /// `query` and `texts`: TEI.
    Texts,
}

/// A reranker behind a server.
#[derive(Debug)]
pub struct UpstreamRanker {
    client: Client,
    uri: Uri,
    shape: Shape,
}

impl UpstreamRanker {
    /// Connects to the model, and ranks two short texts to find out which request the server
    /// understands. The address may end with `/rerank`; otherwise the routes below it are tried.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    ///
    /// # Errors
    ///
    /// [`UpstreamError`] for invalid options and failures of the server, of the last route that was
    /// tried.
    pub async fn connect(options: UpstreamOptions) -> Result<Self, UpstreamError> {
        let base = &options.base;
        let mut routes = Vec::new();
        if base.ends_with("/rerank") {
            let uri = base.route("")?;
            routes.extend([(uri.clone(), Shape::Documents), (uri, Shape::Texts)]);
        } else {
            for candidate in base.candidates().into_iter().rev() {
                routes.push((candidate.route("/rerank")?, Shape::Documents));
            }
            routes.push((base.beside("/rerank")?, Shape::Texts));
        }
        let (uri, shape) = routes[0].clone();
        let mut ranker = Self {
            client: Client::new(options)?,
            uri,
            shape,
        };
        let passages = PROBE.map(str::to_owned);
        let mut refused = None;
        for (uri, shape) in routes {
            (ranker.uri, ranker.shape) = (uri, shape);
            match ranker.request("birds", &passages).await {
                Ok(_) => return Ok(ranker),
                // A route or a request that the server does not know.
                Err(
                    error @ UpstreamError::Refused {
                        status: 400 | 404 | 405 | 422 | 501,
                        ..
                    },
                ) => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(refused.unwrap_or(UpstreamError::Unreadable("it has no scores")))
    }

    /// Returns the name of the model; empty if the server has only one.
    pub fn model(&self) -> &str {
        &self.client.options.model
    }

    async fn request(&self, query: &str, passages: &[String]) -> Result<Vec<f32>, UpstreamError> {
        let options = &self.client.options;
        let model = Some(options.model.as_str()).filter(|model| !model.is_empty());
        let body = match self.shape {
            Shape::Documents => serde_json::to_vec(&DocumentsRequest {
                model,
                query,
                documents: passages,
                top_n: passages.len(),
            }),
            Shape::Texts => serde_json::to_vec(&TextsRequest {
                query,
                texts: passages,
                truncate: true,
            }),
        };
        let body = body.map_err(|_| UpstreamError::Setting("a text cannot be written as json"))?;
        let answer = self
            .client
            .exchange(&self.uri, &Bytes::from(body), options.retry)
            .await?;
        let answer: Answer = serde_json::from_slice(&answer)
            .map_err(|_| UpstreamError::Unreadable("it is not a list of scores"))?;
        let (Answer::Results { results } | Answer::List(results)) = answer;
        let mut scores = vec![f32::NAN; passages.len()];
        for Score { index, score } in results {
            let place = scores.get_mut(index);
            *place.ok_or(UpstreamError::Unreadable("a score belongs to no passage"))? = score;
        }
        if scores.iter().all(|score| score.is_finite()) {
            Ok(scores)
        } else {
            Err(UpstreamError::Unreadable("a passage has no score"))
        }
    }
}

impl Rank for UpstreamRanker {
    fn method(&self) -> &'static str {
        "cross-encoder"
    }

    /// Sends batches one after the other, since the server computes one at a time anyway.
    fn rank<'a>(&'a self, query: &'a str, passages: Vec<String>) -> Boxed<'a, Result<Vec<f32>, ModelError>> {
        Box::pin(async move {
            let query = cut(query, MAX_QUERY_BYTES);
            let passages: Vec<String> = passages
                .iter()
                .map(|passage| cut(passage, MAX_PASSAGE_BYTES).to_owned())
                .collect();
            let mut scores = Vec::with_capacity(passages.len());
            let deadline = Deadline::new(self.client.options.timeouts.search, Wait::Total);
            for batch in passages.chunks(BATCH) {
                match deadline.wait(self.request(query, batch)).await.flatten() {
                    Ok(more) => scores.extend(more),
                    Err(error) => {
                        tracing::warn!(code = error.code(), error = %super::chain(&error), "the reranker failed");
                        return Err(error.into_model_error(false, &RequestSize::UNKNOWN));
                    }
                }
            }
            Ok(scores)
        })
    }
}

fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[derive(Serialize)]
struct DocumentsRequest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    query: &'a str,
    documents: &'a [String],
    top_n: usize,
}

#[derive(Serialize)]
struct TextsRequest<'a> {
    query: &'a str,
    texts: &'a [String],
    truncate: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Results { results: Vec<Score> },
    List(Vec<Score>),
}

#[derive(Deserialize)]
struct Score {
    index: usize,
    #[serde(alias = "relevance_score")]
    score: f32,
}
