//! XML in UTF-8, whichever encoding it is in.

use std::io::{self, Read};

use encoding_rs::{Decoder, DecoderResult, UTF_8};

use super::budget::Budget;
use super::charset::of_xml;

/// What says the encoding is within so many bytes.
const HEAD: usize = 256;

/// So many bytes are decoded at once.
const AT_ONCE: usize = 8 * 1024;

/// Reads XML as UTF-8: it is in the encoding of its byte order mark, or else in the one that it declares.
pub struct InUtf8<'b, R> {
    inner: R,
    /// None until the beginning was read.
    decoding: Option<Decoding>,
    /// What was read or decoded, and how much of it is passed on.
    ready: Vec<u8>,
    passed: usize,
    budget: &'b Budget,
}

enum Decoding {
    /// It is in UTF-8, or at its end.
    None,
    From(Box<Decoder>),
}

impl<'b, R: Read> InUtf8<'b, R> {
    /// Reads from `inner`, which counts what it has. What UTF-8 takes more is counted here: another encoding
    /// may take a third.
    pub fn new(inner: R, budget: &'b Budget) -> Self {
        InUtf8 { inner, decoding: None, ready: Vec::new(), passed: 0, budget }
    }

    /// Reads the beginning.
    fn begin(&mut self) -> io::Result<Decoding> {
        let mut head = Vec::with_capacity(HEAD);
        self.inner.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
        let encoding = of_xml(&head);
        if encoding == UTF_8 {
            self.ready = head;
            return Ok(Decoding::None);
        }
        let mut decoder = Box::new(encoding.new_decoder_with_bom_removal());
        self.decode(&mut decoder, &head, false)?;
        Ok(Decoding::From(decoder))
    }

    /// Decodes bytes, in place of what is ready.
    fn decode(&mut self, decoder: &mut Decoder, bytes: &[u8], is_last: bool) -> io::Result<()> {
        let most = decoder.max_utf8_buffer_length_without_replacement(bytes.len());
        self.ready.resize(most.ok_or_else(|| io::Error::other("it is too long"))?, 0);
        let (result, _, written) =
            decoder.decode_to_utf8_without_replacement(bytes, &mut self.ready, is_last);
        self.ready.truncate(written);
        self.passed = 0;
        if result != DecoderResult::InputEmpty {
            let name = decoder.encoding().name();
            return Err(io::Error::other(format!("it has bytes that are not in {name}")));
        }
        self.budget.take(written.saturating_sub(bytes.len()))
    }
}

impl<R: Read> Read for InUtf8<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut decoding = match self.decoding.take() {
            Some(decoding) => decoding,
            None => self.begin()?,
        };
        while self.passed == self.ready.len()
            && let Decoding::From(decoder) = &mut decoding
        {
            let mut bytes = [0; AT_ONCE];
            let read = self.inner.read(&mut bytes)?;
            self.decode(decoder, &bytes[..read], read == 0)?;
            if read == 0 {
                decoding = Decoding::None;
            }
        }
        self.decoding = Some(decoding);
        if self.passed == self.ready.len() {
            return self.inner.read(buffer);
        }
        let read = (&self.ready[self.passed..]).read(buffer)?;
        self.passed += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use encoding_rs::Encoding;

    use super::*;

    fn read(bytes: &[u8], most: u64) -> io::Result<String> {
        let (mut text, budget) = (String::new(), Budget::new(most));
        // A few bytes at a time.
        let mut reader = io::BufReader::with_capacity(3, InUtf8::new(bytes, &budget));
        reader.read_to_string(&mut text)?;
        Ok(text)
    }

    fn utf16(text: &str, is_little: bool) -> Vec<u8> {
        let bytes = |unit: u16| if is_little { unit.to_le_bytes() } else { unit.to_be_bytes() };
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn xml_is_in_the_encoding_of_its_mark_or_as_it_declares() {
        let text = format!("<?xml version=\"1.0\"?><a>Größe 発票 🙂{}</a>", "é".repeat(9000));
        assert_eq!(read(text.as_bytes(), 0).unwrap(), text);
        assert_eq!(read(b"", 0).unwrap(), "");
        for is_little in [true, false] {
            assert_eq!(read(&utf16(&text, is_little), 99_999).unwrap(), text);
            let marked = utf16(&format!("\u{feff}{text}"), is_little);
            assert_eq!(read(&marked, 99_999).unwrap(), text);
        }
        for (name, text) in [("windows-1252", "café"), ("Shift_JIS", "発票"), ("utf-16", "é")] {
            let text = format!("<?xml version='1.0' encoding='{name}'?><a>{text}</a>");
            let (bytes, _, _) = Encoding::for_label(name.as_bytes()).unwrap().encode(&text);
            assert_eq!(read(&bytes, 999).unwrap(), text);
        }
    }

    #[test]
    fn what_is_broken_or_too_much_fails() {
        let mut broken = utf16("<a>é</a>", true);
        broken.pop();
        let error = read(&broken, 99).unwrap_err();
        assert!(error.to_string().contains("not in UTF-16LE"), "{error}");
        // Each takes a byte more in UTF-8, and the mark two less.
        let kanji = utf16(&format!("\u{feff}{}", "\u{800}".repeat(9)), true);
        assert!(read(&kanji, 7).is_ok() && read(&kanji, 6).is_err());
        let budget = Budget::new(6);
        let mut reader = InUtf8::new(&*kanji, &budget);
        assert!(reader.read_to_end(&mut Vec::new()).is_err() && budget.is_exceeded());
    }
}
