//! Properties of every turn on every wire: any events, any text, any end, cut anywhere.

mod ai_sdk;
mod chats;
mod event_stream;
mod framed;
mod framing;
mod langgraph;
mod lossless;
mod names;
mod seeds;
mod streams;
