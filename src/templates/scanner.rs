//! A place in a text that only moves forward. Whatever reads through it takes linear time: in tests
//! it counts the bytes it looked at.

/// A text and how far it was read.
pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
    #[cfg(test)]
    pub looked_at: usize,
}

impl<'a> Scanner<'a> {
    /// At the beginning of a text.
    pub fn new(text: &'a str) -> Self {
        Scanner {
            text,
            at: 0,
            #[cfg(test)]
            looked_at: 0,
        }
    }

    /// How many bytes were read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// What was read since `start`, a place where this was before.
    pub fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    /// Reads `mark` if it comes next; whether it did.
    pub fn eat(&mut self, mark: &str) -> bool {
        let seen = self.rest().starts_with(mark);
        self.look(mark.len());
        if seen {
            self.at += mark.len();
        }
        seen
    }

    /// Reads as long as the characters are `wanted`.
    pub fn eat_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        self.eat_bytes(rest.find(|c| !wanted(c)).unwrap_or(rest.len()))
    }

    /// Reads up to the next `mark`, to the `escape` before it where there is one, or to the end.
    pub fn eat_until(&mut self, mark: &str, escape: &str) -> &'a str {
        let rest = self.rest();
        let before = rest.find(mark).map_or(rest, |at| &rest[..at]);
        let is_end = before.len() == rest.len();
        let kept = before.strip_suffix(escape).filter(|_| !is_end).unwrap_or(before);
        self.eat_bytes(kept.len())
    }

    fn eat_bytes(&mut self, len: usize) -> &'a str {
        self.look(len + 1); // And at what ended it.
        self.at += len;
        self.since(self.at - len)
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn look(&mut self, _bytes: usize) {
        #[cfg(test)]
        {
            self.looked_at += _bytes;
        }
    }
}
