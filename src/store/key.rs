//! Keys: bytes that sort as their values do, so that a range of keys is a range of values.
//!
//! Numbers are big-endian, texts end in two zero bytes (a zero byte inside is escaped), tuples are
//! the concatenation of their parts, so the bytes of a tuple's first parts are a prefix of its bytes.

use crate::base::{Id, Time, Validated};

/// Keys are at most 1 KiB, which every engine considered so far accepts.
pub const MAX_KEY_BYTES: usize = 1024;

/// A value that can be a key or a part of one.
pub trait Key: Sized {
    /// Appends its bytes.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads a key from the front of `bytes` and advances them past it; `None` if they do not begin
    /// with one.
    fn read(bytes: &mut &[u8]) -> Option<Self>;

    /// Returns its bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        self.write(&mut out);
        out
    }
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(head)
}

impl<T: ?Sized> Key for Id<T> {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.bytes());
    }
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        take(bytes, 16).and_then(|b| uuid::Uuid::from_slice(b).ok()).map(Id::new)
    }
}

impl<const N: usize> Key for [u8; N] {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        take(bytes, N)?.try_into().ok()
    }
}

impl Key for u8 {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        take(bytes, 1).map(|b| b[0])
    }
}

impl Key for bool {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        match u8::read(bytes)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Key for u32 {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        Some(u32::from_be_bytes(take(bytes, 4)?.try_into().ok()?))
    }
}

impl Key for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        Some(u64::from_be_bytes(take(bytes, 8)?.try_into().ok()?))
    }
}

impl Key for Time {
    fn write(&self, out: &mut Vec<u8>) {
        // Flipping the sign bit makes times before 1970 sort before those after.
        ((self.millis() as u64) ^ (1 << 63)).write(out);
    }
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        Some(Time::from_millis((u64::read(bytes)? ^ (1 << 63)) as i64))
    }
}

impl Key for String {
    fn write(&self, out: &mut Vec<u8>) {
        write_text(self, out);
    }
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let mut text = Vec::new();
        loop {
            match u8::read(bytes)? {
                0 => match u8::read(bytes)? {
                    0 => return String::from_utf8(text).ok(),
                    0xFF => text.push(0),
                    _ => return None,
                },
                byte => text.push(byte),
            }
        }
    }
}

impl<R> Key for Validated<R> {
    fn write(&self, out: &mut Vec<u8>) {
        write_text(self, out);
    }
    /// Does not validate the text: only the key's end matters, or it came from a record.
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        String::read(bytes).map(Validated::from_trusted)
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        out.push(byte);
        if byte == 0 {
            out.push(0xFF);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

impl<K: Key> Key for Option<K> {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(0),
            Some(key) => {
                out.push(1);
                key.write(out);
            }
        }
    }
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        if bool::read(bytes)? { K::read(bytes).map(Some) } else { Some(None) }
    }
}

/// The prefix of every key.
impl Key for () {
    fn write(&self, _: &mut Vec<u8>) {}
    fn read(_: &mut &[u8]) -> Option<Self> {
        Some(())
    }
}

impl<A: Key, B: Key> Key for (A, B) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        Some((A::read(bytes)?, B::read(bytes)?))
    }
}

impl<A: Key, B: Key, C: Key> Key for (A, B, C) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
        self.2.write(out);
    }
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        Some((A::read(bytes)?, B::read(bytes)?, C::read(bytes)?))
    }
}

impl<A: Key, B: Key, C: Key, D: Key> Key for (A, B, C, D) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
        self.2.write(out);
        self.3.write(out);
    }
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        Some((A::read(bytes)?, B::read(bytes)?, C::read(bytes)?, D::read(bytes)?))
    }
}

/// Returns the first key after all keys that begin with `prefix`; `None` if there is none.
pub(super) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_as_their_values_and_read_back(
            a: (String, u64, Option<u32>, bool), b: (String, u64, Option<u32>, bool)
        ) {
            prop_assert_eq!(a.to_bytes().cmp(&b.to_bytes()), a.cmp(&b));
            prop_assert_eq!(<(String, u64, Option<u32>, bool)>::read(&mut a.to_bytes().as_slice()), Some(a));
        }

        #[test]
        fn times_sort_across_1970(a: i64, b: i64) {
            let (a, b) = (Time::from_millis(a), Time::from_millis(b));
            prop_assert_eq!(a.to_bytes().cmp(&b.to_bytes()), a.cmp(&b));
        }

        #[test]
        fn after_prefix_is_the_end_of_the_prefix(prefix: Vec<u8>, rest: Vec<u8>) {
            let key = [prefix.clone(), rest].concat();
            if let Some(end) = after_prefix(&prefix) {
                prop_assert!(key < end && prefix < end);
            }
        }
    }
}
