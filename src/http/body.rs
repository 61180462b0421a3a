//! The body of a turn's response.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use http_body::{Body, Frame, SizeHint};

use crate::turn::TurnStream;

/// The most bytes of one piece of a body. Under HTTP/1.1 hyper takes up to 16 pieces of a body before it
/// waits for the client, of any length if nobody sets its `max_buf_size`, as `axum::serve` does not.
const MAX_PIECE_BYTES: usize = 8 * 1024;

/// The body of a streaming or a complete response, so that a service has one type for both.
///
/// It cannot fail: its error type is [`Infallible`]. Dropping it disconnects the reader of the
/// turn.
#[derive(Debug)]
pub struct TurnBody(Kind);

#[derive(Debug)]
enum Kind {
    Live(Box<Live>),
    Whole(Option<Bytes>),
}

#[derive(Debug)]
struct Live {
    stream: TurnStream,
    /// The rest of the last chunk.
    rest: Bytes,
}

impl Live {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_next(cx)) {
                Some(chunk) => self.rest = chunk,
                None => return Poll::Ready(None),
            }
        }
        let length = self.rest.len().min(MAX_PIECE_BYTES);
        Poll::Ready(Some(self.rest.split_to(length)))
    }
}

impl TurnBody {
    pub(super) fn live(stream: TurnStream) -> Self {
        Self(Kind::Live(Box::new(Live {
            stream,
            rest: Bytes::new(),
        })))
    }

    pub(super) fn whole(bytes: Bytes) -> Self {
        Self(Kind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }
}

impl Body for TurnBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut self.0 {
            Kind::Live(live) => ready!(live.poll_piece(cx)),
            Kind::Whole(bytes) => bytes.take(),
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            // Allows the server to end the response in the same write as the last chunk.
            Kind::Live(live) => live.rest.is_empty() && live.stream.is_finished(),
            Kind::Whole(bytes) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Live(_) => SizeHint::default(),
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}
