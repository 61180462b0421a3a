//! Tests of judging by words: tables, and a real paper.

use super::*;
use crate::answer::judge::{Gate, JudgeName, STOP, SearchRecord, ToolSpec, claims};
use crate::models::Role;
use crate::{LibraryLimits, ParseLimits, parse, test_data};
use ragwire::event::{CragAction, CragClass};

const BIRDS: &str = "# Birds\n\nA robin sings at dawn. An owl hunts at night. It does not sing.\n\n\
    # Fish\n\nA carp eats plants all day. It was first seen in 1758.";

fn judge(name: &str, bytes: &[u8]) -> LexicalJudge {
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    library
        .add(name, &parse(name, bytes, &ParseLimits::default()).unwrap())
        .unwrap();
    LexicalJudge::new(Arc::new(library))
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[tokio::test]
async fn questions_are_analysed() {
    use Complexity::{Complex, Moderate, Simple};
    let judge = judge("birds.md", BIRDS.as_bytes());
    let conversation = [
        ChatMessage::new(Role::User, "What does the carp eat?"),
        ChatMessage::new(Role::Assistant, "Plants."),
    ];
    type Case<'a> = (&'a str, &'a [ChatMessage], Complexity, &'a [&'a str], Mode);
    let cases: &[Case<'_>] = &[
        ("When does the robin sing?", &[], Simple, &[], Mode::Direct),
        (
            "What is the difference between owl and robin?",
            &[],
            Moderate,
            &[],
            Mode::Direct,
        ),
        (
            "When does the robin sing and what does the carp eat?",
            &[],
            Moderate,
            &["When does the robin sing", "what does the carp eat"],
            Mode::Direct,
        ),
        (
            "When does the robin sing; what does the carp eat; where does the owl hunt?",
            &[],
            Complex,
            &[
                "When does the robin sing",
                "what does the carp eat",
                "where does the owl hunt",
            ],
            Mode::Agentic,
        ),
        (
            "When was it first seen?",
            &conversation,
            Simple,
            &["When was it first seen carp eat"],
            Mode::Direct,
        ),
        (
            "And why?",
            &conversation,
            Simple,
            &["And why carp eat"],
            Mode::Direct,
        ),
        (
            "When does the robin sing?",
            &conversation,
            Simple,
            &[],
            Mode::Direct,
        ),
        ("???", &[], Simple, &[], Mode::Direct),
        ("", &[], Simple, &[], Mode::Direct),
    ];
    for (question, earlier, complexity, sub_queries, mode) in cases {
        let analysis = judge.analyse(question, earlier).await.unwrap();
        assert_eq!(analysis.by, JudgeName::Lexical);
        let Analysis {
            complexity: found,
            sub_queries: queries,
            mode: as_mode,
        } = analysis.value;
        assert_eq!((found, as_mode), (*complexity, *mode), "{question}");
        let mut queries: Vec<_> = queries.iter().map(String::as_str).collect();
        // The order of two equally rare words does not matter.
        if let Some(first) = queries.first_mut().filter(|first| first.ends_with(" eat carp")) {
            *first = sub_queries[0];
        }
        assert_eq!(queries, *sub_queries, "{question}");
    }
    let hostile = "big cats and small dogs; ".repeat(2_000);
    assert!(judge.analysis(&hostile, &[]).sub_queries.len() <= MAX_SUB_QUERIES);
}

#[tokio::test]
async fn grades_follow_the_words() {
    use CragClass::{Correct, Incorrect};
    let judge = judge("birds.md", BIRDS.as_bytes());
    let hits = judge.library.search("robin carp", 5).unwrap();
    let sorted = |question: &str| {
        let grades = judge.grades(question, &hits);
        let mut classes: Vec<_> = hits
            .iter()
            .zip(&grades)
            .map(|(hit, grade)| (hit.chunk.heading.clone().unwrap(), grade.class))
            .collect();
        classes.sort_by(|a, b| a.0.cmp(&b.0));
        (classes[0].1, classes[1].1, Gate::of(&grades).action)
    };
    for (question, birds, fish, action) in [
        (
            "When does the robin sing?",
            Correct,
            Incorrect,
            CragAction::Proceed,
        ),
        ("What does the carp eat?", Incorrect, Correct, CragAction::Proceed),
        (
            "What is the capital of France?",
            Incorrect,
            Incorrect,
            CragAction::ReRetrieve,
        ),
        ("the of and", Incorrect, Incorrect, CragAction::ReRetrieve),
    ] {
        assert_eq!(sorted(question), (birds, fish, action), "{question}");
    }
    // Scores of a retriever that are not valid.
    let mut odd = hits.clone();
    for (hit, score) in odd.iter_mut().zip([f32::NAN, f32::INFINITY]) {
        hit.score = score;
    }
    for grade in judge.grades("When does the robin sing?", &odd) {
        assert!((0.0..=1.0).contains(&grade.score), "{grade:?}");
    }
    assert!(judge.grades("robin", &[]).is_empty());
}

#[tokio::test]
async fn claims_are_checked_including_numbers_and_negations() {
    use ClaimVerdict::{PartiallySupported, Supported, Unsupported};
    let judge = judge("birds.md", BIRDS.as_bytes());
    let sources = judge.library.search("robin carp", 5).unwrap();
    let cases = [
        ("A robin sings at dawn.", Supported),
        ("At dawn the robin can be heard singing.", PartiallySupported),
        ("The owl hunts at night.", Supported),
        ("The owl does not hunt at night.", Unsupported),
        ("The carp was first seen in 1758.", Supported),
        ("The carp was first seen in 1759.", Unsupported),
        ("Penguins live in Antarctica near the pole.", Unsupported),
        ("Robins sing at dawn in Norway.", PartiallySupported),
    ];
    let sentences = strings(&cases.map(|(claim, _)| claim));
    let verified = judge.verify(&sentences, &sources).await.unwrap().value;
    for ((claim, verdict), check) in cases.iter().zip(&verified.checks) {
        println!("{claim} {:?}", check.verdict);
        assert_eq!((check.claim.as_str(), check.verdict), (*claim, *verdict));
    }
    assert_eq!(judge.verified(&sentences, &[]).confidence(), Some(0.0));
    assert_eq!(judge.verified(&[], &sources).confidence(), None);
    assert_eq!(judge.hypothesis("x").await.unwrap(), None);
}

#[tokio::test]
async fn an_agent_searches_for_what_is_missing_and_stops() {
    let judge = judge("birds.md", BIRDS.as_bytes());
    let tools = [
        ToolSpec::new("semantic_search", "meaning"),
        ToolSpec::new("hybrid_search", "words"),
    ];
    let step = |question: &str, searched: &[(&str, &str, u32)], found: &[Hit], steps_left: u32| {
        let searched: Vec<SearchRecord> = searched
            .iter()
            .map(|(tool, query, new)| SearchRecord::new(*tool, *query, *new))
            .collect();
        match judge.step(&Progress::new(question, &tools, steps_left).after(&searched, found)) {
            NextStep::Search { tool, query } => (tool, query),
            NextStep::Stop => (STOP.to_owned(), String::new()),
        }
    };
    let next = |tool: &str, query: &str| (tool.to_owned(), query.to_owned());
    let both = "When does the robin sing and what does the carp eat?";
    let birds = judge.library.search("robin", 1).unwrap();
    let all = judge.library.search("robin carp", 2).unwrap();
    let stop = next(STOP, "");
    assert_eq!(step(both, &[], &[], 5), next("semantic_search", both));
    assert_eq!(step(both, &[], &[], 0), stop);
    assert_eq!(
        step(both, &[("semantic_search", both, 1)], &birds, 5),
        next("semantic_search", "carp eat")
    );
    let two = [("semantic_search", both, 1), ("semantic_search", "carp eat", 1)];
    assert_eq!(step(both, &two, &all, 5), stop);
    let fruitless = [
        ("semantic_search", both, 1),
        ("semantic_search", "a", 0),
        ("semantic_search", "b", 0),
    ];
    assert_eq!(step(both, &fruitless, &birds, 5), stop);
    assert_eq!(step("", &[], &[], 5), stop);

    // The search ends by itself and never repeats a step.
    let mut searched: Vec<(String, String)> = Vec::new();
    while let (tool, query) = {
        let done: Vec<(&str, &str, u32)> = searched
            .iter()
            .map(|(tool, query)| (tool.as_str(), query.as_str(), 1))
            .collect();
        step("What is the capital of France and who rules it?", &done, &[], 5)
    } && tool != STOP
    {
        assert!(!searched.contains(&(tool.clone(), query.clone())));
        searched.push((tool, query));
        assert!(searched.len() < 50);
    }
    assert!(searched.len() >= 2);
}

#[test]
fn relating_tools_are_used_once_and_only_for_relations() {
    let judge = judge("birds.md", BIRDS.as_bytes());
    let tools = [
        ToolSpec::new("graph_traverse", "relations").relating(),
        ToolSpec::new("hybrid_search", "words"),
    ];
    let step = |question: &str, searched: &[(&str, u32)], steps_left: u32| {
        let searched: Vec<SearchRecord> = searched
            .iter()
            .map(|(tool, new)| SearchRecord::new(*tool, question, *new))
            .collect();
        let most = if searched.is_empty() { 0 } else { 2 };
        let found = judge.library.search("robin carp", most).unwrap();
        match judge.step(&Progress::new(question, &tools, steps_left).after(&searched, &found)) {
            NextStep::Search { tool, query } => {
                assert!(tool != "graph_traverse" || query == question, "{query}");
                tool
            }
            NextStep::Stop => STOP.to_owned(),
        }
    };
    let (relating, plain) = (
        "How do the robin and the carp relate?",
        "When does the robin sing?",
    );
    type Case<'a> = (&'a str, &'a [(&'a str, u32)], u32, &'a str);
    let cases: &[Case<'_>] = &[
        // The search for the things comes first, and finding them is not enough.
        (relating, &[], 2, "hybrid_search"),
        (relating, &[("hybrid_search", 2)], 2, "graph_traverse"),
        (
            relating,
            &[("hybrid_search", 0), ("hybrid_search", 0)],
            1,
            "graph_traverse",
        ),
        (relating, &[("hybrid_search", 2)], 0, STOP),
        (
            relating,
            &[("hybrid_search", 2), ("graph_traverse", 0)],
            2,
            "hybrid_search",
        ),
        (relating, &[("hybrid_search", 0), ("graph_traverse", 0)], 2, STOP),
        (plain, &[], 2, "hybrid_search"),
        (plain, &[("hybrid_search", 2)], 2, STOP),
        (plain, &[("hybrid_search", 0)], 2, STOP),
    ];
    for (question, searched, steps_left, wanted) in cases {
        assert_eq!(
            step(question, searched, *steps_left),
            *wanted,
            "{question} {searched:?}"
        );
    }
    for (question, wanted) in [
        ("What is the difference between a robin and a carp?", true),
        ("Robin vs. carp", true),
        ("RELATIONS of the robin", true),
        ("When does the robin sing?", false),
        ("What relative lives in the pond?", false),
        ("", false),
    ] {
        assert_eq!(relates(question), wanted, "{question}");
    }
}

