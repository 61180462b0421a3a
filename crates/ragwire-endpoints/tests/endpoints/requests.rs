//! The request types without the routes, as an application's own handlers use them.

use ragwire::Question;
use ragwire::event::Mode;
use ragwire::http::gateway::ServiceKind;
use ragwire::session::Role;
use ragwire_endpoints::{
    Refusal, ag_ui, ai_sdk, eve, forge, langgraph, mcp, ollama, openai, rag, responses, session_chat,
    trustgraph, turns,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read<T: DeserializeOwned>(body: Value) -> T {
    serde_json::from_value(body).unwrap()
}

#[test]
fn the_request_of_every_protocol_is_a_question() {
    let conversation = json!([
        { "role": "user", "content": "Hello" },
        { "role": "assistant", "content": "Hi" },
        { "role": "user", "content": "Why?" },
    ]);
    let ui = json!([{ "id": "1", "role": "user", "parts": [{ "type": "text", "text": "Why?" }] }]);
    let with_messages = |messages: &Value| json!({ "model": "m", "messages": messages });
    let openai: openai::ChatCompletionRequest = read(with_messages(&conversation));
    let responses: responses::ResponseRequest = read(json!({ "model": "m", "input": conversation }));
    let ollama: ollama::ChatRequest = read(with_messages(&conversation));
    let generate: ollama::GenerateRequest = read(json!({ "model": "m", "prompt": "Why?" }));
    let run: langgraph::RunRequest = read(json!({ "input": { "messages": conversation } }));
    let run_input: ag_ui::RunAgentInput = read(json!({
        "threadId": "t", "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{ "id": "1", "role": "user", "content": "Why?" }],
    }));
    let ask: mcp::AskArguments = read(json!({ "question": "Why?", "mode": "direct", "filter": { "a": 1 } }));
    let ai_sdk: ai_sdk::ChatRequest = read(json!({ "id": "c", "messages": ui }));
    let eve: eve::MessageRequest = read(json!({ "message": "Why?" }));
    let forge: forge::QueryRequest = read(json!({ "query": "Why?" }));
    let chat: session_chat::ChatRequest = read(json!({ "message": "Why?" }));
    let query: trustgraph::QueryRequest = read(json!({ "query": "Why?" }));
    let prompt: rag::QuestionRequest = read(json!({ "prompt": "Why?" }));
    let turn: turns::QuestionRequest = read(json!({ "prompt": "Why?" }));
    let asked: [(&str, Result<Question, Refusal>, usize); 14] = [
        ("openai", openai.question(), 2),
        ("responses", responses.question(), 2),
        ("ollama", ollama.question(), 2),
        ("ollama generate", generate.question(), 0),
        ("langgraph", run.question(), 2),
        ("ag_ui", run_input.question(), 0),
        ("mcp", Ok(ask.question()), 0),
        ("ai_sdk", ai_sdk.question(), 0),
        ("eve", eve.question(), 0),
        ("forge", Ok(forge.question()), 0),
        ("session_chat", Ok(chat.question()), 0),
        ("trustgraph", query.question(ServiceKind::GraphRag), 0),
        ("rag", Ok(prompt.question()), 0),
        ("turns", Ok(turn.question()), 0),
    ];
    for (protocol, question, earlier) in asked {
        let question = question.unwrap_or_else(|refusal| panic!("{protocol}: {refusal:?}"));
        assert_eq!(question.prompt, "Why?", "{protocol}");
        let roles: Vec<Role> = question.history.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant][..earlier], "{protocol}");
    }
}

#[test]
fn a_request_keeps_what_it_asks_for() {
    let schema = json!({ "type": "object", "properties": { "answer": { "type": "string" } } });
    let responses: responses::ResponseRequest = read(json!({
        "model": "m",
        "input": "Why?",
        "instructions": "Be brief.",
        "reasoning": { "effort": "low" },
        "text": { "format": { "type": "json_schema", "name": "a", "schema": schema } },
        "temperature": 0.5,
    }));
    assert_eq!(responses.check(&[]).unwrap_err().name, "temperature");
    assert!(responses.check(&["temperature".to_owned()]).is_ok());
    let question = responses.question().unwrap();
    assert_eq!(question.options.instructions.as_deref(), Some("Be brief."));
    assert_eq!(question.options.output_schema.as_ref(), Some(&schema));

    let image = "iVBORw0KGgo=";
    let generate: ollama::GenerateRequest = read(json!({
        "model": "m", "prompt": "Why?", "system": "Be brief.", "images": [image], "format": schema,
    }));
    let question = generate.question().unwrap();
    assert_eq!(question.options.instructions.as_deref(), Some("Be brief."));
    assert_eq!(question.options.output_schema.as_ref(), Some(&schema));
    assert_eq!(question.attachments.len(), 1);
    let format: ollama::ChatRequest = read(json!({
        "model": "m", "messages": [{ "role": "user", "content": "Why?" }], "format": "yaml",
    }));
    assert_eq!(
        format.question().unwrap_err().failure.code(),
        "unsupported_option"
    );

    let run: langgraph::RunRequest = read(json!({ "input": { "question": "Why?", "tenant": "a" } }));
    let question = run.question().unwrap();
    assert_eq!(
        (&*question.prompt, &question.options.extra["tenant"]),
        ("Why?", &json!("a"))
    );
    let messages = json!([{ "type": "human", "content": "Why?" }]);
    let run: langgraph::RunRequest = read(json!({ "input": { "messages": messages, "tenant": "a" } }));
    assert_eq!(run.question().unwrap().options.extra["tenant"], "a");

    let ask: mcp::AskArguments = read(json!({ "question": "Why?", "mode": "direct" }));
    assert_eq!(ask.question().mode, Some(Mode::Direct));
}
