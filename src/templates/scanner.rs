//! A cursor over a text; in tests it counts the bytes it examined, which are linear in the text.

/// A text and the read position in it.
pub struct Scanner<'a> {
    text: &'a str,
    offset: usize,
    #[cfg(test)]
    pub bytes_examined: usize,
}

impl<'a> Scanner<'a> {
    /// Creates a scanner at the start of a text.
    pub fn new(text: &'a str) -> Self {
        Scanner {
            text,
            offset: 0,
            #[cfg(test)]
            bytes_examined: 0,
        }
    }

    /// The number of bytes read.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the text read since `start`, an earlier offset.
    pub fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.offset]
    }

    /// Reads `mark` if it comes next; returns whether it did.
    pub fn eat(&mut self, mark: &str) -> bool {
        let matches = self.rest().starts_with(mark);
        self.count(mark.len());
        if matches {
            self.offset += mark.len();
        }
        matches
    }

    /// Whether this character comes next.
    pub fn is_before(&self, c: char) -> bool {
        self.rest().starts_with(c)
    }

    /// Reads while the characters are `wanted`.
    pub fn eat_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        self.eat_bytes(rest.find(|c| !wanted(c)).unwrap_or(rest.len()))
    }

    /// Reads a text up to `quote` on the same line, and the quote; without one it reads nothing.
    pub fn eat_quoted(&mut self, quote: char) -> Option<&'a str> {
        let rest = self.rest();
        let end = rest.find([quote, '\n', '\r']).unwrap_or(rest.len());
        if !rest[end..].starts_with(quote) {
            self.count(end + 1);
            return None;
        }
        let text = self.eat_bytes(end);
        self.offset += quote.len_utf8();
        Some(text)
    }

    /// Goes back to an earlier offset.
    pub fn go_back(&mut self, offset: usize) {
        self.offset = offset;
    }

    /// Reads up to the next `mark` (or the `escape` directly before it), or to the end.
    pub fn eat_until(&mut self, mark: &str, escape: &str) -> &'a str {
        let rest = self.rest();
        let before = rest.find(mark).map_or(rest, |at| &rest[..at]);
        let is_end = before.len() == rest.len();
        let kept = before.strip_suffix(escape).filter(|_| !is_end).unwrap_or(before);
        self.eat_bytes(kept.len())
    }

    fn eat_bytes(&mut self, len: usize) -> &'a str {
        self.count(len + 1); // And the byte that ended it.
        self.offset += len;
        self.since(self.offset - len)
    }

    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    fn count(&mut self, _bytes: usize) {
        #[cfg(test)]
        {
            self.bytes_examined += _bytes;
        }
    }
}
