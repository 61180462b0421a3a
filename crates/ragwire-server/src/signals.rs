//! The signals that stop the server, and the one that reads its files again.

/// SIGHUP, which asks for files to be read again. Only on unix.
pub(crate) struct Hangups {
    #[cfg(unix)]
    hangup: tokio::signal::unix::Signal,
}

impl Hangups {
    #[cfg(unix)]
    pub(crate) fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
        })
    }

    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "the unix one can fail")]
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        let _ = self.hangup.recv().await;
        #[cfg(not(unix))]
        std::future::pending::<()>().await;
    }
}

/// Ctrl-C and, on unix, SIGTERM: the first stops the server gracefully, the second at once.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    pub(crate) fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "the unix one can fail")]
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next signal. Every listener receives every signal.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    }
}
