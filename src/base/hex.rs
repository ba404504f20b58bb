//! Hexadecimal digits.

/// Formats bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads lower-case hexadecimal digits; None if there are not exactly as many as needed.
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_in_lower_case_and_in_full() {
        assert_eq!(from_hex("00ff1a"), Some([0, 255, 26]));
        assert_eq!(hex(&[0, 255, 26]), "00ff1a");
        for other in ["", "00ff1", "00ff1a0", "00ff1A", "00ff1g", "0x00ff", "00ffé"] {
            assert_eq!(from_hex::<3>(other), None, "{other}");
        }
    }
}
