//! Tests of the scores of a cross-encoder: they equal those of a plain computation, and a model
//! without a head is rejected.

use ragwire_rag::models::Rank;
use ragwire_rag::models::llama::{Batching, LlamaRanker, RankerOptions};
use ragwire_test_support::gguf::Value;
use ragwire_test_support::tiny_bert::{CLS, CONTEXT, Pooling, SEP, TinyBert};

use crate::embed::cosine::{TempModel, soon};

/// Accounts for keys and values of 16 bits and an activation function from a table.
const NEAR: f64 = 3e-3;

async fn ranker(bert: &TinyBert, batching: Batching) -> (LlamaRanker, TempModel) {
    let made = TempModel::new(bert);
    let ranker = LlamaRanker::load(made.file(), RankerOptions::default().batching(batching))
        .await
        .unwrap();
    (ranker, made)
}

fn assert_near(scores: &[f32], expected: &[f64]) {
    assert_eq!(scores.len(), expected.len());
    for (score, expected) in scores.iter().zip(expected) {
        let apart = (f64::from(*score) - expected).abs();
        assert!(apart < NEAR, "{scores:?}, expected {expected:?}");
    }
}

fn passages() -> Vec<String> {
    [
        "the pump moves water",
        "login",
        "",
        "how the water works, how?",
        "zebra 42",
        "the the the the",
        "pump",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[tokio::test]
async fn scores_equal_those_of_a_plain_computation() {
    let bert = TinyBert::ranker();
    let query = "how does the pump work?";
    let expected = passages()
        .iter()
        .map(|passage| bert.scores(&bert.pair(query, passage))[0])
        .collect::<Vec<_>>();
    for (index, one) in expected.iter().enumerate() {
        assert!(
            expected[..index].iter().all(|other| (one - other).abs() > NEAR),
            "{expected:?}"
        );
    }
    for batching in [
        Batching::default(),
        Batching::default().max_texts(1),
        Batching::default().max_tokens(0),
    ] {
        let (ranker, _made) = ranker(&bert, batching).await;
        assert_eq!((ranker.method(), ranker.name()), ("cross-encoder", "tiny bert"));
        let scores = soon(ranker.rank(query, passages())).await.unwrap();
        assert_near(&scores, &expected);
        assert_eq!(ranker.stats().texts, passages().len() as u64);
    }
}

#[tokio::test]
async fn the_pooling_of_the_file_does_not_matter() {
    // Converters write rerankers like this if the folder does not state the pooling.
    let bert = TinyBert::ranker().pooling(Pooling::Unspecified);
    let (ranker, _made) = ranker(&bert, Batching::default()).await;
    let scores = soon(ranker.rank("pump", passages())).await.unwrap();
    let expected = passages()
        .iter()
        .map(|passage| bert.scores(&bert.pair("pump", passage))[0])
        .collect::<Vec<_>>();
    assert_near(&scores, &expected);
}

#[tokio::test]
async fn the_passage_is_cut_and_the_query_if_it_takes_more_than_half() {
    let bert = TinyBert::ranker();
    let (ranker, _made) = ranker(&bert, Batching::default()).await;
    let room = CONTEXT - 3;
    let cut = |query: usize, passage: usize| {
        let words = |count, word: &str| vec![word.to_owned(); count].join(" ");
        bert.scores(&bert.pair(&words(query, "how"), &words(passage, "water")))[0]
    };
    let scores = soon(ranker.rank("how how", vec!["water ".repeat(500), "water".to_owned()]))
        .await
        .unwrap();
    assert_near(&scores, &[cut(2, room - 2), cut(2, 1)]);
    assert_eq!(ranker.stats().cut, 1);
    let long = "how ".repeat(500);
    let scores = soon(ranker.rank(&long, vec!["water ".repeat(500), "water".to_owned()]))
        .await
        .unwrap();
    assert_near(&scores, &[cut(room / 2, room - room / 2), cut(room / 2, 1)]);
    assert_eq!(ranker.stats().cut, 3);
}

/// A reranker with two tokens between its halves, and one with a template in words.
#[tokio::test]
async fn pairs_are_joined_as_the_file_specifies() {
    let (query, passage) = ("how", "the pump [SEP]");
    let bert = TinyBert::ranker();
    let (before, after) = (bert.words(query), bert.words(passage));
    let pair = |parts: [&[usize]; 5]| bert.scores(&parts.concat())[0];

    let twice = TinyBert::ranker()
        .meta("tokenizer.ggml.add_eos_token", Value::Bool(true))
        .meta("tokenizer.ggml.add_sep_token", Value::Bool(true));
    let (ranker_twice, _made) = ranker(&twice, Batching::default()).await;
    let scores = soon(ranker_twice.rank(query, vec![passage.to_owned()]))
        .await
        .unwrap();
    assert_near(&scores, &[pair([&[CLS], &before, &[SEP, SEP], &after, &[SEP]])]);

    // A special token in the template is a token; in the passage it is plain letters.
    let template = Value::Text("how: {query} [SEP] water {document}".to_owned());
    let asked = TinyBert::ranker().meta("tokenizer.chat_template.rerank", template);
    let (ranker_asked, _made) = ranker(&asked, Batching::default()).await;
    let scores = soon(ranker_asked.rank(query, vec![passage.to_owned()]))
        .await
        .unwrap();
    let (how, water) = (bert.words("how:"), bert.words("water"));
    assert_near(
        &scores,
        &[pair([&how, &before, &[SEP], &[&water[..], &after].concat(), &[]])],
    );

    let broken = TinyBert::ranker().meta(
        "tokenizer.chat_template.rerank",
        Value::Text("{document}".to_owned()),
    );
    let made = TempModel::new(&broken);
    let error = LlamaRanker::load(made.file(), RankerOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "model_template");
}

#[tokio::test]
async fn any_texts_have_a_score_and_cannot_forge_a_separator() {
    let bert = TinyBert::ranker();
    let (ranker, _made) = ranker(&bert, Batching::default()).await;
    let hostile = ["", "\0", "[SEP] pump [SEP]", "🚀", "\u{202e}"]
        .map(str::to_owned)
        .to_vec();
    for query in ["", "\0\0", "[CLS]", "how"] {
        let scores = soon(ranker.rank(query, hostile.clone())).await.unwrap();
        assert!(scores.iter().all(|score| score.is_finite()));
        assert_near(
            &scores[2..3],
            &[bert.scores(&bert.pair(&query.replace('\0', ""), "[SEP] pump [SEP]"))[0]],
        );
    }
    assert_eq!(
        soon(ranker.rank("how", Vec::new())).await.unwrap(),
        Vec::<f32>::new()
    );
    let many = passages().into_iter().cycle().take(5_000).collect();
    let scores = soon(ranker.rank("how", many)).await.unwrap();
    assert_eq!(scores.len(), 5_000);
    let few = soon(ranker.rank("how", passages())).await.unwrap();
    let few = few.iter().map(|&score| f64::from(score)).collect::<Vec<_>>();
    assert_near(&scores[4_900..4_907], &few);
}

#[tokio::test]
async fn a_model_without_a_head_is_not_a_ranker() {
    // Rejected with any pooling in the metadata, including that of a reranker.
    for bert in [
        TinyBert::new(Pooling::Mean),
        TinyBert::new(Pooling::Cls),
        TinyBert::new(Pooling::Rank),
    ] {
        let made = TempModel::new(&bert);
        let error = LlamaRanker::load(made.file(), RankerOptions::default())
            .await
            .unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            ("model_no_ranker", "the model is not a reranker")
        );
    }
}

#[tokio::test]
async fn a_classifier_is_not_a_ranker() {
    let bert = TinyBert::ranker().labels(&["contradiction", "entailment", "neutral"]);
    let made = TempModel::new(&bert);
    let error = LlamaRanker::load(made.file(), RankerOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "model_no_ranker");
}
