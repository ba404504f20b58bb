//! The character encodings of files of text.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, GB18030, GBK, ISO_2022_JP, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

use super::text::{Extracted, MAX_TEXT_BYTES, is_text, too_long, unreadable};
use super::utf16;
use crate::base::{Error, Result};

/// A file says within its first 4 KiB which encoding it has: HTML within the first one.
const DECLARED_WITHIN: usize = 4096;

/// A text, and what it was decoded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    pub text: String,
    /// The name of the encoding as the Encoding Standard has it; none for UTF-8.
    pub charset: Option<&'static str>,
    /// Whether bytes that are none of the encoding were replaced.
    pub is_broken: bool,
}

impl Decoded {
    /// The text that these bytes are in an encoding. A byte order mark wins over `encoding`.
    fn of(bytes: &[u8], encoding: &'static Encoding) -> Self {
        let (text, encoding, is_broken) = encoding.decode(bytes);
        // What is called GBK has all characters of its successor as well.
        let encoding = if encoding == GBK { GB18030 } else { encoding };
        let charset = (encoding != UTF_8).then(|| encoding.name());
        Decoded { text: text.into_owned(), charset, is_broken }
    }

    fn has_only_text(&self) -> bool {
        self.text.chars().all(is_text)
    }

    /// Refuses a text with characters that no text has.
    fn checked(self) -> Result<Self> {
        self.without(|c| !is_text(c))
    }

    /// Refuses a text with one of these characters.
    fn without(self, is_wrong: fn(char) -> bool) -> Result<Self> {
        match self.text.chars().find(|c| is_wrong(*c)) {
            None => Ok(self),
            Some(c) => Err(unreadable(format!(
                "the file is no text in {}: it has the control character U+{:04X}; if it is in another \
                 encoding, give its charset, or save it in UTF-8",
                self.charset.unwrap_or(UTF_8.name()),
                u32::from(c)
            ))),
        }
    }
}

impl TryFrom<Decoded> for Extracted {
    type Error = Error;

    /// The text of a file that was decoded; 413 if it is too long.
    fn try_from(decoded: Decoded) -> Result<Self> {
        let Decoded { text, charset, is_broken } = decoded;
        if text.len() > MAX_TEXT_BYTES {
            return Err(too_long());
        }
        let name = charset.unwrap_or(UTF_8.name());
        let left_out = if is_broken {
            vec![format!("bytes that are not in {name} are replaced by U+FFFD")]
        } else {
            Vec::new()
        };
        Ok(Extracted { text, left_out, charset })
    }
}

/// Returns the encoding of this name, by any that the Encoding Standard knows.
///
/// # Errors
/// 400 if there is none.
pub fn named(name: &str) -> Result<&'static Encoding> {
    Encoding::for_label_no_replacement(name.as_bytes()).ok_or_else(|| {
        Error::invalid_at(
            "charset",
            "must be the name of a character encoding, such as windows-1252, utf-16le or shift_jis; \
             leave it out to have it recognized",
        )
    })
}

/// The encoding that Windows gives this number; none if it is none that the web has.
pub fn of_code_page(number: i32) -> Option<&'static Encoding> {
    let label = match number {
        866 => "ibm866",
        932 => "shift_jis",
        936 => "gbk",
        949 => "euc-kr",
        950 => "big5",
        10_000 => "macintosh",
        10_007 => "x-mac-cyrillic",
        20_866 => "koi8-r",
        20_127 => "us-ascii",
        20_932 => "euc-jp",
        21_866 => "koi8-u",
        28_591..=28_606 => &format!("iso-8859-{}", number - 28_590),
        54_936 => "gb18030",
        65_001 => "utf-8",
        number => &format!("windows-{number}"),
    };
    Encoding::for_label_no_replacement(label.as_bytes())
}

/// Returns the text of a file in the encoding that is given, or else is recognized.
///
/// # Errors
/// 400 if it is in another encoding, in none that is recognized, or is no text.
pub fn of_text(bytes: &[u8], given: Option<&'static Encoding>) -> Result<Decoded> {
    decoded(bytes, given)?.checked()
}

