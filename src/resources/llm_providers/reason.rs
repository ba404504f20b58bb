//! Why a provider refused a request, in its own words, without the secrets in them.

use serde_json::Value;

use crate::base::visible;

/// More than the sentence that vendors write.
const MAX_CHARS: usize = 300;

/// Where vendors have the sentence in the body of an error.
const PLACES: [&str; 6] =
    ["/error/message", "/error", "/message", "/detail", "/detail/0/msg", "/errors/0/message"];

/// How keys of vendors begin. An error can name another key than the one that was sent: that of a
/// gateway, for what is behind it.
const KEY_PREFIXES: [&str; 12] =
    ["sk-", "rk-", "pk-", "AIza", "gsk_", "xai-", "pplx-", "hf_", "r8_", "nvapi-", "rsk_", "eyJ"];

/// What begins like a key and is shorter is a word.
const MIN_KEY_LEN: usize = 10;

/// A part of the key that was sent, of at least so many characters, is as good as the key.
const PART_LEN: usize = 8;

/// What is said behind this many characters is not read: looking for parts of a key takes time with the
/// length of both.
const MAX_READ: usize = 2048;

/// So many letters and digits in a row are no word, but a key without a known beginning.
const OPAQUE_LEN: usize = 20;

/// What the body of an error says.
#[derive(Clone)]
pub struct Said {
    /// At most [`MAX_READ`] characters, with the secrets in them.
    text: String,
    /// Whether it is where APIs of models have it.
    is_of_api: bool,
}

impl Said {
    /// Returns how much is known of what is wrong: of two refusals, the one that says more counts.
    pub fn weight(said: Option<&Said>) -> (bool, bool) {
        (said.is_some_and(|said| said.is_of_api), said.is_some())
    }

    /// Reads the body of an error; `None` if it says nothing.
    pub fn of(body: &[u8]) -> Option<Self> {
        let (text, is_of_api) = match serde_json::from_slice::<Value>(body) {
            Ok(body) => {
                let body = body.get(0).unwrap_or(&body);
                let texts = PLACES
                    .iter()
                    .filter_map(|place| Some((body.pointer(place)?.as_str()?.trim(), *place)));
                let (text, place) = texts.into_iter().find(|(text, _)| !text.is_empty())?;
                (begin(text), place == "/error/message")
            }
            // A line of plain text; a page says nothing that is worth a line.
            Err(_) => {
                let text = std::str::from_utf8(body).ok()?.trim();
                let is_sentence =
                    !text.is_empty() && !text.starts_with('<') && !text.contains('\n');
                (is_sentence.then(|| begin(text))?, false)
            }
        };
        Some(Said { text, is_of_api })
    }

    /// Returns the reason on one line, without the key that was sent or what looks like another.
    pub fn reason(&self, key: Option<&str>) -> String {
        // Cut afterwards: a part of a key would not be recognized.
        let shown = without_secrets(&self.text, key);
        let mut shown = visible::line(&shown).into_owned();
        if let Some((at, _)) = shown.char_indices().nth(MAX_CHARS) {
            shown.truncate(at);
            shown.push('…');
        }
        shown
    }
}

/// Returns the words of a text within its first [`MAX_READ`] characters.
fn begin(text: &str) -> String {
    match text.char_indices().nth(MAX_READ) {
        None => text.into(),
        Some((at, _)) => {
            let whole = text[..at].rsplit_once(char::is_whitespace);
            format!("{} …", whole.map_or("", |(whole, _)| whole))
        }
    }
}

/// Replaces the key that was sent, parts of it, and what looks like another key.
fn without_secrets(text: &str, key: Option<&str>) -> String {
    let text = key.map_or_else(|| text.to_string(), |key| text.replace(key, "…"));
    let mut is_after_scheme = false;
    let words = text.split_inclusive(char::is_whitespace);
    words
        .map(|word| {
            let bare = word.trim_end();
            if bare.is_empty() {
                return word.into();
            }
            let is_hidden = is_after_scheme || is_secret(bare, key);
            let is_mark = |c: char| !c.is_ascii_alphanumeric();
            let last = bare.trim_end_matches(is_mark).rsplit(is_mark).next().unwrap_or_default();
            is_after_scheme = last.eq_ignore_ascii_case("bearer");
            if is_hidden { format!("…{}", &word[bare.len()..]) } else { word.into() }
        })
        .collect()
}

