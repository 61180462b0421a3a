//! GGUF files: names of files, and downloads from the Hugging Face hub.
//!
//! | file | content |
//! |---|---|
//! | `name` | the name of a file: a path, or `hf:owner/repo[@revision]/file` |
//! | `hub` (feature `hub`) | downloads a named file once, and verifies it |
//!
//! These modules do not open model files: whether a file is a usable model is decided by the code
//! that loads it.

#[cfg(feature = "hub")]
mod hub;
mod name;

#[cfg(feature = "hub")]
pub use hub::{Hub, HubError};
pub use name::{HubFile, ModelFile, NameError};
