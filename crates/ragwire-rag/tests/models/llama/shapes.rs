//! What an answer has to look like: grammars, schemas, stop texts, whole characters.

use ragwire_rag::models::{FinishReason, LanguageModel, Prompt, Shape};
use serde_json::{Value, json};

use crate::llama::models::{code, drawn, engine, pattern, pieces, quoted, says, text, whole};

/// The limits of a schema.
const MAX_SCHEMA_BYTES: usize = 64 * 1024;
const MAX_SHAPE_DEPTH: usize = 64;

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_is_followed_to_its_end() {
    let engine = engine().await;
    let schema = json!({
        "type": "object",
        "properties": {
            "verdict": { "enum": ["correct", "ambiguous", "incorrect"] },
            "score": { "type": "integer", "minimum": 0, "maximum": 9 },
            "reasons": { "type": "array", "items": { "type": "string", "maxLength": 12 }, "maxItems": 2 },
        },
        "required": ["verdict", "score", "reasons"],
        "additionalProperties": false,
    });
    for seed in 0..8 {
        let prompt = Prompt::user("?")
            .shape(Shape::Json(schema.clone()))
            .sampling(drawn(seed))
            .max_tokens(400);
        let (answer, finished) = whole(&engine, prompt).await.unwrap();
        assert_eq!(finished.reason, FinishReason::Stop, "{answer}");
        let value: Value = serde_json::from_str(&answer).unwrap();
        assert!(
            ["correct", "ambiguous", "incorrect"].contains(&value["verdict"].as_str().unwrap()),
            "{answer}"
        );
        assert!((0..=9).contains(&value["score"].as_i64().unwrap()), "{answer}");
        let reasons = value["reasons"].as_array().unwrap();
        assert!(
            reasons.len() <= 2
                && reasons
                    .iter()
                    .all(|reason| reason.as_str().unwrap().chars().count() <= 12)
        );
        assert_eq!(value.as_object().unwrap().len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn control_tokens_are_not_letters_of_a_shape() {
    // Only letters may spell it, and they are shown.
    let answer = quoted(&engine().await, says("<|im_start|></s>")).await;
    assert_eq!(answer, "\"<|im_start|></s>\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn characters_come_whole() {
    // None of these has a token: they come byte by byte.
    let all = "é€😀\u{10ffff}\u{feff}ñ";
    let (pieces, finished) = pieces(engine().await.generate(says(all))).await;
    let wanted: Vec<String> = format!("\"{all}\"").chars().map(String::from).collect();
    let (text, space) = pieces.split_at(wanted.len());
    assert_eq!(text, wanted);
    assert!(space.iter().all(|piece| piece.trim().is_empty()), "{space:?}");
    assert_eq!(finished.reason, FinishReason::Stop);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_character_that_is_cut_off_is_replaced() {
    let engine = engine().await;
    for (tokens, expected) in [
        (5, "\"😀"),
        (6, "\"😀\u{fffd}"),
        (7, "\"😀\u{fffd}"),
        (8, "\"😀\u{fffd}"),
        (9, "\"😀😀"),
    ] {
        let (answer, finished) = whole(&engine, says("😀😀").max_tokens(tokens)).await.unwrap();
        assert_eq!(
            (answer.as_str(), finished.reason),
            (expected, FinishReason::Length),
            "{tokens}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_text_ends_the_answer_and_is_no_part_of_it() {
    let engine = engine().await;
    for (said, stops, expected) in [
        ("one END two", vec!["END"], "\"one "),
        ("one ENd END", vec!["END"], "\"one ENd "),
        ("END", vec!["END"], "\""),
        ("aab", vec!["ab", "aab"], "\""),
        ("x😀y", vec!["😀"], "\"x"),
        ("never", vec!["END"], "\"never\""),
        ("almost EN", vec!["END"], "\"almost EN\""),
    ] {
        let prompt = stops.into_iter().fold(says(said), Prompt::stop);
        let (answer, finished) = whole(&engine, prompt).await.unwrap();
        assert_eq!(
            (
                answer.trim_end_matches('\n').trim_end_matches("\" ").len() > 0,
                finished.reason
            ),
            (true, FinishReason::Stop),
            "{said}"
        );
        let ended = if expected.len() > 1 && expected.ends_with('"') {
            answer.trim_end()
        } else {
            answer.as_str()
        };
        assert_eq!(ended, expected, "{said}");
    }
    // What may become a stop text is not shown before it is known.
    let (pieces, _) = pieces(engine.generate(says("abENcEND").stop("END"))).await;
    assert_eq!(pieces, ["\"", "a", "b", "ENc"]);
    // It is shown where the tokens are used up.
    let (answer, finished) = whole(&engine, says("abEND").stop("END").max_tokens(5))
        .await
        .unwrap();
    assert_eq!(
        (answer.as_str(), finished.reason),
        ("\"abEN", FinishReason::Length)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_seed_draws_the_same_and_none_draws_anew() {
    let engine = engine().await;
    let prompt = |seed| Prompt::user("?").max_tokens(30).sampling(drawn(seed));
    assert_eq!(text(&engine, prompt(1)).await, text(&engine, prompt(1)).await);
    assert_ne!(text(&engine, prompt(1)).await, text(&engine, prompt(2)).await);
    // llama.cpp would take it for "a new one each time".
    assert_eq!(
        text(&engine, prompt(u32::MAX)).await,
        text(&engine, prompt(u32::MAX)).await
    );
    let mut anew = prompt(1);
    anew.sampling.seed = None;
    assert_ne!(text(&engine, anew.clone()).await, text(&engine, anew).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_penalty_holds_repetition_down() {
    let engine = engine().await;
    let plain = pattern("^[a-e]{40}$");
    let held = plain
        .clone()
        .sampling(ragwire_rag::models::Sampling::GREEDY.repeat_penalty(10.0));
    let runs = |text: String| {
        let letters = text.into_bytes();
        letters.windows(2).filter(|pair| pair[0] == pair[1]).count()
    };
    let (plain, held) = (runs(text(&engine, plain).await), runs(text(&engine, held).await));
    assert!(held <= plain, "{held} after {plain}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shape_that_cannot_be_followed_is_refused_before_anything_is_decoded() {
    let engine = engine().await;
    let mut nested = json!({ "type": "string" });
    for _ in 0..MAX_SHAPE_DEPTH {
        nested = json!({ "type": "array", "items": nested });
    }
    let schemas = [
        nested,
        json!({ "enum": ["x".repeat(MAX_SCHEMA_BYTES)] }),
        json!({ "$ref": "#/$defs/missing" }),
        json!({ "$ref": "#" }),
        json!({ "type": "no such type" }),
        json!({ "type": "string", "pattern": "^(a$" }),
        json!({ "type": "string", "pattern": "^(a*)*$" }),
        json!({ "items": { "pattern": "^((a?){40}){40}$" } }),
        json!(7),
    ];
    for bad in schemas {
        let shown = bad.to_string();
        let prompt = Prompt::user("?").shape(Shape::Json(bad));
        assert_eq!(
            code(&engine, prompt).await,
            "bad_shape",
            "{}",
            &shown[..shown.len().min(80)]
        );
    }
    assert_eq!(engine.stats().steps, 0);
    assert_eq!(
        quoted(&engine, says("still here").max_tokens(60)).await,
        "\"still here\""
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn long_names_in_a_schema_are_followed_or_refused() {
    let engine = engine().await;
    // Long names, which llama.cpp takes through a recursive regular expression.
    for letters in [2_000, 20_000] {
        let name = "ä".repeat(letters);
        let schema = json!({
            "type": "object",
            "properties": { (name.as_str()): { "const": 1 } },
            "required": [name.as_str()],
            "additionalProperties": false,
        });
        let prompt = Prompt::user("?").shape(Shape::Json(schema)).max_tokens(4);
        match whole(&engine, prompt).await {
            Ok((answer, _)) => assert!(answer.starts_with('{'), "{answer}"),
            Err(error) => assert_eq!((error.code(), letters), ("bad_shape", 20_000)),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grammar_that_leads_nowhere_fails_its_own_answer_alone() {
    let engine = engine().await;
    let running = engine.generate(Prompt::user("running").max_tokens(40));
    // No token spells a NUL in a grammar.
    for nowhere in ["^[\\x00]$", "^a[\\x00]b$"] {
        assert_eq!(code(&engine, pattern(nowhere)).await, "model_failed", "{nowhere}");
    }
    let (_, finished) = pieces(running).await;
    assert_eq!(finished.answer_tokens, Some(40));
    assert_eq!(engine.stats().failed, 2);
}
