//! When an authority is asked: a third before the end of a certificate, and after failures less and less
//! often, within what authorities allow.

use crate::base::Time;
use crate::http::CertificateFacts;

/// The pause after the first failure. Common authorities take five failures of a domain an hour: with
/// pauses of 5, 10, 20 and 40 minutes there are four.
const FIRST_PAUSE_SECS: i64 = 5 * 60;

/// The longest pause that the server makes of itself: often enough for certificates of a day.
const MOST_PAUSE_SECS: i64 = 3 * 3600;

/// The longest pause that an authority may ask for.
pub const LONGEST_PAUSE_SECS: i64 = 3 * 24 * 3600;

/// Nobody makes attempts more often.
pub const SHORTEST_PAUSE_SECS: i64 = 60;

/// How long to wait after so many failures in a row: up to a tenth more, by `noise`, so that servers that
/// have failed together do not come together.
pub fn pause_secs(failures: u32, noise: u8) -> i64 {
    let doublings = failures.saturating_sub(1).min(16);
    let pause = (FIRST_PAUSE_SECS << doublings).min(MOST_PAUSE_SECS);
    pause + pause * i64::from(noise) / 2550
}

/// How long to wait after a certificate was issued, also if the clock says that it has to be renewed at
/// once: then it is the clock that is wrong.
pub fn pause_after_success_secs(facts: &CertificateFacts) -> i64 {
    (lifetime_secs(facts) / 2).clamp(SHORTEST_PAUSE_SECS, LONGEST_PAUSE_SECS)
}

/// When a certificate is renewed: a third before its end, or up to a sixtieth of its life earlier, so that
/// those that were issued together are not renewed together.
pub fn renewal(facts: &CertificateFacts) -> Time {
    let lifetime = lifetime_secs(facts);
    // Two digits of the hash, which are the same at each look.
    let noise = facts.fingerprint.get(..2).and_then(|hex| i64::from_str_radix(hex, 16).ok());
    facts.not_after.minus_secs(lifetime / 3 + lifetime * noise.unwrap_or(0) / (60 * 255))
}

/// Whether a certificate is for all of these domains. An authority may add others.
pub fn has_all(facts: &CertificateFacts, domains: &[String]) -> bool {
    domains.iter().all(|domain| facts.names.contains(domain))
}

fn lifetime_secs(facts: &CertificateFacts) -> i64 {
    (facts.not_after.secs() - facts.not_before.secs()).max(0)
}

#[cfg(test)]
mod tests {
    use super::super::account_fault::AccountFault;
    use super::super::settings::AcmeSettings;
    use super::super::stored::Stored;
    use super::*;

    const DAY: i64 = 24 * 3600;

    fn at(text: &str) -> Time {
        Time::parse(&format!("{text}T00:00:00Z")).unwrap()
    }

    fn facts(from: &str, days: i64, names: &[&str]) -> CertificateFacts {
        CertificateFacts {
            not_before: at(from),
            not_after: at(from).plus_secs(days * DAY),
            names: names.iter().map(ToString::to_string).collect(),
            fingerprint: "00:11".into(),
        }
    }

    fn settings(domains: &[&str]) -> AcmeSettings {
        AcmeSettings {
            directory: "https://ca.test/dir".into(),
            domains: domains.iter().map(ToString::to_string).collect(),
            contact: None,
            agrees: true,
        }
    }

    /// What is stored after a certificate was issued.
    fn issued(settings: &AcmeSettings, facts: &CertificateFacts) -> Stored {
        let mut stored = Stored::default();
        stored.begin(settings, facts.not_before, 0);
        stored.succeeded(&settings.directory, facts, facts.not_before);
        stored
    }

    #[test]
    fn a_certificate_is_renewed_a_third_before_its_end_or_a_little_earlier() {
        let mut facts = facts("2030-01-01", 90, &["a.test"]);
        assert_eq!(renewal(&facts), at("2030-03-02"));
        facts.fingerprint = "FF:11".into();
        assert_eq!(renewal(&facts), at("2030-03-02").minus_secs(DAY * 3 / 2));
        let (settings, now) = (settings(&["a.test"]), at("2030-01-02"));
        let stored = issued(&settings, &facts);
        let next = |stored: &Stored, now| stored.next_attempt(&settings, Some(&facts), now);
        assert_eq!(next(&stored, now), renewal(&facts));
        assert_eq!(next(&stored, at("2030-03-10")), at("2030-03-10"));
        assert_eq!(next(&stored, at("2031-01-01")), at("2031-01-01"), "also once it has expired");
    }

    #[test]
    fn without_a_certificate_for_these_domains_of_this_authority_one_is_asked_for_at_once() {
        let (now, asked) = (at("2030-01-02"), settings(&["a.test", "b.test"]));
        assert_eq!(Stored::default().next_attempt(&asked, None, now), now);
        let facts = facts("2030-01-01", 90, &["b.test", "a.test"]);
        let stored = issued(&asked, &facts);
        let next = |settings: &AcmeSettings| stored.next_attempt(settings, Some(&facts), now);
        assert!(next(&asked) > now);
        let mut more = facts.clone();
        more.names.push("www.a.test".into());
        assert!(stored.next_attempt(&asked, Some(&more), now) > now, "an authority may add names");
        // It is lost: not at once, for an authority that counts, and not in days.
        let lost = stored.next_attempt(&asked, None, facts.not_before.plus_secs(1));
        assert_eq!(lost, facts.not_before.plus_secs(FIRST_PAUSE_SECS));
        for other in [
            settings(&["a.test"]),
            settings(&["a.test", "b.test", "c.test"]),
            settings(&["a.test", "c.test"]),
            AcmeSettings { directory: "https://other.test/dir".into(), ..asked.clone() },
        ] {
            assert_eq!(next(&other), now, "{other:?}");
        }
    }

