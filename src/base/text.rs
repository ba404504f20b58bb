//! Bounded texts: each bound is defined once, is validated when a text is deserialized, and reaches
//! the OpenAPI document from here (reference: conventions, "Texts and names").
//!
//! Characters are Unicode code points. Texts are kept as sent, neither trimmed nor normalized.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::net::Ipv6Addr;
use std::ops::Deref;

use bincode::{
    Decode, Encode,
    de::{BorrowDecoder, Decoder},
    enc::Encoder,
    error::{DecodeError, EncodeError},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;
use unicode_normalization::UnicodeNormalization as _;

use super::spelling::{
    has_special_form, has_unseen, is_mixed, mixes_scripts, mixes_scripts_in_name,
};
use super::validated::checked;

/// The validation rule of a kind of text.
pub trait TextRule {
    /// Returns the text as it is stored; the error is a phrase that says what it must be.
    fn check(text: String) -> Result<String, String>;
    /// Does the same for a text that an earlier version may have validated, by the rule of then.
    fn check_earlier(text: String) -> Result<String, String> {
        Self::check(text)
    }
    /// Returns its JSON Schema.
    fn schema() -> serde_json::Value;
}

/// A text that satisfies the rule `R`.
pub struct Validated<R>(String, PhantomData<fn() -> R>);

impl<R: TextRule> Validated<R> {
    /// Checks a text; the error is a phrase such as "must be at most 200 characters".
    pub fn parse(text: impl Into<String>) -> Result<Self, String> {
        R::check(text.into()).map(|text| Validated(text, PhantomData))
    }
}

impl<R: TextRule> Validated<R> {
    /// Checks a text that an earlier version may have validated.
    pub fn parse_earlier(text: impl Into<String>) -> Result<Self, String> {
        R::check_earlier(text.into()).map(|text| Validated(text, PhantomData))
    }
}

impl<R> Validated<R> {
    /// Wraps a text that was validated before it was stored.
    pub fn from_trusted(text: String) -> Self {
        Validated(text, PhantomData)
    }

    /// Returns the text, borrowed.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl<R> Deref for Validated<R> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}
impl<R> Clone for Validated<R> {
    fn clone(&self) -> Self {
        Validated(self.0.clone(), PhantomData)
    }
}
impl<R> PartialEq for Validated<R> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<R> Eq for Validated<R> {}
impl<R> PartialOrd for Validated<R> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<R> Ord for Validated<R> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
impl<R> fmt::Debug for Validated<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl<R> fmt::Display for Validated<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl<R> Serialize for Validated<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}
impl<'de, R: TextRule> Deserialize<'de> for Validated<R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        checked(
            deserializer,
            |text: String| Self::parse(text),
            || Validated(String::new(), PhantomData),
        )
    }
}
impl<R: TextRule> JsonSchema for Validated<R> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        R::schema().try_into().expect("a rule's schema is an object")
    }
}
impl<R> Encode for Validated<R> {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        self.0.encode(encoder)
    }
}
// Stored texts were validated when they were received; a rule that became stricter must not make
// them unreadable.
impl<R, C> Decode<C> for Validated<R> {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        String::decode(decoder).map(|text| Validated(text, PhantomData))
    }
}
impl<'de, R, C> bincode::BorrowDecode<'de, C> for Validated<R> {
    fn borrow_decode<D: BorrowDecoder<'de, Context = C>>(
        decoder: &mut D,
    ) -> Result<Self, DecodeError> {
        Self::decode(decoder)
    }
}

// ── The kinds ────────────────────────────────────────────────────────────────

