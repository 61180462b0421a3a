//! One request and its response, polled by the coroutine of the ASGI server.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use http_body::Body as _;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use ragwire::http::TURN_HEADER;
use ragwire::turn::{TurnGroup, TurnHandle, TurnId};

use crate::event_loop::{EventLoop, Variables, lock};
use crate::feed::Feed;
use crate::orchestrator::shutting_down;
use crate::promise::Promise;
use crate::sink::outcome;
use crate::waiter::Waiter;

/// The future of the router.
pub(crate) type Responding = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// A request that is answered.
#[pyclass(frozen, module = "ragwire._ragwire")]
pub(crate) struct Exchange {
    event_loop: Arc<EventLoop>,
    waiter: Arc<Waiter>,
    variables: Variables,
    feed: Feed,
    /// Where the turn of the response is found.
    group: Option<TurnGroup>,
    turn: Mutex<Option<TurnHandle>>,
    state: Mutex<State>,
}

enum State {
    Responding(Responding),
    Ready(Response<Body>),
    Streaming(Body),
    Finished,
}

impl Exchange {
    pub(crate) fn new(
        event_loop: Arc<EventLoop>,
        variables: Variables,
        feed: Feed,
        group: TurnGroup,
        responding: Responding,
    ) -> Self {
        Self {
            waiter: Waiter::new(Arc::clone(&event_loop)),
            event_loop,
            variables,
            feed,
            group: Some(group),
            turn: Mutex::default(),
            state: Mutex::new(State::Responding(responding)),
        }
    }

    /// Creates the exchange of a response that exists already.
    pub(crate) fn ready(event_loop: Arc<EventLoop>, turn: TurnHandle, response: Response<Body>) -> Self {
        Self {
            waiter: Waiter::new(Arc::clone(&event_loop)),
            event_loop,
            variables: None,
            feed: Feed::default(),
            group: None,
            turn: Mutex::new(Some(turn)),
            state: Mutex::new(State::Ready(response)),
        }
    }
}

/// The status and the headers.
type Head<'py> = (u16, Bound<'py, PyList>);

#[pymethods]
impl Exchange {
    /// Returns the status and the headers, or `None` if they are not known yet: then await `wait()`.
    fn head<'py>(&self, py: Python<'py>) -> PyResult<Option<Head<'py>>> {
        let mut state = lock(&self.state);
        if let State::Responding(responding) = &mut *state {
            self.waiter.clear();
            let waker = self.waiter.waker();
            let polled = self
                .event_loop
                .poll(py, &self.variables, &waker, |cx| responding.as_mut().poll(cx));
            match polled {
                Poll::Ready(response) => *state = State::Ready(response),
                Poll::Pending => return Ok(None),
            }
        }
        match std::mem::replace(&mut *state, State::Finished) {
            State::Ready(response) => {
                let (head, body) = response.into_parts();
                if let Some(group) = &self.group {
                    let id = head.headers.get(TURN_HEADER).and_then(|id| id.to_str().ok());
                    *lock(&self.turn) = id.and_then(TurnId::parse).and_then(|id| group.get(&id));
                }
                *state = State::Streaming(body);
                let headers = PyList::empty(py);
                for (name, value) in &head.headers {
                    let name = PyBytes::new(py, name.as_str().as_bytes());
                    headers.append((name, PyBytes::new(py, value.as_bytes())))?;
                }
                Ok(Some((head.status.as_u16(), headers)))
            }
            State::Streaming(_) | State::Responding(_) | State::Finished => {
                Err(PyRuntimeError::new_err("the request was cancelled"))
            }
        }
    }

    /// Returns what is ready of the body and whether more follows, or `None` if nothing is ready:
    /// then await `wait()`.
    fn chunk<'py>(&self, py: Python<'py>) -> Option<(Bound<'py, PyBytes>, bool)> {
        let mut state = lock(&self.state);
        let State::Streaming(body) = &mut *state else {
            return Some((PyBytes::new(py, b""), false));
        };
        self.waiter.clear();
        let waker = self.waiter.waker();
        let polled = self.event_loop.poll(py, &self.variables, &waker, |cx| {
            let polled = Pin::new(&mut *body).poll_frame(cx);
            polled.map(|frame| {
                // The body of a turn cannot fail, and those of refusals are in memory.
                let data = frame
                    .and_then(Result::ok)
                    .and_then(|frame| frame.into_data().ok());
                (data, body.is_end_stream())
            })
        });
        match polled {
            Poll::Pending => None,
            Poll::Ready((data, is_end)) => {
                let more = data.is_some() && !is_end;
                if !more {
                    let body = std::mem::replace(&mut *state, State::Finished);
                    drop(state);
                    self.event_loop.enter(py, || drop(body));
                }
                Some((PyBytes::new(py, &data.unwrap_or_default()), more))
            }
        }
    }

    /// Returns an asyncio future that completes when `head` or `chunk` should be called again, or
    /// `None` if they should be called at once.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.waiter.future(py)
    }

    /// Adds a chunk of the request's body.
    fn feed(&self, py: Python<'_>, chunk: &[u8], more: bool) {
        let chunk = Bytes::copy_from_slice(chunk);
        self.event_loop.enter(py, || self.feed.put(chunk, more));
    }

    /// Waits until the chunk is taken.
    fn taken(&self) -> Promise {
        let feed = self.feed.clone();
        Promise::new("Exchange.taken()", async move {
            std::future::poll_fn(|cx| feed.poll_taken(cx)).await;
            outcome(|py| Ok(py.None()))
        })
    }

    /// Records that the client has disconnected: drops the response, which ends or leaves the turn.
    fn close(&self, py: Python<'_>) {
        let state = std::mem::replace(&mut *lock(&self.state), State::Finished);
        self.event_loop.enter(py, || {
            drop(state);
            std::task::Wake::wake(Arc::clone(&self.waiter));
        });
    }

    /// Ends the turn of the response because the event loop shuts down. Its terminal is the rest of
    /// the body.
    fn shut_down(&self, py: Python<'_>) -> bool {
        let turn = lock(&self.turn).take();
        self.event_loop
            .enter(py, || turn.is_some_and(|turn| turn.fail(shutting_down())))
    }

    /// Whether the response is complete or was dropped.
    #[getter]
    fn is_finished(&self) -> bool {
        matches!(*lock(&self.state), State::Finished)
    }
}