fn decoded(bytes: &[u8], given: Option<&'static Encoding>) -> Result<Decoded> {
    match given {
        Some(encoding) => in_given(bytes, encoding),
        None => recognized(bytes),
    }
}

/// Returns the text of an HTML file in the encoding that is given; or else in UTF-8, if it is that; or
/// else in the one that it declares, with bytes that are none of it replaced, as browsers do; or else in
/// one that is recognized.
///
/// # Errors
/// As [`of_text`].
pub fn of_html(bytes: &[u8], given: Option<&'static Encoding>) -> Result<Decoded> {
    let read = match declared(bytes) {
        // All of its bytes are in ASCII.
        Some(declared) if given.is_none() && declared == ISO_2022_JP => in_given(bytes, declared)?,
        Some(declared) if given.is_none() && std::str::from_utf8(bytes).is_err() => {
            Decoded::of(bytes, declared)
        }
        _ => decoded(bytes, given)?,
    };
    // A picture, not a page; of other control characters blanks are made, as of those of a book.
    read.without(|c| c == '\0')
}

/// Returns the text of an XHTML document in a book: in UTF-8, if it is that, or else in what it
/// declares, with bytes that are none of it replaced.
pub fn of_xhtml(bytes: &[u8]) -> Decoded {
    let (as_xml, is_utf8) = (of_xml(bytes), std::str::from_utf8(bytes).is_ok());
    if as_xml == UTF_16LE || as_xml == UTF_16BE {
        return Decoded::of(bytes, as_xml);
    }
    Decoded::of(bytes, declared(bytes).filter(|_| !is_utf8).unwrap_or(UTF_8))
}

/// Returns the encoding of XML that begins with these bytes: that of its byte order mark, UTF-16 if its
/// first character is, or else the one that it declares.
pub fn of_xml(head: &[u8]) -> &'static Encoding {
    match (Encoding::for_bom(head), head) {
        (Some((encoding, _)), _) => encoding,
        (None, [b'<', 0, ..]) => UTF_16LE,
        (None, [0, b'<', ..]) => UTF_16BE,
        // What is declared after the first line is no declaration of XML.
        _ => {
            let end = head.iter().position(|byte| *byte == b'>').unwrap_or(0);
            let declared = declared(&head[..end.saturating_add(1).min(head.len())]);
            // What is one byte for each character is often declared of what is UTF-8.
            let is_else =
                |encoding: &&'static Encoding| !(encoding.is_single_byte() && begins_as_utf8(head));
            declared.filter(is_else).unwrap_or(UTF_8)
        }
    }
}

/// Whether bytes, which may be cut, are UTF-8 with other characters than those of ASCII.
fn begins_as_utf8(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(text) => !text.is_ascii(),
        Err(error) => error.error_len().is_none() && !bytes[..error.valid_up_to()].is_ascii(),
    }
}

fn in_given(bytes: &[u8], encoding: &'static Encoding) -> Result<Decoded> {
    let decoded = Decoded::of(bytes, encoding);
    if decoded.is_broken {
        // That of a mark at the beginning, if there is one.
        let name = decoded.charset.unwrap_or(UTF_8.name());
        return Err(unreadable(format!(
            "the file is not in {name}; give its charset, or save it in UTF-8"
        )));
    }
    Ok(decoded)
}

