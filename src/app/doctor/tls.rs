//! What is to be said about TLS: the certificate, and what is readable on the way.

use std::net::IpAddr;
use std::path::Path;

use super::acme;
use super::findings::Findings;
use crate::api::SystemTls;
use crate::app::placement::TLS_CERTIFICATE;
use crate::app::status::Setting;
use crate::app::tls::{OfAuthority, OwnMade, TlsFiles, look_at, look_at_acme, look_at_self_signed};
use crate::base::{HttpUrl, Time};
use crate::http::names_this_machine;
use crate::store::Clock;

/// A certificate is renewed a third before its end, and those of common authorities are valid for 90 days
/// or less.
const RENEWED_SECS: i64 = 14 * 24 * 3600;

/// What is known of the server.
pub enum Served {
    /// It runs, with this TLS.
    Running(Option<SystemTls>),
    /// None runs.
    Stopped,
}

/// The value of a setting.
pub fn value<'a>(settings: &'a [Setting], flag: &str) -> Option<&'a str> {
    let setting = settings.iter().find(|setting| setting.flag == flag);
    setting.and_then(|setting| setting.value.as_deref())
}

/// Whether addresses to listen on, separated by commas, are all of this machine alone.
pub fn is_local(listen: &str) -> bool {
    let is_local =
        |one: &str| ["127.", "localhost:", "[::1]"].iter().any(|local| one.starts_with(local));
    listen.split(',').all(is_local)
}

/// Whether the server speaks TLS with these settings.
pub fn is_on(settings: &[Setting]) -> bool {
    value(settings, "--tls").is_some() || value(settings, "--tls-cert").is_some()
}

/// Judges TLS with these settings, and a certificate in this data directory.
pub fn judge(settings: &[Setting], dir: Option<&Path>, served: &Served, found: &mut Findings) {
    match (value(settings, "--tls-cert"), value(settings, "--tls-key")) {
        (Some(certificate), Some(key)) => {
            let files = TlsFiles { certificate: certificate.into(), key: key.into() };
            of_files(&files, settings, served, found);
        }
        _ if value(settings, "--tls") == Some("acme") => of_acme(dir, settings, served, found),
        _ if is_on(settings) => of_self_signed(dir, settings, served, found),
        _ => without(settings, dir.is_some(), found),
    }
}

/// Judges a server without TLS. `keeps_files` if it has a data directory, where it can keep a certificate.
fn without(settings: &[Setting], keeps_files: bool, found: &mut Findings) {
    let listen = value(settings, "--listen").unwrap_or_default();
    if !is_local(listen) && value(settings, "--trusted-proxy").is_none() {
        let message = format!("it listens on {listen} without TLS or a proxy that is trusted");
        let ways = if keeps_files { ", --tls acme or --tls self-signed" } else { "" };
        let to_do = format!(
            "--tls-cert and --tls-key{ways}, or put a proxy with TLS in front: everything is readable on \
             the way"
        );
        found.warn("tls", message, &to_do);
    }
}

fn of_files(files: &TlsFiles, settings: &[Setting], served: &Served, found: &mut Findings) {
    // A running server has read them, and their paths may be relative to where it was started.
    let status = match served {
        Served::Running(Some(status)) => Ok(status.clone()),
        Served::Running(None) | Served::Stopped => look_at(files),
    };
    match status {
        Ok(status) => {
            let to_do = "replace both files; the server takes the new ones";
            of_certificate(&status, Clock::system().now(), to_do, found);
            public_url(&status.names, settings, found);
            links(&status, settings, found);
            if let Some(problem) = &status.problem {
                let message = format!("the server still serves an earlier certificate: {problem}");
                let to_do = "put a certificate and its key there that can be served: the server \
                             takes them by itself";
                found.error("tls", message, to_do);
            }
        }
        Err(why) => found.error("tls", why, "see the message; the server does not start so"),
    }
    if files.is_key_open() {
        let key = files.key.display();
        let message = format!("the TLS key {key} is accessible to all users");
        found.error("tls", message, &format!("chmod o= {key}"));
    }
}

