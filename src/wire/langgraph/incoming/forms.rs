//! The forms in which LangChain and its integrations write texts, results, documents and questions.

use serde_json::Value;

use crate::event::{InputRequested, Source};
use crate::wire::langgraph::message::REASONING;
use crate::wire::members::Members;
/// The text and the thoughts of a message, in LangChain's forms and in those of its integrations.
pub(super) fn contents(message: &Members) -> (String, String) {
    let (mut text, mut thought) = (String::new(), String::new());
    let kwargs = message.get("additional_kwargs");
    if let Some(reasoning) = kwargs.and_then(|kwargs| kwargs.get(REASONING)?.as_str()) {
        thought.push_str(reasoning);
    }
    match message.get("content") {
        Some(Value::String(content)) => text.push_str(content),
        Some(Value::Array(blocks)) => {
            for block in blocks {
                if let Some(piece) = block.as_str() {
                    text.push_str(piece);
                    continue;
                }
                match block["type"].as_str() {
                    Some("text" | "text_delta" | "output_text") => {
                        text.push_str(block["text"].as_str().unwrap_or_default());
                    }
                    Some("reasoning") => {
                        thought.push_str(block["reasoning"].as_str().unwrap_or_default());
                        for summary in block["summary"].as_array().into_iter().flatten() {
                            thought.push_str(summary["text"].as_str().unwrap_or_default());
                        }
                    }
                    Some("thinking") => thought.push_str(block["thinking"].as_str().unwrap_or_default()),
                    Some("reasoning_content") => {
                        let content = &block["reasoning_content"];
                        thought.push_str(content["text"].as_str().unwrap_or_default());
                    }
                    // Calls, which are in members of their own, images and newer blocks.
                    _ => {}
                }
            }
        }
        _ => {}
    }
    (text, thought)
}

/// The content of a tool's message as a value: the JSON in it, the text of its blocks, or itself.
pub(super) fn output(content: Value) -> Value {
    match content {
        Value::String(text) => match serde_json::from_str::<Value>(&text) {
            Ok(value) if value.is_object() || value.is_array() => value,
            _ => Value::String(text),
        },
        Value::Array(blocks) if blocks.iter().all(|block| block["text"].is_string()) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            output(Value::String(texts.collect::<Vec<_>>().join("\n")))
        }
        other => other,
    }
}

/// A document of LangChain as a source; `None` for anything else.
pub(super) fn source(document: &Value) -> Option<Source> {
    let text = document["page_content"].as_str()?;
    let metadata = &document["metadata"];
    let name = |members: [&str; 3]| {
        let mut found = members.iter().filter_map(|member| metadata[*member].as_str());
        found.next().map(str::to_owned)
    };
    let document_id = name(["source", "url", "file_path"])
        .or_else(|| document["id"].as_str().map(str::to_owned))
        .unwrap_or_default();
    let chunk_id = document["id"]
        .as_str()
        .map_or_else(|| document_id.clone(), str::to_owned);
    let page = metadata["page"]
        .as_u64()
        .and_then(|page| u32::try_from(page).ok());
    // LangChain's loaders count pages from 0, our sources from 1.
    let pages = page.map(|page| page.saturating_add(1)).into_iter().collect();
    let source = Source::new(chunk_id, document_id, text, pages);
    Some(match name(["title", "name", "file_name"]) {
        Some(title) => source.title(title),
        None => source,
    })
}

/// The decisions on a tool call if the request names none.
const DECISIONS: [&str; 2] = ["approve", "reject"];

/// The words of a question.
fn asked(question: &Value) -> Option<&str> {
    let names = ["prompt", "question", "description", "message"];
    names.iter().find_map(|name| question[*name].as_str())
}

fn strings(list: &Value) -> Option<Vec<String>> {
    serde_json::from_value(list.clone()).ok()
}

/// The decisions that all calls of a request allow, except `edit`, which needs other arguments than
/// an answer has.
fn decisions(configs: &Value) -> Option<Vec<String>> {
    let mut configs = configs
        .as_array()?
        .iter()
        .map(|config| strings(&config["allowed_decisions"]));
    let first = configs.next()??;
    let others: Vec<Vec<String>> = configs.collect::<Option<_>>()?;
    let is_allowed =
        |decision: &String| decision != "edit" && others.iter().all(|allowed| allowed.contains(decision));
    let allowed: Vec<String> = first.into_iter().filter(is_allowed).collect();
    (!allowed.is_empty()).then_some(allowed)
}

/// The question of an interrupt: ours, a request of LangChain's human in the loop, or any value.
pub(super) fn request(interrupt: &Value) -> InputRequested {
    let id = ["id", "interrupt_id"]
        .iter()
        .find_map(|name| interrupt[*name].as_str())
        .unwrap_or("interrupt");
    let value = interrupt.get("value").unwrap_or(&Value::Null);
    let actions: Vec<&Value> = match (value.get("action_requests"), value.get("action_request")) {
        (Some(Value::Array(actions)), _) => actions.iter().collect(),
        (Some(action), _) | (None, Some(action)) => vec![action],
        (None, None) => Vec::new(),
    };
    // One answer decides on all calls, so all of them are shown.
    let described = || {
        let words: Option<Vec<&str>> = actions.iter().map(|action| asked(action)).collect();
        words
            .filter(|words| !words.is_empty())
            .map(|words| words.join("\n"))
    };
    let prompt = asked(value)
        .or_else(|| value.as_str())
        .map(str::to_owned)
        .or_else(described)
        .unwrap_or_else(|| value.to_string());
    let kind = value["kind"]
        .as_str()
        .unwrap_or(if actions.is_empty() { "text" } else { "approval" });
    let options = value.get("options").map(strings);
    let options = options.unwrap_or_else(|| {
        let allowed = decisions(&value["review_configs"]);
        let default = || DECISIONS.map(str::to_owned).to_vec();
        allowed.or_else(|| value.get("action_requests").map(|_| default()))
    });
    let request = InputRequested::new(id, kind, prompt);
    match options {
        Some(options) => request.options(options),
        None => request,
    }
}
