//! Forms with a file: `multipart/form-data` (RFC 7578) as browsers send it, and nothing else.
//!
//! A body is refused as a whole unless all of it is as it should be. The file is a slice of the body,
//! not a copy.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap};

use super::fields::Fields;
use crate::base::{Error, Result};
use crate::http::MAX_PARTS_BYTES;

/// Files of a body.
pub const MAX_FILES: usize = 20;
/// Parts of a body: its files, and several times the fields of any form with files.
const MAX_PARTS: usize = 40;
/// The lines before a part's content: browsers send two, with the name of the file in one.
const MAX_HEAD_BYTES: usize = 4 * 1024;
/// The longest boundary (RFC 2046, section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// What files are, by the ends of their names: browsers ask the system, which may not know.
const TYPES: [(&str, &str); 16] = [
    (".txt", "text/plain"),
    (".md", "text/markdown"),
    (".markdown", "text/markdown"),
    (".csv", "text/csv"),
    (".html", "text/html"),
    (".htm", "text/html"),
    (".xhtml", "application/xhtml+xml"),
    (".pdf", "application/pdf"),
    (".rtf", "application/rtf"),
    (".epub", "application/epub+zip"),
    (".docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    (".pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    (".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    (".odt", "application/vnd.oasis.opendocument.text"),
    (".ods", "application/vnd.oasis.opendocument.spreadsheet"),
    (".odp", "application/vnd.oasis.opendocument.presentation"),
];

/// A file that was sent with a form.
#[derive(Debug)]
pub struct SentFile {
    /// Its name, without folders.
    pub name: String,
    /// What the browser takes it for.
    media_type: String,
    pub bytes: Bytes,
}

impl SentFile {
    /// Its size in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Which of these it is, by its name or else as the browser says; `None` if it is none of them.
    pub fn media_type(&self, accepted: &'static [&'static str]) -> Option<&'static str> {
        let name = self.name.to_ascii_lowercase();
        let by_name = TYPES.iter().find(|(end, _)| name.ends_with(end)).map(|(_, kind)| *kind);
        let media_type = by_name.unwrap_or(&self.media_type);
        accepted.iter().copied().find(|one| *one == media_type)
    }
}

/// The parts of a form.
#[derive(Debug)]
pub struct Parts {
    pub fields: Fields,
    /// The files that were chosen.
    pub files: Vec<SentFile>,
}

/// The boundary between the parts of a request's body; `None` if it has no parts.
///
/// # Errors
/// 400 if it has parts, but no boundary that may be one.
pub fn boundary(headers: &HeaderMap) -> Result<Option<&str>> {
    let sent = headers.get(CONTENT_TYPE).and_then(|sent| sent.to_str().ok()).unwrap_or_default();
    let mut parameters = sent.split(';').map(str::trim);
    if !parameters.next().is_some_and(|kind| kind.eq_ignore_ascii_case("multipart/form-data")) {
        return Ok(None);
    }
    let mut pairs = parameters.filter_map(|parameter| parameter.split_once('='));
    let found = pairs.find(|(name, _)| name.eq_ignore_ascii_case("boundary"));
    let boundary = found.map_or("", |(_, value)| value);
    let quoted = boundary.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let boundary = quoted.unwrap_or(boundary);
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(&byte);
    if (1..=MAX_BOUNDARY).contains(&boundary.len()) && boundary.bytes().all(is_allowed) {
        return Ok(Some(boundary));
    }
    Err(malformed("has no valid boundary"))
}

/// Reads the parts of a body: fields and files.
///
/// # Errors
/// 400 if it is malformed, has more files than [`MAX_FILES`], or more beside them than a form has.
pub fn parse(body: &Bytes, boundary: &str) -> Result<Parts> {
    let delimiter = format!("\r\n--{boundary}");
    // The first one begins the body.
    let begun = body.strip_prefix(&delimiter.as_bytes()[2..]);
    let mut rest = begun.ok_or_else(|| malformed("does not begin with its boundary"))?;
    let mut fields: Vec<(String, Cow<str>)> = Vec::new();
    let mut files = Vec::new();
    let mut small_bytes = 0;
    for _ in 0..MAX_PARTS {
        if matches!(rest, b"--" | b"--\r\n") {
            // A field for files has one without a name if none was chosen.
            files.retain(|file: &SentFile| !(file.name.is_empty() && file.bytes.is_empty()));
            return Ok(Parts { fields: Fields::of(fields.into_iter()), files });
        }
        let part = rest.strip_prefix(b"\r\n").ok_or_else(|| malformed("breaks off"))?;
        let head = &part[..part.len().min(MAX_HEAD_BYTES)];
        let head_end =
            find(head, b"\r\n\r\n").ok_or_else(|| malformed("has a part without end"))?;
        let head = Head::parse(&part[..head_end])?;
        let content = &part[head_end + 4..];
        let end = find(content, delimiter.as_bytes()).ok_or_else(|| malformed("breaks off"))?;
        rest = &content[end + delimiter.len()..];
        let content = &content[..end];
        match head.file_name {
            Some(_) if files.len() == MAX_FILES => {
                return Err(Error::invalid_at("file", "may be 20 files at once; send fewer"));
            }
            Some(name) => {
                let (media_type, bytes) = (head.media_type.to_string(), body.slice_ref(content));
                files.push(SentFile { name, media_type, bytes });
            }
            None => {
                small_bytes += content.len();
                let text = std::str::from_utf8(content);
                let text = text.map_err(|_| malformed("has a field that is not UTF-8"))?;
                fields.push((head.name, text.into()));
            }
        }
        if small_bytes > MAX_PARTS_BYTES {
            return Err(malformed("has fields that are too long"));
        }
    }
    Err(malformed("has too many parts"))
}

