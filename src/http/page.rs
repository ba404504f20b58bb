//! HTML pages.

/// An HTML page at a path.
pub struct HtmlPage {
    pub path: &'static str,
    /// The HTML; `{version}` is replaced by the server's version.
    pub html: &'static str,
    /// Whether it is served before the server is set up.
    pub open_before_setup: bool,
}
