//! The request of a run, and how it starts.

use axum::response::Response;
use http::HeaderValue;
use http::header::{CONTENT_LOCATION, LOCATION};
use ragwire::session::{Message, Role, Session};
use ragwire::turn::TurnId;
use ragwire::wire::langgraph::Modes;
use ragwire::{LangGraph, Question, Turn};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::oneshot;
use utoipa::ToSchema;

use super::state::{self, RunState};
use super::{conflict, index, no_question, record};
use crate::caller::{self, Caller};
use crate::human::{HumanAnswer, Verdict};
use crate::lane::Lane;
use crate::refusal::Refusal;
use crate::request::invalid;
use crate::start::{Conversation, Reader, TurnRequest};
use crate::turns::answers;

/// The body of a run. Other members, such as `config`, `checkpoint` and `interrupt_before`, are
/// ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = LangGraphRunRequest)]
#[non_exhaustive]
pub struct RunRequest {
    /// Any name: there is one assistant.
    pub assistant_id: Option<String>,
    /// `messages`, of which the last human one is the question; or `question`, `prompt`, `query` or
    /// `input` as a string.
    #[serde(default)]
    #[schema(required = false)]
    pub input: Value,
    /// `resume`: the answer to the question that the newest run of the thread waits for.
    #[serde(default)]
    pub command: Value,
    /// A name or a list of names. Default: `values`.
    #[serde(default)]
    pub stream_mode: Value,
    /// `cancel` ends the run with its connection. Default: `continue`.
    pub on_disconnect: Option<String>,
    /// What happens to a run of the thread that is still running: `reject` refuses this one,
    /// `interrupt` and `rollback` stop it. Default: `enqueue`, this one waits.
    pub multitask_strategy: Option<String>,
    /// `create` creates the thread if it does not exist. Default: `reject`.
    pub if_not_exists: Option<String>,
}

/// The members of `input` that a question may be in, if there are no messages.
const QUESTION: [&str; 4] = ["question", "prompt", "query", "input"];

impl RunRequest {
    /// Returns what a disconnect means.
    pub(crate) fn reader(&self) -> Reader {
        match self.on_disconnect.as_deref() {
            Some("cancel") => Reader::Leaving,
            _ => Reader::Absent,
        }
    }

    fn modes(&self) -> Modes {
        let listed = match &self.stream_mode {
            Value::String(name) => vec![name.clone()],
            Value::Array(names) => names
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            _ => Vec::new(),
        };
        modes_of(listed).unwrap_or_else(|| Modes::of(["values"]))
    }

    /// Returns the question, with the earlier messages of `input` as its history and the other members
    /// of `input` in `options.extra`. Add the messages of the thread yourself.
    ///
    /// # Errors
    ///
    /// 422 if `input` has neither a message of the user nor a question.
    pub fn question(&self) -> Result<Question, Refusal> {
        let member = |name: &&str| self.input[*name].as_str().or_else(|| self.input.as_str());
        let text = |name: &&str| member(name).filter(|text| !text.trim().is_empty());
        let (mut question, history) = match QUESTION.iter().find_map(text) {
            Some(text) => (Question::new(text), Vec::new()),
            None => self.last_of_messages()?,
        };
        let members = self.input.as_object().into_iter().flatten();
        let others = members.filter(|(name, _)| *name != "messages" && !QUESTION.contains(&name.as_str()));
        question.options.extra = others
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        question.history = history;
        Ok(question)
    }

    /// Returns the newest message of the user as the question, and the messages before it.
    fn last_of_messages(&self) -> Result<(Question, Vec<Message>), Refusal> {
        let mut messages: Vec<Message> = match &self.input["messages"] {
            Value::Array(messages) => messages.iter().filter_map(message).collect(),
            text @ Value::String(_) => message(text).into_iter().collect(),
            _ => Vec::new(),
        };
        let at = messages.iter().rposition(|message| message.role == Role::User);
        messages.truncate(at.map_or(0, |at| at + 1));
        let question = messages.pop().ok_or_else(no_question)?;
        Ok((Question::new(question.text), messages))
    }
}

/// Reads the names in a query parameter: one, or a JSON array as the JavaScript client writes it.
pub(super) fn names(value: &str) -> Vec<String> {
    serde_json::from_str(value).unwrap_or_else(|_| vec![value.to_owned()])
}

/// The modes of these names; `None` without any.
pub(super) fn modes_of(names: impl IntoIterator<Item = String>) -> Option<Modes> {
    let names: Vec<String> = names.into_iter().collect();
    (!names.is_empty()).then(|| Modes::of(names.iter().map(String::as_str)))
}

/// A message of LangChain: a string, `{type, content}`, `{role, content}` or `[role, content]`.
pub(super) fn message(message: &Value) -> Option<Message> {
    let (role, content) = match message {
        Value::String(_) => ("human", message),
        Value::Array(pair) => (pair.first()?.as_str()?, pair.get(1)?),
        message => {
            let role = message["type"].as_str().or_else(|| message["role"].as_str())?;
            (role, &message["content"])
        }
    };
    let role = match role {
        "human" | "user" => Role::User,
        "ai" | "assistant" => Role::Assistant,
        _ => return None,
    };
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks
                .iter()
                .filter_map(|block| block["text"].as_str().or_else(|| block.as_str()));
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => return None,
    };
    (!text.trim().is_empty()).then(|| Message::new(role, text))
}