/// What the lines before a part's content say.
struct Head<'a> {
    name: String,
    /// The name of the file, without folders; none of a field that is no file.
    file_name: Option<String>,
    media_type: &'a str,
}

impl<'a> Head<'a> {
    fn parse(lines: &'a [u8]) -> Result<Self> {
        let lines = std::str::from_utf8(lines).map_err(|_| malformed("has a name not in UTF-8"))?;
        let (mut disposition, mut media_type) = (None, "text/plain");
        for line in lines.split("\r\n") {
            let (name, value) =
                line.split_once(':').ok_or_else(|| malformed("has a line that is no header"))?;
            match name.to_ascii_lowercase().as_str() {
                "content-disposition" => disposition = Some(value.trim()),
                "content-type" => media_type = value.trim(),
                // Another encoding than none would change what is stored.
                "content-transfer-encoding" => return Err(malformed("has an encoded part")),
                _ => {}
            }
        }
        let (name, file_name) = disposition
            .and_then(names)
            .ok_or_else(|| malformed("has a part that is no field of a form"))?;
        let base = |name: String| name.rsplit(['/', '\\']).next().unwrap_or_default().to_string();
        Ok(Head { name, file_name: file_name.map(base), media_type })
    }
}

/// The names of the field and of the file in `form-data; name="…"; filename="…"`.
fn names(disposition: &str) -> Option<(String, Option<String>)> {
    let mut rest = disposition.strip_prefix("form-data")?;
    let (mut name, mut file_name) = (None, None);
    while !rest.is_empty() {
        let (key, after) = rest.strip_prefix(';')?.trim_start().split_once("=\"")?;
        let (value, after) = after.split_once('"')?;
        // What browsers encode in them, and nothing else.
        let value = value.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n");
        match key {
            "name" if name.is_none() => name = Some(value),
            "filename" if file_name.is_none() => file_name = Some(value),
            _ => return None,
        }
        rest = after;
    }
    Some((name?, file_name))
}

