//! The decoders of Forge, the session chat and Eve, which read what their own servers write too.

use ragwire::wire::{ollama, openai, responses};
use ragwire::{Eve, Forge, SessionChat};

use crate::upstream::check;

/// Checks the decoder of Forge. The first byte is the size of the chunks, the rest is the stream.
pub fn forge_decode(data: &[u8]) {
    check(data, |limits| Forge::default().limits(limits).decoder());
}

/// Checks the decoder of the session chat, with the same input format.
pub fn session_chat_decode(data: &[u8]) {
    check(data, |limits| SessionChat::default().limits(limits).decoder());
}

/// Checks the decoder of Eve, with the same input format.
pub fn eve_decode(data: &[u8]) {
    check(data, |limits| Eve::new("s").limits(limits).decoder());
}

/// Checks the decoder of chat completions, with the same input format.
pub fn openai_decode(data: &[u8]) {
    check(data, openai::Decoder::new);
}

/// Checks the decoder of the Responses API, with the same input format.
pub fn responses_decode(data: &[u8]) {
    check(data, responses::Decoder::new);
}

/// Checks the decoder of Ollama, with the same input format.
pub fn ollama_decode(data: &[u8]) {
    check(data, ollama::Decoder::new);
}
