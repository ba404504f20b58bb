//! `roadstead login` by the browser (RFC 8628; reference: identity-and-rights, "Signing in on the command
//! line"). Nothing but the code that is shown here leads from one to the other, so it works over ssh, too.

use std::time::Duration;

use serde_json::{Value, json};

use super::api::Api;
use super::refusal::Refusal;
use super::table::one_line;
use crate::base::Time;
use crate::cli::failure::Failure;
use crate::cli::{machine, output};
use crate::outside::Method;
use crate::store::Clock;

const PATH: &str = "/auth/device-sign-ins";

/// What each "slow down" adds to the pause (RFC 8628).
const SLOWER_SECS: u64 = 5;

/// The longest pause: one that a server asks for beyond is none of ours.
const MAX_PAUSE_SECS: u64 = 60;

/// A request that waits for a person.
pub struct Begun {
    device_code: String,
    user_code: String,
    page: String,
    pause_secs: u64,
    /// When the server forgets it.
    expires_at: Option<Time>,
}

/// Asks the server to be let in; `None` from one that is older than this.
pub fn begin(api: &Api) -> Result<Option<Begun>, Failure> {
    let begun = match api.send(Method::POST, PATH, &json!({"client": client_name()})) {
        Err(refusal) if refusal.with_code("no_such_path").is_some() => return Ok(None),
        begun => begun?,
    };
    let text = |name: &str| one_line(begun[name].as_str().unwrap_or_default());
    let page = text("verificationUri");
    // A server that does not know its own address names the path alone.
    let page = if page.starts_with('/') { format!("{}{page}", api.base()) } else { page };
    Ok(Some(Begun {
        device_code: begun["deviceCode"].as_str().unwrap_or_default().into(),
        user_code: text("userCode"),
        page,
        pause_secs: begun["interval"].as_u64().unwrap_or(SLOWER_SECS).clamp(1, MAX_PAUSE_SECS),
        expires_at: begun["expiresAt"].as_str().and_then(Time::parse),
    }))
}

/// Says what to do in the browser, and waits until it is done; returns the token of the session.
pub fn wait(api: &Api, begun: &Begun) -> Result<String, Failure> {
    output::lines(&format!(
        "To let this command line in, open\n  {}\nin any browser, and enter the code\n  {}\nWaiting for \
         that, at most ten minutes; Ctrl-C ends it.",
        begun.page, begun.user_code
    ));
    let (clock, mut pause) = (Clock::system(), begun.pause_secs);
    loop {
        // Made within the runtime: it needs its clock.
        api.block_on(async { tokio::time::sleep(Duration::from_secs(pause)).await });
        let body = json!({"deviceCode": begun.device_code});
        match api.send(Method::POST, &format!("{PATH}/finish"), &body) {
            Ok(session) => return Ok(session["token"].as_str().unwrap_or_default().into()),
            Err(refusal) => {
                // A server that answers says itself that it is over: clocks may differ.
                let is_over = begun.expires_at.is_some_and(|end| end <= clock.now());
                pause = next_pause(&refusal, pause, is_over).ok_or(refusal)?;
            }
        }
    }
}

/// The pause before the next question, if there is to be one.
fn next_pause(refusal: &Refusal, pause: u64, is_over: bool) -> Option<u64> {
    let code = refusal.problem().map(|problem| problem.code.as_str());
    match code {
        Some("authorization_pending") => Some(pause),
        Some("slow_down") => Some((pause + SLOWER_SECS).min(MAX_PAUSE_SECS)),
        _ if refusal.is_temporary() && !is_over => Some((pause * 2).min(MAX_PAUSE_SECS)),
        _ => None,
    }
}

/// What the person is shown: this program, and the machine's name as far as it is plain.
fn client_name() -> Value {
    let plain = |name: &String| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        !name.is_empty() && name.len() <= 64 && name.bytes().all(is_plain)
    };
    match machine::name().filter(plain) {
        Some(name) => json!(format!("roadstead on {name}")),
        None => json!("roadstead"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_when_asked_and_the_wait_ends_when_it_is_decided() {
        let refusal = |status, code: &str| {
            let body = json!({"message": "m", "code": code}).to_string();
            Refusal::of_body(status, body.as_bytes(), None, None)
        };
        let next = |status, code| next_pause(&refusal(status, code), 5, false);
        assert_eq!(next(400, "authorization_pending"), Some(5));
        assert_eq!(next(400, "slow_down"), Some(10));
        assert_eq!(next(503, "overloaded"), Some(10));
        assert_eq!(next_pause(&Refusal::Unanswered("gone".into()), 40, false), Some(60));
        assert_eq!(next_pause(&Refusal::Unanswered("gone".into()), 40, true), None);
        for code in ["access_denied", "expired_token"] {
            assert_eq!(next(400, code), None, "{code}");
        }
    }
}