fn recognized(bytes: &[u8]) -> Result<Decoded> {
    if let Some((encoding, _)) = Encoding::for_bom(bytes) {
        return in_given(bytes, encoding);
    }
    let Err(error) = std::str::from_utf8(bytes) else {
        let decoded = Decoded::of(bytes, UTF_8);
        // Latin letters in UTF-16 are ASCII with zeros between, and others have control characters.
        let other = match decoded.has_only_text() {
            true => None,
            false => of_escapes(bytes).or_else(|| utf16::recognized(bytes, false)),
        };
        return match other {
            Some(encoding) => in_given(bytes, encoding),
            None => Ok(decoded),
        };
    };
    let guess = guess(bytes);
    let decoded = Decoded::of(bytes, guess);
    let is_likely = !decoded.is_broken && decoded.has_only_text();
    let is_certain = is_likely && utf16::looks_like_text(&decoded.text);
    if !is_certain && let Some(encoding) = utf16::recognized(bytes, is_likely) {
        return in_given(bytes, encoding);
    }
    if is_nearly_utf8(bytes, guess) || decoded.is_broken {
        let at = error.valid_up_to() + 1;
        return Err(unreadable(format!(
            "the file is not in UTF-8 from its byte {at} on, nor in another encoding that can be \
             recognized; save it in UTF-8, or give its charset"
        )));
    }
    Ok(decoded)
}

fn guess(bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    detector.guess(None, Utf8Detection::Deny)
}

/// ISO-2022-JP, if that is evident: bytes in ASCII with the escape sequences of Japanese characters.
fn of_escapes(bytes: &[u8]) -> Option<&'static Encoding> {
    let has = |sequence| bytes.windows(3).any(|bytes| bytes == sequence);
    let is_japanese = bytes.is_ascii() && (has(b"\x1b$B") || has(b"\x1b$@") || has(b"\x1b(I"));
    (is_japanese && !Decoded::of(bytes, ISO_2022_JP).is_broken).then_some(ISO_2022_JP)
}

/// Whether bytes are UTF-8 but for a few: another encoding would be a wrong guess, above all that of
/// Western Europe, in whose texts two letters that are UTF-8 hardly follow each other.
fn is_nearly_utf8(bytes: &[u8], guess: &'static Encoding) -> bool {
    let (mut good, mut bad) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        good += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        bad += usize::from(!chunk.invalid().is_empty());
    }
    good > 2 * bad || guess == WINDOWS_1252 && good > 0 && good >= bad
}

/// The encoding that an HTML file declares in a `meta` element, or XHTML in its first line.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes[..bytes.len().min(DECLARED_WITHIN)].to_ascii_lowercase();
    let head = String::from_utf8_lossy(&head);
    let value = |tag: &str, name: &str| {
        let (_, after) = tag.split_once(name)?;
        let value = after.trim_start().strip_prefix('=')?.trim_start();
        let value = value.trim_start_matches(['"', '\'']);
        let end = value.find(|c: char| c.is_whitespace() || "\"';>".contains(c));
        Encoding::for_label_no_replacement(&value.as_bytes()[..end.unwrap_or(value.len())])
    };
    let xml = head.strip_prefix("<?xml").and_then(|rest| rest.split_once("?>"));
    let mut found = xml.and_then(|(tag, _)| value(tag, "encoding"));
    for tag in head.split("<meta").skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        found = found.or_else(|| value(tag, "charset"));
    }
    // These can be read in no UTF-16.
    found
        .map(|encoding| if encoding == UTF_16LE || encoding == UTF_16BE { UTF_8 } else { encoding })
}

#[cfg(test)]
mod tests {
    use encoding_rs::{EUC_KR, SHIFT_JIS, WINDOWS_874, WINDOWS_1251};

    use super::*;

    const GERMAN: &str =
        "Name;Straße\r\nMüller;Größenwahnallee 7\r\nSchröder;Am Bächlein 12 – „oben“\r\n";
    const RUSSIAN: &str = "Прилив достигает высшей точки в полдень, и лодки выходят в море.";
    const JAPANESE: &str = "満潮は正午です。船は港を出ます。天気は晴れ、風は弱いでしょう。";
    const CHINESE: &str = "满潮在中午。船只离开港口。天气晴朗,风力较弱。";
    const KOREAN: &str = "만조는 정오입니다. 배들이 항구를 떠납니다. 날씨는 맑습니다.";

