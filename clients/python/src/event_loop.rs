//! One asyncio event loop as an executor: the tasks of its turns run on its own thread.
//!
//! A turn whose orchestrator and reader live on one event loop costs no message between threads.
//! What wakes a task is mostly code of this loop (an orchestrator sends, a reader makes room); it
//! runs inside `enter`, which afterwards schedules one callback for everything that was woken. Other
//! threads (timers, Redis, orchestrators in threads) write one byte into a socket that the loop
//! watches, once per batch, and need no GIL for it.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use ragwire::turn::{Executor, Task, with_executor};
use tokio::runtime::Handle;

use crate::runtime;
use crate::waiter::Waiter;

/// The maximum number of tasks that run before the loop's other callbacks are served.
const MAX_TASKS_PER_CALLBACK: usize = 256;

/// Nothing is woken.
const IDLE: u8 = 0;
/// Something was woken inside `enter`, which schedules the callback when it returns.
const WOKEN: u8 = 1;
/// The callback is scheduled.
const SCHEDULED: u8 = 2;

/// The context variables of a request, in which its orchestrator runs.
pub(crate) type Variables = Option<Arc<Py<PyAny>>>;

thread_local! {
    /// The event loop that this thread used last.
    static CURRENT: RefCell<Option<Arc<EventLoop>>> = const { RefCell::new(None) };
    /// The address of the event loop inside whose `enter` this thread is; 0 if none.
    static ENTERED: Cell<usize> = const { Cell::new(0) };
    /// The context variables of the task that is polled.
    static VARIABLES: RefCell<Variables> = const { RefCell::new(None) };
}

/// All event loops that are not known to be closed.
static OPEN: Mutex<Vec<Arc<EventLoop>>> = Mutex::new(Vec::new());

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under one of these locks would be a bug of this crate; the state is still usable.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An asyncio event loop.
pub(crate) struct EventLoop {
    thread: ThreadId,
    runtime: Handle,
    executor: Arc<dyn Executor>,
    state: AtomicU8,
    is_closed: AtomicBool,
    ready: Mutex<Ready>,
    /// All tasks, so that they can move when the loop is closed.
    tasks: Mutex<HashMap<usize, Weak<LoopTask>>>,
    /// The end of the socket that wakes the loop, and the end that the loop watches.
    bell: UnixStream,
    heard: UnixStream,
    python: LoopObjects,
}

/// The methods of the loop that are called.
struct LoopObjects {
    event_loop: Py<PyAny>,
    call_soon: Py<PyAny>,
    call_soon_threadsafe: Py<PyAny>,
    create_future: Py<PyAny>,
    create_task: Py<PyAny>,
    callback: PyOnceLock<Py<PyAny>>,
}

/// What was woken.
#[derive(Default)]
struct Ready {
    tasks: VecDeque<Arc<LoopTask>>,
    waiters: Vec<Arc<Waiter>>,
}

impl EventLoop {
    /// Returns the running event loop.
    ///
    /// # Errors
    ///
    /// `RuntimeError` if none is running on this thread, and the errors of [`runtime::handle`].
    pub(crate) fn current(py: Python<'_>) -> PyResult<Arc<Self>> {
        static GET_RUNNING_LOOP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let running = GET_RUNNING_LOOP
            .import(py, "asyncio", "get_running_loop")?
            .call0()?;
        let runtime = runtime::handle(py)?;
        let known = CURRENT.with_borrow(|current| {
            let current = current.as_ref()?;
            current
                .python
                .event_loop
                .is(&running)
                .then(|| Arc::clone(current))
        });
        if let Some(current) = known {
            return Ok(current);
        }
        let other = lock(&OPEN)
            .iter()
            .find(|open| open.python.event_loop.is(&running))
            .cloned();
        let this = match other {
            Some(this) => this,
            None => Self::adopt(&running, runtime)?,
        };
        CURRENT.set(Some(Arc::clone(&this)));
        Ok(this)
    }

    /// Makes an executor of a loop that is new, and leaves those that were closed meanwhile.
    fn adopt(running: &Bound<'_, PyAny>, runtime: Handle) -> PyResult<Arc<Self>> {
        let py = running.py();
        let known: Vec<Arc<Self>> = lock(&OPEN).clone();
        for other in known {
            let is_closed = other.python.event_loop.bind(py).call_method0("is_closed");
            if is_closed
                .and_then(|is_closed| is_closed.is_truthy())
                .unwrap_or(true)
            {
                other.close(py);
            }
        }
        let (bell, heard) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        heard.set_nonblocking(true)?;
        let method = |name| running.getattr(name).map(Bound::unbind);
        let python = LoopObjects {
            event_loop: running.clone().unbind(),
            call_soon: method("call_soon")?,
            call_soon_threadsafe: method("call_soon_threadsafe")?,
            create_future: method("create_future")?,
            create_task: method("create_task")?,
            callback: PyOnceLock::new(),
        };
        let this = Arc::new_cyclic(|this: &Weak<Self>| Self {
            thread: thread::current().id(),
            runtime,
            executor: Arc::new(OnLoop(this.clone())),
            state: AtomicU8::new(IDLE),
            is_closed: AtomicBool::new(false),
            ready: Mutex::default(),
            tasks: Mutex::default(),
            bell,
            heard,
            python,
        });
        let callback = Py::new(py, Callback(Arc::downgrade(&this)))?;
        running.call_method1(
            "add_reader",
            (this.heard.as_raw_fd(), callback.getattr(py, "heard")?),
        )?;
        let _ = this.python.callback.set(py, callback.into_any());
        lock(&OPEN).push(Arc::clone(&this));
        Ok(this)
    }

