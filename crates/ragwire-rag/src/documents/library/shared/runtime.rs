//! A thread of its own for requests, so that the functions of a library stay synchronous.

use std::sync::mpsc;
use std::thread;

use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::oneshot;

/// A runtime on one thread, which ends when the value is dropped.
#[derive(Debug)]
pub(super) struct RequestThread {
    handle: Handle,
    _stop: oneshot::Sender<()>,
}

impl RequestThread {
    pub(super) fn start() -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new()
            .name("shared-library".to_owned())
            // An error says that the sender was dropped, which is the signal.
            .spawn(move || drop(runtime.block_on(stopped)))?;
        Ok(Self { handle, _stop: stop })
    }

    /// Runs `work` in the background.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(work));
    }

    /// Runs `work` and waits for it. On a thread that serves other tasks, these move to another thread
    /// in the meantime. Returns `None` if `work` panicked.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.spawn(async move {
            // The receiver waits below.
            let _ = sender.send(work.await);
        });
        let receive = || receiver.recv().ok();
        match Handle::try_current().map(|current| current.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(receive),
            Ok(_) | Err(_) => receive(),
        }
    }
}
