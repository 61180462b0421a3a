//! GGUF files: their names (`name`), and downloads from the Hugging Face hub (`hub`, a feature).
//! These modules do not open model files: the code that loads a file decides whether it is usable.

#[cfg(feature = "hub")]
mod hub;
mod name;

#[cfg(feature = "hub")]
pub use hub::{Hub, HubError};
pub use name::{HubFile, ModelFile, NameError};
