//! The log with any bytes and any history: its map, its records, and what is read at a start.

mod map;
mod record;
mod replay;

pub use map::map;
pub use record::record;
pub use replay::replay;

use crate::fuzzing::script::Script;
use crate::store::engine::WriteOp;

/// The tables that scripts write to.
const TABLES: [&str; 4] = ["a", "b", "b.by_c", "d"];

/// The number of a table, a key in it, and its value; `None` of a deletion.
type Row = (u16, Vec<u8>, Option<Vec<u8>>);

/// A change. Keys are few, so that they meet; some have a long common beginning.
fn row(script: &mut Script<'_>) -> Row {
    let form = script.byte();
    let table = u16::from(form) % 4;
    let value = (form & 0b1100 != 0).then(|| {
        let len = script.byte();
        script.bytes(usize::from(len)).to_vec()
    });
    (table, key(script), value)
}

fn key(script: &mut Script<'_>) -> Vec<u8> {
    let form = script.byte();
    let begin = [0, 0, 16, 38][usize::from(form) % 4];
    [&vec![4; begin], script.bytes(usize::from(form >> 2) % 5)].concat()
}

fn write_op(value: Option<Vec<u8>>) -> WriteOp {
    value.map_or(WriteOp::Delete, WriteOp::Put)
}
