//! The template language (reference: registries-and-templates, "The template language"): variables
//! `{{NAME}}`, imports of promptlets
//! `{{ import "name@range" }}`, `\{{` for a literal `{{`, and `{{ '…' }}` for what is quoted. Any
//! other `{{` is a problem with line and column. Every text can be written.
//!
//! Compiling inserts the texts of promptlets, rendering inserts values. Neither expands what it
//! inserted, each is one pass in linear time, and neither panics on any text. The caller provides
//! promptlets and values. Also here: the `${NAME}` of tool configurations.

mod compile;
mod parse;
mod placeholders;
mod render;
mod scanner;
mod warnings;

#[cfg(test)]
mod tests;

pub use compile::{
    Compilation, Diagnostic, Import, Imported, MAX_IMPORTS, MAX_PROBLEMS, MAX_VARIABLES, compile,
};
pub use parse::{imports, quoted};
pub use placeholders::{
    dollars, is_dollar, placeholder_warnings, placeholders, replace_placeholders,
};
pub use render::{Rendering, render, unquoted};
pub use warnings::warnings;

/// Limit of a compiled or rendered text in bytes: three times the longest source (307,200), and a
/// record with it, its source and metadata stays below 2 MiB.
pub const MAX_TEXT_BYTES: usize = 1024 * 1024;
