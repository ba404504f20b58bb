//! Numbers of tables: short names of them for this process. What is stored has names.

use std::sync::Arc;

use foldhash::HashMap;

/// The tables that the storage knows, by number.
#[derive(Clone, Default)]
pub struct TableNumbers {
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u16>,
}

impl TableNumbers {
    /// Numbers these tables.
    pub fn new(names: &[&'static str]) -> Self {
        let mut tables = TableNumbers::default();
        for name in names {
            tables.add(name);
        }
        tables
    }

    /// Returns the number of a table.
    pub fn number(&self, name: &str) -> Option<u16> {
        self.numbers.get(name).copied()
    }

    /// Returns the number of a table, which it gets now if it has none.
    ///
    /// # Panics
    /// With more than 65,536 tables.
    pub fn add(&mut self, name: &str) -> u16 {
        if let Some(number) = self.number(name) {
            return number;
        }
        let number = u16::try_from(self.names.len()).expect("there are a few hundred tables");
        let name: Arc<str> = name.into();
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }

    /// Returns the number of a table among those that others share, which it gets now if it has none.
    pub fn shared(tables: &mut Arc<Self>, name: &str) -> u16 {
        tables.number(name).unwrap_or_else(|| Arc::make_mut(tables).add(name))
    }

    /// Returns the name of a table.
    pub fn name(&self, number: u16) -> &str {
        &self.names[usize::from(number)]
    }
}