fn of_acme(dir: Option<&Path>, settings: &[Setting], served: &Served, found: &mut Findings) {
    let status = match (served, dir) {
        (Served::Running(Some(status)), _) => Ok(OfAuthority::Served(Box::new(status.clone()))),
        (_, Some(dir)) => look_at_acme(dir),
        (_, None) => Ok(OfAuthority::NotYet(None)),
    };
    acme::judge(&status, Clock::system().now(), found);
    if let Ok(OfAuthority::Served(status)) = status {
        public_url(&status.names, settings, found);
        links(&status, settings, found);
    }
}

/// Whether a certificate with these names is for the host of the public URL, if there is one.
fn public_url(names: &[String], settings: &[Setting], found: &mut Findings) {
    let url = value(settings, "--public-url").and_then(|url| HttpUrl::parse(url).ok());
    let host = url.map(|url| url.host());
    if let Some(host) = host.filter(|host| !covers(names, host)) {
        let message = format!("the certificate is not for {host}, the host of --public-url");
        found.error("tls", message, "get one for it, or correct --public-url");
    }
}

/// Whether a certificate with these names is for a host, as a URL has it.
fn covers(names: &[String], host: &str) -> bool {
    let bare = host.trim_matches(['[', ']']);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return names.iter().any(|name| name.parse() == Ok(address));
    }
    // A star stands for one label.
    let above = bare.find('.').map(|dot| &bare[dot..]);
    names
        .iter()
        .any(|name| name == bare || name.strip_prefix('*').is_some_and(|n| Some(n) == above))
}

fn of_self_signed(dir: Option<&Path>, settings: &[Setting], served: &Served, found: &mut Findings) {
    let made = match (served, dir) {
        (Served::Running(Some(status)), _) => Ok(OwnMade::Made(status.clone())),
        (_, Some(dir)) => look_at_self_signed(dir),
        (_, None) => Ok(OwnMade::NotYet),
    };
    let status = match made {
        Ok(OwnMade::Made(status)) => status,
        Ok(OwnMade::NotYet) => {
            found.ok("tls", format!("the first start makes a certificate: {TLS_CERTIFICATE}"));
            return;
        }
        Ok(OwnMade::Unusable(why)) => {
            let to_do = "put the right files back, or start the server, which makes new ones to be \
                         trusted";
            found.warn("tls", why, to_do);
            return;
        }
        Err(why) => {
            found.error("tls", why, "see the message; the server does not start so");
            return;
        }
    };
    let to_do = "restart the server, which makes a new one to be trusted";
    of_certificate(&status, Clock::system().now(), to_do, found);
    links(&status, settings, found);
    let SystemTls { certificate: file, fingerprint, .. } = &status;
    // The commands are those of each system, for the file copied to the machine of a client.
    found.ok(
        "tls-trust",
        format!(
            "the certificate {file} has the SHA-256 fingerprint {fingerprint}. To trust it, copy it to \
             the client, compare the fingerprint (openssl x509 -noout -fingerprint -sha256 -in FILE), \
             and, on Debian: cp FILE /usr/local/share/ca-certificates/roadstead.crt and \
             update-ca-certificates; on macOS: sudo security add-trusted-cert -d -r trustRoot -k \
             /Library/Keychains/System.keychain FILE; in Firefox: open the page and accept the \
             certificate with this fingerprint; curl --cacert FILE; roadstead --ca-file FILE"
        ),
    );
}

/// What links begin with where there is no public URL: the names that the certificate has exactly.
fn links(status: &SystemTls, settings: &[Setting], found: &mut Findings) {
    if value(settings, "--public-url").is_some() || value(settings, "--trusted-proxy").is_some() {
        return; // Judged with the other settings.
    }
    let listen = value(settings, "--listen").unwrap_or_default();
    let is_own = |name: &str| names_this_machine(name) || name == "::1";
    let is_exact = |name: &&String| !name.starts_with('*') && !is_own(name);
    let exact: Vec<_> = status.names.iter().filter(is_exact).map(String::as_str).collect();
    if exact.is_empty() && !is_local(listen) {
        let message = "not set, and the certificate names no other machine's host exactly: links are \
                       paths, and signed requests are refused";
        found.warn("public-url", message, "--public-url with the URL that clients use");
        return;
    }
    found.ok(
        "public-url",
        format!(
            "not set: links are for clients that come by {} at a port of --listen; for others give \
             --public-url",
            if exact.is_empty() { "localhost".to_string() } else { exact.join(", ") }
        ),
    );
}

