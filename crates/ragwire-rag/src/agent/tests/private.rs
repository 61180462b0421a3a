//! What others keep private changes no answer, not even the words of a refusal.

use super::*;
use crate::DocumentOwner;
use std::ops::ControlFlow;

const PLANS: &str = "# Pläne\n\nThe takeover of Falconberg is planned for March, and the wrens deploy it.\n\n\
    Die Kosten der Miete trägt das Amt. Der Vogel singt am Morgen, und der Kauz jagt in der Nacht.";

/// Adds a private document of Ada.
fn with_plans(library: Arc<Library>) -> Arc<Library> {
    let parsed = parse("plans.md", PLANS.as_bytes(), &ParseLimits::default()).unwrap();
    let ada = DocumentOwner::new("ada");
    let progress = |_| ControlFlow::Continue(());
    library.add_for(&ada, "plans.md", &parsed, progress).unwrap();
    library
}

fn asked_by(user: &str, question: &str) -> AgentQuestion {
    AgentQuestion::new(question).filter(DocumentFilter::default().user(user))
}

#[tokio::test]
async fn answers_to_others_are_those_without_the_private_document() {
    let (with, without) = (Agent::lexical(with_plans(birds())), Agent::lexical(birds()));
    let questions = [
        QUESTION,
        "How does the robin use falconberg at dawn?",
        // Corrected only for Ada.
        "How does the robin use falcnberg at dawn?",
        "When is the takeover of falconberg?",
        // A compound of two of her words, and another word for one of them.
        "Who pays the Mietkosten of the robin?",
        "How does the robin publish its song at dawn?",
        // No document is in this language.
        "Wann singt der Vogel?",
        "falconberg",
        "What is the title?",
        "hello",
    ];
    for question in questions {
        let eve = ask(&with, asked_by("eve", question)).await;
        let alone = ask(&without, asked_by("eve", question)).await;
        assert_eq!(eve.text, alone.text, "{question}");
        assert_eq!(names(&eve), names(&alone), "{question}");
    }
    let ada = ask(&with, asked_by("ada", "When is the takeover of falcnberg?")).await;
    assert!(ada.text.contains("planned for March"), "{}", ada.text);
}

#[tokio::test]
async fn a_conversation_takes_nothing_from_those_of_others() {
    let (with, without) = (Agent::lexical(with_plans(birds())), Agent::lexical(birds()));
    for (before, question) in [
        ("When does the robin sing?", "and the takeover of falconberg?"),
        ("What is falconberg?", "When does it sing?"),
    ] {
        let asked = |user| asked_by(user, question).earlier(vec![ChatMessage::new(Role::User, before)]);
        // Ada first: what is remembered of her conversation is not Eve's.
        ask(&with, asked("ada")).await;
        let eve = ask(&with, asked("eve")).await;
        assert_eq!(eve.text, ask(&without, asked("eve")).await.text, "{question}");
    }
}

#[tokio::test]
async fn a_user_who_finds_no_document_gets_the_error_of_an_empty_library() {
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    let agent = Agent::lexical(with_plans(Arc::new(library)));
    let (sink, _turn) = Turn::builder().channel();
    let error = agent
        .answer(asked_by("eve", "falconberg?"), sink)
        .await
        .unwrap_err();
    assert_eq!(error.code(), "no_documents");
}
