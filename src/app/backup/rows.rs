//! The content of blocks: rows, and ends of audit logs.

use crate::api::audit::Checkpoint;

/// Calls `each` with the position of the table, the key and the value of each row of a block.
///
/// # Errors
/// If it is no block of rows; what `each` returns.
pub(super) fn rows_in(
    mut block: &[u8],
    mut each: impl FnMut(usize, &[u8], &[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let table = usize::from(u16::from_be_bytes(take(&mut block)?));
    while !block.is_empty() {
        let key_len = u32::from_be_bytes(take(&mut block)?) as usize;
        let value_len = u32::from_be_bytes(take(&mut block)?) as usize;
        let (key, rest) = block.split_at_checked(key_len).ok_or_else(invalid)?;
        let (value, rest) = rest.split_at_checked(value_len).ok_or_else(invalid)?;
        block = rest;
        each(table, key, value)?;
    }
    Ok(())
}

/// Adds a row to a block that has the position of its table.
pub(super) fn add_row(block: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    for part in [key, value] {
        let len = u32::try_from(part.len()).expect("a record is small");
        block.extend_from_slice(&len.to_be_bytes());
    }
    block.extend_from_slice(key);
    block.extend_from_slice(value);
}

/// Counts the ends of audit logs in a block, and adds them to `collected`.
///
/// # Errors
/// If it is no block of them.
pub(super) fn heads_in(
    block: &[u8],
    mut collected: Option<&mut Vec<String>>,
) -> std::io::Result<u64> {
    let mut count = 0;
    for line in std::str::from_utf8(block).map_err(|_| invalid())?.lines() {
        Checkpoint::parse(line).ok_or_else(invalid)?;
        count += 1;
        if let Some(collected) = &mut collected {
            collected.push(line.to_string());
        }
    }
    Ok(count)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> std::io::Result<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>().ok_or_else(invalid)?;
    *bytes = rest;
    Ok(*head)
}

/// The error of rows that are none.
pub(super) fn invalid() -> std::io::Error {
    std::io::ErrorKind::InvalidData.into()
}
