//! Input as a script: what a target does with what, byte by byte.

/// The bytes that were not read yet. At their end it goes on with zeros and empty texts.
pub struct Script<'a> {
    rest: &'a [u8],
}

impl<'a> Script<'a> {
    /// A script from its beginning.
    pub fn new(input: &'a [u8]) -> Self {
        Script { rest: input }
    }

    /// Returns whether all of it was read.
    pub fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads a byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or_default()
    }

    /// Reads as many bytes, or those that are left.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        bytes
    }

    /// Reads a number that is smaller than `end`; 0 if `end` is.
    pub fn below(&mut self, end: usize) -> usize {
        let number = usize::from(self.byte()) << 8 | usize::from(self.byte());
        number.checked_rem(end).unwrap_or_default()
    }
}