fn is_secret(word: &str, key: Option<&str>) -> bool {
    // A key that is masked in its middle still shows its ends.
    word.contains("***")
        || KEY_PREFIXES.iter().any(|prefix| has_key(word, prefix))
        || word.split(|c: char| !c.is_ascii_alphanumeric()).any(is_opaque)
        || word.split_once("://").is_some_and(|(_, rest)| rest.contains('@'))
        || key.is_some_and(|key| has_part(word, key))
}

/// Whether a word has something that begins like a key, at the beginning of a part of the word.
fn has_key(word: &str, prefix: &str) -> bool {
    word.match_indices(prefix).any(|(at, _)| {
        let begins = !word[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
        let rest = word[at..].find(|c: char| !c.is_ascii_graphic() || "\"'`,;)".contains(c));
        begins && rest.unwrap_or(word.len() - at) >= MIN_KEY_LEN
    })
}

fn is_opaque(run: &str) -> bool {
    run.len() >= OPAQUE_LEN
        && run.bytes().any(|byte| byte.is_ascii_digit())
        && run.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn has_part(word: &str, key: &str) -> bool {
    // Of a short key, a part is a word of any text.
    key.len() >= 2 * PART_LEN
        && key.as_bytes().windows(PART_LEN).any(|part| {
            word.as_bytes().windows(PART_LEN).any(|other| other.eq_ignore_ascii_case(part))
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEY: &str = "sk-0123456789abcdefXYZ";

    fn of(body: &str) -> Option<String> {
        Some(Said::of(body.as_bytes())?.reason(Some(KEY)))
    }

    #[test]
    fn the_reason_is_found_where_vendors_have_it() {
        for body in [
            r#"{"error":{"message":"no such model","type":"x"}}"#,
            r#"{"type":"error","error":{"type":"not_found_error","message":"no such model"}}"#,
            r#"[{"error":{"code":400,"message":" no such model\n"}}]"#,
            r#"{"error":"no such model"}"#,
            r#"{"object":"error","message":"no such model"}"#,
            r#"{"detail":"no such model"}"#,
            r#"{"detail":[{"loc":[],"msg":"no such model"}]}"#,
            r#"{"errors":[{"message":"no such model"}]}"#,
            "no such model\n",
        ] {
            assert_eq!(of(body).as_deref(), Some("no such model"), "{body}");
        }
        for body in ["", "{}", "null", "<html>no</html>", "a\nb", r#"{"error":{"code":1}}"#] {
            assert_eq!(of(body), None, "{body}");
        }
        let long = of(&"x".repeat(1000)).unwrap();
        assert_eq!(long.chars().count(), MAX_CHARS + 1);
        assert_eq!(of(&"x".repeat(MAX_READ + 1)).as_deref(), Some(" …"));
        assert_eq!(of("a\u{1b}[2J").as_deref(), Some("a⟨U+001B⟩[2J"));
    }

    #[test]
    fn no_secret_is_in_a_reason() {
        for (said, shown) in [
            (format!("Incorrect key: {KEY}."), "Incorrect key: …."),
            ("Incorrect key: sk-01***************fXYZ. See".into(), "Incorrect key: … See"),
            (format!("key={} is wrong", &KEY[3..]), "… is wrong"),
            ("Received API Key = AIzaSyD-another-key, Key".into(), "Received API Key = … Key"),
            ("(Bearer sk-of-a-gateway-behind)".into(), "(Bearer …"),
            (
                "sent authorization=bearer opaque of ours".into(),
                "sent authorization=bearer … of ours",
            ),
            (format!("key {}", KEY.to_uppercase()), "key …"),
            ("key 0a1b2c3d4e5f60718293a4b5c6d7e8f9 of Azure".into(), "key … of Azure"),
            ("token github_pat_11ABCDEFG0123456789abc".into(), "token …"),
            ("via http://user:pass@proxy.test/ failed".into(), "via … failed"),
            ("the task-force-of-models is busy".into(), "the task-force-of-models is busy"),
            ("model claude-haiku-4-5-20251001".into(), "model claude-haiku-4-5-20251001"),
            (
                "request 01890a5d-ac96-774b-bcce-b302099a8057".into(),
                "request 01890a5d-ac96-774b-bcce-b302099a8057",
            ),
        ] {
            let body = json!({"error": {"message": said}}).to_string();
            assert_eq!(of(&body).as_deref(), Some(shown));
        }
        // At the end of what is shown, too.
        let late = format!("{} {KEY}", "x".repeat(MAX_CHARS - 5));
        assert!(!of(&late).unwrap().contains("sk-"));
        // A short key is a word, and still not shown.
        let short = Said::of(b"\"pass\" is wrong: password").unwrap().reason(Some("pass"));
        assert_eq!(short, "\"…\" is wrong: …word");
    }
}