    /// Moves the tasks of a closed loop to the runtime, where they end their turns.
    fn close(self: &Arc<Self>, _py: Python<'_>) {
        self.is_closed.store(true, Ordering::Release);
        lock(&OPEN).retain(|open| !Arc::ptr_eq(open, self));
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        for task in tasks.into_values().filter_map(|task| task.upgrade()) {
            if let Some(task) = lock(&task.future).take() {
                self.leave(task);
            }
        }
    }

    /// Runs a task on the runtime.
    fn leave(&self, task: Task) {
        // A task of a closed loop accounts for itself.
        let _guard = self.runtime.enter();
        self.runtime.spawn(task);
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Returns whether the calling thread is that of the loop.
    pub(crate) fn is_here(&self) -> bool {
        thread::current().id() == self.thread
    }

    /// Creates an asyncio future.
    pub(crate) fn create_future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.python.create_future.bind(py).call0()
    }

    /// Starts a coroutine as a task, in the context of the polled Rust task.
    pub(crate) fn create_task<'py>(
        &self,
        coroutine: &Bound<'py, PyAny>,
        variables: &Variables,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = coroutine.py();
        match variables {
            Some(variables) => variables
                .bind(py)
                .call_method1("run", (&self.python.create_task, coroutine)),
            None => self.python.create_task.bind(py).call1((coroutine,)),
        }
    }

    /// Calls `callback` on the loop's thread, from any thread.
    pub(crate) fn call(&self, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.is_here() {
            callback.call0()?;
        } else {
            self.python
                .call_soon_threadsafe
                .bind(callback.py())
                .call1((callback,))?;
        }
        Ok(())
    }

    /// Runs code that may wake tasks of this loop, and then schedules what it has woken.
    pub(crate) fn enter<R>(&self, py: Python<'_>, f: impl FnOnce() -> R) -> R {
        if !self.is_here() {
            return f();
        }
        let result = self.entered(f);
        self.schedule(py);
        result
    }

    /// Polls a future of a request, without the GIL. The tasks that it spawns get `variables`.
    pub(crate) fn poll<R: Send>(
        &self,
        py: Python<'_>,
        variables: &Variables,
        waker: &Waker,
        poll: impl FnOnce(&mut Context<'_>) -> R + Send,
    ) -> R {
        let poll = || {
            py.detach(|| {
                let _runtime = self.runtime.enter();
                let _variables = Restore(VARIABLES.replace(variables.clone()));
                with_executor(&self.executor, || poll(&mut Context::from_waker(waker)))
            })
        };
        self.enter(py, poll)
    }

    /// Returns the context variables of the task that is polled.
    pub(crate) fn variables() -> Variables {
        VARIABLES.with_borrow(Clone::clone)
    }

    /// Returns the loop whose task is polled on this thread.
    pub(crate) fn polling() -> Option<Arc<Self>> {
        let entered = ENTERED.get();
        CURRENT.with_borrow(|current| {
            current
                .as_ref()
                .filter(|current| current.address() == entered)
                .cloned()
        })
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn entered<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Leave(usize);
        impl Drop for Leave {
            fn drop(&mut self) {
                ENTERED.set(self.0);
            }
        }
        let _leave = Leave(ENTERED.replace(self.address()));
        f()
    }

    /// Records that something was woken.
    fn ring(&self) {
        if ENTERED.get() == self.address() {
            let _ = self
                .state
                .compare_exchange(IDLE, WOKEN, Ordering::AcqRel, Ordering::Acquire);
        } else if self.state.swap(SCHEDULED, Ordering::AcqRel) != SCHEDULED {
            // A full socket already wakes the loop, and a closed loop hears nothing.
            let _ = (&self.bell).write(&[0]);
        }
    }

    /// Resumes coroutines that were woken, or schedules the callback if tasks were.
    fn schedule(&self, py: Python<'_>) {
        while self.state.load(Ordering::Acquire) == WOKEN {
            let waiters = {
                let mut ready = lock(&self.ready);
                if !ready.tasks.is_empty() {
                    drop(ready);
                    if self
                        .state
                        .compare_exchange(WOKEN, SCHEDULED, Ordering::AcqRel, Ordering::Acquire)
                        .is_ok()
                        && let Some(callback) = self.python.callback.get(py)
                        && let Err(error) = self.python.call_soon.bind(py).call1((callback,))
                    {
                        // The loop is closed; `close` moves its tasks.
                        error.write_unraisable(py, None);
                    }
                    return;
                }
                std::mem::take(&mut ready.waiters)
            };
            let _ = self
                .state
                .compare_exchange(WOKEN, IDLE, Ordering::AcqRel, Ordering::Acquire);
            for waiter in waiters {
                waiter.resume(py);
            }
        }
    }

    /// Runs what was woken.
    fn run(&self, py: Python<'_>) {
        self.state.store(IDLE, Ordering::Release);
        let waiters = self.entered(|| {
            py.detach(|| {
                let _runtime = self.runtime.enter();
                with_executor(&self.executor, || {
                    for _ in 0..MAX_TASKS_PER_CALLBACK {
                        let Some(task) = lock(&self.ready).tasks.pop_front() else {
                            break;
                        };
                        task.poll();
                    }
                });
                std::mem::take(&mut lock(&self.ready).waiters)
            })
        });
        for waiter in waiters {
            waiter.resume(py);
        }
        if lock(&self.ready).tasks.is_empty() {
            // Everything that was woken meanwhile has run, unless another thread rang.
            let _ = self
                .state
                .compare_exchange(WOKEN, IDLE, Ordering::AcqRel, Ordering::Acquire);
            if !lock(&self.ready).waiters.is_empty() {
                self.entered(|| self.ring());
            }
        } else {
            self.entered(|| self.ring());
        }
        self.schedule(py);
    }

    /// Takes the bytes that woke the loop.
    fn listen(&self) {
        let mut bytes = [0; 64];
        loop {
            match (&self.heard).read(&mut bytes) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn push_task(&self, task: Arc<LoopTask>) {
        lock(&self.ready).tasks.push_back(task);
        self.ring();
    }

    /// Resumes a coroutine that waits.
    pub(crate) fn push_waiter(&self, waiter: Arc<Waiter>) {
        lock(&self.ready).waiters.push(waiter);
        self.ring();
    }

    /// Runs a task on this loop.
    pub(crate) fn spawn(self: &Arc<Self>, task: Task) {
        if self.is_closed.load(Ordering::Acquire) {
            return self.leave(task);
        }
        let task = Arc::new(LoopTask {
            event_loop: Arc::clone(self),
            variables: Self::variables(),
            is_queued: AtomicBool::new(true),
            future: Mutex::new(Some(task)),
        });
        lock(&self.tasks).insert(task.address(), Arc::downgrade(&task));
        self.push_task(task);
    }
}

struct Restore(Variables);

impl Drop for Restore {
    fn drop(&mut self) {
        VARIABLES.set(self.0.take());
    }
}

/// The executor that turns get. It does not keep the loop.
struct OnLoop(Weak<EventLoop>);

impl Executor for OnLoop {
    fn execute(&self, task: Task) {
        // Without the loop the task is dropped, which ends its turn.
        if let Some(event_loop) = self.0.upgrade() {
            event_loop.spawn(task);
        }
    }
}

/// A task on the loop.
struct LoopTask {
    event_loop: Arc<EventLoop>,
    variables: Variables,
    is_queued: AtomicBool,
    future: Mutex<Option<Task>>,
}

impl LoopTask {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn poll(self: &Arc<Self>) {
        self.is_queued.store(false, Ordering::Release);
        let mut future = lock(&self.future);
        let Some(task) = future.as_mut() else { return };
        let waker = Waker::from(Arc::clone(self));
        let _variables = Restore(VARIABLES.replace(self.variables.clone()));
        let polled = catch_unwind(AssertUnwindSafe(|| {
            task.as_mut().poll(&mut Context::from_waker(&waker))
        }));
        if matches!(polled, Ok(Poll::Pending)) {
            return;
        }
        let finished = future.take();
        drop(future);
        // A task that panicked ends its turn when it is dropped.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(finished)));
    }
}

impl Drop for LoopTask {
    fn drop(&mut self) {
        lock(&self.event_loop.tasks).remove(&self.address());
    }
}

impl Wake for LoopTask {
    fn wake(self: Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            let event_loop = Arc::clone(&self.event_loop);
            event_loop.push_task(self);
        }
    }
}

/// The callback of the loop.
#[pyclass(frozen, module = "ragwire._ragwire")]
struct Callback(Weak<EventLoop>);

#[pymethods]
impl Callback {
    fn __call__(&self, py: Python<'_>) {
        if let Some(event_loop) = self.0.upgrade() {
            event_loop.run(py);
        }
    }

    fn heard(&self, py: Python<'_>) {
        if let Some(event_loop) = self.0.upgrade() {
            event_loop.listen();
            event_loop.run(py);
        }
    }
}
