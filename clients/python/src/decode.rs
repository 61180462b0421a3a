//! The decoders as a Python class: bytes in, items of `ragwire._items` out.
//!
//! It knows no iterable and no connection; `_decode.py` and `_client.py` feed it.

use std::sync::Mutex;

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyMemoryView, PyString};
use ragwire::wire::ndjson::NdjsonDecoder;
use ragwire::wire::sse::SseDecoder;
use ragwire::wire::{Decode, DecodeError, Finish, Limits, WireKind};
use ragwire::wire::{ag_ui, ai_sdk, ollama, openai, responses, trustgraph};
use ragwire::{
    End, Eve, Event, Forge, Frame, Framed, LangGraph, Ndjson, SessionChat, Snapshot, Sse, Status, Timestamp,
};

use crate::json;
use crate::metadata::written;

/// The names of the wires that can be decoded.
pub(crate) fn names() -> Vec<&'static str> {
    WireKind::ALL.iter().map(|kind| kind.name()).collect()
}

/// The classes of the items.
struct Classes {
    text: Py<PyAny>,
    event: Py<PyAny>,
    custom: Py<PyAny>,
    snapshot: Py<PyAny>,
    end: Py<PyAny>,
}

impl Classes {
    fn get(py: Python<'_>) -> PyResult<&Self> {
        static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();
        CLASSES.get_or_try_init(py, || {
            let module = py.import("ragwire._items")?;
            let class = |name| module.getattr(name).map(Bound::unbind);
            Ok(Self {
                text: class("TextItem")?,
                event: class("EventItem")?,
                custom: class("CustomItem")?,
                snapshot: class("SnapshotItem")?,
                end: class("EndItem")?,
            })
        })
    }
}

/// The decoder of one wire. Those with indexes are kept apart, because the others have none.
#[derive(Debug)]
enum AnyDecoder {
    Sse(SseDecoder),
    Ndjson(NdjsonDecoder),
    Other(Box<dyn Decode>),
}

/// A frame, with its index on the wires that have one.
type Indexed = (Option<u64>, Frame);

impl AnyDecoder {
    fn new(kind: WireKind, limits: Limits, answer_nodes: Vec<String>) -> Self {
        let langgraph = LangGraph::new("").limits(limits).answer_nodes(answer_nodes);
        Self::Other(match kind {
            WireKind::Sse => return Self::Sse(Sse::default().limits(limits).decoder()),
            WireKind::Ndjson => return Self::Ndjson(Ndjson::default().limits(limits).decoder()),
            WireKind::Framed => Box::new(Framed::default().limits(limits).decoder()),
            WireKind::AiSdk => Box::new(ai_sdk::AiSdkDecoder::new(limits)),
            WireKind::AgUi => Box::new(ag_ui::AgUiDecoder::new(limits)),
            WireKind::OpenAi => Box::new(openai::Decoder::new(limits)),
            WireKind::Responses => Box::new(responses::Decoder::new(limits)),
            WireKind::Ollama => Box::new(ollama::Decoder::new(limits)),
            WireKind::LangGraph => Box::new(langgraph.decoder()),
            WireKind::Forge => Box::new(Forge::default().limits(limits).decoder()),
            WireKind::SessionChat => Box::new(SessionChat::default().limits(limits).decoder()),
            WireKind::Eve => Box::new(Eve::new("").limits(limits).decoder()),
            WireKind::TrustGraph => Box::new(trustgraph::TrustGraphDecoder::new(limits)),
            // Plain text has no unit to limit. A kind that is added later gets its defaults.
            kind => kind.decoder(),
        })
    }

    /// Returns whether the stream broke a rule within these bytes.
    fn feed(&mut self, bytes: &[u8], frames: &mut Vec<Indexed>) -> bool {
        match self {
            Self::Sse(decoder) => feed_indexed(decoder, SseDecoder::next_index, bytes, frames),
            Self::Ndjson(decoder) => feed_indexed(decoder, NdjsonDecoder::next_index, bytes, frames),
            Self::Other(decoder) => {
                decoder.feed(bytes);
                take(decoder, |_| None, frames)
            }
        }
    }

    fn finish(&mut self, frames: &mut Vec<Indexed>) -> Finish {
        match self {
            Self::Sse(decoder) => finish_indexed(decoder, SseDecoder::next_index, frames),
            Self::Ndjson(decoder) => finish_indexed(decoder, NdjsonDecoder::next_index, frames),
            Self::Other(decoder) => {
                let finish = decoder.finish();
                take(decoder, |_| None, frames);
                finish
            }
        }
    }
}

