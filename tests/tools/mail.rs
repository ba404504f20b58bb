//! Mail through a real server, `aiosmtpd`: STARTTLS, TLS, logins, and what it refuses.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::optional::{Installed, installed};
use crate::program::{Program, fixture};
use crate::python::{self, Packages};
use crate::server::Acme;

static ENVIRONMENT: LazyLock<Installed<PathBuf>> = LazyLock::new(|| {
    python::environment(&Packages {
        folder: "mail-1",
        what: "a mail server for tests (once, a few seconds)",
        wanted: &["aiosmtpd"],
        constraints: "tests/tools/constraints.txt",
    })
});

/// A running mail server, and its ports.
struct MailServer {
    program: Program,
    starttls: u16,
    tls: u16,
}

impl MailServer {
    /// None where the test is left out, which is said aloud.
    fn start() -> Option<Self> {
        let place = installed("MAIL", "a mail server", &ENVIRONMENT)?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/mail_server.py");
        let mut command = Command::new(place.join("bin/python"));
        command.arg(script).args([fixture("server.pem"), fixture("server.key")]);
        let mut program = Program::start(&mut command);
        let [starttls, tls]: [u16; 2] = serde_json::from_value(program.hear()).unwrap();
        Some(MailServer { program, starttls, tls })
    }

    /// The next mail that it gets; fails if none comes.
    fn next(&mut self) -> Value {
        self.program.hear()
    }
}

const FROM: &str = "Roadstead <roadstead@acme.test>";

/// Serves with this URL of the mail server, and a channel to these addresses.
fn serve(url: &str, to: &[&str], trusted: bool) -> (Acme, String) {
    let ca = fixture("ca.pem");
    let mut flags = vec!["--smtp-url", url, "--mail-from", FROM];
    if trusted {
        flags.extend(["--ca-file", &ca]);
    }
    let acme = Acme::start(&flags);
    let body = json!({"name": "Ops", "workflow": "email", "config": {"to": to}});
    let channel = acme.owner.post("/notifications/channels", body).id();
    (acme, channel)
}

/// Sends a test through the channel of such a server.
fn test(url: &str, to: &[&str], trusted: bool) -> Value {
    let (acme, channel) = serve(url, to, trusted);
    acme.owner.post(&format!("/notifications/channels/{channel}/test"), json!({})).ok()
}

#[test]
fn an_event_arrives_as_a_mail_with_both_parts() {
    let Some(mut server) = MailServer::start() else { return };
    let url = format!("smtp://mailer:geheim%3A1%2F@localhost:{}", server.starttls);
    let (acme, channel) = serve(&url, &["ada@acme.test", "ben@acme.test"], true);
    // Who is no member with a verified address agrees first.
    let asked = server.next();
    assert_eq!(asked["to"], json!(["ben@acme.test"]));
    let confirmation = json!({"token": link_token(&asked, "/confirm-mail")});
    let confirm = "/notifications/recipients/confirm";
    let anonymous = acme.owner.with_fields(&[]);
    let done = anonymous.ask("POST", confirm).json(&confirmation).send().ok();
    assert_eq!(done, json!({"email": "ben@acme.test", "organization": "Acme"}));
    let subscription = json!({"channelId": channel, "eventType": "team.timeline_milestone"});
    acme.owner.post("/notifications/subscriptions", subscription).ok();
    let team = acme.team("shipping", None);
    let entry = json!({"kind": "milestone", "title": "Größe <b>1.0</b>"});
    acme.owner.post(&format!("/teams/{}/timeline", team.id), entry).ok();

    let mail = server.next();
    assert_eq!(mail["tls"], true);
    assert_eq!(mail["from"], "roadstead@acme.test");
    assert_eq!(mail["to"], json!(["ada@acme.test"]));
    let header = |name: &str| mail["headers"][name].as_str().unwrap_or_default().to_string();
    assert_eq!(header("subject"), "[Ops] A milestone was reached: Größe <b>1[.]0</b>");
    assert_eq!(header("from"), FROM);
    assert_eq!(header("auto-submitted"), "auto-generated");
    let unsubscribe = header("list-unsubscribe");
    assert!(unsubscribe.starts_with("<mailto:roadstead@acme.test?subject=Unsubscribe"), "{mail}");
    let log = acme.owner.get(&format!("/notifications/logs?channelId={channel}")).items();
    assert_eq!(header("message-id"), format!("<{}@acme.test>", log[0]["id"].as_str().unwrap()));
    let part = |name: &str| mail[name].as_str().unwrap().replace("\r\n", "\n");
    let (plain, html) = (part("plain"), part("html"));
    assert!(plain.contains("\nTitle: Größe <b>1[.]0</b>\n"), "{plain}");
    assert!(html.contains("Größe &lt;b&gt;1[.]0&lt;/b&gt;"), "{html}");
    let other = server.next();
    assert_eq!(other["to"], json!(["ben@acme.test"]), "each has a mail of their own");
    assert_eq!(other["headers"]["message-id"], mail["headers"]["message-id"]);
}

/// The token in the link of a mail with plain text only.
fn link_token(mail: &Value, path: &str) -> String {
    let text = mail["plain"].as_str().unwrap();
    let (_, rest) = text.split_once(&format!("{path}#")).unwrap_or_else(|| panic!("{mail}"));
    rest.split_whitespace().next().unwrap().into()
}

