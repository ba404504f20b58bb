//! An agent outside of the organization, which asks a team to be heard.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::client::nostr::{NostrKey, Signed, fresh_address, now_secs};
use crate::server::Running;
use crate::sites::{Sites, names};

/// The domains that servers of these tests resolve and trust.
pub static SITES: LazyLock<Sites> = LazyLock::new(Sites::new);

/// Asks to write to a team of acme; returns the handle and the id of the request.
pub fn ask(server: &Running, team: &str, message: &str) -> (String, String) {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let domain = format!("partner-{}.test", NEXT.fetch_add(1, Ordering::Relaxed));
    ask_as(server, team, message, ("scout", &domain))
}

/// The same with this name at this domain.
pub fn ask_as(
    server: &Running,
    team: &str,
    message: &str,
    (name, domain): (&str, &str),
) -> (String, String) {
    let key = NostrKey::new();
    let pubkey = key.pubkey();
    let handle = format!("{name}@{domain}");
    let name = name.to_string();
    SITES.serve(domain, move |_| names(&name, &pubkey));
    let path = format!("/exchange/acme/{team}/requests");
    let body: Value = json!({"handle": handle, "message": message});
    let bytes = body.to_string();
    // The host that the client names.
    let url = format!("http://localhost/api{path}");
    let signed = Signed { url: &url, method: "POST", body: Some(bytes.as_bytes()), at: now_secs() };
    let anonymous = server.anonymous();
    let ask = anonymous.ask("POST", &path).json(&body);
    let ask = ask.with("Authorization", &key.authorization(signed));
    (handle, ask.with("X-Forwarded-For", &fresh_address()).send().id())
}
