//! The body of a turn's response.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use http_body::{Body, Frame, SizeHint};

use crate::turn::TurnStream;

/// The body of a streaming or a complete response, so that a service has one type for both.
///
/// It cannot fail: its error type is [`Infallible`]. Dropping it disconnects the reader of the
/// turn.
#[derive(Debug)]
pub struct TurnBody(Kind);

#[derive(Debug)]
enum Kind {
    Live(Box<TurnStream>),
    Whole(Option<Bytes>),
}

impl TurnBody {
    pub(super) fn live(stream: TurnStream) -> Self {
        Self(Kind::Live(Box::new(stream)))
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
            Kind::Live(stream) => std::task::ready!(Pin::new(&mut **stream).poll_next(cx)),
            Kind::Whole(bytes) => bytes.take(),
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            // Allows the server to end the response in the same write as the last chunk.
            Kind::Live(stream) => stream.is_finished(),
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
