//! Journals, sessions and turn groups.

use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ragwire::session::{SessionLimits, Sessions as CoreSessions};
use ragwire::turn::{
    Durability, Journal as CoreJournal, JournalLimits, RedisOptions, TurnGroup as CoreGroup,
    TurnGroupBuilder, TurnId,
};
use serde_json::Value;

use crate::event_loop::lock;
use crate::options::Options;
use crate::promise::Promise;
use crate::sink::outcome;
use crate::turn::Turn;
use crate::{errors, json, runtime};

#[doc = stub!("Journal")]
#[pyclass(frozen, module = "ragwire")]
#[derive(Clone)]
pub(crate) struct Journal(pub(crate) CoreJournal);

/// Reads the options of a Redis server, and the prefix of its keys.
fn redis_options(options: &mut Options<'_>, url: &str) -> PyResult<RedisOptions> {
    let py = options.py();
    let mut redis = RedisOptions::new(url).map_err(|error| errors::redis(py, &error))?;
    if let Some(prefix) = options.take::<String>("prefix")? {
        redis = redis.prefix(&prefix).map_err(|error| errors::redis(py, &error))?;
    }
    if let Some(lease) = options.seconds("lease")? {
        redis = redis.lease(lease);
    }
    if let Some(retry) = options.seconds("retry")? {
        redis = redis.retry(retry);
    }
    if let Some(timeout) = options.seconds("call_timeout")? {
        redis = redis.call_timeout(timeout);
    }
    if let Some(timeout) = options.seconds("connect_timeout")? {
        redis = redis.connect_timeout(timeout);
    }
    if let Some(timeout) = options.seconds("response_timeout")? {
        redis = redis.response_timeout(timeout);
    }
    if let Some(required) = options.take::<String>("require")? {
        let required = match required.as_str() {
            "none" => Durability::None,
            "every_second" => Durability::EverySecond,
            "always" => Durability::Always,
            other => {
                let message = format!("require must be none, every_second or always, not {other:?}");
                return Err(errors::option(py, message));
            }
        };
        redis = redis.require(required);
    }
    Ok(redis)
}

fn journal_limits(options: &mut Options<'_>) -> PyResult<JournalLimits> {
    let mut limits = JournalLimits::default();
    if let Some(bytes) = options.take("max_turn_bytes")? {
        limits = limits.max_turn_bytes(bytes);
    }
    if let Some(turns) = options.take("max_turns")? {
        limits = limits.max_turns(turns);
    }
    if let Some(bytes) = options.take("max_bytes")? {
        limits = limits.max_bytes(bytes);
    }
    if let Some(keep) = options.seconds("keep")? {
        limits = limits.keep(keep);
    }
    Ok(limits)
}

fn turn_id(py: Python<'_>, id: &str) -> PyResult<TurnId> {
    let message = || format!("a turn ID has 32 hexadecimal digits: {id:?}");
    TurnId::parse(id).ok_or_else(|| errors::option(py, message()))
}

#[pymethods]
impl Journal {
    #[new]
    #[pyo3(signature = (**options), text_signature = None)]
    fn new(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut options = Options::new(py, options)?;
        let limits = journal_limits(&mut options)?;
        options.finish()?;
        Ok(Self(CoreJournal::in_memory(limits)))
    }

    #[doc = stub!("Journal.redis")]
    #[staticmethod]
    #[pyo3(signature = (url, **options), text_signature = None)]
    fn redis(py: Python<'_>, url: &str, options: Option<&Bound<'_, PyDict>>) -> PyResult<Promise> {
        let mut options = Options::new(py, options)?;
        let limits = journal_limits(&mut options)?;
        let redis = redis_options(&mut options, url)?;
        options.finish()?;
        Ok(runtime::promise(
            "Journal.redis()",
            move || CoreJournal::redis(redis, limits),
            |py, journal| match journal {
                Ok(journal) => Ok(Py::new(py, Self(journal))?.into_any()),
                Err(error) => Err(errors::redis(py, &error)),
            },
        ))
    }

