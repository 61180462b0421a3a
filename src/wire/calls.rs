//! Tool calls without a result yet, for wires that must say which call a result answers. The memory
//! is bounded, whatever a turn does.

use std::collections::VecDeque;

/// The tool that asks a human, on wires where a question is a tool. The name is Eve's.
pub(super) const ASK: &str = "ask_question";
/// The maximum number of calls without a result. An agent has a handful at once; more than this are
/// calls whose results never arrive.
pub(super) const MAX_OPEN_CALLS: usize = 64;
/// The maximum size of their names and IDs together: 1 KiB for each call. The IDs of model servers
/// have a few dozen bytes.
pub(super) const MAX_OPEN_CALL_BYTES: usize = MAX_OPEN_CALLS * 1024;

/// A call without a result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) id: String,
    /// Whether the call arrived without an ID and got one here, so that a result with another ID
    /// may answer it.
    pub(super) unnamed: bool,
}

impl Call {
    fn bytes(&self) -> usize {
        self.tool.len() + self.id.len()
    }
}

/// Calls without a result yet, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    open: VecDeque<Call>,
    bytes: usize,
}

impl Calls {
    /// Remembers a call. A call with the ID of another replaces it.
    pub(super) fn open(&mut self, call: Call) {
        if let Some(at) = self.open.iter().position(|open| open.id == call.id) {
            self.take(at);
        }
        self.bytes += call.bytes();
        self.open.push_back(call);
    }

    /// Removes and returns the oldest call if there are more than the limits allow. Call it after
    /// each [`open`](Self::open) until it returns `None`.
    pub(super) fn take_excess(&mut self) -> Option<Call> {
        let full = self.open.len() > MAX_OPEN_CALLS || self.bytes > MAX_OPEN_CALL_BYTES;
        if full { self.take(0) } else { None }
    }

    /// Remembers a call, and removes the oldest calls over the limits.
    pub(super) fn open_bounded(&mut self, call: Call) {
        self.open(call);
        while self.take_excess().is_some() {}
    }

    /// Returns the call that a result answers: the one with its ID. For a result without an ID it
    /// is the oldest call of the tool; if no call has the ID, the oldest call of the tool that came
    /// without one.
    pub(super) fn answered_by(&self, id: Option<&str>, tool: &str) -> Option<(usize, &Call)> {
        let find =
            |answers: &dyn Fn(&Call) -> bool| self.open.iter().enumerate().find(|(_, call)| answers(call));
        find(&|call| match id {
            Some(id) => call.id == id,
            None => call.tool == tool,
        })
        .or_else(|| find(&|call| call.unnamed && call.tool == tool))
    }

    /// Returns `true` if a call with this ID has no result yet.
    pub(super) fn has(&self, id: &str) -> bool {
        self.open.iter().any(|call| call.id == id)
    }

    /// Returns `true` if calls have no result yet, and none of them asks a human.
    pub(super) fn has_only_tools(&self) -> bool {
        !self.open.is_empty() && self.open.iter().all(|call| call.tool != ASK)
    }

    /// Removes a call.
    pub(super) fn take(&mut self, at: usize) -> Option<Call> {
        let call = self.open.remove(at)?;
        self.bytes -= call.bytes();
        Some(call)
    }

    /// Removes the call with this ID.
    pub(super) fn close(&mut self, id: &str) {
        if let Some(at) = self.open.iter().position(|call| call.id == id) {
            self.take(at);
        }
    }

    /// Forgets all calls.
    pub(super) fn take_all(&mut self) -> VecDeque<Call> {
        std::mem::take(self).open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: usize, tool: &str) -> Call {
        Call {
            id: format!("c{number}"),
            tool: tool.to_owned(),
            unnamed: number.is_multiple_of(2),
        }
    }

    #[test]
    fn the_memory_of_calls_is_bounded() {
        let mut calls = Calls::default();
        for number in 0..=MAX_OPEN_CALLS {
            calls.open(call(number, "t"));
        }
        assert_eq!(calls.take_excess(), Some(call(0, "t")));
        assert_eq!(calls.take_excess(), None);
        let long = Call {
            tool: "t".repeat(MAX_OPEN_CALL_BYTES),
            ..call(1000, "")
        };
        calls.open(long.clone());
        let forgotten: Vec<Call> = std::iter::from_fn(|| calls.take_excess()).collect();
        let expected: Vec<Call> = (1..=MAX_OPEN_CALLS)
            .map(|number| call(number, "t"))
            .chain([long])
            .collect();
        assert_eq!(forgotten, expected);
        assert_eq!((calls.open.len(), calls.bytes), (0, 0));
    }

    #[test]
    fn answers_find_their_call() {
        let mut calls = Calls::default();
        for (number, tool) in [(1, "a"), (2, "b"), (3, "a"), (4, "a")] {
            calls.open(call(number, tool));
        }
        let find = |calls: &Calls, id, tool| calls.answered_by(id, tool).map(|(_, call)| call.id.clone());
        for (id, tool, found) in [
            (Some("c3"), "a", Some("c3")),
            (None, "a", Some("c1")),
            (None, "b", Some("c2")),
            (Some("x"), "a", Some("c4")),
            (Some("x"), "c", None),
        ] {
            assert_eq!(find(&calls, id, tool).as_deref(), found, "{id:?} {tool}");
        }
        calls.close("c1");
        assert_eq!(find(&calls, None, "a").as_deref(), Some("c3"));
    }

    #[test]
    fn names_and_ids_of_exactly_the_limit_are_kept() {
        for (bytes, kept) in [(MAX_OPEN_CALL_BYTES, true), (MAX_OPEN_CALL_BYTES + 1, false)] {
            let mut calls = Calls::default();
            calls.open_bounded(Call {
                tool: "t".repeat(bytes - "c1".len()),
                ..call(1, "")
            });
            assert_eq!(calls.has("c1"), kept, "{bytes}");
        }
    }

    #[test]
    fn a_question_to_a_human_is_no_call_of_a_tool() {
        for (tools, has_only_tools) in [
            (&[][..], false),
            (&["t"], true),
            (&[ASK], false),
            (&["t", ASK], false),
        ] {
            let mut calls = Calls::default();
            for (number, tool) in tools.iter().enumerate() {
                calls.open(call(number, tool));
            }
            assert_eq!(calls.has_only_tools(), has_only_tools, "{tools:?}");
        }
    }
}