    #[test]
    fn failures_put_the_next_attempt_off_for_longer_and_longer_and_across_restarts() {
        let settings = settings(&["a.test"]);
        let mut stored = Stored::default();
        let mut now = at("2030-01-01");
        let mut pauses = Vec::new();
        for _ in 0..8 {
            // What is stored before an attempt counts, also if the server stops meanwhile.
            stored.begin(&settings, now, 0);
            let next = stored.next_attempt(&settings, None, now);
            pauses.push((next.secs() - now.secs()) / 60);
            now = next;
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 180, 180]);
        assert!((0..=255).all(|noise| pause_secs(u32::MAX, noise) <= MOST_PAUSE_SECS * 11 / 10));
        // Another question is not put off.
        let mut other = settings.clone();
        other.contact = Some("a@b.test".into());
        assert_eq!(stored.next_attempt(&other, None, now.minus_secs(1)), now.minus_secs(1));
        stored.begin(&other, now, 0);
        assert_eq!(stored.failures, 1);
    }

    #[test]
    fn an_authority_may_ask_for_a_longer_pause_and_not_for_any() {
        let (settings, now) = (settings(&["a.test"]), at("2030-01-01"));
        for (asked, pause) in [
            (None, FIRST_PAUSE_SECS),
            (Some(1), FIRST_PAUSE_SECS),
            (Some(7200), 7200),
            (Some(i64::MAX), LONGEST_PAUSE_SECS),
            (Some(i64::MIN), FIRST_PAUSE_SECS),
        ] {
            let mut stored = Stored::default();
            stored.begin(&settings, now, 0);
            stored.failed("no".into(), asked, now);
            assert_eq!(stored.next_attempt(&settings, None, now), now.plus_secs(pause));
        }
    }

    #[test]
    fn who_asks_hurries_an_attempt_that_is_wanted_once_a_minute() {
        let (settings, now) = (settings(&["a.test"]), at("2030-01-01"));
        let mut stored = Stored::default();
        stored.begin(&settings, now, 0);
        for (after, may) in [(0, false), (59, false), (60, true), (-1, true)] {
            let is = stored.may_be_hurried(&settings, None, now.plus_secs(after));
            assert_eq!(is, may, "{after}");
        }
        let facts = facts("2030-01-01", 90, &["a.test"]);
        let stored = issued(&settings, &facts);
        assert!(!stored.may_be_hurried(&settings, Some(&facts), at("2030-01-05")));
        assert!(stored.may_be_hurried(&settings, Some(&facts), at("2030-03-05")));
    }

    #[test]
    fn a_clock_that_is_wrong_neither_asks_without_end_nor_never() {
        let settings = settings(&["a.test"]);
        // Years ahead: each certificate seems to have expired.
        let facts = facts("2030-01-01", 90, &["a.test"]);
        let mut stored = Stored::default();
        let now = at("2040-01-01");
        stored.begin(&settings, now, 0);
        stored.succeeded(&settings.directory, &facts, now);
        let next = stored.next_attempt(&settings, Some(&facts), now);
        assert_eq!(next, now.plus_secs(LONGEST_PAUSE_SECS));
        // It is set right, and the certificate is gone.
        assert_eq!(stored.next_attempt(&settings, None, at("2030-01-02")), at("2030-01-02"));
    }

    #[test]
    fn who_asks_while_an_attempt_is_under_way_causes_no_second_one() {
        let (settings, now) = (settings(&["a.test"]), at("2030-01-01"));
        let mut stored = Stored::default();
        stored.begin(&settings, now, 0);
        let may = |stored: &Stored, now| stored.may_be_hurried(&settings, None, now);
        // It takes five minutes; what is asked meanwhile is read once it is over.
        let end = now.plus_secs(300);
        stored.failed("why".into(), None, end);
        assert!(!may(&stored, end) && !may(&stored, end.plus_secs(SHORTEST_PAUSE_SECS - 1)));
        assert!(may(&stored, end.plus_secs(SHORTEST_PAUSE_SECS)));
        let other = AcmeSettings { domains: vec!["b.test".into()], ..settings.clone() };
        assert_eq!(stored.next_attempt(&other, None, end), end, "other settings are asked for");
    }

    #[test]
    fn of_accounts_that_are_refused_one_is_replaced_until_something_is_issued() {
        let (settings, facts) = (settings(&["a.test"]), facts("2030-01-01", 90, &["a.test"]));
        let mut stored = Stored::default();
        let may = |stored: &Stored| {
            [AccountFault::None, AccountFault::Unknown, AccountFault::Refused]
                .map(|fault| stored.may_replace_account(fault))
        };
        assert_eq!(may(&stored), [false, true, true]);
        stored.begin(&settings, facts.not_before, 0);
        stored.is_account_replaced = true;
        assert_eq!(may(&stored), [false; 3]);
        let domains = AcmeSettings { domains: vec!["b.test".into()], ..settings.clone() };
        stored.begin(&domains, facts.not_before, 0);
        assert_eq!(may(&stored), [false; 3]);
        let directory = AcmeSettings { directory: "https://other.test/dir".into(), ..domains };
        stored.begin(&directory, facts.not_before, 0);
        assert_eq!(may(&stored), [false, true, true], "another authority");
        stored.is_account_replaced = true;
        stored.succeeded(&directory.directory, &facts, facts.not_before);
        assert_eq!(may(&stored), [false, true, true]);
    }
}
