//! What the server posts to addresses that its users configure, for the OpenAPI document.

use super::op::SchemaOf;

/// A message that is posted as a Standard Webhook: `{type, timestamp, data}`, signed.
pub struct Webhook {
    /// Its name in the document, one word in camel case.
    pub name: &'static str,
    /// Its summary in one line.
    pub about: &'static str,
    /// What it is posted for, what a response means, and how long it is repeated.
    pub description: &'static str,
    /// The schema of `type`.
    pub kind: SchemaOf,
    /// The schema of `data`.
    pub data: SchemaOf,
}