#[test]
fn a_real_paper_is_judged_correctly() {
    let Some(bytes) = test_data::attention_paper() else {
        return;
    };
    let judge = judge("attention.pdf", &bytes);
    let answered = [
        "How many attention heads does the base model use?",
        "What optimizer was used?",
        "What BLEU score does the big model reach on English-to-German?",
        "What hardware were the models trained on?",
        "How many layers does the encoder have?",
        "What is label smoothing used for?",
        "Why is the dot product scaled?",
        "How large was the training dataset?",
        "What dropout rate is used for the base model?",
        "What does the Transformer dispense with?",
    ];
    let unanswerable = [
        "What is the capital of France?",
        "Who won the 2018 world cup?",
        "How do I bake sourdough bread?",
        "What is the boiling point of water?",
        "Who is the president of the United States?",
        "How tall is Mount Everest?",
    ];
    let gate = |question: &str| {
        let hits = judge.library.search(question, 8).unwrap();
        let grades = judge.grades(question, &hits);
        let best = grades.iter().map(|grade| grade.score).fold(0.0, f64::max);
        println!("{best:.2} {question}");
        Gate::of(&grades)
    };
    let mut wrong = Vec::new();
    for question in answered {
        if gate(question).action != CragAction::Proceed {
            wrong.push(question);
        }
    }
    for question in unanswerable {
        if gate(question).action != CragAction::ReRetrieve {
            wrong.push(question);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let hits = judge.library.search("optimizer hardware", 8).unwrap();
    let answer = "We used the Adam optimizer [1]. We trained our models on one machine with 8 NVIDIA P100 GPUs [2]. \
        We trained our models on one machine with 16 NVIDIA P100 GPUs [2]. We used the Lion optimizer of Google Brain researchers.";
    let verdicts: Vec<_> = judge
        .verified(&claims(answer), &hits)
        .checks
        .iter()
        .map(|check| check.verdict.as_str())
        .collect();
    assert_eq!(verdicts, ["SUPPORTED", "SUPPORTED", "UNSUPPORTED", "UNSUPPORTED"]);
}
