//! What the client was told of and what may come up again: calls without a result yet, and documents. Bounded, whatever a turn does.

use std::collections::{HashSet, VecDeque};

use crate::event::ToolResult;

/// Most calls that wait for a result. An agent has a handful at once; more are calls whose results nobody sends.
pub(super) const MAX_OPEN_CALLS: usize = 64;
/// Most bytes of their names and ids: 1 KiB for each, while the ids of model servers have some dozens.
pub(super) const MAX_OPEN_CALL_BYTES: usize = MAX_OPEN_CALLS * 1024;
/// Most documents that are told apart. Each is a part that the client shows and keeps, and nobody reads more.
pub(super) const MAX_DOCUMENTS: usize = 1024;
/// Most bytes of their ids: 256 for each, as much as a path or a hash takes.
pub(super) const MAX_DOCUMENT_BYTES: usize = MAX_DOCUMENTS * 256;

#[derive(Debug)]
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

    /// The oldest call while there are more than can be remembered; it has to be closed.
    pub(super) fn take_excess(&mut self) -> Option<Call> {
        let full = self.open.len() > MAX_OPEN_CALLS || self.bytes > MAX_OPEN_CALL_BYTES;
        if full { self.take(0) } else { None }
    }

    /// Which call a result answers, and its id.
    pub(super) fn answered_by(&self, result: &ToolResult) -> Option<(usize, &str)> {
        let position = |answers: &dyn Fn(&Call) -> bool| self.open.iter().position(answers);
        let at = position(&|call| match &result.call_id {
            Some(id) => call.id == *id,
            None => call.tool == result.tool,
        });
        let at = at.or_else(|| position(&|call| call.unnamed && call.tool == result.tool))?;
        Some((at, &self.open.get(at)?.id))
    }

    /// Forgets a call.
    pub(super) fn take(&mut self, at: usize) -> Option<Call> {
        let call = self.open.remove(at)?;
        self.bytes -= call.bytes();
        Some(call)
    }

    /// Forgets all calls.
    pub(super) fn take_all(&mut self) -> VecDeque<Call> {
        std::mem::take(self).open
    }
}

/// Ids of the documents that were said to be sources.
#[derive(Debug, Default)]
pub(super) struct Documents {
    known: HashSet<String>,
    bytes: usize,
}

impl Documents {
    pub(super) fn knows(&self, id: &str) -> bool {
        self.known.contains(id)
    }

    /// Whether these can be remembered, and one more besides.
    pub(super) fn has_room(&self, new: &[&str], id: &str) -> bool {
        let bytes: usize = new.iter().map(|id| id.len()).sum();
        self.known.len() + new.len() < MAX_DOCUMENTS && self.bytes + bytes + id.len() <= MAX_DOCUMENT_BYTES
    }

    pub(super) fn extend(&mut self, new: &[&str]) {
        for id in new {
            self.bytes += id.len();
            self.known.insert((*id).to_owned());
        }
    }
}
