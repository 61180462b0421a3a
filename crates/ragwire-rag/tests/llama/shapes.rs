//! What an answer has to look like: grammars, schemas, stop texts, whole characters.

use ragwire_rag::models::llama::{MAX_GRAMMAR_BYTES, MAX_SCHEMA_BYTES, MAX_SHAPE_DEPTH};
use ragwire_rag::models::{FinishReason, LanguageModel, Prompt, Shape};
use serde_json::{Value, json};

use crate::models::{code, drawn, engine, pieces, says, text, whole};

fn grammar(grammar: &str) -> Prompt {
    Prompt::user("?").shape(Shape::Gbnf(grammar.to_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grammar_is_followed_to_its_end() {
    let engine = engine().await;
    let (answer, finished) = whole(&engine, grammar(r#"root ::= "yes" | "no" | "maybe""#))
        .await
        .unwrap();
    assert!(["yes", "no", "maybe"].contains(&answer.as_str()), "{answer}");
    assert_eq!(finished.reason, FinishReason::Stop);
    let rules = "# a comment\r\nroot ::= (item \",\"){2} item\nitem ::= [0-9]{1,3} | # or\n \"x\"+\n";
    for seed in 0..8 {
        let answer = text(&engine, grammar(rules).sampling(drawn(seed)).max_tokens(200)).await;
        let items = answer.split(',').collect::<Vec<_>>();
        assert_eq!(items.len(), 3, "{answer}");
        let is_number =
            |item: &&str| (1..=3).contains(&item.len()) && item.bytes().all(|byte| byte.is_ascii_digit());
        let is_cross = |item: &&str| !item.is_empty() && item.bytes().all(|byte| byte == b'x');
        assert!(
            items.iter().all(|item| is_number(item) || is_cross(item)),
            "{answer}"
        );
    }
}

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
async fn control_tokens_are_not_a_grammars_letters() {
    // Only letters may spell it, and they are shown.
    let answer = text(&engine().await, says("<|im_start|></s>")).await;
    assert_eq!(answer, "<|im_start|></s>");
}

#[tokio::test(flavor = "multi_thread")]
async fn characters_come_whole() {
    // None of these has a token: they come byte by byte.
    let all = "é€😀\u{10ffff}\u{feff}ñ";
    let (pieces, finished) = pieces(engine().await.generate(says(all))).await;
    assert_eq!(pieces, all.chars().map(String::from).collect::<Vec<_>>());
    assert_eq!(
        (finished.reason, finished.answer_tokens),
        (FinishReason::Stop, Some(all.len() as u32))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_character_that_is_cut_off_is_replaced() {
    let engine = engine().await;
    for (tokens, expected) in [
        (4, "😀"),
        (5, "😀\u{fffd}"),
        (6, "😀\u{fffd}"),
        (7, "😀\u{fffd}"),
        (8, "😀😀"),
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
        ("one END two", vec!["END"], "one "),
        ("one ENd END", vec!["END"], "one ENd "),
        ("END", vec!["END"], ""),
        ("aab", vec!["ab", "aab"], ""),
        ("x😀y", vec!["😀"], "x"),
        ("never", vec!["END"], "never"),
        ("almost EN", vec!["END"], "almost EN"),
    ] {
        let prompt = stops.into_iter().fold(says(said), Prompt::stop);
        let (answer, finished) = whole(&engine, prompt).await.unwrap();
        assert_eq!(
            (answer.as_str(), finished.reason),
            (expected, FinishReason::Stop),
            "{said}"
        );
    }
    // What may become a stop text is not shown before it is known.
    let (pieces, _) = pieces(engine.generate(says("abENcEND").stop("END"))).await;
    assert_eq!(pieces, ["a", "b", "ENc"]);
    // It is shown where the tokens are used up.
    let (answer, finished) = whole(&engine, says("abEND").stop("END").max_tokens(4))
        .await
        .unwrap();
    assert_eq!((answer.as_str(), finished.reason), ("abEN", FinishReason::Length));
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
    let shape = Shape::Gbnf("root ::= [a-e]{40}".to_owned());
    let plain = Prompt::user("?").shape(shape.clone());
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
    let deep = |open: &str, close: &str, depth: usize| {
        format!("root ::= {}\"a\"{}", open.repeat(depth), close.repeat(depth))
    };
    let many = (0..4_000)
        .map(|rule| format!("r{rule} ::= r{}\n", rule + 1))
        .collect::<String>();
    let grammars = [
        String::new(),
        "root".to_owned(),
        "root ::= ".to_owned() + &"\"a\" ".repeat(MAX_GRAMMAR_BYTES),
        "other ::= \"a\"".to_owned(),
        "root ::= missing".to_owned(),
        "root ::= \"a".to_owned(),
        "root ::= [a".to_owned(),
        "root ::= []".to_owned(),
        "root ::= (\"a\"".to_owned(),
        "root ::= \"a\")".to_owned(),
        "root ::= *".to_owned(),
        "root ::= \"\"*".to_owned(),
        "root ::= \"a\"{2,1}".to_owned(),
        "root ::= \"a\"{9999999999}".to_owned(),
        "root ::= \"a\"{,3}".to_owned(),
        "root ::= \"\\q\"".to_owned(),
        "root ::= \"\\xg0\"".to_owned(),
        "root ::= <[1]>".to_owned(),
        "root ::= !<[1]>".to_owned(),
        "root ::= \"a\"\nroot ::= \"b\"".to_owned(),
        "root ::= \"a\0\"".to_owned(),
        // Left recursion: plain, through another rule, and behind rules that may be empty, where llama.cpp does not see it.
        "root ::= root \"a\" | \"a\"".to_owned(),
        "root ::= a\na ::= root".to_owned(),
        "root ::= b root \"x\" | \"y\"\nb ::= c\nc ::= \"\"".to_owned(),
        "root ::= \"a\" x\nx ::= b x\nb ::= c\nc ::= \"\"".to_owned(),
        "root ::= \"q\"? root".to_owned(),
        deep("(", ")", MAX_SHAPE_DEPTH + 1),
        deep("(", ")", 20_000),
        format!("root ::= r0\n{many}"),
    ];
    for bad in grammars {
        assert_eq!(
            code(&engine, grammar(&bad)).await,
            "bad_shape",
            "{}",
            &bad[..bad.len().min(80)]
        );
    }
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
        text(&engine, says("still here").max_tokens(40)).await,
        "still here"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn large_shapes_that_can_be_followed_are() {
    let engine = engine().await;
    let deep = format!(
        "root ::= {}\"a\"{}",
        "(".repeat(MAX_SHAPE_DEPTH),
        ")".repeat(MAX_SHAPE_DEPTH)
    );
    assert_eq!(text(&engine, grammar(&deep)).await, "a");
    // A chain of rules as long as the bytes allow, which llama.cpp follows on its stack.
    let mut chain = "root ::= r0\n".to_owned();
    for rule in 0.. {
        let line = format!("r{rule} ::= r{}\n", rule + 1);
        if chain.len() + line.len() + 16 > MAX_GRAMMAR_BYTES {
            chain += &format!("r{rule} ::= \"a\"\n");
            break;
        }
        chain += &line;
    }
    assert_eq!(text(&engine, grammar(&chain)).await, "a");
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
    for nowhere in ["root ::= \"\\x00\"", "root ::= \"a\" [\\x00] \"b\""] {
        assert_eq!(code(&engine, grammar(nowhere)).await, "model_failed", "{nowhere}");
    }
    let (_, finished) = pieces(running).await;
    assert_eq!(finished.answer_tokens, Some(40));
    assert_eq!(engine.stats().failed, 2);
}
