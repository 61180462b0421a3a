//! Orchestrators that pass on the answers of a model server, each written with the client library that
//! an application already has. Copy the function that fits, and give it to `Endpoints::new`.

pub mod with_async_openai;
pub mod with_rig;
