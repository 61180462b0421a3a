//! Whole turns without any model: which questions are answered, which are declined in words, and
//! what a review reports.

use super::*;
use crate::answer::generate::NO_ANSWER;
use crate::test_data;
use ragwire::event::Verdict;

async fn ask_default(agent: &Agent, question: &str) -> Collected {
    ask(agent, AgentQuestion::new(question)).await
}

#[tokio::test]
async fn a_question_outside_the_documents_is_declined_in_words() {
    let agent = Agent::lexical(birds());
    for question in ["What is the capital of France?", "the of and"] {
        let collected = ask_default(&agent, question).await;
        assert_eq!(collected.text, NO_ANSWER, "{question}");
        assert_eq!(
            collected.end.status,
            Status::Completed,
            "an answer that declines is not a failure"
        );
        assert!(collected.end.metadata.citations.is_empty());
        assert_eq!(collected.end.metadata.extra["answered"], false);
    }
}

#[tokio::test]
async fn each_part_of_a_question_is_answered_or_declined() {
    let agent = Agent::lexical(birds());
    let cases = [
        (
            "When does the robin sing and what does a carp eat?",
            "A robin sings at dawn. [1] A carp eats plants all day. [2]",
        ),
        (
            "When does the robin sing? What is the capital of France?",
            "A robin sings at dawn. [1] The documents do not answer “What is the capital of France”.",
        ),
    ];
    for (question, text) in cases {
        assert_eq!(ask_default(&agent, question).await.text, text);
    }
}

#[tokio::test]
async fn a_question_when_something_changed_is_answered_with_the_heading() {
    let changes =
        "# Changes\n\n## 0.28.0 (28th November, 2024)\n\nThe deprecated feather option has been removed.\n";
    let agent = Agent::lexical(library("CHANGELOG.md", changes));
    for (question, text) in [
        (
            "When was the feather option removed?",
            "**0.28.0 (28th November, 2024):** The deprecated feather option has been removed. [1]",
        ),
        (
            "Has the feather option been removed?",
            "The deprecated feather option has been removed. [1]",
        ),
    ] {
        assert_eq!(ask_default(&agent, question).await.text, text);
    }
}

#[tokio::test]
async fn an_unknown_word_is_named() {
    let agent = Agent::lexical(birds());
    let question = "When do the robin and the owl hunt at night or sing at dawn in Atlantis?";
    let text = ask_default(&agent, question).await.text;
    assert!(
        text.starts_with("The documents do not mention “Atlantis”. Closest passages:\n\n"),
        "{text}"
    );
}

/// Words such as "anywhere" say nothing about the subject, so it does not matter that no document has them.
#[tokio::test]
async fn an_unknown_word_without_a_subject_is_not_missing() {
    let agent = Agent::lexical(birds());
    for question in [
        "Does the robin actually sing anywhere?",
        "When does the robin still sing?",
    ] {
        let text = ask_default(&agent, question).await.text;
        assert!(text.starts_with("A robin sings at dawn."), "{question}: {text}");
    }
}

#[tokio::test]
async fn a_review_has_the_texts_of_the_adr() {
    let agent = Agent::lexical(birds());
    let reviews = |collected: &Collected| {
        pick_events(collected, |event| match event {
            Event::Review(review) => Some((
                review.iteration,
                review.verdict,
                review.feedback.clone().unwrap_or_default(),
            )),
            _ => None,
        })
    };
    let cases = [
        (
            QUESTION,
            Verdict::Approved,
            "1 of 1 passages answer and 0 may, says lexical",
        ),
        (
            "Which fish does an owl eat at night?",
            Verdict::Rejected,
            "0 of 2 passages answer and 2 may, says lexical",
        ),
    ];
    for (question, verdict, feedback) in cases {
        let collected = ask(&agent, AgentQuestion::new(question).review(true)).await;
        assert_eq!(
            reviews(&collected),
            [(1, verdict, feedback.to_owned())],
            "{question}"
        );
        let position = |name: &str| names(&collected).iter().position(|event| *event == name);
        assert_eq!(
            position("review"),
            position("crag_evaluation").map(|at| at + 1),
            "the gate is reported first"
        );
    }
    assert!(reviews(&ask_default(&agent, QUESTION).await).is_empty());
}

#[tokio::test]
async fn a_real_paper_answers_with_pages() {
    let Some(bytes) = test_data::attention_paper() else {
        return;
    };
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    let parsed = parse("attention.pdf", &bytes, &ParseLimits::default()).unwrap();
    library.add("attention.pdf", &parsed).unwrap();
    let agent = Agent::lexical(Arc::new(library));
    let cases = [
        (
            "How many attention heads does the base model use?",
            "we employ h = 8 parallel attention layers, or heads",
            5,
        ),
        ("What optimizer was used?", "Adam", 7),
        (
            "What BLEU score does the big model reach on English-to-German?",
            "28.4",
            8,
        ),
        (
            "What optimizer was used and how many GPUs were the models trained on?",
            "Adam",
            7,
        ),
    ];
    for (question, wanted, page) in cases {
        let collected = ask_default(&agent, question).await;
        let mut citations = collected.end.metadata.citations.iter();
        let cited = citations.find(|citation| citation.supporting_quote.contains(wanted));
        assert_eq!(
            cited.and_then(|citation| citation.page_number),
            Some(page),
            "{question}: {}",
            collected.text
        );
    }
    for question in ["What is the capital of France?", "Who won the 2018 world cup?"] {
        assert_eq!(ask_default(&agent, question).await.text, NO_ANSWER, "{question}");
    }
}

/// Both documents have the passage that the question asks for. Only one of them has what was asked before.
#[tokio::test]
async fn the_document_for_the_question_before_comes_first_among_equal_passages() {
    let filler = "Feathers keep a bird warm and dry in the rain. ".repeat(40);
    for (asked, other) in [("a.md", "b.md"), ("b.md", "a.md")] {
        let library = Library::in_memory(LibraryLimits::default()).unwrap();
        for name in ["a.md", "b.md"] {
            let song = if name == asked {
                "A robin sings at dawn."
            } else {
                "An owl sleeps."
            };
            let text = format!(
                "# Song\n\n{song}\n\n{filler}\n\n# Weight\n\nThe usual weight in {name} is 20 grams."
            );
            let parsed = parse(name, text.as_bytes(), &ParseLimits::default()).unwrap();
            library.add(name, &parsed).unwrap();
        }
        let library = Arc::new(library);
        let agent = Agent::builder(Arc::clone(&library), words(&library)).build();
        let said = vec![
            ChatMessage::new(Role::User, "When does the robin sing?"),
            ChatMessage::new(Role::Assistant, "At dawn."),
        ];
        let answered = ask(
            &agent,
            AgentQuestion::new("What is its usual weight in grams?").earlier(said),
        )
        .await;
        let with_weight = pick_events(&answered, |event| match event {
            Event::Sources(event) => Some(
                event
                    .sources
                    .iter()
                    .filter(|source| source.text.contains("20 grams"))
                    .map(|source| source.document_id.clone())
                    .collect::<Vec<_>>(),
            ),
            _ => None,
        });
        let documents = library.list();
        let id = |name: &str| {
            let document = documents.iter().find(|document| document.name == name);
            document.map(|document| document.id.clone()).unwrap()
        };
        assert_eq!(with_weight, [[id(asked), id(other)]]);
    }
}
