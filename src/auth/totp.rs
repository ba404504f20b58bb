//! One-time codes that an app makes of a secret and the time (RFC 6238): HMAC-SHA-1, six digits, steps
//! of 30 seconds. Apps know no other parameters in common.

use aws_lc_rs::hmac;
use aws_lc_rs::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY as HMAC_SHA1;

use crate::base::{Time, segment};

/// The bytes of a secret, as many as SHA-1 has (RFC 4226, section 4).
pub const SECRET_BYTES: usize = 20;

/// The digits of a code.
pub const DIGITS: usize = 6;
const MODULUS: u32 = 1_000_000;

const STEP_SECS: i64 = 30;

/// A clock may be this many steps off.
const TOLERANCE: u64 = 1;

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Returns the step in which a code is accepted: one of those around `now`, and after `last`, the step
/// of the last code that was accepted.
pub fn accepted_step(secret: &[u8], code: u32, now: Time, last: u64) -> Option<u64> {
    let current = u64::try_from(now.secs() / STEP_SECS).unwrap_or(0);
    let mut accepted = None;
    // All of them, so that the time does not tell which it is.
    for step in current.saturating_sub(TOLERANCE)..=current + TOLERANCE {
        if code_at(secret, step) == code && step > last && accepted.is_none() {
            accepted = Some(step);
        }
    }
    accepted
}

/// Returns the code of a step (RFC 4226, section 5.3).
pub fn code_at(secret: &[u8], step: u64) -> u32 {
    truncated(secret, step) % MODULUS
}

fn truncated(secret: &[u8], step: u64) -> u32 {
    let tag = hmac::sign(&hmac::Key::new(HMAC_SHA1, secret), &step.to_be_bytes());
    let tag = tag.as_ref();
    let offset = usize::from(tag.last().copied().unwrap_or(0) & 0xF);
    let four = tag.get(offset..offset + 4).and_then(|four| four.try_into().ok());
    u32::from_be_bytes(four.unwrap_or_default()) & 0x7FFF_FFFF
}

/// Reads a code of digits, which people type with spaces; `None` if it is none.
pub fn parse_code(text: &str) -> Option<u32> {
    let digits: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let is_code = digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_code.then(|| digits.parse().ok()).flatten()
}

/// Returns the URI that apps read as a QR code, and that opens them on a phone.
pub fn uri(issuer: &str, account: &str, secret: &[u8]) -> String {
    let (issuer, account, secret) = (segment(issuer), segment(account), base32(secret));
    format!(
        "otpauth://totp/{issuer}:{account}?secret={secret}&issuer={issuer}&algorithm=SHA1&digits=\
         {DIGITS}&period={STEP_SECS}"
    )
}

/// Encodes bytes in base 32 without padding (RFC 4648).
pub fn base32(bytes: &[u8]) -> String {
    let mut text = String::new();
    let (mut bits, mut held) = (0_u32, 0);
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        held += 8;
        while held >= 5 {
            held -= 5;
            text.push(digit(bits >> held));
        }
    }
    if held > 0 {
        text.push(digit(bits << (5 - held)));
    }
    text
}

fn digit(bits: u32) -> char {
    char::from(BASE32[(bits & 0x1F) as usize])
}

/// Decodes what [`base32`] has encoded.
pub fn from_base32(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut bits, mut held) = (0_u32, 0);
    for letter in text.bytes() {
        let value = BASE32.iter().position(|known| *known == letter)?;
        bits = bits << 5 | u32::try_from(value).ok()?;
        held += 5;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held).to_le_bytes()[0]);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of RFC 4226, appendix D, and of RFC 6238, appendix B.
    const SECRET: &[u8] = b"12345678901234567890";

    fn at(secs: i64) -> Time {
        Time::from_millis(secs * 1000)
    }

    #[test]
    fn codes_are_those_of_rfc_4226() {
        let codes: Vec<_> = (0..10).map(|step| code_at(SECRET, step)).collect();
        let expected = [
            755_224, 287_082, 359_152, 969_429, 338_314, 254_676, 287_922, 162_583, 399_871,
            520_489,
        ];
        assert_eq!(codes, expected);
        assert_eq!(truncated(SECRET, 0), 1_284_755_224);
    }

    #[test]
    fn codes_are_those_of_rfc_6238() {
        for (secs, code) in [
            (59, 94_287_082),
            (1_111_111_109, 7_081_804),
            (1_111_111_111, 14_050_471),
            (1_234_567_890, 89_005_924),
            (2_000_000_000, 69_279_037),
            (20_000_000_000, 65_353_130_u32),
        ] {
            let step = u64::try_from(secs / STEP_SECS).unwrap();
            assert_eq!(truncated(SECRET, step) % 100_000_000, code, "at {secs}");
            assert_eq!(accepted_step(SECRET, code % MODULUS, at(secs), 0), Some(step));
        }
    }

    #[test]
    fn a_clock_may_be_a_step_off_and_no_code_is_accepted_twice() {
        let now = at(1_800_000_000);
        let current = 60_000_000;
        for step in current - 1..=current + 1 {
            let code = code_at(SECRET, step);
            assert_eq!(accepted_step(SECRET, code, now, step - 1), Some(step));
            assert_eq!(accepted_step(SECRET, code, now, step), None, "it was accepted before");
        }
        for step in [current - 2, current + 2] {
            assert_eq!(accepted_step(SECRET, code_at(SECRET, step), now, 0), None);
        }
        assert_eq!(accepted_step(SECRET, code_at(SECRET, 0), at(0), 0), None, "the first of all");
    }

    #[test]
    fn a_code_is_typed_with_spaces_and_nothing_else() {
        assert_eq!(parse_code(" 012 345 "), Some(12_345));
        for wrong in ["", "12345", "1234567", "12345a", "+12345", "-12345", "١٢٣٤٥٦"] {
            assert_eq!(parse_code(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn base_32_is_that_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "MY"),
            ("fo", "MZXQ"),
            ("foo", "MZXW6"),
            ("foob", "MZXW6YQ"),
            ("fooba", "MZXW6YTB"),
            ("foobar", "MZXW6YTBOI"),
        ] {
            assert_eq!(base32(bytes.as_bytes()), text);
            assert_eq!(from_base32(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(from_base32("MZ1"), None);
    }

    #[test]
    fn a_uri_names_the_server_and_the_account() {
        assert_eq!(
            uri("agents.test:8443", "ada+ö@acme.test", b"foobar"),
            "otpauth://totp/agents.test%3A8443:ada%2B%C3%B6%40acme.test?secret=MZXW6YTBOI&issuer=\
             agents.test%3A8443&algorithm=SHA1&digits=6&period=30"
        );
    }
}