/// Feeds one line after the other. A line completes at most one frame, whose index is then the one
/// before the next index.
fn feed_indexed<D: Decode>(
    decoder: &mut D,
    next_index: fn(&D) -> Option<u64>,
    bytes: &[u8],
    frames: &mut Vec<Indexed>,
) -> bool {
    for line in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
        decoder.feed(line);
        if take(decoder, next_index, frames) {
            return true;
        }
    }
    false
}

fn finish_indexed<D: Decode>(
    decoder: &mut D,
    next_index: fn(&D) -> Option<u64>,
    frames: &mut Vec<Indexed>,
) -> Finish {
    let finish = decoder.finish();
    take(decoder, next_index, frames);
    finish
}

/// Takes the frames that are ready; returns whether an error follows them.
fn take<D: Decode>(decoder: &mut D, next_index: fn(&D) -> Option<u64>, frames: &mut Vec<Indexed>) -> bool {
    while let Some(frame) = decoder.next() {
        let Ok(frame) = frame else { return true };
        frames.push((next_index(decoder).map(|next| next - 1), frame));
    }
    false
}

/// Decodes the bytes of one stream into items, however the bytes were split.
///
/// It holds one unfinished line or trailer, within the limits, which are in bytes.
#[pyclass(module = "ragwire._ragwire")]
#[derive(Debug)]
pub(crate) struct Decoder {
    /// The lock is never contended, as every method borrows mutably; it makes the class `Sync`.
    decoder: Mutex<AnyDecoder>,
    is_finished: bool,
    /// Whether the stream broke a rule.
    #[pyo3(get)]
    has_failed: bool,
}

#[pymethods]
impl Decoder {
    #[new]
    #[pyo3(signature = (wire, max_line_bytes=None, max_trailer_bytes=None, answer_nodes=Vec::new()))]
    fn new(
        wire: &str,
        max_line_bytes: Option<usize>,
        max_trailer_bytes: Option<usize>,
        answer_nodes: Vec<String>,
    ) -> PyResult<Self> {
        let kind: WireKind = wire
            .parse()
            .map_err(|error| PyValueError::new_err(format!("{error}; got {wire:?}")))?;
        let mut limits = Limits::default();
        if max_line_bytes == Some(0) || max_trailer_bytes == Some(0) {
            return Err(PyValueError::new_err("a limit must be at least 1 byte"));
        }
        if let Some(bytes) = max_line_bytes {
            limits = limits.max_line_bytes(bytes);
        }
        if let Some(bytes) = max_trailer_bytes {
            limits = limits.max_trailer_bytes(bytes);
        }
        Ok(Self {
            decoder: Mutex::new(AnyDecoder::new(kind, limits, answer_nodes)),
            is_finished: false,
            has_failed: false,
        })
    }

    /// Takes the next bytes and returns the items that they complete. Bytes after an error are
    /// ignored; `finish` reports the error.
    fn feed<'py>(&mut self, py: Python<'py>, chunk: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        if self.is_finished {
            return Err(PyValueError::new_err("feed after finish"));
        }
        let mut frames = Vec::new();
        let decoder = self.decoder.get_mut().map_err(|_| panicked())?;
        self.has_failed |= if let Ok(bytes) = chunk.cast::<PyBytes>() {
            let bytes = bytes.as_bytes();
            py.detach(|| decoder.feed(bytes, &mut frames))
        } else {
            // They may change while the interpreter runs, so they are copied first.
            let bytes = copy_of(chunk)?;
            py.detach(|| decoder.feed(&bytes, &mut frames))
        };
        items(py, frames)
    }

    /// Reports the end of the bytes: the last items, then `complete`, `truncated` or `invalid`, then
    /// the phase of a truncated stream, or the code and the message of an error.
    fn finish<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyList>, &'static str, &'static str, String)> {
        self.is_finished = true;
        let mut frames = Vec::new();
        let decoder = self.decoder.get_mut().map_err(|_| panicked())?;
        let (status, code, message) = match decoder.finish(&mut frames) {
            Finish::Complete => ("complete", "", String::new()),
            Finish::Truncated { phase } => ("truncated", phase.as_str(), String::new()),
            Finish::Invalid(error) => invalid(error),
        };
        Ok((items(py, frames)?, status, code, message))
    }
}

