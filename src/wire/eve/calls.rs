//! Calls that wait for their result.

use std::collections::VecDeque;

/// How many are remembered; the oldest is forgotten for one more. A turn that asks more at once is out of hand.
const MAX_OPEN: usize = 64;

/// A call without a result.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) tool: String,
    /// Whether the id is one of ours.
    pub(super) unnamed: bool,
}

/// The open ones, oldest first.
#[derive(Debug, Default)]
pub(super) struct Calls(VecDeque<Call>);

impl Calls {
    pub(super) fn open(&mut self, call: Call) {
        // A call that comes again is one call.
        self.0.retain(|open| open.id != call.id);
        if self.0.len() == MAX_OPEN {
            self.0.pop_front();
        }
        self.0.push_back(call);
    }

    /// The call that is answered under `id`; else the oldest of the tool, of those without an id of their own where there is one.
    pub(super) fn find(&self, id: Option<&str>, tool: &str) -> Option<&Call> {
        let same = self.0.iter().find(|call| Some(call.id.as_str()) == id);
        same.or_else(|| {
            let mut of_tool = self.0.iter().filter(|call| call.tool == tool);
            of_tool.find(|call| id.is_none() || call.unnamed)
        })
    }

    pub(super) fn close(&mut self, id: &str) {
        self.0.retain(|call| call.id != id);
    }

    pub(super) fn take(&mut self) -> impl Iterator<Item = Call> + use<> {
        std::mem::take(&mut self.0).into_iter()
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
        for number in 0..=MAX_OPEN {
            calls.open(call(number, "t"));
        }
        let first = calls.find(None, "t").unwrap();
        assert_eq!((first.id.as_str(), calls.0.len()), ("c1", MAX_OPEN));
    }

    #[test]
    fn answers_find_their_call() {
        let mut calls = Calls::default();
        for (number, tool) in [(1, "a"), (2, "b"), (3, "a"), (4, "a")] {
            calls.open(call(number, tool));
        }
        let find = |calls: &Calls, id, tool| calls.find(id, tool).map(|call| call.id.clone());
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