/// A name: 1 to 200 characters, among them one that is seen, and none that could pass it off as
/// another: no control, format or invisible character, no letters of several
/// scripts in one word, and none in a special form.
pub type Name = Validated<NameRule>;
/// A title or subject: 1 to 500 characters.
pub type Title = Text<1, 500>;
/// What changed in a version and why, as who makes it says: 1 to 500 characters.
pub type VersionMessage = Text<1, 500>;
/// A description: up to 10,000 characters.
pub type Description = Text<0, 10_000>;
/// A message's body, a task's description, a memory, a variable's value: 1 to 100,000 characters.
pub type Body = Text<1, 100_000>;
/// A tag or skill: 1 to 64 characters.
pub type Skill = Text<1, 64>;
/// An e-mail address, kept in lower case.
pub type Email = Validated<EmailRule>;
/// A domain name: lower case, IDNA ASCII, at least two labels
/// (reference: agent-index, "Domains").
pub type Domain = Validated<DomainRule>;
/// An absolute `http` or `https` URL of at most 2,048 bytes.
pub type HttpUrl = Validated<HttpUrlRule>;
/// The key of a vendor's API: 1 to 4,096 visible ASCII characters, as a header can carry them.
pub type ProviderKey = Validated<ProviderKeyRule>;
/// The text of a prompt, before or after compilation: at most 307,200 bytes of UTF-8.
pub type Prompt = Validated<PromptRule>;
/// A text of `MIN` to `MAX` characters.
pub type Text<const MIN: usize, const MAX: usize> = Validated<Chars<MIN, MAX>>;

/// Any text of `MIN` to `MAX` characters.
pub struct Chars<const MIN: usize, const MAX: usize>;
impl<const MIN: usize, const MAX: usize> TextRule for Chars<MIN, MAX> {
    fn check(text: String) -> Result<String, String> {
        check_length(&text, MIN, MAX)?;
        Ok(text)
    }
    fn schema() -> serde_json::Value {
        json!({"type": "string", "minLength": MIN, "maxLength": MAX})
    }
}

fn check_length(text: &str, min: usize, max: usize) -> Result<(), String> {
    // A text has no more characters than bytes, so the characters of most need not be counted.
    if text.len() >= min.saturating_mul(4) && text.len() <= max {
        return Ok(());
    }
    let chars = text.chars().count();
    match () {
        _ if chars < min && min == 1 => Err("must not be empty".into()),
        _ if chars < min => Err(format!("must be at least {min} characters")),
        _ if chars > max => Err(format!("must be at most {max} characters")),
        _ => Ok(()),
    }
}

/// The rule of [`Name`].
pub struct NameRule;
impl TextRule for NameRule {
    fn check(text: String) -> Result<String, String> {
        let text = Self::check_earlier(text)?;
        if text.trim().is_empty() {
            return Err("must not be blank".into());
        }
        if has_unseen(&text) {
            return Err("must not contain invisible characters or marks of direction".into());
        }
        if has_special_form(&text) {
            let message = "must not contain letters or digits in a special form, such as full \
                           width, mathematical ones, Roman numerals or ligatures";
            return Err(message.into());
        }
        if mixes_scripts_in_name(&text) {
            return Err("must not mix letters of several scripts in one word".into());
        }
        Ok(text)
    }
    fn check_earlier(text: String) -> Result<String, String> {
        check_length(&text, 1, 200)?;
        if text.chars().any(char::is_control) {
            return Err("must not contain control characters".into());
        }
        Ok(text)
    }
    fn schema() -> serde_json::Value {
        json!({"type": "string", "minLength": 1, "maxLength": 200, "pattern": r"^[^\u0000-\u001f\u007f-\u009f]*$"})
    }
}

/// The rule of [`ProviderKey`]. 4,096 is more than the keys of any vendor have.
pub struct ProviderKeyRule;
impl TextRule for ProviderKeyRule {
    fn check(text: String) -> Result<String, String> {
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if visible && (1..=4096).contains(&text.len()) {
            Ok(text)
        } else {
            Err("must be 1 to 4096 ASCII characters without blanks".into())
        }
    }
    fn schema() -> serde_json::Value {
        json!({
            "type": "string", "minLength": 1, "maxLength": 4096, "pattern": "^[!-~]+$",
            "writeOnly": true,
        })
    }
}

/// The rule of [`Prompt`].
pub struct PromptRule;
impl PromptRule {
    const MAX_BYTES: usize = 307_200;
}
impl TextRule for PromptRule {
    fn check(text: String) -> Result<String, String> {
        if text.len() > Self::MAX_BYTES {
            return Err(format!("must be at most {} bytes of UTF-8", Self::MAX_BYTES));
        }
        Ok(text)
    }
    fn schema() -> serde_json::Value {
        // JSON Schema counts characters; there are never more of them than bytes.
        json!({"type": "string", "maxLength": Self::MAX_BYTES})
    }
}

