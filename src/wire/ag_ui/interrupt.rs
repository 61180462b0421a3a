//! The questions at which a run ends, and what the next run of its thread gets for each.

use serde_json::{Value, json};

/// The answers to a question of yes or no, in this order.
const YES_NO: [&str; 2] = ["Approve", "Deny"];

/// A question at which a run has ended. The next run of the thread continues with its answer.
///
/// ```
/// use ragwire::wire::Decode;
/// use ragwire::wire::ag_ui::AgUiDecoder;
/// use serde_json::json;
///
/// let mut decoder = AgUiDecoder::default();
/// decoder.feed(b"data: {\"type\":\"RUN_FINISHED\",\"outcome\":{\"type\":\"interrupt\",\"interrupts\":[\
///     {\"id\":\"i\",\"reason\":\"input_required\",\"message\":\"Which year?\"}]}}\n\n");
/// let asked = &decoder.interrupts()[0];
/// assert_eq!(asked.id, "i");
/// // A member of `resume` in the next `RunAgentInput`:
/// let entry = json!({"interruptId": "i", "status": "resolved", "payload": "2024"});
/// assert_eq!(asked.resume_entry("2024".into()), Some(entry));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interrupt {
    /// The ID of the question in `input_requested`.
    pub id: String,
    place: Place,
}

/// Where the answer goes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Into `resume`, for the interrupt with this ID.
    Resume {
        interrupt: String,
        form: Form,
        is_ours: bool,
    },
    /// Into the messages, as the result of a call of a tool of the client, whose ID the question has.
    Tool,
}

/// The form of an answer, by the interrupt's `responseSchema`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// As it is.
    Value,
    /// `true` or `false`.
    Boolean,
    /// `{"approved": true}` or `{"approved": false}`.
    Approved,
}

impl Form {
    fn of(interrupt: &Value) -> Self {
        let schema = &interrupt["responseSchema"];
        if schema["properties"]["approved"]["type"] == "boolean" {
            Self::Approved
        } else if schema["type"] == "boolean" {
            Self::Boolean
        } else if schema.is_null() && interrupt["toolCallId"].is_string() {
            // The approval of a call.
            Self::Approved
        } else {
            Self::Value
        }
    }

    fn value(self, answer: Value) -> Value {
        let is_yes = || answer == YES_NO[0] || answer == true;
        match self {
            Self::Boolean => is_yes().into(),
            Self::Approved => json!({"approved": is_yes()}),
            Self::Value => answer,
        }
    }
}

impl Interrupt {
    /// A question of ours, which preceded the end of its run.
    pub(super) fn ours(question: &str, interrupt: &str) -> Self {
        let place = Place::Resume {
            interrupt: interrupt.to_owned(),
            form: Form::Value,
            is_ours: true,
        };
        Self {
            id: question.to_owned(),
            place,
        }
    }

    /// Reads an interrupt. Returns it with the answers to choose from.
    pub(super) fn read(id: &str, interrupt: &Value) -> (Self, Option<Value>) {
        let form = Form::of(interrupt);
        let options = match form {
            Form::Value => {
                let options = interrupt["responseSchema"]["enum"].as_array();
                options.map(|options| options.clone().into())
            }
            Form::Boolean | Form::Approved => Some(json!(YES_NO)),
        };
        let place = Place::Resume {
            interrupt: id.to_owned(),
            form,
            is_ours: false,
        };
        let id = id.to_owned();
        (Self { id, place }, options)
    }

    /// Returns `true` if the answers are yes and no.
    pub(super) fn is_approval(&self) -> bool {
        matches!(
            self.place,
            Place::Resume {
                form: Form::Boolean | Form::Approved,
                ..
            }
        )
    }

    /// A call of a tool of the client.
    pub(super) fn tool(call: &str) -> Self {
        Self {
            id: call.to_owned(),
            place: Place::Tool,
        }
    }

    /// Returns `true` if the turn of a server of this crate asked: the next run continues the same
    /// text.
    pub fn continues_text(&self) -> bool {
        matches!(self.place, Place::Resume { is_ours: true, .. })
    }

    /// Returns the member of `resume` with this answer, in the form that the interrupt's
    /// `responseSchema` asks for. `None` for a call of a tool of the client:
    /// [`result_of`](Self::result_of).
    pub fn resume_entry(&self, answer: Value) -> Option<Value> {
        match &self.place {
            Place::Resume { interrupt, form, .. } => Some(json!({
                "interruptId": interrupt,
                "status": "resolved",
                "payload": form.value(answer),
            })),
            Place::Tool => None,
        }
    }

    /// Returns the ID of the call whose result is the answer. It is the content of a message of the
    /// role `tool`. `None` for an interrupt: [`resume_entry`](Self::resume_entry).
    pub fn result_of(&self) -> Option<&str> {
        match self.place {
            Place::Resume { .. } => None,
            Place::Tool => Some(&self.id),
        }
    }
}