#[test]
fn a_reset_link_is_mailed_to_who_has_an_account() {
    let Some(mut server) = MailServer::start() else { return };
    let url = format!("smtp://mailer:geheim%3A1%2F@localhost:{}", server.starttls);
    let (acme, _) = serve(&url, &["ada@acme.test"], true);
    let anonymous = acme.owner.with_fields(&[]);
    let forget = |email: &str| {
        let body = json!({ "email": email });
        anonymous.ask("POST", "/auth/password/forgot").json(&body).send()
    };
    let answers = ["nobody-known@acme.test", "ada@acme.test"].map(|email| forget(email).ok());
    assert_eq!(answers, [json!({}), json!({})]);

    let mail = server.next();
    assert_eq!(mail["to"], json!(["ada@acme.test"]), "the only one");
    assert_eq!(mail["headers"]["subject"], "Set a new password");
    let token = link_token(&mail, "/reset-password");
    let reset = |password: &str| {
        let body = json!({"token": token, "newPassword": password});
        anonymous.ask("POST", "/auth/password/reset").json(&body).send()
    };
    reset("another horse battery").ok();
    reset("yet another horse").refused(404, "not_found");
    acme.owner.get("/tools").refused(401, "unauthenticated");
    let sign_in = json!({"email": "ada@acme.test", "password": "another horse battery"});
    anonymous.ask("POST", "/auth/sign-in").json(&sign_in).send().ok();
}

#[test]
fn an_invitation_is_mailed_with_a_link_that_the_inviter_does_not_see_three_times_an_hour() {
    let Some(mut server) = MailServer::start() else { return };
    let url = format!("smtp://mailer:geheim%3A1%2F@localhost:{}", server.starttls);
    let (acme, _) = serve(&url, &["ada@acme.test"], true);
    let body = json!({"email": "grace@acme.test", "role": "member"});
    let made = acme.owner.post("/organizations/members", body).ok();
    let mail = server.next();
    assert_eq!(mail["to"], json!(["grace@acme.test"]));
    assert_eq!(mail["headers"]["subject"], "Invitation to Acme");
    let token = link_token(&mail, "/invitations");
    assert_ne!(token, made["token"].as_str().unwrap());
    let accept = json!({"token": token, "name": "Grace", "password": "correct horse battery"});
    let anonymous = acme.owner.with_fields(&[]);
    anonymous.ask("POST", "/auth/invitations/accept").json(&accept).send().ok();
    let members = acme.owner.get("/organizations/members").items();
    assert_eq!(
        (&members[0]["email"], &members[0]["addressProved"]),
        (&json!("grace@acme.test"), &json!(true))
    );

    // Whoever invites, and into whatever organization.
    let new = json!({"slug": "locked", "name": "Your account is locked: http://evil.test/unlock"});
    acme.owner.post("/organizations", new).ok();
    let other = acme.owner.about("locked");
    let victim = json!({"email": "victim@acme.test", "role": "member"});
    let inviters = [(&acme.owner, true), (&other, true), (&other, true), (&other, false)];
    for (inviter, is_mailed) in inviters.into_iter().chain([(&acme.owner, false)]) {
        let made = inviter.post("/organizations/members", victim.clone()).ok();
        assert_eq!(made["mailed"], is_mailed, "{made}");
        if !is_mailed {
            continue;
        }
        // Before the next invitation, which replaces this one and what was not sent yet.
        let mail = server.next();
        assert_eq!(mail["to"], json!(["victim@acme.test"]));
        let text = format!("{} {}", mail["headers"]["subject"], mail["plain"]);
        assert!(!text.contains("evil.test"), "{text}");
    }
}

#[test]
fn tls_from_the_start_is_spoken_too() {
    let Some(mut server) = MailServer::start() else { return };
    let url = format!("smtps://mailer:geheim%3A1%2F@localhost:{}", server.tls);
    assert_eq!(test(&url, &["ada@acme.test"], true)["ok"], true);
    let mail = server.next();
    assert_eq!((&mail["tls"], &mail["to"]), (&json!(true), &json!(["ada@acme.test"])));
}

#[test]
fn what_the_mail_server_refuses_is_said() {
    let Some(server) = MailServer::start() else { return };
    let at = format!("localhost:{}", server.starttls);
    let good = format!("smtp://mailer:geheim%3A1%2F@{at}");
    let failure = |url: &str, to: &[&str], trusted| {
        let result = test(url, to, trusted);
        assert_eq!(result["ok"], false);
        result["message"].as_str().unwrap().to_string()
    };
    let wrong = failure(&format!("smtp://mailer:wrong-password@{at}"), &["ada@acme.test"], true);
    assert!(wrong.contains(&at) && wrong.contains("535"), "{wrong}");
    assert!(!wrong.contains("wrong-password"), "{wrong}");
    let (acme, channel) = serve(&good, &["ada@acme.test"], true);
    let invited = json!({"email": "nobody@acme.test", "role": "member"});
    let token = acme.owner.post("/organizations/members", invited).ok()["token"].clone();
    let accept = json!({"token": token, "name": "N", "password": "correct horse battery"});
    let anonymous = acme.owner.with_fields(&[]);
    let joined = anonymous.ask("POST", "/auth/invitations/accept").json(&accept).send().ok();
    let member = format!("/organizations/members/{}", joined["user"]["id"].as_str().unwrap());
    acme.owner.patch(&member, json!({"emailVerified": true})).ok();
    let path = format!("/notifications/channels/{channel}");
    let both = json!({"config": {"to": ["ada@acme.test", "nobody@acme.test"]}});
    acme.owner.patch(&path, both).ok();
    let unknown = acme.owner.post(&format!("{path}/test"), json!({})).ok();
    let unknown = unknown["message"].as_str().unwrap();
    assert!(unknown.contains("there is no such mailbox"), "{unknown}");
    let untrusted = failure(&good, &["ada@acme.test"], false);
    assert!(untrusted.to_lowercase().contains("certificate"), "{untrusted}");
    // The password is not sent without TLS.
    let plain = failure(&format!("smtp://{at}?tls=none"), &["ada@acme.test"], true);
    assert!(plain.contains("530"), "{plain}");
}
