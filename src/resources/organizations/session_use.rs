//! The record of the last use of a session: when, and from where
//! (reference: identity-and-rights, "Sessions").

use bincode::{Decode, Encode};

use crate::auth::{Session, UsedFrom, ends_with_session};
use crate::base::{Id, Result, Time};
use crate::store::{AnyReference, Export, Record, Reference, Tx};

/// The longest name of a client, in bytes.
const MAX_CLIENT: usize = 40;

/// The last use of a session. Separate from the session, whose changes affect what its caller may do.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct SessionUse {
    pub session: Id<Session>,
    pub at: Time,
    /// The IP address that it was used from.
    pub address: String,
    /// What the client is, by what it calls itself.
    pub client: Option<String>,
}

static OF_SESSION: Reference<SessionUse, Session> = ends_with_session();

impl Record for SessionUse {
    const TABLE: &'static str = "sessions.use";
    const EXPORT: Export<Self> = Export::LeftOut("people sign in to each installation");
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&OF_SESSION];
    const ORG_SCOPED: bool = false;
    type Key = Id<Session>;
    fn key(&self) -> Self::Key {
        self.session
    }
}

/// Stores when and from where sessions were last used. Those that have ended are skipped.
///
/// # Errors
/// Those of the store.
pub fn record_session_usage(tx: &mut Tx, uses: &[(Id<Session>, Time, UsedFrom)]) -> Result<()> {
    for (session, at, from) in uses {
        if tx.view().has::<Session>(session)? {
            tx.put(&SessionUse {
                session: *session,
                at: *at,
                address: from.address.to_canonical().to_string(),
                client: from.user_agent.as_deref().and_then(client_of),
            })?;
        }
    }
    Ok(())
}

/// Browsers, by what their user agents have and those of the ones after them may have, too.
const BROWSERS: [(&str, &str); 9] = [
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
];

/// Systems, in the same way.
const SYSTEMS: [(&str, &str); 7] = [
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
];

/// The short name of a client: browser and system, or the first product that a program names.
fn client_of(user_agent: &str) -> Option<String> {
    let of = |names: &[(&str, &'static str)]| {
        names.iter().find(|(part, _)| user_agent.contains(part)).map(|(_, name)| *name)
    };
    if user_agent.starts_with("Mozilla/")
        && let Some(browser) = of(&BROWSERS)
    {
        return Some(match of(&SYSTEMS) {
            Some(system) => format!("{browser} on {system}"),
            None => browser.into(),
        });
    }
    let product = user_agent.split_ascii_whitespace().next()?;
    let shown = product.chars().filter(char::is_ascii_graphic).take(MAX_CLIENT);
    Some(shown.collect::<String>().replacen('/', " ", 1)).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::tests::{identity_of, session, with_password};
    use super::*;
    use crate::auth::Credential;
    use crate::resources::testing::Fixture;
    use crate::store::{ListSource, View};

    #[test]
    fn a_client_has_a_short_name() {
        let named = |agent: &str| client_of(agent).unwrap_or_default();
        let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
        assert_eq!(named(firefox), "Firefox on Linux");
        let engine = "AppleWebKit/537.36 (KHTML, like Gecko)";
        let windows = "Mozilla/5.0 (Windows NT 10.0; Win64; x64)";
        let chrome = format!("{windows} {engine} Chrome/140.0.0.0 Safari/537.36");
        assert_eq!(named(&chrome), "Chrome on Windows");
        assert_eq!(named(&format!("{chrome} Edg/140.0.0.0")), "Edge on Windows");
        let phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)";
        assert_eq!(
            named(&format!("{phone} {engine} Version/18.0 Safari/604.1")),
            "Safari on iPhone"
        );
        assert_eq!(named("curl/8.5.0"), "curl 8.5.0");
        assert_eq!(named("python-requests/2.32 something"), "python-requests 2.32");
        assert_eq!(named("Mozilla/5.0 (compatible)"), "Mozilla 5.0");
        assert_eq!(named(&"x".repeat(500)).len(), MAX_CLIENT);
        assert_eq!(client_of("  "), None);
    }

    #[test]
    fn the_last_use_replaces_the_one_before_and_ends_with_its_session() {
        let fixture = Fixture::new();
        let ada = with_password(&fixture, &fixture.owner);
        let token = session(&fixture.store, &ada);
        let Credential::Session(id) = identity_of(&fixture.store, &token).unwrap().credential
        else {
            panic!("a session");
        };
        let use_from = |last: u8| {
            let address = Ipv4Addr::new(192, 0, 2, last).into();
            let from = UsedFrom { address, user_agent: Some("curl/8.5.0".into()) };
            let now = fixture.store.clock().now();
            let uses = vec![(id, now, from.clone()), (Id::NIL, now, from)];
            let write = move |tx: &mut Tx| record_session_usage(tx, &uses);
            fixture.store.write_blocking(Id::NIL, write).unwrap();
        };
        let stored = || {
            let read = |view: &View| view.all::<SessionUse>(ListSource::TABLE, &());
            fixture.store.read_now(Id::NIL, read).unwrap()
        };
        use_from(1);
        fixture.pass_secs(300);
        use_from(2);
        let (at, client) = (fixture.store.clock().now(), Some("curl 8.5.0".into()));
        let expected = SessionUse { session: id, at, address: "192.0.2.2".into(), client };
        assert_eq!(stored(), [expected]);
        let end = move |tx: &mut Tx| {
            let session: Session = tx.fetch(&id)?;
            tx.remove(&session)
        };
        fixture.store.write_blocking(Id::NIL, end).unwrap();
        assert_eq!(stored(), []);
        fixture.assert_sound();
    }
}
