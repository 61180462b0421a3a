//! Computes the figures: the rank of the answering passage among the hits, and the citations and
//! refusals of whole answers.

use std::sync::Arc;

use ragwire::event::Mode;
use ragwire::{Status, Turn};
use ragwire_rag::models::Rank;
use ragwire_rag::{Agent, AgentQuestion, Hit, SearchTools, Tool};

use crate::corpus::{Answerable, Corpus, Questions};

/// The number of hits of a search. Reranking does not change the number.
const HITS: usize = 20;

/// How well the answering passages are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ranking {
    /// The share of questions whose first hit answers.
    pub(crate) hit_1: f64,
    /// The share of questions with an answer among the first five hits.
    pub(crate) hit_5: f64,
    /// The mean reciprocal rank of the first hit that answers; 0 for a question without one among
    /// the first 20.
    pub(crate) mrr: f64,
}

impl Ranking {
    fn of(places: &[Option<usize>]) -> Self {
        let share = |most: usize| {
            let near = places.iter().flatten().filter(|place| **place <= most).count();
            near as f64 / places.len() as f64
        };
        let reciprocal = places.iter().flatten().map(|place| 1.0 / *place as f64);
        Self {
            hit_1: share(1),
            hit_5: share(5),
            mrr: reciprocal.sum::<f64>() / places.len() as f64,
        }
    }
}

/// A search method: a tool, and what reranks its hits.
#[derive(Clone, Debug)]
pub(crate) struct Method {
    pub(crate) name: String,
    pub(crate) tools: SearchTools,
    pub(crate) tool: Tool,
    pub(crate) rank: Option<Arc<dyn Rank>>,
}

/// Searches for all questions that have an answer.
pub(crate) async fn ranking(questions: &[Answerable], method: &Method) -> Ranking {
    let mut places = Vec::new();
    for asked in questions {
        let query = vec![asked.question.clone()];
        let found = method
            .tools
            .search(method.tool, &query, HITS)
            .await
            .unwrap()
            .remove(0);
        let hits = match &method.rank {
            Some(rank) => reordered(rank.as_ref(), &asked.question, found.hits).await,
            None => found.hits,
        };
        let place = hits.iter().position(|hit| asked.is_answered_by(&hit.chunk));
        if place.is_none_or(|place| place >= 5) {
            println!("{}: {:?} is at {place:?}", method.name, asked.question);
        }
        places.push(place.map(|place| place + 1));
    }
    Ranking::of(&places)
}

async fn reordered(rank: &dyn Rank, query: &str, mut hits: Vec<Hit>) -> Vec<Hit> {
    let texts = hits.iter().map(|hit| hit.chunk.indexed_text()).collect();
    let scores = rank.rank(query, texts).await.unwrap();
    for (hit, score) in hits.iter_mut().zip(scores) {
        hit.score = score;
    }
    // Equal scores stay in the order of the search.
    hits.sort_by(|a, b| b.score.total_cmp(&a.score));
    hits
}

/// The figures of whole answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Answers {
    /// The share of the questions with an answer that were answered.
    pub(crate) answered: f64,
    /// The share of those questions with an answering passage among the citations.
    pub(crate) right: f64,
    /// The share of all their citations that refer to an answering passage.
    pub(crate) precision: f64,
    /// The share of the questions without an answer that were refused.
    pub(crate) refused: f64,
}

/// Asks an agent every question directly, with one round of searches, its gate, and a second round
/// if the gate rejects everything.
pub(crate) async fn answers(corpus: &Corpus, questions: &Questions, name: &str, agent: &Agent) -> Answers {
    let (mut answered, mut right, mut cited, mut fit) = (0, 0, 0_usize, 0);
    for asked in &questions.answerable {
        let (was_answered, citations) = ask(agent, &asked.question).await;
        let answering = |(chunk_id, quote): &&(String, String)| {
            let passages = corpus.cited(chunk_id, quote);
            passages.iter().any(|passage| asked.is_answered_by(passage))
        };
        let answering = citations.iter().filter(answering).count();
        if answering == 0 {
            println!("{name}: {:?} is answered by {citations:#?}", asked.question);
        }
        answered += usize::from(was_answered);
        right += usize::from(answering > 0);
        cited += citations.len();
        fit += answering;
    }
    let mut refused = 0;
    for asked in &questions.unanswerable {
        let (was_answered, citations) = ask(agent, &asked.question).await;
        if was_answered {
            println!("{name}: {:?} is answered, by {citations:#?}", asked.question);
        }
        refused += usize::from(!was_answered);
    }
    let all = questions.answerable.len() as f64;
    Answers {
        answered: answered as f64 / all,
        right: right as f64 / all,
        precision: fit as f64 / cited.max(1) as f64,
        refused: refused as f64 / questions.unanswerable.len() as f64,
    }
}

/// Returns whether the question was answered, and the cited chunks, each with its quote.
async fn ask(agent: &Agent, question: &str) -> (bool, Vec<(String, String)>) {
    let question = AgentQuestion::new(question).mode(Mode::Direct);
    let turn = Turn::start(|sink| agent.answer(question, sink))
        .commit()
        .await
        .unwrap();
    let end = turn.collect().await.unwrap().end;
    assert_eq!(end.status, Status::Completed);
    let metadata = end.metadata;
    let citations = metadata.citations.into_iter();
    let cited = citations.map(|citation| (citation.chunk_id, citation.supporting_quote));
    (metadata.extra["answered"] == true, cited.collect())
}