    #[doc = stub!("Journal.resume")]
    #[pyo3(signature = (turn_id, *, owner="", index=0), text_signature = None)]
    fn resume(&self, py: Python<'_>, turn_id: &str, owner: &str, index: u64) -> PyResult<Promise> {
        let (journal, id, owner) = (self.0.clone(), self::turn_id(py, turn_id)?, owner.to_owned());
        Ok(Promise::new("journal.resume()", async move {
            let resumed = journal.resume(id, &owner, index).await;
            outcome(move |py| match resumed {
                Ok(turn) => Ok(Py::new(py, Turn::resumed(py, turn)?)?.into_any()),
                Err(error) => Err(errors::resume(py, error)),
            })
        }))
    }

    #[doc = stub!("Journal.stop")]
    #[pyo3(signature = (turn_id, *, owner=""), text_signature = None)]
    fn stop(&self, py: Python<'_>, turn_id: &str, owner: &str) -> PyResult<Promise> {
        let (journal, id, owner) = (self.0.clone(), self::turn_id(py, turn_id)?, owner.to_owned());
        Ok(Promise::new("journal.stop()", async move {
            let stopped = journal.stop(id, &owner).await;
            outcome(move |py| match stopped {
                Ok(stopped) => Ok(json::from_value(py, &Value::Bool(stopped))?.unbind()),
                Err(error) => Err(errors::stop(py, error)),
            })
        }))
    }

    #[doc = stub!("Journal.answer")]
    #[pyo3(signature = (turn_id, request_id, answer, *, owner=""), text_signature = None)]
    fn answer(
        &self,
        py: Python<'_>,
        turn_id: &str,
        request_id: String,
        answer: &Bound<'_, PyAny>,
        owner: &str,
    ) -> PyResult<Promise> {
        let (journal, id, owner) = (self.0.clone(), self::turn_id(py, turn_id)?, owner.to_owned());
        let answer = json::to_value(answer)?;
        Ok(Promise::new("journal.answer()", async move {
            let answered = journal.answer(id, &owner, &request_id, answer).await;
            outcome(move |py| match answered {
                Ok(_) => Ok(py.None()),
                Err(error) => Err(errors::answer(py, error)),
            })
        }))
    }

    #[doc = stub!("Journal.latest")]
    #[pyo3(signature = (lane, *, owner=""), text_signature = None)]
    fn latest(&self, lane: String, owner: &str) -> Promise {
        let (journal, owner) = (self.0.clone(), owner.to_owned());
        Promise::new("journal.latest()", async move {
            let latest = journal.latest(&lane, &owner).await;
            outcome(move |py| match latest {
                Ok(id) => Ok(id.map(|id| id.to_string()).into_pyobject(py)?.unbind()),
                Err(error) => Err(errors::stop(py, error)),
            })
        })
    }

    #[doc = stub!("Journal.turns")]
    #[getter]
    fn turns(&self) -> usize {
        self.0.turns()
    }

    #[doc = stub!("Journal.bytes")]
    #[getter]
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

#[doc = stub!("Sessions")]
#[pyclass(frozen, module = "ragwire")]
#[derive(Clone)]
pub(crate) struct Sessions(pub(crate) CoreSessions);

pub(crate) fn session_limits(options: &mut Options<'_>) -> PyResult<SessionLimits> {
    let mut limits = SessionLimits::default();
    // The sessions of Eve need this much.
    let max_question = ragwire_endpoints::EndpointLimits::MAX_QUESTION_BYTES;
    limits = limits.max_state_bytes(ragwire_endpoints::Endpoints::max_state_bytes(max_question));
    if let Some(sessions) = options.take("max_sessions")? {
        limits = limits.max_sessions(sessions);
    }
    if let Some(messages) = options.take("max_messages")? {
        limits = limits.max_messages(messages);
    }
    if let Some(bytes) = options.take("max_bytes")? {
        limits = limits.max_bytes(bytes);
    }
    if let Some(bytes) = options.take("max_state_bytes")? {
        limits = limits.max_state_bytes(bytes);
    }
    if let Some(age) = options.seconds("max_age")? {
        limits = limits.max_age(age);
    }
    Ok(limits)
}

#[pymethods]
impl Sessions {
    #[new]
    #[pyo3(signature = (**options), text_signature = None)]
    fn new(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut options = Options::new(py, options)?;
        let limits = session_limits(&mut options)?;
        options.finish()?;
        Ok(Self(CoreSessions::in_memory(limits)))
    }