    fn utf16(text: &str, is_little: bool) -> Vec<u8> {
        let bytes = |unit: u16| if is_little { unit.to_le_bytes() } else { unit.to_be_bytes() };
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[track_caller]
    fn is_read(bytes: &[u8], text: &str, charset: Option<&str>) {
        let read = of_text(bytes, None).unwrap();
        assert_eq!((read.text.as_str(), read.charset), (text, charset));
    }

    #[test]
    fn utf8_comes_first_and_stays_as_it_is() {
        for kept in ["", "a", "a\tb\r\nc\u{c}", "äöü 日本語 🙂", GERMAN, RUSSIAN] {
            is_read(kept.as_bytes(), kept, None);
        }
        is_read(b"\xef\xbb\xbfa", "a", None);
    }

    #[test]
    fn other_encodings_are_recognized() {
        for (text, encoding, name) in [
            (GERMAN, WINDOWS_1252, "windows-1252"),
            (RUSSIAN, WINDOWS_1251, "windows-1251"),
            (JAPANESE, SHIFT_JIS, "Shift_JIS"),
            (CHINESE, GB18030, "gb18030"),
            (KOREAN, EUC_KR, "EUC-KR"),
            ("น้ำขึ้นสูงสุดตอนเที่ยง เรือออกจากท่า", WINDOWS_874, "windows-874"),
        ] {
            let (bytes, _, is_lossy) = encoding.encode(text);
            assert!(!is_lossy, "{name}");
            is_read(&bytes, text, Some(name));
        }
        is_read(b"caf\xe9", "café", Some("windows-1252"));
        for text in [GERMAN, RUSSIAN, JAPANESE] {
            is_read(&[b"\xff\xfe".to_vec(), utf16(text, true)].concat(), text, Some("UTF-16LE"));
            is_read(&[b"\xfe\xff".to_vec(), utf16(text, false)].concat(), text, Some("UTF-16BE"));
        }
        // One letter has its zero on the other side.
        let latvian = "Rīga, Āgenskalns, Brīvības iela 7";
        is_read(&utf16(latvian, true), latvian, Some("UTF-16LE"));
        is_read(&utf16(GERMAN, true), GERMAN, Some("UTF-16LE"));
        is_read(&utf16(GERMAN, false), GERMAN, Some("UTF-16BE"));
    }

    #[test]
    fn utf16_without_a_mark_is_recognized_in_other_scripts() {
        for text in [RUSSIAN, JAPANESE, CHINESE, KOREAN, "发票", "北京市", "Да", "№ 7, Да\r\n"]
        {
            is_read(&utf16(text, true), text, Some("UTF-16LE"));
            is_read(&utf16(text, false), text, Some("UTF-16BE"));
            let html = format!("<p>{text}</p>");
            let read = of_html(&utf16(&html, true), None).unwrap();
            assert_eq!((read.text, read.charset), (html, Some("UTF-16LE")));
        }
        // The end of a line, or any sign, is enough to tell two characters from letters of others.
        for word in ["打开", "你好", "数量", "今天", "時間", "名前", "안녕", "회사", "Äß"]
        {
            for text in [format!("{word}\r\n"), format!("{word}\n"), format!("1. {word}")] {
                is_read(&utf16(&text, true), &text, Some("UTF-16LE"));
                is_read(&utf16(&text, false), &text, Some("UTF-16BE"));
            }
        }
        // These are short texts in other encodings.
        for (text, encoding, name) in [
            ("中文", GB18030, "gb18030"),
            ("满潮", GB18030, "gb18030"),
            ("naïve", WINDOWS_1252, "windows-1252"),
            ("Пр", WINDOWS_1251, "windows-1251"),
        ] {
            let read = of_text(&encoding.encode(text).0, None);
            assert!(read.is_ok_and(|read| read.charset != Some("UTF-16LE")), "{name}");
        }
    }

    #[test]
    fn japanese_with_escape_sequences_is_recognized() {
        let (bytes, _, _) = ISO_2022_JP.encode(JAPANESE);
        is_read(&bytes, JAPANESE, Some("ISO-2022-JP"));
        let html = [b"<title>a</title><p>", &*bytes].concat();
        let read = of_html(&html, None).unwrap();
        assert!(read.text.ends_with(JAPANESE) && read.charset == Some("ISO-2022-JP"));
        // A terminal writes another sequence, and one that breaks off is none.
        for other in [b"a\x1b(B\x1b[m".as_slice(), b"\x1b$Ba"] {
            assert!(of_text(other, None).unwrap_err().message().contains("U+001B"));
        }
    }

    #[test]
    fn what_is_no_text_or_in_no_encoding_is_refused_with_the_reason() {
        let mut broken = "Grüße aus Köln, größte Stadt".as_bytes().to_vec();
        broken.truncate(broken.len() - 5);
        broken.push(0xc3);
        for (bytes, reason) in [
            (broken.as_slice(), "is not in UTF-8 from its byte 29 on"),
            (b"Gr\xc3\xbc\xc3\x9fe caf\xe9", "is not in UTF-8 from its byte 12 on"),
            (b"a\0b", "U+0000"),
            (b"\x7fELF", "U+007F; if it is in another encoding, give its charset"),
            // In code page 850.
            (b"M\x81ller, K\x94ln", "give its charset"),
            (b"\xff\xfea\0\0\0", "U+0000"),
            (b"\xff\xfe\0\xd8", "not in UTF-16LE"),
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "the file is no"),
        ] {
            let refused = of_text(bytes, None).unwrap_err();
            assert!(refused.message().contains(reason), "{refused}");
            assert_eq!(refused.code(), "unreadable_document");
        }
    }

