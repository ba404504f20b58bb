//! What is shown to people.

/// What is shown to people at a path.
pub struct Page {
    /// The path.
    pub path: &'static str,
    /// HTML; `{version}` becomes the server's.
    pub html: &'static str,
    /// Whether it is shown before the server is set up.
    pub open_before_setup: bool,
}
