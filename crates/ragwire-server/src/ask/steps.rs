//! One line for each step of a turn, in the words of the page.

use ragwire::event::{CragEvaluation, Event, InputRequested, Queued, Review, Search, Verification};
use serde_json::Value;

/// Describes an event in one line, or returns `None` for one that repeats another.
pub(super) fn describe(event: &Event) -> Option<String> {
    Some(match event {
        Event::Search(Search { tool, query, .. }) => match query.as_deref() {
            Some(query) => format!("searching with {tool}: {query}"),
            None => format!("searching with {tool}"),
        },
        Event::Reasoning(reasoning) => reasoning.content.replace('\n', " "),
        Event::Review(review) => reviewed(review),
        Event::QueryAnalysis(analysis) if analysis.decomposed => "split the question into parts".to_owned(),
        Event::RetrievalResult(result) => {
            let found = count(result.chunks_found, "passage");
            format!("found {found} in {} ms", result.duration_ms)
        }
        Event::CragEvaluation(gate) => judged(gate),
        Event::RerankResult(result) if result.input_count > result.output_count => {
            format!("kept the best {} of {}", result.output_count, result.input_count)
        }
        Event::Sources(sources) => {
            let passages = u32::try_from(sources.sources.len()).unwrap_or(u32::MAX);
            format!("reading {}", count(passages, "passage"))
        }
        Event::GenerationStart(start) => match start.model.as_str() {
            EXTRACTIVE => "choosing sentences".to_owned(),
            model => format!("writing the answer with {model}"),
        },
        Event::Verification(checked) => verified(checked),
        Event::GraphExplanation(explanation) => {
            let triples = u32::try_from(explanation.triples.len()).unwrap_or(u32::MAX);
            format!("followed {}", count(triples, "statement"))
        }
        Event::ToolCall(call) => format!("calling {}", call.tool),
        Event::ToolResult(result) if result.is_error == Some(true) => format!("{} failed", result.tool),
        Event::ToolResult(result) => format!("{} answered", result.tool),
        Event::CacheHit(hit) => format!("using the answer to: {}", hit.original_query),
        Event::Queued(queued) => waiting(queued),
        Event::Retract(_) => "the text so far is withdrawn; the text below replaces it".to_owned(),
        Event::InputRequested(asked) => asks(asked),
        Event::InputResolved(resolved) => match &resolved.response {
            Some(Value::String(text)) => format!("answered: {text}"),
            Some(other) => format!("answered: {other}"),
            None => "not answered".to_owned(),
        },
        Event::AuthorizationRequired(wanted) => {
            format!("authorize {} at {}", wanted.connection, wanted.auth_url)
        }
        Event::AuthorizationCompleted(done) => format!("{}: {}", done.connection, done.outcome.as_str()),
        Event::RoundStart(round) => format!("round {} of {}", round.round, round.max_rounds),
        Event::QueryAnalysis(_)
        | Event::CacheMiss(_)
        | Event::RetrievalStart(_)
        | Event::RerankResult(_)
        | Event::Generating(_)
        | Event::Thinking(_)
        | Event::StructuredResult(_) => return None,
        _ => event.name().replace('_', " "),
    })
}

/// The name of the writer that quotes.
const EXTRACTIVE: &str = "extractive";

fn count(number: u32, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {one}s"),
    }
}

fn judged(gate: &CragEvaluation) -> String {
    let all = gate.correct + gate.ambiguous + gate.incorrect;
    if all == 0 {
        return "no passage to judge".to_owned();
    }
    let in_part = match gate.ambiguous {
        0 => String::new(),
        some => format!(", {some} in part"),
    };
    let passages = count(all, "passage");
    format!("{} of {passages} fit the question{in_part}", gate.correct)
}

fn verified(checked: &Verification) -> String {
    let claims = count(checked.claims_checked, "claim");
    format!("{} of {claims} supported", checked.claims_supported)
}

fn reviewed(review: &Review) -> String {
    let verdict = review.verdict.as_str();
    match review.feedback.as_deref() {
        Some(feedback) => format!("review {}: {verdict}: {feedback}", review.iteration),
        None => format!("review {}: {verdict}", review.iteration),
    }
}

fn waiting(queued: &Queued) -> String {
    match queued.ahead {
        0 => "waiting; this question is next".to_owned(),
        1 => "waiting; 1 question is ahead".to_owned(),
        ahead => format!("waiting; {ahead} questions are ahead"),
    }
}

fn asks(asked: &InputRequested) -> String {
    let options = match asked.options.as_deref() {
        None | Some([]) => String::new(),
        Some(options) => format!(" ({})", options.join(", ")),
    };
    format!("the turn asks: {}{options}", asked.prompt)
}
