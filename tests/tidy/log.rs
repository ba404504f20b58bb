//! Nobody can fill a disk with log lines: what a request can cause at `warn` or `error` is limited.

use crate::source::{Source, after_group};
use crate::{assert_clean, assert_reports, of_product};

/// Folders whose code runs for every request.
const OF_REQUESTS: [&str; 4] = ["src/api/execute/", "src/http/", "src/console/", "src/mcp/"];

/// Lines that a request cannot cause (file, a part of the line). Better few.
const OF_THE_SERVER: &[(&str, &str)] =
    &[("src/http/server.rs", "some connections did not end in time")];

/// Lines at `warn` and `error` that do not say how many of them were suppressed, and so are written
/// without a `LogLimit`.
fn unlimited_lines(source: &Source) -> Vec<String> {
    if !OF_REQUESTS.iter().any(|folder| source.path.starts_with(folder)) {
        return vec![];
    }
    let tokens = &source.tokens;
    let mut found = Vec::new();
    for (at, three) in tokens.windows(3).enumerate() {
        let is_line = (three[0].is("warn") || three[0].is("error")) && three[1].is("!");
        if !is_line || !three[2].is("(") {
            continue;
        }
        let arguments = &tokens[at + 2..after_group(tokens, at + 2)];
        let is_limited = arguments.iter().any(|token| token.is("suppressed"));
        let is_known = OF_THE_SERVER.iter().any(|(path, part)| {
            source.path == *path && arguments.iter().any(|token| token.text.contains(part))
        });
        if !is_limited && !is_known {
            let line = three[0].first_line;
            found.push(format!(
                "{}:{line}: a line without a limit; admit it by a `LogLimit`, and log `suppressed`",
                source.path
            ));
        }
    }
    found
}

#[test]
fn requests_write_no_warnings_without_a_limit() {
    let path = "src/http/a.rs";
    assert_reports(
        unlimited_lines,
        &[
            (path, "fn a() { tracing::warn!(%error, suppressed, \"b\"); }", ""),
            (path, "fn a() { tracing::warn!(%error, \"b\"); }", "src/http/a.rs:1: a line without"),
            ("src/api/execute/a.rs", "fn a() { error!(\"suppressed\"); }", "without a limit"),
            (path, "fn a() { tracing::debug!(\"b\"); }", ""),
            ("src/app/a.rs", "fn a() { tracing::warn!(\"b\"); }", ""),
        ],
    );
    assert_clean(of_product(unlimited_lines));
}