    #[test]
    fn a_charset_that_is_given_is_obeyed() {
        let given = |name: &str| Some(named(name).unwrap());
        let (latin, _, _) = WINDOWS_1252.encode("café");
        assert_eq!(of_text(&latin, given("latin1")).unwrap().text, "café");
        assert_eq!(of_text(&latin, given("ISO-8859-5")).unwrap().text, "cafщ");
        assert_eq!(of_text("é".as_bytes(), given("windows-1252")).unwrap().text, "Ã©");
        let refused = of_text(&latin, given("utf-8")).unwrap_err();
        assert!(refused.message().contains("not in UTF-8; give its charset"), "{refused}");
        for name in ["", "utf-9", "replacement", "iso-2022-kr"] {
            assert!(named(name).unwrap_err().message().contains("windows-1252"));
        }
        let html = b"<meta charset=utf-8>caf\xe9";
        assert!(of_html(html, given("windows-1252")).unwrap().text.ends_with("café"));
    }

    #[test]
    fn html_says_its_charset_itself() {
        for (html, charset, is_broken) in [
            ("<meta charset=\"koi8-r\">\u{e4}", Some("KOI8-R"), false),
            (
                "<META http-equiv=a content='text/html; charset=ISO-8859-2'>\u{e4}",
                Some("ISO-8859-2"),
                false,
            ),
            ("<?xml version='1.0' encoding='KOI8-U'?>\u{e4}", Some("KOI8-U"), false),
            ("<meta charset=iso-2022-jp>a", Some("ISO-2022-JP"), false),
            ("<meta charset=shift_jis>a", None, false),
            ("<meta charset=utf-16><p>a", None, false),
            ("<meta name=charset><meta charset=none>a", None, false),
            ("<meta charset=utf-8><p>a\u{e9}b", None, true),
        ] {
            let (bytes, _, _) = WINDOWS_1252.encode(html);
            let read = of_html(&bytes, None).unwrap();
            assert_eq!((read.charset, read.is_broken), (charset, is_broken), "{html}");
        }
        // Control characters are in pages, and become blanks.
        assert!(of_html("<p>a\u{93}b".as_bytes(), None).is_ok());
        assert!(of_html(b"<meta charset=latin1><p>a\x81b", None).is_ok());
        assert!(of_html(b"\x89PNG\r\n\x1a\n\0", None).is_err());
        // What is UTF-8 is not what it says.
        assert_eq!(of_html("<meta charset=windows-1252>é".as_bytes(), None).unwrap().charset, None);
    }
}
