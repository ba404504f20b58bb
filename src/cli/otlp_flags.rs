//! The flags of the export of spans.

use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;
use super::private_file;
use crate::http::names_this_machine;
use crate::outside::SpanTarget;

/// Where spans go, and with which headers.
#[derive(Args)]
pub(super) struct OtlpFlags {
    /// URL of an OpenTelemetry collector that gets a span of each request: http://localhost:4318
    #[arg(long, value_name = "URL", env = "ROADSTEAD_OTLP_ENDPOINT", hide_env_values = true)]
    otlp_endpoint: Option<String>,

    /// File of mode 0600 with headers that the collector is sent, a line "Name: value" for each
    #[arg(
        long,
        value_name = "FILE",
        env = "ROADSTEAD_OTLP_HEADER_FILE",
        requires = "otlp_endpoint"
    )]
    otlp_header_file: Option<PathBuf>,
}

impl OtlpFlags {
    /// Returns the collector, if one is named. The URL is parsed here, not by clap, which would repeat it
    /// with what it should not contain.
    ///
    /// # Errors
    /// Usage, if the URL or the file cannot be used.
    pub(super) fn target(&self) -> Result<Option<SpanTarget>, Failure> {
        let Some(endpoint) = &self.otlp_endpoint else { return Ok(None) };
        let target = SpanTarget::parse(endpoint)
            .map_err(|problem| Failure::Usage(format!("--otlp-endpoint {problem}")))?;
        let Some(path) = &self.otlp_header_file else { return Ok(Some(target)) };
        if target.is_in_clear() && !names_this_machine(target.host_name()) {
            return Err(Failure::Usage(
                "--otlp-endpoint must begin with https://, since the headers of --otlp-header-file are \
                 no secret without encryption"
                    .into(),
            ));
        }
        let target = target.with_headers(&private_file::read(path)?);
        Ok(Some(target.map_err(|problem| {
            Failure::Usage(format!("--otlp-header-file {}: {problem}", path.display()))
        })?))
    }
}
