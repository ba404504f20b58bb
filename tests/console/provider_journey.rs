//! Signing in and out with a provider in a real browser, which is led to another site and back.

use roadstead::app::ServerConfig;
use roadstead::auth::ProviderSession;
use roadstead::auth::oidc::OidcProvider;
use roadstead::base::Id;
use roadstead::store::{ListSource, View};
use serde_json::{Value, json};

use crate::client::pick;
use crate::journeys::with_and_without_scripts;
use crate::oidc_provider::Provider;
use crate::outside::SITES;
use crate::server::{PASSWORD, Running};
use crate::webdriver::{Browser, Driver};

/// A person at a browser, on the page to sign in.
struct Person<'a> {
    browser: Browser<'a>,
    home: String,
}

impl<'a> Person<'a> {
    fn new(driver: &'a Driver, server: &Running, domain: &str, scripts: bool) -> Self {
        let browser = driver.browser_that_finds(domain, SITES.address(domain), scripts);
        let home = format!("http://{}", server.address);
        browser.open(&format!("{home}/sign-in"));
        Person { browser, home }
    }

    /// Goes to the provider, and signs in there as somebody.
    fn sign_in_as(&self, name: &str) {
        self.browser.click("main a[href^='/sign-in/oidc/kc']");
        self.browser.shows("Who is it?");
        self.browser.click(&format!("#{name}"));
    }

    fn is_in_acme(&self) {
        self.browser.shows("Today");
        assert_eq!(self.browser.url(), format!("{}/o/acme", self.home));
    }

    /// Signs out, and is led to the provider and back, or not.
    fn signs_out(&self, there_too: bool) {
        self.browser.click(".side form[action='/sign-out'] button");
        self.browser.shows("You are signed out.");
        let back = format!("{}/sign-in?state=", self.home);
        assert_eq!(self.browser.url().starts_with(&back), there_too, "{}", self.browser.url());
    }
}

/// What is stored of a member.
fn member(server: &Running, name: &str) -> Value {
    let members = server.ada().get("/organizations/members").items();
    let found = members.iter().find(|member| member["name"] == name);
    found.map_or(Value::Null, |found| pick(found, "role addressProved signInProviders"))
}

/// How many sessions there are that a provider has let in.
fn provider_sessions(server: &Running) -> usize {
    let read = |view: &View| view.all::<ProviderSession>(ListSource::TABLE, &());
    server.store.read_now(Id::NIL, read).unwrap().len()
}

#[test]
fn the_invited_sign_in_with_a_provider_confirm_a_link_and_sign_out_there_too() {
    with_and_without_scripts(|driver, scripts| {
        let domain = if scripts { "led.test" } else { "led-plainly.test" };
        let provider = Provider::start(&SITES, domain);
        let own = OidcProvider { signs_out: true, ..provider.configured() };
        let server = Running::with(ServerConfig { oidc: vec![own], ..ServerConfig::default() });
        server.invite("grace@acme.test", "member");
        server.add("ben", "member");
        let person = Person::new(driver, &server, domain, scripts);

        // Grace has no account yet, so there is nothing to confirm.
        person.sign_in_as("grace");
        person.is_in_acme();
        assert_eq!(member(&server, "grace"), json!(["member", true, ["kc"]]));
        assert!(server.ada().get("/organizations/invitations").items().is_empty());
        assert_eq!(provider_sessions(&server), 1);
        person.signs_out(true);
        assert_eq!(provider_sessions(&server), 0);
        person.browser.open(&format!("{}/o/acme", person.home));
        person.browser.shows("E-mail address");

        // Ben has accepted his invitation with a password, which he links the account with.
        person.browser.open(&format!("{}/sign-in", person.home));
        person.sign_in_as("ben");
        person.browser.shows("Sign in to it as usual once");
        person.browser.fill("#f-email", "ben@acme.test");
        person.browser.fill("#f-password", PASSWORD);
        person.browser.click("main button.primary");
        person.browser.shows("Link it to my account");
        let before = member(&server, "ben")[2].clone();
        person.browser.fill("#f-password", PASSWORD);
        person.browser.click("main button.primary");
        person.browser.shows("The account is linked.");
        assert_eq!((before, provider_sessions(&server)), (json!([]), 0));
        person.browser.open(&format!("{}/o/acme", person.home));
        person.is_in_acme();
        person.signs_out(false);

        // From then on the provider is enough.
        person.sign_in_as("ben");
        person.is_in_acme();
        assert_eq!(member(&server, "ben")[2], json!(["kc"]));
        assert_eq!(provider_sessions(&server), 1);
        person.signs_out(true);
        assert_eq!(provider_sessions(&server), 0);
    });
}