/// A turn and the wire of its reader.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) turn: Turn,
    pub(super) wire: LangGraph,
}

impl Started {
    /// Streams the run, with the headers from which clients reconnect. The paths are relative to the
    /// clients' base URL, which contains a prefix.
    pub(super) fn respond(self, thread: Option<&str>) -> Response {
        let run = run_path(thread, self.turn.id());
        let mut response = caller::stream(self.turn, self.wire);
        for (name, path) in [(LOCATION, format!("{run}/stream")), (CONTENT_LOCATION, run)] {
            if let Ok(path) = HeaderValue::try_from(path) {
                response.headers_mut().insert(name, path);
            }
        }
        response
    }
}

/// The path of a run.
pub(super) fn run_path(thread: Option<&str>, id: TurnId) -> String {
    match thread {
        Some(thread) => format!("/threads/{thread}/runs/{id}"),
        None => format!("/runs/{id}"),
    }
}

/// The wire of a run of a thread, after these messages.
pub(super) fn wire(thread: &str, id: TurnId, messages: Vec<Value>) -> LangGraph {
    LangGraph::new(id.to_string())
        .thread(thread)
        .messages(messages)
        .parks()
}

/// Starts a run, or continues the one that waits for the answer in `command`.
pub(super) async fn start(
    caller: &Caller,
    thread: Option<&str>,
    run: RunRequest,
    reader: Reader,
) -> Result<Started, Refusal> {
    let modes = run.modes();
    let resume = run.command.get("resume").filter(|answer| !answer.is_null());
    if let (Some(answer), Some(thread)) = (resume, thread) {
        return answer_question(caller, thread, answer, modes).await;
    }
    let mut question = run.question()?;
    let Some(thread) = thread else {
        let before = state::messages("run", question.history.iter().chain([&asked(&question)]));
        let turn = caller.start(reader, question).await?;
        let wire = LangGraph::new(turn.id().to_string())
            .modes(modes)
            .messages(before);
        return Ok(Started { turn, wire });
    };
    match run.multitask_strategy.as_deref() {
        Some("interrupt" | "rollback") => {
            let lane = Lane::session(&caller.owner, thread);
            caller.stop_newest(&lane).await?;
        }
        Some("reject") if state::is_running(caller, thread).await? => return Err(busy()),
        _ => {}
    }
    let id = thread.to_owned();
    let conversation = match run.if_not_exists.as_deref() {
        Some("create") => Conversation::Session(id),
        _ => Conversation::ExistingSession(id),
    };
    // The thread has the earlier messages.
    question.history.clear();
    let asked = asked(&question);
    let (sender, mut receiver) = oneshot::channel::<Session>();
    let mut turn_request = TurnRequest::new(question).conversation(conversation);
    turn_request.on_end = Some(record::end);
    let turn = caller
        .start_in_session(reader, turn_request, move |session| drop(sender.send(session)))
        .await?;
    record::begin(caller, thread, turn.id()).await;
    index::touch(caller, thread).await;
    let before = match receiver.try_recv() {
        Ok(session) => state::messages(thread, &session.messages),
        // The turn waits for another one of the thread.
        Err(_) => {
            let session = caller.session(thread).await?;
            state::messages(thread, session.messages.iter().chain([&asked]))
        }
    };
    let wire = wire(thread, turn.id(), before).modes(modes);
    Ok(Started { turn, wire })
}

/// The refusal of what a running run of the thread forbids.
pub(super) fn busy() -> Refusal {
    conflict("thread_busy", "A run of this thread is still running.")
}

fn asked(question: &Question) -> Message {
    Message::new(Role::User, question.prompt.clone())
}

/// Passes an answer to the run that waits for it and continues its stream.
async fn answer_question(
    caller: &Caller,
    thread: &str,
    answer: &Value,
    modes: Modes,
) -> Result<Started, Refusal> {
    let nothing = || conflict("no_question", "No run of this thread waits for an answer.");
    let id = state::newest(caller, thread).await?.ok_or_else(nothing)?;
    let before = state::messages_before(caller, thread).await;
    let wire = wire(thread, id, before).modes(modes);
    let waiting = RunState::read(caller, id, wire.clone()).await?;
    let request_id = waiting.question().ok_or_else(nothing)?.to_owned();
    // Either the answer itself, or answers by the IDs of their interrupts.
    let answer = answer.get(&request_id).unwrap_or(answer);
    let verdict = match answer {
        Value::Bool(approved) => Verdict::Approval(*approved),
        answer => match decision(answer) {
            Some(approved) => Verdict::Approval(approved),
            None => Verdict::Response(answer.clone()),
        },
    };
    if request_id.is_empty() {
        return Err(invalid("The question has no id."));
    }
    let answers = vec![HumanAnswer { request_id, verdict }];
    let turn = answers::answer_and_resume(caller, id, answers, &wire).await?;
    Ok(Started { turn, wire })
}

/// The verdict in an answer of LangChain's human in the loop: `{decisions: [{type}]}`.
fn decision(answer: &Value) -> Option<bool> {
    match answer["decisions"][0]["type"].as_str()? {
        "approve" => Some(true),
        "reject" => Some(false),
        _ => None,
    }
}