    #[doc = stub!("Sessions.open")]
    #[staticmethod]
    #[pyo3(signature = (path, **options), text_signature = None)]
    fn open(
        py: Python<'_>,
        path: std::path::PathBuf,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Promise> {
        let mut options = Options::new(py, options)?;
        let limits = session_limits(&mut options)?;
        options.finish()?;
        Ok(runtime::promise(
            "Sessions.open()",
            move || CoreSessions::open(path, limits),
            Self::opened,
        ))
    }

    #[doc = stub!("Sessions.redis")]
    #[staticmethod]
    #[pyo3(signature = (url, **options), text_signature = None)]
    fn redis(py: Python<'_>, url: &str, options: Option<&Bound<'_, PyDict>>) -> PyResult<Promise> {
        let mut options = Options::new(py, options)?;
        let limits = session_limits(&mut options)?;
        let redis = redis_options(&mut options, url)?;
        options.finish()?;
        Ok(runtime::promise(
            "Sessions.redis()",
            move || async move { CoreSessions::redis(&redis, limits).await },
            Self::opened,
        ))
    }
}

impl Sessions {
    fn opened(
        py: Python<'_>,
        sessions: Result<CoreSessions, ragwire::session::SessionError>,
    ) -> PyResult<Py<PyAny>> {
        match sessions {
            Ok(sessions) => Ok(Py::new(py, Self(sessions))?.into_any()),
            Err(error) => Err(errors::session(py, &error)),
        }
    }
}

#[doc = stub!("TurnGroup")]
#[pyclass(frozen, module = "ragwire")]
pub(crate) struct TurnGroup {
    limits: TurnGroupBuilder,
    /// The limit per owner that was set.
    pub(crate) max_per_owner: Option<usize>,
    state: Mutex<GroupState>,
}

struct GroupState {
    group: CoreGroup,
    is_shut_down: bool,
}

impl TurnGroup {
    pub(crate) fn group(&self) -> CoreGroup {
        lock(&self.state).group.clone()
    }

    /// Returns a group that accepts turns: a new one with the same limits after `shut_down`.
    pub(crate) fn open_group(&self) -> CoreGroup {
        let mut state = lock(&self.state);
        if state.is_shut_down {
            *state = GroupState {
                group: self.limits.build(),
                is_shut_down: false,
            };
        }
        state.group.clone()
    }
}

#[pymethods]
impl TurnGroup {
    #[new]
    #[pyo3(signature = (**options), text_signature = None)]
    fn new(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut options = Options::new(py, options)?;
        let mut group = CoreGroup::builder();
        if let Some(turns) = options.take("max_active")? {
            group = group.max_active(turns);
        }
        if let Some(turns) = options.take("max_queued")? {
            group = group.max_queued(turns);
        }
        if let Some(after) = options.seconds("queue_timeout")? {
            group = group.queue_timeout(after);
        }
        let max_per_owner = options.take("max_per_owner")?;
        if let Some(turns) = max_per_owner {
            group = group.max_per_owner(turns);
        }
        if let Some(turns) = options.take("max_active_per_client")? {
            group = group.max_active_per_client(turns);
        }
        if let Some(turns) = options.take("max_queued_per_client")? {
            group = group.max_queued_per_client(turns);
        }
        options.finish()?;
        Ok(Self {
            limits: group,
            max_per_owner,
            state: Mutex::new(GroupState {
                group: group.build(),
                is_shut_down: false,
            }),
        })
    }

    #[doc = stub!("TurnGroup.active")]
    #[getter]
    fn active(&self) -> usize {
        self.group().active()
    }

    #[doc = stub!("TurnGroup.queued")]
    #[getter]
    fn queued(&self) -> usize {
        self.group().queued()
    }

    #[doc = stub!("TurnGroup.shut_down")]
    #[pyo3(text_signature = None)]
    pub(crate) fn shut_down(&self) {
        let mut state = lock(&self.state);
        state.is_shut_down = true;
        let group = state.group.clone();
        drop(state);
        group.shut_down();
    }

    #[doc = stub!("TurnGroup.drained")]
    #[pyo3(text_signature = None)]
    fn drained(&self) -> Promise {
        let group = self.group();
        Promise::new("turns.drained()", async move {
            group.drained().await;
            outcome(|py| Ok(py.None()))
        })
    }
}
