//! `roadstead health`: for health checks of containers, where there is no other HTTP client.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::common::Common;
use super::failure::Failure;
use super::listening::Listening;
use super::output;
use crate::outside::{BodyLimit, Call, ClientConfig, Limits, Method, Outside, Response};

/// Longer than a server takes to say that it is not ready.
const TIMEOUT: Duration = Duration::from_secs(5);

const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Ask the server on this machine whether it can serve requests
#[derive(Args)]
#[command(
    after_help = "It asks for /readyz at the address that `serve` has with the same flags and \
                        variables, the first if it has several. With TLS the certificate is not verified: \
                        nothing secret is sent.\n\nExit codes: 0 ready, 1 not ready or not \
                        reached.",
    mut_arg("listen", |listen| listen.help("Address that the server listens on"))
)]
pub struct Health {
    #[command(flatten)]
    listening: Listening,

    #[command(flatten)]
    common: Common,
}

impl Health {
    pub(super) fn run(self) -> Result<(), Failure> {
        let listen = self.listening.listen.first().map(String::as_str).unwrap_or_default();
        let address = reachable(listen)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::io("the runtime"))?;
        let answer = runtime.block_on(ask(&address));
        // A look-up of a name that takes longer must not delay the exit.
        runtime.shutdown_background();
        let (url, answer) = answer?;
        if !answer.is_success() {
            let body = String::from_utf8_lossy(&answer.body).into_owned();
            return Err(Failure::Failed(format!("{url} answered {}: {body}", answer.status)));
        }
        output::print(self.common.json, &json!({"status": "ok", "url": url}), "ready")
    }
}

/// Asks with TLS if the server says that this is spoken there: so the command needs no settings of TLS.
async fn ask(address: &str) -> Result<(String, Response), Failure> {
    // Its user names the address.
    let config = ClientConfig::default().to_everywhere();
    // The certificate is for the names by which clients come, not for this address. Nothing is sent that
    // others must not read, and what is answered is believed of whoever answers at this address.
    let outside = Outside::new(config)?.without_verification()?;
    let mut url = format!("http://{address}/readyz");
    let mut answer = send(&outside, &url).await?;
    let is_other = String::from_utf8_lossy(&answer.body).contains("\"other_protocol\"");
    if answer.status == 400 && is_other {
        url = format!("https://{address}/readyz");
        answer = send(&outside, &url).await?;
    }
    Ok((url, answer))
}

async fn send(outside: &Outside, url: &str) -> Result<Response, Failure> {
    let limits =
        Limits { total: TIMEOUT, answer: BodyLimit::UpTo(MAX_ANSWER_BYTES), https_only: false };
    let call = Call { method: Method::GET, url: url.into(), headers: vec![], body: vec![], limits };
    let answer = outside.send(call).await;
    answer.map_err(|error| Failure::Failed(format!("{url}: {error}")))
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
