//! Numbers of one to five bytes: seven bits in each, the lowest first.

/// Appends a number.
pub fn write(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Reads a number from the front of `bytes` and advances them past it; `None` if they do not begin
/// with one.
pub fn read(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0_u32;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u32::from(byte & 0x7f);
        number |= bits.checked_shl(shift).filter(|shifted| shifted >> shift == bits)?;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_read_back(number: u32, rest: Vec<u8>) {
            let mut bytes = Vec::new();
            write(number, &mut bytes);
            bytes.extend_from_slice(&rest);
            let mut left = bytes.as_slice();
            prop_assert_eq!(read(&mut left), Some(number));
            prop_assert_eq!(left, rest);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let _ = read(&mut bytes.as_slice());
        }
    }
}
