//! Counts what a client sends for one message, so that fragments without an end are an error.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A client that has sent more for one message than the message could need.
#[derive(Debug, thiserror::Error)]
#[error("too many frames for one message")]
pub(super) struct TooManyFrames;

/// A connection that fails once it has read more than `most` bytes since the last message.
///
/// tungstenite limits the contents of a message. It reads frames without contents, and frames that
/// continue a message, for as long as they come, and reports nothing of them.
#[derive(Debug)]
pub(super) struct Metered<S> {
    connection: S,
    read: usize,
    most: usize,
}

impl<S> Metered<S> {
    pub(super) fn new(connection: S, most: usize) -> Self {
        Self {
            connection,
            read: 0,
            most,
        }
    }

    /// Returns the connection, to be read without a limit.
    pub(super) fn into_inner(self) -> S {
        self.connection
    }

    /// Records that a message is complete.
    pub(super) fn reset(&mut self) {
        self.read = 0;
    }
}

/// Returns `true` if this is why reading failed.
pub(super) fn is_too_many_frames(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|cause| cause.is::<TooManyFrames>())
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read > self.most {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, TooManyFrames)));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.connection).poll_read(cx, buffer);
        self.read += buffer.filled().len() - before;
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }
}
