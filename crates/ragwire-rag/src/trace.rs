//! The W3C trace context of the work in progress, which requests to other servers carry.

use std::fmt;

tokio::task_local! {
    static CURRENT: TraceContext;
}

/// Length of the longest `tracestate` that the standard wants passed on.
const MAX_STATE_BYTES: usize = 512;

/// The [trace context](https://www.w3.org/TR/trace-context/) of a request: `traceparent`, and
/// `tracestate` if there is one.
///
/// Requests to model servers and to Qdrant carry the context of the task that sends them:
///
/// ```
/// use ragwire_rag::TraceContext;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let context = TraceContext::new(parent, None).unwrap();
/// let work = async { TraceContext::current().map(|context| context.parent().to_owned()) };
/// assert_eq!(context.scope(work).await.as_deref(), Some(parent));
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct TraceContext {
    parent: String,
    state: Option<String>,
}

impl TraceContext {
    /// The header with the trace and the parent span.
    pub const PARENT: &'static str = "traceparent";
    /// The header with the state of tracing systems.
    pub const STATE: &'static str = "tracestate";

    /// Creates a context from the values of the headers. Returns `None` if the parent is not valid.
    /// A state that is too long or not printable is dropped.
    pub fn new(parent: &str, state: Option<&str>) -> Option<Self> {
        let is_printable = |state: &&str| state.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let state = state
            .filter(|state| (1..=MAX_STATE_BYTES).contains(&state.len()))
            .filter(is_printable);
        is_parent(parent).then(|| Self {
            parent: parent.to_owned(),
            state: state.map(str::to_owned),
        })
    }

    /// Returns the value of `traceparent`.
    pub fn parent(&self) -> &str {
        &self.parent
    }

    /// Returns the value of `tracestate`.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Returns the names and values of the headers.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let state = self.state().map(|state| (Self::STATE, state));
        [(Self::PARENT, self.parent())].into_iter().chain(state)
    }

    /// Returns the context of the running task.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Does `work` with this context. Tasks that `work` spawns do not have it.
    pub async fn scope<F: Future>(self, work: F) -> F::Output {
        CURRENT.scope(self, work).await
    }
}

/// Does `work` with the context, if there is one.
#[cfg(feature = "upstream")]
pub(crate) async fn scope<F: Future>(context: Option<TraceContext>, work: F) -> F::Output {
    match context {
        Some(context) => context.scope(work).await,
        None => work.await,
    }
}

impl fmt::Debug for TraceContext {
    /// Without the state, which may name users.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceContext")
            .field("parent", &self.parent)
            .finish_non_exhaustive()
    }
}

/// Returns `true` for `00-<32 hex>-<16 hex>-<2 hex>`, also of a later version, which may have more
/// parts. No part may be all zeros, nor the version `ff`.
fn is_parent(value: &str) -> bool {
    let parts: Vec<_> = value.split('-').collect();
    let [version, trace, span, flags, later @ ..] = parts.as_slice() else {
        return false;
    };
    let is_hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    is_hex(version, 2)
        && *version != "ff"
        && (*version != "00" || later.is_empty())
        && value.bytes().all(|byte| byte.is_ascii_graphic())
        && is_hex(trace, 32)
        && !is_zero(trace)
        && is_hex(span, 16)
        && !is_zero(span)
        && is_hex(flags, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_that_of_the_standard() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        for (parent, is_valid) in [
            (format!("00-{trace}-{span}-01"), true),
            (format!("00-{trace}-{span}-00"), true),
            (format!("cc-{trace}-{span}-01-what"), true),
            (format!("cc-{trace}-{span}-01-wh\u{e4}t"), false),
            (format!("00-{trace}-{span}-01-what"), false),
            (format!("ff-{trace}-{span}-01"), false),
            (format!("00-{}-{span}-01", "0".repeat(32)), false),
            (format!("00-{trace}-{}-01", "0".repeat(16)), false),
            (format!("00-{}-{span}-01", trace.to_uppercase()), false),
            (format!("00-{trace}-{span}"), false),
            (format!("00-{trace}-{span}-0"), false),
            (String::new(), false),
        ] {
            assert_eq!(TraceContext::new(&parent, None).is_some(), is_valid, "{parent}");
        }
        let parent = format!("00-{trace}-{span}-01");
        for (state, kept) in [
            ("a=b,c=d", Some("a=b,c=d")),
            ("", None),
            ("a=\n", None),
            (&"a".repeat(513), None),
        ] {
            let context = TraceContext::new(&parent, Some(state)).unwrap();
            assert_eq!(context.state(), kept);
        }
    }
}
