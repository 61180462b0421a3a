//! The questions at which a run ends, and the value with which the next run of its thread continues.

use serde_json::{Map, Value, json};

/// A question at which a run has ended. The next run of the thread continues with its answer.
///
/// ```
/// use ragwire::wire::Decode;
/// use ragwire::wire::langgraph::resume;
/// use ragwire::LangGraph;
///
/// let mut decoder = LangGraph::new("").decoder();
/// decoder.feed(b"event: updates\ndata: {\"__interrupt__\":[{\"value\":\"Which year?\",\"id\":\"i\"}]}\n\n");
/// decoder.by_ref().for_each(drop);
/// let asked = decoder.interrupts()[0].clone();
/// assert_eq!(asked.id, "i");
/// // The next run: {"assistant_id": …, "command": {"resume": "2024"}}
/// assert_eq!(resume([(asked, "2024".into())]), "2024");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interrupt {
    /// The ID of the question in `input_requested`: the interrupt's own, or `interrupt` if it has
    /// none.
    pub id: String,
    /// Number of tool calls that one answer decides on, in LangChain's human in the loop.
    decisions: Option<usize>,
}

impl Interrupt {
    /// Reads an interrupt, whose question has the ID `id`.
    pub(super) fn read(interrupt: &Value, id: String) -> Self {
        let requests = interrupt["value"]["action_requests"].as_array();
        Self {
            id,
            decisions: requests.map(Vec::len),
        }
    }

    /// Returns what `interrupt()` returns in the graph: the answer, or one decision for each tool
    /// call.
    fn value(&self, answer: Value) -> Value {
        match self.decisions {
            None => answer,
            Some(count) => {
                let decision = json!({"type": answer});
                json!({"decisions": vec![decision; count]})
            }
        }
    }
}

/// Returns the `command.resume` of the next run, with the answer to each interrupt of this one: the
/// value itself for a single one, which every version of LangGraph reads, otherwise the values by ID.
pub fn resume(answers: impl IntoIterator<Item = (Interrupt, Value)>) -> Value {
    let mut answers: Vec<(String, Value)> = answers
        .into_iter()
        .map(|(interrupt, answer)| {
            let value = interrupt.value(answer);
            (interrupt.id, value)
        })
        .collect();
    match answers.len() {
        1 => answers.swap_remove(0).1,
        _ => Value::Object(answers.into_iter().collect::<Map<_, _>>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_form_that_the_graph_expects() {
        let read = |interrupt: Value, id: &str| Interrupt::read(&interrupt, id.to_owned());
        let text = read(json!({"value": "Which year?"}), "a");
        let action = json!({"name": "buy", "args": {}});
        let calls = read(json!({"value": {"action_requests": [action, action]}}), "b");
        for (answers, expected) in [
            (vec![(text.clone(), json!("2024"))], json!("2024")),
            (
                vec![(calls.clone(), json!("approve"))],
                json!({"decisions": [{"type": "approve"}, {"type": "approve"}]}),
            ),
            (
                vec![(text, json!("2024")), (calls, json!("reject"))],
                json!({"a": "2024", "b": {"decisions": [{"type": "reject"}, {"type": "reject"}]}}),
            ),
        ] {
            assert_eq!(resume(answers), expected);
        }
    }
}
