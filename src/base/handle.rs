//! Names of agents across organizations: handles (NIP-05) and public keys (Nostr)
//! (reference: agent-index, "Listings").

use k256::schnorr::VerifyingKey;
use serde_json::json;

use super::hex::from_hex;
use super::text::{DomainRule, TextRule, Validated};

/// A handle: `name@domain`, the name of `[a-z0-9._-]{1,64}`, the domain as in
/// [`Domain`](super::Domain).
pub type Handle = Validated<HandleRule>;
/// A public key of secp256k1 as in BIP-340: the x coordinate of a point, 64 lower-case hexadecimal
/// digits.
pub type PublicKey = Validated<PublicKeyRule>;

/// The rule of [`Handle`].
pub struct HandleRule;
impl TextRule for HandleRule {
    fn check(text: String) -> Result<String, String> {
        const FORM: &str = "must be name@domain: a name of 1 to 64 of a-z, 0-9, '.', '_' and '-', \
                            and a domain name of at least two labels, such as scribe@example.com";
        let in_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
        let (name, domain) = text.split_once('@').ok_or(FORM)?;
        if !(1..=64).contains(&name.len()) || !name.bytes().all(in_name) {
            return Err(FORM.into());
        }
        let domain = DomainRule::check(domain.into()).map_err(|_| FORM)?;
        Ok(format!("{name}@{domain}"))
    }
    fn schema() -> serde_json::Value {
        json!({"type": "string", "maxLength": 318, "pattern": "^[a-z0-9._-]{1,64}@[^@]+$"})
    }
}

impl Handle {
    /// Returns the part before the `@`.
    pub fn name(&self) -> &str {
        self.split_once('@').map_or("", |(name, _)| name)
    }

    /// Returns the domain.
    pub fn domain(&self) -> super::Domain {
        let domain = self.split_once('@').map_or("", |(_, domain)| domain);
        super::Domain::from_trusted(domain.into())
    }
}

/// The rule of [`PublicKey`].
pub struct PublicKeyRule;
impl TextRule for PublicKeyRule {
    fn check(text: String) -> Result<String, String> {
        let Some(bytes) = from_hex::<32>(&text) else {
            return Err("must be 64 digits of 0-9 and a-f".into());
        };
        if VerifyingKey::from_bytes(&bytes.into()).is_err() {
            return Err("must be a point of secp256k1: no key has this x coordinate".into());
        }
        Ok(text)
    }
    fn schema() -> serde_json::Value {
        json!({"type": "string", "pattern": "^[0-9a-f]{64}$"})
    }
}

impl PublicKey {
    /// Returns its 32 bytes.
    pub fn bytes(&self) -> [u8; 32] {
        from_hex(self).expect("it was validated")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::text::tests::{assert_invalid, assert_valid};

    /// A valid key, of the first test vector of BIP-340.
    const KEY: &str = "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9";

    #[test]
    fn a_handle_is_a_name_and_a_domain_in_ascii() {
        let handle = Handle::parse("scribe.2_a-b@Bücher.Example").unwrap();
        assert_eq!(handle.as_str(), "scribe.2_a-b@xn--bcher-kva.example");
        assert_eq!(handle.name(), "scribe.2_a-b");
        assert_eq!(handle.domain().as_str(), "xn--bcher-kva.example");
        assert_valid::<HandleRule>(&["_@a.test", &format!("{}@a.test", "a".repeat(64))]);
        assert_invalid::<HandleRule>(&[
            "",
            "scribe",
            "@a.test",
            "scribe@",
            "scribe@localhost",
            "scribe@1.2.3.4",
            "scribe@a.test:80",
            "Scribe@a.test",
            "scri be@a.test",
            "scríbe@a.test",
            "a@b@a.test",
            &format!("{}@a.test", "a".repeat(65)),
        ]);
    }

    #[test]
    fn a_public_key_is_a_point_of_the_curve() {
        assert_valid::<PublicKeyRule>(&[KEY]);
        assert_eq!(PublicKey::parse(KEY).unwrap().bytes()[..3], [0xf9, 0x30, 0x8a]);
        assert_invalid::<PublicKeyRule>(&[
            "",
            &KEY[1..],
            &KEY.to_uppercase(),
            &KEY.replace('f', "g"),
            &"0".repeat(64),
            // Test vectors of BIP-340: not on the curve, and not below the field's size.
            "eefdea4cdb677750a420fee807eacf21eb9898ae79b9768766e4faa04a2d4a34",
            "fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc30",
        ]);
    }
}
