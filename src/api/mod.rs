//! The API as clients see it.

pub mod read;
