//! The figures: where the answering passage stands among the hits, and what a whole answer cites and refuses.

use std::sync::Arc;

use ragwire::event::Mode;
use ragwire::{Status, Turn};
use ragwire_rag::models::Rank;
use ragwire_rag::{Agent, AgentQuestion, Hit, SearchTools, Tool};

use crate::corpus::{Answerable, Corpus, Questions};

/// Hits of a search. Those that are ranked anew are the same.
const HITS: usize = 20;

/// How well the answering passages are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ranking {
    /// Share of questions whose first hit answers.
    pub(crate) hit_1: f64,
    /// Share of questions with an answer among the first five hits.
    pub(crate) hit_5: f64,
    /// Mean of one by the place of the first hit that answers; 0 where none of the first 20 does.
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

/// A way of finding: a tool, and what puts its hits into another order.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) name: String,
    pub(crate) tools: SearchTools,
    pub(crate) tool: Tool,
    pub(crate) rank: Option<Arc<dyn Rank>>,
}

/// Asks all questions that have an answer.
pub(crate) async fn ranking(questions: &[Answerable], way: &Way) -> Ranking {
    let mut places = Vec::new();
    for asked in questions {
        let query = vec![asked.question.clone()];
        let found = way.tools.search(way.tool, &query, HITS).await.unwrap().remove(0);
        let hits = match &way.rank {
            Some(rank) => reordered(rank.as_ref(), &asked.question, found.hits).await,
            None => found.hits,
        };
        let place = hits.iter().position(|hit| asked.is_answered_by(&hit.chunk));
        if place.is_none_or(|place| place >= 5) {
            println!("{}: {:?} is at {place:?}", way.name, asked.question);
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

/// What whole answers say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Answers {
    /// Share of the questions with an answer that were answered.
    pub(crate) answered: f64,
    /// Share of them with an answering passage among the citations.
    pub(crate) right: f64,
    /// Share of all their citations that are of an answering passage.
    pub(crate) precision: f64,
    /// Share of the questions without an answer that were refused.
    pub(crate) refused: f64,
}

/// Asks an agent every question, directly: its one round of searches, its gate, and a second round where that lets nothing pass.
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

/// Whether it was answered, and the chunks that it cites, each with what it quotes.
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