fn panicked() -> PyErr {
    PyRuntimeError::new_err("the decoder panicked earlier")
}

fn invalid(error: DecodeError) -> (&'static str, &'static str, String) {
    ("invalid", error.code(), error.to_string())
}

/// The bytes of an object with the buffer protocol.
fn copy_of(chunk: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if chunk.is_instance_of::<PyByteArray>() || chunk.is_instance_of::<PyMemoryView>() {
        let bytes = chunk.py().get_type::<PyBytes>().call1((chunk,))?;
        return Ok(bytes.cast::<PyBytes>()?.as_bytes().to_vec());
    }
    let message = if chunk.is_instance_of::<PyString>() {
        "chunks must be bytes, not str: text that was decoded elsewhere may be cut within a character or at the \
         separators"
            .to_owned()
    } else {
        format!("chunks must be bytes, not {}", chunk.get_type().name()?)
    };
    Err(PyTypeError::new_err(message))
}

fn items(py: Python<'_>, frames: Vec<Indexed>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for (index, frame) in frames {
        list.append(item(py, index, frame)?)?;
    }
    Ok(list)
}

fn item(py: Python<'_>, index: Option<u64>, frame: Frame) -> PyResult<Bound<'_, PyAny>> {
    let classes = Classes::get(py)?;
    match frame {
        Frame::Text(text) => classes.text.bind(py).call1((text, index)),
        Frame::Event { event, timestamp } => event_item(py, &event, timestamp, index),
        Frame::Snapshot(snapshot) => snapshot_item(py, &snapshot, index),
        Frame::End(end) => end_item(py, &end, index),
    }
}

fn event_item<'py>(
    py: Python<'py>,
    event: &Event,
    timestamp: Option<Timestamp>,
    index: Option<u64>,
) -> PyResult<Bound<'py, PyAny>> {
    let classes = Classes::get(py)?;
    let timestamp = timestamp.map(|timestamp| timestamp.to_string());
    if let Event::Custom(custom) = event {
        let data = json::from_value(py, &custom.data)?;
        return classes
            .custom
            .bind(py)
            .call1((custom.name(), data, timestamp, index));
    }
    let members = written(py, event)?;
    if let Some(timestamp) = timestamp {
        members.set_item(intern!(py, "timestamp"), timestamp)?;
    }
    classes.event.bind(py).call1((members, index))
}

fn snapshot_item<'py>(
    py: Python<'py>,
    snapshot: &Snapshot,
    index: Option<u64>,
) -> PyResult<Bound<'py, PyAny>> {
    let events = PyList::empty(py);
    for (event, timestamp) in &snapshot.events {
        events.append(event_item(py, event, *timestamp, None)?)?;
    }
    let class = Classes::get(py)?.snapshot.bind(py);
    class.call1((&snapshot.text, events, snapshot.events_dropped, index))
}

fn end_item<'py>(py: Python<'py>, end: &End, index: Option<u64>) -> PyResult<Bound<'py, PyAny>> {
    let metadata = &end.metadata;
    let members = json::from_map(py, &metadata.extra)?;
    members.set_item("citations", written(py, &metadata.citations)?)?;
    members.set_item("tools_used", &metadata.tools_used)?;
    if let Some(mode) = &metadata.mode {
        members.set_item("mode", mode)?;
    }
    if let Some(usage) = &metadata.usage {
        members.set_item("usage", written(py, usage)?)?;
    }
    if let Some(stats) = &metadata.queue_stats {
        members.set_item("queue_stats", written(py, stats)?)?;
    }
    if metadata.events_dropped > 0 {
        members.set_item("events_dropped", metadata.events_dropped)?;
    }
    if metadata.truncated {
        members.set_item("truncated", true)?;
    }
    let error = match &end.status {
        Status::Failed(failure) => Some(written(py, failure)?),
        Status::Completed | Status::Stopped => None,
    };
    let timing = end.timing.map(|timing| {
        let members = PyDict::new(py);
        members.set_item("timestamp", timing.timestamp.to_string())?;
        members.set_item("elapsed_ms", timing.elapsed_ms)?;
        PyResult::Ok(members)
    });
    let class = Classes::get(py)?.end.bind(py);
    class.call1((end.status.as_str(), members, error, timing.transpose()?, index))
}
