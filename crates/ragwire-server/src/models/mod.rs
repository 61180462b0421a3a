//! Which GGUF file is meant, and where it is on this machine.
//!
//! | file | what it is |
//! |---|---|
//! | `name` | a path, or `hf:owner/repo[@revision]/file` |
//! | `hub` (feature `hub`) | fetches a named file once, and checks it |
//! | `progress` (feature `hub`) | how far a download is |
//! | `checksum` (feature `hub`) | whether a file is the one that was published |
//!
//! It does not know what a model is: whoever opens the file finds that out.

#[cfg(feature = "hub")]
mod checksum;
#[cfg(feature = "hub")]
mod hub;
mod name;
#[cfg(feature = "hub")]
mod progress;

#[cfg(feature = "hub")]
pub use hub::{Hub, HubError};
pub use name::{HubFile, ModelFile, NameError};
