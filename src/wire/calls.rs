//! Tool calls that wait for their result, on wires that have to say which call a result answers. Bounded, whatever a turn does.

use std::collections::VecDeque;

/// The tool that asks a human, on wires where a question is a tool; the name that Eve has for it.
pub(super) const ASK: &str = "ask_question";
/// Most calls that wait for a result. An agent has a handful at once; more are calls whose results nobody sends.
pub(super) const MAX_OPEN_CALLS: usize = 64;
/// Most bytes of their names and ids: 1 KiB for each, while the ids of model servers have some dozens.
pub(super) const MAX_OPEN_CALL_BYTES: usize = MAX_OPEN_CALLS * 1024;

/// A call without a result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) id: String,
    /// Whether the id is ours, so that a result with an id of its own may answer it.
    pub(super) unnamed: bool,
}

impl Call {
    fn bytes(&self) -> usize {
        self.tool.len() + self.id.len()
    }
}

/// Calls without a result yet, oldest first.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: VecDeque<Call>,
    bytes: usize,
}

impl Calls {
    /// Remembers a call. The same id again is the same call, said anew.
    pub(super) fn open(&mut self, call: Call) {
        if let Some(at) = self.open.iter().position(|open| open.id == call.id) {
            self.take(at);
        }
        self.bytes += call.bytes();
        self.open.push_back(call);
    }

    /// The oldest call while there are more than can be remembered, forgotten. Take it until there is none after each
    /// [`open`](Self::open).
    pub(super) fn take_excess(&mut self) -> Option<Call> {
        let full = self.open.len() > MAX_OPEN_CALLS || self.bytes > MAX_OPEN_CALL_BYTES;
        if full { self.take(0) } else { None }
    }

    /// Remembers a call, and forgets the oldest for which there is no room.
    pub(super) fn open_bounded(&mut self, call: Call) {
        self.open(call);
        while self.take_excess().is_some() {}
    }

    /// Which call a result answers: the one of its id; without an id, or where no call has it, the oldest of the tool that may be
    /// meant.
    pub(super) fn answered_by(&self, id: Option<&str>, tool: &str) -> Option<(usize, &Call)> {
        let find =
            |answers: &dyn Fn(&Call) -> bool| self.open.iter().enumerate().find(|(_, call)| answers(call));
        find(&|call| match id {
            Some(id) => call.id == id,
            None => call.tool == tool,
        })
        .or_else(|| find(&|call| call.unnamed && call.tool == tool))
    }

    /// Whether a call of that id waits.
    pub(super) fn has(&self, id: &str) -> bool {
        self.open.iter().any(|call| call.id == id)
    }

    /// Forgets a call.
    pub(super) fn take(&mut self, at: usize) -> Option<Call> {
        let call = self.open.remove(at)?;
        self.bytes -= call.bytes();
        Some(call)
    }

    /// Forgets the call of that id.
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
}
