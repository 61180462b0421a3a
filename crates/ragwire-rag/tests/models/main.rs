//! Tests of models: llama.cpp in this process, and OpenAI-compatible servers.

#[cfg(feature = "llama")]
mod embed;
#[cfg(feature = "llama")]
mod llama;
#[cfg(feature = "upstream")]
mod upstream;
