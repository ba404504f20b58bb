//! The template language (contract §3): variables `{{NAME}}`, imports of promptlets
//! `{{ import "name@range" }}`, and `\{{` for the two characters themselves. It refuses any other
//! `{{`, and tells line and column.
//!
//! Compiling puts the promptlets' texts in, rendering puts the values in. Neither expands what it
//! put in, each is one pass in linear time, and no text makes them panic. Where promptlets and
//! values come from, whoever calls says. Beside it, the `${NAME}` of tools' configurations.

mod compile;
mod parse;
mod placeholders;
mod render;
mod scanner;

#[cfg(test)]
mod tests;

pub use compile::{
    Compilation, Import, Imported, MAX_IMPORTS, MAX_PROBLEMS, MAX_VARIABLES, Problem, compile,
};
pub use placeholders::placeholders;
pub use render::{Rendering, render};

/// A text that was compiled or rendered has at most this many bytes: three times the longest source
/// (307,200), and a record that keeps it beside its source and metadata stays below 2 MiB.
pub const MAX_TEXT_BYTES: usize = 1024 * 1024;