fn of_certificate(status: &SystemTls, now: Time, to_do: &str, found: &mut Findings) {
    let SystemTls { certificate, names, not_before, not_after, .. } = status;
    let message =
        format!("the certificate {certificate} is for {}, until {not_after}", names.join(", "));
    if now < *not_before {
        let message = format!("the certificate {certificate} is valid from {not_before} on");
        let to_do = format!("set the clock, which says {now}, or {to_do}");
        found.error("tls", message, &to_do);
    } else if *not_after < now {
        let message = format!("the certificate {certificate} has expired at {not_after}");
        found.error("tls", message, to_do);
    } else if *not_after < now.plus_secs(RENEWED_SECS) {
        found.warn("tls", message, to_do);
    } else {
        found.ok("tls", message);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::findings::Level;
    use super::*;
    use crate::app::placement::TLS_KEY;
    use crate::app::status::SettingSource;
    use crate::app::tls::Hosts;
    use crate::app::tls::OwnTls;

    #[test]
    fn a_certificate_is_for_its_names_and_for_one_label_in_place_of_a_star() {
        let names = ["a.test", "*.b.test", "10.0.0.7", "2001:db8::7"].map(String::from);
        for host in ["a.test", "x.b.test", "10.0.0.7", "[2001:DB8::7]"] {
            assert!(covers(&names, host), "{host}");
        }
        for host in ["b.test", "x.y.b.test", "xa.test", "10.0.0.8", "test", ""] {
            assert!(!covers(&names, host), "{host}");
        }
    }

    #[test]
    fn a_certificate_that_is_not_valid_now_is_an_error_and_one_that_expires_soon_a_warning() {
        let at = |text: &str| Time::parse(&format!("{text}T00:00:00Z")).unwrap();
        let status = SystemTls {
            certificate: "a.pem".into(),
            self_signed: false,
            fingerprint: String::new(),
            names: vec!["a.test".into()],
            not_before: at("2030-02-01"),
            not_after: at("2030-05-01"),
            problem: None,
            acme: None,
        };
        for (now, level, part) in [
            ("2030-01-31", Level::Error, "is valid from 2030-02-01"),
            ("2030-02-01", Level::Ok, "until 2030-05-01"),
            ("2030-04-20", Level::Warning, "until 2030-05-01"),
            ("2030-05-02", Level::Error, "has expired at 2030-05-01"),
        ] {
            let mut found = Findings::default();
            of_certificate(&status, at(now), "replace it", &mut found);
            let [one] = &found.0[..] else { panic!("{:?}", found.0) };
            assert_eq!(one.level, level, "{now}: {one:?}");
            assert!(one.message.contains(part), "{one:?}");
        }
    }

    fn setting(flag: &str, value: &str) -> Setting {
        let (flag, value) = (flag.into(), Some(value.into()));
        Setting { flag, variable: None, value, source: SettingSource::Flag }
    }

    #[test]
    fn links_need_a_public_url_unless_the_certificate_names_hosts_exactly() {
        let judged = |names: &[&str], listen: &str| {
            let status = SystemTls {
                certificate: "a.pem".into(),
                self_signed: false,
                fingerprint: String::new(),
                names: names.iter().map(ToString::to_string).collect(),
                not_before: Time::from_millis(0),
                not_after: Time::from_millis(1),
                problem: None,
                acme: None,
            };
            let mut found = Findings::default();
            links(&status, &[setting("--listen", listen)], &mut found);
            let [one] = &found.0[..] else { panic!("{found:?}") };
            (one.level, one.message.clone())
        };
        let (level, message) = judged(&["*.a.test", "b.test", "localhost"], "0.0.0.0:443");
        assert!(level == Level::Ok && message.contains("come by b.test at"), "{message}");
        for names in [&["*.a.test"][..], &["localhost", "127.0.0.1", "::1"], &[]] {
            assert_eq!(judged(names, "0.0.0.0:443").0, Level::Warning, "{names:?}");
            assert_eq!(judged(names, "127.0.0.1:7420").0, Level::Ok, "{names:?}");
        }
    }

    #[test]
    fn what_a_directory_has_of_its_own_certificate_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let judged = |level: Level, part: &str| {
            let mut found = Findings::default();
            of_self_signed(Some(dir.path()), &[], &Served::Stopped, &mut found);
            let one = &found.0[0];
            assert!(one.level == level && one.message.contains(part), "{part}: {found:?}");
        };
        judged(Level::Ok, "the first start makes a certificate");
        let hosts = Hosts { asked: Vec::new(), all: vec!["a.test".into()] };
        OwnTls::self_signed(dir.path(), &hosts).unwrap();
        judged(Level::Ok, "is for a.test");
        let (key, certificate) = (dir.path().join(TLS_KEY), dir.path().join(TLS_CERTIFICATE));
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        judged(Level::Error, "accessible to other users");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&certificate, "text").unwrap();
        judged(Level::Warning, "holds no certificate");
        fs::remove_file(&certificate).unwrap();
        judged(Level::Warning, "not both there");
    }

    #[test]
    fn of_a_self_signed_certificate_it_is_said_how_clients_come_to_trust_it() {
        let dir = tempfile::tempdir().unwrap();
        let hosts = Hosts { asked: Vec::new(), all: vec!["a.test".into()] };
        let status = OwnTls::self_signed(dir.path(), &hosts).unwrap().status();
        let mut found = Findings::default();
        of_self_signed(Some(dir.path()), &[], &Served::Stopped, &mut found);
        let one = found.0.iter().find(|one| one.check == "tls-trust").unwrap();
        assert_eq!(one.level, Level::Ok);
        for part in [
            &*status.certificate,
            &status.fingerprint,
            "openssl x509 -noout -fingerprint -sha256",
            "update-ca-certificates",
            "security add-trusted-cert",
            "Firefox",
            "curl --cacert",
            "roadstead --ca-file",
        ] {
            assert!(one.message.contains(part), "{part}: {}", one.message);
        }
    }

    #[test]
    fn off_loopback_each_way_to_tls_is_named_and_none_to_who_has_one_or_needs_none() {
        let judged = |settings: &[Setting], keeps_files: bool| {
            let mut found = Findings::default();
            without(settings, keeps_files, &mut found);
            found.0
        };
        let open = || [setting("--listen", "0.0.0.0:7420")];
        let to_do = |keeps_files: bool| {
            let found = judged(&open(), keeps_files);
            let [one] = &found[..] else { panic!("{found:?}") };
            one.to_do.clone().unwrap()
        };
        for way in ["--tls-cert", "--tls acme", "--tls self-signed", "a proxy"] {
            assert!(to_do(true).contains(way), "{way}: {}", to_do(true));
        }
        // A store in PostgreSQL has no place for one that the server makes or gets.
        let to_do = to_do(false);
        assert!(to_do.contains("--tls-cert") && !to_do.contains("--tls a"), "{to_do}");
        assert!(to_do.contains("a proxy") && !to_do.contains("self-signed"), "{to_do}");
        let proxied = [open(), [setting("--trusted-proxy", "10.0.0.5")]].concat();
        for settings in [&proxied[..], &[setting("--listen", "127.0.0.1:7420")]] {
            assert!(judged(settings, true).is_empty(), "{:?}", judged(settings, true));
        }
    }

    #[test]
    fn addresses_are_local_if_all_are() {
        assert!(is_local("127.0.0.1:7420") && is_local("127.0.0.1:7420,[::1]:7420"));
        assert!(!is_local("127.0.0.1:7420,0.0.0.0:7420") && !is_local("10.0.0.7:7420"));
    }
}
