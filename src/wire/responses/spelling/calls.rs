//! Searches and calls of tools, which the server has run, as items of the output.

use bytes::BytesMut;
use serde_json::{Value, json};

use super::ResponsesSpelling;
use super::items::{McpCall, Outcome, Search};
use crate::event::{ToolCall, ToolResult};
use crate::wire::activity::Activity;
use crate::wire::calls::Call;
use crate::wire::responses::output::{ITEM_BYTES, of_item};

impl ResponsesSpelling {
    pub(super) fn show(&mut self, activities: Vec<Activity<'_>>, out: &mut BytesMut) {
        for activity in activities {
            match activity {
                Activity::Call { id, input, .. } => self.open_search(id, input.query(), out),
                Activity::Result { id, .. } => self.close_search(&id, "completed", out),
            }
        }
    }

    fn open_search(&mut self, activity: String, query: &str, out: &mut BytesMut) {
        if !self.output.reserve(ITEM_BYTES + query.len()) {
            return;
        }
        self.close_thought("completed", out);
        let (index, id) = self.add("fs");
        let queries = if query.is_empty() {
            Vec::new()
        } else {
            vec![query.to_owned()]
        };
        let search = Search { index, id, queries };
        self.write_added(index, &search.item("in_progress"), out);
        let members = of_item(&search.id, index, Value::Null);
        for kind in [
            "response.file_search_call.in_progress",
            "response.file_search_call.searching",
        ] {
            self.events.write(kind, &members, out);
        }
        self.searches.push((activity, search));
    }

    pub(super) fn close_search(&mut self, activity: &str, status: &str, out: &mut BytesMut) {
        let Some(at) = self.searches.iter().position(|(id, _)| id == activity) else {
            return;
        };
        let (_, search) = self.searches.remove(at);
        if status == "completed" {
            let members = of_item(&search.id, search.index, Value::Null);
            self.events
                .write("response.file_search_call.completed", &members, out);
        }
        self.write_done(search.index, &search.item(status), out);
    }

    fn open_call(&mut self, id: Option<&str>, tool: &str, input: &Value, out: &mut BytesMut) -> String {
        let call_id = id.map_or_else(
            || {
                self.unnamed_calls += 1;
                format!("ragwire-call-{}", self.unnamed_calls)
            },
            str::to_owned,
        );
        // A call with the ID of an open one replaces it.
        self.close_call(&call_id, &Outcome::None, out);
        let arguments = if input.is_null() {
            "{}".to_owned()
        } else {
            input.to_string()
        };
        let bytes = ITEM_BYTES + tool.len() + arguments.len() + call_id.len();
        if !self.output.reserve(bytes) {
            return call_id;
        }
        self.close_thought("completed", out);
        let (index, item_id) = self.add("mcp");
        let call = McpCall {
            index,
            id: item_id,
            name: tool.to_owned(),
            arguments,
        };
        self.write_added(index, &call.item("in_progress", "", None, None), out);
        let members = |more| of_item(&call.id, index, more);
        self.events
            .write("response.mcp_call.in_progress", &members(Value::Null), out);
        let delta = members(json!({"delta": call.arguments}));
        self.events
            .write("response.mcp_call_arguments.delta", &delta, out);
        let done = members(json!({"arguments": call.arguments}));
        self.events.write("response.mcp_call_arguments.done", &done, out);
        self.open_calls.push((call_id.clone(), call));
        self.calls.open(Call {
            tool: tool.to_owned(),
            id: call_id.clone(),
            unnamed: id.is_none(),
        });
        while let Some(excess) = self.calls.take_excess() {
            self.finish_call(&excess.id, &Outcome::None, out);
        }
        call_id
    }

    pub(super) fn show_call(&mut self, call: &ToolCall, out: &mut BytesMut) {
        self.open_call(call.call_id.as_deref(), &call.tool, &call.input, out);
    }

    pub(super) fn show_result(&mut self, result: &ToolResult, out: &mut BytesMut) {
        let answered = self.calls.answered_by(result.call_id.as_deref(), &result.tool);
        let id = match answered {
            Some((_, call)) => call.id.clone(),
            None => self.open_call(result.call_id.as_deref(), &result.tool, &Value::Null, out),
        };
        let text = match &result.result {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            value => value.to_string(),
        };
        // Only its text is left out if it does not fit.
        let text = if self.output.reserve(text.len()) {
            text
        } else {
            String::new()
        };
        let outcome = if result.is_error == Some(true) {
            Outcome::Error(text)
        } else {
            Outcome::Output(text)
        };
        self.close_call(&id, &outcome, out);
    }

    fn close_call(&mut self, id: &str, outcome: &Outcome, out: &mut BytesMut) {
        self.calls.close(id);
        self.finish_call(id, outcome, out);
    }

    pub(super) fn finish_call(&mut self, id: &str, outcome: &Outcome, out: &mut BytesMut) {
        let Some(at) = self.open_calls.iter().position(|(open, _)| open == id) else {
            return;
        };
        let (_, call) = self.open_calls.remove(at);
        let (status, output, error) = match outcome {
            Outcome::Output(output) => ("completed", Some(output.as_str()), None),
            Outcome::Error(error) => ("failed", None, Some(error.as_str())),
            Outcome::None => ("incomplete", None, None),
        };
        if !matches!(outcome, Outcome::None) {
            let members = of_item(&call.id, call.index, Value::Null);
            self.events
                .write(&format!("response.mcp_call.{status}"), &members, out);
        }
        let item = call.item(status, &call.arguments, output, error);
        self.write_done(call.index, &item, out);
    }
}
