//! The body of a request: what the ASGI server hands over, as a hyper body.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::event_loop::lock;

/// The end that the server fills. One chunk waits at a time: `put` is called again when it is taken.
#[derive(Clone, Default)]
pub(crate) struct Feed(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    chunk: Option<Bytes>,
    is_complete: bool,
    is_dropped: bool,
    /// Waits for the next chunk.
    reader: Option<Waker>,
    /// Waits until the chunk is taken.
    writer: Option<Waker>,
}

impl Feed {
    /// Adds a chunk, which is the last one unless `more`.
    pub(crate) fn put(&self, chunk: Bytes, more: bool) {
        let reader = {
            let mut state = lock(&self.0);
            state.chunk = Some(chunk).filter(|chunk| !chunk.is_empty());
            state.is_complete = !more;
            state.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Waits until the chunk is taken or the body is dropped.
    pub(crate) fn poll_taken(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.0);
        if state.chunk.is_none() || state.is_dropped {
            return Poll::Ready(());
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Returns the body, of which there is one.
    pub(crate) fn body(&self) -> FeedBody {
        FeedBody(self.clone())
    }
}

/// The end that the router reads.
pub(crate) struct FeedBody(Feed);

impl Body for FeedBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let (polled, writer) = {
            let mut state = lock(&self.0.0);
            match state.chunk.take() {
                Some(chunk) => (Poll::Ready(Some(Ok(Frame::data(chunk)))), state.writer.take()),
                None if state.is_complete => (Poll::Ready(None), None),
                None => {
                    state.reader = Some(cx.waker().clone());
                    (Poll::Pending, None)
                }
            }
        };
        if let Some(writer) = writer {
            writer.wake();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        let state = lock(&self.0.0);
        state.is_complete && state.chunk.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let state = lock(&self.0.0);
        match (&state.chunk, state.is_complete) {
            (chunk, true) => SizeHint::with_exact(chunk.as_ref().map_or(0, Bytes::len) as u64),
            (_, false) => SizeHint::default(),
        }
    }
}

impl Drop for FeedBody {
    fn drop(&mut self) {
        let writer = {
            let mut state = lock(&self.0.0);
            state.is_dropped = true;
            state.writer.take()
        };
        if let Some(writer) = writer {
            writer.wake();
        }
    }
}