/// Where `needle` begins. A boundary has no line end in it, so that this takes linear time.
fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == first) {
        if bytes[from + at..].starts_with(needle) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

fn malformed(what: &str) -> Error {
    Error::invalid_at("", format!("the form {what}; open its page again and send it from there"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "--x-1\r\nContent-Disposition: form-data; name=\"_token\"\r\n\r\nabc\r\n\
        --x-1\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\na\r\nb\r\n\
        --x-1\r\nContent-Disposition: form-data; name=\"file\"; filename=\"C:\\a%22b.MD\"\r\n\
        Content-Type: application/octet-stream\r\n\r\none\r\n--x-\r\ntwo\r\n--x-1--\r\n";

    fn parts(body: impl Into<Bytes>) -> Result<Parts> {
        parse(&body.into(), "x-1")
    }

    fn boundary_of(media_type: &str) -> Result<Option<String>> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, media_type.parse().unwrap());
        boundary(&headers).map(|found| found.map(String::from))
    }

    #[test]
    fn fields_and_a_file_are_read_as_browsers_send_them() {
        let read = parts(BODY).unwrap();
        assert_eq!((read.fields.get("_token"), read.fields.get("name")), ("abc", "a\nb"));
        let [file] = &read.files[..] else { panic!("one file") };
        assert_eq!((file.name.as_str(), &file.bytes[..]), ("a\"b.MD", &b"one\r\n--x-\r\ntwo"[..]));
        assert_eq!(file.media_type(&["text/plain", "text/markdown"]), Some("text/markdown"));
        assert_eq!(file.media_type(&["text/plain"]), None);
        let without = BODY.replace("C:\\a%22b.MD", "").replace("one\r\n--x-\r\ntwo", "");
        assert!(parts(without).unwrap().files.is_empty(), "no file was chosen");
        let bytes = [BODY.as_bytes()[..BODY.len() - 13].to_vec(), b"\xff\0\r\n--x-1--".to_vec()];
        assert!(parts(bytes.concat()).unwrap().files[0].bytes.ends_with(b"\xff\0"));
    }

    #[test]
    fn the_type_of_a_file_is_the_browsers_where_its_name_does_not_say() {
        let named = |name: &str| {
            parts(
                BODY.replace("C:\\a%22b.MD", name).replace("application/octet-stream", "text/csv"),
            )
        };
        let types = &["text/csv", "application/pdf"];
        let kind = |name: &str| named(name).unwrap().files[0].media_type(types);
        assert_eq!((kind("numbers"), kind("a.pdf")), (Some("text/csv"), Some("application/pdf")));
        assert_eq!(kind("a.docx"), None);
    }

    #[test]
    fn what_no_browser_sends_is_refused() {
        let file = "name=\"file\"; filename=";
        for (old, new) in [
            ("--x-1\r\nContent-Disposition: form-data; name=\"_token\"", "preamble"),
            ("two\r\n--x-1--\r\n", "two"),
            ("--x-1--\r\n", "--x-1"),
            ("--x-1--\r\n", "--x-1--\r\nepilogue"),
            ("name=\"_token\"\r\n\r\nabc", "name=\"_token\""),
            ("form-data; name=\"_token\"", "form-data"),
            ("form-data; name=\"_token\"", "attachment; name=\"_token\""),
            ("name=\"_token\"", "name=_token"),
            ("name=\"_token\"", "name=\"_token\"; name=\"name\""),
            ("name=\"_token\"", "name=\"_token"),
            ("name=\"_token\"", "name=\"_token\"; filename*=\"a\""),
            ("Content-Type: application/octet-stream", "Content-Transfer-Encoding: base64"),
            ("Content-Type: application/octet-stream", "no header"),
            ("Content-Disposition: form-data; name=\"name\"\r\n", ""),
            (file, &format!("x=\"{}\"; {file}", "y".repeat(MAX_HEAD_BYTES))),
        ] {
            assert!(BODY.contains(old), "{old}");
            assert!(parts(BODY.replacen(old, new, 1)).is_err(), "{new}");
        }
        assert!(parts(BODY.replace("abc", &"a".repeat(MAX_PARTS_BYTES))).is_err());
        assert!(parts(BODY.replace('\n', "")).is_err());
        let part = "--x-1\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n";
        let files = |count: usize| {
            let file = part.replace("\"a\"", "\"file\"; filename=\"a.txt\"");
            parts(format!("{}--x-1--", file.repeat(count))).map(|parts| parts.files.len())
        };
        assert_eq!(files(MAX_FILES).unwrap(), MAX_FILES);
        assert!(files(MAX_FILES + 1).unwrap_err().to_string().contains("20 files"));
        let many = |count: usize| parts(format!("{}--x-1--", part.repeat(count)));
        assert!(many(MAX_PARTS - 1).is_ok() && many(MAX_PARTS).is_err());
        let mut latin = BODY.as_bytes().to_vec();
        latin[57] = 0xe4;
        assert!(parts(latin).is_err());
    }

    #[test]
    fn a_body_that_breaks_off_or_has_any_other_byte_is_read_or_refused() {
        for at in 0..BODY.len() {
            assert!(at + 2 >= BODY.len() || parts(&BODY.as_bytes()[..at]).is_err(), "{at}");
            for other in [0, b'\r', b'\n', b'-', b'"', b';', 0xff] {
                let mut body = BODY.as_bytes().to_vec();
                body[at] = other;
                let _ = parts(body);
            }
        }
    }

    #[test]
    fn a_boundary_has_up_to_70_plain_characters() {
        let of = |boundary: &str| boundary_of(&format!("multipart/form-data; boundary={boundary}"));
        assert_eq!(of("----WebKitFormBoundary7").unwrap().unwrap(), "----WebKitFormBoundary7");
        assert_eq!(of("\"a\"").unwrap().unwrap(), "a");
        assert_eq!(boundary_of("application/x-www-form-urlencoded").unwrap(), None);
        assert!(of(&"a".repeat(70)).is_ok() && of(&"a".repeat(71)).is_err());
        for wrong in ["", "\"\"", "a b", "a\""] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert!(boundary_of("multipart/form-data").is_err());
    }
}
