//! How many turns run, how many wait, and which is next.

pub(crate) mod group;
mod members;
mod wait;

pub(super) use members::{Names, busy};
pub(super) use wait::wait;
