//! `roadstead health`: for health checks of containers, where there is no other HTTP client.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::common::Common;
use super::failure::Failure;
use super::{output, values};
use crate::outside::{BodyLimit, Call, ClientConfig, Limits, Method, Outside};

/// Longer than a server takes to say that it is not ready.
const TIMEOUT: Duration = Duration::from_secs(5);

const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Ask the server on this machine whether it can serve requests
#[derive(Args)]
#[command(
    after_help = "It asks for /readyz at the address that `serve` has with the same flags and \
                        variables.\n\nExit codes: 0 ready, 1 not ready or not reached."
)]
pub struct Health {
    /// Address that the server listens on
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "ROADSTEAD_LISTEN",
        default_value = "127.0.0.1:7420",
        value_parser = values::host_and_port
    )]
    listen: String,

    #[command(flatten)]
    common: Common,
}

impl Health {
    pub(super) fn run(self) -> Result<(), Failure> {
        let url = format!("http://{}/readyz", reachable(&self.listen)?);
        // Its user names the address.
        let everywhere = ["0.0.0.0/0", "::/0"].map(|net| net.parse().expect("it is a network"));
        let config = ClientConfig { allow_private: everywhere.to_vec(), extra_roots_pem: None };
        let outside = Outside::new(config)?;
        let limits =
            Limits { total: TIMEOUT, answer: BodyLimit::UpTo(MAX_ANSWER_BYTES), https_only: false };
        let call =
            Call { method: Method::Get, url: url.clone(), headers: vec![], body: vec![], limits };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::io("the runtime"))?;
        let answer = runtime.block_on(outside.send(call));
        // A look-up of a name that takes longer must not delay the exit.
        runtime.shutdown_background();
        let answer = answer.map_err(|error| Failure::Failed(format!("{url}: {error}")))?;
        if !answer.is_success() {
            let body = String::from_utf8_lossy(&answer.body).into_owned();
            return Err(Failure::Failed(format!("{url} answered {}: {body}", answer.status)));
        }
        output::print(self.common.json, &json!({"status": "ok", "url": url}), "ready")
    }
}

/// Returns the address at which a server that listens on `listen` is reached from this machine: one
/// that listens on all addresses, at the loopback address.
fn reachable(listen: &str) -> Result<String, Failure> {
    let Some((host, port)) = listen.rsplit_once(':') else { return Ok(listen.into()) };
    match (host, port.parse::<u16>()) {
        (_, Ok(0)) => Err(Failure::Usage(
            "--listen has the port 0, which stands for any free one: name the port that the server \
             has printed"
                .into(),
        )),
        ("0.0.0.0", _) => Ok(format!("127.0.0.1:{port}")),
        ("[::]", _) => Ok(format!("[::1]:{port}")),
        _ => Ok(listen.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_reached_at_the_loopback_address() {
        for (listen, reached) in [
            ("0.0.0.0:7420", "127.0.0.1:7420"),
            ("[::]:80", "[::1]:80"),
            ("10.0.0.7:7420", "10.0.0.7:7420"),
            ("localhost:7420", "localhost:7420"),
        ] {
            assert_eq!(reachable(listen).ok().as_deref(), Some(reached));
        }
        assert!(matches!(reachable("127.0.0.1:0"), Err(Failure::Usage(_))));
    }
}
