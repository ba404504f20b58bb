//! What is to be said about a certificate that the server gets from an authority.

use super::findings::Findings;
use crate::api::{SystemAcme, SystemTls};
use crate::app::tls::OfAuthority;
use crate::base::Time;

/// What to do about an attempt that has failed.
const TO_DO: &str = "do what the message says; SIGHUP has the server ask at once";

/// Judges it: what a running server says, or what a data directory has; an error if that cannot be served.
pub fn judge(status: &Result<OfAuthority, String>, now: Time, found: &mut Findings) {
    let status = match status {
        Ok(OfAuthority::Served(status)) => &**status,
        Ok(OfAuthority::NotYet(acme)) => return without(acme.as_deref(), found),
        Err(why) => {
            found.error("tls", why, "see the message; the server does not start so");
            return;
        }
    };
    let SystemTls { certificate, names, not_before, not_after, self_signed, acme, .. } = status;
    let message = if *self_signed {
        "no certificate was issued yet, and clients refuse the self-signed one that is served"
            .into()
    } else if now < *not_before {
        format!(
            "the certificate {certificate} is valid from {not_before} on, and the clock says {now}"
        )
    } else if *not_after < now {
        format!("the certificate {certificate} has expired at {not_after}")
    } else {
        format!("the certificate {certificate} is for {}, until {not_after}", names.join(", "))
    };
    let message = format!("{message}{}", acme.as_deref().map_or(String::new(), attempts));
    if let Some(problem) = &status.problem {
        found.error("tls", problem, "make the directory one that can be written to");
    }
    let has_failed = acme.as_ref().is_some_and(|acme| acme.error.is_some());
    // The next one is wanted since a third of its life before the end.
    let left = not_after.secs() - now.secs();
    let is_urgent = left < (not_after.secs() - not_before.secs()) / 6;
    if *self_signed && !has_failed {
        found.warn("tls", message, "wait for the authority, and look again");
    } else if *self_signed || is_urgent {
        found.error("tls", message, TO_DO);
    } else if now < *not_before {
        found.error("tls", message, "set the clock");
    } else if has_failed {
        found.warn("tls", message, TO_DO);
    } else {
        found.ok("tls", message);
    }
}

/// Judges that there is no certificate, and what came of asking for one; no server runs.
fn without(acme: Option<&SystemAcme>, found: &mut Findings) {
    match acme.filter(|acme| acme.error.is_some()) {
        None => found.ok("tls", "there is no certificate yet: a start asks the authority"),
        Some(acme) => {
            let message = format!("no certificate was issued yet{}", attempts(acme));
            found.error("tls", message, "do what the message says, and start the server");
        }
    }
}

/// What became of asking the authority, behind a semicolon.
fn attempts(acme: &SystemAcme) -> String {
    let SystemAcme { directory, failures, error, next_attempt_at, .. } = acme;
    match error {
        None => format!("; {directory} is asked for the next one at {next_attempt_at}"),
        Some(error) => {
            let times = if *failures == 1 { "once" } else { "again and again" };
            format!("; {directory} was asked {times} in vain, next at {next_attempt_at}: {error}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::findings::Level;
    use super::*;

    fn at(text: &str) -> Time {
        Time::parse(&format!("{text}T00:00:00Z")).unwrap()
    }

    #[test]
    fn what_is_not_renewed_becomes_an_error_in_time() {
        for (now, self_signed, error, level, part) in [
            ("2030-01-02", false, None, Level::Ok, "is asked for the next one at 2030-03-02"),
            ("2030-03-05", false, Some("no"), Level::Warning, "in vain, next at 2030-03-02"),
            ("2030-03-25", false, Some("no"), Level::Error, "until 2030-04-01"),
            ("2030-03-25", false, None, Level::Error, "until 2030-04-01"),
            ("2030-04-02", false, None, Level::Error, "has expired at 2030-04-01"),
            ("2029-12-31", false, None, Level::Error, "is valid from 2030-01-01"),
            ("2030-01-02", true, None, Level::Warning, "no certificate was issued yet"),
            ("2030-01-02", true, Some("why so"), Level::Error, "why so"),
        ] {
            let status = SystemTls {
                certificate: "a.pem".into(),
                self_signed,
                fingerprint: String::new(),
                names: vec!["a.test".into()],
                not_before: at("2030-01-01"),
                not_after: at("2030-04-01"),
                problem: None,
                acme: Some(Box::new(SystemAcme {
                    directory: "https://ca.test/dir".into(),
                    domains: vec!["a.test".into()],
                    last_attempt_at: None,
                    failures: 2,
                    error: error.map(String::from),
                    next_attempt_at: at("2030-03-02"),
                })),
            };
            let mut found = Findings::default();
            judge(&Ok(OfAuthority::Served(Box::new(status))), at(now), &mut found);
            let [one] = &found.0[..] else { panic!("{found:?}") };
            assert_eq!(one.level, level, "{now} {error:?}: {one:?}");
            assert!(one.message.contains(part), "{one:?}");
        }
    }

    #[test]
    fn a_directory_without_a_certificate_gets_one_at_the_start() {
        let mut found = Findings::default();
        judge(&Ok(OfAuthority::NotYet(None)), at("2030-01-01"), &mut found);
        judge(&Err("chmod".into()), at("2030-01-01"), &mut found);
        assert_eq!(
            found.0.iter().map(|one| one.level).collect::<Vec<_>>(),
            [Level::Ok, Level::Error]
        );
    }
}