/// The rule of [`Email`].
pub struct EmailRule;
impl TextRule for EmailRule {
    /// One `@` with something on both sides, at most 254 bytes (the longest that SMTP can carry), the
    /// domain in the ASCII form of IDNA. Nothing that makes it look like another address: no blanks,
    /// control or invisible characters, and no letters of several scripts in one label, in whichever
    /// form the domain is sent. Whether the address exists is not checked.
    fn check(text: String) -> Result<String, String> {
        const FORM: &str = "must be an e-mail address of at most 254 characters";
        let text = Self::check_earlier(text)?;
        let (local, domain) = text.rsplit_once('@').ok_or(FORM)?;
        if text.is_ascii() && !domain.contains("xn--") {
            return Ok(text);
        }
        // As programs show it.
        let (shown, result) = idna::domain_to_unicode(domain);
        result.map_err(|_| FORM)?;
        let is_strange = has_unseen(&text)
            || has_unseen(&shown)
            || mixes_scripts(local)
            || shown.split('.').any(is_mixed)
            || !local.nfkc().eq(local.chars());
        if is_strange {
            return Err("must not contain characters that make it look like another address".into());
        }
        let domain = idna::domain_to_ascii(domain).map_err(|_| FORM)?;
        // What the mapping has made of it must still be an address.
        Self::check_earlier(format!("{local}@{domain}"))
    }
    fn check_earlier(text: String) -> Result<String, String> {
        let strange = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | ',');
        let good = match text.rsplit_once('@') {
            Some((local, domain)) => {
                !local.is_empty()
                    && !local.contains('@')
                    && !domain.is_empty()
                    && !domain.starts_with('.')
                    && !domain.ends_with('.')
            }
            None => false,
        };
        if good && text.len() <= 254 && !text.contains(strange) {
            Ok(text.to_lowercase())
        } else {
            Err("must be an e-mail address of at most 254 characters".into())
        }
    }
    fn schema() -> serde_json::Value {
        json!({"type": "string", "format": "email", "maxLength": 254})
    }
}

impl Validated<EmailRule> {
    /// The same address as accounts have it that were made while domains were kept as they were sent;
    /// `None` if that is the same.
    pub fn with_unicode_domain(&self) -> Option<Self> {
        let (local, domain) = self.0.rsplit_once('@')?;
        let (unicode, result) = idna::domain_to_unicode(domain);
        (result.is_ok() && unicode != domain)
            .then(|| Validated(format!("{local}@{unicode}"), PhantomData))
    }
}

/// The rule of [`Domain`].
pub struct DomainRule;
impl TextRule for DomainRule {
    fn check(text: String) -> Result<String, String> {
        const FORM: &str = "must be a domain name of at least two labels, such as example.com, \
                            without a port, path or wildcard";
        let ascii = idna::domain_to_ascii_strict(&text).map_err(|_| FORM.to_string())?;
        let label = |l: &str| {
            !l.is_empty()
                && l.len() <= 63
                && !l.starts_with('-')
                && !l.ends_with('-')
                && l.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        let numeric = |l: &str| l.bytes().all(|b| b.is_ascii_digit());
        let last = ascii.rsplit('.').next().unwrap_or_default();
        let good = ascii.len() <= 253
            && ascii.split('.').count() >= 2
            && ascii.split('.').all(label)
            // No top-level domain is a number; 127.1 and 1.2.3.4 are addresses.
            && !numeric(last)
            && !last.starts_with("0x");
        if good { Ok(ascii) } else { Err(FORM.into()) }
    }
    fn schema() -> serde_json::Value {
        json!({"type": "string", "format": "idn-hostname", "maxLength": 253})
    }
}

/// Returns whether this is a host name or address (IPv6 in brackets), with or without a port.
fn is_host_and_port(authority: &str) -> bool {
    let (is_host, port) = match authority.strip_prefix('[').and_then(|a| a.split_once(']')) {
        Some((address, port)) => (address.parse::<Ipv6Addr>().is_ok(), port),
        None => {
            let (host, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            let in_name = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&b);
            (!host.is_empty() && host.bytes().all(in_name), port)
        }
    };
    // `+80` parses as a number, but is not a port.
    let number = |port: &str| !port.starts_with('+') && port.parse::<u16>().is_ok();
    is_host && (port.is_empty() || port.strip_prefix(':').is_some_and(number))
}

impl Validated<HttpUrlRule> {
    /// Whether it is scheme, host and port alone: without a path, a query and a fragment.
    pub fn is_origin(&self) -> bool {
        let rest = self.0.split_once("://").map_or(self.as_str(), |(_, rest)| rest);
        matches!(rest.find(['/', '?', '#']).map(|at| &rest[at..]), None | Some("/"))
    }

    /// The host, in lower case, without a port.
    pub fn host(&self) -> String {
        let rest = self.0.split_once("://").map_or(self.as_str(), |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => host,
            _ => authority,
        };
        host.to_ascii_lowercase()
    }
}

/// The rule of [`HttpUrl`].
pub struct HttpUrlRule;
impl TextRule for HttpUrlRule {
    fn check(text: String) -> Result<String, String> {
        const FORM: &str = "must be an absolute http or https URL of at most 2048 characters, \
                            without user information";
        if !text.is_ascii() {
            return Err("must be in ASCII: a host in its IDNA form (xn--…), other characters \
                        percent-encoded"
                .into());
        }
        let good = text.len() <= 2048
            && text.bytes().all(|b| b.is_ascii_graphic() && !b"<>\\^`".contains(&b))
            && text.split_once("://").is_some_and(|(scheme, rest)| {
                let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
                (scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
                    && is_host_and_port(authority)
            });
        if good { Ok(text) } else { Err(FORM.into()) }
    }
    fn schema() -> serde_json::Value {
        json!({"type": "string", "format": "uri", "maxLength": 2048})
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn assert_valid<R: TextRule>(texts: &[&str]) {
        for text in texts {
            assert!(Validated::<R>::parse(*text).is_ok(), "{text:?} should be valid");
        }
    }

    pub fn assert_invalid<R: TextRule>(texts: &[&str]) {
        for text in texts {
            assert!(Validated::<R>::parse(*text).is_err(), "{text:?} should be invalid");
        }
    }

    #[test]
    fn characters_are_counted_not_bytes() {
        assert!(Text::<1, 3>::parse("äöü").is_ok());
        assert!(Text::<1, 3>::parse("äöüß").is_err());
        assert!(Text::<2, 3>::parse("ä").is_err());
        assert!(Text::<0, 3>::parse("").is_ok());
    }

    #[test]
    fn domains_are_ascii_lower_case_and_no_addresses() {
        assert_eq!(Domain::parse("Bücher.Example").unwrap().as_str(), "xn--bcher-kva.example");
        assert_valid::<DomainRule>(&["example.com", "a.b.example"]);
        assert_invalid::<DomainRule>(&[
            "",
            "localhost",
            "1.2.3.4",
            "127.1",
            "example.com:80",
            "example.com/x",
            "*.example.com",
            "-a.example",
            "a..example",
            "exa mple.com",
            "example.com.",
            "[::1]",
        ]);
    }

    #[test]
    fn e_mail_addresses_are_kept_in_lower_case() {
        assert_eq!(Email::parse("Ada@Acme.Test").unwrap().as_str(), "ada@acme.test");
        assert_invalid::<EmailRule>(&["", "ada", "@acme.test", "ada@", "a b@acme.test", "a@b@c"]);
    }

    #[test]
    fn an_e_mail_address_looks_like_no_other() {
        assert_invalid::<EmailRule>(&[
            "ben@аcme.test", // The first letter of the domain is Cyrillic.
            "bеn@acme.test", // So is the second of the name.
            "b\u{200b}en@acme.test",
            "ben\u{202e}@acme.test",
            "ben\u{3164}@acme.test",
            "ｂen@acme.test",
            "ⲃen@acme.test",        // Coptic.
            "b\u{251}n@acme.test",  // Latin alpha.
            "ben@xn--cme-5cd.test", // The domain of the first in ASCII.
            "ben@\u{a4d3}en.test",
            "ben@рога-copyta.test",
            "ben@xn--a.test",
            "ben@acme.xn--zzzzzzzzzzzz",
        ]);
        let parsed = |text: &str| Email::parse(text).unwrap().into_string();
        assert_eq!(parsed("ben@acme．test"), "ben@acme.test");
        assert_eq!(parsed("Zoë@Bücher.Example"), "zoë@xn--bcher-kva.example");
        assert_eq!(parsed("ada@xn--bcher-kva.example"), "ada@xn--bcher-kva.example");
        assert_eq!(parsed("почта@пример.рф"), "почта@xn--e1afmkfd.xn--p1ai");
        assert_eq!(parsed("a_b+c@under_score.test"), "a_b+c@under_score.test");
        let old = Email::parse("ada@bücher.example").unwrap().with_unicode_domain();
        assert_eq!(old.unwrap().as_str(), "ada@bücher.example");
        assert_eq!(Email::parse("ada@acme.test").unwrap().with_unicode_domain(), None);
    }

    #[test]
    fn a_name_is_seen_and_looks_like_no_other() {
        assert_valid::<NameRule>(&[
            "Ada",
            "Zoë Müller",
            "王小明",
            "Ада",
            "👩\u{200d}💻",
            "Acme™ ²",
        ]);
        // Composed or not.
        assert_valid::<NameRule>(&["Zoe\u{308}", "Zo\u{eb}", "Ada\u{a0}Lovelace", "田中 AI課"]);
        let unseen = [" ", "\u{a0}", "\u{3164}", "Ada\u{202e}", "Ad\u{200b}a", "Adа", "a\nb"];
        assert_invalid::<NameRule>(&unseen);
        // Neither a letter alone nor letters among those of Latin.
        assert_invalid::<NameRule>(&["Ad\u{e01}", "Go\u{101d}\u{101d}gle"]);
        // The names of files in languages without blanks between words, and of full width among Han.
        let of_files =
            [" Ada ", "รายงานQ1.pdf", "資料Ａ.pdf", "１月の売上.xlsx", "ＡＢＣ商事", "גרסהBeta"];
        assert_valid::<NameRule>(&of_files);
        let strange =
            ["ꓮda", "Adⲧ", "Ad\u{251}", "Ａda", "\u{1d400}da", "Gi\u{217c}", "\u{104b0}da"];
        assert_invalid::<NameRule>(&strange);
        assert_invalid::<NameRule>(&["a\u{1042c}a", "Ａcme １", "\u{212a}ate"]);
        // What was stored before is still read.
        for earlier in ["Ada\u{202e}", " Ada\u{a0}", "ꓮda", "Ａda"] {
            assert!(Name::parse_earlier(earlier).is_ok());
        }
        assert!(Email::parse_earlier("b\u{200b}en@acme.test").is_ok());
        assert!(Name::parse_earlier("a\nb").is_err());
    }

    #[test]
    fn the_host_of_a_url_is_without_its_port() {
        for (url, host) in [
            ("https://A.test/x", "a.test"),
            ("https://a.test:8443?y=1:2", "a.test"),
            ("http://[::1]:80/", "[::1]"),
            ("http://[::1]", "[::1]"),
        ] {
            assert_eq!(HttpUrl::parse(url).unwrap().host(), host);
        }
    }

    #[test]
    fn the_origin_of_a_url_is_all_of_it_without_a_path() {
        let is_origin = |url: &str| HttpUrl::parse(url).unwrap().is_origin();
        assert!(is_origin("https://a.test") && is_origin("http://[::1]:80/"));
        for url in ["https://a.test/x", "https://a.test//", "https://a.test?x", "http://a.test/#x"]
        {
            assert!(!is_origin(url), "{url}");
        }
    }

    #[test]
    fn a_url_that_is_not_ascii_is_refused_with_the_form_that_is() {
        let problem = HttpUrl::parse("https://münchen.example").unwrap_err();
        assert!(problem.contains("xn--"), "{problem}");
    }

    #[test]
    fn urls_are_http_with_a_host_and_no_user() {
        assert_valid::<HttpUrlRule>(&[
            "http://a.test",
            "https://a.test:8443/x?y=1",
            "http://127.0.0.1:80/",
            "http://[::1]:80/",
            "HTTP://a.test?x",
        ]);
        assert_invalid::<HttpUrlRule>(&[
            "",
            "ftp://a.test",
            "//a.test",
            "http://",
            "http://u:p@a.test",
            "a.test",
            "http://:80/",
            "http://?x",
            "http://a.test:x",
            "http://a.test:+80",
            "http://a.test:65536",
            "http://[::1",
            "http://[a]/",
            "http://[::1]x/",
            "http://a.test\\b",
            "http://a b.test",
            "http://a%20b.test",
        ]);
    }
}
